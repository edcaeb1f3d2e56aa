/* client/wire/scan.h - looking through protobuf bytes before anything is allocated for them. Only codec.c calls it. */
#ifndef LQ_WIRE_SCAN_H
#define LQ_WIRE_SCAN_H

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>

#include "client/base/err.h"

/* Whether @size bytes are a message of @descriptor within bounds: whole fields of the shapes the schema names, each
 * field that is not repeated once at most, at most @elements_max elements in all repeated fields together, strings of
 * LQ_CODEC_STRING_BYTES_MAX at most in UTF-8 without a zero, unknown fields within their bounds.
 * OK | EPROTO; @err (may be NULL) names the field. */
lightq_status lq_scan_message(const ProtobufCMessageDescriptor *descriptor, const void *bytes, size_t size,
                              size_t elements_max, struct lq_err *err) LQ_MUST_CHECK;

#endif
