/* raft/hello.c - see hello.h. */
#include "raft/hello.h"

#include <inttypes.h>
#include <string.h>

#include "client/base/buf.h"

enum {
    AT_KIND = 8,
    AT_VERSION_MIN = 9,
    AT_VERSION_MAX = 10,
    AT_FLAGS = 11,
    AT_STATUS = 12,
    AT_SHARD = 14,
    AT_SHARDS = 16,
    AT_NODE = 20,
    AT_TO = 24,
    AT_CLUSTER = 32,
    AT_UUID = 48,
    AT_BOOT_COUNT = 64,
    AT_BOOT_NONCE = 72,
    AT_TEXT_SIZE = 80,
    AT_TEXT = LQ_HELLO_FIXED_BYTES,
    ADMISSION_BYTES = 4,
};
enum { FLAG_PROBE = 1 };

static const uint8_t magic[AT_KIND] = {'L', 'Q', 'P', 'E', 'E', 'R', 0, 0};

uint32_t lq_hello_put(uint8_t *at, const struct lq_hello *hello)
{
    size_t text_size = strnlen(hello->text, sizeof hello->text);
    memset(at, 0, AT_TEXT);
    memcpy(at, magic, sizeof magic);
    at[AT_KIND] = (uint8_t)hello->kind;
    at[AT_VERSION_MIN] = hello->version_min;
    at[AT_VERSION_MAX] = hello->version_max;
    at[AT_FLAGS] = hello->probe ? FLAG_PROBE : 0;
    lq_put_u16(at + AT_STATUS, (uint16_t)hello->status);
    lq_put_u16(at + AT_SHARD, hello->shard);
    lq_put_u16(at + AT_SHARDS, hello->shards);
    lq_put_u32(at + AT_NODE, hello->node);
    lq_put_u32(at + AT_TO, hello->to);
    memcpy(at + AT_CLUSTER, hello->cluster.bytes, sizeof hello->cluster.bytes);
    memcpy(at + AT_UUID, hello->uuid.bytes, sizeof hello->uuid.bytes);
    lq_put_u64(at + AT_BOOT_COUNT, hello->boot_count);
    lq_put_u64(at + AT_BOOT_NONCE, hello->boot_nonce);
    lq_put_u16(at + AT_TEXT_SIZE, (uint16_t)text_size);
    memcpy(at + AT_TEXT, hello->text, text_size);
    if (hello->admission == 0) {
        return (uint32_t)(AT_TEXT + text_size);
    }
    lq_put_u32(at + AT_TEXT + text_size, hello->admission);
    return (uint32_t)(AT_TEXT + text_size + ADMISSION_BYTES);
}

/* What is the same in every version: without it nothing else can be said. */
static lightq_status check_fixed(const uint8_t *at, size_t size, enum lq_hello_kind kind, struct lq_err *err)
{
    if (size < AT_TEXT || size > LQ_HELLO_BYTES_MAX) {
        return lq_err_set(err, LIGHTQ_EPROTO, "hello: %zu bytes", size);
    }
    if (memcmp(at, magic, sizeof magic) != 0) {
        return lq_err_set(err, LIGHTQ_EPROTO,
                          "hello: it does not begin like one; is this the port of another service?");
    }
    if (at[AT_KIND] != kind) {
        return lq_err_set(err, LIGHTQ_EPROTO, "hello: of kind %u, not %d", at[AT_KIND], (int)kind);
    }
    if (at[AT_VERSION_MIN] == 0 || at[AT_VERSION_MIN] > at[AT_VERSION_MAX]) {
        return lq_err_set(err, LIGHTQ_EPROTO, "hello: versions %u to %u", at[AT_VERSION_MIN], at[AT_VERSION_MAX]);
    }
    uint16_t text_size = lq_get_u16(at + AT_TEXT_SIZE);
    if (text_size > size - AT_TEXT || text_size >= LQ_ERR_TEXT_BYTES) {
        return lq_err_set(err, LIGHTQ_EPROTO, "hello: a text of %u bytes in %zu", text_size, size);
    }
    return LIGHTQ_OK;
}

