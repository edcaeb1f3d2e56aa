/* Leading: the window, roles, a sole voter, transfer, stalled and failed disks, fast failover, drain, and the life of a
 * group. The test plays the peers and the disk. Cases A2, A11, A12. */
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

static uint64_t term_of(const struct solo *solo)
{
    return raft_current_term(&solo->group->raft);
}

/* ---- submit ---- */

static void test_submit_beyond_the_window_is_busy_until_committed(void **state)
{
    struct solo *solo = *state;
    uint64_t index;
    unsigned taken = 0;
    solo_prepare(solo);
    solo->options.window_bytes = 1 << 20;
    solo_open(solo, 3);
    solo_turn(solo);
    solo_lead(solo);

    while (solo_submit(solo, 1, 100000, &index) == LIGHTQ_OK) {
        taken++;
        assert_true(taken < 100);
    }
    assert_int_equal(taken, 11);
    assert_int_equal(solo_submit(solo, 1, 100000, &index), LIGHTQ_EBUSY);
    solo_turn(solo);
    solo_acknowledge(solo);

    assert_int_equal(solo->group->window_bytes, 0);
    assert_int_equal(solo_submit(solo, 1, 100000, &index), LIGHTQ_OK);
}

static void test_submit_window_of_small_entries_is_their_number(void **state)
{
    struct solo *solo = *state;
    uint64_t index;
    unsigned taken = 0;
    solo_init(solo, 3);
    solo_lead(solo);

    while (solo_submit(solo, 1, 1, &index) == LIGHTQ_OK && taken < 20000) {
        taken++;
    }

    assert_in_range(taken, LQ_INFLIGHT_ENTRIES_MAX - 1, LQ_INFLIGHT_ENTRIES_MAX + 1);
    assert_int_equal(solo->group->raft.max_inflight_entries, LQ_INFLIGHT_ENTRIES_MAX);
}

static void test_submit_large_entries_lower_libraft_window(void **state)
{
    struct solo *solo = *state;
    uint64_t index;
    solo_init(solo, 3);
    solo_lead(solo);

    for (unsigned i = 0; i < 30; i++) {
        assert_int_equal(solo_submit(solo, 1, 1000000, &index), LIGHTQ_OK);
        solo_turn(solo);
        solo_acknowledge(solo);
    }

    assert_int_equal(solo->group->raft.max_inflight_entries, LQ_INFLIGHT_ENTRIES_MIN);
}

static void test_submit_too_big_is_refused(void **state)
{
    struct solo *solo = *state;
    uint64_t index;
    uint8_t byte = 1;
    const struct iovec iov = {.iov_base = &byte, .iov_len = LQ_ENTRY_BYTES_MAX};
    const struct lq_proposal proposal = {.payload = &iov, .payload_count = 1};
    solo_init(solo, 3);
    solo_lead(solo);

    assert_int_equal(lq_group_submit(solo->group, &proposal, &index), LIGHTQ_ETOOBIG);
}

static void test_submit_pieces_are_concatenated_and_stamped(void **state)
{
    struct solo *solo = *state;
    uint64_t index;
    char text[] = "abcde";
    const struct iovec iov[3] = {
        {.iov_base = text, .iov_len = 2}, {.iov_len = 0}, {.iov_base = text + 2, .iov_len = 3}};
    const struct lq_proposal proposal = {
        .payload = iov, .payload_count = 3, .message_count = 4, .base_offset = 77, .timestamp_ms = 123456};
    struct lq_entry_ref ref;
    struct lq_entry entry;
    uint64_t size;
    solo_init(solo, 3);
    solo_lead(solo);

    assert_int_equal(lq_group_submit(solo->group, &proposal, &index), LIGHTQ_OK);

    assert_int_equal(lq_rlog_peek(solo->group->log, index, 1, 1, &ref), 1);
    assert_int_equal(lq_entry_decode(lq_entry_ref_bytes(&ref), ref.size, true, &entry, &size, NULL), LIGHTQ_OK);
    assert_int_equal(entry.payload_size, 5);
    assert_memory_equal(entry.payload, "abcde", 5);
    assert_int_equal(entry.base_offset, 77);
    assert_int_equal(entry.timestamp_ms, 123456);
    assert_int_equal(entry.message_count, 4);
    assert_int_equal(entry.commit_index, 2);
    assert_int_equal(entry.prev_term, term_of(solo));
    assert_int_equal(solo->group->tail_offset, 81);
    lq_slab_unref(ref.slab);
}

