/* The host's side of the ten rules that keep acknowledged entries safe (docs/architecture.md, "Rules that keep it
 * safe"). The test plays the peers and the disk. Cases A1, A2, A3, A4, A5, A10, A12. */
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

static uint64_t stored(const struct solo *solo)
{
    return solo->group->raft.last_stored;
}

static uint64_t last_applied(const struct solo *solo)
{
    return solo->machine.applied_count == 0 ? 0 : solo->machine.applied[solo->machine.applied_count - 1];
}

static void test_group_elected_and_acknowledged_applies(void **state)
{
    struct solo *solo = *state;
    uint64_t index;
    solo_init(solo, 3);
    solo_lead(solo);
    assert_int_equal(solo->machine.leads, 1);

    assert_int_equal(solo_submit(solo, 5, 100, &index), LIGHTQ_OK);
    solo_turn(solo);
    assert_int_not_equal(last_applied(solo), index);
    solo_acknowledge(solo);

    assert_int_equal(last_applied(solo), index);
    assert_int_equal(solo->machine.state, 5);
}

/* ---- rule 1: only what is durable is reported persisted ---- */

static void test_rule1_undurable_entries_are_not_acknowledged(void **state)
{
    struct solo *solo = *state;
    solo_init(solo, 3);
    solo_follow(solo, SOLO_PEER(2), 2);
    const struct solo_append append = {.from = SOLO_PEER(2), .term = 2, .prev = 1, .prev_term = 1, .count = 3};

    assert_int_equal(solo_append(solo, &append), LIGHTQ_OK);
    solo_turn_only(solo);
    solo_turn_only(solo);

    assert_int_equal(lq_rlog_last(solo->group->log), 4);
    assert_int_equal(stored(solo), 1);
    assert_null(solo_last(solo, RAFT_APPEND_ENTRIES_RESULT, 2));

    solo_turn(solo);
    assert_int_equal(stored(solo), 4);
    assert_int_equal(solo_last(solo, RAFT_APPEND_ENTRIES_RESULT, 2)->message.append_entries_result.last_log_index, 4);
}

static void test_rule1_leader_does_not_count_itself_before_durable(void **state)
{
    struct solo *solo = *state;
    uint64_t index;
    solo_init(solo, 3);
    solo_lead(solo);
    uint64_t term = raft_current_term(&solo->group->raft);

    assert_int_equal(solo_submit(solo, 1, 10, &index), LIGHTQ_OK);
    solo_turn_only(solo);
    solo_result(solo, SOLO_PEER(2), term, 0, index); /* one of three, and our own disk is silent */
    solo_turn_only(solo);

    assert_true(solo->group->committed < index);
    solo_turn(solo);
    assert_int_equal(solo->group->committed, index);
}

/* Truncated between append and durable: the news of the old entries does not count for the new ones. */
static void test_rule1_news_of_cut_entries_is_clamped(void **state)
{
    struct solo *solo = *state;
    solo_init(solo, 3);
    solo_follow(solo, SOLO_PEER(2), 2);
    const struct solo_append old = {.from = SOLO_PEER(2), .term = 2, .prev = 1, .prev_term = 1, .count = 5};
    const struct solo_append new = {.from = SOLO_PEER(3), .term = 3, .prev = 2, .prev_term = 2, .count = 1};
    assert_int_equal(solo_append(solo, &old), LIGHTQ_OK);
    solo_turn_only(solo); /* 2..6 are being written */

    assert_int_equal(solo_append(solo, &new), LIGHTQ_OK); /* cuts 3..6, appends 3 */
    fake_store_complete(solo->store);                     /* the write of before */
    solo_turn_only(solo);

    assert_int_equal(lq_rlog_last(solo->group->log), 3);
    assert_true(stored(solo) <= 2);
    solo_turn(solo);
    assert_int_equal(stored(solo), 3);
    assert_int_equal(lq_rlog_term_at(solo->group->log, 3), 3);
}

/* ---- rule 2: cut, then append; every entry chains ---- */

