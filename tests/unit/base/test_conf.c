/* tests/unit/base/test_conf.c - options from tables: every kind, every error, the environment and what is printed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/base/conf.h"
#include "client/base/limits.h"
#include "tests/lib/alloc_fail.h"

#define TEST_OPTIONS(X)                                                                                              \
    X(STRING, peer_listen, "peer.listen", 1, 20, "127.0.0.1:5700", "host:port", false, "Where other nodes connect.") \
    X(STRING, rack, "rack", 0, 20, NULL, "", false, "Where the machine stands.")                                     \
    X(U64, shards, "shards", 1, 64, "1", "", false, "Event loops.")                                                  \
    X(U64, seed, "seed", 0, UINT64_MAX, "0", "", true, "Any number.")                                                \
    X(BOOL, insecure, "peer.insecure", 0, 0, "false", "", true, "Whether to go without TLS.")                        \
    X(SIZE, max_message_bytes, "max.message.bytes", 1, LQ_MESSAGE_BYTES_MAX, "1m", "bytes", true, "The largest.")    \
    X(DURATION, election_ms, "raft.election.ms", 10, 60000, "1s", "ms", true, "How long to wait.")                   \
    X(ENUM, full, "full", 0, 0, "block", "block|drop-oldest", true, "What a full topic does.")

struct test_conf {
    TEST_OPTIONS(LQ_CONF_MEMBER)
};

#define X(...) LQ_CONF_ROW(struct test_conf, __VA_ARGS__)
static const struct lq_conf_option rows[] = {TEST_OPTIONS(X)};
#undef X
static const struct lq_conf_table table = LQ_CONF_TABLE("test", rows);

static int set_up(void **state)
{
    struct test_conf *conf = malloc(sizeof *conf);
    if (conf == NULL) {
        return -1;
    }
    memset(conf, 0xa5, sizeof *conf);
    if (lq_conf_init(&table, conf) != LIGHTQ_OK) {
        return -1;
    }
    *state = conf;
    return 0;
}

static int tear_down(void **state)
{
    struct test_conf *conf = *state;
    lq_conf_deinit(&table, conf);
    free(conf);
    return 0;
}

/* Sets and expects a failure with this status and this sentence. */
static void assert_refused(struct test_conf *conf, const char *name, const char *value, lightq_status status,
                           const char *text)
{
    struct lq_err err;
    assert_int_equal(lq_conf_set(&table, conf, name, value, &err), status);
    assert_int_equal(err.status, status);
    assert_string_equal(err.text, text);
    assert_int_equal(lq_conf_set(&table, conf, name, value, NULL), status);
}

static void assert_set(struct test_conf *conf, const char *name, const char *value)
{
    assert_int_equal(lq_conf_set(&table, conf, name, value, NULL), LIGHTQ_OK);
}

static void test_conf_init_fills_defaults(void **state)
{
    struct test_conf *conf = *state;
    assert_string_equal(conf->peer_listen, "127.0.0.1:5700");
    assert_null(conf->rack);
    assert_int_equal(conf->shards, 1);
    assert_false(conf->insecure);
    assert_int_equal(conf->max_message_bytes, 1 << 20);
    assert_int_equal(conf->election_ms, 1000);
    assert_int_equal(conf->full, 0);
}

static void test_conf_set_takes_every_form(void **state)
{
    struct test_conf *conf = *state;
    static const struct {
        const char *text;
        uint64_t value;
    } sizes[] = {{"1", 1}, {"4096", 4096}, {"64k", 65536}, {"64K", 65536}, {"16m", 16 << 20}, {"64m", 64 << 20}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        assert_set(conf, "max.message.bytes", sizes[i].text);
        assert_int_equal(conf->max_message_bytes, sizes[i].value);
    }
    static const struct {
        const char *text;
        uint64_t value;
    } durations[] = {{"10", 10}, {"250ms", 250}, {"2s", 2000}, {"1m", 60000}, {"060S", 60000}};
    for (size_t i = 0; i < sizeof durations / sizeof durations[0]; i++) {
        assert_set(conf, "raft.election.ms", durations[i].text);
        assert_int_equal(conf->election_ms, durations[i].value);
    }
    static const char *const trues[] = {"true", "yes", "on", "1", "TRUE"};
    static const char *const falses[] = {"false", "no", "off", "0", "Off"};
    for (size_t i = 0; i < 5; i++) {
        assert_set(conf, "peer.insecure", trues[i]);
        assert_true(conf->insecure);
        assert_set(conf, "peer.insecure", falses[i]);
        assert_false(conf->insecure);
    }
    assert_set(conf, "full", "drop-oldest");
    assert_int_equal(conf->full, 1);
    assert_set(conf, "seed", "18446744073709551615");
    assert_true(conf->seed == UINT64_MAX);
    assert_set(conf, "rack", "");
    assert_string_equal(conf->rack, "");
}

