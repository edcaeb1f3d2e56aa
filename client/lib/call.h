/* client/lib/call.h - one question to the cluster whose answer a thread waits for: sent to any server, or to the leader
 * of a partition; followed to another server, and repeated, until it is answered or its time is over. Called by admin.c
 * and the functions that ask for offsets. */
#ifndef LQ_LIB_CALL_H
#define LQ_LIB_CALL_H

#include <pthread.h>

#include "client/lib/client.h"
#include "client/lib/conn.h"
#include "client/lib/meta.h"

struct lq_call {
    /* set by the caller */
    struct lightq *client;
    uint16_t type;
    ProtobufCMessage *body; /* borrowed until lq_call_run returns */
    const char *topic;      /* NULL: any server will do; otherwise the leader of @partition */
    int32_t partition;
    void (*prepare)(struct lq_call *call, const struct lq_topic *topic); /* fills the topic's id into the body */
    bool only_count;        /* nothing is asked: the topic's number of partitions is all that is wanted */
    lightq_status repeated; /* what a change says that was made by an attempt whose answer was lost: EEXISTS, ... */
    bool keep_refusal;      /* the answer is given also when it is a refusal */
    bool any_may_miss;      /* ENOTFOUND of one server is not believed: its catalog may be behind */
    uint64_t timeout_us;
    /* set by lq_call_run */
    struct lightq_error error;
    void *answer;             /* free with lq_codec_free */
    uint32_t partition_count; /* of only_count */

    /* private */
    struct lq_command command;
    struct lq_observer observer;
    struct lq_request request;
    struct lq_topic *held;
    struct lq_conn *last;
    struct lq_conn *hinted; /* the server that another one named */
    uint64_t deadline_us;
    bool in_doubt;     /* an attempt has an unknown outcome */
    bool refused_once; /* error holds what a server said last */
    unsigned missing;  /* servers that said ENOTFOUND */
    bool finished;
    pthread_mutex_t lock;
    pthread_cond_t changed;
};

/* Asks, and waits. OK: call->answer holds the answer. Otherwise call->error says what is wrong. @timeout_ms negative:
 * request.timeout.ms. */
lightq_status lq_call_run(struct lq_call *call, int timeout_ms) LQ_MUST_CHECK;

#endif
