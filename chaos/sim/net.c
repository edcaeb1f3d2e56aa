/* chaos/sim/net.c - see net.h. */
#include "chaos/sim/net.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "chaos/sim/world.h"
#include "node/router.h"

enum {
    DELAY_MIN_US = 50,
    DELAY_MAX_US = 400,
    SLOW_MAX_US = 3000000,
    RESET_MAX_US = 5000,
    GREETING_MAX_US = 1000000,
    HEARTBEAT_US = 3000000,
    FRAME_MAX = 1024 * 1024,
};

/* Whose connection a number is. */
struct line_of {
    struct client *client; /* NULL: closed by the client */
    unsigned node;
    bool dead; /* something was lost on it: nothing comes after that, and nobody is told */
};

/* A message on its way. Freed when it arrives, or with the world. */
struct packet {
    struct world *world;
    struct client *client;
    unsigned node, boots;
    lq_peer peer;
    bool to_node, reset; /* reset: no message, but the news that the connection is gone */
    uint8_t *frame;
    size_t frame_size;
    struct lq_slab *payload;
    uint32_t payload_offset, payload_size;
    struct packet *prev, *next;
};

void net_init(struct net *net, struct world *world)
{
    *net = (struct net){.world = world};
}

static void packet_free(struct packet *packet)
{
    DL_DELETE(packet->world->net.packets, packet);
    lq_slab_unref(packet->payload);
    free(packet->frame);
    free(packet);
}

void net_deinit(struct net *net)
{
    while (net->packets != NULL) {
        packet_free(net->packets);
    }
    free(net->peers);
    net->peers = NULL;
}

static void arrive(struct sim *sim, void *data);

static struct packet *packet_new(struct client *client, unsigned node)
{
    struct packet *packet = calloc(1, sizeof *packet);
    assert(packet != NULL);
    packet->world = client->world;
    packet->client = client;
    packet->node = node;
    packet->peer = client->lines[node].peer;
    packet->boots = client->lines[node].boots;
    DL_APPEND(client->world->net.packets, packet);
    return packet;
}

/* @last_us: when the one before it arrives. */
static void send_packet(struct packet *packet, uint64_t *last_us)
{
    struct world *world = packet->world;
    uint64_t delay_us = DELAY_MIN_US + world_below(world, DELAY_MAX_US - DELAY_MIN_US);
    if (world_below(world, 1000) < world->net.slow_per_mille) {
        delay_us += world_below(world, SLOW_MAX_US);
    }
    uint64_t at_us = world_now(world) + delay_us;
    at_us = at_us < *last_us ? *last_us : at_us;
    *last_us = at_us;
    sim_plan(world->sim, at_us - world_now(world), arrive, packet);
}

/* ---- arriving */

/* Whether the network takes it away. */
static bool is_lost(const struct packet *packet)
{
    struct line_of *line = &packet->world->net.peers[packet->peer];
    line->dead = line->dead || packet->client->cut[packet->node];
    return line->dead;
}

/* The connection is gone, and the client learns it. */
static void lose_line(struct client *client, unsigned node)
{
    client_close(client, node);
    client->ops->lost(client->owner, node);
}

static void arrive_at_node(struct packet *packet)
{
    struct world *world = packet->world;
    struct client *client = packet->client;
    struct machine *machine = &world->machines[packet->node];
    if (is_lost(packet)) {
        packet_free(packet);
        return;
    }
    if (!sim_is_up(machine->node) || machine->boots != packet->boots) { /* refused or reset */
        if (client->lines[packet->node].peer == packet->peer) {
            lose_line(client, packet->node);
        }
        packet_free(packet);
        return;
    }
    const struct lq_front_message message = {
        .peer = packet->peer, .frame = packet->frame, .frame_size = packet->frame_size, .payload = packet->payload};
    lq_router_receive(&machine->service, &message);
    sim_touch(machine->node);
    packet_free(packet);
}

static void on_greeted(struct client *client, unsigned node, const Lightq__Wire__HelloAnswer *answer)
{
    if (answer->status == LIGHTQ_OK) {
        client->lines[node].state = LINE_OPEN;
    } else {
        lose_line(client, node);
    }
}

