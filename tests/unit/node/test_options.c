/* tests/unit/node/test_options.c - node/options.c and node/endpoint.c: where values come from, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "node/options.h"

#define WORDS_MAX 16

struct fixture {
    struct lq_options options;
    struct lq_err err;
    enum lq_options_action action;
    bool usage;
    char path[64];
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    assert_int_equal(lq_options_init(&f->options), LIGHTQ_OK);
    (void)snprintf(f->path, sizeof f->path, "/tmp/lightq-options-XXXXXX");
    int descriptor = mkstemp(f->path);
    assert_true(descriptor >= 0);
    assert_int_equal(close(descriptor), 0);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    (void)unlink(f->path);
    (void)unsetenv("LIGHTQ_LISTEN");
    (void)unsetenv("LIGHTQ_CONFIG");
    (void)unsetenv("LIGHTQ_NODE_ID");
    lq_options_deinit(&f->options);
    free(f);
    return 0;
}

static void write_file(const struct fixture *f, const char *text, size_t size)
{
    FILE *file = fopen(f->path, "we");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

/* Loads the words of @line, which are divided by spaces. */
static lightq_status load(struct fixture *f, const char *line)
{
    static char empty[] = "lightqd";
    char copy[512], *words[WORDS_MAX + 2] = {empty};
    int count = 1;
    (void)snprintf(copy, sizeof copy, "%s", line);
    for (char *word = strtok(copy, " "); word != NULL && count <= WORDS_MAX; word = strtok(NULL, " ")) {
        words[count++] = word;
    }
    return lq_options_load(&f->options, count, words, &f->action, &f->usage, &f->err);
}

static void test_options_none_given_is_single_node_on_loopback(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(load(f, ""), LIGHTQ_OK);

    assert_int_equal(f->action, LQ_OPTIONS_RUN);
    assert_string_equal(f->options.data, "./lightq-data");
    assert_int_equal(f->options.node_id, 1);
    assert_string_equal(f->options.client.host, "127.0.0.1");
    assert_int_equal(f->options.client.port, 5600);
    assert_int_equal(f->options.peer_told.port, 5700);
    assert_int_equal(f->options.seed_count, 0);
    assert_int_equal(f->options.expect, 1);
    assert_false(f->options.serves_http);
}

static void test_options_every_flag_reaches_its_option(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(load(f, "--data /d --node-id 3 --seeds 127.0.0.1:1,127.0.0.1:2,[::1]:3 --expect 3 "
                             "--listen 0.0.0.0:10 --advertise h:11 --peer-listen 127.0.0.1:12"),
                     LIGHTQ_OK);
    assert_int_equal(load(f, "--peer-advertise p:13 --http localhost:14 --set max.message.bytes=2m --advertise h:11"),
                     LIGHTQ_OK);

    assert_string_equal(f->options.data, "/d");
    assert_int_equal(f->options.node_id, 3);
    assert_int_equal(f->options.seed_count, 3);
    assert_string_equal(f->options.seed[2].host, "::1");
    assert_int_equal(f->options.seed[2].port, 3);
    assert_int_equal(f->options.expect, 3);
    assert_string_equal(f->options.client_told.host, "h");
    assert_int_equal(f->options.client_told.port, 11);
    assert_int_equal(f->options.peer.port, 12);
    assert_string_equal(f->options.peer_told.host, "p");
    assert_int_equal(f->options.http_at.port, 14);
    assert_true(f->options.serves_http);
    assert_int_equal(f->options.max_message_bytes, 2 << 20);
}

static void test_options_flag_beats_environment_beats_file(void **state)
{
    struct fixture *f = *state;
    static const char text[] = "listen = 127.0.0.1:1\nnode.id = 7\n; note\n[peer]\n   listen = 127.0.0.1:2\n";
    char line[128];
    write_file(f, text, sizeof text - 1);
    assert_int_equal(setenv("LIGHTQ_LISTEN", "127.0.0.1:3", 1), 0);
    assert_int_equal(setenv("LIGHTQ_NODE_ID", "8", 1), 0);
    (void)snprintf(line, sizeof line, "--config %s --node-id 9", f->path);

    assert_int_equal(load(f, line), LIGHTQ_OK);

    assert_int_equal(f->options.peer.port, 2);
    assert_int_equal(f->options.client.port, 3);
    assert_int_equal(f->options.node_id, 9);
}

