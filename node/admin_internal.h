/* node/admin_internal.h - what admin.c and describe.c share. */
#ifndef LQ_NODE_ADMIN_INTERNAL_H
#define LQ_NODE_ADMIN_INTERNAL_H

#include <stddef.h>

#include "node/admin.h"

struct lq_admin {
    struct lq_service *service;
    size_t under_way; /* changes and looks that node/meta.c has */
};

#endif
