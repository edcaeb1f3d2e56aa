/* lightq/consumer.h - reads messages: as a subscriber that keeps its own place (lightq_consumer_subscribe), or as one
 * of the consumers of a group (lightq_consumer_join), which the cluster keeps; lightq/group.h makes groups.
 *
 * A subscriber gets every message of the partitions it named, each partition in the order of its offsets. Never a
 * silent gap and never back: a consumer goes on behind the last message it was given, also after a change of leader,
 * and says so when that offset is gone (EOUTOFRANGE) instead of going somewhere else.
 *
 * A subscriber group is that with a position in the cluster: who joins begins there, and moves it by
 * lightq_consumer_commit, or lets the library do it (enable.auto.commit).
 *
 * In a pipeline group each message goes to one of the group's consumers, for ack.wait (messages that were fetched and
 * not given yet do not lose theirs, as long as the application polls every max.poll.interval.ms); that one settles it:
 * lightq_consumer_ack, _nack, _reject, _return. What is not settled in time, or not at all because the consumer is
 * gone, is delivered again, to anybody: a message is handled at least once, and lightq_record.deliveries counts.
 * docs/semantics.md says what happens on each kind of failure.
 *
 * One thread at a time. */
#ifndef LIGHTQ_CONSUMER_H
#define LIGHTQ_CONSUMER_H

#include <lightq/lightq.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

struct lightq_consumer;

/* A message as it is stored. All pointers are borrowed: they are valid until the next lightq_consumer_poll,
 * _poll_many, _release, _seek or _close of that consumer. */
struct lightq_record {
    const char *topic;
    int32_t partition;
    int64_t offset;
    int64_t timestamp_ms; /* as the producer said */
    const void *key;      /* NULL: none */
    size_t key_size;
    const void *value; /* NULL: none; an empty value is not NULL */
    size_t value_size;
    size_t header_count; /* see lightq_record_header */
    const void *headers; /* for lightq_record_header only */
    size_t headers_size;
    uint64_t producer; /* the identity of its producer */
    uint64_t sequence; /* of this message among those of that identity and partition */
    uint32_t
        deliveries; /* which delivery it is, from 1: one more than have failed. Always 1 outside of pipeline groups */
    uint64_t grant; /* under which it was given, for settling it; 0 outside of pipeline groups */
    uint32_t batch_crc; /* CRC32C of the batch it is in, which was checked: as in the report of its producer */
};

enum lightq_event_kind {
    LIGHTQ_EVENT_NONE,    /* the time-out passed */
    LIGHTQ_EVENT_MESSAGE, /* @record */
    LIGHTQ_EVENT_END,     /* every message of @record.partition up to @record.offset (the end at that moment) was given;
                             told again after more messages came */
    LIGHTQ_EVENT_ERROR, /* @error, of @record.topic and @record.partition when those are set. EOUTOFRANGE: nothing more
                           comes from that partition until lightq_consumer_seek; @first and @end are its borders.
                           ENOTFOUND: the topic or the group is gone. ECORRUPT: the batch at @record.offset is damaged;
                           nothing more comes until a seek. A retriable one: the library goes on by itself; EFENCED is
                           one: somebody moved the group (lightq_group_seek), and what comes next is from there */
    LIGHTQ_EVENT_UNSETTLED /* results of messages @first up to and without @end of @record.partition had no effect,
                              and @error says why. ENOTHELD: this consumer did not hold them any more (ack.wait passed),
                              they are delivered again. ESETTLED: they had another result already. EFENCED, ENOTFOUND:
                              the group was moved or deleted before. EOUTOFRANGE: there are no such messages */
};

/* What a poll gives. */
struct lightq_event {
    enum lightq_event_kind kind;
    struct lightq_record record;
    int64_t first, end; /* EOUTOFRANGE: the offsets that can be asked for. UNSETTLED: of which messages */
    const struct lightq_error *error;
};

/* Makes a consumer on @client with the client's settings. OK: close with lightq_consumer_close, before the client.
 * ENOMEM | ELIMIT (no descriptor left) | EFORK. */
lightq_status lightq_consumer_new(struct lightq *client, struct lightq_consumer **consumer,
                                  struct lightq_error *error) LIGHTQ_MUST_CHECK;

