/* tests/unit/wire/test_zmtp.c - the bytes of ZMTP: what we write is what we read, at every length; every refusal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "client/wire/zmtp.h"

static void test_zmtp_greeting_of_ours_is_sound_at_every_length(void **state)
{
    (void)state;
    uint8_t greeting[LQ_ZMTP_GREETING_BYTES];
    lq_zmtp_greeting_write(greeting);
    for (size_t size = 0; size <= sizeof greeting; size++) {
        assert_int_equal(lq_zmtp_greeting_check(greeting, size, NULL), LIGHTQ_OK);
    }
}

static void expect_greeting_refused(size_t at, uint8_t value, const char *why)
{
    uint8_t greeting[LQ_ZMTP_GREETING_BYTES];
    struct lq_err err;
    lq_zmtp_greeting_write(greeting);
    greeting[at] = value;
    assert_int_equal(lq_zmtp_greeting_check(greeting, sizeof greeting, &err), LIGHTQ_EPROTO);
    assert_non_null(strstr(err.text, why));
}

static void test_zmtp_greeting_of_something_else_is_refused(void **state)
{
    (void)state;
    expect_greeting_refused(0, 'G', "does not speak ZMTP");
    expect_greeting_refused(9, 0, "does not speak ZMTP");
    expect_greeting_refused(10, 1, "ZMTP 1");
    expect_greeting_refused(12, 'C', "mechanism");
    expect_greeting_refused(31, 'x', "mechanism");
}

static void test_zmtp_greeting_of_a_later_minor_version_is_sound(void **state)
{
    (void)state;
    uint8_t greeting[LQ_ZMTP_GREETING_BYTES];
    lq_zmtp_greeting_write(greeting);
    greeting[11] = 0;
    assert_int_equal(lq_zmtp_greeting_check(greeting, sizeof greeting, NULL), LIGHTQ_OK);
    greeting[10] = 4;
    assert_int_equal(lq_zmtp_greeting_check(greeting, sizeof greeting, NULL), LIGHTQ_OK);
}

static void test_zmtp_head_comes_back_at_every_size(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {0, 1, 255, 256, 65536, UINT32_MAX, UINT64_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint8_t bytes[LQ_ZMTP_HEAD_BYTES_MAX];
        struct lq_zmtp_head head;
        size_t size = lq_zmtp_head_write(bytes, LQ_ZMTP_MORE, sizes[i]);
        assert_int_equal(size, sizes[i] <= 255 ? 2 : 9);
        for (size_t part = 0; part < size; part++) {
            assert_int_equal(lq_zmtp_head_read(bytes, part, &head, NULL), LIGHTQ_OK);
            assert_int_equal(head.head_size, 0);
        }
        assert_int_equal(lq_zmtp_head_read(bytes, size, &head, NULL), LIGHTQ_OK);
        assert_int_equal(head.head_size, size);
        assert_int_equal(head.size, sizes[i]);
        assert_int_equal(head.flags, LQ_ZMTP_MORE);
    }
}

static void test_zmtp_head_with_flags_that_do_not_exist_is_refused(void **state)
{
    (void)state;
    struct lq_zmtp_head head;
    for (unsigned flags = 0; flags <= UINT8_MAX; flags++) {
        uint8_t bytes[LQ_ZMTP_HEAD_BYTES_MAX] = {(uint8_t)flags};
        bool sound = flags < 8 && (flags & 5) != 5;
        assert_int_equal(lq_zmtp_head_read(bytes, sizeof bytes, &head, NULL), sound ? LIGHTQ_OK : LIGHTQ_EPROTO);
    }
}

static void test_zmtp_command_too_long_is_refused(void **state)
{
    (void)state;
    uint8_t bytes[LQ_ZMTP_HEAD_BYTES_MAX];
    struct lq_zmtp_head head;
    size_t size = lq_zmtp_head_write(bytes, LQ_ZMTP_COMMAND, LQ_ZMTP_COMMAND_BYTES_MAX);
    assert_int_equal(lq_zmtp_head_read(bytes, size, &head, NULL), LIGHTQ_OK);
    size = lq_zmtp_head_write(bytes, LQ_ZMTP_COMMAND, LQ_ZMTP_COMMAND_BYTES_MAX + 1);
    assert_int_equal(lq_zmtp_head_read(bytes, size, &head, NULL), LIGHTQ_EPROTO);
}

/* Takes the command in @bytes apart. */
static enum lq_zmtp_command read_command(const uint8_t *bytes, size_t size, const uint8_t **content, size_t *left)
{
    struct lq_zmtp_head head;
    enum lq_zmtp_command command;
    assert_int_equal(lq_zmtp_head_read(bytes, size, &head, NULL), LIGHTQ_OK);
    assert_int_equal(head.flags, LQ_ZMTP_COMMAND);
    assert_int_equal(head.head_size + head.size, size);
    assert_int_equal(lq_zmtp_command_read(bytes + head.head_size, (size_t)head.size, &command, content, left, NULL),
                     LIGHTQ_OK);
    return command;
}

static void test_zmtp_ready_comes_back(void **state)
{
    (void)state;
    uint8_t bytes[LQ_ZMTP_READY_BYTES];
    const uint8_t *content;
    size_t left;
    struct lq_zmtp_ready ready;
    size_t size = lq_zmtp_ready_write(bytes, "DEALER");
    assert_int_equal(read_command(bytes, size, &content, &left), LQ_ZMTP_READY);
    assert_int_equal(lq_zmtp_ready_read(content, left, &ready, NULL), LIGHTQ_OK);
    assert_string_equal(ready.socket_type, "DEALER");
    assert_int_equal(ready.identity_size, 0);
    assert_true(lq_zmtp_ready_write(bytes, "FIFTEEN-LETTERS") <= sizeof bytes);
}

