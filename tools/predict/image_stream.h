/* The images that come on standard input while they are classified: paths, or the images themselves. A thread reads
 * them and decides which batch each belongs to, other threads decode them into the ring, and main gives them back when
 * they are answered.
 *
 * A batch ends when it is full. Otherwise it ends when no more input is there, all batches before are answered, and its
 * first image has waited for the latency: until then the tower has other work, or more images may come. */
#ifndef PIPETRAIN_IMAGE_STREAM_H
#define PIPETRAIN_IMAGE_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stage/ring.h"
#include "stage/stop.h"
#include "tools/lib/run/run_plan.h"

/* The most bytes of an image with a length before it. A larger one is skipped up to IMAGE_STREAM_BYTES_ABSURD, from
 * where on the length is no length: four letters of a text are larger. */
#define IMAGE_STREAM_BYTES_MAX ((uint32_t)64 << 20)
#define IMAGE_STREAM_BYTES_ABSURD ((uint32_t)512 << 20)

/* Does the input begin as a JPEG or PNG file, in place of paths? Then the text follows "standard input". */
bool image_stream_is_image(const char *bytes, size_t count);
#define IMAGE_STREAM_NO_PATHS "has an image in place of paths: give --length-prefixed, and before each image its " \
                              "length, 4 bytes"

struct image_stream_spec {
    int input_fd, output_fd;    /* the input also ends when the reader of the output has closed it */
    bool has_lengths;           /* each image is four bytes, its length, little-endian, and so many bytes of a JPEG or
                                 * PNG; otherwise paths end with a newline, or with NUL if the first block has one */
    uint64_t latency_ns;
    uint32_t batches_most;      /* the most batches that are received and not answered: those of the ring, the slots and
                                 * the reports, and one */
    const struct run_plan *plan;        /* with takes_any_count; complete when the stream is started; borrowed */
    struct stop *stop;
};

/* An image that was received and is not answered yet. */
struct stream_image {
    uint64_t id;                /* from 0 */
    uint64_t batch;
    uint32_t place;             /* in the batch */
    char *path;                 /* NULL: it came with its length */
    uint8_t *bytes;             /* the image, if it has no path */
    size_t byte_count;
    char *problem;              /* why it cannot be decoded, a text to follow its name; NULL: it was decoded */
    bool is_turned;             /* it has an EXIF orientation other than upright */
    uint64_t arrived_ns;        /* when it was read completely */
};

/* The name of an image for output: its path, or "-:ID". `room` is used for the latter. */
const char *stream_image_name(const struct stream_image *image, char room[32]);

struct image_stream;

/* 0 or a negative errno. */
int image_stream_open(struct image_stream **stream_out, const struct image_stream_spec *spec);
/* Start the threads, which fill the ring. They end with the input, or when the ring is cancelled. 0, or a negative
 * errno with no thread running. */
int image_stream_start(struct image_stream *stream, struct ring *ring);
/* Read no more; images in incomplete batches are not classified. Any thread. */
void image_stream_stop(void *stream);
/* An image of a batch that was reported and is not given back yet. Main only. */
const struct stream_image *image_stream_image(const struct image_stream *stream, uint64_t id);
/* Images [id, id + count), a batch, are answered. Main only. */
void image_stream_give_back(struct image_stream *stream, uint64_t id, uint32_t count);
/* Join the threads, if they were started. The ring is cancelled or at its end. Accepts NULL. Main only. */
void image_stream_join(struct image_stream *stream);
/* After image_stream_join: the problem with which the input ended early, a text to follow "standard input"; "": it
 * ended in the usual way. */
const char *image_stream_problem(const struct image_stream *stream);
/* Join and release everything. Accepts NULL. */
void image_stream_close(struct image_stream *stream);

#endif
