/* tests/unit/node/test_zmtp.c - node/zmtp.c: what is taken and what is refused, whole and cut at every byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node/zmtp.h"

#define FRAME_BYTES_MAX 1000
#define STREAM_BYTES    4096
#define EVENTS_MAX      64

/* Bytes being put together. */
struct stream {
    uint8_t bytes[STREAM_BYTES];
    size_t size;
};

static void add(struct stream *stream, const void *bytes, size_t size)
{
    assert_true(stream->size + size <= sizeof stream->bytes);
    memcpy(stream->bytes + stream->size, bytes, size);
    stream->size += size;
}

static void add_greeting(struct stream *stream)
{
    uint8_t greeting[LQ_ZMTP_GREETING_BYTES];
    lq_zmtp_greeting_write(greeting);
    add(stream, greeting, sizeof greeting);
}

static void add_ready(struct stream *stream, const char *type)
{
    uint8_t ready[LQ_ZMTP_READY_BYTES];
    add(stream, ready, lq_zmtp_ready_write(ready, type));
}

static void add_frame(struct stream *stream, unsigned flags, const void *bytes, size_t size)
{
    uint8_t head[LQ_ZMTP_HEAD_BYTES_MAX];
    add(stream, head, lq_zmtp_head_write(head, flags, size));
    add(stream, bytes, size);
}

/* Handshake done. */
static void add_begin(struct stream *stream)
{
    add_greeting(stream);
    add_ready(stream, "DEALER");
}

/* What came of a stream: an event a character, and bodies' bytes. */
struct outcome {
    char events[EVENTS_MAX];
    size_t event_count;
    uint8_t bodies[STREAM_BYTES];
    size_t body_size;
    struct lq_zmtp_news last; /* news, that is */
    bool ready;
    size_t taken; /* until it was refused */
};

static void note(struct outcome *outcome, const struct lq_zmtp_news *news)
{
    static const char letters[] = {[LQ_ZMTP_GREETED] = 'G',
                                   [LQ_ZMTP_FRAME] = 'f',
                                   [LQ_ZMTP_MALFORMED] = 'M',
                                   [LQ_ZMTP_PINGED] = 'P',
                                   [LQ_ZMTP_REFUSED] = 'R'};
    if (news->event == LQ_ZMTP_NO_NEWS) {
        assert_int_equal(news->reply_size, 0);
        return;
    }
    char letter = letters[news->event];
    if (news->event == LQ_ZMTP_FRAME) {
        letter = news->first ? (news->last ? 'F' : '1') : '2';
        assert_true(news->first || news->last);
    }
    assert_true(outcome->event_count + 1 < EVENTS_MAX && news->reply_size <= sizeof news->reply);
    outcome->events[outcome->event_count++] = letter;
    outcome->last = *news;
}

/* Takes @stream in pieces of @piece bytes. */
static void run(const struct stream *stream, size_t piece, struct outcome *outcome)
{
    struct lq_zmtp zmtp;
    memset(outcome, 0, sizeof *outcome);
    lq_zmtp_init(&zmtp, FRAME_BYTES_MAX);
    for (size_t at = 0; at < stream->size;) {
        size_t size = stream->size - at < piece ? stream->size - at : piece;
        uint64_t left = lq_zmtp_body_left(&zmtp);
        if (left > 0) {
            size = size < left ? size : (size_t)left;
            memcpy(outcome->bodies + outcome->body_size, stream->bytes + at, size);
            outcome->body_size += size;
            lq_zmtp_body_taken(&zmtp, size);
            at += size;
            continue;
        }
        size_t used;
        struct lq_zmtp_news news;
        lq_zmtp_take(&zmtp, stream->bytes + at, size, &used, &news);
        assert_true(used <= size && (used > 0 || news.event != LQ_ZMTP_NO_NEWS));
        note(outcome, &news);
        at += used;
        if (news.event == LQ_ZMTP_REFUSED && outcome->taken == 0) {
            outcome->taken = at;
        }
    }
    outcome->ready = lq_zmtp_is_ready(&zmtp);
}

