/* Changes of a group's servers: one at a time, a new replica as standby first, and back in force after a restart. The
 * test plays the peers and the disk. */
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
    solo_init(solo, 3);
    solo_lead(solo);
    solo_acknowledge(solo);
    return 0;
}

static int teardown(void **state)
{
    solo_deinit(*state);
    free(*state);
    return 0;
}

static lightq_status change(struct solo *solo, enum lq_change what, lq_replica_id id)
{
    lightq_status status = lq_group_change(solo->group, what, id);
    solo_turn(solo);
    return status;
}

static lightq_status change_committed(struct solo *solo, enum lq_change what, lq_replica_id id)
{
    lightq_status status = change(solo, what, id);
    solo_acknowledge(solo);
    return status;
}

static void test_change_adds_promotes_demotes_and_removes(void **state)
{
    struct solo *solo = *state;
    unsigned calls = solo->machine.server_calls;

    assert_int_equal(change(solo, LQ_CHANGE_ADD_STANDBY, SOLO_PEER(4)), LIGHTQ_OK);
    assert_int_equal(solo->machine.server_calls, calls); /* not committed yet */
    solo_acknowledge(solo);
    assert_int_equal(solo->machine.server_calls, calls + 1);
    assert_int_equal(solo->machine.servers.count, 4);
    assert_int_equal(solo->machine.servers.at[3].id, SOLO_PEER(4));
    assert_int_equal(solo->machine.servers.at[3].role, LQ_ROLE_STANDBY);

    assert_int_equal(change_committed(solo, LQ_CHANGE_PROMOTE, SOLO_PEER(4)), LIGHTQ_OK);
    assert_int_equal(solo->machine.servers.at[3].role, LQ_ROLE_VOTER);
    assert_int_equal(change_committed(solo, LQ_CHANGE_DEMOTE, SOLO_PEER(3)), LIGHTQ_OK);
    assert_int_equal(solo->machine.servers.at[0].role, LQ_ROLE_STANDBY);
    assert_int_equal(change_committed(solo, LQ_CHANGE_REMOVE, SOLO_PEER(3)), LIGHTQ_OK);

    assert_int_equal(solo->machine.servers.count, 3); /* and the order is kept */
    assert_int_equal(solo->machine.servers.at[0].id, SOLO_PEER(2));
    assert_int_equal(solo->machine.servers.at[1].id, SOLO_SELF);
    assert_int_equal(solo->machine.servers.at[2].id, SOLO_PEER(4));
}

static void test_change_only_one_at_a_time(void **state)
{
    struct solo *solo = *state;
    assert_int_equal(change(solo, LQ_CHANGE_ADD_STANDBY, SOLO_PEER(4)), LIGHTQ_OK);

    assert_int_equal(change(solo, LQ_CHANGE_ADD_STANDBY, SOLO_PEER(5)), LIGHTQ_ECONFLICT);
    assert_int_equal(change(solo, LQ_CHANGE_REMOVE, SOLO_PEER(2)), LIGHTQ_ECONFLICT);
    solo_acknowledge(solo);

    assert_int_equal(change(solo, LQ_CHANGE_ADD_STANDBY, SOLO_PEER(5)), LIGHTQ_OK);
}

static void test_change_refuses_what_makes_no_sense(void **state)
{
    struct solo *solo = *state;

    assert_int_equal(change(solo, LQ_CHANGE_ADD_STANDBY, SOLO_PEER(3)), LIGHTQ_EEXISTS);
    assert_int_equal(change(solo, LQ_CHANGE_ADD_STANDBY, lq_replica_make(3, 2)), LIGHTQ_EEXISTS); /* remove first */
    assert_int_equal(change(solo, LQ_CHANGE_ADD_STANDBY, 0), LIGHTQ_EINVAL);
    assert_int_equal(change(solo, LQ_CHANGE_REMOVE, SOLO_PEER(9)), LIGHTQ_ENOTFOUND);
    assert_int_equal(change(solo, LQ_CHANGE_PROMOTE, SOLO_PEER(3)), LIGHTQ_EINVAL); /* it is a voter */
    assert_int_equal(change_committed(solo, LQ_CHANGE_DEMOTE, SOLO_PEER(3)), LIGHTQ_OK);
    assert_int_equal(change(solo, LQ_CHANGE_DEMOTE, SOLO_PEER(3)), LIGHTQ_EINVAL);
    assert_int_equal(lq_group_transfer(solo->group, SOLO_PEER(2)), LIGHTQ_OK);
    assert_int_equal(change(solo, LQ_CHANGE_REMOVE, SOLO_PEER(3)), LIGHTQ_ECONFLICT); /* handing over */
}

