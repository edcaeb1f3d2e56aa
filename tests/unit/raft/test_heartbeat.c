/* tests/unit/raft/test_heartbeat.c - the frames that speak for all groups of a node, and encoded configurations. */
#include <stdlib.h>

#include "tests/unit/raft/rpc_fixture.h"

enum { BEAT = 64, RESULT = 56, HEAD = 8 };

static struct lq_heartbeat beat_of(uint64_t group)
{
    return (struct lq_heartbeat){
        .group = group, .from = FROM, .to = TO, .term = 9, .prev_index = 100, .prev_term = 7, .commit = 90};
}

static struct lq_heartbeat_result result_of(uint64_t group)
{
    return (struct lq_heartbeat_result){.group = group,
                                        .from = FROM,
                                        .to = TO,
                                        .term = 9,
                                        .rejected = 0,
                                        .last_index = 100,
                                        .features = 1,
                                        .capacity = 7,
                                        .version = 2};
}

/* Two beats and one result, encoded and delivered. */
static struct lq_frame_in delivered(struct lq_rpc_head *head)
{
    struct lq_heartbeat beats[2] = {beat_of(1), beat_of(2)};
    struct lq_heartbeat_result result = result_of(3);
    struct lq_frame frame;
    assert_int_equal(lq_rpc_encode_heartbeats(beats, 2, &result, 1, head, &frame), LIGHTQ_OK);
    struct lq_frame_in in = deliver(&frame);
    lq_slab_unref(frame.body);
    return in;
}

static void assert_same_beat(const struct lq_heartbeat *a, const struct lq_heartbeat *b)
{
    assert_int_equal(a->group, b->group);
    assert_int_equal(a->from, b->from);
    assert_int_equal(a->to, b->to);
    assert_int_equal(a->term, b->term);
    assert_int_equal(a->prev_index, b->prev_index);
    assert_int_equal(a->prev_term, b->prev_term);
    assert_int_equal(a->commit, b->commit);
    assert_int_equal(a->version, b->version);
}

static void test_heartbeat_frame_comes_out_the_same(void **state)
{
    (void)state;
    struct lq_rpc_head head;
    struct lq_frame_in in = delivered(&head);
    struct lq_heartbeats heartbeats;

    assert_int_equal(lq_rpc_decode_heartbeats(&in, NODE, SELF, &heartbeats, NULL), LIGHTQ_OK);

    assert_int_equal(heartbeats.beat_count, 2);
    assert_int_equal(heartbeats.result_count, 1);
    for (uint32_t i = 0; i < 2; i++) {
        struct lq_heartbeat beat, expected = beat_of(i + 1);
        lq_heartbeats_beat(&heartbeats, i, &beat);
        assert_same_beat(&beat, &expected);
    }
    struct lq_heartbeat_result result, expected = result_of(3);
    lq_heartbeats_result(&heartbeats, 0, &result);
    assert_int_equal(result.group, expected.group);
    assert_int_equal(result.term, expected.term);
    assert_int_equal(result.rejected, expected.rejected);
    assert_int_equal(result.last_index, expected.last_index);
    assert_int_equal(result.features, expected.features);
    assert_int_equal(result.capacity, expected.capacity);
    assert_int_equal(result.version, expected.version);
    lq_slab_unref(in.slab);
}

static void test_heartbeat_survives_the_way_through_libraft_messages(void **state)
{
    (void)state;
    struct raft_message message;
    struct lq_heartbeat beat = beat_of(5), beat_back;
    lq_heartbeat_message(&beat, &message);
    assert_int_equal(message.type, RAFT_APPEND_ENTRIES);
    assert_int_equal(message.server_id, FROM);
    assert_int_equal(message.append_entries.n_entries, 0);
    message.server_id = TO;
    lq_heartbeat_of(5, FROM, &message, &beat_back);
    assert_same_beat(&beat, &beat_back);

    struct lq_heartbeat_result result = result_of(5), result_back;
    lq_heartbeat_result_message(&result, &message);
    assert_int_equal(message.type, RAFT_APPEND_ENTRIES_RESULT);
    assert_int_equal(message.server_id, FROM);
    message.server_id = TO;
    message.append_entries_result.last_log_index = UINT64_MAX; /* as libraft leaves it for an old term */
    lq_heartbeat_result_of(5, FROM, &message, &result_back);
    assert_int_equal(result_back.last_index, 0);
    assert_int_equal(result_back.term, result.term);
    assert_int_equal(result_back.capacity, result.capacity);
}

