/* Whether the images in records can be decoded: a visitor of a scan. */
#ifndef PIPETRAIN_IMAGE_CHECK_H
#define PIPETRAIN_IMAGE_CHECK_H

#include "tools/shards/found_sample.h"
#include "tools/shards/scan.h"

struct image_check {
    struct sample_names names;
    void **codecs;              /* of each worker, opened by it; owned */
    uint32_t workers;
};

/* 0 or -ENOMEM. The names are lent. */
int image_check_init(struct image_check *check, const struct sample_names *names, uint32_t workers);
/* Fits scan_options.visit with the check as its arg: all of an encoded image is decoded; raw pixels are as many as
 * their sizes say. */
bool image_check_visit(void *arg, uint32_t worker, uint32_t shard, const struct piece_record *record,
                       struct record_problem *problem_out);
/* The scan is closed. Accepts a struct of zeros. */
void image_check_release(struct image_check *check);

#endif
