/* chaos/check/history.c - keeps the events of a history. See history.h. */
#include "chaos/check/history.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/limits.h"

struct message_key {
    uint64_t sequence;
    uint32_t producer;
};

static lightq_status full(struct lq_err *err, lightq_status status)
{
    return lq_err_set(err, status, "%s", lightq_status_text(status));
}

static lightq_status check_number(uint64_t value, const char *what, struct lq_err *err)
{
    if (value > LQ_HISTORY_NUMBER_MAX) {
        return lq_err_set(err, LIGHTQ_EINVAL, "the %s %llu is too large", what, (unsigned long long)value);
    }
    return LIGHTQ_OK;
}

static lightq_status check_place(uint64_t time_us, uint64_t offset, struct lq_err *err)
{
    lightq_status status = check_number(time_us, "time", err);
    return status == LIGHTQ_OK ? check_number(offset, "offset", err) : status;
}

/* Room for one more element of the array @member whose count is @counter. */
#define RESERVE(history, member, capacity_of, counter, err) \
    reserve((void **)&(history)->member, &(history)->capacity_of, counter, sizeof *(history)->member, err)

static lightq_status reserve(void **array, uint32_t *capacity, uint32_t count, size_t size, struct lq_err *err)
{
    lightq_status status = lq_array_reserve(array, capacity, count, size);
    return status == LIGHTQ_OK ? status : full(err, status);
}

void lq_history_init(struct lq_history *history)
{
    *history = (struct lq_history){.quiet_us = LQ_HISTORY_UNKNOWN};
}

void lq_history_deinit(struct lq_history *history)
{
    struct lq_check_names *names[] = {&history->logs,   &history->producers, &history->readers,    &history->nodes,
                                      &history->groups, &history->faults,    &history->fault_kinds};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        lq_check_names_deinit(names[i]);
    }
    lq_pairs_deinit(&history->tracks);
    lq_pairs_deinit(&history->views);
    lq_check_index_deinit(&history->messages_by_id);
    void *arrays[] = {history->messages,     history->reads,       history->settles, history->trims,
                      history->ends,         history->leaderships, history->digests, history->fault_times,
                      history->reader_kinds, history->moved,       history->drained};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) {
        free(arrays[i]);
    }
    lq_history_init(history);
}

/* ---- names */

struct lq_word lq_word_of(const char *text)
{
    return (struct lq_word){.at = text, .size = strlen(text)};
}

static lightq_status put_name(struct lq_check_names *names, struct lq_word name, const char *what, uint32_t *id,
                              struct lq_err *err)
{
    lightq_status status = lq_check_names_put(names, name, id);
    if (status == LIGHTQ_EINVAL) {
        return lq_err_set(err, status, "the name of a %s must be 1 to %d printable characters", what,
                          LQ_WORD_BYTES_MAX);
    }
    return status == LIGHTQ_OK ? status : full(err, status);
}

lightq_status lq_history_log(struct lq_history *history, const char *topic, uint32_t partition, uint32_t *log,
                             struct lq_err *err)
{
    char word[LQ_WORD_BYTES_MAX + 1];
    int size = snprintf(word, sizeof word, "%s/%u", topic, partition);
    if (size < 0 || (size_t)size >= sizeof word) {
        return lq_err_set(err, LIGHTQ_EINVAL, "the name of a topic must be 1 to %d characters", LQ_NAME_BYTES_MAX);
    }
    return lq_history_log_word(history, (struct lq_word){.at = word, .size = (size_t)size}, log, err);
}

