/* node/letter.h - what the node layers of two nodes say to each other: the payload of LQ_FRAME_NODE frames, all of it
 * body. Little endian, versioned, bounded; drawn in docs/format/letters.md.
 *
 *      0  kind     u8    enum lq_letter_kind
 *      1  version  u8    1
 *      2  flags    u16   0
 *      4  what the kind holds, as lq_letter_encode writes it
 *
 * Called by forming.c, meta.c and what belongs to it. Pure functions. A frame that does not decode is EPROTO and closes
 * its connection; a kind or version that is not known is left alone (EVERSION), so that newer nodes may say more. */
#ifndef LQ_NODE_LETTER_H
#define LQ_NODE_LETTER_H

#include <stdbool.h>
#include <stdint.h>

#include "client/base/buf.h"
#include "client/base/id.h"
#include "client/base/slab.h"
#include "node/endpoint.h"
#include "node/identity.h"
#include "node/meta.h"
#include "node/queue/topic_config.h"
#include "raft/link.h"

/* A number is never used again. */
enum lq_letter_kind {
    LQ_LETTER_INFO = 1,      /* who I am and how far I am on the way into a cluster */
    LQ_LETTER_JOIN = 2,      /* a node without a cluster asks a member to be taken in */
    LQ_LETTER_JOINED = 3,    /* the answer */
    LQ_LETTER_REQUEST = 4,   /* a change of the cluster, for the controller or a group's leader */
    LQ_LETTER_REPLY = 5,     /* what it came to */
    LQ_LETTER_REPORT = 6,    /* what I lead, and how I am */
    LQ_LETTER_INSPECT = 7,   /* how are your replicas of these groups? */
    LQ_LETTER_INSPECTED = 8, /* so */
    LQ_LETTER_RETIRE = 9,    /* may I remove this replica that the catalog has no more? */
    LQ_LETTER_RETIRED = 10,  /* the group's committed servers do not have it */
    LQ_LETTER_RENEW = 11,    /* your replica is out of the meta group, and one of this incarnation is in */
};

#define LQ_LETTER_VERSION      1
#define LQ_REPORT_ENTRIES_MAX  4096 /* in one frame */
#define LQ_INSPECT_REPORTS_MAX 1024 /* in one frame */

/* What a node says of itself. */
struct lq_node_card {
    uint32_t node;
    uint32_t shards;
    struct lq_id uuid;
    uint64_t boot;
    struct lq_endpoint client, peer;
};

struct lq_letter_info {
    struct lq_node_card card;
    uint32_t expect;
    enum lq_identity_state state;
    struct lq_id cluster; /* MEMBER */
    bool has_proposal;    /* PROMISED, and MEMBER that founded it */
    struct lq_cluster_proposal proposal;
};

struct lq_letter_joined {
    lightq_status status;
    struct lq_id uuid; /* of the node it is for */
    struct lq_id cluster;
    uint32_t incarnation; /* of its replica of the meta group */
    char text[LQ_ERR_TEXT_BYTES];
};

/* Verbs beyond those of enum lq_meta_verb. */
enum lq_request_verb {
    LQ_REQUEST_CREATE = LQ_META_TOPIC_CREATE,
    LQ_REQUEST_DELETE = LQ_META_TOPIC_DELETE,
    LQ_REQUEST_REPLACE = LQ_META_NODE_REPLACE,
    LQ_REQUEST_TRANSFER = LQ_META_LEADER_TRANSFER,
    LQ_REQUEST_ALTER = LQ_META_TOPIC_ALTER,
    LQ_REQUEST_JOIN = 16,
    LQ_REQUEST_UPDATE = 17,
    LQ_REQUEST_REBUILD = 18,
};

