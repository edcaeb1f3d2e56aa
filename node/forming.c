/* node/forming.c - see forming.h, and docs/adr/0007-forming.md for why it is safe.
 *
 * Everything is said in INFO letters, again and again: who I am, and how far I am. Nothing depends on one of them
 * arriving. What a node says was made durable before it said it.
 *
 *     BLANK     --(all expected nodes are here and blank, mine is the lowest id)--> PROMISED to my own proposal
 *     BLANK     --(the lowest id proposes, and names me)--------------------------> PROMISED to that
 *     PROMISED  --(mine, and every founder says it promised the same)-------------> MEMBER
 *     PROMISED  --(mine, and a founder has another directory now)-----------------> PROMISED to my next round
 *     PROMISED  --(another's, who comes with a higher round)----------------------> PROMISED to that
 *     PROMISED  --(another's, who has another directory now: it knows nothing)----> BLANK
 *     any       --(a member says that I founded its cluster)----------------------> MEMBER
 *     BLANK     --(a member took me in)-------------------------------------------> MEMBER
 *
 * The proposer alone decides that a cluster is made, by becoming MEMBER; all others learn it. */
#include "node/forming.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/log.h"
#include "node/codec.h"
#include "node/letter.h"

#define PROBE_MS_DEFAULT 200
#define OTHERS_MAX       32
#define FRESH_PROBES     5 /* a node that was silent for so many is not here */
#define MICROS_PER_MILLI UINT64_C(1000)

/* What was heard of another node. */
struct other {
    uint32_t node;
    bool connected, heard;
    uint64_t heard_us;
    struct lq_letter_info info;
};

struct lq_forming {
    struct lq_forming_options options;
    struct lq_forming_events events;
    void *owner;
    struct other others[OTHERS_MAX];
    unsigned other_count;
    uint64_t deadline_us;
    bool done, failed;
    struct lq_err told; /* the last reason for waiting */
};

static uint64_t now_us(const struct lq_forming *forming)
{
    return lq_clock_monotonic_us(forming->options.clock);
}

static struct lq_identity *self_of(struct lq_forming *forming)
{
    return forming->options.identity;
}

/* ---- what is said ---- */

static void wait_for(struct lq_forming *forming, lightq_status status, const char *format, ...) LQ_PRINTF(3, 4);

static void wait_for(struct lq_forming *forming, lightq_status status, const char *format, ...)
{
    struct lq_err err = {.status = status};
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(err.text, sizeof err.text, format, arguments);
    va_end(arguments);
    if (strcmp(err.text, forming->told.text) != 0) {
        forming->told = err;
        forming->events.waiting(forming->owner, &err);
    }
}

static void fill_card(const struct lq_forming *forming, struct lq_node_card *card)
{
    const struct lq_identity *identity = forming->options.identity;
    *card = (struct lq_node_card){.node = identity->node,
                                  .shards = identity->shards,
                                  .uuid = identity->uuid,
                                  .boot = identity->boot,
                                  .client = forming->options.client,
                                  .peer = forming->options.peer};
}

static void send_info(struct lq_forming *forming, uint32_t node)
{
    const struct lq_identity *identity = forming->options.identity;
    struct lq_letter letter = {.kind = LQ_LETTER_INFO};
    fill_card(forming, &letter.info.card);
    letter.info.expect = forming->options.expect;
    letter.info.state = identity->state;
    letter.info.cluster = identity->cluster;
    letter.info.has_proposal = identity->state == LQ_IDENTITY_PROMISED || identity->founder;
    letter.info.proposal = identity->proposal;
    lq_letter_send(forming->options.link, node, &letter);
}

static void send_join(struct lq_forming *forming, uint32_t node)
{
    struct lq_letter letter = {.kind = LQ_LETTER_JOIN};
    fill_card(forming, &letter.join);
    lq_letter_send(forming->options.link, node, &letter);
}

static void say_all(struct lq_forming *forming)
{
    for (unsigned i = 0; i < forming->other_count; i++) {
        const struct other *other = &forming->others[i];
        if (other->connected) {
            send_info(forming, other->node);
            if (self_of(forming)->state == LQ_IDENTITY_BLANK && other->heard &&
                other->info.state == LQ_IDENTITY_MEMBER) {
                send_join(forming, other->node);
            }
        }
    }
}

