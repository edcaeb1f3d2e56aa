/* tests/unit/node/client_fixture.h - clients without a network: an outlet that keeps what is sent, and a clock set by
 * hand. */
#ifndef LQ_TESTS_CLIENT_FIXTURE_H
#define LQ_TESTS_CLIENT_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/base/clock.h"
#include "client/base/log.h"
#include "client/wire/codec.h"
#include "node/outlet.h"

#define SENT_MAX 8192

struct hand_clock {
    struct lq_clock clock;
    uint64_t now_us;
    uint64_t state;
};

static inline uint64_t hand_monotonic_us(struct lq_clock *clock)
{
    return ((struct hand_clock *)clock)->now_us;
}

static inline uint64_t hand_wall_ms(struct lq_clock *clock)
{
    return UINT64_C(1700000000000) + ((struct hand_clock *)clock)->now_us / 1000;
}

static inline void hand_random(struct lq_clock *clock, void *out, size_t size)
{
    struct hand_clock *hand = (struct hand_clock *)clock;
    uint8_t *bytes = out;
    for (size_t i = 0; i < size; i++) {
        hand->state = hand->state * UINT64_C(6364136223846793005) + 1442695040888963407u;
        bytes[i] = (uint8_t)(hand->state >> 56);
    }
}

static inline void hand_clock_init(struct hand_clock *hand)
{
    *hand = (struct hand_clock){
        .clock = {.monotonic_us = hand_monotonic_us, .wall_ms = hand_wall_ms, .random = hand_random},
        .now_us = 1000000,
        .state = 42};
}

/* A message that was sent, decoded. */
struct sent_message {
    lq_peer peer;
    struct lq_envelope envelope;
    void *body;
    struct lq_slab *payload; /* referenced */
    uint32_t payload_offset, payload_size;
};

struct fake_outlet {
    struct lq_outlet outlet;
    struct sent_message sent[SENT_MAX];
    size_t count, seen;   /* seen: how many the test has taken */
    lightq_status status; /* what send gives, when not OK */
    size_t room;          /* messages until it gives EBUSY; SIZE_MAX: no bound */
    uint64_t queued;      /* what it says is on its way, to all */
    uint64_t queued_to;   /* the same, to anyone of them */
    bool blind;           /* takes everything and looks at nothing */
    unsigned closed;      /* connections that were to be closed */
    lq_peer last_closed;
    enum lq_outlet_close last_close;
};

static inline lightq_status fake_send(struct lq_outlet *outlet, lq_peer peer, const struct lq_packet *packet)
{
    struct fake_outlet *fake = (struct fake_outlet *)outlet;
    const uint8_t *body;
    if (fake->status != LIGHTQ_OK) {
        return fake->status;
    }
    if (fake->room == 0) {
        return LIGHTQ_EBUSY;
    }
    fake->room -= fake->room != SIZE_MAX;
    if (fake->blind) {
        return LIGHTQ_OK;
    }
    assert_true(fake->count < SENT_MAX);
    struct sent_message *sent = &fake->sent[fake->count++];
    *sent = (struct sent_message){.peer = peer};
    assert_int_equal(lq_frame_decode(packet->frame, packet->frame_size, &sent->envelope, &body, NULL), LIGHTQ_OK);
    assert_int_equal(lq_codec_unpack(sent->envelope.type, body, sent->envelope.body_size, &sent->body, NULL),
                     LIGHTQ_OK);
    assert_int_equal((sent->envelope.flags & LQ_ENVELOPE_FLAG_PAYLOAD) != 0, packet->payload != NULL);
    if (packet->payload != NULL) {
        sent->payload = lq_slab_ref(packet->payload);
        sent->payload_offset = packet->payload_offset;
        sent->payload_size = packet->payload_size;
    }
    return LIGHTQ_OK;
}

static inline void fake_close(struct lq_outlet *outlet, lq_peer peer, enum lq_outlet_close how)
{
    struct fake_outlet *fake = (struct fake_outlet *)outlet;
    fake->closed++;
    fake->last_closed = peer;
    fake->last_close = how;
}

static inline uint64_t fake_queued_to(struct lq_outlet *outlet, lq_peer peer)
{
    (void)peer;
    return ((struct fake_outlet *)outlet)->queued_to;
}

static inline uint64_t fake_queued(struct lq_outlet *outlet)
{
    return ((struct fake_outlet *)outlet)->queued;
}

static inline void outlet_init(struct fake_outlet *fake)
{
    memset(fake, 0, sizeof *fake);
    fake->outlet =
        (struct lq_outlet){.send = fake_send, .close = fake_close, .queued_to = fake_queued_to, .queued = fake_queued};
    fake->room = SIZE_MAX;
}

static inline void outlet_forget(struct fake_outlet *fake)
{
    for (size_t i = 0; i < fake->count; i++) {
        struct sent_message *sent = &fake->sent[i];
        lq_codec_free(sent->body);
        lq_slab_unref(sent->payload);
    }
    fake->count = fake->seen = 0;
}

/* The next message that the test has not taken yet, which must be of @type and to @peer. */
static inline const struct sent_message *outlet_take(struct fake_outlet *fake, lq_peer peer, uint16_t type)
{
    if (fake->seen == fake->count) {
        fail_msg("nothing was sent; %s is missing", lq_message_name(type));
    }
    const struct sent_message *sent = &fake->sent[fake->seen++];
    if (sent->envelope.type != type) {
        print_message("sent: %s, expected: %s\n", lq_message_name(sent->envelope.type), lq_message_name(type));
    }
    assert_int_equal(sent->envelope.type, type);
    assert_int_equal(sent->peer, peer);
    return sent;
}

static inline size_t outlet_left(const struct fake_outlet *fake)
{
    return fake->count - fake->seen;
}

#endif