/* Begins to read @partition of @topic, or all its partitions (LIGHTQ_PARTITION_ANY), at @start. Waits up to
 * @timeout_ms until every partition's position is fixed, so that with LIGHTQ_START_END no message sent afterwards is
 * missed. With 0 it does not wait, and what fails later comes as an event.
 * OK | EINVAL | ENAME | ENOTFOUND (no such topic or partition) | EEXISTS (read already) | EOUTOFRANGE (@start names an
 * offset that is not there) | ETIMEDOUT, EUNAVAILABLE, ECONNECT | EAUTH, EVERSION | ENOMEM | EFORK. On failure nothing
 * of this call is read. */
lightq_status lightq_consumer_subscribe(struct lightq_consumer *consumer, const char *topic, int32_t partition,
                                        const struct lightq_start *start, int timeout_ms,
                                        struct lightq_error *error) LIGHTQ_MUST_CHECK;

/* Stops reading @partition of @topic (or all of it). OK | ENOTFOUND (it is not read) | EFORK. */
lightq_status lightq_consumer_unsubscribe(struct lightq_consumer *consumer, const char *topic, int32_t partition);

/* Waits up to @timeout_ms for the next message, end or error. OK: @event says what, LIGHTQ_EVENT_NONE included.
 * EFORK | ENOMEM. */
lightq_status lightq_consumer_poll(struct lightq_consumer *consumer, int timeout_ms,
                                   struct lightq_event *event) LIGHTQ_MUST_CHECK;

/* Waits up to @timeout_ms, then gives up to @capacity messages of one partition in @records. *count is 0 when the
 * time-out passed or when the next thing is an end or an error, which lightq_consumer_poll then gives.
 * OK | EINVAL (@capacity is 0) | EFORK | ENOMEM. */
lightq_status lightq_consumer_poll_many(struct lightq_consumer *consumer, int timeout_ms, struct lightq_record *records,
                                        size_t capacity, size_t *count) LIGHTQ_MUST_CHECK;

/* Gives the memory of the messages handed out so far back before the next poll does. */
void lightq_consumer_release(struct lightq_consumer *consumer);

/* The offset of the next message that a poll will give of @partition. OK | ENOTFOUND (not read) | ENOTREADY (START_END
 * or START_TIME and the leader has not said yet) | EFORK. */
lightq_status lightq_consumer_position(struct lightq_consumer *consumer, const char *topic, int32_t partition,
                                       int64_t *offset) LIGHTQ_MUST_CHECK;

/* Goes on at @start; messages fetched and not yet given are dropped. Time-out and statuses as of subscribe, and
 * ENOTFOUND when the partition is not read. @partition may be LIGHTQ_PARTITION_ANY unless @start names an offset. */
lightq_status lightq_consumer_seek(struct lightq_consumer *consumer, const char *topic, int32_t partition,
                                   const struct lightq_start *start, int timeout_ms,
                                   struct lightq_error *error) LIGHTQ_MUST_CHECK;

/* A descriptor that is readable when lightq_consumer_poll has something. Do not read it. It lives as long as @consumer;
 * messages already handed to the consumer do not make it readable, so poll until LIGHTQ_EVENT_NONE first. OK | EFORK.
 */
lightq_status lightq_consumer_fd(struct lightq_consumer *consumer, int *fd) LIGHTQ_MUST_CHECK;

/* The header number @index of @record, from 0. OK | ENOTFOUND (there are fewer) | ECORRUPT. */
lightq_status lightq_record_header(const struct lightq_record *record, size_t index,
                                   struct lightq_header *header) LIGHTQ_MUST_CHECK;

/* ---- groups */

/* Becomes a consumer of @group (NULL: group.id) in @partition of @topic, or in all its partitions
 * (LIGHTQ_PARTITION_ANY); others that join or leave stop nothing. Waits up to @timeout_ms until every leader has taken
 * it; with 0 it does not wait, and what fails later comes as an event. A group is made by lightq_group_create.
 * OK | EINVAL (also: the group's mode is not group.mode; or no group.id) | ENAME | ENOTFOUND (no such topic, partition
 * or group) | EEXISTS (this consumer reads it already) | EOUTOFRANGE (a subscriber group whose position was trimmed
 * away: lightq_group_seek) | ELIMIT (too many consumers) | ETIMEDOUT, EUNAVAILABLE, ECONNECT | EAUTH, EVERSION | ENOMEM
 * | EFORK. On failure nothing of this call is read. */
