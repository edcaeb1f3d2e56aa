/* chaos/check/history_text.c - reads and writes a history as text. Called by lightq-check and by simulations that keep
 * a failing history; calls history.c. Any thread, one at a time for each history.
 *
 * The format, version 1. The first line is "lightq-history 1". Every further line is one event: words with exactly one
 * space between them, of printable ASCII characters, ended by a line feed, at most 2048 bytes long. A line that begins
 * with "#" is a remark. Fields:
 *
 *   TIME      decimal, microseconds of one monotonic clock
 *   LOG       TOPIC/PARTITION
 *   OFFSET, FROM, END, SEQUENCE, TERM    decimal, at most 2^62
 *   PRODUCER, READER, GROUP, NODE, OBSERVER, FAULT, KIND    a word of 1 to 255 characters
 *   CRC       1 to 8 hexadecimal digits: CRC32C of the payload
 *   DIGEST    1 to 16 hexadecimal digits
 *   X|-       X, or "-" when it is not known
 *
 *   reader READER subscriber                           reads alone and in order
 *   reader READER final                                the same, from the start to the end of each log when all is
 * quiet reader READER pipeline GROUP                       one of a group that shares the messages attempt TIME
 * PRODUCER SEQUENCE LOG|- CRC|-         just before the call; LOG: when the application chose it ok TIME PRODUCER
 * SEQUENCE LOG OFFSET|- TERM|-      acknowledged failed TIME PRODUCER SEQUENCE                      certainly not
 * stored, now or later unknown TIME PRODUCER SEQUENCE                     stored or not; so is an attempt without any
 * outcome read TIME READER LOG OFFSET PRODUCER SEQUENCE CRC  in the reader's reading order seek TIME READER LOG
 * OFFSET|-                      the reader begins, or goes on, at OFFSET settle TIME READER LOG OFFSET ack|nack|reject
 * ok|failed|unknown drained TIME GROUP LOG FROM END                    nothing in [FROM, END) is left for the group
 *   trim TIME LOG OFFSET                               LOG begins at OFFSET
 *   end TIME LOG OFFSET                                LOG ends before OFFSET
 *   leader TIME OBSERVER LOG TERM NODE                 OBSERVER says that NODE leads LOG in TERM
 *   digest TIME LOG NODE END DIGEST                    NODE's replica of LOG, everything below END
 *   fault TIME FAULT minority|majority KIND            how much of the cluster it takes; FAULT is a name of its own
 *   heal TIME FAULT
 *   quiet TIME                                         nothing is produced any more, and replicas are equal
 *
 * An attempt comes before its outcome, a fault before its heal, a reader before what it reads; otherwise lines may come
 * in any order, and a history may be spread over several files, each with the first line. (PRODUCER, SEQUENCE) is one
 * message in the whole history: LightQ's own producer ids count in each partition for itself, so a recorder that uses
 * them makes the partition a part of the name. */
#include "chaos/check/history_text.h"

#include <errno.h>
#include <inttypes.h>

#include "chaos/check/lines.h"

static const char first_line[] = "lightq-history 1";

/* One line being read: the history it goes to, its words, and the first word that was not what it should be. */
struct line {
    struct lq_history *history;
    const struct lq_word *words;
    size_t count;
    const char *wrong; /* what the word should have been, or NULL */
    size_t wrong_at;
    lightq_status status; /* of adding a name */
    struct lq_err *err;
};

static void refuse(struct line *line, size_t at, const char *wanted)
{
    if (line->wrong == NULL && line->status == LIGHTQ_OK) {
        line->wrong = wanted;
        line->wrong_at = at;
    }
}

static uint64_t number(struct line *line, size_t at, const char *what)
{
    uint64_t value = 0;
    if (!lq_word_number(line->words[at], LQ_HISTORY_NUMBER_MAX, &value)) {
        refuse(line, at, what);
    }
    return value;
}

