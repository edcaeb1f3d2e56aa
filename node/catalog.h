/* node/catalog.h - what the whole cluster agrees on: nodes, topics, partitions and which replica is where. It is the
 * deterministic state machine of group 0, the meta group, of which every node has a replica.
 *
 * Made by node/meta.c; read by everything in node/. Loop thread only: what a read gives stays valid until the loop
 * turns. Written only by lq_catalog_apply() and lq_catalog_load(). Commands are made by node/catalog_command.h; their
 * bytes and the checkpoint are drawn in docs/format/commands.md.
 *
 * The rules every change keeps: group ids count up and are never used again; incarnations of a group count up and are
 * never used again; a topic is its uuid, its name only points to it. So an id below next_group that no topic has
 * belonged to a topic that was deleted. */
#ifndef LQ_NODE_CATALOG_H
#define LQ_NODE_CATALOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/base/err.h"
#include "client/base/id.h"
#include "client/base/limits.h"
#include "node/endpoint.h"
#include "node/queue/topic_config.h"
#include "raft/host.h"
#include "storage/format.h"

struct lq_catalog;

#define LQ_META_GROUP          0 /* the group of the catalog itself */
#define LQ_INCARNATION_FOUNDER 1 /* of the replicas a group begins with; rebuilt ones have higher numbers */

enum lq_node_state {
    LQ_NODE_ACTIVE = 1,
    LQ_NODE_AWAITED = 2, /* replaced by itself: whoever comes next with this id and an empty directory is it */
    LQ_NODE_GONE = 3,    /* replaced by another id; has no replicas */
};

struct lq_catalog_node {
    uint32_t id;
    enum lq_node_state state;
    struct lq_id uuid;         /* zero while AWAITED */
    uint64_t boot;             /* of its data directory's last known start */
    struct lq_endpoint client; /* advertised, of shard 0; shard i has port + i */
    struct lq_endpoint peer;
    uint32_t meta_incarnation; /* of its replica of the meta group; 0: has none */
    bool meta_voter;           /* or standby */
    uint32_t shards;
};

struct lq_catalog_replica {
    uint32_t node;
    uint32_t incarnation;
};

struct lq_catalog_topic;

struct lq_catalog_partition {
    uint64_t group;
    uint32_t number;
    uint8_t replica_count;
    uint32_t next_incarnation;
    const struct lq_catalog_topic *topic;
    struct lq_catalog_replica replicas[LQ_REPLICAS_MAX]; /* the first should lead */
};

struct lq_catalog_topic {
    struct lq_id uuid;
    uint64_t version; /* catalog version when it last changed */
    uint32_t partition_count;
    uint8_t replicas; /* wanted for each partition */
    struct lq_topic_config config;
    const struct lq_catalog_partition *partitions; /* partition_count, by number */
    char name[LQ_NAME_BYTES_MAX + 1];
};

lightq_status lq_catalog_new(struct lq_catalog **catalog) LQ_MUST_CHECK; /* empty; OK | ENOMEM */
void lq_catalog_free(struct lq_catalog *catalog);                        /* NULL is allowed */

/* ---- reading ---- */

/* Index of the last entry that changed anything; 0: empty, nothing is known yet. */
uint64_t lq_catalog_version(const struct lq_catalog *catalog);
/* Index of the last entry applied, whatever it was. */
uint64_t lq_catalog_applied(const struct lq_catalog *catalog);
struct lq_id lq_catalog_cluster(const struct lq_catalog *catalog);
uint64_t lq_catalog_next_group(const struct lq_catalog *catalog);
/* The incarnation that the next replica of the meta group gets: none of the directories let in so far has it. */
uint32_t lq_catalog_next_admission(const struct lq_catalog *catalog);

size_t lq_catalog_node_count(const struct lq_catalog *catalog);
const struct lq_catalog_node *lq_catalog_node_at(const struct lq_catalog *catalog, size_t i); /* by id */
const struct lq_catalog_node *lq_catalog_node(const struct lq_catalog *catalog, uint32_t id); /* or NULL */

size_t lq_catalog_topic_count(const struct lq_catalog *catalog);
size_t lq_catalog_partition_count(const struct lq_catalog *catalog);                            /* of all topics */
const struct lq_catalog_topic *lq_catalog_topic_at(const struct lq_catalog *catalog, size_t i); /* by name */
/* Where @name is, or would be: the first topic whose name is not below it. For pages of a list. */
size_t lq_catalog_topic_seek(const struct lq_catalog *catalog, const char *name);
const struct lq_catalog_topic *lq_catalog_topic(const struct lq_catalog *catalog, const char *name);
const struct lq_catalog_topic *lq_catalog_topic_by_id(const struct lq_catalog *catalog, const struct lq_id *uuid);
/* NULL when no topic has that group (group 0 has none). */
const struct lq_catalog_partition *lq_catalog_partition(const struct lq_catalog *catalog, uint64_t group);
/* The replica that @node has of it, or NULL. */
const struct lq_catalog_replica *lq_catalog_replica_on(const struct lq_catalog_partition *partition, uint32_t node);

/* OK | ENAME. */
lightq_status lq_topic_name_check(const char *name, size_t size) LQ_MUST_CHECK;

/* ---- the state machine ---- */

/* What the last applied command came to. A command may be refused: by every replica alike, and nothing changed. */
struct lq_catalog_outcome {
    uint64_t index;
    lightq_status status;
    char text[LQ_ERR_TEXT_BYTES];
    uint32_t count;       /* replicas to rebuild (replace), partitions (create, delete) */
    uint32_t incarnation; /* given (join, rebuild) */
    uint64_t version;     /* of the catalog after it */
};
const struct lq_catalog_outcome *lq_catalog_outcome(const struct lq_catalog *catalog);

/* OK also for a command that is refused. ECORRUPT | EVERSION: not a command that can have been proposed: the replica
 * must stop. ENOMEM likewise. */
lightq_status lq_catalog_apply(struct lq_catalog *catalog, const struct lq_entry *entry) LQ_MUST_CHECK;
lightq_status lq_catalog_save(const struct lq_catalog *catalog, struct lq_writer *writer) LQ_MUST_CHECK;
/* OK | ECORRUPT | EVERSION | ENOMEM; on failure the state is as before. @size 0: empty. */
lightq_status lq_catalog_load(struct lq_catalog *catalog, const uint8_t *bytes, size_t size) LQ_MUST_CHECK;

#endif
