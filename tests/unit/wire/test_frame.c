/* tests/unit/wire/test_frame.c - the envelope: every field, every refusal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "client/base/buf.h"
#include "client/base/crc.h"
#include "client/base/limits.h"
#include "client/wire/frame.h"

#define BODY_SIZE 6
static const uint8_t body_bytes[BODY_SIZE] = {'a', ' ', 'b', 'o', 'd', 'y'};

struct fixture {
    uint8_t frame[LQ_ENVELOPE_BYTES_MAX + BODY_SIZE];
    size_t size;
    struct lq_envelope envelope;
    const uint8_t *body;
    struct lq_err err;
};

static int set_up(void **state)
{
    static struct fixture fixture;
    struct fixture *f = &fixture;
    memset(f, 0, sizeof *f);
    struct lq_envelope envelope = {.type = LQ_MESSAGE_PRODUCE,
                                   .flags = LQ_ENVELOPE_FLAG_PAYLOAD,
                                   .correlation = 0x1122334455667788,
                                   .group = 77,
                                   .body_size = BODY_SIZE};
    memcpy(f->frame + LQ_ENVELOPE_BYTES, body_bytes, BODY_SIZE);
    lq_frame_encode(f->frame, &envelope, f->frame + LQ_ENVELOPE_BYTES);
    f->size = LQ_ENVELOPE_BYTES + BODY_SIZE;
    *state = f;
    return 0;
}

static void sign(struct fixture *f)
{
    lq_put_u32(f->frame + 28, lq_crc32c(lq_crc32c(0, f->frame, 28), f->frame + 32, f->size - 32));
}

static lightq_status decode(struct fixture *f)
{
    lightq_status status = lq_frame_decode(f->frame, f->size, &f->envelope, &f->body, &f->err);
    struct lq_envelope unused;
    const uint8_t *body;
    assert_int_equal(lq_frame_decode(f->frame, f->size, &unused, &body, NULL), status);
    return status;
}

static void test_frame_encode_is_as_drawn(void **state)
{
    struct fixture *f = *state;
    static const uint8_t drawn[28] = {'L',  'Q',  1,  32, 18, 0, 1, 0, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33,
                                      0x22, 0x11, 77, 0,  0,  0, 0, 0, 0,    0,    6,    0,    0,    0};
    assert_memory_equal(f->frame, drawn, sizeof drawn);
}

static void test_frame_round_trip(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(decode(f), LIGHTQ_OK);

    assert_int_equal(f->envelope.type, LQ_MESSAGE_PRODUCE);
    assert_int_equal(f->envelope.flags, LQ_ENVELOPE_FLAG_PAYLOAD);
    assert_true(f->envelope.correlation == 0x1122334455667788);
    assert_int_equal(f->envelope.group, 77);
    assert_int_equal(f->envelope.body_size, BODY_SIZE);
    assert_int_equal(f->envelope.header_size, LQ_ENVELOPE_BYTES);
    assert_memory_equal(f->body, body_bytes, BODY_SIZE);
}

static void test_frame_without_body_round_trip(void **state)
{
    struct fixture *f = *state;
    struct lq_envelope envelope = {.type = LQ_MESSAGE_CLUSTER_STATUS, .correlation = 1};
    lq_frame_encode(f->frame, &envelope, NULL);
    f->size = LQ_ENVELOPE_BYTES;

    assert_int_equal(decode(f), LIGHTQ_OK);

    assert_int_equal(f->envelope.body_size, 0);
}

static void test_frame_longer_header_of_a_newer_peer_is_skipped(void **state)
{
    struct fixture *f = *state;
    static const uint8_t lengths[] = {33, 40, 255};
    for (size_t i = 0; i < sizeof lengths; i++) {
        f->frame[3] = lengths[i];
        memset(f->frame + LQ_ENVELOPE_BYTES, 0xee, lengths[i] - LQ_ENVELOPE_BYTES);
        memcpy(f->frame + lengths[i], body_bytes, BODY_SIZE);
        f->size = lengths[i] + (size_t)BODY_SIZE;
        sign(f);

        assert_int_equal(decode(f), LIGHTQ_OK);

        assert_int_equal(f->envelope.header_size, lengths[i]);
        assert_memory_equal(f->body, body_bytes, BODY_SIZE);
    }
}

static void test_frame_shorter_than_an_envelope_is_eproto(void **state)
{
    struct fixture *f = *state;
    for (f->size = 0; f->size < LQ_ENVELOPE_BYTES; f->size++) {
        assert_int_equal(decode(f), LIGHTQ_EPROTO);
    }
    assert_string_equal(f->err.text, "a frame of 31 bytes is shorter than an envelope");
}

static void test_frame_of_another_magic_is_eproto(void **state)
{
    struct fixture *f = *state;
    f->frame[1] = 'P';
    assert_int_equal(decode(f), LIGHTQ_EPROTO);
    assert_string_equal(f->err.text, "the frame does not begin with LQ");
}

static void test_frame_of_another_version_is_eversion(void **state)
{
    struct fixture *f = *state;
    f->frame[2] = 2;
    sign(f);
    assert_int_equal(decode(f), LIGHTQ_EVERSION);
    assert_string_equal(f->err.text, "an envelope of version 2, and only 1 is spoken here");
}

static void test_frame_with_lengths_that_do_not_meet_is_eproto(void **state)
{
    struct fixture *f = *state;
    f->frame[3] = 31;
    sign(f);
    assert_int_equal(decode(f), LIGHTQ_EPROTO);
    f->frame[3] = 33; /* header and body together longer than the frame */
    sign(f);
    assert_int_equal(decode(f), LIGHTQ_EPROTO);
    f->frame[3] = 32;
    lq_put_u32(f->frame + 24, BODY_SIZE - 1); /* shorter than the frame */
    sign(f);
    assert_int_equal(decode(f), LIGHTQ_EPROTO);
    assert_string_equal(f->err.text, "a header of 32 and a body of 5 bytes in a frame of 38");
}