static void test_options_file_can_come_from_environment(void **state)
{
    struct fixture *f = *state;
    write_file(f, "node.id=7\n", 10);
    assert_int_equal(setenv("LIGHTQ_CONFIG", f->path, 1), 0);

    assert_int_equal(load(f, ""), LIGHTQ_OK);

    assert_int_equal(f->options.node_id, 7);
}

static void test_options_asking_for_help_or_version_loads_nothing(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(load(f, "--help --config /does/not/exist"), LIGHTQ_OK);
    assert_int_equal(f->action, LQ_OPTIONS_HELP);
    assert_int_equal(load(f, "--version"), LIGHTQ_OK);
    assert_int_equal(f->action, LQ_OPTIONS_VERSION);
    assert_int_equal(load(f, "--man"), LIGHTQ_OK);
    assert_int_equal(f->action, LQ_OPTIONS_MAN);
    assert_int_equal(load(f, "--docs"), LIGHTQ_OK);
    assert_int_equal(f->action, LQ_OPTIONS_DOCS);
}

static void test_options_wrong_flags_are_usage_and_named(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *line, *says;
        lightq_status status;
    } cases[] = {
        {"--no-such-flag", "--no-such-flag", LIGHTQ_EINVAL},
        {"--no-such-flag=3", "--no-such-flag", LIGHTQ_EINVAL},
        {"--data", "--data", LIGHTQ_EINVAL},
        {"word", "word", LIGHTQ_EINVAL},
        {"--node-id 0", "node.id", LIGHTQ_EINVAL},
        {"--node-id 65536", "node.id", LIGHTQ_EINVAL},
        {"--set no.such.option=1", "no.such.option", LIGHTQ_ENOTFOUND},
        {"--set max.message.bytes", "max.message.bytes", LIGHTQ_EINVAL},
        {"--set log.level=loud", "log.level", LIGHTQ_EINVAL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(load(f, cases[i].line), cases[i].status);
        assert_true(f->usage);
        assert_non_null(strstr(f->err.text, cases[i].says));
    }
}

static void test_options_bad_file_is_named_with_its_line(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *text, *says;
        lightq_status status;
    } cases[] = {
        {"node.id = 1\nmax.message.bytes = 99t\n", "line 2", LIGHTQ_EINVAL},
        {"\n\nno.such.option = 1\n", "line 3", LIGHTQ_ENOTFOUND},
        {"what is this\n", "line 1", LIGHTQ_EINVAL},
        {"[peer\nlisten = x\n", "line 1", LIGHTQ_EINVAL},
    };
    char line[128];
    (void)snprintf(line, sizeof line, "--config %s", f->path);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_file(f, cases[i].text, strlen(cases[i].text));

        assert_int_equal(load(f, line), cases[i].status);

        assert_false(f->usage);
        assert_non_null(strstr(f->err.text, f->path));
        assert_non_null(strstr(f->err.text, cases[i].says));
    }
}

static void test_options_file_with_line_too_long_is_refused(void **state)
{
    struct fixture *f = *state;
    char text[1024];
    memset(text, 'x', sizeof text);
    memcpy(text, "seeds = ", 8);
    text[sizeof text - 1] = '\n';
    write_file(f, text, sizeof text);

    assert_int_equal(lq_options_load_file(&f->options, f->path, &f->err), LIGHTQ_EINVAL);

    assert_non_null(strstr(f->err.text, "longer"));
}

static void test_options_file_of_random_bytes_is_refused_or_empty(void **state)
{
    struct fixture *f = *state;
    unsigned seed = 20261130;
    char text[512];
    print_message("seed %u\n", seed);
    for (int round = 0; round < 200; round++) {
        for (size_t i = 0; i < sizeof text; i++) {
            seed = seed * 1103515245u + 12345u;
            text[i] = (char)(seed >> 16);
        }
        write_file(f, text, sizeof text);

        lightq_status status = lq_options_load_file(&f->options, f->path, &f->err);

        assert_true(status == LIGHTQ_EINVAL || status == LIGHTQ_ENOTFOUND || status == LIGHTQ_OK);
    }
}

