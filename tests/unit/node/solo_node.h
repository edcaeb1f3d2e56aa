/* tests/unit/node/solo_node.h - everything behind the client port of a node that is a cluster by itself: the real
 * router, queue, cluster part, Raft host and store, on a disk in memory, with a clock set by hand and clients that are
 * the test (tests/unit/node/client_fixture.h). */
#ifndef LQ_TESTS_SOLO_NODE_H
#define LQ_TESTS_SOLO_NODE_H

#include "tests/unit/node/lone_node.h"

#include "client/wire/batch.h"
#include "node/router.h"
#include "node/service.h"
#include "storage/io_mem.h"

struct solo_node {
    struct hand_clock clock;
    struct lq_options options;
    struct lq_store_options store_options;
    struct lq_io_mem *disk;
    struct lq_link link;
    struct lq_identity identity;
    struct lq_store *store;
    struct lq_host *host;
    struct lq_meta *meta;
    struct lq_counters counters;
    struct lq_service service;
    struct fake_outlet outlet;
    bool ready, store_closed;
    uint64_t correlation; /* of the last request */
};

/* Options can be changed between the two. */
void solo_node_init(struct solo_node *solo);
void solo_node_start(struct solo_node *solo);
void solo_node_deinit(struct solo_node *solo);

/* One turn of everything, the disk included. */
void solo_node_turn(struct solo_node *solo);
/* Everything but the disk, which does nothing. */
void solo_node_turn_without_disk(struct solo_node *solo);
/* Turns, with time going on, until @count messages were sent that the test has not taken; fails after a while. */
void solo_node_until_sent(struct solo_node *solo, size_t count);
/* Turns without time until nothing happens any more. */
void solo_node_settle(struct solo_node *solo);
void solo_node_advance(struct solo_node *solo, uint64_t ms);

/* A message from @peer: gives its correlation. @payload may be NULL; it is referenced as long as it is needed. */
uint64_t solo_node_say(struct solo_node *solo, lq_peer peer, uint16_t type, const ProtobufCMessage *message,
                       struct lq_slab *payload);
/* The same as bytes. */
void solo_node_say_bytes(struct solo_node *solo, lq_peer peer, const void *bytes, size_t size, struct lq_slab *payload);
/* HELLO, and its answer taken. */
void solo_node_hello(struct solo_node *solo, lq_peer peer);
/* A topic of one replica, by @peer who has a session; its uuid. */
struct lq_id solo_node_create(struct solo_node *solo, lq_peer peer, const char *name, uint32_t partitions);

/* A batch of @count messages of @size bytes. Caller drops the slab. */
struct lq_slab *solo_batch(uint64_t producer, uint64_t base_sequence, uint32_t count, size_t size);
/* PRODUCE of a batch to partition 0; drops the slab. */
uint64_t solo_node_produce(struct solo_node *solo, lq_peer peer, const struct lq_id *topic, struct lq_slab *batch);
/* The same, with its answer taken, which must be OK; gives the offset. */
uint64_t solo_node_stored(struct solo_node *solo, lq_peer peer, const struct lq_id *topic, struct lq_slab *batch);

#endif
