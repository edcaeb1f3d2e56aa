/* tests/unit/storage/test_recover.c - what rot, people and old files do to a store's directory: damage is found and
 * said, never served, never a silently shorter log; what can be rebuilt is rebuilt. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/buf.h"
#include "client/base/crc.h"
#include "storage/journal.h"
#include "storage/segment.h"
#include "store_fixture.h"

#define GROUPS    4
#define LAST      24 /* entries of groups 1 to 3 */
#define TERM      3
#define VOTED_FOR 77

static const char JOURNAL_1[] = "journal/s0-00000000000000000001.journal";
static const char JOURNAL_2[] = "journal/s0-00000000000000000002.journal";

static void take_checkpoint(struct lq_rlog *log, uint64_t index)
{
    char text[32];
    (void)snprintf(text, sizeof text, "state after %" PRIu64, index - 1);
    struct lq_checkpoint checkpoint = make_checkpoint(log, index - 1, lq_rlog_term_at(log, index - 1), text);
    assert_int_equal(lq_rlog_checkpoint(log, &checkpoint), LIGHTQ_OK);
}

static void small_options(struct fixture *f)
{
    f->options.segment_bytes = 1024;
    f->options.index_stride = 256;
    f->options.cache_bytes = 1; /* what is written is not kept: reads come from disk */
}

/* Groups 1 to 3 with sealed segments, an open one, checkpoints, a vote; group 2 is trimmed; group 4 is empty. */
static void build(struct fixture *f)
{
    struct lq_checkpoint checkpoint;
    small_options(f);
    fixture_open(f);
    for (uint64_t group = 1; group <= GROUPS; group++) {
        struct lq_rlog *log = fixture_create(f, group, NULL);
        for (unsigned i = 0; i < LAST / 4 && group < GROUPS; i++) {
            assert_int_equal(append(log, 4, 1 + i / 2, 60 + i), LIGHTQ_OK);
            fixture_settle(f);
        }
        (void)lq_rlog_set_vote(log, TERM, VOTED_FOR);
        for (uint64_t i = 2; i <= LAST; i++) {
            if (lq_rlog_wants_checkpoint(log, i)) {
                take_checkpoint(log, i);
            }
        }
        fixture_settle(f);
    }
    struct lq_rlog *log = lq_store_find(f->store, 2);
    uint64_t point = lq_rlog_trim_point(log, 12, &checkpoint);
    assert_true(point > 1);
    assert_int_equal(lq_rlog_trim(log, point), LIGHTQ_OK);
    fixture_settle(f);
    fixture_close(f);
}

/* True when every log is healthy and complete, and reads give either the right bytes or ECORRUPT. *rot counts those. */
static bool is_whole(struct fixture *f, unsigned *rot)
{
    *rot = 0;
    for (uint64_t group = 1; group <= GROUPS; group++) {
        struct lq_rlog *log = lq_store_find(f->store, group);
        uint64_t term = 0;
        uint64_t voted_for = 0;
        assert_non_null(log);
        if (lq_rlog_health(log) != LQ_RLOG_HEALTHY) {
            return false;
        }
        lq_rlog_vote(log, &term, &voted_for);
        assert_int_equal(term, TERM);
        assert_int_equal(voted_for, VOTED_FOR);
        assert_int_equal(lq_rlog_last(log), group < GROUPS ? LAST : 0); /* never shorter while it looks healthy */
        assert_true(group == 2 ? lq_rlog_first(log) > 1 : lq_rlog_first(log) == 1);
        for (uint64_t i = lq_rlog_first(log); i <= lq_rlog_last(log); i++) {
            struct lq_entry entry;
            struct lq_slab *slab = NULL;
            lightq_status status = read_one(f, log, i, &entry, &slab);
            if (status == LIGHTQ_ECORRUPT) {
                (*rot)++;
                continue;
            }
            assert_int_equal(status, LIGHTQ_OK);
            assert_true(entry_is_good(&entry, group, i, lq_rlog_term_at(log, i)));
            lq_slab_unref(slab);
        }
    }
    return true;
}

enum outcome { OUTCOME_WHOLE, OUTCOME_ROT_READ, OUTCOME_LOG_DAMAGED, OUTCOME_SHARD_DAMAGED };

/* Opens a store whose disk was tampered with, and says what became of it. */
static enum outcome outcome_of(struct fixture *f)
{
    unsigned rot = 0;
    enum outcome outcome = OUTCOME_WHOLE;
    lightq_status status = fixture_try_open(f);
    if (status == LIGHTQ_EDAMAGED) {
        assert_true(f->err.text[0] != '\0');
        return OUTCOME_SHARD_DAMAGED;
    }
    if (status != LIGHTQ_OK) {
        fail_msg("%s: %s", lightq_status_name(status), f->err.text);
    }
    if (!is_whole(f, &rot)) {
        outcome = OUTCOME_LOG_DAMAGED;
    } else if (rot > 0) {
        outcome = OUTCOME_ROT_READ;
    }
    for (size_t i = 0; i < lq_store_count(f->store); i++) {
        struct lq_rlog *log = lq_store_at(f->store, i);
        bool healthy = lq_rlog_health(log) == LQ_RLOG_HEALTHY;
        assert_int_equal(lq_rlog_health_text(log)[0] == '\0', healthy);
    }
    fixture_crash(f, LQ_IO_MEM_KEEP, 0);
    return outcome;
}

