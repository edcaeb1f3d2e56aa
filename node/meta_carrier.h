/* node/meta_carrier.h - frames between nodes that are not the cluster part's own: it passes them on. Their first byte
 * is LQ_CARRIER_FIRST or above, where no kind of letter.h is. Called by carry.c; loop thread only. */
#ifndef LQ_NODE_META_CARRIER_H
#define LQ_NODE_META_CARRIER_H

#include "raft/link.h"

struct lq_meta;

#define LQ_CARRIER_FIRST 64

struct lq_meta_carrier {
    /* From @node, which is an active one of the catalog. OK | EPROTO: its connection is closed. */
    lightq_status (*frame)(void *owner, uint32_t node, const struct lq_frame_in *frame);
    void *owner;
};
/* @carrier is borrowed; NULL: such frames are dropped. */
void lq_meta_set_carrier(struct lq_meta *meta, const struct lq_meta_carrier *carrier);
/* Sends all of @slab to @node. As lq_link_ops.send. */
lightq_status lq_meta_carry(struct lq_meta *meta, uint32_t node, struct lq_slab *slab) LQ_MUST_CHECK;

#endif
