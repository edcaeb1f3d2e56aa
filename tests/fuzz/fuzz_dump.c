/* tests/fuzz/fuzz_dump.c - any bytes as the files of a data directory, read by lq_dump: the decoders of segments,
 * indexes, checkpoints, journals and the identity, and their judges. Input: for each file a byte that says which, a
 * size u16, then its bytes. With the highest bit of the first byte set, magics, owners and crcs are made right first,
 * since a fuzzer can hardly guess them. Must never crash, read outside, ask for memory without bound, or change the
 * disk. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/crc.h"
#include "storage/dump.h"
#include "storage/format.h"
#include "storage/io_mem.h"
#include "storage/journal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FILES_MAX = 16, AHEAD = 64 };

static const char *const paths[] = {
    "journal/s0-00000000000000000001.journal", "journal/s0-00000000000000000002.journal",
    "g7-1/00000000000000000001.log",           "g7-1/00000000000000000001.idx",
    "g7-1/00000000000000000003.log",           "g7-1/00000000000000000003.ckpt",
    "g7-1/00000000000000000003.idx",           "node",
};
enum { PATHS = sizeof paths / sizeof paths[0] };

static void seal_head(uint8_t *bytes, size_t size, const char *magic)
{
    if (size < 64) {
        return;
    }
    memcpy(bytes, magic, 8);
    lq_put_u32(bytes + 8, 1);
    memset(bytes + 16, 0, 16); /* one cluster */
}

static void seal_owner(uint8_t *bytes, size_t size, uint64_t first)
{
    if (size >= 64) {
        lq_put_u64(bytes + 32, 7);
        lq_put_u32(bytes + 40, 1);
        lq_put_u64(bytes + 48, first);
    }
}

static void seal_crc(uint8_t *bytes, size_t size, size_t head)
{
    if (size >= head) {
        lq_put_u32(bytes + 12, lq_crc32c(lq_crc32c(0, bytes + 8, 4), bytes + 16, head - 16));
    }
}

static void seal_entries(uint8_t *bytes, size_t size, size_t at)
{
    while (at < size && size - at >= LQ_ENTRY_HEADER_BYTES) {
        uint32_t length = lq_get_u32(bytes + at + 4) % 512;
        length = length < LQ_ENTRY_HEADER_BYTES ? LQ_ENTRY_HEADER_BYTES : length;
        if (length > size - at) {
            return;
        }
        lq_put_u32(bytes + at + 4, length);
        lq_put_u64(bytes + at + 8, 7);
        lq_put_u32(bytes + at, lq_crc32c(0, bytes + at + 4, length - 4));
        at += (size_t)lq_entry_size(length - LQ_ENTRY_HEADER_BYTES);
    }
}

static void seal_frames(uint8_t *bytes, size_t size, uint64_t sequence)
{
    uint64_t salt = size >= 64 ? lq_get_u64(bytes + 40) : 0;
    size_t at = LQ_JOURNAL_HEADER_BYTES;
    for (bool is_first = true; at < size && size - at >= LQ_FRAME_HEADER_BYTES; is_first = false) {
        uint64_t frame = lq_get_u16(bytes + at + 8) % (size - at + 1) / 8 * 8;
        frame = frame < LQ_FRAME_HEADER_BYTES ? LQ_FRAME_HEADER_BYTES : frame;
        uint32_t records = (uint32_t)(lq_get_u16(bytes + at + 32) % (frame - LQ_FRAME_HEADER_BYTES + 1));
        lq_put_u32(bytes + at, LQ_FRAME_MAGIC);
        lq_put_u64(bytes + at + 8, frame);
        lq_put_u64(bytes + at + 16, sequence++);
        lq_put_u64(bytes + at + 24, salt);
        lq_put_u32(bytes + at + 32, records);
        lq_put_u32(bytes + at + 36, is_first ? LQ_JOURNAL_SNAPSHOT : LQ_JOURNAL_CHANGES);
        size_t head = LQ_FRAME_HEADER_BYTES + records;
        seal_entries(bytes, at + frame, at + head);
        lq_put_u32(bytes + at + 4, lq_crc32c(0, bytes + at + 8, head - 8));
        at += frame;
    }
}

