/* client/lib/client.h - the client object, which producers, consumers and administration stand on. Any thread but
 * where said. */
#ifndef LQ_LIB_CLIENT_H
#define LQ_LIB_CLIENT_H

#include <stdatomic.h>

#include <lightq/lightq.h>

#include "client/lib/guard.h"
#include "client/lib/io.h"

struct lightq {
    struct lq_io io;
    struct lq_guard guard;
    atomic_uint users; /* open producers and consumers */
};

/* True when this process is a child of the one that made @client. */
static inline bool lq_client_forked(const struct lightq *client)
{
    return lq_guard_forked(&client->guard);
}

/* Whether @name can be a topic's. OK | ENAME. */
lightq_status lq_topic_name_check(const char *name) LQ_MUST_CHECK;

/* The sentence for callers that nobody answered: what was tried last. */
lightq_status lq_client_trouble(struct lightq *client, lightq_status status, struct lightq_error *error);

#endif