/* Flips one bit of each byte of a file in turn and counts the outcomes. */
static void flip_all(struct fixture *f, const char *path, uint64_t from, uint64_t to, unsigned counts[4])
{
    struct lq_io_mem_image *image = lq_io_mem_copy(f->mem);
    assert_non_null(image);
    memset(counts, 0, 4 * sizeof counts[0]);
    for (uint64_t offset = from; offset < to; offset++) {
        assert_int_equal(lq_io_mem_restore(f->mem, image), LIGHTQ_OK);
        assert_int_equal(lq_io_mem_flip(f->mem, path, offset, (unsigned)(offset * 5 % 8)), LIGHTQ_OK);
        counts[outcome_of(f)]++;
    }
    assert_int_equal(lq_io_mem_restore(f->mem, image), LIGHTQ_OK);
    lq_io_mem_image_free(image);
}

static size_t file_size(struct fixture *f, const char *path)
{
    uint8_t *bytes = NULL;
    size_t size = 0;
    assert_int_equal(lq_io_mem_read_file(f->mem, path, &bytes, &size), LIGHTQ_OK);
    free(bytes);
    return size;
}

/* The number of the n-th file of group 1 with @suffix, counted from the end when @n is negative. */
static uint64_t number_of(struct fixture *f, uint64_t group, const char *suffix, int n)
{
    char path[128];
    uint64_t found[LAST + 2];
    int count = 0;
    for (uint64_t i = 1; i <= LAST + 1; i++) {
        if (lq_io_mem_exists(f->mem, group_path(path, sizeof path, group, i, suffix))) {
            found[count++] = i;
        }
    }
    int at = n >= 0 ? n : count + n;
    assert_true(at >= 0 && at < count);
    return found[at];
}

static void test_recover_flips_in_an_open_segment_are_damage(void **state)
{
    struct fixture *f = *state;
    char path[128];
    unsigned counts[4];
    build(f);
    (void)group_path(path, sizeof path, 1, number_of(f, 1, ".log", -1), ".log");

    flip_all(f, path, 0, 64, counts); /* the header */
    assert_int_equal(counts[OUTCOME_LOG_DAMAGED], 64);
    flip_all(f, path, 64, 64 + 144, counts); /* its first entry */

    assert_int_equal(counts[OUTCOME_LOG_DAMAGED], 144);
}

static void test_recover_flips_in_a_sealed_segment_are_never_served(void **state)
{
    struct fixture *f = *state;
    char path[128];
    unsigned counts[4];
    build(f);
    (void)group_path(path, sizeof path, 1, 1, ".log");
    size_t size = file_size(f, path);

    flip_all(f, path, 64, size, counts);

    assert_int_equal(counts[OUTCOME_SHARD_DAMAGED], 0);
    assert_int_equal(counts[OUTCOME_WHOLE], 0);
    assert_true(counts[OUTCOME_ROT_READ] > size / 2); /* its .idx is trusted: found when it is read */
    assert_true(counts[OUTCOME_LOG_DAMAGED] > 0);     /* crc, index or term of its last entry: not what the .idx says */
}

static void test_recover_flips_in_an_index_are_repaired(void **state)
{
    struct fixture *f = *state;
    char path[128];
    unsigned counts[4];
    build(f);
    (void)group_path(path, sizeof path, 1, 1, ".idx");
    size_t size = file_size(f, path);

    flip_all(f, path, 0, size, counts);

    assert_int_equal(counts[OUTCOME_WHOLE], size);
}

static void test_recover_flips_in_a_later_checkpoint_are_survived(void **state)
{
    struct fixture *f = *state;
    char path[128];
    unsigned counts[4];
    struct lq_checkpoint checkpoint;
    uint8_t *bytes = NULL;
    build(f);
    uint64_t newest = number_of(f, 1, ".ckpt", -1);
    uint64_t before = number_of(f, 1, ".ckpt", -2);
    (void)group_path(path, sizeof path, 1, newest, ".ckpt");
    size_t size = file_size(f, path);

    flip_all(f, path, 0, size, counts);
    assert_int_equal(counts[OUTCOME_WHOLE], size);

    assert_int_equal(lq_io_mem_flip(f->mem, path, size - 1, 0), LIGHTQ_OK);
    fixture_open(f);
    struct lq_rlog *log = lq_store_find(f->store, 1);
    assert_int_equal(lq_rlog_load_checkpoint(log, UINT64_MAX, true, &checkpoint, &bytes, &f->err), LIGHTQ_OK);
    assert_int_equal(checkpoint.last_index + 1, before);
    free(bytes);
    assert_false(lq_io_mem_exists(f->mem, path)); /* set aside under another name */
}

