/* node/dead.c - see dead.h. A job is one group of one partition with letters to move. It goes: make the topic; tell the
 * group which topic it is (GROUP_DLQ, which begins its sequences); then read a letter, store it, and so on; and tell
 * the group what is stored (DONE). Whatever fails, it begins again: every step finds out what has been done already. */
#include "node/dead.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>
#include <xxhash.h>

#include "node/carry.h"
#include "node/cursor.h"
#include "node/dead_letter.h"
#include "storage/store.h"

#define JOBS_MAX         64  /* the others wait */
#define RUN_MAX          256 /* letters stored before they are told to be */
#define READ_STEPS_MAX   4096
#define LOOK_EVERY_US    UINT64_C(1000000)
#define LOOK_MAX         2000 /* partitions of the catalog looked at in one tick */
#define HINTS_MAX        64   /* what does not fit is found by looking */
#define RETRY_US         UINT64_C(200000)
#define RETRY_DOUBLES    7 /* to about 25 s */
#define CREATE_MS        10000
#define SEQUENCE_MIXER   UINT64_C(0x6c657474657273) /* so that no other hash of the same numbers is the same */
#define NAME_SUFFIX      ".dlq"
#define NAME_BYTES_SPARE (2 * LQ_NAME_BYTES_MAX + sizeof NAME_SUFFIX + 2)

struct job {
    struct lq_dead *dead;
    uint64_t group, number;
    struct lq_partition *partition;
    struct lq_partition_watcher watcher;
    struct lq_cursor cursor;
    bool placed; /* the cursor is at or before the letter's batch */
    uint64_t placed_at;
    bool is_waiting; /* a request of it is under way */
    bool is_gone;    /* it is freed when that comes back */
    bool renews;     /* its topic has forgotten its sequences */
    uint64_t at;     /* the letters below are stored */
    uint64_t retry_us;
    unsigned tries;
    const char *reason;
    struct lq_group_request change;
    struct lq_meta_request create;
    struct lq_topic_config config;
    struct lq_carry_request carry;
    char name[LQ_NAME_BYTES_MAX + 1];
    struct job *prev, *next;
};

struct lq_dead {
    struct lq_service *service;
    struct lq_carry *carry;
    struct job *jobs;
    size_t job_count;
    uint64_t look_us;   /* when they are looked for again from the first topic on */
    size_t look_topic;  /* that is looked at next ... */
    uint32_t look_part; /* ... and which of its partitions */
    uint64_t hints[HINTS_MAX];
    size_t hint_count;
};

static void run(struct job *job);

/* ---- the life of a job */

static void free_job(struct job *job)
{
    DL_DELETE(job->dead->jobs, job);
    job->dead->job_count--;
    free(job);
}

static void drop(struct job *job)
{
    lq_partition_unwatch(&job->watcher);
    lq_cursor_deinit(&job->cursor);
    job->is_gone = true;
    if (!job->is_waiting) {
        free_job(job);
    }
}

/* What was under way came back. False: the job is gone. */
static bool came_back(struct job *job)
{
    job->is_waiting = false;
    if (job->is_gone) {
        free_job(job);
        return false;
    }
    return true;
}

static void fail(struct job *job, const char *reason)
{
    unsigned doubles = job->tries < RETRY_DOUBLES ? job->tries : RETRY_DOUBLES;
    job->reason = reason;
    job->retry_us = lq_clock_monotonic_us(job->dead->service->clock) + (RETRY_US << doubles);
    job->tries++;
    job->placed = false;
    job->at = 0; /* from the first that is open */
}

static void on_partition(struct lq_partition_watcher *watcher, unsigned events)
{
    struct job *job = watcher->data;
    if ((events & (LQ_PARTITION_CLOSED | LQ_PARTITION_RELOADED)) != 0 || !lq_partition_leading(job->partition)) {
        drop(job);
    }
}

static void on_cursor(void *data)
{
    struct job *job = data;
    if (!job->is_waiting) {
        run(job);
    }
}

static struct job *find_job(const struct lq_dead *dead, uint64_t group, uint64_t number)
{
    struct job *job;
    DL_FOREACH(dead->jobs, job)
    {
        if (!job->is_gone && job->group == group && job->number == number) {
            return job;
        }
    }
    return NULL;
}

static void begin(struct lq_dead *dead, uint64_t group, struct lq_partition *partition, uint64_t number)
{
    struct job *job = dead->job_count < JOBS_MAX ? calloc(1, sizeof *job) : NULL;
    if (job == NULL) {
        return; /* it is looked for again */
    }
    job->dead = dead;
    job->group = group;
    job->number = number;
    job->partition = partition;
    job->reason = "";
    job->watcher = (struct lq_partition_watcher){.cb = on_partition, .data = job};
    lq_partition_watch(partition, &job->watcher);
    lq_cursor_init(&job->cursor, dead->service, partition, 0, on_cursor, job);
    DL_APPEND(dead->jobs, job);
    dead->job_count++;
    run(job);
}

