/* Who frees what in libraft 0.22.x, counted block by block: what raft/group.c relies on. Later versions change it
 * without changing a version macro; then this test says so. Nothing of ours is in between. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <raft.h>

/* Every block libraft holds, and one of ours that it may free. */
struct counts {
    long live;
    void *watched;
    unsigned watched_freed;
};

static void *on_malloc(void *data, size_t size)
{
    ((struct counts *)data)->live++;
    return malloc(size);
}

static void *on_calloc(void *data, size_t count, size_t size)
{
    ((struct counts *)data)->live++;
    return calloc(count, size);
}

static void *on_realloc(void *data, void *block, size_t size)
{
    ((struct counts *)data)->live += block == NULL;
    return realloc(block, size);
}

static void on_free(void *data, void *block)
{
    struct counts *counts = data;
    if (block == counts->watched) {
        counts->watched_freed++;
        return; /* stays ours, so that freeing it twice is counted, not a crash */
    }
    counts->live--;
    free(block);
}

struct fixture {
    struct counts counts;
    struct raft_heap heap;
    struct raft raft;
    struct raft_update update;
    struct raft_event event;
    uint8_t batch[8];
};

static void configuration(struct raft_configuration *conf, unsigned n)
{
    raft_configuration_init(conf);
    for (unsigned i = 0; i < n; i++) {
        const char address[2] = {(char)('1' + i), 0};
        assert_int_equal(raft_configuration_add(conf, i + 1, address, RAFT_VOTER), 0);
    }
}

static int step(struct fixture *f, enum raft_event_type type)
{
    f->event.type = type;
    f->event.time += 1;
    f->event.capacity = 1;
    return raft_step(&f->raft, &f->event, &f->update);
}

/* A follower of two voters whose log has entry 1. */
static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->heap = (struct raft_heap){
        .data = &f->counts, .malloc = on_malloc, .calloc = on_calloc, .realloc = on_realloc, .free = on_free};
    f->counts.watched = f->batch;
    raft_heap_set(&f->heap);
    assert_int_equal(raft_init(&f->raft, NULL, NULL, 1, "1"), 0);
    f->raft.tracer = NULL;
    struct raft_configuration conf;
    struct raft_buffer buffer;
    configuration(&conf, 2);
    assert_int_equal(raft_configuration_encode(&conf, &buffer), 0);
    raft_configuration_close(&conf);
    struct raft_entry entry = {.term = 1, .type = RAFT_CHANGE, .buf = buffer, .batch = f->batch};
    f->event.start.term = 1;
    f->event.start.start_index = 1;
    f->event.start.entries = &entry;
    f->event.start.n_entries = 1;
    assert_int_equal(step(f, RAFT_START), 0);
    assert_int_equal(f->counts.watched_freed, 0); /* START: array and batch stay ours */
    raft_free(buffer.base);
    memset(&f->event.start, 0, sizeof f->event.start);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    raft_close(&f->raft, NULL);
    assert_int_equal(f->counts.live, 0);
    raft_heap_set_default();
    free(f);
    return 0;
}

static int append(struct fixture *f, struct raft_entry *entries, unsigned n, raft_index prev, raft_term prev_term,
                  raft_term term)
{
    struct raft_message message = {.type = RAFT_APPEND_ENTRIES, .server_id = 2, .server_address = "2"};
    message.append_entries.term = term;
    message.append_entries.prev_log_index = prev;
    message.append_entries.prev_log_term = prev_term;
    message.append_entries.entries = entries;
    message.append_entries.n_entries = n;
    f->counts.watched_freed = 0;
    f->event.receive.message = &message;
    return step(f, RAFT_RECEIVE);
}

static void test_append_taken_leaves_the_batch_and_gives_the_array_back(void **state)
{
    struct fixture *f = *state;
    struct raft_entry entries[2] = {{.term = 2, .type = RAFT_COMMAND, .batch = f->batch},
                                    {.term = 2, .type = RAFT_COMMAND, .batch = f->batch}};

    assert_int_equal(append(f, entries, 2, 1, 1, 2), 0);

    assert_true(f->update.flags & RAFT_UPDATE_ENTRIES);
    assert_ptr_equal(f->update.entries.batch, entries);
    assert_int_equal(f->counts.watched_freed, 0);

    assert_int_equal(append(f, entries, 2, 1, 1, 2), 0); /* both known: freed once, not given back */
    assert_false(f->update.flags & RAFT_UPDATE_ENTRIES);
    assert_int_equal(f->counts.watched_freed, 1);
}