static void seal(unsigned which, uint8_t *bytes, size_t size)
{
    if (which < 2) {
        seal_head(bytes, size, "LQJOURN1");
        if (size >= 64) {
            lq_put_u64(bytes + 32, which + 1);
            lq_put_u32(bytes + 48, 0);
        }
        seal_crc(bytes, size, LQ_JOURNAL_HEADER_BYTES);
        seal_frames(bytes, size, 1 + 3 * which);
    } else if (which == 2 || which == 4) {
        seal_head(bytes, size, "LQSEGMT1");
        seal_owner(bytes, size, which - 1);
        if (size >= 64) {
            lq_put_u64(bytes + 56, 1);
        }
        seal_crc(bytes, size, 64);
        seal_entries(bytes, size, 64);
    } else if (which == 5) {
        seal_head(bytes, size, "LQCKPT01");
        seal_owner(bytes, size, 3);
        if (size >= 128) {
            lq_put_u32(bytes + 44, lq_crc32c(0, bytes + 128, size - 128));
        }
        seal_crc(bytes, size, 128);
    } else if (which == 7) {
        if (size >= 77) {
            memcpy(bytes, "LQNODE\0\0\1\0", 10);
            lq_put_u32(bytes + 12, (uint32_t)size);
            lq_put_u32(bytes + size - 4, lq_crc32c(0, bytes, size - 4));
        }
    } else {
        seal_head(bytes, size, "LQINDEX1");
        seal_owner(bytes, size, which == 3 ? 1 : 3);
        seal_crc(bytes, size, size < 16 ? 16 : size);
    }
}

static void put_file(struct lq_io *io, unsigned which, const uint8_t *bytes, size_t size)
{
    lq_file file;
    struct iovec iov = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = size};
    if (io->ops->open(io, paths[which], LQ_OPEN_CREATE, &file, NULL) != LIGHTQ_OK) {
        return; /* named twice */
    }
    struct lq_io_op op = {.kind = LQ_IO_WRITE, .file = file, .iov = &iov, .iov_count = 1};
    lightq_status status = io->ops->run(io, &op, NULL);
    assert(status == LIGHTQ_OK);
    op = (struct lq_io_op){.kind = LQ_IO_ALLOCATE, .file = file, .offset = size, .size = AHEAD};
    if (which < 3) {
        status = io->ops->run(io, &op, NULL);
        assert(status == LIGHTQ_OK);
    }
    io->ops->close(io, file);
}

static void put_files(struct lq_io *io, const uint8_t *data, size_t size)
{
    for (unsigned i = 0; i < FILES_MAX && size >= 3; i++) {
        unsigned which = (data[0] & 0x7f) % PATHS;
        bool is_sealed = (data[0] & 0x80) != 0;
        size_t file_size = lq_get_u16(data + 1);
        file_size = file_size > size - 3 ? size - 3 : file_size;
        uint8_t *bytes = malloc(file_size + 1);
        assert(bytes != NULL);
        memcpy(bytes, data + 3, file_size);
        if (is_sealed) {
            seal(which, bytes, file_size);
        }
        put_file(io, which, bytes, file_size);
        free(bytes);
        data += 3 + file_size;
        size -= 3 + file_size;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lq_io_mem *mem = lq_io_mem_new();
    assert(mem != NULL);
    struct lq_io *io = lq_io_mem_io(mem);
    lightq_status status = io->ops->mkdir(io, "journal", NULL);
    assert(status == LIGHTQ_OK);
    status = io->ops->mkdir(io, "g7-1", NULL);
    assert(status == LIGHTQ_OK);
    put_files(io, data, size);
    uint64_t changes = lq_io_mem_changes(mem);
    for (int verify = 0; verify < 2; verify++) {
        char *text = NULL;
        size_t text_size = 0;
        FILE *out = open_memstream(&text, &text_size);
        assert(out != NULL);
        struct lq_dump_verdict verdict;
        struct lq_err err;
        status = lq_dump(io, verify != 0, out, &verdict, &err);
        assert(status == LIGHTQ_OK || verdict.damaged > 0);
        fclose(out);
        assert(text_size > 0);
        free(text);
    }
    assert(lq_io_mem_changes(mem) == changes && lq_io_mem_open_files(mem) == 0);
    lq_io_mem_free(mem);
    return 0;
}
