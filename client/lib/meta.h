/* client/lib/meta.h - what is known of the cluster: topics, their partitions, who leads them. Asked for from any ready
 * server when something is wanted, doubtful or old; the tempo is retry.backoff.ms at first and slower the longer it
 * lasts. I/O thread only. */
#ifndef LQ_LIB_META_H
#define LQ_LIB_META_H

#include <stdbool.h>
#include <stdint.h>

#include "client/lib/hash.h"

#include "client/base/id.h"
#include "client/lib/conn.h"
#include "client/lib/io.h"

struct lq_meta_partition {
    uint64_t group;
    uint64_t term;               /* of the leader below; never goes back while the topic lives */
    uint32_t leader;             /* node id; 0: not known */
    struct lq_conn *leader_conn; /* NULL: not known */
    bool doubted;                /* somebody found it wrong: ask again */
};

struct lq_topic {
    char *name;
    struct lq_id id;
    lightq_status status; /* OK | ENOTFOUND, ENAME, EAUTH, ... of the last answer | ENOTREADY: none yet */
    char text[256];
    uint32_t partition_count;
    struct lq_meta_partition *partitions;
    uint64_t fetched_us; /* 0: never */
    unsigned users;      /* producers and consumers that hold it */
    bool wanted;         /* ask for it now */
    unsigned missing;    /* servers in a row that did not know it */
    UT_hash_handle hh;
};

struct lq_meta *lq_meta_new(struct lq_io *io);
void lq_meta_free(struct lq_meta *meta);

/* The topic called @name, asked for when new. Undo with lq_meta_release. NULL: out of memory. */
struct lq_topic *lq_meta_hold(struct lq_meta *meta, const char *name);
void lq_meta_release(struct lq_meta *meta, struct lq_topic *topic);

/* Ask for @topic again. */
void lq_meta_want(struct lq_meta *meta, struct lq_topic *topic);
/* The leader that is known of @partition did not do: ask again. */
void lq_meta_doubt(struct lq_meta *meta, struct lq_topic *topic, uint32_t partition);
/* A server named a leader. True: it was news and is taken over. */
bool lq_meta_hint(struct lq_meta *meta, struct lq_topic *topic, uint32_t partition, const Lightq__Wire__Leader *leader);
/* A connection to a server is lost or suspect: the leaders there are in doubt. */
void lq_meta_conn_doubt(struct lq_meta *meta, const struct lq_conn *conn);
void lq_meta_conn_ready(struct lq_meta *meta);

/* Servers say they do not know a topic: @votes of them are enough to believe it, since not all can be behind. */
bool lq_meta_enough_miss(const struct lq_meta *meta, unsigned votes);
/* When the next one after @last is asked: at once, unless there is none yet. */
uint64_t lq_meta_next_vote_us(const struct lq_meta *meta, const struct lq_conn *last);

void lq_meta_tick(struct lq_meta *meta);
/* True while an answer is waited for or due. */
bool lq_meta_busy(const struct lq_meta *meta);

#endif
