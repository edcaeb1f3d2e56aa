/* tests/unit/storage/test_dump.c - lq_dump: what it prints of a data directory, and that its verdict is right: never
 * damage after a power cut, always damage where the store itself finds some. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/base/buf.h"
#include "client/base/crc.h"
#include "client/base/log.h"
#include "dump_world.h"

#define FLIPS          400 /* of the whole directory, evenly spread */
#define NODE_BYTES     77
#define DAMAGES        300
#define SECOND_CHANGES 24 /* of a recovery, and the first of what comes after */

static int setup(void **state)
{
    *state = dump_world_new();
    return 0;
}

static int teardown(void **state)
{
    struct dump_world *world = *state;
    dump_world_abandon(world);
    assert_int_equal(lq_io_mem_open_files(world->mem), 0);
    dump_world_free(world);
    return 0;
}

/* A directory that has all kinds of files, closed in order. */
static void make_directory(struct dump_world *world)
{
    assert_int_equal(dump_world_open(world), LIGHTQ_OK);
    dump_world_work(world);
    dump_world_close(world);
}

static char *dump_text(struct dump_world *world, lightq_status *status, struct lq_dump_verdict *verdict)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    *status = lq_dump(lq_io_mem_io(world->mem), false, out, verdict, &world->err);
    fclose(out);
    return text;
}

/* ---- files of the directory ---- */

struct files {
    struct dump_world *world;
    const char *dir;
    char paths[64][64];
    uint64_t sizes[64];
    size_t count;
};

static void on_entry(void *data, const char *name, bool is_dir)
{
    struct files *files = data;
    char path[64];
    snprintf(path, sizeof path, "%.24s%s%.38s", files->dir, files->dir[0] == '\0' ? "" : "/", name);
    if (is_dir) {
        struct files inner = {.world = files->world, .dir = path};
        struct lq_io *io = lq_io_mem_io(files->world->mem);
        assert_int_equal(io->ops->list(io, path, on_entry, &inner, NULL), LIGHTQ_OK);
        for (size_t i = 0; i < inner.count; i++) {
            assert_true(files->count < 64);
            memcpy(files->paths[files->count], inner.paths[i], sizeof inner.paths[i]);
            files->sizes[files->count++] = inner.sizes[i];
        }
        return;
    }
    struct lq_io *io = lq_io_mem_io(files->world->mem);
    struct lq_io_stat stat;
    assert_int_equal(io->ops->stat(io, path, &stat, NULL), LIGHTQ_OK);
    assert_true(files->count < 64);
    memcpy(files->paths[files->count], path, sizeof path);
    files->sizes[files->count++] = stat.size;
}

static void list_files(struct dump_world *world, struct files *files)
{
    *files = (struct files){.world = world, .dir = ""};
    struct lq_io *io = lq_io_mem_io(world->mem);
    assert_int_equal(io->ops->list(io, "", on_entry, files, NULL), LIGHTQ_OK);
}

static bool has_suffix(const char *path, const char *suffix)
{
    size_t size = strlen(path);
    return size >= strlen(suffix) && strcmp(path + size - strlen(suffix), suffix) == 0;
}

/* ---- clean ---- */

static void test_dump_of_a_closed_store_is_clean(void **state)
{
    struct dump_world *world = *state;
    make_directory(world);
    struct files files;
    list_files(world, &files);
    unsigned logs = 0, indexes = 0, checkpoints = 0, journals = 0;
    for (size_t i = 0; i < files.count; i++) {
        logs += has_suffix(files.paths[i], ".log");
        indexes += has_suffix(files.paths[i], ".idx");
        checkpoints += has_suffix(files.paths[i], ".ckpt");
        journals += has_suffix(files.paths[i], ".journal");
    }
    assert_true(logs > 3 && indexes > 0 && checkpoints > 1 && journals > 0); /* the workload is worth the test */

    struct lq_dump_verdict verdict;
    char *text;
    assert_int_equal(dump_world_verify(world, &text, &verdict), 0);

    assert_int_equal(verdict.torn, 0);
    assert_true(verdict.entries > 20);
    assert_true(verdict.files >= files.count);
    assert_non_null(strstr(text, "\nclean: "));
    for (size_t i = 0; i < files.count; i++) { /* a line for each */
        assert_non_null(strstr(text, files.paths[i]));
    }
    free(text);
}

