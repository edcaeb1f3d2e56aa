/* storage/dump.c - walks a data directory, prints what dump_journal.c and dump_group.c find, and counts it up to a
 * verdict (storage/dump.h). Called by storage/dump_main.c and by tests; blocking, one thread. */
#include "storage/dump.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/crc.h"
#include "client/base/limits.h"
#include "storage/dump_private.h"
#include "storage/format.h"
#include "storage/reshard_plan.h"

#define NODE_NAME        "node"
#define NODE_BYTES_MAX   (64u * 1024)
#define JOURNAL_DIR      "journal"
#define REMOVED_DIR      "removed"
#define TEXT_BYTES       1024
#define SHARD_PREFIX     "shard-"
#define SHARD_DIGITS_MAX 20

/* ---- printing ---- */

/* Bytes that a terminal would obey are written as \xNN: names and texts come from the disk. */
static void print_safe(FILE *out, const char *text)
{
    for (; *text != '\0'; text++) {
        unsigned char byte = (unsigned char)*text;
        if (byte < 0x20 || byte == 0x7f) {
            fprintf(out, "\\x%02x", byte);
        } else {
            fputc(byte, out);
        }
    }
}

static const char *kind_word(enum lq_dump_kind kind)
{
    switch (kind) {
    case LQ_DUMP_OK:
        return "ok";
    case LQ_DUMP_STALE:
        return "stale";
    case LQ_DUMP_TORN:
        return "torn";
    case LQ_DUMP_DAMAGED:
        return "damaged";
    }
    return "?";
}

void lq_dump_begin(struct lq_dump *dump, struct lq_dump_file *file, const char *path)
{
    *file = (struct lq_dump_file){.kind = LQ_DUMP_OK};
    (void)snprintf(file->path, sizeof file->path, "%s", path);
    if (!dump->verify) {
        print_safe(dump->out, path);
        fputc('\n', dump->out);
    }
}