/* ---- steps: durable first, then said ---- */

/* False: the disk failed; nothing more is done. */
static bool become(struct lq_forming *forming, const struct lq_identity *next)
{
    struct lq_err err = {.status = LIGHTQ_OK};
    lightq_status status = lq_identity_store(forming->options.io, next, &err);
    if (status != LIGHTQ_OK) {
        forming->failed = true;
        err.status = status;
        forming->events.failed(forming->owner, &err);
        return false;
    }
    *self_of(forming) = *next;
    forming->told.text[0] = '\0';
    return true;
}

static void finish(struct lq_forming *forming, const struct lq_identity *next)
{
    if (become(forming, next)) {
        say_all(forming);
        forming->done = true;
        forming->events.done(forming->owner);
    }
}

static void become_founder(struct lq_forming *forming, const struct lq_cluster_proposal *proposal)
{
    struct lq_identity next = *self_of(forming);
    next.state = LQ_IDENTITY_MEMBER;
    next.cluster = proposal->cluster;
    next.founder = true;
    next.meta_incarnation = 1; /* LQ_INCARNATION_FOUNDER */
    next.proposal = *proposal;
    finish(forming, &next);
}

static void promise(struct lq_forming *forming, const struct lq_cluster_proposal *proposal)
{
    struct lq_identity next = *self_of(forming);
    next.state = LQ_IDENTITY_PROMISED;
    next.proposal = *proposal;
    if (become(forming, &next)) {
        say_all(forming);
    }
}

static void forget_promise(struct lq_forming *forming)
{
    struct lq_identity next = *self_of(forming);
    next.state = LQ_IDENTITY_BLANK;
    memset(&next.proposal, 0, sizeof next.proposal);
    if (become(forming, &next)) {
        lq_log(INFO, "the node that wanted to form a cluster begins anew, and so does this one");
        say_all(forming);
    }
}

/* ---- looking around ---- */

static struct other *find(struct lq_forming *forming, uint32_t node)
{
    for (unsigned i = 0; i < forming->other_count; i++) {
        if (forming->others[i].node == node) {
            return &forming->others[i];
        }
    }
    return NULL;
}

/* Here and heard of lately. */
static bool is_fresh(const struct lq_forming *forming, const struct other *other)
{
    uint64_t patience_us = (uint64_t)forming->options.probe_ms * FRESH_PROBES * MICROS_PER_MILLI;
    return other != NULL && other->connected && other->heard && now_us(forming) - other->heard_us <= patience_us;
}

static bool names(const struct lq_cluster_proposal *proposal, uint32_t node, const struct lq_id *uuid)
{
    const struct lq_founder *founder = lq_founder_find(&proposal->founders, node);
    return founder != NULL && lq_id_equal(&founder->uuid, uuid);
}

/* A proposal of the one who sends it, who is the lowest of the founders, and which names this node. */
static bool is_for_me(const struct lq_forming *forming, const struct lq_letter_info *info)
{
    const struct lq_identity *identity = forming->options.identity;
    const struct lq_cluster_proposal *proposal = &info->proposal;
    return info->state == LQ_IDENTITY_PROMISED && proposal->proposer == info->card.node &&
           lq_id_equal(&proposal->proposer_uuid, &info->card.uuid) &&
           proposal->founders.at[0].node == proposal->proposer && proposal->founders.count == forming->options.expect &&
           names(proposal, identity->node, &identity->uuid);
}

static bool same_proposal(const struct lq_cluster_proposal *a, const struct lq_cluster_proposal *b)
{
    return lq_id_equal(&a->cluster, &b->cluster) && a->round == b->round && a->proposer == b->proposer &&
           lq_id_equal(&a->proposer_uuid, &b->proposer_uuid);
}

/* ---- proposing ---- */

static void add_founder(struct lq_founders *founders, const struct lq_node_card *card)
{
    uint32_t at = founders->count++;
    while (at > 0 && founders->at[at - 1].node > card->node) {
        founders->at[at] = founders->at[at - 1];
        at--;
    }
    founders->at[at] =
        (struct lq_founder){.node = card->node, .uuid = card->uuid, .client = card->client, .peer = card->peer};
}

