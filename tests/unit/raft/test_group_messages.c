/* What a group does with messages before libraft sees them, and what it sends: H1 clip, H2 refuse, H3 split, probing,
 * frames, heartbeats, checkpoints in pieces. The test plays the peers and the disk. Cases A3, A4, A11. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/base/log.h"
#include "tests/lib/raft_solo.h"

static int setup(void **state)
{
    struct solo *solo = calloc(1, sizeof *solo);
    assert_non_null(solo);
    *state = solo;
    return 0;
}

static int teardown(void **state)
{
    solo_deinit(*state);
    free(*state);
    return 0;
}

static const struct raft_append_entries_result *last_result(const struct solo *solo, uint32_t node)
{
    const struct solo_sent *sent = solo_last(solo, RAFT_APPEND_ENTRIES_RESULT, node);
    assert_non_null(sent);
    return &sent->message.append_entries_result;
}

static void submit_and_commit(struct solo *solo, unsigned entries, uint32_t size)
{
    uint64_t index;
    for (unsigned i = 0; i < entries; i++) {
        assert_int_equal(solo_submit(solo, 1, size, &index), LIGHTQ_OK);
        solo_turn(solo);
        solo_acknowledge(solo);
    }
}

static uint64_t refused(const struct solo *solo)
{
    struct lq_host_counters counters;
    lq_host_count_up(solo->host, &counters);
    return counters.messages_refused;
}

/* ---- H1 ---- */

/* A follower that has applied and trimmed its log up to some border, with entries of term 2. */
static uint64_t trimmed_follower(struct solo *solo)
{
    solo_prepare(solo);
    solo->store_options.segment_bytes = 500;
    solo_open(solo, 3);
    solo_turn(solo);
    solo_follow(solo, SOLO_PEER(2), 2);
    for (uint64_t prev = 1; prev < 31; prev += 10) {
        struct solo_append append = {.from = SOLO_PEER(2),
                                     .term = 2,
                                     .prev = prev,
                                     .prev_term = prev == 1 ? 1 : 2,
                                     .count = 10,
                                     .commit = prev + 10};
        solo->machine.trim_to = prev;
        assert_int_equal(solo_append(solo, &append), LIGHTQ_OK);
        solo_turn(solo);
    }
    uint64_t first = lq_rlog_first(solo->group->log);
    assert_true(first > 5 && first < 31);
    solo_forget_sent(solo);
    return first - 1;
}

static void test_h1_append_from_below_the_trim_point_is_clipped(void **state)
{
    struct solo *solo = *state;
    uint64_t trimmed = trimmed_follower(solo);
    uint64_t last = lq_rlog_last(solo->group->log);
    const struct solo_append append = {.from = SOLO_PEER(2),
                                       .term = 2,
                                       .prev = trimmed - 3,
                                       .prev_term = 2,
                                       .count = (unsigned)(last - trimmed + 3 + 2),
                                       .commit = last};

    assert_int_equal(solo_append(solo, &append), LIGHTQ_OK);
    solo_turn(solo);

    assert_int_equal(last_result(solo, 2)->rejected, 0);
    assert_int_equal(last_result(solo, 2)->last_log_index, last + 2);
    assert_int_equal(lq_rlog_last(solo->group->log), last + 2);
}

static void test_h1_append_wholly_below_the_trim_point_is_answered_with_it(void **state)
{
    struct solo *solo = *state;
    uint64_t trimmed = trimmed_follower(solo);
    const struct solo_append append = {
        .from = SOLO_PEER(2), .term = 2, .prev = trimmed - 3, .prev_term = 2, .count = 2, .commit = trimmed};

    assert_int_equal(solo_append(solo, &append), LIGHTQ_OK);
    solo_turn(solo);

    assert_int_equal(last_result(solo, 2)->rejected, 0);
    assert_int_equal(last_result(solo, 2)->last_log_index, trimmed);
}