static void test_submit_to_a_follower_is_refused(void **state)
{
    struct solo *solo = *state;
    uint64_t index;
    solo_init(solo, 3);
    solo_follow(solo, SOLO_PEER(2), 2);

    assert_int_equal(solo_submit(solo, 1, 1, &index), LIGHTQ_ENOTLEADER);
    assert_int_equal(solo->machine.leader, SOLO_PEER(2));
    assert_int_equal(solo->machine.follow_term, 2);
}

static void test_append_refused_by_the_log_stops_the_replica(void **state)
{
    struct solo *solo = *state;
    uint64_t index;
    solo_init(solo, 3);
    solo_lead(solo);
    fake_log_refuse_append(solo->group->log, LIGHTQ_ENOMEM);

    assert_int_equal(solo_submit(solo, 1, 1, &index), LIGHTQ_ESTOPPED);
    solo_advance(solo, 1000);

    assert_int_equal(solo->machine.stopped, LIGHTQ_ENOMEM);
}

static void submit_once(struct solo_machine *machine, const struct lq_entry *entry)
{
    uint64_t index;
    if (entry->type == LQ_ENTRY_COMMAND && machine->applied_count < 10) {
        assert_int_equal(solo_submit(machine->solo, 1, 5, &index), LIGHTQ_OK);
    }
}

static void test_submit_from_within_apply_works(void **state)
{
    struct solo *solo = *state;
    uint64_t index;
    solo_init(solo, 3);
    solo_lead(solo);
    solo->machine.on_apply = submit_once;

    assert_int_equal(solo_submit(solo, 1, 5, &index), LIGHTQ_OK);
    for (unsigned i = 0; i < 10; i++) {
        solo_turn(solo);
        solo_acknowledge(solo);
    }

    assert_int_equal(solo->machine.applied_count, 10);
}

static void close_it(struct solo_machine *machine, const struct lq_entry *entry)
{
    if (entry->type == LQ_ENTRY_COMMAND) {
        lq_group_close(machine->solo->group, false);
        machine->solo->group = NULL;
    }
}

static void test_close_from_within_apply_makes_no_further_call(void **state)
{
    struct solo *solo = *state;
    uint64_t index;
    solo_init(solo, 3);
    solo_lead(solo);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(solo_submit(solo, 1, 5, &index), LIGHTQ_OK);
    }
    solo_turn(solo);
    solo->machine.on_apply = close_it;

    solo_result(solo, SOLO_PEER(2), term_of(solo), 0, index);
    solo_turn(solo);

    assert_null(solo->group);
    assert_int_equal(solo->machine.applied_count, 3); /* entries 1, 2, and the first command */
    assert_null(lq_host_find(solo->host, SOLO_GROUP));
}

static void test_apply_failure_hands_over_and_stops(void **state)
{
    struct solo *solo = *state;
    uint64_t index;
    solo_init(solo, 3);
    solo_lead(solo);
    solo->machine.apply_status = LIGHTQ_ECORRUPT;
    assert_int_equal(solo_submit(solo, 1, 5, &index), LIGHTQ_OK);
    solo_turn(solo);

    solo_acknowledge(solo);
    assert_non_null(solo_last(solo, RAFT_TIMEOUT_NOW, 0));
    solo_advance(solo, 1000);

    assert_int_equal(solo->machine.stops, 1);
    assert_int_equal(solo->machine.stopped, LIGHTQ_ECORRUPT);
}

/* ---- a sole voter ---- */

static void test_sole_voter_takes_a_new_durable_term_at_each_start(void **state)
{
    struct solo *solo = *state;
    uint64_t index;
    solo_prepare(solo);
    solo_open(solo, 1);
    solo_turn_only(solo);
    assert_int_equal(solo->machine.leads, 0); /* its vote is not durable */
    solo_turn(solo);
    assert_int_equal(solo->machine.leads, 1);
    uint64_t term = term_of(solo);
    assert_int_equal(term, 2); /* above that of its first entry */
    assert_int_equal(solo_submit(solo, 3, 5, &index), LIGHTQ_OK);
    solo_turn(solo);
    assert_int_equal(solo->machine.state, 3);

    solo_restart(solo);
    solo_turn(solo);

    assert_int_equal(solo->machine.leads, 1);
    assert_int_equal(term_of(solo), term + 1);
    assert_int_equal(raft_voted_for(&solo->group->raft), SOLO_SELF);
    assert_int_equal(solo->machine.state, 3);
}