static void test_rule2_conflicting_tail_is_replaced(void **state)
{
    struct solo *solo = *state;
    solo_init(solo, 3);
    solo_follow(solo, SOLO_PEER(2), 2);
    const struct solo_append old = {.from = SOLO_PEER(2), .term = 2, .prev = 1, .prev_term = 1, .count = 5};
    const struct solo_append new = {.from = SOLO_PEER(3), .term = 4, .prev = 3, .prev_term = 2, .count = 2};
    assert_int_equal(solo_append(solo, &old), LIGHTQ_OK);
    solo_turn(solo);
    uint64_t generation = lq_rlog_generation(solo->group->log);

    assert_int_equal(solo_append(solo, &new), LIGHTQ_OK);
    solo_turn(solo);

    assert_int_equal(lq_rlog_last(solo->group->log), 5);
    assert_int_equal(lq_rlog_term_at(solo->group->log, 3), 2);
    assert_int_equal(lq_rlog_term_at(solo->group->log, 4), 4);
    assert_true(lq_rlog_generation(solo->group->log) > generation);
    assert_int_equal(stored(solo), 5);
}

/* ---- rule 3: nothing is said before the vote is durable ---- */

static void ask_for_vote(struct solo *solo, lq_replica_id from, uint64_t term)
{
    struct raft_message message = {.type = RAFT_REQUEST_VOTE};
    message.request_vote = (struct raft_request_vote){.version = 2,
                                                      .term = term,
                                                      .candidate_id = from,
                                                      .last_log_index = 100,
                                                      .last_log_term = term - 1,
                                                      .disrupt_leader = true};
    solo_message(solo, from, &message);
}

static void test_rule3_vote_waits_until_durable(void **state)
{
    struct solo *solo = *state;
    solo_init(solo, 3);
    fake_store_hold_votes(solo->store, true);

    ask_for_vote(solo, SOLO_PEER(2), 5);
    solo_turn(solo);
    assert_null(solo_last(solo, RAFT_REQUEST_VOTE_RESULT, 2));

    fake_store_hold_votes(solo->store, false);
    solo_turn(solo);
    const struct solo_sent *sent = solo_last(solo, RAFT_REQUEST_VOTE_RESULT, 2);
    assert_non_null(sent);
    assert_true(sent->message.request_vote_result.vote_granted);
    assert_int_equal(sent->message.request_vote_result.term, 5);
}

static void test_rule3_later_messages_wait_too(void **state)
{
    struct solo *solo = *state;
    solo_init(solo, 3);
    fake_store_hold_votes(solo->store, true);
    solo_beat(solo, SOLO_PEER(2), 5, 1, 1, 1); /* raises the term: pending */
    solo_turn(solo);

    solo_beat(solo, SOLO_PEER(2), 5, 1, 1, 1); /* a later step */
    solo_turn(solo);
    assert_null(solo_last(solo, RAFT_APPEND_ENTRIES_RESULT, 2));

    fake_store_hold_votes(solo->store, false);
    solo_turn(solo);
    assert_int_equal(solo_count(solo, RAFT_APPEND_ENTRIES_RESULT, 2), 2);
}

static void test_rule3_persisted_events_wait_too(void **state)
{
    struct solo *solo = *state;
    solo_init(solo, 3);
    fake_store_hold_votes(solo->store, true);
    const struct solo_append append = {.from = SOLO_PEER(2), .term = 5, .prev = 1, .prev_term = 1, .count = 2};

    assert_int_equal(solo_append(solo, &append), LIGHTQ_OK);
    solo_turn(solo);
    assert_int_equal(lq_rlog_durable(solo->group->log), 3); /* the entries are durable, the term is not */
    assert_int_equal(stored(solo), 1);

    fake_store_hold_votes(solo->store, false);
    solo_turn(solo);
    assert_int_equal(stored(solo), 3);
    assert_non_null(solo_last(solo, RAFT_APPEND_ENTRIES_RESULT, 2));
}

