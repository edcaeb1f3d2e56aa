/* node/letter.c - see letter.h. */
#include "node/letter.h"

#include <string.h>

#include "node/catalog.h"
#include "node/codec.h"

#define ENTRY_BYTES       17 /* group u64, term u64, leads u8 */
#define GROUP_BYTES       8
#define REPORT_TEXT_BYTES sizeof(((struct lq_replica_report *)0)->text)
#define STATUS_MAX        1024 /* numbers above it are nonsense; unknown ones below are a newer node's */

/* ---- encode ---- */

static void put_card(const struct lq_node_card *card, struct lq_writer *writer)
{
    lq_write_u32(writer, card->node);
    lq_write_u32(writer, card->shards);
    lq_write_id(writer, &card->uuid);
    lq_write_u64(writer, card->boot);
    lq_write_endpoint(writer, &card->client);
    lq_write_endpoint(writer, &card->peer);
}

static void put_info(const struct lq_letter_info *info, struct lq_writer *writer)
{
    put_card(&info->card, writer);
    lq_write_u32(writer, info->expect);
    lq_write_u8(writer, (uint8_t)info->state);
    lq_write_u8(writer, info->has_proposal);
    lq_write_id(writer, &info->cluster);
    if (info->has_proposal) {
        lq_cluster_proposal_encode(&info->proposal, writer);
    }
}

static void put_joined(const struct lq_letter_joined *joined, struct lq_writer *writer)
{
    lq_write_u16(writer, (uint16_t)joined->status);
    lq_write_id(writer, &joined->uuid);
    lq_write_id(writer, &joined->cluster);
    lq_write_u32(writer, joined->incarnation);
    lq_write_text(writer, joined->text);
}

static void put_request(const struct lq_letter_request *request, struct lq_writer *writer)
{
    size_t name_size = strlen(request->name);
    lq_write_u64(writer, request->correlation);
    lq_write_u8(writer, (uint8_t)request->verb);
    lq_write_id(writer, &request->uuid);
    lq_write_u32(writer, request->verb == LQ_REQUEST_REPLACE ? request->live : request->partitions);
    lq_write_u32(writer, request->replicas);
    lq_write_u32(writer, request->node);
    lq_write_u32(writer, request->new_node);
    lq_write_u32(writer, request->incarnation);
    lq_write_u64(writer, request->group);
    lq_write_u8(writer, (uint8_t)name_size);
    lq_write_bytes(writer, request->name, name_size);
    if (request->verb == LQ_REQUEST_CREATE) {
        lq_topic_config_encode(&request->config, writer);
    } else if (request->verb == LQ_REQUEST_ALTER) {
        lq_write_u64(writer, request->mask);
        lq_topic_config_encode(&request->config, writer);
    } else if (request->verb == LQ_REQUEST_JOIN || request->verb == LQ_REQUEST_UPDATE) {
        put_card(&request->card, writer);
    }
}

static void put_reply(const struct lq_letter_reply *reply, struct lq_writer *writer)
{
    lq_write_u64(writer, reply->correlation);
    lq_write_u16(writer, (uint16_t)reply->status);
    lq_write_u32(writer, reply->leader);
    lq_write_id(writer, &reply->uuid);
    lq_write_u64(writer, reply->version);
    lq_write_u32(writer, reply->count);
    lq_write_u32(writer, reply->incarnation);
    lq_write_u32(writer, reply->replicas);
    lq_write_text(writer, reply->text);
}

static void put_report_head(const struct lq_letter_report *report, struct lq_writer *writer)
{
    lq_write_u8(writer, report->draining);
    lq_write_u64(writer, report->free_bytes);
    lq_write_u64(writer, report->total_bytes);
    lq_write_u32(writer, report->replicas);
    lq_write_u32(writer, report->leaders);
    lq_write_u64(writer, report->version);
    lq_write_u64(writer, report->first_group);
    lq_write_u64(writer, report->last_group);
    lq_write_u32(writer, report->count);
}