/* ---- making the topic */

static void on_created(struct lq_meta_request *request, lightq_status status)
{
    struct job *job = request->data;
    if (!came_back(job)) {
        return;
    }
    if (status == LIGHTQ_OK) {
        run(job);
    } else {
        fail(job, "the topic of its dead letters cannot be made at the moment");
    }
}

static void create_topic(struct job *job, const struct lq_catalog_topic *source)
{
    struct lq_service *service = job->dead->service;
    uint64_t bytes_max = source->config.max_message_bytes + LQ_BATCH_OVERHEAD_BYTES;
    lq_topic_config_init(&job->config);
    job->config.max_message_bytes = bytes_max < LQ_MESSAGE_BYTES_MAX ? bytes_max : LQ_MESSAGE_BYTES_MAX;
    job->create = (struct lq_meta_request){.verb = LQ_META_TOPIC_CREATE,
                                           .name = job->name,
                                           .partitions = (uint32_t)service->options->shards,
                                           .replicas = source->replicas,
                                           .config = &job->config,
                                           .timeout_ms = CREATE_MS,
                                           .cb = on_created,
                                           .data = job};
    if (lq_meta_submit(service->meta, &job->create) == LIGHTQ_OK) {
        job->is_waiting = true;
    } else {
        fail(job, "the topic of its dead letters cannot be made at the moment");
    }
}

/* ---- telling the group */

static void on_changed(struct lq_group_request *request, lightq_status status)
{
    struct job *job = request->data;
    if (!came_back(job)) {
        return;
    }
    if (status == LIGHTQ_OK) {
        job->renews = false;
        run(job);
    } else {
        fail(job, "what became of its dead letters cannot be stored at the moment");
    }
}

static void change(struct job *job, const struct lq_command *command)
{
    job->change = (struct lq_group_request){.command = *command, .cb = on_changed, .data = job};
    if (lq_partition_group_change(job->partition, &job->change) == LIGHTQ_OK) {
        job->is_waiting = true;
    } else {
        fail(job, "what became of its dead letters cannot be stored at the moment");
    }
}

static void begin_epoch(struct job *job, const struct lq_cgroup *cgroup, const struct lq_id *topic)
{
    struct lq_command command = {.type = LQ_COMMAND_GROUP_DLQ};
    command.group_dlq = (struct lq_cgroup_dlq){.group = job->number, .epoch = cgroup->dead.epoch + 1, .topic = *topic};
    job->at = 0;
    change(job, &command);
}

static void tell_done(struct job *job)
{
    struct lq_command command = {.type = LQ_COMMAND_DONE};
    command.done = (struct lq_cgroup_done){.group = job->number, .number = job->at};
    change(job, &command);
}

/* ---- storing */

/* The verdict about a letter. True: go on. */
static bool judge(struct job *job, lightq_status status)
{
    switch (status) {
    case LIGHTQ_OK:
    case LIGHTQ_EDUPLICATE:
        job->dead->service->counters->dead_letters++;
        job->at++;
        job->tries = 0;
        job->reason = "";
        return true;
    case LIGHTQ_EOUTOFSEQUENCE:
    case LIGHTQ_EFENCED:
        job->renews = true;
        job->at = 0;
        return true;
    default:
        fail(job, "the topic of its dead letters cannot be reached at the moment");
        return false;
    }
}

static void on_stored(struct lq_carry_request *request, lightq_status status)
{
    struct job *job = request->data;
    lq_slab_unref(request->slab);
    if (came_back(job) && judge(job, status)) {
        run(job);
    }
}

/* Each epoch of a group is a producer of its own. */
static uint64_t producer_of(const struct job *job, const struct lq_cgroup *cgroup)
{
    const uint64_t numbers[] = {job->group, job->number, cgroup->dead.epoch};
    uint64_t id = XXH64(numbers, sizeof numbers, SEQUENCE_MIXER);
    return id == 0 ? 1 : id;
}

