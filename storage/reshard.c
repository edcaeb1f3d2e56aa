/* storage/reshard.c - see reshard.h. Called by node/server.c on the process's first thread; blocking. In three parts:
 *
 *   gathering   each old store is opened as at any start, which judges and heals it; what only its journal has goes
 * into the segments, what its journal knows into the plan (reshard_plan.h). Nothing is changed that a start with the
 * old number would not change too the plan    is written: from here on there is no way back, and every start goes on
 * with it first finishing   directories are moved, old journals dropped, new ones begun; each of it can be done again
 *
 * then the number is noted, and the plan removed. Why: docs/adr/0014. */
#include "storage/reshard.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/base/limits.h"
#include "client/base/log.h"
#include "storage/reshard_plan.h"

#define JOURNAL_DIR     "journal"
#define REMOVED_DIR     "removed"
#define NEED_FIELD      7    /* of a GROUP record */
#define NAMES_TRIED_MAX 1000 /* for a directory set aside under a name that is taken */

void lq_shard_dir(char out[LQ_SHARD_DIR_BYTES], unsigned shard)
{
    out[0] = '\0'; /* shard 0's is the root, as in a node of one shard */
    if (shard > 0) {
        (void)snprintf(out, LQ_SHARD_DIR_BYTES, "shard-%u", shard % LQ_SHARDS_MAX);
    }
}

/* The names in a directory that need not be there. */
static lightq_status list_if_there(struct lq_io *io, const char *dir, struct lq_names *names, struct lq_err *err)
{
    lightq_status status = lq_disk_list(io, dir, names, err);
    return status == LIGHTQ_ENOTFOUND ? LIGHTQ_OK : status; /* @names is empty then */
}

static lightq_status sync_if_there(struct lq_io *io, const char *dir, struct lq_err *err)
{
    struct lq_io_stat stat;
    lightq_status status = dir[0] == '\0' ? LIGHTQ_OK : io->ops->stat(io, dir, &stat, err);
    if (status != LIGHTQ_OK) {
        return status == LIGHTQ_ENOTFOUND ? LIGHTQ_OK : status;
    }
    return lq_disk_sync_dir(io, dir, err);
}

/* ---- gathering ---- */

static lightq_status refuse_place(const char *what, const char *name, unsigned shard, unsigned shards,
                                  struct lq_err *err)
{
    char dir[LQ_SHARD_DIR_BYTES];
    lq_shard_dir(dir, shard);
    return lq_err_set(err, LIGHTQ_ECONFLICT,
                      "another number of shards cannot be taken over: %s%s%s is there, and belongs to no group of a "
                      "directory of %u shards (%s): move it away",
                      dir, shard > 0 ? "/" : "", name, shards, what);
}

/* Every group and every journal lies where the number says, so that no two can come to lie at one place. */
static lightq_status check_place(struct lq_io *io, unsigned shard, unsigned shards, struct lq_err *err)
{
    char dir[LQ_SHARD_DIR_BYTES];
    char path[LQ_PATH_BYTES];
    struct lq_names names;
    uint64_t number = 0;
    uint32_t incarnation = 0;
    lq_shard_dir(dir, shard);
    lq_path_join(path, dir, JOURNAL_DIR);
    lightq_status status = list_if_there(io, dir, &names, err);
    for (size_t i = 0; i < names.count && status == LIGHTQ_OK; i++) {
        const struct lq_name *name = &names.at[i];
        bool is_group = name->is_dir && lq_name_group(name->name, &number, &incarnation);
        if (is_group && (shard >= shards || number % shards != shard)) {
            status = refuse_place("a group's", name->name, shard, shards, err);
        }
    }
    lq_names_deinit(&names);
    if (status == LIGHTQ_OK && shard >= shards) {
        status = list_if_there(io, path, &names, err);
        for (size_t i = 0; i < names.count && status == LIGHTQ_OK; i++) {
            if (lq_name_journal(names.at[i].name, shard, &number)) {
                status = refuse_place("a journal", JOURNAL_DIR, shard, shards, err);
            }
        }
        lq_names_deinit(&names);
    }
    return status;
}