static void test_dump_prints_records_and_entries(void **state)
{
    struct dump_world *world = *state;
    make_directory(world);
    lightq_status status;
    struct lq_dump_verdict verdict;
    uint64_t changes = lq_io_mem_changes(world->mem);

    char *text = dump_text(world, &status, &verdict);

    assert_int_equal(status, LIGHTQ_OK);
    assert_int_equal(verdict.damaged, 0);
    assert_int_equal(lq_io_mem_changes(world->mem), changes);
    assert_non_null(strstr(text, "GROUP group 7-1 term "));
    assert_non_null(strstr(text, " command offset "));
    assert_non_null(strstr(text, " term 4 "));
    assert_non_null(strstr(text, " crc ok\n"));
    assert_non_null(strstr(text, "g7-1/"));
    assert_non_null(strstr(text, "state after entry "));
    assert_non_null(strstr(text, "point "));
    free(text);
}

/* Works on @world until the @n-th change, and cuts the power there. False: that change was not reached. */
static bool work_until(struct dump_world *world, uint64_t n, enum lq_io_mem_crash_mode mode, uint64_t seed)
{
    lq_io_mem_crash_after(world->mem, n);
    if (dump_world_open(world) == LIGHTQ_OK) {
        dump_world_work(world);
    }
    dump_world_abandon(world);
    bool was_reached = lq_io_mem_crashed(world->mem);
    assert_int_equal(lq_io_mem_crash(world->mem, mode, seed), LIGHTQ_OK);
    return was_reached;
}

/* Neither the dump nor the store finds damage. */
static void assert_clean(struct dump_world *world, uint64_t n, unsigned mode)
{
    struct lq_dump_verdict verdict;
    char *text;
    uint64_t damaged = dump_world_verify(world, &text, &verdict);
    if (damaged > 0) {
        print_message("change %u, mode or change %u:\n%s", (unsigned)n, mode, text);
    }
    free(text);
    assert_int_equal(damaged, 0);
    assert_true(dump_world_is_healthy(world));
}

static uint64_t count_changes(void)
{
    struct dump_world *world = dump_world_new();
    (void)work_until(world, 0, LQ_IO_MEM_KEEP, 0);
    uint64_t changes = lq_io_mem_changes(world->mem);
    dump_world_free(world);
    assert_true(changes > 100);
    return changes;
}

static void test_dump_is_clean_after_a_cut_at_every_change(void **state)
{
    (void)state;
    uint64_t changes = count_changes();

    for (uint64_t n = 1; n <= changes; n++) {
        for (unsigned mode = LQ_IO_MEM_KEEP; mode <= LQ_IO_MEM_TEAR; mode++) {
            struct dump_world *world = dump_world_new();
            assert_true(work_until(world, n, (enum lq_io_mem_crash_mode)mode, n * 3 + mode));
            assert_clean(world, n, mode);
            dump_world_free(world);
        }
    }
}

static void test_dump_is_clean_after_a_second_cut_while_recovering(void **state)
{
    (void)state;
    uint64_t changes = count_changes();

    for (uint64_t n = 1; n <= changes; n += 16) {
        for (uint64_t k = 1; k < SECOND_CHANGES; k++) {
            struct dump_world *world = dump_world_new();
            (void)work_until(world, n, LQ_IO_MEM_TEAR, n * 7 + k);
            (void)work_until(world, k, LQ_IO_MEM_TEAR, n * 13 + k);
            assert_clean(world, n, (unsigned)k);
            dump_world_free(world);
        }
    }
}

/* ---- damage ---- */

/* Whatever the store finds, the dump must find: it may be stricter, as it reads everything. */
static void assert_not_milder_than_the_store(struct dump_world *world, const char *what, uint64_t where)
{
    struct lq_dump_verdict verdict;
    char *text;
    uint64_t damaged = dump_world_verify(world, &text, &verdict);
    bool is_healthy = dump_world_is_healthy(world);
    if (damaged == 0 && !is_healthy) {
        print_message("%s %u: the store says %s, the dump\n%s", what, (unsigned)where, world->err.text, text);
    }
    free(text);
    assert_true(damaged > 0 || is_healthy);
}