/* ---- transfer ---- */

static void test_transfer_asks_the_best_and_asks_again(void **state)
{
    struct solo *solo = *state;
    uint64_t index;
    solo_init(solo, 3);
    solo_lead(solo);
    solo_result(solo, SOLO_PEER(2), term_of(solo), 0, 1);
    solo_acknowledge(solo);
    solo_forget_sent(solo);

    assert_int_equal(lq_group_transfer(solo->group, SOLO_PEER(3)), LIGHTQ_OK);
    solo_turn(solo);
    assert_int_equal(solo_count(solo, RAFT_TIMEOUT_NOW, 3), 1);
    assert_int_equal(solo_submit(solo, 1, 1, &index), LIGHTQ_ENOTLEADER);
    assert_int_equal(lq_group_transfer(solo->group, SOLO_PEER(2)), LIGHTQ_ECONFLICT);
    solo_advance(solo, 250); /* it was lost */
    assert_in_range(solo_count(solo, RAFT_TIMEOUT_NOW, 3), 2, 4);

    solo_beat(solo, SOLO_PEER(3), term_of(solo) + 1, 2, lq_rlog_term_at(solo->group->log, 2), 2);
    solo_turn(solo);
    solo_forget_sent(solo);
    solo_advance(solo, 300);
    assert_int_equal(solo_count(solo, RAFT_TIMEOUT_NOW, 0), 0);
    assert_int_equal(solo->machine.leader, SOLO_PEER(3));
}

/* A node that has just come back: its group would take no messages until it has caught up. */
static void test_transfer_waits_for_who_is_behind_or_has_just_come_back(void **state)
{
    struct solo *solo = *state;
    uint64_t index = 0;
    solo_init(solo, 3);
    solo_lead(solo);
    for (unsigned i = 0; i < 2 * LQ_PROMOTE_LAG_ENTRIES; i++) {
        assert_int_equal(solo_submit(solo, 1, 10, &index), LIGHTQ_OK);
        solo_turn(solo);
        solo_result(solo, SOLO_PEER(2), raft_current_term(&solo->group->raft), 0, index);
        solo_turn(solo);
    }

    solo_result(solo, SOLO_PEER(3), raft_current_term(&solo->group->raft), 0, 1); /* it is there, and far behind */
    assert_int_equal(lq_group_transfer(solo->group, SOLO_PEER(3)), LIGHTQ_EBUSY);
    assert_int_equal(solo_submit(solo, 1, 10, &index), LIGHTQ_OK); /* and nothing is held up by it */
    solo_turn(solo);
    solo_result(solo, SOLO_PEER(3), raft_current_term(&solo->group->raft), 0, index);
    solo_result(solo, SOLO_PEER(2), raft_current_term(&solo->group->raft), 0, index);
    lq_host_link_events.down(solo->host, 3, true); /* its process ended: what it said before does not count */
    assert_int_equal(lq_group_transfer(solo->group, SOLO_PEER(3)), LIGHTQ_EUNAVAILABLE);
    solo_result(solo, SOLO_PEER(3), raft_current_term(&solo->group->raft), 0, index);
    assert_int_equal(lq_group_transfer(solo->group, SOLO_PEER(3)), LIGHTQ_OK);
}

static void test_transfer_to_who_cannot_lead_is_refused(void **state)
{
    struct solo *solo = *state;
    solo_init(solo, 3);
    assert_int_equal(lq_group_transfer(solo->group, 0), LIGHTQ_ENOTLEADER);
    solo_lead(solo);

    assert_int_equal(lq_group_transfer(solo->group, SOLO_PEER(9)), LIGHTQ_EUNAVAILABLE);
    assert_int_equal(lq_group_transfer(solo->group, SOLO_SELF), LIGHTQ_EUNAVAILABLE);
    solo->now_us += 1500000; /* nobody was heard for longer than an election timeout */
    assert_int_equal(lq_group_transfer(solo->group, 0), LIGHTQ_EUNAVAILABLE);
}

static void test_drain_hands_over_and_goes_on_doing_so(void **state)
{
    struct solo *solo = *state;
    solo_init(solo, 3);
    solo_lead(solo);
    solo_acknowledge(solo);
    assert_int_equal(lq_host_leading(solo->host), 1);

    lq_host_drain(solo->host);
    solo_turn(solo);
    assert_int_equal(solo_count(solo, RAFT_TIMEOUT_NOW, 0), 1);
    solo_beat(solo, SOLO_PEER(3), term_of(solo) + 1, 2, lq_rlog_term_at(solo->group->log, 2), 2);
    assert_int_equal(lq_host_leading(solo->host), 0);

    solo_lead(solo); /* elected again: handed over again */
    solo_advance(solo, 50);
    assert_non_null(solo_last(solo, RAFT_TIMEOUT_NOW, 0));
}

