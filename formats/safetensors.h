/* Writing safetensors files (doc/formats.md). Memory only; the caller writes the length,
 * the header, then the tensors in the order given, each `bytes` long. */
#ifndef PIPETRAIN_SAFETENSORS_H
#define PIPETRAIN_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "formats/json.h"

struct safetensors_entry { const char *name; const char *dtype; uint32_t rank; uint64_t dims[8]; uint64_t bytes; };
struct safetensors_text { const char *key, *value; };   /* __metadata__ */

#define SAFETENSORS_LENGTH_BYTES 8u
#define SAFETENSORS_ALIGNMENT 8u

/* The header into `json` (json_init, without indent; what it holds is replaced), padded so that the
 * data behind it begin at a multiple of `alignment` bytes of the file, at least SAFETENSORS_ALIGNMENT. Entries must be
 * in the order of the data. The same entries again allocate nothing, as long as no text is longer. 0, -ENOMEM, -EINVAL
 * (name not plain ASCII). */
int safetensors_header(struct json *json, const struct safetensors_entry *entries, size_t entry_count,
                       const struct safetensors_text *metadata, size_t metadata_count, size_t alignment);
/* What stands in front of a header of `bytes`. */
void safetensors_length(size_t bytes, uint8_t length_out[SAFETENSORS_LENGTH_BYTES]);

#endif