static void test_dump_finds_every_flipped_bit_that_the_store_finds(void **state)
{
    struct dump_world *world = *state;
    make_directory(world);
    struct lq_io_mem_image *image = lq_io_mem_copy(world->mem);
    assert_non_null(image);
    struct files files;
    list_files(world, &files);
    uint64_t total = 0;
    for (size_t i = 0; i < files.count; i++) {
        total += files.sizes[i];
    }
    uint64_t step = total / FLIPS + 1;
    uint64_t skip = 0;
    for (size_t i = 0; i < files.count; i++) {
        for (; skip < files.sizes[i]; skip += step) {
            assert_int_equal(lq_io_mem_flip(world->mem, files.paths[i], skip, (unsigned)(skip % 8)), LIGHTQ_OK);
            assert_not_milder_than_the_store(world, files.paths[i], skip);
            assert_int_equal(lq_io_mem_restore(world->mem, image), LIGHTQ_OK);
        }
        skip -= files.sizes[i];
    }
    lq_io_mem_image_free(image);
}

/* In the header of each file and in its first entries, where every bit means something. */
static void test_dump_finds_a_flipped_bit_of_any_field(void **state)
{
    struct dump_world *world = *state;
    make_directory(world);
    struct lq_io_mem_image *image = lq_io_mem_copy(world->mem);
    assert_non_null(image);
    struct files files;
    list_files(world, &files);
    for (size_t i = 0; i < files.count; i++) {
        for (uint64_t at = 0; at < 200 && at < files.sizes[i]; at += 1 + at / 64) {
            assert_int_equal(lq_io_mem_flip(world->mem, files.paths[i], at, (unsigned)(at % 8)), LIGHTQ_OK);
            struct lq_dump_verdict verdict;
            char *text;
            (void)dump_world_verify(world, &text, &verdict);
            if (verdict.damaged + verdict.stale + verdict.torn == 0) {
                print_message("%s byte %u is not missed:\n%s", files.paths[i], (unsigned)at, text);
            }
            free(text);
            assert_true(verdict.damaged + verdict.stale + verdict.torn > 0);
            assert_not_milder_than_the_store(world, files.paths[i], at);
            assert_int_equal(lq_io_mem_restore(world->mem, image), LIGHTQ_OK);
        }
    }
    lq_io_mem_image_free(image);
}

static void test_dump_finds_every_missing_and_shortened_file_that_the_store_finds(void **state)
{
    struct dump_world *world = *state;
    make_directory(world);
    struct lq_io_mem_image *image = lq_io_mem_copy(world->mem);
    assert_non_null(image);
    struct files files;
    list_files(world, &files);
    for (size_t i = 0; i < files.count; i++) {
        assert_int_equal(lq_io_mem_remove(world->mem, files.paths[i]), LIGHTQ_OK);
        assert_not_milder_than_the_store(world, files.paths[i], 0);
        assert_int_equal(lq_io_mem_restore(world->mem, image), LIGHTQ_OK);
        for (uint64_t size = 0; size < files.sizes[i]; size += files.sizes[i] / 13 + 1) {
            assert_int_equal(lq_io_mem_cut_file(world->mem, files.paths[i], size), LIGHTQ_OK);
            assert_not_milder_than_the_store(world, files.paths[i], size);
            assert_int_equal(lq_io_mem_restore(world->mem, image), LIGHTQ_OK);
        }
    }
    lq_io_mem_image_free(image);
}

/* A flip, a zeroed sector, a shortened or a missing file, in what a power cut has left. */
static void damage_one(struct dump_world *world, const struct files *files, struct lq_clock *random)
{
    size_t i = (size_t)lq_clock_random_below(random, files->count);
    uint64_t size = files->sizes[i];
    uint64_t near = size < 4200 ? size : 4200; /* where the bytes are; behind it lie zeros */
    uint64_t at = lq_clock_random_below(random, lq_clock_random_below(random, 2) == 0 ? size : near);
    uint64_t kind = size == 0 ? 9 : lq_clock_random_below(random, 10);
    const uint8_t zeros[512] = {0};
    if (kind < 6) {
        assert_int_equal(lq_io_mem_flip(world->mem, files->paths[i], at, (unsigned)kind), LIGHTQ_OK);
    } else if (kind < 8) {
        assert_int_equal(lq_io_mem_cut_file(world->mem, files->paths[i], at), LIGHTQ_OK);
    } else if (kind < 9) {
        uint64_t from = at / sizeof zeros * sizeof zeros;
        size_t count = size - from < sizeof zeros ? (size_t)(size - from) : sizeof zeros;
        assert_int_equal(lq_io_mem_overwrite(world->mem, files->paths[i], from, zeros, count), LIGHTQ_OK);
    } else {
        assert_int_equal(lq_io_mem_remove(world->mem, files->paths[i]), LIGHTQ_OK);
    }
}