lightq_status lightq_consumer_join(struct lightq_consumer *consumer, const char *topic, const char *group,
                                   int32_t partition, int timeout_ms, struct lightq_error *error) LIGHTQ_MUST_CHECK;

#define LIGHTQ_DELAY_DEFAULT (-1) /* as the group's backoff says */

/* Settling: what became of a message of a pipeline group. Of @record only topic, partition, offset, deliveries and
 * grant are looked at, so that a copy of these will do later, until the consumer is closed. Results are taken at once,
 * gathered, and sent in the background, again after a change of leader; one that has no effect comes as
 * LIGHTQ_EVENT_UNSETTLED. lightq_consumer_flush waits until all are on a majority.
 *
 *   ack      it is done, and never delivered again. Also taken when ack.wait has passed: done is done
 *   nack     it failed. Delivered again after @delay_ms, or at once with 0, and after max.deliver failures to the dead
 *            letters
 *   reject   it failed and always will: to the dead letters
 *   extend   ack.wait begins anew: it takes longer
 *   return   to be delivered again now, to anybody; it did not fail
 *
 * OK | EBUSY (too many results wait: lightq_consumer_flush) | EINVAL (not of a pipeline group, or a delay that cannot
 * be) | ENOTFOUND (that partition is not read here as a group) | EFENCED (the group was moved since it was given) |
 * ENOMEM | EFORK. */
lightq_status lightq_consumer_ack(struct lightq_consumer *consumer, const struct lightq_record *record);
lightq_status lightq_consumer_nack(struct lightq_consumer *consumer, const struct lightq_record *record,
                                   int64_t delay_ms);
lightq_status lightq_consumer_reject(struct lightq_consumer *consumer, const struct lightq_record *record);
lightq_status lightq_consumer_extend(struct lightq_consumer *consumer, const struct lightq_record *record);
lightq_status lightq_consumer_return(struct lightq_consumer *consumer, const struct lightq_record *record);

/* Acks @count messages, as lightq_consumer_poll_many gave them. The first one that is not taken ends it. */
lightq_status lightq_consumer_ack_many(struct lightq_consumer *consumer, const struct lightq_record *records,
                                       size_t count);

/* Acks @record and waits up to @timeout_ms until that is on the disks of a majority: it will not be delivered again.
 * OK (also when it was settled before) | EFENCED | ENOTFOUND (the group, or as above) | EOUTOFRANGE (no such message) |
 * ETIMEDOUT (not known yet; the library goes on trying) | EBUSY | EINVAL | ENOMEM | EFORK. */
lightq_status lightq_consumer_ack_sync(struct lightq_consumer *consumer, const struct lightq_record *record,
                                       int timeout_ms, struct lightq_error *error) LIGHTQ_MUST_CHECK;

/* Moves the position of a subscriber group in @partition of @topic to @offset, that of the next message to be read; it
 * never goes back. With LIGHTQ_PARTITION_ANY @offset is not looked at: behind everything that was given, in all
 * partitions. Waits up to @timeout_ms until it is on the disks of a majority; with 0 it is done in the background.
 * OK (also when the position is further already) | EFENCED (the group was moved: what comes next is from there) |
 * ENOTFOUND (not read here as a group, or the group is gone) | EOUTOFRANGE | EINVAL (a pipeline group) | ETIMEDOUT |
 * ENOMEM | EFORK. */
lightq_status lightq_consumer_commit(struct lightq_consumer *consumer, const char *topic, int32_t partition,
                                     int64_t offset, int timeout_ms, struct lightq_error *error) LIGHTQ_MUST_CHECK;

/* Waits up to @timeout_ms until everything settled or committed so far has its outcome. OK | ETIMEDOUT (nothing is
 * given up) | EFORK. */
lightq_status lightq_consumer_flush(struct lightq_consumer *consumer, int timeout_ms);

/* Commits (enable.auto.commit), acks (enable.auto.ack), waits for what was settled, ends the subscriptions and frees
 * @consumer within @timeout_ms. Messages of pipeline groups that were given and not settled are delivered again to
 * others at once, and did not fail. OK | ETIMEDOUT (it is freed; results have an unknown outcome) | EFORK (nothing was
 * done). */
lightq_status lightq_consumer_close(struct lightq_consumer *consumer, int timeout_ms);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
