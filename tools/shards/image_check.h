/* Check that the images of records can be decoded: a callback of a scan. */
#ifndef PIPETRAIN_IMAGE_CHECK_H
#define PIPETRAIN_IMAGE_CHECK_H

#include "loader/images/scratch.h"
#include "tools/shards/found_sample.h"
#include "tools/shards/scan.h"

/* The state of a thread. */
struct image_checker {
    struct found_decoder decoder;
    struct scratch pixels;
    bool is_short_of_memory;            /* an image was not checked */
    uint64_t undecoded;                 /* images that may be pixels, without features for their size */
};

struct image_check {
    struct sample_names names;
    char *const *paths;                 /* of the shards of the scan */
    struct image_checker *checkers;     /* one for each thread; owned */
    uint32_t threads;
    atomic_uint_fast64_t *pixel_bytes;  /* of each shard: bytes of an image, once they were looked for; owned */
};

/* Borrows the names and the paths of the shards that will be scanned. 0 or -ENOMEM; image_check_release in both
 * cases. */
int image_check_init(struct image_check *check, const struct sample_names *names, char *const *paths, uint32_t count,
                     uint32_t threads);
/* For scan_options.visit, with the check as its arg: decode an image as training does, be it an encoded image, pixels,
 * whose number must match their size, or a list of numbers. Bytes of an unknown format without features for their size
 * are pixels that cannot be decoded here if all images in the first chunk of their shard are such bytes; only their
 * number is compared with that of the first image. */
bool image_check_visit(void *arg, uint32_t thread, uint32_t shard, const struct chunk_record *record,
                       struct record_problem *problem_out);
/* After the scan: -ENOMEM if memory was too small for an image, which is not reported as damaged; else 0. */
int image_check_result(const struct image_check *check);
/* The same: images that were not decoded because only the network of a run says their size. */
uint64_t image_check_undecoded(const struct image_check *check);
/* Call it after the scan. Accepts a struct of zeros. */
void image_check_release(struct image_check *check);

#endif