/* Whole, and in pieces of 1 to 9 bytes, it comes to the same. */
static void expect(const struct stream *stream, const char *events, struct outcome *outcome)
{
    struct outcome other;
    run(stream, SIZE_MAX, outcome);
    assert_string_equal(outcome->events, events);
    for (size_t piece = 1; piece <= LQ_ZMTP_HEAD_BYTES_MAX; piece++) {
        run(stream, piece, &other);
        assert_string_equal(other.events, events);
        assert_int_equal(other.body_size, outcome->body_size);
        assert_memory_equal(other.bodies, outcome->bodies, outcome->body_size);
    }
}

static void expect_refused(const struct stream *stream, const char *events, const char *why)
{
    struct outcome outcome;
    expect(stream, events, &outcome);
    assert_int_equal(outcome.last.event, LQ_ZMTP_REFUSED);
    if (strstr(outcome.last.err.text, why) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", outcome.last.err.text, why);
    }
    /* An ERROR with that sentence, when it may still be read. */
    bool told = strchr(events, 'G') == NULL && stream->size >= LQ_ZMTP_GREETING_BYTES && outcome.last.reply_size > 0;
    if (told) {
        const uint8_t *reply = outcome.last.reply;
        assert_int_equal(reply[0], LQ_ZMTP_COMMAND);
        assert_int_equal(reply[1], outcome.last.reply_size - 2);
        assert_memory_equal(reply + 2, "\005ERROR", 6);
        assert_int_equal(reply[8], outcome.last.reply_size - 9);
        assert_memory_equal(reply + 9, outcome.last.err.text, reply[8]);
    }
}

static void test_zmtp_handshake_and_messages_are_taken(void **state)
{
    (void)state;
    struct stream stream = {.size = 0};
    struct outcome outcome;
    uint8_t large[600];
    memset(large, 'l', sizeof large);
    add_begin(&stream);
    add_frame(&stream, 0, "one", 3);
    add_frame(&stream, LQ_ZMTP_MORE, "two", 3);
    add_frame(&stream, 0, large, sizeof large);
    add_frame(&stream, LQ_ZMTP_MORE, "", 0);
    add_frame(&stream, 0, "", 0);
    add_frame(&stream, 0, "end", 3);

    expect(&stream, "GF1212F", &outcome);

    assert_true(outcome.ready);
    assert_int_equal(outcome.body_size, 3 + 3 + sizeof large + 3);
    assert_memory_equal(outcome.bodies, "onetwolll", 9);
    assert_memory_equal(outcome.bodies + outcome.body_size - 4, "lend", 4);
}

static void test_zmtp_ready_says_router(void **state)
{
    (void)state;
    struct stream stream = {.size = 0};
    struct outcome outcome;
    struct lq_zmtp_head head;
    struct lq_zmtp_ready ready;
    add_begin(&stream);

    expect(&stream, "G", &outcome);

    const uint8_t *reply = outcome.last.reply;
    assert_int_equal(lq_zmtp_head_read(reply, outcome.last.reply_size, &head, NULL), LIGHTQ_OK);
    assert_int_equal(head.head_size + head.size, outcome.last.reply_size);
    assert_memory_equal(reply + head.head_size, "\005READY", 6);
    assert_int_equal(lq_zmtp_ready_read(reply + head.head_size + 6, head.size - 6, &ready, NULL), LIGHTQ_OK);
    assert_string_equal(ready.socket_type, "ROUTER");
}