static uint64_t number_or_dash(struct line *line, size_t at, const char *what, uint64_t dash)
{
    return lq_word_is(line->words[at], "-") ? dash : number(line, at, what);
}

static uint64_t hex(struct line *line, size_t at, size_t digits, const char *what)
{
    uint64_t value = 0;
    if (!lq_word_hex(line->words[at], digits, &value)) {
        refuse(line, at, what);
    }
    return value;
}

/* The place of the word at @at among @choices, which end with NULL. */
static unsigned choice(struct line *line, size_t at, const char *const *choices, const char *what)
{
    for (unsigned i = 0; choices[i] != NULL; i++) {
        if (lq_word_is(line->words[at], choices[i])) {
            return i;
        }
    }
    refuse(line, at, what);
    return 0;
}

static bool ready(const struct line *line)
{
    return line->wrong == NULL && line->status == LIGHTQ_OK;
}

static uint32_t name(struct line *line, size_t at,
                     lightq_status (*put)(struct lq_history *, struct lq_word, uint32_t *, struct lq_err *))
{
    uint32_t id = LQ_HISTORY_NONE;
    if (ready(line)) {
        line->status = put(line->history, line->words[at], &id, line->err);
    }
    return id;
}

static uint32_t log_at(struct line *line, size_t at)
{
    return name(line, at, lq_history_log_word);
}

static uint32_t reader_at(struct line *line, size_t at)
{
    uint32_t reader = lq_check_names_find(&line->history->readers, line->words[at]);
    if (reader == LQ_INDEX_NONE) {
        refuse(line, at, "a reader that was named by a reader line");
    }
    return reader;
}

/* ---- one function a kind of line; words[0] is the kind, words[1] the time (but of reader) */

static const char *const reader_kinds[] = {"subscriber", "final", "pipeline", NULL};
static const char *const verdicts[] = {"ack", "nack", "reject", NULL};
static const char *const outcomes[] = {"ok", "failed", "unknown", NULL};
static const char *const scopes[] = {"minority", "majority", NULL};

static lightq_status add_reader(struct line *line, uint64_t time_us)
{
    (void)time_us;
    uint32_t reader, group = LQ_HISTORY_NONE;
    enum lq_reader_kind kind = (enum lq_reader_kind)choice(line, 2, reader_kinds, "subscriber, final or pipeline");
    if (kind == LQ_READER_PIPELINE && line->count == 4) {
        group = name(line, 3, lq_history_group);
    } else if (line->count == 4 || kind == LQ_READER_PIPELINE) {
        refuse(line, 2, "\"pipeline GROUP\", or another kind and no group");
    }
    if (!ready(line)) {
        return line->status;
    }
    return lq_history_reader(line->history, line->words[1], kind, group, &reader, line->err);
}

static lightq_status add_attempt(struct line *line, uint64_t time_us)
{
    uint64_t sequence = number(line, 3, "a sequence");
    bool has_crc = !lq_word_is(line->words[5], "-");
    uint32_t crc = has_crc ? (uint32_t)hex(line, 5, 8, "a crc or -") : 0;
    uint32_t log = lq_word_is(line->words[4], "-") ? LQ_HISTORY_NONE : log_at(line, 4);
    uint32_t producer = name(line, 2, lq_history_producer);
    if (!ready(line)) {
        return line->status;
    }
    return lq_history_attempt(line->history, time_us, producer, sequence, log, has_crc ? &crc : NULL, line->err);
}

static lightq_status add_ok(struct line *line, uint64_t time_us)
{
    uint64_t sequence = number(line, 3, "a sequence");
    uint64_t offset = number_or_dash(line, 5, "an offset or -", LQ_HISTORY_UNKNOWN);
    uint64_t term = number_or_dash(line, 6, "a term or -", 0);
    uint32_t log = log_at(line, 4);
    uint32_t producer = name(line, 2, lq_history_producer);
    if (!ready(line)) {
        return line->status;
    }
    return lq_history_ok(line->history, time_us, producer, sequence, log, offset, term, line->err);
}