static void test_drain_does_not_wait_for_a_sole_voter(void **state)
{
    struct solo *solo = *state;
    solo_init(solo, 1);
    assert_int_equal(lq_host_leading(solo->host), 1);

    lq_host_drain(solo->host);

    assert_int_equal(lq_host_leading(solo->host), 0);
}

/* ---- disks ---- */

static void acknowledge_from(struct solo *solo, uint32_t node)
{
    solo_result(solo, SOLO_PEER(node), term_of(solo), 0, lq_rlog_last(solo->group->log));
}

static void test_stalled_disk_hands_over_then_falls_silent(void **state)
{
    struct solo *solo = *state;
    uint64_t index;
    struct lq_host_counters counters;
    solo_init(solo, 3);
    solo_lead(solo);
    assert_int_equal(solo_submit(solo, 1, 10, &index), LIGHTQ_OK);
    for (unsigned i = 0; i < 14; i++) {
        solo_advance_only(solo, 100);
        acknowledge_from(solo, 2);
        acknowledge_from(solo, 3);
    }
    assert_int_equal(solo->group->committed, index); /* through the others */
    assert_null(solo_last(solo, RAFT_TIMEOUT_NOW, 0));

    for (unsigned i = 0; i < 2; i++) {
        solo_advance_only(solo, 100);
        acknowledge_from(solo, 2);
        acknowledge_from(solo, 3);
    }
    assert_non_null(solo_last(solo, RAFT_TIMEOUT_NOW, 0));
    assert_int_equal(solo_submit(solo, 1, 10, &index), LIGHTQ_ENOTLEADER);
    for (unsigned i = 0; i < 12; i++) {
        solo_advance_only(solo, 100);
        acknowledge_from(solo, 2);
    }
    solo_forget_sent(solo);
    solo_advance_only(solo, 2500); /* silent, so nobody answers: it steps down */
    assert_int_equal(solo_count(solo, RAFT_APPEND_ENTRIES, 0), 0);
    assert_false(lq_group_leads(solo->group));
    assert_int_equal(solo->machine.lead_term, 0);
    lq_host_count_up(solo->host, &counters);
    assert_int_equal(counters.stalls, 1);

    solo_turn(solo); /* the disk is back: so is the replica */
    solo_lead(solo);
    assert_int_equal(solo_submit(solo, 1, 10, &index), LIGHTQ_OK);
}

static void test_slow_disk_that_goes_on_does_not_hand_over(void **state)
{
    struct solo *solo = *state;
    uint64_t index;
    solo_init(solo, 3);
    solo_lead(solo);

    for (unsigned i = 0; i < 40; i++) {
        assert_int_equal(solo_submit(solo, 1, 10, &index), LIGHTQ_OK);
        solo_advance_only(solo, 100);
        acknowledge_from(solo, 2);
        acknowledge_from(solo, 3);
        if (i % 10 == 9) {
            fake_store_complete(solo->store); /* a second behind, but moving */
        }
    }

    assert_null(solo_last(solo, RAFT_TIMEOUT_NOW, 0));
    assert_true(lq_group_leads(solo->group));
}

/* Case A12: a leader goes on after its write failed. */
static void test_failed_disk_hands_over_closes_and_tells(void **state)
{
    struct solo *solo = *state;
    uint64_t index;
    struct lq_group_status status;
    solo_init(solo, 3);
    solo_lead(solo);
    assert_int_equal(solo_submit(solo, 1, 10, &index), LIGHTQ_OK);
    solo_turn_only(solo);

    fake_log_fail(solo->group->log, LIGHTQ_EIO);
    assert_int_equal(solo_submit(solo, 1, 10, &index), LIGHTQ_ESTOPPED);
    solo_turn_only(solo);
    const struct solo_sent *sent = solo_last(solo, RAFT_TIMEOUT_NOW, 0);
    assert_non_null(sent);
    assert_int_equal(sent->message.timeout_now.last_log_index, 2); /* what the best is known to have */
    acknowledge_from(solo, 2);
    solo_advance_only(solo, 150);
    sent = solo_last(solo, RAFT_TIMEOUT_NOW, 2);
    assert_non_null(sent);
    assert_int_equal(sent->message.timeout_now.last_log_index, 3); /* it has more now */
    solo_forget_sent(solo);
    solo_advance_only(solo, 2000);

    assert_int_equal(solo_count(solo, RAFT_APPEND_ENTRIES, 0), 0);
    assert_int_equal(solo->machine.stops, 1);
    assert_int_equal(solo->machine.stopped, LIGHTQ_EIO);
    lq_group_status(solo->group, &status);
    assert_true(status.stopped);
    assert_false(status.leading);
}