static void test_zmtp_types_are_served_as_a_router_does(void **state)
{
    (void)state;
    static const char *const served[] = {"DEALER", "REQ", "ROUTER"};
    static const char *const others[] = {"", "REP", "PUB", "SUB", "PUSH", "PULL", "PAIR", "dealer", "DEALERS"};
    struct outcome outcome;
    for (size_t i = 0; i < sizeof served / sizeof served[0]; i++) {
        struct stream stream = {.size = 0};
        add_greeting(&stream);
        add_ready(&stream, served[i]);
        expect(&stream, "G", &outcome);
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        struct stream stream = {.size = 0};
        add_greeting(&stream);
        add_ready(&stream, others[i]);
        expect_refused(&stream, "R", "DEALER");
    }
}

static void test_zmtp_greeting_faults_are_known_at_once(void **state)
{
    (void)state;
    static const struct {
        size_t at;
        uint8_t byte;
        size_t known_at; /* how many bytes it takes at most */
        const char *why;
    } faults[] = {{0, 'G', 1, "ZMTP"},   {0, 0, 1, "ZMTP"},     {9, 0x7e, 10, "ZMTP"},      {10, 0, 11, "ZMTP 0"},
                  {10, 2, 11, "ZMTP 2"}, {12, 'P', 32, "mech"}, {16, 'L', 32, "mechanism"}, {31, 1, 32, "mech"}};
    struct outcome outcome;
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        struct stream stream = {.size = 0};
        add_begin(&stream);
        stream.bytes[faults[i].at] = faults[i].byte;

        expect_refused(&stream, "R", faults[i].why);

        run(&stream, 1, &outcome);
        assert_int_equal(outcome.taken, faults[i].known_at);
        assert_int_equal(outcome.last.reply_size, 0); /* it would not understand */
    }
}

static void test_zmtp_greeting_of_others_who_speak_it_is_taken(void **state)
{
    (void)state;
    struct outcome outcome;
    struct stream stream = {.size = 0};
    add_begin(&stream);
    stream.bytes[8] = 1; /* padding, which libzmq uses */
    stream.bytes[10] = 4;
    stream.bytes[11] = 200;
    stream.bytes[32] = 1;  /* as-server */
    stream.bytes[63] = 77; /* filler */

    expect(&stream, "G", &outcome);
}

static void test_zmtp_identity_is_refused_and_told(void **state)
{
    (void)state;
    struct outcome outcome;
    static const char forged[] = "\005READY\013Socket-Type\0\0\0\006DEALER\010Identity\0\0\0\005\0abcd";
    static const char upper[] = "\005READY\013SOCKET-TYPE\0\0\0\006DEALER\010identity\0\0\0\001i";
    static const char empty[] = "\005READY\010Identity\0\0\0\0\013Socket-Type\0\0\0\006DEALER\001X\0\0\0\003abc";
    struct stream stream = {.size = 0};
    add_greeting(&stream);
    add_frame(&stream, LQ_ZMTP_COMMAND, forged, sizeof forged - 1);
    expect_refused(&stream, "R", "routing ids");
    stream.size = LQ_ZMTP_GREETING_BYTES;
    add_frame(&stream, LQ_ZMTP_COMMAND, upper, sizeof upper - 1);
    expect_refused(&stream, "R", "routing ids");
    stream.size = LQ_ZMTP_GREETING_BYTES;
    add_frame(&stream, LQ_ZMTP_COMMAND, empty, sizeof empty - 1);
    expect(&stream, "G", &outcome);
}

