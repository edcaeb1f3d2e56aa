/* client/wire/scan.c - looking through protobuf bytes before anything is allocated for them.
 *
 * protobuf-c allocates as it goes, and two bytes (an empty message in a repeated field) can cost a hundred. So the
 * bytes are walked first, by the generated descriptors, on the stack: shapes, lengths, counts, text. What passes here
 * protobuf-c takes, and it cannot need more than the type's share of elements. Nesting is as deep as the schema, which
 * has no cycles. Called by codec.c only. */
#include "client/wire/scan.h"

#include <assert.h>
#include <stdbool.h>

#include "client/base/buf.h"
#include "client/wire/codec.h"

#define FIELD_NUMBER_MAX 536870911u /* 2^29 - 1, protobuf's own limit */
#define FIELDS_MAX       64         /* of one message of ours: the bits of the set of fields seen */
#define WIRE_TYPE_BITS   3

struct scan {
    size_t elements_left;
    size_t unknown_left;
    size_t unknown_bytes_left;
    struct lq_err *err;
};

static lightq_status scan_fields(struct scan *scan, const ProtobufCMessageDescriptor *descriptor,
                                 struct lq_reader *reader);

/* Whether the bytes are UTF-8 (RFC 3629: shortest forms, no surrogates, at most U+10FFFF) without U+0000. */
static bool is_text(const uint8_t *bytes, size_t size)
{
    size_t at = 0;
    while (at < size) {
        uint8_t first = bytes[at++];
        unsigned more;
        uint8_t least = 0x80, most = 0xbf; /* of the second byte */
        if (first < 0x80) {
            if (first == 0) {
                return false;
            }
            continue;
        }
        if (first >= 0xc2 && first <= 0xdf) {
            more = 1;
        } else if (first >= 0xe0 && first <= 0xef) {
            more = 2;
            least = first == 0xe0 ? 0xa0 : 0x80;
            most = first == 0xed ? 0x9f : 0xbf;
        } else if (first >= 0xf0 && first <= 0xf4) {
            more = 3;
            least = first == 0xf0 ? 0x90 : 0x80;
            most = first == 0xf4 ? 0x8f : 0xbf;
        } else {
            return false;
        }
        for (; more > 0; more--, at++, least = 0x80, most = 0xbf) {
            if (at == size || bytes[at] < least || bytes[at] > most) {
                return false;
            }
        }
    }
    return true;
}

/* The wire type that a single value of @type has. */
static unsigned wire_type_of(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_FLOAT:
        return PROTOBUF_C_WIRE_TYPE_32BIT;
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return PROTOBUF_C_WIRE_TYPE_64BIT;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE:
        return PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED;
    default:
        return PROTOBUF_C_WIRE_TYPE_VARINT;
    }
}

/* Reads over one value of @wire_type; of a length-prefixed one *content is a reader of its bytes. */
static bool skip_value(struct lq_reader *reader, unsigned wire_type, struct lq_reader *content, uint64_t *varint)
{
    *varint = 0;
    switch (wire_type) {
    case PROTOBUF_C_WIRE_TYPE_VARINT:
        *varint = lq_read_varint(reader);
        break;
    case PROTOBUF_C_WIRE_TYPE_64BIT:
        (void)lq_read_u64(reader);
        break;
    case PROTOBUF_C_WIRE_TYPE_32BIT:
        (void)lq_read_u32(reader);
        break;
    case PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED: {
        uint64_t size = lq_read_varint(reader);
        const uint8_t *bytes = size > lq_reader_left(reader) ? NULL : lq_read_bytes(reader, (size_t)size);
        if (bytes == NULL) {
            return false;
        }
        *content = lq_reader_of(bytes, (size_t)size);
        break;
    }
    default:
        return false; /* groups are not proto3 */
    }
    return !reader->failed;
}

static lightq_status scan_unknown(struct scan *scan, size_t size)
{
    if (scan->unknown_left == 0 || size > scan->unknown_bytes_left) {
        return lq_err_set(scan->err, LIGHTQ_EPROTO, "too many fields that this version does not know");
    }
    scan->unknown_left--;
    scan->unknown_bytes_left -= size;
    return LIGHTQ_OK;
}

static lightq_status count_element(struct scan *scan, const ProtobufCFieldDescriptor *field)
{
    if (scan->elements_left == 0) {
        return lq_err_set(scan->err, LIGHTQ_EPROTO, "%s: too many elements", field->name);
    }
    scan->elements_left--;
    return LIGHTQ_OK;
}

static bool fits_type(const ProtobufCFieldDescriptor *field, uint64_t varint)
{
    return field->type != PROTOBUF_C_TYPE_UINT32 || varint <= UINT32_MAX;
}

