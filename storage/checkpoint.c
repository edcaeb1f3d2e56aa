/* storage/checkpoint.c - encodes and checks .ckpt files (storage/checkpoint.h draws them). Called by storage/retain.c,
 * storage/recover.c and storage/background.c on the loop thread. */
#include "storage/checkpoint.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/buf.h"
#include "client/base/crc.h"
#include "client/base/limits.h"
#include "storage/disk.h"

#define HEAD_CRC_FROM 16
#define FILE_BYTES_MAX \
    (LQ_CHECKPOINT_HEADER_BYTES + (uint64_t)LQ_CONFIGURATION_BYTES_MAX + (uint64_t)LQ_CHECKPOINT_BYTES_MAX)

static const char MAGIC[8] = {'L', 'Q', 'C', 'K', 'P', 'T', '0', '1'};

lightq_status lq_checkpoint_encode(const struct lq_checkpoint_owner *owner, const struct lq_checkpoint *checkpoint,
                                   uint64_t install, uint8_t **blob, size_t *size)
{
    if (checkpoint->state_size > LQ_CHECKPOINT_BYTES_MAX ||
        checkpoint->configuration_size > LQ_CONFIGURATION_BYTES_MAX) {
        return LIGHTQ_ETOOBIG;
    }
    size_t body = checkpoint->configuration_size + (size_t)checkpoint->state_size;
    uint8_t *at = malloc(LQ_CHECKPOINT_HEADER_BYTES + body);
    if (at == NULL) {
        return LIGHTQ_ENOMEM;
    }
    memset(at, 0, LQ_CHECKPOINT_HEADER_BYTES);
    memcpy(at, MAGIC, sizeof MAGIC);
    lq_put_u32(at + 8, LQ_CHECKPOINT_VERSION);
    memcpy(at + 16, owner->cluster.bytes, sizeof owner->cluster.bytes);
    lq_put_u64(at + 32, owner->group);
    lq_put_u32(at + 40, owner->incarnation);
    lq_put_u64(at + 48, checkpoint->last_index + 1);
    lq_put_u64(at + 56, checkpoint->last_term);
    lq_put_u64(at + 64, checkpoint->next_offset);
    lq_put_u64(at + 72, checkpoint->timestamp_ms);
    lq_put_u64(at + 80, checkpoint->configuration_index);
    lq_put_u64(at + 88, checkpoint->state_size);
    lq_put_u64(at + 96, install);
    lq_put_u32(at + 104, checkpoint->configuration_size);
    uint8_t *body_at = at + LQ_CHECKPOINT_HEADER_BYTES;
    if (checkpoint->configuration_size > 0) {
        memcpy(body_at, checkpoint->configuration, checkpoint->configuration_size);
    }
    if (checkpoint->state_size > 0) {
        memcpy(body_at + checkpoint->configuration_size, checkpoint->state, (size_t)checkpoint->state_size);
    }
    lq_put_u32(at + 44, lq_crc32c(0, body_at, body));
    lq_put_u32(at + 12,
               lq_crc32c(lq_crc32c(0, at + 8, 4), at + HEAD_CRC_FROM, LQ_CHECKPOINT_HEADER_BYTES - HEAD_CRC_FROM));
    *blob = at;
    *size = LQ_CHECKPOINT_HEADER_BYTES + body;
    return LIGHTQ_OK;
}

static lightq_status head_check(const struct lq_checkpoint_owner *owner, uint64_t next_index, const char *path,
                                const uint8_t *bytes, struct lq_err *err)
{
    if (memcmp(bytes, MAGIC, sizeof MAGIC) != 0) {
        return lq_err_set(err, LIGHTQ_ECORRUPT, "%s: not a checkpoint", path);
    }
    if (lq_get_u32(bytes + 12) !=
        lq_crc32c(lq_crc32c(0, bytes + 8, 4), bytes + HEAD_CRC_FROM, LQ_CHECKPOINT_HEADER_BYTES - HEAD_CRC_FROM)) {
        return lq_err_set(err, LIGHTQ_ECORRUPT, "%s: the header's crc does not match", path);
    }
    if (lq_get_u32(bytes + 8) != LQ_CHECKPOINT_VERSION) {
        return lq_err_set(err, LIGHTQ_EVERSION, "%s: checkpoint of format version %" PRIu32 ", this program reads %d",
                          path, lq_get_u32(bytes + 8), LQ_CHECKPOINT_VERSION);
    }
    if (memcmp(bytes + 16, owner->cluster.bytes, sizeof owner->cluster.bytes) != 0) {
        return lq_err_set(err, LIGHTQ_EIDENTITY, "%s: of another cluster", path);
    }
    if (lq_get_u64(bytes + 32) != owner->group || lq_get_u32(bytes + 40) != owner->incarnation ||
        lq_get_u64(bytes + 48) != next_index) {
        return lq_err_set(err, LIGHTQ_ECORRUPT, "%s: its header is of group %" PRIu64 "-%" PRIu32 ", index %" PRIu64,
                          path, lq_get_u64(bytes + 32), lq_get_u32(bytes + 40), lq_get_u64(bytes + 48));
    }
    return LIGHTQ_OK;
}