static void expect_refused(unsigned at, unsigned width, uint64_t value, const char *text)
{
    struct lq_rpc_head head;
    struct lq_frame_in in = delivered(&head);
    struct lq_heartbeats heartbeats;
    struct lq_err err;
    memcpy(in.slab->bytes + in.offset + at, &value, width);

    assert_int_equal(lq_rpc_decode_heartbeats(&in, NODE, SELF, &heartbeats, &err), LIGHTQ_EPROTO);

    if (strstr(err.text, text) == NULL) {
        fail_msg("'%s' does not speak of '%s'", err.text, text);
    }
    lq_slab_unref(in.slab);
}

static void test_heartbeat_frame_with_bad_counts_is_refused(void **state)
{
    (void)state;
    expect_refused(0, 4, 1, "1 heartbeats and 1 results in 184 bytes");
    expect_refused(0, 4, 3, "3 heartbeats and 1 results");
    expect_refused(4, 4, 0, "2 heartbeats and 0 results");
    expect_refused(0, 4, UINT32_MAX, "4294967295 heartbeats");
    expect_refused(0, 8, 0, "0 heartbeats and 0 results");
    expect_refused(0, 8, UINT64_MAX, "heartbeats and 4294967295 results");
}

static void test_heartbeat_with_a_bad_field_is_refused(void **state)
{
    (void)state;
    const unsigned second = HEAD + BEAT;
    expect_refused(second + 8, 8, 0, "not a replica id (sender)");
    expect_refused(second + 8, 8, lq_replica_make(9, 1), "from node 9");
    expect_refused(second + 16, 8, lq_replica_make(9, 1), "for node 9");
    expect_refused(second + 24, 8, 0, "term 0");
    expect_refused(second + 24, 8, UINT64_MAX, "term");
    expect_refused(second + 32, 8, 0, "only one of them is 0");
    expect_refused(second + 40, 8, 0, "only one of them is 0");
    expect_refused(second + 40, 8, 10, "above the message's 9");
    expect_refused(second + 48, 8, UINT64_MAX, "commit index");
    expect_refused(second + 56, 1, 1, "message version 1 is not 0");
    expect_refused(second + 57, 1, 1, "reserved");
    expect_refused(second + 63, 1, 1, "reserved");
}

static void test_heartbeat_result_with_a_bad_field_is_refused(void **state)
{
    (void)state;
    const unsigned result = HEAD + 2 * BEAT;
    expect_refused(result + 8, 8, UINT64_MAX, "not a replica id (sender)");
    expect_refused(result + 16, 8, 0, "not a replica id (receiver)");
    expect_refused(result + 24, 8, UINT64_MAX, "term");
    expect_refused(result + 32, 8, UINT64_MAX, "rejected index");
    expect_refused(result + 40, 8, UINT64_MAX, "last index");
    expect_refused(result + 48, 1, 0, "message version 0 is not 2");
    expect_refused(result + 49, 1, 1, "reserved");
    expect_refused(result + 54, 2, 1, "reserved");
}

static void test_heartbeat_frame_of_another_shape_is_refused(void **state)
{
    (void)state;
    struct lq_rpc_head head;
    struct lq_frame_in in = delivered(&head);
    struct lq_heartbeats heartbeats;

    in.group = 1;
    assert_int_equal(lq_rpc_decode_heartbeats(&in, NODE, SELF, &heartbeats, NULL), LIGHTQ_EPROTO);
    in.group = 0, in.head_size = 4;
    assert_int_equal(lq_rpc_decode_heartbeats(&in, NODE, SELF, &heartbeats, NULL), LIGHTQ_EPROTO);
    in.head_size = 8, in.type = LQ_FRAME_STATUS;
    assert_int_equal(lq_rpc_decode_heartbeats(&in, NODE, SELF, &heartbeats, NULL), LIGHTQ_EPROTO);
    in.type = LQ_FRAME_HEARTBEATS, in.size -= 1;
    assert_int_equal(lq_rpc_decode_heartbeats(&in, NODE, SELF, &heartbeats, NULL), LIGHTQ_EPROTO);
    in.size += 1;
    assert_int_equal(lq_rpc_decode_heartbeats(&in, NODE, SELF, &heartbeats, NULL), LIGHTQ_OK);
    lq_slab_unref(in.slab);
}