static void test_rule3_candidate_waits_for_its_own_vote(void **state)
{
    struct solo *solo = *state;
    solo_init(solo, 3);
    fake_store_hold_votes(solo->store, true);
    for (unsigned i = 0; i < 40 && solo_count(solo, RAFT_REQUEST_VOTE, 2) == 0; i++) {
        solo_advance(solo, 100);
    }
    assert_true(solo_last(solo, RAFT_REQUEST_VOTE, 2)->message.request_vote.pre_vote);
    struct raft_message message = {.type = RAFT_REQUEST_VOTE_RESULT};
    message.request_vote_result =
        (struct raft_request_vote_result){.version = 2, .term = 2, .vote_granted = true, .pre_vote = true};
    solo_forget_sent(solo);

    solo_message(solo, SOLO_PEER(2), &message);
    solo_turn(solo);
    assert_int_equal(raft_current_term(&solo->group->raft), 2);
    assert_null(solo_last(solo, RAFT_REQUEST_VOTE, 0));

    fake_store_hold_votes(solo->store, false);
    solo_turn(solo);
    assert_false(solo_last(solo, RAFT_REQUEST_VOTE, 2)->message.request_vote.pre_vote);
}

/* Found by a seed: a candidate whose log is needed stayed in a term below ours for ever, because a refused pre-vote did
 * not tell it of ours (recv_request_vote.c:119). */
static void test_rule3_refused_pre_vote_tells_the_term(void **state)
{
    struct solo *solo = *state;
    struct raft_message message = {.type = RAFT_REQUEST_VOTE};
    solo_init(solo, 3);
    ask_for_vote(solo, SOLO_PEER(2), 9); /* granted: our term is 9 */
    solo_turn(solo);
    solo_advance(solo, 2500);
    solo_forget_sent(solo);
    message.request_vote = (struct raft_request_vote){.version = 2,
                                                      .term = 5,
                                                      .candidate_id = SOLO_PEER(3),
                                                      .last_log_index = 200,
                                                      .last_log_term = 4,
                                                      .pre_vote = true};

    solo_message(solo, SOLO_PEER(3), &message);
    solo_turn(solo);

    const struct raft_request_vote_result *result =
        &solo_last(solo, RAFT_REQUEST_VOTE_RESULT, 3)->message.request_vote_result;
    assert_true(result->pre_vote);
    assert_false(result->vote_granted);
    assert_true(result->term >= 9);
}

static void test_rule3_vote_survives_a_crash(void **state)
{
    struct solo *solo = *state;
    solo_init(solo, 3);
    ask_for_vote(solo, SOLO_PEER(2), 5);
    solo_turn(solo);
    assert_non_null(solo_last(solo, RAFT_REQUEST_VOTE_RESULT, 2));

    solo_restart(solo);
    solo_turn(solo);
    ask_for_vote(solo, SOLO_PEER(3), 5);
    solo_turn(solo);

    assert_false(solo_last(solo, RAFT_REQUEST_VOTE_RESULT, 3)->message.request_vote_result.vote_granted);
}

/* The journal lost a term that the log shows: START takes the log's. */
static void test_rule3_term_at_start_is_at_least_that_of_the_log(void **state)
{
    struct solo *solo = *state;
    struct lq_rlog *log;
    struct lq_err err;
    solo_prepare(solo);
    solo_open(solo, 3);
    solo_turn(solo);
    log = solo->group->log;
    struct lq_entry_ref ref = solo_entry(2, 9, 1, LQ_ENTRY_COMMAND, "x", 1);
    assert_int_equal(lq_rlog_append(log, &ref, 1), LIGHTQ_OK);
    lq_slab_unref(ref.slab);
    lq_store_flush(solo->store);
    fake_store_complete(solo->store);
    (void)err;

    solo_restart(solo);
    solo_turn(solo);

    assert_int_equal(raft_current_term(&solo->group->raft), 9);
    ask_for_vote(solo, SOLO_PEER(2), 8);
    solo_turn(solo);
    assert_false(solo_last(solo, RAFT_REQUEST_VOTE_RESULT, 2)->message.request_vote_result.vote_granted);
}

/* ---- rule 4: what was read asynchronously is sent only if it still may be ---- */

static void lead_some_with_read_pending(struct solo *solo, unsigned voters)
{
    uint64_t index;
    solo_init(solo, voters);
    solo_lead(solo);
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(solo_submit(solo, 1, 50, &index), LIGHTQ_OK);
    }
    solo_turn(solo);
    solo_acknowledge(solo);
    solo_forget_sent(solo);
    fake_store_hold_reads(solo->store, true);
    fake_log_evict(solo->group->log, 1000);
    assert_int_equal(solo_submit(solo, 1, 50, &index), LIGHTQ_OK);
    solo_turn(solo);
    assert_int_equal(solo->sent_count, 0); /* it must be read from disk */
}