/* A proposal of this node and all that are here: the caller has counted them. */
static void propose(struct lq_forming *forming, uint64_t round)
{
    const struct lq_identity *identity = self_of(forming);
    struct lq_cluster_proposal proposal = {.cluster = lq_id_random(forming->options.clock),
                                           .proposer = identity->node,
                                           .proposer_uuid = identity->uuid,
                                           .round = round};
    struct lq_node_card card;
    fill_card(forming, &card);
    add_founder(&proposal.founders, &card);
    for (unsigned i = 0; i < forming->other_count; i++) {
        if (is_fresh(forming, &forming->others[i])) {
            add_founder(&proposal.founders, &forming->others[i].info.card);
        }
    }
    promise(forming, &proposal);
}

/* Whether all that are expected are here (with this node), agree about how many that is, and each is free: blank, or
 * bound to nobody but this node. Says what is missing. */
static bool all_are_free(struct lq_forming *forming)
{
    const struct lq_identity *identity = self_of(forming);
    uint32_t here = 1;
    for (unsigned i = 0; i < forming->other_count; i++) {
        const struct other *other = &forming->others[i];
        if (!is_fresh(forming, other)) {
            continue;
        }
        here++;
        if (other->info.expect != forming->options.expect) {
            wait_for(forming, LIGHTQ_ECONFLICT,
                     "node %u expects %u nodes and this one %u: give both the same --seeds and --expect", other->node,
                     other->info.expect, forming->options.expect);
            return false;
        }
        bool bound = other->info.state == LQ_IDENTITY_PROMISED &&
                     !(other->info.proposal.proposer == identity->node &&
                       lq_id_equal(&other->info.proposal.proposer_uuid, &identity->uuid));
        if (bound && other->info.proposal.proposer != identity->node) {
            wait_for(forming, LIGHTQ_ENOTREADY, "node %u waits for node %u to form a cluster", other->node,
                     other->info.proposal.proposer);
        }
        if (bound) {
            return false; /* to this node's former directory: it will notice */
        }
    }
    if (here != forming->options.expect || here - 1 < forming->options.seed_count) {
        bool missing = here < forming->options.expect || here - 1 < forming->options.seed_count;
        wait_for(forming, missing ? LIGHTQ_ENOTREADY : LIGHTQ_ECONFLICT,
                 missing ? "here: %u of the %u nodes that are expected, this one included (other seeds given: %u); "
                           "waiting for all"
                         : "%u nodes are here, but %u are expected and %u other seeds are given: correct --seeds and "
                           "--expect",
                 here, forming->options.expect, forming->options.seed_count);
        return false;
    }
    return true;
}

static bool is_lowest(const struct lq_forming *forming)
{
    for (unsigned i = 0; i < forming->other_count; i++) {
        if (is_fresh(forming, &forming->others[i]) && forming->others[i].node < forming->options.identity->node) {
            return false;
        }
    }
    return true;
}

/* ---- one step in each state ---- */

static void step_blank(struct lq_forming *forming)
{
    for (unsigned i = 0; i < forming->other_count; i++) {
        const struct other *other = &forming->others[i];
        if (is_fresh(forming, other) && is_for_me(forming, &other->info)) {
            promise(forming, &other->info.proposal);
            return;
        }
    }
    if (forming->options.expect == 1 && forming->options.seed_count == 0) {
        propose(forming, 1);
        return;
    }
    if (all_are_free(forming)) {
        if (is_lowest(forming)) {
            propose(forming, 1);
        } else {
            wait_for(forming, LIGHTQ_ENOTREADY, "all nodes are here: the one with the lowest id forms the cluster");
        }
    }
}

static void step_proposer(struct lq_forming *forming)
{
    const struct lq_identity *identity = self_of(forming);
    const struct lq_founders *founders = &identity->proposal.founders;
    bool all = true;
    for (uint32_t i = 0; i < founders->count; i++) {
        const struct lq_founder *founder = &founders->at[i];
        if (founder->node == identity->node) {
            continue;
        }
        const struct other *other = find(forming, founder->node);
        if (!is_fresh(forming, other)) {
            all = false;
            wait_for(forming, LIGHTQ_ENOTREADY, "waiting for node %u to agree to the cluster", founder->node);
        } else if (!lq_id_equal(&other->info.card.uuid, &founder->uuid)) {
            if (all_are_free(forming) && is_lowest(forming)) {
                propose(forming, identity->proposal.round + 1); /* its directory was emptied meanwhile */
            }
            return;
        } else if (other->info.state != LQ_IDENTITY_PROMISED ||
                   !same_proposal(&other->info.proposal, &identity->proposal)) {
            all = false; /* it has not heard yet */
        }
    }
    if (all) {
        struct lq_cluster_proposal proposal = identity->proposal;
        become_founder(forming, &proposal);
    }
}