/* What a log has goes into its files, durably, or its verdict into the plan. */
static lightq_status gather_log(struct lq_reshard_plan *plan, struct lq_rlog *log, unsigned shard, struct lq_err *err)
{
    lightq_status status = LIGHTQ_OK;
    switch (log->health) {
    case LQ_RLOG_HEALTHY:
        assert(log->written == log->last); /* a start writes all that the journal has */
        return lq_rlog_sync_files(log, err);
    case LQ_RLOG_FAILED: /* nothing is known to be wrong but the disk: it can be tried again */
        status = log->reason != NULL ? log->reason->status : LIGHTQ_ENOMEM;
        return lq_err_set(err, status, "group %" PRIu64 " cannot be taken over to another number of shards: %s",
                          log->group, lq_rlog_health_text(log));
    case LQ_RLOG_DAMAGED:
        if (!lq_reshard_plan_add_damaged(plan, log)) {
            status = lq_err_set(err, LIGHTQ_ENOMEM, "no memory for the plan of another number of shards");
        }
        break;
    case LQ_RLOG_LOST:
        break; /* as its directory will be missing in the new place */
    }
    if (log->keep_low != 0) {
        plan->kept |= 1u << shard;
    }
    return status;
}

/* The store's snapshot as its journal begins with it, less frame, LENGTH and END. */
static lightq_status gather_records(struct lq_reshard_plan *plan, struct lq_store *store, unsigned shard,
                                    struct lq_err *err)
{
    struct lq_writer writer;
    struct lq_record record;
    lq_writer_init(&writer, LQ_JOURNAL_RECORDS_MAX);
    uint64_t allocated;
    (void)lq_store_snapshot(store, &writer, store->journal.number, &allocated);
    lightq_status status = writer.status;
    if (status == LIGHTQ_OK) {
        struct lq_reader reader =
            lq_reader_of(writer.bytes + LQ_FRAME_HEADER_BYTES, writer.size - LQ_FRAME_HEADER_BYTES);
        while (lq_record_read(&reader, &record) && record.type != LQ_RECORD_LENGTH) {
            assert(record.type == LQ_RECORD_GROUP || record.type == LQ_RECORD_KNOWN);
            if (record.type == LQ_RECORD_GROUP && record.group % plan->from != shard) {
                status = LIGHTQ_EDAMAGED;
            }
            lq_record_write(&plan->records, &record);
        }
        assert(!reader.failed);
    }
    lq_writer_deinit(&writer);
    if (status == LIGHTQ_EDAMAGED) {
        return lq_err_set(err, status,
                          "the journal of shard %u has groups that are not its: %u is not the number of "
                          "shards that it was written for",
                          shard, plan->from);
    }
    status = status == LIGHTQ_OK ? plan->records.status : status;
    return status == LIGHTQ_OK ? LIGHTQ_OK
                               : lq_err_set(err, status, "no memory for the plan of another number of shards");
}

static bool has_unreadable(const struct lq_store *store)
{
    for (size_t i = 0; i < store->log_count; i++) {
        const struct lq_rlog *log = store->logs[i];
        if (log->health == LQ_RLOG_DAMAGED && log->reason != NULL && log->reason->status == LIGHTQ_EIO) {
            return true;
        }
    }
    return false;
}

/* A log that could not be read is looked at twice: the verdict is for good here. */
static lightq_status open_old(struct lq_io *io, struct lq_clock *clock, const struct lq_reshard_options *options,
                              unsigned shard, unsigned shards, struct lq_store **store, struct lq_err *err)
{
    char dir[LQ_SHARD_DIR_BYTES];
    struct lq_store_options own = options->store;
    lq_shard_dir(dir, shard);
    own.dir = dir;
    own.shard = shard;
    own.shards = shards;
    lightq_status status = lq_store_open(io, clock, &own, store, err);
    if (status == LIGHTQ_OK && has_unreadable(*store)) {
        lq_store_free(*store, false);
        status = lq_store_open(io, clock, &own, store, err);
    }
    if (status != LIGHTQ_OK) {
        const struct lq_err what = *err;
        return lq_err_set(err, status, "%s%s%s", dir, shard > 0 ? ": " : "", what.text);
    }
    return LIGHTQ_OK;
}

