/* tests/unit/client/test_client.c - the client object: settings, connecting, being refused, strangers that answer, and
 * the questions of administration (cases K7, L6). */
#include "tests/unit/client/client_fixture.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/lib/wait.h"

/* ---- settings */

static void test_conf_set_and_get_round_trip(void **state)
{
    struct fixture *f = *state;
    char value[LIGHTQ_CONF_VALUE_BYTES];
    struct lightq_error error;

    assert_int_equal(lightq_conf_set(f->conf, "linger.ms", "5ms", &error), LIGHTQ_OK);
    assert_int_equal(lightq_conf_get(f->conf, "linger.ms", value, sizeof value), LIGHTQ_OK);
    assert_string_equal(value, "5ms");
    assert_int_equal(lightq_conf_get(f->conf, "username", value, sizeof value), LIGHTQ_OK);
    assert_string_equal(value, "");

    assert_int_equal(lightq_conf_get(f->conf, "client.id", value, 4), LIGHTQ_ETOOBIG);
    assert_string_equal(value, "lig");
    assert_int_equal(lightq_conf_get(f->conf, "nope", value, sizeof value), LIGHTQ_ENOTFOUND);
}

static void test_conf_refuses_unknown_and_bad_values(void **state)
{
    struct fixture *f = *state;
    struct lightq_error error;

    assert_int_equal(lightq_conf_set(f->conf, "nope", "1", &error), LIGHTQ_ENOTFOUND);
    assert_int_equal(lightq_conf_set(f->conf, "inflight.max", "6", &error), LIGHTQ_EINVAL);
    assert_non_null(strstr(error.text, "inflight.max"));
    assert_false(error.retriable);
    assert_int_equal(lightq_conf_set(f->conf, "compression", "zip", &error), LIGHTQ_EINVAL);
    assert_int_equal(lightq_conf_set(f->conf, "batch.bytes", "-1", NULL), LIGHTQ_EINVAL);
}

static void test_conf_describes_every_option_with_a_valid_default(void **state)
{
    struct fixture *f = *state;
    struct lightq_conf_option option;
    size_t count = 0;

    while (lightq_conf_describe(count, &option) == LIGHTQ_OK) {
        assert_true(strlen(option.sentence) > 10);
        if (option.initial != NULL) {
            assert_int_equal(lightq_conf_set(f->conf, option.name, option.initial, NULL), LIGHTQ_OK);
        }
        count++;
    }

    assert_true(count > 20);
}

static void test_client_refuses_settings_that_do_not_go_together(void **state)
{
    static const char *const wrong[][2] = {
        {"password", "x"},
        {"heartbeat.timeout.ms", "20ms"},
        {"retry.backoff.max.ms", "1ms"},
        {"reconnect.backoff.max.ms", "1ms"},
        {"bootstrap.servers", "nowhere"},
        {"bootstrap.servers", "a:0"},
        {"bootstrap.servers", "a:70000"},
        {"bootstrap.servers", ","},
        {"bootstrap.servers", "a b:1"},
    };
    struct lightq_conf *conf;
    struct lightq *client;
    struct lightq_error error;
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(lightq_conf_new(&conf), LIGHTQ_OK);
        assert_int_equal(lightq_conf_set(conf, wrong[i][0], wrong[i][1], NULL), LIGHTQ_OK);

        assert_int_equal(lightq_new(conf, &client, &error), LIGHTQ_EINVAL);

        assert_true(strlen(error.text) > 10);
        lightq_conf_free(conf);
    }
}

/* ---- connecting */

static void test_client_connects_and_knows_its_cluster(void **state)
{
    struct fixture *f = *state;
    struct lightq_error error;
    fixture_open(f, false);

    assert_int_equal(lightq_wait_connected(f->client, WAIT_MS, &error), LIGHTQ_OK);

    assert_int_equal(strlen(lightq_cluster_id(f->client)), 32);
    assert_string_equal(lightq_version(), "0.1.0");
}