static void test_dump_finds_damage_after_a_cut_that_the_store_finds(void **state)
{
    struct dump_world *dice = *state; /* of this world only the randomness is used */
    uint64_t changes = count_changes();

    for (uint64_t i = 0; i < DAMAGES; i++) {
        struct dump_world *world = dump_world_new();
        uint64_t n = changes / 3 + lq_clock_random_below(&dice->clock, changes * 2 / 3);
        (void)work_until(world, n, (enum lq_io_mem_crash_mode)(i % 3), lq_clock_random_u64(&dice->clock));
        struct files files;
        list_files(world, &files);
        damage_one(world, &files, &dice->clock);
        assert_not_milder_than_the_store(world, "case", i);
        dump_world_free(world);
    }
}

static void test_dump_names_file_and_byte_of_damage(void **state)
{
    struct dump_world *world = *state;
    make_directory(world);
    struct files files;
    list_files(world, &files);
    const char *path = NULL;
    for (size_t i = 0; i < files.count && path == NULL; i++) {
        path = has_suffix(files.paths[i], ".log") ? files.paths[i] : NULL;
    }
    assert_non_null(path);
    assert_int_equal(lq_io_mem_flip(world->mem, path, 64 + 80, 0), LIGHTQ_OK); /* in the first entry's payload */

    struct lq_dump_verdict verdict;
    char *text;
    assert_int_equal(dump_world_verify(world, &text, &verdict), 1);

    char wanted[128];
    snprintf(wanted, sizeof wanted, "damaged %s: byte 64: entry crc mismatch", path);
    assert_non_null(strstr(text, wanted));
    assert_non_null(strstr(text, "what to do: "));
    assert_non_null(strstr(text, "\ndamaged: "));
    free(text);
}

static void test_dump_finds_a_lost_group(void **state)
{
    struct dump_world *world = *state;
    make_directory(world);
    assert_int_equal(lq_io_mem_remove(world->mem, "g8-1"), LIGHTQ_OK);

    struct lq_dump_verdict verdict;
    char *text;
    assert_int_equal(dump_world_verify(world, &text, &verdict), 1);

    assert_non_null(strstr(text, "damaged g8-1: the directory is missing"));
    free(text);
    assert_false(dump_world_is_healthy(world));
}

static void test_dump_finds_a_lost_journal(void **state)
{
    struct dump_world *world = *state;
    make_directory(world);
    assert_int_equal(lq_io_mem_remove(world->mem, "journal"), LIGHTQ_OK);

    struct lq_dump_verdict verdict;
    char *text;
    assert_true(dump_world_verify(world, &text, &verdict) > 0);

    assert_non_null(strstr(text, "damaged journal: no journal file that can be used is here"));
    free(text);
}

static void test_dump_tells_files_of_another_cluster(void **state)
{
    struct dump_world *world = *state;
    make_directory(world);
    struct files files;
    list_files(world, &files);
    uint8_t node[NODE_BYTES] = "LQNODE";
    struct lq_io *io = lq_io_mem_io(world->mem);
    lq_file file;
    assert_int_equal(io->ops->open(io, "node", LQ_OPEN_CREATE, &file, &world->err), LIGHTQ_OK);
    node[8] = 1;
    node[12] = NODE_BYTES;
    node[16] = 3; /* node id */
    memset(node + 40, 7, 16);
    memset(node + 56, 9, 16); /* another cluster than the store's */
    lq_put_u32(node + NODE_BYTES - 4, lq_crc32c(0, node, NODE_BYTES - 4));
    struct iovec iov = {.iov_base = node, .iov_len = sizeof node};
    struct lq_io_op op = {.kind = LQ_IO_WRITE, .file = file, .iov = &iov, .iov_count = 1};
    assert_int_equal(io->ops->run(io, &op, &world->err), LIGHTQ_OK);
    io->ops->close(io, file);

    struct lq_dump_verdict verdict;
    char *text;
    assert_true(dump_world_verify(world, &text, &verdict) > 0);
    assert_non_null(strstr(text, "ok      node: node 3 of cluster 0909"));
    assert_non_null(strstr(text, "byte 16: of cluster "));
    free(text);

    assert_int_equal(lq_io_mem_flip(world->mem, "node", 20, 1), LIGHTQ_OK);
    assert_true(dump_world_verify(world, &text, &verdict) > 0);
    assert_non_null(strstr(text, "damaged node: byte 73: the crc does not match"));
    free(text);
}