/* One voter elects itself at once, so nobody may follow it who could be ahead of it. */
static void test_change_never_leaves_one_voter_with_followers(void **state)
{
    struct solo *solo = *state;
    assert_int_equal(change_committed(solo, LQ_CHANGE_DEMOTE, SOLO_PEER(3)), LIGHTQ_OK);

    assert_int_equal(change(solo, LQ_CHANGE_DEMOTE, SOLO_PEER(2)), LIGHTQ_EINVAL);
    assert_int_equal(change(solo, LQ_CHANGE_REMOVE, SOLO_PEER(2)), LIGHTQ_EINVAL);
    assert_int_equal(change_committed(solo, LQ_CHANGE_REMOVE, SOLO_PEER(3)), LIGHTQ_OK);
    assert_int_equal(change_committed(solo, LQ_CHANGE_REMOVE, SOLO_PEER(2)), LIGHTQ_OK);
    assert_int_equal(change(solo, LQ_CHANGE_REMOVE, SOLO_SELF), LIGHTQ_EINVAL);

    assert_int_equal(solo->machine.servers.count, 1);
}

static void test_promote_waits_until_caught_up(void **state)
{
    struct solo *solo = *state;
    uint64_t index;
    for (unsigned i = 0; i < LQ_PROMOTE_LAG_ENTRIES + 10; i++) {
        assert_int_equal(solo_submit(solo, 1, 1, &index), LIGHTQ_OK);
    }
    solo_turn(solo);
    solo_acknowledge(solo);
    assert_int_equal(change(solo, LQ_CHANGE_ADD_STANDBY, SOLO_PEER(4)), LIGHTQ_OK);
    uint64_t term = raft_current_term(&solo->group->raft);
    uint64_t last = lq_rlog_last(solo->group->log);
    solo_result(solo, SOLO_PEER(2), term, 0, last);
    solo_result(solo, SOLO_PEER(3), term, 0, last);
    solo_turn(solo);

    assert_int_equal(change(solo, LQ_CHANGE_PROMOTE, SOLO_PEER(4)), LIGHTQ_ENOTREADY); /* never heard from */
    solo_result(solo, SOLO_PEER(4), term, 0, 5);
    assert_int_equal(change(solo, LQ_CHANGE_PROMOTE, SOLO_PEER(4)), LIGHTQ_ENOTREADY); /* far behind */
    solo_result(solo, SOLO_PEER(4), term, 0, last - 1); /* near, but does not know that it is a server */
    assert_int_equal(change(solo, LQ_CHANGE_PROMOTE, SOLO_PEER(4)), LIGHTQ_ENOTREADY);
    solo_result(solo, SOLO_PEER(4), term, 0, last);
    assert_int_equal(change(solo, LQ_CHANGE_PROMOTE, SOLO_PEER(4)), LIGHTQ_OK);
}

static void test_promote_waits_while_another_voter_is_away(void **state)
{
    struct solo *solo = *state;
    assert_int_equal(change_committed(solo, LQ_CHANGE_ADD_STANDBY, SOLO_PEER(4)), LIGHTQ_OK);
    uint64_t term = raft_current_term(&solo->group->raft);
    uint64_t last = lq_rlog_last(solo->group->log);
    for (unsigned i = 0; i < 12; i++) {
        solo_advance(solo, 100);
        solo_result(solo, SOLO_PEER(2), term, 0, last);
        solo_result(solo, SOLO_PEER(4), term, 0, last);
    }

    assert_int_equal(change(solo, LQ_CHANGE_PROMOTE, SOLO_PEER(4)), LIGHTQ_ENOTREADY); /* 3 is silent */
    solo_result(solo, SOLO_PEER(3), term, 0, last);
    assert_int_equal(change(solo, LQ_CHANGE_PROMOTE, SOLO_PEER(4)), LIGHTQ_OK);
}

