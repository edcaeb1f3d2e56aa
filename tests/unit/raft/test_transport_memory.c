/* tests/unit/raft/test_transport_memory.c - every allocation of the peer links fails once: nothing breaks, a frame is
 * sent whole or not at all, and the link works again by itself. */
#include <stdlib.h>

#include "client/base/crc.h"
#include "tests/lib/alloc_fail.h"
#include "tests/unit/raft/peer_fixture.h"
#include "tests/unit/raft/rpc_fixture.h"

static void set_peer_despite(struct node *node, const struct node *peer)
{
    lightq_status status = LIGHTQ_ENOMEM;
    for (int attempt = 0; status == LIGHTQ_ENOMEM && attempt < 2; attempt++) {
        status = lq_transport_set_peer(node->transport, peer->options.node, "127.1", lq_transport_port(peer->transport),
                                       NULL);
    }
    assert_int_equal(status, LIGHTQ_OK);
}

/* An APPEND with entries of which some are copied and some referenced. Returns send's status. */
static lightq_status send_entries(struct node *node, struct lq_slab *slab, uint64_t sequence)
{
    struct lq_entry_ref refs[200];
    for (uint32_t i = 0; i < 200; i++) { /* enough for the lists to grow */
        refs[i] = (struct lq_entry_ref){.slab = slab, .offset = i * 8, .size = i % 3 == 0 ? 400 : 520};
    }
    uint8_t head[8];
    lq_put_u64(head, sequence);
    struct lq_frame frame = {
        .type = LQ_FRAME_APPEND, .head = head, .head_size = 8, .entries = refs, .entry_count = 200};
    return node_link(node)->ops->send(node_link(node), 2, &frame);
}

static uint32_t crc_of_entries(const struct lq_slab *slab, uint64_t sequence)
{
    uint32_t crc = lq_crc32c(0, &sequence, 8);
    for (uint32_t i = 0; i < 200; i++) {
        crc = lq_crc32c(crc, slab->bytes + i * 8, i % 3 == 0 ? 400 : 520);
    }
    return crc;
}

/* Connects two nodes and sends until frames that were taken have come. */
static void exchange(struct net *net)
{
    struct node *a = &net->nodes[0], *b = &net->nodes[1];
    struct lq_slab *slab = lq_slab_new(4096);
    if (slab == NULL) {
        slab = lq_slab_new(4096);
    }
    assert_non_null(slab);
    memset(slab->bytes, 0x77, slab->size);
    set_peer_despite(a, b);
    set_peer_despite(b, a);
    uint64_t sequence = 0;
    WAIT_UNTIL(net, node_link(a)->ops->connected(node_link(a), 2));
    unsigned ups = a->ups;
    while (b->got_count < 20 || (b->got_count != sequence && a->ups == ups)) {
        lightq_status status = sequence < 20 || a->ups != ups ? send_entries(a, slab, sequence) : LIGHTQ_EBUSY;
        sequence += status == LIGHTQ_OK;
        assert_true(status == LIGHTQ_OK || status == LIGHTQ_ENOMEM || status == LIGHTQ_ECONNECT ||
                    status == LIGHTQ_EBUSY);
        net_turn(net);
        assert_true(sequence < 5000);
    }
    for (size_t i = 0; i < b->got_count; i++) { /* each whole; in order, with a gap where the connection broke */
        assert_int_equal(b->got[i].crc, crc_of_entries(slab, b->got[i].sequence));
        assert_true(i == 0 || b->got[i].sequence > b->got[i - 1].sequence);
        assert_true(a->ups != ups || b->got[i].sequence == i);
    }
    lq_slab_unref(slab);
}

static void test_transport_every_allocation_fails_once_and_it_recovers(void **state)
{
    (void)state;
    bool failed = true;
    for (unsigned nth = 1; failed; nth++) {
        void *made = NULL;
        assert_int_equal(net_setup(&made), 0);
        struct net *net = made;
        struct node *a = net_node(net, 1), *b = net_node(net, 2);
        node_start(a, 0);
        node_start(b, 0);

        lq_alloc_fail_at(nth);
        exchange(net);
        failed = lq_alloc_fail_end();

        assert_int_equal(net_teardown(&made), 0);
        assert_true(nth < 1000);
    }
}

static void test_transport_new_without_memory_says_so(void **state)
{
    struct net *net = *state;
    struct node *a = net_node(net, 1);
    struct lq_transport *transport = NULL;

    lq_alloc_fail_at(1);
    assert_int_equal(lq_transport_new(&a->options, &net->loop, lq_clock_system(), &transport, NULL), LIGHTQ_ENOMEM);
    assert_true(lq_alloc_fail_end());
    node_start(a, 0);
    lq_alloc_fail_at(1);
    assert_int_equal(lq_transport_probe(a->transport, "127.0.0.1", 1, NULL, NULL), LIGHTQ_ENOMEM);
    assert_true(lq_alloc_fail_end());
    lq_alloc_fail_at(2);
    assert_int_equal(lq_transport_probe(a->transport, "127.0.0.1", 1, NULL, NULL), LIGHTQ_ENOMEM);
    assert_true(lq_alloc_fail_end());
    assert_null(transport);
}

/* ---- the messages ---- */

static void test_rpc_append_without_memory_for_its_entries_is_dropped(void **state)
{
    (void)state;
    struct lq_entry entry = {.group = GROUP, .index = 1, .term = 1, .type = LQ_ENTRY_COMMAND};
    struct lq_entry_ref ref = make_entry(&entry);
    struct raft_message message = {
        .type = RAFT_APPEND_ENTRIES, .server_id = TO, .append_entries = {.version = 0, .term = 1}};
    struct lq_rpc_head head;
    struct lq_frame frame;
    assert_int_equal(lq_rpc_encode_append(GROUP, FROM, &message, &ref, 1, &head, &frame), LIGHTQ_OK);
    struct lq_frame_in in = deliver(&frame);
    struct lq_rpc_scratch scratch;
    struct lq_rpc rpc;
    lq_rpc_scratch_init(&scratch, NULL);

    for (unsigned nth = 1; nth <= 2; nth++) {
        lq_alloc_fail_at(nth);
        assert_int_equal(lq_rpc_decode(&in, NODE, SELF, &scratch, &rpc, NULL), LIGHTQ_ENOMEM);
        assert_true(lq_alloc_fail_end());
    }
    assert_int_equal(lq_rpc_decode(&in, NODE, SELF, &scratch, &rpc, NULL), LIGHTQ_OK);
    assert_int_equal(rpc.entry_count, 1);

    struct lq_heartbeat beat = {.from = FROM, .to = TO, .term = 1};
    lq_alloc_fail_at(1);
    assert_int_equal(lq_rpc_encode_heartbeats(&beat, 1, NULL, 0, &head, &frame), LIGHTQ_ENOMEM);
    assert_true(lq_alloc_fail_end());
    lq_rpc_scratch_deinit(&scratch);
    lq_slab_unref(in.slab);
    lq_slab_unref(ref.slab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_transport_every_allocation_fails_once_and_it_recovers),
        cmocka_unit_test_setup_teardown(test_transport_new_without_memory_says_so, net_setup, net_teardown),
        cmocka_unit_test(test_rpc_append_without_memory_for_its_entries_is_dropped),
    };
    return cmocka_run_group_tests_name("transport_memory", tests, NULL, NULL);
}