static void test_conf_string_is_copied_and_replaced(void **state)
{
    struct test_conf *conf = *state;
    char value[] = "10.0.0.1:1";
    assert_set(conf, "peer.listen", value);
    value[0] = 'x';
    assert_string_equal(conf->peer_listen, "10.0.0.1:1");
    assert_set(conf, "peer.listen", "b");
    assert_string_equal(conf->peer_listen, "b");
}

static void test_conf_number_out_of_bounds_names_the_bound(void **state)
{
    struct test_conf *conf = *state;
    assert_refused(conf, "max.message.bytes", "99g", LIGHTQ_EINVAL,
                   "max.message.bytes: 99g is above the maximum of 64m");
    assert_refused(conf, "max.message.bytes", "0", LIGHTQ_EINVAL, "max.message.bytes: 0 is below the minimum of 1");
    assert_refused(conf, "shards", "65", LIGHTQ_EINVAL, "shards: 65 is above the maximum of 64");
    assert_refused(conf, "raft.election.ms", "9", LIGHTQ_EINVAL, "raft.election.ms: 9 is below the minimum of 10ms");
    assert_refused(conf, "raft.election.ms", "2h", LIGHTQ_EINVAL, "raft.election.ms: 2h is above the maximum of 1m");
    assert_refused(conf, "seed", "18446744073709551616", LIGHTQ_EINVAL,
                   "seed: 18446744073709551616 is above the maximum of 18446744073709551615");
    assert_refused(conf, "max.message.bytes", "18446744073709551615k", LIGHTQ_EINVAL,
                   "max.message.bytes: 18446744073709551615k is above the maximum of 64m");
    assert_int_equal(conf->max_message_bytes, 1 << 20); /* as it was */
    assert_int_equal(conf->shards, 1);
}

static void test_conf_value_of_another_kind_is_einval(void **state)
{
    struct test_conf *conf = *state;
    assert_refused(conf, "shards", "two", LIGHTQ_EINVAL, "shards: \"two\" is not a whole number");
    assert_refused(conf, "shards", "2k", LIGHTQ_EINVAL, "shards: \"2k\" is not a whole number");
    assert_refused(conf, "shards", "-1", LIGHTQ_EINVAL, "shards: \"-1\" is not a whole number");
    assert_refused(conf, "shards", "", LIGHTQ_EINVAL, "shards: \"\" is not a whole number");
    assert_refused(conf, "shards", " 1", LIGHTQ_EINVAL, "shards: \" 1\" is not a whole number");
    assert_refused(conf, "max.message.bytes", "1t", LIGHTQ_EINVAL,
                   "max.message.bytes: \"1t\" is not a size as 4096, 64k, 16m or 1g");
    assert_refused(conf, "raft.election.ms", "1d", LIGHTQ_EINVAL,
                   "raft.election.ms: \"1d\" is not a duration as 250ms, 10s, 5m or 2h");
    assert_refused(conf, "peer.insecure", "maybe", LIGHTQ_EINVAL, "peer.insecure: \"maybe\" is neither true nor false");
    assert_refused(conf, "full", "drop", LIGHTQ_EINVAL, "full: \"drop\" is none of block|drop-oldest");
    assert_refused(conf, "full", "", LIGHTQ_EINVAL, "full: \"\" is none of block|drop-oldest");
    assert_refused(conf, "full", "block|drop-oldest", LIGHTQ_EINVAL,
                   "full: \"block|drop-oldest\" is none of block|drop-oldest");
}

static void test_conf_string_of_a_wrong_length_is_einval(void **state)
{
    struct test_conf *conf = *state;
    assert_refused(conf, "peer.listen", "", LIGHTQ_EINVAL,
                   "peer.listen: must be 1 to 20 characters long, and this has 0");
    assert_refused(conf, "peer.listen", "123456789012345678901", LIGHTQ_EINVAL,
                   "peer.listen: must be 1 to 20 characters long, and this has 21");
    char *huge = malloc(LQ_CONF_TEXT_BYTES_MAX + 1);
    memset(huge, 'x', LQ_CONF_TEXT_BYTES_MAX);
    huge[LQ_CONF_TEXT_BYTES_MAX] = '\0';
    assert_refused(conf, "full", huge, LIGHTQ_EINVAL, "full: the value is longer than 4095 characters");
    free(huge);
    assert_string_equal(conf->peer_listen, "127.0.0.1:5700");
}