static void test_options_file_that_cannot_be_read_is_named(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(lq_options_load_file(&f->options, "/does/not/exist", &f->err), LIGHTQ_ENOTFOUND);
    assert_non_null(strstr(f->err.text, "/does/not/exist"));
    assert_int_equal(lq_options_load_file(&f->options, "/tmp", &f->err), LIGHTQ_EIO);
    assert_non_null(strstr(f->err.text, "/tmp"));
}

static void test_options_values_that_do_not_fit_each_other_are_refused(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *line, *says;
        lightq_status status;
    } cases[] = {
        {"--listen 0.0.0.0:5600", "advertise", LIGHTQ_EINVAL},
        {"--listen 127.0.0.1", "listen", LIGHTQ_EINVAL},
        {"--advertise *:5600", "advertise", LIGHTQ_EINVAL},
        {"--peer-listen 10.0.0.1:5700", "peer.insecure", LIGHTQ_EINVAL},
        {"--seeds 127.0.0.1:1,127.0.0.1", "seeds", LIGHTQ_EINVAL},
        {"--seeds 127.0.0.1:1 --expect 4", "cluster.expect", LIGHTQ_EINVAL},
        {"--expect 2", "cluster.expect", LIGHTQ_EINVAL},
        {"--set shards=2 --listen 127.0.0.1:65535", "listen", LIGHTQ_EINVAL},
        {"--set shards=3 --listen 127.0.0.1:0", "listen", LIGHTQ_EINVAL},
        {"--set shards=16 --advertise example:65521", "advertise", LIGHTQ_EINVAL},
        {"--set shards=2 --peer-listen 127.0.0.1:0", "peer.listen", LIGHTQ_EINVAL},
        {"--set shards=2 --peer-advertise example:65535", "peer.advertise", LIGHTQ_EINVAL},
        {"--set shards=4 --set memory.max=15m", "memory.max", LIGHTQ_EINVAL},
        {"--set raft.heartbeat.ms=500", "raft.heartbeat.ms", LIGHTQ_EINVAL},
        {"--set memory.max=8m --set max.message.bytes=16m", "memory.max", LIGHTQ_EINVAL},
        {"--set memory.max=64m --set cache.bytes=33m", "cache.bytes", LIGHTQ_EINVAL},
        {"--http 127.0.0.1", "http", LIGHTQ_EINVAL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fixture fresh = {0};
        assert_int_equal(lq_options_init(&fresh.options), LIGHTQ_OK);

        assert_int_equal(load(&fresh, cases[i].line), cases[i].status);

        assert_false(fresh.usage);
        assert_non_null(strstr(fresh.err.text, cases[i].says));
        lq_options_deinit(&fresh.options);
    }
    (void)f;
}

static void test_options_of_a_shard_have_its_ports_and_its_share(void **state)
{
    struct fixture *f = *state;
    struct lq_options first, last;
    assert_int_equal(load(f, "--set shards=16 --listen 127.0.0.1:65520 --set memory.max=512m --set cache.bytes=32m "
                             "--set connections.max=1000"),
                     LIGHTQ_OK);

    lq_options_for_shard(&f->options, 0, &first);
    lq_options_for_shard(&f->options, 15, &last);

    assert_int_equal(first.client.port, 65520);
    assert_int_equal(first.peer.port, 5700);
    assert_int_equal(last.client.port, 65535);
    assert_int_equal(last.peer.port, 5715);
    assert_int_equal(last.client_told.port, 65520); /* what the node tells others is of shard 0 */
    assert_int_equal(last.memory_max, 32 << 20);
    assert_int_equal(last.memory.requests, 4 << 20);
    assert_int_equal(last.cache_bytes, 2 << 20);
    assert_int_equal(last.connections_max, 63);
}