static void test_frame_with_a_huge_body_is_etoobig(void **state)
{
    struct fixture *f = *state;
    static const uint32_t sizes[] = {LQ_CLIENT_BODY_BYTES_MAX + 1, UINT32_MAX / 2, UINT32_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        lq_put_u32(f->frame + 24, sizes[i]);
        sign(f);
        assert_int_equal(decode(f), LIGHTQ_ETOOBIG);
    }
    lq_put_u32(f->frame + 24, LQ_CLIENT_BODY_BYTES_MAX); /* allowed, but not what is there */
    assert_int_equal(decode(f), LIGHTQ_EPROTO);
}

static void test_frame_with_any_bit_turned_is_refused(void **state)
{
    struct fixture *f = *state;
    for (size_t bit = 0; bit < f->size * 8; bit++) {
        f->frame[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_int_not_equal(decode(f), LIGHTQ_OK);
        f->frame[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    assert_int_equal(decode(f), LIGHTQ_OK);
}

static void test_frame_unknown_type_and_flags_are_left_to_the_caller(void **state)
{
    struct fixture *f = *state;
    lq_put_u16(f->frame + 4, 999);
    lq_put_u16(f->frame + 6, 0x8001);
    sign(f);
    assert_int_equal(decode(f), LIGHTQ_OK);
    assert_int_equal(f->envelope.type, 999);
    assert_int_equal(f->envelope.flags, 0x8001);
}

static void test_frame_message_names_and_answers(void **state)
{
    (void)state;
    assert_string_equal(lq_message_name(LQ_MESSAGE_PRODUCE_ANSWER), "PRODUCE_ANSWER");
    assert_string_equal(lq_message_name(0), "UNKNOWN");
    assert_false(lq_message_is_answer(LQ_MESSAGE_PRODUCE));
    assert_true(lq_message_is_answer(LQ_MESSAGE_PRODUCE_ANSWER));
    assert_true(lq_message_is_answer(LQ_MESSAGE_ERROR));
    assert_false(lq_message_is_answer(LQ_MESSAGE_DELIVER));
    assert_false(lq_message_is_answer(LQ_MESSAGE_DELIVER + 1));
#define X(name, number, lower, message, elements) assert_string_equal(lq_message_name(number), #name);
    LQ_MESSAGE_TABLE(X)
#undef X
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_frame_encode_is_as_drawn, set_up),
        cmocka_unit_test_setup(test_frame_round_trip, set_up),
        cmocka_unit_test_setup(test_frame_without_body_round_trip, set_up),
        cmocka_unit_test_setup(test_frame_longer_header_of_a_newer_peer_is_skipped, set_up),
        cmocka_unit_test_setup(test_frame_shorter_than_an_envelope_is_eproto, set_up),
        cmocka_unit_test_setup(test_frame_of_another_magic_is_eproto, set_up),
        cmocka_unit_test_setup(test_frame_of_another_version_is_eversion, set_up),
        cmocka_unit_test_setup(test_frame_with_lengths_that_do_not_meet_is_eproto, set_up),
        cmocka_unit_test_setup(test_frame_with_a_huge_body_is_etoobig, set_up),
        cmocka_unit_test_setup(test_frame_with_any_bit_turned_is_refused, set_up),
        cmocka_unit_test_setup(test_frame_unknown_type_and_flags_are_left_to_the_caller, set_up),
        cmocka_unit_test(test_frame_message_names_and_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
