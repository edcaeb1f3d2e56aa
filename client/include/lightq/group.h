/* lightq/group.h - makes consumer groups, looks at them and changes them. Reading as one of a group's consumers is in
 * lightq/consumer.h.
 *
 * A group is kept in every partition of its topic, as replicated state, beside the messages; its consumers are spread
 * over the partitions by nobody: each is served by all of them. Changes go partition by partition. One that failed in
 * the middle, or whose outcome is not known, may be asked for again: create, alter, pause, resume and delete come to
 * the same.
 *
 * Every function waits for its answers, at most @timeout_ms (a negative one: request.timeout.ms). Any thread. Statuses
 * of all of them, beside those named at each: ENAME (of the topic or the group), ENOTFOUND (no such topic), ECONNECT,
 * EUNAVAILABLE (no server answered, or some partition has no leader), ETIMEDOUT (a change may have been made or still
 * be), EAUTH, EVERSION, ENOMEM, EFORK. @error (may be NULL) says what went wrong, and in which partition. */
#ifndef LIGHTQ_GROUP_H
#define LIGHTQ_GROUP_H

#include <lightq/lightq.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

enum lightq_group_mode {
    LIGHTQ_GROUP_SUBSCRIBER = 1, /* each of its consumers reads every message; one committed position */
    LIGHTQ_GROUP_PIPELINE = 2    /* a message goes to one of its consumers, which settles it */
};

#define LIGHTQ_BACKOFF_MAX 16 /* delays in a list */

/* How a group works. Begin with lightq_group_options_init. */
struct lightq_group_options {
    enum lightq_group_mode mode; /* cannot be altered */
    bool exclusive;   /* one consumer is active, the others stand by and take over. Not together with key_ordered */
    bool key_ordered; /* pipeline only: messages of one key go to one consumer at a time, in order; one that fails keeps
                         back its key only. Cannot be altered */
    bool paused;      /* nothing is delivered; settling goes on */
    uint32_t ack_wait_ms;   /* pipeline: how long a consumer has for a message; 1 to 86,400,000 (a day) */
    uint32_t max_deliver;   /* pipeline: failed deliveries that make a message a dead letter; 0: no bound */
    uint32_t max_unsettled; /* pipeline: delivered and not settled in one partition; beyond it delivery waits */
    uint32_t backoff_count; /* 0: what failed is delivered again at once */
    uint32_t backoff_ms[LIGHTQ_BACKOFF_MAX]; /* the delay after the 1st, 2nd, ... failure; the last one from then on */
};
/* ack_wait_ms 30,000; max_deliver 5; max_unsettled 100,000; everything else off. */
void lightq_group_options_init(struct lightq_group_options *options, enum lightq_group_mode mode);

/* What lightq_group_alter changes. */
enum lightq_group_option {
    LIGHTQ_GROUP_PAUSED = 1,
    LIGHTQ_GROUP_ACK_WAIT = 2,
    LIGHTQ_GROUP_MAX_DELIVER = 4,
    LIGHTQ_GROUP_MAX_UNSETTLED = 8,
    LIGHTQ_GROUP_BACKOFF = 16,
    LIGHTQ_GROUP_EXCLUSIVE = 32
};

/* Somebody who reads as one of a group, in one partition. */
struct lightq_group_consumer {
    const char *client_id; /* client.id of its client */
    const char *host;      /* where it comes from: address:port */
    uint64_t session;      /* of its client with that node */
    bool standby;          /* it waits for its turn, in an exclusive group */
    uint64_t held;         /* messages delivered to it and not settled */
    int64_t credit;        /* messages that it would take now */
    int64_t position;      /* subscriber: of the next message it is sent */
};

/* A group in one partition, as its leader sees it. */
struct lightq_group_partition {
    uint32_t partition;
    lightq_status status; /* OK; or why nothing is known of it: ENOTFOUND (the group is not there), EUNAVAILABLE, ... */
    int64_t position;     /* subscriber: of the next message to read; pipeline: the lowest that is not settled */
    int64_t start, end;   /* of the partition's messages: the first kept, one behind the last */
    uint64_t lag;         /* messages from position to end that are not settled */
    uint64_t lag_ms;      /* since the group last settled something, or was made; 0 without lag */
    const char *state;    /* "delivering", "drained", "delayed", "paused", "no-consumer", "no-credit", "window-full" */
    const char *reason;   /* the same in a sentence */
    uint64_t unsettled;   /* delivered and not settled */
    uint64_t held;        /* of these, by consumers now */
    uint64_t returned, delayed; /* to be delivered again: now, later */
    uint64_t redelivered;       /* deliveries by this leader of messages that had failed before */
    uint64_t settled;           /* messages acked, committed or dead-lettered, since it was made */
    uint64_t failed;            /* deliveries that failed, since it was made */
    uint64_t missed;            /* messages trimmed away before they were settled */
    uint64_t dead, dead_open;   /* dead letters in the group's topic for them; and on their way there */
    const struct lightq_group_consumer *consumers;
    size_t consumer_count;
};