static void test_change_needs_a_leader_with_its_barrier_applied(void **state)
{
    struct solo *solo = *state;
    solo_beat(solo, SOLO_PEER(2), raft_current_term(&solo->group->raft) + 1, 1, 1, 1);
    solo_turn(solo);

    assert_int_equal(change(solo, LQ_CHANGE_ADD_STANDBY, SOLO_PEER(4)), LIGHTQ_ENOTLEADER);
}

/* A change that was committed before a restart, though libraft cannot know: CONFIGURATION is given to it again. */
static void test_change_is_settled_again_after_a_restart(void **state)
{
    struct solo *solo = *state;
    assert_int_equal(change_committed(solo, LQ_CHANGE_ADD_STANDBY, SOLO_PEER(4)), LIGHTQ_OK);
    uint64_t index = solo->group->raft.configuration_committed_index;
    assert_true(index > 1);

    solo_restart(solo);
    solo_turn(solo);
    assert_int_equal(solo->group->raft.configuration_uncommitted_index, index);
    solo_lead(solo);

    assert_int_equal(solo->group->raft.configuration_uncommitted_index, 0);
    assert_int_equal(solo->group->raft.configuration_committed_index, index);
    assert_int_equal(solo->machine.servers.count, 4);
    assert_int_equal(change_committed(solo, LQ_CHANGE_REMOVE, SOLO_PEER(4)), LIGHTQ_OK);
}

/* Found by a seed: a replica promoted by an entry that has not reached it refused its vote (election.c:207), the others
 * needed it, and the group never elected again, with all its servers alive. */
static void test_standby_votes_for_a_candidate_that_counts_it(void **state)
{
    struct solo *solo = *state;
    const struct solo_append append = {.from = SOLO_PEER(2),
                                       .term = 9,
                                       .prev = 2,
                                       .prev_term = lq_rlog_term_at(solo->group->log, 2),
                                       .count = 1,
                                       .types = {LQ_ENTRY_CHANGE},
                                       .servers = {.count = 3,
                                                   .at = {{.id = SOLO_PEER(3), .role = LQ_ROLE_VOTER},
                                                          {.id = SOLO_PEER(2), .role = LQ_ROLE_VOTER},
                                                          {.id = SOLO_SELF, .role = LQ_ROLE_STANDBY}}}};
    struct raft_message message = {.type = RAFT_REQUEST_VOTE};
    message.request_vote = (struct raft_request_vote){
        .version = 2, .term = 10, .candidate_id = SOLO_PEER(3), .last_log_index = 20, .last_log_term = 9};
    assert_int_equal(solo_append(solo, &append), LIGHTQ_OK);
    solo_turn(solo);

    solo_message(solo, SOLO_PEER(3), &message); /* it has just heard of its leader */
    solo_turn(solo);
    assert_false(solo_last(solo, RAFT_REQUEST_VOTE_RESULT, 3)->message.request_vote_result.vote_granted);
    solo_advance(solo, 1100);
    solo_message(solo, SOLO_PEER(3), &message);
    solo_turn(solo);

    assert_true(solo_last(solo, RAFT_REQUEST_VOTE_RESULT, 3)->message.request_vote_result.vote_granted);
    assert_int_equal(solo->group->raft.configuration.servers[2].role, RAFT_STANDBY);
    uint64_t term;
    uint64_t voted_for;
    lq_rlog_vote(solo->group->log, &term, &voted_for);
    assert_int_equal(term, 10);
    assert_int_equal(voted_for, SOLO_PEER(3));
    solo_forget_sent(solo);
    solo_advance(solo, 5000); /* but it stands for nothing itself */
    assert_null(solo_last(solo, RAFT_REQUEST_VOTE, 0));
}