void lq_letter_encode(const struct lq_letter *letter, struct lq_writer *writer)
{
    lq_write_u8(writer, (uint8_t)letter->kind);
    lq_write_u8(writer, LQ_LETTER_VERSION);
    lq_write_u16(writer, 0);
    switch (letter->kind) {
    case LQ_LETTER_INFO:
        put_info(&letter->info, writer);
        break;
    case LQ_LETTER_JOIN:
        put_card(&letter->join, writer);
        break;
    case LQ_LETTER_JOINED:
        put_joined(&letter->joined, writer);
        break;
    case LQ_LETTER_REQUEST:
        put_request(&letter->request, writer);
        break;
    case LQ_LETTER_REPLY:
        put_reply(&letter->reply, writer);
        break;
    case LQ_LETTER_REPORT:
        put_report_head(&letter->report, writer);
        break;
    case LQ_LETTER_INSPECT:
        lq_write_u64(writer, letter->inspect.correlation);
        lq_write_u32(writer, letter->inspect.count);
        break;
    case LQ_LETTER_INSPECTED:
        lq_write_u64(writer, letter->inspected.correlation);
        lq_write_u32(writer, letter->inspected.count);
        break;
    case LQ_LETTER_RETIRE:
    case LQ_LETTER_RETIRED:
    case LQ_LETTER_RENEW:
        lq_write_u64(writer, letter->retire.group);
        lq_write_u32(writer, letter->retire.incarnation);
        break;
    }
}

void lq_letter_put_entry(const struct lq_report_entry *entry, struct lq_writer *writer)
{
    lq_write_u64(writer, entry->group);
    lq_write_u64(writer, entry->term);
    lq_write_u8(writer, entry->leads);
}

void lq_letter_put_report(const struct lq_replica_report *report, struct lq_writer *writer)
{
    const uint64_t words[] = {report->group,         report->term,         report->first_index,   report->last_index,
                              report->durable_index, report->commit_index, report->applied_index, report->start_offset,
                              report->end_offset,    report->digest,       report->digest_to};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        lq_write_u64(writer, words[i]);
    }
    lq_write_u32(writer, report->node);
    lq_write_u32(writer, report->incarnation);
    lq_write_u8(writer, (uint8_t)report->role);
    lq_write_u16(writer, (uint16_t)report->status);
    lq_write_text(writer, report->text);
}

/* ---- decode ---- */

static bool flag(struct lq_reader *reader)
{
    uint8_t value = lq_read_u8(reader);
    reader->failed |= value > 1;
    return value == 1;
}

static lightq_status status_of(struct lq_reader *reader)
{
    uint16_t number = lq_read_u16(reader);
    reader->failed |= number > STATUS_MAX;
    return (lightq_status)number;
}

static void get_card(struct lq_reader *reader, struct lq_node_card *card)
{
    card->node = lq_read_u32(reader);
    card->shards = lq_read_u32(reader);
    card->uuid = lq_read_id(reader);
    card->boot = lq_read_u64(reader);
    lq_read_endpoint(reader, &card->client);
    lq_read_endpoint(reader, &card->peer);
    reader->failed |= card->node == 0 || card->node > LQ_NODES_MAX || lq_id_is_zero(&card->uuid);
}

static void get_info(struct lq_reader *reader, struct lq_letter_info *info)
{
    get_card(reader, &info->card);
    info->expect = lq_read_u32(reader);
    info->state = (enum lq_identity_state)lq_read_u8(reader);
    info->has_proposal = flag(reader);
    info->cluster = lq_read_id(reader);
    if (reader->failed || info->state < LQ_IDENTITY_BLANK || info->state > LQ_IDENTITY_MEMBER ||
        (info->state == LQ_IDENTITY_MEMBER) == lq_id_is_zero(&info->cluster) ||
        (info->has_proposal ? info->state == LQ_IDENTITY_BLANK : info->state == LQ_IDENTITY_PROMISED)) {
        reader->failed = true;
        return;
    }
    if (info->has_proposal && lq_cluster_proposal_decode(reader, &info->proposal) != LIGHTQ_OK) {
        reader->failed = true;
    }
}

static void get_joined(struct lq_reader *reader, struct lq_letter_joined *joined)
{
    joined->status = status_of(reader);
    joined->uuid = lq_read_id(reader);
    joined->cluster = lq_read_id(reader);
    joined->incarnation = lq_read_u32(reader);
    lq_read_text(reader, joined->text, sizeof joined->text);
    reader->failed |= joined->status == LIGHTQ_OK && (lq_id_is_zero(&joined->cluster) || joined->incarnation == 0);
}

static bool verb_is_known(unsigned verb)
{
    return (verb >= LQ_REQUEST_CREATE && verb <= LQ_REQUEST_ALTER) ||
           (verb >= LQ_REQUEST_JOIN && verb <= LQ_REQUEST_REBUILD);
}