static void test_conf_unknown_name_suggests_the_nearest(void **state)
{
    struct test_conf *conf = *state;
    assert_refused(conf, "peer.lsten", "x", LIGHTQ_ENOTFOUND,
                   "peer.lsten: no such test option; did you mean peer.listen?");
    assert_refused(conf, "max.message.byte", "1", LIGHTQ_ENOTFOUND,
                   "max.message.byte: no such test option; did you mean max.message.bytes?");
    assert_refused(conf, "colour", "red", LIGHTQ_ENOTFOUND, "colour: no such test option");
    assert_refused(conf, "", "x", LIGHTQ_ENOTFOUND, ": no such test option");
    char name[1000];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    assert_int_equal(lq_conf_set(&table, conf, name, "x", NULL), LIGHTQ_ENOTFOUND);
}

static void test_conf_section_is_the_first_part_of_the_name(void **state)
{
    struct test_conf *conf = *state;
    struct lq_err err;
    assert_int_equal(lq_conf_set_in(&table, conf, "peer", "listen", "a:1", NULL), LIGHTQ_OK);
    assert_string_equal(conf->peer_listen, "a:1");
    assert_int_equal(lq_conf_set_in(&table, conf, "", "shards", "2", NULL), LIGHTQ_OK);
    assert_int_equal(conf->shards, 2);
    assert_int_equal(lq_conf_set_in(&table, conf, NULL, "shards", "3", NULL), LIGHTQ_OK);
    assert_int_equal(conf->shards, 3);
    assert_int_equal(lq_conf_set_in(&table, conf, "per", "listen", "a:1", &err), LIGHTQ_ENOTFOUND);
    assert_string_equal(err.text, "per.listen: no such test option; did you mean peer.listen?");
    char section[1000];
    memset(section, 's', sizeof section - 1);
    section[sizeof section - 1] = '\0';
    assert_int_equal(lq_conf_set_in(&table, conf, section, "listen", "a:1", &err), LIGHTQ_ENOTFOUND);
}

static void test_conf_pair_is_split_at_the_first_equals(void **state)
{
    struct test_conf *conf = *state;
    struct lq_err err;
    assert_int_equal(lq_conf_set_pair(&table, conf, "rack=a=b", NULL), LIGHTQ_OK);
    assert_string_equal(conf->rack, "a=b");
    assert_int_equal(lq_conf_set_pair(&table, conf, "rack", &err), LIGHTQ_EINVAL);
    assert_string_equal(err.text, "rack: must be name=value");
    char pair[1000];
    memset(pair, 'p', sizeof pair);
    memcpy(pair + sizeof pair - 3, "=1", 3);
    assert_int_equal(lq_conf_set_pair(&table, conf, pair, &err), LIGHTQ_ENOTFOUND);
    assert_int_equal(lq_conf_set_pair(&table, conf, "rakc=1", &err), LIGHTQ_ENOTFOUND);
}

static void test_conf_environment_sets_what_has_the_prefix(void **state)
{
    struct test_conf *conf = *state;
    struct lq_err err;
    assert_int_equal(setenv("LQTEST_PEER_LISTEN", "e:1", 1), 0);
    assert_int_equal(setenv("LQTEST_MAX_MESSAGE_BYTES", "2m", 1), 0);

    assert_int_equal(lq_conf_environment(&table, conf, "LQTEST_", true, &err), LIGHTQ_OK);

    assert_string_equal(conf->peer_listen, "e:1");
    assert_int_equal(conf->max_message_bytes, 2 << 20);

    assert_int_equal(setenv("LQTEST_SHARDS", "many", 1), 0);
    assert_int_equal(lq_conf_environment(&table, conf, "LQTEST_", false, &err), LIGHTQ_EINVAL);
    assert_string_equal(err.text, "shards: \"many\" is not a whole number");
    assert_int_equal(unsetenv("LQTEST_SHARDS"), 0);
    assert_int_equal(unsetenv("LQTEST_PEER_LISTEN"), 0);
    assert_int_equal(unsetenv("LQTEST_MAX_MESSAGE_BYTES"), 0);
}

static void test_conf_environment_unknown_name_is_refused_only_when_asked(void **state)
{
    struct test_conf *conf = *state;
    struct lq_err err;
    assert_int_equal(setenv("LQTEST_NO_SUCH", "1", 1), 0);

    assert_int_equal(lq_conf_environment(&table, conf, "LQTEST_", false, &err), LIGHTQ_OK);
    assert_int_equal(lq_conf_environment(&table, conf, "LQTEST_", true, &err), LIGHTQ_ENOTFOUND);

    assert_string_equal(err.text, "LQTEST_NO_SUCH: no test option has this environment variable");
    assert_int_equal(unsetenv("LQTEST_NO_SUCH"), 0);
}

