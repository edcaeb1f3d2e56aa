/* tests/lib/store_fake.c - see store_fake.h. A log is an array of entries; flushing copies the array, completing makes
 * the copy what a crash leaves. Slow and simple. Segments begin where segment_bytes are passed, so that checkpoints and
 * trimming work as with the real one. */
#include "tests/lib/store_fake.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/limits.h"
#include "tests/lib/sure.h"

enum { LOGS_MAX = 256, CHECKPOINTS_MAX = 64, CHANGES_MAX = 256, RUNS_MAX = 4096 };

struct fake_checkpoint {
    struct lq_checkpoint meta; /* pointers into bytes */
    uint8_t *bytes;
};

/* What a log holds: in memory, flushed, and durable. */
struct state {
    uint64_t first; /* of entries[0] */
    struct lq_entry_ref *entries;
    size_t count;
    struct fake_checkpoint checkpoints[CHECKPOINTS_MAX]; /* by last_index, the first may be the log's own */
    size_t checkpoint_count;
    bool begins_with_checkpoint;
    uint64_t term, voted_for, vote_sequence;
    uint64_t install; /* number of installs */
};

struct lq_rlog {
    struct lq_store *store;
    uint64_t group;
    uint32_t incarnation;
    const struct lq_rlog_events *events;
    void *owner;
    enum lq_rlog_health health;
    struct state now, flushed, durable;
    bool dirty, in_flight;
    uint64_t durable_index, generation, evicted, vote_told, install_told;
    bool rotten;
    lightq_status refuse_append;
    struct lq_rlog_change changes[CHANGES_MAX];
    struct lq_rlog_run runs[RUNS_MAX];
};

struct disk_log {
    uint64_t group;
    uint32_t incarnation;
    bool exists;
    struct state state;
};

struct fake_disk {
    struct lq_io io; /* first: what lq_store_open is given */
    struct disk_log logs[LOGS_MAX];
    size_t count;
    uint64_t free_bytes, total_bytes;
};

struct lq_store {
    struct fake_disk *disk;
    struct lq_store_options options;
    struct lq_rlog *logs[LOGS_MAX];
    size_t count;
    bool hold_votes, hold_entries, hold_reads;
    struct lq_rlog_read *reads[1024];
    struct lq_rlog *read_logs[1024];
    size_t read_count;
};

/* ---- states ---- */

static void checkpoint_copy(struct fake_checkpoint *to, const struct lq_checkpoint *from)
{
    to->bytes = sure_malloc(from->configuration_size + from->state_size + 1);
    assert(to->bytes != NULL);
    to->meta = *from;
    if (from->configuration_size != 0) {
        memcpy(to->bytes, from->configuration, from->configuration_size);
    }
    if (from->state_size != 0) {
        memcpy(to->bytes + from->configuration_size, from->state, from->state_size);
    }
    to->meta.configuration = to->bytes;
    to->meta.state = to->bytes + from->configuration_size;
}

static void state_free(struct state *state)
{
    for (size_t i = 0; i < state->count; i++) {
        lq_slab_unref(state->entries[i].slab);
    }
    free(state->entries);
    for (size_t i = 0; i < state->checkpoint_count; i++) {
        free(state->checkpoints[i].bytes);
    }
    *state = (struct state){.first = 1};
}

static void state_copy(struct state *to, const struct state *from)
{
    state_free(to);
    *to = *from;
    to->entries = sure_malloc((from->count + 1) * sizeof *to->entries);
    assert(to->entries != NULL);
    for (size_t i = 0; i < from->count; i++) {
        to->entries[i] = from->entries[i];
        lq_slab_ref(to->entries[i].slab);
    }
    for (size_t i = 0; i < from->checkpoint_count; i++) {
        checkpoint_copy(&to->checkpoints[i], &from->checkpoints[i].meta);
    }
}

static uint64_t state_last(const struct state *state)
{
    return state->first + state->count - 1;
}

static struct lq_entry entry_of(const struct lq_entry_ref *ref)
{
    struct lq_entry entry;
    uint64_t size;
    lightq_status status = lq_entry_decode(lq_entry_ref_bytes(ref), ref->size, true, &entry, &size, NULL);
    assert(status == LIGHTQ_OK && size == ref->size);
    return entry;
}

