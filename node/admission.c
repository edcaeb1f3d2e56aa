/* node/admission.c - which data directories are believed to be which node: what the catalog says, and, while it is
 * behind, which ones were let in after what it knows. Called for the transport's identify and replaced, and by peers.c.
 * Part of node/meta.h; the state is in meta_internal.h. Why this is safe: docs/adr/0010-behind-the-catalog.md.
 *
 * An admission (raft/hello.h) counts up over the whole cluster. One that our catalog has not given yet belongs to a
 * directory that was let in since: it may be the leader that would bring our catalog up to date, so it is spoken with,
 * confined to the meta group until the catalog names it. One below what the catalog has for that node belongs to a
 * directory that was replaced: it is told so, and must end. */
#include <inttypes.h>

#include "client/base/log.h"
#include "node/codec.h"
#include "node/meta_internal.h"

/* Whether a directory of @node with this admission was let in after what the catalog knows. */
static bool is_later(const struct lq_catalog *catalog, uint32_t node, uint32_t admission)
{
    const struct lq_catalog_node *known = lq_catalog_node(catalog, node);
    bool awaited = known != NULL && known->state == LQ_NODE_AWAITED && admission == known->meta_incarnation;
    return awaited || admission >= lq_catalog_next_admission(catalog);
}

static lightq_status accept(struct lq_meta *meta, const struct lq_hello *hello, struct lq_err *err)
{
    struct lq_peer *peer = lq_peers_find(meta, hello->node);
    if (peer != NULL && peer->is_later) {
        peer->is_later = peer->is_guest = false;
    }
    (void)err;
    return meta->host == NULL ? LIGHTQ_OK : lq_host_confine(meta->host, hello->node, false);
}

/* It is spoken with until the catalog has read on, confined. */
static lightq_status accept_later(struct lq_meta *meta, const struct lq_hello *hello, struct lq_err *err)
{
    struct lq_peer *peer = lq_peers_note(meta, hello->node);
    if (peer == NULL || meta->host == NULL || lq_host_confine(meta->host, hello->node, true) != LIGHTQ_OK) {
        return lq_err_set(err, LIGHTQ_ENOMEM, "node %" PRIu32 " cannot remember more nodes", lq_meta_self(meta));
    }
    if (peer->is_later && hello->admission < peer->later_admission) {
        return lq_err_set(err, LIGHTQ_EIDENTITY,
                          "node %" PRIu32 " was seen with a data directory that was let in later than this one",
                          hello->node);
    }
    if (!peer->is_later || !lq_id_equal(&peer->later_uuid, &hello->uuid)) {
        lq_log(INFO, "a node was let in since the catalog here was written: it may bring it up to date", "node",
               hello->node, "admission", hello->admission);
    }
    peer->is_later = peer->is_guest = true;
    peer->later_admission = hello->admission;
    peer->later_uuid = hello->uuid;
    lq_peers_keep_guest(meta, peer);
    return LIGHTQ_OK;
}

static lightq_status refuse_replaced(const struct lq_hello *hello, struct lq_err *err)
{
    return lq_err_set(err, hello->admission == 0 ? LIGHTQ_EIDENTITY : LIGHTQ_EREPLACED,
                      "node %" PRIu32 " was replaced: its old data directory is no longer part of the cluster. Move it "
                      "away, and start with an empty one",
                      hello->node);
}

static lightq_status refuse_other(const struct lq_hello *hello, struct lq_err *err)
{
    return lq_err_set(err, LIGHTQ_EIDENTITY,
                      "node %" PRIu32 " is known with another data directory; if that one is lost for good, say: "
                      "lightq node replace %" PRIu32 " %" PRIu32,
                      hello->node, hello->node, hello->node);
}

/* It comes with the directory that the catalog has for it. */
static lightq_status check_named(struct lq_meta *meta, const struct lq_hello *hello, const struct lq_catalog_node *node,
                                 struct lq_err *err)
{
    const struct lq_peer *peer = lq_peers_find(meta, hello->node);
    if (peer != NULL && peer->is_later) {
        return lq_err_set(err, LIGHTQ_EIDENTITY,
                          "node %" PRIu32 " was seen with a data directory that was let in later than this one",
                          hello->node);
    }
    if (hello->boot_count < node->boot) {
        return lq_err_set(err, LIGHTQ_EREPLACED,
                          "node %" PRIu32 " comes with start number %" PRIu64
                          " of its data directory, but the catalog has number %" PRIu64
                          ": the directory was restored from an old copy and may lack what it acknowledged; run "
                          "'lightq node replace %" PRIu32 " %" PRIu32 "'",
                          hello->node, hello->boot_count, node->boot, hello->node, hello->node);
    }
    return accept(meta, hello, err);
}

