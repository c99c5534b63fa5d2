/* The images of a data set: where each lies and what class it is of. Made for millions of them: names lie one
 * behind the other in one block, and an image takes 32 bytes besides. */
#ifndef PIPETRAIN_IMAGE_LIST_H
#define PIPETRAIN_IMAGE_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct image_file {
    uint64_t path;              /* its place among the names */
    uint64_t place;             /* of its bytes, for who reads them */
    uint32_t bytes;
    uint32_t label;
    uint16_t input;             /* of several, for who reads it */
    uint16_t name_at;           /* the byte of the path where the name begins that its record tells */
    bool is_folder;             /* no image, but a folder that was seen */
};

struct image_list {
    struct image_file *files;
    size_t count, room;
    char *names;
    size_t name_bytes, name_room;
};

/* Add an image or folder; the path is copied, file->path is set. 0 or -ENOMEM. */
int image_list_add(struct image_list *list, const char *path, const struct image_file *file);
const char *image_list_path(const struct image_list *list, const struct image_file *file);
/* By paths, part after part in the bytewise order of their names: a folder is followed by what is in it. */
void image_list_sort(struct image_list *list);
/* Accepts a struct of zeros. */
void image_list_release(struct image_list *list);

#endif