static struct lq_entry entry_at(const struct lq_rlog *log, uint64_t index)
{
    return entry_of(&log->now.entries[index - log->now.first]);
}

/* ---- disk ---- */

struct fake_disk *fake_disk_new(void)
{
    struct fake_disk *disk = sure_calloc(1, sizeof *disk);
    assert(disk != NULL);
    disk->free_bytes = disk->total_bytes = UINT64_C(1) << 40;
    return disk;
}

void fake_disk_free(struct fake_disk *disk)
{
    for (size_t i = 0; i < disk->count; i++) {
        state_free(&disk->logs[i].state);
    }
    free(disk);
}

struct lq_io *fake_disk_io(struct fake_disk *disk)
{
    return &disk->io;
}

void fake_disk_set_space(struct fake_disk *disk, uint64_t free_bytes, uint64_t total_bytes)
{
    disk->free_bytes = free_bytes;
    disk->total_bytes = total_bytes;
}

static struct disk_log *disk_log(struct fake_disk *disk, uint64_t group)
{
    for (size_t i = 0; i < disk->count; i++) {
        if (disk->logs[i].group == group) {
            return &disk->logs[i];
        }
    }
    return NULL;
}

/* ---- store ---- */

static struct lq_rlog *log_new(struct lq_store *store, uint64_t group, uint32_t incarnation)
{
    struct lq_rlog *log = sure_calloc(1, sizeof *log);
    assert(log != NULL && store->count < LOGS_MAX);
    log->store = store;
    log->group = group;
    log->incarnation = incarnation;
    log->now.first = log->flushed.first = log->durable.first = 1;
    store->logs[store->count++] = log;
    return log;
}

lightq_status lq_store_open(struct lq_io *io, struct lq_clock *clock, const struct lq_store_options *options,
                            struct lq_store **out, struct lq_err *err)
{
    (void)clock;
    (void)err;
    struct lq_store *store = sure_calloc(1, sizeof *store);
    assert(store != NULL);
    store->disk = (struct fake_disk *)(void *)io;
    store->options = *options;
    if (store->options.segment_bytes == 0) {
        store->options.segment_bytes = UINT64_C(64) << 20;
    }
    for (size_t i = 0; i < store->disk->count; i++) {
        struct disk_log *kept = &store->disk->logs[i];
        if (kept->exists) {
            struct lq_rlog *log = log_new(store, kept->group, kept->incarnation);
            state_copy(&log->now, &kept->state);
            log->durable_index = state_last(&log->now);
            log->evicted = log->durable_index + 1;
        }
    }
    *out = store;
    return LIGHTQ_OK;
}

static void log_free(struct lq_rlog *log)
{
    state_free(&log->now);
    state_free(&log->flushed);
    state_free(&log->durable);
    free(log);
}

void lq_store_abandon(struct lq_store *store)
{
    for (size_t i = 0; i < store->count; i++) {
        log_free(store->logs[i]);
    }
    free(store);
}

void lq_store_close(struct lq_store *store, void (*cb)(void *data), void *data)
{
    fake_store_complete(store);
    lq_store_abandon(store);
    cb(data);
}

void lq_store_flush(struct lq_store *store)
{
    for (size_t i = 0; i < store->count; i++) {
        struct lq_rlog *log = store->logs[i];
        if (log->dirty && !log->in_flight) {
            state_copy(&log->flushed, &log->now);
            log->dirty = false;
            log->in_flight = true;
        }
    }
}

bool fake_store_pending(const struct lq_store *store)
{
    for (size_t i = 0; i < store->count; i++) {
        if (store->logs[i]->in_flight || store->logs[i]->dirty) {
            return true;
        }
    }
    return store->read_count != 0;
}

bool lq_store_idle(const struct lq_store *store)
{
    return !fake_store_pending(store);
}

static void persist(struct lq_rlog *log)
{
    struct disk_log *kept = disk_log(log->store->disk, log->group);
    assert(kept != NULL);
    state_copy(&kept->state, &log->durable);
}

