/* client/wire/zmtp.c - see zmtp.h. */
#include "client/wire/zmtp.h"

#include <string.h>
#include <strings.h>

#define SIGNATURE_BYTES 10
#define VERSION_AT      10
#define VERSION         3
#define VERSION_MINOR   1
#define MECHANISM_AT    12
#define MECHANISM_BYTES 20
#define SHORT_MAX       255
#define LONG_BYTES      8
#define TTL_BYTES       2
#define BITS_PER_BYTE   8

static const uint8_t mechanism[MECHANISM_BYTES] = "NULL";

/* ---- greeting */

void lq_zmtp_greeting_write(uint8_t greeting[LQ_ZMTP_GREETING_BYTES])
{
    memset(greeting, 0, LQ_ZMTP_GREETING_BYTES);
    greeting[0] = 0xff;
    greeting[SIGNATURE_BYTES - 1] = 0x7f;
    greeting[VERSION_AT] = VERSION;
    greeting[VERSION_AT + 1] = VERSION_MINOR;
    memcpy(greeting + MECHANISM_AT, mechanism, sizeof mechanism);
}

lightq_status lq_zmtp_greeting_check(const uint8_t *bytes, size_t size, struct lq_err *err)
{
    if ((size > 0 && bytes[0] != 0xff) || (size >= SIGNATURE_BYTES && (bytes[SIGNATURE_BYTES - 1] & 1) == 0)) {
        return lq_err_set(err, LIGHTQ_EPROTO, "the other side does not speak ZMTP");
    }
    if (size > VERSION_AT && bytes[VERSION_AT] < VERSION) {
        return lq_err_set(err, LIGHTQ_EPROTO, "the other side speaks ZMTP %u, not 3", bytes[VERSION_AT]);
    }
    if (size >= MECHANISM_AT + MECHANISM_BYTES && memcmp(bytes + MECHANISM_AT, mechanism, sizeof mechanism) != 0) {
        return lq_err_set(err, LIGHTQ_EPROTO, "the other side wants a ZMTP security mechanism other than NULL");
    }
    return LIGHTQ_OK;
}

/* ---- frames */

static void put_big_endian(uint8_t *at, uint64_t value, unsigned bytes)
{
    for (unsigned i = bytes; i > 0; i--) {
        at[i - 1] = (uint8_t)value;
        value >>= BITS_PER_BYTE;
    }
}

static uint64_t get_big_endian(const uint8_t *at, unsigned bytes)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes; i++) {
        value = value << BITS_PER_BYTE | at[i];
    }
    return value;
}

size_t lq_zmtp_head_write(uint8_t head[LQ_ZMTP_HEAD_BYTES_MAX], unsigned flags, uint64_t size)
{
    if (size <= SHORT_MAX) {
        head[0] = (uint8_t)flags;
        head[1] = (uint8_t)size;
        return 2;
    }
    head[0] = (uint8_t)(flags | LQ_ZMTP_LONG);
    put_big_endian(head + 1, size, LONG_BYTES);
    return 1 + LONG_BYTES;
}

lightq_status lq_zmtp_head_read(const uint8_t *bytes, size_t size, struct lq_zmtp_head *head, struct lq_err *err)
{
    *head = (struct lq_zmtp_head){0};
    if (size == 0) {
        return LIGHTQ_OK;
    }
    unsigned flags = bytes[0];
    bool command = (flags & LQ_ZMTP_COMMAND) != 0;
    if ((flags & ~(LQ_ZMTP_MORE | LQ_ZMTP_LONG | LQ_ZMTP_COMMAND)) != 0 || (command && (flags & LQ_ZMTP_MORE) != 0)) {
        return lq_err_set(err, LIGHTQ_EPROTO, "a ZMTP frame with the flags 0x%02x", flags);
    }
    size_t head_size = (flags & LQ_ZMTP_LONG) != 0 ? 1 + LONG_BYTES : 2;
    if (size < head_size) {
        return LIGHTQ_OK;
    }
    head->size = get_big_endian(bytes + 1, (unsigned)head_size - 1);
    if (command && head->size > LQ_ZMTP_COMMAND_BYTES_MAX) {
        return lq_err_set(err, LIGHTQ_EPROTO, "a ZMTP command of %llu bytes", (unsigned long long)head->size);
    }
    head->flags = flags & ~LQ_ZMTP_LONG;
    head->head_size = head_size;
    return LIGHTQ_OK;
}

/* ---- commands */

/* Writes a length of one byte and the characters. */
static uint8_t *put_name(uint8_t *at, const char *name)
{
    size_t size = strlen(name);
    *at = (uint8_t)size;
    memcpy(at + 1, name, size);
    return at + 1 + size;
}