static void test_client_says_what_it_tried_when_nobody_is_there(void **state)
{
    struct fixture *f = *state;
    struct lightq_error error;
    char address[64];
    snprintf(address, sizeof address, "%s", fake_cluster_address(f->cluster, 1));
    fixture_set(f, "bootstrap.servers", address);
    fake_cluster_kill(f->cluster, 1);
    fixture_open(f, false);

    assert_int_equal(lightq_wait_connected(f->client, SHORT_MS, &error), LIGHTQ_ECONNECT);
    assert_non_null(strstr(error.text, address));
    assert_true(error.retriable);
    assert_int_equal(lightq_topic_delete(f->client, "t", SHORT_MS, &error), LIGHTQ_ECONNECT);

    fake_cluster_start(f->cluster, 1);
    assert_int_equal(lightq_wait_connected(f->client, WAIT_MS, &error), LIGHTQ_OK);
}

/* Case K7: a wrong password is told at once, by everything that waits. */
static void test_client_wrong_password_is_fatal_for_everything(void **state)
{
    struct fixture *f = *state;
    struct lightq_error error;
    struct lightq_consumer *consumer;
    struct lightq_topic_list *list;
    const struct lightq_start start = {.kind = LIGHTQ_START_BEGIN};
    fake_cluster_password(f->cluster, "secret");
    fixture_set(f, "username", "me");
    fixture_set(f, "password", "wrong");
    fixture_open(f, true);

    assert_int_equal(lightq_wait_connected(f->client, WAIT_MS, &error), LIGHTQ_EAUTH);
    assert_true(error.fatal);
    assert_int_equal(fixture_send(f, 0, 1), LIGHTQ_EAUTH);
    assert_int_equal(lightq_topic_list(f->client, WAIT_MS, &list, &error), LIGHTQ_EAUTH);
    assert_int_equal(lightq_consumer_new(f->client, &consumer, NULL), LIGHTQ_OK);
    assert_int_equal(lightq_consumer_subscribe(consumer, "t", 0, &start, WAIT_MS, &error), LIGHTQ_EAUTH);
    assert_int_equal(lightq_consumer_close(consumer, 0), LIGHTQ_OK);
    assert_int_equal(lightq_producer_flush(f->producer, WAIT_MS), LIGHTQ_OK);
}

static void test_client_password_taken_away_fails_waiting_messages(void **state)
{
    struct fixture *f = *state;
    fixture_open(f, true);
    fixture_send_many(f, 0, 0, 1);
    fixture_wait_reports(f, 1);
    fake_cluster_password(f->cluster, "secret");
    fake_cluster_rule(f->cluster, (struct fake_rule){.type = LQ_MESSAGE_PRODUCE, .times = 1, .action = FAKE_CLOSE});

    assert_int_equal(fixture_send(f, 0, 1), LIGHTQ_OK);
    fake_cluster_kill(f->cluster, 2);
    fake_cluster_kill(f->cluster, 3);
    fixture_wait_reports(f, 2);

    assert_int_equal(fixture_report(f, 1)->status, LIGHTQ_EAUTH);
    assert_true(fixture_report(f, 1)->in_doubt); /* it was sent once, and that was not answered */
    assert_true(f->error_count > 0);
}

static void test_client_right_password_is_let_in(void **state)
{
    struct fixture *f = *state;
    fake_cluster_password(f->cluster, "secret");
    fixture_set(f, "username", "me");
    fixture_set(f, "password", "secret");
    fixture_open(f, true);

    fixture_send_many(f, 0, 0, 1);
    fixture_wait_reports(f, 1);

    assert_int_equal(f->reports[0].status, LIGHTQ_OK);
}

static void test_client_refuses_server_of_unknown_version(void **state)
{
    struct fixture *f = *state;
    struct lightq_error error;
    fake_cluster_rule(f->cluster, (struct fake_rule){.type = LQ_MESSAGE_HELLO, .version = 99});
    fixture_open(f, false);

    assert_int_equal(lightq_wait_connected(f->client, WAIT_MS, &error), LIGHTQ_EVERSION);

    assert_true(error.fatal);
}

