/* Common properties of the images that were written. */
#ifndef PIPETRAIN_IMAGE_SUMMARY
#define PIPETRAIN_IMAGE_SUMMARY

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/shards/found_sample.h"

#define PIXEL_CHANNELS_MAX 4u

/* Sums of pixel values. If grey and colour images occur together, grey pixels count as pixels with equal channels. */
struct pixel_sums {
    uint64_t count;             /* number of pixels */
    uint32_t channels;
    uint64_t sum[PIXEL_CHANNELS_MAX], squares[PIXEL_CHANNELS_MAX];
};

/* Mean and population standard deviation of a channel, in 0 ... 255; count > 0. */
double pixel_sums_mean(const struct pixel_sums *sums, uint32_t channel);
double pixel_sums_deviation(const struct pixel_sums *sums, uint32_t channel);

/* Properties of the pixels of one image, as training reads them. */
struct pixel_look {
    bool is_known;
    bool is_flat;               /* the result of pixels_are_flat */
    bool loses_opacity;         /* the stored image has an opacity (alpha) channel that training ignores */
    uint8_t brightest;          /* largest value of any channel */
};

struct pixel_look pixel_look_at(const uint8_t *pixels, size_t bytes, uint32_t channels);

/* Initialised with zeros. */
struct image_summary {
    uint64_t counts[FOUND_KIND_COUNT];      /* images by kind */
    uint32_t height, width, channels;       /* common size of all images with a known size; 0: sizes differ */
    bool differs;                           /* at least two sizes are different */
    /* raw images that are stored as rows and have at most PIXEL_CHANNELS_MAX channels */
    struct pixel_sums pixels;
    uint64_t looked_at;                     /* number of images with known pixels */
    uint8_t brightest;                      /* largest pixel value of these images */
};

/* Count the image of a record. `look` describes the pixels; if it is unknown and the image is stored as rows of
 * pixels, it is computed here. Returns NULL, or the problem of an encoded image whose header is valid: "is cut
 * short". */
const char *image_summary_add(struct image_summary *summary, const struct found_sample *sample,
                              struct pixel_look *look);
void image_summary_merge(struct image_summary *summary, const struct image_summary *more);
/* The encoding of all images: "JPEG", "PNG", "JPEG and PNG", "raw"; NULL: other kinds, or no images. */
const char *image_summary_encoding(const struct image_summary *summary);

#endif
