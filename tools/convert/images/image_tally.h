/* What the images of written records have in common. */
#ifndef PIPETRAIN_IMAGE_TALLY_H
#define PIPETRAIN_IMAGE_TALLY_H

#include <stdbool.h>

#include "tools/convert/pixel_sums.h"
#include "tools/shards/found_sample.h"

/* Filled with zeros to begin with. */
struct image_tally {
    uint64_t counts[FOUND_KIND_COUNT];      /* images of each kind */
    uint32_t height, width, channels;       /* of all that were known; 0 where they differ */
    bool differs;                           /* some sizes did */
    struct pixel_sums pixels;               /* of raw ones in rows, of at most PIXEL_CHANNELS_MAX channels */
};

/* Count the image of a payload, under this feature or, NULL, a usual one. A payload without one is one of
 * FOUND_NOTHING. NULL, or what is wrong with an encoded image whose header is right, to stand behind its name. */
const char *image_tally_add(struct image_tally *tally, const char *image_key, const uint8_t *payload, size_t bytes);
void image_tally_join(struct image_tally *tally, const struct image_tally *more);
/* "JPEG", "PNG", "JPEG and PNG", "raw"; NULL where there are others or none. */
const char *image_tally_encoding(const struct image_tally *tally);

#endif
