/* chaos/sim/reader.h - an application that reads one partition in order: subscribes from its offset, takes what is
 * delivered, gives credit, and subscribes again from where it is when the leader changes. Every message goes into the
 * history. */
#ifndef LQ_SIM_READER_H
#define LQ_SIM_READER_H

#include "chaos/sim/net.h"

enum reader_state { READER_IDLE, READER_ASKED, READER_RUNNING };

struct reader {
    struct client client;
    unsigned number, partition;
    uint32_t name; /* in the history */
    enum reader_state state;
    uint64_t next; /* offset */
    uint64_t subscription, correlation;
    unsigned node;
    uint64_t asked_us, retry_us;
    uint64_t credit; /* messages that may come */
    uint64_t term;   /* the highest that was heard of: a leader of a lower one has been deposed */
    bool from_first; /* where the log begins, not at next */
    bool stopped;
};

void reader_init(struct reader *reader, struct world *world, unsigned number, unsigned partition, bool final);
void reader_deinit(struct reader *reader);

#endif
