/* chaos/check/receipts.c - reads the files of lightq produce --acked and lightq consume --log. See receipts.h.
 *
 * A producer's sequences count in each partition for itself, so its name in the history is PRODUCER@TOPIC/PARTITION.
 * Neighbouring lines mostly have the same topic, partition and producer: their ids are kept from line to line. */
#include "chaos/check/receipts.h"

#include <string.h>

#include "chaos/check/lines.h"
#include "client/base/limits.h"

enum { ACKED_WORDS = 8, LOG_WORDS = 7, PRODUCER_BYTES_MAX = LQ_WORD_BYTES_MAX };

/* The ids of the words of the line before. */
struct last {
    char topic[LQ_WORD_BYTES_MAX + 1], partition[LQ_WORD_BYTES_MAX + 1], producer[PRODUCER_BYTES_MAX + 1];
    uint32_t log_id, producer_id;
    bool known;
};

struct receipt {
    uint32_t log, producer;
    uint64_t offset, sequence;
};

void lq_receipts_deinit(struct lq_receipts *receipts)
{
    lq_check_names_deinit(&receipts->clusters);
}

static bool same(const char *last, struct lq_word word)
{
    return word.size <= LQ_WORD_BYTES_MAX && memcmp(last, word.at, word.size) == 0 && last[word.size] == '\0';
}

static void keep(char *last, struct lq_word word)
{
    memcpy(last, word.at, word.size);
    last[word.size] = '\0';
}

/* The ids of @topic, @partition, @producer, from the line before when they are the same. */
static lightq_status find_ids(struct lq_history *history, struct last *last, const struct lq_word *topic,
                              const struct lq_word *producer, struct receipt *receipt, struct lq_err *err)
{
    struct lq_word partition = topic[1];
    if (last->known && same(last->producer, *producer) && same(last->partition, partition) &&
        same(last->topic, *topic)) {
        receipt->log = last->log_id;
        receipt->producer = last->producer_id;
        return LIGHTQ_OK;
    }
    if (producer->size + topic->size + partition.size + 2 > LQ_WORD_BYTES_MAX) {
        return lq_err_set(err, LIGHTQ_EINVAL, "topic, partition and producer are longer than %d characters",
                          LQ_WORD_BYTES_MAX - 2);
    }
    char text[LQ_WORD_BYTES_MAX + 1];
    int size = snprintf(text, sizeof text, "%.*s@%.*s/%.*s", (int)producer->size, producer->at, (int)topic->size,
                        topic->at, (int)partition.size, partition.at);
    struct lq_word scoped = {.at = text, .size = (size_t)size};
    struct lq_word log = {.at = text + producer->size + 1, .size = (size_t)size - producer->size - 1};
    lightq_status status = lq_history_log_word(history, log, &last->log_id, err);
    if (status == LIGHTQ_OK) {
        status = lq_history_producer(history, scoped, &last->producer_id, err);
    }
    last->known = status == LIGHTQ_OK;
    if (last->known) {
        keep(last->topic, *topic);
        keep(last->partition, partition);
        keep(last->producer, *producer);
        receipt->log = last->log_id;
        receipt->producer = last->producer_id;
    }
    return status;
}

static lightq_status next_words(struct lq_lines *lines, size_t count, struct lq_word *words, struct lq_err *err)
{
    struct lq_word line;
    lightq_status status = lq_lines_next(lines, &line, err);
    if (status != LIGHTQ_OK) {
        return status;
    }
    size_t found = lq_line_words(line, words);
    if (found != count) {
        return lq_lines_error(lines, LIGHTQ_EINVAL, err, "not %zu words with one space between them", count);
    }
    return LIGHTQ_OK;
}

/* What both kinds of lines have: topic, partition and offset from @topic on, producer and sequence from @producer on.
 */
static lightq_status parse(struct lq_history *history, struct last *last, const struct lq_word *topic,
                           const struct lq_word *producer, struct receipt *receipt, struct lq_err *err)
{
    receipt->offset = LQ_HISTORY_UNKNOWN;
    if (!lq_word_is(topic[2], "-") && !lq_word_number(topic[2], LQ_HISTORY_NUMBER_MAX, &receipt->offset)) {
        return lq_err_set(err, LIGHTQ_EINVAL, "\"%.*s\" is not an offset", (int)topic[2].size, topic[2].at);
    }
    if (!lq_word_number(producer[1], LQ_HISTORY_NUMBER_MAX, &receipt->sequence)) {
        return lq_err_set(err, LIGHTQ_EINVAL, "\"%.*s\" is not a sequence", (int)producer[1].size, producer[1].at);
    }
    return find_ids(history, last, topic, producer, receipt, err);
}

/* All receipts of one cluster: the same topic of two clusters would be mixed up. */
static lightq_status check_cluster(struct lq_receipts *receipts, struct lq_word cluster, struct lq_err *err)
{
    uint32_t id;
    lightq_status status = lq_check_names_put(&receipts->clusters, cluster, &id);
    if (status != LIGHTQ_OK) {
        return lq_err_set(err, status, "cluster: %s", lightq_status_text(status));
    }
    if (id != 0) {
        return lq_err_set(err, LIGHTQ_EINVAL, "a receipt of cluster %.*s among those of cluster %s", (int)cluster.size,
                          cluster.at, lq_check_names_at(&receipts->clusters, 0));
    }
    return LIGHTQ_OK;
}

