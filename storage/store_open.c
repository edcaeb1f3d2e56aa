/* storage/store_open.c - opens a store: reads the journals and all logs, judges them, and only then changes the disk:
 * heals the logs, begins a new journal file that says all that is known, clears away what is left over. Called by raft/
 * (and the node, which gives the io) through storage/store.h; blocking. Why: docs/adr/0004. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/log.h"
#include "storage/array.h"
#include "storage/recover.h"
#include "storage/store_private.h"

#define COPY_BYTES ((size_t)1024 * 1024)

struct opening {
    struct lq_store *store;
    struct lq_replay replay;
    struct lq_names names;
    struct lq_heal *heals;
    size_t heal_count;
    struct lq_err *err;
};

/* The directories that must be there. On a new disk this is all that is made before everything was read. */
static lightq_status make_directories(struct opening *opening)
{
    struct lq_store *store = opening->store;
    char path[LQ_PATH_BYTES];
    bool made = false;
    lightq_status status = LIGHTQ_OK;
    if (store->dir[0] != '\0') {
        status = lq_disk_mkdir(store->io, store->dir, &made, opening->err);
        if (status == LIGHTQ_OK && made) {
            lq_path_parent(path, store->dir);
            status = lq_disk_sync_dir(store->io, path, opening->err);
        }
    }
    if (status != LIGHTQ_OK) {
        return status;
    }
    lq_path_join(path, store->dir, "journal");
    return lq_disk_mkdir(store->io, path, &made, opening->err);
}

static bool is_there(const struct lq_names *names, uint64_t group, uint32_t incarnation)
{
    for (size_t i = 0; i < names->count; i++) {
        uint64_t found = 0;
        uint32_t found_incarnation = 0;
        if (names->at[i].is_dir && lq_name_group(names->at[i].name, &found, &found_incarnation) && found == group &&
            found_incarnation == incarnation) {
            return true;
        }
    }
    return false;
}

/* Without any journal the directories of groups prove that there was one. */
static lightq_status check_journal(const struct opening *opening)
{
    if (opening->replay.closed) {
        return lq_err_set(opening->err, LIGHTQ_EDAMAGED,
                          "journal file %" PRIu64
                          " was followed by another one, which is missing: every group of the shard may have forgotten "
                          "a vote",
                          opening->replay.newest);
    }
    if (opening->replay.newest != 0) {
        return LIGHTQ_OK;
    }
    if (opening->store->options.must_exist) {
        return lq_err_set(opening->err, LIGHTQ_EDAMAGED,
                          "the journal is not there, and there was one: every group of the shard may have forgotten a "
                          "vote");
    }
    for (size_t i = 0; i < opening->names.count; i++) {
        uint64_t group = 0;
        uint32_t incarnation = 0;
        if (opening->names.at[i].is_dir && lq_name_group(opening->names.at[i].name, &group, &incarnation)) {
            return lq_err_set(opening->err, LIGHTQ_EDAMAGED,
                              "no journal, but %s is there: every group of the shard may have forgotten a vote",
                              opening->names.at[i].name);
        }
    }
    return LIGHTQ_OK;
}

static uint64_t lowest_file(const struct opening *opening, const struct lq_replay_group *group)
{
    return group->view_count > 0 ? opening->replay.files[group->view[0].file].number : 0;
}