static void test_options_memory_is_shared_out(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(lq_options_memory_default(UINT64_C(16) << 30, UINT64_MAX), UINT64_C(8) << 30);
    assert_int_equal(lq_options_memory_default(UINT64_C(16) << 30, 256 << 20), 192 << 20);
    assert_int_equal(lq_options_memory_default(0, 0), 16 << 20);

    assert_int_equal(load(f, "--set memory.max=192m"), LIGHTQ_OK);

    const struct lq_memory_shares *shares = &f->options.memory;
    assert_int_equal(f->options.cache_bytes, 48 << 20);
    assert_int_equal(shares->requests, 24 << 20);
    uint64_t sum = f->options.cache_bytes + shares->requests + shares->answers + shares->waiting + shares->arriving +
                   shares->leases + 2 * shares->peer;
    assert_true(sum <= f->options.memory_max / 8 * 7);
}

static void test_options_memory_of_nothing_said_is_found(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(load(f, ""), LIGHTQ_OK);

    assert_true(f->options.memory_max >= 16 << 20);
    assert_true(f->options.cache_bytes > 0 && f->options.cache_bytes <= 256 << 20);
}

static void test_options_more_than_sixteen_shards_are_refused(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(load(f, "--set shards=17"), LIGHTQ_EINVAL);

    assert_non_null(strstr(f->err.text, "shards: 17 is above the maximum of 16"));
}

static void test_options_insecure_peer_port_can_be_asked_for(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(load(f, "--peer-listen 10.0.0.1:5700 --set peer.insecure=true"), LIGHTQ_OK);

    assert_string_equal(f->options.peer.host, "10.0.0.1");
}

static void test_options_expect_counts_seeds_and_this_node_once(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(load(f, "--seeds 127.0.0.1:5700,127.0.0.1:5701"), LIGHTQ_OK);
    assert_int_equal(f->options.expect, 2);
    assert_int_equal(load(f, "--seeds 127.0.0.1:5701,127.0.0.1:5702"), LIGHTQ_OK);
    assert_int_equal(f->options.expect, 3);
}

static void test_options_too_many_seeds_are_refused(void **state)
{
    struct fixture *f = *state;
    char seeds[1024] = "127.0.0.1:1";
    for (int i = 0; i < LQ_SEEDS_MAX; i++) {
        strcat(seeds, ",127.0.0.1:1");
    }
    assert_int_equal(lq_conf_set(&lq_options_table, &f->options, "seeds", seeds, &f->err), LIGHTQ_OK);

    assert_int_equal(lq_options_check(&f->options, &f->err), LIGHTQ_EINVAL);
}

static void test_options_batch_limit_holds_largest_message_and_default_batch(void **state)
{
    struct fixture *f = *state;

    f->options.max_message_bytes = 100;
    assert_true(lq_options_batch_bytes_max(&f->options) >= LQ_BATCH_BYTES_DEFAULT + LQ_BATCH_OVERHEAD_BYTES);
    f->options.max_message_bytes = 8 << 20;
    assert_true(lq_options_batch_bytes_max(&f->options) >= (8 << 20) + LQ_BATCH_OVERHEAD_BYTES);
}

static void test_endpoint_parse_takes_apart_and_format_puts_together(void **state)
{
    static const struct {
        const char *text, *host;
        uint16_t port;
    } cases[] = {
        {"127.0.0.1:5600", "127.0.0.1", 5600},
        {"[::1]:1", "::1", 1},
        {"broker-1.example_x:65535", "broker-1.example_x", 65535},
        {"*:9", "*", 9},
    };
    struct lq_endpoint endpoint;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[LQ_ENDPOINT_TEXT_BYTES];

        assert_int_equal(lq_endpoint_parse(cases[i].text, "x", false, &endpoint, NULL), LIGHTQ_OK);
        lq_endpoint_format(&endpoint, text);

        assert_string_equal(endpoint.host, cases[i].host);
        assert_int_equal(endpoint.port, cases[i].port);
        assert_string_equal(text, cases[i].text);
    }
    assert_int_equal(lq_endpoint_parse("h:0", "x", true, &endpoint, NULL), LIGHTQ_OK);
    assert_int_equal(endpoint.port, 0);
}

