/* test_group_rules.c - rules of libraft's that no other test would miss: how a group is set up, what START waits for,
 * messages that are for others or claim our own term, heartbeats that keep in step, changes of servers too early. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "raft/rpc_check.h"
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

static uint64_t term_of(const struct solo *solo)
{
    return raft_current_term(&solo->group->raft);
}

static uint64_t refused(const struct solo *solo)
{
    struct lq_host_counters counters;
    lq_host_count_up(solo->host, &counters);
    return counters.messages_refused;
}

static void test_setup_is_what_libraft_needs(void **state)
{
    struct solo *solo = *state;
    solo_init(solo, 3);
    const struct raft *raft = &solo->group->raft;

    assert_null(raft->tracer); /* the default one formats each event, into a static buffer */
    assert_true(raft->pre_vote);
    assert_int_equal(raft->capacity_threshold, 0); /* it would refuse what frees space too */
    assert_int_equal(raft->max_inflight_entries, LQ_INFLIGHT_ENTRIES_START);
    assert_null(raft->io);
    assert_null(raft->fsm);
}

static void test_start_waits_until_what_it_is_told_is_durable(void **state)
{
    struct solo *solo = *state;
    solo_prepare(solo);
    solo_open(solo, 3); /* a founder: entry 1 is its own */
    fake_store_hold_entries(solo->store, true);
    for (unsigned i = 0; i < 10; i++) {
        solo_turn(solo);
    }
    assert_false(solo->group->raft_open);

    fake_store_hold_entries(solo->store, false);
    solo_turn(solo);
    assert_true(solo->group->raft_open);
}

static void test_start_of_a_sole_voter_waits_for_its_vote(void **state)
{
    struct solo *solo = *state;
    solo_prepare(solo);
    solo_open(solo, 1);
    fake_store_hold_votes(solo->store, true);
    for (unsigned i = 0; i < 10; i++) {
        solo_turn(solo);
    }
    assert_false(solo->group->raft_open);

    fake_store_hold_votes(solo->store, false);
    solo_turn(solo);
    assert_true(lq_group_leads(solo->group));
}

/* ---- messages ---- */

static void give(struct solo *solo, uint32_t node, const struct lq_frame *frame)
{
    struct lq_slab *slab = lq_slab_new(frame->head_size + frame->body_size + 1);
    assert_non_null(slab);
    memcpy(slab->bytes, frame->head, frame->head_size);
    if (frame->body_size != 0) {
        memcpy(slab->bytes + frame->head_size, frame->body->bytes + frame->body_offset, frame->body_size);
    }
    const struct lq_frame_in in = {.type = frame->type,
                                   .group = frame->group,
                                   .slab = slab,
                                   .size = frame->head_size + frame->body_size,
                                   .head_size = frame->head_size};
    assert_int_equal(lq_host_link_events.receive(solo->host, node, &in), LIGHTQ_OK);
    lq_slab_unref(slab);
}

static void test_h2_vote_for_another_incarnation_is_refused(void **state)
{
    struct solo *solo = *state;
    struct lq_rpc_head head;
    struct lq_frame frame;
    solo_init(solo, 3);
    struct raft_message message = {.type = RAFT_REQUEST_VOTE, .server_id = lq_replica_make(1, 7)};
    message.request_vote = (struct raft_request_vote){
        .version = 2, .term = 9, .candidate_id = SOLO_PEER(2), .last_log_index = 5, .last_log_term = 8};
    assert_int_equal(lq_rpc_encode(SOLO_GROUP, SOLO_PEER(2), &message, &head, &frame), LIGHTQ_OK);

    give(solo, 2, &frame);
    solo_turn(solo);

    assert_int_equal(refused(solo), 1);
    assert_int_equal(term_of(solo), 1);
    assert_null(solo_last(solo, RAFT_REQUEST_VOTE_RESULT, 2)); /* this one was never asked */
}

