/* The images to classify: finds files, folders and shards of the command line, and decodes image files in threads into
 * the batches of a ring. */
#ifndef PIPETRAIN_PREDICT_IMAGES
#define PIPETRAIN_PREDICT_IMAGES

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stage/ring.h"
#include "stage/stop.h"
#include "tools/lib/run/run_plan.h"

/* Zero it first. */
struct image_words {
    char **paths;               /* paths of images, owned */
    uint64_t count, room;
    char *shards;               /* or paths and patterns of shards, separated by commas, owned; NULL: none */
    uint64_t empty_folders;     /* number of folders without images; they were reported */
    bool is_stream;             /* images come on stdin (image_stream.h); nothing else is set */
    uint64_t unread;            /* number of unreadable files and folders in folders; they were reported */
};

/* Interpret every argument. "-": a list of paths on stdin, one per line or NUL-terminated. A folder with shards, a file
 * with the name of a shard, or a glob: shards. Another folder: the images in it and its sub-folders, sorted by name and
 * recognised by content as in pipetrain-convert. Anything else is an image, even if it does not exist. A folder without
 * images and shards is reported and skipped. 0, or an exit code after a message: shards together with images, an
 * unreadable list, or no image at all. Call image_words_release in both cases. */
int image_words_read(struct image_words *words, char *const *argv, int count);
/* Report that there are no images. */
void image_words_report_none(void);
/* Accepts a struct of zeros. */
void image_words_release(struct image_words *words);

struct image_source;

struct image_source_spec {              /* all members are borrowed until image_source_close */
    char *const *paths;                 /* paths of the samples of the evaluation, in order */
    uint64_t count;
    const struct run_plan *plan;        /* the plan, for one tower */
    struct ring *ring;
    struct stop *stop;
};

/* Start threads that fill the batches of the ring with all images; record ids are the numbers of the images, labels
 * BATCH_NO_LABEL. They end after the last image, or when the ring is cancelled. 0, or a negative errno with no thread
 * running. */
int image_source_start(struct image_source **source_out, const struct image_source_spec *spec);
/* What decoding an image gave. */
struct image_state {
    char *problem;              /* why it could not be decoded, as a text to follow its path; NULL: it was decoded */
    bool is_turned;             /* it has an EXIF orientation other than upright */
};
/* The state of image `number`, whose batch was received. */
const struct image_state *image_source_state(const struct image_source *source, uint64_t number);
/* Join the threads and release everything. Accepts NULL. */
void image_source_close(struct image_source *source);

#endif
