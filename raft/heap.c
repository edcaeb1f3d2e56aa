/* raft/heap.c - see heap.h. Called by raft/host.c once, and by libraft for all its memory. Any thread. */
#include "raft/heap.h"

#include <pthread.h>
#include <raft.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/buf.h"
#include "client/base/log.h"

/* What the first 8 bytes of a head can say. Values that no text or small number has by chance. */
#define KIND_HEAP    UINT64_C(0x4c51524146544850)
#define KIND_FOREIGN UINT64_C(0x4c51524146544652)

enum { SMALL_BLOCK_BYTES = 64 * 1024 };

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

/* libraft does not survive a failed allocation: some of its paths free twice then (restore.c:28 after
 * configuration.c:400). Better a clean end, which a restart mends, than a damaged heap. Its own blocks are small;
 * larger ones are ours, and we can be told. */
static void *must_have(void *head, size_t size)
{
    if (head == NULL && size <= SMALL_BLOCK_BYTES) {
        lq_log(ERROR, "no memory for libraft: the process ends", "bytes", size);
        abort();
    }
    return block_of(head);
}

static void *on_malloc(void *data, size_t size)
{
    (void)data;
    if (size > SIZE_MAX - LQ_RAFT_HEAD_BYTES) {
        return NULL;
    }
    void *head = malloc(size + LQ_RAFT_HEAD_BYTES);
    if (head == NULL && size <= SMALL_BLOCK_BYTES) {
        head = malloc(size + LQ_RAFT_HEAD_BYTES); /* another thread may have given some back */
    }
    return must_have(head, size);
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
    if (size > SIZE_MAX - LQ_RAFT_HEAD_BYTES) {
        return NULL;
    }
    void *head = realloc(head_of(block), size + LQ_RAFT_HEAD_BYTES);
    if (head == NULL && size <= SMALL_BLOCK_BYTES) {
        head = realloc(head_of(block), size + LQ_RAFT_HEAD_BYTES);
    }
    return must_have(head, size);
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
