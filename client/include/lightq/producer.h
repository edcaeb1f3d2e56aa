/* lightq/producer.h - sends messages. Messages are gathered into batches per partition; each message gets exactly one
 * report, from which the application learns where it is stored or why not.
 *
 * Stored once: a producer has an identity and numbers its messages per partition, so that a batch that is sent again
 * after a lost connection or a change of leader is stored once and in its place. Messages of one producer and one
 * partition are stored, and reported, in the order of their lightq_producer_send calls.
 *
 * Any thread may call; reports run on the thread that polls. */
#ifndef LIGHTQ_PRODUCER_H
#define LIGHTQ_PRODUCER_H

#include <lightq/lightq.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

struct lightq_producer;

/* What to send. Everything is copied before lightq_producer_send returns. */
struct lightq_message {
    const char *topic;
    int32_t partition; /* or LIGHTQ_PARTITION_ANY: by the hash of the key, without a key by what `partitioner` says */
    const void *key;   /* NULL: no key, which is not the same as an empty one */
    size_t key_size;
    const void *value; /* NULL: no value, which is not the same as an empty one */
    size_t value_size;
    const struct lightq_header *headers;
    size_t header_count;  /* at most 256 */
    int64_t timestamp_ms; /* since 1970; 0: now */
    void *opaque;         /* comes back in the report */
    /* Optimistic concurrency: with has_expected_offset it is stored only if it gets exactly @expected_offset, which is
     * when nobody has written since its sender looked; else it is reported as EEXPECTED. Needs a partition by number,
     * and goes in a batch of its own. */
    bool has_expected_offset;
    int64_t expected_offset;
    /* The application's own name for the message, 1 to 255 bytes (NULL: none): it is not stored when one with that id
     * was, by whatever producer, within the topic's dedup.window, and is reported with same_id. Without a partition and
     * a key, the id's hash chooses the partition. Goes in a batch of its own. */
    const void *message_id;
    size_t message_id_size;
};

/* What became of one message. Valid inside the callback only. */
struct lightq_report {
    /* OK: stored on the disks of a majority. EDUPLICATE: it was stored by an earlier attempt, its offset is not known.
     * ETIMEDOUT: delivery.timeout.ms passed; see in_doubt. Any other: it is not stored, and the status says why. */
    lightq_status status;
    bool in_doubt; /* with a failure: it may have been stored, or may still be, before every later message of the
                      producer in this partition; never behind one */
    const char *topic;
    int32_t partition;  /* LIGHTQ_PARTITION_ANY when none was chosen yet */
    int64_t offset;     /* or LIGHTQ_OFFSET_UNKNOWN */
    uint64_t producer;  /* the identity under which it was sent */
    uint64_t sequence;  /* of this message among those of that identity and partition, from 0; never another one's, also
                           when it is not stored */
    uint64_t term;      /* of the leader that stored it */
    uint32_t batch_crc; /* CRC32C of the batch it is in */
    bool same_id;       /* with OK: it is not stored, since one with its message_id is, at @offset of @term */
    void *opaque;
};

/* @owner: as given to lightq_producer_new. Must not call close; may call send. */
typedef void (*lightq_report_cb)(void *owner, const struct lightq_report *report);

/* Something an operator should know and that no report tells: no server can be reached, a server refused us, ... Each
 * is told once when it begins. @error is valid inside the callback only. */
typedef void (*lightq_error_cb)(void *owner, const struct lightq_error *error);

struct lightq_producer_options {
    lightq_report_cb on_report; /* may be NULL */
    lightq_error_cb on_error;   /* may be NULL */
    void *owner;
};

/* Makes a producer on @client with the client's settings. @options may be NULL.
 * OK: close with lightq_producer_close, before the client. ENOMEM | ELIMIT (no descriptor left) | EFORK. */
lightq_status lightq_producer_new(struct lightq *client, const struct lightq_producer_options *options,
                                  struct lightq_producer **producer, struct lightq_error *error) LIGHTQ_MUST_CHECK;

/* Takes @message for sending and returns at once; only the first message to a topic waits for the topic's partitions
 * (at most request.timeout.ms).
 * OK: exactly one report will come. On any other status none will:
 * EBUSY (window.messages or buffer.bytes reached: poll, then send again) | ETOOBIG (alone over message.bytes.max) |
 * EINVAL (a key, value, header, time or expected offset that cannot be) | ENAME | ENOTFOUND (no such topic or
 * partition) | EUNAVAILABLE, ECONNECT (no server answered for the topic) | EAUTH, EVERSION (refused for good) | ENOMEM
 * | EFORK. */
lightq_status lightq_producer_send(struct lightq_producer *producer,
                                   const struct lightq_message *message) LIGHTQ_MUST_CHECK;

/* Takes @count messages (1 to 65536) as one batch of their own: all of them are stored, one behind the other, or none
 * is. Each has its report, with the same status. They are for one topic and one partition: the one they all name, or
 * else that of the keys, which must have the same one; without keys `partitioner` chooses. Nothing is taken unless OK.
 * ETOOBIG: more than one batch holds (65536 messages, the cluster's batch limit, or a message above its own), whatever
 * batch.bytes says. EINVAL: also when they are for several partitions or topics, or one has an expected offset or a
 * message id. EBUSY: as lightq_producer_send; alone a batch always has room. Else as lightq_producer_send. */
lightq_status lightq_producer_send_batch(struct lightq_producer *producer, const struct lightq_message *messages,
                                         size_t count) LIGHTQ_MUST_CHECK;

/* Waits up to @timeout_ms for reports and runs the callbacks of those that are there. @count (may be NULL): how many
 * reports ran. OK (also when nothing came) | EFORK. */
lightq_status lightq_producer_poll(struct lightq_producer *producer, int timeout_ms, size_t *count);

/* Sends what is gathered without lingering and runs callbacks until every message has had its report.
 * OK | ETIMEDOUT (some have not; nothing is given up) | EFORK. */
lightq_status lightq_producer_flush(struct lightq_producer *producer, int timeout_ms);

/* A descriptor that is readable when lightq_producer_poll has something to do. Do not read it. It lives as long as
 * @producer. OK | EFORK. */
lightq_status lightq_producer_fd(struct lightq_producer *producer, int *fd) LIGHTQ_MUST_CHECK;

/* Messages taken by send whose report has not run. */
size_t lightq_producer_waiting(const struct lightq_producer *producer);

/* The number of partitions of @topic, learned from the cluster when not known. Statuses as of lightq_producer_send. */
lightq_status lightq_producer_partitions(struct lightq_producer *producer, const char *topic, int timeout_ms,
                                         int32_t *count) LIGHTQ_MUST_CHECK;

/* Flushes for up to @timeout_ms, then reports what is left as ECANCELED (with in_doubt when it was sent), and frees
 * @producer. OK (every message was reported as stored or refused by the cluster) | ECANCELED (some were given up) |
 * EFORK (nothing was done). */
lightq_status lightq_producer_close(struct lightq_producer *producer, int timeout_ms);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
