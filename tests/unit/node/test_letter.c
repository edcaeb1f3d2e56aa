/* test_letter.c - what node layers say to each other: every kind survives its bytes, and what is cut short, too long or
 * nonsense is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node/letter.h"

static const struct lq_node_card card = {.node = 7,
                                         .shards = 1,
                                         .uuid = {.bytes = {7, 7}},
                                         .boot = 3,
                                         .client = {"broker-7.example", 5600},
                                         .peer = {"10.0.0.7", 5700}};

static struct lq_cluster_proposal proposal(void)
{
    struct lq_cluster_proposal made = {
        .cluster = {.bytes = {1}}, .proposer = 2, .proposer_uuid = {.bytes = {2}}, .round = 9};
    made.founders.count = 2;
    made.founders.at[0] = (struct lq_founder){.node = 2, .uuid = {.bytes = {2}}, .client = {"a", 1}, .peer = {"a", 2}};
    made.founders.at[1] =
        (struct lq_founder){.node = 7, .uuid = {.bytes = {7, 7}}, .client = {"b", 1}, .peer = {"b", 2}};
    return made;
}

/* Encodes, decodes, and tries every shorter piece and one that is longer. */
static void check(const struct lq_letter *letter, struct lq_letter *back, struct lq_writer *writer)
{
    lq_writer_init(writer, LQ_NODE_FRAME_BYTES_MAX);
    lq_letter_encode(letter, writer);
    assert_int_equal(writer->status, LIGHTQ_OK);
    for (size_t size = 0; size < writer->size; size++) {
        uint8_t *piece = malloc(size + 1);
        assert_non_null(piece);
        memcpy(piece, writer->bytes, size);
        assert_int_equal(lq_letter_decode(piece, size, back), LIGHTQ_EPROTO);
        free(piece);
    }
    lq_write_u8(writer, 0);
    assert_int_equal(lq_letter_decode(writer->bytes, writer->size, back), LIGHTQ_EPROTO);
    assert_int_equal(lq_letter_decode(writer->bytes, writer->size - 1, back), LIGHTQ_OK);
    assert_int_equal(back->kind, letter->kind);
}

static void test_info_survives_its_bytes(void **state)
{
    (void)state;
    struct lq_letter back;
    struct lq_writer writer;
    struct lq_letter letter = {
        .kind = LQ_LETTER_INFO,
        .info = {
            .card = card, .expect = 2, .state = LQ_IDENTITY_PROMISED, .has_proposal = true, .proposal = proposal()}};

    check(&letter, &back, &writer);

    assert_memory_equal(&back, &letter, sizeof back);
    lq_writer_deinit(&writer);
    letter.info.state = LQ_IDENTITY_BLANK; /* with a promise: cannot be */
    lq_writer_init(&writer, LQ_NODE_FRAME_BYTES_MAX);
    lq_letter_encode(&letter, &writer);
    assert_int_equal(lq_letter_decode(writer.bytes, writer.size, &back), LIGHTQ_EPROTO);
    lq_writer_deinit(&writer);
}

static void test_join_and_joined_survive_their_bytes(void **state)
{
    (void)state;
    struct lq_letter back;
    struct lq_writer writer;
    const struct lq_letter join = {.kind = LQ_LETTER_JOIN, .join = card};
    const struct lq_letter joined = {.kind = LQ_LETTER_JOINED,
                                     .joined = {.status = LIGHTQ_EIDENTITY,
                                                .uuid = {.bytes = {7}},
                                                .cluster = {.bytes = {1}},
                                                .text = "say: lightq node replace 7 7"}};

    check(&join, &back, &writer);
    assert_memory_equal(&back.join, &card, sizeof card);
    lq_writer_deinit(&writer);
    check(&joined, &back, &writer);
    assert_memory_equal(&back.joined, &joined.joined, sizeof joined.joined);
    lq_writer_deinit(&writer);
}

