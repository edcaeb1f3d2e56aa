/* node/group_words.c - see group_words.h. */
#include "node/group_words.h"

#include <string.h>

#define NO_BOUND UINT32_MAX /* max_deliver of a client that wants none */

/* The commands' bits are the protocol's. */
_Static_assert(LQ_CGROUP_ALTER_PAUSED == (int)LIGHTQ__WIRE__GROUP_OPTION__GROUP_OPTION_PAUSED &&
                   LQ_CGROUP_ALTER_ACK_WAIT == (int)LIGHTQ__WIRE__GROUP_OPTION__GROUP_OPTION_ACK_WAIT &&
                   LQ_CGROUP_ALTER_MAX_DELIVER == (int)LIGHTQ__WIRE__GROUP_OPTION__GROUP_OPTION_MAX_DELIVER &&
                   LQ_CGROUP_ALTER_MAX_UNSETTLED == (int)LIGHTQ__WIRE__GROUP_OPTION__GROUP_OPTION_MAX_UNSETTLED &&
                   LQ_CGROUP_ALTER_BACKOFF == (int)LIGHTQ__WIRE__GROUP_OPTION__GROUP_OPTION_BACKOFF &&
                   LQ_CGROUP_ALTER_EXCLUSIVE == (int)LIGHTQ__WIRE__GROUP_OPTION__GROUP_OPTION_EXCLUSIVE,
               "options of groups");

static Lightq__Wire__StartKind kind_of(uint8_t kind)
{
    switch (kind) {
    case LQ_CGROUP_END:
        return LIGHTQ__WIRE__START_KIND__START_END;
    case LQ_CGROUP_OFFSET:
        return LIGHTQ__WIRE__START_KIND__START_OFFSET;
    case LQ_CGROUP_TIME:
        return LIGHTQ__WIRE__START_KIND__START_TIME;
    default:
        return LIGHTQ__WIRE__START_KIND__START_FIRST;
    }
}

void lq_group_words_fill(struct lq_group_words *words, const struct lq_cgroup *cgroup)
{
    const struct lq_cgroup_options *options = &cgroup->options;
    lightq__wire__group_options__init(&words->options);
    lightq__wire__start__init(&words->start);
    lightq__wire__missed__init(&words->missed);
    words->options.mode = (Lightq__Wire__GroupMode)options->mode;
    words->options.exclusive = options->exclusive;
    words->options.key_ordered = options->key_ordered;
    words->options.paused = options->paused;
    words->options.ack_wait_ms = options->ack_wait_ms;
    words->options.max_deliver = options->max_deliver == 0 ? NO_BOUND : options->max_deliver;
    words->options.max_unsettled = options->max_unsettled;
    memcpy(words->backoff_ms, options->backoff_ms, sizeof words->backoff_ms);
    words->options.n_backoff_ms = options->backoff_count;
    words->options.backoff_ms = words->backoff_ms;
    words->start.kind = kind_of(cgroup->start.kind);
    words->start.value = cgroup->start.kind == LQ_CGROUP_TIME ? cgroup->start.time_ms : cgroup->start.offset;
    words->missed.count = cgroup->missed_count;
    words->missed.first = cgroup->missed_first;
    words->missed.end = cgroup->missed_end;
}

void lq_group_words_subscribed(struct lq_group_words *words, const struct lq_cgroup *cgroup,
                               Lightq__Wire__SubscribeAnswer *answer)
{
    lq_group_words_fill(words, cgroup);
    answer->offset = cgroup->settled.floor;
    answer->group_number = cgroup->number;
    answer->generation = cgroup->generation;
    answer->group_id = lq_codec_bytes_of(&cgroup->id);
    answer->options = &words->options;
    answer->missed = cgroup->missed_count > 0 ? &words->missed : NULL;
}

static uint32_t or_default(uint32_t value, uint32_t standard)
{
    return value == 0 ? standard : value;
}