static void test_h2_result_for_another_incarnation_is_refused(void **state)
{
    struct solo *solo = *state;
    struct lq_rpc_head head;
    struct lq_frame frame;
    solo_init(solo, 3);
    solo_lead(solo);
    struct lq_heartbeat_result result = {.group = SOLO_GROUP,
                                         .from = SOLO_PEER(2),
                                         .to = lq_replica_make(1, 7),
                                         .term = 99,
                                         .version = LQ_RPC_VERSION_APPEND_RESULT};
    assert_int_equal(lq_rpc_encode_heartbeats(NULL, 0, &result, 1, &head, &frame), LIGHTQ_OK);

    give(solo, 2, &frame);
    solo_turn(solo);

    assert_int_equal(refused(solo), 1);
    assert_true(lq_group_leads(solo->group)); /* the term was said to somebody else */
    lq_slab_unref(frame.body);
}

static void test_h2_checkpoint_of_a_second_leader_of_our_term_is_refused(void **state)
{
    struct solo *solo = *state;
    const struct lq_servers servers = {.count = 3,
                                       .at = {{.id = SOLO_SELF, .role = LQ_ROLE_VOTER},
                                              {.id = SOLO_PEER(2), .role = LQ_ROLE_VOTER},
                                              {.id = SOLO_PEER(3), .role = LQ_ROLE_VOTER}}};
    const uint8_t bytes[8] = {7};
    void *configuration;
    size_t size;
    solo_init(solo, 3);
    solo_lead(solo);
    assert_int_equal(lq_servers_encode(&servers, &configuration, &size), LIGHTQ_OK);
    const struct lq_rpc_piece piece = {.checkpoint = {.last_index = 50,
                                                      .last_term = term_of(solo),
                                                      .next_offset = 50,
                                                      .configuration_index = 1,
                                                      .configuration = configuration,
                                                      .configuration_size = (uint32_t)size,
                                                      .state_size = 8},
                                       .size = 8,
                                       .last = true};

    assert_int_equal(solo_install(solo, SOLO_PEER(2), term_of(solo), &piece, bytes), LIGHTQ_OK);
    solo_turn(solo);

    assert_int_equal(refused(solo), 1);
    assert_true(lq_group_leads(solo->group));
    assert_true(lq_rlog_last(solo->group->log) < 50);
    raft_free(configuration);
}

/* ---- timers ---- */

/* A peer that was sent to out of turn must not have heartbeats at times of its own from then on: each of libraft's
 * timeouts marks those that have not just answered as unreachable. */
static void test_heartbeats_to_all_peers_stay_in_step(void **state)
{
    struct solo *solo = *state;
    uint64_t index;
    solo_init(solo, 3);
    solo_lead(solo);
    solo_acknowledge(solo);
    uint64_t match = lq_rlog_last(solo->group->log);
    assert_int_equal(solo_submit(solo, 1, 10, &index), LIGHTQ_OK);
    solo_turn(solo);
    assert_int_equal(solo_submit(solo, 1, 10, &index), LIGHTQ_OK);
    solo_turn(solo);
    solo_advance(solo, 50);
    solo_result(solo, SOLO_PEER(3), term_of(solo), match + 1, match); /* the first was lost: sent again, now */
    solo_turn(solo);
    solo_acknowledge(solo);
    solo_advance(solo, 200);
    solo_acknowledge(solo);
    solo_forget_sent(solo);

    for (unsigned i = 0; i < 20; i++) {
        solo_advance(solo, 50);
        solo_acknowledge(solo);
    }

    unsigned alone = 0;
    for (unsigned i = 0; i < solo->sent_count; i++) {
        bool together = false;
        for (unsigned k = 0; k < solo->sent_count; k++) {
            together |= solo->sent[k].message.type == RAFT_APPEND_ENTRIES && solo->sent[i].node != solo->sent[k].node &&
                        solo->sent[i].at_ms == solo->sent[k].at_ms;
        }
        alone += solo->sent[i].message.type == RAFT_APPEND_ENTRIES && !together;
    }
    assert_int_equal(alone, 0);
    assert_in_range(solo_count(solo, RAFT_APPEND_ENTRIES, 3), 7, 11);
}