static void test_heartbeat_frame_takes_the_most_and_no_more(void **state)
{
    (void)state;
    struct lq_heartbeat *beats = calloc(LQ_PEER_HEARTBEATS_MAX + 1, sizeof *beats);
    struct lq_heartbeat_result result = result_of(3);
    assert_non_null(beats);
    for (unsigned i = 0; i <= LQ_PEER_HEARTBEATS_MAX; i++) {
        beats[i] = beat_of(i);
    }
    struct lq_rpc_head head;
    struct lq_frame frame;

    assert_int_equal(lq_rpc_encode_heartbeats(beats, LQ_PEER_HEARTBEATS_MAX + 1, NULL, 0, &head, &frame),
                     LIGHTQ_EINVAL);
    assert_int_equal(lq_rpc_encode_heartbeats(beats, LQ_PEER_HEARTBEATS_MAX, &result, 1, &head, &frame), LIGHTQ_EINVAL);
    assert_int_equal(lq_rpc_encode_heartbeats(NULL, 0, NULL, 0, &head, &frame), LIGHTQ_EINVAL);
    beats[7].term = 0;
    assert_int_equal(lq_rpc_encode_heartbeats(beats, 8, NULL, 0, &head, &frame), LIGHTQ_EINVAL);
    result.to = 0;
    assert_int_equal(lq_rpc_encode_heartbeats(beats, 1, &result, 1, &head, &frame), LIGHTQ_EINVAL);
    beats[7].term = 9;
    assert_int_equal(lq_rpc_encode_heartbeats(beats, LQ_PEER_HEARTBEATS_MAX, NULL, 0, &head, &frame), LIGHTQ_OK);
    struct lq_frame_in in = deliver(&frame);
    struct lq_heartbeats heartbeats;
    assert_int_equal(lq_rpc_decode_heartbeats(&in, NODE, SELF, &heartbeats, NULL), LIGHTQ_OK);

    assert_int_equal(heartbeats.beat_count, LQ_PEER_HEARTBEATS_MAX);
    lq_slab_unref(in.slab);
    lq_slab_unref(frame.body);
    free(beats);
}

/* ---- node status ---- */

static void test_status_frame_comes_out_the_same_and_nonsense_is_refused(void **state)
{
    (void)state;
    struct lq_node_status status = {.free_bytes = 5, .total_bytes = 9, .groups = 4, .leading = 2}, back;
    struct lq_rpc_head head;
    struct lq_frame frame;

    lq_rpc_encode_status(&status, &head, &frame);
    struct lq_frame_in in = deliver(&frame);
    assert_int_equal(lq_rpc_decode_status(&in, &back, NULL), LIGHTQ_OK);
    assert_memory_equal(&status, &back, sizeof status);

    in.slab->bytes[in.offset] = 10; /* more free than there is */
    assert_int_equal(lq_rpc_decode_status(&in, &back, NULL), LIGHTQ_EPROTO);
    in.slab->bytes[in.offset] = 5, in.slab->bytes[in.offset + 20] = 5;
    assert_int_equal(lq_rpc_decode_status(&in, &back, NULL), LIGHTQ_EPROTO);
    in.slab->bytes[in.offset + 20] = 2, in.size = 23;
    assert_int_equal(lq_rpc_decode_status(&in, &back, NULL), LIGHTQ_EPROTO);
    in.size = 24, in.group = 1;
    assert_int_equal(lq_rpc_decode_status(&in, &back, NULL), LIGHTQ_EPROTO);
    lq_slab_unref(in.slab);
}

/* ---- configurations ---- */

static void test_configuration_of_libraft_passes_and_reads_the_same(void **state)
{
    (void)state;
    struct raft_configuration configuration;
    raft_configuration_init(&configuration);
    for (unsigned i = 1; i <= LQ_SERVERS_MAX; i++) {
        char address[8];
        snprintf(address, sizeof address, "n%u", i);
        assert_int_equal(raft_configuration_add(&configuration, lq_replica_make(i, i), address, (int)(i % 3)), 0);
    }
    struct raft_buffer encoded;
    assert_int_equal(raft_configuration_encode(&configuration, &encoded), 0);
    struct lq_servers servers;

    assert_int_equal(lq_rpc_check_configuration(encoded.base, encoded.len, &servers, NULL), LIGHTQ_OK);

    assert_int_equal(servers.count, LQ_SERVERS_MAX);
    for (unsigned i = 0; i < servers.count; i++) {
        assert_int_equal(servers.at[i].id, configuration.servers[i].id);
        assert_int_equal((int)servers.at[i].role, configuration.servers[i].role);
    }
    raft_free(encoded.base);
    raft_configuration_close(&configuration);
}

