/* node/service.c - see service.h. */
#include "node/service.h"

#include <string.h>

void lq_service_hint(const struct lq_service *service, uint64_t group, struct lq_leader_hint *hint)
{
    struct lq_leader leader = lq_meta_leader(service->meta, group);
    lightq__wire__leader__init(&hint->leader);
    hint->endpoint[0] = '\0';
    hint->leader.endpoint = hint->endpoint;
    hint->leader.term = leader.term;
    const struct lq_catalog_node *node = NULL;
    if (leader.node != 0) {
        node = lq_catalog_node(lq_meta_catalog(service->meta), leader.node);
    }
    if (node != NULL) {
        struct lq_endpoint at = node->client;
        at.port = (uint16_t)(at.port + lq_shard_of(group, (unsigned)service->options->shards));
        hint->leader.node = leader.node;
        lq_endpoint_format(&at, hint->endpoint);
    }
}

lightq_status lq_service_place(const struct lq_service *service, const ProtobufCBinaryData *topic, uint32_t number,
                               uint64_t group, const struct lq_catalog_partition **placed, const char **text)
{
    const struct lq_catalog *catalog = lq_meta_catalog(service->meta);
    struct lq_id uuid;
    if (lq_codec_id(topic, &uuid) != LIGHTQ_OK) {
        *text = "the topic id is not 16 bytes long";
        return LIGHTQ_EPROTO;
    }
    const struct lq_catalog_partition *found = group == LQ_META_GROUP ? NULL : lq_catalog_partition(catalog, group);
    if (found != NULL && found->number == number && lq_id_equal(&found->topic->uuid, &uuid)) {
        *placed = found;
        return LIGHTQ_OK;
    }
    const struct lq_catalog_topic *named = lq_catalog_topic_by_id(catalog, &uuid);
    if (named != NULL && number < named->partition_count) {
        *placed = &named->partitions[number];
        return LIGHTQ_OK;
    }
    if (named == NULL && (group == LQ_META_GROUP || group >= lq_catalog_next_group(catalog))) {
        *text = "this node has not heard of that topic";
        return LIGHTQ_ENOTREADY;
    }
    *text = named == NULL ? "the topic has been deleted" : "the topic has no partition of that number";
    return LIGHTQ_ENOTFOUND;
}

lightq_status lq_service_not_leading(const struct lq_service *service, uint64_t group, const char **text)
{
    struct lq_leader leader = lq_meta_leader(service->meta, group);
    if (leader.node != 0 && leader.node != service->options->node_id) {
        *text = "another node leads that partition";
        return LIGHTQ_ENOTLEADER;
    }
    if (leader.node != 0 && !lq_meta_is_mine(service->meta, group)) {
        *text = "another shard of this node leads that partition";
        return LIGHTQ_ENOTLEADER;
    }
    struct lq_partition *partition = lq_meta_partition(service->meta, group);
    if (partition != NULL) {
        struct lq_partition_status status;
        lq_partition_status(partition, &status);
        if (status.stopped) {
            *text = "the replica of that partition on this node has stopped";
            return LIGHTQ_ESTOPPED;
        }
    }
    *text = "no leader of that partition is known at the moment";
    return LIGHTQ_ENOLEADER;
}

lightq_status lq_service_lead(const struct lq_service *service, const ProtobufCBinaryData *topic, uint32_t number,
                              uint64_t group, const struct lq_catalog_partition **placed,
                              struct lq_partition **partition, const char **text)
{
    lightq_status status = lq_service_place(service, topic, number, group, placed, text);
    if (status != LIGHTQ_OK) {
        return status;
    }
    *partition = lq_meta_partition(service->meta, (*placed)->group);
    if (*partition != NULL && lq_partition_leading(*partition)) {
        return LIGHTQ_OK;
    }
    return lq_service_not_leading(service, (*placed)->group, text);
}
