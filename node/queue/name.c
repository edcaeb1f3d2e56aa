/* node/queue/name.c - see name.h. */
#include "node/queue/name.h"

#include <stdbool.h>

#include "client/base/limits.h"

lightq_status lq_name_check(const char *name, size_t size)
{
    if (size == 0 || size > LQ_NAME_BYTES_MAX) {
        return LIGHTQ_ENAME;
    }
    for (size_t i = 0; i < size; i++) {
        char c = name[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
              c == '-')) {
            return LIGHTQ_ENAME;
        }
    }
    bool dots = name[0] == '.' && (size == 1 || (size == 2 && name[1] == '.'));
    return dots ? LIGHTQ_ENAME : LIGHTQ_OK;
}
