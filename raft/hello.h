/* raft/hello.h - who is at the other end of a peer connection: the first frame of each side, and the rules by which it
 * is believed. Called by transport.c and the fuzzer; calls client/base only. No I/O. docs/format/peer.md explains it.
 *
 * Both are frames of type HELLO (group 0), all head, little endian:
 *
 *      0  magic         8 bytes   "LQPEER", 0, 0
 *      8  kind          u8        1 hello (from who connected), 2 answer
 *      9  version_min   u8        of the peer protocol, as the sender speaks it; an answer that accepts: the one chosen
 *     10  version_max   u8
 *     11  flags         u8        1 probe: only tell who you are; other bits 0
 *     12  status        u16       answers: lightq_status; 0 accepts. hello: 0
 *     14  shard         u16       the sender's
 *     16  shards        u16       how many the sender has
 *     18  zero          u16
 *     20  node          u32       the sender's node id
 *     24  to            u32       the node meant; 0 whoever answers (probe)
 *     28  zero          u32
 *     32  cluster       16 bytes  zero while the sender belongs to none
 *     48  uuid          16 bytes  of the sender's data directory
 *     64  boot_count    u64       how often that directory was started
 *     72  boot_nonce    u64       random, of this start
 *     80  text_size     u16
 *     82  zero          6 bytes
 *     88  text          an answer that refuses: why, and what to do about it
 *      -  admission     u32       behind the text, left out when it is 0: of the sender's data directory
 *
 * The admission is how late the directory was let into its cluster: the incarnation of its replica of the meta group.
 * These count up over the whole cluster, so of two directories that were the same node the later has the higher one.
 *
 * Later versions may add bytes behind that: they are not looked at, so that the version range always reads. */
#ifndef LQ_RAFT_HELLO_H
#define LQ_RAFT_HELLO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/base/err.h"
#include "client/base/id.h"
#include "client/base/limits.h"

#define LQ_PEER_VERSION_MIN 1
#define LQ_PEER_VERSION_MAX 1

#define LQ_HELLO_FIXED_BYTES 88

enum lq_hello_kind { LQ_HELLO_ASK = 1, LQ_HELLO_ANSWER = 2 };

struct lq_hello {
    enum lq_hello_kind kind;
    uint8_t version_min, version_max;
    bool probe;
    lightq_status status;
    uint16_t shard, shards;
    uint32_t node, to;
    struct lq_id cluster, uuid;
    uint64_t boot_count, boot_nonce;
    uint32_t admission;           /* 0: belongs to no cluster, or does not say */
    char text[LQ_ERR_TEXT_BYTES]; /* "" but in an answer that refuses */
};

_Static_assert(LQ_HELLO_FIXED_BYTES + LQ_ERR_TEXT_BYTES + 4 <= LQ_HELLO_BYTES_MAX, "a hello fits");

/* Writes @hello to @at, which has LQ_HELLO_BYTES_MAX bytes, and returns its size. */
uint32_t lq_hello_put(uint8_t *at, const struct lq_hello *hello);

/* OK | EPROTO (no hello of @kind: @err says what). A hello of a version range we do not know reads as far as its fixed
 * part goes. */
lightq_status lq_hello_get(const uint8_t *at, size_t size, enum lq_hello_kind kind, struct lq_hello *hello,
                           struct lq_err *err) LQ_MUST_CHECK;

/* Whether @self can talk with @other at all, whatever was seen before. OK
 * | EVERSION (no version in common)
 * | EIDENTITY (our own node id or uuid, another cluster, meant for another node)
 * | EUNSUPPORTED (another number of shards, or another shard's port)
 * each with a sentence that names both sides and the remedy. A cluster that is zero goes with any. */
lightq_status lq_hello_judge(const struct lq_hello *self, const struct lq_hello *other,
                             struct lq_err *err) LQ_MUST_CHECK;

/* The version both speak; judge must have been OK. */
uint8_t lq_hello_version(const struct lq_hello *self, const struct lq_hello *other);

/* What was last seen of a node. */
struct lq_hello_seen {
    bool uuid_known, boot_known;
    struct lq_id uuid;
    uint64_t boot_count, boot_nonce;
};

/* Whether @other comes from another data directory than the one @seen. */
bool lq_hello_is_another(const struct lq_hello_seen *seen, const struct lq_hello *other);
/* Whether @other can be the node that was @seen. OK | EIDENTITY: another uuid, a lower boot count (restored from a
 * copy), or another nonce of the same boot count (two copies of one directory). */
lightq_status lq_hello_compare(const struct lq_hello_seen *seen, const struct lq_hello *other,
                               struct lq_err *err) LQ_MUST_CHECK;
void lq_hello_remember(struct lq_hello_seen *seen, const struct lq_hello *other);

#endif
