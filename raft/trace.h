/* raft/trace.h - what a host does, told to whoever watches: the seeded tests and the simulator print it and hash it.
 * Off unless a watcher is set; then one call per event, inside the host's own calls: the watcher must not call back. */
#ifndef LQ_RAFT_TRACE_H
#define LQ_RAFT_TRACE_H

#include <stdint.h>

#include "raft/host.h"

/* X(name): a and b are what the comment says. */
#define LQ_TRACE_TABLE(X)                                   \
    X(START)      /* term, last index */                    \
    X(STATE)      /* libraft's new state, term */           \
    X(VOTE)       /* term, voted for */                     \
    X(CUT)        /* first index gone, last index before */ \
    X(APPEND)     /* first index, count */                  \
    X(DURABLE)    /* index, term */                         \
    X(COMMIT)     /* index, term */                         \
    X(APPLY)      /* index, term of the entry */            \
    X(CHECKPOINT) /* last index, bytes of state */          \
    X(TRIM)       /* last index gone, commit index */       \
    X(INSTALL)    /* last index, bytes of state */          \
    X(INSTALLED)  /* last index, term */                    \
    X(SEND)       /* libraft's message type, receiver */    \
    X(RECEIVE)    /* libraft's message type, sender */      \
    X(REFUSE)     /* frame type, sender */                  \
    X(LEAD)       /* term, index of the barrier */          \
    X(FOLLOW)     /* term, leader */                        \
    X(CHANGE)     /* index, servers */                      \
    X(TIMEOUT)    /* libraft's state, term */               \
    X(STALL)      /* oldest pending index, last index */    \
    X(STOP)       /* status, term */

enum lq_trace_kind {
#define X(name) LQ_TRACE_##name,
    LQ_TRACE_TABLE(X)
#undef X
};

struct lq_trace_event {
    enum lq_trace_kind kind;
    uint64_t group;
    lq_replica_id self;
    uint64_t a, b;
};

typedef void (*lq_trace_cb)(void *data, const struct lq_trace_event *event);

/* NULL turns it off. */
void lq_host_set_trace(struct lq_host *host, lq_trace_cb cb, void *data);

const char *lq_trace_name(enum lq_trace_kind kind);

#endif
