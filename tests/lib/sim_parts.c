/* tests/lib/sim_parts.c - see sim_parts.h. */
#include "tests/lib/sim_parts.h"

#define UUID_MARK 0xaa /* in the uuids of founders */

const struct lq_id sim_parts_cluster = {.bytes = {0xc1, 2, 3}};

struct lq_endpoint sim_parts_endpoint(unsigned port)
{
    return (struct lq_endpoint){.host = "127.0.0.1", .port = (uint16_t)port};
}

static struct lq_id founder_uuid(unsigned node)
{
    return (struct lq_id){.bytes = {(uint8_t)node, UUID_MARK}};
}

void sim_parts_make_founder(struct sim_node *node, unsigned founders, unsigned client_port, unsigned peer_port,
                            struct lq_identity *identity)
{
    lq_identity_make(node->id, 1, &node->clock, identity);
    identity->uuid = founder_uuid(node->id);
    identity->state = LQ_IDENTITY_MEMBER;
    identity->founder = true;
    identity->meta_incarnation = LQ_INCARNATION_FOUNDER;
    identity->cluster = sim_parts_cluster;
    identity->proposal = (struct lq_cluster_proposal){
        .cluster = sim_parts_cluster, .proposer = 1, .proposer_uuid = founder_uuid(1), .round = 1};
    identity->proposal.founders.count = founders;
    for (unsigned i = 0; i < founders; i++) {
        identity->proposal.founders.at[i] = (struct lq_founder){.node = i + 1,
                                                                .uuid = founder_uuid(i + 1),
                                                                .client = sim_parts_endpoint(client_port + i + 1),
                                                                .peer = sim_parts_endpoint(peer_port + i + 1)};
    }
}

void sim_parts_tell_links(struct sim_node *node, struct lq_meta *meta)
{
    for (unsigned id = 1; id <= sim_nodes(node->sim); id++) {
        if (id != node->id && node->link.ops->connected(&node->link, id)) {
            lq_meta_host_events.link_changed(meta, id, true);
        }
    }
}

void sim_parts_say_hello_again(struct sim_node *node)
{
    for (unsigned i = 0; i < sim_nodes(node->sim); i++) {
        if (i + 1 != node->id) {
            sim_break(node->sim, node->id - 1, i, false, 0);
        }
    }
}

lightq_status sim_parts_node_frame(struct lq_meta *meta, struct lq_forming *forming, uint32_t from,
                                   const struct lq_frame_in *frame)
{
    if (meta != NULL) {
        return lq_meta_host_events.node_frame(meta, from, frame);
    }
    return forming == NULL ? LIGHTQ_OK : lq_forming_link_events.receive(forming, from, frame);
}

void sim_parts_link_changed(struct lq_meta *meta, struct lq_forming *forming, uint32_t node, bool up)
{
    if (meta != NULL) {
        lq_meta_host_events.link_changed(meta, node, up);
    } else if (forming != NULL && up) {
        lq_forming_link_events.up(forming, node);
    } else if (forming != NULL) {
        lq_forming_link_events.down(forming, node, false);
    }
}