static uint64_t agree_until(const struct lq_rlog *log)
{
    /* What was flushed and is still there: entries cut meanwhile do not count. */
    uint64_t index = log->flushed.first - 1;
    while (index < state_last(&log->flushed) && index < state_last(&log->now)) {
        uint64_t next = index + 1;
        if (next < log->now.first) {
            index = log->now.first - 1;
            continue;
        }
        if (log->flushed.entries[next - log->flushed.first].slab != log->now.entries[next - log->now.first].slab) {
            break;
        }
        index = next;
    }
    return index;
}

static void tell(struct lq_rlog *log)
{
    struct lq_store *store = log->store;
    if (!store->hold_votes && log->durable.vote_sequence > log->vote_told) {
        log->vote_told = log->durable.vote_sequence;
        if (log->events != NULL && log->events->voted != NULL) {
            log->events->voted(log->owner, log->vote_told);
        }
    }
    if (log->durable.install > log->install_told && log->durable.install == log->now.install) {
        log->install_told = log->durable.install;
        if (log->events != NULL && log->events->installed != NULL) {
            log->events->installed(log->owner, log->durable.first - 1);
        }
    }
}

static void tell_entries(struct lq_rlog *log, uint64_t index)
{
    if (index > log->durable_index && log->durable.install == log->now.install) {
        log->durable_index = index;
        if (log->events != NULL && log->events->durable != NULL) {
            log->events->durable(log->owner, index);
        }
    }
}

static void complete_log(struct lq_rlog *log)
{
    if (!log->in_flight) {
        tell(log);
        return;
    }
    if (log->store->hold_entries && state_last(&log->flushed) > log->durable_index) {
        /* The vote alone goes through, as a journal record would. */
        log->durable.term = log->flushed.term;
        log->durable.voted_for = log->flushed.voted_for;
        log->durable.vote_sequence = log->flushed.vote_sequence;
        persist(log);
        tell(log);
        return;
    }
    state_copy(&log->durable, &log->flushed);
    log->in_flight = false;
    persist(log);
    uint64_t index = agree_until(log);
    tell(log);
    tell_entries(log, index);
}

static void answer_read(struct lq_rlog *log, struct lq_rlog_read *read)
{
    if (log == NULL || read->generation != log->generation || read->index < log->now.first ||
        read->index > state_last(&log->now)) {
        read->cb(read, LIGHTQ_ECANCELED);
        return;
    }
    if (log->rotten) {
        read->cb(read, LIGHTQ_ECORRUPT);
        return;
    }
    size_t count = 0;
    size_t bytes = 0;
    size_t at = (size_t)(read->index - log->now.first);
    while (at + count < log->now.count && (count == 0 || bytes < read->bytes_max)) {
        bytes += log->now.entries[at + count++].size;
    }
    struct lq_slab *slab = sure_slab(bytes);
    struct lq_entry_ref *refs = sure_calloc(count, sizeof *refs);
    assert(slab != NULL && refs != NULL);
    uint32_t offset = 0;
    for (size_t i = 0; i < count; i++) {
        const struct lq_entry_ref *from = &log->now.entries[at + i];
        memcpy(slab->bytes + offset, lq_entry_ref_bytes(from), from->size);
        refs[i] = (struct lq_entry_ref){.slab = slab, .offset = offset, .size = from->size};
        offset += from->size;
    }
    read->slab = slab;
    read->refs = refs;
    read->count = count;
    read->cb(read, LIGHTQ_OK); /* may free the read */
    lq_slab_unref(slab);
    free(refs);
}

void fake_store_complete(struct lq_store *store)
{
    for (size_t i = 0; i < store->count; i++) {
        complete_log(store->logs[i]);
    }
    lq_store_flush(store);
    size_t count = store->hold_reads ? 0 : store->read_count;
    for (size_t i = 0; i < count; i++) {
        struct lq_rlog_read *read = store->reads[0];
        struct lq_rlog *log = store->read_logs[0];
        store->read_count--;
        memmove(&store->reads[0], &store->reads[1], store->read_count * sizeof store->reads[0]);
        memmove(&store->read_logs[0], &store->read_logs[1], store->read_count * sizeof store->read_logs[0]);
        answer_read(log, read);
    }
}

