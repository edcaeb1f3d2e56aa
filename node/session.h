/* node/session.h - who is connected: one session a client, from its HELLO to its BYE, the end of its connection, its
 * silence, or its not taking what it is sent. Owns everything that is bounded per client. Called by router.c,
 * produce.c, consume.c, admin.c, shard.c. Loop thread only.
 *
 * A session belongs to one connection (lq_peer), and a connection has one at most. Who breaks the protocol, is silent
 * for session.timeout.ms or does not take its answers loses the connection, and the session with it. */
#ifndef LQ_NODE_SESSION_H
#define LQ_NODE_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "client/base/clock.h"
#include "client/base/err.h"
#include "client/base/id.h"
#include "client/wire/codec.h"
#include "node/counters.h"
#include "node/options.h"
#include "node/outlet.h"
#include "node/queue/table.h"

struct lq_sessions;
struct lq_subscription;
struct lq_member;

#define LQ_SESSION_NAME_BYTES 64 /* of what a client calls itself, the end included; more is cut */

/* An answer that waits for room in the connection's queue. */
struct lq_waiting_answer;

struct lq_session {
    uint64_t number; /* never used again */
    lq_peer peer;
    uint64_t heard_us, told_us; /* monotonic: when it last said something, and when something was sent to it */
    /* produce.c */
    uint64_t produce_count, produce_bytes; /* being worked on */
    /* consume.c */
    struct lq_subscription *subscriptions;
    uint64_t subscription_count; /* those of pipeline groups included */
    /* pipeline.c, settle.c, groups.c */
    struct lq_member *members;
    uint64_t group_requests; /* being worked on */
    /* session.c */
    struct lq_waiting_answer *waiting, **waiting_end;
    uint64_t waiting_bytes;
    struct lq_session *prev, *next;                 /* by when it was heard, the longest silent first */
    struct lq_session *blocked_prev, *blocked_next; /* with answers waiting, or deliveries refused */
    char client_id[LQ_SESSION_NAME_BYTES];          /* of its HELLO */
    bool blocked;
    bool said_bye; /* one of the two: it ends cleanly */
    bool lost;     /* its connection is being closed: nothing is sent any more; lq_sessions_closed will end it */
    UT_hash_handle by_peer, by_number;
};

struct lq_sessions_events {
    /* The session ends; nothing can be sent to it any more. */
    void (*ended)(void *owner, struct lq_session *session);
    /* It was blocked, and can take something again. */
    void (*unblocked)(void *owner, struct lq_session *session);
};

/* @options, @outlet, @clock and @counters are borrowed. OK | ENOMEM. */
lightq_status lq_sessions_new(const struct lq_options *options, struct lq_outlet *outlet, struct lq_clock *clock,
                              struct lq_counters *counters, const struct lq_sessions_events *events, void *owner,
                              struct lq_sessions **sessions) LQ_MUST_CHECK;
/* Ends every session, with ended() for each. */
void lq_sessions_free(struct lq_sessions *sessions);

/* From now on HELLOs are accepted, for this cluster. Before they are refused with ENOTREADY and @why. */
void lq_sessions_serve(struct lq_sessions *sessions, const struct lq_id *cluster);
void lq_sessions_refuse(struct lq_sessions *sessions, const char *why);

/* The session of @peer, or NULL; it counts as heard from now. */
struct lq_session *lq_sessions_heard(struct lq_sessions *sessions, lq_peer peer);
/* The session @number, or NULL. */
struct lq_session *lq_sessions_find(const struct lq_sessions *sessions, uint64_t number);

/* HELLO: answers it, and opens a session (ending the one that the connection had). */
void lq_sessions_hello(struct lq_sessions *sessions, lq_peer peer, uint64_t correlation,
                       const Lightq__Wire__Hello *hello);
/* BYE: it ends. */
void lq_sessions_bye(struct lq_sessions *sessions, struct lq_session *session);
/* The connection broke the protocol: it is told @status and @text, and closed; its session, if any, ends. */
void lq_sessions_break_off(struct lq_sessions *sessions, lq_peer peer, uint64_t correlation, lightq_status status,
                           const char *text);
/* The connection is gone: its session, if any, ends. */
void lq_sessions_closed(struct lq_sessions *sessions, lq_peer peer);

/* Sends @message as an answer of @type. What does not go into the connection's queue waits; over session.bytes.max, or
 * memory.max for all sessions, the connection is closed. Never ends the session inside. */
void lq_session_answer(struct lq_sessions *sessions, struct lq_session *session, uint16_t type, uint64_t correlation,
                       uint64_t group, const ProtobufCMessage *message);
/* Sends an ERROR. The same rules. */
void lq_session_error(struct lq_sessions *sessions, struct lq_session *session, uint64_t correlation,
                      lightq_status status, const char *text);
/* False: it takes no delivery at the moment; unblocked() tells when to try again (or ended()). */
bool lq_session_takes(struct lq_sessions *sessions, struct lq_session *session);
/* Sends a delivery. OK | EBUSY: it takes nothing at the moment; unblocked() tells when to try again (or ended(), when
 * the connection turned out to be gone) | ENOMEM. Never ends the session inside. */
lightq_status lq_session_deliver(struct lq_sessions *sessions, struct lq_session *session,
                                 const Lightq__Wire__Deliver *deliver, uint64_t group, struct lq_slab *slab,
                                 uint32_t offset, uint32_t size) LQ_MUST_CHECK;
/* Where it is connected from, for people. */
void lq_session_address(struct lq_sessions *sessions, const struct lq_session *session, struct lq_address_text *text);
/* Sends @message to a connection that has no session. */
void lq_sessions_tell(struct lq_sessions *sessions, lq_peer peer, uint16_t type, uint64_t correlation,
                      const ProtobufCMessage *message);

/* Tries what waits. To be called in each turn. True while something waits: call it again within some milliseconds. */
bool lq_sessions_turn(struct lq_sessions *sessions);
/* Ends those that were silent too long (they are told BYE, and their connections are closed), and gives a sign of life
 * to those who heard nothing. To be called a few times a second. */
void lq_sessions_tick(struct lq_sessions *sessions);
/* Tells every session that the node is leaving (BYE), and ends them all; no HELLO is accepted any more. */
void lq_sessions_farewell(struct lq_sessions *sessions, lightq_status status, const char *text);
size_t lq_sessions_count(const struct lq_sessions *sessions);

#endif
