/* node/identity.c - see identity.h. The file "node", little endian:
 *
 *      0  magic             8 bytes   "LQNODE", 0, 0
 *      8  version           u16       1
 *     10  flags             u16       0
 *     12  size              u32       of the whole file
 *     16  node              u32
 *     20  shards            u32
 *     24  state             u8        enum lq_identity_state
 *     25  founder           u8        0 or 1
 *     26  stored            u8        0 or 1
 *     27  outdated          u8        0 or 1
 *     28  meta_incarnation  u32
 *     32  boot              u64
 *     40  uuid              16 bytes
 *     56  cluster           16 bytes
 *     72  has_proposal      u8        0 or 1
 *     73  proposal, when there is one: cluster 16 bytes | proposer u32 | proposer's uuid 16 bytes | round u64 |
 *         founders (codec.h)
 *  end-4  crc32c            u32       over all before it */
#include "node/identity.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/crc.h"
#include "node/codec.h"

#define FILE_NAME      "node"
#define FILE_NAME_TMP  "node.tmp"
#define FILE_BYTES_MAX (64u * 1024)
#define FILE_VERSION   1
#define SIZE_AT        12
#define CRC_BYTES      4

static const uint8_t magic[8] = {'L', 'Q', 'N', 'O', 'D', 'E', 0, 0};

/* ---- bytes ---- */

void lq_cluster_proposal_encode(const struct lq_cluster_proposal *proposal, struct lq_writer *writer)
{
    lq_write_id(writer, &proposal->cluster);
    lq_write_u32(writer, proposal->proposer);
    lq_write_id(writer, &proposal->proposer_uuid);
    lq_write_u64(writer, proposal->round);
    lq_write_founders(writer, &proposal->founders);
}

lightq_status lq_cluster_proposal_decode(struct lq_reader *reader, struct lq_cluster_proposal *proposal)
{
    proposal->cluster = lq_read_id(reader);
    proposal->proposer = lq_read_u32(reader);
    proposal->proposer_uuid = lq_read_id(reader);
    proposal->round = lq_read_u64(reader);
    lq_read_founders(reader, &proposal->founders);
    if (reader->failed || lq_id_is_zero(&proposal->cluster)) {
        return LIGHTQ_ECORRUPT;
    }
    const struct lq_founder *proposer = lq_founder_find(&proposal->founders, proposal->proposer);
    bool is_one = proposer != NULL && lq_id_equal(&proposer->uuid, &proposal->proposer_uuid);
    return is_one ? LIGHTQ_OK : LIGHTQ_ECORRUPT;
}

static bool has_proposal(const struct lq_identity *identity)
{
    return identity->state == LQ_IDENTITY_PROMISED || (identity->state == LQ_IDENTITY_MEMBER && identity->founder);
}

lightq_status lq_identity_encode(const struct lq_identity *identity, struct lq_writer *writer)
{
    lq_write_bytes(writer, magic, sizeof magic);
    lq_write_u16(writer, FILE_VERSION);
    lq_write_u16(writer, 0);
    lq_write_u32(writer, 0); /* the size, below */
    lq_write_u32(writer, identity->node);
    lq_write_u32(writer, identity->shards);
    lq_write_u8(writer, (uint8_t)identity->state);
    lq_write_u8(writer, identity->founder);
    lq_write_u8(writer, identity->stored);
    lq_write_u8(writer, identity->outdated);
    lq_write_u32(writer, identity->meta_incarnation);
    lq_write_u64(writer, identity->boot);
    lq_write_id(writer, &identity->uuid);
    lq_write_id(writer, &identity->cluster);
    lq_write_u8(writer, has_proposal(identity));
    if (has_proposal(identity)) {
        lq_cluster_proposal_encode(&identity->proposal, writer);
    }
    if (writer->status == LIGHTQ_OK) {
        lq_put_u32(writer->bytes + SIZE_AT, (uint32_t)writer->size + CRC_BYTES);
        lq_write_u32(writer, lq_crc32c(0, writer->bytes, writer->size));
    }
    return writer->status;
}

/* The fields agree with one another. */
static bool is_sound(const struct lq_identity *identity)
{
    if (identity->node == 0 || identity->node > LQ_NODES_MAX || identity->shards == 0 ||
        identity->shards > LQ_SHARDS_MAX || lq_id_is_zero(&identity->uuid)) {
        return false;
    }
    bool member = identity->state == LQ_IDENTITY_MEMBER;
    if (member == lq_id_is_zero(&identity->cluster) || member != (identity->meta_incarnation != 0) ||
        ((identity->founder || identity->stored || identity->outdated) && !member)) {
        return false;
    }
    if (!has_proposal(identity)) {
        return true;
    }
    const struct lq_founder *self = lq_founder_find(&identity->proposal.founders, identity->node);
    return self != NULL && lq_id_equal(&self->uuid, &identity->uuid) &&
           (!member || lq_id_equal(&identity->proposal.cluster, &identity->cluster));
}

