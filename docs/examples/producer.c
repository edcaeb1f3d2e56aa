/* producer.c - sends numbered messages to a LightQ topic and says how each of them ended.
 *
 *     producer SERVERS TOPIC COUNT          producer 127.0.0.1:5600 orders 1000
 *
 * Build it against the installed library with CMake (CMakeLists.txt beside this file) or with
 *     cc producer.c $(pkg-config --cflags --libs lightq) */
#include <stdio.h>
#include <stdlib.h>

#include <lightq/producer.h>

struct outcome {
    unsigned long stored, failed;
};

/* Runs inside lightq_producer_poll and _flush, once for each message. */
static void on_report(void *owner, const struct lightq_report *report)
{
    struct outcome *outcome = owner;
    if (report->status == LIGHTQ_OK || report->status == LIGHTQ_EDUPLICATE) {
        outcome->stored++;
        return;
    }
    outcome->failed++;
    fprintf(stderr, "message %lu: %s%s\n", (unsigned long)(size_t)report->opaque, lightq_status_text(report->status),
            report->in_doubt ? " (it may be stored)" : "");
}

/* Sends one message. When the window is full, lets reports run until there is room again. */
static lightq_status send_one(struct lightq_producer *producer, const char *topic, unsigned long number)
{
    char value[64];
    int size = snprintf(value, sizeof value, "message %lu", number);
    struct lightq_message message = {
        .topic = topic,
        .partition = LIGHTQ_PARTITION_ANY,
        .value = value, /* copied before lightq_producer_send returns */
        .value_size = (size_t)size,
        .opaque = (void *)(size_t)number,
    };
    lightq_status status = lightq_producer_send(producer, &message);
    while (status == LIGHTQ_EBUSY) {
        lightq_producer_poll(producer, 100, NULL);
        status = lightq_producer_send(producer, &message);
    }
    return status;
}

static int produce(struct lightq *client, const char *topic, unsigned long count)
{
    struct lightq_error error;
    struct lightq_producer *producer;
    struct outcome outcome = {0, 0};
    struct lightq_producer_options options = {.on_report = on_report, .owner = &outcome};
    if (lightq_producer_new(client, &options, &producer, &error) != LIGHTQ_OK) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    for (unsigned long i = 0; i < count; i++) {
        lightq_status status = send_one(producer, topic, i);
        if (status != LIGHTQ_OK) {
            fprintf(stderr, "topic %s: %s\n", topic, lightq_status_text(status));
            break;
        }
    }
    lightq_producer_close(producer, 30000); /* waits for the reports of all that were sent */
    printf("%lu of %lu messages stored\n", outcome.stored, count);
    return outcome.stored == count ? 0 : 1;
}

int main(int argc, char **argv)
{
    struct lightq_error error;
    struct lightq_conf *conf;
    struct lightq *client;
    if (argc != 4) {
        fprintf(stderr, "usage: producer SERVERS TOPIC COUNT\n");
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
    int result = produce(client, argv[2], strtoul(argv[3], NULL, 10));
    lightq_close(client, 5000);
    return result;
}