static void test_append_partly_known_gives_the_rest_of_the_array(void **state)
{
    struct fixture *f = *state;
    struct raft_entry entries[2] = {{.term = 2, .type = RAFT_COMMAND, .batch = f->batch},
                                    {.term = 2, .type = RAFT_COMMAND, .batch = f->batch}};
    assert_int_equal(append(f, entries, 1, 1, 1, 2), 0);

    assert_int_equal(append(f, entries, 2, 1, 1, 2), 0);

    assert_ptr_equal(f->update.entries.batch, &entries[1]);
    assert_int_equal(f->update.entries.index, 3);
    assert_int_equal(f->counts.watched_freed, 0);
}

static void test_append_rejected_frees_the_batch_once(void **state)
{
    struct fixture *f = *state;
    struct raft_entry entry = {.term = 2, .type = RAFT_COMMAND, .batch = f->batch};

    assert_int_equal(append(f, &entry, 1, 7, 2, 2), 0); /* no such previous entry */
    assert_int_equal(f->counts.watched_freed, 1);
    assert_int_equal(append(f, &entry, 1, 1, 1, 1), 0); /* an old term */
    assert_int_equal(f->counts.watched_freed, 1);
}

/* The batch is freed on the way out with a failure too, and the term is to be kept. */
static void test_append_failing_frees_the_batch_and_shows_the_term(void **state)
{
    struct fixture *f = *state;
    uint8_t garbage[8] = {99};
    struct raft_entry entry = {.term = 3, .type = RAFT_CHANGE, .buf = {.base = garbage, .len = 8}, .batch = f->batch};

    assert_int_not_equal(append(f, &entry, 1, 1, 1, 3), 0);

    assert_int_equal(f->counts.watched_freed, 1);
    assert_true(f->update.flags & RAFT_UPDATE_CURRENT_TERM);
    assert_int_equal(raft_current_term(&f->raft), 3);
}

static int install(struct fixture *f, raft_index last_index, raft_term last_term, raft_term term)
{
    struct raft_message message = {.type = RAFT_INSTALL_SNAPSHOT, .server_id = 2, .server_address = "2"};
    message.install_snapshot.term = term;
    message.install_snapshot.last_index = last_index;
    message.install_snapshot.last_term = last_term;
    message.install_snapshot.conf_index = 1;
    configuration(&message.install_snapshot.conf, 2);
    message.install_snapshot.data = (struct raft_buffer){.base = f->batch, .len = 8};
    f->counts.watched_freed = 0;
    f->event.receive.message = &message;
    return step(f, RAFT_RECEIVE);
}

static void test_install_moves_configuration_and_data_to_the_update(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(install(f, 10, 2, 2), 0);

    assert_true(f->update.flags & RAFT_UPDATE_SNAPSHOT);
    assert_ptr_equal(f->update.snapshot.chunk.base, f->batch);
    assert_true(f->update.snapshot.last);
    assert_int_equal(f->counts.watched_freed, 0);
    assert_true(f->raft.snapshot.installing);
    struct raft_snapshot_metadata metadata = f->update.snapshot.metadata;
    memset(&f->event, 0, sizeof f->event);
    f->event.time = 1000;
    f->event.persisted_snapshot.metadata = metadata; /* taken: the teardown counts */
    f->event.persisted_snapshot.last = true;
    assert_int_equal(step(f, RAFT_PERSISTED_SNAPSHOT), 0);
    assert_false(f->raft.snapshot.installing);
}

static void test_install_refused_frees_configuration_and_data(void **state)
{
    struct fixture *f = *state;
    long live = f->counts.live;

    assert_int_equal(install(f, 1, 1, 0), 0); /* an old term */
    assert_int_equal(f->counts.watched_freed, 1);
    assert_int_equal(install(f, 1, 1, 1), 0); /* nothing new */
    assert_int_equal(f->counts.watched_freed, 1);

    assert_in_range(f->counts.live, live, live + 2); /* messages and the leader's address, kept for good */
}

/* Why the host does not deliver it: configuration and data are lost (replication.c:946). */
static void test_install_while_installing_leaks(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(install(f, 10, 2, 2), 0);
    raft_configuration_close(&f->update.snapshot.metadata.configuration);
    long live = f->counts.live;

    struct raft_message message = {.type = RAFT_INSTALL_SNAPSHOT, .server_id = 2, .server_address = "2"};
    message.install_snapshot.term = 2;
    message.install_snapshot.last_index = 20;
    message.install_snapshot.last_term = 2;
    message.install_snapshot.conf_index = 1;
    configuration(&message.install_snapshot.conf, 2);
    struct raft_configuration kept = message.install_snapshot.conf;
    message.install_snapshot.data = (struct raft_buffer){.base = f->batch, .len = 8};
    f->event.receive.message = &message;
    assert_int_equal(step(f, RAFT_RECEIVE), 0);

    assert_int_equal(f->counts.watched_freed, 0);
    assert_int_equal(f->counts.live, live + 3);
    raft_configuration_close(&kept);
}

