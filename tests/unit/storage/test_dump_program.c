/* tests/unit/storage/test_dump_program.c - the program lightq-dump: its arguments, exit statuses and refusals, on real
 * directories. LIGHTQ_DUMP is the path of the program. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <ftw.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dump_world.h"
#include "storage/io_uv.h"

#define TEXT_BYTES (1024 * 1024)

struct fixture {
    char root[64];
    char output[TEXT_BYTES]; /* standard output and error of the last run */
};

/* ---- a directory on the real disk ---- */

static void write_file(const struct fixture *f, const char *path, const void *bytes, size_t size)
{
    char full[256];
    snprintf(full, sizeof full, "%s/%s", f->root, path);
    FILE *file = fopen(full, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static size_t run_jobs(struct dump_world *world)
{
    size_t count = lq_io_uv_pending(world->io);
    uv_run(world->data, UV_RUN_DEFAULT); /* ends when no job is left */
    return count;
}

static void on_closed(void *data)
{
    *(bool *)data = true;
}

/* The data directory of a stopped node, made by a store on the real disk. */
static void make_directory(struct fixture *f)
{
    uv_loop_t loop;
    struct lq_io *io;
    struct lq_err err;
    bool is_closed = false;
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(lq_io_uv_new(&loop, f->root, &(struct lq_io_uv_options){.create = false}, &io, &err), LIGHTQ_OK);
    struct dump_world *world = dump_world_new_on(io, run_jobs, &loop);
    assert_int_equal(dump_world_open(world), LIGHTQ_OK);
    dump_world_work(world);
    dump_world_close(world);
    assert_int_equal(dump_world_open(world), LIGHTQ_OK); /* what it wrote it reads */
    assert_int_equal(lq_store_count(world->store), 3);
    for (size_t i = 0; i < lq_store_count(world->store); i++) {
        assert_int_equal(lq_rlog_health(lq_store_at(world->store, i)), LQ_RLOG_HEALTHY);
    }
    dump_world_close(world);
    dump_world_free(world);
    assert_int_equal(lq_io_uv_open_files(io), 0);
    lq_io_uv_close(io, on_closed, &is_closed);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_true(is_closed);
    assert_int_equal(uv_loop_close(&loop), 0);
}

/* Names, sizes and times of all that is in the tree. */
static uint64_t tree_digest(const char *root)
{
    char command[256];
    snprintf(command, sizeof command, "find %s -printf '%%p %%s %%T@ %%C@\\n' | sort | cksum", root);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    unsigned long long digest = 0;
    assert_int_equal(fscanf(pipe, "%llu", &digest), 1);
    assert_int_equal(pclose(pipe), 0);
    return digest;
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    strcpy(f->root, "/tmp/lightq-dump-XXXXXX");
    assert_non_null(mkdtemp(f->root));
    *state = f;
    return 0;
}

static int on_tree(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st;
    (void)flag;
    (void)ftw;
    return remove(path);
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(nftw(f->root, on_tree, 16, FTW_DEPTH | FTW_PHYS), 0);
    free(f);
    return 0;
}

/* Runs lightq-dump with @arguments; gives its exit status, or -1 when it did not exit. */
static int run(struct fixture *f, const char *arguments)
{
    char command[512];
    bool is_redirected = strchr(arguments, '>') != NULL;
    snprintf(command, sizeof command, LIGHTQ_DUMP " %s%s", arguments, is_redirected ? "" : " 2>&1");
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    size_t size = fread(f->output, 1, sizeof f->output - 1, pipe);
    f->output[size] = '\0';
    int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int run_on(struct fixture *f, const char *options)
{
    char arguments[256];
    snprintf(arguments, sizeof arguments, "%s %s", options, f->root);
    return run(f, arguments);
}

static void assert_says(const struct fixture *f, const char *text)
{
    if (strstr(f->output, text) == NULL) {
        print_message("not in the output: %s\n%s\n", text, f->output);
    }
    assert_non_null(strstr(f->output, text));
}

/* ---- tests ---- */

static void test_dump_program_help_and_version_exit_0(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(run(f, "--help"), 0);
    assert_says(f, "usage: lightq-dump [--verify] DIR");
    assert_int_equal(run(f, "--version"), 0);
    assert_says(f, "lightq-dump 0.");
}

static void test_dump_program_wrong_usage_exits_2(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(run(f, ""), 2);
    assert_says(f, "which directory?");
    assert_int_equal(run(f, "--verify"), 2);
    assert_int_equal(run(f, "a b"), 2);
    assert_says(f, "one directory at a time");
    assert_int_equal(run(f, "--repair a"), 2);
    assert_says(f, "--help");
}

static void test_dump_program_refuses_what_is_not_a_data_directory(void **state)
{
    struct fixture *f = *state;
    write_file(f, "thesis.tex", "x", 1);
    uint64_t digest = tree_digest(f->root);

    assert_int_equal(run_on(f, "--verify"), 2);
    assert_says(f, f->root);
    assert_says(f, "not a LightQ data directory");
    assert_int_equal(run(f, "/nonexistent/lightq"), 2);
    assert_says(f, "/nonexistent/lightq");
    char path[128];
    snprintf(path, sizeof path, "%s/thesis.tex", f->root);
    assert_int_equal(run(f, path), 2);
    assert_int_equal(tree_digest(f->root), digest);
}

static void test_dump_program_on_a_whole_directory_exits_0_and_changes_nothing(void **state)
{
    struct fixture *f = *state;
    make_directory(f);
    uint64_t digest = tree_digest(f->root);

    assert_int_equal(run_on(f, "--verify"), 0);
    assert_says(f, "\nclean: ");
    assert_int_equal(run_on(f, ""), 0);
    assert_says(f, "entry 1 term 1 change offset 0 count 1");

    assert_int_equal(tree_digest(f->root), digest);
}

static void test_dump_program_on_damage_exits_1_and_names_it(void **state)
{
    struct fixture *f = *state;
    make_directory(f);
    char path[128];
    snprintf(path, sizeof path, "%s/g8-1/00000000000000000001.log", f->root);
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, "rot", 3, 64 + 90), 3);
    assert_int_equal(close(fd), 0);

    assert_int_equal(run_on(f, "--verify"), 1);
    assert_says(f, "damaged g8-1/00000000000000000001.log: byte 64: ");
    assert_says(f, "what to do: ");
    assert_int_equal(run_on(f, ""), 1);
}

static void test_dump_program_on_a_running_node_gives_no_verdict(void **state)
{
    struct fixture *f = *state;
    make_directory(f);
    write_file(f, "lock", "1234", 4);
    char path[128];
    snprintf(path, sizeof path, "%s/lock", f->root);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);

    assert_int_equal(run_on(f, "--verify"), 1);
    assert_says(f, "a node is running on ");
    assert_null(strstr(f->output, "clean"));
    assert_int_equal(run_on(f, ""), 0);
    assert_says(f, "a node is running on ");
    assert_says(f, "entry 1 term 1");

    assert_int_equal(close(fd), 0);
    assert_int_equal(run_on(f, "--verify"), 0);
}

static void test_dump_program_tells_when_its_output_is_lost(void **state)
{
    struct fixture *f = *state;
    make_directory(f);
    if (access("/dev/full", W_OK) != 0) {
        skip();
    }
    char arguments[256];
    snprintf(arguments, sizeof arguments, "--verify %s 2>&1 >/dev/full", f->root);

    assert_int_equal(run(f, arguments), 1);
    assert_says(f, "output could not be written");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_dump_program_help_and_version_exit_0),
        TEST(test_dump_program_wrong_usage_exits_2),
        TEST(test_dump_program_refuses_what_is_not_a_data_directory),
        TEST(test_dump_program_on_a_whole_directory_exits_0_and_changes_nothing),
        TEST(test_dump_program_on_damage_exits_1_and_names_it),
        TEST(test_dump_program_on_a_running_node_gives_no_verdict),
        TEST(test_dump_program_tells_when_its_output_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
