/* client/wire/zmtp.h - the bytes of a ZMTP 3 connection (RFC 23 and RFC 37 of the ZeroMQ project) with the NULL
 * mechanism: what lies under the frames of our client protocol (frame.h). Any ZeroMQ library can talk to it.
 *
 *     greeting  64 bytes from each side: FF, 8 bytes, 7F | version 3, minor | "NULL", padded to 20 | as-server | 31
 * zeros READY     from each side: a command with properties, name (u8 length) and value (u32 length, big endian)
 *     traffic   frames: flags u8 (MORE, LONG, COMMAND) | length u8, or u64 big endian when LONG | bytes
 *
 * Pure functions for both sides, no state and no I/O; any thread. Called by client/lib/link.c and node/. */
#ifndef LQ_WIRE_ZMTP_H
#define LQ_WIRE_ZMTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/base/err.h"

#define LQ_ZMTP_GREETING_BYTES    64
#define LQ_ZMTP_HEAD_BYTES_MAX    9
#define LQ_ZMTP_READY_BYTES       64  /* of the one that we send, with its head: room enough */
#define LQ_ZMTP_COMMAND_BYTES_MAX 512 /* a longer command is not for us and breaks the connection */
#define LQ_ZMTP_CONTEXT_BYTES_MAX 16  /* of a PING */
#define LQ_ZMTP_TYPE_BYTES        16  /* a socket type with its zero */

#define LQ_ZMTP_MORE    0x01u
#define LQ_ZMTP_LONG    0x02u
#define LQ_ZMTP_COMMAND 0x04u

struct lq_zmtp_head {
    unsigned flags;   /* LQ_ZMTP_MORE, LQ_ZMTP_COMMAND */
    size_t head_size; /* bytes the head itself takes */
    uint64_t size;    /* bytes that follow it */
};

struct lq_zmtp_ready {
    char socket_type[LQ_ZMTP_TYPE_BYTES]; /* "" when it does not say */
    size_t identity_size;                 /* of the routing id that it wants; 0: none */
};

enum lq_zmtp_command {
    LQ_ZMTP_READY,
    LQ_ZMTP_ERROR,
    LQ_ZMTP_PING,
    LQ_ZMTP_PONG,
    LQ_ZMTP_OTHER, /* well formed, and not for us */
};

void lq_zmtp_greeting_write(uint8_t greeting[LQ_ZMTP_GREETING_BYTES]);
/* Looks at the first @size bytes of the other side's greeting; may be asked again as more come. OK: sound so far.
 * EPROTO: not ZMTP 3, or another mechanism. */
lightq_status lq_zmtp_greeting_check(const uint8_t *bytes, size_t size, struct lq_err *err) LQ_MUST_CHECK;

/* Writes the head of a frame of @size bytes; returns how long the head is. */
size_t lq_zmtp_head_write(uint8_t head[LQ_ZMTP_HEAD_BYTES_MAX], unsigned flags, uint64_t size);
/* Reads a head. OK: with head->head_size 0 when @size bytes are too few to tell. EPROTO: flags that do not exist, or a
 * command with MORE or longer than LQ_ZMTP_COMMAND_BYTES_MAX. */
lightq_status lq_zmtp_head_read(const uint8_t *bytes, size_t size, struct lq_zmtp_head *head,
                                struct lq_err *err) LQ_MUST_CHECK;

/* Writes READY, head and all, for a socket of @type (at most 15 characters); returns how long it is. */
size_t lq_zmtp_ready_write(uint8_t bytes[LQ_ZMTP_READY_BYTES], const char *type);
/* Takes the bytes behind the word READY apart. EPROTO: properties that do not meet their lengths. */
lightq_status lq_zmtp_ready_read(const uint8_t *bytes, size_t size, struct lq_zmtp_ready *ready,
                                 struct lq_err *err) LQ_MUST_CHECK;

/* Which command the @size bytes of a command frame are, and where its content is. EPROTO: no name in it. */
lightq_status lq_zmtp_command_read(const uint8_t *bytes, size_t size, enum lq_zmtp_command *command,
                                   const uint8_t **content, size_t *content_size, struct lq_err *err) LQ_MUST_CHECK;

#define LQ_ZMTP_PING_BYTES 9
#define LQ_ZMTP_PONG_BYTES (7 + LQ_ZMTP_CONTEXT_BYTES_MAX)
/* A PING without a context; @ttl_ds: after how many tenths of a second of silence the other side may give up. */
void lq_zmtp_ping_write(uint8_t bytes[LQ_ZMTP_PING_BYTES], uint16_t ttl_ds);
/* The PONG to the PING with this @content; returns how long it is. EPROTO (0): a PING too short, or its context too
 * long. */
size_t lq_zmtp_pong_write(uint8_t bytes[LQ_ZMTP_PONG_BYTES], const uint8_t *content, size_t content_size);

#endif