static void lead_with_read_pending(struct solo *solo)
{
    lead_some_with_read_pending(solo, 3);
}

static void test_rule4_read_is_sent_while_still_leading(void **state)
{
    struct solo *solo = *state;
    lead_with_read_pending(solo);

    fake_store_hold_reads(solo->store, false);
    solo_turn(solo);

    assert_int_equal(solo_last(solo, RAFT_APPEND_ENTRIES, 2)->entry_count, 1);
    assert_int_equal(solo_last(solo, RAFT_APPEND_ENTRIES, 3)->last_index, lq_rlog_last(solo->group->log));
}

static void test_rule4_read_is_dropped_after_stepping_down(void **state)
{
    struct solo *solo = *state;
    lead_with_read_pending(solo);
    uint64_t term = raft_current_term(&solo->group->raft);
    solo_beat(solo, SOLO_PEER(2), term + 1, 1, 1, 1);
    solo_turn(solo);
    assert_false(lq_group_leads(solo->group));

    fake_store_hold_reads(solo->store, false);
    solo_turn(solo);

    assert_null(solo_last(solo, RAFT_APPEND_ENTRIES, 0));
}

static void test_rule4_read_is_dropped_after_a_cut_and_a_new_term(void **state)
{
    struct solo *solo = *state;
    lead_with_read_pending(solo);
    uint64_t term = raft_current_term(&solo->group->raft);
    uint64_t last = lq_rlog_last(solo->group->log);
    const struct solo_append other = {
        .from = SOLO_PEER(2), .term = term + 1, .prev = last - 1, .prev_term = term, .count = 1};
    assert_int_equal(solo_append(solo, &other), LIGHTQ_OK); /* replaces the entry being read */
    solo_turn(solo);
    fake_log_evict(solo->group->log, 0);
    solo_lead(solo); /* again, in a later term */

    fake_store_hold_reads(solo->store, false);
    solo_turn(solo);

    for (unsigned i = 0; i < solo->sent_count; i++) {
        if (solo->sent[i].message.type == RAFT_APPEND_ENTRIES) {
            assert_true(solo->sent[i].message.append_entries.term > term + 1);
        }
    }
}

/* ---- rule 5: nothing is stamped before the barrier of the own term is applied ---- */

static void test_rule5_barrier_is_added_when_libraft_adds_none(void **state)
{
    struct solo *solo = *state;
    solo_init(solo, 3); /* only entry 1, committed by definition: libraft adds no barrier */
    solo_lead(solo);

    assert_int_equal(lq_rlog_last(solo->group->log), 2);
    assert_int_equal(last_applied(solo), 2);
    assert_int_equal(solo->group->barrier_index, 2);
    assert_int_equal(lq_rlog_term_at(solo->group->log, 2), raft_current_term(&solo->group->raft));
}

static void grant_all(struct solo *solo)
{
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
}

static void test_rule5_submit_waits_for_the_barrier(void **state)
{
    struct solo *solo = *state;
    uint64_t index;
    solo_init(solo, 3);
    grant_all(solo);
    assert_true(lq_group_leads(solo->group));
    assert_int_equal(solo->machine.leads, 0);
    assert_int_equal(solo_submit(solo, 1, 10, &index), LIGHTQ_ENOTLEADER);

    solo_acknowledge(solo);

    assert_int_equal(solo->machine.leads, 1);
    assert_int_equal(solo_submit(solo, 1, 10, &index), LIGHTQ_OK);
}

/* Case A1: an entry of an older term is committed only together with one of the own. */
static void test_rule5_older_term_is_not_committed_by_counting(void **state)
{
    struct solo *solo = *state;
    solo_init(solo, 3);
    solo_follow(solo, SOLO_PEER(2), 2);
    const struct solo_append append = {.from = SOLO_PEER(2), .term = 2, .prev = 1, .prev_term = 1, .count = 3};
    assert_int_equal(solo_append(solo, &append), LIGHTQ_OK);
    solo_turn(solo);
    grant_all(solo);
    uint64_t term = raft_current_term(&solo->group->raft);
    assert_true(lq_group_leads(solo->group));
    assert_int_equal(lq_rlog_last(solo->group->log), 5); /* libraft's barrier */

    solo_result(solo, SOLO_PEER(2), term, 0, 4); /* a majority has 4, of term 2 */
    solo_turn(solo);
    assert_int_equal(solo->group->committed, 1);

    solo_result(solo, SOLO_PEER(2), term, 0, 5);
    solo_turn(solo);
    assert_int_equal(solo->group->committed, 5);
    assert_int_equal(solo->machine.leads, 1);
}