static void test_zmtp_handshake_is_ready_and_nothing_else(void **state)
{
    (void)state;
    uint8_t much[LQ_ZMTP_COMMAND_BYTES_MAX + 1] = "\005READY";
    static const struct {
        unsigned flags;
        const char *bytes;
        size_t size;
        const char *why;
    } frames[] = {{0, "hello", 5, "READY comes first"},
                  {LQ_ZMTP_COMMAND, "\004PING\0\0", 7, "READY comes first"},
                  {LQ_ZMTP_COMMAND, "\005ERROR\0", 7, "READY comes first"},
                  {LQ_ZMTP_COMMAND, "\005READY", 6, "DEALER"},
                  {LQ_ZMTP_COMMAND, "\005READY\013Socket-Type\0\0\0\007DEALER", 28, "lengths"},
                  {LQ_ZMTP_COMMAND, "\006READY", 6, "name"},
                  {LQ_ZMTP_COMMAND, "\0", 1, "name"},
                  {LQ_ZMTP_COMMAND, "", 0, "name"},
                  {LQ_ZMTP_COMMAND | LQ_ZMTP_MORE, "\005READY", 6, "flags"},
                  {0x08, "hello", 5, "flags"}};
    for (size_t i = 0; i < sizeof frames / sizeof frames[0]; i++) {
        struct stream stream = {.size = 0};
        add_greeting(&stream);
        add_frame(&stream, frames[i].flags, frames[i].bytes, frames[i].size);
        expect_refused(&stream, "R", frames[i].why);
    }
    struct stream stream = {.size = 0};
    add_greeting(&stream);
    add_frame(&stream, LQ_ZMTP_COMMAND, much, sizeof much);
    expect_refused(&stream, "R", "513 bytes");
}

static void test_zmtp_frame_above_the_limit_is_refused_by_its_head(void **state)
{
    (void)state;
    static const uint8_t sizes[][LQ_ZMTP_HEAD_BYTES_MAX] = {
        {LQ_ZMTP_LONG, 0, 0, 0, 0, 0, 0, 0x03, 0xe9}, /* one more than the limit */
        {LQ_ZMTP_LONG, 0, 0, 0, 0, 0x80, 0, 0, 0},
        {LQ_ZMTP_LONG, 0x80, 0, 0, 0, 0, 0, 0, 0},
        {LQ_ZMTP_LONG | LQ_ZMTP_MORE, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}};
    struct outcome outcome;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct stream stream = {.size = 0};
        add_begin(&stream);
        add(&stream, sizes[i], sizeof sizes[i]);
        expect_refused(&stream, "GR", "limit");
    }
    struct stream stream = {.size = 0};
    uint8_t most[FRAME_BYTES_MAX] = {0};
    add_begin(&stream);
    add_frame(&stream, 0, most, sizeof most);
    expect(&stream, "GF", &outcome);
    assert_int_equal(outcome.last.size, FRAME_BYTES_MAX);
}

static void test_zmtp_frame_flags_are_checked(void **state)
{
    (void)state;
    for (unsigned flags = 0; flags < 256; flags++) {
        struct stream stream = {.size = 0};
        add_begin(&stream);
        uint8_t byte = (uint8_t)flags;
        add(&stream, &byte, 1);
        struct outcome outcome;
        bool sound = flags < 8 && (flags & (LQ_ZMTP_COMMAND | LQ_ZMTP_MORE)) != (LQ_ZMTP_COMMAND | LQ_ZMTP_MORE);
        expect(&stream, sound ? "G" : "GR", &outcome);
    }
}

static void test_zmtp_messages_of_more_than_two_frames_are_malformed_once(void **state)
{
    (void)state;
    struct stream stream = {.size = 0};
    struct outcome outcome;
    add_begin(&stream);
    add_frame(&stream, LQ_ZMTP_MORE, "a", 1);
    add_frame(&stream, LQ_ZMTP_MORE, "skipped", 7);
    add_frame(&stream, LQ_ZMTP_MORE, "", 0);
    add_frame(&stream, LQ_ZMTP_COMMAND, "\004PING\0\0", 7);
    add_frame(&stream, LQ_ZMTP_MORE, "skipped", 7);
    add_frame(&stream, 0, "skipped", 7);
    add_frame(&stream, LQ_ZMTP_MORE, "b", 1);
    add_frame(&stream, LQ_ZMTP_MORE, "", 0);
    add_frame(&stream, 0, "", 0);
    add_frame(&stream, 0, "c", 1);

    expect(&stream, "G1MP1MF", &outcome);

    assert_int_equal(outcome.body_size, 3);
    assert_memory_equal(outcome.bodies, "abc", 3);
}

