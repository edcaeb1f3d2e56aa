/* How long a group is without a leader, in virtual time, over many seeds: after its process is gone, after it falls
 * silent, after a transfer; and that a node which was away changes nothing when it comes back. Real hosts on real
 * stores. Cases A2, A12 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/base/log.h"
#include "raft/group.h"
#include "tests/lib/raft_sim.h"

enum { NODES = 3, RUNS = 40, GROUP = 5, STEP_US = 1000 };

struct replica {
    struct lq_group *group;
    bool leads;
    uint64_t term, applied;
};

struct cluster {
    struct sim *sim;
    struct replica replicas[NODES];
};

static lightq_status on_apply(void *machine, const struct lq_entry *entry, struct lq_slab *slab)
{
    (void)slab;
    ((struct replica *)machine)->applied = entry->index;
    return LIGHTQ_OK;
}

static void on_lead(void *machine, uint64_t term)
{
    ((struct replica *)machine)->leads = true;
    ((struct replica *)machine)->term = term;
}

static void on_follow(void *machine, lq_replica_id leader, uint64_t term)
{
    (void)leader;
    ((struct replica *)machine)->leads = false;
    ((struct replica *)machine)->term = term;
}

static lightq_status on_save(void *machine, struct lq_writer *writer)
{
    lq_write_u64(writer, ((struct replica *)machine)->applied);
    return LIGHTQ_OK;
}

static lightq_status on_load(void *machine, const uint8_t *bytes, size_t size)
{
    ((struct replica *)machine)->applied = size == 8 ? lq_get_u64(bytes) : 0;
    return LIGHTQ_OK;
}

static uint64_t on_trim_to(void *machine)
{
    (void)machine;
    return 0;
}

static void on_stopped(void *machine, lightq_status status, const struct lq_err *err)
{
    (void)machine;
    (void)status;
    fail_msg("a replica stopped: %s", err->text);
}

static const struct lq_machine_ops machine_ops = {.apply = on_apply,
                                                  .lead = on_lead,
                                                  .follow = on_follow,
                                                  .save = on_save,
                                                  .load = on_load,
                                                  .trim_to = on_trim_to,
                                                  .stopped = on_stopped};

static void on_start(struct sim_node *node)
{
    struct cluster *cluster = sim_data(node->sim);
    struct replica *replica = &cluster->replicas[node->id - 1];
    struct lq_servers founders = {.count = NODES};
    struct lq_err err;
    for (unsigned i = 0; i < NODES; i++) {
        founders.at[i] = (struct lq_server){.id = lq_replica_make(i + 1, 1), .role = LQ_ROLE_VOTER};
    }
    *replica = (struct replica){.applied = 0};
    assert_int_equal(lq_group_open(node->host, GROUP, 1, &founders, &machine_ops, replica, &replica->group, &err),
                     LIGHTQ_OK);
}

static void on_stop(struct sim_node *node)
{
    struct cluster *cluster = sim_data(node->sim);
    cluster->replicas[node->id - 1] = (struct replica){.group = NULL};
}

static int leader(const struct cluster *cluster, int but)
{
    for (int i = 0; i < NODES; i++) {
        if (i != but && cluster->replicas[i].leads) {
            return i;
        }
    }
    return -1;
}

/* Milliseconds until a replica other than @but leads. */
static uint64_t wait_leader(struct cluster *cluster, int but)
{
    uint64_t begun = sim_now_us(cluster->sim);
    while (leader(cluster, but) < 0) {
        sim_run(cluster->sim, STEP_US);
        assert_true(sim_now_us(cluster->sim) - begun < 30000000);
    }
    return (sim_now_us(cluster->sim) - begun) / 1000;
}

static void submit_some(struct cluster *cluster)
{
    uint8_t byte = 1;
    const struct iovec iov = {.iov_base = &byte, .iov_len = 1};
    const struct lq_proposal proposal = {.payload = &iov, .payload_count = 1, .message_count = 1};
    int at = leader(cluster, -1);
    for (unsigned i = 0; i < 20; i++) {
        uint64_t index;
        assert_int_equal(lq_group_submit(cluster->replicas[at].group, &proposal, &index), LIGHTQ_OK);
        sim_touch(sim_node_at(cluster->sim, (unsigned)at));
        sim_run(cluster->sim, STEP_US);
    }
}