/* The identity of a node whose stores were made. */
static void write_node(struct dump_world *world, unsigned shards, uint8_t cluster)
{
    uint8_t node[NODE_BYTES] = "LQNODE";
    struct lq_io *io = lq_io_mem_io(world->mem);
    lq_file file;
    assert_int_equal(io->ops->open(io, "node", LQ_OPEN_CREATE, &file, &world->err), LIGHTQ_OK);
    node[8] = 1;
    node[12] = NODE_BYTES;
    node[16] = 3; /* node id */
    lq_put_u32(node + 20, shards);
    node[26] = 1; /* stored */
    memset(node + 40, 7, 16);
    memset(node + 56, cluster, 16);
    lq_put_u32(node + NODE_BYTES - 4, lq_crc32c(0, node, NODE_BYTES - 4));
    struct iovec iov = {.iov_base = node, .iov_len = sizeof node};
    struct lq_io_op op = {.kind = LQ_IO_WRITE, .file = file, .iov = &iov, .iov_count = 1};
    assert_int_equal(io->ops->run(io, &op, &world->err), LIGHTQ_OK);
    io->ops->close(io, file);
}

static void test_dump_reads_the_stores_of_all_shards(void **state)
{
    struct dump_world *world = *state;
    struct lq_dump_verdict one, both;
    char *text;
    make_directory(world);
    assert_int_equal(dump_world_verify(world, NULL, &one), 0);
    world->dir = "shard-1";
    make_directory(world);
    assert_int_equal(lq_io_mem_io(world->mem)->ops->mkdir(lq_io_mem_io(world->mem), "shard-01", &world->err),
                     LIGHTQ_OK);

    assert_int_equal(dump_world_verify(world, &text, &both), 0);

    assert_int_equal(both.entries, one.entries * 2);
    assert_int_equal(both.files, one.files * 2 + 1);
    assert_non_null(strstr(text, "ok      shard-1/journal/"));
    assert_non_null(strstr(text, "ok      shard-1/g8-1/00000000000000000001.log: "));
    assert_non_null(strstr(text, "stale   shard-01: not of LightQ"));
    free(text);
    assert_int_equal(lq_io_mem_flip(world->mem, "shard-1/g8-1/00000000000000000001.log", 80, 1), LIGHTQ_OK);
    assert_int_equal(dump_world_verify(world, &text, &both), 1);
    assert_non_null(strstr(text, "damaged shard-1/g8-1/00000000000000000001.log: byte 64: entry crc mismatch"));
    free(text);
    assert_int_equal(lq_io_mem_remove(world->mem, "shard-1/g8-1"), LIGHTQ_OK);
    assert_int_equal(dump_world_verify(world, &text, &both), 1);
    assert_non_null(strstr(text, "damaged shard-1/g8-1: the directory is missing"));
    free(text);
    assert_int_equal(lq_io_mem_remove(world->mem, "shard-1/journal"), LIGHTQ_OK);
    assert_true(dump_world_verify(world, &text, &both) > 0);
    assert_non_null(strstr(text, "damaged shard-1/journal: no journal file that can be used is here"));
    free(text);
}

static void test_dump_finds_a_missing_shard(void **state)
{
    struct dump_world *world = *state;
    struct lq_dump_verdict verdict;
    char *text;
    assert_int_equal(lq_io_mem_io(world->mem)->ops->mkdir(lq_io_mem_io(world->mem), "shard-2", &world->err), LIGHTQ_OK);
    write_node(world, 3, 9);

    assert_int_equal(dump_world_verify(world, &text, &verdict), 1);

    assert_non_null(strstr(text, "damaged shard-1: the directory of a shard is missing"));
    assert_null(strstr(text, "damaged shard-2"));
    free(text);
}

/* ---- what is not damage ---- */

