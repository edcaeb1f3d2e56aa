/* tests/unit/node/catalog_fixture.h - a catalog that commands are given to, one by one, as committed entries. */
#ifndef LQ_TESTS_CATALOG_FIXTURE_H
#define LQ_TESTS_CATALOG_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node/catalog.h"
#include "node/catalog_command.h"

struct ledger {
    struct lq_catalog *catalog;
    uint64_t index;
};

static inline struct lq_id id_of(uint8_t first, uint8_t second)
{
    return (struct lq_id){.bytes = {first, second, 1}};
}

static inline struct lq_endpoint endpoint_of(uint16_t port)
{
    struct lq_endpoint endpoint = {.host = "127.0.0.1", .port = port};
    return endpoint;
}

static inline int ledger_setup(void **state)
{
    struct ledger *ledger = calloc(1, sizeof *ledger);
    assert_non_null(ledger);
    assert_int_equal(lq_catalog_new(&ledger->catalog), LIGHTQ_OK);
    *state = ledger;
    return 0;
}

static inline int ledger_teardown(void **state)
{
    struct ledger *ledger = *state;
    lq_catalog_free(ledger->catalog);
    free(ledger);
    return 0;
}

/* What the machine makes of @payload as the next entry. */
static inline lightq_status apply_payload(struct ledger *ledger, const uint8_t *payload, size_t size)
{
    const struct lq_entry entry = {.group = LQ_META_GROUP,
                                   .index = ++ledger->index,
                                   .term = 1,
                                   .type = LQ_ENTRY_COMMAND,
                                   .payload = payload,
                                   .payload_size = (uint32_t)size};
    return lq_catalog_apply(ledger->catalog, &entry);
}

/* Applies @command and gives its outcome. */
static inline lightq_status apply(struct ledger *ledger, const struct lq_catalog_command *command)
{
    struct lq_writer writer;
    lq_writer_init(&writer, LQ_CATALOG_COMMAND_BYTES_MAX);
    lq_catalog_command_encode(command, &writer);
    assert_int_equal(writer.status, LIGHTQ_OK);
    assert_int_equal(apply_payload(ledger, writer.bytes, writer.size), LIGHTQ_OK);
    lq_writer_deinit(&writer);
    return lq_catalog_outcome(ledger->catalog)->status;
}

/* A cluster of nodes 1 to @count, whose uuids are id_of(node, 1). */
static inline void begin(struct ledger *ledger, unsigned count)
{
    struct lq_catalog_command command = {.type = LQ_CATALOG_BEGIN, .begin = {.cluster = id_of(99, 1)}};
    for (unsigned i = 0; i < count; i++) {
        command.begin.founders.at[i] = (struct lq_founder){.node = i + 1,
                                                           .uuid = id_of((uint8_t)(i + 1), 1),
                                                           .client = endpoint_of((uint16_t)(5600 + i)),
                                                           .peer = endpoint_of((uint16_t)(5700 + i))};
    }
    command.begin.founders.count = count;
    assert_int_equal(apply(ledger, &command), LIGHTQ_OK);
}

static inline lightq_status join(struct ledger *ledger, uint32_t node, struct lq_id uuid, uint64_t boot)
{
    const struct lq_catalog_command command = {.type = LQ_CATALOG_JOIN,
                                               .node = {.id = node,
                                                        .uuid = uuid,
                                                        .boot = boot,
                                                        .shards = 1,
                                                        .client = endpoint_of((uint16_t)(5600 + node)),
                                                        .peer = endpoint_of((uint16_t)(5700 + node))}};
    return apply(ledger, &command);
}

static inline lightq_status replace(struct ledger *ledger, uint32_t old_node, struct lq_id uuid, uint32_t new_node)
{
    const struct lq_catalog_command command = {
        .type = LQ_CATALOG_REPLACE, .replace = {.old_node = old_node, .old_uuid = uuid, .new_node = new_node}};
    return apply(ledger, &command);
}

/* A topic whose partition p has replicas on @nodes. */
static inline lightq_status create(struct ledger *ledger, const char *name, struct lq_id uuid, uint32_t partitions,
                                   const uint16_t *nodes, uint8_t replicas)
{
    struct lq_catalog_command command = {.type = LQ_CATALOG_CREATE,
                                         .create = {.uuid = uuid, .partitions = partitions, .replicas = replicas}};
    size_t placed = (size_t)partitions * replicas;
    uint8_t *placement = malloc(placed * 2);
    assert_non_null(placement);
    for (size_t i = 0; i < placed; i++) {
        lq_put_u16(placement + 2 * i, nodes[i % replicas]);
    }
    (void)snprintf(command.create.name, sizeof command.create.name, "%s", name);
    lq_topic_config_init(&command.create.config);
    command.create.placement = placement;
    lightq_status status = apply(ledger, &command);
    free(placement);
    return status;
}

static inline lightq_status drop(struct ledger *ledger, struct lq_id uuid)
{
    const struct lq_catalog_command command = {.type = LQ_CATALOG_DELETE, .drop = {.uuid = uuid}};
    return apply(ledger, &command);
}

static inline lightq_status rebuild(struct ledger *ledger, uint64_t group, uint32_t node, uint32_t incarnation)
{
    const struct lq_catalog_command command = {.type = LQ_CATALOG_REBUILD,
                                               .rebuild = {.group = group, .node = node, .incarnation = incarnation}};
    return apply(ledger, &command);
}

static inline struct lq_writer catalog_bytes(const struct lq_catalog *catalog)
{
    struct lq_writer writer;
    lq_writer_init(&writer, LQ_CHECKPOINT_BYTES_MAX);
    assert_int_equal(lq_catalog_save(catalog, &writer), LIGHTQ_OK);
    return writer;
}

#endif
