/* raft/trace.c - see trace.h. */
#include "raft/trace.h"

const char *lq_trace_name(enum lq_trace_kind kind)
{
    switch (kind) {
#define X(name)           \
    case LQ_TRACE_##name: \
        return #name;
        LQ_TRACE_TABLE(X)
#undef X
    }
    return "?";
}
