/* How an image that is neither JPEG nor PNG is stored, as far as the features of its record show. The rest is found by
 * a survey of the numbers (pixel_survey.h). Used for the first image of a data set, and for single images. */
#ifndef PIPETRAIN_STORED_PIXELS_H
#define PIPETRAIN_STORED_PIXELS_H

#include "loader/images/image.h"
#include "loader/images/numbers.h"
#include "loader/images/pixel_survey.h"

struct stored_pixels {
    bool is_tensor;             /* the bytes are TensorProtos */
    enum number_kind kind;      /* NUMBER_KIND_COUNT: unknown type of `number_bytes` bytes */
    uint32_t number_bytes;
    enum pixel_layout layout;   /* the configured layout, or else that of a tensor's shape; AUTO: unknown */
};

/* Find how an image is stored; its type is not yet known. 0, or -EBADMSG with a text if it is a tensor of a type that
 * pixels cannot have. */
int stored_pixels_find(const struct stored_image *image, const struct image_shape *wanted, enum pixel_layout configured,
                       struct stored_pixels *stored_out, char *problem_out, size_t problem_size);
/* Replace a tensor by its numbers; other images are unchanged. 0, or -EBADMSG with a text if the image is not a tensor
 * as in `stored`. */
int stored_pixels_unwrap(const struct stored_pixels *stored, struct stored_image *image, char *problem_out,
                         size_t problem_size);
void stored_pixels_begin_survey(const struct stored_pixels *stored, struct pixel_survey *survey);

/* Read one of an image's sizes: the first number of a feature of integers. */
struct image_size stored_size(const char *key, const struct feature *feature);
/* Is this key and number of bytes that of an image in the CIFAR-10 estimator tutorial (three planes of 32 x 32)? */
bool stored_pixels_are_cifar(const char *key, size_t count);

#endif
