/* group_consumer.c - works through a LightQ topic as one of a pipeline group's consumers: start it as often as you
 * like, each message is handled by one of them. It makes the group when there is none, and stops after COUNT messages.
 *
 *     group_consumer SERVERS TOPIC GROUP COUNT          group_consumer 127.0.0.1:5600 orders billing 1000
 *
 * Build it against the installed library with CMake (CMakeLists.txt beside this file) or with
 *     cc group_consumer.c $(pkg-config --cflags --libs lightq) */
#include <stdio.h>
#include <stdlib.h>

#include <lightq/consumer.h>
#include <lightq/group.h>

/* Pretends to work: a message without a value cannot be handled, today or ever. */
static int handle(const struct lightq_record *record)
{
    if (record->value == NULL) {
        return -1;
    }
    printf("%d/%lld %.*s\n", record->partition, (long long)record->offset, (int)record->value_size,
           (const char *)record->value);
    return 0;
}

/* What became of a message is said after the work is done: when this process dies before, another one does it. */
static lightq_status settle(struct lightq_consumer *consumer, const struct lightq_record *record)
{
    if (handle(record) == 0) {
        return lightq_consumer_ack(consumer, record);
    }
    fprintf(stderr, "offset %lld cannot be handled (delivery %u)\n", (long long)record->offset, record->deliveries);
    return lightq_consumer_reject(consumer, record); /* to the dead letters; lightq_consumer_nack would try again */
}

static int work(struct lightq_consumer *consumer, unsigned long count)
{
    unsigned long handled = 0;
    while (handled < count) {
        struct lightq_event event;
        if (lightq_consumer_poll(consumer, 1000, &event) != LIGHTQ_OK) {
            return 1;
        }
        switch (event.kind) {
        case LIGHTQ_EVENT_MESSAGE:
            /* Results gather and go in the background. EFENCED: somebody moved the group meanwhile, it will come again
             * if it shall. */
            if (settle(consumer, &event.record) == LIGHTQ_EBUSY) {
                lightq_consumer_flush(consumer, 10000);
            }
            handled++;
            break;
        case LIGHTQ_EVENT_UNSETTLED: /* too late: others have got the message */
            fprintf(stderr, "%s\n", event.error->text);
            break;
        case LIGHTQ_EVENT_ERROR:
            fprintf(stderr, "%s\n", event.error->text);
            if (!event.error->retriable) {
                return 1;
            }
            break;
        case LIGHTQ_EVENT_END:
        case LIGHTQ_EVENT_NONE:
            break;
        }
    }
    return 0;
}

/* Makes the group; that it is there already is as good. */
static lightq_status make_group(struct lightq *client, const char *topic, const char *group, struct lightq_error *error)
{
    struct lightq_group_options options;
    lightq_group_options_init(&options, LIGHTQ_GROUP_PIPELINE);
    options.ack_wait_ms = 10000;
    lightq_status status = lightq_group_create(client, topic, group, &options, NULL, 10000, error);
    return status == LIGHTQ_EEXISTS ? LIGHTQ_OK : status;
}

static int consume(struct lightq *client, const char *topic, const char *group, unsigned long count)
{
    struct lightq_error error;
    struct lightq_consumer *consumer;
    int result = 1;
    if (make_group(client, topic, group, &error) != LIGHTQ_OK ||
        lightq_consumer_new(client, &consumer, &error) != LIGHTQ_OK) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    if (lightq_consumer_join(consumer, topic, group, LIGHTQ_PARTITION_ANY, 10000, &error) != LIGHTQ_OK) {
        fprintf(stderr, "%s\n", error.text);
    } else {
        result = work(consumer, count);
    }
    /* Waits until the last results are stored; what we hold and did not handle goes to others at once. */
    if (lightq_consumer_close(consumer, 10000) != LIGHTQ_OK) {
        fprintf(stderr, "some results may not be stored: those messages may come again\n");
        result = 1;
    }
    return result;
}

int main(int argc, char **argv)
{
    struct lightq_error error;
    struct lightq_conf *conf;
    struct lightq *client;
    if (argc != 5) {
        fprintf(stderr, "usage: group_consumer SERVERS TOPIC GROUP COUNT\n");
        return 2;
    }
    if (lightq_conf_new(&conf) != LIGHTQ_OK) {
        fprintf(stderr, "out of memory\n");
        return 1;
    }
    if (lightq_conf_set(conf, "bootstrap.servers", argv[1], &error) != LIGHTQ_OK ||
        lightq_conf_set(conf, "client.id", "group_consumer", &error) != LIGHTQ_OK ||
        lightq_new(conf, &client, &error) != LIGHTQ_OK) {
        fprintf(stderr, "%s\n", error.text);
        lightq_conf_free(conf);
        return 1;
    }
    lightq_conf_free(conf);
    int result = consume(client, argv[2], argv[3], strtoul(argv[4], NULL, 10));
    lightq_close(client, 5000);
    return result;
}
