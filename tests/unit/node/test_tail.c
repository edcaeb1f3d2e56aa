/* test_tail.c - the speculative tail against a model: whatever clients send, whenever entries commit and leaders
 * change, apply never comes to another verdict than submit did, every request is answered once, and every producer's
 * messages are stored once and in order. */
#include "tests/unit/node/queue_fixture.h"

#define CLIENTS  9
#define STEPS    4000
#define REQUESTS 20000
#define SEEDS    12

/* A client that keeps the rules now and then: up to five batches in flight, retries, new epochs, nonsense. What it uses
 * its sequences for never changes. */
struct client {
    uint32_t epoch;
    bool begins; /* nothing was sent in this epoch */
    uint64_t next;
    struct produced *sent[5]; /* the newest first */
};

struct world {
    struct fixture leader, follower;
    struct produced *requests;
    size_t used;
    struct client clients[CLIENTS];
    uint64_t random;
    unsigned accepted, duplicates, refused, fenced, again, lost;
    bool forgets; /* producers may be forgotten and begin again */
};

static void follow_up(struct world *w)
{
    while (w->follower.log.applied < w->leader.log.applied) {
        const struct lq_entry *entry = &w->leader.log.at[w->follower.log.applied++].entry;
        assert_int_equal(lq_partition_apply(w->follower.partition, entry), LIGHTQ_OK);
    }
}

static bool send_batch(struct world *w, unsigned who, uint32_t epoch, uint64_t sequence, uint32_t count)
{
    struct produced *p = &w->requests[w->used++];
    struct client *client = &w->clients[who];
    produced_init(&w->leader, p, who + 1, epoch, sequence, count);
    p->request.begins_epoch = epoch == client->epoch && client->begins;
    lightq_status status = lq_partition_produce(w->leader.partition, &p->request);
    if (status != LIGHTQ_OK) {
        p->answers = 1; /* the answer was the return value */
        p->status = status;
        w->refused++;
        w->fenced += status == LIGHTQ_EFENCED;
        return false;
    }
    client->begins = client->begins && epoch != client->epoch;
    if (epoch == client->epoch && sequence == client->next) {
        client->next += count;
        memmove(client->sent + 1, client->sent, 4 * sizeof(struct produced *));
        client->sent[0] = p;
    }
    return true;
}

/* It gives up what it has no answer for, or sends that again, in order. */
static void raise_epoch(struct world *w, unsigned who, bool again)
{
    struct client *client = &w->clients[who];
    bool going = again;
    client->epoch++;
    client->begins = true;
    for (unsigned i = 5; i-- > 0;) {
        const struct produced *sent = client->sent[i];
        if (going && sent != NULL && (sent->answers == 0 || sent->status != LIGHTQ_OK)) {
            going = send_batch(w, who, client->epoch, sent->request.base_sequence, sent->request.message_count);
            w->again += going;
        }
    }
    if (again && !going) { /* refused: all behind it is given up */
        client->epoch++;
        client->begins = true;
    }
    client->next += client->begins ? random_below(&w->random, 3) : 0;
}

static void client_step(struct world *w)
{
    unsigned who = (unsigned)random_below(&w->random, CLIENTS);
    struct client *client = &w->clients[who];
    uint64_t what = random_below(&w->random, 100);
    uint32_t count = (uint32_t)random_below(&w->random, 3) + 1;
    if (what < 60) {
        send_batch(w, who, client->epoch, client->next, count);
    } else if (what < 80) {
        const struct produced *old = client->sent[random_below(&w->random, 5)];
        if (old != NULL && !client->begins) {
            uint32_t epoch = random_below(&w->random, 2) == 0 ? client->epoch : old->request.epoch;
            send_batch(w, who, epoch, old->request.base_sequence, old->request.message_count);
        }
    } else if (what < 90) {
        send_batch(w, who, client->epoch, random_below(&w->random, client->next + 5), count);
    } else if (what < 93) {
        raise_epoch(w, who, random_below(&w->random, 2) == 0);
    } else if (client->epoch > 0) {
        send_batch(w, who, client->epoch - 1, client->next, count);
    }
}

/* Leadership is lost; some of what was not applied is cut, the rest is committed; the same node leads again. */
static void change_leader(struct world *w)
{
    struct fake_log *log = &w->leader.log;
    lq_partition_machine_ops.follow(w->leader.partition, 2, log->term);
    size_t kept = log->applied + random_below(&w->random, log->count - log->applied + 1);
    while (log->count > kept) {
        free(log->at[--log->count].payload);
    }
    fixture_lead(&w->leader);
    follow_up(w);
    for (unsigned who = 0; who < CLIENTS; who++) { /* they do not know what became of what was in flight */
        raise_epoch(w, who, random_below(&w->random, 2) == 0);
    }
}

static void check_answers(struct world *w)
{
    for (size_t i = 0; i < w->used; i++) {
        const struct produced *p = &w->requests[i];
        assert_int_equal(p->answers, 1);
        w->accepted += p->status == LIGHTQ_OK && !p->request.duplicate;
        w->duplicates += p->status == LIGHTQ_OK && p->request.duplicate;
        w->lost += p->status == LIGHTQ_ELEADERSHIPLOST;
    }
}