static void test_h1_heartbeat_with_nothing_before_it_is_not_an_append_at_one(void **state)
{
    struct solo *solo = *state;
    uint64_t trimmed = trimmed_follower(solo);
    uint64_t last = lq_rlog_last(solo->group->log);

    solo_beat(solo, SOLO_PEER(2), 2, 0, 0, last);
    solo_turn(solo);

    assert_int_equal(last_result(solo, 2)->rejected, 0);
    assert_int_equal(last_result(solo, 2)->last_log_index, trimmed);
    assert_int_equal(lq_rlog_last(solo->group->log), last);
}

/* ---- H2 ---- */

static void test_h2_second_leader_of_our_term_is_refused(void **state)
{
    struct solo *solo = *state;
    solo_init(solo, 3);
    solo_lead(solo);
    uint64_t term = raft_current_term(&solo->group->raft);
    const struct solo_append append = {
        .from = SOLO_PEER(2), .term = term, .prev = 1, .prev_term = 1, .count = 1, .terms = {term}};

    assert_int_equal(solo_append(solo, &append), LIGHTQ_OK);
    solo_beat(solo, SOLO_PEER(2), term, 1, 1, 1);
    solo_turn(solo);

    assert_int_equal(refused(solo), 2);
    assert_true(lq_group_leads(solo->group));
    assert_int_equal(lq_rlog_last(solo->group->log), 2);
}

static void test_h2_result_from_outside_the_configuration_is_refused(void **state)
{
    struct solo *solo = *state;
    solo_init(solo, 3);
    solo_lead(solo);

    solo_result(solo, SOLO_PEER(9), 99, 0, 1); /* also: its term must not make us step down */
    solo_turn(solo);

    assert_int_equal(refused(solo), 1);
    assert_true(lq_group_leads(solo->group));
}

static void test_h2_message_for_another_incarnation_is_refused(void **state)
{
    struct solo *solo = *state;
    struct lq_rpc_head head;
    struct lq_heartbeat beat = {.group = SOLO_GROUP,
                                .from = SOLO_PEER(2),
                                .to = lq_replica_make(1, 7),
                                .term = 9,
                                .prev_index = 1,
                                .prev_term = 1};
    struct lq_frame frame;
    solo_init(solo, 3);
    assert_int_equal(lq_rpc_encode_heartbeats(&beat, 1, NULL, 0, &head, &frame), LIGHTQ_OK);
    struct lq_slab *slab = lq_slab_new(head.bytes[0] * 64 + 8);
    memcpy(slab->bytes, frame.head, frame.head_size);
    memcpy(slab->bytes + frame.head_size, frame.body->bytes, frame.body_size);
    const struct lq_frame_in in = {.type = LQ_FRAME_HEARTBEATS,
                                   .slab = slab,
                                   .size = frame.head_size + frame.body_size,
                                   .head_size = frame.head_size};

    assert_int_equal(lq_host_link_events.receive(solo->host, 2, &in), LIGHTQ_OK);
    solo_turn(solo);

    assert_int_equal(refused(solo), 1);
    assert_int_equal(raft_current_term(&solo->group->raft), 1);
    lq_slab_unref(frame.body);
    lq_slab_unref(slab);
}

/* The answer to a pre-vote that comes after we have given up must not raise our term (recv_request_vote_result.c:32).
 */
static void test_h2_late_pre_vote_answer_changes_nothing(void **state)
{
    struct solo *solo = *state;
    solo_init(solo, 3);
    solo_follow(solo, SOLO_PEER(2), 2);
    struct raft_message message = {.type = RAFT_REQUEST_VOTE_RESULT};
    message.request_vote_result =
        (struct raft_request_vote_result){.version = 2, .term = 3, .vote_granted = true, .pre_vote = true};

    solo_message(solo, SOLO_PEER(3), &message);
    solo_turn(solo);

    assert_int_equal(raft_current_term(&solo->group->raft), 2);
}

