/* The images of archives that cannot be read at any position (compressed tar, zip, 7z), kept in memory up to half of
 * what is available. The other half is for the page cache and the writers. */
#ifndef PIPETRAIN_ARCHIVE_STORE_H
#define PIPETRAIN_ARCHIVE_STORE_H

#include <stddef.h>
#include <stdint.h>

#include "tools/convert/archive_walk.h"

/* image_file.input of an image that is kept in memory, instead of the number of its archive; image_file.place is its
 * offset in `bytes` then. */
#define ARCHIVE_STORE_INPUT UINT16_MAX
#define ARCHIVE_STORE_FULL "its images need more than half of the memory: convert it as an uncompressed .tar, or " \
                           "unpack it and convert the folder"

struct archive_store {
    uint8_t *bytes;             /* all images one after the other; owned */
    size_t count, room, limit;
};

/* Find the memory limit; the rest is zero. */
void archive_store_init(struct archive_store *store);
/* Read the data of the current member to bytes + count; the next call overwrites it unless archive_store_keep was
 * called. 0, -EFBIG if the limit would be exceeded, or an error of archive_walk_read. */
int archive_store_load(struct archive_store *store, struct archive_walk *walk, const struct archive_member *member);
void archive_store_keep(struct archive_store *store, uint64_t bytes);
/* Accepts a struct of zeros. */
void archive_store_release(struct archive_store *store);

#endif