static void test_requests_survive_their_bytes(void **state)
{
    (void)state;
    struct lq_letter back;
    struct lq_writer writer;
    struct lq_letter letters[6] = {
        {.kind = LQ_LETTER_REQUEST,
         .request = {.correlation = 5,
                     .verb = LQ_REQUEST_CREATE,
                     .uuid = {.bytes = {4}},
                     .partitions = 9,
                     .replicas = 3,
                     .name = "orders"}},
        {.kind = LQ_LETTER_REQUEST, .request = {.correlation = 6, .verb = LQ_REQUEST_UPDATE, .card = card}},
        {.kind = LQ_LETTER_REQUEST, .request = {.verb = LQ_REQUEST_REBUILD, .group = 8, .node = 3, .incarnation = 2}},
        {.kind = LQ_LETTER_REQUEST, .request = {.verb = LQ_REQUEST_REPLACE, .node = 3, .new_node = 4}},
        {.kind = LQ_LETTER_REQUEST, .request = {.verb = LQ_REQUEST_REPLACE, .node = 3, .new_node = 4, .live = true}},
        {.kind = LQ_LETTER_REQUEST,
         .request = {.verb = LQ_REQUEST_ALTER, .partitions = 12, .mask = 5, .name = "orders"}}};
    lq_topic_config_init(&letters[0].request.config);
    lq_topic_config_init(&letters[5].request.config);
    letters[5].request.config.retention_ms = 77;

    for (size_t i = 0; i < 6; i++) {
        check(&letters[i], &back, &writer);
        assert_memory_equal(&back.request, &letters[i].request, sizeof back.request);
        lq_writer_deinit(&writer);
    }
    letters[5].request.mask = UINT64_C(1) << 63; /* no such option */
    lq_writer_init(&writer, LQ_NODE_FRAME_BYTES_MAX);
    lq_letter_encode(&letters[5], &writer);
    assert_int_equal(lq_letter_decode(writer.bytes, writer.size, &back), LIGHTQ_EPROTO);
    lq_writer_deinit(&writer);
    (void)snprintf(letters[0].request.name, sizeof letters[0].request.name, "../x"); /* J7 */
    lq_writer_init(&writer, LQ_NODE_FRAME_BYTES_MAX);
    lq_letter_encode(&letters[0], &writer);
    assert_int_equal(lq_letter_decode(writer.bytes, writer.size, &back), LIGHTQ_EPROTO);
    lq_writer_deinit(&writer);
}

static void test_reply_and_retire_survive_their_bytes(void **state)
{
    (void)state;
    struct lq_letter back;
    struct lq_writer writer;
    const struct lq_letter reply = {.kind = LQ_LETTER_REPLY,
                                    .reply = {.correlation = UINT64_MAX,
                                              .status = LIGHTQ_ENOTLEADER,
                                              .leader = 3,
                                              .uuid = {.bytes = {1}},
                                              .version = 77,
                                              .count = 4,
                                              .incarnation = 5,
                                              .replicas = 3,
                                              .text = "not here"}};
    const struct lq_letter retire = {.kind = LQ_LETTER_RETIRED, .retire = {.group = 12, .incarnation = 4}};

    check(&reply, &back, &writer);
    assert_memory_equal(&back.reply, &reply.reply, sizeof reply.reply);
    lq_writer_deinit(&writer);
    check(&retire, &back, &writer);
    assert_memory_equal(&back.retire, &retire.retire, sizeof retire.retire);
    lq_writer_deinit(&writer);
}

static void test_report_entries_follow_their_head(void **state)
{
    (void)state;
    struct lq_letter back;
    struct lq_writer writer;
    const struct lq_report_entry entries[2] = {{.group = 4, .term = 9, .leads = true}, {.group = 6, .term = 2}};
    const struct lq_letter letter = {
        .kind = LQ_LETTER_REPORT,
        .report = {.draining = true, .free_bytes = 5, .first_group = 1, .last_group = UINT64_MAX, .count = 2}};
    lq_writer_init(&writer, LQ_NODE_FRAME_BYTES_MAX);
    lq_letter_encode(&letter, &writer);
    assert_int_equal(lq_letter_decode(writer.bytes, writer.size, &back), LIGHTQ_EPROTO); /* the entries are missing */
    lq_letter_put_entry(&entries[0], &writer);
    lq_letter_put_entry(&entries[1], &writer);

    assert_int_equal(lq_letter_decode(writer.bytes, writer.size, &back), LIGHTQ_OK);

    assert_true(back.report.draining);
    for (uint32_t i = 0; i < 2; i++) {
        struct lq_report_entry entry;
        lq_letter_get_entry(&back.report, i, &entry);
        assert_int_equal(entry.group, entries[i].group);
        assert_int_equal(entry.term, entries[i].term);
        assert_int_equal(entry.leads, entries[i].leads);
    }
    writer.bytes[writer.size - 1] = 2; /* neither true nor false */
    assert_int_equal(lq_letter_decode(writer.bytes, writer.size, &back), LIGHTQ_EPROTO);
    lq_writer_deinit(&writer);
}

