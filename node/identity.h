/* node/identity.h - who a data directory is: the file "node" in its root. Called by node/main.c before anything else of
 * the directory is touched, and by node/forming.c. Blocking, through storage/io.h; written to "node.tmp", synced,
 * renamed, and the directory synced. The file's bytes are drawn in docs/format/node.md. Loop thread only. */
#ifndef LQ_NODE_IDENTITY_H
#define LQ_NODE_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>

#include "client/base/buf.h"
#include "client/base/clock.h"
#include "client/base/err.h"
#include "client/base/id.h"
#include "client/base/limits.h"
#include "node/endpoint.h"
#include "storage/io.h"

/* One of the nodes that make a cluster together. */
struct lq_founder {
    uint32_t node;
    struct lq_id uuid;
    struct lq_endpoint client; /* advertised */
    struct lq_endpoint peer;
};

struct lq_founders {
    struct lq_founder at[LQ_FOUNDERS_MAX]; /* by node id */
    uint32_t count;
};

enum lq_identity_state {
    LQ_IDENTITY_BLANK = 1,    /* belongs to no cluster yet */
    LQ_IDENTITY_PROMISED = 2, /* agreed to found the cluster of `proposal` (the proposer too); not told to begin yet */
    LQ_IDENTITY_MEMBER = 3,   /* of `cluster`, for good */
};

/* What a forming cluster agrees on. */
struct lq_cluster_proposal {
    struct lq_id cluster;
    uint32_t proposer; /* node id */
    struct lq_id proposer_uuid;
    uint64_t round; /* a proposer's later proposals have higher ones */
    struct lq_founders founders;
};

struct lq_identity {
    uint32_t node;
    uint32_t shards;
    struct lq_id uuid;
    uint64_t boot; /* starts so far, this one included once lq_identity_boot has run */
    enum lq_identity_state state;
    struct lq_id cluster;                /* MEMBER only, else zero */
    bool founder;                        /* MEMBER: it was one of proposal.founders, and begins group 0 with them */
    bool stored;                         /* MEMBER: its store was made: a journal that is not there was lost */
    bool outdated;                       /* MEMBER: was found to be replaced, or an older copy: never used again */
    uint32_t meta_incarnation;           /* MEMBER: of its replica of the meta group */
    struct lq_cluster_proposal proposal; /* PROMISED, and MEMBER when founder */
};

/* Reads the file "node". OK: as it is on disk. ENOTFOUND: there is none and the directory is otherwise empty: a new
 * node, to be made with lq_identity_make. EIDENTITY: it is another node's (@node is not the one in it), or the
 * directory has queue data and no identity. EVERSION, ECORRUPT, EIO. Nothing on disk changes. @err says what to do. */
lightq_status lq_identity_load(struct lq_io *io, uint32_t node, struct lq_identity *identity,
                               struct lq_err *err) LQ_MUST_CHECK;
/* A blank identity with a random uuid, boot 0; in memory only. */
void lq_identity_make(uint32_t node, uint32_t shards, struct lq_clock *clock, struct lq_identity *identity);
/* Counts this start and makes it durable; writes the file of a new node. Call it once, when nothing can be refused any
 * more and the directory is locked. OK | EIO | ENOSPC. */
lightq_status lq_identity_boot(struct lq_io *io, struct lq_identity *identity, struct lq_err *err) LQ_MUST_CHECK;
/* Makes @identity durable. After a failure what is on disk is the old one or this one, whole. */
lightq_status lq_identity_store(struct lq_io *io, const struct lq_identity *identity, struct lq_err *err) LQ_MUST_CHECK;

/* OK | EREPLACED: the directory is outdated. @err says what to do. */
lightq_status lq_identity_check(const struct lq_identity *identity, struct lq_err *err) LQ_MUST_CHECK;

/* The file's bytes, for tests and the fuzz harness. */
lightq_status lq_identity_encode(const struct lq_identity *identity, struct lq_writer *writer) LQ_MUST_CHECK;
lightq_status lq_identity_decode(const uint8_t *bytes, size_t size, struct lq_identity *identity) LQ_MUST_CHECK;

/* A proposal's bytes, as in the file and in frames. */
void lq_cluster_proposal_encode(const struct lq_cluster_proposal *proposal, struct lq_writer *writer);
lightq_status lq_cluster_proposal_decode(struct lq_reader *reader, struct lq_cluster_proposal *proposal) LQ_MUST_CHECK;

#endif