/* True: go on with the next letter. */
static bool store(struct job *job, const struct lq_catalog_partition *source, uint64_t group,
                  const struct lq_cgroup *cgroup, const struct lq_entry *entry, const uint8_t *bytes, uint32_t size)
{
    const struct lq_dead_letter_origin origin = {.topic = source->topic->name,
                                                 .partition = source->number,
                                                 .group = cgroup->name,
                                                 .letter = lq_dead_letters_at(&cgroup->dead, job->at)};
    struct lq_slab *batch = NULL;
    lightq_status status = lq_dead_letter_pack(&origin, bytes, size, entry->base_offset, producer_of(job, cgroup),
                                               job->at - cgroup->dead.base, &batch);
    if (status != LIGHTQ_OK) {
        fail(job, "a message cannot be made a dead letter: there is no memory, or it is too large with its headers");
        return false;
    }
    job->carry = (struct lq_carry_request){.group = group, .slab = batch, .cb = on_stored, .data = job};
    status = lq_carry_store(job->dead->carry, &job->carry);
    if (status != LIGHTQ_OK) { /* decided at once; EDUPLICATE: an earlier leader has stored it */
        lq_slab_unref(batch);
        return judge(job, status);
    }
    job->is_waiting = true;
    return false;
}

/* This replica's data cannot be read, or not now. Others, who have it too, go on; the job may be gone then. */
static void give_up(struct job *job, lightq_status status)
{
    if (status == LIGHTQ_EIO || status == LIGHTQ_ECORRUPT) {
        const char *why;
        job->is_waiting = true;
        (void)lq_cursor_give_up(&job->cursor, status, &why);
        if (!came_back(job)) {
            return;
        }
    }
    fail(job, "a message that was given up cannot be read at the moment");
}

/* Looks for the letter's message, and stores it. True: go on with the next letter. False: the job may be gone. */
static bool read_letter(struct job *job, const struct lq_catalog_partition *source, uint64_t group,
                        const struct lq_cgroup *cgroup)
{
    uint64_t offset = lq_dead_letters_at(&cgroup->dead, job->at)->offset;
    struct lq_group *raft = lq_partition_group(job->partition);
    if (raft == NULL) {
        fail(job, "the partition is not open");
        return false;
    }
    if (!job->placed || offset < job->placed_at) {
        lq_cursor_seek(&job->cursor, lq_rlog_seek_offset(lq_group_log(raft), offset));
        job->placed = true;
    }
    job->placed_at = offset;
    for (unsigned i = 0; i < READ_STEPS_MAX; i++) {
        struct lq_entry entry;
        struct lq_slab *slab;
        const uint8_t *bytes;
        uint32_t size;
        lightq_status status = lq_cursor_next(&job->cursor, &entry, &slab);
        if (status == LIGHTQ_EBUSY) {
            return false; /* on_cursor comes */
        }
        if (status != LIGHTQ_OK) {
            give_up(job, status);
            return false;
        }
        if (lq_partition_entry_batch(&entry, &bytes, &size) && entry.base_offset + entry.message_count > offset) {
            bool goes_on = store(job, source, group, cgroup, &entry, bytes, size);
            lq_cursor_rest(&job->cursor);
            return goes_on;
        }
        lq_cursor_step(&job->cursor);
    }
    fail(job, "a message that was given up is being looked for");
    return false;
}

/* ---- what is next */

/* The partition of @topic that belongs to this shard; 0: none does. */
static uint64_t own_partition(const struct lq_meta *meta, const struct lq_catalog_topic *topic)
{
    for (uint32_t i = 0; i < topic->partition_count; i++) {
        if (lq_meta_is_mine(meta, topic->partitions[i].group)) {
            return topic->partitions[i].group;
        }
    }
    return 0;
}

static bool take_name(struct job *job, const struct lq_catalog_topic *source, const struct lq_cgroup *cgroup)
{
    char name[NAME_BYTES_SPARE];
    int size = snprintf(name, sizeof name, "%s.%s" NAME_SUFFIX, source->name, cgroup->name);
    if (size <= 0 || (size_t)size >= sizeof job->name) {
        return false;
    }
    memcpy(job->name, name, (size_t)size + 1);
    return true;
}

/* The job has a source and letters; nothing of it is under way. True: once more. False: the job may be gone. */
static bool advance(struct job *job, const struct lq_catalog_partition *source, const struct lq_cgroup *cgroup)
{
    const struct lq_meta *meta = job->dead->service->meta;
    const struct lq_dead_letters *letters = &cgroup->dead;
    if (!take_name(job, source->topic, cgroup)) {
        fail(job, "the names of topic and group are too long for that of the topic of its dead letters");
        return false;
    }
    const struct lq_catalog_topic *topic = lq_catalog_topic(lq_meta_catalog(meta), job->name);
    if (topic == NULL) {
        create_topic(job, source->topic);
        return false;
    }
    uint64_t group = own_partition(meta, topic);
    if (group == 0) {
        fail(job, "the topic of its dead letters needs as many partitions as a node has shards");
        return false;
    }
    if (letters->epoch == 0 || job->renews || !lq_id_equal(&letters->topic, &topic->uuid)) {
        begin_epoch(job, cgroup, &topic->uuid);
        return false;
    }
    job->at = job->at < letters->done ? letters->done : job->at;
    if (job->at >= letters->next || job->at - letters->done >= RUN_MAX) {
        tell_done(job);
        return false;
    }
    return read_letter(job, source, group, cgroup);
}