static uint8_t *put_property(uint8_t *at, const char *name, const char *value)
{
    size_t size = strlen(value);
    at = put_name(at, name);
    put_big_endian(at, size, sizeof(uint32_t));
    memcpy(at + sizeof(uint32_t), value, size);
    return at + sizeof(uint32_t) + size;
}

size_t lq_zmtp_ready_write(uint8_t bytes[LQ_ZMTP_READY_BYTES], const char *type)
{
    uint8_t *end = put_name(bytes + 2, "READY");
    end = put_property(end, "Socket-Type", type);
    end = put_property(end, "Identity", "");
    (void)lq_zmtp_head_write(bytes, LQ_ZMTP_COMMAND, (uint64_t)(end - bytes - 2));
    return (size_t)(end - bytes);
}

/* Takes @count bytes off the front; NULL when there are fewer. */
static const uint8_t *take(const uint8_t **at, size_t *left, size_t count)
{
    const uint8_t *taken = *at;
    if (*left < count) {
        return NULL;
    }
    *at += count;
    *left -= count;
    return taken;
}

lightq_status lq_zmtp_ready_read(const uint8_t *bytes, size_t size, struct lq_zmtp_ready *ready, struct lq_err *err)
{
    *ready = (struct lq_zmtp_ready){0};
    while (size > 0) {
        const uint8_t *name_size = take(&bytes, &size, 1);
        const uint8_t *name = take(&bytes, &size, *name_size);
        const uint8_t *value_size = name != NULL ? take(&bytes, &size, sizeof(uint32_t)) : NULL;
        size_t length = value_size != NULL ? (size_t)get_big_endian(value_size, sizeof(uint32_t)) : 0;
        const uint8_t *value = value_size != NULL ? take(&bytes, &size, length) : NULL;
        if (value == NULL || *name_size == 0) {
            return lq_err_set(err, LIGHTQ_EPROTO, "a ZMTP READY whose properties do not meet their lengths");
        }
        if (*name_size == strlen("Socket-Type") && strncasecmp((const char *)name, "Socket-Type", *name_size) == 0 &&
            length < sizeof ready->socket_type) {
            memcpy(ready->socket_type, value, length);
            ready->socket_type[length] = '\0';
        } else if (*name_size == strlen("Identity") && strncasecmp((const char *)name, "Identity", *name_size) == 0) {
            ready->identity_size = length;
        }
    }
    return LIGHTQ_OK;
}

lightq_status lq_zmtp_command_read(const uint8_t *bytes, size_t size, enum lq_zmtp_command *command,
                                   const uint8_t **content, size_t *content_size, struct lq_err *err)
{
    static const struct {
        const char *name;
        enum lq_zmtp_command command;
    } known[] = {{"READY", LQ_ZMTP_READY}, {"ERROR", LQ_ZMTP_ERROR}, {"PING", LQ_ZMTP_PING}, {"PONG", LQ_ZMTP_PONG}};
    const uint8_t *name_size = take(&bytes, &size, 1);
    const uint8_t *name = name_size != NULL ? take(&bytes, &size, *name_size) : NULL;
    if (name == NULL || *name_size == 0) {
        return lq_err_set(err, LIGHTQ_EPROTO, "a ZMTP command without a name");
    }
    *command = LQ_ZMTP_OTHER;
    *content = bytes;
    *content_size = size;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strlen(known[i].name) == *name_size && memcmp(name, known[i].name, *name_size) == 0) {
            *command = known[i].command;
        }
    }
    return LIGHTQ_OK;
}

void lq_zmtp_ping_write(uint8_t bytes[LQ_ZMTP_PING_BYTES], uint16_t ttl_ds)
{
    uint8_t *end = put_name(bytes + 2, "PING");
    put_big_endian(end, ttl_ds, TTL_BYTES);
    (void)lq_zmtp_head_write(bytes, LQ_ZMTP_COMMAND, (uint64_t)(end + TTL_BYTES - bytes - 2));
}

size_t lq_zmtp_pong_write(uint8_t bytes[LQ_ZMTP_PONG_BYTES], const uint8_t *content, size_t content_size)
{
    if (content_size < TTL_BYTES || content_size - TTL_BYTES > LQ_ZMTP_CONTEXT_BYTES_MAX) {
        return 0;
    }
    uint8_t *end = put_name(bytes + 2, "PONG");
    memcpy(end, content + TTL_BYTES, content_size - TTL_BYTES);
    end += content_size - TTL_BYTES;
    (void)lq_zmtp_head_write(bytes, LQ_ZMTP_COMMAND, (uint64_t)(end - bytes - 2));
    return (size_t)(end - bytes);
}
