/* Whether the images in records can be decoded: a visitor of a scan. */
#ifndef PIPETRAIN_IMAGE_CHECK_H
#define PIPETRAIN_IMAGE_CHECK_H

#include "loader/images/scratch.h"
#include "tools/shards/found_sample.h"
#include "tools/shards/scan.h"

#define IMAGE_CODECS 5u         /* encoded; raw bytes and numbers in either layout */

/* What a worker keeps from image to image. */
struct image_checker {
    struct image_codec { const struct image_ops *ops; void *codec; } codecs[IMAGE_CODECS];  /* the first ones open */
    struct scratch pixels;
    bool is_short_of_memory;            /* for an image, which is no fault of it */
};

struct image_check {
    struct sample_names names;
    struct image_checker *checkers;     /* of each worker; owned */
    uint32_t workers;
};

/* 0 or -ENOMEM. The names are lent. */
int image_check_init(struct image_check *check, const struct sample_names *names, uint32_t workers);
/* Fits scan_options.visit with the check as its arg: an image is decoded as training does it, be it a file, pixels,
 * which are as many as their sizes say, or a list of numbers. */
bool image_check_visit(void *arg, uint32_t worker, uint32_t shard, const struct piece_record *record,
                       struct record_problem *problem_out);
/* The scan is closed: -ENOMEM where there was too little memory for an image, which is none of those that were found
 * damaged; else 0. */
int image_check_result(const struct image_check *check);
/* The scan is closed. Accepts a struct of zeros. */
void image_check_release(struct image_check *check);

#endif