void fake_store_hold_votes(struct lq_store *store, bool hold)
{
    store->hold_votes = hold;
}

void fake_store_hold_entries(struct lq_store *store, bool hold)
{
    store->hold_entries = hold;
}

void fake_store_hold_reads(struct lq_store *store, bool hold)
{
    store->hold_reads = hold;
}

size_t lq_store_count(const struct lq_store *store)
{
    return store->count;
}

struct lq_rlog *lq_store_at(struct lq_store *store, size_t i)
{
    return store->logs[i];
}

struct lq_rlog *lq_store_find(struct lq_store *store, uint64_t group)
{
    for (size_t i = 0; i < store->count; i++) {
        if (store->logs[i]->group == group) {
            return store->logs[i];
        }
    }
    return NULL;
}

bool lq_store_knows(const struct lq_store *store, uint64_t group, uint32_t *incarnation)
{
    struct disk_log *kept = disk_log(store->disk, group);
    if (kept != NULL) {
        *incarnation = kept->incarnation;
    }
    return kept != NULL;
}

lightq_status lq_store_space(struct lq_store *store, struct lq_store_space *space)
{
    *space = (struct lq_store_space){.free_bytes = store->disk->free_bytes, .total_bytes = store->disk->total_bytes};
    return LIGHTQ_OK;
}

void lq_store_count_up(const struct lq_store *store, struct lq_store_counters *counters)
{
    (void)store;
    *counters = (struct lq_store_counters){.flushes = 0};
}

/* ---- logs ---- */

lightq_status lq_rlog_create(struct lq_store *store, uint64_t group, uint32_t incarnation, struct lq_rlog **log,
                             struct lq_err *err)
{
    struct disk_log *kept = disk_log(store->disk, group);
    if (lq_store_find(store, group) != NULL) {
        return lq_err_set(err, LIGHTQ_EEXISTS, "exists");
    }
    if (kept != NULL && kept->incarnation >= incarnation) {
        return lq_err_set(err, LIGHTQ_ECONFLICT, "known");
    }
    if (kept == NULL) {
        assert(store->disk->count < LOGS_MAX);
        kept = &store->disk->logs[store->disk->count++];
    }
    *kept = (struct disk_log){.group = group, .incarnation = incarnation, .exists = true, .state.first = 1};
    *log = log_new(store, group, incarnation);
    return LIGHTQ_OK;
}

void lq_rlog_destroy(struct lq_rlog *log)
{
    struct lq_store *store = log->store;
    struct disk_log *kept = disk_log(store->disk, log->group);
    kept->exists = false;
    state_free(&kept->state);
    for (size_t i = 0; i < store->read_count; i++) {
        if (store->read_logs[i] == log) {
            store->read_logs[i] = NULL;
        }
    }
    for (size_t i = 0; i < store->count; i++) {
        if (store->logs[i] == log) {
            store->logs[i] = store->logs[--store->count];
            break;
        }
    }
    log_free(log);
}

bool lq_rlog_is_quiet(const struct lq_rlog *log)
{
    (void)log;
    return true;
}

lightq_status lq_rlog_set_aside(struct lq_rlog *log, struct lq_err *err)
{
    (void)err;
    lq_rlog_destroy(log);
    return LIGHTQ_OK;
}

void lq_store_drop_aside(struct lq_store *store, uint64_t group)
{
    (void)store;
    (void)group;
}

void lq_rlog_set_events(struct lq_rlog *log, const struct lq_rlog_events *events, void *owner)
{
    log->events = events;
    log->owner = owner;
}

enum lq_rlog_health lq_rlog_health(const struct lq_rlog *log)
{
    return log->health;
}

const char *lq_rlog_health_text(const struct lq_rlog *log)
{
    return log->health == LQ_RLOG_HEALTHY ? "" : "the test says so";
}

uint64_t lq_rlog_group(const struct lq_rlog *log)
{
    return log->group;
}