static void step_promised(struct lq_forming *forming)
{
    const struct lq_identity *identity = self_of(forming);
    const struct lq_cluster_proposal *mine = &identity->proposal;
    const struct other *proposer = find(forming, mine->proposer);
    if (!is_fresh(forming, proposer)) {
        wait_for(forming, LIGHTQ_ENOTREADY,
                 "waiting for node %u, which was forming the cluster; if it is lost for good, empty this directory",
                 mine->proposer);
    } else if (!lq_id_equal(&proposer->info.card.uuid, &mine->proposer_uuid)) {
        forget_promise(forming);
    } else if (is_for_me(forming, &proposer->info) && proposer->info.proposal.round > mine->round) {
        struct lq_cluster_proposal next = proposer->info.proposal;
        promise(forming, &next);
    } else {
        wait_for(forming, LIGHTQ_ENOTREADY, "waiting for node %u to form the cluster", mine->proposer);
    }
}

/* A member is here: no cluster is made. True when one is. */
static bool step_with_member(struct lq_forming *forming)
{
    const struct lq_identity *identity = self_of(forming);
    for (unsigned i = 0; i < forming->other_count; i++) {
        const struct other *other = &forming->others[i];
        if (!is_fresh(forming, other) || other->info.state != LQ_IDENTITY_MEMBER) {
            continue;
        }
        const struct lq_cluster_proposal *proposal = &other->info.proposal;
        if (other->info.has_proposal && lq_id_equal(&proposal->cluster, &other->info.cluster) &&
            names(proposal, identity->node, &identity->uuid)) {
            struct lq_cluster_proposal founded = *proposal;
            become_founder(forming, &founded);
        } else if (identity->state == LQ_IDENTITY_PROMISED) {
            wait_for(forming, LIGHTQ_ECONFLICT,
                     "node %u has a cluster, but this one promised node %u to form another; to join, empty this "
                     "directory",
                     other->node, identity->proposal.proposer);
        } else if (forming->told.status != LIGHTQ_EIDENTITY) {
            wait_for(forming, LIGHTQ_ENOTREADY, "asking node %u to be taken into its cluster", other->node);
        }
        return true;
    }
    return false;
}

static void step(struct lq_forming *forming)
{
    if (forming->done || forming->failed || step_with_member(forming)) {
        return;
    }
    switch (self_of(forming)->state) {
    case LQ_IDENTITY_BLANK:
        step_blank(forming);
        break;
    case LQ_IDENTITY_PROMISED:
        if (self_of(forming)->proposal.proposer == self_of(forming)->node) {
            step_proposer(forming);
        } else {
            step_promised(forming);
        }
        break;
    case LQ_IDENTITY_MEMBER:
        break;
    }
}

/* ---- events ---- */

static struct other *note(struct lq_forming *forming, uint32_t node)
{
    struct other *other = find(forming, node);
    if (other == NULL && forming->other_count < OTHERS_MAX) {
        other = &forming->others[forming->other_count++];
        *other = (struct other){.node = node};
    }
    return other;
}

static void on_info(struct lq_forming *forming, uint32_t node, const struct lq_letter_info *info)
{
    struct other *other = note(forming, node);
    if (other == NULL) {
        wait_for(forming, LIGHTQ_ELIMIT, "more than %d nodes are here", OTHERS_MAX);
        return;
    }
    other->info = *info;
    other->heard = true;
    other->heard_us = now_us(forming);
    step(forming);
}