lightq_status lq_checkpoint_check_head(const struct lq_checkpoint_owner *owner, uint64_t next_index, const char *path,
                                       const uint8_t at[LQ_CHECKPOINT_HEADER_BYTES], uint64_t file_size,
                                       uint32_t *body_crc, struct lq_err *err)
{
    lightq_status status = head_check(owner, next_index, path, at, err);
    if (status != LIGHTQ_OK) {
        return status;
    }
    uint64_t state_size = lq_get_u64(at + 88);
    uint32_t configuration_size = lq_get_u32(at + 104);
    uint64_t body = file_size - LQ_CHECKPOINT_HEADER_BYTES;
    if (configuration_size > body || state_size != body - configuration_size) {
        return lq_err_set(err, LIGHTQ_ECORRUPT, "%s: %" PRIu64 " bytes long, its header says %" PRIu32 " and %" PRIu64,
                          path, file_size, configuration_size, state_size);
    }
    *body_crc = lq_get_u32(at + 44);
    return LIGHTQ_OK;
}

lightq_status lq_checkpoint_decode(const struct lq_checkpoint_owner *owner, uint64_t next_index, const char *path,
                                   const uint8_t *bytes, size_t size, struct lq_checkpoint *checkpoint,
                                   uint64_t *install, struct lq_err *err)
{
    uint32_t body_crc = 0;
    if (size < LQ_CHECKPOINT_HEADER_BYTES) {
        return lq_err_set(err, LIGHTQ_ECORRUPT, "%s: not a checkpoint", path);
    }
    lightq_status status = lq_checkpoint_check_head(owner, next_index, path, bytes, size, &body_crc, err);
    if (status != LIGHTQ_OK) {
        return status;
    }
    uint64_t state_size = lq_get_u64(bytes + 88);
    uint32_t configuration_size = lq_get_u32(bytes + 104);
    if (body_crc != lq_crc32c(0, bytes + LQ_CHECKPOINT_HEADER_BYTES, size - LQ_CHECKPOINT_HEADER_BYTES)) {
        return lq_err_set(err, LIGHTQ_ECORRUPT, "%s: the content's crc does not match", path);
    }
    *checkpoint = (struct lq_checkpoint){
        .last_index = next_index - 1,
        .last_term = lq_get_u64(bytes + 56),
        .next_offset = lq_get_u64(bytes + 64),
        .timestamp_ms = lq_get_u64(bytes + 72),
        .configuration_index = lq_get_u64(bytes + 80),
        .configuration = bytes + LQ_CHECKPOINT_HEADER_BYTES,
        .configuration_size = configuration_size,
        .state = bytes + LQ_CHECKPOINT_HEADER_BYTES + configuration_size,
        .state_size = state_size,
    };
    *install = lq_get_u64(bytes + 96);
    return LIGHTQ_OK;
}

struct lq_checkpoint_meta *lq_checkpoint_meta_new(const struct lq_checkpoint *checkpoint, uint64_t install)
{
    struct lq_checkpoint_meta *meta = malloc(sizeof *meta + checkpoint->configuration_size);
    if (meta == NULL) {
        return NULL;
    }
    uint8_t *configuration = (uint8_t *)(meta + 1);
    if (checkpoint->configuration_size > 0) {
        memcpy(configuration, checkpoint->configuration, checkpoint->configuration_size);
    }
    meta->checkpoint = *checkpoint;
    meta->checkpoint.configuration = configuration;
    meta->checkpoint.state = NULL;
    meta->checkpoint.state_size = 0;
    meta->file_size = LQ_CHECKPOINT_HEADER_BYTES + checkpoint->configuration_size + checkpoint->state_size;
    meta->install = install;
    return meta;
}

lightq_status lq_checkpoint_read(struct lq_io *io, const struct lq_checkpoint_owner *owner, const char *dir,
                                 uint64_t next_index, struct lq_checkpoint *checkpoint, uint64_t *install,
                                 uint8_t **bytes, struct lq_err *err)
{
    char path[LQ_PATH_BYTES];
    size_t size = 0;
    lq_path_numbered(path, dir, next_index, ".ckpt");
    lightq_status status = lq_disk_read_file(io, path, FILE_BYTES_MAX, bytes, &size, err);
    if (status != LIGHTQ_OK) {
        return status == LIGHTQ_ETOOBIG ? LIGHTQ_ECORRUPT : status;
    }
    status = lq_checkpoint_decode(owner, next_index, path, *bytes, size, checkpoint, install, err);
    if (status != LIGHTQ_OK) {
        free(*bytes);
        *bytes = NULL;
    }
    return status;
}