/* Reads one log. A damaged or lost one keeps the journal files that may hold what it lacks. */
static lightq_status recover_group(struct opening *opening, struct lq_replay_group *group)
{
    struct lq_store *store = opening->store;
    struct lq_rlog *log = lq_rlog_new(store, group->journal.group, group->journal.incarnation);
    if (log == NULL || lq_rlog_register(log) != LIGHTQ_OK) {
        if (log != NULL) {
            lq_rlog_free(log, false);
        }
        return lq_err_set(opening->err, LIGHTQ_ENOMEM, "no memory for group %" PRIu64, group->journal.group);
    }
    lightq_status status = LIGHTQ_OK;
    struct lq_heal *heal = &opening->heals[opening->heal_count++];
    heal->log = log;
    heal->group = group;
    if (!is_there(&opening->names, log->group, log->incarnation)) {
        struct lq_err reason;
        (void)lq_err_set(&reason, LIGHTQ_EDAMAGED, "%s is lost: the journal says it was created, and it is not there",
                         log->dir);
        lq_rlog_set_health(log, LQ_RLOG_LOST, &reason);
        lq_log(ERROR, "log lost: it does not take part until it is rebuilt", "group", log->group, "directory",
               log->dir);
    } else {
        status = lq_recover_log(&opening->replay, group, log, heal, opening->err);
    }
    if (log->health != LQ_RLOG_HEALTHY) {
        log->keep_low = lowest_file(opening, group);
        log->keep_high = log->keep_low != 0 ? opening->replay.max_number : 0;
    }
    log->created = true;
    log->term = group->journal.term;
    log->voted_for = group->journal.voted_for;
    return status;
}

static int by_group(const struct lq_replay_group *a, const struct lq_replay_group *b)
{
    return a->journal.group < b->journal.group ? -1 : 1;
}

static lightq_status recover_groups(struct opening *opening)
{
    size_t count = HASH_COUNT(opening->replay.groups);
    lightq_status status = LIGHTQ_OK;
    HASH_SORT(opening->replay.groups, by_group); /* the order of lq_store_at */
    opening->heals = calloc(count + 1, sizeof *opening->heals);
    if (opening->heals == NULL) {
        return lq_err_set(opening->err, LIGHTQ_ENOMEM, "no memory for %zu groups", count);
    }
    for (struct lq_replay_group *group = opening->replay.groups; group != NULL && status == LIGHTQ_OK;
         group = group->hh.next) {
        status = recover_group(opening, group);
    }
    for (struct lq_replay_known *known = opening->replay.known; known != NULL && status == LIGHTQ_OK;
         known = known->hh.next) {
        status = lq_store_note(opening->store, known->group, known->incarnation);
        if (status == LIGHTQ_OK) {
            struct lq_known *noted = lq_store_known(opening->store, known->group);
            noted->durable = true;
            noted->durable_incarnation = known->incarnation;
        }
    }
    return status;
}

/* ---- opening: from here on the disk is changed ---- */

static void start_log(struct lq_heal *heal)
{
    struct lq_rlog *log = heal->log;
    struct lq_journal_group *journaled = &log->journaled;
    *journaled = heal->group->journal;
    if (log->health != LQ_RLOG_HEALTHY) {
        return;
    }
    log->durable = log->last;
    log->submitted = log->last;
    log->written = log->last;
    journaled->watermark = log->last;
    journaled->cut = 0;
    journaled->install_index = 0;
    journaled->install_number = 0;
    log->directory_dirty = true; /* the process before may have died between a change and its sync */
    lq_rlog_mark_background(log);
}

static lightq_status heal_all(struct opening *opening)
{
    for (size_t i = 0; i < opening->heal_count; i++) {
        struct lq_heal *heal = &opening->heals[i];
        struct lq_rlog *log = heal->log;
        struct lq_err reason;
        assert(log != NULL);
        if (log->health != LQ_RLOG_HEALTHY) {
            start_log(heal);
            continue;
        }
        lightq_status status = lq_heal_log(&opening->replay, heal, &reason);
        if (status == LIGHTQ_ENOMEM || status == LIGHTQ_ENOSPC) {
            return lq_err_set(opening->err, status, "%s", reason.text);
        }
        if (status == LIGHTQ_OK) {
            start_log(heal);
            continue;
        }
        lq_log(ERROR, "log failed while it was repaired", "group", log->group, "reason", reason.text);
        log->journaled = heal->group->journal;
        lq_rlog_set_health(log, LQ_RLOG_FAILED, &reason);
        log->keep_low = lowest_file(opening, heal->group);
        log->keep_high = log->keep_low != 0 ? opening->replay.max_number : 0;
    }
    return LIGHTQ_OK;
}

