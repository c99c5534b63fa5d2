/* Reads safetensors files with weights or checkpoints, of this and other programs: their index, and their tensors as
 * bytes or as floats. Used by one thread at a time. */
#ifndef PIPETRAIN_TENSOR_FILE_H
#define PIPETRAIN_TENSOR_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compute/net.h"
#include "formats/safetensors.h"

/* Metadata in our files: this key, followed by a tensor's name, contains the XXH3 of the tensor's bytes as hexadecimal
 * digits. */
#define TENSOR_HASH_KEY "pipetrain.xxh3."
#define TENSOR_HASH_DIGITS 16u
#define TENSOR_NAME_BYTES 112u          /* size of a name that we write, terminated */

struct tensor_hash { char key[sizeof(TENSOR_HASH_KEY) + TENSOR_NAME_BYTES], text[TENSOR_HASH_DIGITS + 1]; };

struct tensor_hash tensor_hash_of(const char *name, uint64_t hash);

struct tensor_file {
    int fd;
    uint64_t data_at;           /* the offset of the tensors in the file */
    struct safetensors_index index;
};

/* Open a file and read its header. 0, -ENOMEM, -ENODATA (cannot be read) or -EBADMSG (not a safetensors file, or
 * damaged), with the problem in problem_out. After an error it is closed. */
int tensor_file_open(struct tensor_file *file_out, const char *path, char *problem_out, size_t problem_size);
/* The same for a file that is already open, whose descriptor it takes over. */
int tensor_file_take(struct tensor_file *file_out, int fd, char *problem_out, size_t problem_size);
/* Read the tensor->bytes bytes of a tensor of the index. 0 or a negative errno (-EBADMSG: the file has become
 * shorter). */
int tensor_file_read(const struct tensor_file *file, const struct safetensors_tensor *tensor, void *bytes_out);
/* Read a tensor as floats: `count` numbers of a type that tensor_number_bytes knows; `bytes_out` is a buffer for the
 * tensor's bytes unless it is F32. -EILSEQ: the tensor was read, but its hash differs; otherwise as
 * tensor_file_read. */
int tensor_file_load(const struct tensor_file *file, const struct safetensors_tensor *tensor, size_t count,
                     void *bytes_out, float *floats_out);
/* Compare all tensors with their hashes, which must exist. 0; -EILSEQ, with the first tensor that differs in
 * *damaged_out; -ENOMEM; or as tensor_file_read. */
int tensor_file_verify(const struct tensor_file *file, const struct safetensors_tensor **damaged_out);
void tensor_file_close(struct tensor_file *file);

/* Find a tensor by name; NULL: the file has none. */
const struct safetensors_tensor *tensor_find(const struct safetensors_index *index, const char *name);
/* Does the tensor have a type that can be read as floats, and the parameter's shape? A convolution of 1x1 may be stored
 * as a dense layer and a dense layer as a convolution of its whole input, which have the same numbers in the same
 * order; and dimensions of 1 at the end may be missing or added. */
bool tensor_has_shape(const struct safetensors_tensor *tensor, const struct parameter *parameter);

/* Bytes of a number of type "F32", "F16", "BF16" or "F64"; 0 for other types. */
size_t tensor_number_bytes(const char *dtype);
/* Convert `count` numbers of one of these types to floats; F64 is rounded to nearest, others are exact. The memory must
 * not overlap. */
void tensor_numbers(const char *dtype, const void *numbers, float *floats_out, size_t count);

#endif