static void test_recover_flips_in_the_first_checkpoint_are_damage(void **state)
{
    struct fixture *f = *state;
    char path[128];
    unsigned counts[4];
    build(f);
    (void)group_path(path, sizeof path, 2, number_of(f, 2, ".ckpt", 0), ".ckpt");
    size_t size = file_size(f, path);

    flip_all(f, path, 0, size, counts);

    assert_int_equal(counts[OUTCOME_LOG_DAMAGED], size);
}

static void test_recover_flips_in_the_journal_are_damage_of_the_shard(void **state)
{
    struct fixture *f = *state;
    unsigned counts[4];
    build(f);
    fixture_open(f);
    fixture_settle(f);
    fixture_close(f);
    assert_false(lq_io_mem_exists(f->mem, JOURNAL_1)); /* the second start began another one */

    flip_all(f, JOURNAL_2, 0, 64 + 40 + 300, counts); /* header, snapshot with all groups */

    assert_int_equal(counts[OUTCOME_SHARD_DAMAGED], 64 + 40 + 300);
}

static void test_recover_flips_behind_the_last_frame_lose_nothing(void **state)
{
    struct fixture *f = *state;
    unsigned counts[4];
    build(f);
    size_t size = file_size(f, JOURNAL_1);

    flip_all(f, JOURNAL_1, size - 300, size, counts);

    assert_int_equal(counts[OUTCOME_WHOLE] + counts[OUTCOME_SHARD_DAMAGED], 300); /* rot it is; the log is unhurt */
}

/* Entries that only the journal has: the segments' unsynced bytes are gone with a power cut. */
static void test_recover_flips_of_entries_in_the_journal_are_damage_of_their_log(void **state)
{
    struct fixture *f = *state;
    small_options(f);
    f->options.segment_bytes = 65536;
    fixture_open(f);
    for (uint64_t group = 1; group <= 4; group++) {
        struct lq_rlog *log = fixture_create(f, group, NULL);
        assert_int_equal(append(log, 3, 1, 100), LIGHTQ_OK);
    }
    lq_store_flush(f->store);
    (void)lq_io_mem_run_all(f->mem);
    assert_int_equal(lq_rlog_durable(lq_store_find(f->store, 4)), 3);
    fixture_crash(f, LQ_IO_MEM_LOSE, 0);
    uint8_t *bytes = NULL;
    size_t size = 0;
    uint64_t at = 0;
    assert_int_equal(lq_io_mem_read_file(f->mem, JOURNAL_1, &bytes, &size), LIGHTQ_OK);
    for (uint64_t i = 0; i + 32 < size; i += 8) { /* the header of entry 2 of group 3 */
        if (lq_get_u64(bytes + i + 8) == 3 && lq_get_u64(bytes + i + 16) == 2 && lq_get_u32(bytes + i + 4) == 172) {
            at = i;
        }
    }
    free(bytes);
    assert_true(at > 0);
    assert_int_equal(lq_io_mem_flip(f->mem, JOURNAL_1, at + 100, 3), LIGHTQ_OK);

    fixture_open(f);

    for (uint64_t group = 1; group <= 4; group++) {
        struct lq_rlog *log = lq_store_find(f->store, group);
        assert_int_equal(lq_rlog_health(log), group == 3 ? LQ_RLOG_DAMAGED : LQ_RLOG_HEALTHY);
        assert_int_equal(lq_rlog_last(log), group == 3 ? 0 : 3);
    }
    fixture_reopen(f); /* what the journal still holds of a damaged log is kept, so the verdict stays */
    assert_int_equal(lq_rlog_health(lq_store_find(f->store, 3)), LQ_RLOG_DAMAGED);
    assert_true(lq_io_mem_exists(f->mem, JOURNAL_1));
    check_log(f, lq_store_find(f->store, 4));
    lq_rlog_destroy(lq_store_find(f->store, 3));
    fixture_settle(f);
    assert_false(lq_io_mem_exists(f->mem, JOURNAL_1));
}

