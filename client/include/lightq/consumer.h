/* lightq/consumer.h - reads messages as a subscriber: every subscriber gets every message of the partitions it named,
 * each partition in the order of its offsets.
 *
 * Never a silent gap and never back: a consumer goes on behind the last message it was given, also after a change of
 * leader, and says so when that offset is gone (EOUTOFRANGE) instead of going somewhere else.
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
    uint64_t producer;   /* the identity of its producer */
    uint64_t sequence;   /* of this message among those of that identity and partition */
    uint32_t deliveries; /* how often it has been handed out; 1 in subscriber mode */
    uint32_t batch_crc;  /* CRC32C of the batch it is in, which was checked: as in the report of its producer */
};

enum lightq_event_kind {
    LIGHTQ_EVENT_NONE,    /* the time-out passed */
    LIGHTQ_EVENT_MESSAGE, /* @record */
    LIGHTQ_EVENT_END,     /* every message of @record.partition up to @record.offset (the end at that moment) was given;
                             told again after more messages came */
    LIGHTQ_EVENT_ERROR /* @error, of @record.topic and @record.partition when those are set. EOUTOFRANGE: nothing more
                          comes from that partition until lightq_consumer_seek; @first and @end are its borders.
                          ENOTFOUND: the topic is gone. ECORRUPT: the batch at @record.offset is damaged; nothing more
                          comes until a seek. A retriable one: the library goes on by itself. */
};

/* What a poll gives. */
struct lightq_event {
    enum lightq_event_kind kind;
    struct lightq_record record;
    int64_t first, end; /* EOUTOFRANGE: the offsets that can be asked for */
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

/* Ends the subscriptions and frees @consumer within @timeout_ms. OK | EFORK (nothing was done). */
lightq_status lightq_consumer_close(struct lightq_consumer *consumer, int timeout_ms);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
