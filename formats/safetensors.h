/* The header of safetensors files (doc/formats.md), written and read in memory; pure functions, any thread. A file
 * is the header's length, the header, then the tensors in the order of the header. */
#ifndef PIPETRAIN_SAFETENSORS_H
#define PIPETRAIN_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "formats/json.h"

#define SAFETENSORS_LENGTH_BYTES 8u
#define SAFETENSORS_ALIGNMENT 8u
#define SAFETENSORS_HEADER_MAX (16u << 20)      /* bytes; files with longer headers are refused */
#define SAFETENSORS_RANK_MAX 8u

/* The length of a header as it stands in front of it. */
void safetensors_length(size_t bytes, uint8_t length_out[SAFETENSORS_LENGTH_BYTES]);
uint64_t safetensors_header_bytes(const uint8_t length[SAFETENSORS_LENGTH_BYTES]);

/* ---- writing ---- */

struct safetensors_entry {
    const char *name, *dtype;
    uint32_t rank;
    uint64_t dims[SAFETENSORS_RANK_MAX];
    uint64_t bytes;
};
struct safetensors_text { const char *key, *value; };   /* of __metadata__ */

/* Write the header into `json` (json_init, without indent; its content is replaced), padded so that the data after it
 * begin at a multiple of `alignment` bytes of the file, at least SAFETENSORS_ALIGNMENT. Entries are in the order of the
 * data. Writing the same entries again allocates nothing, as long as no text is longer. 0, -ENOMEM, or -EINVAL (a name
 * is not plain ASCII or is there twice, or type, shape and size do not agree). */
int safetensors_header(struct json *json, const struct safetensors_entry *entries, size_t entry_count,
                       const struct safetensors_text *metadata, size_t metadata_count, size_t alignment);

/* ---- reading ---- */

struct safetensors_tensor {
    const char *name, *dtype;   /* untrusted texts, owned by the index */
    uint32_t rank;
    uint64_t dims[SAFETENSORS_RANK_MAX];
    uint64_t offset, bytes;     /* from the first byte after the header; inside the file */
};

struct safetensors_index {
    struct safetensors_tensor *tensors;     /* in the order of the file, without gap or overlap */
    size_t count;
    void *root;                 /* the parsed header, which owns the texts */
};

/* Read a header that `data_bytes` of the file follow. 0, -ENOMEM, or -EBADMSG with what is wrong in problem_out. */
int safetensors_index_read(struct safetensors_index *index_out, const char *header, size_t bytes, uint64_t data_bytes,
                           char *problem_out, size_t problem_size);
/* The metadata text of `key`, untrusted and owned by the index; NULL: there is none. */
const char *safetensors_index_text(const struct safetensors_index *index, const char *key);
/* Accepts an index that is all 0. */
void safetensors_index_release(struct safetensors_index *index);

#endif