static lightq_status check_fields(const struct lq_hello *hello, struct lq_err *err)
{
    if (hello->node == 0 || hello->node > LQ_NODES_MAX) {
        return lq_err_set(err, LIGHTQ_EPROTO, "hello: %" PRIu32 " is not a node id", hello->node);
    }
    if (lq_id_is_zero(&hello->uuid)) {
        return lq_err_set(err, LIGHTQ_EPROTO, "hello: node %" PRIu32 " has no uuid", hello->node);
    }
    if (hello->shard >= hello->shards) {
        return lq_err_set(err, LIGHTQ_EPROTO, "hello: shard %u of %u", hello->shard, hello->shards);
    }
    bool is_question = hello->kind == LQ_HELLO_ASK;
    if (is_question && (hello->status != LIGHTQ_OK || hello->probe != (hello->to == 0))) {
        return lq_err_set(err, LIGHTQ_EPROTO, "hello: status %d, to node %" PRIu32, (int)hello->status, hello->to);
    }
    return LIGHTQ_OK;
}

lightq_status lq_hello_get(const uint8_t *at, size_t size, enum lq_hello_kind kind, struct lq_hello *hello,
                           struct lq_err *err)
{
    lightq_status status = check_fixed(at, size, kind, err);
    if (status != LIGHTQ_OK) {
        return status;
    }
    *hello = (struct lq_hello){.kind = kind,
                               .version_min = at[AT_VERSION_MIN],
                               .version_max = at[AT_VERSION_MAX],
                               .probe = (at[AT_FLAGS] & FLAG_PROBE) != 0,
                               .status = (lightq_status)lq_get_u16(at + AT_STATUS),
                               .shard = lq_get_u16(at + AT_SHARD),
                               .shards = lq_get_u16(at + AT_SHARDS),
                               .node = lq_get_u32(at + AT_NODE),
                               .to = lq_get_u32(at + AT_TO),
                               .boot_count = lq_get_u64(at + AT_BOOT_COUNT),
                               .boot_nonce = lq_get_u64(at + AT_BOOT_NONCE)};
    memcpy(hello->cluster.bytes, at + AT_CLUSTER, sizeof hello->cluster.bytes);
    memcpy(hello->uuid.bytes, at + AT_UUID, sizeof hello->uuid.bytes);
    uint16_t text_size = lq_get_u16(at + AT_TEXT_SIZE);
    memcpy(hello->text, at + AT_TEXT, text_size);
    if (size - AT_TEXT - text_size >= ADMISSION_BYTES) {
        hello->admission = lq_get_u32(at + AT_TEXT + text_size);
    }
    if (hello->version_min > LQ_PEER_VERSION_MAX || hello->version_max < LQ_PEER_VERSION_MIN) {
        return LIGHTQ_OK; /* its fields may mean something else: lq_hello_judge says EVERSION */
    }
    return check_fields(hello, err);
}

/* ---- rules ---- */

static lightq_status judge_place(const struct lq_hello *self, const struct lq_hello *other, struct lq_err *err)
{
    if (other->shards != self->shards) {
        return lq_err_set(err, LIGHTQ_EUNSUPPORTED,
                          "node %" PRIu32 " has %u shards and node %" PRIu32
                          " has %u: all nodes of a cluster must run with the same number of shards",
                          other->node, other->shards, self->node, self->shards);
    }
    if (other->shard != self->shard) {
        return lq_err_set(err, LIGHTQ_EUNSUPPORTED,
                          "shard %u of node %" PRIu32 " reached shard %u of node %" PRIu32
                          ": the peer port of a shard is the node's base port plus the shard's number; check them",
                          other->shard, other->node, self->shard, self->node);
    }
    return LIGHTQ_OK;
}