/* ---- rule 6: the disk reserve ---- */

static void test_rule6_append_is_refused_while_a_majority_is_short(void **state)
{
    struct solo *solo = *state;
    uint64_t index;
    solo_init(solo, 3);
    solo_lead(solo);
    assert_int_equal(solo_submit(solo, 1, 10, &index), LIGHTQ_OK);

    solo_status(solo, 2, 1000);
    assert_int_equal(solo_submit(solo, 1, 10, &index), LIGHTQ_OK); /* one of three */
    solo_status(solo, 3, 1000);
    assert_int_equal(solo_submit(solo, 1, 10, &index), LIGHTQ_ENOSPC);
    solo_status(solo, 3, UINT64_C(1) << 33);
    assert_int_equal(solo_submit(solo, 1, 10, &index), LIGHTQ_OK);
    fake_disk_set_space(solo->disk, 1000, UINT64_C(1) << 40); /* ours, found out in time */
    solo_advance(solo, 300);
    assert_int_equal(solo_submit(solo, 1, 10, &index), LIGHTQ_ENOSPC);
}

static void test_rule6_what_frees_space_goes_on(void **state)
{
    struct solo *solo = *state;
    uint64_t index;
    solo_init(solo, 3);
    solo_lead(solo);
    solo_status(solo, 2, 1000);
    solo_status(solo, 3, 1000);
    const struct lq_proposal trim = {.payload_count = 0, .message_count = 0, .is_append = false};

    assert_int_equal(solo_submit(solo, 1, 10, &index), LIGHTQ_ENOSPC);
    assert_int_equal(lq_group_submit(solo->group, &trim, &index), LIGHTQ_OK);
}

/* ---- rule 7: Raft is told before the files go ---- */

static void fill_segments(struct solo *solo, unsigned entries)
{
    uint64_t index;
    for (unsigned i = 0; i < entries; i++) {
        assert_int_equal(solo_submit(solo, 1, 100, &index), LIGHTQ_OK);
        solo_turn(solo);
        solo_acknowledge(solo);
    }
}

static void test_rule7_trimming_tells_raft(void **state)
{
    struct solo *solo = *state;
    solo_prepare(solo);
    solo->store_options.segment_bytes = 1000;
    solo_open(solo, 3);
    solo_turn(solo);
    solo_lead(solo);
    fill_segments(solo, 30);
    assert_true(solo->machine.saves > 0);
    assert_int_equal(lq_rlog_first(solo->group->log), 1);

    solo->machine.trim_to = 20;
    fill_segments(solo, 1);

    uint64_t first = lq_rlog_first(solo->group->log);
    assert_in_range(first, 2, 21);
    assert_int_equal(solo->group->raft.trail.snapshot.index, first - 1);
    assert_int_equal(solo->group->raft.trail.offset, first - 1);
}

/* After a restart libraft's commit index starts low, though the machine's checkpoint is far ahead: no trimming before
 * libraft knows the entries to be committed. */
static void test_rule7_no_trimming_beyond_what_raft_knows_committed(void **state)
{
    struct solo *solo = *state;
    solo_prepare(solo);
    solo->store_options.segment_bytes = 1000;
    solo_open(solo, 3);
    solo_turn(solo);
    solo_lead(solo);
    fill_segments(solo, 30);

    solo_restart(solo);
    solo->machine.trim_to = 20;
    solo_turn(solo);
    assert_true(solo->group->applied > 20);
    assert_true(raft_commit_index(&solo->group->raft) < 20);
    assert_int_equal(lq_rlog_first(solo->group->log), 1);

    solo_lead(solo); /* now the barrier is committed, and all below it */
    assert_true(lq_rlog_first(solo->group->log) > 1);
    assert_int_equal(solo->group->raft.trail.snapshot.index, lq_rlog_first(solo->group->log) - 1);
}

