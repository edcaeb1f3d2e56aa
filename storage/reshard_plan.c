/* storage/reshard_plan.c - see reshard_plan.h, which draws the file. Called by reshard.c; blocking. */
#include "storage/reshard_plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/base/crc.h"
#include "client/base/limits.h"
#include "storage/array.h"

#define VERSION         1
#define CRC_AT          12
#define CRC_FROM        16
#define RECORDS_AT      72
#define PLAN_BYTES_MAX  (2ull * LQ_JOURNAL_RECORDS_MAX)
#define DAMAGED_MINIMUM 16               /* bytes of one without text */
#define COUNT_MAX       (UINT64_MAX / 2) /* no file or frame ever has such a number */

static const char MAGIC[8] = {'L', 'Q', 'R', 'E', 'S', 'H', 'A', '1'};

void lq_reshard_plan_init(struct lq_reshard_plan *plan, const struct lq_id *cluster, unsigned from, unsigned to)
{
    *plan = (struct lq_reshard_plan){.cluster = *cluster, .from = from, .to = to};
    lq_writer_init(&plan->records, LQ_JOURNAL_RECORDS_MAX);
}

void lq_reshard_plan_deinit(struct lq_reshard_plan *plan)
{
    lq_writer_deinit(&plan->records);
    free(plan->damaged);
    *plan = (struct lq_reshard_plan){.from = 0};
}

static bool push_damaged(struct lq_reshard_plan *plan, const struct lq_damaged *damaged)
{
    if (!lq_array_reserve((void **)&plan->damaged, &plan->damaged_capacity, plan->damaged_count + 1,
                          sizeof *plan->damaged)) {
        return false;
    }
    plan->damaged[plan->damaged_count++] = *damaged;
    return true;
}

/* The text without the directory before it, which will be another one. */
bool lq_reshard_plan_add_damaged(struct lq_reshard_plan *plan, const struct lq_rlog *log)
{
    struct lq_damaged damaged = {.group = log->group, .incarnation = log->incarnation};
    const char *text = lq_rlog_health_text(log);
    size_t size = strlen(log->dir);
    if (strncmp(text, log->dir, size) == 0 && strncmp(text + size, ": ", 2) == 0) {
        text += size + 2;
    }
    (void)snprintf(damaged.text, sizeof damaged.text, "%s", text);
    return push_damaged(plan, &damaged);
}

/* ---- bytes ---- */

static uint32_t crc_of(const uint8_t *bytes, size_t size)
{
    return lq_crc32c(lq_crc32c(0, bytes + 8, CRC_AT - 8), bytes + CRC_FROM, size - CRC_FROM);
}

static void encode(const struct lq_reshard_plan *plan, struct lq_writer *writer)
{
    lq_write_bytes(writer, MAGIC, sizeof MAGIC);
    lq_write_u32(writer, VERSION);
    lq_write_u32(writer, 0); /* the crc, below */
    lq_write_bytes(writer, plan->cluster.bytes, sizeof plan->cluster.bytes);
    lq_write_u32(writer, plan->from);
    lq_write_u32(writer, plan->to);
    lq_write_u64(writer, plan->number);
    lq_write_u64(writer, plan->sequence);
    lq_write_u32(writer, plan->kept);
    lq_write_u32(writer, (uint32_t)plan->damaged_count);
    lq_write_u64(writer, plan->records.size);
    if (plan->records.size > 0) {
        lq_write_bytes(writer, plan->records.bytes, plan->records.size);
    }
    for (size_t i = 0; i < plan->damaged_count; i++) {
        const struct lq_damaged *damaged = &plan->damaged[i];
        size_t size = strlen(damaged->text);
        lq_write_u64(writer, damaged->group);
        lq_write_u32(writer, damaged->incarnation);
        lq_write_u32(writer, (uint32_t)size);
        lq_write_bytes(writer, damaged->text, size);
    }
    if (writer->status == LIGHTQ_OK) {
        lq_put_u32(writer->bytes + CRC_AT, crc_of(writer->bytes, writer->size));
    }
}

static bool are_sound(const uint8_t *records, size_t size)
{
    struct lq_reader reader = lq_reader_of(records, size);
    struct lq_record record;
    bool sound = true;
    while (sound && lq_record_read(&reader, &record)) {
        sound = !record.is_void && (record.type == LQ_RECORD_GROUP || record.type == LQ_RECORD_KNOWN);
    }
    return sound && !reader.failed;
}

/* False: the bytes make no sense, or there is no memory (then records.status says so). */
static bool decode_damaged(struct lq_reader *reader, uint32_t count, struct lq_reshard_plan *plan)
{
    for (uint32_t i = 0; i < count; i++) {
        struct lq_damaged damaged = {.group = lq_read_u64(reader), .incarnation = lq_read_u32(reader)};
        uint32_t size = lq_read_u32(reader);
        const uint8_t *text = size < sizeof damaged.text ? lq_read_bytes(reader, size) : NULL;
        if (text == NULL) {
            return false;
        }
        memcpy(damaged.text, text, size);
        if (!push_damaged(plan, &damaged)) {
            plan->records.status = LIGHTQ_ENOMEM;
            return false;
        }
    }
    return lq_reader_left(reader) == 0 && !reader->failed;
}