/* A failed disk can store no vote: nothing is granted, and no term is taken from anybody. */
static void test_failed_disk_votes_for_nobody(void **state)
{
    struct solo *solo = *state;
    struct raft_message message = {.type = RAFT_REQUEST_VOTE};
    solo_init(solo, 3);
    solo_lead(solo);
    uint64_t term = term_of(solo);
    fake_log_fail(solo->group->log, LIGHTQ_EIO);
    solo_turn_only(solo);
    message.request_vote = (struct raft_request_vote){.version = 2,
                                                      .term = term + 1,
                                                      .candidate_id = SOLO_PEER(2),
                                                      .last_log_index = 9,
                                                      .last_log_term = term,
                                                      .disrupt_leader = true};

    solo_message(solo, SOLO_PEER(2), &message);
    solo_turn_only(solo);

    assert_null(solo_last(solo, RAFT_REQUEST_VOTE_RESULT, 0));
    assert_int_equal(term_of(solo), term);
}

static void test_failed_disk_of_a_follower_stops_it_at_once(void **state)
{
    struct solo *solo = *state;
    solo_init(solo, 3);
    solo_follow(solo, SOLO_PEER(2), 2);

    fake_log_fail(solo->group->log, LIGHTQ_EIO);
    solo_turn_only(solo);

    assert_int_equal(solo->machine.stops, 1);
    solo_beat(solo, SOLO_PEER(2), 2, 1, 1, 1);
    solo_advance(solo, 3000);
    assert_int_equal(solo->sent_count, 0);
}

/* ---- fast failover ---- */

/* Cut off between pre-vote and vote it must not come back with a term that deposes whoever leads then. */
static void test_candidate_that_hears_nothing_keeps_its_term_and_asks_again(void **state)
{
    struct solo *solo = *state;
    solo_init(solo, 3);
    for (unsigned i = 0; i < 40 && solo_count(solo, RAFT_REQUEST_VOTE, 2) == 0; i++) {
        solo_advance(solo, 100);
    }
    struct raft_message granted = {.type = RAFT_REQUEST_VOTE_RESULT};
    granted.request_vote_result =
        (struct raft_request_vote_result){.version = 2, .term = 2, .vote_granted = true, .pre_vote = true};
    solo_message(solo, SOLO_PEER(2), &granted);
    solo_turn(solo);
    assert_int_equal(raft_current_term(&solo->group->raft), 2);
    solo_forget_sent(solo);

    solo_advance(solo, 20000);

    assert_int_equal(raft_current_term(&solo->group->raft), 2);
    assert_true(solo_count(solo, RAFT_REQUEST_VOTE, 3) >= 10);
    assert_true(solo_count(solo, RAFT_REQUEST_VOTE, 3) <= 30);
    const struct raft_request_vote *again = &solo_last(solo, RAFT_REQUEST_VOTE, 3)->message.request_vote;
    assert_false(again->pre_vote);
    assert_false(again->disrupt_leader);
    assert_int_equal(again->term, 2);
    assert_int_equal(again->candidate_id, SOLO_PEER(1));
    assert_int_equal(again->last_log_index, solo->group->raft.last_stored);
    assert_int_equal(again->last_log_term, 1);
    struct raft_message refused = {.type = RAFT_REQUEST_VOTE_RESULT};
    refused.request_vote_result = (struct raft_request_vote_result){.version = 2, .term = 2};
    solo_message(solo, SOLO_PEER(3), &refused); /* somebody is there: it may stand again */
    solo_advance(solo, 3000);
    assert_true(raft_current_term(&solo->group->raft) >= 3);
}

