/* Images that are there again, byte for byte: those of the validation and test set that are in the training set, too,
 * as results on them say nothing of other images, and those of one set with different labels. */
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
/* Keep what tells the image of a sample from others. Any thread. */
void image_copies_note(const struct image_copies *copies, size_t source, uint64_t index,
                       const struct found_sample *sample);
/* Say how many there are, in a line of each kind for each set that has some. After all were noted. 0 or -ENOMEM. */
int image_copies_report(const struct image_copies *copies);

#endif
