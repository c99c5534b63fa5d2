/* Checks, as a callback of a scan, that the images of records can be decoded. */
#ifndef PIPETRAIN_IMAGE_CHECK_H
#define PIPETRAIN_IMAGE_CHECK_H

#include "loader/images/scratch.h"
#include "tools/shards/found_sample.h"
#include "tools/shards/scan.h"

/* The state of one thread of the scan. */
struct image_checker {
    struct found_decoder decoder;
    struct scratch pixels;
    bool is_short_of_memory;            /* an image was not checked, because memory was too small */
    uint64_t undecoded;                 /* number of images that may be pixels, but have no features for their size */
};

struct image_check {
    struct sample_names names;
    char *const *paths;                 /* paths of the shards of the scan */
    struct image_checker *checkers;     /* one for each thread; owned */
    uint32_t threads;
    atomic_uint_fast64_t *pixel_bytes;  /* for each shard: see find_pixel_bytes; 0: not computed yet; owned */
};

/* Borrows the names and the paths of the shards that will be scanned. 0 or -ENOMEM; call image_check_release in both
 * cases. */
int image_check_init(struct image_check *check, const struct sample_names *names, char *const *paths, uint32_t count,
                     uint32_t threads);
/* The callback scan_options.visit, with the check as its `arg`. Decodes the image as training does: an encoded
 * image, a list of numbers, or pixels, whose number has to match their size. Bytes of an unknown format without
 * features for their size count as pixels if all images in the first chunk of their shard are such bytes. They
 * cannot be decoded here; only their number is compared with that of the first image. */
bool image_check_visit(void *arg, uint32_t thread, uint32_t shard, const struct chunk_record *record,
                       struct record_problem *problem_out);
/* After the scan: -ENOMEM if memory was too small to check an image (which is not reported as damaged); else 0. */
int image_check_result(const struct image_check *check);
/* After the scan: the number of images that were not decoded because only the network of a run determines their
 * size. */
uint64_t image_check_undecoded(const struct image_check *check);
/* To be called after the scan. Accepts a struct of zeros. */
void image_check_release(struct image_check *check);

#endif
