/* node/codec.h - the pieces that the node's formats have in common: identities, addresses, founders. Used by the
 * catalog, the identity file and the frames between nodes. Pure functions. */
#ifndef LQ_NODE_CODEC_H
#define LQ_NODE_CODEC_H

#include "client/base/buf.h"
#include "client/base/id.h"
#include "node/endpoint.h"
#include "node/identity.h"

void lq_write_id(struct lq_writer *writer, const struct lq_id *id);
struct lq_id lq_read_id(struct lq_reader *reader);

/* host_length u8 | host | port u16. A host that is empty, or has bytes that no host has, fails the reader. */
void lq_write_endpoint(struct lq_writer *writer, const struct lq_endpoint *endpoint);
void lq_read_endpoint(struct lq_reader *reader, struct lq_endpoint *endpoint);

/* count u32 | count times: id u32, uuid 16 bytes, client, peer; ids ascend. */
void lq_write_founders(struct lq_writer *writer, const struct lq_founders *founders);
void lq_read_founders(struct lq_reader *reader, struct lq_founders *founders);
/* The founder with id @node, or NULL. */
const struct lq_founder *lq_founder_find(const struct lq_founders *founders, uint32_t node);

/* u16 length | bytes, cut to what fits; read into @text of @size with a zero behind. Bytes that are no printable text
 * fail the reader. */
void lq_write_text(struct lq_writer *writer, const char *text);
void lq_read_text(struct lq_reader *reader, char *text, size_t size);

#endif
