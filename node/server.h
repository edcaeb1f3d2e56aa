/* node/server.h - the whole node, from the first look at its directory to the last closed handle. Called by node/main.c
 * with the process set up; runs on the calling thread. */
#ifndef LQ_NODE_SERVER_H
#define LQ_NODE_SERVER_H

#include "client/base/clock.h"
#include "client/base/err.h"
#include "node/options.h"

/* Starts the node, prints "ready ..." on standard output when it serves, and returns when it was told to end (SIGTERM,
 * SIGINT; a second one ends the process at once). OK: it ended in good order. Anything else: it could not start (then
 * nothing on disk was changed but what recovery of its own files did) or not go on; @err says why and what to do. */
lightq_status lq_server_run(const struct lq_options *options, struct lq_clock *clock, struct lq_err *err) LQ_MUST_CHECK;

#endif