/* ---- rule 8: while a checkpoint is installed ---- */

static void checkpoint_piece(struct lq_rpc_piece *piece, void **configuration, uint64_t last_index, uint64_t last_term)
{
    const struct lq_servers servers = {.count = 3,
                                       .at = {{.id = SOLO_PEER(3), .role = LQ_ROLE_VOTER},
                                              {.id = SOLO_PEER(2), .role = LQ_ROLE_VOTER},
                                              {.id = SOLO_SELF, .role = LQ_ROLE_VOTER}}};
    size_t size;
    assert_int_equal(lq_servers_encode(&servers, configuration, &size), LIGHTQ_OK);
    *piece = (struct lq_rpc_piece){.checkpoint = {.last_index = last_index,
                                                  .last_term = last_term,
                                                  .next_offset = last_index,
                                                  .timestamp_ms = 77,
                                                  .configuration_index = 1,
                                                  .configuration = *configuration,
                                                  .configuration_size = (uint32_t)size,
                                                  .state_size = 8},
                                   .size = 8,
                                   .last = true};
}

static void test_rule8_nothing_is_applied_during_an_install(void **state)
{
    struct solo *solo = *state;
    struct lq_rpc_piece piece;
    void *configuration;
    const uint8_t bytes[8] = {42};
    solo_init(solo, 3);
    solo_follow(solo, SOLO_PEER(2), 2);
    const struct solo_append append = {
        .from = SOLO_PEER(2), .term = 2, .prev = 1, .prev_term = 1, .count = 2, .commit = 3};
    assert_int_equal(solo_append(solo, &append), LIGHTQ_OK);
    solo_turn_only(solo); /* being written, committed, not durable */
    checkpoint_piece(&piece, &configuration, 50, 2);
    assert_int_equal(solo_install(solo, SOLO_PEER(2), 2, &piece, bytes), LIGHTQ_OK);
    raft_free(configuration);
    assert_true(lq_group_installing(solo->group));

    solo_beat(solo, SOLO_PEER(2), 2, 50, 2, 50); /* commit comes before the checkpoint is durable */
    fake_store_complete(solo->store);            /* the old log's entries */
    lq_host_turn(solo->host);
    assert_int_equal(last_applied(solo), 1);
    assert_int_equal(lq_group_stored(solo->group), 0);

    solo_turn(solo);
    assert_false(lq_group_installing(solo->group));
    assert_int_equal(solo->machine.state, 42);
    assert_int_equal(solo->group->applied, 50);
    assert_int_equal(lq_rlog_first(solo->group->log), 51);

    const struct solo_append next = {
        .from = SOLO_PEER(2), .term = 2, .prev = 50, .prev_term = 2, .count = 1, .commit = 51};
    assert_int_equal(solo_append(solo, &next), LIGHTQ_OK);
    solo_turn(solo);
    assert_int_equal(last_applied(solo), 51);
}

/* ---- rule 9: applied entries are never cut ---- */

static void test_rule9_cut_of_applied_entries_stops_the_replica(void **state)
{
    struct solo *solo = *state;
    solo_prepare(solo);
    solo->store_options.segment_bytes = 1000;
    solo_open(solo, 3);
    solo_turn(solo);
    solo_lead(solo);
    fill_segments(solo, 30);
    solo_restart(solo); /* the machine is ahead of what libraft knows to be committed */
    solo_turn(solo);
    uint64_t applied = solo->group->applied;
    uint64_t term = raft_current_term(&solo->group->raft);
    const struct solo_append other = {.from = SOLO_PEER(2),
                                      .term = term + 5,
                                      .prev = applied - 2,
                                      .prev_term = lq_rlog_term_at(solo->group->log, applied - 2),
                                      .count = 1};
    assert_true(raft_commit_index(&solo->group->raft) < applied - 2);
    uint64_t last = lq_rlog_last(solo->group->log);

    assert_int_equal(solo_append(solo, &other), LIGHTQ_OK);
    solo_turn(solo);

    assert_int_equal(solo->machine.stops, 1);
    assert_int_equal(solo->machine.stopped, LIGHTQ_ECORRUPT);
    assert_int_equal(lq_rlog_last(solo->group->log), last); /* the files are left as they are */
}