/* Every possible length of a log's files: never a healthy log that is shorter. */
static void test_recover_shortened_files_never_shorten_the_log(void **state)
{
    struct fixture *f = *state;
    char path[128];
    build(f);
    struct lq_io_mem_image *image = lq_io_mem_copy(f->mem);
    assert_non_null(image);
    for (int n = -2; n < 0; n++) {
        (void)group_path(path, sizeof path, 1, number_of(f, 1, ".log", n), ".log");
        size_t size = file_size(f, path);
        for (size_t cut = 0; cut < size; cut += 7) {
            assert_int_equal(lq_io_mem_restore(f->mem, image), LIGHTQ_OK);
            assert_int_equal(lq_io_mem_cut_file(f->mem, path, cut), LIGHTQ_OK);
            enum outcome outcome = outcome_of(f);
            assert_true(outcome == OUTCOME_LOG_DAMAGED || (outcome == OUTCOME_WHOLE && n == -1));
        }
    }
    lq_io_mem_image_free(image);
}

/* What a power cut could leave of an entry that followed another one: its index and term fit, what it says of the entry
 * before does not. */
static void test_recover_entry_that_followed_another_one_is_not_taken(void **state)
{
    struct fixture *f = *state;
    char path[128];
    for (uint64_t prev_term = 1; prev_term <= 2; prev_term++) {
        fixture_open(f);
        struct lq_rlog *log = fixture_create(f, 7, NULL);
        assert_int_equal(append(log, 2, 1, 100), LIGHTQ_OK);
        assert_int_equal(append(log, 1, 2, 100), LIGHTQ_OK);
        fixture_settle(f);
        fixture_close(f);
        struct lq_entry_ref ref = make_entry(7, 4, 3, prev_term, 100, LQ_ENTRY_COMMAND);
        assert_int_equal(lq_io_mem_overwrite(f->mem, group_path(path, sizeof path, 7, 1, ".log"),
                                             LQ_SEGMENT_HEADER_BYTES + 3 * ref.size, lq_entry_ref_bytes(&ref),
                                             ref.size),
                         LIGHTQ_OK);
        lq_slab_unref(ref.slab);

        fixture_open(f);

        log = lq_store_find(f->store, 7);
        assert_int_equal(lq_rlog_health(log), LQ_RLOG_HEALTHY);
        assert_int_equal(lq_rlog_last(log), prev_term == 2 ? 4 : 3); /* entry 3 is of term 2 */
        fixture_close(f);
        assert_int_equal(lq_io_mem_remove(f->mem, ""), LIGHTQ_OK);
    }
}

static void test_recover_missing_segment_is_damage(void **state)
{
    struct fixture *f = *state;
    char path[128];
    build(f);
    for (int n = 0; n < 3; n++) {
        struct lq_io_mem_image *image = lq_io_mem_copy(f->mem);
        assert_non_null(image);
        uint64_t number = number_of(f, 3, ".log", n == 2 ? -1 : n);
        assert_int_equal(lq_io_mem_remove(f->mem, group_path(path, sizeof path, 3, number, ".log")), LIGHTQ_OK);

        assert_int_equal(outcome_of(f), OUTCOME_LOG_DAMAGED);

        assert_int_equal(lq_io_mem_restore(f->mem, image), LIGHTQ_OK);
        lq_io_mem_image_free(image);
    }
}

/* Case C5: a node without its index files does not start. */
static void test_recover_missing_indexes_are_made_again(void **state)
{
    struct fixture *f = *state;
    char path[128];
    unsigned rot = 0;
    build(f);
    uint64_t first = number_of(f, 1, ".idx", 0);
    for (uint64_t i = 1; i <= LAST; i++) {
        if (lq_io_mem_exists(f->mem, group_path(path, sizeof path, 1, i, ".idx"))) {
            assert_int_equal(lq_io_mem_remove(f->mem, path), LIGHTQ_OK);
        }
    }

    fixture_open(f);

    assert_true(is_whole(f, &rot));
    assert_int_equal(rot, 0);
    fixture_settle(f);
    assert_true(lq_io_mem_exists(f->mem, group_path(path, sizeof path, 1, first, ".idx")));
}

static void test_recover_missing_directory_is_lost_and_not_new(void **state)
{
    struct fixture *f = *state;
    struct lq_rlog *log = NULL;
    uint32_t incarnation = 0;
    build(f);
    assert_int_equal(lq_io_mem_remove(f->mem, "g3-1"), LIGHTQ_OK);

    fixture_open(f);

    log = lq_store_find(f->store, 3);
    assert_int_equal(lq_rlog_health(log), LQ_RLOG_LOST);
    assert_string_not_equal(lq_rlog_health_text(log), "");
    assert_int_equal(append(log, 1, 9, 1), LIGHTQ_ESTOPPED);
    assert_int_equal(lq_rlog_create(f->store, 3, 2, &log, &f->err), LIGHTQ_EEXISTS);
    lq_rlog_destroy(lq_store_find(f->store, 3));
    fixture_settle(f);
    assert_int_equal(lq_rlog_create(f->store, 3, 1, &log, &f->err), LIGHTQ_ECONFLICT);
    assert_true(lq_store_knows(f->store, 3, &incarnation));
    assert_int_equal(incarnation, 1);
    assert_int_equal(lq_rlog_create(f->store, 3, 2, &log, &f->err), LIGHTQ_OK);
    fixture_settle(f);
    fixture_reopen(f);
    log = lq_store_find(f->store, 3);
    assert_int_equal(lq_rlog_health(log), LQ_RLOG_HEALTHY);
    assert_int_equal(lq_rlog_incarnation(log), 2);
    assert_int_equal(lq_rlog_last(log), 0);
}

