/* tests/unit/node/test_shard_mail.c - the mailbox between the threads of a node's shards: order, bound, wake-ups, and
 * mail that travels there and back on real threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node/shard_mail.h"
#include "node/totals.h"

#define LETTERS 64
#define ROUNDS  20000
#define THREADS 3

struct letter {
    struct lq_mail mail;
    unsigned number, rounds;
};

/* One box on one loop. What is opened is noted. */
struct fixture {
    uv_loop_t loop;
    struct lq_mailbox box;
    unsigned opened[LQ_MAIL_WAITING_MAX + 2];
    unsigned count;
    struct lq_mail *put_inside; /* while the first is opened */
};

static void on_noted(void *owner, struct lq_mail *mail)
{
    struct fixture *f = owner;
    f->opened[f->count++] = ((struct letter *)mail)->number;
    if (f->put_inside != NULL) {
        struct lq_mail *inside = f->put_inside;
        f->put_inside = NULL;
        lq_mailbox_put(&f->box, inside);
    }
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    struct lq_err err;
    assert_non_null(f);
    assert_int_equal(uv_loop_init(&f->loop), 0);
    assert_int_equal(lq_mailbox_init(&f->box, &f->loop, on_noted, f, &err), LIGHTQ_OK);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    lq_mailbox_close(&f->box);
    lq_mailbox_close(&f->box); /* twice is allowed */
    (void)uv_run(&f->loop, UV_RUN_DEFAULT);
    lq_mailbox_deinit(&f->box);
    int open = uv_loop_close(&f->loop);
    free(f);
    return open;
}

static void test_shard_mail_is_opened_later_in_the_order_of_its_coming(void **state)
{
    struct fixture *f = *state;
    struct letter letters[3] = {{.number = 0}, {.number = 1}, {.number = 2}};
    lq_mailbox_put(&f->box, &letters[0].mail);
    assert_int_equal(lq_mailbox_offer(&f->box, &letters[1].mail), LIGHTQ_OK);
    lq_mailbox_put(&f->box, &letters[2].mail);
    assert_int_equal(f->count, 0); /* never inside the call */

    (void)uv_run(&f->loop, UV_RUN_ONCE);

    assert_int_equal(f->count, 3);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(f->opened[i], i);
    }
}

static void test_shard_mail_put_while_opening_comes_in_another_turn(void **state)
{
    struct fixture *f = *state;
    struct letter first = {.number = 1}, second = {.number = 2};
    f->put_inside = &second.mail;
    lq_mailbox_put(&f->box, &first.mail);

    (void)uv_run(&f->loop, UV_RUN_ONCE);
    assert_int_equal(f->count, 1);
    (void)uv_run(&f->loop, UV_RUN_ONCE);

    assert_int_equal(f->count, 2);
    assert_int_equal(f->opened[1], 2);
}

static void test_shard_mail_offered_to_a_full_box_is_refused_and_answers_are_not(void **state)
{
    struct fixture *f = *state;
    struct letter *letters = calloc(LQ_MAIL_WAITING_MAX + 2, sizeof *letters);
    assert_non_null(letters);
    for (unsigned i = 0; i < LQ_MAIL_WAITING_MAX; i++) {
        letters[i].number = i;
        assert_int_equal(lq_mailbox_offer(&f->box, &letters[i].mail), LIGHTQ_OK);
    }

    assert_int_equal(lq_mailbox_offer(&f->box, &letters[LQ_MAIL_WAITING_MAX].mail), LIGHTQ_EBUSY);
    letters[LQ_MAIL_WAITING_MAX + 1].number = LQ_MAIL_WAITING_MAX + 1;
    lq_mailbox_put(&f->box, &letters[LQ_MAIL_WAITING_MAX + 1].mail);

    (void)uv_run(&f->loop, UV_RUN_ONCE);
    assert_int_equal(f->count, LQ_MAIL_WAITING_MAX + 1);
    assert_int_equal(f->opened[LQ_MAIL_WAITING_MAX], LQ_MAIL_WAITING_MAX + 1);
    assert_int_equal(lq_mailbox_offer(&f->box, &letters[0].mail), LIGHTQ_OK); /* there is room again */
    (void)uv_run(&f->loop, UV_RUN_ONCE);
    assert_int_equal(f->count, LQ_MAIL_WAITING_MAX + 2);
    free(letters);
}

/* ---- on threads: shard 0 and THREADS others, each of which sends LETTERS letters there and back ROUNDS times in all
 */

struct house;

struct shard {
    struct house *house;
    unsigned number;
    uv_loop_t loop;
    struct lq_mailbox box;
    struct letter letters[LETTERS];
    struct letter done, end;
    unsigned home;
    uv_thread_t thread;
};

struct house {
    struct shard shards[THREADS + 1];
    unsigned opened, done; /* by shard 0 only */
};

