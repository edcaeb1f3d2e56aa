/* raft/errmap.h - libraft's codes as ours, translated where they enter. Called by raft/group.c and raft/member.c. */
#ifndef LQ_RAFT_ERRMAP_H
#define LQ_RAFT_ERRMAP_H

#include "client/base/err.h"

/* 0 -> OK; RAFT_NOMEM -> ENOMEM; RAFT_NOTLEADER, RAFT_LEADERSHIPLOST -> ENOTLEADER; RAFT_CANTCHANGE -> ECONFLICT;
 * RAFT_BADID, RAFT_NOTFOUND -> ENOTFOUND; RAFT_DUPLICATEID, RAFT_DUPLICATEADDRESS -> EEXISTS; RAFT_BADROLE,
 * RAFT_INVALID
 * -> EINVAL; RAFT_MALFORMED, RAFT_CORRUPT, RAFT_SHUTDOWN (a committed entry conflicts) -> ECORRUPT; RAFT_NOSPACE ->
 * ENOSPC; RAFT_BUSY -> EBUSY; anything else -> EINTERNAL. */
lightq_status lq_status_from_raft(int code);

#endif