/* A repeated number field may come packed: its values one behind the other in one length-prefixed value. */
static lightq_status scan_packed(struct scan *scan, const ProtobufCFieldDescriptor *field, struct lq_reader *content)
{
    while (lq_reader_left(content) > 0) {
        struct lq_reader unused;
        uint64_t varint;
        if (!skip_value(content, wire_type_of(field->type), &unused, &varint) || !fits_type(field, varint)) {
            return lq_err_set(scan->err, LIGHTQ_EPROTO, "%s: bad packed values", field->name);
        }
        lightq_status status = count_element(scan, field);
        if (status != LIGHTQ_OK) {
            return status;
        }
    }
    return LIGHTQ_OK;
}

static lightq_status scan_content(struct scan *scan, const ProtobufCFieldDescriptor *field, struct lq_reader *content)
{
    if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
        return scan_fields(scan, field->descriptor, content);
    }
    if (content->size > LQ_CODEC_STRING_BYTES_MAX) {
        return lq_err_set(scan->err, LIGHTQ_EPROTO, "%s: %zu bytes, and %d are allowed", field->name, content->size,
                          LQ_CODEC_STRING_BYTES_MAX);
    }
    if (field->type == PROTOBUF_C_TYPE_STRING && !is_text(content->bytes, content->size)) {
        return lq_err_set(scan->err, LIGHTQ_EPROTO, "%s: not UTF-8 text without zeros", field->name);
    }
    return LIGHTQ_OK;
}

static lightq_status scan_field(struct scan *scan, const ProtobufCFieldDescriptor *field, unsigned wire_type,
                                struct lq_reader *reader)
{
    struct lq_reader content = lq_reader_of(NULL, 0);
    uint64_t varint;
    unsigned expected = wire_type_of(field->type);
    bool repeated = field->label == PROTOBUF_C_LABEL_REPEATED;
    bool packed = repeated && expected != PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED &&
                  wire_type == PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED;
    if ((wire_type != expected && !packed) || !skip_value(reader, wire_type, &content, &varint) ||
        !fits_type(field, varint)) {
        return lq_err_set(scan->err, LIGHTQ_EPROTO, "%s: not a whole value of its type", field->name);
    }
    if (packed) {
        return scan_packed(scan, field, &content);
    }
    lightq_status status = repeated ? count_element(scan, field) : LIGHTQ_OK;
    if (status == LIGHTQ_OK && wire_type == PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED) {
        status = scan_content(scan, field, &content);
    }
    return status;
}

static lightq_status scan_fields(struct scan *scan, const ProtobufCMessageDescriptor *descriptor,
                                 struct lq_reader *reader)
{
    assert(descriptor->n_fields <= FIELDS_MAX);
    uint64_t seen = 0;
    while (lq_reader_left(reader) > 0) {
        size_t begin = reader->position;
        uint64_t tag = lq_read_varint(reader);
        uint64_t number = tag >> WIRE_TYPE_BITS;
        unsigned wire_type = tag & ((1u << WIRE_TYPE_BITS) - 1);
        if (reader->failed || number == 0 || number > FIELD_NUMBER_MAX) {
            return lq_err_set(scan->err, LIGHTQ_EPROTO, "%s: bytes that are not fields", descriptor->short_name);
        }
        const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field(descriptor, (unsigned)number);
        lightq_status status;
        if (field == NULL) {
            struct lq_reader content;
            uint64_t varint;
            if (!skip_value(reader, wire_type, &content, &varint)) {
                return lq_err_set(scan->err, LIGHTQ_EPROTO, "%s: field %u is not whole", descriptor->short_name,
                                  (unsigned)number);
            }
            status = scan_unknown(scan, reader->position - begin);
        } else {
            uint64_t bit = UINT64_C(1) << (field - descriptor->fields);
            if (field->label != PROTOBUF_C_LABEL_REPEATED && (seen & bit) != 0) {
                return lq_err_set(scan->err, LIGHTQ_EPROTO, "%s: given twice", field->name);
            }
            seen |= bit;
            status = scan_field(scan, field, wire_type, reader);
        }
        if (status != LIGHTQ_OK) {
            return status;
        }
    }
    return LIGHTQ_OK;
}

lightq_status lq_scan_message(const ProtobufCMessageDescriptor *descriptor, const void *bytes, size_t size,
                              size_t elements_max, struct lq_err *err)
{
    struct scan scan = {.elements_left = elements_max,
                        .unknown_left = LQ_CODEC_UNKNOWN_MAX,
                        .unknown_bytes_left = LQ_CODEC_UNKNOWN_BYTES_MAX,
                        .err = err};
    struct lq_reader reader = lq_reader_of(bytes, size);
    return scan_fields(&scan, descriptor, &reader);
}