/* Whether @word is a topic's name, a slash and a partition's number without leading zeros. */
static bool is_log(struct lq_word word)
{
    const char *slash = memchr(word.at, '/', word.size);
    if (slash == NULL || slash == word.at || slash - word.at > LQ_NAME_BYTES_MAX) {
        return false;
    }
    for (const char *at = word.at; at < slash; at++) {
        bool letter = (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') || (*at >= '0' && *at <= '9');
        if (!letter && *at != '.' && *at != '_' && *at != '-') {
            return false;
        }
    }
    const char *end = word.at + word.size;
    uint32_t partition = 0;
    for (const char *at = slash + 1; at < end; at++) {
        if (*at < '0' || *at > '9' || (at == slash + 2 && slash[1] == '0')) {
            return false;
        }
        partition = partition * 10 + (uint32_t)(*at - '0');
        if (partition >= LQ_PARTITIONS_MAX) {
            return false;
        }
    }
    return slash + 1 < end;
}

lightq_status lq_history_log_word(struct lq_history *history, struct lq_word word, uint32_t *log, struct lq_err *err)
{
    *log = lq_check_names_find(&history->logs, word);
    if (*log != LQ_INDEX_NONE) {
        return LIGHTQ_OK;
    }
    if (word.size == 0 || !is_log(word)) {
        return lq_err_set(err, LIGHTQ_EINVAL, "'%.*s' is not TOPIC/PARTITION", (int)word.size, word.at);
    }
    return put_name(&history->logs, word, "log", log, err);
}

lightq_status lq_history_producer(struct lq_history *history, struct lq_word name, uint32_t *producer,
                                  struct lq_err *err)
{
    return put_name(&history->producers, name, "producer", producer, err);
}

lightq_status lq_history_node(struct lq_history *history, struct lq_word name, uint32_t *node, struct lq_err *err)
{
    return put_name(&history->nodes, name, "node", node, err);
}

lightq_status lq_history_group(struct lq_history *history, struct lq_word name, uint32_t *group, struct lq_err *err)
{
    return put_name(&history->groups, name, "group", group, err);
}

lightq_status lq_history_reader(struct lq_history *history, struct lq_word name, enum lq_reader_kind kind,
                                uint32_t group, uint32_t *reader, struct lq_err *err)
{
    assert(group == LQ_HISTORY_NONE || group < history->groups.count);
    if ((kind == LQ_READER_PIPELINE) != (group != LQ_HISTORY_NONE)) {
        return lq_err_set(err, LIGHTQ_EINVAL, "a pipeline reader has a group, and no other");
    }
    uint32_t before = history->readers.count;
    lightq_status status = RESERVE(history, reader_kinds, reader_capacity, before, err);
    if (status == LIGHTQ_OK) {
        status = put_name(&history->readers, name, "reader", reader, err);
    }
    if (status != LIGHTQ_OK) {
        return status;
    }
    struct lq_reader_kind_of *known = &history->reader_kinds[*reader];
    if (*reader == before) {
        *known = (struct lq_reader_kind_of){.group = group, .kind = (uint8_t)kind};
    } else if (known->kind != kind || known->group != group) {
        return lq_err_set(err, LIGHTQ_EINVAL, "reader %s is known as another kind of reader",
                          lq_check_names_at(&history->readers, *reader));
    }
    return LIGHTQ_OK;
}

/* ---- producing */

static bool message_equals(const void *context, uint32_t place, const void *key)
{
    const struct lq_message *message = &((const struct lq_history *)context)->messages[place];
    const struct message_key *wanted = key;
    return message->sequence == wanted->sequence && message->producer == wanted->producer;
}

static uint32_t find_message(const struct lq_history *history, uint32_t producer, uint64_t sequence)
{
    struct message_key key = {.sequence = sequence, .producer = producer};
    return lq_check_index_find(&history->messages_by_id, lq_check_index_hash(sequence, producer), message_equals,
                               history, &key);
}

/* The place of message (@producer, @sequence), which is added with nothing known about it when it is new. */
static lightq_status put_message(struct lq_history *history, uint32_t producer, uint64_t sequence, uint32_t *place,
                                 struct lq_err *err)
{
    assert(producer < history->producers.count);
    *place = find_message(history, producer, sequence);
    if (*place != LQ_INDEX_NONE) {
        return LIGHTQ_OK;
    }
    lightq_status status = check_number(sequence, "sequence", err);
    if (status == LIGHTQ_OK) {
        status = RESERVE(history, messages, message_capacity, history->message_count, err);
    }
    if (status != LIGHTQ_OK) {
        return status;
    }
    status = lq_check_index_reserve(&history->messages_by_id);
    if (status != LIGHTQ_OK) {
        return full(err, status);
    }
    *place = history->message_count++;
    history->messages[*place] = (struct lq_message){.sequence = sequence,
                                                    .producer = producer,
                                                    .target = LQ_HISTORY_NONE,
                                                    .log = LQ_HISTORY_NONE,
                                                    .offset = LQ_HISTORY_UNKNOWN};
    lq_check_index_add(&history->messages_by_id, lq_check_index_hash(sequence, producer), *place);
    return LIGHTQ_OK;
}

static lightq_status contradiction(const struct lq_history *history, uint32_t producer, uint64_t sequence,
                                   const char *what, struct lq_err *err)
{
    return lq_err_set(err, LIGHTQ_EINVAL, "%s %llu %s", lq_check_names_at(&history->producers, producer),
                      (unsigned long long)sequence, what);
}

lightq_status lq_history_attempt(struct lq_history *history, uint64_t time_us, uint32_t producer, uint64_t sequence,
                                 uint32_t target, const uint32_t *crc, struct lq_err *err)
{
    assert(target == LQ_HISTORY_NONE || target < history->logs.count);
    uint32_t place;
    lightq_status status = check_number(time_us, "time", err);
    if (status == LIGHTQ_OK) {
        status = put_message(history, producer, sequence, &place, err);
    }
    if (status != LIGHTQ_OK) {
        return status;
    }
    struct lq_message *message = &history->messages[place];
    if (message->attempted || message->outcome != LQ_OUTCOME_OPEN) {
        return contradiction(history, producer, sequence, "was attempted before", err);
    }
    message->attempted = true;
    message->invoked_us = time_us;
    message->target = target;
    message->has_crc = crc != NULL;
    message->crc = crc != NULL ? *crc : 0;
    history->attempt_count++;
    return LIGHTQ_OK;
}

/* The message whose attempt is waiting for its outcome. */
static lightq_status find_open(struct lq_history *history, uint64_t time_us, uint32_t producer, uint64_t sequence,
                               struct lq_message **message, struct lq_err *err)
{
    assert(producer < history->producers.count);
    uint32_t place = find_message(history, producer, sequence);
    if (place == LQ_INDEX_NONE || !history->messages[place].attempted) {
        return contradiction(history, producer, sequence, "has an outcome but was not attempted", err);
    }
    *message = &history->messages[place];
    if ((*message)->outcome != LQ_OUTCOME_OPEN) {
        return contradiction(history, producer, sequence, "has two outcomes", err);
    }
    if (time_us < (*message)->invoked_us) {
        return contradiction(history, producer, sequence, "has its outcome before its attempt", err);
    }
    return check_number(time_us, "time", err);
}

static lightq_status check_acknowledged(const struct lq_history *history, uint32_t log, uint64_t offset, uint64_t term,
                                        struct lq_err *err)
{
    assert(log < history->logs.count);
    lightq_status status = offset == LQ_HISTORY_UNKNOWN ? LIGHTQ_OK : check_number(offset, "offset", err);
    return status == LIGHTQ_OK ? check_number(term, "term", err) : status;
}

static void acknowledge(struct lq_message *message, uint64_t time_us, uint32_t log, uint64_t offset, uint64_t term)
{
    message->outcome = LQ_OUTCOME_OK;
    message->completed_us = time_us;
    message->log = log;
    message->offset = offset;
    message->term = term;
}

lightq_status lq_history_ok(struct lq_history *history, uint64_t time_us, uint32_t producer, uint64_t sequence,
                            uint32_t log, uint64_t offset, uint64_t term, struct lq_err *err)
{
    struct lq_message *message = NULL;
    lightq_status status = check_acknowledged(history, log, offset, term, err);
    if (status == LIGHTQ_OK) {
        status = find_open(history, time_us, producer, sequence, &message, err);
    }
    if (status != LIGHTQ_OK) {
        return status;
    }
    if (message->target != LQ_HISTORY_NONE && message->target != log) {
        return contradiction(history, producer, sequence, "is acknowledged in another log than it was for", err);
    }
    acknowledge(message, time_us, log, offset, term);
    return LIGHTQ_OK;
}

lightq_status lq_history_not_ok(struct lq_history *history, uint64_t time_us, uint32_t producer, uint64_t sequence,
                                enum lq_outcome outcome, struct lq_err *err)
{
    assert(outcome == LQ_OUTCOME_FAILED || outcome == LQ_OUTCOME_UNKNOWN);
    struct lq_message *message = NULL;
    lightq_status status = find_open(history, time_us, producer, sequence, &message, err);
    if (status == LIGHTQ_OK) {
        message->outcome = (uint8_t)outcome;
        message->completed_us = time_us;
    }
    return status;
}

lightq_status lq_history_receipt(struct lq_history *history, uint32_t producer, uint64_t sequence, uint32_t log,
                                 uint64_t offset, uint64_t term, struct lq_err *err)
{
    uint32_t place;
    lightq_status status = check_acknowledged(history, log, offset, term, err);
    if (status == LIGHTQ_OK) {
        status = RESERVE(history, moved, moved_capacity, history->moved_count, err);
    }
    if (status == LIGHTQ_OK) {
        status = put_message(history, producer, sequence, &place, err);
    }
    if (status != LIGHTQ_OK) {
        return status;
    }
    struct lq_message *message = &history->messages[place];
    if (message->attempted) {
        return contradiction(history, producer, sequence, "has a receipt and an attempt", err);
    }
    if (message->outcome != LQ_OUTCOME_OK || (message->log == log && message->offset == LQ_HISTORY_UNKNOWN)) {
        acknowledge(message, 0, log, offset, term);
    } else if (message->log != log || (message->offset != offset && offset != LQ_HISTORY_UNKNOWN)) {
        history->moved[history->moved_count++] = (struct lq_moved){.offset = offset, .message = place, .log = log};
    }
    return LIGHTQ_OK;
}

/* ---- consuming */

static lightq_status put_track(struct lq_history *history, uint32_t reader, uint32_t log, uint32_t *track,
                               struct lq_err *err)
{
    assert(reader < history->readers.count && log < history->logs.count);
    lightq_status status = lq_pairs_put(&history->tracks, reader, log, track);
    return status == LIGHTQ_OK ? status : full(err, status);
}

lightq_status lq_history_read(struct lq_history *history, uint64_t time_us, uint32_t reader, uint32_t log,
                              uint64_t offset, uint32_t producer, uint64_t sequence, uint32_t crc, struct lq_err *err)
{
    struct lq_read_event read = {.time_us = time_us, .offset = offset, .crc = crc};
    lightq_status status = check_place(time_us, offset, err);
    if (status == LIGHTQ_OK) {
        status = put_track(history, reader, log, &read.track, err);
    }
    if (status == LIGHTQ_OK) {
        status = RESERVE(history, reads, read_capacity, history->read_count, err);
    }
    if (status == LIGHTQ_OK) {
        status = put_message(history, producer, sequence, &read.message, err);
    }
    if (status == LIGHTQ_OK) {
        history->reads[history->read_count++] = read;
    }
    return status;
}

lightq_status lq_history_seek(struct lq_history *history, uint64_t time_us, uint32_t reader, uint32_t log,
                              uint64_t offset, struct lq_err *err)
{
    struct lq_read_event seek = {.time_us = time_us, .offset = offset, .message = LQ_HISTORY_NONE};
    lightq_status status = check_place(time_us, offset == LQ_HISTORY_UNKNOWN ? 0 : offset, err);
    if (status == LIGHTQ_OK) {
        status = put_track(history, reader, log, &seek.track, err);
    }
    if (status == LIGHTQ_OK) {
        status = RESERVE(history, reads, read_capacity, history->read_count, err);
    }
    if (status == LIGHTQ_OK) {
        history->reads[history->read_count++] = seek;
    }
    return status;
}

lightq_status lq_history_settle(struct lq_history *history, uint64_t time_us, uint32_t reader, uint32_t log,
                                uint64_t offset, enum lq_verdict verdict, enum lq_outcome outcome, struct lq_err *err)
{
    struct lq_settle settle = {
        .time_us = time_us, .offset = offset, .verdict = (uint8_t)verdict, .outcome = (uint8_t)outcome};
    lightq_status status = check_place(time_us, offset, err);
    if (status == LIGHTQ_OK) {
        status = put_track(history, reader, log, &settle.track, err);
    }
    if (status == LIGHTQ_OK) {
        status = RESERVE(history, settles, settle_capacity, history->settle_count, err);
    }
    if (status == LIGHTQ_OK) {
        history->settles[history->settle_count++] = settle;
    }
    return status;
}

lightq_status lq_history_drained(struct lq_history *history, uint64_t time_us, uint32_t group, uint32_t log,
                                 uint64_t from, uint64_t end, struct lq_err *err)
{
    assert(group < history->groups.count && log < history->logs.count);
    lightq_status status = check_place(time_us, end, err);
    if (status != LIGHTQ_OK) {
        return status;
    }
    if (from > end) {
        return lq_err_set(err, LIGHTQ_EINVAL, "drained from %llu to %llu, which is before it", (unsigned long long)from,
                          (unsigned long long)end);
    }
    status = RESERVE(history, drained, drained_capacity, history->drained_count, err);
    if (status == LIGHTQ_OK) {
        history->drained[history->drained_count++] =
            (struct lq_drained){.time_us = time_us, .from = from, .end = end, .group = group, .log = log};
    }
    return status;
}

/* ---- the cluster */

lightq_status lq_history_trim(struct lq_history *history, uint64_t time_us, uint32_t log, uint64_t offset,
                              struct lq_err *err)
{
    assert(log < history->logs.count);
    lightq_status status = check_place(time_us, offset, err);
    if (status == LIGHTQ_OK) {
        status = RESERVE(history, trims, trim_capacity, history->trim_count, err);
    }
    if (status == LIGHTQ_OK) {
        history->trims[history->trim_count++] = (struct lq_border){.time_us = time_us, .offset = offset, .log = log};
    }
    return status;
}

lightq_status lq_history_end(struct lq_history *history, uint64_t time_us, uint32_t log, uint64_t offset,
                             struct lq_err *err)
{
    assert(log < history->logs.count);
    lightq_status status = check_place(time_us, offset, err);
    if (status == LIGHTQ_OK) {
        status = RESERVE(history, ends, end_capacity, history->end_count, err);
    }
    if (status == LIGHTQ_OK) {
        history->ends[history->end_count++] = (struct lq_border){.time_us = time_us, .offset = offset, .log = log};
    }
    return status;
}

lightq_status lq_history_leader(struct lq_history *history, uint64_t time_us, uint32_t observer, uint32_t log,
                                uint64_t term, uint32_t node, struct lq_err *err)
{
    assert(observer < history->nodes.count && node < history->nodes.count && log < history->logs.count);
    struct lq_leadership leadership = {.time_us = time_us, .term = term, .node = node};
    lightq_status status = check_number(time_us, "time", err);
    if (status == LIGHTQ_OK) {
        status = check_number(term, "term", err);
    }
    if (status == LIGHTQ_OK && term == 0) {
        return lq_err_set(err, LIGHTQ_EINVAL, "nobody leads in term 0");
    }
    if (status == LIGHTQ_OK) {
        status = RESERVE(history, leaderships, leadership_capacity, history->leadership_count, err);
    }
    if (status != LIGHTQ_OK) {
        return status;
    }
    status = lq_pairs_put(&history->views, observer, log, &leadership.view);
    if (status != LIGHTQ_OK) {
        return full(err, status);
    }
    history->leaderships[history->leadership_count++] = leadership;
    return LIGHTQ_OK;
}

lightq_status lq_history_digest(struct lq_history *history, uint64_t time_us, uint32_t log, uint32_t node, uint64_t end,
                                uint64_t digest, struct lq_err *err)
{
    assert(log < history->logs.count && node < history->nodes.count);
    lightq_status status = check_place(time_us, end, err);
    if (status == LIGHTQ_OK) {
        status = RESERVE(history, digests, digest_capacity, history->digest_count, err);
    }
    if (status == LIGHTQ_OK) {
        history->digests[history->digest_count++] =
            (struct lq_digest){.time_us = time_us, .end = end, .digest = digest, .log = log, .node = node};
    }
    return status;
}

lightq_status lq_history_fault(struct lq_history *history, uint64_t time_us, struct lq_word name,
                               enum lq_fault_scope scope, struct lq_word kind, struct lq_err *err)
{
    uint32_t fault, kind_id, before = history->faults.count;
    if (lq_check_names_find(&history->faults, name) != LQ_INDEX_NONE) {
        return lq_err_set(err, LIGHTQ_EINVAL, "fault %.*s has begun before", (int)name.size, name.at);
    }
    lightq_status status = check_number(time_us, "time", err);
    if (status == LIGHTQ_OK) {
        status = RESERVE(history, fault_times, fault_capacity, before, err);
    }
    if (status == LIGHTQ_OK) {
        status = put_name(&history->fault_kinds, kind, "fault's kind", &kind_id, err);
    }
    if (status == LIGHTQ_OK) {
        status = put_name(&history->faults, name, "fault", &fault, err);
    }
    if (status == LIGHTQ_OK) {
        history->fault_times[fault] = (struct lq_fault){
            .begin_us = time_us, .heal_us = LQ_HISTORY_UNKNOWN, .kind = kind_id, .scope = (uint8_t)scope};
    }
    return status;
}

lightq_status lq_history_heal(struct lq_history *history, uint64_t time_us, struct lq_word name, struct lq_err *err)
{
    uint32_t fault = lq_check_names_find(&history->faults, name);
    if (fault == LQ_INDEX_NONE) {
        return lq_err_set(err, LIGHTQ_EINVAL, "fault %.*s is healed but has not begun", (int)name.size, name.at);
    }
    struct lq_fault *known = &history->fault_times[fault];
    if (known->heal_us != LQ_HISTORY_UNKNOWN || time_us < known->begin_us) {
        return lq_err_set(err, LIGHTQ_EINVAL, "fault %s is healed %s", lq_check_names_at(&history->faults, fault),
                          time_us < known->begin_us ? "before it has begun" : "twice");
    }
    lightq_status status = check_number(time_us, "time", err);
    if (status == LIGHTQ_OK) {
        known->heal_us = time_us;
    }
    return status;
}

lightq_status lq_history_quiet(struct lq_history *history, uint64_t time_us, struct lq_err *err)
{
    lightq_status status = check_number(time_us, "time", err);
    if (status == LIGHTQ_OK) {
        history->quiet_us = time_us;
    }
    return status;
}