void lq_dump_detail(struct lq_dump *dump, const char *format, ...)
{
    if (dump->verify) {
        return;
    }
    char text[TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fputs("    ", dump->out);
    print_safe(dump->out, text);
    fputc('\n', dump->out);
}

void lq_dump_find(struct lq_dump_file *file, enum lq_dump_kind kind, uint64_t position, const char *format, ...)
{
    if (kind <= file->kind) {
        return;
    }
    file->kind = kind;
    file->position = position;
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(file->text, sizeof file->text, format, arguments);
    va_end(arguments);
}

void lq_dump_fail(struct lq_dump *dump, struct lq_dump_file *file, lightq_status status, const struct lq_err *err)
{
    lq_dump_find(file, LQ_DUMP_DAMAGED, LQ_DUMP_NOWHERE, "%s", err->text);
    if (dump->status == LIGHTQ_OK) {
        dump->status = lq_err_set(dump->err, status, "%s", err->text);
    }
}

void lq_dump_end(struct lq_dump *dump, struct lq_dump_file *file, const char *format, ...)
{
    dump->verdict->files++;
    dump->verdict->stale += file->kind == LQ_DUMP_STALE;
    dump->verdict->torn += file->kind == LQ_DUMP_TORN;
    dump->verdict->damaged += file->kind == LQ_DUMP_DAMAGED;
    char text[TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(dump->out, "%s%-8s", dump->verify ? "" : "    ", kind_word(file->kind));
    if (dump->verify) {
        print_safe(dump->out, file->path);
        fputs(": ", dump->out);
    }
    if (file->kind != LQ_DUMP_OK && file->position != LQ_DUMP_NOWHERE) {
        fprintf(dump->out, "byte %" PRIu64 ": ", file->position);
    }
    print_safe(dump->out, file->kind == LQ_DUMP_OK ? text : file->text);
    fputc('\n', dump->out);
}

bool lq_dump_check_cluster(struct lq_dump *dump, struct lq_dump_file *file, const struct lq_id *cluster)
{
    if (!dump->has_cluster) {
        dump->cluster = *cluster;
        dump->has_cluster = true;
    }
    if (lq_id_equal(cluster, &dump->cluster)) {
        return true;
    }
    char here[LQ_ID_TEXT_BYTES];
    char there[LQ_ID_TEXT_BYTES];
    lq_id_format(cluster, here);
    lq_id_format(&dump->cluster, there);
    lq_dump_find(file, LQ_DUMP_DAMAGED, 16, "of cluster %s, while the files before it are of %s", here, there);
    return false;
}

void lq_dump_entry(struct lq_dump *dump, const struct lq_entry *entry, uint64_t size, uint64_t position)
{
    static const char *const types[] = {
        [LQ_ENTRY_COMMAND] = "command", [LQ_ENTRY_BARRIER] = "barrier", [LQ_ENTRY_CHANGE] = "change"};
    dump->verdict->entries++;
    lq_dump_detail(dump,
                   "entry %" PRIu64 " term %" PRIu64 " %s offset %" PRIu64 " count %" PRIu32 " time %" PRIu64
                   " commit %" PRIu64 " bytes %" PRIu64 " at %" PRIu64 " crc ok",
                   entry->index, entry->term, types[entry->type], entry->base_offset, entry->message_count,
                   entry->timestamp_ms, entry->commit_index, size, position);
}

/* ---- who it belongs to ---- */

/* docs/format/node.md. Its writer is in node/, above this module: only what is needed here is read. */
enum {
    NODE_AT_VERSION = 8,
    NODE_AT_SIZE = 12,
    NODE_AT_NODE = 16,
    NODE_AT_SHARDS = 20,
    NODE_AT_STATE = 24,
    NODE_AT_STORED = 26,
    NODE_AT_META_INCARNATION = 28,
    NODE_AT_BOOT = 32,
    NODE_AT_UUID = 40,
    NODE_AT_CLUSTER = 56,
    NODE_BYTES_MIN = 77,
    NODE_VERSION = 1,
};

static const uint8_t node_magic[8] = {'L', 'Q', 'N', 'O', 'D', 'E', 0, 0};

static void print_node(struct lq_dump *dump, struct lq_dump_file *file, const uint8_t *bytes)
{
    struct lq_id uuid;
    struct lq_id cluster;
    char uuid_text[LQ_ID_TEXT_BYTES];
    char cluster_text[LQ_ID_TEXT_BYTES];
    memcpy(uuid.bytes, bytes + NODE_AT_UUID, sizeof uuid.bytes);
    memcpy(cluster.bytes, bytes + NODE_AT_CLUSTER, sizeof cluster.bytes);
    lq_id_format(&uuid, uuid_text);
    lq_id_format(&cluster, cluster_text);
    bool is_member = !lq_id_is_zero(&cluster);
    if (is_member) {
        (void)lq_dump_check_cluster(dump, file, &cluster);
    }
    dump->shards = bytes[NODE_AT_STORED] == 1 ? lq_get_u32(bytes + NODE_AT_SHARDS) : 0;
    lq_dump_detail(dump, "uuid %s, boot %" PRIu64 ", shards %" PRIu32 ", state %u, meta incarnation %" PRIu32,
                   uuid_text, lq_get_u64(bytes + NODE_AT_BOOT), lq_get_u32(bytes + NODE_AT_SHARDS),
                   bytes[NODE_AT_STATE], lq_get_u32(bytes + NODE_AT_META_INCARNATION));
    lq_dump_end(dump, file, "node %" PRIu32 " of %s%s", lq_get_u32(bytes + NODE_AT_NODE),
                is_member ? "cluster " : "no cluster yet", is_member ? cluster_text : "");
}

static void dump_node(struct lq_dump *dump)
{
    struct lq_dump_file file;
    struct lq_err err;
    uint8_t *bytes = NULL;
    size_t size = 0;
    lq_dump_begin(dump, &file, NODE_NAME);
    lightq_status status = lq_disk_read_file(dump->io, NODE_NAME, NODE_BYTES_MAX, &bytes, &size, &err);
    if (status != LIGHTQ_OK && status != LIGHTQ_ETOOBIG) {
        lq_dump_fail(dump, &file, status, &err);
        lq_dump_end(dump, &file, "%s", "");
        return;
    }
    bool is_sound = status == LIGHTQ_OK && size >= NODE_BYTES_MIN && memcmp(bytes, node_magic, sizeof node_magic) == 0;
    bool is_version = is_sound && lq_get_u16(bytes + NODE_AT_VERSION) == NODE_VERSION;
    if (!is_sound) {
        lq_dump_find(&file, LQ_DUMP_DAMAGED, 0, "not the identity of a node");
    } else if (!is_version) {
        status = lq_err_set(&err, LIGHTQ_EVERSION, "identity of format version %u, this program reads %d",
                            lq_get_u16(bytes + NODE_AT_VERSION), NODE_VERSION);
        lq_dump_fail(dump, &file, status, &err);
    } else if (lq_get_u32(bytes + NODE_AT_SIZE) != size ||
               lq_get_u32(bytes + size - 4) != lq_crc32c(0, bytes, size - 4)) {
        lq_dump_find(&file, LQ_DUMP_DAMAGED, size - 4, "the crc does not match");
    }
    if (file.kind == LQ_DUMP_OK) {
        print_node(dump, &file, bytes);
    } else {
        lq_dump_end(dump, &file, "%s", "");
    }
    free(bytes);
}

/* ---- the directory ---- */

static bool has_group(const struct lq_names *names)
{
    for (size_t i = 0; i < names->count; i++) {
        uint64_t group;
        uint32_t incarnation;
        if (names->at[i].is_dir && lq_name_group(names->at[i].name, &group, &incarnation)) {
            return true;
        }
    }
    return false;
}

static bool has_name(const struct lq_names *names, const char *wanted)
{
    for (size_t i = 0; i < names->count; i++) {
        if (strcmp(names->at[i].name, wanted) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_ours(const struct lq_names *names)
{
    return has_name(names, NODE_NAME) || has_name(names, JOURNAL_DIR) || has_group(names);
}

/* "shard-1" and on, which have a journal and groups of their own. */
static bool is_shard(const struct lq_name *name)
{
    char plain[sizeof SHARD_PREFIX + SHARD_DIGITS_MAX];
    if (!name->is_dir || strncmp(name->name, SHARD_PREFIX, sizeof SHARD_PREFIX - 1) != 0) {
        return false;
    }
    unsigned long number = strtoul(name->name + sizeof SHARD_PREFIX - 1, NULL, 10);
    (void)snprintf(plain, sizeof plain, SHARD_PREFIX "%lu", number % LQ_SHARDS_MAX);
    return number > 0 && number < LQ_SHARDS_MAX && strcmp(plain, name->name) == 0;
}

static void dump_journal_directory(struct lq_dump *dump)
{
    struct lq_names names;
    struct lq_err err;
    char path[LQ_PATH_BYTES];
    lq_path_join(path, dump->dir, JOURNAL_DIR);
    lightq_status status = lq_disk_list(dump->io, path, &names, &err);
    if (status != LIGHTQ_OK) {
        struct lq_dump_file file;
        lq_dump_begin(dump, &file, path);
        lq_dump_fail(dump, &file, status, &err);
        lq_dump_end(dump, &file, "unread");
        dump->has_bad_journal = true;
        return;
    }
    lq_dump_journals(dump, &names);
    lq_names_deinit(&names);
}

static void dump_no_journal(struct lq_dump *dump)
{
    struct lq_dump_file file;
    char path[LQ_PATH_BYTES];
    lq_path_join(path, dump->dir, JOURNAL_DIR);
    lq_dump_begin(dump, &file, path);
    lq_dump_find(&file, LQ_DUMP_DAMAGED, LQ_DUMP_NOWHERE,
                 "no journal file that can be used is here, but groups are: each of them may have forgotten a vote");
    lq_dump_end(dump, &file, "%s", "");
}

static void dump_other(struct lq_dump *dump, const struct lq_name *name)
{
    struct lq_dump_file file;
    char path[LQ_PATH_BYTES];
    lq_path_join(path, dump->dir, name->name);
    lq_dump_begin(dump, &file, path);
    if (lq_name_ends(name->name, ".tmp")) {
        lq_dump_find(&file, LQ_DUMP_STALE, LQ_DUMP_NOWHERE, "a write that was not finished");
    } else if (strcmp(name->name, REMOVED_DIR) == 0) {
        lq_dump_find(&file, LQ_DUMP_STALE, LQ_DUMP_NOWHERE, "set aside by the node, not read");
    } else {
        lq_dump_find(&file, LQ_DUMP_STALE, LQ_DUMP_NOWHERE, "not of LightQ, not read");
    }
    lq_dump_end(dump, &file, "%s", "");
}

/* What belongs to the node and not to one of its shards lies in the root. */
static bool is_of_the_node(const struct lq_dump *dump, const struct lq_name *name)
{
    return dump->dir[0] == '\0' &&
           (strcmp(name->name, NODE_NAME) == 0 || strcmp(name->name, "lock") == 0 || is_shard(name));
}

static void dump_names(struct lq_dump *dump, const struct lq_names *names)
{
    for (size_t i = 0; i < names->count; i++) {
        const struct lq_name *name = &names->at[i];
        uint64_t group;
        uint32_t incarnation;
        if (name->is_dir && lq_name_group(name->name, &group, &incarnation)) {
            char path[LQ_PATH_BYTES];
            lq_path_join(path, dump->dir, name->name);
            lq_dump_group_directory(dump, path, group, incarnation);
        } else if (!is_of_the_node(dump, name) && strcmp(name->name, JOURNAL_DIR) != 0) {
            dump_other(dump, name);
        }
    }
}

/* Groups that a journal knows to be here, and that are not: their directories were durable before it said so. */
static void dump_lost(struct lq_dump *dump)
{
    for (size_t i = 0; i < dump->group_count && !dump->has_bad_journal; i++) {
        const struct lq_dump_group *group = &dump->groups[i];
        if (!group->alive || group->has_directory) {
            continue;
        }
        char path[LQ_PATH_BYTES];
        struct lq_dump_file file;
        lq_path_group(path, dump->dir, group->group, group->incarnation);
        lq_dump_begin(dump, &file, path);
        lq_dump_find(&file, LQ_DUMP_DAMAGED, LQ_DUMP_NOWHERE,
                     "the directory is missing: the journal says that the group is here, with entries up to %" PRIu64,
                     group->watermark);
        lq_dump_end(dump, &file, "%s", "");
    }
}

static void free_groups(struct lq_dump *dump)
{
    for (size_t i = 0; i < dump->group_count; i++) {
        free(dump->groups[i].views);
    }
    free(dump->groups);
    dump->groups = NULL;
    dump->group_count = dump->group_capacity = 0;
}

/* The store of one shard, whose directory holds @names. */
static void dump_store(struct lq_dump *dump, const struct lq_names *names)
{
    dump->has_groups = has_group(names);
    dump->has_journal = dump->has_bad_journal = false;
    if (has_name(names, JOURNAL_DIR)) {
        dump_journal_directory(dump);
    }
    if (dump->has_groups && !dump->has_journal && !dump->has_bad_journal) {
        dump_no_journal(dump);
    }
    dump_names(dump, names);
    dump_lost(dump);
    free_groups(dump);
}

static void find_missing_shards(struct lq_dump *dump, const struct lq_names *names)
{
    dump->dir = "";
    for (unsigned i = 1; i < dump->shards && i < LQ_SHARDS_MAX; i++) {
        char dir[sizeof SHARD_PREFIX + SHARD_DIGITS_MAX];
        struct lq_dump_file file;
        (void)snprintf(dir, sizeof dir, SHARD_PREFIX "%u", i);
        if (!has_name(names, dir)) {
            lq_dump_begin(dump, &file, dir);
            lq_dump_find(&file, LQ_DUMP_DAMAGED, LQ_DUMP_NOWHERE,
                         "the directory of a shard is missing: each of its groups may have forgotten a vote");
            lq_dump_end(dump, &file, "%s", "");
        }
    }
}

static void dump_shard(struct lq_dump *dump, const char *dir)
{
    struct lq_names names;
    struct lq_err err;
    dump->dir = dir;
    lightq_status status = lq_disk_list(dump->io, dir, &names, &err);
    if (status != LIGHTQ_OK) {
        struct lq_dump_file file;
        lq_dump_begin(dump, &file, dir);
        lq_dump_fail(dump, &file, status, &err);
        lq_dump_end(dump, &file, "unread");
        return;
    }
    dump_store(dump, &names);
    lq_names_deinit(&names);
}

static void print_verdict(struct lq_dump *dump)
{
    const struct lq_dump_verdict *verdict = dump->verdict;
    if (!dump->verify) {
        return;
    }
    if (verdict->damaged > 0) {
        fputs("what to do: leave every file as it is. Rebuild the damaged replicas from the others (lightq node "
              "replace); "
              "if no majority of\na group's replicas is whole, keep copies of all of them: what one lacks another may "
              "have.\n",
              dump->out);
    }
    fprintf(dump->out,
            "%s: %" PRIu64 " files, %" PRIu64 " entries; %" PRIu64 " stale, %" PRIu64 " torn, %" PRIu64 " damaged\n",
            verdict->damaged > 0 ? "damaged" : "clean", verdict->files, verdict->entries, verdict->stale, verdict->torn,
            verdict->damaged);
}

/* The file "reshard": half-way between two numbers of shards journals and directories do not fit one another. */
static void dump_reshard(struct lq_dump *dump)
{
    struct lq_dump_file file;
    struct lq_reshard_plan plan;
    struct lq_err err;
    lq_dump_begin(dump, &file, LQ_RESHARD_NAME);
    lightq_status status = lq_reshard_plan_load(dump->io, dump->has_cluster ? &dump->cluster : NULL, &plan, &err);
    if (status == LIGHTQ_OK) {
        lq_dump_find(
            &file, LQ_DUMP_STALE, LQ_DUMP_NOWHERE,
            "the node goes from %u to %u shards, and ended on the way: the next start goes on with it; nothing "
            "else is judged before that",
            plan.from, plan.to);
        lq_reshard_plan_deinit(&plan);
    } else if (status == LIGHTQ_EDAMAGED || status == LIGHTQ_EVERSION || status == LIGHTQ_EIDENTITY) {
        lq_dump_find(&file, LQ_DUMP_DAMAGED, LQ_DUMP_NOWHERE, "%s", err.text);
    } else {
        lq_dump_fail(dump, &file, status, &err);
    }
    lq_dump_end(dump, &file, "%s", "");
}

static void dump_stores(struct lq_dump *dump, const struct lq_names *names)
{
    dump_store(dump, names);
    for (size_t i = 0; i < names->count; i++) {
        if (is_shard(&names->at[i])) {
            dump_shard(dump, names->at[i].name);
        }
    }
    find_missing_shards(dump, names);
}

lightq_status lq_dump(struct lq_io *io, bool verify, FILE *out, struct lq_dump_verdict *verdict, struct lq_err *err)
{
    *verdict = (struct lq_dump_verdict){0};
    struct lq_dump dump = {.io = io, .dir = "", .out = out, .verify = verify, .verdict = verdict, .err = err};
    struct lq_names names;
    lightq_status status = lq_disk_list(io, "", &names, err);
    if (status != LIGHTQ_OK) {
        return status;
    }
    if (!is_ours(&names)) {
        lq_names_deinit(&names);
        return lq_err_set(err, LIGHTQ_ENOTFOUND,
                          "not a LightQ data directory: it has no file \"node\", no \"journal\" and no group in it");
    }
    if (has_name(&names, NODE_NAME)) {
        dump_node(&dump);
    }
    if (has_name(&names, LQ_RESHARD_NAME)) {
        dump_reshard(&dump);
    } else {
        dump_stores(&dump, &names);
    }
    print_verdict(&dump);
    lq_names_deinit(&names);
    return dump.status;
}
