/* node/catalog_internal.h - what catalog.c (reading, life), catalog_apply.c (commands) and catalog_save.c (checkpoint)
 * share. Nobody else includes it. */
#ifndef LQ_NODE_CATALOG_INTERNAL_H
#define LQ_NODE_CATALOG_INTERNAL_H

#include "node/catalog.h"
#include "node/queue/table.h"

#define LQ_CATALOG_NODES_MAX 1024 /* gone ones included */

struct topic {
    struct lq_catalog_topic shown; /* shown.partitions == partitions */
    struct lq_catalog_partition *partitions;
    UT_hash_handle hh;
};

/* Partitions of one topic whose groups and numbers follow one another. */
struct group_range {
    uint64_t first_group;
    uint32_t count;
    uint32_t first_number;
    struct topic *topic;
};

struct lq_catalog {
    struct lq_id cluster;
    uint64_t version;
    uint64_t applied_index, applied_term;
    uint64_t next_group;
    uint32_t meta_next_incarnation;
    struct lq_catalog_node *nodes; /* by id */
    size_t node_count, node_capacity;
    struct topic **topics; /* by name */
    size_t topic_count, topic_capacity;
    struct topic *by_uuid;
    struct group_range *ranges; /* by first group */
    size_t range_count, range_capacity;
    size_t partition_count;
    struct lq_catalog_outcome outcome;
};

/* Empty, with the first numbers to be given. */
void lq_catalog_clear(struct lq_catalog *catalog);
/* Frees what it holds; clear it before using it again. */
void lq_catalog_deinit(struct lq_catalog *catalog);

struct lq_catalog_node *lq_catalog_find_node(const struct lq_catalog *catalog, uint32_t id);
struct topic *lq_catalog_find_topic(const struct lq_catalog *catalog, const struct lq_id *uuid);
struct lq_catalog_partition *lq_catalog_find_partition(const struct lq_catalog *catalog, uint64_t group);
/* A node of that id, which is not there yet; cleared but for the id. NULL: out of memory. */
struct lq_catalog_node *lq_catalog_add_node(struct lq_catalog *catalog, uint32_t id);

/* A topic that is in no table yet, with room for its partitions; NULL: out of memory. */
struct topic *lq_topic_new(uint32_t partition_count);
void lq_topic_free(struct topic *topic);
/* Takes ownership of a filled one, whose name, uuid and groups are new. OK | ENOMEM (then it is the caller's still). */
lightq_status lq_catalog_add_topic(struct lq_catalog *catalog, struct topic *topic) LQ_MUST_CHECK;
/* Appends @count partitions of groups that follow one another and are new; what they hold is copied. OK | ENOMEM
 * (nothing changed). */
lightq_status lq_catalog_grow_topic(struct lq_catalog *catalog, struct topic *topic,
                                    const struct lq_catalog_partition *added, uint32_t count) LQ_MUST_CHECK;
void lq_catalog_remove_topic(struct lq_catalog *catalog, struct topic *topic);

#endif
