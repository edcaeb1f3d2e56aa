/* node/admin.h - TOPIC_CREATE, TOPIC_ALTER, TOPIC_DELETE, NODE_REPLACE, PARTITION_TRANSFER: changes, made by
 * node/meta.c wherever the controller is; TOPIC_DESCRIBE and CLUSTER_STATUS: what every replica says of itself, asked
 * for through node/meta.c. Called by router.c; loop thread only. */
#ifndef LQ_NODE_ADMIN_H
#define LQ_NODE_ADMIN_H

#include "node/service.h"

/* OK | ENOMEM. @service is borrowed. */
lightq_status lq_admin_new(struct lq_service *service, struct lq_admin **admin) LQ_MUST_CHECK;
/* The meta must be gone: no request is under way any more. */
void lq_admin_free(struct lq_admin *admin);

void lq_admin_topic_create(struct lq_admin *admin, const struct lq_request *request);
void lq_admin_topic_alter(struct lq_admin *admin, const struct lq_request *request);
void lq_admin_topic_delete(struct lq_admin *admin, const struct lq_request *request);
void lq_admin_node_replace(struct lq_admin *admin, const struct lq_request *request);
void lq_admin_transfer(struct lq_admin *admin, const struct lq_request *request);
void lq_admin_describe(struct lq_admin *admin, const struct lq_request *request);
void lq_admin_cluster_status(struct lq_admin *admin, const struct lq_request *request);

#endif