static lightq_status add_not_ok(struct line *line, uint64_t time_us, enum lq_outcome outcome)
{
    uint64_t sequence = number(line, 3, "a sequence");
    uint32_t producer = name(line, 2, lq_history_producer);
    if (!ready(line)) {
        return line->status;
    }
    return lq_history_not_ok(line->history, time_us, producer, sequence, outcome, line->err);
}

static lightq_status add_failed(struct line *line, uint64_t time_us)
{
    return add_not_ok(line, time_us, LQ_OUTCOME_FAILED);
}

static lightq_status add_unknown(struct line *line, uint64_t time_us)
{
    return add_not_ok(line, time_us, LQ_OUTCOME_UNKNOWN);
}

static lightq_status add_read(struct line *line, uint64_t time_us)
{
    uint32_t reader = reader_at(line, 2);
    uint64_t offset = number(line, 4, "an offset");
    uint64_t sequence = number(line, 6, "a sequence");
    uint32_t crc = (uint32_t)hex(line, 7, 8, "a crc");
    uint32_t log = log_at(line, 3);
    uint32_t producer = name(line, 5, lq_history_producer);
    if (!ready(line)) {
        return line->status;
    }
    return lq_history_read(line->history, time_us, reader, log, offset, producer, sequence, crc, line->err);
}

static lightq_status add_seek(struct line *line, uint64_t time_us)
{
    uint32_t reader = reader_at(line, 2);
    uint64_t offset = number_or_dash(line, 4, "an offset or -", LQ_HISTORY_UNKNOWN);
    uint32_t log = log_at(line, 3);
    if (!ready(line)) {
        return line->status;
    }
    return lq_history_seek(line->history, time_us, reader, log, offset, line->err);
}

static lightq_status add_settle(struct line *line, uint64_t time_us)
{
    uint32_t reader = reader_at(line, 2);
    uint64_t offset = number(line, 4, "an offset");
    enum lq_verdict verdict = (enum lq_verdict)choice(line, 5, verdicts, "ack, nack or reject");
    enum lq_outcome outcome = (enum lq_outcome)(LQ_OUTCOME_OK + choice(line, 6, outcomes, "ok, failed or unknown"));
    uint32_t log = log_at(line, 3);
    if (!ready(line)) {
        return line->status;
    }
    return lq_history_settle(line->history, time_us, reader, log, offset, verdict, outcome, line->err);
}

static lightq_status add_drained(struct line *line, uint64_t time_us)
{
    uint64_t from = number(line, 4, "an offset");
    uint64_t end = number(line, 5, "an offset");
    uint32_t log = log_at(line, 3);
    uint32_t group = name(line, 2, lq_history_group);
    if (!ready(line)) {
        return line->status;
    }
    return lq_history_drained(line->history, time_us, group, log, from, end, line->err);
}

static lightq_status add_trim(struct line *line, uint64_t time_us)
{
    uint64_t offset = number(line, 3, "an offset");
    uint32_t log = log_at(line, 2);
    return ready(line) ? lq_history_trim(line->history, time_us, log, offset, line->err) : line->status;
}

static lightq_status add_end(struct line *line, uint64_t time_us)
{
    uint64_t offset = number(line, 3, "an offset");
    uint32_t log = log_at(line, 2);
    return ready(line) ? lq_history_end(line->history, time_us, log, offset, line->err) : line->status;
}

static lightq_status add_leader(struct line *line, uint64_t time_us)
{
    uint64_t term = number(line, 4, "a term");
    uint32_t log = log_at(line, 3);
    uint32_t observer = name(line, 2, lq_history_node);
    uint32_t node = name(line, 5, lq_history_node);
    if (!ready(line)) {
        return line->status;
    }
    return lq_history_leader(line->history, time_us, observer, log, term, node, line->err);
}