static lightq_status gather_store(struct lq_io *io, struct lq_clock *clock, const struct lq_reshard_options *options,
                                  unsigned shard, struct lq_reshard_plan *plan, struct lq_err *err)
{
    struct lq_store *store = NULL;
    lightq_status status = open_old(io, clock, options, shard, plan->from, &store, err);
    if (status != LIGHTQ_OK) {
        return status;
    }
    for (size_t i = 0; i < store->log_count && status == LIGHTQ_OK; i++) {
        status = gather_log(plan, store->logs[i], shard, err);
    }
    if (status == LIGHTQ_OK) {
        status = gather_records(plan, store, shard, err);
    }
    if (store->journal.next_number > plan->number) {
        plan->number = store->journal.next_number;
    }
    if (store->journal.sequence + 1 > plan->sequence) {
        plan->sequence = store->journal.sequence + 1;
    }
    lq_store_free(store, false); /* nothing was submitted, and all that counts is durable */
    return status;
}

static lightq_status gather(struct lq_io *io, struct lq_clock *clock, const struct lq_reshard_options *options,
                            struct lq_reshard_plan *plan, struct lq_err *err)
{
    lightq_status status = LIGHTQ_OK;
    for (unsigned i = 0; i < plan->from && status == LIGHTQ_OK; i++) {
        status = gather_store(io, clock, options, i, plan, err);
    }
    for (unsigned i = 0; i < LQ_SHARDS_MAX && status == LIGHTQ_OK; i++) {
        status = check_place(io, i, plan->from, err);
    }
    return status;
}

/* ---- finishing: moving directories ---- */

static lightq_status make_places(struct lq_io *io, const struct lq_reshard_plan *plan, struct lq_err *err)
{
    char dir[LQ_SHARD_DIR_BYTES];
    char path[LQ_PATH_BYTES];
    bool made = false;
    lightq_status status = LIGHTQ_OK;
    for (unsigned i = 1; i < plan->to && status == LIGHTQ_OK; i++) {
        lq_shard_dir(dir, i);
        status = lq_disk_mkdir(io, dir, &made, err);
    }
    if (status == LIGHTQ_OK) {
        status = lq_disk_sync_dir(io, "", err);
    }
    for (unsigned i = 0; i < plan->to && status == LIGHTQ_OK; i++) {
        lq_shard_dir(dir, i);
        lq_path_join(path, dir, JOURNAL_DIR);
        status = lq_disk_mkdir(io, path, &made, err);
        if (status == LIGHTQ_OK) {
            status = lq_disk_sync_dir(io, dir, err);
        }
    }
    return status;
}

/* The directory @below ("": itself) of the shards in @touched, where something has come to lie, and then that of
 * @shard, where it was: at any time it is in one of them. The last also when nothing was moved now: an earlier try may
 * have done so, and not come to its sync. */
static lightq_status sync_places(struct lq_io *io, const char *below, uint32_t touched, unsigned shard,
                                 struct lq_err *err)
{
    char dir[LQ_SHARD_DIR_BYTES];
    char path[LQ_PATH_BYTES];
    lightq_status status = LIGHTQ_OK;
    for (unsigned i = 0; i <= LQ_SHARDS_MAX && status == LIGHTQ_OK; i++) {
        bool is_last = i == LQ_SHARDS_MAX;
        if (is_last || (touched >> i & 1) != 0) {
            lq_shard_dir(dir, is_last ? shard : i);
            lq_path_join(path, dir, below);
            status = sync_if_there(io, below[0] != '\0' ? path : dir, err);
        }
    }
    return status;
}

