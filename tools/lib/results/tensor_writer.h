/* Writes safetensors files: weights (weights.h) and checkpoints (checkpoint_writer.h). The metadata of a file contain
 * the XXH3 of each tensor. All memory but that of the tensors is allocated when the writer is opened. Used by one
 * thread at a time. */
#ifndef PIPETRAIN_TENSOR_WRITER_H
#define PIPETRAIN_TENSOR_WRITER_H

#include <stdbool.h>

#include "compute/net.h"
#include "formats/safetensors.h"
#include "stage/file/whole_file.h"
#include "tools/lib/results/tensor_file.h"

struct tensor_writer {
    uint32_t count;             /* number of tensors */
    size_t alignment;           /* of the first tensor in the file */
    struct safetensors_entry *entries;  /* this and the next member: [tensor], in the order of the file */
    struct tensor_hash *hashes;
    struct file_part *pieces;   /* borrowed contents that were put, in the order of the file */
    uint32_t piece_count;
    size_t put_bytes;           /* of the tensor that is being put */
    struct XXH3_state_s *hash;  /* of these bytes */
    struct safetensors_text *texts;     /* array for all metadata */
    struct json header;
    uint8_t length[SAFETENSORS_LENGTH_BYTES];
    struct file_part *parts;    /* parts of the file; adjacent tensors are one part */
    size_t part_count;
    const char *broken;         /* the first tensor that is not finite; NULL: all are finite */
};

/* An upper limit of the memory for this number of tensors, with this number of pieces together, and the header, without
 * other metadata. */
size_t tensor_writer_bytes(uint32_t count, uint32_t pieces);
/* Allocate memory for `count` tensors, whose contents are put in at most `pieces` pieces, and `texts` other metadata. 0
 * or -ENOMEM; must be closed in any case. */
int tensor_writer_open(struct tensor_writer *writer, uint32_t count, uint32_t pieces, uint32_t texts,
                       size_t alignment);
/* Accepts a struct of zeros. */
void tensor_writer_close(struct tensor_writer *writer);
/* Describe tensor `i` of the file: floats in the shape of the parameter, or `bytes` bytes if that is NULL. The name is
 * borrowed. */
void tensor_writer_name(struct tensor_writer *writer, uint32_t i, const char *name, const struct parameter *parameter,
                        size_t bytes);
/* Start a new file with the same tensors: none of its pieces has been hashed yet. */
void tensor_writer_begin(struct tensor_writer *writer);
/* Hash the next piece of tensor `i`, which is borrowed until the file is written. The pieces of a tensor follow each
 * other, and those of the tensors are in the order of the file. With `is_weight` the numbers have to be finite
 * (tensor_writer.broken). */
void tensor_writer_put(struct tensor_writer *writer, uint32_t i, const void *data, size_t bytes, bool is_weight);
/* Make the header, with metadata before and after the hashes. Allocates nothing if it was made before with texts of the
 * same lengths. 0, -ENOMEM, or -EINVAL (safetensors_header). */
int tensor_writer_head(struct tensor_writer *writer, const struct safetensors_text *before, uint32_t before_count,
                       const struct safetensors_text *after, uint32_t after_count);
/* Set the parts of the file. Called when the header is made and all tensors are put completely. */
void tensor_writer_join(struct tensor_writer *writer);

#endif
