/* Read the members of an archive sequentially with libarchive: tar, also compressed with gzip, bzip2, xz, zstd or lz4;
 * zip; 7z. Members that are unsafe or not plain files are refused: absolute paths, "..", links, devices, sparse and
 * encrypted files. Truncated archives and decompression bombs are refused as well. */
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
    const char *path;           /* without "./", doubled "/" or one at its end; valid until the next call */
    bool is_folder;
    uint64_t bytes;
    bool is_in_file;            /* stored uncompressed and in one range: archive_walk_read_at reads it at any time */
    uint64_t offset;            /* of that range in the file */
};

/* Open an archive. `path` and `interrupted` (may be NULL) are borrowed. 0, or a negative errno: -EBADMSG and -EFBIG
 * have a text in archive_walk_problem. Close *walk_out also after an error, unless it is NULL. */
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
/* Read bytes of the file itself, also after archive_walk_end. Any thread. Returns as file_read_at. */
int archive_walk_read_at(const struct archive_walk *walk, uint64_t offset, void *out, size_t bytes);

/* How much of the file has been read, for progress. */
uint64_t archive_walk_offset(const struct archive_walk *walk);
/* The path of the current member, or "", and the problem of it or of the archive: "is a symbolic link". */
const char *archive_walk_path(const struct archive_walk *walk);
const char *archive_walk_problem(const struct archive_walk *walk);
/* End the conversion because of the archive at `path` or its current member. `walk` may be NULL; `problem` is that of
 * the member, NULL for what the walk found. Nothing is reported for -ECANCELED. Returns rc. */
int archive_walk_fail(const struct archive_walk *walk, const char *path, const char *problem, int rc,
                      struct stop *stop);

/* ---- whole archives and files ---- */

/* Called for a member, whose data may be read. 0, or a negative errno after stop_fail. */
typedef int (*archive_visit_fn)(void *arg, struct archive_walk *walk, const struct archive_member *member);
/* Visit all members of an archive, until a visit fails. 0, -ECANCELED once interrupted, or a negative errno after
 * stop_fail. */
int archive_visit(const char *path, const atomic_bool *interrupted, archive_visit_fn visit, void *arg,
                  struct stop *stop);
/* Read all data of the current member into a block that the caller frees. Errors as archive_walk_next. */
int archive_member_load(struct archive_walk *walk, const struct archive_member *member, uint8_t **bytes_out);

/* Read a whole file, decompressed if it is compressed (as above), into a block that the caller frees. 0, or a negative
 * errno: -EFBIG over bytes_max, -EBADMSG for damaged compressed data, -EISDIR or -EINVAL if it is not a file. */
int unpacked_file_read(const char *path, size_t bytes_max, uint8_t **bytes_out, size_t *byte_count_out);

#endif
