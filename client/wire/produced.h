/* client/wire/produced.h - what the status of an answer to PRODUCE says of the batch that was sent. Whoever sends
 * batches again goes by it: client/lib/sender_answer.c, and the producer of chaos/sim. Pure. */
#ifndef LQ_WIRE_PRODUCED_H
#define LQ_WIRE_PRODUCED_H

#include <lightq/status.h>

enum lq_produced {
    LQ_PRODUCED_STORED,    /* it is in the log */
    LQ_PRODUCED_REFUSED,   /* this attempt did not store it, and another will not either */
    LQ_PRODUCED_NOT_NOW,   /* this attempt did not store it, another may */
    LQ_PRODUCED_NOT_KNOWN, /* it may be stored or not: the same bytes again will tell */
    LQ_PRODUCED_GAP,       /* this attempt did not store it: the one before it is missing, or its producer not known */
};

enum lq_produced lq_produced_says(lightq_status status);

#endif
