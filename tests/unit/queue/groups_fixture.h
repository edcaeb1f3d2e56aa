/* tests/unit/queue/groups_fixture.h - consumer groups of the partition of queue_fixture.h: made, filled and settled as
 * the front does it, and all turns taken until nothing is left to do. */
#ifndef LQ_TESTS_GROUPS_FIXTURE_H
#define LQ_TESTS_GROUPS_FIXTURE_H

#include "node/queue/partition_groups.h"
#include "tests/unit/node/queue_fixture.h"

struct changed {
    struct lq_group_request request;
    unsigned answers;
    lightq_status status;
};

static inline void on_changed(struct lq_group_request *request, lightq_status status)
{
    struct changed *changed = request->data;
    changed->answers++;
    changed->status = status;
}

static inline lightq_status change(struct fixture *f, struct changed *changed, const struct lq_command *command)
{
    *changed = (struct changed){.request = {.command = *command, .cb = on_changed, .data = changed}};
    return lq_partition_group_change(f->partition, &changed->request);
}

static inline void settle_turns(struct fixture *f)
{
    do {
        fixture_turn(f);
        fixture_apply_all(f);
    } while (lq_partition_needs_turn(f->partition));
}

static inline uint64_t create(struct fixture *f, const char *name, enum lq_cgroup_mode mode)
{
    struct changed made;
    struct lq_command command = {.type = LQ_COMMAND_GROUP_CREATE,
                                 .group_create = {.id = {.bytes = {9}},
                                                  .start = {.kind = LQ_CGROUP_START},
                                                  .name = name,
                                                  .name_size = (uint8_t)strlen(name)}};
    lq_cgroup_options_init(&command.group_create.options, mode);
    command.group_create.options.max_deliver = 2;
    assert_int_equal(change(f, &made, &command), LIGHTQ_OK);
    settle_turns(f);
    assert_int_equal(made.answers, 1);
    assert_int_equal(made.status, LIGHTQ_OK);
    return made.request.result.number;
}

static inline void produce_some(struct fixture *f, uint32_t count)
{
    struct produced p;
    assert_int_equal(produce(f, &p, 0, 0, 0, count), LIGHTQ_OK);
    settle_turns(f);
    assert_int_equal(p.status, LIGHTQ_OK);
}

struct settled {
    struct lq_settle_request request;
    struct lq_settle_item item;
    unsigned answers;
    lightq_status status;
};

static inline void on_settled(struct lq_settle_request *request, lightq_status status)
{
    struct settled *settled = request->data;
    settled->answers++;
    settled->status = status;
}

static inline lightq_status settle(struct fixture *f, struct settled *settled, uint64_t group,
                                   lq_lease_consumer consumer, enum lq_settle_kind kind, uint64_t first, uint32_t count)
{
    const struct lq_cgroup *cgroup = lq_cgroups_find(lq_partition_groups(f->partition), group);
    *settled = (struct settled){.item = {.kind = kind, .first = first, .count = count}};
    settled->request = (struct lq_settle_request){.group = group,
                                                  .generation = cgroup == NULL ? 0 : cgroup->generation,
                                                  .consumer = consumer,
                                                  .items = &settled->item,
                                                  .item_count = 1,
                                                  .cb = on_settled,
                                                  .data = settled};
    return lq_partition_settle(f->partition, &settled->request);
}

#endif
