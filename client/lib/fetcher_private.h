/* client/lib/fetcher_private.h - what fetcher.c (which feeds there are, and their leaders) and fetcher_stream.c (one
 * feed's subscription) do for each other. I/O thread only. */
#ifndef LQ_LIB_FETCHER_PRIVATE_H
#define LQ_LIB_FETCHER_PRIVATE_H

#include "client/lib/consumer.h"

/* fetcher_stream.c: subscribes when there is a leader and the feed has no subscription. */
void lq_feed_pump(struct lq_feed *feed);
/* fetcher_stream.c: grants credit for what has been done with. */
void lq_feed_credit(struct lq_feed *feed, uint64_t messages, uint64_t bytes);
/* fetcher_stream.c: ends the subscription, if there is one; with @say the server is told. */
void lq_feed_close(struct lq_feed *feed, bool say);
/* fetcher_stream.c: stops the feed and tells why. */
void lq_feed_fail(struct lq_feed *feed, lightq_status status, const char *text, int64_t first, int64_t end);

/* fetcher_stream.c: a parcel with @grants free grants, of now. NULL: out of memory. */
struct lq_parcel *lq_feed_parcel(struct lq_feed *feed, enum lq_parcel_kind kind, size_t grants);
/* fetcher_stream.c: another try, at whoever leads. */
void lq_feed_try_again(struct lq_feed *feed, lightq_status status, const Lightq__Wire__Leader *leader);
/* fetcher_stream.c: stops the feed, for there is no such group. */
void lq_feed_fail_group(struct lq_feed *feed);
/* fetcher_adopt.c: the partition has no such group; makes it when partition 0 has it, else the feed is stopped. */
void lq_feed_adopt(struct lq_feed *feed);
/* fetcher_stream.c: what was delivered and not given is worth nothing any more. */
void lq_feed_forget(struct lq_feed *feed);

/* settler.c: sends what the application said, when it can be. */
void lq_settler_pump(struct lq_feed *feed);
/* settler.c: everything that the application said has its outcome. */
bool lq_settler_is_idle(const struct lq_feed *feed);
/* settler.c: nothing more is sent. */
void lq_settler_close(struct lq_feed *feed);

/* fetcher.c: hands @parcel to poll() at the end of this turn. */
void lq_fetcher_deliver(struct lightq_consumer *consumer, struct lq_parcel *parcel);
/* fetcher.c: @parcel's messages are leased to us for @ack_wait_ms from now; until they are given that is extended. */
void lq_fetcher_lease(struct lightq_consumer *consumer, struct lq_parcel *parcel, uint32_t ack_wait_ms);
/* fetcher.c: what one feed may have fetched and not given. */
uint64_t lq_fetcher_share(const struct lightq_consumer *consumer, uint64_t whole, uint64_t least);
void lq_fetcher_wake_at(struct lightq_consumer *consumer, uint64_t at_us);

static inline struct lq_io *lq_feed_io(const struct lq_feed *feed)
{
    return &feed->intake->consumer->client->io;
}

static inline struct lq_meta_partition *lq_feed_partition(const struct lq_feed *feed)
{
    struct lq_topic *topic = feed->intake->topic;
    return topic != NULL && feed->partition < topic->partition_count ? &topic->partitions[feed->partition] : NULL;
}

#endif