/* A leader that is taken out steps down when that is committed. */
static void test_removed_leader_steps_down(void **state)
{
    struct solo *solo = *state;

    assert_int_equal(change_committed(solo, LQ_CHANGE_REMOVE, SOLO_SELF), LIGHTQ_OK);

    assert_false(lq_group_leads(solo->group));
    assert_int_equal(solo->machine.lead_term, 0);
    solo_forget_sent(solo);
    solo_advance(solo, 4000);
    assert_int_equal(solo_count(solo, RAFT_REQUEST_VOTE, 0), 0);
}

static void test_removed_peers_answers_count_no_more(void **state)
{
    struct solo *solo = *state;
    uint64_t index;
    assert_int_equal(change_committed(solo, LQ_CHANGE_REMOVE, SOLO_PEER(3)), LIGHTQ_OK);
    assert_int_equal(solo_submit(solo, 1, 1, &index), LIGHTQ_OK);
    solo_turn(solo);

    solo_result(solo, SOLO_PEER(3), raft_current_term(&solo->group->raft), 0, index);
    solo_turn(solo);
    assert_true(solo->group->committed < index);

    solo_acknowledge(solo);
    assert_int_equal(solo->group->committed, index);
}

static void test_servers_encoding_is_refused_when_invalid(void **state)
{
    (void)state;
    void *bytes;
    size_t size;
    struct lq_servers servers = {.count = 0};
    assert_int_equal(lq_servers_encode(&servers, &bytes, &size), LIGHTQ_EINVAL);
    servers.count = 17;
    assert_int_equal(lq_servers_encode(&servers, &bytes, &size), LIGHTQ_EINVAL);
    servers =
        (struct lq_servers){.count = 2, .at = {{.id = 5, .role = LQ_ROLE_VOTER}, {.id = 5, .role = LQ_ROLE_VOTER}}};
    assert_int_equal(lq_servers_encode(&servers, &bytes, &size), LIGHTQ_EINVAL);
    servers = (struct lq_servers){.count = 1, .at = {{.id = UINT64_C(1) << 20, .role = LQ_ROLE_VOTER}}};
    assert_int_equal(lq_servers_encode(&servers, &bytes, &size), LIGHTQ_EINVAL); /* node 0 */
}

static void test_largest_configuration_fits(void **state)
{
    (void)state;
    void *bytes;
    size_t size;
    struct lq_servers servers = {.count = LQ_SERVERS_MAX};
    struct lq_servers decoded;
    for (unsigned i = 0; i < LQ_SERVERS_MAX; i++) {
        servers.at[i] = (struct lq_server){.id = lq_replica_make(LQ_NODES_MAX - i, UINT32_MAX), .role = LQ_ROLE_VOTER};
    }

    assert_int_equal(lq_servers_encode(&servers, &bytes, &size), LIGHTQ_OK);

    assert_in_range(size, 1, LQ_CONFIGURATION_BYTES_MAX);
    assert_int_equal(lq_rpc_check_configuration(bytes, size, &decoded, NULL), LIGHTQ_OK);
    assert_int_equal(decoded.count, LQ_SERVERS_MAX);
    assert_int_equal(decoded.at[15].id, servers.at[15].id);
    raft_free(bytes);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    lq_log_configure(LQ_LOG_OFF, 2);
    const struct CMUnitTest tests[] = {
        TEST(test_change_adds_promotes_demotes_and_removes),
        TEST(test_change_only_one_at_a_time),
        TEST(test_change_refuses_what_makes_no_sense),
        TEST(test_change_never_leaves_one_voter_with_followers),
        TEST(test_promote_waits_until_caught_up),
        TEST(test_promote_waits_while_another_voter_is_away),
        TEST(test_change_needs_a_leader_with_its_barrier_applied),
        TEST(test_change_is_settled_again_after_a_restart),
        TEST(test_standby_votes_for_a_candidate_that_counts_it),
        TEST(test_removed_leader_steps_down),
        TEST(test_removed_peers_answers_count_no_more),
        TEST(test_servers_encoding_is_refused_when_invalid),
        TEST(test_largest_configuration_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
