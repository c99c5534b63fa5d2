/* What decoding may take for images that do not fit into what each decoder has of its own: one amount for all decoders
 * of the process, as its memory is one. Whoever needs more than is left waits for others to be done. Any thread. */
#ifndef PIPETRAIN_IMAGE_MEMORY_H
#define PIPETRAIN_IMAGE_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "loader/shards/text.h"

/* Larger images are refused before they are decoded, where nobody sets another number. */
#define IMAGE_PIXELS_MAX ((uint64_t)64 << 20)
/* A decoder's own, counted with it. */
#define IMAGE_OWN_BYTES ((size_t)2 << 20)

/* `bytes` for all decoders together, SIZE_MAX: any. While none decodes. */
struct image_limits { uint64_t pixels; size_t bytes; };
void image_memory_limit(struct image_limits limits);
uint64_t image_memory_pixels(void);
/* What an image of so many pixels takes at most, of any kind that is decoded. */
size_t image_memory_need(uint64_t pixels);

/* 0: so much may be allocated until it is given back, and the caller holds none besides; what is of its own it need not
 * ask for. -ENOMEM, with a text that follows "cannot be decoded: ": it is more than there is for all. */
int image_memory_take(size_t bytes, struct text *problem);
void image_memory_give_back(size_t bytes);

#endif
