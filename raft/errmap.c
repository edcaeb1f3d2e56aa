/* raft/errmap.c - see errmap.h. */
#include "raft/errmap.h"

#include <raft.h>

lightq_status lq_status_from_raft(int code)
{
    switch (code) {
    case 0:
        return LIGHTQ_OK;
    case RAFT_NOMEM:
        return LIGHTQ_ENOMEM;
    case RAFT_NOTLEADER:
    case RAFT_LEADERSHIPLOST:
        return LIGHTQ_ENOTLEADER;
    case RAFT_CANTCHANGE:
        return LIGHTQ_ECONFLICT;
    case RAFT_BADID:
    case RAFT_NOTFOUND:
        return LIGHTQ_ENOTFOUND;
    case RAFT_DUPLICATEID:
    case RAFT_DUPLICATEADDRESS:
        return LIGHTQ_EEXISTS;
    case RAFT_BADROLE:
    case RAFT_INVALID:
        return LIGHTQ_EINVAL;
    case RAFT_MALFORMED:
    case RAFT_CORRUPT:
    case RAFT_SHUTDOWN:
        return LIGHTQ_ECORRUPT;
    case RAFT_NOSPACE:
        return LIGHTQ_ENOSPC;
    case RAFT_BUSY:
        return LIGHTQ_EBUSY;
    default:
        return LIGHTQ_EINTERNAL;
    }
}
