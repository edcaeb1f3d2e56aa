/* storage/io_mem_state.h - what io_mem.c and io_mem_ops.c share, private to them. io_mem_ops.c is the vtable: open
 * files and the ops on them; io_mem.c decides what becomes of each call (faults, crashes), runs jobs, and serves the
 * test. */
#ifndef LQ_STORAGE_IO_MEM_STATE_H
#define LQ_STORAGE_IO_MEM_STATE_H

#include "storage/io_mem.h"
#include "storage/io_mem_disk.h"

#define LQ_MEM_TRACE_PATH_BYTES 64

/* An lq_file is its slot and, above LQ_MEM_SLOT_BITS, the generation of the slot, so that a stale one is known as
 * stale. */
#define LQ_MEM_SLOT_BITS       16
#define LQ_MEM_GENERATION_MASK 0x7fff

struct lq_mem_handle {
    struct lq_mem_node *node; /* NULL: free */
    char *path;               /* owned */
    bool is_writable;
    uint16_t generation;
};

struct lq_mem_pending {
    struct lq_io_job *job;
    unsigned next; /* op */
    bool is_ended;
    lightq_status status;
};

struct lq_mem_fault {
    struct lq_io_mem_fault fault; /* its pattern is owned */
    uint64_t seen;
};

struct lq_mem_trace {
    uint64_t change;
    unsigned verb;
    lightq_status status;
    char path[LQ_MEM_TRACE_PATH_BYTES];
    uint64_t offset;
    uint64_t size;
};

struct lq_io_mem {
    struct lq_io io;
    struct lq_mem_tree *tree;
    uint64_t capacity_bytes;
    bool is_locked;

    struct lq_mem_handle *handles;
    size_t handle_count;

    struct lq_mem_pending *jobs; /* in order of submission */
    size_t job_count;
    size_t job_capacity;
    bool is_stalled;
    lq_io_mem_submitted_cb submitted;
    void *submitted_data;

    uint64_t changes;
    uint64_t crash_at; /* the change that is cut short; 0: none */
    bool is_crashed;
    bool is_kill; /* at crash_at the process dies: that change does not begin */

    struct lq_mem_fault faults[LQ_IO_MEM_FAULTS_MAX];
    size_t fault_count;
    uint64_t faults_hit;

    uint64_t counts[LQ_IO_MEM_VERBS];
    struct lq_mem_trace trace[LQ_IO_MEM_TRACE_MAX];
    uint64_t trace_count;
};

/* What is decided of a call before it is carried out. */
struct lq_mem_gate {
    bool cut_short; /* the power goes during it */
    bool fails;     /* by a fault; with status */
    bool partial;
    lightq_status status;
};

extern const struct lq_io_ops lq_mem_ops;

static inline struct lq_io_mem *lq_mem_of(struct lq_io *io)
{
    return (struct lq_io_mem *)io; /* io is its first member */
}

const char *lq_mem_verb_name(unsigned verb);

/* Counts the call and decides its fate. Not OK: it goes no further. */
lightq_status lq_mem_gate_pass(struct lq_io_mem *mem, unsigned verb, const char *path, struct lq_mem_gate *gate,
                               struct lq_err *err) LQ_MUST_CHECK;
/* The end of a call that was let through: @status is that of the change, or of its being remembered. */
lightq_status lq_mem_gate_leave(struct lq_io_mem *mem, const struct lq_mem_gate *gate, lightq_status status,
                                const char *path, struct lq_err *err) LQ_MUST_CHECK;
/* The error of every call once the power is gone. */
lightq_status lq_mem_crashed(struct lq_io_mem *mem, const char *path, struct lq_err *err) LQ_MUST_CHECK;
/* A line of the trace; its status is OK until the caller sets another. */
struct lq_mem_trace *lq_mem_trace_add(struct lq_io_mem *mem, unsigned verb, const char *path, uint64_t offset,
                                      uint64_t size);
lightq_status lq_mem_submit(struct lq_io *io, struct lq_io_job *job) LQ_MUST_CHECK;
void lq_mem_handles_close(struct lq_io_mem *mem);

#endif
