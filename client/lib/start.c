/* client/lib/start.c - see start.h. */
#include "client/lib/start.h"

bool lq_start_is_good(const struct lightq_start *start)
{
    switch (start->kind) {
    case LIGHTQ_START_BEGIN:
    case LIGHTQ_START_END:
        return true;
    case LIGHTQ_START_OFFSET:
        return start->offset >= 0;
    case LIGHTQ_START_TIME:
        return start->time_ms >= 0;
    default:
        return false;
    }
}

void lq_start_put(const struct lightq_start *start, Lightq__Wire__Start *wire)
{
    switch (start->kind) {
    case LIGHTQ_START_BEGIN:
        wire->kind = LIGHTQ__WIRE__START_KIND__START_FIRST;
        break;
    case LIGHTQ_START_END:
        wire->kind = LIGHTQ__WIRE__START_KIND__START_END;
        break;
    case LIGHTQ_START_OFFSET:
        wire->kind = LIGHTQ__WIRE__START_KIND__START_OFFSET;
        wire->value = (uint64_t)start->offset;
        break;
    case LIGHTQ_START_TIME:
        wire->kind = LIGHTQ__WIRE__START_KIND__START_TIME;
        wire->value = (uint64_t)start->time_ms;
        break;
    }
}