struct lightq_group_info {
    const char *name;
    char id[33];                         /* 32 hexadecimal digits: another group of the same name has another one */
    struct lightq_group_options options; /* in a list: mode and paused only */
    uint32_t partition_count;            /* that have it; fewer than the topic has: its making is not finished */
    uint32_t all_count;                  /* of the topic; 0 in a list */
    const struct lightq_group_partition *partitions; /* all_count of them; NULL in a list */
};

/* Own all they point to; free them with lightq_result_free (lightq/admin.h). */
struct lightq_group_list {
    const struct lightq_group_info *groups; /* by name */
    size_t count;
};

/* Makes @group in every partition of @topic. It begins at @start, resolved by each partition when it is made; NULL: at
 * the first message. LIGHTQ_START_OFFSET only for a topic of one partition.
 * OK: every partition has it. EEXISTS: a group of that name is there; if its making had not been finished, and its
 * options are the same, it is finished and that is OK. EINVAL (options) | ELIMIT (too many groups) | EOUTOFRANGE. */
lightq_status lightq_group_create(struct lightq *client, const char *topic, const char *group,
                                  const struct lightq_group_options *options, const struct lightq_start *start,
                                  int timeout_ms, struct lightq_error *error) LIGHTQ_MUST_CHECK;

/* Deletes it in every partition; its consumers are told. OK | ENOTFOUND (no partition has it). */
lightq_status lightq_group_delete(struct lightq *client, const char *topic, const char *group, int timeout_ms,
                                  struct lightq_error *error) LIGHTQ_MUST_CHECK;

/* Sets the options that @which names (enum lightq_group_option, added up) to those of @options, in every partition.
 * OK | ENOTFOUND | EINVAL. */
lightq_status lightq_group_alter(struct lightq *client, const char *topic, const char *group, uint32_t which,
                                 const struct lightq_group_options *options, int timeout_ms,
                                 struct lightq_error *error) LIGHTQ_MUST_CHECK;

/* Stops delivering, and begins again. OK (also when it was so already) | ENOTFOUND. */
lightq_status lightq_group_pause(struct lightq *client, const char *topic, const char *group, int timeout_ms,
                                 struct lightq_error *error) LIGHTQ_MUST_CHECK;
lightq_status lightq_group_resume(struct lightq *client, const char *topic, const char *group, int timeout_ms,
                                  struct lightq_error *error) LIGHTQ_MUST_CHECK;

/* Moves it to @start in @partition, or in every partition (LIGHTQ_PARTITION_ANY; then not to an offset, unless there is
 * only one). What is before counts as settled, what is behind is delivered (again) and has not failed; its consumers go
 * on from there. LIGHTQ_START_END drops all that it has still to get, and touches no other group. OK | ENOTFOUND |
 * EOUTOFRANGE (that offset is not there) | EINVAL | EBUSY (too many dead letters are on
 * their way). */
lightq_status lightq_group_seek(struct lightq *client, const char *topic, const char *group, int32_t partition,
                                const struct lightq_start *start, int timeout_ms,
                                struct lightq_error *error) LIGHTQ_MUST_CHECK;

/* The groups of @topic. OK: free *list with lightq_result_free. */
lightq_status lightq_group_list(struct lightq *client, const char *topic, int timeout_ms,
                                struct lightq_group_list **list, struct lightq_error *error) LIGHTQ_MUST_CHECK;

/* One group in every partition. A partition that could not be asked has that status, and the call is OK when some
 * partition answered. OK: free *info with lightq_result_free. ENOTFOUND (no partition that answered has it). */
lightq_status lightq_group_describe(struct lightq *client, const char *topic, const char *group, int timeout_ms,
                                    struct lightq_group_info **info, struct lightq_error *error) LIGHTQ_MUST_CHECK;

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
