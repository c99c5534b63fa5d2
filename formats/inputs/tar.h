/* Walking a tar archive: ustar (POSIX.1-1988), pax (POSIX.1-2001), GNU and the old form before both. Files and
 * folders are told of; what could reach outside the place where an archive is unpacked, or is no plain data, is
 * refused: absolute paths, "..", links, devices, sparse files. Archives one behind the other are one. */
#ifndef PIPETRAIN_TAR_H
#define PIPETRAIN_TAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TAR_BLOCK_BYTES 512u
#define TAR_PATH_MAX 4095u

/* Where the archive's bytes come from. `read` gives `bytes` of them from `offset`, fewer only where the archive ends,
 * and returns 0 or a negative errno. Offsets never go back, so that a stream will do. */
struct tar_source {
    int (*read)(void *arg, uint64_t offset, void *out, size_t bytes, size_t *done_out);
    void *arg;
};

struct tar_member {
    bool is_folder;
    const char *path;           /* without "./", doubled "/" or one at its end; valid until the next call */
    uint64_t data_offset, data_bytes;
};

/* Set `source`, all else zero. */
struct tar_walk {
    struct tar_source source;
    uint64_t offset;            /* of the next header */
    bool has_end_mark;          /* a block of zeros was the last thing read */
    bool has_long_path, has_long_bytes;     /* of the next member, from the header in front of it */
    uint64_t long_bytes;
    char long_path[TAR_PATH_MAX + 1];
    char path[TAR_PATH_MAX + 1];            /* of the member told of, or refused; "" when its name is not known */
};

/* The next member, whose data may be read until the next call. 0; -ENODATA behind the last one; -EBADMSG with what is
 * wrong, to stand behind the member's name ("is a symbolic link") or the archive's; -ENOMEM; what read returns. */
int tar_next(struct tar_walk *walk, struct tar_member *member_out, const char **problem_out);

#endif