static void test_h2_peer_that_lost_data_is_reported(void **state)
{
    struct solo *solo = *state;
    struct lq_group_status status;
    struct lq_host_counters counters;
    solo_init(solo, 3);
    solo_lead(solo);
    submit_and_commit(solo, 5, 10);
    uint64_t term = raft_current_term(&solo->group->raft);
    uint64_t last = lq_rlog_last(solo->group->log);

    solo_result(solo, SOLO_PEER(2), term, last, 3); /* could be an old one */
    lq_group_status(solo->group, &status);
    assert_false(status.replicas[1].lost_data);
    for (unsigned i = 0; i < LQ_PEER_LOST_REJECTIONS; i++) {
        solo_result(solo, SOLO_PEER(2), term, last, 3);
    }

    lq_group_status(solo->group, &status);
    lq_host_count_up(solo->host, &counters);
    assert_int_equal(status.replicas[1].id, SOLO_PEER(2));
    assert_true(status.replicas[1].lost_data);
    assert_false(status.replicas[0].lost_data);
    assert_int_equal(status.replicas[1].match, last);
    assert_int_equal(counters.peers_lost, 1);
}

static void test_h2_malformed_frame_closes_the_connection(void **state)
{
    struct solo *solo = *state;
    struct lq_host_counters counters;
    solo_init(solo, 3);
    struct lq_slab *slab = lq_slab_new(64);
    memset(slab->bytes, 0xee, 64);
    const struct lq_frame_in in = {
        .type = LQ_FRAME_APPEND, .group = SOLO_GROUP, .slab = slab, .size = 64, .head_size = 64};

    assert_int_equal(lq_host_link_events.receive(solo->host, 2, &in), LIGHTQ_EPROTO);

    lq_host_count_up(solo->host, &counters);
    assert_int_equal(counters.frames_malformed, 1);
    lq_slab_unref(slab);
}

static void test_h2_frame_for_an_unknown_group_is_told(void **state)
{
    struct solo *solo = *state;
    solo_init(solo, 3);
    lq_group_close(solo->group, true);
    solo->group = NULL;
    struct raft_message message = {.type = RAFT_REQUEST_VOTE};
    message.request_vote = (struct raft_request_vote){.version = 2, .term = 3, .candidate_id = SOLO_PEER(2)};

    solo_message(solo, SOLO_PEER(2), &message);

    assert_int_equal(solo->unknown_groups, 1);
}

/* ---- H3 ---- */

static struct lq_servers four_servers(void)
{
    return (struct lq_servers){.count = 4,
                               .at = {{.id = SOLO_PEER(3), .role = LQ_ROLE_VOTER},
                                      {.id = SOLO_PEER(2), .role = LQ_ROLE_VOTER},
                                      {.id = SOLO_SELF, .role = LQ_ROLE_VOTER},
                                      {.id = SOLO_PEER(4), .role = LQ_ROLE_STANDBY}}};
}

static void test_h3_change_in_the_middle_gets_its_own_index(void **state)
{
    struct solo *solo = *state;
    solo_init(solo, 3);
    solo_follow(solo, SOLO_PEER(2), 2);
    const struct solo_append append = {.from = SOLO_PEER(2),
                                       .term = 2,
                                       .prev = 1,
                                       .prev_term = 1,
                                       .count = 5,
                                       .types = {0, 0, LQ_ENTRY_CHANGE},
                                       .servers = four_servers()};

    assert_int_equal(solo_append(solo, &append), LIGHTQ_OK);
    solo_turn(solo);

    assert_int_equal(lq_rlog_last(solo->group->log), 6);
    assert_int_equal(solo->group->raft.configuration_uncommitted_index, 4);
    assert_int_equal(solo->group->raft.configuration.n, 4);
}

/* The new leader does not know yet that the first change is committed, but a second one in its log says so: a cut of
 * the second must bring back the first. */