static void test_recover_missing_journal_is_damage_of_the_shard(void **state)
{
    struct fixture *f = *state;
    build(f);
    assert_int_equal(lq_io_mem_remove(f->mem, JOURNAL_1), LIGHTQ_OK);

    assert_int_equal(fixture_try_open(f), LIGHTQ_EDAMAGED);
    assert_true(lq_io_mem_exists(f->mem, "g1-1")); /* nothing is touched */
    assert_int_equal(lq_io_mem_remove(f->mem, "journal"), LIGHTQ_OK);

    assert_int_equal(fixture_try_open(f), LIGHTQ_EDAMAGED);
}

/* The newest file is removed while an older one, kept for a damaged log, stays: not an old state. */
static void test_recover_missing_newest_journal_is_damage_of_the_shard(void **state)
{
    struct fixture *f = *state;
    test_recover_flips_of_entries_in_the_journal_are_damage_of_their_log(state);
    fixture_close(f);
    assert_int_equal(lq_io_mem_remove(f->mem, ""), LIGHTQ_OK);
    small_options(f);
    fixture_open(f);
    for (uint64_t group = 1; group <= 4; group++) {
        assert_int_equal(append(fixture_create(f, group, NULL), 3, 1, 100), LIGHTQ_OK);
    }
    lq_store_flush(f->store);
    (void)lq_io_mem_run_all(f->mem);
    fixture_crash(f, LQ_IO_MEM_LOSE, 0);
    assert_int_equal(lq_io_mem_remove(f->mem, "g2-1"), LIGHTQ_OK); /* lost: the journal's entries are kept for it */
    fixture_open(f);
    (void)lq_rlog_set_vote(lq_store_find(f->store, 1), 9, 9);
    fixture_settle(f);
    fixture_close(f);
    assert_true(lq_io_mem_exists(f->mem, JOURNAL_1));
    assert_int_equal(lq_io_mem_remove(f->mem, JOURNAL_2), LIGHTQ_OK);

    assert_int_equal(fixture_try_open(f), LIGHTQ_EDAMAGED);
}

/* A segment says under which journal file it was begun. */
static void test_recover_older_journal_than_a_segment_is_damage_of_the_shard(void **state)
{
    struct fixture *f = *state;
    uint8_t *bytes = NULL;
    size_t size = 0;
    build(f);
    assert_int_equal(lq_io_mem_read_file(f->mem, JOURNAL_1, &bytes, &size), LIGHTQ_OK);
    fixture_open(f);
    assert_int_equal(append(lq_store_find(f->store, 4), 1, 3, 10), LIGHTQ_OK);
    fixture_settle(f);
    fixture_close(f);
    assert_int_equal(lq_io_mem_remove(f->mem, JOURNAL_2), LIGHTQ_OK);
    fixture_put_file(f, JOURNAL_1, bytes, size); /* as restored from a backup */
    free(bytes);

    assert_int_equal(fixture_try_open(f), LIGHTQ_EDAMAGED);
}

static void test_recover_files_of_another_cluster_are_refused(void **state)
{
    struct fixture *f = *state;
    char path[128];
    build(f);
    f->options.cluster.bytes[0] ^= 1;
    assert_int_equal(fixture_try_open(f), LIGHTQ_EIDENTITY);
    f->options.cluster.bytes[0] ^= 1;
    uint8_t *bytes = NULL;
    size_t size = 0;
    (void)group_path(path, sizeof path, 1, number_of(f, 1, ".log", -1), ".log");
    assert_int_equal(lq_io_mem_read_file(f->mem, path, &bytes, &size), LIGHTQ_OK);
    bytes[16] ^= 1; /* the cluster of one segment, with a good crc */
    lq_put_u32(bytes + 12, lq_crc32c(lq_crc32c(0, bytes + 8, 4), bytes + 16, 48));
    assert_int_equal(lq_io_mem_overwrite(f->mem, path, 0, bytes, 64), LIGHTQ_OK);
    free(bytes);

    assert_int_equal(fixture_try_open(f), LIGHTQ_EIDENTITY);
}