static void test_client_told_wrong_version_is_refused_for_good(void **state)
{
    struct fixture *f = *state;
    struct lightq_error error;
    fake_cluster_rule(f->cluster,
                      (struct fake_rule){.type = LQ_MESSAGE_HELLO, .action = FAKE_ANSWER, .status = LIGHTQ_EVERSION});
    fixture_open(f, false);

    assert_int_equal(lightq_wait_connected(f->client, WAIT_MS, &error), LIGHTQ_EVERSION);
}

/* Servers of two clusters in one list: whichever answers first is ours, the other one is not used. */
static void test_client_does_not_mix_clusters(void **state)
{
    struct fixture *f = *state;
    struct fake_cluster *other = fake_cluster_new(1);
    char servers[256];
    fake_cluster_topic(other, "t", 1);
    fixture_set(f, "bootstrap.servers", fake_cluster_address(f->cluster, 1));
    fixture_open(f, true);
    fixture_send_many(f, 0, 0, 1);
    fixture_wait_reports(f, 1);
    lightq_producer_close(f->producer, 0);
    f->producer = NULL;
    assert_int_equal(lightq_close(f->client, 0), LIGHTQ_OK);
    snprintf(servers, sizeof servers, "%s,%s", fake_cluster_address(f->cluster, 1), fake_cluster_address(other, 1));
    fixture_set(f, "bootstrap.servers", servers);
    fixture_open(f, true);

    fixture_send_many(f, 0, 1, 200);
    assert_int_equal(lightq_producer_flush(f->producer, WAIT_MS), LIGHTQ_OK);

    struct fake_message stored[1];
    size_t here = fake_cluster_log(f->cluster, "t", 0, stored, 0);
    size_t there = fake_cluster_log(other, "t", 0, stored, 0);
    assert_true((here == 1 && there == 200) || (here == 201 && there == 0));
    lightq_producer_close(f->producer, 0);
    f->producer = NULL;
    assert_int_equal(lightq_close(f->client, 0), LIGHTQ_OK);
    f->client = NULL;
    fake_cluster_free(other);
}

static void test_client_close_is_bounded_when_servers_hang(void **state)
{
    struct fixture *f = *state;
    fixture_open(f, false);
    assert_int_equal(lightq_wait_connected(f->client, WAIT_MS, NULL), LIGHTQ_OK);
    for (unsigned node = 1; node <= 3; node++) {
        fake_cluster_freeze(f->cluster, node, true);
    }
    uint64_t began_us = lq_clock_monotonic_us(lq_clock_system());

    assert_int_equal(lightq_close(f->client, 100), LIGHTQ_OK);
    f->client = NULL;

    assert_true(lq_clock_monotonic_us(lq_clock_system()) - began_us < 5000000);
}

static void test_client_says_bye_when_closed(void **state)
{
    struct fixture *f = *state;
    fixture_open(f, false);
    assert_int_equal(lightq_wait_connected(f->client, WAIT_MS, NULL), LIGHTQ_OK);

    assert_int_equal(lightq_close(f->client, WAIT_MS), LIGHTQ_OK);
    f->client = NULL;

    assert_true(fake_cluster_wait_seen(f->cluster, LQ_MESSAGE_BYE, 1));
}

/* ---- strangers */

struct stranger {
    int fd;
    uint16_t port;
    pthread_t thread;
    const uint8_t *says;
    size_t size;
};

/* Takes connections, says its bytes and closes, until the listening socket is shut down. */
static void *stranger_main(void *context)
{
    struct stranger *stranger = context;
    int peer;
    while ((peer = accept(stranger->fd, NULL, NULL)) >= 0) {
        ssize_t sent = send(peer, stranger->says, stranger->size, MSG_NOSIGNAL);
        (void)sent;
        close(peer);
    }
    return NULL;
}

