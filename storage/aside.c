/* storage/aside.c - directories of groups that are set aside, into "removed/": damaged ones, which are never deleted;
 * and sound ones of a replica that is made anew under a later incarnation, which are kept until that one is as good.
 * Called by store.c, store_open.c and background.c, and by raft/ through store.h. Blocking: such things are rare.
 *
 *     removed/g<group>-<incarnation>.<n>        damaged, or never created
 *     removed/g<group>-<incarnation>.sound.<n>  sound when it was set aside */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/base/log.h"
#include "storage/store_private.h"

#define REMOVED_DIR     "removed"
#define SOUND_MARK      ".sound"
#define NAMES_TRIED_MAX 1000 /* for a directory set aside under a name that is taken */

lightq_status lq_store_set_aside(struct lq_store *store, const char *dir, const char *mark, struct lq_err *err)
{
    char removed[LQ_PATH_BYTES];
    char to[LQ_PATH_BYTES];
    char name[LQ_PATH_BYTES];
    struct lq_io_stat stat;
    bool made = false;
    const char *slash = strrchr(dir, '/');
    lq_path_join(removed, store->dir, REMOVED_DIR);
    lightq_status status = lq_disk_mkdir(store->io, removed, &made, err);
    for (unsigned i = 0; status == LIGHTQ_OK; i++) {
        (void)snprintf(name, sizeof name, "%s%s.%u", slash != NULL ? slash + 1 : dir, mark, i);
        lq_path_join(to, removed, name);
        if (store->io->ops->stat(store->io, to, &stat, NULL) == LIGHTQ_ENOTFOUND) {
            break;
        }
        if (i == NAMES_TRIED_MAX) {
            return lq_err_set(err, LIGHTQ_EEXISTS, "%s: it holds too many directories of that name", removed);
        }
    }
    if (status == LIGHTQ_OK) {
        /* Its names first: else nothing orders the move, and what takes its place, behind them. */
        status = lq_disk_sync_dir(store->io, dir, err);
    }
    if (status == LIGHTQ_OK) {
        status = lq_disk_rename(store->io, dir, to, err);
    }
    if (status == LIGHTQ_OK) {
        status = lq_disk_sync_dir(store->io, removed, err);
    }
    return status == LIGHTQ_OK ? lq_disk_sync_dir(store->io, store->dir, err) : status;
}

/* ---- sound ones ---- */

bool lq_rlog_is_quiet(const struct lq_rlog *log)
{
    return log->pins == 0 && !log->background_busy && !lq_rlog_has_pending(log);
}

lightq_status lq_rlog_sync_files(struct lq_rlog *log, struct lq_err *err)
{
    lightq_status status = LIGHTQ_OK;
    for (size_t i = 0; i < log->segment_count && status == LIGHTQ_OK; i++) {
        struct lq_segment *segment = log->segments[i];
        if (segment->dirty) {
            status = lq_segment_open(log, segment, false, err);
            status = status == LIGHTQ_OK ? lq_disk_sync(log->store->io, segment->file, err) : status;
        }
    }
    return status == LIGHTQ_OK ? lq_disk_sync_dir(log->store->io, log->dir, err) : status;
}

lightq_status lq_rlog_set_aside(struct lq_rlog *log, struct lq_err *err)
{
    lq_late_want(log); /* the same: then it waits for a flush */
    if (!lq_rlog_is_quiet(log)) {
        return lq_err_set(err, LIGHTQ_EBUSY, "%s: work of it is under way", log->dir);
    }
    if (log->health != LQ_RLOG_HEALTHY && log->health != LQ_RLOG_FAILED) {
        lq_rlog_destroy(log); /* which sets aside what is damaged */
        return LIGHTQ_OK;
    }
    lightq_status status = log->health == LQ_RLOG_HEALTHY ? lq_rlog_sync_files(log, err) : LIGHTQ_OK;
    if (status == LIGHTQ_OK) {
        status = lq_store_set_aside(log->store, log->dir, SOUND_MARK, err);
    }
    if (status == LIGHTQ_OK) {
        lq_log(INFO, "a sound log is set aside until its successor is as good", "group", log->group, "incarnation",
               log->incarnation, "last", log->last);
        log->health = LQ_RLOG_LOST; /* nothing of it is left to be removed */
        lq_rlog_destroy(log);
    }
    return status;
}

static void remove_files(struct lq_store *store, const char *dir)
{
    struct lq_names names;
    char path[LQ_PATH_BYTES];
    if (lq_disk_list(store->io, dir, &names, NULL) != LIGHTQ_OK) {
        return;
    }
    for (size_t i = 0; i < names.count; i++) {
        lq_path_join(path, dir, names.at[i].name);
        lq_disk_unlink_try(store->io, path);
    }
    lq_names_deinit(&names);
    if (store->io->ops->rmdir(store->io, dir, NULL) == LIGHTQ_OK) {
        lq_log(INFO, "a log that was set aside is removed: its successor is as good", "directory", dir);
    }
}

void lq_store_drop_aside(struct lq_store *store, uint64_t group)
{
    struct lq_names names;
    char removed[LQ_PATH_BYTES];
    char dir[LQ_PATH_BYTES];
    char prefix[LQ_PATH_BYTES];
    lq_path_join(removed, store->dir, REMOVED_DIR);
    if (lq_disk_list(store->io, removed, &names, NULL) != LIGHTQ_OK) {
        return; /* nothing was ever set aside */
    }
    (void)snprintf(prefix, sizeof prefix, "g%" PRIu64 "-", group);
    for (size_t i = 0; i < names.count; i++) {
        const char *name = names.at[i].name;
        if (names.at[i].is_dir && strncmp(name, prefix, strlen(prefix)) == 0 && strstr(name, SOUND_MARK ".") != NULL) {
            lq_path_join(dir, removed, name);
            remove_files(store, dir);
        }
    }
    lq_names_deinit(&names);
}
