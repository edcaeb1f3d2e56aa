/* lightq/lightq.h - the client: one object that knows a cluster. Producers, consumers and administration stand on it;
 * they share its connections and its one background thread.
 *
 *     struct lightq *client;
 *     struct lightq_error error;
 *     if (lightq_new(conf, &client, &error) != LIGHTQ_OK) { fprintf(stderr, "%s\n", error.text); ... }
 *     ...
 *     lightq_close(client, 5000);
 *
 * Rules of the whole library:
 * - Every function that can fail returns a lightq_status; results come by out-parameter and are set only on OK.
 * - No callback runs but inside lightq_producer_poll, _flush and _close, on the thread that called it.
 * - Time-outs are milliseconds; 0 does not wait; a negative one waits as long as it takes.
 * - After fork() the child cannot use an object of its parent: every call returns EFORK and changes nothing.
 * - Memory is bounded by buffer.bytes (producer) and fetch.bytes (consumer).
 * - Functions of one object may be called from any thread; of a consumer from one thread at a time. */
#ifndef LIGHTQ_LIGHTQ_H
#define LIGHTQ_LIGHTQ_H

#include <stddef.h>
#include <stdint.h>

#include <lightq/conf.h>
#include <lightq/status.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

#define LIGHTQ_VERSION_MAJOR 0
#define LIGHTQ_VERSION_MINOR 1
#define LIGHTQ_VERSION_PATCH 0

/* In the place of a partition: the library chooses (producer), or all partitions (consumer). */
#define LIGHTQ_PARTITION_ANY (-1)
/* In the place of an offset: not known. */
#define LIGHTQ_OFFSET_UNKNOWN (-1)

/* A client. */
struct lightq;

/* Where a consumer begins, or which offset is asked for. */
enum lightq_start_kind {
    LIGHTQ_START_BEGIN,  /* the oldest message that is kept */
    LIGHTQ_START_END,    /* behind the newest message */
    LIGHTQ_START_OFFSET, /* at @offset exactly */
    LIGHTQ_START_TIME    /* at the first message stored at @time_ms (since 1970) or later */
};
struct lightq_start {
    enum lightq_start_kind kind;
    int64_t offset;  /* LIGHTQ_START_OFFSET only; 0 or more */
    int64_t time_ms; /* LIGHTQ_START_TIME only */
};

/* A name and a value that travel with a message. */
struct lightq_header {
    const char *name; /* not zero-terminated when it comes from a consumer */
    size_t name_size;
    const void *value; /* NULL: a header without a value, which is not the same as an empty one */
    size_t value_size;
};

/* "0.1.0": the version of the library that is running, which may differ from the headers' one. Static memory. */
const char *lightq_version(void);

/* Makes a client and starts its thread; connects in the background. @conf (NULL: all defaults) is copied.
 * OK: close with lightq_close. EINVAL (settings that do not go together, or servers that cannot be parsed: @error
 * says which) | ENOMEM | ELIMIT (no thread, descriptor or socket left): nothing was made. */
lightq_status lightq_new(const struct lightq_conf *conf, struct lightq **client,
                         struct lightq_error *error) LIGHTQ_MUST_CHECK;

/* Says good-bye to the servers, stops the thread and frees @client, within @timeout_ms (a negative one is 30 s).
 * OK: it is gone. EBUSY: a producer or consumer of it is still open, nothing was closed. EFORK: nothing was done. */
lightq_status lightq_close(struct lightq *client, int timeout_ms);

/* Waits until some server has greeted us. OK | ECONNECT, EUNAVAILABLE (none did in time: @error says what was tried
 * last) | EAUTH, EVERSION (a server refused us for good) | EFORK. */
lightq_status lightq_wait_connected(struct lightq *client, int timeout_ms, struct lightq_error *error);

/* The identity of the cluster as 32 hexadecimal digits; "" until a server has greeted us. Lives as long as @client. */
const char *lightq_cluster_id(const struct lightq *client);

/* The number of partitions of @topic; they are numbered from 0. OK | ENAME | ENOTFOUND | ECONNECT, EUNAVAILABLE | EAUTH
 * | EFORK; @error says more. */
lightq_status lightq_partition_count(struct lightq *client, const char *topic, int timeout_ms, int32_t *count,
                                     struct lightq_error *error) LIGHTQ_MUST_CHECK;

/* The offset that @start means now in @partition of @topic, answered by its leader. START gives the first offset that
 * is kept, END the one the next message will get; TIME gives the end when no message is that young.
 * OK | ENOTFOUND (no such topic or partition) | ETIMEDOUT | EUNAVAILABLE | EAUTH | EFORK; @error says more. */
lightq_status lightq_offset(struct lightq *client, const char *topic, int32_t partition,
                            const struct lightq_start *start, int timeout_ms, int64_t *offset,
                            struct lightq_error *error) LIGHTQ_MUST_CHECK;

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