static void test_conf_format_gives_what_set_takes(void **state)
{
    struct test_conf *conf = *state;
    static const char *const values[][2] = {{"peer.listen", "a:1"},
                                            {"shards", "7"},
                                            {"peer.insecure", "true"},
                                            {"max.message.bytes", "3k"},
                                            {"raft.election.ms", "1500ms"},
                                            {"full", "drop-oldest"},
                                            {"seed", "0"}};
    char text[64];
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        assert_set(conf, values[i][0], values[i][1]);
        assert_string_equal(lq_conf_format(lq_conf_find(&table, values[i][0]), conf, text, sizeof text), values[i][1]);
    }
    assert_string_equal(lq_conf_format(lq_conf_find(&table, "rack"), conf, text, sizeof text), "");
    assert_string_equal(lq_conf_format(lq_conf_find(&table, "full"), conf, text, 5), "drop");
    assert_null(lq_conf_find(&table, "none"));
}

static void test_conf_without_memory_leaves_all_as_it_was(void **state)
{
    struct test_conf *conf = *state;
    struct lq_err err;
    lq_alloc_fail_at(1);
    assert_int_equal(lq_conf_set(&table, conf, "peer.listen", "b", &err), LIGHTQ_ENOMEM);
    assert_true(lq_alloc_fail_end());
    assert_string_equal(err.text, "peer.listen: out of memory");
    assert_string_equal(conf->peer_listen, "127.0.0.1:5700");

    struct test_conf other;
    lq_alloc_fail_at(1);
    assert_int_equal(lq_conf_init(&table, &other), LIGHTQ_ENOMEM);
    assert_true(lq_alloc_fail_end());
    assert_null(other.peer_listen);
}

/* What @print writes. The caller frees it. */
static char *printed(void (*print)(const struct lq_conf_table *table, FILE *out))
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    print(&table, out);
    assert_int_equal(fclose(out), 0);
    return text;
}

static void test_conf_help_has_a_line_for_every_option(void **state)
{
    (void)state;
    char *text = printed(lq_conf_print_help);
    assert_non_null(strstr(text, "  max.message.bytes          The largest. (1 to 64m bytes; default 1m)\n"));
    assert_non_null(strstr(text, "  rack                       Where the machine stands. (text; default none)\n"));
    assert_non_null(strstr(text, "  seed                       Any number. (0 or more; default 0)\n"));
    assert_non_null(strstr(text, "What a full topic does. (block|drop-oldest; default block)\n"));
    size_t lines = 0;
    for (const char *at = text; *at != '\0'; at++) {
        lines += *at == '\n';
    }
    assert_int_equal(lines, table.count);
    free(text);
}

static void test_conf_man_page_escapes_for_roff(void **state)
{
    (void)state;
    char *text = printed(lq_conf_print_man);
    assert_non_null(strstr(text, ".TP\n\\fBfull\\fR = block|drop\\-oldest\nWhat a full topic does. Default: block. May "
                                 "change while running.\n"));
    assert_non_null(strstr(text, ".TP\n\\fBraft.election.ms\\fR = 10ms to 1m\nHow long to wait. Default: 1s. Unit: ms. "
                                 "May change while running.\n"));
    free(text);
}

static void test_conf_markdown_escapes_bars(void **state)
{
    (void)state;
    char *text = printed(lq_conf_print_markdown);
    assert_int_equal(strncmp(text, "| option | values |", 19), 0);
    assert_non_null(strstr(text, "| `full` | block\\|drop-oldest |  | block | yes | What a full topic does. |\n"));
    assert_non_null(
        strstr(text, "| `peer.listen` | host:port |  | 127.0.0.1:5700 | no | Where other nodes connect. |\n"));
    free(text);
}

static void test_conf_values_are_printed_as_a_file(void **state)
{
    struct test_conf *conf = *state;
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    lq_conf_print_values(&table, conf, out);
    assert_int_equal(fclose(out), 0);
    assert_string_equal(text, "peer.listen = 127.0.0.1:5700\nrack = \nshards = 1\nseed = 0\npeer.insecure = false\n"
                              "max.message.bytes = 1m\nraft.election.ms = 1s\nfull = block\n");
    free(text);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_conf_init_fills_defaults),
        TEST(test_conf_set_takes_every_form),
        TEST(test_conf_string_is_copied_and_replaced),
        TEST(test_conf_number_out_of_bounds_names_the_bound),
        TEST(test_conf_value_of_another_kind_is_einval),
        TEST(test_conf_string_of_a_wrong_length_is_einval),
        TEST(test_conf_unknown_name_suggests_the_nearest),
        TEST(test_conf_section_is_the_first_part_of_the_name),
        TEST(test_conf_pair_is_split_at_the_first_equals),
        TEST(test_conf_environment_sets_what_has_the_prefix),
        TEST(test_conf_environment_unknown_name_is_refused_only_when_asked),
        TEST(test_conf_format_gives_what_set_takes),
        TEST(test_conf_without_memory_leaves_all_as_it_was),
        TEST(test_conf_help_has_a_line_for_every_option),
        TEST(test_conf_man_page_escapes_for_roff),
        TEST(test_conf_markdown_escapes_bars),
        TEST(test_conf_values_are_printed_as_a_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
