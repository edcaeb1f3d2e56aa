/* lightq/status.h - every status a LightQ function or answer can carry. One row each: the C name, the number on the
 * wire (never reused), whether the same request may succeed later, and a sentence for people. */
#ifndef LIGHTQ_STATUS_H
#define LIGHTQ_STATUS_H

#include <stdbool.h>

/* Everything is built hidden; what carries this mark is exported by liblightq. */
#ifndef LIGHTQ_API
#define LIGHTQ_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* X(name, number, retriable, text) */
#define LIGHTQ_STATUS_TABLE(X)                                                                         \
    X(OK, 0, 0, "success")                                                                             \
    X(EINVAL, 1, 0, "an argument is not valid")                                                        \
    X(ENOMEM, 2, 1, "out of memory")                                                                   \
    X(EIO, 3, 0, "a disk read, write or sync failed")                                                  \
    X(ENOSPC, 4, 1, "no disk space left for more messages")                                            \
    X(ECORRUPT, 5, 0, "stored data is damaged")                                                        \
    X(EPROTO, 6, 0, "the other side sent bytes that are not the protocol")                             \
    X(EVERSION, 7, 0, "no protocol or format version in common")                                       \
    X(ECANCELED, 8, 0, "canceled: it was closed before it was done")                                   \
    X(ETIMEDOUT, 9, 1, "timed out: the outcome is not known")                                          \
    X(EBUSY, 10, 1, "too much is in flight: try again later")                                          \
    X(ETOOBIG, 11, 0, "larger than the limit allows")                                                  \
    X(ENOTFOUND, 12, 0, "not found")                                                                   \
    X(EEXISTS, 13, 0, "it exists already")                                                             \
    X(ENOTLEADER, 14, 1, "this node does not lead that partition")                                     \
    X(ENOLEADER, 15, 1, "no leader is known at the moment")                                            \
    X(EUNAVAILABLE, 16, 1, "not enough of the cluster is reachable")                                   \
    X(EOUTOFSEQUENCE, 17, 0, "producer sequence out of order")                                         \
    X(EDUPLICATE, 18, 0, "already stored: a duplicate, its offset is no longer known")                 \
    X(EFENCED, 19, 0, "a newer instance of this producer has taken over")                              \
    X(EOUTOFRANGE, 20, 0, "the offset is outside the log")                                             \
    X(EIDENTITY, 21, 0, "not who it should be: another cluster, node or data directory")               \
    X(EAUTH, 22, 0, "not permitted")                                                                   \
    X(ESTOPPED, 23, 1, "this replica has stopped and must be restarted or rebuilt")                    \
    X(EDAMAGED, 24, 0, "this replica's data is damaged and it does not take part until it is rebuilt") \
    X(ECLOSED, 25, 0, "closed")                                                                        \
    X(ECONNECT, 26, 1, "cannot connect")                                                               \
    X(ENAME, 27, 0, "a name must be 1 to 249 of the characters A-Z a-z 0-9 . _ - and not . or ..")     \
    X(ECONFLICT, 28, 1, "another change of the same thing is under way")                               \
    X(EUNSUPPORTED, 29, 0, "not supported by this version")                                            \
    X(ELEADERSHIPLOST, 30, 1, "leadership was lost: the outcome is not known")                         \
    X(ENOTREADY, 31, 1, "not ready yet")                                                               \
    X(EEXPECTED, 32, 0, "the log's end is not at the expected offset")                                 \
    X(EFORK, 33, 0, "a LightQ object cannot be used after fork")                                       \
    X(ELIMIT, 34, 1, "a configured limit is reached")                                                  \
    X(EADDRINUSE, 35, 0, "the address is in use")                                                      \
    X(EINTERNAL, 36, 0, "an internal error: please report it")                                         \
    X(EREPLACED, 37, 0, "this data directory was replaced: it is no longer part of the cluster")       \
    X(ESETTLED, 38, 0, "the message is settled already")                                               \
    X(ENOTHELD, 39, 0, "the message is not held by this consumer, or no longer")

typedef enum lightq_status {
#define X(name, number, retriable, text) LIGHTQ_##name = number,
    LIGHTQ_STATUS_TABLE(X)
#undef X
} lightq_status;

/* The name, as "ENOSPC"; "EUNKNOWN" for a number that is not in the table. Static memory. */
LIGHTQ_API const char *lightq_status_name(lightq_status status);

/* The sentence of the table; never NULL. Static memory. */
LIGHTQ_API const char *lightq_status_text(lightq_status status);

/* True when the same request may succeed later without anybody changing anything. */
LIGHTQ_API bool lightq_status_retriable(lightq_status status);

#ifdef __cplusplus
}
#endif

#endif