static void test_recover_unknown_versions_are_refused(void **state)
{
    struct fixture *f = *state;
    char path[128];
    build(f);
    const char *paths[2] = {JOURNAL_1, group_path(path, sizeof path, 1, number_of(f, 1, ".log", -1), ".log")};
    for (int i = 0; i < 2; i++) {
        struct lq_io_mem_image *image = lq_io_mem_copy(f->mem);
        uint8_t *bytes = NULL;
        size_t size = 0;
        assert_non_null(image);
        assert_int_equal(lq_io_mem_read_file(f->mem, paths[i], &bytes, &size), LIGHTQ_OK);
        lq_put_u32(bytes + 8, 2);
        lq_put_u32(bytes + 12, lq_crc32c(lq_crc32c(0, bytes + 8, 4), bytes + 16, 48));
        assert_int_equal(lq_io_mem_overwrite(f->mem, paths[i], 0, bytes, 64), LIGHTQ_OK);
        free(bytes);

        assert_int_equal(fixture_try_open(f), LIGHTQ_EVERSION);

        assert_int_equal(lq_io_mem_restore(f->mem, image), LIGHTQ_OK);
        lq_io_mem_image_free(image);
    }
}

static void test_recover_damaged_log_is_set_aside_when_destroyed(void **state)
{
    struct fixture *f = *state;
    char path[128];
    struct lq_rlog *log = NULL;
    build(f);
    uint64_t number = number_of(f, 1, ".log", -1);
    assert_int_equal(lq_io_mem_flip(f->mem, group_path(path, sizeof path, 1, number, ".log"), 100, 1), LIGHTQ_OK);
    fixture_open(f);
    log = lq_store_find(f->store, 1);
    assert_int_equal(lq_rlog_health(log), LQ_RLOG_DAMAGED);
    assert_int_equal(append(log, 1, 9, 1), LIGHTQ_ESTOPPED);
    assert_true(lq_io_mem_exists(f->mem, path)); /* left as it is */

    lq_rlog_destroy(log);
    fixture_settle(f);

    assert_false(lq_io_mem_exists(f->mem, "g1-1"));
    (void)snprintf(path, sizeof path, "removed/g1-1.0/%020" PRIu64 ".log", number);
    assert_true(lq_io_mem_exists(f->mem, path));
    fixture_reopen(f);
    assert_null(lq_store_find(f->store, 1));
    assert_true(lq_store_knows(f->store, 1, NULL));
}

/* Case D5: a full disk leaves thousands of temporary files. */
static void test_recover_temporary_files_are_removed(void **state)
{
    struct fixture *f = *state;
    build(f);
    fixture_put_file(f, "g1-1/00000000000000000009.ckpt.tmp", (const uint8_t *)"half", 4);
    fixture_put_file(f, "g1-1/00000000000000000009.idx.tmp", (const uint8_t *)"", 0);

    assert_int_equal(outcome_of(f), OUTCOME_WHOLE);

    assert_false(lq_io_mem_exists(f->mem, "g1-1/00000000000000000009.ckpt.tmp"));
    assert_false(lq_io_mem_exists(f->mem, "g1-1/00000000000000000009.idx.tmp"));
}

/* The last flush before a power cut, told durable, its watermark not yet in the journal. */
static void last_flush(struct fixture *f, char path[128])
{
    small_options(f);
    f->options.segment_bytes = 65536;
    fixture_open(f);
    struct lq_rlog *log = fixture_create(f, 1, NULL);
    assert_int_equal(append(log, 2, 1, 1000), LIGHTQ_OK);
    fixture_settle(f);
    assert_int_equal(append(log, 2, 1, 1000), LIGHTQ_OK);
    lq_store_flush(f->store);
    (void)lq_io_mem_run_all(f->mem);
    assert_int_equal(lq_rlog_durable(log), 4);
    fixture_crash(f, LQ_IO_MEM_LOSE, 0);
    (void)group_path(path, 128, 1, 1, ".log");
}

static void test_recover_wrong_byte_in_the_last_flush_is_damage(void **state)
{
    struct fixture *f = *state;
    char path[128];
    last_flush(f, path);
    assert_int_equal(lq_io_mem_flip(f->mem, path, 64 + 3 * 1072 + 500, 2), LIGHTQ_OK); /* entry 4 */

    fixture_open(f);

    assert_int_equal(lq_rlog_health(lq_store_find(f->store, 1)), LQ_RLOG_DAMAGED);
}

/* Cases A7, B9: a torn end makes the node unusable, or half a record is taken for one. */
static void test_recover_unwritten_sector_in_the_last_flush_is_a_torn_tail(void **state)
{
    struct fixture *f = *state;
    char path[128];
    uint8_t zeros[512] = {0};
    last_flush(f, path);
    assert_int_equal(lq_io_mem_overwrite(f->mem, path, 3584, zeros, sizeof zeros), LIGHTQ_OK); /* inside entry 4 */

    fixture_open(f);
    struct lq_rlog *log = lq_store_find(f->store, 1);

    assert_int_equal(lq_rlog_health(log), LQ_RLOG_HEALTHY);
    assert_int_equal(lq_rlog_last(log), 3);
    check_log(f, log);
    assert_int_equal(append(log, 3, 2, 1000), LIGHTQ_OK);
    fixture_settle(f);
    fixture_reopen(f);
    check_log(f, lq_store_find(f->store, 1));
    assert_int_equal(lq_rlog_last(lq_store_find(f->store, 1)), 6);
}

