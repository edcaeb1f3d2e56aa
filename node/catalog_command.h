/* node/catalog_command.h - the commands of the meta group's log: the payload of its entries of type COMMAND. Little
 * endian; drawn in docs/format/commands.md.
 *
 *      0  type     u8    enum lq_catalog_command_type
 *      1  version  u8    1
 *      2  flags    u16   0
 *   BEGIN      4 cluster, 16 bytes | 20 founders (codec.h)
 *   JOIN       4 node u32 | 8 uuid, 16 bytes | 24 boot u64 | 32 shards u32 | 36 client, peer
 *   UPDATE     as JOIN
 *   REPLACE    4 old u32 | 8 old's uuid, 16 bytes | 24 new u32
 *   CREATE     4 partitions u32 | 8 topic uuid, 16 bytes | 24 replicas u8 | 25 name_length u8 | 26 name |
 *              configuration | for each partition, replicas times: node u16; the first should lead
 *   DELETE     4 reserved u32, 0 | 8 topic uuid, 16 bytes
 *   REBUILD    4 node u32 | 8 group u64 | 16 incarnation u32: of the replica that is to be made anew
 *   GROW       4 node u32 | 8 group u64: the node gets a replica that the partition lacks
 *   ALTER      4 first u32: partitions it has | 8 topic uuid, 16 bytes | 24 added u32: partitions it gets |
 *              28 replicas u8 | 29 mask u64: which options change (queue/topic_config.h) | 37 configuration |
 *              for each added partition, replicas times: node u16; the first should lead
 *   an address (client, peer): host_length u8, host, port u16
 *
 * Called by catalog_apply.c and controller.c. Pure functions. */
#ifndef LQ_NODE_CATALOG_COMMAND_H
#define LQ_NODE_CATALOG_COMMAND_H

#include <stdint.h>

#include "client/base/buf.h"
#include "client/base/id.h"
#include "node/endpoint.h"
#include "node/identity.h"
#include "node/queue/topic_config.h"

/* A number is never used again. */
enum lq_catalog_command_type {
    LQ_CATALOG_BEGIN = 1,   /* the first one: the founders */
    LQ_CATALOG_JOIN = 2,    /* a new node, or the one that is awaited */
    LQ_CATALOG_UPDATE = 3,  /* a node has other addresses, or was started again */
    LQ_CATALOG_REPLACE = 4, /* by itself with an empty directory, or by another */
    LQ_CATALOG_CREATE = 5,
    LQ_CATALOG_DELETE = 6,
    LQ_CATALOG_REBUILD = 7, /* one replica, under a new incarnation */
    LQ_CATALOG_GROW = 8,    /* one more replica of a partition that has fewer than wanted */
    LQ_CATALOG_ALTER = 9,   /* a topic's options, and its number of partitions, which only grows */
};

#define LQ_CATALOG_COMMAND_VERSION   1
#define LQ_CATALOG_COMMAND_BYTES_MAX (1024u * 1024)

struct lq_catalog_command {
    enum lq_catalog_command_type type;
    union {
        struct {
            struct lq_id cluster;
            struct lq_founders founders;
        } begin;
        struct {
            uint32_t id;
            uint32_t shards;
            struct lq_id uuid;
            uint64_t boot;
            struct lq_endpoint client, peer;
        } node; /* JOIN, UPDATE */
        struct {
            uint32_t old_node, new_node;
            struct lq_id old_uuid;
        } replace;
        struct {
            struct lq_id uuid;
            uint32_t partitions;
            uint8_t replicas;
            char name[LQ_NAME_BYTES_MAX + 1];
            struct lq_topic_config config;
            const uint8_t *placement; /* partitions * replicas node ids of 2 bytes, inside the payload */
        } create;
        struct {
            struct lq_id uuid;
        } drop;
        struct {
            uint64_t group;
            uint32_t node, incarnation;
        } rebuild;
        struct {
            uint64_t group;
            uint32_t node;
        } grow;
        struct {
            struct lq_id uuid;
            uint32_t first, added; /* partitions it has, when added is not 0; and gets */
            uint8_t replicas;      /* of each that is added */
            uint64_t mask;         /* of the options that change */
            struct lq_topic_config config;
            const uint8_t *placement; /* as in create, of the added ones */
        } alter;
    };
};

void lq_catalog_command_encode(const struct lq_catalog_command *command, struct lq_writer *writer);
/* OK | ECORRUPT | EVERSION. */
lightq_status lq_catalog_command_decode(const uint8_t *payload, uint32_t size,
                                        struct lq_catalog_command *command) LQ_MUST_CHECK;

#endif