static void get_request(struct lq_reader *reader, struct lq_letter_request *request)
{
    request->correlation = lq_read_u64(reader);
    unsigned verb = lq_read_u8(reader);
    request->verb = (enum lq_request_verb)verb;
    request->uuid = lq_read_id(reader);
    request->partitions = lq_read_u32(reader);
    request->replicas = lq_read_u32(reader);
    request->node = lq_read_u32(reader);
    request->new_node = lq_read_u32(reader);
    request->incarnation = lq_read_u32(reader);
    request->group = lq_read_u64(reader);
    size_t name_size = lq_read_u8(reader);
    const uint8_t *name = lq_read_bytes(reader, name_size);
    bool named = verb == LQ_REQUEST_CREATE || verb == LQ_REQUEST_DELETE || verb == LQ_REQUEST_ALTER;
    if (reader->failed || !verb_is_known(verb) ||
        (named ? lq_topic_name_check((const char *)name, name_size) != LIGHTQ_OK : name_size != 0)) {
        reader->failed = true;
        return;
    }
    memcpy(request->name, name, name_size);
    if (verb == LQ_REQUEST_REPLACE) {
        reader->failed |= request->partitions > 1;
        request->live = request->partitions == 1;
        request->partitions = 0;
    }
    if (verb == LQ_REQUEST_CREATE) {
        reader->failed |= lq_topic_config_decode(reader, &request->config) != LIGHTQ_OK;
    } else if (verb == LQ_REQUEST_ALTER) {
        request->mask = lq_read_u64(reader);
        reader->failed |=
            !lq_topic_config_knows(request->mask) || lq_topic_config_decode(reader, &request->config) != LIGHTQ_OK;
    } else if (verb == LQ_REQUEST_JOIN || verb == LQ_REQUEST_UPDATE) {
        get_card(reader, &request->card);
    }
}

static void get_reply(struct lq_reader *reader, struct lq_letter_reply *reply)
{
    reply->correlation = lq_read_u64(reader);
    reply->status = status_of(reader);
    reply->leader = lq_read_u32(reader);
    reply->uuid = lq_read_id(reader);
    reply->version = lq_read_u64(reader);
    reply->count = lq_read_u32(reader);
    reply->incarnation = lq_read_u32(reader);
    reply->replicas = lq_read_u32(reader);
    lq_read_text(reader, reply->text, sizeof reply->text);
}

static void get_report_head(struct lq_reader *reader, struct lq_letter_report *report)
{
    report->draining = flag(reader);
    report->free_bytes = lq_read_u64(reader);
    report->total_bytes = lq_read_u64(reader);
    report->replicas = lq_read_u32(reader);
    report->leaders = lq_read_u32(reader);
    report->version = lq_read_u64(reader);
    report->first_group = lq_read_u64(reader);
    report->last_group = lq_read_u64(reader);
    report->count = lq_read_u32(reader);
    if (reader->failed || report->count > LQ_REPORT_ENTRIES_MAX) {
        reader->failed = true;
        return;
    }
    report->entries = lq_read_bytes(reader, (size_t)report->count * ENTRY_BYTES);
    for (uint32_t i = 0; !reader->failed && i < report->count; i++) {
        reader->failed = report->entries[(size_t)i * ENTRY_BYTES + ENTRY_BYTES - 1] > 1;
    }
}

static void get_inspected(struct lq_reader *reader, struct lq_letter_inspected *inspected)
{
    inspected->correlation = lq_read_u64(reader);
    inspected->count = lq_read_u32(reader);
    inspected->reports_size = (uint32_t)lq_reader_left(reader);
    inspected->reports = lq_read_bytes(reader, inspected->reports_size);
    reader->failed |= inspected->count > LQ_INSPECT_REPORTS_MAX;
    if (reader->failed) {
        return;
    }
    struct lq_reader reports = lq_reader_of(inspected->reports, inspected->reports_size);
    struct lq_replica_report report;
    for (uint32_t i = 0; i < inspected->count && !reader->failed; i++) {
        reader->failed = lq_letter_next_report(&reports, &report) != LIGHTQ_OK;
    }
    reader->failed |= lq_reader_left(&reports) != 0;
}