static bool decode_fields(struct lq_reader *reader, struct lq_reshard_plan *plan)
{
    memcpy(plan->cluster.bytes, lq_read_bytes(reader, sizeof plan->cluster.bytes), sizeof plan->cluster.bytes);
    plan->from = lq_read_u32(reader);
    plan->to = lq_read_u32(reader);
    plan->number = lq_read_u64(reader);
    plan->sequence = lq_read_u64(reader);
    plan->kept = lq_read_u32(reader);
    uint32_t count = lq_read_u32(reader);
    uint64_t size = lq_read_u64(reader);
    const uint8_t *records = size <= LQ_JOURNAL_RECORDS_MAX ? lq_read_bytes(reader, (size_t)size) : NULL;
    if (records == NULL || !are_sound(records, (size_t)size) || plan->from < 1 || plan->from > LQ_SHARDS_MAX ||
        plan->to < 1 || plan->to > LQ_SHARDS_MAX || plan->number - 1 >= COUNT_MAX || plan->sequence - 1 >= COUNT_MAX ||
        count > lq_reader_left(reader) / DAMAGED_MINIMUM) {
        return false;
    }
    if (size > 0) {
        lq_write_bytes(&plan->records, records, (size_t)size);
    }
    return plan->records.status == LIGHTQ_OK && decode_damaged(reader, count, plan);
}

static lightq_status decode(const uint8_t *bytes, size_t size, struct lq_reshard_plan *plan, struct lq_err *err)
{
    struct lq_reader reader = lq_reader_of(bytes, size);
    if (size < RECORDS_AT || memcmp(lq_read_bytes(&reader, sizeof MAGIC), MAGIC, sizeof MAGIC) != 0 ||
        crc_of(bytes, size) != lq_get_u32(bytes + CRC_AT)) {
        return lq_err_set(err, LIGHTQ_EDAMAGED,
                          "the file \"" LQ_RESHARD_NAME
                          "\" is damaged, and another number of shards was being taken over: every group may have "
                          "forgotten a vote");
    }
    uint32_t version = lq_read_u32(&reader);
    (void)lq_read_u32(&reader);
    if (version != VERSION) {
        return lq_err_set(err, LIGHTQ_EVERSION,
                          "the file \"" LQ_RESHARD_NAME "\" is of format version %" PRIu32 ", this program reads %d",
                          version, VERSION);
    }
    if (!decode_fields(&reader, plan)) {
        return plan->records.status == LIGHTQ_OK
                   ? lq_err_set(err, LIGHTQ_EDAMAGED, "the file \"" LQ_RESHARD_NAME "\" makes no sense")
                   : lq_err_set(err, LIGHTQ_ENOMEM, "no memory for the file \"" LQ_RESHARD_NAME "\"");
    }
    return LIGHTQ_OK;
}

/* ---- the file ---- */

lightq_status lq_reshard_write_file(struct lq_io *io, const char *dir, const char *tmp, const char *name,
                                    const void *bytes, size_t size, struct lq_err *err)
{
    char from[LQ_PATH_BYTES];
    char to[LQ_PATH_BYTES];
    lq_file file;
    lq_path_join(from, dir, tmp);
    lq_path_join(to, dir, name);
    lightq_status status = lq_disk_unlink(io, from, err);
    if (status == LIGHTQ_OK) {
        status = lq_disk_open(io, from, LQ_OPEN_CREATE, &file, err);
    }
    if (status != LIGHTQ_OK) {
        return status;
    }
    status = lq_disk_write(io, file, 0, bytes, size, err);
    if (status == LIGHTQ_OK) {
        status = lq_disk_sync(io, file, err);
    }
    io->ops->close(io, file);
    if (status == LIGHTQ_OK) {
        status = lq_disk_rename(io, from, to, err);
    } else {
        lq_disk_unlink_try(io, from);
    }
    return status == LIGHTQ_OK ? lq_disk_sync_dir(io, dir, err) : status;
}

lightq_status lq_reshard_plan_store(struct lq_io *io, const struct lq_reshard_plan *plan, struct lq_err *err)
{
    struct lq_writer writer;
    lq_writer_init(&writer, PLAN_BYTES_MAX);
    encode(plan, &writer);
    lightq_status status =
        writer.status == LIGHTQ_OK
            ? lq_reshard_write_file(io, "", LQ_RESHARD_NAME_TMP, LQ_RESHARD_NAME, writer.bytes, writer.size, err)
            : lq_err_set(err, LIGHTQ_ENOMEM, "no memory for the file \"" LQ_RESHARD_NAME "\"");
    lq_writer_deinit(&writer);
    return status;
}

lightq_status lq_reshard_plan_load(struct lq_io *io, const struct lq_id *cluster, struct lq_reshard_plan *plan,
                                   struct lq_err *err)
{
    uint8_t *bytes = NULL;
    size_t size = 0;
    lightq_status status = lq_disk_read_file(io, LQ_RESHARD_NAME, PLAN_BYTES_MAX, &bytes, &size, err);
    if (status != LIGHTQ_OK) {
        return status;
    }
    lq_reshard_plan_init(plan, &(struct lq_id){.bytes = {0}}, 0, 0);
    status = decode(bytes, size, plan, err);
    free(bytes);
    if (status == LIGHTQ_OK && cluster != NULL && !lq_id_equal(&plan->cluster, cluster)) {
        status = lq_err_set(err, LIGHTQ_EIDENTITY, "the file \"" LQ_RESHARD_NAME "\" is of another cluster");
    }
    if (status != LIGHTQ_OK) {
        lq_reshard_plan_deinit(plan);
    }
    return status;
}