static void test_h3_second_change_settles_the_first(void **state)
{
    struct solo *solo = *state;
    struct lq_servers five = four_servers();
    five.at[five.count++] = (struct lq_server){.id = SOLO_PEER(5), .role = LQ_ROLE_STANDBY};
    solo_init(solo, 3);
    solo_follow(solo, SOLO_PEER(2), 2);
    const struct solo_append first = {.from = SOLO_PEER(2),
                                      .term = 2,
                                      .prev = 1,
                                      .prev_term = 1,
                                      .count = 1,
                                      .types = {LQ_ENTRY_CHANGE},
                                      .servers = four_servers()};
    const struct solo_append second = {.from = SOLO_PEER(2),
                                       .term = 2,
                                       .prev = 2,
                                       .prev_term = 2,
                                       .count = 2,
                                       .types = {0, LQ_ENTRY_CHANGE},
                                       .servers = five};
    const struct solo_append other = {.from = SOLO_PEER(3), .term = 3, .prev = 3, .prev_term = 2, .count = 1};
    assert_int_equal(solo_append(solo, &first), LIGHTQ_OK);
    assert_int_equal(solo->group->raft.configuration_uncommitted_index, 2);

    assert_int_equal(solo_append(solo, &second), LIGHTQ_OK);
    assert_int_equal(solo->group->raft.configuration_committed_index, 2);
    assert_int_equal(solo->group->raft.configuration_uncommitted_index, 4);
    assert_int_equal(solo_append(solo, &other), LIGHTQ_OK); /* cuts the second */
    solo_turn(solo);

    assert_int_equal(solo->group->raft.configuration_uncommitted_index, 0);
    assert_int_equal(solo->group->raft.configuration.n, 4);
}

/* ---- what is sent ---- */

/* Case E7: the same index is asked for again and again. */
static void test_feed_conflict_is_found_with_one_entry_at_a_time(void **state)
{
    struct solo *solo = *state;
    solo_init(solo, 3);
    solo_follow(solo, SOLO_PEER(2), 2);
    struct solo_append append = {.from = SOLO_PEER(2), .term = 2, .prev = 1, .prev_term = 1, .count = 40};
    assert_int_equal(solo_append(solo, &append), LIGHTQ_OK);
    solo_turn(solo);
    solo_lead(solo);
    uint64_t term = raft_current_term(&solo->group->raft);
    uint64_t index;
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(solo_submit(solo, 1, 10, &index), LIGHTQ_OK);
    }
    solo_turn(solo);
    uint64_t match = solo->group->raft.last_stored - 10; /* acknowledged by solo_lead */
    assert_int_equal(solo_last(solo, RAFT_APPEND_ENTRIES, 3)->last_index, index);
    solo_forget_sent(solo);

    solo_result(solo, SOLO_PEER(3), term, match + 5, match + 4); /* it lacks what was sent before */
    solo_turn(solo);
    assert_int_equal(solo->max_frame_entries, 1);
    assert_int_equal(solo_last(solo, RAFT_APPEND_ENTRIES, 3)->first_index, match + 1);
    solo_forget_sent(solo);

    solo_result(solo, SOLO_PEER(3), term, 0, match + 1); /* agrees: all the rest at once */
    solo_turn(solo);
    assert_int_equal(solo_last(solo, RAFT_APPEND_ENTRIES, 3)->first_index, match + 2);
    assert_int_equal(solo_last(solo, RAFT_APPEND_ENTRIES, 3)->last_index, index);
}

static void test_feed_submits_of_one_turn_share_a_frame(void **state)
{
    struct solo *solo = *state;
    uint64_t index;
    solo_init(solo, 3);
    solo_lead(solo);

    for (unsigned i = 0; i < 20; i++) {
        assert_int_equal(solo_submit(solo, 1, 10, &index), LIGHTQ_OK);
    }
    solo_turn(solo);

    assert_int_equal(solo_count(solo, RAFT_APPEND_ENTRIES, 2), 1);
    assert_int_equal(solo_last(solo, RAFT_APPEND_ENTRIES, 2)->entry_count, 20);
}

