/* node/counters.h - what a node counts, once: the table makes the struct, the STATS answer and /metrics. Written by the
 * loop thread of the shard it belongs to, except where it says so. Reset by a restart only. */
#ifndef LQ_NODE_COUNTERS_H
#define LQ_NODE_COUNTERS_H

#include <stdint.h>

/* X(kind, member, name, sentence); kind is counter (only goes up) or gauge. */
#define LQ_COUNTERS(X)                                                                                                 \
    X(gauge, sessions, "sessions", "Clients that said HELLO and are heard from.")                                      \
    X(counter, sessions_opened, "sessions_opened_total", "HELLOs accepted.")                                           \
    X(counter, sessions_refused, "sessions_refused_total", "HELLOs refused.")                                          \
    X(counter, sessions_expired, "sessions_expired_total", "Clients forgotten because they were silent.")              \
    X(counter, sessions_dropped, "sessions_dropped_total", "Clients forgotten because they did not take answers.")     \
    X(counter, frames_in, "client_frames_in_total", "Messages from clients.")                                          \
    X(counter, frames_out, "client_frames_out_total", "Messages to clients.")                                          \
    X(counter, bytes_in, "client_bytes_in_total", "Bytes from clients.")                                               \
    X(counter, bytes_out, "client_bytes_out_total", "Bytes of messages to clients.")                                   \
    X(counter, frames_bad, "client_frames_bad_total", "Messages from clients that are not the protocol.")              \
    X(counter, handshakes_bad, "client_handshakes_bad_total",                                                          \
      "Connections closed because they are not ZMTP, or not of a kind that is served.")                                \
    X(counter, connections_bad, "client_connections_bad_total", "Connections closed for what they sent.")              \
    X(counter, connections_silent, "client_connections_silent_total",                                                  \
      "Connections closed because they gave no sign of life.")                                                         \
    X(counter, connections_evicted, "client_connections_evicted_total",                                                \
      "Connections closed to make room for messages of others.")                                                       \
    X(gauge, connections, "client_connections", "Open connections to the client port.")                                \
    X(counter, connections_refused, "client_connections_refused_total",                                                \
      "Times the client port took no more connections because there were too many.")                                   \
    X(counter, connections_stalled, "connections_stalled_total",                                                       \
      "Connections closed that took nothing while others waited for memory.")                                          \
    X(counter, http_requests, "http_requests_total", "HTTP requests answered.")                                        \
    X(counter, http_bad, "http_bad_total", "HTTP connections closed because of what they sent.")                       \
    X(counter, produce_requests, "produce_requests_total", "PRODUCE requests.")                                        \
    X(counter, produce_stored, "produce_stored_total", "PRODUCE requests answered with OK.")                           \
    X(counter, produce_duplicates, "produce_duplicates_total", "PRODUCE requests that were stored already.")           \
    X(counter, produce_refused, "produce_refused_total", "PRODUCE requests answered with something else.")             \
    X(counter, produce_busy, "produce_busy_total", "PRODUCE requests told to wait.")                                   \
    X(counter, produce_timed_out, "produce_timed_out_total", "PRODUCE requests whose time was over.")                  \
    X(counter, messages_in, "messages_in_total", "Messages stored.")                                                   \
    X(gauge, produce_inflight, "produce_inflight", "PRODUCE requests being worked on.")                                \
    X(gauge, memory_inflight, "memory_inflight_bytes", "Bytes of requests being worked on and of entries read ahead.") \
    X(gauge, subscriptions, "subscriptions", "Subscriptions.")                                                         \
    X(counter, deliveries, "deliveries_total", "Batches delivered.")                                                   \
    X(counter, messages_out, "messages_out_total", "Messages delivered.")                                              \
    X(counter, deliveries_held, "deliveries_held_total",                                                               \
      "Looks at a pipeline group that had to wait for memory to remember its deliveries in.")                          \
    X(counter, settles, "settle_requests_total", "SETTLE requests.")                                                   \
    X(counter, dead_letters, "dead_letters_total", "Messages stored in topics of dead letters.")                       \
    X(counter, reads_memory, "consume_reads_memory_total", "Entries for consumers found in memory.")                   \
    X(counter, reads_disk, "consume_reads_disk_total", "Reads from disk for consumers.")                               \
    X(counter, reads_failed, "consume_reads_failed_total", "Reads from disk for consumers that failed.")

struct lq_counters {
#define X(kind, member, name, sentence) uint64_t member;
    LQ_COUNTERS(X)
#undef X
};

#endif
