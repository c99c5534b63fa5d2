/* Writing safetensors files (doc/formats.md). Memory only; the caller writes
 * the header, then the tensors in the order given, each `bytes` long. */
#ifndef PIPETRAIN_SAFETENSORS_H
#define PIPETRAIN_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

struct safetensors_entry { const char *name; const char *dtype; uint32_t rank; uint64_t dims[8]; uint64_t bytes; };
struct safetensors_text { const char *key, *value; };   /* __metadata__ */

/* The length field and the JSON header, padded to a multiple of 8, in one malloc'ed
 * block. Entries must be in the order of the data. 0, -ENOMEM, -EINVAL (name not plain ASCII). */
int safetensors_header(const struct safetensors_entry *entries, size_t entry_count,
                       const struct safetensors_text *metadata, size_t metadata_count,
                       uint8_t **header_out, size_t *bytes_out);

#endif