static void test_candidate_that_asks_again_can_win(void **state)
{
    struct solo *solo = *state;
    solo_init(solo, 3);
    for (unsigned i = 0; i < 40 && solo_count(solo, RAFT_REQUEST_VOTE, 2) == 0; i++) {
        solo_advance(solo, 100);
    }
    struct raft_message granted = {.type = RAFT_REQUEST_VOTE_RESULT};
    granted.request_vote_result =
        (struct raft_request_vote_result){.version = 2, .term = 2, .vote_granted = true, .pre_vote = true};
    solo_message(solo, SOLO_PEER(2), &granted);
    solo_advance(solo, 5000);

    granted.request_vote_result.pre_vote = false;
    solo_message(solo, SOLO_PEER(3), &granted);
    solo_turn(solo);

    assert_int_equal(solo->group->raft.state, RAFT_LEADER);
    assert_int_equal(raft_current_term(&solo->group->raft), 2);
}

/* Its own vote is not durable: the term's requests have not gone, and must not go by another way. */
static void test_candidate_asks_nobody_again_before_its_vote_is_durable(void **state)
{
    struct solo *solo = *state;
    solo_init(solo, 3);
    fake_store_hold_votes(solo->store, true);
    for (unsigned i = 0; i < 40 && solo_count(solo, RAFT_REQUEST_VOTE, 2) == 0; i++) {
        solo_advance(solo, 100);
    }
    struct raft_message granted = {.type = RAFT_REQUEST_VOTE_RESULT};
    granted.request_vote_result =
        (struct raft_request_vote_result){.version = 2, .term = 2, .vote_granted = true, .pre_vote = true};
    solo_message(solo, SOLO_PEER(2), &granted);
    solo_turn(solo);
    solo_forget_sent(solo);

    solo_advance(solo, 5000);

    assert_null(solo_last(solo, RAFT_REQUEST_VOTE, 0));
    fake_store_hold_votes(solo->store, false);
    solo_turn(solo);
    assert_false(solo_last(solo, RAFT_REQUEST_VOTE, 2)->message.request_vote.pre_vote);
}

static void test_failover_after_a_refused_connection_is_fast(void **state)
{
    struct solo *solo = *state;
    solo_init(solo, 3);
    solo_follow(solo, SOLO_PEER(2), 2);
    solo->connected[2] = false;

    lq_host_link_events.down(solo->host, 2, true);
    solo_advance(solo, 15);
    assert_int_equal(solo_count(solo, RAFT_REQUEST_VOTE, 3), 0);
    solo_advance(solo, 150);

    const struct solo_sent *sent = solo_last(solo, RAFT_REQUEST_VOTE, 3);
    assert_non_null(sent);
    assert_true(sent->message.request_vote.pre_vote);
    unsigned asked = solo_count(solo, RAFT_REQUEST_VOTE, 3);
    solo_advance(solo, 300); /* the other may not have lost the leader yet: asked again */
    assert_true(solo_count(solo, RAFT_REQUEST_VOTE, 3) > asked);
}

static void test_failover_only_for_the_leaders_process(void **state)
{
    struct solo *solo = *state;
    solo_init(solo, 3);
    solo_follow(solo, SOLO_PEER(2), 2);

    lq_host_link_events.down(solo->host, 3, true); /* not the leader */
    assert_true(solo->group->failover_ms == LQ_NEVER);
    solo->connected[2] = false;
    lq_host_link_events.down(solo->host, 2, false); /* silent, not gone */
    for (unsigned i = 0; i < 5; i++) {
        solo_advance(solo, 100);
        solo_beat(solo, SOLO_PEER(2), 2, 1, 1, 1);
    }

    assert_int_equal(solo_count(solo, RAFT_REQUEST_VOTE, 0), 0);
}

static void test_failover_is_given_up_when_the_leader_is_back(void **state)
{
    struct solo *solo = *state;
    solo_init(solo, 3);
    solo_follow(solo, SOLO_PEER(2), 2);
    solo->connected[2] = false;
    lq_host_link_events.down(solo->host, 2, true);

    solo->connected[2] = true;
    lq_host_link_events.up(solo->host, 2);
    for (unsigned i = 0; i < 5; i++) {
        solo_advance(solo, 100);
        solo_beat(solo, SOLO_PEER(2), 2, 1, 1, 1);
    }

    assert_int_equal(solo_count(solo, RAFT_REQUEST_VOTE, 0), 0);
    assert_int_equal(solo->group->shift_ms, 0);
}

/* ---- life ---- */

static const struct lq_machine_ops *ops_of(const struct solo *solo)
{
    return solo->group->ops;
}

