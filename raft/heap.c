/* raft/heap.c - see heap.h. Called by raft/host.c once, and by libraft for all its memory. Any thread. */
#include "raft/heap.h"

#include <pthread.h>
#include <raft.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/buf.h"

/* What the first 8 bytes of a head can say. Values that no text or small number has by chance. */
#define KIND_HEAP    UINT64_C(0x4c51524146544850)
#define KIND_FOREIGN UINT64_C(0x4c51524146544652)

struct token {
    uint64_t kind;
    uint64_t unused;
    uint8_t address[LQ_RAFT_HEAD_BYTES];
};
_Static_assert(offsetof(struct token, address) == LQ_RAFT_HEAD_BYTES, "the token has a head like every block");

static const struct token token = {.kind = KIND_FOREIGN};

static void *head_of(void *block)
{
    return (uint8_t *)block - LQ_RAFT_HEAD_BYTES;
}

static void *block_of(void *head)
{
    if (head == NULL) {
        return NULL;
    }
    lq_put_u64(head, KIND_HEAP);
    return (uint8_t *)head + LQ_RAFT_HEAD_BYTES;
}

static void *on_malloc(void *data, size_t size)
{
    (void)data;
    return size > SIZE_MAX - LQ_RAFT_HEAD_BYTES ? NULL : block_of(malloc(size + LQ_RAFT_HEAD_BYTES));
}

static void on_free(void *data, void *block)
{
    (void)data;
    if (block == NULL || lq_get_u64(head_of(block)) == KIND_FOREIGN) {
        return;
    }
    free(head_of(block));
}

static void *on_calloc(void *data, size_t count, size_t size)
{
    if (size != 0 && count > (SIZE_MAX - LQ_RAFT_HEAD_BYTES) / size) {
        return NULL;
    }
    void *block = on_malloc(data, count * size);
    if (block != NULL) {
        memset(block, 0, count * size);
    }
    return block;
}

static void *on_realloc(void *data, void *block, size_t size)
{
    if (block == NULL) {
        return on_malloc(data, size);
    }
    return size > SIZE_MAX - LQ_RAFT_HEAD_BYTES ? NULL : block_of(realloc(head_of(block), size + LQ_RAFT_HEAD_BYTES));
}

/* Only libraft's own disk code asks for aligned blocks, and we do not use it. */
static void *on_aligned_alloc(void *data, size_t alignment, size_t size)
{
    (void)data;
    (void)alignment;
    (void)size;
    return NULL;
}

static void on_aligned_free(void *data, size_t alignment, void *block)
{
    (void)alignment;
    on_free(data, block);
}

static const struct raft_heap heap = {
    .malloc = on_malloc,
    .free = on_free,
    .calloc = on_calloc,
    .realloc = on_realloc,
    .aligned_alloc = on_aligned_alloc,
    .aligned_free = on_aligned_free,
};

static void install(void)
{
    union {
        const struct raft_heap *constant;
        struct raft_heap *given; /* libraft takes it without const, and only reads it */
    } pointer = {.constant = &heap};
    raft_heap_set(pointer.given);
}

void lq_raft_heap_install(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT; /* see heap.h: the one process-wide thing */
    pthread_once(&once, install);
}

void *lq_raft_token(void)
{
    union {
        const uint8_t *constant;
        void *given;
    } pointer = {.constant = token.address};
    return pointer.given;
}

void lq_raft_heap_mark_foreign(void *at)
{
    lq_put_u64(at, KIND_FOREIGN);
    lq_put_u64((uint8_t *)at + sizeof(uint64_t), 0);
}
