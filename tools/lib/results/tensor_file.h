/* Reading safetensors files: their index, and their tensors as bytes or as floats. Used by one thread at a time. */
#ifndef PIPETRAIN_TENSOR_FILE_H
#define PIPETRAIN_TENSOR_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/safetensors.h"

/* Metadata of our files: this key, followed by a tensor's name, has the XXH3 of the tensor's bytes as hexadecimal
 * digits. */
#define TENSOR_HASH_KEY "pipetrain.xxh3."
#define TENSOR_HASH_DIGITS 16u
#define TENSOR_NAME_BYTES 112u          /* of a name that we write, terminated */

struct tensor_hash { char key[sizeof(TENSOR_HASH_KEY) + TENSOR_NAME_BYTES], text[TENSOR_HASH_DIGITS + 1]; };

struct tensor_hash tensor_hash_of(const char *name, uint64_t hash);

struct tensor_file {
    int fd;
    uint64_t data_at;           /* the offset of the tensors in the file */
    struct safetensors_index index;
};

/* Open a file and read its header; `path` is relative to the directory `directory_fd` (AT_FDCWD: the current one). 0,
 * -ENOMEM, -ENODATA (cannot be read) or -EBADMSG (not such a file, or damaged), with what is wrong in problem_out.
 * After an error it is closed. */
int tensor_file_open(struct tensor_file *file_out, int directory_fd, const char *path, char *problem_out,
                     size_t problem_size);
/* Read a tensor of the index: tensor->bytes. 0 or a negative errno (-EBADMSG: the file has become shorter). */
int tensor_file_read(const struct tensor_file *file, const struct safetensors_tensor *tensor, void *bytes_out);
/* Do the metadata have this hash for the tensor? Where they have none: `if_none`. */
bool tensor_file_has_hash(const struct tensor_file *file, const struct safetensors_tensor *tensor, uint64_t hash,
                          bool if_none);
void tensor_file_close(struct tensor_file *file);

/* Bytes of a number of type "F32", "F16", "BF16" or "F64"; 0 for other types. */
size_t tensor_number_bytes(const char *dtype);
/* Convert `count` numbers of such a type to floats; F64 is rounded to nearest, others are exact. The ranges do not
 * overlap. */
void tensor_numbers(const char *dtype, const void *numbers, float *floats_out, size_t count);

#endif
