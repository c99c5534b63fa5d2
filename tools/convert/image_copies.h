/* Finds equal images, byte for byte: validation and test images that are also in the training set, so their results
 * say nothing about unseen images; and images of one split that have different labels. */
#ifndef PIPETRAIN_IMAGE_COPIES_H
#define PIPETRAIN_IMAGE_COPIES_H

#include <stddef.h>
#include <stdint.h>

#include "tools/convert/shard_set.h"
#include "tools/shards/found_sample.h"

/* The hash and the label of each sample of each source, 12 bytes together. Samples do not share elements, so threads
 * need no lock. */
struct image_copies {
    const struct sample_source *sources;
    size_t source_count;
    uint64_t **hashes;          /* 0: the sample has no image */
    uint32_t **labels;          /* low 32 bits of the labels; UINT32_MAX: unknown */
};

/* Allocate for these sources, the training set first. 0 or -ENOMEM; call image_copies_release in both cases. */
int image_copies_init(struct image_copies *copies, const struct sample_source *sources, size_t count);
void image_copies_release(struct image_copies *copies);
/* Store the hash and the label of a sample's image. Any thread. */
void image_copies_note(const struct image_copies *copies, size_t source, uint64_t index,
                       const struct found_sample *sample);
/* Print the numbers of equal images, one line for each split and kind. To be called after all images were noted. 0
 * or -ENOMEM. */
int image_copies_report(const struct image_copies *copies);

#endif