/* Whether there is something to do for it, and here. */
static const struct lq_catalog_partition *source_of(const struct job *job, const struct lq_cgroup *cgroup)
{
    const struct lq_meta *meta = job->dead->service->meta;
    bool has_letters = cgroup != NULL && cgroup->dead.next > cgroup->dead.done;
    if (meta == NULL || !has_letters || !lq_partition_leading(job->partition)) {
        return NULL;
    }
    return lq_catalog_partition(lq_meta_catalog(meta), job->group);
}

static void run(struct job *job)
{
    bool goes_on = true;
    while (goes_on) {
        const struct lq_cgroup *cgroup = lq_cgroups_find(lq_partition_groups(job->partition), job->number);
        const struct lq_catalog_partition *source = source_of(job, cgroup);
        if (source == NULL) {
            drop(job);
            return;
        }
        goes_on = advance(job, source, cgroup);
    }
}

/* ---- looking for letters */

static void look_at(struct lq_dead *dead, uint64_t group)
{
    struct lq_partition *partition = lq_meta_partition(dead->service->meta, group);
    if (partition == NULL || !lq_partition_leading(partition)) {
        return;
    }
    const struct lq_cgroups *cgroups = lq_partition_groups(partition);
    for (size_t i = 0; i < cgroups->count; i++) {
        const struct lq_cgroup *cgroup = cgroups->at[i];
        if (cgroup->dead.next > cgroup->dead.done && find_job(dead, group, cgroup->number) == NULL) {
            begin(dead, group, partition, cgroup->number);
        }
    }
}

/* Some more of the catalog. */
static void look(struct lq_dead *dead, uint64_t now_us)
{
    const struct lq_catalog *catalog = lq_meta_catalog(dead->service->meta);
    for (unsigned i = 0; i < LOOK_MAX && dead->look_topic < lq_catalog_topic_count(catalog); i++) {
        const struct lq_catalog_topic *topic = lq_catalog_topic_at(catalog, dead->look_topic);
        if (dead->look_part < topic->partition_count) {
            look_at(dead, topic->partitions[dead->look_part++].group);
        } else {
            dead->look_part = 0;
            dead->look_topic++;
        }
    }
    if (dead->look_topic >= lq_catalog_topic_count(catalog)) {
        dead->look_topic = 0;
        dead->look_part = 0;
        dead->look_us = now_us + LOOK_EVERY_US;
    }
}

void lq_dead_hint(struct lq_dead *dead, uint64_t group)
{
    if (dead->hint_count < HINTS_MAX) {
        dead->hints[dead->hint_count++] = group;
    }
}

void lq_dead_tick(struct lq_dead *dead)
{
    uint64_t now_us = lq_clock_monotonic_us(dead->service->clock);
    struct job *job, *next;
    lq_carry_tick(dead->carry);
    if (dead->service->meta == NULL) {
        return;
    }
    DL_FOREACH_SAFE(dead->jobs, job, next)
    {
        if (!job->is_gone && !job->is_waiting && job->retry_us != 0 && now_us >= job->retry_us) {
            job->retry_us = 0;
            run(job);
        }
    }
    while (dead->hint_count > 0) {
        look_at(dead, dead->hints[--dead->hint_count]);
    }
    if (now_us >= dead->look_us) {
        look(dead, now_us);
    }
}

const char *lq_dead_reason(const struct lq_dead *dead, uint64_t group, uint64_t number)
{
    const struct job *job = find_job(dead, group, number);
    return job == NULL ? "" : job->reason;
}

/* ---- life */

lightq_status lq_dead_new(struct lq_service *service, struct lq_dead **out)
{
    struct lq_dead *dead = calloc(1, sizeof *dead);
    if (dead == NULL) {
        return LIGHTQ_ENOMEM;
    }
    dead->service = service;
    lightq_status status = lq_carry_new(service, &dead->carry);
    if (status != LIGHTQ_OK) {
        free(dead);
        return status;
    }
    *out = dead;
    return LIGHTQ_OK;
}

void lq_dead_free(struct lq_dead *dead)
{
    lq_carry_free(dead->carry); /* which gives back what is with other nodes */
    assert(dead->jobs == NULL);
    free(dead);
}