static lightq_status move_group(struct lq_io *io, const char *dir, const char *dir_to, const char *name,
                                struct lq_err *err)
{
    char from[LQ_PATH_BYTES];
    char to[LQ_PATH_BYTES];
    struct lq_io_stat stat;
    lq_path_join(from, dir, name);
    lq_path_join(to, dir_to, name);
    lightq_status status = io->ops->stat(io, to, &stat, err);
    if (status == LIGHTQ_OK) {
        return lq_err_set(err, LIGHTQ_ECONFLICT, "both %s and %s are there: move away the one that is not the node's",
                          from, to);
    }
    return status == LIGHTQ_ENOTFOUND ? lq_disk_rename(io, from, to, err) : status;
}

/* The directories of groups that lie at @shard and belong somewhere else. */
static lightq_status move_groups(struct lq_io *io, const struct lq_reshard_plan *plan, unsigned shard,
                                 struct lq_err *err)
{
    char dir[LQ_SHARD_DIR_BYTES];
    char dir_to[LQ_SHARD_DIR_BYTES];
    struct lq_names names;
    uint32_t touched = 0;
    lq_shard_dir(dir, shard);
    lightq_status status = list_if_there(io, dir, &names, err);
    for (size_t i = 0; i < names.count && status == LIGHTQ_OK; i++) {
        uint64_t group = 0;
        uint32_t incarnation = 0;
        const struct lq_name *name = &names.at[i];
        if (!name->is_dir || !lq_name_group(name->name, &group, &incarnation) || group % plan->to == shard) {
            continue;
        }
        unsigned shard_to = (unsigned)(group % plan->to);
        lq_shard_dir(dir_to, shard_to);
        touched |= 1u << shard_to;
        status = move_group(io, dir, dir_to, name->name, err);
    }
    lq_names_deinit(&names);
    return status == LIGHTQ_OK ? sync_places(io, "", touched, shard, err) : status;
}

/* A directory in removed/ is named after its group: "g12-1.0", "g12-1.sound.0". */
static bool is_aside(const struct lq_name *name, uint64_t *group)
{
    char begin[LQ_PATH_BYTES];
    uint32_t incarnation = 0;
    (void)snprintf(begin, sizeof begin, "%.*s", (int)strcspn(name->name, "."), name->name);
    return name->is_dir && lq_name_group(begin, group, &incarnation);
}

/* Under its name, or the next number that is free there. */
static lightq_status move_one_aside(struct lq_io *io, const char *dir, const char *dir_to, const char *name,
                                    struct lq_err *err)
{
    char from[LQ_PATH_BYTES];
    char to[LQ_PATH_BYTES];
    char renamed[LQ_PATH_BYTES];
    struct lq_io_stat stat;
    const char *last = strrchr(name, '.');
    int begin = last != NULL ? (int)(last - name) : (int)strlen(name);
    lq_path_join(from, dir, name);
    lq_path_join(to, dir_to, name);
    for (unsigned i = 0; io->ops->stat(io, to, &stat, NULL) == LIGHTQ_OK; i++) {
        if (i == NAMES_TRIED_MAX) {
            return lq_err_set(err, LIGHTQ_EEXISTS, "%s: it holds too many directories of that name", dir_to);
        }
        (void)snprintf(renamed, sizeof renamed, "%.*s.%u", begin, name, i);
        lq_path_join(to, dir_to, renamed);
    }
    return lq_disk_rename(io, from, to, err);
}

/* What was set aside goes with its group: a later start may drop it for the group's sake. */
static lightq_status move_aside(struct lq_io *io, const struct lq_reshard_plan *plan, unsigned shard,
                                struct lq_err *err)
{
    char place[LQ_SHARD_DIR_BYTES];
    char dir[LQ_PATH_BYTES];
    char dir_to[LQ_PATH_BYTES];
    struct lq_names names;
    uint32_t touched = 0;
    bool made = false;
    lq_shard_dir(place, shard);
    lq_path_join(dir, place, REMOVED_DIR);
    lightq_status status = list_if_there(io, dir, &names, err);
    for (size_t i = 0; i < names.count && status == LIGHTQ_OK; i++) {
        uint64_t group = 0;
        if (!is_aside(&names.at[i], &group) || group % plan->to == shard) {
            continue;
        }
        unsigned shard_to = (unsigned)(group % plan->to);
        lq_shard_dir(place, shard_to);
        lq_path_join(dir_to, place, REMOVED_DIR);
        touched |= 1u << shard_to;
        status = lq_disk_mkdir(io, dir_to, &made, err);
        if (status == LIGHTQ_OK && made) {
            status = lq_disk_sync_dir(io, place, err);
        }
        if (status == LIGHTQ_OK) {
            status = move_one_aside(io, dir, dir_to, names.at[i].name, err);
        }
    }
    lq_names_deinit(&names);
    return status == LIGHTQ_OK ? sync_places(io, REMOVED_DIR, touched, shard, err) : status;
}

