/* Operations on the pixels of a sample, as torchvision's automatic augmentations use them. On images of one or three
 * channels, each gives the same bytes as torchvision's operation of that name on a Pillow image. */
#ifndef PIPETRAIN_OPERATIONS_H
#define PIPETRAIN_OPERATIONS_H

#include <stddef.h>
#include <stdint.h>

struct image_shape;

enum operation_kind {
    OPERATION_IDENTITY,
    OPERATION_SHEAR_X,          /* magnitude: pixels that a row is moved by, for each row below the top */
    OPERATION_SHEAR_Y,          /* the same for columns */
    OPERATION_TRANSLATE_X,      /* pixels to the right; the fraction is dropped */
    OPERATION_TRANSLATE_Y,      /* pixels down */
    OPERATION_ROTATE,           /* degrees counter-clockwise around the centre */
    OPERATION_BRIGHTNESS,       /* this and the next three: the factor of torchvision's adjust_... is 1 + magnitude */
    OPERATION_COLOR,            /* saturation; images of one channel do not change */
    OPERATION_CONTRAST,
    OPERATION_SHARPNESS,
    OPERATION_POSTERIZE,        /* number of high bits that are kept */
    OPERATION_SOLARIZE,         /* values from this on are inverted */
    OPERATION_AUTO_CONTRAST,    /* this and the next two have no magnitude */
    OPERATION_EQUALIZE,
    OPERATION_INVERT,
    OPERATION_VERTICAL_FLIP,
    OPERATION_COUNT
};

/* torchvision's names: "ShearX". */
extern const char *const operation_names[OPERATION_COUNT];

struct operation { enum operation_kind kind; double magnitude; };

/* Change the pixels (HWC, one or three channels; geometric operations: any number) in place; `room` is memory for as
 * many bytes. Geometric operations use the nearest pixel, and zeros outside the image; they compute with 16 fraction
 * bits, as Pillow does if the sides are below 16,384 pixels. Any thread; allocates nothing. */
void operation_apply(const struct operation *operation, const struct image_shape *shape, uint8_t *room,
                     uint8_t *pixels);

#endif
