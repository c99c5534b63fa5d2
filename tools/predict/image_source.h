/* Image files into the batches of a ring: threads that read and decode them as the loader does the images of a
 * validation set. Started and joined by main. */
#ifndef PIPETRAIN_IMAGE_SOURCE_H
#define PIPETRAIN_IMAGE_SOURCE_H

#include "stage/ring.h"
#include "stage/stop.h"
#include "tools/run/run_plan.h"

struct image_source;

struct image_source_spec {              /* all lent until image_source_close */
    char *const *paths;                 /* of the evaluation's samples, in their order */
    uint64_t count;
    const struct run_plan *plan;        /* of one tower */
    struct ring *ring;
    struct stop *stop;
};

/* Fill the ring's batches with all images: places have their number as record id and BATCH_NO_LABEL as label. 0, or a
 * negative errno with nothing running. The threads end behind the last image, or when the ring is cancelled. */
int image_source_start(struct image_source **source_out, const struct image_source_spec *spec);
/* Why there are no pixels of image `number`, whose batch was taken: a text that follows its path; NULL: there are. */
const char *image_source_problem(const struct image_source *source, uint64_t number);
/* Join the threads and release everything. Accepts NULL. */
void image_source_close(struct image_source *source);

#endif
