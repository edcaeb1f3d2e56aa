/* storage/io_path.h - which paths an io takes. Called by io_uv.c and io_mem.c, on any thread. */
#ifndef LQ_STORAGE_IO_PATH_H
#define LQ_STORAGE_IO_PATH_H

#include <stdbool.h>

#include "client/base/err.h"

#define LQ_IO_PATH_BYTES_MAX 1023
#define LQ_IO_NAME_BYTES_MAX 255

/* A path is relative to the io's root: names of 1 to 255 bytes with one '/' between them, none of them "." or "..",
 * 1023 bytes at most. "" is the root, and taken only with @root_allowed. OK | EINVAL (NULL too). */
lightq_status lq_io_path_check(const char *path, bool root_allowed, struct lq_err *err) LQ_MUST_CHECK;

#endif