uint32_t lq_rlog_incarnation(const struct lq_rlog *log)
{
    return log->incarnation;
}

uint64_t lq_rlog_first(const struct lq_rlog *log)
{
    return log->now.first;
}

uint64_t lq_rlog_last(const struct lq_rlog *log)
{
    return state_last(&log->now);
}

uint64_t lq_rlog_durable(const struct lq_rlog *log)
{
    return log->durable_index;
}

uint64_t lq_rlog_term_at(const struct lq_rlog *log, uint64_t index)
{
    if (index >= log->now.first && index <= state_last(&log->now)) {
        return entry_at(log, index).term;
    }
    if (log->now.begins_with_checkpoint && index == log->now.first - 1) {
        return log->now.checkpoints[0].meta.last_term;
    }
    return 0;
}

uint64_t lq_rlog_generation(const struct lq_rlog *log)
{
    return log->generation;
}

uint64_t lq_rlog_bytes(const struct lq_rlog *log)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < log->now.count; i++) {
        bytes += log->now.entries[i].size;
    }
    return bytes;
}

void lq_rlog_vote(const struct lq_rlog *log, uint64_t *term, uint64_t *voted_for)
{
    *term = log->now.term;
    *voted_for = log->now.voted_for;
}

uint64_t lq_rlog_set_vote(struct lq_rlog *log, uint64_t term, uint64_t voted_for)
{
    assert(term >= log->now.term);
    log->now.term = term;
    log->now.voted_for = voted_for;
    log->dirty = true;
    return ++log->now.vote_sequence;
}

lightq_status lq_rlog_append(struct lq_rlog *log, const struct lq_entry_ref *refs, size_t count)
{
    if (log->refuse_append != LIGHTQ_OK || log->health != LQ_RLOG_HEALTHY) {
        return log->refuse_append != LIGHTQ_OK ? log->refuse_append : LIGHTQ_ESTOPPED;
    }
    if (log->now.install != log->install_told) {
        return LIGHTQ_EBUSY;
    }
    uint64_t index = state_last(&log->now);
    uint64_t term = lq_rlog_term_at(log, index);
    for (size_t i = 0; i < count; i++) {
        struct lq_entry entry = entry_of(&refs[i]);
        if (entry.index != index + 1 || entry.prev_term != term || entry.term < term || entry.group != log->group) {
            return LIGHTQ_EINVAL;
        }
        index = entry.index;
        term = entry.term;
    }
    log->now.entries = sure_realloc(log->now.entries, (log->now.count + count) * sizeof *log->now.entries);
    assert(log->now.entries != NULL);
    for (size_t i = 0; i < count; i++) {
        log->now.entries[log->now.count++] = refs[i];
        lq_slab_ref(refs[i].slab);
    }
    log->dirty = true;
    return LIGHTQ_OK;
}

lightq_status lq_rlog_cut(struct lq_rlog *log, uint64_t index)
{
    assert(index >= log->now.first && index <= state_last(&log->now) + 1);
    while (state_last(&log->now) >= index) {
        lq_slab_unref(log->now.entries[--log->now.count].slab);
    }
    if (log->durable_index >= index) {
        log->durable_index = index - 1;
    }
    log->generation++;
    log->dirty = true;
    return LIGHTQ_OK;
}

size_t lq_rlog_peek(struct lq_rlog *log, uint64_t index, uint64_t bytes_max, size_t count_max,
                    struct lq_entry_ref *refs)
{
    size_t count = 0;
    uint64_t bytes = 0;
    if (index < log->evicted || index < log->now.first) {
        return 0;
    }
    for (; count < count_max && index + count <= state_last(&log->now) && (count == 0 || bytes < bytes_max); count++) {
        refs[count] = log->now.entries[index + count - log->now.first];
        lq_slab_ref(refs[count].slab);
        bytes += refs[count].size;
    }
    return count;
}

