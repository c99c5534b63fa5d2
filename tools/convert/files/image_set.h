/* A data set of encoded images, as the converters of folders, archives and tables make it: what was found, and the
 * samples that it is for whoever writes shards. Images are stored as they are. */
#ifndef PIPETRAIN_IMAGE_SET_H
#define PIPETRAIN_IMAGE_SET_H

#include "tools/convert/convert.h"
#include "tools/convert/files/image_choice.h"
#include "tools/convert/files/image_layout.h"
#include "tools/convert/files/image_list.h"

struct image_set;

/* The samples of a split. */
struct image_source {
    const struct image_set *set;
    const struct image_split *split;
};

/* Filled in by a converter: list, choice, layout and where bytes come from. */
struct image_set {
    struct image_list list;
    struct image_choice choice;
    struct image_layout layout;
    /* Put the file->bytes bytes of an image to `out`, which has room for one more. Any thread. 0; a negative errno;
     * -EBADMSG when it has another size now. */
    int (*read)(const struct image_set *set, const struct image_file *file, uint8_t *out);
    void *arg;                      /* of read */
    const char *input;              /* for messages */
    struct stop *stop;
    struct image_source sources[CONVERT_SOURCES_MAX];
};

/* `error` is the system's for a path of the input: noted as a file that cannot be used or, where the system has no
 * more to give, told. 0, or a negative errno after stop_fail. */
int image_set_refuse(struct image_set *set, const char *path, int error);
/* Fill in what the conversion is of a set that is complete. */
void image_set_describe(struct image_set *set, struct conversion *conversion);
/* Accepts a struct of zeros. */
void image_set_release(struct image_set *set);

#endif
