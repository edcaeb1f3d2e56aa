/* Every allocation of a group's life fails once: opening, electing, leading, following, changing servers, sending and
 * receiving a checkpoint, restarting. The call says ENOMEM, or the replica stops, or the message is lost; nothing is
 * leaked, nothing is applied twice or out of order, and nothing crashes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/base/log.h"
#include "tests/lib/alloc_fail.h"
#include "tests/lib/raft_solo.h"

enum { SWEEP_MAX = 20000, ROUNDS = 40 };

static bool alive(const struct solo *solo)
{
    return solo->group != NULL && solo->group->raft_open && solo->group->failed == LIGHTQ_OK;
}

static void grant_votes(struct solo *solo)
{
    const struct solo_sent *sent = solo_last(solo, RAFT_REQUEST_VOTE, 2);
    if (sent != NULL && alive(solo)) {
        struct raft_message message = {.type = RAFT_REQUEST_VOTE_RESULT};
        message.request_vote_result =
            (struct raft_request_vote_result){.version = 2,
                                              .term = sent->message.request_vote.term,
                                              .vote_granted = true,
                                              .pre_vote = sent->message.request_vote.pre_vote};
        solo_forget_sent(solo);
        solo_message(solo, SOLO_PEER(2), &message);
        solo_turn(solo);
    }
}

static void acknowledge(struct solo *solo)
{
    if (alive(solo) && lq_group_leads(solo->group)) {
        uint64_t last = lq_rlog_last(solo->group->log);
        solo_result(solo, SOLO_PEER(2), raft_current_term(&solo->group->raft), 0, last);
        solo_result(solo, SOLO_PEER(3), raft_current_term(&solo->group->raft), 0, last);
        solo_turn(solo);
    }
}

static void lead_for_a_while(struct solo *solo)
{
    uint64_t index;
    for (unsigned i = 0; i < ROUNDS && alive(solo) && !lq_group_leads(solo->group); i++) {
        solo_advance(solo, 100);
        grant_votes(solo);
    }
    acknowledge(solo);
    for (unsigned i = 0; i < 15 && alive(solo); i++) {
        lightq_status status = solo_submit(solo, 1, 100, &index);
        assert_true(status == LIGHTQ_OK || status == LIGHTQ_ENOMEM || status == LIGHTQ_ESTOPPED ||
                    status == LIGHTQ_ENOTLEADER);
        solo_turn(solo);
        acknowledge(solo);
    }
    if (alive(solo)) {
        lightq_status status = lq_group_change(solo->group, LQ_CHANGE_ADD_STANDBY, SOLO_PEER(4));
        assert_true(status == LIGHTQ_OK || status == LIGHTQ_ENOMEM || status == LIGHTQ_ESTOPPED ||
                    status == LIGHTQ_ENOTLEADER);
        solo_turn(solo);
        acknowledge(solo);
    }
    if (alive(solo) && lq_group_leads(solo->group)) {
        solo_result(solo, SOLO_PEER(4), raft_current_term(&solo->group->raft), lq_rlog_last(solo->group->log), 0);
        solo_turn(solo);
        solo_advance(solo, 200);
    }
}

static void follow_for_a_while(struct solo *solo)
{
    if (!alive(solo)) {
        return;
    }
    uint64_t term = raft_current_term(&solo->group->raft) + 1;
    uint64_t last = lq_rlog_last(solo->group->log);
    const struct lq_servers servers = {
        .count = 2, .at = {{.id = SOLO_PEER(2), .role = LQ_ROLE_VOTER}, {.id = SOLO_SELF, .role = LQ_ROLE_VOTER}}};
    const struct solo_append append = {.from = SOLO_PEER(2),
                                       .term = term,
                                       .prev = last,
                                       .prev_term = last == 0 ? 0 : lq_rlog_term_at(solo->group->log, last),
                                       .count = 6,
                                       .types = {0, 0, LQ_ENTRY_CHANGE},
                                       .servers = servers,
                                       .commit = last + 4};
    fake_log_evict(solo->group->log, 100000); /* what is applied is read from disk */
    (void)solo_append(solo, &append);
    solo_turn(solo);
}

static void install_for_a_while(struct solo *solo)
{
    const uint8_t state[8] = {5};
    void *configuration;
    size_t size;
    const struct lq_servers servers = {
        .count = 2, .at = {{.id = SOLO_PEER(2), .role = LQ_ROLE_VOTER}, {.id = SOLO_SELF, .role = LQ_ROLE_VOTER}}};
    if (!alive(solo) || lq_servers_encode(&servers, &configuration, &size) != LIGHTQ_OK) {
        return;
    }
    uint64_t term = raft_current_term(&solo->group->raft) + 1;
    const struct lq_rpc_piece piece = {.checkpoint = {.last_index = 500,
                                                      .last_term = term,
                                                      .configuration_index = 400,
                                                      .configuration = configuration,
                                                      .configuration_size = (uint32_t)size,
                                                      .state_size = 8},
                                       .size = 8,
                                       .last = true};
    (void)solo_install(solo, SOLO_PEER(2), term, &piece, state);
    raft_free(configuration);
    solo_turn(solo);
}

static void check_applied(const struct solo *solo)
{
    for (unsigned i = 1; i < solo->machine.applied_count; i++) {
        assert_int_equal(solo->machine.applied[i], solo->machine.applied[i - 1] + 1);
    }
}

static void live(struct solo *solo)
{
    lightq_status status = solo_try_open(solo, 3);
    if (status != LIGHTQ_OK) {
        assert_int_equal(status, LIGHTQ_ENOMEM);
        return;
    }
    solo_turn(solo);
    lead_for_a_while(solo);
    check_applied(solo);
    if (alive(solo)) {
        solo->machine.trim_to = 10;
    }
    follow_for_a_while(solo);
    check_applied(solo);
    status = solo_try_restart(solo);
    if (status != LIGHTQ_OK) {
        assert_int_equal(status, LIGHTQ_ENOMEM);
        return;
    }
    solo->machine.trim_to = 10;
    solo_turn(solo);
    follow_for_a_while(solo);
    lead_for_a_while(solo);
    install_for_a_while(solo);
    check_applied(solo);
    assert_true(solo->machine.stops <= 2);
}

static void test_group_every_allocation_may_fail(void **state)
{
    (void)state;
    struct solo *solo = calloc(1, sizeof *solo);
    assert_non_null(solo);
    unsigned n = 1;
    for (bool failed = true; failed; n++) {
        solo_prepare(solo);
        solo->store_options.segment_bytes = 1000;
        lq_alloc_fail_at(n);
        live(solo);
        failed = lq_alloc_fail_end();
        if (!failed) { /* all went well: so did the group */
            assert_true(alive(solo));
            assert_int_equal(solo->group->applied, 500);
            assert_int_equal(solo->machine.stops, 0);
        }
        solo_deinit(solo);
        assert_in_range(n, 1, SWEEP_MAX);
    }
    print_message("%u allocations\n", n);
    free(solo);
}

int main(void)
{
    lq_log_configure(LQ_LOG_OFF, 2);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_group_every_allocation_may_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