lightq_status lq_rlog_read(struct lq_rlog *log, struct lq_rlog_read *read)
{
    struct lq_store *store = log->store;
    if (read->index < log->now.first || read->index > state_last(&log->now)) {
        return LIGHTQ_EOUTOFRANGE;
    }
    assert(store->read_count < sizeof store->reads / sizeof store->reads[0]);
    read->generation = log->generation;
    store->read_logs[store->read_count] = log;
    store->reads[store->read_count++] = read;
    return LIGHTQ_OK;
}

/* ---- checkpoints ---- */

static struct fake_checkpoint *find_checkpoint(struct state *state, uint64_t last_index)
{
    for (size_t i = 0; i < state->checkpoint_count; i++) {
        if (state->checkpoints[i].meta.last_index == last_index) {
            return &state->checkpoints[i];
        }
    }
    return NULL;
}

/* A segment begins where the bytes since the first entry pass another multiple of segment_bytes. */
static bool begins_segment(const struct lq_rlog *log, uint64_t index)
{
    uint64_t bytes = 0;
    uint64_t before = 0;
    for (uint64_t i = log->now.first; i <= index && i <= state_last(&log->now); i++) {
        before = bytes;
        bytes += log->now.entries[i - log->now.first].size;
    }
    return index > log->now.first &&
           before / log->store->options.segment_bytes != bytes / log->store->options.segment_bytes;
}

bool lq_rlog_wants_checkpoint(const struct lq_rlog *log, uint64_t index)
{
    return begins_segment(log, index) && find_checkpoint((struct state *)&log->now, index - 1) == NULL &&
           log->now.checkpoint_count < CHECKPOINTS_MAX;
}

lightq_status lq_rlog_checkpoint(struct lq_rlog *log, const struct lq_checkpoint *checkpoint)
{
    assert(checkpoint->last_term == lq_rlog_term_at(log, checkpoint->last_index));
    checkpoint_copy(&log->now.checkpoints[log->now.checkpoint_count++], checkpoint);
    log->dirty = true;
    return LIGHTQ_OK;
}

bool lq_rlog_first_checkpoint(const struct lq_rlog *log, struct lq_checkpoint *checkpoint)
{
    if (log->now.begins_with_checkpoint) {
        *checkpoint = log->now.checkpoints[0].meta;
        checkpoint->state = NULL;
        checkpoint->state_size = 0;
    }
    return log->now.begins_with_checkpoint;
}

lightq_status lq_rlog_load_checkpoint(struct lq_rlog *log, uint64_t index_max, bool newest,
                                      struct lq_checkpoint *checkpoint, uint8_t **bytes, struct lq_err *err)
{
    const struct fake_checkpoint *found = NULL;
    for (size_t i = 0; i < log->now.checkpoint_count; i++) {
        const struct fake_checkpoint *at = &log->now.checkpoints[i];
        if (at->meta.last_index <= index_max && (found == NULL || newest)) {
            found = at;
        }
    }
    if (found == NULL || (!newest && !log->now.begins_with_checkpoint)) {
        return lq_err_set(err, LIGHTQ_ENOTFOUND, "no checkpoint");
    }
    struct fake_checkpoint copy;
    checkpoint_copy(&copy, &found->meta);
    *checkpoint = copy.meta;
    *bytes = copy.bytes;
    return LIGHTQ_OK;
}

uint64_t lq_rlog_trim_point(const struct lq_rlog *log, uint64_t index, struct lq_checkpoint *checkpoint)
{
    const struct fake_checkpoint *found = NULL;
    for (size_t i = 0; i < log->now.checkpoint_count; i++) {
        if (log->now.checkpoints[i].meta.last_index < index &&
            log->now.checkpoints[i].meta.last_index >= log->now.first) {
            found = &log->now.checkpoints[i];
        }
    }
    if (found == NULL) {
        return 0;
    }
    *checkpoint = found->meta;
    return found->meta.last_index;
}

static void drop_checkpoints_below(struct state *state, uint64_t last_index)
{
    size_t kept = 0;
    for (size_t i = 0; i < state->checkpoint_count; i++) {
        if (state->checkpoints[i].meta.last_index < last_index) {
            free(state->checkpoints[i].bytes);
        } else {
            state->checkpoints[kept++] = state->checkpoints[i];
        }
    }
    state->checkpoint_count = kept;
}