/* A verdict that the old journal had a part in stays with the log: the file says so to every start. */
static lightq_status mark_damaged(struct lq_io *io, const struct lq_reshard_plan *plan,
                                  const struct lq_damaged *damaged, struct lq_err *err)
{
    char place[LQ_SHARD_DIR_BYTES];
    char dir[LQ_PATH_BYTES];
    struct lq_io_stat stat;
    lq_shard_dir(place, (unsigned)(damaged->group % plan->to));
    lq_path_group(dir, place, damaged->group, damaged->incarnation);
    lightq_status status = io->ops->stat(io, dir, &stat, err);
    if (status != LIGHTQ_OK) {
        return status == LIGHTQ_ENOTFOUND ? LIGHTQ_OK : status; /* then it is lost */
    }
    return lq_reshard_write_file(io, dir, LQ_DAMAGED_NAME_TMP, LQ_DAMAGED_NAME, damaged->text, strlen(damaged->text),
                                 err);
}

/* ---- finishing: journals ---- */

/* Where journal files go that a damaged log may want. */
static lightq_status make_kept(struct lq_io *io, struct lq_err *err)
{
    bool made = false;
    lightq_status status = lq_disk_mkdir(io, REMOVED_DIR, &made, err);
    if (status == LIGHTQ_OK) {
        status = lq_disk_sync_dir(io, "", err);
    }
    if (status == LIGHTQ_OK) {
        status = lq_disk_mkdir(io, REMOVED_DIR "/" JOURNAL_DIR, &made, err);
    }
    return status == LIGHTQ_OK ? lq_disk_sync_dir(io, REMOVED_DIR, err) : status;
}

static lightq_status drop_journal(struct lq_io *io, const struct lq_reshard_plan *plan, const char *dir,
                                  const char *name, bool keep, uint64_t number, struct lq_err *err)
{
    char from[LQ_PATH_BYTES];
    char to[LQ_PATH_BYTES];
    lq_path_join(from, dir, name);
    if (number > plan->number) {
        return lq_err_set(err, LIGHTQ_EDAMAGED,
                          "%s was begun after another number of shards was taken over, and the file "
                          "\"" LQ_RESHARD_NAME "\" says that this was not finished: it does not belong here",
                          from);
    }
    if (keep && number < plan->number) {
        lq_path_join(to, REMOVED_DIR "/" JOURNAL_DIR, name);
        return lq_disk_rename(io, from, to, err);
    }
    return lq_disk_unlink(io, from, err);
}

/* All journal files of @shard: old ones, and what an earlier try began. */
static lightq_status drop_journals(struct lq_io *io, const struct lq_reshard_plan *plan, unsigned shard,
                                   struct lq_err *err)
{
    char place[LQ_SHARD_DIR_BYTES];
    char dir[LQ_PATH_BYTES];
    struct lq_names names;
    bool keep = (plan->kept >> shard & 1) != 0;
    lq_shard_dir(place, shard);
    lq_path_join(dir, place, JOURNAL_DIR);
    lightq_status status = list_if_there(io, dir, &names, err);
    if (keep && status == LIGHTQ_OK) {
        status = make_kept(io, err);
    }
    for (size_t i = 0; i < names.count && status == LIGHTQ_OK; i++) {
        uint64_t number = 0;
        if (lq_name_journal(names.at[i].name, shard, &number)) {
            status = drop_journal(io, plan, dir, names.at[i].name, keep, number, err);
        }
    }
    lq_names_deinit(&names);
    if (keep && status == LIGHTQ_OK) {
        status = lq_disk_sync_dir(io, REMOVED_DIR "/" JOURNAL_DIR, err);
    }
    return status == LIGHTQ_OK ? sync_if_there(io, dir, err) : status;
}