static void test_feed_large_range_is_cut_into_frames(void **state)
{
    struct solo *solo = *state;
    uint64_t index;
    solo_init(solo, 3);
    solo_lead(solo);
    uint64_t before = lq_rlog_last(solo->group->log);

    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(solo_submit(solo, 1, 100000, &index), LIGHTQ_OK);
    }
    solo_turn(solo);

    uint64_t expected = before + 1;
    for (unsigned i = 0; i < solo->sent_count; i++) {
        const struct solo_sent *sent = &solo->sent[i];
        if (sent->node == 2 && sent->entry_count != 0) {
            assert_int_equal(sent->first_index, expected);
            assert_in_range(sent->entry_count, 1, 3);
            expected = sent->last_index + 1;
        }
    }
    assert_int_equal(expected, index + 1);
}

static void test_feed_pauses_while_the_queue_is_full(void **state)
{
    struct solo *solo = *state;
    uint64_t index;
    solo_init(solo, 3);
    solo_lead(solo);
    solo->queued[2] = LQ_FEED_PAUSE_BYTES;

    assert_int_equal(solo_submit(solo, 1, 10, &index), LIGHTQ_OK);
    solo_turn(solo);
    assert_null(solo_last(solo, RAFT_APPEND_ENTRIES, 2));
    assert_non_null(solo_last(solo, RAFT_APPEND_ENTRIES, 3));

    solo->queued[2] = 0;
    solo_advance(solo, 60);
    assert_int_equal(solo_last(solo, RAFT_APPEND_ENTRIES, 2)->last_index, index);
}

static void test_feed_heartbeat_of_a_lagging_peer_speaks_of_what_it_has(void **state)
{
    struct solo *solo = *state;
    uint64_t index;
    solo_init(solo, 3);
    solo_lead(solo);
    submit_and_commit(solo, 3, 10);
    uint64_t match = lq_rlog_last(solo->group->log);
    fake_log_evict(solo->group->log, 1000);
    fake_store_hold_reads(solo->store, true);
    assert_int_equal(solo_submit(solo, 1, 10, &index), LIGHTQ_OK);
    solo_turn(solo);
    solo_forget_sent(solo);

    solo_advance(solo, 250);

    const struct solo_sent *beat = solo_last(solo, RAFT_APPEND_ENTRIES, 2);
    assert_non_null(beat);
    assert_int_equal(beat->message.append_entries.prev_log_index, match);
    assert_int_equal(beat->entry_count, 0);
}

static void test_feed_heartbeats_come_in_time_and_together(void **state)
{
    struct solo *solo = *state;
    solo_init(solo, 3);
    solo_lead(solo);

    for (unsigned i = 0; i < 20; i++) {
        solo_advance(solo, 50);
        solo_acknowledge(solo);
    }

    assert_in_range(solo_count(solo, RAFT_APPEND_ENTRIES, 2), 7, 11);
    assert_int_equal(solo_count(solo, RAFT_APPEND_ENTRIES, 2), solo_count(solo, RAFT_APPEND_ENTRIES, 3));
    assert_true(lq_group_leads(solo->group));
}

/* With the window full, libraft makes an empty AppendEntries for every proposal; and we do not propose beyond it. */
static void test_feed_empties_are_dropped_shortly_after_the_last(void **state)
{
    struct solo *solo = *state;
    uint64_t index;
    solo_init(solo, 3);
    solo_lead(solo);
    raft_set_max_inflight_entries(&solo->group->raft, 4);
    solo->group->entry_bytes_mean = 96; /* as it is: no adjustment comes in between */
    unsigned submitted = 0;
    while (solo_submit(solo, 1, 24, &index) == LIGHTQ_OK) {
        submitted++;
        solo_result(solo, SOLO_PEER(2), raft_current_term(&solo->group->raft), 0, index);
        solo_turn(solo); /* 2 acknowledges, 3 is silent */
        assert_true(submitted < 100);
        if (submitted == 50) {
            break;
        }
    }

    assert_int_equal(submitted, 50);
    assert_in_range(solo_count(solo, RAFT_APPEND_ENTRIES, 3), 1, 8);
}