static void test_inspected_reports_follow_their_head(void **state)
{
    (void)state;
    struct lq_letter back;
    struct lq_writer writer;
    struct lq_replica_report report = {.group = 3,
                                       .node = 2,
                                       .incarnation = 4,
                                       .answered = true,
                                       .role = LQ_REPLICA_LEADER,
                                       .term = 8,
                                       .end_offset = 100,
                                       .digest = 0xfeed,
                                       .status = LIGHTQ_EDAMAGED,
                                       .text = "rot"};
    const struct lq_letter letter = {.kind = LQ_LETTER_INSPECTED, .inspected = {.correlation = 3, .count = 1}};
    struct lq_replica_report read;
    lq_writer_init(&writer, LQ_NODE_FRAME_BYTES_MAX);
    lq_letter_encode(&letter, &writer);
    assert_int_equal(lq_letter_decode(writer.bytes, writer.size, &back), LIGHTQ_EPROTO);
    lq_letter_put_report(&report, &writer);

    assert_int_equal(lq_letter_decode(writer.bytes, writer.size, &back), LIGHTQ_OK);

    struct lq_reader reader = lq_reader_of(back.inspected.reports, back.inspected.reports_size);
    assert_int_equal(lq_letter_next_report(&reader, &read), LIGHTQ_OK);
    assert_memory_equal(&read, &report, sizeof read);
    assert_int_equal(lq_letter_next_report(&reader, &read), LIGHTQ_EPROTO);
    lq_writer_deinit(&writer);
}

static void test_unknown_kinds_and_versions_are_left_alone(void **state)
{
    (void)state;
    struct lq_letter back;
    const uint8_t newer_kind[] = {200, 1, 0, 0, 1, 2, 3};
    const uint8_t newer_version[] = {1, 2, 0, 0};
    const uint8_t flags[] = {1, 1, 1, 0};

    assert_int_equal(lq_letter_decode(newer_kind, sizeof newer_kind, &back), LIGHTQ_EVERSION);
    assert_int_equal(lq_letter_decode(newer_version, sizeof newer_version, &back), LIGHTQ_EVERSION);
    assert_int_equal(lq_letter_decode(flags, sizeof flags, &back), LIGHTQ_EVERSION);
    assert_int_equal(lq_letter_decode(flags, 3, &back), LIGHTQ_EPROTO);
}

static void test_counts_beyond_their_limits_are_refused(void **state)
{
    (void)state;
    struct lq_letter back;
    struct lq_writer writer;
    const struct lq_letter letters[] = {
        {.kind = LQ_LETTER_REPORT, .report = {.count = LQ_REPORT_ENTRIES_MAX + 1}},
        {.kind = LQ_LETTER_INSPECT, .inspect = {.count = UINT32_MAX}},
        {.kind = LQ_LETTER_INSPECTED, .inspected = {.count = LQ_INSPECT_REPORTS_MAX + 1}}};
    for (size_t i = 0; i < 3; i++) {
        lq_writer_init(&writer, LQ_NODE_FRAME_BYTES_MAX);
        lq_letter_encode(&letters[i], &writer);

        assert_int_equal(lq_letter_decode(writer.bytes, writer.size, &back), LIGHTQ_EPROTO);

        lq_writer_deinit(&writer);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_info_survives_its_bytes),
        cmocka_unit_test(test_join_and_joined_survive_their_bytes),
        cmocka_unit_test(test_requests_survive_their_bytes),
        cmocka_unit_test(test_reply_and_retire_survive_their_bytes),
        cmocka_unit_test(test_report_entries_follow_their_head),
        cmocka_unit_test(test_inspected_reports_follow_their_head),
        cmocka_unit_test(test_unknown_kinds_and_versions_are_left_alone),
        cmocka_unit_test(test_counts_beyond_their_limits_are_refused),
    };
    return cmocka_run_group_tests_name("letter", tests, NULL, NULL);
}