static lightq_status write_journal(struct opening *opening, const char *path, struct lq_writer *writer)
{
    struct lq_store *store = opening->store;
    struct lq_journal *journal = &store->journal;
    char dir[LQ_PATH_BYTES];
    lightq_status status = lq_disk_open(store->io, path, LQ_OPEN_CREATE, &journal->file, opening->err);
    if (status != LIGHTQ_OK) {
        journal->file = LQ_FILE_NONE;
        return status;
    }
    lq_path_join(dir, store->dir, "journal");
    status = lq_disk_allocate(store->io, journal->file, 0, journal->allocated, opening->err);
    if (status == LIGHTQ_OK) {
        status = lq_disk_sync(store->io, journal->file, opening->err); /* it is as long as the snapshot tells */
    }
    if (status == LIGHTQ_OK) {
        status = lq_disk_write(store->io, journal->file, 0, writer->bytes, writer->size, opening->err);
    }
    if (status == LIGHTQ_OK) {
        status = lq_disk_sync(store->io, journal->file, opening->err);
    }
    if (status == LIGHTQ_OK) {
        status = lq_disk_sync_dir(store->io, dir, opening->err);
    }
    /* The directory "journal" itself; also the group directories that are about to be judged by the next start. */
    return status == LIGHTQ_OK ? lq_disk_sync_dir(store->io, store->dir, opening->err) : status;
}

/* A new journal file that begins with all that is known. */
static lightq_status begin_journal(struct opening *opening)
{
    struct lq_store *store = opening->store;
    struct lq_journal *journal = &store->journal;
    char path[LQ_PATH_BYTES];
    struct lq_writer writer;
    journal->number = opening->replay.max_number + 1;
    journal->next_number = journal->number + 1;
    journal->salt = lq_clock_random_u64(store->clock);
    journal->sequence = opening->replay.sequence + 1;
    journal->ahead = LQ_SEGMENT_AHEAD_FIRST * 2;
    const struct lq_journal_header header = {.cluster = store->options.cluster,
                                             .number = journal->number,
                                             .salt = journal->salt,
                                             .shard = store->options.shard,
                                             .shards = store->options.shards};
    lq_writer_init(&writer, LQ_JOURNAL_RECORDS_MAX);
    uint8_t *at = lq_write_space(&writer, LQ_JOURNAL_HEADER_BYTES);
    if (at != NULL) {
        lq_journal_header_encode(at, &header);
    }
    store->snapshot_need = lq_store_snapshot(store, &writer, journal->number, &journal->allocated);
    lq_frame_seal(&writer, LQ_JOURNAL_HEADER_BYTES, 0, journal->sequence, journal->salt, LQ_JOURNAL_SNAPSHOT);
    lq_path_journal(path, store->dir, store->options.shard, journal->number);
    lightq_status status = writer.status == LIGHTQ_OK
                               ? write_journal(opening, path, &writer)
                               : lq_err_set(opening->err, writer.status, "no memory for the journal's snapshot");
    journal->position = writer.size;
    store->rotate_at = journal->position + store->options.journal_bytes;
    lq_writer_deinit(&writer);
    return status;
}

static lightq_status copy_onto_itself(struct lq_io *io, lq_file file, uint64_t from, uint64_t to, struct lq_err *err)
{
    uint8_t *chunk = malloc(COPY_BYTES);
    lightq_status status = chunk != NULL ? LIGHTQ_OK : lq_err_set(err, LIGHTQ_ENOMEM, "no memory to copy a frame");
    while (status == LIGHTQ_OK && from < to) {
        size_t got = 0;
        size_t wanted = to - from < COPY_BYTES ? (size_t)(to - from) : COPY_BYTES;
        status = lq_disk_read(io, file, from, chunk, wanted, &got, err);
        if (status == LIGHTQ_OK && got != wanted) {
            status = lq_err_set(err, LIGHTQ_EIO, "the journal became shorter while it was read");
        }
        if (status == LIGHTQ_OK) {
            status = lq_disk_write(io, file, from, chunk, wanted, err);
        }
        from += wanted;
    }
    free(chunk);
    return status;
}