static void test_open_refuses_what_is_damaged_lost_or_newer(void **state)
{
    struct solo *solo = *state;
    struct lq_group *group;
    struct lq_err err;
    solo_init(solo, 3);
    const struct lq_machine_ops *ops = ops_of(solo);
    assert_int_equal(lq_group_open(solo->host, SOLO_GROUP, 1, NULL, ops, &solo->machine, &group, &err), LIGHTQ_EEXISTS);
    lq_group_close(solo->group, false);
    solo->group = NULL;

    fake_log_set_health(lq_store_find(solo->store, SOLO_GROUP), LQ_RLOG_DAMAGED);
    assert_int_equal(lq_group_open(solo->host, SOLO_GROUP, 1, NULL, ops, &solo->machine, &group, &err),
                     LIGHTQ_EDAMAGED);
    assert_int_equal(lq_group_open(solo->host, SOLO_GROUP, 0, NULL, ops, &solo->machine, &group, &err),
                     LIGHTQ_EDAMAGED);
    lq_rlog_destroy(lq_store_find(solo->store, SOLO_GROUP)); /* the journal still knows it */
    assert_int_equal(lq_group_open(solo->host, SOLO_GROUP, 1, NULL, ops, &solo->machine, &group, &err),
                     LIGHTQ_EDAMAGED);
}

static void test_open_with_a_newer_incarnation_begins_empty(void **state)
{
    struct solo *solo = *state;
    struct lq_err err;
    solo_init(solo, 3);
    const struct lq_machine_ops *ops = ops_of(solo);
    lq_group_close(solo->group, false);

    assert_int_equal(lq_group_open(solo->host, SOLO_GROUP, 2, NULL, ops, &solo->machine, &solo->group, &err),
                     LIGHTQ_OK);
    solo_turn(solo);

    assert_int_equal(lq_rlog_last(solo->group->log), 0);
    assert_int_equal(solo->group->self, lq_replica_make(1, 2));
    solo_advance(solo, 3000);
    assert_int_equal(solo_count(solo, RAFT_REQUEST_VOTE, 0), 0); /* it waits to be added */
}

static void test_bootstrap_entry_is_the_same_on_every_founder(void **state)
{
    struct solo *solo = *state;
    struct lq_entry_ref ref;
    struct lq_entry entry;
    struct lq_servers servers;
    uint64_t size;
    solo_init(solo, 3);

    assert_int_equal(lq_rlog_peek(solo->group->log, 1, 1, 1, &ref), 1);
    assert_int_equal(lq_entry_decode(lq_entry_ref_bytes(&ref), ref.size, true, &entry, &size, NULL), LIGHTQ_OK);

    assert_int_equal(entry.type, LQ_ENTRY_CHANGE);
    assert_int_equal(entry.term, 1);
    assert_int_equal(entry.timestamp_ms, 0);
    assert_int_equal(entry.base_offset, 0);
    assert_int_equal(entry.commit_index, 0);
    assert_int_equal(lq_rpc_check_configuration(entry.payload, entry.payload_size, &servers, NULL), LIGHTQ_OK);
    assert_int_equal(servers.count, 3);
    assert_int_equal(servers.at[2].id, SOLO_SELF);
    assert_int_equal(raft_current_term(&solo->group->raft), 1);
    lq_slab_unref(ref.slab);
}

static void test_bootstrap_interrupted_is_made_up_for(void **state)
{
    struct solo *solo = *state;
    solo_prepare(solo);
    solo_open(solo, 3);
    solo_turn_only(solo); /* entry 1 is not durable: lost */
    const struct lq_machine_ops *ops = ops_of(solo);
    lq_store_abandon(solo->store);
    lq_host_abandon(solo->host);

    solo_open(solo, 3);
    solo_turn(solo);

    (void)ops;
    assert_int_equal(lq_rlog_last(solo->group->log), 1);
    assert_int_equal(lq_rlog_durable(solo->group->log), 1);
    solo_lead(solo);
}

static void test_first_founder_elects_itself_without_waiting(void **state)
{
    struct solo *solo = *state;
    struct lq_err err;
    const struct lq_servers founders = {
        .count = 2,
        .at = {{.id = lq_replica_make(1, 3), .role = LQ_ROLE_VOTER}, {.id = SOLO_PEER(2), .role = LQ_ROLE_VOTER}}};
    solo_init(solo, 3);
    const struct lq_machine_ops *ops = ops_of(solo);
    lq_group_close(solo->group, true);
    assert_int_equal(lq_group_open(solo->host, SOLO_GROUP, 3, &founders, ops, &solo->machine, &solo->group, &err),
                     LIGHTQ_OK);

    solo_advance(solo, 100);

    assert_non_null(solo_last(solo, RAFT_REQUEST_VOTE, 2));
}