static lightq_status decode_fields(struct lq_reader *reader, struct lq_identity *identity)
{
    identity->node = lq_read_u32(reader);
    identity->shards = lq_read_u32(reader);
    identity->state = (enum lq_identity_state)lq_read_u8(reader);
    uint8_t founder = lq_read_u8(reader);
    uint8_t stored = lq_read_u8(reader);
    uint8_t outdated = lq_read_u8(reader);
    identity->founder = founder == 1;
    identity->stored = stored == 1;
    identity->outdated = outdated == 1;
    identity->meta_incarnation = lq_read_u32(reader);
    identity->boot = lq_read_u64(reader);
    identity->uuid = lq_read_id(reader);
    identity->cluster = lq_read_id(reader);
    uint8_t proposal = lq_read_u8(reader);
    if (reader->failed || founder > 1 || stored > 1 || outdated > 1 || proposal > 1 ||
        identity->state < LQ_IDENTITY_BLANK || identity->state > LQ_IDENTITY_MEMBER ||
        (proposal == 1) != has_proposal(identity)) {
        return LIGHTQ_ECORRUPT;
    }
    lightq_status status = proposal == 1 ? lq_cluster_proposal_decode(reader, &identity->proposal) : LIGHTQ_OK;
    return status == LIGHTQ_OK && lq_reader_left(reader) == 0 && is_sound(identity) ? LIGHTQ_OK : LIGHTQ_ECORRUPT;
}

lightq_status lq_identity_decode(const uint8_t *bytes, size_t size, struct lq_identity *identity)
{
    *identity = (struct lq_identity){.node = 0};
    if (size < CRC_BYTES) {
        return LIGHTQ_ECORRUPT;
    }
    struct lq_reader reader = lq_reader_of(bytes, size - CRC_BYTES);
    const uint8_t *begin = lq_read_bytes(&reader, sizeof magic);
    uint16_t version = lq_read_u16(&reader);
    uint16_t flags = lq_read_u16(&reader);
    uint32_t told_size = lq_read_u32(&reader);
    if (reader.failed || memcmp(begin, magic, sizeof magic) != 0) {
        return LIGHTQ_ECORRUPT;
    }
    if (version != FILE_VERSION || flags != 0) {
        return LIGHTQ_EVERSION;
    }
    if (told_size != size || lq_crc32c(0, bytes, size - CRC_BYTES) != lq_get_u32(bytes + size - CRC_BYTES)) {
        return LIGHTQ_ECORRUPT;
    }
    return decode_fields(&reader, identity);
}

lightq_status lq_identity_check(const struct lq_identity *identity, struct lq_err *err)
{
    if (!identity->outdated) {
        return LIGHTQ_OK;
    }
    return lq_err_set(
        err, LIGHTQ_EREPLACED,
        "this data directory of node %" PRIu32 " was replaced, or is an older copy of it: the other nodes "
        "have seen a newer one. Put the newest one back; or move it away, start with an empty one, and run "
        "'lightq node replace %" PRIu32 " %" PRIu32 "'",
        identity->node, identity->node, identity->node);
}

/* ---- the file ---- */

/* What a directory without identity may hold all the same. */
static void on_listed(void *data, const char *name, bool is_dir)
{
    char *other = data;
    bool harmless = strcmp(name, FILE_NAME_TMP) == 0 || strcmp(name, "lock") == 0 || strcmp(name, "lost+found") == 0;
    if (!harmless && other[0] == '\0') {
        (void)snprintf(other, LQ_ERR_TEXT_BYTES / 4, "%s%s", name, is_dir ? "/" : "");
    }
}

/* There is no file "node": a new directory, or one that is not ours. */
static lightq_status judge_directory(struct lq_io *io, struct lq_err *err)
{
    char other[LQ_ERR_TEXT_BYTES / 4] = "";
    lightq_status status = io->ops->list(io, "", on_listed, other, err);
    if (status != LIGHTQ_OK) {
        return status;
    }
    if (other[0] != '\0') {
        return lq_err_set(err, LIGHTQ_EIDENTITY,
                          "the data directory holds \"%s\" but no file \"" FILE_NAME
                          "\": either it is not a LightQ directory (choose an empty one), or its identity was lost "
                          "(put the file back, or move the directory away and replace the node)",
                          other);
    }
    return LIGHTQ_ENOTFOUND;
}