static void test_zmtp_ready_cut_anywhere_but_between_properties_is_refused(void **state)
{
    (void)state;
    uint8_t bytes[LQ_ZMTP_READY_BYTES];
    const uint8_t *content;
    size_t left;
    struct lq_zmtp_ready ready;
    size_t size = lq_zmtp_ready_write(bytes, "ROUTER");
    (void)read_command(bytes, size, &content, &left);
    size_t first = 1 + strlen("Socket-Type") + 4 + strlen("ROUTER");
    for (size_t part = 0; part < left; part++) {
        bool whole = part == 0 || part == first;
        assert_int_equal(lq_zmtp_ready_read(content, part, &ready, NULL), whole ? LIGHTQ_OK : LIGHTQ_EPROTO);
    }
}

static void test_zmtp_ready_with_an_identity_and_other_properties_tells_its_size(void **state)
{
    (void)state;
    static const uint8_t properties[] = "\x01X\0\0\0\x02zz\x08identity\0\0\0\x03\0ab\x0bSOCKET-TYPE\0\0\0\x03REQ";
    struct lq_zmtp_ready ready;
    assert_int_equal(lq_zmtp_ready_read(properties, sizeof properties - 1, &ready, NULL), LIGHTQ_OK);
    assert_int_equal(ready.identity_size, 3);
    assert_string_equal(ready.socket_type, "REQ");
}

static void test_zmtp_ready_with_a_length_beyond_its_end_is_refused(void **state)
{
    (void)state;
    static const uint8_t huge[] = "\x01X\xff\xff\xff\xffzz";
    static const uint8_t unnamed[] = "\0\0\0\0\0";
    struct lq_zmtp_ready ready;
    assert_int_equal(lq_zmtp_ready_read(huge, sizeof huge - 1, &ready, NULL), LIGHTQ_EPROTO);
    assert_int_equal(lq_zmtp_ready_read(unnamed, sizeof unnamed - 1, &ready, NULL), LIGHTQ_EPROTO);
}

static void test_zmtp_command_without_a_name_is_refused(void **state)
{
    (void)state;
    enum lq_zmtp_command command;
    const uint8_t *content;
    size_t left;
    assert_int_equal(lq_zmtp_command_read((const uint8_t *)"", 0, &command, &content, &left, NULL), LIGHTQ_EPROTO);
    assert_int_equal(lq_zmtp_command_read((const uint8_t *)"\0", 1, &command, &content, &left, NULL), LIGHTQ_EPROTO);
    assert_int_equal(lq_zmtp_command_read((const uint8_t *)"\5PING", 5, &command, &content, &left, NULL),
                     LIGHTQ_EPROTO);
    assert_int_equal(lq_zmtp_command_read((const uint8_t *)"\4PIN", 4, &command, &content, &left, NULL), LIGHTQ_EPROTO);
    assert_int_equal(lq_zmtp_command_read((const uint8_t *)"\6PINGED", 7, &command, &content, &left, NULL), LIGHTQ_OK);
    assert_int_equal(command, LQ_ZMTP_OTHER);
}

static void test_zmtp_pong_repeats_the_context_of_its_ping(void **state)
{
    (void)state;
    uint8_t ping[LQ_ZMTP_PING_BYTES];
    uint8_t pong[LQ_ZMTP_PONG_BYTES];
    uint8_t sent[2 + LQ_ZMTP_CONTEXT_BYTES_MAX + 1] = "\0\1sixteen letters.";
    const uint8_t *content;
    size_t left;
    lq_zmtp_ping_write(ping, 0x0203);
    assert_int_equal(read_command(ping, sizeof ping, &content, &left), LQ_ZMTP_PING);
    assert_int_equal(left, 2);
    assert_memory_equal(content, "\2\3", 2);
    size_t size = lq_zmtp_pong_write(pong, content, left);
    assert_int_equal(read_command(pong, size, &content, &left), LQ_ZMTP_PONG);
    assert_int_equal(left, 0);
    size = lq_zmtp_pong_write(pong, sent, sizeof sent - 1);
    assert_int_equal(read_command(pong, size, &content, &left), LQ_ZMTP_PONG);
    assert_int_equal(left, LQ_ZMTP_CONTEXT_BYTES_MAX);
    assert_memory_equal(content, "sixteen letters.", left);
    assert_int_equal(lq_zmtp_pong_write(pong, sent, 1), 0);
    assert_int_equal(lq_zmtp_pong_write(pong, sent, sizeof sent), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_zmtp_greeting_of_ours_is_sound_at_every_length),
        cmocka_unit_test(test_zmtp_greeting_of_something_else_is_refused),
        cmocka_unit_test(test_zmtp_greeting_of_a_later_minor_version_is_sound),
        cmocka_unit_test(test_zmtp_head_comes_back_at_every_size),
        cmocka_unit_test(test_zmtp_head_with_flags_that_do_not_exist_is_refused),
        cmocka_unit_test(test_zmtp_command_too_long_is_refused),
        cmocka_unit_test(test_zmtp_ready_comes_back),
        cmocka_unit_test(test_zmtp_ready_cut_anywhere_but_between_properties_is_refused),
        cmocka_unit_test(test_zmtp_ready_with_an_identity_and_other_properties_tells_its_size),
        cmocka_unit_test(test_zmtp_ready_with_a_length_beyond_its_end_is_refused),
        cmocka_unit_test(test_zmtp_command_without_a_name_is_refused),
        cmocka_unit_test(test_zmtp_pong_repeats_the_context_of_its_ping),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