lightq_status lq_group_options_change(const Lightq__Wire__GroupOptions *in, uint32_t mask,
                                      struct lq_cgroup_options *options, const char **text)
{
    const Lightq__Wire__GroupOptions none = LIGHTQ__WIRE__GROUP_OPTIONS__INIT;
    struct lq_cgroup_options standard;
    in = in == NULL ? &none : in;
    lq_cgroup_options_init(&standard, (enum lq_cgroup_mode)options->mode);
    if ((mask & ~(uint32_t)LQ_CGROUP_ALTER_ALL) != 0) {
        *text = "an option of a group that this node does not know";
        return LIGHTQ_EINVAL;
    }
    if (in->n_backoff_ms > LQ_CGROUP_BACKOFF_MAX) {
        *text = "a list of delays (backoff) has at most 16";
        return LIGHTQ_EINVAL;
    }
    options->paused = (mask & LQ_CGROUP_ALTER_PAUSED) != 0 ? in->paused : options->paused;
    options->exclusive = (mask & LQ_CGROUP_ALTER_EXCLUSIVE) != 0 ? in->exclusive : options->exclusive;
    if ((mask & LQ_CGROUP_ALTER_ACK_WAIT) != 0) {
        options->ack_wait_ms = or_default(in->ack_wait_ms, standard.ack_wait_ms);
    }
    if ((mask & LQ_CGROUP_ALTER_MAX_DELIVER) != 0) {
        options->max_deliver = in->max_deliver == NO_BOUND ? 0 : or_default(in->max_deliver, standard.max_deliver);
    }
    if ((mask & LQ_CGROUP_ALTER_MAX_UNSETTLED) != 0) {
        options->max_unsettled = or_default(in->max_unsettled, standard.max_unsettled);
    }
    if ((mask & LQ_CGROUP_ALTER_BACKOFF) != 0) {
        options->backoff_count = (uint32_t)in->n_backoff_ms;
        memset(options->backoff_ms, 0, sizeof options->backoff_ms);
        if (in->n_backoff_ms > 0) {
            memcpy(options->backoff_ms, in->backoff_ms, in->n_backoff_ms * sizeof in->backoff_ms[0]);
        }
    }
    lightq_status status = lq_cgroup_options_check(options);
    if (status != LIGHTQ_OK) {
        *text = "an option of the group is out of range, or two of them exclude each other (exclusive, key ordered)";
    }
    return status;
}

lightq_status lq_group_options_read(const Lightq__Wire__GroupOptions *in, struct lq_cgroup_options *options,
                                    const char **text)
{
    if (in == NULL || (in->mode != LIGHTQ__WIRE__GROUP_MODE__GROUP_SUBSCRIBER &&
                       in->mode != LIGHTQ__WIRE__GROUP_MODE__GROUP_PIPELINE)) {
        *text = "a group is a subscriber or a pipeline group";
        return LIGHTQ_EINVAL;
    }
    lq_cgroup_options_init(options, in->mode == LIGHTQ__WIRE__GROUP_MODE__GROUP_PIPELINE ? LQ_CGROUP_PIPELINE
                                                                                         : LQ_CGROUP_SUBSCRIBER);
    options->key_ordered = in->key_ordered;
    return lq_group_options_change(in, LQ_CGROUP_ALTER_ALL, options, text);
}

lightq_status lq_group_start_read(const Lightq__Wire__Start *in, struct lq_cgroup_start *start)
{
    *start = (struct lq_cgroup_start){.kind = LQ_CGROUP_START};
    switch (in == NULL ? LIGHTQ__WIRE__START_KIND__START_FIRST : in->kind) {
    case LIGHTQ__WIRE__START_KIND__START_FIRST:
        return LIGHTQ_OK;
    case LIGHTQ__WIRE__START_KIND__START_END:
        start->kind = LQ_CGROUP_END;
        return LIGHTQ_OK;
    case LIGHTQ__WIRE__START_KIND__START_OFFSET:
        start->kind = LQ_CGROUP_OFFSET;
        start->offset = in->value;
        return LIGHTQ_OK;
    case LIGHTQ__WIRE__START_KIND__START_TIME:
        start->kind = LQ_CGROUP_TIME;
        start->time_ms = in->value;
        return LIGHTQ_OK;
    default:
        return LIGHTQ_EUNSUPPORTED;
    }
}
