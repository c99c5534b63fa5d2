/* Opening and reading arrays. Opened by main while the npy converter prepares, read by any thread. */
#include "tools/convert/arrays/array.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stage/file/file.h"

static int no_memory(struct stop *stop)
{
    stop_fail(stop, EXIT_CODE_MEMORY, "no memory to read arrays");
    return -ENOMEM;
}

int array_fail(const struct array *array, struct stop *stop, const char *problem)
{
    stop_fail(stop, EXIT_CODE_DATA, "%s: %s", array->path, problem);
    return -EBADMSG;
}

int array_fail_shape(const struct array *array, struct stop *stop, const char *problem)
{
    char shape[NPY_RANK_MAX * 24] = "";
    size_t length = 0;

    for (uint32_t i = 0; i < array->npy.rank; i++)
        length += (size_t)snprintf(shape + length, sizeof(shape) - length, "%s%" PRIu64, i > 0 ? ", " : "",
                                   array->npy.dims[i]);
    stop_fail(stop, EXIT_CODE_DATA, "%s: has the shape (%s%s): %s", array->path, shape,
              array->npy.rank == 1 ? "," : "", problem);
    return -EBADMSG;
}

static int cannot_read(const struct array *array, int error, struct stop *stop)
{
    stop_fail(stop, exit_code_of(-error, EXIT_CODE_DATA), "%s: cannot read it: %s", array->path, exit_cause(-error));
    return -error;
}

/* Parse the header, whose first bytes are here, of an array of `all_bytes`. */
static int parse(struct array *array, const uint8_t *head, size_t head_bytes, uint64_t all_bytes, struct stop *stop)
{
    const char *problem;
    char text[128];

    if (npy_parse(head, head_bytes, &array->npy, &problem) < 0)
        return array_fail(array, stop, problem);
    const uint64_t held = all_bytes - array->npy.header_bytes;
    if (held == array->npy.data_bytes)
        return 0;
    snprintf(text, sizeof(text), "holds %" PRIu64 " bytes of numbers, but its shape needs %" PRIu64, held,
             array->npy.data_bytes);
    return array_fail(array, stop, text);
}

static int parse_file(struct array *array, uint64_t all_bytes, struct stop *stop)
{
    uint8_t *const head = malloc(NPY_HEADER_BYTES_MAX);
    if (head == NULL)
        return no_memory(stop);
    size_t got;
    int rc = file_read_some(array->fd, 0, head, NPY_HEADER_BYTES_MAX, &got);
    rc = rc < 0 ? cannot_read(array, -rc, stop) : parse(array, head, got, all_bytes, stop);
    free(head);
    return rc;
}

int array_open_file(struct array *array, const char *path, struct stop *stop)
{
    struct stat stat;

    *array = (struct array){ .fd = -1, .path = strdup(path) };
    if (array->path == NULL)
        return no_memory(stop);
    /* Without O_NONBLOCK a pipe without a writer would hold the program here. */
    array->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (array->fd < 0 || fstat(array->fd, &stat) != 0)
        return cannot_read(array, errno, stop);
    const char *const kind = file_kind(stat.st_mode);
    if (kind == NULL)
        return parse_file(array, (uint64_t)stat.st_size, stop);
    stop_fail(stop, EXIT_CODE_DATA, "%s: is %s, not a .npy file", path, kind);
    return -EINVAL;
}

int array_open_member(struct array *array, const char *path, const struct zip_member *member, struct stop *stop)
{
    const char *problem;

    *array = (struct array){ .fd = -1 };
    if (asprintf(&array->path, "%s: %.*s", path, (int)member->name_bytes, member->name) < 0) {
        array->path = NULL;
        return no_memory(stop);
    }
    array->bytes = malloc(member->unpacked_bytes > 0 ? member->unpacked_bytes : 1);
    const int rc = array->bytes != NULL ? zip_unpack(member, array->bytes, &problem) : -ENOMEM;
    if (rc == -ENOMEM) {
        stop_fail(stop, EXIT_CODE_MEMORY, "%s: no memory to unpack its %zu bytes: unpack the archive and name its .npy "
                  "files, which are read piece by piece", array->path, member->unpacked_bytes);
        return rc;
    }
    if (rc < 0)
        return array_fail(array, stop, problem);
    return parse(array, array->bytes, member->unpacked_bytes, member->unpacked_bytes, stop);
}

void array_close(struct array *array)
{
    if (array->fd >= 0)
        close(array->fd);
    free(array->path);
    free(array->bytes);
    *array = (struct array){ .fd = -1 };
}

int array_read(const struct array *array, uint64_t offset, void *out, size_t bytes, struct stop *stop)
{
    if (array->bytes != NULL) {
        memcpy(out, array->bytes + array->npy.header_bytes + offset, bytes);
        return 0;
    }
    size_t got;
    const int rc = file_read_some(array->fd, array->npy.header_bytes + offset, out, bytes, &got);
    if (rc < 0)
        return cannot_read(array, -rc, stop);
    return got == bytes ? 0 : array_fail(array, stop, "has become shorter while it was read");
}