/* The whole file: header, and the snapshot of the groups that are the shard's now. */
static void write_snapshot(const struct lq_reshard_plan *plan, unsigned shard, uint64_t salt, struct lq_writer *writer)
{
    const struct lq_journal_header header = {
        .cluster = plan->cluster, .number = plan->number, .salt = salt, .shard = shard, .shards = plan->to};
    struct lq_reader reader = lq_reader_of(plan->records.bytes, plan->records.size);
    struct lq_record record;
    uint8_t *at = lq_write_space(writer, LQ_JOURNAL_HEADER_BYTES);
    if (at != NULL) {
        lq_journal_header_encode(at, &header);
    }
    lq_frame_begin(writer);
    while (lq_record_read(&reader, &record)) {
        if (record.group % plan->to != shard) {
            continue;
        }
        if (record.type == LQ_RECORD_GROUP) {
            record.fields[NEED_FIELD] = plan->number; /* all is in the segments */
        }
        lq_record_write(writer, &record);
    }
    lq_frame_end(writer);
    lq_frame_seal(writer, LQ_JOURNAL_HEADER_BYTES, 0, plan->sequence, salt, LQ_JOURNAL_SNAPSHOT);
}

static lightq_status begin_journal(struct lq_io *io, struct lq_clock *clock, const struct lq_reshard_plan *plan,
                                   unsigned shard, struct lq_err *err)
{
    char place[LQ_SHARD_DIR_BYTES];
    char path[LQ_PATH_BYTES];
    struct lq_writer writer;
    lq_file file;
    lq_shard_dir(place, shard);
    lq_writer_init(&writer, LQ_JOURNAL_RECORDS_MAX);
    write_snapshot(plan, shard, lq_clock_random_u64(clock), &writer);
    lightq_status status = writer.status == LIGHTQ_OK
                               ? LIGHTQ_OK
                               : lq_err_set(err, writer.status, "no memory for the journal of shard %u", shard);
    lq_path_journal(path, place, shard, plan->number);
    if (status == LIGHTQ_OK) {
        status = lq_disk_open(io, path, LQ_OPEN_CREATE, &file, err);
    }
    if (status == LIGHTQ_OK) {
        status = lq_disk_write(io, file, 0, writer.bytes, writer.size, err);
        if (status == LIGHTQ_OK) {
            status = lq_disk_sync(io, file, err);
        }
        io->ops->close(io, file);
    }
    lq_writer_deinit(&writer);
    lq_path_join(path, place, JOURNAL_DIR);
    return status == LIGHTQ_OK ? lq_disk_sync_dir(io, path, err) : status;
}

/* Directories of shards that are no more, as far as they are empty. */
static void clear_places(struct lq_io *io, const struct lq_reshard_plan *plan)
{
    char place[LQ_SHARD_DIR_BYTES];
    char path[LQ_PATH_BYTES];
    for (unsigned i = plan->to; i < plan->from; i++) {
        lq_shard_dir(place, i);
        lq_path_join(path, place, JOURNAL_DIR);
        (void)io->ops->rmdir(io, path, NULL);
        lq_path_join(path, place, REMOVED_DIR);
        (void)io->ops->rmdir(io, path, NULL);
        (void)io->ops->rmdir(io, place, NULL);
    }
}