static void test_feed_lost_frame_is_sent_again_after_the_rejection(void **state)
{
    struct solo *solo = *state;
    uint64_t index;
    solo_init(solo, 3);
    solo_lead(solo);
    uint64_t term = raft_current_term(&solo->group->raft);
    solo->send_status[2] = LIGHTQ_EBUSY;
    assert_int_equal(solo_submit(solo, 1, 10, &index), LIGHTQ_OK);
    solo_turn(solo);
    solo->send_status[2] = LIGHTQ_OK;
    solo_advance(solo, 150);
    const struct solo_sent *beat = solo_last(solo, RAFT_APPEND_ENTRIES, 2);
    assert_int_equal(beat->message.append_entries.prev_log_index, index); /* libraft believes it sent it */

    solo_result(solo, SOLO_PEER(2), term, index, index - 1);
    solo_turn(solo);

    assert_int_equal(solo_last(solo, RAFT_APPEND_ENTRIES, 2)->first_index, index);
    assert_int_equal(solo_last(solo, RAFT_APPEND_ENTRIES, 2)->entry_count, 1);
}

/* ---- checkpoints ---- */

static uint64_t leader_that_trimmed(struct solo *solo)
{
    solo_prepare(solo);
    solo->store_options.segment_bytes = 1000;
    solo_open(solo, 3);
    solo_turn(solo);
    solo_lead(solo);
    submit_and_commit(solo, 20, 100);
    solo->machine.trim_to = 15;
    submit_and_commit(solo, 1, 100);
    solo_restart(solo); /* forgets the matches */
    solo->machine.trim_to = 15;
    solo_turn(solo);
    return lq_rlog_first(solo->group->log) - 1;
}

static void test_install_is_sent_to_a_peer_that_lacks_what_was_trimmed(void **state)
{
    struct solo *solo = *state;
    uint64_t trimmed = leader_that_trimmed(solo);
    assert_true(trimmed > 1);
    solo_lead(solo);
    uint64_t term = raft_current_term(&solo->group->raft);
    uint64_t last = lq_rlog_last(solo->group->log);
    /* Node 3 is replaced by an empty replica: a standby that has nothing. */
    assert_int_equal(lq_group_change(solo->group, LQ_CHANGE_REMOVE, SOLO_PEER(3)), LIGHTQ_OK);
    solo_turn(solo);
    solo_acknowledge(solo);
    assert_int_equal(lq_group_change(solo->group, LQ_CHANGE_ADD_STANDBY, lq_replica_make(3, 2)), LIGHTQ_OK);
    solo_turn(solo);
    solo_result(solo, SOLO_PEER(2), term, 0, last + 2);
    uint64_t prev = solo_last(solo, RAFT_APPEND_ENTRIES, 3)->message.append_entries.prev_log_index;
    solo_forget_sent(solo);

    solo_result(solo, lq_replica_make(3, 2), term, prev, 0); /* heard from; rejects */
    solo_turn(solo);
    solo_advance(solo, 200);
    const struct solo_sent *sent = solo_last(solo, RAFT_INSTALL_SNAPSHOT, 3);
    assert_non_null(sent);
    assert_int_equal(sent->message.install_snapshot.last_index, trimmed);
    assert_true(sent->piece.last);
    assert_int_equal(sent->piece.checkpoint.state_size, 8);

    solo_result(solo, lq_replica_make(3, 2), term, 0, trimmed);
    solo_turn(solo);
    assert_int_equal(solo_last(solo, RAFT_APPEND_ENTRIES, 3)->first_index, trimmed + 1);
}