static void start_stranger(struct stranger *stranger, const void *says, size_t size)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    struct sockaddr *generic = (struct sockaddr *)(void *)&address;
    *stranger = (struct stranger){.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), .says = says, .size = size};
    assert_true(stranger->fd >= 0);
    assert_int_equal(bind(stranger->fd, generic, sizeof address), 0);
    assert_int_equal(listen(stranger->fd, 16), 0);
    assert_int_equal(getsockname(stranger->fd, generic, &length), 0);
    stranger->port = ntohs(address.sin_port);
    assert_int_equal(pthread_create(&stranger->thread, NULL, stranger_main, stranger), 0);
}

static void stop_stranger(struct stranger *stranger)
{
    shutdown(stranger->fd, SHUT_RDWR);
    pthread_join(stranger->thread, NULL);
    close(stranger->fd);
}

/* Something else listens there: HTTP, random bytes, a ZMTP greeting that announces a frame of 2^63 bytes. */
static void test_client_survives_strangers_and_uses_others(void **state)
{
    static const uint8_t http[] = "HTTP/1.1 400 Bad Request\r\n\r\n";
    static const uint8_t huge[] = {0xff, 0, 0, 0, 0, 0, 0, 0, 1,    0x7f, 3,    0,    'N',  'U',  'L',  'L',  0,   0, 0,
                                   0,    0, 0, 0, 0, 0, 0, 0, 0,    0,    0,    0,    0,    0,    0,    0,    0,   0, 0,
                                   0,    0, 0, 0, 0, 0, 0, 0, 0,    0,    0,    0,    0,    0,    0,    0,    0,   0, 0,
                                   0,    0, 0, 0, 0, 0, 0, 6, 0x80, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    struct fixture *f = *state;
    struct stranger strangers[2];
    char servers[512];
    start_stranger(&strangers[0], http, sizeof http - 1);
    start_stranger(&strangers[1], huge, sizeof huge);
    snprintf(servers, sizeof servers, "127.0.0.1:%u,127.0.0.1:%u,%s", strangers[0].port, strangers[1].port,
             fake_cluster_servers(f->cluster));
    fixture_set(f, "bootstrap.servers", servers);
    fixture_open(f, true);

    fixture_send_many(f, 0, 0, 100);
    fixture_wait_reports(f, 100);

    assert_int_equal(f->reports[99].status, LIGHTQ_OK);
    stop_stranger(&strangers[0]);
    stop_stranger(&strangers[1]);
}

/* ---- questions */

static void test_client_offsets_follow_the_leader(void **state)
{
    struct fixture *f = *state;
    const struct lightq_start begin = {.kind = LIGHTQ_START_BEGIN}, end = {.kind = LIGHTQ_START_END};
    const struct lightq_start negative = {.kind = LIGHTQ_START_OFFSET, .offset = -5};
    struct lightq_error error;
    int64_t offset = -1;
    int32_t count = 0;
    fake_cluster_append(f->cluster, "t", 0, 1, "x", 12);
    fake_cluster_trim(f->cluster, "t", 0, 4);
    fake_cluster_lead_secretly(f->cluster, "t", 0, 3);
    fixture_open(f, false);
    fake_cluster_tell(f->cluster);

    assert_int_equal(lightq_offset(f->client, "t", 0, &begin, WAIT_MS, &offset, &error), LIGHTQ_OK);
    assert_int_equal(offset, 4);
    assert_int_equal(lightq_offset(f->client, "t", 0, &end, WAIT_MS, &offset, &error), LIGHTQ_OK);
    assert_int_equal(offset, 12);
    assert_int_equal(lightq_partition_count(f->client, "t", WAIT_MS, &count, &error), LIGHTQ_OK);
    assert_int_equal(count, 1);

    assert_int_equal(lightq_offset(f->client, "t", 3, &end, WAIT_MS, &offset, &error), LIGHTQ_ENOTFOUND);
    assert_int_equal(lightq_offset(f->client, "nope", 0, &end, WAIT_MS, &offset, &error), LIGHTQ_ENOTFOUND);
    assert_int_equal(lightq_offset(f->client, "..", 0, &end, WAIT_MS, &offset, &error), LIGHTQ_ENAME);
    assert_int_equal(lightq_offset(f->client, "t", 0, &negative, WAIT_MS, &offset, &error), LIGHTQ_EINVAL);
    assert_int_equal(lightq_partition_count(f->client, "nope", WAIT_MS, &count, &error), LIGHTQ_ENOTFOUND);
}

static void test_client_offset_without_leader_ends_in_time(void **state)
{
    struct fixture *f = *state;
    const struct lightq_start end = {.kind = LIGHTQ_START_END};
    struct lightq_error error;
    int64_t offset;
    fake_cluster_lead(f->cluster, "t", 0, 0);
    fixture_open(f, false);
    assert_int_equal(lightq_wait_connected(f->client, WAIT_MS, NULL), LIGHTQ_OK);

    assert_int_equal(lightq_offset(f->client, "t", 0, &end, 100, &offset, &error), LIGHTQ_EUNAVAILABLE);

    fake_cluster_lead(f->cluster, "t", 0, 2);
    assert_int_equal(lightq_offset(f->client, "t", 0, &end, WAIT_MS, &offset, &error), LIGHTQ_OK);
}

static void test_admin_topics_are_made_listed_and_described(void **state)
{
    struct fixture *f = *state;
    struct lightq_error error;
    struct lightq_topic_list *list;
    struct lightq_topic_info *info;
    struct lightq_pair config[] = {{"retention.ms", "1000"}};
    struct lightq_topic_options options = {.partitions = 2, .config = config, .config_count = 1};
    fixture_open(f, false);

    assert_int_equal(lightq_topic_create(f->client, "a", &options, WAIT_MS, &error), LIGHTQ_OK);
    assert_int_equal(lightq_topic_create(f->client, "a", &options, WAIT_MS, &error), LIGHTQ_EEXISTS);
    assert_string_equal(error.text, "it is there");
    assert_int_equal(lightq_topic_create(f->client, "a b", NULL, WAIT_MS, &error), LIGHTQ_ENAME);
    config[0].value = NULL;
    assert_int_equal(lightq_topic_create(f->client, "b", &options, WAIT_MS, &error), LIGHTQ_EINVAL);

    assert_int_equal(lightq_topic_list(f->client, WAIT_MS, &list, &error), LIGHTQ_OK); /* two pages */
    assert_int_equal(list->count, 2);
    assert_string_equal(list->topics[0].name, "a");
    assert_int_equal(list->topics[0].partition_count, 2);
    assert_string_equal(list->topics[1].name, "t");
    assert_int_equal(strlen(list->topics[1].id), 32);
    lightq_result_free(list);

    assert_int_equal(lightq_topic_describe(f->client, "t", WAIT_MS, &info, &error), LIGHTQ_OK);
    assert_string_equal(info->name, "t");
    assert_int_equal(info->partition_count, 1);
    assert_int_equal(info->partitions[0].leader, 1);
    assert_string_equal(info->partitions[0].state, "ok");
    assert_string_equal(info->partitions[0].replicas[0].role, "leader");
    assert_true(info->partitions[0].replicas[0].digest == UINT64_MAX);
    assert_string_equal(info->config[0].key, "retention.ms");
    lightq_result_free(info);
    assert_int_equal(lightq_topic_describe(f->client, "nope", WAIT_MS, &info, &error), LIGHTQ_ENOTFOUND);
}

/* Its catalog may be behind: the others are asked, also while the connections to them are still being made. */
static void test_admin_describe_does_not_believe_one_server_that_misses_a_topic(void **state)
{
    struct fixture *f = *state;
    struct lightq_error error;
    struct lightq_topic_info *info;
    fake_cluster_rule(f->cluster, (struct fake_rule){.type = LQ_MESSAGE_TOPIC_DESCRIBE,
                                                     .times = 1,
                                                     .action = FAKE_ANSWER,
                                                     .status = LIGHTQ_ENOTFOUND});
    fixture_open(f, false);

    assert_int_equal(lightq_topic_describe(f->client, "t", WAIT_MS, &info, &error), LIGHTQ_OK);

    assert_string_equal(info->name, "t");
    lightq_result_free(info);
    assert_int_equal(fake_cluster_seen(f->cluster, LQ_MESSAGE_TOPIC_DESCRIBE), 2);
}

static void test_admin_cluster_status_names_nodes(void **state)
{
    struct fixture *f = *state;
    struct lightq_cluster_info *info;
    fixture_open(f, false);

    assert_int_equal(lightq_cluster_status(f->client, WAIT_MS, &info, NULL), LIGHTQ_OK);

    assert_string_equal(info->id, lightq_cluster_id(f->client));
    assert_int_equal(info->node_count, 1);
    assert_string_equal(info->nodes[0].state, "up");
    assert_string_equal(info->nodes[0].endpoints[0], fake_cluster_address(f->cluster, info->nodes[0].node));
    assert_null(info->catalog);
    lightq_result_free(info);
    lightq_result_free(NULL);
}

static void test_admin_alter_changes_settings_and_partitions(void **state)
{
    struct fixture *f = *state;
    struct lightq_error error;
    struct lightq_topic_info *info;
    struct lightq_pair config[] = {{"retention.messages", "7"}};
    struct lightq_topic_options options = {.partitions = 3, .config = config, .config_count = 1};
    uint32_t partitions = 0;
    int32_t count = 0;
    fixture_open(f, false);
    assert_int_equal(lightq_partition_count(f->client, "t", WAIT_MS, &count, &error), LIGHTQ_OK);
    assert_int_equal(count, 1);
    fake_cluster_rule(f->cluster, /* done, and the answer is lost: once more does no harm */
                      (struct fake_rule){.type = LQ_MESSAGE_TOPIC_ALTER, .times = 1, .action = FAKE_STORE_CLOSE});

    assert_int_equal(lightq_topic_alter(f->client, "t", &options, WAIT_MS, &partitions, &error), LIGHTQ_OK);

    assert_int_equal(partitions, 3);
    assert_int_equal(fake_cluster_seen(f->cluster, LQ_MESSAGE_TOPIC_ALTER), 2);
    assert_int_equal(lightq_topic_describe(f->client, "t", WAIT_MS, &info, &error), LIGHTQ_OK);
    assert_string_equal(info->config[0].key, "retention.messages");
    assert_string_equal(info->config[0].value, "7");
    lightq_result_free(info);
    options.partitions = 2;
    assert_int_equal(lightq_topic_alter(f->client, "t", &options, WAIT_MS, NULL, &error), LIGHTQ_EINVAL);
    assert_string_equal(error.text, "their number only grows");
    assert_int_equal(lightq_topic_alter(f->client, "nope", &options, WAIT_MS, NULL, &error), LIGHTQ_ENOTFOUND);
    assert_int_equal(lightq_topic_alter(f->client, "a b", &options, WAIT_MS, NULL, &error), LIGHTQ_ENAME);
    options.replicas = 3;
    assert_int_equal(lightq_topic_alter(f->client, "t", &options, WAIT_MS, NULL, &error), LIGHTQ_EINVAL);
    options.replicas = 0;
    config[0].value = NULL;
    assert_int_equal(lightq_topic_alter(f->client, "t", &options, WAIT_MS, NULL, &error), LIGHTQ_EINVAL);
}

static void test_admin_purge_drops_what_was_there_when_it_began(void **state)
{
    struct fixture *f = *state;
    struct lightq_error error;
    struct lightq_purged purged;
    struct lightq_start to = {.kind = LIGHTQ_START_OFFSET, .offset = 4};
    fixture_open(f, false);
    fake_cluster_append(f->cluster, "t", 0, 9, "m", 10);

    assert_int_equal(lightq_partition_purge(f->client, "t", 0, &to, WAIT_MS, &purged, &error), LIGHTQ_OK);

    assert_int_equal(purged.offset, 4);
    assert_int_equal(purged.start, 4);
    assert_int_equal(purged.end, 10);
    to.offset = 11;
    assert_int_equal(lightq_partition_purge(f->client, "t", 0, &to, WAIT_MS, NULL, &error), LIGHTQ_EOUTOFRANGE);
    to.offset = -1;
    assert_int_equal(lightq_partition_purge(f->client, "t", 0, &to, WAIT_MS, NULL, &error), LIGHTQ_EINVAL);
    assert_int_equal(lightq_partition_purge(f->client, "t", -1, NULL, WAIT_MS, NULL, &error), LIGHTQ_EINVAL);
    assert_int_equal(lightq_partition_purge(f->client, "t", 4, NULL, WAIT_MS, NULL, &error), LIGHTQ_ENOTFOUND);
    assert_int_equal(lightq_partition_purge(f->client, "nope", 0, NULL, WAIT_MS, NULL, &error), LIGHTQ_ENOTFOUND);
    fake_cluster_lead(f->cluster, "t", 0, 2); /* it is followed */
    fake_cluster_rule(f->cluster,
                      (struct fake_rule){.type = LQ_MESSAGE_PARTITION_PURGE, .times = 1, .action = FAKE_STORE_CLOSE});
    assert_int_equal(lightq_partition_purge(f->client, "t", 0, NULL, WAIT_MS, &purged, &error), LIGHTQ_OK);
    assert_int_equal(purged.offset, 10);
    assert_int_equal(purged.start, 10);
    assert_int_equal(fake_cluster_seen(f->cluster, LQ_MESSAGE_OFFSETS), 1); /* not again: what came since stays */
}

/* The answer to the first attempt is lost: the second one finds what the first one made. */
static void test_admin_repeated_change_is_done_not_an_error(void **state)
{
    struct fixture *f = *state;
    struct lightq_error error;
    fixture_open(f, false);
    fake_cluster_rule(f->cluster,
                      (struct fake_rule){.type = LQ_MESSAGE_TOPIC_CREATE, .times = 1, .action = FAKE_STORE_CLOSE});

    assert_int_equal(lightq_topic_create(f->client, "a", NULL, WAIT_MS, &error), LIGHTQ_OK);

    assert_int_equal(fake_cluster_seen(f->cluster, LQ_MESSAGE_TOPIC_CREATE), 2);
}

static void test_admin_goes_to_the_controller_that_is_named(void **state)
{
    struct fixture *f = *state;
    struct lightq_error error;
    for (unsigned node = 1; node <= 2; node++) {
        fake_cluster_rule(f->cluster, (struct fake_rule){.type = LQ_MESSAGE_TOPIC_CREATE,
                                                         .node = node,
                                                         .action = FAKE_ANSWER,
                                                         .status = LIGHTQ_ENOTLEADER,
                                                         .leader = 3});
    }
    fixture_open(f, false);

    assert_int_equal(lightq_topic_create(f->client, "a", NULL, WAIT_MS, &error), LIGHTQ_OK);
}

static void test_admin_passing_refusal_is_retried_and_then_told(void **state)
{
    struct fixture *f = *state;
    struct lightq_error error;
    fake_cluster_rule(f->cluster, (struct fake_rule){.type = LQ_MESSAGE_TOPIC_CREATE,
                                                     .times = 3,
                                                     .action = FAKE_ANSWER,
                                                     .status = LIGHTQ_ECONFLICT});
    fixture_open(f, false);
    assert_int_equal(lightq_topic_create(f->client, "a", NULL, WAIT_MS, &error), LIGHTQ_OK);

    fake_cluster_rule(
        f->cluster,
        (struct fake_rule){.type = LQ_MESSAGE_TOPIC_CREATE, .action = FAKE_ANSWER, .status = LIGHTQ_EUNAVAILABLE});
    assert_int_equal(lightq_topic_create(f->client, "b", NULL, SHORT_MS, &error), LIGHTQ_EUNAVAILABLE);

    assert_string_equal(error.text, "as the test wants");
}

static void test_admin_unanswered_change_is_in_doubt(void **state)
{
    struct fixture *f = *state;
    struct lightq_error error;
    fake_cluster_rule(f->cluster, (struct fake_rule){.type = LQ_MESSAGE_TOPIC_CREATE, .action = FAKE_DROP});
    fixture_open(f, false);
    assert_int_equal(lightq_wait_connected(f->client, WAIT_MS, &error), LIGHTQ_OK); /* else it could not be sent */

    assert_int_equal(lightq_topic_create(f->client, "a", NULL, SHORT_MS, &error), LIGHTQ_ETIMEDOUT);

    assert_true(fake_cluster_seen(f->cluster, LQ_MESSAGE_TOPIC_CREATE) >= 1);
}

static void test_admin_transfer_is_asked_of_the_leader(void **state)
{
    struct fixture *f = *state;
    struct lightq_error error;
    fake_cluster_rule(f->cluster, (struct fake_rule){.type = LQ_MESSAGE_PARTITION_TRANSFER,
                                                     .node = 1,
                                                     .action = FAKE_ANSWER,
                                                     .status = LIGHTQ_EINVAL});
    fixture_open(f, false);

    assert_int_equal(lightq_partition_transfer(f->client, "t", 0, 9, WAIT_MS, &error), LIGHTQ_EINVAL);

    assert_int_equal(lightq_partition_transfer(f->client, "t", -1, 2, WAIT_MS, &error), LIGHTQ_EINVAL);
    assert_int_equal(fake_cluster_seen(f->cluster, LQ_MESSAGE_PARTITION_TRANSFER), 1);
}

static void test_admin_replace_refusal_is_told(void **state)
{
    struct fixture *f = *state;
    struct lightq_error error;
    uint32_t replicas = 0;
    fake_cluster_rule(
        f->cluster,
        (struct fake_rule){.type = LQ_MESSAGE_NODE_REPLACE, .action = FAKE_ANSWER, .status = LIGHTQ_ENOTFOUND});
    fixture_open(f, false);

    assert_int_equal(lightq_node_replace(f->client, 7, 7, 0, WAIT_MS, &replicas, &error), LIGHTQ_ENOTFOUND);
}

#define WITH_FIXTURE(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FIXTURE(test_conf_set_and_get_round_trip),
        WITH_FIXTURE(test_conf_refuses_unknown_and_bad_values),
        WITH_FIXTURE(test_conf_describes_every_option_with_a_valid_default),
        WITH_FIXTURE(test_client_refuses_settings_that_do_not_go_together),
        WITH_FIXTURE(test_client_connects_and_knows_its_cluster),
        WITH_FIXTURE(test_client_says_what_it_tried_when_nobody_is_there),
        WITH_FIXTURE(test_client_wrong_password_is_fatal_for_everything),
        WITH_FIXTURE(test_client_password_taken_away_fails_waiting_messages),
        WITH_FIXTURE(test_client_right_password_is_let_in),
        WITH_FIXTURE(test_client_refuses_server_of_unknown_version),
        WITH_FIXTURE(test_client_told_wrong_version_is_refused_for_good),
        WITH_FIXTURE(test_client_does_not_mix_clusters),
        WITH_FIXTURE(test_client_close_is_bounded_when_servers_hang),
        WITH_FIXTURE(test_client_says_bye_when_closed),
        WITH_FIXTURE(test_client_survives_strangers_and_uses_others),
        WITH_FIXTURE(test_client_offsets_follow_the_leader),
        WITH_FIXTURE(test_client_offset_without_leader_ends_in_time),
        WITH_FIXTURE(test_admin_topics_are_made_listed_and_described),
        WITH_FIXTURE(test_admin_describe_does_not_believe_one_server_that_misses_a_topic),
        WITH_FIXTURE(test_admin_cluster_status_names_nodes),
        WITH_FIXTURE(test_admin_alter_changes_settings_and_partitions),
        WITH_FIXTURE(test_admin_purge_drops_what_was_there_when_it_began),
        WITH_FIXTURE(test_admin_repeated_change_is_done_not_an_error),
        WITH_FIXTURE(test_admin_goes_to_the_controller_that_is_named),
        WITH_FIXTURE(test_admin_passing_refusal_is_retried_and_then_told),
        WITH_FIXTURE(test_admin_unanswered_change_is_in_doubt),
        WITH_FIXTURE(test_admin_transfer_is_asked_of_the_leader),
        WITH_FIXTURE(test_admin_replace_refusal_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