static lightq_status finish(struct lq_io *io, struct lq_clock *clock, const struct lq_reshard_plan *plan,
                            struct lq_err *err)
{
    unsigned count = plan->from > plan->to ? plan->from : plan->to;
    lightq_status status = make_places(io, plan, err);
    for (unsigned i = 0; i < count && status == LIGHTQ_OK; i++) {
        status = move_groups(io, plan, i, err);
        if (status == LIGHTQ_OK) {
            status = move_aside(io, plan, i, err);
        }
    }
    for (size_t i = 0; i < plan->damaged_count && status == LIGHTQ_OK; i++) {
        status = mark_damaged(io, plan, &plan->damaged[i], err);
    }
    for (unsigned i = 0; i < count && status == LIGHTQ_OK; i++) { /* first: it makes room */
        status = drop_journals(io, plan, i, err);
    }
    for (unsigned i = 0; i < plan->to && status == LIGHTQ_OK; i++) {
        status = begin_journal(io, clock, plan, i, err);
    }
    if (status == LIGHTQ_OK) {
        clear_places(io, plan);
    }
    return status;
}

/* ---- running ---- */

static lightq_status carry_out(struct lq_io *io, struct lq_clock *clock, const struct lq_reshard_plan *plan,
                               lq_reshard_note_cb note, void *owner, struct lq_err *err)
{
    lightq_status status = finish(io, clock, plan, err);
    if (status == LIGHTQ_OK) {
        status = note(owner, plan->to, err);
    }
    if (status == LIGHTQ_OK) {
        status = lq_disk_unlink(io, LQ_RESHARD_NAME, err);
    }
    if (status == LIGHTQ_OK) {
        status = lq_disk_sync_dir(io, "", err);
    }
    if (status == LIGHTQ_OK) {
        lq_log(INFO, "another number of shards is taken over", "from", plan->from, "to", plan->to);
    }
    return status;
}

/* What a start before this one began. Its file may be there only as far as reads show: it is written again before
 * anything is done for it. */
static lightq_status go_on(struct lq_io *io, struct lq_clock *clock, const struct lq_reshard_options *options,
                           lq_reshard_note_cb note, void *owner, unsigned *now, struct lq_err *err)
{
    struct lq_reshard_plan plan;
    lightq_status status = lq_reshard_plan_load(io, &options->store.cluster, &plan, err);
    if (status != LIGHTQ_OK) {
        return status == LIGHTQ_ENOTFOUND ? LIGHTQ_OK : status;
    }
    lq_log(INFO, "a change of the number of shards was not finished: it goes on", "from", plan.from, "to", plan.to);
    if (*now != plan.from && *now != plan.to) {
        status = lq_err_set(err, LIGHTQ_ECONFLICT,
                            "the file \"" LQ_RESHARD_NAME
                            "\" is of a directory of %u or %u shards, this one has %u: it does not belong here",
                            plan.from, plan.to, *now);
    }
    if (status == LIGHTQ_OK) {
        status = lq_reshard_plan_store(io, &plan, err);
    }
    if (status == LIGHTQ_OK) {
        status = carry_out(io, clock, &plan, note, owner, err);
        *now = plan.to;
    }
    lq_reshard_plan_deinit(&plan);
    return status;
}

lightq_status lq_reshard_run(struct lq_io *io, struct lq_clock *clock, const struct lq_reshard_options *options,
                             lq_reshard_note_cb note, void *owner, struct lq_err *err)
{
    unsigned now = options->from;
    struct lq_reshard_plan plan;
    assert(now >= 1 && now <= LQ_SHARDS_MAX && options->to >= 1 && options->to <= LQ_SHARDS_MAX);
    lightq_status status = go_on(io, clock, options, note, owner, &now, err);
    if (status != LIGHTQ_OK || now == options->to) {
        return status;
    }
    lq_log(INFO, "another number of shards is to be taken over", "from", now, "to", options->to);
    lq_reshard_plan_init(&plan, &options->store.cluster, now, options->to);
    status = gather(io, clock, options, &plan, err);
    if (status == LIGHTQ_OK) {
        status = lq_reshard_plan_store(io, &plan, err);
    }
    if (status == LIGHTQ_OK) {
        status = carry_out(io, clock, &plan, note, owner, err);
    }
    lq_reshard_plan_deinit(&plan);
    return status;
}
