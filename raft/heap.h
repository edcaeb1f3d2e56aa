/* raft/heap.h - the memory libraft uses, and the TOKEN that stands for a batch of entries.
 *
 * libraft frees the batch of entries it was given, on some paths and not on others (docs/architecture.md, "The Raft
 * host"). Our entries live in slabs that are counted elsewhere, so every entry is given the TOKEN as its batch: an
 * address that libraft's free, which is ours, knows and leaves alone. Every block has a small head that says what it
 * is, so that the same holds for an array that lies in mapped memory.
 *
 * libraft does not survive a failed allocation, so none of its small ones returns NULL: the process ends instead.
 *
 * The one process-wide thing of raft/: libraft keeps a single pointer to its allocator. It is set once, to a constant.
 */
#ifndef LQ_RAFT_HEAP_H
#define LQ_RAFT_HEAP_H

#include <stddef.h>
#include <stdint.h>

#define LQ_RAFT_HEAD_BYTES 16 /* in front of every block; keeps the alignment of malloc */

/* Gives libraft our allocator, once a process. Any thread, any number of times. */
void lq_raft_heap_install(void);

/* The batch of every entry. Never written, never freed. */
void *lq_raft_token(void);

/* Writes the head that makes raft_free leave @at + LQ_RAFT_HEAD_BYTES alone. */
void lq_raft_heap_mark_foreign(void *at);

#endif
