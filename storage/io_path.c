/* storage/io_path.c - refuses paths that could lead out of the io's root, or name one file in two ways. */
#include "storage/io_path.h"

#include <string.h>

static bool is_name(const char *name, size_t size)
{
    if (size == 0 || size > LQ_IO_NAME_BYTES_MAX) {
        return false;
    }
    bool is_dots = name[0] == '.' && (size == 1 || (size == 2 && name[1] == '.'));
    return !is_dots;
}

lightq_status lq_io_path_check(const char *path, bool root_allowed, struct lq_err *err)
{
    if (path == NULL) {
        return lq_err_set(err, LIGHTQ_EINVAL, "no path was given");
    }
    if (path[0] == '\0') {
        return root_allowed ? LIGHTQ_OK : lq_err_set(err, LIGHTQ_EINVAL, "an empty path was given");
    }
    if (strlen(path) > LQ_IO_PATH_BYTES_MAX) {
        return lq_err_set(err, LIGHTQ_EINVAL, "path longer than %d bytes: %.64s...", LQ_IO_PATH_BYTES_MAX, path);
    }
    for (const char *name = path;;) {
        size_t size = strcspn(name, "/");
        if (!is_name(name, size)) {
            return lq_err_set(err, LIGHTQ_EINVAL,
                              "path %s: names must have 1 to %d bytes and not be '.' or '..', with one '/' between",
                              path, LQ_IO_NAME_BYTES_MAX);
        }
        if (name[size] == '\0') {
            return LIGHTQ_OK;
        }
        name += size + 1;
    }
}
