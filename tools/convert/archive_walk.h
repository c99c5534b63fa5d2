/* The members of an archive, read once from front to back through libarchive: tar, also compressed with gzip, bzip2,
 * xz, zstd or lz4; zip; 7z. What could reach outside the folder an archive is unpacked to, or is no plain file, is
 * refused: absolute paths, "..", links, devices, sparse and encrypted files. So is an archive that is cut short, or
 * that unpacks to absurdly more than it has bytes. */
#ifndef PIPETRAIN_ARCHIVE_WALK_H
#define PIPETRAIN_ARCHIVE_WALK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ARCHIVE_PATH_MAX 4095u

struct archive_walk;

struct archive_member {
    const char *path;           /* without "./", doubled "/" or one at its end; valid until the next call */
    bool is_folder;
    uint64_t bytes;
    bool is_in_file;            /* stored uncompressed and in one range: archive_walk_read_at reads it at any time */
    uint64_t offset;            /* of that range in the file */
};

/* Open an archive. `path` and `interrupted` (may be NULL) are lent. 0, or a negative errno: -EBADMSG and -EFBIG have a
 * text in archive_walk_problem. Where *walk_out is not NULL, it is to be closed. */
int archive_walk_open(struct archive_walk **walk_out, const char *path, const atomic_bool *interrupted);
/* Accepts NULL. */
void archive_walk_close(struct archive_walk *walk);

/* The next member. 0; -ENODATA after the last one, once the rest of the file was read and verified; -EBADMSG, -EFBIG,
 * -ENOMEM, -ECANCELED once interrupted, or what reading the file returned. */
int archive_walk_next(struct archive_walk *walk, struct archive_member *member_out);
/* The next `bytes` bytes of the member. Errors as archive_walk_next. */
int archive_walk_read(struct archive_walk *walk, void *out, size_t bytes);
/* Release everything but the open file, which archive_walk_read_at still reads. */
void archive_walk_end(struct archive_walk *walk);
/* Bytes of the file itself, whether the walk has ended or not. Any thread. As file_read_at. */
int archive_walk_read_at(const struct archive_walk *walk, uint64_t offset, void *out, size_t bytes);

/* How much of the file has been read, for progress. */
uint64_t archive_walk_offset(const struct archive_walk *walk);
/* The member of the last call, "" when there is none, and what was wrong with it or the archive: "is a symbolic
 * link". */
const char *archive_walk_path(const struct archive_walk *walk);
const char *archive_walk_problem(const struct archive_walk *walk);

/* A whole file in a block that the caller frees, decompressed if it is compressed (as above). 0, or a negative errno:
 * -EFBIG over bytes_max, -EBADMSG for damaged compressed data, -EISDIR or -EINVAL for what is no file. */
int unpacked_file_read(const char *path, size_t bytes_max, uint8_t **bytes_out, size_t *byte_count_out);

#endif