static lightq_status add_acked(struct lq_receipts *receipts, struct lq_history *history, struct last *last,
                               const struct lq_word *words, struct lq_err *err)
{
    struct receipt receipt;
    uint64_t term;
    lightq_status status = check_cluster(receipts, words[0], err);
    if (status == LIGHTQ_OK && !lq_word_number(words[6], LQ_HISTORY_NUMBER_MAX, &term)) {
        return lq_err_set(err, LIGHTQ_EINVAL, "\"%.*s\" is not a term", (int)words[6].size, words[6].at);
    }
    if (status == LIGHTQ_OK) {
        status = parse(history, last, &words[1], &words[4], &receipt, err);
    }
    if (status != LIGHTQ_OK) {
        return status;
    }
    return lq_history_receipt(history, receipt.producer, receipt.sequence, receipt.log, receipt.offset, term, err);
}

static lightq_status add_logged(struct lq_history *history, struct last *last, uint32_t reader,
                                const struct lq_word *words, struct lq_err *err)
{
    struct receipt receipt;
    uint64_t crc, deliveries;
    if (!lq_word_number(words[5], UINT32_MAX, &crc) && !lq_word_hex(words[5], 8, &crc)) {
        return lq_err_set(err, LIGHTQ_EINVAL, "\"%.*s\" is not a crc", (int)words[5].size, words[5].at);
    }
    if (!lq_word_number(words[6], LQ_HISTORY_NUMBER_MAX, &deliveries)) {
        return lq_err_set(err, LIGHTQ_EINVAL, "\"%.*s\" is not a count of deliveries", (int)words[6].size, words[6].at);
    }
    lightq_status status = parse(history, last, &words[0], &words[3], &receipt, err);
    if (status == LIGHTQ_OK && receipt.offset == LQ_HISTORY_UNKNOWN) {
        return lq_err_set(err, LIGHTQ_EINVAL, "a message was read without an offset");
    }
    if (status != LIGHTQ_OK) {
        return status;
    }
    return lq_history_read(history, 0, reader, receipt.log, receipt.offset, receipt.producer, receipt.sequence,
                           (uint32_t)crc, err);
}

lightq_status lq_receipts_load_acked(struct lq_receipts *receipts, struct lq_history *history, FILE *file,
                                     const char *path, struct lq_err *err)
{
    struct lq_lines lines;
    struct lq_word words[LQ_LINE_WORDS_MAX];
    struct last last = {.known = false};
    lightq_status status = lq_lines_init(&lines, file, path, err);
    while (status == LIGHTQ_OK) {
        struct lq_err why;
        status = next_words(&lines, ACKED_WORDS, words, err);
        if (status == LIGHTQ_OK) {
            status = add_acked(receipts, history, &last, words, &why);
            if (status != LIGHTQ_OK) {
                status = lq_lines_error(&lines, status, err, "%s", why.text);
                break;
            }
        }
    }
    lq_lines_deinit(&lines);
    return status == LIGHTQ_ENOTFOUND ? LIGHTQ_OK : status;
}

static lightq_status add_reader(struct lq_history *history, enum lq_reader_kind kind, uint32_t *reader,
                                struct lq_err *err)
{
    char name[32];
    uint32_t group = LQ_HISTORY_NONE;
    lightq_status status = LIGHTQ_OK;
    snprintf(name, sizeof name, "log-%u", history->readers.count + 1);
    if (kind == LQ_READER_PIPELINE) {
        status = lq_history_group(history, lq_word_of(name), &group, err);
    }
    if (status == LIGHTQ_OK) {
        status = lq_history_reader(history, lq_word_of(name), kind, group, reader, err);
    }
    return status;
}

lightq_status lq_receipts_load_log(struct lq_history *history, enum lq_reader_kind kind, FILE *file, const char *path,
                                   struct lq_err *err)
{
    struct lq_lines lines;
    struct lq_word words[LQ_LINE_WORDS_MAX];
    struct last last = {.known = false};
    uint32_t reader;
    lightq_status status = add_reader(history, kind, &reader, err);
    if (status != LIGHTQ_OK) {
        return status;
    }
    status = lq_lines_init(&lines, file, path, err);
    while (status == LIGHTQ_OK) {
        struct lq_err why;
        status = next_words(&lines, LOG_WORDS, words, err);
        if (status == LIGHTQ_OK) {
            status = add_logged(history, &last, reader, words, &why);
            if (status != LIGHTQ_OK) {
                status = lq_lines_error(&lines, status, err, "%s", why.text);
                break;
            }
        }
    }
    lq_lines_deinit(&lines);
    return status == LIGHTQ_ENOTFOUND ? LIGHTQ_OK : status;
}