static lightq_status read_whole(struct lq_io *io, uint8_t *bytes, size_t *size, struct lq_err *err)
{
    lq_file file;
    lightq_status status = io->ops->open(io, FILE_NAME, LQ_OPEN_READ, &file, err);
    if (status != LIGHTQ_OK) {
        return status;
    }
    const struct iovec iov = {.iov_base = bytes, .iov_len = FILE_BYTES_MAX};
    struct lq_io_op op = {.kind = LQ_IO_READ, .file = file, .size = FILE_BYTES_MAX, .iov = &iov, .iov_count = 1};
    status = io->ops->run(io, &op, err);
    io->ops->close(io, file);
    *size = op.result;
    return status;
}

lightq_status lq_identity_load(struct lq_io *io, uint32_t node, struct lq_identity *identity, struct lq_err *err)
{
    uint8_t *bytes = malloc(FILE_BYTES_MAX);
    if (bytes == NULL) {
        return lq_err_set(err, LIGHTQ_ENOMEM, "out of memory for the identity");
    }
    size_t size = 0;
    lightq_status status = read_whole(io, bytes, &size, err);
    if (status == LIGHTQ_OK) {
        status = lq_identity_decode(bytes, size, identity);
        if (status == LIGHTQ_EVERSION) {
            (void)lq_err_set(err, status,
                             "the file \"" FILE_NAME "\" in the data directory is of another version: use "
                             "the LightQ that wrote it, or a newer one");
        } else if (status != LIGHTQ_OK) {
            (void)lq_err_set(err, status,
                             "the file \"" FILE_NAME "\" in the data directory is damaged: move the "
                             "directory away, start with an empty one and replace the node");
        }
    } else if (status == LIGHTQ_ENOTFOUND) {
        status = judge_directory(io, err);
    }
    free(bytes);
    if (status == LIGHTQ_OK && identity->node != node) {
        status = lq_err_set(err, LIGHTQ_EIDENTITY,
                            "the data directory is node %" PRIu32 "'s, but this is to be node %" PRIu32
                            ": correct --node-id or --data",
                            identity->node, node);
    }
    return status;
}

void lq_identity_make(uint32_t node, uint32_t shards, struct lq_clock *clock, struct lq_identity *identity)
{
    *identity =
        (struct lq_identity){.node = node, .shards = shards, .state = LQ_IDENTITY_BLANK, .uuid = lq_id_random(clock)};
}

static lightq_status write_tmp(struct lq_io *io, const struct lq_writer *writer, struct lq_err *err)
{
    struct lq_io_op remove = {.kind = LQ_IO_UNLINK, .path = FILE_NAME_TMP};
    lightq_status status = io->ops->run(io, &remove, err);
    lq_file file = LQ_FILE_NONE;
    if (status == LIGHTQ_OK) {
        status = io->ops->open(io, FILE_NAME_TMP, LQ_OPEN_CREATE, &file, err);
    }
    if (status != LIGHTQ_OK) {
        return status;
    }
    const struct iovec iov = {.iov_base = writer->bytes, .iov_len = writer->size};
    struct lq_io_op write = {.kind = LQ_IO_WRITE, .file = file, .size = writer->size, .iov = &iov, .iov_count = 1};
    struct lq_io_op sync = {.kind = LQ_IO_SYNC, .file = file};
    status = io->ops->run(io, &write, err);
    if (status == LIGHTQ_OK) {
        status = io->ops->run(io, &sync, err);
    }
    io->ops->close(io, file);
    return status;
}

lightq_status lq_identity_store(struct lq_io *io, const struct lq_identity *identity, struct lq_err *err)
{
    struct lq_writer writer;
    lq_writer_init(&writer, FILE_BYTES_MAX);
    lightq_status status = lq_identity_encode(identity, &writer);
    if (status != LIGHTQ_OK) {
        (void)lq_err_set(err, status, "out of memory for the identity");
    } else {
        status = write_tmp(io, &writer, err);
    }
    struct lq_io_op rename = {.kind = LQ_IO_RENAME, .path = FILE_NAME_TMP, .path_to = FILE_NAME};
    struct lq_io_op sync_dir = {.kind = LQ_IO_SYNC_DIR, .path = ""};
    if (status == LIGHTQ_OK) {
        status = io->ops->run(io, &rename, err);
    }
    if (status == LIGHTQ_OK) {
        status = io->ops->run(io, &sync_dir, err);
    }
    lq_writer_deinit(&writer);
    return status;
}

lightq_status lq_identity_boot(struct lq_io *io, struct lq_identity *identity, struct lq_err *err)
{
    identity->boot++;
    lightq_status status = lq_identity_store(io, identity, err);
    if (status != LIGHTQ_OK) {
        identity->boot--;
    }
    return status;
}