static void test_dump_passes_over_what_is_not_of_the_node(void **state)
{
    struct dump_world *world = *state;
    make_directory(world);
    struct lq_io *io = lq_io_mem_io(world->mem);
    const char *const others[] = {"node.tmp",   "notes\x1b[31m.txt", "journal/backup",
                                  "g7-1/x.tmp", "g7-1/core",         "g7-1/00000000000000009999.idx"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        lq_file file;
        assert_int_equal(io->ops->open(io, others[i], LQ_OPEN_CREATE, &file, &world->err), LIGHTQ_OK);
        io->ops->close(io, file);
    }
    assert_int_equal(io->ops->mkdir(io, "removed", &world->err), LIGHTQ_OK);
    assert_int_equal(io->ops->mkdir(io, "g7-9", &world->err), LIGHTQ_OK);

    struct lq_dump_verdict verdict;
    char *text;
    assert_int_equal(dump_world_verify(world, &text, &verdict), 0);

    assert_true(verdict.stale >= 8);
    assert_non_null(strstr(text, "stale   notes\\x1b[31m.txt: not of LightQ"));
    assert_null(strchr(text, '\x1b'));
    assert_non_null(strstr(text, "stale   g7-9: of a group"));
    free(text);
}

static void test_dump_of_a_foreign_directory_is_ENOTFOUND(void **state)
{
    struct dump_world *world = *state;
    struct lq_io *io = lq_io_mem_io(world->mem);
    lq_file file;
    lightq_status status;
    struct lq_dump_verdict verdict;
    assert_int_equal(io->ops->open(io, "thesis.tex", LQ_OPEN_CREATE, &file, &world->err), LIGHTQ_OK);
    io->ops->close(io, file);

    char *text = dump_text(world, &status, &verdict);

    assert_int_equal(status, LIGHTQ_ENOTFOUND);
    assert_string_equal(text, "");
    assert_non_null(strstr(world->err.text, "not a LightQ data directory"));
    free(text);
}

static void test_dump_goes_on_past_what_cannot_be_read(void **state)
{
    struct dump_world *world = *state;
    make_directory(world);
    const struct lq_io_mem_fault fault = {.verb = LQ_IO_READ, .pattern = "g7-1/*.log", .status = LIGHTQ_EIO};
    assert_int_equal(lq_io_mem_add_fault(world->mem, &fault), LIGHTQ_OK);
    lightq_status status;
    struct lq_dump_verdict verdict;

    char *text = dump_text(world, &status, &verdict);

    assert_int_equal(status, LIGHTQ_EIO);
    assert_true(verdict.damaged > 0);
    assert_non_null(strstr(text, "g9-1/")); /* those behind it were looked at */
    free(text);
    lq_io_mem_clear_faults(world->mem);

    const struct lq_io_mem_fault listing = {.verb = LQ_IO_MEM_LIST, .pattern = "g8-1", .status = LIGHTQ_EIO};
    assert_int_equal(lq_io_mem_add_fault(world->mem, &listing), LIGHTQ_OK);
    text = dump_text(world, &status, &verdict);
    assert_int_equal(status, LIGHTQ_EIO);
    free(text);
    lq_io_mem_clear_faults(world->mem);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_dump_of_a_closed_store_is_clean),
        TEST(test_dump_prints_records_and_entries),
        TEST(test_dump_is_clean_after_a_cut_at_every_change),
        TEST(test_dump_is_clean_after_a_second_cut_while_recovering),
        TEST(test_dump_finds_every_flipped_bit_that_the_store_finds),
        TEST(test_dump_finds_a_flipped_bit_of_any_field),
        TEST(test_dump_finds_every_missing_and_shortened_file_that_the_store_finds),
        TEST(test_dump_finds_damage_after_a_cut_that_the_store_finds),
        TEST(test_dump_names_file_and_byte_of_damage),
        TEST(test_dump_finds_a_lost_group),
        TEST(test_dump_finds_a_lost_journal),
        TEST(test_dump_reads_the_stores_of_all_shards),
        TEST(test_dump_finds_a_missing_shard),
        TEST(test_dump_tells_files_of_another_cluster),
        TEST(test_dump_passes_over_what_is_not_of_the_node),
        TEST(test_dump_of_a_foreign_directory_is_ENOTFOUND),
        TEST(test_dump_goes_on_past_what_cannot_be_read),
    };
    lq_log_configure(LQ_LOG_OFF, 2); /* the store tells of every damage */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