static void lead(struct fixture *f)
{
    struct raft_message message = {.type = RAFT_REQUEST_VOTE_RESULT, .server_id = 2, .server_address = "2"};
    memset(&f->event, 0, sizeof f->event);
    f->event.time = 100000;
    assert_int_equal(step(f, RAFT_TIMEOUT), 0);
    message.request_vote_result.version = 2;
    message.request_vote_result.term = raft_current_term(&f->raft);
    message.request_vote_result.vote_granted = true;
    f->event.receive.message = &message;
    assert_int_equal(step(f, RAFT_RECEIVE), 0);
    assert_int_equal(f->raft.state, RAFT_LEADER);
}

static void test_submit_gives_the_array_back_and_frees_nothing(void **state)
{
    struct fixture *f = *state;
    lead(f);
    f->counts.watched_freed = 0;
    struct raft_entry entry = {.term = raft_current_term(&f->raft), .type = RAFT_COMMAND, .batch = f->batch};
    f->event.submit.entries = &entry;
    f->event.submit.n = 1;

    assert_int_equal(step(f, RAFT_SUBMIT), 0);

    assert_ptr_equal(f->update.entries.batch, &entry);
    assert_int_equal(f->counts.watched_freed, 0);
}

static void test_submit_refused_frees_nothing(void **state)
{
    struct fixture *f = *state;
    struct raft_entry entry = {.term = 1, .type = RAFT_COMMAND, .batch = f->batch};
    f->event.submit.entries = &entry;
    f->event.submit.n = 1;
    f->counts.watched_freed = 0;

    assert_int_equal(step(f, RAFT_SUBMIT), RAFT_NOTLEADER);

    assert_int_equal(f->counts.watched_freed, 0);
    assert_int_equal(f->update.flags, 0);
}

static void test_winning_with_uncommitted_entries_adds_a_barrier_that_is_ours(void **state)
{
    struct fixture *f = *state;
    struct raft_entry entry = {.term = 2, .type = RAFT_COMMAND, .batch = f->batch};
    assert_int_equal(append(f, &entry, 1, 1, 1, 2), 0);
    memset(&f->event, 0, sizeof f->event);
    f->event.time = 50;
    f->event.persisted_entries.index = 2;
    assert_int_equal(step(f, RAFT_PERSISTED_ENTRIES), 0);

    lead(f);

    assert_true(f->update.flags & RAFT_UPDATE_ENTRIES);
    assert_ptr_equal(f->update.entries.batch, &f->raft.barrier);
    assert_int_equal(f->raft.barrier.type, RAFT_BARRIER);
    raft_free(f->raft.barrier.batch); /* else the teardown counts one block too many */
}

static void test_configuration_is_taken(void **state)
{
    struct fixture *f = *state;
    long live = f->counts.live;
    memset(&f->event, 0, sizeof f->event);
    f->event.configuration.index = 99; /* not the uncommitted one: closed at once */
    configuration(&f->event.configuration.conf, 2);

    assert_int_equal(step(f, RAFT_CONFIGURATION), 0);

    assert_int_equal(f->counts.live, live);
}

static void test_version_is_one_whose_rules_these_are(void **state)
{
    (void)state;
    assert_int_equal(RAFT_VERSION_MAJOR, 0);
    assert_int_equal(RAFT_VERSION_MINOR, 22);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_append_taken_leaves_the_batch_and_gives_the_array_back),
        TEST(test_append_partly_known_gives_the_rest_of_the_array),
        TEST(test_append_rejected_frees_the_batch_once),
        TEST(test_append_failing_frees_the_batch_and_shows_the_term),
        TEST(test_install_moves_configuration_and_data_to_the_update),
        TEST(test_install_refused_frees_configuration_and_data),
        TEST(test_install_while_installing_leaks),
        TEST(test_submit_gives_the_array_back_and_frees_nothing),
        TEST(test_submit_refused_frees_nothing),
        TEST(test_winning_with_uncommitted_entries_adds_a_barrier_that_is_ours),
        TEST(test_configuration_is_taken),
        TEST(test_version_is_one_whose_rules_these_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