/* Goes through the committed log as a reader would: of each producer no sequence twice, all in order, none left out
 * but where an epoch begins, and no epoch after a higher one. */
static void check_log(const struct world *w)
{
    uint32_t epochs[CLIENTS] = {0};
    uint64_t next[CLIENTS] = {0};
    uint64_t offset = 0;
    for (size_t i = 0; i < w->leader.log.applied; i++) {
        const struct lq_entry *entry = &w->leader.log.at[i].entry;
        struct lq_command command;
        if (entry->type != LQ_ENTRY_COMMAND) {
            continue;
        }
        assert_int_equal(lq_command_decode(entry->payload, entry->payload_size, &command), LIGHTQ_OK);
        if (command.type != LQ_COMMAND_APPEND) {
            continue;
        }
        size_t who = command.append.producer_id - 1;
        assert_int_equal(entry->base_offset, offset);
        offset += entry->message_count;
        bool jumps = command.append.begins_epoch && command.append.epoch > epochs[who];
        if (command.append.epoch < epochs[who] || command.append.sequence < next[who] ||
            (command.append.sequence > next[who] && !jumps)) {
            assert_true(w->forgets); /* forgotten, and begun again */
            assert_true(command.append.sequence == 0 || command.append.begins_epoch);
        }
        epochs[who] = command.append.epoch;
        next[who] = command.append.sequence + entry->message_count;
    }
    assert_int_equal(offset, lq_partition_end(w->leader.partition));
}

static void check_offsets(const struct world *w)
{
    for (size_t i = 0; i < w->used; i++) {
        const struct lq_partition_request *request = &w->requests[i].request;
        if (w->requests[i].status != LIGHTQ_OK) {
            continue;
        }
        bool found = false;
        for (size_t k = 0; k < w->leader.log.applied && !found; k++) {
            const struct lq_entry *entry = &w->leader.log.at[k].entry;
            found = entry->type == LQ_ENTRY_COMMAND && entry->message_count == request->message_count &&
                    entry->base_offset == request->base_offset &&
                    lq_get_u64(entry->payload + 8) == request->producer_id &&
                    lq_get_u64(entry->payload + 16) == request->base_sequence && entry->term == request->term &&
                    lq_get_u32(entry->payload + 32) <= request->epoch && entry->timestamp_ms == request->timestamp_ms;
        }
        assert_true(found);
    }
}

static void run_seed(uint64_t seed, size_t producers_max, unsigned *duplicates, unsigned *lost)
{
    struct world w = {.random = seed, .forgets = producers_max < CLIENTS};
    w.requests = calloc(REQUESTS, sizeof *w.requests);
    assert_non_null(w.requests);
    fixture_init(&w.leader);
    fixture_init(&w.follower);
    lq_partition_free(w.leader.partition);
    fixture_partition(&w.leader, producers_max, 64, 16 * BATCH_BYTES);
    w.leader.log.window = 12;
    fixture_lead(&w.leader);
    follow_up(&w);

    for (unsigned i = 0; i < STEPS; i++) {
        uint64_t what = random_below(&w.random, 1000);
        w.leader.clock.wall_ms += random_below(&w.random, 3);
        if (what < 700) {
            client_step(&w);
        } else if (what < 990) {
            fixture_apply(&w.leader, random_below(&w.random, 6));
            lq_partition_turn(w.leader.partition);
        } else {
            change_leader(&w);
        }
        follow_up(&w);
    }
    do {
        fixture_apply_all(&w.leader);
        fixture_turn(&w.leader);
    } while (w.leader.log.applied < w.leader.log.count);
    follow_up(&w);

    check_answers(&w);
    check_log(&w);
    check_offsets(&w);
    assert_same_state(w.leader.partition, w.follower.partition);
    assert_true(w.accepted > STEPS / 10);
    assert_true(w.refused > 0 && w.fenced > 0 && w.again > 0);
    *duplicates += w.duplicates;
    *lost += w.lost;
    fixture_deinit(&w.leader);
    fixture_deinit(&w.follower);
    free(w.requests);
}

static void test_tail_random_clients_and_leaders_agree_with_the_log(void **state)
{
    (void)state;
    unsigned duplicates = 0;
    unsigned lost = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        print_message("seed %llu\n", (unsigned long long)seed);
        run_seed(seed, LQ_PRODUCERS_MAX, &duplicates, &lost);
    }
    assert_true(duplicates > 100 && lost > 100);
}

static void test_tail_forgetting_producers_agrees_with_the_log(void **state)
{
    (void)state;
    unsigned duplicates = 0;
    unsigned lost = 0;
    for (uint64_t seed = 101; seed <= 100 + SEEDS; seed++) {
        print_message("seed %llu\n", (unsigned long long)seed);
        run_seed(seed, 1 + seed % (CLIENTS - 1), &duplicates, &lost);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tail_random_clients_and_leaders_agree_with_the_log),
        cmocka_unit_test(test_tail_forgetting_producers_agrees_with_the_log),
    };
    return cmocka_run_group_tests_name("tail", tests, NULL, NULL);
}