static void test_recover_unwritten_sector_below_the_watermark_is_damage(void **state)
{
    struct fixture *f = *state;
    char path[128];
    uint8_t zeros[512] = {0};
    last_flush(f, path);
    fixture_open(f);
    fixture_close(f); /* says in the journal how far the log is durable */
    assert_int_equal(lq_io_mem_overwrite(f->mem, path, 3584, zeros, sizeof zeros), LIGHTQ_OK);

    fixture_open(f);

    assert_int_equal(lq_rlog_health(lq_store_find(f->store, 1)), LQ_RLOG_DAMAGED);
}

/* Where the last frame of a journal file begins. */
static size_t last_frame(const uint8_t *bytes, size_t size)
{
    size_t last = 0;
    for (size_t at = LQ_JOURNAL_HEADER_BYTES; at + LQ_FRAME_HEADER_BYTES <= size; at += 8) {
        last = lq_get_u32(bytes + at) == LQ_FRAME_MAGIC ? at : last;
    }
    assert_true(last != 0);
    return last;
}

#define GROWN_GROUPS 3

/* Entries of several groups go to the journal: @round 0 within what is allocated, 1 beyond it. The flush has begun. */
static void journal_round(struct fixture *f, int round)
{
    for (uint64_t group = 1; group <= GROWN_GROUPS; group++) {
        assert_int_equal(append(lq_store_find(f->store, group), 1, 1, round == 0 ? 100 : 22000), LIGHTQ_OK);
    }
    lq_store_flush(f->store);
}

static void open_grown(struct fixture *f)
{
    small_options(f);
    f->options.segment_bytes = 65536;
    f->options.journal_bytes = 1024 * 1024;
    f->options.sync_files_max = 1;
    fixture_open(f);
    for (uint64_t group = 1; group <= GROWN_GROUPS; group++) {
        (void)fixture_create(f, group, NULL);
    }
    journal_round(f, 0);
    (void)lq_io_mem_run_all(f->mem);
}

/* A power cut anywhere while the journal becomes longer: it starts, and has what was told. */
static void test_recover_crash_while_the_journal_grows_loses_nothing(void **state)
{
    struct fixture *f = *state;
    bool done = false;
    for (uint64_t n = 1; !done; n++) {
        for (int kept = 0; kept < 8; kept++) { /* of what was not synced: nothing, all, six times some */
            open_grown(f);
            lq_io_mem_crash_after(f->mem, n);
            journal_round(f, 1);
            (void)lq_io_mem_run_all(f->mem);
            done = !lq_io_mem_crashed(f->mem);
            uint64_t told = done ? 2 : 1;
            fixture_crash(f, kept == 0 ? LQ_IO_MEM_LOSE : kept == 1 ? LQ_IO_MEM_KEEP : LQ_IO_MEM_TEAR, n * 8 + kept);

            assert_int_equal(fixture_try_open(f), LIGHTQ_OK);

            for (uint64_t group = 1; group <= GROWN_GROUPS; group++) {
                struct lq_rlog *log = lq_store_find(f->store, group);
                assert_int_equal(lq_rlog_health(log), LQ_RLOG_HEALTHY);
                assert_in_range(lq_rlog_last(log), told, 2);
                check_log(f, log);
            }
            fixture_close(f);
            assert_int_equal(fixture_teardown(state), 0);
            assert_int_equal(fixture_setup(state), 0);
            f = *state;
        }
    }
}

/* No power cut shortens a file that frames tell of: wherever its end is gone, frames may be, whichever they were. */
static void test_recover_journal_that_lost_its_end_is_damage(void **state)
{
    struct fixture *f = *state;
    uint8_t *bytes = NULL;
    size_t size = 0;
    open_grown(f);
    journal_round(f, 1);
    (void)lq_io_mem_run_all(f->mem);
    fixture_crash(f, LQ_IO_MEM_LOSE, 0);
    struct lq_io_mem_image *image = lq_io_mem_copy(f->mem);
    assert_non_null(image);
    assert_int_equal(lq_io_mem_read_file(f->mem, JOURNAL_1, &bytes, &size), LIGHTQ_OK);
    size_t frame = last_frame(bytes, size);
    size_t snapshot_end = LQ_JOURNAL_HEADER_BYTES + (size_t)lq_get_u64(bytes + LQ_JOURNAL_HEADER_BYTES + 8);
    assert_true(size > frame + 60000);
    for (size_t kept = snapshot_end; kept < size; kept += kept < frame + 2 * LQ_LENGTH_FRAME_BYTES ? 8 : 512) {
        assert_int_equal(lq_io_mem_restore(f->mem, image), LIGHTQ_OK);
        assert_int_equal(lq_io_mem_cut_file(f->mem, JOURNAL_1, kept), LIGHTQ_OK);
        assert_int_equal(fixture_try_open(f), LIGHTQ_EDAMAGED);
        assert_non_null(strstr(f->err.text, "has lost its end"));
    }
    for (size_t kept = 0; kept < snapshot_end; kept += 8) { /* not even what it began with: the groups are not new */
        assert_int_equal(lq_io_mem_restore(f->mem, image), LIGHTQ_OK);
        assert_int_equal(lq_io_mem_cut_file(f->mem, JOURNAL_1, kept), LIGHTQ_OK);
        assert_int_not_equal(fixture_try_open(f), LIGHTQ_OK);
    }
    lq_io_mem_image_free(image);
    free(bytes);
}