static void arrive_at_client(struct packet *packet)
{
    struct client *client = packet->client;
    struct letter letter = {
        .payload = packet->payload, .payload_offset = packet->payload_offset, .payload_size = packet->payload_size};
    const uint8_t *bytes;
    void *body = NULL;
    struct lq_err err = {.text = ""};
    bool wanted = client->lines[packet->node].peer == packet->peer && client->lines[packet->node].state != LINE_CLOSED;
    if (!wanted || is_lost(packet)) {
        packet_free(packet);
        return;
    }
    client->lines[packet->node].heard_us = world_now(packet->world);
    if (packet->reset) {
        lose_line(client, packet->node);
        packet_free(packet);
        return;
    }
    lightq_status status = lq_frame_decode(packet->frame, packet->frame_size, &letter.envelope, &bytes, &err);
    if (status == LIGHTQ_OK) {
        status = lq_codec_unpack(letter.envelope.type, bytes, letter.envelope.body_size, &body, &err);
    }
    if (status != LIGHTQ_OK) {
        sim_fail(client->world->sim, "node %u sends a client what is not the protocol: %s", packet->node + 1, err.text);
        packet_free(packet);
        return;
    }
    letter.body = body;
    switch (letter.envelope.type) {
    case LQ_MESSAGE_HELLO_ANSWER:
        on_greeted(client, packet->node, body);
        break;
    case LQ_MESSAGE_HEARTBEAT:
    case LQ_MESSAGE_HEARTBEAT_ANSWER:
        break;
    case LQ_MESSAGE_ERROR: /* the session ended, or the node is not ready */
    case LQ_MESSAGE_BYE:
        lose_line(client, packet->node);
        break;
    default:
        client->ops->receive(client->owner, packet->node, &letter);
        break;
    }
    lq_codec_free(body);
    packet_free(packet);
}

static void arrive(struct sim *sim, void *data)
{
    struct packet *packet = data;
    const struct sim_node *node = sim_node_at(sim, packet->node);
    if (packet->to_node && sim_is_up(node) && node->paused_until_us > sim_now_us(sim)) {
        sim_plan(sim, node->paused_until_us - sim_now_us(sim), arrive, packet);
    } else if (packet->to_node) {
        arrive_at_node(packet);
    } else {
        arrive_at_client(packet);
    }
}

/* ---- the client's side */

void client_init(struct client *client, struct world *world, const struct client_ops *ops, void *owner)
{
    *client = (struct client){.world = world, .ops = ops, .owner = owner, .next = world->net.clients};
    world->net.clients = client;
}

void client_close(struct client *client, unsigned node)
{
    struct line *line = &client->lines[node];
    if (line->state != LINE_CLOSED) {
        line->state = LINE_CLOSED;
        client->world->net.peers[line->peer].client = NULL;
    }
}

static lq_peer new_peer(struct client *client, unsigned node)
{
    struct net *net = &client->world->net;
    if (net->peer_count == net->peer_capacity) {
        net->peer_capacity = net->peer_capacity == 0 ? 256 : net->peer_capacity * 2;
        net->peers = realloc(net->peers, net->peer_capacity * sizeof *net->peers);
        assert(net->peers != NULL);
    }
    net->peer_count += net->peer_count == 0; /* 0 is none */
    net->peers[net->peer_count] = (struct line_of){.client = client, .node = node};
    return (lq_peer)net->peer_count++;
}

static uint64_t send_to(struct client *client, unsigned node, uint16_t type, const ProtobufCMessage *message,
                        uint64_t group, struct lq_slab *payload)
{
    struct lq_writer writer;
    struct line *line = &client->lines[node];
    struct lq_envelope envelope = {.type = type,
                                   .correlation = ++client->correlation,
                                   .group = group,
                                   .flags = payload == NULL ? 0 : LQ_ENVELOPE_FLAG_PAYLOAD};
    lq_writer_init(&writer, FRAME_MAX);
    lightq_status status = lq_codec_frame(&envelope, message, &writer);
    assert(status == LIGHTQ_OK);
    struct packet *packet = packet_new(client, node);
    packet->to_node = true;
    packet->frame = writer.bytes; /* its owner from now on */
    packet->frame_size = writer.size;
    packet->payload = payload == NULL ? NULL : lq_slab_ref(payload);
    line->said_us = world_now(client->world);
    send_packet(packet, &line->out_us);
    return envelope.correlation;
}

