/* tests/fuzz/fuzz_store.c - a start on any bytes: one file of a small, sound store (journal, segment, .idx, .ckpt) is
 * replaced by the input, whole or at a place in it. Opening may refuse or judge damage; it may not crash, and what it
 * calls healthy can be read from its first entry to its last. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/buf.h"
#include "client/base/crc.h"
#include "client/base/log.h"
#include "storage/io_mem.h"
#include "storage/store.h"

enum { ENTRIES = 24, GROUP = 1, PAYLOAD = 70, FILES = 5 };

static const char *const FILE_NAMES[FILES] = {
    "journal/s0-00000000000000000001.journal", "g1-1/00000000000000000001.log", "g1-1/00000000000000000001.idx",
    "g1-1/00000000000000000007.ckpt",          "g1-1/00000000000000000019.log",
};

static uint64_t now_us(struct lq_clock *clock)
{
    (void)clock;
    return 1;
}

static void random_bytes(struct lq_clock *clock, void *out, size_t size)
{
    (void)clock;
    memset(out, 0x5a, size);
}

static struct lq_clock clock_stub = {.monotonic_us = now_us, .wall_ms = now_us, .random = random_bytes};
static const struct lq_store_options options = {
    .dir = "", .cluster = {.bytes = {1}}, .segment_bytes = 1024, .index_stride = 256, .cache_bytes = 1};

static void settle(struct lq_io_mem *mem, struct lq_store *store)
{
    do {
        lq_store_flush(store);
    } while (lq_io_mem_run_all(mem) > 0 || !lq_store_idle(store));
}

static void require(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "fuzz_store: %s\n", what);
        abort();
    }
}

static void fill(struct lq_rlog *log)
{
    for (uint64_t i = 1; i <= ENTRIES; i++) {
        struct lq_slab *slab = lq_slab_new(lq_entry_size(PAYLOAD));
        require(slab != NULL, "memory");
        memset(slab->bytes, 'x', slab->size);
        const struct lq_entry entry = {.group = GROUP,
                                       .index = i,
                                       .term = 1 + i / 10,
                                       .prev_term = i == 1 ? 0 : 1 + (i - 1) / 10,
                                       .base_offset = i,
                                       .type = i % 5 == 1 ? LQ_ENTRY_CHANGE : LQ_ENTRY_COMMAND,
                                       .message_count = 1,
                                       .payload_size = PAYLOAD};
        lq_entry_seal(slab->bytes, &entry);
        const struct lq_entry_ref ref = {.slab = slab, .size = (uint32_t)lq_entry_size(PAYLOAD)};
        require(lq_rlog_append(log, &ref, 1) == LIGHTQ_OK, "append");
        lq_slab_unref(slab);
    }
}

static struct lq_io_mem_image *build(struct lq_io_mem *mem)
{
    struct lq_store *store = NULL;
    struct lq_rlog *log = NULL;
    struct lq_err err = {.text = ""};
    require(lq_store_open(lq_io_mem_io(mem), &clock_stub, &options, &store, &err) == LIGHTQ_OK, err.text);
    require(lq_rlog_create(store, GROUP, 1, &log, &err) == LIGHTQ_OK, err.text);
    fill(log);
    (void)lq_rlog_set_vote(log, 5, 6);
    settle(mem, store);
    const struct lq_checkpoint checkpoint = {
        .last_index = 6, .last_term = 1, .next_offset = 7, .state = (const uint8_t *)"state", .state_size = 5};
    require(lq_rlog_checkpoint(log, &checkpoint) == LIGHTQ_OK, "checkpoint");
    settle(mem, store);
    lq_store_abandon(store);
    require(lq_io_mem_crash(mem, LQ_IO_MEM_KEEP, 0) == LIGHTQ_OK, "memory");
    for (int i = 0; i < FILES; i++) {
        require(lq_io_mem_exists(mem, FILE_NAMES[i]), FILE_NAMES[i]);
    }
    return lq_io_mem_copy(mem);
}

static void on_read(struct lq_rlog_read *read, lightq_status status)
{
    *(lightq_status *)read->data = status;
}

static void read_all(struct lq_io_mem *mem, struct lq_rlog *log)
{
    for (uint64_t i = lq_rlog_first(log); i <= lq_rlog_last(log); i++) {
        lightq_status status = LIGHTQ_EINTERNAL;
        struct lq_rlog_read read = {.index = i, .bytes_max = 1, .cb = on_read, .data = &status};
        if (lq_rlog_read(log, &read) == LIGHTQ_OK) {
            (void)lq_io_mem_run_all(mem);
            require(status == LIGHTQ_OK || status == LIGHTQ_ECORRUPT, "a read ends in neither way");
        }
    }
}

static void fix_u32(uint8_t *bytes, size_t size, size_t at, uint32_t value)
{
    if (at + 4 <= size) {
        lq_put_u32(bytes + at, value);
    }
}

/* The crc that three of the four headers have at 12, over 8 .. 12 and 16 .. @end. */
static void fix_head(uint8_t *bytes, size_t size, size_t end)
{
    if (size >= end && end > 16) {
        fix_u32(bytes, size, 12, lq_crc32c(lq_crc32c(0, bytes + 8, 4), bytes + 16, end - 16));
    }
}

