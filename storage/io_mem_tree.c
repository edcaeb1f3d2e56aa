/* storage/io_mem_tree.c - the names of the in-memory disk: directories as reads show them, as a power cut surely leaves
 * them, and the changes of names between. Called by io_mem.c, on one thread; calls io_mem_file.c for content. The model
 * is in storage/io_mem.h.
 *
 * A change of names becomes durable when the directories it touches have been synced since, and every earlier change of
 * the same names is durable. Under TEAR each change is kept by chance, but only when the earlier ones of the same names
 * are kept; the moving of a directory only when all earlier changes are (but those in directories that are gone). So no
 * name ever shows a state it never had, and no directory can come to lie in itself. */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "storage/io_mem_disk.h"

struct lq_mem_name_change {
    bool is_removal; /* of (dir, name); else @node gets the name (dir_to, name_to) */
    bool is_move;    /* (dir, name) goes away in the same moment */
    bool needs_all;  /* the moving of a directory */
    bool cut_short;  /* the power went during it: not in live */
    bool dir_synced, dir_to_synced;
    bool kept; /* while a crash is worked out */
    struct lq_mem_node *dir, *dir_to, *node;
    char name[LQ_IO_NAME_BYTES_MAX + 1];
    char name_to[LQ_IO_NAME_BYTES_MAX + 1];
};

/* ---- entries ---- */