/* A leader that contradicts what libraft itself knows to be committed. */
static void test_rule9_conflict_with_committed_stops_the_replica(void **state)
{
    struct solo *solo = *state;
    solo_init(solo, 3);
    solo_follow(solo, SOLO_PEER(2), 2);
    const struct solo_append append = {
        .from = SOLO_PEER(2), .term = 2, .prev = 1, .prev_term = 1, .count = 3, .commit = 4};
    const struct solo_append other = {.from = SOLO_PEER(3), .term = 3, .prev = 2, .prev_term = 2, .count = 1};
    assert_int_equal(solo_append(solo, &append), LIGHTQ_OK);
    solo_turn(solo);
    assert_int_equal(last_applied(solo), 4);

    assert_int_equal(solo_append(solo, &other), LIGHTQ_OK);
    solo_turn(solo);

    assert_int_equal(solo->machine.stopped, LIGHTQ_ECORRUPT);
    assert_int_equal(lq_rlog_last(solo->group->log), 4);
}

/* libraft's commit index goes back when a leader speaks of an earlier place (replication.c:812); ours does not.
 * Case A10: applied is ahead of committed. */
static void test_rule9_commit_index_never_goes_back(void **state)
{
    struct solo *solo = *state;
    solo_init(solo, 3);
    solo_follow(solo, SOLO_PEER(2), 2);
    const struct solo_append append = {
        .from = SOLO_PEER(2), .term = 2, .prev = 1, .prev_term = 1, .count = 5, .commit = 4};
    assert_int_equal(solo_append(solo, &append), LIGHTQ_OK);
    solo_turn(solo);
    assert_int_equal(last_applied(solo), 4);

    solo_beat(solo, SOLO_PEER(2), 2, 2, 2, 6);
    solo_turn(solo);
    assert_int_equal(raft_commit_index(&solo->group->raft), 2);
    assert_int_equal(solo->group->committed, 4);

    solo_beat(solo, SOLO_PEER(2), 2, 6, 2, 6);
    solo_turn(solo);
    assert_int_equal(last_applied(solo), 6);
}

/* Found by a seed: entries read from disk ahead of what is committed, and replaced before they are. */
static void test_rule9_entries_read_ahead_are_dropped_by_a_cut(void **state)
{
    struct solo *solo = *state;
    solo_init(solo, 3);
    solo_follow(solo, SOLO_PEER(2), 2);
    const struct solo_append old = {
        .from = SOLO_PEER(2), .term = 2, .prev = 1, .prev_term = 1, .count = 5, .commit = 2, .fill = 1};
    const struct solo_append new = {
        .from = SOLO_PEER(3), .term = 3, .prev = 3, .prev_term = 2, .count = 2, .commit = 5, .fill = 100};
    fake_log_evict(solo->group->log, 100);
    assert_int_equal(solo_append(solo, &old), LIGHTQ_OK);
    solo_turn(solo); /* applies 2, has read 3 to 6 with it */
    assert_int_equal(last_applied(solo), 2);

    assert_int_equal(solo_append(solo, &new), LIGHTQ_OK);
    solo_turn(solo);

    assert_int_equal(last_applied(solo), 5);
    assert_int_equal(solo->machine.state, 1 + 1 + 100 + 100);
}

/* ---- rule 10: a leader that finds rot hands over ---- */

static void test_rule10_rot_found_for_a_follower_hands_over_and_stops(void **state)
{
    struct solo *solo = *state;
    lead_with_read_pending(solo);
    fake_log_rot(solo->group->log, true);

    fake_store_hold_reads(solo->store, false);
    solo_turn(solo);
    assert_non_null(solo_last(solo, RAFT_TIMEOUT_NOW, 0));
    solo_advance(solo, 1000);

    assert_int_equal(solo->machine.stops, 1);
    assert_int_equal(solo->machine.stopped, LIGHTQ_ECORRUPT);
    uint64_t index;
    assert_int_equal(solo_submit(solo, 1, 10, &index), LIGHTQ_ESTOPPED);
}