bool client_open(struct client *client, unsigned node)
{
    struct line *line = &client->lines[node];
    uint64_t now_us = world_now(client->world);
    if (line->state == LINE_GREETING && now_us > line->opened_us + GREETING_MAX_US) {
        client_close(client, node);
    }
    if (line->state == LINE_CLOSED) {
        Lightq__Wire__Hello hello = LIGHTQ__WIRE__HELLO__INIT;
        hello.version_min = LQ_PROTOCOL_VERSION_MIN;
        hello.version_max = LQ_PROTOCOL_VERSION_MAX;
        *line = (struct line){.state = LINE_GREETING,
                              .peer = new_peer(client, node),
                              .boots = client->world->machines[node].boots,
                              .opened_us = now_us};
        (void)send_to(client, node, LQ_MESSAGE_HELLO, &hello.base, 0, NULL);
    }
    return line->state == LINE_OPEN;
}

uint64_t client_send(struct client *client, unsigned node, uint16_t type, const ProtobufCMessage *message,
                     uint64_t group, struct lq_slab *payload)
{
    assert(client->lines[node].state == LINE_OPEN);
    client->world->result.operations++;
    return send_to(client, node, type, message, group, payload);
}

void client_beat(struct client *client)
{
    for (unsigned node = 0; node < client->world->nodes; node++) {
        const struct line *line = &client->lines[node];
        if (line->state == LINE_OPEN && world_now(client->world) > line->said_us + HEARTBEAT_US) {
            Lightq__Wire__Heartbeat beat = LIGHTQ__WIRE__HEARTBEAT__INIT;
            (void)send_to(client, node, LQ_MESSAGE_HEARTBEAT, &beat.base, 0, NULL);
        }
    }
}

/* ---- the node's side */

lightq_status net_send_back(struct net *net, struct machine *machine, lq_peer peer, const struct lq_packet *sent)
{
    assert(peer < net->peer_count);
    struct client *client = net->peers[peer].client;
    unsigned node = machine->node->id - 1;
    if (client == NULL || client->lines[node].peer != peer) {
        return LIGHTQ_ECLOSED;
    }
    struct packet *packet = packet_new(client, node);
    packet->frame = malloc(sent->frame_size);
    assert(packet->frame != NULL);
    memcpy(packet->frame, sent->frame, sent->frame_size);
    packet->frame_size = sent->frame_size;
    packet->payload = sent->payload == NULL ? NULL : lq_slab_ref(sent->payload);
    packet->payload_offset = sent->payload_offset;
    packet->payload_size = sent->payload_size;
    send_packet(packet, &client->lines[node].in_us);
    return LIGHTQ_OK;
}

void net_close_back(struct net *net, struct machine *machine, lq_peer peer)
{
    unsigned node = machine->node->id - 1;
    struct client *client = peer < net->peer_count ? net->peers[peer].client : NULL;
    if (client != NULL && client->lines[node].peer == peer) {
        struct packet *packet = packet_new(client, node);
        packet->reset = true;
        send_packet(packet, &client->lines[node].in_us);
    }
}

/* Its connections are reset. */
void net_node_gone(struct net *net, struct machine *machine)
{
    unsigned node = machine->node->id - 1;
    for (struct client *client = net->clients; client != NULL; client = client->next) {
        if (client->lines[node].state != LINE_CLOSED && client->lines[node].boots == machine->boots) {
            struct packet *packet = packet_new(client, node);
            packet->reset = true;
            sim_plan(net->world->sim, world_below(net->world, RESET_MAX_US), arrive, packet);
        }
    }
}
