/* node/house.h - the other shards of this node, as the parts of one shard reach them: by mail. node/shard_mail.h is the
 * real way, tests have their own. Why: docs/adr/0009.
 *
 * A mail is embedded in what its sender wants done, and belongs to the sender's thread. Once it is put it is the
 * receiver's, until the receiver puts it back: nobody else touches it, or what it is embedded in, meanwhile. So what
 * travels needs no lock and no copy, and there are never more mails than senders have made. */
#ifndef LQ_NODE_HOUSE_H
#define LQ_NODE_HOUSE_H

#include <stdint.h>

#include "client/base/err.h"
#include "client/base/limits.h"

struct lq_house;
struct lq_mail;
struct lq_meta;

/* On the receiver's thread, once for each time it was put. @house is the receiver's. @meta is its part in the cluster;
 * NULL: closed, or not there yet. */
typedef void (*lq_mail_cb)(struct lq_mail *mail, struct lq_house *house, struct lq_meta *meta);

struct lq_mail {
    lq_mail_cb open;
    unsigned home;        /* the shard it belongs to */
    struct lq_mail *next; /* of the box it is in */
};

struct lq_house_ops {
    /* OK: it will be opened on shard @to. EBUSY: too much waits there; nothing was taken. */
    lightq_status (*offer)(struct lq_house *house, unsigned to, struct lq_mail *mail);
    /* The same, never refused: for mail on its way home, and for mail of which a shard has a fixed number. */
    void (*put)(struct lq_house *house, unsigned to, struct lq_mail *mail);
};

/* Embedded in the shard; its thread only. */
struct lq_house {
    const struct lq_house_ops *ops;
};

/* The shard of a group. The same on every node of the cluster. */
static inline unsigned lq_shard_of(uint64_t group, unsigned shards)
{
    return (unsigned)(group % shards);
}

#endif
