/* Reads the members of an archive sequentially with libarchive: tar, also compressed with gzip, bzip2, xz, zstd or
 * lz4; zip; 7z. Members that are unsafe or not plain files are refused: absolute paths, "..", links, devices, sparse
 * and encrypted files. Truncated archives and decompression bombs are refused as well. */
#ifndef PIPETRAIN_ARCHIVE_WALK_H
#define PIPETRAIN_ARCHIVE_WALK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stage/stop.h"

#define ARCHIVE_PATH_MAX 4095u

struct archive_walk;

struct archive_member {
    const char *path;           /* without "./", repeated slashes or a trailing slash; valid until the next call */
    bool is_folder;
    uint64_t bytes;
    bool is_in_file;            /* stored uncompressed in one piece, which archive_walk_read_at can read at any time */
    uint64_t offset;            /* position of that piece in the file */
};

/* Open an archive. `path` and `interrupted` (may be NULL) are borrowed. 0, or a negative errno; for -EBADMSG and
 * -EFBIG archive_walk_problem has the reason. Unless *walk_out is NULL it has to be closed, also after an error. */
int archive_walk_open(struct archive_walk **walk_out, const char *path, const atomic_bool *interrupted);
/* Accepts NULL. */
void archive_walk_close(struct archive_walk *walk);

/* Go to the next member. 0; -ENODATA after the last one, when the rest of the file was read and verified; -EBADMSG,
 * -EFBIG, -ENOMEM, -ECANCELED when interrupted, or the errno of reading the file. */
int archive_walk_next(struct archive_walk *walk, struct archive_member *member_out);
/* Read the next `bytes` bytes of the member. Returns the errors of archive_walk_next. */
int archive_walk_read(struct archive_walk *walk, void *out, size_t bytes);
/* Release everything but the open file, for archive_walk_read_at. */
void archive_walk_end(struct archive_walk *walk);
/* Read bytes of the archive file itself, also after archive_walk_end. Any thread. Returns the same as file_read_at. */
int archive_walk_read_at(const struct archive_walk *walk, uint64_t offset, void *out, size_t bytes);

/* The number of bytes of the file that have been read, for progress. */
uint64_t archive_walk_offset(const struct archive_walk *walk);
/* The path of the current member, or "" if there is none; and the problem of the member or of the archive, such as
 * "is a symbolic link". */
const char *archive_walk_path(const struct archive_walk *walk);
const char *archive_walk_problem(const struct archive_walk *walk);
/* Report that the conversion ends because of the archive at `path` or its current member. `walk` may be NULL.
 * `problem`: the problem of the member; NULL: the problem that the walk found. Nothing is reported for -ECANCELED.
 * Returns rc. */
int archive_walk_fail(const struct archive_walk *walk, const char *path, const char *problem, int rc,
                      struct stop *stop);

/* ---- whole archives and files ---- */

/* Called for each member, whose data it may read. 0, or a negative errno after stop_fail. */
typedef int (*archive_visit_fn)(void *arg, struct archive_walk *walk, const struct archive_member *member);
/* Call `visit` for all members of an archive, until it fails. 0, -ECANCELED when interrupted, or a negative errno
 * after stop_fail. */
int archive_visit(const char *path, const atomic_bool *interrupted, archive_visit_fn visit, void *arg,
                  struct stop *stop);
/* Read all data of the current member into a block that the caller frees. Returns the errors of archive_walk_next. */
int archive_member_load(struct archive_walk *walk, const struct archive_member *member, uint8_t **bytes_out);

/* Read a whole file into a block that the caller frees. A compressed file (gzip, bzip2, xz, zstd or lz4) is
 * decompressed. 0, or a negative errno: -EFBIG if there are more than bytes_max bytes, -EBADMSG for damaged
 * compressed data, -EISDIR or -EINVAL if it is not a file. */
int unpacked_file_read(const char *path, size_t bytes_max, uint8_t **bytes_out, size_t *byte_count_out);

#endif