lightq_status lq_hello_judge(const struct lq_hello *self, const struct lq_hello *other, struct lq_err *err)
{
    if (other->version_min > self->version_max || other->version_max < self->version_min) {
        return lq_err_set(err, LIGHTQ_EVERSION,
                          "node %" PRIu32 " speaks peer protocol versions %u to %u and node %" PRIu32
                          " %u to %u: upgrade the older one first",
                          other->node, other->version_min, other->version_max, self->node, self->version_min,
                          self->version_max);
    }
    if (other->probe) {
        return LIGHTQ_OK;
    }
    char theirs[LQ_ID_TEXT_BYTES], ours[LQ_ID_TEXT_BYTES];
    if (other->node == self->node || lq_id_equal(&other->uuid, &self->uuid)) {
        lq_id_format(&other->uuid, theirs);
        return lq_err_set(err, LIGHTQ_EIDENTITY,
                          "two nodes say they are node %" PRIu32
                          " (uuid %s): give one of them another node id, and never "
                          "start a copy of a data directory",
                          other->node, theirs);
    }
    if (!lq_id_is_zero(&other->cluster) && !lq_id_is_zero(&self->cluster) &&
        !lq_id_equal(&other->cluster, &self->cluster)) {
        lq_id_format(&other->cluster, theirs);
        lq_id_format(&self->cluster, ours);
        return lq_err_set(err, LIGHTQ_EIDENTITY,
                          "node %" PRIu32 " belongs to cluster %s and node %" PRIu32
                          " to cluster %s: check the seeds, or give the newcomer an empty data directory",
                          other->node, theirs, self->node, ours);
    }
    if (other->kind == LQ_HELLO_ASK && other->to != self->node) {
        return lq_err_set(err, LIGHTQ_EIDENTITY,
                          "node %" PRIu32 " wants node %" PRIu32 " but reached node %" PRIu32
                          ": the address it has of that node is another node's",
                          other->node, other->to, self->node);
    }
    return judge_place(self, other, err);
}

uint8_t lq_hello_version(const struct lq_hello *self, const struct lq_hello *other)
{
    return other->version_max < self->version_max ? other->version_max : self->version_max;
}

bool lq_hello_is_another(const struct lq_hello_seen *seen, const struct lq_hello *other)
{
    return seen->uuid_known && !lq_id_equal(&seen->uuid, &other->uuid);
}

lightq_status lq_hello_compare(const struct lq_hello_seen *seen, const struct lq_hello *other, struct lq_err *err)
{
    if (lq_hello_is_another(seen, other)) {
        char theirs[LQ_ID_TEXT_BYTES], known[LQ_ID_TEXT_BYTES];
        lq_id_format(&other->uuid, theirs);
        lq_id_format(&seen->uuid, known);
        return lq_err_set(err, LIGHTQ_EIDENTITY,
                          "node %" PRIu32
                          " comes with uuid %s, but is known by uuid %s: its data directory was emptied or "
                          "exchanged; put the old one back, or run 'lightq node replace %" PRIu32 " %" PRIu32 "'",
                          other->node, theirs, known, other->node, other->node);
    }
    if (!seen->boot_known) {
        return LIGHTQ_OK;
    }
    if (other->boot_count < seen->boot_count) {
        return lq_err_set(
            err, LIGHTQ_EREPLACED,
            "node %" PRIu32 " comes with start number %" PRIu64 " of its data directory, but number %" PRIu64
            " was seen: the directory was restored from an old copy and may lack what it acknowledged; run "
            "'lightq node replace %" PRIu32 " %" PRIu32 "'",
            other->node, other->boot_count, seen->boot_count, other->node, other->node);
    }
    if (other->boot_count == seen->boot_count && other->boot_nonce != seen->boot_nonce) {
        return lq_err_set(
            err, LIGHTQ_EREPLACED,
            "node %" PRIu32 " comes with start number %" PRIu64
            " of its data directory, but another process had that number: one of two copies of the directory "
            "must stop; if it was restored from a copy, run 'lightq node replace %" PRIu32 " %" PRIu32 "'",
            other->node, other->boot_count, other->node, other->node);
    }
    return LIGHTQ_OK;
}

void lq_hello_remember(struct lq_hello_seen *seen, const struct lq_hello *other)
{
    *seen = (struct lq_hello_seen){.uuid_known = true,
                                   .boot_known = true,
                                   .uuid = other->uuid,
                                   .boot_count = other->boot_count,
                                   .boot_nonce = other->boot_nonce};
}
