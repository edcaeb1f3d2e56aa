/* consumer.c - prints the messages of a LightQ topic from its beginning, and stops after COUNT of them.
 *
 *     consumer SERVERS TOPIC COUNT          consumer 127.0.0.1:5600 orders 1000
 *
 * Build it against the installed library with CMake (CMakeLists.txt beside this file) or with
 *     cc consumer.c $(pkg-config --cflags --libs lightq) */
#include <stdio.h>
#include <stdlib.h>

#include <lightq/consumer.h>

/* Prints messages until there were @count. The library follows leaders and reconnects by itself; what it cannot mend
 * comes as an error that is not retriable. */
static int print_messages(struct lightq_consumer *consumer, unsigned long count)
{
    unsigned long printed = 0;
    while (printed < count) {
        struct lightq_event event;
        if (lightq_consumer_poll(consumer, 1000, &event) != LIGHTQ_OK) {
            return 1;
        }
        switch (event.kind) {
        case LIGHTQ_EVENT_MESSAGE: /* its memory is ours until the next poll */
            printf("%d/%lld %.*s\n", event.record.partition, (long long)event.record.offset,
                   (int)event.record.value_size, (const char *)event.record.value);
            printed++;
            break;
        case LIGHTQ_EVENT_ERROR:
            fprintf(stderr, "%s\n", event.error->text);
            if (!event.error->retriable) {
                return 1;
            }
            break;
        case LIGHTQ_EVENT_UNSETTLED: /* of consumer groups only */
        case LIGHTQ_EVENT_END:       /* nothing more at the moment */
        case LIGHTQ_EVENT_NONE:
            break;
        }
    }
    return 0;
}

static int consume(struct lightq *client, const char *topic, unsigned long count)
{
    struct lightq_error error;
    struct lightq_consumer *consumer;
    const struct lightq_start start = {.kind = LIGHTQ_START_BEGIN};
    int result = 1;
    if (lightq_consumer_new(client, &consumer, &error) != LIGHTQ_OK) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    if (lightq_consumer_subscribe(consumer, topic, LIGHTQ_PARTITION_ANY, &start, 10000, &error) != LIGHTQ_OK) {
        fprintf(stderr, "%s\n", error.text);
    } else {
        result = print_messages(consumer, count);
    }
    lightq_consumer_close(consumer, 1000);
    return result;
}

int main(int argc, char **argv)
{
    struct lightq_error error;
    struct lightq_conf *conf;
    struct lightq *client;
    if (argc != 4) {
        fprintf(stderr, "usage: consumer SERVERS TOPIC COUNT\n");
        return 2;
    }
    if (lightq_conf_new(&conf) != LIGHTQ_OK) {
        fprintf(stderr, "out of memory\n");
        return 1;
    }
    if (lightq_conf_set(conf, "bootstrap.servers", argv[1], &error) != LIGHTQ_OK ||
        lightq_new(conf, &client, &error) != LIGHTQ_OK) {
        fprintf(stderr, "%s\n", error.text);
        lightq_conf_free(conf);
        return 1;
    }
    lightq_conf_free(conf);
    int result = consume(client, argv[2], strtoul(argv[3], NULL, 10));
    lightq_close(client, 5000);
    return result;
}
