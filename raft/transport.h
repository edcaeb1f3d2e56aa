/* raft/transport.h - the peer links of one shard: raft/link.h over TCP with libuv. Called by node/ (which plugs the
 * host's link events in) and by tests; calls frame.h, hello.h, sender.h. Loop thread only. The protocol:
 * docs/format/peer.md.
 *
 * Each direction has a TCP connection of its own: a node sends on the one it opened and receives on those it accepted.
 * Both begin with a hello and its answer (raft/hello.h); nothing else is sent before. A node's later connection
 * replaces its earlier one, which is closed first, so that messages never overtake. A lost connection is tried again
 * after 20 ms, then twice as long each time up to 1 s, with jitter; at once when the other side comes to us.
 *
 * While one of both belongs to no cluster, only frames of type NODE pass: that is how a cluster is formed and joined.
 *
 * What comes in is bounded: connections without a hello by count and time, frames by their type's limit, memory by what
 * has arrived. What goes out is bounded by bytes for each peer. Whatever is not the protocol closes its connection, is
 * counted, and is logged at most once a second.
 *
 * TLS is not here yet; it will sit between the connection's reads and writes and the frame decoder and sender (both
 * take plain bytes). Until then see lq_transport_check_address. */
#ifndef LQ_RAFT_TRANSPORT_H
#define LQ_RAFT_TRANSPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "client/base/clock.h"
#include "client/base/err.h"
#include "client/base/id.h"
#include "raft/hello.h"
#include "raft/link.h"

struct lq_transport;

struct lq_transport_options {
    uint32_t node;
    struct lq_id uuid;
    struct lq_id cluster; /* zero: none yet; see lq_transport_set_cluster */
    uint32_t admission;   /* see raft/hello.h; 0 while there is no cluster */
    uint64_t boot_count, boot_nonce;
    uint16_t shard, shards;
    unsigned hello_timeout_ms; /* 0: 5000: for a connection to be made and its hello to be there */
    unsigned retry_min_ms;     /* 0: 20 */
    unsigned retry_max_ms;     /* 0: 1000 */
    unsigned unidentified_max; /* 0: LQ_PEER_UNIDENTIFIED_MAX */
    uint64_t queue_bytes_max;  /* 0: LQ_PEER_QUEUE_BYTES_MAX */
    unsigned silence_ms;       /* 0: 10000: what was sent and is not acknowledged for so long breaks the connection */
};

/* Made from the loop's callbacks and lq_transport_turn, never inside another call. */
struct lq_transport_events {
    /* The link's: see link.h. @up: our connection to @node was accepted (connected() is true). @down: it is lost
     * (connected() is false); called once more, with @refused, when only later it turns out that its process is gone.
     */
    struct lq_link_events link;
    void *link_owner; /* what the link's events are given: the host */
    /* Decides about a node that says who it is: in a hello that came (kind ASK), or an answer to ours (kind ANSWER),
     * after the transport's own rules. OK, or any status with a sentence in @err: refused. It alone decides about a
     * node that comes with another uuid than was seen or given: when it says OK the connections with the other
     * directory are closed. NULL: nodes given by lq_transport_set_peer are accepted, with that uuid, others refused. */
    lightq_status (*identify)(void *owner, const struct lq_hello *hello, struct lq_err *err);
    /* @node refuses us, or we refuse what answers at its address. EIDENTITY may mean that we are the wrong one. May be
     * NULL. @sentence borrowed. It is tried again as after any loss. */
    void (*rejected)(void *owner, uint32_t node, lightq_status status, const char *sentence);
    /* @node answers that our data directory was replaced (EREPLACED), so that it is of no use to go on. Before
     * rejected. May be NULL. */
    void (*replaced)(void *owner, uint32_t node, const char *sentence);
    void *owner; /* what identify, rejected and replaced are given: the node */
};