/* Rot in different places of different replicas: each must go on to serve what only it has. */
static void test_rule10_rot_in_one_that_cannot_be_spared_only_hands_over(void **state)
{
    struct solo *solo = *state;
    lead_some_with_read_pending(solo, 2);
    fake_log_rot(solo->group->log, true);

    fake_store_hold_reads(solo->store, false);
    solo_turn(solo);

    assert_int_equal(solo->machine.stops, 0);
    assert_int_equal(solo->group->failed, LIGHTQ_OK);
    assert_int_not_equal(solo->group->raft.leader_state.transferee, 0);
}

static void test_rule10_rot_found_by_a_consumer_hands_over_and_stops(void **state)
{
    struct solo *solo = *state;
    solo_init(solo, 3);
    solo_lead(solo);

    lq_group_unreadable(solo->group, LIGHTQ_ECORRUPT, 1);
    solo_turn(solo);
    assert_non_null(solo_last(solo, RAFT_TIMEOUT_NOW, 0));
    solo_advance(solo, 1000);

    assert_int_equal(solo->machine.stopped, LIGHTQ_ECORRUPT);
}

static void test_rule10_rot_found_in_a_follower_stops_it(void **state)
{
    struct solo *solo = *state;
    solo_init(solo, 3);
    solo_follow(solo, SOLO_PEER(2), 2);
    const struct solo_append append = {.from = SOLO_PEER(2), .term = 2, .prev = 1, .prev_term = 1, .count = 3};
    assert_int_equal(solo_append(solo, &append), LIGHTQ_OK);
    solo_turn(solo);
    fake_log_evict(solo->group->log, 100);
    fake_log_rot(solo->group->log, true);

    solo_beat(solo, SOLO_PEER(2), 2, 4, 2, 4); /* commits what must now be read */
    solo_turn(solo);

    assert_int_equal(solo->machine.stopped, LIGHTQ_ECORRUPT);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    lq_log_configure(LQ_LOG_OFF, 2);
    const struct CMUnitTest tests[] = {
        TEST(test_group_elected_and_acknowledged_applies),
        TEST(test_rule1_undurable_entries_are_not_acknowledged),
        TEST(test_rule1_leader_does_not_count_itself_before_durable),
        TEST(test_rule1_news_of_cut_entries_is_clamped),
        TEST(test_rule2_conflicting_tail_is_replaced),
        TEST(test_rule3_vote_waits_until_durable),
        TEST(test_rule3_later_messages_wait_too),
        TEST(test_rule3_persisted_events_wait_too),
        TEST(test_rule3_candidate_waits_for_its_own_vote),
        TEST(test_rule3_refused_pre_vote_tells_the_term),
        TEST(test_rule3_vote_survives_a_crash),
        TEST(test_rule3_term_at_start_is_at_least_that_of_the_log),
        TEST(test_rule4_read_is_sent_while_still_leading),
        TEST(test_rule4_read_is_dropped_after_stepping_down),
        TEST(test_rule4_read_is_dropped_after_a_cut_and_a_new_term),
        TEST(test_rule5_barrier_is_added_when_libraft_adds_none),
        TEST(test_rule5_submit_waits_for_the_barrier),
        TEST(test_rule5_older_term_is_not_committed_by_counting),
        TEST(test_rule6_append_is_refused_while_a_majority_is_short),
        TEST(test_rule6_what_frees_space_goes_on),
        TEST(test_rule7_trimming_tells_raft),
        TEST(test_rule7_no_trimming_beyond_what_raft_knows_committed),
        TEST(test_rule8_nothing_is_applied_during_an_install),
        TEST(test_rule9_cut_of_applied_entries_stops_the_replica),
        TEST(test_rule9_conflict_with_committed_stops_the_replica),
        TEST(test_rule9_commit_index_never_goes_back),
        TEST(test_rule9_entries_read_ahead_are_dropped_by_a_cut),
        TEST(test_rule10_rot_found_for_a_follower_hands_over_and_stops),
        TEST(test_rule10_rot_in_one_that_cannot_be_spared_only_hands_over),
        TEST(test_rule10_rot_found_by_a_consumer_hands_over_and_stops),
        TEST(test_rule10_rot_found_in_a_follower_stops_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
