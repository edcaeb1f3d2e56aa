/* client/lib/fetcher_adopt.c - a partition that a topic got later does not have the groups that the others have: a
 * consumer that joins one makes it there, like that of partition 0 (docs/protocol.md). Never in a partition where it
 * was joined before: there it was deleted. See consumer.h. I/O thread only. */
#include <stdio.h>

#include "client/lib/error.h"
#include "client/lib/fetcher_private.h"

#define US_PER_MS  1000u
#define TEXT_BYTES 512

static uint64_t timeout_us(const struct lq_feed *feed)
{
    return lq_feed_io(feed)->options.request_timeout_ms * US_PER_MS;
}

static void on_created(struct lq_request *request, struct lq_reply *reply)
{
    struct lq_feed *feed = lq_container(request, struct lq_feed, request);
    if (reply->answered && (reply->status == LIGHTQ_OK || reply->status == LIGHTQ_EEXISTS)) {
        feed->misses = 0;
        feed->retry_us = 0;
    } else if (reply->answered && !lightq_status_retriable(reply->status)) {
        lq_feed_fail(feed, reply->status, reply->text, 0, 0);
        return;
    } else {
        lq_feed_try_again(feed, reply->status, reply->leader);
    }
    lq_feed_pump(feed);
}

/* Makes in @feed's partition what @like is. */
static void create(struct lq_feed *feed, const Lightq__Wire__GroupDescribeAnswer *like)
{
    const struct lq_meta_partition *partition = lq_feed_partition(feed);
    Lightq__Wire__GroupCreate body = LIGHTQ__WIRE__GROUP_CREATE__INIT;
    Lightq__Wire__Start first = LIGHTQ__WIRE__START__INIT;
    bool timed = like->start != NULL && like->start->kind == LIGHTQ__WIRE__START_KIND__START_TIME;
    body.topic = lq_codec_bytes_of(&feed->intake->id);
    body.partition = feed->partition;
    body.consumer_group = feed->intake->group;
    body.group_id = like->group_id;
    body.options = like->options;
    body.start = timed ? like->start : &first; /* also of a group that began at the end: nothing is skipped */
    body.timeout_ms = (uint32_t)lq_feed_io(feed)->options.request_timeout_ms;
    feed->request.done = on_created;
    if (partition == NULL || partition->leader_conn == NULL || !lq_conn_want(partition->leader_conn) ||
        lq_conn_request(partition->leader_conn, &feed->request, LQ_MESSAGE_GROUP_CREATE, partition->group, &body.base,
                        NULL, timeout_us(feed)) != LIGHTQ_OK) {
        lq_feed_try_again(feed, LIGHTQ_EBUSY, NULL);
    }
}

static void on_described(struct lq_request *request, struct lq_reply *reply)
{
    struct lq_feed *feed = lq_container(request, struct lq_feed, request);
    const Lightq__Wire__GroupDescribeAnswer *answer = reply->body;
    if (reply->status == LIGHTQ_OK && answer != NULL) {
        create(feed, answer);
    } else if (reply->answered && reply->status == LIGHTQ_ENOTFOUND) {
        lq_feed_fail_group(feed);
    } else {
        lq_meta_doubt(lq_feed_io(feed)->meta, feed->intake->topic, 0);
        lq_feed_try_again(feed, LIGHTQ_EBUSY, NULL);
        lq_feed_pump(feed);
    }
}

void lq_feed_adopt(struct lq_feed *feed)
{
    const struct lq_topic *topic = feed->intake->topic;
    struct lq_conn *conn = topic->partition_count > 0 ? topic->partitions[0].leader_conn : NULL;
    Lightq__Wire__GroupDescribe body = LIGHTQ__WIRE__GROUP_DESCRIBE__INIT;
    body.topic = lq_codec_bytes_of(&feed->intake->id);
    body.consumer_group = feed->intake->group;
    feed->request.done = on_described;
    if (conn == NULL || !lq_conn_want(conn) ||
        lq_conn_request(conn, &feed->request, LQ_MESSAGE_GROUP_DESCRIBE, topic->partitions[0].group, &body.base, NULL,
                        timeout_us(feed)) != LIGHTQ_OK) {
        lq_feed_try_again(feed, LIGHTQ_EBUSY, NULL); /* the next refusal comes here again */
    }
}
