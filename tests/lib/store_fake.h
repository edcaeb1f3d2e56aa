/* tests/lib/store_fake.h - storage/store.h in memory, for tests of raft/: nothing becomes durable before the test says
 * so, and each kind of news can be held back by itself. It takes the place of lq_store at link time. The "disk" is what
 * survives a crash; it is given to lq_store_open as the io. */
#ifndef LQ_TESTS_STORE_FAKE_H
#define LQ_TESTS_STORE_FAKE_H

#include "storage/store.h"

struct fake_disk;

struct fake_disk *fake_disk_new(void);
/* After the store on it was closed or abandoned. */
void fake_disk_free(struct fake_disk *disk);
struct lq_io *fake_disk_io(struct fake_disk *disk);
void fake_disk_set_space(struct fake_disk *disk, uint64_t free_bytes, uint64_t total_bytes);

/* All that was flushed becomes durable, and the events are made; reads are answered. Votes and entries can be held. */
void fake_store_complete(struct lq_store *store);
void fake_store_hold_votes(struct lq_store *store, bool hold);
void fake_store_hold_entries(struct lq_store *store, bool hold);
void fake_store_hold_reads(struct lq_store *store, bool hold);
/* Entries below @index are no longer in memory: peek gives none of them. */
void fake_log_evict(struct lq_rlog *log, uint64_t index);
/* Reads give ECORRUPT. */
void fake_log_rot(struct lq_rlog *log, bool rotten);
/* The next append gives @status (ESTOPPED, ENOMEM). */
void fake_log_refuse_append(struct lq_rlog *log, lightq_status status);
/* Tells failed(). */
void fake_log_fail(struct lq_rlog *log, lightq_status status);
void fake_log_set_health(struct lq_rlog *log, enum lq_rlog_health health);
/* Changes that wait for fake_store_complete. */
bool fake_store_pending(const struct lq_store *store);

#endif