lightq_status lq_rlog_trim(struct lq_rlog *log, uint64_t last_index)
{
    struct state *state = &log->now;
    assert(find_checkpoint(state, last_index) != NULL && last_index >= state->first);
    size_t gone = (size_t)(last_index + 1 - state->first);
    for (size_t i = 0; i < gone; i++) {
        lq_slab_unref(state->entries[i].slab);
    }
    state->count -= gone;
    memmove(state->entries, state->entries + gone, state->count * sizeof *state->entries);
    state->first = last_index + 1;
    state->begins_with_checkpoint = true;
    drop_checkpoints_below(state, last_index);
    log->dirty = true;
    return LIGHTQ_OK;
}

lightq_status lq_rlog_install(struct lq_rlog *log, const struct lq_checkpoint *checkpoint)
{
    struct state *state = &log->now;
    uint64_t term = state->term;
    uint64_t voted_for = state->voted_for;
    uint64_t sequence = state->vote_sequence;
    uint64_t install = state->install;
    state_free(state);
    state->term = term;
    state->voted_for = voted_for;
    state->vote_sequence = sequence;
    state->install = install + 1;
    state->first = checkpoint->last_index + 1;
    state->begins_with_checkpoint = true;
    checkpoint_copy(&state->checkpoints[state->checkpoint_count++], checkpoint);
    log->durable_index = checkpoint->last_index;
    log->generation++;
    log->dirty = true;
    return LIGHTQ_OK;
}

size_t lq_rlog_changes(const struct lq_rlog *log, const struct lq_rlog_change **changes)
{
    struct lq_rlog *mutable_log = (struct lq_rlog *)log;
    size_t count = 0;
    for (size_t i = 0; i < log->now.count; i++) {
        struct lq_entry entry = entry_of(&log->now.entries[i]);
        if (entry.type == LQ_ENTRY_CHANGE) {
            assert(count < CHANGES_MAX);
            mutable_log->changes[count++] = (struct lq_rlog_change){
                .index = entry.index, .payload = entry.payload, .payload_size = entry.payload_size};
        }
    }
    *changes = log->changes;
    return count;
}

size_t lq_rlog_runs(const struct lq_rlog *log, const struct lq_rlog_run **runs)
{
    struct lq_rlog *mutable_log = (struct lq_rlog *)log;
    size_t count = 0;
    for (size_t i = 0; i < log->now.count; i++) {
        struct lq_entry entry = entry_of(&log->now.entries[i]);
        if (count == 0 || log->runs[count - 1].term != entry.term) {
            assert(count < RUNS_MAX);
            mutable_log->runs[count++] = (struct lq_rlog_run){.first = entry.index, .term = entry.term};
        }
        mutable_log->runs[count - 1].last = entry.index;
    }
    *runs = log->runs;
    return count;
}

uint64_t lq_rlog_seek_offset(const struct lq_rlog *log, uint64_t offset)
{
    (void)offset;
    return log->now.first;
}

uint64_t lq_rlog_seek_time(const struct lq_rlog *log, uint64_t timestamp_ms)
{
    (void)timestamp_ms;
    return log->now.first;
}

uint64_t lq_rlog_first_offset(const struct lq_rlog *log)
{
    return log->now.count == 0 ? 0 : entry_at(log, log->now.first).base_offset;
}

/* ---- faults ---- */

void fake_log_evict(struct lq_rlog *log, uint64_t index)
{
    log->evicted = index;
}

void fake_log_rot(struct lq_rlog *log, bool rotten)
{
    log->rotten = rotten;
}

void fake_log_refuse_append(struct lq_rlog *log, lightq_status status)
{
    log->refuse_append = status;
}

void fake_log_fail(struct lq_rlog *log, lightq_status status)
{
    struct lq_err err;
    lq_err_set(&err, status, "the disk failed (test)");
    log->health = LQ_RLOG_FAILED;
    if (log->events != NULL && log->events->failed != NULL) {
        log->events->failed(log->owner, status, &err);
    }
}

void fake_log_set_health(struct lq_rlog *log, enum lq_rlog_health health)
{
    log->health = health;
}
