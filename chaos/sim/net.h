/* chaos/sim/net.h - the way between clients and nodes: connections as libzmq makes them. Messages of one connection
 * come in order, once; a connection can break and lose what is on its way, and only the client may come to know; a new
 * one may overtake what is still on its way on the one before. Used by producer.c, reader.c and machine.c. */
#ifndef LQ_SIM_NET_H
#define LQ_SIM_NET_H

#include "chaos/sim/machine.h"
#include "client/wire/codec.h"
#include "node/outlet.h"

struct world;
struct client;

/* What a client gets. Borrowed during the call. */
struct letter {
    struct lq_envelope envelope;
    const void *body; /* unpacked: the struct of envelope.type */
    struct lq_slab *payload;
    uint32_t payload_offset, payload_size;
};

struct client_ops {
    void (*receive)(void *owner, unsigned node, const struct letter *letter);
    void (*lost)(void *owner, unsigned node); /* what was asked there is not answered any more */
};

enum line_state { LINE_CLOSED, LINE_GREETING, LINE_OPEN };

/* A client's connection to a node. */
struct line {
    enum line_state state;
    lq_peer peer;
    unsigned boots; /* of the node, when it was opened */
    uint64_t opened_us, said_us, heard_us, out_us, in_us;
};

struct client {
    struct world *world;
    const struct client_ops *ops;
    void *owner;
    struct line lines[MACHINE_NODES_MAX];
    bool cut[MACHINE_NODES_MAX]; /* nothing gets through, either way */
    uint64_t correlation;
    struct client *next;
};

struct packet;
struct net {
    struct world *world;
    struct client *clients;
    struct packet *packets; /* on their way */
    struct line_of *peers;  /* by lq_peer */
    size_t peer_count, peer_capacity;
    unsigned slow_per_mille; /* messages that take long */
};

void net_init(struct net *net, struct world *world);
void net_deinit(struct net *net);

void client_init(struct client *client, struct world *world, const struct client_ops *ops, void *owner);
/* True when the connection is open and greeted; else it is being opened. */
bool client_open(struct client *client, unsigned node);
/* On an open connection. Gives the correlation. @payload is referenced. */
uint64_t client_send(struct client *client, unsigned node, uint16_t type, const ProtobufCMessage *message,
                     uint64_t group, struct lq_slab *payload);
/* What is on its way may still arrive. lost() is not called. */
void client_close(struct client *client, unsigned node);
/* Heartbeats. To be called now and then. */
void client_beat(struct client *client);

/* For machine.c: an answer or a delivery. OK | ECLOSED. */
lightq_status net_send_back(struct net *net, struct machine *machine, lq_peer peer,
                            const struct lq_packet *packet) LQ_MUST_CHECK;
/* The node closes the connection, behind what it has sent. */
void net_close_back(struct net *net, struct machine *machine, lq_peer peer);
void net_node_gone(struct net *net, struct machine *machine);

#endif
