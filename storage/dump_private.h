/* storage/dump_private.h - what the files behind storage/dump.h share. dump.c walks the directory and prints,
 * dump_journal.c reads the journals, dump_taken.c keeps what they say of the groups, dump_group.c reads the groups'
 * logs. */
#ifndef LQ_STORAGE_DUMP_PRIVATE_H
#define LQ_STORAGE_DUMP_PRIVATE_H

#include "client/base/id.h"
#include "storage/disk.h"
#include "storage/dump.h"
#include "storage/format.h"
#include "storage/journal.h"

/* Each is worse than the one before. */
enum lq_dump_kind { LQ_DUMP_OK, LQ_DUMP_STALE, LQ_DUMP_TORN, LQ_DUMP_DAMAGED };

#define LQ_DUMP_NOWHERE UINT64_MAX /* a finding that is not at a byte */

/* What is found of one file: the first of the worst. */
struct lq_dump_file {
    char path[LQ_PATH_BYTES];
    enum lq_dump_kind kind;
    uint64_t position;
    char text[LQ_ERR_TEXT_BYTES];
};

/* An entry that a journal file holds: what a log that goes on with it needs to know. */
struct lq_dump_view {
    struct lq_entry entry; /* payload NULL */
    uint64_t size;         /* padded */
    uint64_t number;       /* of the file */
    uint32_t crc;
};

/* What the journals say of a group. */
struct lq_dump_group {
    uint64_t group;
    uint32_t incarnation; /* the newest */
    unsigned shard;       /* whose journal says it */
    bool alive;           /* not destroyed */
    bool seen;            /* in the snapshot being read */
    bool has_directory;
    uint64_t watermark;
    uint64_t trim;
    uint64_t cut; /* first index of a cut begun and not done; 0: none */
    uint64_t install_index;
    uint64_t install_number;    /* of an install begun and not done; 0: none */
    uint64_t newest;            /* number of the shard's newest journal file */
    struct lq_dump_view *views; /* ascending indexes */
    size_t view_count;
    size_t view_capacity;
};

struct lq_dump {
    struct lq_io *io;
    const char *dir; /* of the shard looked at, relative to the io's root: "" of shard 0 */
    FILE *out;
    bool verify;
    struct lq_dump_verdict *verdict;
    lightq_status status; /* of what could not be read: the first */
    struct lq_err *err;
    struct lq_id cluster; /* of the first sound file */
    unsigned shards;      /* that made their stores, by the identity; 0: not known */
    bool has_cluster;
    bool has_groups;              /* directories of some */
    bool has_journal;             /* at least one file that counts */
    bool has_bad_journal;         /* then what groups should hold is not known */
    struct lq_dump_group *groups; /* by number */
    size_t group_count;
    size_t group_capacity;
};

/* ---- dump.c ---- */

void lq_dump_begin(struct lq_dump *dump, struct lq_dump_file *file, const char *path);
/* A line of detail below the file's name; not with verify. */
void lq_dump_detail(struct lq_dump *dump, const char *format, ...) LQ_PRINTF(2, 3);
/* A finding; kept when it is worse than what is known. */
void lq_dump_find(struct lq_dump_file *file, enum lq_dump_kind kind, uint64_t position, const char *format, ...)
    LQ_PRINTF(4, 5);
/* Something could not be read or allocated: a finding, and the end's status. */
void lq_dump_fail(struct lq_dump *dump, struct lq_dump_file *file, lightq_status status, const struct lq_err *err);
/* The file's line: its finding, or, when there is none, the text given here. */
void lq_dump_end(struct lq_dump *dump, struct lq_dump_file *file, const char *format, ...) LQ_PRINTF(3, 4);
/* False, and a finding, when @cluster is not that of the files before. */
bool lq_dump_check_cluster(struct lq_dump *dump, struct lq_dump_file *file, const struct lq_id *cluster);
void lq_dump_entry(struct lq_dump *dump, const struct lq_entry *entry, uint64_t size, uint64_t position);

/* ---- dump_journal.c ---- */

/* The journals named in @names, which are those of the shard's directory "journal". */
void lq_dump_journals(struct lq_dump *dump, const struct lq_names *names);

/* ---- dump_taken.c ---- */

/* Takes a record of @shard's journal; @views: of an ENTRIES record, the @count of its entries that are sound. False:
 * out of memory. */
bool lq_dump_take(struct lq_dump *dump, unsigned shard, const struct lq_record *record,
                  const struct lq_dump_view *views, size_t count);
/* Around the records of a snapshot, which names every group of its shard that is alive. */
void lq_dump_snapshot_begin(struct lq_dump *dump);
void lq_dump_snapshot_end(struct lq_dump *dump, unsigned shard);
/* NULL when no journal knows it, or without memory with @make. */
struct lq_dump_group *lq_dump_group_find(struct lq_dump *dump, uint64_t group, bool make);
/* The entry @index as a journal has it, or NULL. */
const struct lq_dump_view *lq_dump_group_view(const struct lq_dump_group *group, uint64_t index);

/* ---- dump_group.c ---- */

/* The directory of a replica log. */
void lq_dump_group_directory(struct lq_dump *dump, const char *dir, uint64_t group, uint32_t incarnation);

#endif