/* Makes the crcs right, which the fuzzer cannot. */
static void fix_crcs(unsigned file, uint8_t *bytes, size_t size)
{
    if (file == 2) { /* .idx */
        fix_head(bytes, size, size);
    } else if (file == 3 && size >= 128) { /* .ckpt */
        fix_u32(bytes, size, 44, lq_crc32c(0, bytes + 128, size - 128));
        fix_head(bytes, size, 128);
    } else {
        fix_head(bytes, size, 64);
    }
    for (size_t at = 64; file == 0 && at + 40 <= size;) { /* frames */
        uint64_t frame = lq_get_u64(bytes + at + 8);
        uint64_t head = 40 + (uint64_t)lq_get_u32(bytes + at + 32);
        if (frame < head || frame > size - at) {
            break;
        }
        fix_u32(bytes, size, at + 4, lq_crc32c(0, bytes + at + 8, (size_t)head - 8));
        at += (size_t)frame;
    }
    for (size_t at = 64; (file == 1 || file == 4) && at + LQ_ENTRY_HEADER_BYTES <= size;) { /* entries */
        uint64_t length = lq_get_u32(bytes + at + 4);
        if (length < LQ_ENTRY_HEADER_BYTES || length > size - at) {
            break;
        }
        fix_u32(bytes, size, at, lq_crc32c(0, bytes + at + 4, (size_t)length - 4));
        at += (size_t)lq_entry_size(length - LQ_ENTRY_HEADER_BYTES);
    }
}

/* Replaces a whole file, or bytes inside it; with crcs that fit, or not. */
static void tamper(struct lq_io_mem *mem, const uint8_t *data, size_t size)
{
    const char *name = FILE_NAMES[data[0] % FILES];
    uint64_t offset = (uint64_t)(data[1] | data[2] << 8);
    bool whole = data[3] % 2 == 0;
    if (whole) {
        require(lq_io_mem_cut_file(mem, name, 0) == LIGHTQ_OK, "cut");
        offset = 0;
    }
    if (lq_io_mem_overwrite(mem, name, offset, data + 4, size - 4) != LIGHTQ_OK) {
        return; /* beyond its end */
    }
    uint8_t *bytes = NULL;
    size_t file_size = 0;
    require(lq_io_mem_read_file(mem, name, &bytes, &file_size) == LIGHTQ_OK, "read");
    if (data[3] % 4 >= 2) {
        fix_crcs(data[0] % FILES, bytes, file_size);
        require(lq_io_mem_overwrite(mem, name, 0, bytes, file_size) == LIGHTQ_OK, "write");
    }
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct lq_io_mem *mem;
    static struct lq_io_mem_image *image;
    struct lq_store *store = NULL;
    struct lq_err err = {.text = ""};
    if (mem == NULL) {
        lq_log_configure(LQ_LOG_OFF, 2);
        mem = lq_io_mem_new();
        require(mem != NULL, "memory");
        image = build(mem);
        require(image != NULL, "memory");
    }
    if (size < 5) {
        return 0;
    }
    require(lq_io_mem_restore(mem, image) == LIGHTQ_OK, "restore");
    tamper(mem, data, size);
    if (lq_store_open(lq_io_mem_io(mem), &clock_stub, &options, &store, &err) != LIGHTQ_OK) {
        require(err.text[0] != '\0', "refused without a reason");
        return 0;
    }
    for (size_t i = 0; i < lq_store_count(store); i++) {
        struct lq_rlog *log = lq_store_at(store, i);
        if (lq_rlog_health(log) == LQ_RLOG_HEALTHY) {
            read_all(mem, log);
        }
    }
    settle(mem, store);
    lq_store_abandon(store);
    return 0;
}