static void test_endpoint_parse_bad_text_is_refused(void **state)
{
    static const char *const cases[] = {"",      ":",     "h",    "h:",     ":1",      "h:65536", "h:x",
                                        "h:1x",  "h:-1",  "h: 1", "::1:5",  "[::1]",   "[::1]5",  "[]:1",
                                        "a b:1", "a/b:1", "h:0",  "[::1:5", "h:99999", "\x01:1",  "h:00001x"};
    struct lq_endpoint endpoint;
    char text[LQ_HOST_BYTES_MAX + 8];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct lq_err err;

        assert_int_equal(lq_endpoint_parse(cases[i], "what", false, &endpoint, &err), LIGHTQ_EINVAL);

        assert_non_null(strstr(err.text, "what"));
    }
    memset(text, 'h', sizeof text);
    memcpy(text + LQ_HOST_BYTES_MAX + 1, ":1", 3);
    assert_int_equal(lq_endpoint_parse(text, "what", false, &endpoint, NULL), LIGHTQ_EINVAL);
}

static void test_endpoint_kinds_are_told_apart(void **state)
{
    (void)state;

    assert_true(lq_endpoint_is_loopback(&(struct lq_endpoint){.host = "127.0.0.9"}));
    assert_true(lq_endpoint_is_loopback(&(struct lq_endpoint){.host = "::1"}));
    assert_true(lq_endpoint_is_loopback(&(struct lq_endpoint){.host = "localhost"}));
    assert_false(lq_endpoint_is_loopback(&(struct lq_endpoint){.host = "10.0.0.1"}));
    assert_true(lq_endpoint_is_any(&(struct lq_endpoint){.host = "0.0.0.0"}));
    assert_true(lq_endpoint_is_any(&(struct lq_endpoint){.host = "::"}));
    assert_true(lq_endpoint_is_any(&(struct lq_endpoint){.host = "*"}));
    assert_false(lq_endpoint_is_any(&(struct lq_endpoint){.host = "10.0.0.1"}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_options_none_given_is_single_node_on_loopback, setup, teardown),
        cmocka_unit_test_setup_teardown(test_options_every_flag_reaches_its_option, setup, teardown),
        cmocka_unit_test_setup_teardown(test_options_flag_beats_environment_beats_file, setup, teardown),
        cmocka_unit_test_setup_teardown(test_options_file_can_come_from_environment, setup, teardown),
        cmocka_unit_test_setup_teardown(test_options_asking_for_help_or_version_loads_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_options_wrong_flags_are_usage_and_named, setup, teardown),
        cmocka_unit_test_setup_teardown(test_options_bad_file_is_named_with_its_line, setup, teardown),
        cmocka_unit_test_setup_teardown(test_options_file_with_line_too_long_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_options_file_of_random_bytes_is_refused_or_empty, setup, teardown),
        cmocka_unit_test_setup_teardown(test_options_file_that_cannot_be_read_is_named, setup, teardown),
        cmocka_unit_test_setup_teardown(test_options_values_that_do_not_fit_each_other_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_options_of_a_shard_have_its_ports_and_its_share, setup, teardown),
        cmocka_unit_test_setup_teardown(test_options_memory_is_shared_out, setup, teardown),
        cmocka_unit_test_setup_teardown(test_options_memory_of_nothing_said_is_found, setup, teardown),
        cmocka_unit_test_setup_teardown(test_options_more_than_sixteen_shards_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_options_insecure_peer_port_can_be_asked_for, setup, teardown),
        cmocka_unit_test_setup_teardown(test_options_expect_counts_seeds_and_this_node_once, setup, teardown),
        cmocka_unit_test_setup_teardown(test_options_too_many_seeds_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_options_batch_limit_holds_largest_message_and_default_batch, setup,
                                        teardown),
        cmocka_unit_test(test_endpoint_parse_takes_apart_and_format_puts_together),
        cmocka_unit_test(test_endpoint_parse_bad_text_is_refused),
        cmocka_unit_test(test_endpoint_kinds_are_told_apart),
    };
    return cmocka_run_group_tests_name("node options", tests, NULL, NULL);
}
