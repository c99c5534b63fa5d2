/* A data set of encoded images, for the converters of folders, archives and tables: splits and classes from the paths
 * (CLASS/... or SPLIT/CLASS/..., inside any single folders), and the samples for the writers of shards. Images are
 * stored as they are. */
#ifndef PIPETRAIN_IMAGE_SET
#define PIPETRAIN_IMAGE_SET

#include <stddef.h>
#include <stdint.h>

#include "stage/stop.h"
#include "tools/convert/convert.h"
#include "tools/convert/image_folder.h"

/* The images of a split are consecutive in the list. */
struct image_split { const char *name; size_t first, count; };

struct image_layout {
    struct image_split splits[3];   /* train, then validation and test if they exist */
    size_t split_count;
    char **class_names;             /* in bytewise order: the label is the index; owned. NULL: no names */
    uint32_t class_count;
    char remark[1024];              /* about splits without classes, printed at the end of the conversion; "": none */
};

struct image_set;

/* The samples of a split. */
struct image_source {
    const struct image_set *set;
    const struct image_split *split;
};

/* A converter fills in list, choice, layout and read. */
struct image_set {
    struct image_list list;
    struct image_choice choice;
    struct image_layout layout;
    /* Read the file->bytes bytes of an image to `out`, which has room for one more. Any thread. 0; a negative errno;
     * -EBADMSG if the file has another size now. */
    int (*read)(const struct image_set *set, const struct image_file *file, uint8_t *out);
    void *arg;                      /* for `read` */
    const char *input;              /* for messages */
    bool folders_are_classes;       /* none is a split, whatever its name */
    struct stop *stop;
    struct image_source sources[CONVERT_SOURCES_MAX];
};

/* Sort the list, find splits and classes, set label and name_at of every image (image_layout.c). Folders are removed
 * from the list, and so are images in no class, which is reported. 0, or a negative errno after stop_fail. */
int image_set_find_layout(struct image_set *set);
/* After the last file: report files that are left out, and 0; or, if files are refused, check the images among the
 * others, too, so that all that cannot be used is named at once, and -EBADMSG after stop_fail. Another negative errno
 * after stop_fail. */
int image_set_end_choice(struct image_set *set, const struct convert_options *options);
/* Handle the system's `error` for a path of the input: note that the file cannot be used or, if a resource of the
 * system is exhausted, fail. 0, or a negative errno after stop_fail. */
int image_set_refuse(struct image_set *set, const char *path, int error);
/* Read an image from the file of its path, relative to the folder that is open as `folder`. Results as of `read`. */
int image_set_read_file(const struct image_set *set, const struct image_file *file, int folder, uint8_t *out);
/* Fill in the conversion from a complete set. */
void image_set_describe(struct image_set *set, struct conversion *conversion);
/* Accepts a struct of zeros. */
void image_set_release(struct image_set *set);

#endif