static void piece_of(struct lq_rpc_piece *piece, const void *configuration, size_t size, uint64_t state_size,
                     uint64_t offset, uint32_t bytes)
{
    *piece = (struct lq_rpc_piece){.checkpoint = {.last_index = 50,
                                                  .last_term = 2,
                                                  .next_offset = 50,
                                                  .configuration_index = 1,
                                                  .configuration = offset == 0 ? configuration : NULL,
                                                  .configuration_size = offset == 0 ? (uint32_t)size : 0,
                                                  .state_size = state_size},
                                   .offset = offset,
                                   .size = bytes,
                                   .last = offset + bytes == state_size};
}

/* Case E9: a checkpoint too large for one message never arrives. */
static void test_install_pieces_are_put_together_in_order(void **state)
{
    struct solo *solo = *state;
    void *configuration;
    size_t size;
    struct lq_rpc_piece piece;
    const struct lq_servers servers = four_servers();
    uint8_t bytes[1000] = {7};
    assert_int_equal(lq_servers_encode(&servers, &configuration, &size), LIGHTQ_OK);
    solo_init(solo, 3);
    solo_follow(solo, SOLO_PEER(2), 2);

    piece_of(&piece, configuration, size, 2500, 1000, 1000); /* not the first */
    assert_int_equal(solo_install(solo, SOLO_PEER(2), 2, &piece, bytes), LIGHTQ_OK);
    assert_int_equal(refused(solo), 1);
    piece_of(&piece, configuration, size, 2500, 0, 1000);
    assert_int_equal(solo_install(solo, SOLO_PEER(2), 2, &piece, bytes), LIGHTQ_OK);
    bytes[0] = 9;
    assert_int_equal(solo_install(solo, SOLO_PEER(3), 2, &piece, bytes), LIGHTQ_OK); /* another sender begins anew */
    piece_of(&piece, configuration, size, 2500, 1000, 1000);
    assert_int_equal(solo_install(solo, SOLO_PEER(2), 2, &piece, bytes), LIGHTQ_OK); /* no longer continues */
    assert_int_equal(refused(solo), 2);
    assert_int_equal(solo_install(solo, SOLO_PEER(3), 2, &piece, bytes), LIGHTQ_OK);
    assert_int_equal(solo_install(solo, SOLO_PEER(3), 2, &piece, bytes), LIGHTQ_OK); /* twice */
    assert_int_equal(refused(solo), 3);
    assert_false(lq_group_installing(solo->group));
    piece_of(&piece, configuration, size, 2500, 2000, 500);
    assert_int_equal(solo_install(solo, SOLO_PEER(3), 2, &piece, bytes), LIGHTQ_OK);
    assert_true(lq_group_installing(solo->group));
    solo_turn(solo);

    assert_int_equal(solo->group->applied, 50);
    assert_int_equal(solo->machine.state, 9);
    assert_int_equal(solo->host->receiving_bytes, 0);
    assert_int_equal(solo->machine.servers.count, 4);
    raft_free(configuration);
}

static void test_install_while_installing_is_refused(void **state)
{
    struct solo *solo = *state;
    void *configuration;
    size_t size;
    struct lq_rpc_piece piece;
    const struct lq_servers servers = four_servers();
    const uint8_t bytes[8] = {7};
    assert_int_equal(lq_servers_encode(&servers, &configuration, &size), LIGHTQ_OK);
    solo_init(solo, 3);
    solo_follow(solo, SOLO_PEER(2), 2);
    piece_of(&piece, configuration, size, 8, 0, 8);
    assert_int_equal(solo_install(solo, SOLO_PEER(2), 2, &piece, bytes), LIGHTQ_OK);

    assert_int_equal(solo_install(solo, SOLO_PEER(2), 2, &piece, bytes), LIGHTQ_OK);

    assert_int_equal(refused(solo), 1);
    solo_turn(solo);
    assert_int_equal(solo->group->applied, 50);
    raft_free(configuration);
}

