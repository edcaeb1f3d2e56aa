/* node/options.h - what an operator can set for a node, once: the table below makes the struct, the parser, --help, the
 * manual page and docs/configuration.md. Called by node/main.c; everything else in node/ reads the struct.
 * A value comes from its default, then the configuration file, then the environment, then the flags. No sockets, no
 * disk but the configuration file. One thread. */
#ifndef LQ_NODE_OPTIONS_H
#define LQ_NODE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "client/base/conf.h"
#include "client/base/err.h"
#include "client/base/limits.h"
#include "node/endpoint.h"

#define LQ_ADDRESS_TEXT_MAX (LQ_HOST_BYTES_MAX + 8)

/* X(kind, member, name, least, most, default, unit, reloadable, sentence), see client/base/conf.h. */
#define LQ_OPTIONS_TABLE(X)                                                                                            \
    X(STRING, data, "data", 1, 3800, "./lightq-data", "directory", false, "Where everything durable of this node is.") \
    X(U64, node_id, "node.id", 1, LQ_NODES_MAX, "1", "", false,                                                        \
      "This node's number, different from every other node's and never changed.")                                      \
    X(STRING, seeds, "seeds", 0, LQ_CONF_TEXT_BYTES_MAX - 1, NULL, "host:peerport,...", false,                         \
      "Peer addresses of the nodes that form the cluster; none for a single node.")                                    \
    X(U64, cluster_expect, "cluster.expect", 0, LQ_FOUNDERS_MAX, "0", "nodes", false,                                  \
      "How many nodes make the cluster together, all of them blank; 0 means all the seeds.")                           \
    X(STRING, listen, "listen", 1, LQ_ADDRESS_TEXT_MAX, "127.0.0.1:5600", "host:port", false,                          \
      "Where clients connect.")                                                                                        \
    X(STRING, advertise, "advertise", 0, LQ_ADDRESS_TEXT_MAX, NULL, "host:port", false,                                \
      "The address told to clients, when it is not the one listened on (containers, address translation).")            \
    X(STRING, peer_listen, "peer.listen", 1, LQ_ADDRESS_TEXT_MAX, "127.0.0.1:5700", "host:port", false,                \
      "Where other nodes connect.")                                                                                    \
    X(STRING, peer_advertise, "peer.advertise", 0, LQ_ADDRESS_TEXT_MAX, NULL, "host:port", false,                      \
      "The address told to other nodes, when it is not the one listened on.")                                          \
    X(BOOL, peer_insecure, "peer.insecure", 0, 0, "false", "", false,                                                  \
      "Allows the peer port on other addresses than loopback although whoever reaches it is trusted.")                 \
    X(STRING, http, "http", 0, LQ_ADDRESS_TEXT_MAX, NULL, "host:port", false,                                          \
      "Where /health and /metrics are served; none for not at all. They ask for no password.")                         \
    X(ENUM, log_level, "log.level", 0, 0, "info", "debug|info|warn|error|off", false,                                  \
      "The least urgent lines that are written to standard error.")                                                    \
    X(U64, shards, "shards", 1, LQ_SHARDS_MAX, "1", "threads", false,                                                  \
      "Event loops, each with its share of the partitions; shard i has client and peer port plus i. The same on all "  \
      "nodes: to change it, stop all of them, and start all with the new number, which takes over what is there.")     \
    X(U64, io_threads, "io.threads", 1, 256, "8", "threads", false, "Threads that write, read and sync files.")        \
    X(SIZE, max_message_bytes, "max.message.bytes", 1, LQ_MESSAGE_BYTES_MAX, "1m", "bytes", false,                     \
      "The largest message taken from a producer.")                                                                    \
    X(SIZE, memory_max, "memory.max", 0, UINT64_C(1) << 40, "0", "bytes", false,                                       \
      "What the process may hold, shared out as docs/memory.md says; beyond a share producers are told to wait. 0 "    \
      "means three quarters of the container's limit or half of the machine's memory, whatever is less.")              \
    X(SIZE, cache_bytes, "cache.bytes", 0, UINT64_C(1) << 40, "0", "bytes", false,                                     \
      "Entries of all partitions kept in memory for consumers and for nodes that catch up; 0 means a quarter of "      \
      "memory.max, and 256m at most.")                                                                                 \
    X(SIZE, segment_bytes, "segment.bytes", 64 << 10, UINT64_C(4) << 30, "64m", "bytes", false,                        \
      "Size of a partition's files; what is trimmed goes by whole files.")                                             \
    X(SIZE, journal_bytes, "journal.bytes", 64 << 10, UINT64_C(4) << 30, "64m", "bytes", false,                        \
      "Size of the shared journal's files.")                                                                           \
    X(SIZE, scrub_bytes, "scrub.bytes.per.second", 0, UINT64_C(1) << 40, "8m", "bytes", false,                         \
      "Bytes a second of stored files read in search of rot that nobody else would see; 0 for none.")                  \
    X(DURATION, scrub_interval_ms, "scrub.interval", 1000, UINT64_C(365) * 24 * 3600 * 1000, "168h", "", false,        \
      "From the begin of one such search through all files to the begin of the next, at least.")                       \
    X(SIZE, disk_reserve_bytes, "disk.reserve.bytes", 1 << 20, UINT64_C(1) << 40, "64m", "bytes", false,               \
      "Free disk space below which no more messages are taken, while reading and trimming go on.")                     \
    X(DURATION, raft_election_ms, "raft.election.ms", 50, 60000, "1s", "", false,                                      \
      "How long followers wait for a sign of their leader before they elect another.")                                 \
    X(DURATION, raft_heartbeat_ms, "raft.heartbeat.ms", 5, 10000, "100ms", "", false,                                  \
      "How often an idle leader gives a sign; at most a third of raft.election.ms.")                                   \
    X(DURATION, raft_stall_ms, "raft.stall.ms", 50, 600000, "1500ms", "", false,                                       \
      "A leader whose disk has not made an entry durable for this long hands over.")                                   \
    X(SIZE, raft_window_bytes, "raft.window.bytes", 64 << 10, 1 << 30, "4m", "bytes", false,                           \
      "Proposed and not yet committed bytes of one partition; more waits.")                                            \
    X(BOOL, raft_fast_failover, "raft.fast.failover", 0, 0, "true", "", false,                                         \
      "Elect at once when the connection to a leader's process breaks, not only after raft.election.ms.")              \
    X(DURATION, session_timeout_ms, "session.timeout.ms", 1000, 3600000, "10s", "", false,                             \
      "A client that sends nothing for this long is forgotten.")                                                       \
    X(U64, sessions_max, "sessions.max", 1, LQ_SESSIONS_MAX, "4096", "clients", false,                                 \
      "Clients served at the same time; more are refused.")                                                            \
    X(U64, session_requests_max, "session.requests.max", 1, 65536, "1024", "requests", false,                          \
      "Produce requests of one client being worked on at the same time; more are told to wait.")                       \
    X(SIZE, session_bytes_max, "session.bytes.max", 1 << 20, 1 << 30, "64m", "bytes", false,                           \
      "Bytes of one client's requests being worked on, and of answers it has not taken; more are told to wait.")       \
    X(U64, session_subscriptions_max, "session.subscriptions.max", 1, LQ_SUBSCRIPTIONS_MAX, "4096", "subscriptions",   \
      false, "Subscriptions of one client.")                                                                           \
    X(U64, connections_max, "connections.max", 16, 1000000, "8192", "connections", false,                              \
      "Open connections on the client port; with that many it takes no more until there are fewer.")                   \
    X(U64, client_queue_out, "client.queue.out", 1, 65536, "64", "messages", false,                                    \
      "Messages queued on one connection before they wait in the session.")                                            \
    X(DURATION, drain_timeout_ms, "drain.timeout.ms", 0, 600000, "5s", "", false,                                      \
      "How long SIGTERM waits for leaderships to be handed over before it ends the node all the same.")

