/* tests/fuzz/fuzz_zmtp.c - bytes of a client port's connection: whatever comes, and however it is cut, the same is made
 * of it, nothing is written beyond a reply, and after a refusal nothing is taken.
 *
 * Byte 0: flags, see below. Byte 1: how the rest is cut. */
#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "node/zmtp.h"

#define FLAG_GREETED    0x01 /* a sound greeting goes first */
#define FLAG_READY      0x02 /* and a sound READY */
#define PREFIX_BYTES    (LQ_ZMTP_GREETING_BYTES + LQ_ZMTP_READY_BYTES)
#define INPUT_BYTES_MAX 4096
#define FRAME_BYTES_MAX 700
#define LONGEST_CUT     97

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What came of the bytes, as a sum over events and bodies. */
struct outcome {
    uint64_t sum;
    unsigned events;
    bool refused, ready;
};

static void add(struct outcome *outcome, const void *bytes, size_t size)
{
    const uint8_t *at = bytes;
    for (size_t i = 0; i < size; i++) {
        outcome->sum = (outcome->sum ^ at[i]) * UINT64_C(0x100000001b3);
    }
}

static void note(struct outcome *outcome, const struct lq_zmtp_news *news, bool *inside)
{
    if (news->event == LQ_ZMTP_NO_NEWS) {
        assert(news->reply_size == 0);
        return;
    }
    assert(!outcome->refused);
    assert(news->reply_size <= sizeof news->reply);
    assert((news->event == LQ_ZMTP_GREETED) == !outcome->ready || news->event == LQ_ZMTP_REFUSED);
    if (news->event == LQ_ZMTP_FRAME) {
        assert(news->size <= FRAME_BYTES_MAX && news->first == !*inside && (news->first || news->last));
        *inside = !news->last;
        add(outcome, &news->size, sizeof news->size);
    } else if (news->event == LQ_ZMTP_MALFORMED) {
        assert(*inside);
        *inside = false;
    } else if (news->event == LQ_ZMTP_GREETED) {
        outcome->ready = true;
    } else if (news->event == LQ_ZMTP_REFUSED) {
        assert(news->err.status != LIGHTQ_OK && news->err.text[0] != '\0');
        outcome->refused = true;
    }
    uint8_t event = (uint8_t)news->event;
    add(outcome, &event, 1);
    add(outcome, news->reply, news->reply_size);
    outcome->events++;
}

static void run(const uint8_t *bytes, size_t size, unsigned cut, struct outcome *outcome)
{
    struct lq_zmtp zmtp;
    bool inside = false;
    memset(outcome, 0, sizeof *outcome);
    lq_zmtp_init(&zmtp, FRAME_BYTES_MAX);
    for (size_t at = 0; at < size;) {
        size_t part = cut == 0 ? size - at : 1 + cut * (at + 1) % LONGEST_CUT;
        part = part < size - at ? part : size - at;
        uint64_t left = lq_zmtp_body_left(&zmtp);
        size_t used;
        if (left > 0) {
            used = part < left ? part : (size_t)left;
            add(outcome, bytes + at, used);
            lq_zmtp_body_taken(&zmtp, used);
        } else {
            struct lq_zmtp_news news;
            lq_zmtp_take(&zmtp, bytes + at, part, &used, &news);
            assert(used > 0 && used <= part);
            note(outcome, &news, &inside);
        }
        at += used;
        assert(lq_zmtp_is_ready(&zmtp) == outcome->ready);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t bytes[PREFIX_BYTES + INPUT_BYTES_MAX];
    size_t used = 0;
    struct outcome whole, cut;
    if (size < 2 || size - 2 > INPUT_BYTES_MAX) {
        return 0;
    }
    if ((data[0] & FLAG_GREETED) != 0) {
        lq_zmtp_greeting_write(bytes);
        used = LQ_ZMTP_GREETING_BYTES;
        if ((data[0] & FLAG_READY) != 0) {
            used += lq_zmtp_ready_write(bytes + used, "DEALER");
        }
    }
    memcpy(bytes + used, data + 2, size - 2);
    used += size - 2;
    run(bytes, used, 0, &whole);
    run(bytes, used, data[1], &cut);
    assert(whole.sum == cut.sum && whole.events == cut.events);
    assert(whole.ready == cut.ready && whole.refused == cut.refused);
    assert((data[0] & FLAG_GREETED) == 0 || (data[0] & FLAG_READY) == 0 || whole.ready);
    return 0;
}
