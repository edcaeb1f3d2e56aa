/* tests/unit/wire/test_codec.c - protobuf bodies: there and back for every type, and every refusal of a bad one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/base/limits.h"
#include "client/wire/codec.h"
#include "tests/lib/alloc_fail.h"

/* A body written by hand. */
#define BODY(literal) (literal), sizeof(literal) - 1

static void assert_refused(uint16_t type, const void *body, size_t size, lightq_status status, const char *text)
{
    struct lq_err err;
    void *message = &err;
    assert_int_equal(lq_codec_unpack(type, body, size, &message, &err), status);
    assert_null(message);
    assert_string_equal(err.text, text);
    assert_int_equal(lq_codec_unpack(type, body, size, &message, NULL), status);
}

static void test_codec_every_type_goes_there_and_back(void **state)
{
    (void)state;
    struct lq_writer writer;
    lq_writer_init(&writer, 1000);
#define X(name, number, lower, message, elements)                                                       \
    {                                                                                                   \
        Lightq__Wire__##message out;                                                                    \
        lightq__wire__##lower##__init(&out);                                                            \
        struct lq_envelope envelope = {.type = LQ_MESSAGE_##name, .correlation = (number)};             \
        writer.size = 0;                                                                                \
        assert_int_equal(lq_codec_frame(&envelope, &out.base, &writer), LIGHTQ_OK);                     \
        struct lq_envelope decoded;                                                                     \
        const uint8_t *body;                                                                            \
        assert_int_equal(lq_frame_decode(writer.bytes, writer.size, &decoded, &body, NULL), LIGHTQ_OK); \
        assert_int_equal(decoded.type, LQ_MESSAGE_##name);                                              \
        assert_int_equal(decoded.correlation, (number));                                                \
        Lightq__Wire__##message *in;                                                                    \
        assert_int_equal(lq_unpack_##lower(body, decoded.body_size, &in, NULL), LIGHTQ_OK);             \
        assert_ptr_equal(in->base.descriptor, out.base.descriptor);                                     \
        lq_codec_free(in);                                                                              \
    }
    LQ_MESSAGE_TABLE(X)
#undef X
    lq_writer_deinit(&writer);
}

/* The body of the frame in @writer. */
static const uint8_t *body_of(const struct lq_writer *writer, size_t *size)
{
    struct lq_envelope envelope;
    const uint8_t *body;
    assert_int_equal(lq_frame_decode(writer->bytes, writer->size, &envelope, &body, NULL), LIGHTQ_OK);
    *size = envelope.body_size;
    return body;
}

/* A METADATA answer with everything in it: one node of two endpoints, one topic of one partition. */
static void pack_metadata(struct lq_writer *writer)
{
    char *endpoints[] = {lq_codec_string("127.0.0.1:5600"), lq_codec_string("127.0.0.1:5601")};
    Lightq__Wire__NodeInfo node = LIGHTQ__WIRE__NODE_INFO__INIT;
    node.node = 3;
    node.n_endpoints = 2;
    node.endpoints = endpoints;
    node.state = LIGHTQ__WIRE__NODE_STATE__NODE_UP;
    Lightq__Wire__NodeInfo *nodes[] = {&node};
    Lightq__Wire__Leader leader = LIGHTQ__WIRE__LEADER__INIT;
    leader.node = 3;
    leader.endpoint = endpoints[1];
    leader.term = 9;
    uint32_t replicas[] = {1, 2, 3};
    Lightq__Wire__PartitionInfo partition = LIGHTQ__WIRE__PARTITION_INFO__INIT;
    partition.partition = 5;
    partition.group = UINT64_MAX;
    partition.leader = &leader;
    partition.n_replicas = 3;
    partition.replicas = replicas;
    Lightq__Wire__PartitionInfo *partitions[] = {&partition};
    struct lq_id id = {{1, 2, 3, 0, 5}};
    Lightq__Wire__TopicInfo topic = LIGHTQ__WIRE__TOPIC_INFO__INIT;
    topic.name = lq_codec_string("caf\xc3\xa9");
    topic.topic = lq_codec_bytes_of(&id);
    topic.n_partitions = 1;
    topic.partitions = partitions;
    Lightq__Wire__TopicInfo *topics[] = {&topic};
    Lightq__Wire__MetadataAnswer answer = LIGHTQ__WIRE__METADATA_ANSWER__INIT;
    answer.n_nodes = 1;
    answer.nodes = nodes;
    answer.n_topics = 1;
    answer.topics = topics;
    answer.more = true;
    struct lq_envelope envelope = {.type = LQ_MESSAGE_METADATA_ANSWER};
    lq_writer_init(writer, 10000);
    assert_int_equal(lq_codec_frame(&envelope, &answer.base, writer), LIGHTQ_OK);
}

static void test_codec_nested_fields_go_there_and_back(void **state)
{
    (void)state;
    struct lq_writer writer;
    pack_metadata(&writer);
    size_t size;
    const uint8_t *body = body_of(&writer, &size);

    Lightq__Wire__MetadataAnswer *in;
    assert_int_equal(lq_unpack_metadata_answer(body, size, &in, NULL), LIGHTQ_OK);

    assert_int_equal(in->status, 0);
    assert_string_equal(in->text, ""); /* absent strings are empty */
    assert_string_equal(in->nodes[0]->endpoints[1], "127.0.0.1:5601");
    assert_string_equal(in->topics[0]->name, "caf\xc3\xa9");
    struct lq_id id;
    assert_int_equal(lq_codec_id(&in->topics[0]->topic, &id), LIGHTQ_OK);
    assert_int_equal(id.bytes[4], 5);
    Lightq__Wire__PartitionInfo *partition = in->topics[0]->partitions[0];
    assert_int_equal(partition->partition, 5);
    assert_true(partition->group == UINT64_MAX);
    assert_int_equal(partition->n_replicas, 3);
    assert_int_equal(partition->replicas[2], 3);
    assert_int_equal(partition->leader->term, 9);
    assert_true(in->more);
    lq_codec_free(in);
    lq_writer_deinit(&writer);
}

static void test_codec_every_cut_of_a_body_is_refused_or_sound(void **state)
{
    (void)state;
    struct lq_writer writer;
    pack_metadata(&writer);
    size_t size;
    const uint8_t *body = body_of(&writer, &size);
    size_t refused = 0;
    for (size_t cut = 0; cut < size; cut++) {
        uint8_t *copy = malloc(cut + 1); /* of its own, so that a read behind the end is seen */
        memcpy(copy, body, cut);
        Lightq__Wire__MetadataAnswer *in;
        lightq_status status = lq_unpack_metadata_answer(copy, cut, &in, NULL);
        assert_true(status == LIGHTQ_OK || status == LIGHTQ_EPROTO);
        refused += status == LIGHTQ_EPROTO;
        lq_codec_free(in);
        free(copy);
    }
    assert_true(refused > size / 2);
    lq_writer_deinit(&writer);
}

static void test_codec_unknown_type_is_eunsupported(void **state)
{
    (void)state;
    assert_refused(999, BODY(""), LIGHTQ_EUNSUPPORTED, "messages of type 999 are not known here");
}

static void test_codec_body_above_the_limit_is_etoobig(void **state)
{
    (void)state;
    uint8_t *body = calloc(1, LQ_CLIENT_BODY_BYTES_MAX + 1);
    assert_refused(LQ_MESSAGE_STATS, body, LQ_CLIENT_BODY_BYTES_MAX + 1, LIGHTQ_ETOOBIG,
                   "a body of 1048577 bytes is above the limit of 1048576");
    free(body);
}

static void test_codec_bytes_that_are_no_fields_are_eproto(void **state)
{
    (void)state;
    assert_refused(LQ_MESSAGE_CREDIT, BODY("\x00"), LIGHTQ_EPROTO, "Credit: bytes that are not fields");
    assert_refused(LQ_MESSAGE_CREDIT, BODY("\x80"), LIGHTQ_EPROTO, "Credit: bytes that are not fields");
    assert_refused(LQ_MESSAGE_CREDIT, BODY("\xf8\xff\xff\xff\xff\x01"), LIGHTQ_EPROTO,
                   "Credit: bytes that are not fields"); /* number above 2^29 - 1 */
}

static void test_codec_field_that_is_not_whole_is_eproto(void **state)
{
    (void)state;
    assert_refused(LQ_MESSAGE_CREDIT, BODY("\x08"), LIGHTQ_EPROTO, "subscription: not a whole value of its type");
    assert_refused(LQ_MESSAGE_CREDIT, BODY("\x08\x80"), LIGHTQ_EPROTO, "subscription: not a whole value of its type");
    assert_refused(LQ_MESSAGE_ERROR, BODY("\x12\x05text"), LIGHTQ_EPROTO, "text: not a whole value of its type");
    assert_refused(LQ_MESSAGE_ERROR, BODY("\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), LIGHTQ_EPROTO,
                   "text: not a whole value of its type");
    assert_refused(LQ_MESSAGE_CREDIT, BODY("\x7a\x05"), LIGHTQ_EPROTO, "Credit: field 15 is not whole");
    assert_refused(LQ_MESSAGE_CREDIT, BODY("\x7d\x05\x05\x05"), LIGHTQ_EPROTO, "Credit: field 15 is not whole");
    assert_refused(LQ_MESSAGE_CREDIT, BODY("\x79\x05\x05\x05\x05"), LIGHTQ_EPROTO, "Credit: field 15 is not whole");
}

static void test_codec_field_of_another_type_is_eproto(void **state)
{
    (void)state;
    assert_refused(LQ_MESSAGE_CREDIT, BODY("\x0a\x01x"), LIGHTQ_EPROTO, "subscription: not a whole value of its type");
    assert_refused(LQ_MESSAGE_ERROR, BODY("\x10\x01"), LIGHTQ_EPROTO, "text: not a whole value of its type");
    assert_refused(LQ_MESSAGE_CREDIT, BODY("\x0b\x0c"), LIGHTQ_EPROTO,
                   "subscription: not a whole value of its type"); /* a group */
    assert_refused(LQ_MESSAGE_CREDIT, BODY("\x7b\x7c"), LIGHTQ_EPROTO, "Credit: field 15 is not whole");
    /* a u32 with a value above 2^32 - 1 */
    assert_refused(LQ_MESSAGE_ERROR, BODY("\x08\xff\xff\xff\xff\x10"), LIGHTQ_EPROTO,
                   "status: not a whole value of its type");
}

static void test_codec_field_given_twice_is_eproto(void **state)
{
    (void)state;
    assert_refused(LQ_MESSAGE_CREDIT, BODY("\x08\x01\x08\x02"), LIGHTQ_EPROTO, "subscription: given twice");
    assert_refused(LQ_MESSAGE_ERROR, BODY("\x1a\x00\x1a\x00"), LIGHTQ_EPROTO, "leader: given twice");
    assert_refused(LQ_MESSAGE_ERROR, BODY("\x12\x01x\x12\x01x"), LIGHTQ_EPROTO, "text: given twice");
}

/* Case L13, deep nesting blows the stack: a field in a field in a field ..., each with a length and @tag. */
static void assert_survives_nesting(uint16_t type, uint8_t tag, lightq_status wanted)
{
    enum { DEPTH = 10000, HEAD = 4 };
    uint8_t *bytes = malloc(DEPTH * HEAD);
    void *in = NULL;
    assert_non_null(bytes);
    for (size_t i = 0; i < DEPTH; i++) {
        size_t inside = (DEPTH - 1 - i) * HEAD;
        bytes[i * HEAD] = tag;
        bytes[i * HEAD + 1] = (uint8_t)(inside | 0x80); /* a varint of three bytes */
        bytes[i * HEAD + 2] = (uint8_t)(inside >> 7 | 0x80);
        bytes[i * HEAD + 3] = (uint8_t)(inside >> 14);
    }

    assert_int_equal(lq_codec_unpack(type, bytes, DEPTH * HEAD, &in, NULL), wanted);

    if (wanted == LIGHTQ_OK) {
        lq_codec_free(in);
    }
    free(bytes);
}

static void test_codec_deep_nesting_needs_no_stack(void **state)
{
    (void)state;
    assert_survives_nesting(LQ_MESSAGE_ERROR, 15 << 3 | 2, LIGHTQ_OK);    /* not known: passed over as a whole */
    assert_survives_nesting(LQ_MESSAGE_ERROR, 3 << 3 | 2, LIGHTQ_EPROTO); /* leader in leader: no such field */
}

static void test_codec_text_that_is_not_utf8_is_eproto(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t size;
    } bad[] = {
        {BODY("a\0b")},             /* a zero */
        {BODY("\x80")},             /* a middle byte first */
        {BODY("\xc3")},             /* cut */
        {BODY("\xc0\x80")},         /* overlong */
        {BODY("\xc1\xbf")},         /* overlong */
        {BODY("\xe0\x9f\xbf")},     /* overlong */
        {BODY("\xed\xa0\x80")},     /* surrogate */
        {BODY("\xf0\x8f\xbf\xbf")}, /* overlong */
        {BODY("\xf4\x90\x80\x80")}, /* above U+10FFFF */
        {BODY("\xf5\x80\x80\x80")},
        {BODY("\xff")},
        {BODY("\xe2\x82\xc0")}, /* a bad third byte */
        {BODY("\xc3\x28")},     /* a bad second byte */
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        uint8_t body[16] = {0x12, (uint8_t)bad[i].size};
        memcpy(body + 2, bad[i].bytes, bad[i].size);
        assert_refused(LQ_MESSAGE_ERROR, body, 2 + bad[i].size, LIGHTQ_EPROTO, "text: not UTF-8 text without zeros");
    }
    static const char good[] = "\x12\x0f"
                               "a\xc3\xa9\xe2\x82\xac\xed\x9f\xbf\xf4\x8f\xbf\xbf\x7f\x01";
    Lightq__Wire__Error *in;
    assert_int_equal(lq_unpack_error(good, sizeof good - 1, &in, NULL), LIGHTQ_OK);
    assert_int_equal(strlen(in->text), 15);
    lq_codec_free(in);
}

static void test_codec_too_long_text_is_eproto(void **state)
{
    (void)state;
    struct lq_writer body;
    lq_writer_init(&body, 100000);
    lq_write_u8(&body, 0x12);
    lq_write_varint(&body, LQ_CODEC_STRING_BYTES_MAX + 1);
    memset(lq_write_space(&body, LQ_CODEC_STRING_BYTES_MAX + 1), 'x', LQ_CODEC_STRING_BYTES_MAX + 1);
    assert_refused(LQ_MESSAGE_ERROR, body.bytes, body.size, LIGHTQ_EPROTO, "text: 4097 bytes, and 4096 are allowed");
    body.size = 0;
    lq_write_u8(&body, 0x0a);
    lq_write_varint(&body, LQ_CODEC_STRING_BYTES_MAX + 1);
    (void)lq_write_space(&body, LQ_CODEC_STRING_BYTES_MAX + 1);
    assert_refused(LQ_MESSAGE_PRODUCE, body.bytes, body.size, LIGHTQ_EPROTO, "topic: 4097 bytes, and 4096 are allowed");
    lq_writer_deinit(&body);
}

static void test_codec_too_many_elements_are_eproto(void **state)
{
    (void)state;
    enum { ALLOWED = 256 }; /* of TOPIC_CREATE, in LQ_MESSAGE_TABLE */
    uint8_t body[2 * (ALLOWED + 1)];
    for (size_t i = 0; i < sizeof body; i += 2) {
        body[i] = 0x22; /* an empty config pair */
        body[i + 1] = 0;
    }
    assert_refused(LQ_MESSAGE_TOPIC_CREATE, body, sizeof body, LIGHTQ_EPROTO, "config: too many elements");
    Lightq__Wire__TopicCreate *in;
    assert_int_equal(lq_unpack_topic_create(body, sizeof body - 2, &in, NULL), LIGHTQ_OK);
    assert_int_equal(in->n_config, ALLOWED);
    assert_string_equal(in->config[ALLOWED - 1]->name, "");
    lq_codec_free(in);
}

static void test_codec_too_many_packed_elements_are_eproto(void **state)
{
    (void)state;
    enum { PACKED = 262144 }; /* the whole share of METADATA_ANSWER, plus the two messages around */
    struct lq_writer partition, body;
    lq_writer_init(&partition, LQ_CLIENT_BODY_BYTES_MAX);
    lq_writer_init(&body, LQ_CLIENT_BODY_BYTES_MAX);
    lq_write_u8(&partition, 0x22); /* replicas, packed */
    lq_write_varint(&partition, PACKED);
    memset(lq_write_space(&partition, PACKED), 1, PACKED);
    lq_write_u8(&body, 0x3a); /* topics */
    lq_write_varint(&body, partition.size + 4);
    lq_write_u8(&body, 0x3a); /* partitions */
    lq_write_varint(&body, partition.size);
    lq_write_bytes(&body, partition.bytes, partition.size);
    assert_int_equal(body.status, LIGHTQ_OK);
    assert_refused(LQ_MESSAGE_METADATA_ANSWER, body.bytes, body.size, LIGHTQ_EPROTO, "replicas: too many elements");
    lq_writer_deinit(&partition);
    lq_writer_deinit(&body);
}

static void test_codec_bad_packed_values_are_eproto(void **state)
{
    (void)state;
    /* topics { partitions { replicas: packed, cut in its only varint } } */
    assert_refused(LQ_MESSAGE_METADATA_ANSWER, BODY("\x3a\x05\x3a\x03\x22\x01\x80"), LIGHTQ_EPROTO,
                   "replicas: bad packed values");
    assert_refused(LQ_MESSAGE_METADATA_ANSWER, BODY("\x3a\x09\x3a\x07\x22\x05\xff\xff\xff\xff\x10"), LIGHTQ_EPROTO,
                   "replicas: bad packed values");
}

static void test_codec_unpacked_repeated_numbers_are_taken_too(void **state)
{
    (void)state;
    static const char body[] = "\x3a\x06\x3a\x04\x20\x07\x20\x08";
    Lightq__Wire__MetadataAnswer *in;
    assert_int_equal(lq_unpack_metadata_answer(body, sizeof body - 1, &in, NULL), LIGHTQ_OK);
    assert_int_equal(in->topics[0]->partitions[0]->n_replicas, 2);
    assert_int_equal(in->topics[0]->partitions[0]->replicas[1], 8);
    lq_codec_free(in);
}

static void test_codec_unknown_fields_are_skipped_up_to_a_bound(void **state)
{
    (void)state;
    uint8_t body[2 * (LQ_CODEC_UNKNOWN_MAX + 1)];
    for (size_t i = 0; i < sizeof body; i += 2) {
        body[i] = 0x78; /* field 15, a varint */
        body[i + 1] = 1;
    }
    assert_refused(LQ_MESSAGE_CREDIT, body, sizeof body, LIGHTQ_EPROTO,
                   "too many fields that this version does not know");
    body[0] = 0x10; /* the first one is known: messages */
    body[1] = 9;
    Lightq__Wire__Credit *in;
    assert_int_equal(lq_unpack_credit(body, sizeof body, &in, NULL), LIGHTQ_OK);
    assert_int_equal(in->messages, 9);
    lq_codec_free(in);

    struct lq_writer large;
    lq_writer_init(&large, LQ_CLIENT_BODY_BYTES_MAX);
    lq_write_u8(&large, 0x7a);
    lq_write_varint(&large, LQ_CODEC_UNKNOWN_BYTES_MAX);
    (void)memset(lq_write_space(&large, LQ_CODEC_UNKNOWN_BYTES_MAX), 0, LQ_CODEC_UNKNOWN_BYTES_MAX);
    assert_refused(LQ_MESSAGE_CREDIT, large.bytes, large.size, LIGHTQ_EPROTO,
                   "too many fields that this version does not know");
    lq_writer_deinit(&large);
}

static void test_codec_frame_above_the_body_limit_is_etoobig(void **state)
{
    (void)state;
    char *text = malloc(LQ_CLIENT_BODY_BYTES_MAX + 1);
    memset(text, 'x', LQ_CLIENT_BODY_BYTES_MAX);
    text[LQ_CLIENT_BODY_BYTES_MAX] = '\0';
    Lightq__Wire__Error error = LIGHTQ__WIRE__ERROR__INIT;
    error.text = text;
    struct lq_envelope envelope = {.type = LQ_MESSAGE_ERROR};
    struct lq_writer writer;
    lq_writer_init(&writer, SIZE_MAX);

    assert_int_equal(lq_codec_frame(&envelope, &error.base, &writer), LIGHTQ_ETOOBIG);

    assert_int_equal(writer.size, 0);
    assert_int_equal(writer.status, LIGHTQ_OK);
    free(text);
    lq_writer_deinit(&writer);
}

static void test_codec_frame_above_the_writers_limit_is_etoobig(void **state)
{
    (void)state;
    Lightq__Wire__Error error = LIGHTQ__WIRE__ERROR__INIT;
    error.status = 5;
    struct lq_envelope envelope = {.type = LQ_MESSAGE_ERROR};
    struct lq_writer writer;
    lq_writer_init(&writer, LQ_ENVELOPE_BYTES + 1);
    assert_int_equal(lq_codec_frame(&envelope, &error.base, &writer), LIGHTQ_ETOOBIG);
    assert_int_equal(writer.size, 0);
    error.status = 0; /* an empty body fits */
    assert_int_equal(lq_codec_frame(&envelope, &error.base, &writer), LIGHTQ_OK);
    assert_int_equal(writer.size, LQ_ENVELOPE_BYTES);
    lq_writer_deinit(&writer);
}

static void test_codec_frame_without_memory_is_enomem(void **state)
{
    (void)state;
    Lightq__Wire__Error error = LIGHTQ__WIRE__ERROR__INIT;
    struct lq_envelope envelope = {.type = LQ_MESSAGE_ERROR};
    struct lq_writer writer;
    lq_writer_init(&writer, 1000);
    lq_alloc_fail_at(1);
    assert_int_equal(lq_codec_frame(&envelope, &error.base, &writer), LIGHTQ_ENOMEM);
    assert_true(lq_alloc_fail_end());
    assert_int_equal(writer.size, 0);
    lq_writer_deinit(&writer);
}

static void test_codec_unpack_with_any_allocation_failing_is_enomem(void **state)
{
    (void)state;
    struct lq_writer writer;
    pack_metadata(&writer);
    size_t size;
    const uint8_t *body = body_of(&writer, &size);
    unsigned nth = 1;
    for (;; nth++) {
        struct lq_err err;
        Lightq__Wire__MetadataAnswer *in;
        lq_alloc_fail_at(nth);
        lightq_status status = lq_unpack_metadata_answer(body, size, &in, &err);
        if (!lq_alloc_fail_end()) {
            assert_int_equal(status, LIGHTQ_OK);
            lq_codec_free(in);
            break;
        }
        assert_int_equal(status, LIGHTQ_ENOMEM);
        assert_string_equal(err.text, "out of memory for a message of type METADATA_ANSWER");
        assert_null(in);
    }
    assert_true(nth > 8);
    lq_writer_deinit(&writer);
}

static void test_codec_id_of_another_length_is_eproto(void **state)
{
    (void)state;
    uint8_t bytes[17] = {1};
    struct lq_id id;
    for (size_t size = 0; size <= sizeof bytes; size++) {
        ProtobufCBinaryData field = {.len = size, .data = bytes};
        assert_int_equal(lq_codec_id(&field, &id), size == 16 ? LIGHTQ_OK : LIGHTQ_EPROTO);
    }
    assert_int_equal(id.bytes[0], 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_codec_every_type_goes_there_and_back),
        cmocka_unit_test(test_codec_nested_fields_go_there_and_back),
        cmocka_unit_test(test_codec_every_cut_of_a_body_is_refused_or_sound),
        cmocka_unit_test(test_codec_unknown_type_is_eunsupported),
        cmocka_unit_test(test_codec_body_above_the_limit_is_etoobig),
        cmocka_unit_test(test_codec_bytes_that_are_no_fields_are_eproto),
        cmocka_unit_test(test_codec_field_that_is_not_whole_is_eproto),
        cmocka_unit_test(test_codec_field_of_another_type_is_eproto),
        cmocka_unit_test(test_codec_field_given_twice_is_eproto),
        cmocka_unit_test(test_codec_deep_nesting_needs_no_stack),
        cmocka_unit_test(test_codec_text_that_is_not_utf8_is_eproto),
        cmocka_unit_test(test_codec_too_long_text_is_eproto),
        cmocka_unit_test(test_codec_too_many_elements_are_eproto),
        cmocka_unit_test(test_codec_too_many_packed_elements_are_eproto),
        cmocka_unit_test(test_codec_bad_packed_values_are_eproto),
        cmocka_unit_test(test_codec_unpacked_repeated_numbers_are_taken_too),
        cmocka_unit_test(test_codec_unknown_fields_are_skipped_up_to_a_bound),
        cmocka_unit_test(test_codec_frame_above_the_body_limit_is_etoobig),
        cmocka_unit_test(test_codec_frame_above_the_writers_limit_is_etoobig),
        cmocka_unit_test(test_codec_frame_without_memory_is_enomem),
        cmocka_unit_test(test_codec_unpack_with_any_allocation_failing_is_enomem),
        cmocka_unit_test(test_codec_id_of_another_length_is_eproto),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
