/* The header of safetensors files (doc/formats.md), written and read in memory; pure functions, any thread. A file has
 * the length of the header, the header, then the tensors in the order of the header. */
#ifndef PIPETRAIN_SAFETENSORS_H
#define PIPETRAIN_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "formats/json.h"

#define SAFETENSORS_LENGTH_BYTES 8u
#define SAFETENSORS_ALIGNMENT 8u
#define SAFETENSORS_HEADER_MAX (16u << 20)      /* bytes; files with longer headers are refused */
#define SAFETENSORS_RANK_MAX 8u

/* Encode and decode the length that precedes a header. */
void safetensors_length(size_t bytes, uint8_t length_out[SAFETENSORS_LENGTH_BYTES]);
uint64_t safetensors_header_bytes(const uint8_t length[SAFETENSORS_LENGTH_BYTES]);

/* ---- writing ---- */

struct safetensors_entry {
    const char *name, *dtype;
    uint32_t rank;
    uint64_t dims[SAFETENSORS_RANK_MAX];
    uint64_t bytes;
};
struct safetensors_text { const char *key, *value; };   /* an entry of __metadata__ */

/* Write the header into `json` (initialised without indent; its content is replaced), padded so that the data begins at
 * a multiple of `alignment`, at least SAFETENSORS_ALIGNMENT, in the file. Entries are in the order of the data. Writing
 * the same up to 1024 entries again allocates nothing unless a text is longer than before. 0, -ENOMEM, or -EINVAL (a
 * name is not plain ASCII or is a duplicate, or type, shape and size do not agree). */
int safetensors_header(struct json *json, const struct safetensors_entry *entries, size_t entry_count,
                       const struct safetensors_text *metadata, size_t metadata_count, size_t alignment);

/* ---- reading ---- */

struct safetensors_tensor {
    const char *name, *dtype;   /* untrusted; owned by the index */
    uint32_t rank;
    uint64_t dims[SAFETENSORS_RANK_MAX];
    uint64_t offset, bytes;     /* offset from the end of the header; both are inside the file */
};

struct safetensors_index {
    struct safetensors_tensor *tensors;     /* in file order, without gaps or overlaps */
    size_t count;
    void *root;                 /* the parsed header, which owns the texts */
};

/* Read a header that is followed by `data_bytes` bytes of data. 0, -ENOMEM, or -EBADMSG with the reason in
 * problem_out. */
int safetensors_index_read(struct safetensors_index *index_out, const char *header, size_t bytes, uint64_t data_bytes,
                           char *problem_out, size_t problem_size);
/* The metadata text of `key`, untrusted and owned by the index; NULL if it does not exist. */
const char *safetensors_index_text(const struct safetensors_index *index, const char *key);
/* Accepts an index of zeros. */
void safetensors_index_release(struct safetensors_index *index);

#endif