static void get_body(struct lq_reader *reader, struct lq_letter *letter)
{
    switch (letter->kind) {
    case LQ_LETTER_INFO:
        get_info(reader, &letter->info);
        break;
    case LQ_LETTER_JOIN:
        get_card(reader, &letter->join);
        break;
    case LQ_LETTER_JOINED:
        get_joined(reader, &letter->joined);
        break;
    case LQ_LETTER_REQUEST:
        get_request(reader, &letter->request);
        break;
    case LQ_LETTER_REPLY:
        get_reply(reader, &letter->reply);
        break;
    case LQ_LETTER_REPORT:
        get_report_head(reader, &letter->report);
        break;
    case LQ_LETTER_INSPECT:
        letter->inspect.correlation = lq_read_u64(reader);
        letter->inspect.count = lq_read_u32(reader);
        reader->failed |= letter->inspect.count > LQ_INSPECT_GROUPS_MAX;
        letter->inspect.groups =
            lq_read_bytes(reader, reader->failed ? 0 : (size_t)letter->inspect.count * GROUP_BYTES);
        break;
    case LQ_LETTER_INSPECTED:
        get_inspected(reader, &letter->inspected);
        break;
    case LQ_LETTER_RETIRE:
    case LQ_LETTER_RETIRED:
    case LQ_LETTER_RENEW:
        letter->retire.group = lq_read_u64(reader);
        letter->retire.incarnation = lq_read_u32(reader);
        break;
    }
}

lightq_status lq_letter_decode(const uint8_t *bytes, size_t size, struct lq_letter *letter)
{
    struct lq_reader reader = lq_reader_of(bytes, size);
    memset(letter, 0, sizeof *letter);
    unsigned kind = lq_read_u8(&reader);
    uint8_t version = lq_read_u8(&reader);
    uint16_t flags = lq_read_u16(&reader);
    if (reader.failed) {
        return LIGHTQ_EPROTO;
    }
    if (version != LQ_LETTER_VERSION || flags != 0 || kind < LQ_LETTER_INFO || kind > LQ_LETTER_RENEW) {
        return LIGHTQ_EVERSION;
    }
    letter->kind = (enum lq_letter_kind)kind;
    get_body(&reader, letter);
    return reader.failed || lq_reader_left(&reader) != 0 ? LIGHTQ_EPROTO : LIGHTQ_OK;
}

void lq_letter_get_entry(const struct lq_letter_report *report, uint32_t i, struct lq_report_entry *entry)
{
    const uint8_t *at = report->entries + (size_t)i * ENTRY_BYTES;
    entry->group = lq_get_u64(at);
    entry->term = lq_get_u64(at + 8);
    entry->leads = at[16] == 1;
}

lightq_status lq_letter_next_report(struct lq_reader *reader, struct lq_replica_report *report)
{
    memset(report, 0, sizeof *report);
    uint64_t *const words[] = {&report->group,         &report->term,          &report->first_index,
                               &report->last_index,    &report->durable_index, &report->commit_index,
                               &report->applied_index, &report->start_offset,  &report->end_offset,
                               &report->digest,        &report->digest_to};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        *words[i] = lq_read_u64(reader);
    }
    report->node = lq_read_u32(reader);
    report->incarnation = lq_read_u32(reader);
    unsigned role = lq_read_u8(reader);
    report->status = status_of(reader);
    lq_read_text(reader, report->text, REPORT_TEXT_BYTES);
    report->role = (enum lq_replica_role)role;
    report->answered = true;
    return reader->failed || role > LQ_REPLICA_STANDBY ? LIGHTQ_EPROTO : LIGHTQ_OK;
}

/* ---- send ---- */

lightq_status lq_letter_send_writer(struct lq_link *link, uint32_t node, struct lq_writer *writer)
{
    lightq_status status = writer->status;
    struct lq_slab *slab = status == LIGHTQ_OK ? lq_slab_new(writer->size) : NULL;
    if (status == LIGHTQ_OK && slab == NULL) {
        status = LIGHTQ_ENOMEM;
    }
    if (status == LIGHTQ_OK) {
        memcpy(slab->bytes, writer->bytes, writer->size);
        const struct lq_frame frame = {.type = LQ_FRAME_NODE, .body = slab, .body_size = (uint32_t)writer->size};
        status = link->ops->send(link, node, &frame);
    }
    lq_slab_unref(slab);
    lq_writer_deinit(writer);
    return status;
}

void lq_letter_send(struct lq_link *link, uint32_t node, const struct lq_letter *letter)
{
    struct lq_writer writer;
    lq_writer_init(&writer, LQ_NODE_FRAME_BYTES_MAX);
    lq_letter_encode(letter, &writer);
    lightq_status status = lq_letter_send_writer(link, node, &writer);
    (void)status; /* lost ones are said again */
}
