/* What the words of a command line name: image files, folders of them, shards. Used by main only. */
#ifndef PIPETRAIN_IMAGE_WORDS_H
#define PIPETRAIN_IMAGE_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Begins as zeros. */
struct image_words {
    char **paths;               /* of images, owned */
    uint64_t count, room;
    char *shards;               /* or the shards' names and patterns with commas between them, owned; NULL: none */
    uint64_t empty_folders;     /* that were told of */
    uint64_t unread;            /* files and folders in folders that cannot be read, which were told of */
};

/* Look at every word: "-" is a list of paths on stdin, a line each or with a 0 behind each; a folder with shards, a
 * file with a shard's name or a glob are shards; a folder without is the images in it and below, by name, chosen by
 * content as pipetrain-convert chooses them; anything else is an image, whether it is there or not. A folder that holds
 * neither is told and left out. 0, or an exit code after a message: shards and images together, a list that cannot be
 * read, or nothing at all. image_words_release after either. */
int image_words_read(struct image_words *words, char *const *argv, int count);
/* Accepts zeros. */
void image_words_release(struct image_words *words);

#endif
