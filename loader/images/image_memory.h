/* One memory budget, shared by all decoders of the process, for images too large for a decoder's own memory. A decoder
 * that needs more than is free waits for others. Any thread. */
#ifndef PIPETRAIN_IMAGE_MEMORY_H
#define PIPETRAIN_IMAGE_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "loader/shards/text.h"

/* The default limit of pixels; larger images are an error before they are decoded. */
#define IMAGE_PIXELS_MAX ((uint64_t)64 << 20)
/* Memory that a decoder may use outside the budget; included in its codec_bytes. */
#define IMAGE_OWN_BYTES ((size_t)2 << 20)

/* `bytes` is the budget; SIZE_MAX: no limit. To be called while no thread decodes. */
struct image_limits { uint64_t pixels; size_t bytes; };
void image_memory_limit(struct image_limits limits);
/* Another limit of pixels for images that the calling thread decodes; 0: that of the process. */
void image_memory_limit_thread(uint64_t pixels);
/* The limit of pixels for the calling thread. */
uint64_t image_memory_pixels(void);
/* The largest memory that an image of this many pixels needs, in any format. */
size_t image_memory_need(uint64_t pixels);

/* Reserve part of the budget, waiting until it is free. A decoder may have one reservation at a time. 0; or -ENOMEM,
 * with a text that follows "cannot be decoded: ", if `bytes` exceeds the whole budget. */
int image_memory_take(size_t bytes, struct text *problem);
void image_memory_give_back(size_t bytes);

#endif
