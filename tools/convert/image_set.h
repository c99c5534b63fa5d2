/* A data set of encoded images, for the converters of folders, archives and tables: finds splits and classes in the
 * paths (CLASS/... or SPLIT/CLASS/..., in any number of enclosing single folders), and provides the samples for the
 * writers of shards. Images are stored unchanged. */
#ifndef PIPETRAIN_IMAGE_SET
#define PIPETRAIN_IMAGE_SET

#include <stddef.h>
#include <stdint.h>

#include "stage/stop.h"
#include "tools/convert/convert.h"
#include "tools/convert/image_folder.h"

/* A split: images that are consecutive in the list. */
struct image_split { const char *name; size_t first, count; };

struct image_layout {
    struct image_split splits[3];   /* train, then validation and test if they exist */
    size_t split_count;
    char **class_names;             /* in bytewise order: the index is the label; owned. NULL: no names */
    uint32_t class_count;
    /* about splits without classes, printed at the end of the conversion; "": no remark */
    char remark[1024];
};

struct image_set;

/* Argument of the sample functions of a split. */
struct image_source {
    const struct image_set *set;
    const struct image_split *split;
};

/* The converter fills in list, choice, layout and read. */
struct image_set {
    struct image_list list;
    struct image_choice choice;
    struct image_layout layout;
    /* Read the file->bytes bytes of an image to `out`, which has room for one more byte. Any thread. 0; -EBADMSG if
     * the size of the file has changed; or another negative errno. */
    int (*read)(const struct image_set *set, const struct image_file *file, uint8_t *out);
    void *arg;                      /* for `read` */
    const char *input;              /* for messages */
    bool folders_are_classes;       /* do not treat folders as splits because of their names */
    bool is_archive;                /* the images are in archives */
    char webdataset[1024];          /* the command for the same input if it is samples of WebDataset; "": unknown */
    struct stop *stop;
    struct image_source sources[CONVERT_SOURCES_MAX];
};

/* Sort the list, find splits and classes, and set label and name_at of every image (image_layout.c). Folders are
 * removed from the list, and so are images without a class, which are reported. 0, or a negative errno after
 * stop_fail. */
int image_set_find_layout(struct image_set *set);
/* To be called after the last file: report files that were left out. If files were refused, also check the accepted
 * images, so that all files that cannot be used are reported at once: then -EBADMSG after stop_fail. 0, or another
 * negative errno after stop_fail. */
int image_set_end_choice(struct image_set *set, const struct convert_options *options);
/* Handle a system error for a path of the input: add the path to the refused files or, if a resource of the system
 * is exhausted, fail. 0, or a negative errno after stop_fail. */
int image_set_refuse(struct image_set *set, const char *path, int error);
/* Read an image from its path, relative to the folder that is open as `folder`. Returns the same as image_set.read. */
int image_set_read_file(const struct image_set *set, const struct image_file *file, int folder, uint8_t *out);
/* Fill in the conversion; the set must be complete. */
void image_set_describe(struct image_set *set, struct conversion *conversion);
/* Accepts a struct of zeros. */
void image_set_release(struct image_set *set);

#endif