static lightq_status add_digest(struct line *line, uint64_t time_us)
{
    uint64_t end = number(line, 4, "an offset");
    uint64_t digest = hex(line, 5, 16, "a digest");
    uint32_t log = log_at(line, 2);
    uint32_t node = name(line, 3, lq_history_node);
    if (!ready(line)) {
        return line->status;
    }
    return lq_history_digest(line->history, time_us, log, node, end, digest, line->err);
}

static lightq_status add_fault(struct line *line, uint64_t time_us)
{
    enum lq_fault_scope scope = (enum lq_fault_scope)choice(line, 3, scopes, "minority or majority");
    if (!ready(line)) {
        return line->status;
    }
    return lq_history_fault(line->history, time_us, line->words[2], scope, line->words[4], line->err);
}

static lightq_status add_heal(struct line *line, uint64_t time_us)
{
    return ready(line) ? lq_history_heal(line->history, time_us, line->words[2], line->err) : line->status;
}

static lightq_status add_quiet(struct line *line, uint64_t time_us)
{
    return ready(line) ? lq_history_quiet(line->history, time_us, line->err) : line->status;
}

/* X(kind, fewest words, most words): words count the kind. */
#define LINE_KINDS(X) \
    X(read, 8, 8)     \
    X(attempt, 6, 6)  \
    X(ok, 7, 7)       \
    X(settle, 7, 7)   \
    X(failed, 4, 4)   \
    X(unknown, 4, 4)  \
    X(seek, 5, 5)     \
    X(leader, 6, 6)   \
    X(digest, 6, 6)   \
    X(trim, 4, 4)     \
    X(end, 4, 4)      \
    X(drained, 6, 6)  \
    X(reader, 3, 4)   \
    X(fault, 5, 5)    \
    X(heal, 3, 3)     \
    X(quiet, 2, 2)

static const struct line_kind {
    const char *name;
    size_t fewest, most;
    lightq_status (*add)(struct line *line, uint64_t time_us);
} line_kinds[] = {
#define X(kind, least, greatest) {#kind, least, greatest, add_##kind},
    LINE_KINDS(X)
#undef X
};

static const struct line_kind *find_kind(struct lq_word word)
{
    for (size_t i = 0; i < sizeof line_kinds / sizeof line_kinds[0]; i++) {
        if (lq_word_is(word, line_kinds[i].name)) {
            return &line_kinds[i];
        }
    }
    return NULL;
}

static lightq_status load_line(struct lq_history *history, const struct lq_lines *lines, struct lq_word text,
                               struct lq_err *err)
{
    struct lq_word words[LQ_LINE_WORDS_MAX];
    struct lq_err why;
    struct line line = {.history = history, .words = words, .count = lq_line_words(text, words), .err = &why};
    if (line.count == 0) {
        return lq_lines_error(lines, LIGHTQ_EINVAL, err, "not words with one space between them");
    }
    const struct line_kind *kind = find_kind(words[0]);
    if (kind == NULL) {
        return lq_lines_error(lines, LIGHTQ_EINVAL, err, "\"%.*s\" is no kind of line", (int)words[0].size,
                              words[0].at);
    }
    if (line.count < kind->fewest || line.count > kind->most) {
        return lq_lines_error(lines, LIGHTQ_EINVAL, err, "%zu words, and %s has %zu", line.count, kind->name,
                              kind->most);
    }
    uint64_t time_us = kind->add == add_reader ? 0 : number(&line, 1, "a time in microseconds");
    lightq_status status = kind->add(&line, time_us);
    if (line.wrong != NULL) {
        return lq_lines_error(lines, LIGHTQ_EINVAL, err, "word %zu, \"%.*s\", is not %s", line.wrong_at + 1,
                              (int)words[line.wrong_at].size, words[line.wrong_at].at, line.wrong);
    }
    return status == LIGHTQ_OK ? status : lq_lines_error(lines, status, err, "%s", why.text);
}

