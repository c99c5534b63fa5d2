/* What the images of written records have in common. */
#ifndef PIPETRAIN_IMAGE_SUMMARY
#define PIPETRAIN_IMAGE_SUMMARY

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/shards/found_sample.h"

#define PIXEL_CHANNELS_MAX 4u

/* Sums over rows of pixels. Grey images among colour images count as pixels with equal channels. */
struct pixel_sums {
    uint64_t count;             /* pixels */
    uint32_t channels;
    uint64_t sum[PIXEL_CHANNELS_MAX], squares[PIXEL_CHANNELS_MAX];
};

/* Mean and population standard deviation of a channel, in 0 ... 255; count > 0. */
double pixel_sums_mean(const struct pixel_sums *sums, uint32_t channel);
double pixel_sums_deviation(const struct pixel_sums *sums, uint32_t channel);

/* The pixels of one image, as training reads them. */
struct pixel_look {
    bool is_known;
    bool is_flat;               /* as pixels_are_flat */
    bool loses_opacity;         /* the stored image has some */
    uint8_t brightest;          /* of all channels */
};

struct pixel_look pixel_look_at(const uint8_t *pixels, size_t bytes, uint32_t channels);

/* Starts as zeros. */
struct image_summary {
    uint64_t counts[FOUND_KIND_COUNT];      /* images by kind */
    uint32_t height, width, channels;       /* of all images with a known size; 0: they differ */
    bool differs;                           /* some sizes do */
    struct pixel_sums pixels;               /* of raw images in rows, with at most PIXEL_CHANNELS_MAX channels */
    uint64_t looked_at;                     /* images with known pixels */
    uint8_t brightest;                      /* of them */
};

/* Count the image of a record. `look` is of the decoded image, or is found if it is not known and the image is rows
 * of pixels. Returns NULL, or what is wrong with an encoded image whose header is right: "is cut short". */
const char *image_summary_add(struct image_summary *summary, const struct found_sample *sample,
                              struct pixel_look *look);
void image_summary_merge(struct image_summary *summary, const struct image_summary *more);
/* "JPEG", "PNG", "JPEG and PNG", "raw"; NULL: other kinds, or none. */
const char *image_summary_encoding(const struct image_summary *summary);

#endif
