/* Find the images in a folder and below it, by content (image_choice.h). The converter and predict share this, so both
 * find the same files. Hidden entries are skipped; links are followed. */
#ifndef PIPETRAIN_IMAGE_FOLDER_H
#define PIPETRAIN_IMAGE_FOLDER_H

#include <stdatomic.h>
#include <sys/types.h>

#include "tools/convert/files/image_choice.h"
#include "tools/convert/files/image_list.h"

#define IMAGE_FOLDER_DEPTH_MAX 32u
#define IMAGE_FOLDER_PATH_BYTES 4096u

/* Begins as zeros but for what is lent. */
struct image_folder {
    struct image_choice *choice;        /* lent; begun */
    struct image_list *list;            /* lent; images and folders are added, with paths from the folder on */
    const atomic_bool *interrupted;     /* lent; NULL: nobody interrupts */
    char path[IMAGE_FOLDER_PATH_BYTES]; /* of what is looked at */
    struct { dev_t device; ino_t inode; } above[IMAGE_FOLDER_DEPTH_MAX + 1];    /* the folders that it lies in */
};

/* Walk the folder that is open as `fd`. What cannot be read or is no file is refused by the choice. 0, -ENOMEM,
 * -ECANCELED when interrupted, or another negative errno where the system has no more to give, as descriptors. */
int image_folder_walk(struct image_folder *folder, int fd);

#endif