/* A leader whom no majority answers gives up within an election timeout and a heartbeat or two. */
static void test_leader_without_answers_steps_down_in_time(void **state)
{
    struct solo *solo = *state;
    solo_init(solo, 3);
    solo_lead(solo);
    solo_acknowledge(solo);

    solo_advance(solo, 2300);

    assert_false(lq_group_leads(solo->group));
}

/* ---- servers ---- */

static void test_change_before_the_barrier_is_applied_is_refused(void **state)
{
    struct solo *solo = *state;
    solo_init(solo, 3);
    for (unsigned round = 0; round < 60 && !lq_group_leads(solo->group); round++) {
        solo_advance(solo, 50);
        const struct solo_sent *sent = solo_last(solo, RAFT_REQUEST_VOTE, 2);
        if (sent != NULL) {
            struct raft_message message = {.type = RAFT_REQUEST_VOTE_RESULT};
            message.request_vote_result =
                (struct raft_request_vote_result){.version = 2,
                                                  .term = sent->message.request_vote.term,
                                                  .vote_granted = true,
                                                  .pre_vote = sent->message.request_vote.pre_vote};
            solo_message(solo, SOLO_PEER(2), &message);
            solo_turn(solo);
        }
    }
    assert_true(lq_group_leads(solo->group));

    assert_int_equal(lq_group_change(solo->group, LQ_CHANGE_ADD_STANDBY, SOLO_PEER(4)), LIGHTQ_ENOTLEADER);

    solo_acknowledge(solo);
    assert_int_equal(lq_group_change(solo->group, LQ_CHANGE_ADD_STANDBY, SOLO_PEER(4)), LIGHTQ_OK);
}

static void test_promote_of_who_is_far_behind_is_refused(void **state)
{
    struct solo *solo = *state;
    uint64_t index = 0;
    solo_init(solo, 3);
    solo_lead(solo);
    assert_int_equal(lq_group_change(solo->group, LQ_CHANGE_ADD_STANDBY, SOLO_PEER(4)), LIGHTQ_OK);
    solo_turn(solo);
    solo_acknowledge(solo);
    uint64_t knows = lq_rlog_last(solo->group->log); /* that it is a server */
    for (unsigned i = 0; i < LQ_PROMOTE_LAG_ENTRIES + 2; i++) {
        assert_int_equal(solo_submit(solo, 1, 10, &index), LIGHTQ_OK);
        solo_turn(solo);
        solo_result(solo, SOLO_PEER(2), term_of(solo), 0, index);
        solo_result(solo, SOLO_PEER(3), term_of(solo), 0, index);
        solo_turn(solo);
    }
    solo_result(solo, SOLO_PEER(4), term_of(solo), 0, knows);
    solo_turn(solo);

    assert_int_equal(lq_group_change(solo->group, LQ_CHANGE_PROMOTE, SOLO_PEER(4)), LIGHTQ_ENOTREADY);
    solo_result(solo, SOLO_PEER(4), term_of(solo), 0, index);
    solo_turn(solo);
    assert_int_equal(lq_group_change(solo->group, LQ_CHANGE_PROMOTE, SOLO_PEER(4)), LIGHTQ_OK);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_setup_is_what_libraft_needs),
        TEST(test_start_waits_until_what_it_is_told_is_durable),
        TEST(test_start_of_a_sole_voter_waits_for_its_vote),
        TEST(test_h2_vote_for_another_incarnation_is_refused),
        TEST(test_h2_result_for_another_incarnation_is_refused),
        TEST(test_h2_checkpoint_of_a_second_leader_of_our_term_is_refused),
        TEST(test_heartbeats_to_all_peers_stay_in_step),
        TEST(test_leader_without_answers_steps_down_in_time),
        TEST(test_change_before_the_barrier_is_applied_is_refused),
        TEST(test_promote_of_who_is_far_behind_is_refused),
    };
    return cmocka_run_group_tests_name("group rules", tests, NULL, NULL);
}
