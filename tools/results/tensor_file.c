/* Reading safetensors files. */
#include "tools/results/tensor_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stage/file/file.h"

#define LENGTH_BYTES 8u

static int read_header(struct tensor_file *file, uint64_t file_bytes, char *problem, size_t problem_size)
{
    uint8_t length[LENGTH_BYTES];
    int rc = file_bytes < LENGTH_BYTES ? -EBADMSG : file_read_at(file->fd, 0, length, sizeof(length));
    const uint64_t bytes = rc == 0 ? safetensors_header_bytes(length) : 0;
    if (rc == 0 && (bytes > SAFETENSORS_HEADER_MAX || bytes > file_bytes - LENGTH_BYTES))
        rc = -EBADMSG;
    if (rc != 0)
        return rc;
    char *const header = malloc(bytes + 1);
    rc = header == NULL ? -ENOMEM : file_read_at(file->fd, LENGTH_BYTES, header, bytes);
    file->data_at = LENGTH_BYTES + bytes;
    if (rc == 0)
        rc = safetensors_index_read(&file->index, header, bytes, file_bytes - file->data_at, problem, problem_size);
    free(header);
    return rc;
}

/* torch.save writes a zip archive. */
static bool is_pickle(const struct tensor_file *file)
{
    char front[4];
    return file_read_at(file->fd, 0, front, sizeof(front)) == 0 && memcmp(front, "PK\3\4", sizeof(front)) == 0;
}

static int read_file(struct tensor_file *file, char *problem, size_t problem_size)
{
    struct stat status;
    if (file->fd < 0 || fstat(file->fd, &status) != 0) {
        snprintf(problem, problem_size, "cannot be read: %s", strerror(errno));
        return -ENODATA;
    }
    const int rc = S_ISREG(status.st_mode) ? read_header(file, (uint64_t)status.st_size, problem, problem_size)
                                           : -EBADMSG;
    if (rc == -EBADMSG && *problem == '\0')
        snprintf(problem, problem_size, "is no safetensors file%s",
                 is_pickle(file) ? ", but one of torch.save: safetensors.torch.save_file makes one" : "");
    else if (rc != 0 && *problem == '\0')
        snprintf(problem, problem_size, "cannot be read: %s", strerror(-rc));
    return rc == 0 || rc == -EBADMSG || rc == -ENOMEM ? rc : -ENODATA;
}

int tensor_file_open(struct tensor_file *file_out, int directory_fd, const char *path, char *problem_out,
                     size_t problem_size)
{
    struct tensor_file file = { .fd = openat(directory_fd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC) };
    *problem_out = '\0';
    const int rc = read_file(&file, problem_out, problem_size);
    if (rc == 0)
        *file_out = file;
    else
        tensor_file_close(&file);
    return rc;
}

int tensor_file_read(const struct tensor_file *file, const struct safetensors_tensor *tensor, void *bytes_out)
{
    return file_read_at(file->fd, file->data_at + tensor->offset, bytes_out, tensor->bytes);
}

void tensor_file_close(struct tensor_file *file)
{
    if (file->fd >= 0)
        close(file->fd);
    file->fd = -1;
    safetensors_index_release(&file->index);
}
