/* chaos/sim/wraps.h - what wraps.c keeps for the simulator. */
#ifndef LQ_SIM_WRAPS_H
#define LQ_SIM_WRAPS_H

#include "chaos/sim/world.h"

/* Before a world's first node starts, and after its last one has ended. One world at a time. */
void wraps_begin(struct world *world);
void wraps_end(void);

/* Before the store of a node is abandoned: the host's own reads are its own to free. */
void wraps_stop(struct machine *machine);
/* After that: the other ones are told ECANCELED, so that who waits for them lets go. */
void wraps_cancel_reads(struct machine *machine);

#endif
