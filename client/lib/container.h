/* client/lib/container.h - from a member to the struct it is embedded in. */
#ifndef LQ_LIB_CONTAINER_H
#define LQ_LIB_CONTAINER_H

#include <stddef.h>

#define lq_container(pointer, type, member) ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

#endif