static void on_joined(struct lq_forming *forming, const struct lq_letter_joined *joined)
{
    const struct lq_identity *identity = self_of(forming);
    if (forming->done || forming->failed || identity->state != LQ_IDENTITY_BLANK ||
        !lq_id_equal(&joined->uuid, &identity->uuid)) {
        return;
    }
    if (joined->status == LIGHTQ_OK) {
        struct lq_identity next = *identity;
        next.state = LQ_IDENTITY_MEMBER;
        next.cluster = joined->cluster;
        next.meta_incarnation = joined->incarnation;
        finish(forming, &next);
    } else if (!lightq_status_retriable(joined->status)) {
        wait_for(forming, joined->status, "the cluster does not take this node in: %s", joined->text);
    }
}

static lightq_status on_receive(void *owner, uint32_t node, const struct lq_frame_in *frame)
{
    struct lq_forming *forming = owner;
    struct lq_letter letter;
    if (frame->type != LQ_FRAME_NODE) {
        return LIGHTQ_OK; /* for a host that is not there yet */
    }
    lightq_status status = lq_letter_decode(frame->slab->bytes + frame->offset, frame->size, &letter);
    if (status != LIGHTQ_OK) {
        return status == LIGHTQ_EVERSION ? LIGHTQ_OK : LIGHTQ_EPROTO;
    }
    if (letter.kind == LQ_LETTER_INFO) {
        if (letter.info.card.node != node || node == self_of(forming)->node) {
            return LIGHTQ_EPROTO;
        }
        on_info(forming, node, &letter.info);
    } else if (letter.kind == LQ_LETTER_JOINED) {
        on_joined(forming, &letter.joined);
    }
    return LIGHTQ_OK;
}

static void on_up(void *owner, uint32_t node)
{
    struct lq_forming *forming = owner;
    struct other *other = note(forming, node);
    if (other != NULL && !forming->done && !forming->failed) {
        other->connected = true;
        send_info(forming, node);
    }
}

static void on_down(void *owner, uint32_t node, bool refused)
{
    struct lq_forming *forming = owner;
    struct other *other = find(forming, node);
    (void)refused;
    if (other != NULL) {
        other->connected = false;
        other->heard = false; /* who comes next may be another */
    }
}

const struct lq_link_events lq_forming_link_events = {.receive = on_receive, .up = on_up, .down = on_down};

/* ---- public ---- */

lightq_status lq_forming_new(const struct lq_forming_options *options, const struct lq_forming_events *events,
                             void *owner, struct lq_forming **out, struct lq_err *err)
{
    if (options->expect == 0 || options->expect > LQ_FOUNDERS_MAX) {
        return lq_err_set(err, LIGHTQ_EINVAL, "a cluster is made of 1 to %d nodes, not of %u: correct --expect",
                          LQ_FOUNDERS_MAX, options->expect);
    }
    struct lq_forming *forming = calloc(1, sizeof *forming);
    if (forming == NULL) {
        return lq_err_set(err, LIGHTQ_ENOMEM, "out of memory for forming a cluster");
    }
    forming->options = *options;
    if (options->probe_ms == 0) {
        forming->options.probe_ms = PROBE_MS_DEFAULT;
    }
    forming->events = *events;
    forming->owner = owner;
    *out = forming;
    return LIGHTQ_OK;
}

void lq_forming_free(struct lq_forming *forming)
{
    free(forming);
}

uint64_t lq_forming_deadline_us(struct lq_forming *forming)
{
    return forming->done || forming->failed ? UINT64_MAX : forming->deadline_us;
}

void lq_forming_tick(struct lq_forming *forming)
{
    if (forming->done || forming->failed || now_us(forming) < forming->deadline_us) {
        return;
    }
    forming->deadline_us = now_us(forming) + forming->options.probe_ms * MICROS_PER_MILLI;
    step(forming);
    if (!forming->done && !forming->failed) {
        say_all(forming);
    }
}

lightq_status lq_forming_check_peer(const struct lq_forming *forming, const struct lq_hello *hello, struct lq_err *err)
{
    const struct lq_identity *identity = forming->options.identity;
    if (hello->node == identity->node || lq_id_equal(&hello->uuid, &identity->uuid)) {
        return lq_err_set(err, LIGHTQ_EIDENTITY, "two nodes are called %u: give each its own --node-id", hello->node);
    }
    return LIGHTQ_OK;
}

void lq_forming_rejected(struct lq_forming *forming, uint32_t node, lightq_status status, const char *sentence)
{
    if (!forming->done && !forming->failed) {
        wait_for(forming, status, "node %u refuses this one: %s", node, sentence);
    }
}