/* What each part of memory.max is for, in bytes. The entry cache has cache_bytes. */
struct lq_memory_shares {
    uint64_t requests; /* being worked on, and entries read ahead */
    uint64_t answers;  /* and deliveries, on their way to clients */
    uint64_t waiting;  /* answers that wait in sessions */
    uint64_t arriving; /* messages of which a part has arrived */
    uint64_t leases;   /* what is known of delivered messages of pipeline groups */
    uint64_t peer;     /* on its way to one other node */
};

struct lq_options {
    LQ_OPTIONS_TABLE(LQ_CONF_MEMBER)
    /* Made of the texts above by lq_options_check. */
    struct lq_endpoint client, client_told, peer, peer_told, http_at;
    bool serves_http;
    struct lq_endpoint seed[LQ_SEEDS_MAX];
    unsigned seed_count;
    struct lq_memory_shares memory;
    unsigned expect;    /* 1 when there are no seeds */
    unsigned files_max; /* stored files open at a time, by the process's limit; 0: as many as the store likes */
};

enum lq_options_action {
    LQ_OPTIONS_RUN,
    LQ_OPTIONS_HELP,
    LQ_OPTIONS_VERSION,
    LQ_OPTIONS_MAN,  /* print the manual page: for the documentation build */
    LQ_OPTIONS_DOCS, /* print docs/configuration.md */
};

extern const struct lq_conf_table lq_options_table;

/* The defaults. OK: undo with lq_options_deinit. ENOMEM. */
lightq_status lq_options_init(struct lq_options *options) LQ_MUST_CHECK;
void lq_options_deinit(struct lq_options *options);

/* Flags, environment and configuration file into @options (initialised). @action says what was asked for.
 * OK | EINVAL, ENOTFOUND, EIO, ENOMEM, EUNSUPPORTED with a sentence in @err; *usage: the flags themselves are wrong. */
lightq_status lq_options_load(struct lq_options *options, int argc, char **argv, enum lq_options_action *action,
                              bool *usage, struct lq_err *err) LQ_MUST_CHECK;
/* The configuration file alone. */
lightq_status lq_options_load_file(struct lq_options *options, const char *path, struct lq_err *err) LQ_MUST_CHECK;
/* What no single row can say: addresses, seeds, and values that must fit each other. Fills the made members. */
lightq_status lq_options_check(struct lq_options *options, struct lq_err *err) LQ_MUST_CHECK;

/* options_memory.c: memory.max when it is 0, and the shares of it. OK | EINVAL. */
lightq_status lq_options_share_memory(struct lq_options *options, struct lq_err *err) LQ_MUST_CHECK;
/* One shard's part of the node's. */
void lq_options_divide_memory(struct lq_options *shard);
/* What memory.max = 0 means on a machine with so much, in a container (UINT64_MAX: none) of so much. */
uint64_t lq_options_memory_default(uint64_t machine_bytes, uint64_t container_bytes);
/* What shard @number of the node goes by: its ports, and its share of what all shards have together. Texts are
 * borrowed. */
void lq_options_for_shard(const struct lq_options *options, unsigned number, struct lq_options *shard);

/* The largest record batch, and with it the largest frame, that is taken from a client. */
uint64_t lq_options_batch_bytes_max(const struct lq_options *options);

void lq_options_print_help(FILE *out);
void lq_options_print_man(FILE *out);
void lq_options_print_docs(FILE *out);

#endif