/* Without any journal record of them, watermarks reach the journal soon: by number of flushes, and by time. */
static void test_recover_watermarks_reach_the_journal(void **state)
{
    struct fixture *f = *state;
    char path[128];
    uint8_t zeros[512] = {0};
    for (int by_time = 0; by_time < 2; by_time++) {
        last_flush(f, path);
        fixture_open(f);
        struct lq_rlog *log = lq_store_find(f->store, 1);
        assert_int_equal(append(log, 1, 1, 1000), LIGHTQ_OK);
        fixture_settle(f);
        for (int i = 0; i < 70 && !by_time; i++) {
            assert_int_equal(append(log, 1, 1, 8), LIGHTQ_OK);
            fixture_settle(f);
        }
        f->clock.now_us += 2000000;
        if (by_time) {
            fixture_settle(f); /* an idle loop turn */
        }
        fixture_crash(f, LQ_IO_MEM_LOSE, 0);
        assert_int_equal(lq_io_mem_overwrite(f->mem, path, 4608, zeros, sizeof zeros), LIGHTQ_OK); /* entry 5 */

        fixture_open(f);

        assert_int_equal(lq_rlog_health(lq_store_find(f->store, 1)), LQ_RLOG_DAMAGED);
        fixture_close(f);
        assert_int_equal(lq_io_mem_remove(f->mem, ""), LIGHTQ_OK);
    }
}

static void test_recover_unknown_directory_is_set_aside(void **state)
{
    struct fixture *f = *state;
    build(f);
    assert_int_equal(lq_io_mem_io(f->mem)->ops->mkdir(lq_io_mem_io(f->mem), "g9-1", NULL), LIGHTQ_OK);
    assert_int_equal(lq_io_mem_io(f->mem)->ops->mkdir(lq_io_mem_io(f->mem), "g10-4", NULL), LIGHTQ_OK);
    fixture_put_file(f, "g9-1/00000000000000000001.log", (const uint8_t *)"?", 1);

    fixture_open(f);

    assert_null(lq_store_find(f->store, 9));
    assert_false(lq_store_knows(f->store, 9, NULL));
    assert_true(lq_io_mem_exists(f->mem, "removed/g9-1.0/00000000000000000001.log"));
    assert_false(lq_io_mem_exists(f->mem, "g10-4")); /* empty: nothing to keep */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_recover_flips_in_an_open_segment_are_damage, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_recover_flips_in_a_sealed_segment_are_never_served, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_recover_flips_in_an_index_are_repaired, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_recover_flips_in_a_later_checkpoint_are_survived, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_recover_flips_in_the_first_checkpoint_are_damage, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_recover_flips_in_the_journal_are_damage_of_the_shard, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_recover_flips_behind_the_last_frame_lose_nothing, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_recover_flips_of_entries_in_the_journal_are_damage_of_their_log,
                                        fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_recover_shortened_files_never_shorten_the_log, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_recover_entry_that_followed_another_one_is_not_taken, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_recover_missing_segment_is_damage, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_recover_missing_indexes_are_made_again, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_recover_missing_directory_is_lost_and_not_new, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_recover_missing_journal_is_damage_of_the_shard, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_recover_missing_newest_journal_is_damage_of_the_shard, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_recover_older_journal_than_a_segment_is_damage_of_the_shard, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_recover_files_of_another_cluster_are_refused, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_recover_unknown_versions_are_refused, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_recover_damaged_log_is_set_aside_when_destroyed, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_recover_temporary_files_are_removed, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_recover_wrong_byte_in_the_last_flush_is_damage, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_recover_unwritten_sector_in_the_last_flush_is_a_torn_tail, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_recover_crash_while_the_journal_grows_loses_nothing, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_recover_journal_that_lost_its_end_is_damage, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_recover_unwritten_sector_below_the_watermark_is_damage, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_recover_watermarks_reach_the_journal, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_recover_unknown_directory_is_set_aside, fixture_setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
