/* client/lib/hash.h - uthash with one change: when there is no memory for a hash, adding leaves the element out
 * (hh.tbl is NULL) instead of ending the process. Include this, never uthash.h. */
#ifndef LQ_LIB_HASH_H
#define LQ_LIB_HASH_H

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#endif
