/* raft/rpc_check.h - the ranges that rpc.c and heartbeat.c check alike, before sending and after receiving.
 * Private to them. */
#ifndef LQ_RAFT_RPC_CHECK_H
#define LQ_RAFT_RPC_CHECK_H

#include "raft/rpc.h"

/* The versions libraft 0.22 writes; it knows how to read older ones, but no LightQ ever sent them. */
enum {
    LQ_RPC_VERSION_VOTE = 2,
    LQ_RPC_VERSION_VOTE_RESULT = 2,
    LQ_RPC_VERSION_APPEND = 0,
    LQ_RPC_VERSION_APPEND_RESULT = 2,
    LQ_RPC_VERSION_INSTALL = 0,
    LQ_RPC_VERSION_TIMEOUT_NOW = 0,
};

/* Each: OK | EPROTO with a sentence that begins with @what. */
lightq_status lq_rpc_check_ids(const char *what, lq_replica_id from, lq_replica_id to,
                               struct lq_err *err) LQ_MUST_CHECK;
lightq_status lq_rpc_check_nodes(const char *what, lq_replica_id from, lq_replica_id to, uint32_t node, uint32_t self,
                                 struct lq_err *err) LQ_MUST_CHECK;
/* The place @name in a log: index and term both 0 or both not, the term at most @term. */
lightq_status lq_rpc_check_place(const char *what, const char *name, uint64_t index, uint64_t place_term, uint64_t term,
                                 struct lq_err *err) LQ_MUST_CHECK;
lightq_status lq_rpc_check_range(const char *what, const char *name, uint64_t value, uint64_t least,
                                 struct lq_err *err) LQ_MUST_CHECK;
lightq_status lq_rpc_check_version(const char *what, unsigned version, unsigned expected,
                                   struct lq_err *err) LQ_MUST_CHECK;
/* Term, version and the type's own fields of an AppendEntries or its result, entries left out. */
lightq_status lq_rpc_check_append(const char *what, const struct raft_append_entries *append,
                                  struct lq_err *err) LQ_MUST_CHECK;
lightq_status lq_rpc_check_append_result(const char *what, const struct raft_append_entries_result *result,
                                         struct lq_err *err) LQ_MUST_CHECK;
/* Everything of a message that needs neither its entries nor its piece. */
lightq_status lq_rpc_check_message(const struct raft_message *message, struct lq_err *err) LQ_MUST_CHECK;
/* A piece's place in its state, and the configuration that goes with the first. */
lightq_status lq_rpc_check_piece(const struct lq_rpc_piece *piece, struct lq_err *err) LQ_MUST_CHECK;

/* libraft leaves last_log_index unset when it answers an old term; what is out of range becomes 0. */
static inline uint64_t lq_rpc_tame_index(uint64_t index)
{
    return index <= LQ_RPC_INDEX_MAX ? index : 0;
}

#endif
