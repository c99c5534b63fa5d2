/* Check that the images of records can be decoded: a callback of a scan. */
#ifndef PIPETRAIN_IMAGE_CHECK_H
#define PIPETRAIN_IMAGE_CHECK_H

#include "loader/images/scratch.h"
#include "tools/shards/found_sample.h"
#include "tools/shards/scan.h"

#define IMAGE_CODECS 5u         /* encoded; raw bytes and numbers in two layouts each */

/* The state of a worker. */
struct image_checker {
    struct image_codec { const struct image_ops *ops; void *codec; } codecs[IMAGE_CODECS];  /* ops is NULL: not open */
    struct scratch pixels;
    bool is_short_of_memory;            /* an image was not checked */
};

struct image_check {
    struct sample_names names;
    struct image_checker *checkers;     /* one for each worker; owned */
    uint32_t workers;
};

/* Borrows the names. 0 or -ENOMEM. */
int image_check_init(struct image_check *check, const struct sample_names *names, uint32_t workers);
/* For scan_options.visit, with the check as its arg: decode an image as training does, be it an encoded image, pixels,
 * whose number must match their size, or a list of numbers. */
bool image_check_visit(void *arg, uint32_t worker, uint32_t shard, const struct chunk_record *record,
                       struct record_problem *problem_out);
/* After closing the scan: -ENOMEM if memory was too small for an image, which is not reported as damaged; else 0. */
int image_check_result(const struct image_check *check);
/* Call it after closing the scan. Accepts a struct of zeros. */
void image_check_release(struct image_check *check);

#endif
