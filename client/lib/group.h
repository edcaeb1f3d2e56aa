/* client/lib/group.h - what group.c (making and changing groups) and group_info.c (looking at them) share. Any thread.
 */
#ifndef LQ_LIB_GROUP_H
#define LQ_LIB_GROUP_H

#include <lightq/group.h>

#include "client/lib/call.h"

/* One operation on the partitions of a topic. */
struct lq_group_work {
    struct lightq *client;
    const char *topic, *group; /* group NULL: all of them */
    uint64_t deadline_us;
    int32_t partition_count;
    struct lightq_error *error; /* may be NULL */
};

/* Checks the names and learns how many partitions there are. Statuses as of every function of lightq/group.h. */
lightq_status lq_group_begin(struct lq_group_work *work, struct lightq *client, const char *topic, const char *group,
                             int timeout_ms, struct lightq_error *error) LQ_MUST_CHECK;
/* Milliseconds left, for lq_call_run. */
int lq_group_left_ms(const struct lq_group_work *work);

/* Asks the leader of @partition for up to @timeout_ms; the topic and the partition are put into @body here. *answer
 * (free with lq_codec_free) is also given with a refusal that has one. *said is the error; that of @work is not
 * touched.
 * @repeated: what a change says that was made by an attempt whose answer was lost. */
lightq_status lq_group_ask_for(const struct lq_group_work *work, int32_t partition, uint16_t type,
                               ProtobufCMessage *body, lightq_status repeated, int timeout_ms, void **answer,
                               struct lightq_error *said) LQ_MUST_CHECK;
/* The same with all the time that is left; the error goes to @work. */
lightq_status lq_group_ask(const struct lq_group_work *work, int32_t partition, uint16_t type, ProtobufCMessage *body,
                           lightq_status repeated, void **answer) LQ_MUST_CHECK;

/* @wire may be NULL. */
void lq_group_options_take(const Lightq__Wire__GroupOptions *wire, struct lightq_group_options *options);

#endif
