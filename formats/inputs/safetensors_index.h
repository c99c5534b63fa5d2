/* What a safetensors file holds, from its header (doc/formats.md). Memory only; pure functions, any thread. */
#ifndef PIPETRAIN_SAFETENSORS_INDEX_H
#define PIPETRAIN_SAFETENSORS_INDEX_H

#include <stddef.h>
#include <stdint.h>

#define SAFETENSORS_HEADER_MAX (16u << 20)      /* bytes */
#define SAFETENSORS_RANK_MAX 8u

struct safetensors_tensor {
    const char *name, *dtype;   /* untrusted texts; in the index */
    uint32_t rank;
    uint64_t dims[SAFETENSORS_RANK_MAX];
    uint64_t offset, bytes;     /* from the first byte behind the header; inside the file */
};

struct safetensors_index {
    struct safetensors_tensor *tensors;     /* as they lie in the file, without gap or overlap */
    size_t count;
    void *root;                 /* of the header, which holds the texts */
};

/* Read a header; `data_bytes` stand behind it in the file. 0, -ENOMEM, or -EBADMSG with what is wrong in
 * problem_out. */
int safetensors_index_read(struct safetensors_index *index_out, const char *header, size_t bytes, uint64_t data_bytes,
                           char *problem_out, size_t problem_size);
/* The text of `key` in the metadata, untrusted and in the index; NULL: there is none. */
const char *safetensors_index_text(const struct safetensors_index *index, const char *key);
/* Accepts an index that is all 0. */
void safetensors_index_release(struct safetensors_index *index);
/* Bytes of the header from what stands in front of it. */
uint64_t safetensors_header_bytes(const uint8_t length[8]);

#endif