static void expect_configuration_refused(const uint8_t *source, size_t size, const char *text)
{
    struct lq_err err;
    uint8_t *exact = malloc(size == 0 ? 1 : size); /* so that a sanitizer sees a read past the end */
    assert_non_null(exact);
    memcpy(exact, source, size);
    assert_int_equal(lq_rpc_check_configuration(exact, size, NULL, &err), LIGHTQ_EPROTO);
    if (strstr(err.text, text) == NULL) {
        fail_msg("'%s' does not speak of '%s'", err.text, text);
    }
    free(exact);
}

static void test_configuration_that_is_malformed_is_refused(void **state)
{
    (void)state;
    enum { FIRST = 9, SERVER = 11 }; /* id 8, "a" and its zero, role */
    uint8_t good[256], bad[4096];
    uint32_t size = make_configuration(good, 3); /* 9 + 33, padded to 48 */
    assert_int_equal(lq_rpc_check_configuration(good, size, NULL, NULL), LIGHTQ_OK);

#define TAMPERED(...) (memcpy(bad, good, size), __VA_ARGS__, bad)
    expect_configuration_refused(good, 0, "0 is not the size");
    expect_configuration_refused(good, size - 1, "is not the size");
    expect_configuration_refused(good, size - 8, "ends within a server");
    expect_configuration_refused(good, 8, "format 1 with 0 servers");
    expect_configuration_refused(TAMPERED(bad[0] = 2), size, "format 2");
    expect_configuration_refused(TAMPERED(bad[1] = 0), size, "0 servers");
    expect_configuration_refused(TAMPERED(bad[1] = LQ_SERVERS_MAX + 1), size, "17 servers");
    expect_configuration_refused(TAMPERED(memset(bad + 1, 0xff, 8)), size, "18446744073709551615 servers");
    expect_configuration_refused(TAMPERED(bad[1] = 4), size, "ends within a server");
    expect_configuration_refused(TAMPERED(bad[1] = 2), size, "bytes behind its end");
    expect_configuration_refused(TAMPERED(bad[size - 1] = 1), size, "padding is not zero");
    expect_configuration_refused(TAMPERED(memset(bad + FIRST, 0, 8)), size, "0 is not a replica id");
    expect_configuration_refused(TAMPERED(memset(bad + FIRST, 0xff, 8)), size, "is not a replica id");
    expect_configuration_refused(TAMPERED(bad[FIRST + 10] = 3), size, "3 is not a role");
    expect_configuration_refused(TAMPERED(memcpy(bad + FIRST + SERVER, bad + FIRST, 8)), size, "there twice");
    expect_configuration_refused(TAMPERED(bad[FIRST + SERVER + 8] = 'a'), size, "there twice");
    /* No address ends: libraft's decoder would go on behind the buffer. */
    expect_configuration_refused(TAMPERED(memset(bad + FIRST + 8, 'x', size - FIRST - 8)), size,
                                 "ends within a server");
#undef TAMPERED

    memset(bad, 'x', sizeof bad); /* one server with an address that is too long */
    bad[0] = 1;
    lq_put_u64(bad + 1, 1);
    lq_put_u64(bad + 9, TO);
    bad[17 + LQ_HOST_BYTES_MAX + 1] = 0;
    expect_configuration_refused(bad, 512, "an address is longer");
    expect_configuration_refused(bad, LQ_CONFIGURATION_BYTES_MAX + 8, "is not the size");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_heartbeat_frame_comes_out_the_same),
        cmocka_unit_test(test_heartbeat_survives_the_way_through_libraft_messages),
        cmocka_unit_test(test_heartbeat_frame_with_bad_counts_is_refused),
        cmocka_unit_test(test_heartbeat_with_a_bad_field_is_refused),
        cmocka_unit_test(test_heartbeat_result_with_a_bad_field_is_refused),
        cmocka_unit_test(test_heartbeat_frame_of_another_shape_is_refused),
        cmocka_unit_test(test_heartbeat_frame_takes_the_most_and_no_more),
        cmocka_unit_test(test_status_frame_comes_out_the_same_and_nonsense_is_refused),
        cmocka_unit_test(test_configuration_of_libraft_passes_and_reads_the_same),
        cmocka_unit_test(test_configuration_that_is_malformed_is_refused),
    };
    return cmocka_run_group_tests_name("heartbeat", tests, NULL, NULL);
}
