/* client/wire/produced.c - see produced.h. */
#include "client/wire/produced.h"

enum lq_produced lq_produced_says(lightq_status status)
{
    switch (status) {
    case LIGHTQ_OK:
    case LIGHTQ_EDUPLICATE:
        return LQ_PRODUCED_STORED;
    case LIGHTQ_EOUTOFSEQUENCE:
        return LQ_PRODUCED_GAP;
    case LIGHTQ_ENOTLEADER:
    case LIGHTQ_ENOLEADER:
    case LIGHTQ_EBUSY:
    case LIGHTQ_ENOTREADY:
    case LIGHTQ_ELIMIT:
    case LIGHTQ_ENOTFOUND: /* metadata tells whether the topic is gone, or that node only behind */
        return LQ_PRODUCED_NOT_NOW;
    case LIGHTQ_EINVAL:
    case LIGHTQ_ENOSPC:
    case LIGHTQ_EPROTO:
    case LIGHTQ_EVERSION:
    case LIGHTQ_ETOOBIG:
    case LIGHTQ_EFENCED:
    case LIGHTQ_EAUTH:
    case LIGHTQ_ENAME:
    case LIGHTQ_EUNSUPPORTED:
    case LIGHTQ_EEXPECTED:
        return LQ_PRODUCED_REFUSED;
    default:
        return LQ_PRODUCED_NOT_KNOWN; /* a replica that failed, lost its leadership, or timed out */
    }
}
