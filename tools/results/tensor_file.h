/* A safetensors file that is read: what stands in it, and its tensors. Used by one thread at a time. */
#ifndef PIPETRAIN_TENSOR_FILE_H
#define PIPETRAIN_TENSOR_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "formats/safetensors.h"

/* Of the metadata of files of ours, and the tensor's name behind it: the XXH3 of its bytes, 16 hexadecimal digits. */
#define TENSOR_HASH_KEY "pipetrain.xxh3."

struct tensor_file {
    int fd;
    uint64_t data_at;           /* where the tensors begin in the file */
    struct safetensors_index index;
};

/* Open a file, `path` as of the directory `directory_fd` (AT_FDCWD: of the working one), and read its header; none of
 * the tensors. 0, -ENOMEM, -ENODATA (cannot be read) or -EBADMSG (is none, or is damaged), with what is wrong in
 * problem_out. After a failure it is closed. */
int tensor_file_open(struct tensor_file *file_out, int directory_fd, const char *path, char *problem_out,
                     size_t problem_size);
/* A tensor of the index, tensor->bytes of it. 0 or a negative errno (-EBADMSG: the file was cut since). */
int tensor_file_read(const struct tensor_file *file, const struct safetensors_tensor *tensor, void *bytes_out);
void tensor_file_close(struct tensor_file *file);

#endif