struct lq_transport_counters {
    uint64_t frames_sent, bytes_sent; /* given to the queue */
    uint64_t frames_received, bytes_received;
    uint64_t dropped_full;        /* frames refused with EBUSY */
    uint64_t dropped_unconnected; /* frames refused with ECONNECT */
    uint64_t accepted;            /* connections */
    uint64_t connected;           /* of ours that were identified */
    uint64_t replaced;            /* accepted connections that a later one of the same node replaced */
    uint64_t lost;                /* identified connections, in both directions */
    uint64_t refused_hellos;      /* by us */
    uint64_t rejections;          /* of us */
    uint64_t malformed;           /* connections closed for what they sent */
    uint64_t silent;              /* connections closed for sending no hello in time */
    uint64_t evicted;             /* connections without a hello, closed because there were too many */
    uint64_t unidentified;        /* accepted connections without a hello, now */
};

/* Without TLS whoever reaches the peer port can speak as a peer. OK: @host is a loopback address (127.0.0.0/8, ::1,
 * localhost) or @insecure is true | EAUTH: it is not; @err says what to do | EINVAL: @host is no IP address and not
 * "localhost". */
lightq_status lq_transport_check_address(const char *host, bool insecure, struct lq_err *err) LQ_MUST_CHECK;

/* No I/O. @loop and @clock are borrowed until closed. EINVAL (node id, uuid or shard) | ENOMEM. */
lightq_status lq_transport_new(const struct lq_transport_options *options, uv_loop_t *loop, struct lq_clock *clock,
                               struct lq_transport **transport, struct lq_err *err) LQ_MUST_CHECK;

/* Begins to listen, and from then on to connect to peers. @host as for the check above; @port 0 takes any free one.
 * EADDRINUSE | EAUTH | EINVAL | EIO. To be called once; after a failure only close may follow. */
lightq_status lq_transport_listen(struct lq_transport *transport, const char *host, uint16_t port, bool insecure,
                                  const struct lq_transport_events *events, struct lq_err *err) LQ_MUST_CHECK;
/* The port listened on. */
uint16_t lq_transport_port(const struct lq_transport *transport);

/* What the host sends through. Lives as long as the transport. send() beyond link.h: EINVAL for a frame that no
 * receiver would take; ENOMEM (dropped). It only queues: lq_transport_turn writes. */
struct lq_link *lq_transport_link(struct lq_transport *transport);

/* At the end of every turn of the loop: one write for each peer that frames were queued for. */
void lq_transport_turn(struct lq_transport *transport);

/* Where @node is and, unless NULL, which uuid it must have. @host may be a name; @port is that of our shard there.
 * Changes a peer that is known: another address or uuid drops its connections. OK | EINVAL | ENOMEM. */
lightq_status lq_transport_set_peer(struct lq_transport *transport, uint32_t node, const char *host, uint16_t port,
                                    const struct lq_id *uuid) LQ_MUST_CHECK;
/* Drops its connections and forgets what was seen of it. Nothing when it is not known. */
void lq_transport_remove_peer(struct lq_transport *transport, uint32_t node);

/* This node now belongs to @cluster: connections made while one side belonged to none are made anew. */
void lq_transport_set_cluster(struct lq_transport *transport, const struct lq_id *cluster);
/* What hellos say from now on (raft/hello.h); before lq_transport_set_cluster. */
void lq_transport_set_admission(struct lq_transport *transport, uint32_t admission);

/* Asks who is at an address. OK: @cb is called once, later, with OK and the answer, or with ECONNECT | ETIMEDOUT |
 * EPROTO | EVERSION | ECANCELED (closed) and a sentence; both borrowed. EINVAL | ENOMEM: it is not called. */
typedef void (*lq_transport_probe_cb)(void *data, lightq_status status, const struct lq_hello *hello,
                                      const struct lq_err *err);
lightq_status lq_transport_probe(struct lq_transport *transport, const char *host, uint16_t port,
                                 lq_transport_probe_cb cb, void *data) LQ_MUST_CHECK;

void lq_transport_count_up(const struct lq_transport *transport, struct lq_transport_counters *counters);

/* Closes everything at once; what was queued is dropped. @cb is called once, later, when the transport is freed. No
 * event is made after this call; probes are told ECANCELED. Waits for nothing but the loop. */
void lq_transport_close(struct lq_transport *transport, void (*cb)(void *data), void *data);

#endif