static void test_zmtp_ping_is_answered_with_its_context_also_inside_a_message(void **state)
{
    (void)state;
    struct stream stream = {.size = 0};
    struct outcome outcome;
    add_begin(&stream);
    add_frame(&stream, LQ_ZMTP_MORE, "a", 1);
    add_frame(&stream, LQ_ZMTP_COMMAND, "\004PING\0\012context", 14);
    expect(&stream, "G1P", &outcome);
    assert_int_equal(outcome.last.reply_size, 2 + 5 + 7);
    assert_memory_equal(outcome.last.reply, "\004\014\004PONGcontext", 14);

    add_frame(&stream, 0, "b", 1);
    add_frame(&stream, LQ_ZMTP_COMMAND, "\004PING\0\0", 7);
    expect(&stream, "G1P2P", &outcome);
    assert_int_equal(outcome.last.reply_size, 7);

    struct stream bad = {.size = 0};
    add_begin(&bad);
    add_frame(&bad, LQ_ZMTP_COMMAND, "\004PING\0", 6);
    expect_refused(&bad, "GR", "PING");
    bad.size = 0;
    add_begin(&bad);
    add_frame(&bad, LQ_ZMTP_COMMAND, "\004PING\0\0seventeen  bytes!", 7 + 17);
    expect_refused(&bad, "GR", "PING");
}

static void test_zmtp_other_commands_are_ignored(void **state)
{
    (void)state;
    struct stream stream = {.size = 0};
    struct outcome outcome;
    uint8_t large[LQ_ZMTP_COMMAND_BYTES_MAX] = "\377";
    add_begin(&stream);
    add_frame(&stream, LQ_ZMTP_COMMAND, "\004PONGwith context", 17);
    add_frame(&stream, LQ_ZMTP_COMMAND, "\005READY", 6);
    add_frame(&stream, LQ_ZMTP_COMMAND, "\005ERROR\002no", 9);
    add_frame(&stream, LQ_ZMTP_COMMAND, "\011SUBSCRIBEtopic", 15);
    add_frame(&stream, LQ_ZMTP_COMMAND, "\006CANCEL", 7);
    add_frame(&stream, LQ_ZMTP_COMMAND, large, sizeof large);
    add_frame(&stream, 0, "x", 1);

    expect(&stream, "GF", &outcome);
}

static void test_zmtp_after_refusal_nothing_is_taken(void **state)
{
    (void)state;
    struct stream stream = {.size = 0};
    add_begin(&stream);
    add(&stream, "\x40", 1);
    add_frame(&stream, 0, "x", 1);
    add_begin(&stream);

    expect_refused(&stream, "GR", "flags");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_zmtp_handshake_and_messages_are_taken),
        cmocka_unit_test(test_zmtp_ready_says_router),
        cmocka_unit_test(test_zmtp_types_are_served_as_a_router_does),
        cmocka_unit_test(test_zmtp_greeting_faults_are_known_at_once),
        cmocka_unit_test(test_zmtp_greeting_of_others_who_speak_it_is_taken),
        cmocka_unit_test(test_zmtp_identity_is_refused_and_told),
        cmocka_unit_test(test_zmtp_handshake_is_ready_and_nothing_else),
        cmocka_unit_test(test_zmtp_frame_above_the_limit_is_refused_by_its_head),
        cmocka_unit_test(test_zmtp_frame_flags_are_checked),
        cmocka_unit_test(test_zmtp_messages_of_more_than_two_frames_are_malformed_once),
        cmocka_unit_test(test_zmtp_ping_is_answered_with_its_context_also_inside_a_message),
        cmocka_unit_test(test_zmtp_other_commands_are_ignored),
        cmocka_unit_test(test_zmtp_after_refusal_nothing_is_taken),
    };
    return cmocka_run_group_tests_name("node zmtp", tests, NULL, NULL);
}
