/* tests/fuzz/fuzz_reshard.c - a start on any bytes in the file "reshard", with a crc that fits or not. It is refused
 * with a reason, or carried out: then the file is gone, and every store of the new number opens or says why not. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/buf.h"
#include "client/base/crc.h"
#include "client/base/log.h"
#include "storage/io_mem.h"
#include "storage/reshard.h"

enum { FROM_AT = 32, TO_AT = 36, CRC_AT = 12, CRC_FROM = 16 };

static const char NAME[] = "reshard";

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

static void require(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "fuzz_reshard: %s\n", what);
        abort();
    }
}

static lightq_status on_note(void *owner, unsigned shards, struct lq_err *err)
{
    (void)err;
    *(unsigned *)owner = shards;
    return LIGHTQ_OK;
}

static void put_file(struct lq_io *io, uint8_t *bytes, size_t size)
{
    struct iovec iov = {.iov_base = bytes, .iov_len = size};
    struct lq_io_op write = {.kind = LQ_IO_WRITE, .size = size, .iov = &iov, .iov_count = 1};
    require(io->ops->open(io, NAME, LQ_OPEN_CREATE, &write.file, NULL) == LIGHTQ_OK, "create");
    require(io->ops->run(io, &write, NULL) == LIGHTQ_OK, "write");
    io->ops->close(io, write.file);
}

static void open_stores(struct lq_io *io, unsigned shards, const struct lq_id *cluster)
{
    for (unsigned i = 0; i < shards; i++) {
        char dir[LQ_SHARD_DIR_BYTES];
        struct lq_store *store = NULL;
        struct lq_err err = {.text = ""};
        lq_shard_dir(dir, i);
        const struct lq_store_options options = {
            .must_exist = true, .dir = dir, .cluster = *cluster, .shard = i, .shards = shards};
        if (lq_store_open(io, &clock_stub, &options, &store, &err) == LIGHTQ_OK) {
            lq_store_abandon(store);
        } else {
            require(err.text[0] != '\0', "a store is refused without a reason");
        }
    }
}

static bool is_number(uint32_t shards)
{
    return shards >= 1 && shards <= 16;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    lq_log_configure(LQ_LOG_OFF, 2);
    struct lq_io_mem *mem = lq_io_mem_new();
    uint8_t *bytes = malloc(size + 1);
    require(mem != NULL && bytes != NULL, "memory");
    struct lq_io *io = lq_io_mem_io(mem);
    struct lq_reshard_options options = {.from = 1, .to = 1};
    struct lq_err err = {.text = ""};
    unsigned noted = 0;
    memcpy(bytes, data, size);
    if (size > TO_AT + 4) { /* the fuzzer cannot make a crc, and need not guess the cluster */
        lq_put_u32(bytes + CRC_AT, lq_crc32c(lq_crc32c(0, bytes + 8, 4), bytes + CRC_FROM, size - CRC_FROM));
        memcpy(options.store.cluster.bytes, bytes + CRC_FROM, sizeof options.store.cluster.bytes);
        options.from = is_number(lq_get_u32(bytes + FROM_AT)) ? lq_get_u32(bytes + FROM_AT) : 1;
        options.to = is_number(lq_get_u32(bytes + TO_AT)) ? lq_get_u32(bytes + TO_AT) : 1;
    }
    put_file(io, bytes, size);
    if (lq_reshard_run(io, &clock_stub, &options, on_note, &noted, &err) == LIGHTQ_OK) {
        require(noted == options.to && !lq_io_mem_exists(mem, NAME), "done, and the file is still there");
        open_stores(io, noted, &options.store.cluster);
    } else {
        require(err.text[0] != '\0', "refused without a reason");
    }
    free(bytes);
    lq_io_mem_free(mem);
    return 0;
}