static void test_restart_replays_from_the_newest_checkpoint(void **state)
{
    struct solo *solo = *state;
    uint64_t index;
    solo_prepare(solo);
    solo->store_options.segment_bytes = 1000;
    solo_open(solo, 3);
    solo_turn(solo);
    solo_lead(solo);
    for (unsigned i = 0; i < 30; i++) {
        assert_int_equal(solo_submit(solo, 1, 100, &index), LIGHTQ_OK);
        solo_turn(solo);
        solo_acknowledge(solo);
    }
    assert_int_equal(solo->machine.state, 30);

    solo_restart(solo);
    solo_turn(solo);
    assert_in_range(solo->machine.state, 20, 30);
    unsigned loaded = (unsigned)solo->machine.state;
    solo_lead(solo);

    assert_int_equal(solo->machine.state, 30);
    assert_in_range(solo->machine.applied_count, 30 - loaded, 30 - loaded + 3);
    assert_int_equal(solo->group->tail_offset, 30);
}

/* Found by chaos/run old-copy: a node whose peers had all been replaced knew them only from a catalog that it applied
 * when a leader spoke with it, and refused every leader as a stranger, for ever. */
static void test_restart_applies_what_the_last_entry_says_is_committed(void **state)
{
    struct solo *solo = *state;
    uint64_t index;
    solo_init(solo, 3);
    solo_lead(solo);
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(solo_submit(solo, 1, 100, &index), LIGHTQ_OK);
        solo_turn(solo);
        solo_acknowledge(solo);
    }
    assert_int_equal(solo->machine.state, 5);

    solo_restart(solo);
    solo_turn(solo);

    assert_int_equal(solo->machine.state, 4); /* the last one's own commit is in no entry yet */
    assert_int_equal(solo->group->committed, index - 1);
    solo_lead(solo);
    assert_int_equal(solo->machine.state, 5);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    lq_log_configure(LQ_LOG_OFF, 2);
    const struct CMUnitTest tests[] = {
        TEST(test_submit_beyond_the_window_is_busy_until_committed),
        TEST(test_submit_window_of_small_entries_is_their_number),
        TEST(test_submit_large_entries_lower_libraft_window),
        TEST(test_submit_too_big_is_refused),
        TEST(test_submit_pieces_are_concatenated_and_stamped),
        TEST(test_submit_to_a_follower_is_refused),
        TEST(test_append_refused_by_the_log_stops_the_replica),
        TEST(test_submit_from_within_apply_works),
        TEST(test_close_from_within_apply_makes_no_further_call),
        TEST(test_apply_failure_hands_over_and_stops),
        TEST(test_sole_voter_takes_a_new_durable_term_at_each_start),
        TEST(test_transfer_asks_the_best_and_asks_again),
        TEST(test_transfer_waits_for_who_is_behind_or_has_just_come_back),
        TEST(test_transfer_to_who_cannot_lead_is_refused),
        TEST(test_drain_hands_over_and_goes_on_doing_so),
        TEST(test_drain_does_not_wait_for_a_sole_voter),
        TEST(test_stalled_disk_hands_over_then_falls_silent),
        TEST(test_slow_disk_that_goes_on_does_not_hand_over),
        TEST(test_failed_disk_hands_over_closes_and_tells),
        TEST(test_failed_disk_votes_for_nobody),
        TEST(test_failed_disk_of_a_follower_stops_it_at_once),
        TEST(test_candidate_that_hears_nothing_keeps_its_term_and_asks_again),
        TEST(test_candidate_that_asks_again_can_win),
        TEST(test_candidate_asks_nobody_again_before_its_vote_is_durable),
        TEST(test_failover_after_a_refused_connection_is_fast),
        TEST(test_failover_only_for_the_leaders_process),
        TEST(test_failover_is_given_up_when_the_leader_is_back),
        TEST(test_open_refuses_what_is_damaged_lost_or_newer),
        TEST(test_open_with_a_newer_incarnation_begins_empty),
        TEST(test_bootstrap_entry_is_the_same_on_every_founder),
        TEST(test_bootstrap_interrupted_is_made_up_for),
        TEST(test_first_founder_elects_itself_without_waiting),
        TEST(test_restart_replays_from_the_newest_checkpoint),
        TEST(test_restart_applies_what_the_last_entry_says_is_committed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
