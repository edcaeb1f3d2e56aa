/* node/queue/sealed.h - the frame around a state that a checkpoint holds: of a partition (queue/state.c) and of the
 * catalog (catalog_save.c). Pure memory, any thread.
 *
 *      0  magic    u32
 *      4  version  u16
 *      6  flags    u16   0
 *      8  fields ...
 *         crc32c   u32   over all before it */
#ifndef LQ_QUEUE_SEALED_H
#define LQ_QUEUE_SEALED_H

#include "client/base/buf.h"

/* The head of a state. Gives where it begins, for lq_sealed_end. */
size_t lq_sealed_begin(struct lq_writer *writer, uint32_t magic, uint16_t version);
/* The crc behind the fields. The writer's status: OK | ENOMEM | ETOOBIG. */
lightq_status lq_sealed_end(struct lq_writer *writer, size_t begin) LQ_MUST_CHECK;
/* Checks @bytes; *reader then gives the fields. OK | ECORRUPT | EVERSION (sound, of another version). */
lightq_status lq_sealed_open(const uint8_t *bytes, size_t size, uint32_t magic, uint16_t version,
                             struct lq_reader *reader) LQ_MUST_CHECK;

#endif