static void on_shard_mail(void *owner, struct lq_mail *mail)
{
    struct shard *shard = owner;
    struct letter *letter = (struct letter *)mail;
    struct house *house = shard->house;
    if (shard->number == 0 && letter == &house->shards[mail->home].done) {
        if (++house->done == THREADS) {
            for (unsigned i = 1; i <= THREADS; i++) {
                lq_mailbox_put(&house->shards[i].box, &house->shards[i].end.mail);
            }
            lq_mailbox_close(&shard->box);
        }
    } else if (shard->number == 0) {
        house->opened++;
        letter->rounds++; /* it is ours while it is here */
        lq_mailbox_put(&house->shards[mail->home].box, mail);
    } else if (letter == &shard->end) {
        lq_mailbox_close(&shard->box);
    } else if (letter->rounds < ROUNDS / LETTERS) {
        lq_mailbox_put(&house->shards[0].box, mail);
    } else if (++shard->home == LETTERS) {
        lq_mailbox_put(&house->shards[0].box, &shard->done.mail);
    }
}

static void on_thread(void *data)
{
    struct shard *shard = data;
    for (unsigned i = 0; i < LETTERS; i++) {
        lq_mailbox_put(&shard->house->shards[0].box, &shard->letters[i].mail);
    }
    (void)uv_run(&shard->loop, UV_RUN_DEFAULT);
}

static void test_shard_mail_goes_there_and_back_between_threads(void **state)
{
    struct house *house = calloc(1, sizeof *house);
    struct lq_err err;
    (void)state;
    assert_non_null(house);
    for (unsigned i = 0; i <= THREADS; i++) {
        struct shard *shard = &house->shards[i];
        shard->house = house;
        shard->number = i;
        shard->done.mail.home = i;
        for (unsigned j = 0; j < LETTERS; j++) {
            shard->letters[j].mail.home = i;
        }
        assert_int_equal(uv_loop_init(&shard->loop), 0);
        assert_int_equal(lq_mailbox_init(&shard->box, &shard->loop, on_shard_mail, shard, &err), LIGHTQ_OK);
    }
    for (unsigned i = 1; i <= THREADS; i++) {
        assert_int_equal(uv_thread_create(&house->shards[i].thread, on_thread, &house->shards[i]), 0);
    }

    (void)uv_run(&house->shards[0].loop, UV_RUN_DEFAULT);

    for (unsigned i = 1; i <= THREADS; i++) {
        assert_int_equal(uv_thread_join(&house->shards[i].thread), 0);
    }
    assert_int_equal(house->opened, THREADS * LETTERS * (ROUNDS / LETTERS));
    for (unsigned i = 0; i <= THREADS; i++) {
        lq_mailbox_deinit(&house->shards[i].box);
        assert_int_equal(uv_loop_close(&house->shards[i].loop), 0); /* every handle is closed */
    }
    free(house);
}

/* ---- what goes by mail */

static void test_totals_add_up_and_the_oldest_wait_counts(void **state)
{
    struct lq_totals sum = {.leading = 2, .client_queued = 10};
    struct lq_totals other = {.leading = 3, .client_queued = 5};
    (void)state;
    sum.counters.messages_in = UINT64_C(1) << 40;
    other.counters.messages_in = 7;
    sum.store.oldest_pending_us = 30;
    other.store.oldest_pending_us = 20;
    other.host.stalls = 4;
    other.transport.frames_sent = 9;

    lq_totals_add(&sum, &other);

    assert_int_equal(sum.leading, 5);
    assert_int_equal(sum.client_queued, 15);
    assert_true(sum.counters.messages_in == (UINT64_C(1) << 40) + 7);
    assert_int_equal(sum.store.oldest_pending_us, 30);
    assert_int_equal(sum.host.stalls, 4);
    assert_int_equal(sum.transport.frames_sent, 9);
}

static void test_shard_of_a_group_is_its_id_modulo_the_shards(void **state)
{
    unsigned counts[3] = {0};
    (void)state;
    for (uint64_t group = 0; group < 999; group++) {
        unsigned shard = lq_shard_of(group, 3);
        assert_true(shard < 3);
        counts[shard]++;
        assert_int_equal(lq_shard_of(group, 1), 0);
    }

    assert_int_equal(lq_shard_of(0, 16), 0); /* the meta group is shard 0's, however many there are */
    assert_int_equal(lq_shard_of(UINT64_MAX, 16), 15);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(counts[i], 333);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_shard_mail_is_opened_later_in_the_order_of_its_coming, setup, teardown),
        cmocka_unit_test_setup_teardown(test_shard_mail_put_while_opening_comes_in_another_turn, setup, teardown),
        cmocka_unit_test_setup_teardown(test_shard_mail_offered_to_a_full_box_is_refused_and_answers_are_not, setup,
                                        teardown),
        cmocka_unit_test(test_shard_mail_goes_there_and_back_between_threads),
        cmocka_unit_test(test_totals_add_up_and_the_oldest_wait_counts),
        cmocka_unit_test(test_shard_of_a_group_is_its_id_modulo_the_shards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
