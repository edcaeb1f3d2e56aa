/* idle_consumers.c - consumers that are of no use, for tests/bench/memory.py: each has a client, and so a connection,
 * of its own.
 *
 *     idle_consumers SERVERS TOPIC COUNT              COUNT subscribers from the start that never poll
 *     idle_consumers SERVERS TOPIC COUNT GROUP MANY   COUNT of a pipeline group, which take MANY messages together and
 *                                                     settle none
 *
 * Prints "ready" when it has what it wants, and stays until its input ends. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <lightq/consumer.h>

#define PATIENCE_MS 60000
#define AT_ONCE     1024
#define POLL_MS     100

struct idle {
    struct lightq *client;
    struct lightq_consumer *consumer;
};

static void must(lightq_status status, const struct lightq_error *error, const char *what)
{
    if (status != LIGHTQ_OK) {
        fprintf(stderr, "%s: %s: %s\n", what, lightq_status_name(status), error != NULL ? error->text : "");
        exit(1);
    }
}

static void open_one(struct idle *idle, char **argv, const char *group)
{
    struct lightq_conf *conf = NULL;
    struct lightq_error error = {.status = LIGHTQ_OK};
    struct lightq_start start = {.kind = LIGHTQ_START_BEGIN};
    must(lightq_conf_new(&conf), NULL, "settings");
    must(lightq_conf_set(conf, "bootstrap.servers", argv[1], &error), &error, "servers");
    must(lightq_new(conf, &idle->client, &error), &error, "open");
    must(lightq_consumer_new(idle->client, &idle->consumer, &error), &error, "consumer");
    lightq_status status =
        group != NULL
            ? lightq_consumer_join(idle->consumer, argv[2], group, LIGHTQ_PARTITION_ANY, PATIENCE_MS, &error)
            : lightq_consumer_subscribe(idle->consumer, argv[2], LIGHTQ_PARTITION_ANY, &start, PATIENCE_MS, &error);
    must(status, &error, "subscribe");
}

static void hoard(struct idle *all, size_t count, size_t many)
{
    struct lightq_record records[AT_ONCE];
    size_t taken = 0, at = 0, said = 0;
    while (taken < many) {
        size_t got;
        must(lightq_consumer_poll_many(all[at++ % count].consumer, POLL_MS, records, AT_ONCE, &got), NULL, "poll");
        if (got == 0) { /* something that is no message may stand before the next one */
            struct lightq_event event;
            must(lightq_consumer_poll(all[(at - 1) % count].consumer, 0, &event), NULL, "poll");
            got = event.kind == LIGHTQ_EVENT_MESSAGE;
        }
        taken += got;
        if (taken / 100000 > said) {
            said = taken / 100000;
            printf("%zu\n", taken);
            fflush(stdout);
        }
    }
}

int main(int argc, char **argv)
{
    if (argc != 4 && argc != 6) {
        fprintf(stderr, "usage: idle_consumers SERVERS TOPIC COUNT [GROUP MANY]\n");
        return 2;
    }
    size_t count = strtoul(argv[3], NULL, 10);
    struct idle *all = calloc(count, sizeof *all);
    if (all == NULL || count == 0) {
        return 1;
    }
    for (size_t i = 0; i < count; i++) {
        open_one(&all[i], argv, argc == 6 ? argv[4] : NULL);
    }
    if (argc == 6) {
        hoard(all, count, strtoul(argv[5], NULL, 10));
    }
    printf("ready\n");
    fflush(stdout);
    char byte;
    while (read(STDIN_FILENO, &byte, 1) > 0) {
    }
    _exit(0); /* as one that is killed does */
}