/* Where @name is, or would be. */
static size_t entries_search(const struct lq_mem_entries *entries, const char *name, bool *found)
{
    size_t low = 0;
    size_t high = entries->count;
    *found = false;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(entries->at[middle].name, name);
        if (order == 0) {
            *found = true;
            return middle;
        }
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static struct lq_mem_node *entries_find(const struct lq_mem_entries *entries, const char *name)
{
    bool found;
    size_t i = entries_search(entries, name, &found);
    return found ? entries->at[i].node : NULL;
}

static void entry_release(struct lq_mem_entries *entries, struct lq_mem_node *node)
{
    if (entries->is_live) {
        node->links--;
        lq_mem_node_charge(node);
    }
    lq_mem_node_unref(node);
}

static void entries_remove(struct lq_mem_entries *entries, const char *name)
{
    bool found;
    size_t i = entries_search(entries, name, &found);
    if (!found) {
        return;
    }
    struct lq_mem_entry entry = entries->at[i];
    entries->count--;
    memmove(entries->at + i, entries->at + i + 1, (entries->count - i) * sizeof entry);
    free(entry.name);
    entry_release(entries, entry.node);
}

static void entries_clear(struct lq_mem_entries *entries)
{
    for (size_t i = 0; i < entries->count; i++) {
        free(entries->at[i].name);
        entry_release(entries, entries->at[i].node);
    }
    free(entries->at);
    *entries = (struct lq_mem_entries){.is_live = entries->is_live};
}

static lightq_status entries_put(struct lq_mem_entries *entries, const char *name, struct lq_mem_node *node)
{
    bool found;
    size_t i = entries_search(entries, name, &found);
    if (!found && entries->count == entries->capacity) {
        size_t capacity = entries->capacity == 0 ? 8 : entries->capacity * 2;
        struct lq_mem_entry *at = realloc(entries->at, capacity * sizeof *at);
        if (at == NULL) {
            return LIGHTQ_ENOMEM;
        }
        entries->at = at;
        entries->capacity = capacity;
    }
    struct lq_mem_node *old = NULL;
    if (found) {
        old = entries->at[i].node;
    } else {
        char *copy = strdup(name);
        if (copy == NULL) {
            return LIGHTQ_ENOMEM;
        }
        memmove(entries->at + i + 1, entries->at + i, (entries->count - i) * sizeof *entries->at);
        entries->count++;
        entries->at[i].name = copy;
    }
    node->references++;
    entries->at[i].node = node;
    if (entries->is_live) {
        node->links++;
        lq_mem_node_charge(node);
    }
    if (old != NULL) {
        entry_release(entries, old);
    }
    return LIGHTQ_OK;
}

/* ---- nodes ---- */

static struct lq_mem_node *node_new(struct lq_mem_tree *tree, bool is_dir)
{
    struct lq_mem_node *node = calloc(1, sizeof *node);
    if (node != NULL) {
        node->tree = tree;
        node->is_dir = is_dir;
        node->references = 1;
        node->live.is_live = true;
    }
    return node;
}

void lq_mem_node_unref(struct lq_mem_node *node)
{
    if (node == NULL || --node->references > 0) {
        return;
    }
    node->tree->used_bytes -= node->charged_bytes;
    entries_clear(&node->live);
    entries_clear(&node->durable);
    lq_mem_file_deinit(&node->file);
    free(node);
}

uint64_t lq_mem_node_cost(uint64_t size_bytes)
{
    return (size_bytes + LQ_MEM_PAGE_BYTES - 1) / LQ_MEM_PAGE_BYTES * LQ_MEM_PAGE_BYTES;
}

void lq_mem_node_charge(struct lq_mem_node *node)
{
    bool is_reachable = node->links > 0 || node->handles > 0;
    uint64_t bytes = is_reachable ? lq_mem_node_cost(node->file.live.size) : 0;
    node->tree->used_bytes += bytes - node->charged_bytes;
    node->charged_bytes = bytes;
}

void lq_mem_node_open(struct lq_mem_node *node)
{
    node->references++;
    node->handles++;
}

void lq_mem_node_close(struct lq_mem_node *node)
{
    node->handles--;
    lq_mem_node_charge(node);
    lq_mem_node_unref(node);
}

/* ---- paths ---- */

struct place {
    struct lq_mem_node *dir;
    const char *name; /* the last of the path */
};

static struct lq_mem_node *walk(struct lq_mem_node *from, const char *path, size_t size)
{
    struct lq_mem_node *node = from;
    for (size_t at = 0; at < size && node != NULL && node->is_dir;) {
        char name[LQ_IO_NAME_BYTES_MAX + 1];
        size_t name_size = strcspn(path + at, "/");
        memcpy(name, path + at, name_size);
        name[name_size] = '\0';
        node = entries_find(&node->live, name);
        at += name_size + 1;
        if (at < size && node != NULL && !node->is_dir) {
            return NULL;
        }
    }
    return node;
}

struct lq_mem_node *lq_mem_tree_find(struct lq_mem_tree *tree, const char *path)
{
    return walk(tree->root, path, strlen(path));
}

/* The directory of @path, which has at least one name. */
static lightq_status place_of(struct lq_mem_tree *tree, const char *path, struct place *place, struct lq_err *err)
{
    const char *slash = strrchr(path, '/');
    size_t dir_size = slash == NULL ? 0 : (size_t)(slash - path);
    place->name = slash == NULL ? path : slash + 1;
    place->dir = walk(tree->root, path, dir_size);
    if (place->dir == NULL) {
        return lq_err_from_errno(err, ENOENT, "directory of %s", path);
    }
    return place->dir->is_dir ? LIGHTQ_OK : lq_err_from_errno(err, ENOTDIR, "directory of %s", path);
}

/* ---- changes ---- */

static void change_free(struct lq_mem_name_change *change)
{
    lq_mem_node_unref(change->dir);
    lq_mem_node_unref(change->dir_to);
    lq_mem_node_unref(change->node);
    free(change);
}

static bool names_equal(const struct lq_mem_node *dir_a, const char *a, const struct lq_mem_node *dir_b, const char *b)
{
    return dir_a != NULL && dir_a == dir_b && strcmp(a, b) == 0;
}

static bool changes_meet(const struct lq_mem_name_change *a, const struct lq_mem_name_change *b)
{
    return names_equal(a->dir, a->name, b->dir, b->name) || names_equal(a->dir, a->name, b->dir_to, b->name_to) ||
           names_equal(a->dir_to, a->name_to, b->dir, b->name) ||
           names_equal(a->dir_to, a->name_to, b->dir_to, b->name_to);
}

/* In directories that are gone, as another change says: what becomes of it makes no difference any more, and nothing
 * can make it durable. */
static bool is_moot(const struct lq_mem_tree *tree, const struct lq_mem_name_change *change)
{
    const struct lq_mem_node *dirs[] = {change->dir, change->dir_to};
    for (size_t i = 0; i < 2; i++) {
        if (dirs[i] != NULL && (dirs[i] == tree->root || dirs[i]->links > 0)) {
            return false;
        }
    }
    return true;
}

/* Whether @change has to wait until the earlier change @before is durable. */
static bool must_follow(const struct lq_mem_tree *tree, const struct lq_mem_name_change *change,
                        const struct lq_mem_name_change *before)
{
    return changes_meet(before, change) || (change->needs_all && !is_moot(tree, before));
}

static lightq_status change_apply(const struct lq_mem_name_change *change, bool to_live)
{
    if (!change->is_removal) {
        struct lq_mem_node *dir = change->dir_to;
        lightq_status status = entries_put(to_live ? &dir->live : &dir->durable, change->name_to, change->node);
        if (status != LIGHTQ_OK) {
            return status;
        }
    }
    if (change->is_removal || change->is_move) {
        entries_remove(to_live ? &change->dir->live : &change->dir->durable, change->name);
    }
    return LIGHTQ_OK;
}

/* Remembers the change, and applies it to live unless it was cut short. @from or @to may be NULL. */
static lightq_status change_make(struct lq_mem_tree *tree, const struct place *from, const struct place *to,
                                 struct lq_mem_node *node, bool cut_short)
{
    if (tree->change_count == tree->change_capacity) {
        size_t capacity = tree->change_capacity == 0 ? 16 : tree->change_capacity * 2;
        struct lq_mem_name_change **changes = realloc(tree->changes, capacity * sizeof *changes);
        if (changes == NULL) {
            return LIGHTQ_ENOMEM;
        }
        tree->changes = changes;
        tree->change_capacity = capacity;
    }
    struct lq_mem_name_change *change = calloc(1, sizeof *change);
    if (change == NULL) {
        return LIGHTQ_ENOMEM;
    }
    change->is_removal = to == NULL;
    change->is_move = from != NULL && to != NULL;
    change->needs_all = change->is_move && node->is_dir;
    change->cut_short = cut_short;
    if (from != NULL) {
        change->dir = from->dir;
        change->dir->references++;
        memcpy(change->name, from->name, strlen(from->name) + 1);
    }
    if (to != NULL) {
        change->dir_to = to->dir;
        change->dir_to->references++;
        memcpy(change->name_to, to->name, strlen(to->name) + 1);
        change->node = node;
        node->references++;
    }
    lightq_status status = cut_short ? LIGHTQ_OK : change_apply(change, true);
    if (status != LIGHTQ_OK) {
        change_free(change);
        return status;
    }
    tree->changes[tree->change_count++] = change;
    return LIGHTQ_OK;
}

/* Applies to durable what is synced and waits for nothing earlier. */
static lightq_status changes_settle(struct lq_mem_tree *tree)
{
    size_t left = 0;
    lightq_status status = LIGHTQ_OK;
    for (size_t i = 0; i < tree->change_count; i++) {
        struct lq_mem_name_change *change = tree->changes[i];
        bool is_ready = status == LIGHTQ_OK && (change->dir == NULL || change->dir_synced) &&
                        (change->dir_to == NULL || change->dir_to_synced);
        for (size_t j = 0; j < left && is_ready; j++) {
            is_ready = !must_follow(tree, change, tree->changes[j]);
        }
        if (is_ready) {
            status = change_apply(change, false);
        }
        if (is_ready && status == LIGHTQ_OK) {
            change_free(change);
        } else {
            tree->changes[left++] = change;
        }
    }
    tree->change_count = left;
    return status;
}

static void changes_clear(struct lq_mem_tree *tree)
{
    for (size_t i = 0; i < tree->change_count; i++) {
        change_free(tree->changes[i]);
    }
    tree->change_count = 0;
}

/* ---- crash ---- */

static void changes_choose(struct lq_mem_tree *tree, enum lq_io_mem_crash_mode mode, struct lq_mem_random *random)
{
    uint64_t luck = mode == LQ_IO_MEM_TEAR ? lq_mem_random_below(random, 4) : 0;
    for (size_t i = 0; i < tree->change_count; i++) {
        struct lq_mem_name_change *change = tree->changes[i];
        bool is_lucky = luck == 0 || (luck > 1 && lq_mem_random_below(random, 2) == 0);
        change->kept = mode == LQ_IO_MEM_KEEP ? !change->cut_short : mode == LQ_IO_MEM_TEAR && is_lucky;
        for (size_t j = 0; j < i && change->kept; j++) {
            change->kept = tree->changes[j]->kept || !must_follow(tree, change, tree->changes[j]);
        }
    }
}

/* Live becomes what is durable, in @node and all below it. */
static lightq_status node_crash(struct lq_mem_node *node, enum lq_io_mem_crash_mode mode, struct lq_mem_random *random)
{
    if (!node->is_dir) {
        lightq_status status = lq_mem_file_crash(&node->file, mode, random);
        lq_mem_node_charge(node);
        return status;
    }
    entries_clear(&node->live);
    for (size_t i = 0; i < node->durable.count; i++) {
        struct lq_mem_entry *entry = &node->durable.at[i];
        lightq_status status = entries_put(&node->live, entry->name, entry->node);
        if (status == LIGHTQ_OK) {
            status = node_crash(entry->node, mode, random);
        }
        if (status != LIGHTQ_OK) {
            return status;
        }
    }
    return LIGHTQ_OK;
}

lightq_status lq_mem_tree_crash(struct lq_mem_tree *tree, enum lq_io_mem_crash_mode mode, struct lq_mem_random *random)
{
    changes_choose(tree, mode, random);
    for (size_t i = 0; i < tree->change_count; i++) {
        if (tree->changes[i]->kept) {
            lightq_status status = change_apply(tree->changes[i], false);
            if (status != LIGHTQ_OK) {
                return status;
            }
        }
    }
    changes_clear(tree);
    return node_crash(tree->root, mode, random);
}

/* ---- trees ---- */

struct lq_mem_tree *lq_mem_tree_new(void)
{
    struct lq_mem_tree *tree = calloc(1, sizeof *tree);
    if (tree == NULL) {
        return NULL;
    }
    tree->root = node_new(tree, true);
    if (tree->root == NULL) {
        free(tree);
        return NULL;
    }
    return tree;
}

void lq_mem_tree_free(struct lq_mem_tree *tree)
{
    if (tree == NULL) {
        return;
    }
    changes_clear(tree);
    free(tree->changes);
    lq_mem_node_unref(tree->root);
    free(tree);
}

static lightq_status dir_copy(struct lq_mem_node *dir, const struct lq_mem_node *from)
{
    lightq_status status = LIGHTQ_OK;
    for (size_t i = 0; status == LIGHTQ_OK && i < from->live.count; i++) {
        const struct lq_mem_entry *entry = &from->live.at[i];
        struct lq_mem_node *node = node_new(dir->tree, entry->node->is_dir);
        if (node == NULL) {
            return LIGHTQ_ENOMEM;
        }
        status = node->is_dir ? dir_copy(node, entry->node) : lq_mem_file_copy(&node->file, &entry->node->file);
        if (status == LIGHTQ_OK) {
            status = entries_put(&dir->durable, entry->name, node);
        }
        if (status == LIGHTQ_OK) {
            status = entries_put(&dir->live, entry->name, node);
        }
        lq_mem_node_unref(node);
    }
    return status;
}

struct lq_mem_tree *lq_mem_tree_copy(const struct lq_mem_tree *from)
{
    struct lq_mem_tree *tree = lq_mem_tree_new();
    if (tree != NULL && dir_copy(tree->root, from->root) != LIGHTQ_OK) {
        lq_mem_tree_free(tree);
        return NULL;
    }
    return tree;
}

lightq_status lq_mem_tree_create(struct lq_mem_tree *tree, const char *path, bool is_dir, bool cut_short,
                                 struct lq_mem_node **node, struct lq_err *err)
{
    struct place place;
    lightq_status status = place_of(tree, path, &place, err);
    if (status != LIGHTQ_OK) {
        return status;
    }
    if (entries_find(&place.dir->live, place.name) != NULL) {
        return lq_err_from_errno(err, EEXIST, "create %s", path);
    }
    struct lq_mem_node *made = node_new(tree, is_dir);
    status = made == NULL ? LIGHTQ_ENOMEM : change_make(tree, NULL, &place, made, cut_short);
    if (status != LIGHTQ_OK) {
        lq_mem_node_unref(made);
        return lq_err_set(err, status, "create %s: out of memory", path);
    }
    if (node != NULL) {
        *node = made;
    }
    lq_mem_node_unref(made); /* its entry, or its change, holds it */
    return LIGHTQ_OK;
}

lightq_status lq_mem_tree_unlink(struct lq_mem_tree *tree, const char *path, bool is_dir, bool cut_short,
                                 struct lq_err *err)
{
    struct place place;
    lightq_status status = place_of(tree, path, &place, err);
    if (status != LIGHTQ_OK) {
        return status;
    }
    struct lq_mem_node *node = entries_find(&place.dir->live, place.name);
    if (node == NULL) {
        return lq_err_from_errno(err, ENOENT, "remove %s", path);
    }
    if (node->is_dir != is_dir) {
        return lq_err_from_errno(err, is_dir ? ENOTDIR : EISDIR, "remove %s", path);
    }
    if (node->live.count > 0) {
        return lq_err_from_errno(err, ENOTEMPTY, "remove %s", path);
    }
    status = change_make(tree, &place, NULL, NULL, cut_short);
    return status == LIGHTQ_OK ? status : lq_err_set(err, status, "remove %s: out of memory", path);
}

/* 0, or the errno value of why @node cannot take the place of @old. */
static int rename_refusal(const struct lq_mem_node *node, const struct lq_mem_node *old)
{
    if (node == NULL) {
        return ENOENT;
    }
    if (old == NULL) {
        return 0;
    }
    if (node->is_dir != old->is_dir) {
        return node->is_dir ? ENOTDIR : EISDIR;
    }
    return old->live.count > 0 ? ENOTEMPTY : 0;
}

static bool is_below(const char *path, const char *dir)
{
    size_t size = strlen(dir);
    return strncmp(path, dir, size) == 0 && path[size] == '/';
}

lightq_status lq_mem_tree_rename(struct lq_mem_tree *tree, const char *from, const char *to, bool cut_short,
                                 struct lq_err *err)
{
    struct place place;
    struct place place_to;
    lightq_status status = place_of(tree, from, &place, err);
    if (status == LIGHTQ_OK) {
        status = place_of(tree, to, &place_to, err);
    }
    if (status != LIGHTQ_OK) {
        return status;
    }
    struct lq_mem_node *node = entries_find(&place.dir->live, place.name);
    struct lq_mem_node *old = entries_find(&place_to.dir->live, place_to.name);
    int errnum = is_below(to, from) ? EINVAL : rename_refusal(node, old);
    if (errnum != 0) {
        return lq_err_from_errno(err, errnum, "rename %s to %s", from, to);
    }
    if (node == old) {
        return LIGHTQ_OK;
    }
    status = change_make(tree, &place, &place_to, node, cut_short);
    return status == LIGHTQ_OK ? status : lq_err_set(err, status, "rename %s to %s: out of memory", from, to);
}

lightq_status lq_mem_tree_sync_dir(struct lq_mem_tree *tree, const char *path, struct lq_err *err)
{
    struct lq_mem_node *dir = lq_mem_tree_find(tree, path);
    if (dir == NULL || !dir->is_dir) {
        return lq_err_from_errno(err, dir == NULL ? ENOENT : ENOTDIR, "sync directory %s", path);
    }
    for (size_t i = 0; i < tree->change_count; i++) {
        struct lq_mem_name_change *change = tree->changes[i];
        change->dir_synced = change->dir_synced || change->dir == dir;
        change->dir_to_synced = change->dir_to_synced || change->dir_to == dir;
    }
    lightq_status status = changes_settle(tree);
    return status == LIGHTQ_OK ? status : lq_err_set(err, status, "sync directory %s: out of memory", path);
}

lightq_status lq_mem_tree_sync_all(struct lq_mem_tree *tree)
{
    for (size_t i = 0; i < tree->change_count; i++) {
        tree->changes[i]->dir_synced = true;
        tree->changes[i]->dir_to_synced = true;
    }
    return changes_settle(tree);
}

/* ---- dump ---- */

static void dump_file(const struct lq_mem_file *file, const char *path, FILE *to)
{
    fprintf(to, "file %s: %" PRIu64 " bytes, durable %" PRIu64 "%s\n", path, file->live.size, file->durable.size,
            file->has_lost ? ", a failed sync lost some" : "");
    for (size_t i = 0; i < file->change_count; i++) {
        const struct lq_mem_change *change = &file->changes[i];
        const char *kind = change->kind == LQ_MEM_WRITE      ? "write"
                           : change->kind == LQ_MEM_TRUNCATE ? "truncate"
                                                             : "extend";
        fprintf(to, "    not durable: %s at %" PRIu64 ", %zu bytes%s\n", kind, change->offset, change->size,
                change->cut_short ? ", cut short" : "");
    }
}

static void dump_dir(const struct lq_mem_node *dir, const char *path, FILE *to)
{
    for (size_t i = 0; i < dir->live.count; i++) {
        const struct lq_mem_entry *entry = &dir->live.at[i];
        char child[LQ_IO_PATH_BYTES_MAX + LQ_IO_NAME_BYTES_MAX + 2];
        snprintf(child, sizeof child, "%.*s%s%s", LQ_IO_PATH_BYTES_MAX, path, path[0] == '\0' ? "" : "/", entry->name);
        if (entry->node->is_dir) {
            fprintf(to, "dir  %s\n", child);
            dump_dir(entry->node, child, to);
        } else {
            dump_file(&entry->node->file, child, to);
        }
    }
}

static bool node_durable_has(const struct lq_mem_node *node, const void *bytes, size_t size)
{
    if (!node->is_dir) {
        return lq_mem_file_durable_has(&node->file, bytes, size);
    }
    for (size_t i = 0; i < node->durable.count; i++) {
        if (node_durable_has(node->durable.at[i].node, bytes, size)) {
            return true;
        }
    }
    return false;
}

bool lq_mem_tree_durable_has(const struct lq_mem_tree *tree, const void *bytes, size_t size)
{
    return node_durable_has(tree->root, bytes, size);
}

void lq_mem_tree_dump(const struct lq_mem_tree *tree, FILE *to)
{
    fprintf(to, "disk: %" PRIu64 " bytes used\n", tree->used_bytes);
    dump_dir(tree->root, "", to);
    for (size_t i = 0; i < tree->change_count; i++) {
        const struct lq_mem_name_change *change = tree->changes[i];
        fprintf(to, "name change not durable: %s %s %s%s\n",
                change->is_removal ? "remove"
                : change->is_move  ? "rename"
                                   : "create",
                change->name, change->name_to, change->cut_short ? ", cut short" : "");
    }
}
