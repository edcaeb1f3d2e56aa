/* node/group_words.h - consumer groups as clients name them (lightq.proto) and as the queue does (queue/cgroup.h).
 * Called by consume.c, pipeline.c, groups.c and groups_describe.c. Pure functions. */
#ifndef LQ_NODE_GROUP_WORDS_H
#define LQ_NODE_GROUP_WORDS_H

#include "client/wire/codec.h"
#include "node/queue/cgroup.h"

/* What a message of a group points to. */
struct lq_group_words {
    Lightq__Wire__GroupOptions options;
    Lightq__Wire__Start start;
    Lightq__Wire__Missed missed;
    uint32_t backoff_ms[LQ_CGROUP_BACKOFF_MAX];
};
/* Of @cgroup; what is asked for is copied. */
void lq_group_words_fill(struct lq_group_words *words, const struct lq_cgroup *cgroup);
/* What the answer to SUBSCRIBE says of the group; borrows @words and @cgroup. */
void lq_group_words_subscribed(struct lq_group_words *words, const struct lq_cgroup *cgroup,
                               Lightq__Wire__SubscribeAnswer *answer);

/* The options of GROUP_CREATE; @in may be NULL. OK | EINVAL (*text says what). */
lightq_status lq_group_options_read(const Lightq__Wire__GroupOptions *in, struct lq_cgroup_options *options,
                                    const char **text) LQ_MUST_CHECK;
/* Those of GROUP_ALTER: @options are the group's, and those named by @mask become what @in says. */
lightq_status lq_group_options_change(const Lightq__Wire__GroupOptions *in, uint32_t mask,
                                      struct lq_cgroup_options *options, const char **text) LQ_MUST_CHECK;
/* The start of a group. OK | EUNSUPPORTED. Of a time only time_ms is filled: the offset has to be found. */
lightq_status lq_group_start_read(const Lightq__Wire__Start *in, struct lq_cgroup_start *start) LQ_MUST_CHECK;

#endif
