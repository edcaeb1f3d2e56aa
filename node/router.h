/* node/router.h - what a client's message means: the envelope is decoded, the session is found, and the part that
 * handles its type is called. Called by node/front.c (through node/shard.c); loop thread only. */
#ifndef LQ_NODE_ROUTER_H
#define LQ_NODE_ROUTER_H

#include "node/front.h"
#include "node/service.h"

void lq_router_receive(struct lq_service *service, const struct lq_front_message *message);

#endif
