/* client/cli/print_group.h - how consumer groups look: text for people, or JSON. */
#ifndef LQ_CLI_PRINT_GROUP_H
#define LQ_CLI_PRINT_GROUP_H

#include <stdbool.h>

#include <lightq/group.h>

void print_group_done(bool json, const char *what, const char *topic, const char *group);
/* One object, or line, per group. */
void print_group_list(bool json, const char *topic, const struct lightq_group_list *list);
/* One object; or a line per partition and consumer. */
void print_group(bool json, const char *topic, const struct lightq_group_info *info);

#endif