/* The last frame of the newest old file may be in the page cache only, or (its sync failed) never get to the disk from
 * there: it is written again and synced before anything relies on it, as the removal of files below a trim point that
 * only it tells of. All frames before it were synced. */
static lightq_status secure_newest(struct opening *opening)
{
    struct lq_io *io = opening->store->io;
    const struct lq_replay *replay = &opening->replay;
    char path[LQ_PATH_BYTES];
    lq_file file;
    if (replay->newest == 0) {
        return LIGHTQ_OK;
    }
    lq_path_journal(path, opening->store->dir, opening->store->options.shard, replay->newest);
    lightq_status status = lq_disk_open(io, path, LQ_OPEN_WRITE, &file, opening->err);
    if (status != LIGHTQ_OK) {
        return status;
    }
    uint64_t from = replay->newest_last == LQ_JOURNAL_HEADER_BYTES ? 0 : replay->newest_last; /* written in one go */
    status = copy_onto_itself(io, file, from, replay->newest_end, opening->err);
    if (status == LIGHTQ_OK) {
        status = lq_disk_sync(io, file, opening->err);
    }
    io->ops->close(io, file);
    if (status == LIGHTQ_OK) {
        lq_path_join(path, opening->store->dir, "journal");
        status = lq_disk_sync_dir(io, path, opening->err);
    }
    return status;
}

/* The newest old file says that one came after it, as a full one does. A failure only means that it does not. */
static void close_newest(struct opening *opening)
{
    struct lq_io *io = opening->store->io;
    const struct lq_replay *replay = &opening->replay;
    uint8_t frame[LQ_FRAME_HEADER_BYTES];
    char path[LQ_PATH_BYTES];
    struct lq_err err = {.text = ""};
    lq_file file;
    if (replay->newest == 0) {
        return;
    }
    lq_path_journal(path, opening->store->dir, opening->store->options.shard, replay->newest);
    lq_frame_closed(frame, replay->sequence + 1, replay->newest_salt);
    lightq_status status = lq_disk_open(io, path, LQ_OPEN_WRITE, &file, &err);
    if (status == LIGHTQ_OK) {
        status = lq_disk_truncate(io, file, replay->newest_end, &err);
        if (status == LIGHTQ_OK) {
            status = lq_disk_write(io, file, replay->newest_end, frame, sizeof frame, &err);
        }
        if (status == LIGHTQ_OK) {
            status = lq_disk_sync(io, file, &err);
        }
        io->ops->close(io, file);
    }
    if (status != LIGHTQ_OK) {
        lq_log(WARN, "old journal file is not closed", "file", replay->newest, "reason", err.text);
    }
}

/* The old journal files: unneeded ones go with the first background work. */
static lightq_status note_old_files(struct opening *opening)
{
    struct lq_journal *journal = &opening->store->journal;
    size_t count = opening->replay.file_count;
    if (!lq_array_reserve((void **)&journal->old, &journal->old_capacity, count + 1, sizeof *journal->old)) {
        return lq_err_set(opening->err, LIGHTQ_ENOMEM, "no memory for the list of journal files");
    }
    for (size_t i = 0; i < count; i++) {
        journal->old[journal->old_count++] =
            (struct lq_old_journal){.number = opening->replay.files[i].number, .bytes = opening->replay.files[i].size};
    }
    return LIGHTQ_OK;
}