static void test_install_of_what_is_there_is_only_answered(void **state)
{
    struct solo *solo = *state;
    void *configuration;
    size_t size;
    struct lq_rpc_piece piece;
    const struct lq_servers servers = four_servers();
    const uint8_t bytes[8] = {7};
    assert_int_equal(lq_servers_encode(&servers, &configuration, &size), LIGHTQ_OK);
    uint64_t trimmed = trimmed_follower(solo);
    piece_of(&piece, configuration, size, 8, 0, 8);
    piece.checkpoint.last_index = trimmed - 1;

    assert_int_equal(solo_install(solo, SOLO_PEER(2), 2, &piece, bytes), LIGHTQ_OK);
    solo_turn(solo);

    assert_false(lq_group_installing(solo->group));
    assert_int_equal(last_result(solo, 2)->last_log_index, trimmed - 1);
    assert_int_equal(solo->host->receiving_bytes, 0);
    raft_free(configuration);
}

/* Case E11: a follower dies while it receives a checkpoint, and its leader waits for ever. */
static void test_install_that_stops_coming_is_forgotten(void **state)
{
    struct solo *solo = *state;
    void *configuration;
    size_t size;
    struct lq_rpc_piece piece;
    const struct lq_servers servers = four_servers();
    const uint8_t bytes[1000] = {7};
    assert_int_equal(lq_servers_encode(&servers, &configuration, &size), LIGHTQ_OK);
    solo_init(solo, 3);
    solo_follow(solo, SOLO_PEER(2), 2);
    piece_of(&piece, configuration, size, 2500, 0, 1000);
    assert_int_equal(solo_install(solo, SOLO_PEER(2), 2, &piece, bytes), LIGHTQ_OK);
    assert_int_equal(solo->host->receiving_bytes, 1000); /* of 2500 announced */

    solo_advance(solo, LQ_INSTALL_TIMEOUT_MS + 100);

    assert_int_equal(solo->host->receiving_bytes, 0);
    raft_free(configuration);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    lq_log_configure(LQ_LOG_OFF, 2);
    const struct CMUnitTest tests[] = {
        TEST(test_h1_append_from_below_the_trim_point_is_clipped),
        TEST(test_h1_append_wholly_below_the_trim_point_is_answered_with_it),
        TEST(test_h1_heartbeat_with_nothing_before_it_is_not_an_append_at_one),
        TEST(test_h2_second_leader_of_our_term_is_refused),
        TEST(test_h2_result_from_outside_the_configuration_is_refused),
        TEST(test_h2_message_for_another_incarnation_is_refused),
        TEST(test_h2_late_pre_vote_answer_changes_nothing),
        TEST(test_h2_peer_that_lost_data_is_reported),
        TEST(test_h2_malformed_frame_closes_the_connection),
        TEST(test_h2_frame_for_an_unknown_group_is_told),
        TEST(test_h3_change_in_the_middle_gets_its_own_index),
        TEST(test_h3_second_change_settles_the_first),
        TEST(test_feed_conflict_is_found_with_one_entry_at_a_time),
        TEST(test_feed_submits_of_one_turn_share_a_frame),
        TEST(test_feed_large_range_is_cut_into_frames),
        TEST(test_feed_pauses_while_the_queue_is_full),
        TEST(test_feed_heartbeat_of_a_lagging_peer_speaks_of_what_it_has),
        TEST(test_feed_heartbeats_come_in_time_and_together),
        TEST(test_feed_empties_are_dropped_shortly_after_the_last),
        TEST(test_feed_lost_frame_is_sent_again_after_the_rejection),
        TEST(test_install_is_sent_to_a_peer_that_lacks_what_was_trimmed),
        TEST(test_install_pieces_are_put_together_in_order),
        TEST(test_install_while_installing_is_refused),
        TEST(test_install_of_what_is_there_is_only_answered),
        TEST(test_install_that_stops_coming_is_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
