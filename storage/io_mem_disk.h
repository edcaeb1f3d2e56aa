/* storage/io_mem_disk.h - the parts of the in-memory disk, private to io_mem*.c: files made of shared pages, and the
 * tree of names. Both know two states: what reads show (live) and what a power cut surely leaves (durable), and the
 * changes that lie between. Nothing here knows of handles, jobs or faults. */
#ifndef LQ_STORAGE_IO_MEM_DISK_H
#define LQ_STORAGE_IO_MEM_DISK_H

#include <stdio.h>

#include "storage/io_mem.h"
#include "storage/io_path.h"

#define LQ_MEM_PAGE_BYTES   4096
#define LQ_MEM_SECTOR_BYTES 512
#define LQ_MEM_NEEDLE_MAX   64 /* bytes looked for on a disk, */
#define LQ_MEM_NEEDLE_STEP  8  /* at multiples of this, where records and entries begin and end */

/* The random stream of one crash (splitmix64). */
struct lq_mem_random {
    uint64_t state;
};
uint64_t lq_mem_random_below(struct lq_mem_random *random, uint64_t bound);

/* ---- io_mem_file.c: content ---- */

struct lq_mem_page; /* shared by count, copied before it is written */

/* Bytes beyond size are zero in their page; a NULL page is all zeros. */
struct lq_mem_content {
    struct lq_mem_page **pages;
    size_t page_capacity;
    uint64_t size;
};

enum lq_mem_change_kind { LQ_MEM_WRITE, LQ_MEM_TRUNCATE, LQ_MEM_EXTEND };

/* A change of a file since its last sync. */
struct lq_mem_change {
    enum lq_mem_change_kind kind;
    bool cut_short;  /* the power went during it: not in live */
    uint64_t offset; /* write: where; truncate and extend: the new size */
    size_t size;     /* of bytes */
    uint8_t *bytes;  /* owned */
};

struct lq_mem_file {
    struct lq_mem_content live;
    struct lq_mem_content durable;
    struct lq_mem_change *changes; /* in order */
    size_t change_count;
    size_t change_capacity;
    bool has_lost; /* a sync failed: live shows bytes that will never be durable */
};

void lq_mem_file_deinit(struct lq_mem_file *file);
/* All of it durable, equal to @from as reads show it, sharing its pages. OK | ENOMEM, then @file is empty. */
lightq_status lq_mem_file_copy(struct lq_mem_file *file, const struct lq_mem_file *from) LQ_MUST_CHECK;
/* Apply a change to live and remember it; with @cut_short remember it only. OK | ENOMEM. */
lightq_status lq_mem_file_write(struct lq_mem_file *file, uint64_t offset, const void *bytes, size_t size,
                                bool cut_short) LQ_MUST_CHECK;
/* To @size bytes; shorter ones are filled with zeros. */
lightq_status lq_mem_file_truncate(struct lq_mem_file *file, uint64_t size, bool cut_short) LQ_MUST_CHECK;
/* To at least @size bytes. */
lightq_status lq_mem_file_extend(struct lq_mem_file *file, uint64_t size, bool cut_short) LQ_MUST_CHECK;
/* Bytes read: short at the end. */
size_t lq_mem_file_read(const struct lq_mem_file *file, uint64_t offset, void *bytes, size_t size);
lightq_status lq_mem_file_sync(struct lq_mem_file *file) LQ_MUST_CHECK;
/* A sync that failed: what was not durable never will be. */
void lq_mem_file_sync_lost(struct lq_mem_file *file);
/* Whether those bytes stand somewhere in what is durable, from a multiple of LQ_MEM_NEEDLE_STEP on. */
bool lq_mem_file_durable_has(const struct lq_mem_file *file, const void *bytes, size_t size);
lightq_status lq_mem_file_crash(struct lq_mem_file *file, enum lq_io_mem_crash_mode mode,
                                struct lq_mem_random *random) LQ_MUST_CHECK;

/* ---- io_mem_tree.c: names ---- */

struct lq_mem_node;

struct lq_mem_entry {
    char *name; /* owned */
    struct lq_mem_node *node;
};

/* Sorted by name; each entry holds a reference to its node. */
struct lq_mem_entries {
    struct lq_mem_entry *at;
    size_t count;
    size_t capacity;
    bool is_live; /* then each entry is a link of its node too */
};

struct lq_mem_tree;

struct lq_mem_node {
    struct lq_mem_tree *tree; /* that counts its bytes */
    unsigned references;      /* entries, changes of names, handles */
    unsigned links;           /* live entries */
    unsigned handles;
    uint64_t charged_bytes; /* of tree->used_bytes */
    bool is_dir;
    struct lq_mem_file file;       /* a file's */
    struct lq_mem_entries live;    /* a directory's */
    struct lq_mem_entries durable; /* a directory's */
};

/* A change of names since the last sync of their directories. */
struct lq_mem_name_change;

struct lq_mem_tree {
    struct lq_mem_node *root;
    struct lq_mem_name_change **changes; /* in order */
    size_t change_count;
    size_t change_capacity;
    uint64_t used_bytes;
};

struct lq_mem_tree *lq_mem_tree_new(void);
/* All durable, equal to @from as reads show it; NULL when out of memory. */
struct lq_mem_tree *lq_mem_tree_copy(const struct lq_mem_tree *from);
void lq_mem_tree_free(struct lq_mem_tree *tree);

/* NULL when nothing is there. */
struct lq_mem_node *lq_mem_tree_find(struct lq_mem_tree *tree, const char *path);
void lq_mem_node_unref(struct lq_mem_node *node);
/* A handle keeps a node alive without a name. */
void lq_mem_node_open(struct lq_mem_node *node);
void lq_mem_node_close(struct lq_mem_node *node);
/* To be called after each change of a file's size. */
void lq_mem_node_charge(struct lq_mem_node *node);
/* What a file of @size_bytes takes of the disk. */
uint64_t lq_mem_node_cost(uint64_t size_bytes);

/* Like their system calls, and with the statuses of their errno values. @node (borrowed) may be NULL. */
lightq_status lq_mem_tree_create(struct lq_mem_tree *tree, const char *path, bool is_dir, bool cut_short,
                                 struct lq_mem_node **node, struct lq_err *err) LQ_MUST_CHECK;
lightq_status lq_mem_tree_unlink(struct lq_mem_tree *tree, const char *path, bool is_dir, bool cut_short,
                                 struct lq_err *err) LQ_MUST_CHECK;
lightq_status lq_mem_tree_rename(struct lq_mem_tree *tree, const char *from, const char *to, bool cut_short,
                                 struct lq_err *err) LQ_MUST_CHECK;
lightq_status lq_mem_tree_sync_dir(struct lq_mem_tree *tree, const char *path, struct lq_err *err) LQ_MUST_CHECK;
/* Makes all names durable. */
lightq_status lq_mem_tree_sync_all(struct lq_mem_tree *tree) LQ_MUST_CHECK;
/* Names and all files' content. */
lightq_status lq_mem_tree_crash(struct lq_mem_tree *tree, enum lq_io_mem_crash_mode mode,
                                struct lq_mem_random *random) LQ_MUST_CHECK;
/* The same, in any file whose name is durable. */
bool lq_mem_tree_durable_has(const struct lq_mem_tree *tree, const void *bytes, size_t size);
void lq_mem_tree_dump(const struct lq_mem_tree *tree, FILE *to);

#endif