struct lq_letter_request {
    uint64_t correlation;
    enum lq_request_verb verb;
    struct lq_id uuid;                /* of the topic (create, delete, alter), or of the node to be replaced */
    uint32_t partitions;              /* create, alter */
    bool live;                        /* replace: also a node that is up; goes in the place of partitions */
    uint32_t replicas;                /* create */
    uint32_t node, new_node;          /* replace: old and new; transfer: node is the target; rebuild: node */
    uint32_t incarnation;             /* rebuild */
    uint64_t group;                   /* transfer, rebuild */
    struct lq_node_card card;         /* join, update */
    struct lq_topic_config config;    /* create, alter */
    uint64_t mask;                    /* alter: which of the config */
    char name[LQ_NAME_BYTES_MAX + 1]; /* create, delete, alter */
};

struct lq_letter_reply {
    uint64_t correlation;
    lightq_status status;
    uint32_t leader; /* with ENOTLEADER: who may be; 0: not known */
    struct lq_id uuid;
    uint64_t version;
    uint32_t count, incarnation, replicas;
    char text[LQ_ERR_TEXT_BYTES];
};

/* A group that the sender leads, or (leads false) no longer leads. */
struct lq_report_entry {
    uint64_t group, term;
    bool leads;
};

struct lq_letter_report {
    bool draining;
    uint64_t free_bytes, total_bytes;
    uint32_t replicas, leaders;
    uint64_t version; /* of the sender's catalog */
    /* Of the groups first_group to last_group the sender leads exactly those in the entries; none when first > last:
     * then the entries are news. */
    uint64_t first_group, last_group;
    uint32_t count;
    const uint8_t *entries; /* decoded by lq_letter_report_entry; inside the frame */
};

struct lq_letter_inspect {
    uint64_t correlation;
    uint32_t count;
    const uint8_t *groups; /* u64 each */
};

struct lq_letter_inspected {
    uint64_t correlation;
    uint32_t count;
    const uint8_t *reports; /* decoded by lq_letter_next_report */
    uint32_t reports_size;
};

struct lq_letter_retire {
    uint64_t group;
    uint32_t incarnation;
};

struct lq_letter {
    enum lq_letter_kind kind;
    union {
        struct lq_letter_info info;
        struct lq_node_card join;
        struct lq_letter_joined joined;
        struct lq_letter_request request;
        struct lq_letter_reply reply;
        struct lq_letter_report report;
        struct lq_letter_inspect inspect;
        struct lq_letter_inspected inspected;
        struct lq_letter_retire retire; /* RETIRE, RETIRED, RENEW */
    };
};

/* Writes @letter; of REPORT, INSPECT and INSPECTED the head: what they count must follow, written with the functions
 * below. */
void lq_letter_encode(const struct lq_letter *letter, struct lq_writer *writer);
void lq_letter_put_entry(const struct lq_report_entry *entry, struct lq_writer *writer);
void lq_letter_put_report(const struct lq_replica_report *report, struct lq_writer *writer);

/* OK | EPROTO | EVERSION (another kind or version). Pointers of @letter go into @bytes. */
lightq_status lq_letter_decode(const uint8_t *bytes, size_t size, struct lq_letter *letter) LQ_MUST_CHECK;
void lq_letter_get_entry(const struct lq_letter_report *report, uint32_t i, struct lq_report_entry *entry);
/* The next of inspected->count reports. OK | EPROTO. */
lightq_status lq_letter_next_report(struct lq_reader *reader, struct lq_replica_report *report) LQ_MUST_CHECK;

/* Sends what @writer holds to @node as one frame, and empties the writer (deinit), also on failure. As
 * lq_link_ops.send; ENOMEM | ETOOBIG as well. */
lightq_status lq_letter_send_writer(struct lq_link *link, uint32_t node, struct lq_writer *writer) LQ_MUST_CHECK;
/* Encodes and sends a letter that needs nothing behind its head. Loss is the caller's business: it says it again. */
void lq_letter_send(struct lq_link *link, uint32_t node, const struct lq_letter *letter);

#endif
