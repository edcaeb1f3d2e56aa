/* node/queue/table.h - uthash as we use it: running out of memory is told (the element is not in the table then:
 * hh.tbl is NULL), never the end of the process. */
#ifndef LQ_NODE_QUEUE_TABLE_H
#define LQ_NODE_QUEUE_TABLE_H

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#endif
