/* The rules by which a part of an image is chosen. Private to loader/augment. */
#ifndef PIPETRAIN_CROP_H
#define PIPETRAIN_CROP_H

#include "loader/augment/augment.h"

/* An image of height x width, of which what is requested is taken. */
struct crop_job {
    const struct augment *augment;
    const struct image_request *request;
    uint32_t height, width;
};

/* The view by any rule but CROP_AUTO; the filter is the augmentation's unless the rule needs another. */
struct augment_view crop_view(enum crop crop, const struct crop_job *job);

#endif
