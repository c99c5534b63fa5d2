/* How an image that is neither JPEG nor PNG is stored, as far as the features of its record show it. What they leave
 * open, a survey of the numbers finds (pixel_survey.h). Used for the first image of a set, and for single images. */
#ifndef PIPETRAIN_STORED_PIXELS_H
#define PIPETRAIN_STORED_PIXELS_H

#include "loader/images/image.h"
#include "loader/images/numbers.h"
#include "loader/images/pixel_survey.h"

struct stored_pixels {
    bool is_tensor;             /* the bytes are TensorProtos */
    enum number_kind kind;      /* NUMBER_KIND_COUNT: any type of `number_bytes` bytes */
    uint32_t number_bytes;
    enum pixel_layout layout;   /* the configured one, or else that of a tensor's shape; AUTO: not known */
};

/* Find how an image is stored; its type is not known yet. 0, or -EBADMSG with a text if it is a tensor whose type pixels
 * cannot have. */
int stored_pixels_find(const struct stored_image *image, const struct image_shape *wanted, enum pixel_layout configured,
                       struct stored_pixels *stored_out, char *problem_out, size_t problem_size);
/* Replace a tensor by its numbers; other images stay. 0, or -EBADMSG with a text if it is not such a tensor. */
int stored_pixels_unwrap(const struct stored_pixels *stored, struct stored_image *image, char *problem_out,
                         size_t problem_size);
void stored_pixels_begin_survey(const struct stored_pixels *stored, struct pixel_survey *survey);

/* One of an image's sizes: the first number of a feature, if it holds integers. */
struct image_size stored_size(const char *key, const struct feature *feature);
/* Whether so many numbers under this key are an image of the CIFAR-10 estimator tutorial: three planes of 32 x 32. */
bool stored_pixels_are_cifar(const char *key, size_t count);

#endif