/* Removes what a destroyed group left. */
static void remove_directory(struct lq_store *store, const char *dir)
{
    struct lq_names names;
    if (lq_disk_list(store->io, dir, &names, NULL) != LIGHTQ_OK) {
        return;
    }
    for (size_t i = 0; i < names.count; i++) {
        char path[LQ_PATH_BYTES];
        lq_path_join(path, dir, names.at[i].name);
        lq_disk_unlink_try(store->io, path);
    }
    lq_names_deinit(&names);
    (void)store->io->ops->rmdir(store->io, dir, NULL);
}

/* Directories that are no log of the store: what is left of a destroyed group goes; one that the journal never knew
 * (its creation was not durable) is set aside when it has files, since nothing is deleted for want of metadata. */
static void clean_directories(struct opening *opening)
{
    struct lq_store *store = opening->store;
    for (size_t i = 0; i < opening->names.count; i++) {
        uint64_t group = 0;
        uint32_t incarnation = 0;
        char dir[LQ_PATH_BYTES];
        struct lq_err reason = {.text = ""};
        if (!opening->names.at[i].is_dir || !lq_name_group(opening->names.at[i].name, &group, &incarnation)) {
            continue;
        }
        const struct lq_replay_group *found = lq_replay_find(&opening->replay, group);
        if (found != NULL && found->journal.incarnation == incarnation) {
            continue;
        }
        lq_path_join(dir, store->dir, opening->names.at[i].name);
        const struct lq_known *known = lq_store_known(store, group);
        if (known != NULL && known->incarnation >= incarnation) {
            remove_directory(store, dir);
        } else if (store->io->ops->rmdir(store->io, dir, NULL) != LIGHTQ_OK &&
                   lq_store_set_aside(store, dir, "", &reason) != LIGHTQ_OK) {
            lq_log(WARN, "directory of a group never created cannot be set aside", "directory", dir, "reason",
                   reason.text);
        }
    }
}

static lightq_status open_all(struct opening *opening)
{
    struct lq_store *store = opening->store;
    lightq_status status = make_directories(opening);
    if (status == LIGHTQ_OK) {
        status = lq_replay_run(&opening->replay, store, opening->err);
    }
    if (status == LIGHTQ_OK) {
        status = lq_disk_list(store->io, store->dir, &opening->names, opening->err);
    }
    if (status == LIGHTQ_OK) {
        status = check_journal(opening);
    }
    if (status == LIGHTQ_OK) {
        status = recover_groups(opening);
    }
    if (status == LIGHTQ_OK) {
        status = note_old_files(opening);
    }
    if (status == LIGHTQ_OK) {
        status = secure_newest(opening);
    }
    if (status == LIGHTQ_OK) {
        status = heal_all(opening);
    }
    if (status == LIGHTQ_OK) {
        status = begin_journal(opening);
    }
    if (status == LIGHTQ_OK) {
        close_newest(opening);
        clean_directories(opening);
    }
    return status;
}

lightq_status lq_store_open(struct lq_io *io, struct lq_clock *clock, const struct lq_store_options *options,
                            struct lq_store **store, struct lq_err *err)
{
    struct opening opening = {.store = lq_store_new(io, clock), .err = err};
    if (opening.store == NULL) {
        return lq_err_set(err, LIGHTQ_ENOMEM, "no memory for a store");
    }
    opening.replay.store = opening.store;
    lightq_status status = lq_store_take_options(opening.store, options, err);
    if (status == LIGHTQ_OK) {
        status = open_all(&opening);
    }
    for (size_t i = 0; i < opening.heal_count; i++) {
        lq_heal_deinit(&opening.heals[i]);
    }
    free(opening.heals);
    lq_names_deinit(&opening.names);
    lq_replay_deinit(&opening.replay);
    if (status != LIGHTQ_OK) {
        lq_store_free(opening.store, false);
        return status;
    }
    *store = opening.store;
    return LIGHTQ_OK;
}