static lightq_status load_lines(struct lq_history *history, struct lq_lines *lines, struct lq_err *err)
{
    struct lq_word text;
    lightq_status status = lq_lines_next(lines, &text, err);
    if (status == LIGHTQ_ENOTFOUND || (status == LIGHTQ_OK && !lq_word_is(text, first_line))) {
        return lq_lines_error(lines, LIGHTQ_EINVAL, err, "the first line is not \"%s\"", first_line);
    }
    while (status == LIGHTQ_OK) {
        status = lq_lines_next(lines, &text, err);
        if (status == LIGHTQ_OK && (text.size == 0 || text.at[0] != '#')) {
            status = load_line(history, lines, text, err);
        }
    }
    return status == LIGHTQ_ENOTFOUND ? LIGHTQ_OK : status;
}

lightq_status lq_history_load(struct lq_history *history, FILE *file, const char *path, struct lq_err *err)
{
    struct lq_lines lines;
    lightq_status status = lq_lines_init(&lines, file, path, err);
    if (status == LIGHTQ_OK) {
        status = load_lines(history, &lines, err);
        lq_lines_deinit(&lines);
    }
    return status;
}

/* ---- writing */

static void save_number_or_dash(FILE *file, uint64_t number_, uint64_t dash)
{
    if (number_ == dash) {
        fputs(" -", file);
    } else {
        fprintf(file, " %" PRIu64, number_);
    }
}

static const char *log_name(const struct lq_history *history, uint32_t log)
{
    return log == LQ_HISTORY_NONE ? "-" : lq_check_names_at(&history->logs, log);
}

static void save_message(const struct lq_history *history, const struct lq_message *message, FILE *file)
{
    const char *producer = lq_check_names_at(&history->producers, message->producer);
    fprintf(file, "attempt %" PRIu64 " %s %" PRIu64 " %s ", message->invoked_us, producer, message->sequence,
            log_name(history, message->target));
    if (message->has_crc) {
        fprintf(file, "%08" PRIx32 "\n", message->crc);
    } else {
        fputs("-\n", file);
    }
    if (message->outcome == LQ_OUTCOME_OPEN) {
        return;
    }
    fprintf(file, "%s %" PRIu64 " %s %" PRIu64, outcomes[message->outcome - LQ_OUTCOME_OK], message->completed_us,
            producer, message->sequence);
    if (message->outcome == LQ_OUTCOME_OK) {
        fprintf(file, " %s", log_name(history, message->log));
        save_number_or_dash(file, message->offset, LQ_HISTORY_UNKNOWN);
        save_number_or_dash(file, message->term, 0);
    }
    fputc('\n', file);
}

static void save_readers(const struct lq_history *history, FILE *file)
{
    for (uint32_t i = 0; i < history->readers.count; i++) {
        const struct lq_reader_kind_of *reader = &history->reader_kinds[i];
        bool pipeline = reader->kind == LQ_READER_PIPELINE;
        fprintf(file, "reader %s %s%s%s\n", lq_check_names_at(&history->readers, i), reader_kinds[reader->kind],
                pipeline ? " " : "", pipeline ? lq_check_names_at(&history->groups, reader->group) : "");
    }
}

static void save_reads(const struct lq_history *history, FILE *file)
{
    for (uint32_t i = 0; i < history->read_count; i++) {
        const struct lq_read_event *read = &history->reads[i];
        const struct lq_pair *track = &history->tracks.at[read->track];
        fprintf(file, "%s %" PRIu64 " %s %s", read->message == LQ_HISTORY_NONE ? "seek" : "read", read->time_us,
                lq_check_names_at(&history->readers, track->first), log_name(history, track->second));
        save_number_or_dash(file, read->offset, LQ_HISTORY_UNKNOWN);
        if (read->message != LQ_HISTORY_NONE) {
            const struct lq_message *message = &history->messages[read->message];
            fprintf(file, " %s %" PRIu64 " %08" PRIx32, lq_check_names_at(&history->producers, message->producer),
                    message->sequence, read->crc);
        }
        fputc('\n', file);
    }
    for (uint32_t i = 0; i < history->settle_count; i++) {
        const struct lq_settle *settle = &history->settles[i];
        const struct lq_pair *track = &history->tracks.at[settle->track];
        fprintf(file, "settle %" PRIu64 " %s %s %" PRIu64 " %s %s\n", settle->time_us,
                lq_check_names_at(&history->readers, track->first), log_name(history, track->second), settle->offset,
                verdicts[settle->verdict], outcomes[settle->outcome - LQ_OUTCOME_OK]);
    }
}

