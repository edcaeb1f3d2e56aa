/* tests/lib/raft_solo.h - one real Raft host, and a test that plays its peers: it sees every message the host sends,
 * and says what comes back, when it comes, and when the host's disk has done what. Node 1 is the host; its group is 7,
 * the peers are replicas of nodes 2, 3, ... with incarnation 1. Built on tests/lib/store_fake.h. */
#ifndef LQ_TESTS_RAFT_SOLO_H
#define LQ_TESTS_RAFT_SOLO_H

#include <raft.h>

#include "raft/group.h"
#include "raft/host.h"
#include "tests/lib/store_fake.h"

#define SOLO_GROUP    7
#define SOLO_SENT_MAX 4096
#define SOLO_SELF     lq_replica_make(1, 1)
#define SOLO_PEER(n)  lq_replica_make(n, 1)

/* What the host sent, decoded. */
struct solo_sent {
    uint32_t node;
    enum lq_frame_type type;
    struct raft_message message; /* server_id is the sender; entries are not kept */
    uint32_t entry_count;
    uint64_t first_index, last_index; /* of the entries */
    struct lq_rpc_piece piece;
    uint64_t at_ms;
};

struct solo_machine {
    struct solo *solo;
    uint64_t applied[4096]; /* indexes in order */
    unsigned applied_count;
    uint64_t state; /* sum of applied command payloads' first bytes: what save and load carry */
    unsigned loads, saves, leads, follows, stops, server_calls;
    uint64_t lead_term, follow_term;
    lq_replica_id leader;
    uint64_t trim_to;
    lightq_status stopped, apply_status;
    struct lq_servers servers;
    /* Called in apply, when set. */
    void (*on_apply)(struct solo_machine *machine, const struct lq_entry *entry);
};

struct solo {
    struct lq_clock clock;
    struct lq_link link;
    uint64_t now_us, random;
    struct fake_disk *disk;
    struct lq_store *store;
    struct lq_host *host;
    struct lq_group *group;
    struct solo_machine machine;
    struct solo_sent sent[SOLO_SENT_MAX];
    unsigned sent_count;
    bool connected[16];
    lightq_status send_status[16];
    uint64_t queued[16];
    unsigned unknown_groups;
    unsigned max_frame_entries;
    struct lq_host_options options;
    struct lq_store_options store_options;
};

/* A host with @voters voters (this one and nodes 2...), the group bootstrapped and started (unless 0: joining). */
void solo_init(struct solo *solo, unsigned voters);
/* Before the group is opened: options can be changed in between. */
void solo_prepare(struct solo *solo);
void solo_open(struct solo *solo, unsigned voters);
/* The same, giving what went wrong: without memory for it, say. */
lightq_status solo_try_open(struct solo *solo, unsigned voters) LQ_MUST_CHECK;
lightq_status solo_try_restart(struct solo *solo) LQ_MUST_CHECK;
void solo_deinit(struct solo *solo);
/* As a crash: what is not durable is lost. The group is opened again without bootstrap. */
void solo_restart(struct solo *solo);

void solo_turn(struct solo *solo);      /* a turn, then all the disk's news, then another turn, until nothing waits */
void solo_turn_only(struct solo *solo); /* one turn, the disk silent */
void solo_advance(struct solo *solo, unsigned ms); /* tick by tick, with solo_turn */
void solo_advance_only(struct solo *solo, unsigned ms);
/* Until it leads and its barrier is applied: the peers grant and acknowledge. */
void solo_lead(struct solo *solo);
/* Lets it follow @leader in @term. */
void solo_follow(struct solo *solo, lq_replica_id leader, uint64_t term);

/* An entry as a leader would seal it. Caller drops the slab. */
struct lq_entry_ref solo_entry(uint64_t index, uint64_t term, uint64_t prev_term, enum lq_entry_type type,
                               const void *payload, uint32_t size);
/* From a peer: AppendEntries with @count entries from prev + 1 on, entry i of type types[i] (0: command) and term
 * terms[i]; a CHANGE carries @servers. */
struct solo_append {
    lq_replica_id from;
    uint64_t term, prev, prev_term, commit;
    unsigned count;
    uint64_t terms[64];
    enum lq_entry_type types[64];
    struct lq_servers servers;
    uint8_t fill; /* first payload byte of commands */
};
lightq_status solo_append(struct solo *solo, const struct solo_append *append);
void solo_beat(struct solo *solo, lq_replica_id from, uint64_t term, uint64_t prev, uint64_t prev_term,
               uint64_t commit);
void solo_result(struct solo *solo, lq_replica_id from, uint64_t term, uint64_t rejected, uint64_t last);
void solo_message(struct solo *solo, lq_replica_id from, const struct raft_message *message);
lightq_status solo_install(struct solo *solo, lq_replica_id from, uint64_t term, const struct lq_rpc_piece *piece,
                           const uint8_t *bytes);
void solo_status(struct solo *solo, uint32_t node, uint64_t free_bytes);

/* The last sent message of a type to a node (0: any), or NULL. */
const struct solo_sent *solo_last(const struct solo *solo, enum raft_message_type type, uint32_t node);
unsigned solo_count(const struct solo *solo, enum raft_message_type type, uint32_t node);
void solo_forget_sent(struct solo *solo);
/* Every peer acknowledges all that is in the log. */
void solo_acknowledge(struct solo *solo);
lightq_status solo_submit(struct solo *solo, uint8_t fill, uint32_t size, uint64_t *index);

#endif
