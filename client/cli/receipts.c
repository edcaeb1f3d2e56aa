/* client/cli/receipts.c - see receipts.h. */
#include "client/cli/receipts.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/base/limits.h"
#include "client/cli/input.h"

#define WORDS          8
#define WORD_BYTES_MAX 256 /* a topic's name is shorter */
#define LINE_BYTES_MAX 1024
#define FIRST_COUNT    1024u
#define DECIMAL        10
#define WAIT_MS        1000
#define CLUSTER_DIGITS 32

/* One line, cut into its words. */
struct line {
    char words[WORDS][WORD_BYTES_MAX];
};

static bool cut(const char *text, size_t size, struct line *line)
{
    size_t word = 0, at = 0;
    for (size_t i = 0; i < size; i++) {
        if (text[i] == ' ') {
            line->words[word][at] = '\0';
            if (at == 0 || ++word == WORDS) {
                return false;
            }
            at = 0;
        } else if (text[i] < '!' || text[i] > '~' || at + 1 == WORD_BYTES_MAX) {
            return false;
        } else {
            line->words[word][at++] = text[i];
        }
    }
    line->words[word][at] = '\0';
    return word == WORDS - 1 && at > 0;
}

static bool parse_number(const char *text, uint64_t most, uint64_t *number)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, DECIMAL);
    *number = value;
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0 && value <= most;
}

/* The place of @topic, which is added when it is new; the last one is looked at first. False: no memory. */
static bool find_topic(struct receipts *receipts, const char *topic, uint32_t *place)
{
    for (uint32_t i = receipts->topic_count; i-- > 0;) {
        if (strcmp(receipts->topics[i], topic) == 0) {
            *place = i;
            return true;
        }
    }
    if (receipts->topic_count == receipts->topic_capacity) {
        uint32_t capacity = receipts->topic_capacity == 0 ? 1 : receipts->topic_capacity * 2;
        char **grown = realloc(receipts->topics, capacity * sizeof *grown);
        if (grown == NULL) {
            return false;
        }
        receipts->topics = grown;
        receipts->topic_capacity = capacity;
    }
    *place = receipts->topic_count;
    receipts->topics[*place] = strdup(topic);
    receipts->topic_count += receipts->topics[*place] != NULL;
    return receipts->topics[*place] != NULL;
}

static bool grow(struct receipts *receipts)
{
    if (receipts->count < receipts->capacity) {
        return true;
    }
    size_t capacity = receipts->capacity == 0 ? FIRST_COUNT : receipts->capacity * 2;
    struct receipt *grown = realloc(receipts->items, capacity * sizeof *grown);
    if (grown == NULL) {
        return false;
    }
    receipts->items = grown;
    receipts->capacity = capacity;
    return true;
}

static bool parse(const struct line *line, struct receipt *receipt)
{
    uint64_t partition, offset = 0, term, crc;
    bool known = strcmp(line->words[3], "-") != 0;
    if (!parse_number(line->words[2], LQ_PARTITIONS_MAX - 1, &partition) ||
        (known && !parse_number(line->words[3], INT64_MAX, &offset)) ||
        !parse_number(line->words[4], UINT64_MAX, &receipt->producer) ||
        !parse_number(line->words[5], UINT64_MAX, &receipt->sequence) ||
        !parse_number(line->words[6], UINT64_MAX, &term) || !parse_number(line->words[7], UINT32_MAX, &crc)) {
        return false;
    }
    receipt->partition = (int32_t)partition;
    receipt->offset = known ? (int64_t)offset : LIGHTQ_OFFSET_UNKNOWN;
    receipt->batch_crc = (uint32_t)crc;
    return true;
}

static enum cli_exit add(struct receipts *receipts, const char *path, uint64_t number, const char *text, size_t size)
{
    struct line line;
    struct receipt receipt = {.line = number};
    if (!cut(text, size, &line) || !parse(&line, &receipt)) {
        return cli_fail_with(LIGHTQ_EINVAL, "%s:%" PRIu64 " is not a line of lightq produce --acked", path, number);
    }
    if (strlen(line.words[0]) != CLUSTER_DIGITS) {
        return cli_fail_with(LIGHTQ_EINVAL, "%s:%" PRIu64 ": '%.40s' is not a cluster's id", path, number,
                             line.words[0]);
    }
    if (receipts->cluster[0] != '\0' && strcmp(receipts->cluster, line.words[0]) != 0) {
        return cli_fail_with(LIGHTQ_EINVAL, "%s:%" PRIu64 " is of cluster %s, and those before of %s", path, number,
                             line.words[0], receipts->cluster);
    }
    memcpy(receipts->cluster, line.words[0], CLUSTER_DIGITS + 1);
    if (!grow(receipts) || !find_topic(receipts, line.words[1], &receipt.topic)) {
        return cli_fail_with(LIGHTQ_ENOMEM, "out of memory at %s:%" PRIu64, path, number);
    }
    receipts->items[receipts->count++] = receipt;
    return CLI_DONE;
}

enum cli_exit receipts_load(struct receipts *receipts, const char *path)
{
    struct input input;
    enum cli_exit result = CLI_DONE;
    *receipts = (struct receipts){.items = NULL};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return cli_fail_with(LIGHTQ_EIO, "cannot open %s: %s", path, strerror(errno));
    }
    input_init(&input, fd, LINE_BYTES_MAX);
    enum input_result got = INPUT_NOTHING;
    for (uint64_t number = 0; result == CLI_DONE && (got == INPUT_LINE || got == INPUT_NOTHING);) {
        const char *text;
        size_t size;
        got = input_line(&input, &text, &size, WAIT_MS);
        if (got == INPUT_LINE) {
            result = add(receipts, path, ++number, text, size);
        } else if (got == INPUT_TOO_LONG) {
            result = cli_fail_with(LIGHTQ_EINVAL, "%s:%" PRIu64 " is too long", path, number + 1);
        } else if (got == INPUT_FAILED) {
            result = cli_fail_with(LIGHTQ_EIO, "cannot read %s", path);
        }
    }
    input_deinit(&input);
    close(fd);
    return result;
}

void receipts_deinit(struct receipts *receipts)
{
    for (uint32_t i = 0; i < receipts->topic_count; i++) {
        free(receipts->topics[i]);
    }
    free(receipts->topics);
    free(receipts->items);
}

static int order(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

/* Unknown offsets are -1: as unsigned numbers they come last. */
static int compare(const void *first, const void *second)
{
    const struct receipt *a = first, *b = second;
    int result = order(a->topic, b->topic);
    result = result != 0 ? result : order((uint64_t)a->partition, (uint64_t)b->partition);
    result = result != 0 ? result : order((uint64_t)a->offset, (uint64_t)b->offset);
    result = result != 0 ? result : order(a->producer, b->producer);
    return result != 0 ? result : order(a->sequence, b->sequence);
}

void receipts_sort(struct receipts *receipts)
{
    if (receipts->count > 0) {
        qsort(receipts->items, receipts->count, sizeof *receipts->items, compare);
    }
}
