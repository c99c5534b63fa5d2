/* Equal images, byte for byte: validation and test images that are in the training set, too, whose results say nothing
 * about other images; and images of one set that have different labels. */
#ifndef PIPETRAIN_IMAGE_COPIES_H
#define PIPETRAIN_IMAGE_COPIES_H

#include <stddef.h>
#include <stdint.h>

#include "tools/convert/shard_set.h"
#include "tools/shards/found_sample.h"

/* Per source and sample, 12 bytes each. Every sample has its own place, so threads need no lock. */
struct image_copies {
    const struct sample_source *sources;
    size_t source_count;
    uint64_t **hashes;          /* 0: no image */
    uint32_t **labels;          /* their low bits; UINT32_MAX: not known */
};

/* For these sources, the training set first. 0 or -ENOMEM; image_copies_release in both cases. */
int image_copies_init(struct image_copies *copies, const struct sample_source *sources, size_t count);
void image_copies_release(struct image_copies *copies);
/* Note the hash and the label of a sample's image. Any thread. */
void image_copies_note(const struct image_copies *copies, size_t source, uint64_t index,
                       const struct found_sample *sample);
/* Print how many there are, in a line for each set and kind, after all images were noted. 0 or -ENOMEM. */
int image_copies_report(const struct image_copies *copies);

#endif