static void save_logs(const struct lq_history *history, FILE *file)
{
    for (uint32_t i = 0; i < history->trim_count; i++) {
        const struct lq_border *trim = &history->trims[i];
        fprintf(file, "trim %" PRIu64 " %s %" PRIu64 "\n", trim->time_us, log_name(history, trim->log), trim->offset);
    }
    for (uint32_t i = 0; i < history->end_count; i++) {
        const struct lq_border *end = &history->ends[i];
        fprintf(file, "end %" PRIu64 " %s %" PRIu64 "\n", end->time_us, log_name(history, end->log), end->offset);
    }
    for (uint32_t i = 0; i < history->drained_count; i++) {
        const struct lq_drained *drained = &history->drained[i];
        fprintf(file, "drained %" PRIu64 " %s %s %" PRIu64 " %" PRIu64 "\n", drained->time_us,
                lq_check_names_at(&history->groups, drained->group), log_name(history, drained->log), drained->from,
                drained->end);
    }
}

static void save_cluster(const struct lq_history *history, FILE *file)
{
    for (uint32_t i = 0; i < history->leadership_count; i++) {
        const struct lq_leadership *leadership = &history->leaderships[i];
        const struct lq_pair *view = &history->views.at[leadership->view];
        fprintf(file, "leader %" PRIu64 " %s %s %" PRIu64 " %s\n", leadership->time_us,
                lq_check_names_at(&history->nodes, view->first), log_name(history, view->second), leadership->term,
                lq_check_names_at(&history->nodes, leadership->node));
    }
    for (uint32_t i = 0; i < history->digest_count; i++) {
        const struct lq_digest *digest = &history->digests[i];
        fprintf(file, "digest %" PRIu64 " %s %s %" PRIu64 " %016" PRIx64 "\n", digest->time_us,
                log_name(history, digest->log), lq_check_names_at(&history->nodes, digest->node), digest->end,
                digest->digest);
    }
    for (uint32_t i = 0; i < history->faults.count; i++) {
        const struct lq_fault *fault = &history->fault_times[i];
        const char *fault_name = lq_check_names_at(&history->faults, i);
        fprintf(file, "fault %" PRIu64 " %s %s %s\n", fault->begin_us, fault_name, scopes[fault->scope],
                lq_check_names_at(&history->fault_kinds, fault->kind));
        if (fault->heal_us != LQ_HISTORY_UNKNOWN) {
            fprintf(file, "heal %" PRIu64 " %s\n", fault->heal_us, fault_name);
        }
    }
    if (history->quiet_us != LQ_HISTORY_UNKNOWN) {
        fprintf(file, "quiet %" PRIu64 "\n", history->quiet_us);
    }
}

lightq_status lq_history_save(const struct lq_history *history, FILE *file, struct lq_err *err)
{
    fprintf(file, "%s\n", first_line);
    save_readers(history, file);
    for (uint32_t i = 0; i < history->message_count; i++) {
        const struct lq_message *message = &history->messages[i];
        if (message->attempted) {
            save_message(history, message, file);
        } else if (message->outcome != LQ_OUTCOME_OPEN) {
            return lq_err_set(err, LIGHTQ_EUNSUPPORTED, "receipts without attempts cannot be written as a history");
        }
    }
    save_reads(history, file);
    save_logs(history, file);
    save_cluster(history, file);
    if (fflush(file) != 0 || ferror(file)) {
        return lq_err_from_errno(err, errno, "write a history");
    }
    return LIGHTQ_OK;
}