/* A node that reads the catalog's history has no opinion but of those it founded the cluster with. */
static lightq_status check_by_founders(struct lq_meta *meta, const struct lq_hello *hello, struct lq_err *err)
{
    const struct lq_identity *identity = meta->options.identity;
    const struct lq_founder *founder = lq_founder_find(&identity->proposal.founders, hello->node);
    bool other = identity->founder && founder != NULL && !lq_id_equal(&founder->uuid, &hello->uuid);
    if (!other) {
        return accept(meta, hello, err);
    }
    if (!lq_id_is_zero(&hello->cluster) && is_later(meta->catalog, hello->node, hello->admission)) {
        return accept_later(meta, hello, err);
    }
    return lq_err_set(err, LIGHTQ_EIDENTITY, "node %" PRIu32 " founded this cluster with another data directory",
                      hello->node);
}

lightq_status lq_meta_check_peer(struct lq_meta *meta, const struct lq_hello *hello, struct lq_err *err)
{
    const struct lq_catalog_node *node = lq_catalog_node(meta->catalog, hello->node);
    bool is_blank = lq_id_is_zero(&hello->cluster);
    if (!lq_meta_knows_nodes(meta)) {
        return check_by_founders(meta, hello, err);
    }
    if (node != NULL && node->state == LQ_NODE_ACTIVE && lq_id_equal(&node->uuid, &hello->uuid)) {
        return check_named(meta, hello, node, err);
    }
    if (!is_blank && is_later(meta->catalog, hello->node, hello->admission)) {
        return accept_later(meta, hello, err);
    }
    if (node == NULL) {
        return is_blank
                   ? accept(meta, hello, err)
                   : lq_err_set(err, LIGHTQ_EIDENTITY, "node %" PRIu32 " is not part of this cluster", hello->node);
    }
    if (node->state != LQ_NODE_ACTIVE) { /* an empty directory may take a place that is free */
        return is_blank ? accept(meta, hello, err) : refuse_replaced(hello, err);
    }
    return !is_blank && hello->admission < node->meta_incarnation ? refuse_replaced(hello, err)
                                                                  : refuse_other(hello, err);
}

/* ---- when the catalog has read on ---- */

bool lq_admission_is_ahead(const struct lq_meta *meta, const struct lq_peer *peer)
{
    return peer->is_later && (!lq_meta_knows_nodes(meta) || is_later(meta->catalog, peer->node, peer->later_admission));
}

/* The catalog has come to where the directory was let in: it is the node's now, or was replaced since. */
void lq_admission_settle(struct lq_meta *meta, struct lq_peer *peer, const struct lq_catalog_node *node)
{
    bool named = node->state == LQ_NODE_ACTIVE && lq_id_equal(&node->uuid, &peer->later_uuid);
    peer->is_later = peer->is_guest = false;
    peer->told = false;
    if (named && meta->host != NULL) {
        lightq_status status = lq_host_confine(meta->host, peer->node, false);
        (void)status; /* to end it takes no memory */
        peer->full_report_due = true;
        lq_log(INFO, "the catalog here names the node's data directory now", "node", peer->node);
    }
}

/* ---- being replaced ---- */

/* From now on no start makes it look newer than the one that the others have seen. */
static void remember_outdated(struct lq_meta *meta)
{
    struct lq_err err = {.status = LIGHTQ_OK};
    struct lq_identity next = *meta->options.identity;
    next.outdated = true;
    if (lq_identity_store(meta->options.io, &next, &err) == LIGHTQ_OK) {
        *meta->options.identity = next;
    } else {
        lq_log(ERROR, "the identity cannot be written", "why", err.text);
    }
}

void lq_admission_expel(struct lq_meta *meta, const struct lq_err *err)
{
    if (meta->expelled || meta->options.shard != 0) {
        return; /* shard 0 learns of it as well, and has the identity */
    }
    meta->expelled = true;
    remember_outdated(meta);
    meta->events.expelled(meta->owner, err);
}

void lq_meta_replaced(struct lq_meta *meta, uint32_t node, const char *sentence)
{
    struct lq_err err;
    (void)lq_err_set(&err, LIGHTQ_EREPLACED, "node %" PRIu32 " refuses this data directory: %s", node, sentence);
    lq_admission_expel(meta, &err);
}
