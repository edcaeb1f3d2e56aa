/* client/base/status.c - the names and sentences of lightq/status.h. Called by everyone, on any thread. */
#include <lightq/status.h>

const char *lightq_status_name(lightq_status status)
{
    switch (status) {
#define X(name, number, retriable, text) \
    case LIGHTQ_##name:                  \
        return #name;
        LIGHTQ_STATUS_TABLE(X)
#undef X
    }
    return "EUNKNOWN";
}

const char *lightq_status_text(lightq_status status)
{
    switch (status) {
#define X(name, number, retriable, text) \
    case LIGHTQ_##name:                  \
        return text;
        LIGHTQ_STATUS_TABLE(X)
#undef X
    }
    return "a status that this version does not know";
}

bool lightq_status_retriable(lightq_status status)
{
    switch (status) {
#define X(name, number, retriable, text) \
    case LIGHTQ_##name:                  \
        return (retriable) != 0;
        LIGHTQ_STATUS_TABLE(X)
#undef X
    }
    return false;
}
