/* node/queue/name.h - what topics and consumer groups may be called. Called by the catalog and by cgroup_command.c.
 * Pure function. */
#ifndef LQ_NODE_QUEUE_NAME_H
#define LQ_NODE_QUEUE_NAME_H

#include <stddef.h>

#include "client/base/err.h"

/* 1 to LQ_NAME_BYTES_MAX of the characters A-Z a-z 0-9 . _ - and not "." or "..". OK | ENAME. */
lightq_status lq_name_check(const char *name, size_t size) LQ_MUST_CHECK;

#endif
