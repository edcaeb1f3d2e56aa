/* client/cli/print.h - how results look: text for people, or one JSON object (of lists: one per line). */
#ifndef LQ_CLI_PRINT_H
#define LQ_CLI_PRINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include <lightq/admin.h>

void print_done(bool json, const char *what, const char *kind, const char *name);
void print_altered(bool json, const char *topic, uint32_t partitions);
void print_purged(bool json, const char *topic, int32_t partition, const struct lightq_purged *purged);
void print_replaced(bool json, uint32_t old_node, uint32_t new_node, uint32_t replicas);
void print_transferred(bool json, const char *topic, uint32_t partition, uint32_t node);
void print_topic_list(bool json, const struct lightq_topic_list *list);
void print_topic(bool json, const struct lightq_topic_info *info);
void print_cluster(bool json, const struct lightq_cluster_info *info, struct lightq_topic_info *const *topics,
                   size_t topic_count);

/* Prints @object on a line of its own and gives it up. NULL (out of memory) prints nothing. */
void print_object(json_t *object);

#endif
