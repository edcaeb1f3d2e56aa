/* node/options_memory.c - how much memory the process may have (memory.max), and which part of it may hold how much.
 * Called by options.c. Why these shares: docs/adr/0018-memory-max.md; for operators: docs/memory.md. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "node/options.h"

#define PATH_BYTES     4096
#define LINE_BYTES     4352
#define V1_FILE        "/sys/fs/cgroup/memory%s/memory.limit_in_bytes"
#define V2_FILE        "/sys/fs/cgroup%s/memory.max"
#define MESSAGES_LEAST 16 /* of the largest size, in one shard's memory.max */
#define REQUESTS_LEAST 4  /* of the largest size, in its share for requests */
#define CONTAINER_PART 3  /* of 4: what is taken of a container's limit; the rest is for page tables and sockets */
#define MACHINE_PART   2  /* of 4: and of the machine's memory */
#define LEAST_BYTES    (16u << 20)
#define REQUESTS_MOST  (512u << 20)
#define CACHE_MOST     (256u << 20)
#define PEER_PART      32 /* of memory.max: for each of the two other nodes that a partition has by default */

/* The number in the file; UINT64_MAX: there is none, or no limit. */
static uint64_t read_limit(const char *path)
{
    FILE *file = fopen(path, "re");
    uint64_t limit = UINT64_MAX;
    if (file != NULL) {
        if (fscanf(file, "%" SCNu64, &limit) != 1) {
            limit = UINT64_MAX;
        }
        (void)fclose(file);
    }
    return limit;
}

/* The lowest limit of the group at @path and of those it is in. Cuts @path. */
static uint64_t lowest_limit(const char *format, char *path)
{
    uint64_t lowest = UINT64_MAX;
    for (;;) {
        char name[PATH_BYTES + sizeof V1_FILE];
        (void)snprintf(name, sizeof name, format, strcmp(path, "/") == 0 ? "" : path);
        uint64_t limit = read_limit(name);
        lowest = limit < lowest ? limit : lowest;
        char *slash = strrchr(path, '/');
        if (slash == NULL) {
            return lowest;
        }
        *slash = '\0';
    }
}

/* What the control groups of this process allow; UINT64_MAX: there are none, or no limit. */
static uint64_t container_limit(void)
{
    char line[LINE_BYTES];
    uint64_t lowest = UINT64_MAX;
    FILE *file = fopen("/proc/self/cgroup", "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        char *path = strstr(line, ":/");
        const char *colon = strchr(line, ':');
        if (path == NULL || strlen(path + 1) >= PATH_BYTES) {
            continue;
        }
        bool is_v2 = strncmp(line, "0::", 3) == 0;
        if (is_v2 || strncmp(colon, ":memory:", strlen(":memory:")) == 0) {
            uint64_t limit = lowest_limit(is_v2 ? V2_FILE : V1_FILE, path + 1);
            lowest = limit < lowest ? limit : lowest;
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return lowest;
}

uint64_t lq_options_memory_default(uint64_t machine_bytes, uint64_t container_bytes)
{
    uint64_t of_machine = machine_bytes / 4 * MACHINE_PART, of_container = container_bytes / 4 * CONTAINER_PART;
    uint64_t bytes = of_container < of_machine ? of_container : of_machine;
    return bytes > LEAST_BYTES ? bytes : LEAST_BYTES;
}

static uint64_t at_most(uint64_t bytes, uint64_t most)
{
    return bytes < most ? bytes : most;
}

lightq_status lq_options_share_memory(struct lq_options *options, struct lq_err *err)
{
    uint64_t largest = options->max_message_bytes;
    if (options->memory_max == 0) {
        long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
        uint64_t machine = pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : LEAST_BYTES;
        options->memory_max = lq_options_memory_default(machine, container_limit());
    }
    uint64_t all = options->memory_max;
    if (all / options->shards < largest * MESSAGES_LEAST || all < LEAST_BYTES) {
        return lq_err_set(err, LIGHTQ_EINVAL,
                          "memory.max is %" PRIu64
                          ", and must be at least 16m, and %d times max.message.bytes for each "
                          "of the shards",
                          all, MESSAGES_LEAST);
    }
    if (options->cache_bytes == 0) {
        options->cache_bytes = at_most(all / 4, CACHE_MOST);
    } else if (options->cache_bytes > all / 2) {
        return lq_err_set(err, LIGHTQ_EINVAL, "cache.bytes must be at most half of memory.max, which is %" PRIu64, all);
    }
    uint64_t requests = at_most(all / 8, REQUESTS_MOST), least = REQUESTS_LEAST * largest * options->shards;
    options->memory = (struct lq_memory_shares){
        .requests = requests > least ? requests : least,
        .answers = at_most(all / 8, REQUESTS_MOST),
        .waiting = at_most(all / 16, REQUESTS_MOST / 2),
        .arriving = at_most(all / 16, REQUESTS_MOST / 8),
        .leases = all / 8,
        .peer = at_most(all / PEER_PART, LQ_PEER_QUEUE_BYTES_MAX),
    };
    return LIGHTQ_OK;
}

void lq_options_divide_memory(struct lq_options *shard)
{
    uint64_t shards = shard->shards;
    shard->memory_max /= shards;
    shard->cache_bytes /= shards;
    shard->memory.requests /= shards;
    shard->memory.answers /= shards;
    shard->memory.waiting /= shards;
    shard->memory.arriving /= shards;
    shard->memory.leases /= shards;
    shard->memory.peer /= shards;
}
