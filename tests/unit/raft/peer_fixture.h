/* tests/unit/raft/peer_fixture.h - transports on one real loop and loopback sockets, and plain sockets that speak (or
 * abuse) the peer protocol by hand. Waiting is always for a condition, with a deadline. */
#ifndef LQ_TEST_PEER_FIXTURE_H
#define LQ_TEST_PEER_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <uv.h>

#include <cmocka.h>

#include "client/base/buf.h"
#include "client/base/clock.h"
#include "raft/frame.h"
#include "raft/transport.h"

#define NODES_MAX   4
#define DEADLINE_MS 20000
#define GOT_MAX     65536

/* A frame that a node received. */
struct got {
    enum lq_frame_type type;
    uint64_t group;
    uint32_t from, size, crc; /* crc of the whole payload */
    uint64_t sequence;        /* the first 8 bytes of the head; 0 when there are fewer */
};

struct node {
    struct net *net;
    struct lq_transport *transport;
    struct lq_transport_options options;
    struct got *got;
    size_t got_count;
    unsigned ups, downs, refused_downs, rejections, replacements;
    uint32_t last_up, last_down;
    lightq_status rejected_status;
    char rejected_text[LQ_ERR_TEXT_BYTES];
    bool use_identify;
    lightq_status identify_status, receive_status; /* what the callbacks return */
    unsigned identified;
    bool closed;
    struct lq_slab *kept; /* of the last frame received, when keep is set */
    bool keep;
};

struct net {
    uv_loop_t loop;
    uv_timer_t tick; /* so that a wait looks at its condition now and then */
    struct node nodes[NODES_MAX];
    size_t count;
    int sockets[2048]; /* plain ones, closed at the end */
    size_t socket_count;
};

/* cmocka's. Tear-down closes what is open and fails on a handle left over. */
int net_setup(void **state);
int net_teardown(void **state);

/* Defaults for node @id: cluster 7, its own uuid, boot 5. Not started. */
struct node *net_node(struct net *net, uint32_t id);
void node_start(struct node *node, uint16_t port);
void node_close(struct node *node);
/* A closed node, made again with its options. */
void node_restart(struct node *node, uint16_t port);
/* Both know each other's address. */
void net_join(struct node *a, struct node *b);
struct lq_link *node_link(struct node *node);
struct lq_transport_counters node_counters(const struct node *node);
struct lq_id id_of(uint8_t byte);

/* One turn: events, then what transports have queued. */
void net_turn(struct net *net);
uint64_t net_now_ms(void);

#define WAIT_UNTIL(net, condition)                              \
    do {                                                        \
        uint64_t wait_end_ = net_now_ms() + DEADLINE_MS;        \
        while (!(condition)) {                                  \
            if (net_now_ms() > wait_end_) {                     \
                fail_msg("waited in vain for: %s", #condition); \
            }                                                   \
            net_turn(net);                                      \
        }                                                       \
    } while (0)

/* A frame with sequence number @sequence in its head and @body_size bytes that depend on it. Returns send's status. */
lightq_status send_numbered(struct node *node, uint32_t to, enum lq_frame_type type, uint64_t sequence,
                            uint32_t body_size);

/* ---- plain sockets ---- */

int raw_connect(struct net *net, uint16_t port);
int raw_listen(struct net *net, uint16_t *port);
/* Waits for a connection. */
int raw_accept(struct net *net, int listener);
void raw_close(struct net *net, int fd);
void raw_send(int fd, const void *bytes, size_t size);
/* Waits until @size bytes are there. */
void raw_receive(struct net *net, int fd, void *bytes, size_t size);
/* True when the other side has closed it (nothing is read but the end). */
bool raw_is_closed(int fd);
/* A hello of node @id with the fixture's defaults; to be changed before raw_send_hello. */
struct lq_hello raw_hello(uint32_t id, uint32_t to);
void raw_send_hello(int fd, const struct lq_hello *hello);
/* Waits for a hello frame and decodes it. */
void raw_receive_hello(struct net *net, int fd, enum lq_hello_kind kind, struct lq_hello *hello);
/* An identified connection as node @id to @node. */
int raw_connect_as(struct net *net, struct node *node, uint32_t id);
/* Writes header and payload with a right crc. */
void raw_send_frame(int fd, enum lq_frame_type type, uint64_t group, const void *head, uint32_t head_size);

#endif