static struct cluster *open_cluster(uint64_t seed)
{
    struct cluster *cluster = calloc(1, sizeof *cluster);
    assert_non_null(cluster);
    const struct sim_options options = {.seed = seed,
                                        .nodes = NODES,
                                        .delay_min_us = 50,
                                        .delay_max_us = 500,
                                        .store = {.dir = "", .cluster = {.bytes = {1}}},
                                        .start = on_start,
                                        .stop = on_stop,
                                        .data = cluster};
    cluster->sim = sim_new(&options);
    for (unsigned i = 0; i < NODES; i++) {
        sim_start(sim_node_at(cluster->sim, i));
    }
    assert_in_range(wait_leader(cluster, -1), 0, 400); /* a new group does not wait out a timeout */
    submit_some(cluster);
    return cluster;
}

static void close_cluster(struct cluster *cluster)
{
    assert_null(sim_failure(cluster->sim));
    sim_free(cluster->sim);
    free(cluster);
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void judge(const char *what, uint64_t *times, uint64_t median_max, uint64_t worst_max)
{
    qsort(times, RUNS, sizeof *times, compare);
    print_message("%s: median %llu ms, worst %llu ms\n", what, (unsigned long long)times[RUNS / 2],
                  (unsigned long long)times[RUNS - 1]);
    assert_in_range(times[RUNS / 2], 0, median_max);
    assert_in_range(times[RUNS - 1], 0, worst_max);
}

static void test_failover_after_a_killed_process_is_fast(void **state)
{
    (void)state;
    uint64_t times[RUNS];
    for (unsigned i = 0; i < RUNS; i++) {
        struct cluster *cluster = open_cluster(100 + i);
        int old = leader(cluster, -1);
        sim_crash(sim_node_at(cluster->sim, (unsigned)old), LQ_IO_MEM_LOSE);
        times[i] = wait_leader(cluster, old);
        submit_some(cluster);
        close_cluster(cluster);
    }
    judge("leader killed", times, 250, 1000);
}

static void test_failover_after_silence_takes_little_more_than_the_timeout(void **state)
{
    (void)state;
    uint64_t times[RUNS];
    for (unsigned i = 0; i < RUNS; i++) {
        struct cluster *cluster = open_cluster(200 + i);
        int old = leader(cluster, -1);
        for (int n = 0; n < NODES; n++) {
            if (n != old) {
                sim_cut(cluster->sim, (unsigned)old, (unsigned)n, true);
                sim_cut(cluster->sim, (unsigned)n, (unsigned)old, true);
            }
        }
        times[i] = wait_leader(cluster, old);
        sim_run(cluster->sim, 1500000);
        assert_false(cluster->replicas[old].leads); /* it has noticed that nobody answers */
        close_cluster(cluster);
    }
    judge("leader silent", times, 1400, 1800); /* after 1000 at the earliest */
}

static void test_transfer_takes_a_round_trip_or_two(void **state)
{
    (void)state;
    uint64_t times[RUNS];
    for (unsigned i = 0; i < RUNS; i++) {
        struct cluster *cluster = open_cluster(300 + i);
        int old = leader(cluster, -1);
        assert_int_equal(lq_group_transfer(cluster->replicas[old].group, 0), LIGHTQ_OK);
        sim_touch(sim_node_at(cluster->sim, (unsigned)old));
        times[i] = wait_leader(cluster, old);
        close_cluster(cluster);
    }
    judge("transfer", times, 10, 50);
}

/* Case E17 and others: a node that was away deposes a leader that is well. */
static void test_returning_node_changes_no_leader(void **state)
{
    (void)state;
    for (unsigned i = 0; i < RUNS; i++) {
        struct cluster *cluster = open_cluster(400 + i);
        int old = leader(cluster, -1);
        unsigned away = (unsigned)(old + 1 + (int)(i % 2)) % NODES;
        uint64_t term = cluster->replicas[old].term;
        for (unsigned n = 0; n < NODES; n++) {
            if (n != away) {
                sim_cut(cluster->sim, away, n, true);
                sim_cut(cluster->sim, n, away, true);
            }
        }
        sim_run(cluster->sim, 7000000);
        submit_some(cluster);
        sim_heal(cluster->sim);
        sim_run(cluster->sim, 5000000);

        assert_int_equal(leader(cluster, -1), old);
        assert_int_equal(cluster->replicas[old].term, term);
        assert_int_equal(cluster->replicas[away].applied, cluster->replicas[old].applied);
        close_cluster(cluster);
    }
}

static void cut_off(struct cluster *cluster, unsigned away)
{
    for (unsigned n = 0; n < NODES; n++) {
        if (n != away) {
            sim_cut(cluster->sim, away, n, true);
            sim_cut(cluster->sim, n, away, true);
        }
    }
}

/* The worst moment to be cut off: the others had promised their votes, the term is taken, and nobody hears of it. */
static void test_node_cut_off_between_pre_vote_and_vote_changes_no_leader(void **state)
{
    (void)state;
    unsigned tried = 0;
    for (unsigned i = 0; i < RUNS; i++) {
        struct cluster *cluster = open_cluster(900 + i);
        int old = leader(cluster, -1);
        int away = -1;
        sim_crash(sim_node_at(cluster->sim, (unsigned)old), LQ_IO_MEM_KEEP);
        for (unsigned step = 0; step < 40000 && away < 0; step++) {
            sim_run(cluster->sim, 50);
            for (int n = 0; n < NODES; n++) {
                const struct lq_group *group = cluster->replicas[n].group;
                bool stands = group != NULL && group->raft_open && group->raft.state == RAFT_CANDIDATE &&
                              !group->raft.candidate_state.in_pre_vote;
                away = stands ? n : away;
            }
        }
        assert_true(away >= 0);
        cut_off(cluster, (unsigned)away);
        uint64_t stood = raft_current_term(&cluster->replicas[away].group->raft);
        sim_start(sim_node_at(cluster->sim, (unsigned)old));
        sim_run(cluster->sim, 10000000);
        int now = leader(cluster, away);
        if (now >= 0) {
            tried++;
            uint64_t term = cluster->replicas[now].term;
            assert_int_equal(raft_current_term(&cluster->replicas[away].group->raft), stood);
            sim_heal(cluster->sim);
            sim_run(cluster->sim, 5000000);

            assert_int_equal(leader(cluster, -1), now);
            assert_int_equal(cluster->replicas[now].term, term);
        }
        close_cluster(cluster);
    }
    assert_true(tried > RUNS / 2);
}

static void test_restarted_node_changes_no_leader(void **state)
{
    (void)state;
    for (unsigned i = 0; i < RUNS; i++) {
        struct cluster *cluster = open_cluster(500 + i);
        int old = leader(cluster, -1);
        unsigned away = (unsigned)(old + 1 + (int)(i % 2)) % NODES;
        uint64_t term = cluster->replicas[old].term;
        sim_crash(sim_node_at(cluster->sim, away), LQ_IO_MEM_TEAR);
        sim_run(cluster->sim, 3000000);
        submit_some(cluster);
        sim_start(sim_node_at(cluster->sim, away));
        sim_run(cluster->sim, 4000000);

        assert_int_equal(leader(cluster, -1), old);
        assert_int_equal(cluster->replicas[old].term, term);
        assert_int_equal(cluster->replicas[away].applied, cluster->replicas[old].applied);
        close_cluster(cluster);
    }
}

static void test_stalled_disk_of_a_leader_moves_it(void **state)
{
    (void)state;
    uint64_t times[RUNS];
    uint8_t byte = 1;
    const struct iovec iov = {.iov_base = &byte, .iov_len = 1};
    const struct lq_proposal proposal = {.payload = &iov, .payload_count = 1, .message_count = 1};
    for (unsigned i = 0; i < RUNS; i++) {
        struct cluster *cluster = open_cluster(600 + i);
        int old = leader(cluster, -1);
        uint64_t index;
        lq_io_mem_set_stalled(sim_node_at(cluster->sim, (unsigned)old)->disk, true);
        assert_int_equal(lq_group_submit(cluster->replicas[old].group, &proposal, &index), LIGHTQ_OK);
        sim_touch(sim_node_at(cluster->sim, (unsigned)old));
        times[i] = wait_leader(cluster, old);
        submit_some(cluster);
        close_cluster(cluster);
    }
    judge("leader's disk hangs", times, 2000, 3000);
}

int main(void)
{
    lq_log_configure(LQ_LOG_OFF, 2);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_failover_after_a_killed_process_is_fast),
        cmocka_unit_test(test_failover_after_silence_takes_little_more_than_the_timeout),
        cmocka_unit_test(test_transfer_takes_a_round_trip_or_two),
        cmocka_unit_test(test_returning_node_changes_no_leader),
        cmocka_unit_test(test_node_cut_off_between_pre_vote_and_vote_changes_no_leader),
        cmocka_unit_test(test_restarted_node_changes_no_leader),
        cmocka_unit_test(test_stalled_disk_of_a_leader_moves_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
