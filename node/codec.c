/* node/codec.c - see codec.h. */
#include "node/codec.h"

#include <string.h>

void lq_write_id(struct lq_writer *writer, const struct lq_id *id)
{
    lq_write_bytes(writer, id->bytes, sizeof id->bytes);
}

struct lq_id lq_read_id(struct lq_reader *reader)
{
    struct lq_id id = {.bytes = {0}};
    const uint8_t *bytes = lq_read_bytes(reader, sizeof id.bytes);
    if (bytes != NULL) {
        memcpy(id.bytes, bytes, sizeof id.bytes);
    }
    return id;
}

void lq_write_endpoint(struct lq_writer *writer, const struct lq_endpoint *endpoint)
{
    size_t size = strlen(endpoint->host);
    lq_write_u8(writer, (uint8_t)size);
    lq_write_bytes(writer, endpoint->host, size);
    lq_write_u16(writer, endpoint->port);
}

void lq_read_endpoint(struct lq_reader *reader, struct lq_endpoint *endpoint)
{
    *endpoint = (struct lq_endpoint){.port = 0};
    size_t size = lq_read_u8(reader);
    const uint8_t *host = lq_read_bytes(reader, size);
    endpoint->port = lq_read_u16(reader);
    if (reader->failed || size == 0) {
        reader->failed = true;
        return;
    }
    for (size_t i = 0; i < size; i++) {
        if (host[i] <= ' ' || host[i] >= 0x7f) {
            reader->failed = true;
            return;
        }
    }
    memcpy(endpoint->host, host, size);
}

void lq_write_founders(struct lq_writer *writer, const struct lq_founders *founders)
{
    lq_write_u32(writer, founders->count);
    for (uint32_t i = 0; i < founders->count; i++) {
        const struct lq_founder *founder = &founders->at[i];
        lq_write_u32(writer, founder->node);
        lq_write_id(writer, &founder->uuid);
        lq_write_endpoint(writer, &founder->client);
        lq_write_endpoint(writer, &founder->peer);
    }
}

void lq_read_founders(struct lq_reader *reader, struct lq_founders *founders)
{
    *founders = (struct lq_founders){.count = 0};
    uint32_t count = lq_read_u32(reader);
    if (count > LQ_FOUNDERS_MAX) {
        reader->failed = true;
    }
    uint32_t before = 0;
    for (uint32_t i = 0; i < count && !reader->failed; i++) {
        struct lq_founder *founder = &founders->at[i];
        founder->node = lq_read_u32(reader);
        founder->uuid = lq_read_id(reader);
        lq_read_endpoint(reader, &founder->client);
        lq_read_endpoint(reader, &founder->peer);
        if (founder->node <= before || founder->node > LQ_NODES_MAX || lq_id_is_zero(&founder->uuid)) {
            reader->failed = true;
        }
        before = founder->node;
        founders->count++;
    }
}

const struct lq_founder *lq_founder_find(const struct lq_founders *founders, uint32_t node)
{
    for (uint32_t i = 0; i < founders->count; i++) {
        if (founders->at[i].node == node) {
            return &founders->at[i];
        }
    }
    return NULL;
}

void lq_write_text(struct lq_writer *writer, const char *text)
{
    size_t size = strlen(text);
    if (size > LQ_ERR_TEXT_BYTES - 1) {
        size = LQ_ERR_TEXT_BYTES - 1;
    }
    lq_write_u16(writer, (uint16_t)size);
    lq_write_bytes(writer, text, size);
}

void lq_read_text(struct lq_reader *reader, char *text, size_t size)
{
    text[0] = '\0';
    size_t length = lq_read_u16(reader);
    const uint8_t *bytes = lq_read_bytes(reader, length);
    if (reader->failed) {
        return;
    }
    for (size_t i = 0; i < length; i++) {
        if (bytes[i] < ' ' || bytes[i] == 0x7f) {
            reader->failed = true;
            return;
        }
    }
    size_t kept = length < size ? length : size - 1;
    memcpy(text, bytes, kept);
    text[kept] = '\0';
}
