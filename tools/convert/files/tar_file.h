/* A tar archive on disk, compressed with gzip or not. What is compressed can only be read from the beginning on,
 * once. */
#ifndef PIPETRAIN_TAR_FILE_H
#define PIPETRAIN_TAR_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zlib.h>

struct tar_file {
    const char *path;
    int fd;
    bool is_compressed;
    gzFile stream;              /* of a compressed one, until tar_file_end */
    uint64_t at;                /* the stream's place */
};

/* Open the file and see what it is by its content. 0; -EBADMSG with what is wrong, to stand behind the path; a negative
 * errno. tar_file_close in all cases but on a struct of zeros with fd -1, which it accepts. */
int tar_file_open(struct tar_file *file, const char *path, const char **problem_out);
/* As `read` of struct tar_source, for any offset of one that is not compressed, else never backwards. -EBADMSG: the
 * compressed data is damaged or cut short. Any thread for one that is not compressed. */
int tar_file_read(void *file, uint64_t offset, void *out, size_t bytes, size_t *done_out);
/* How far into the file what was read reaches, where the archive is compressed. */
uint64_t tar_file_packed_offset(const struct tar_file *file);
/* Read the compressed rest, so that its checksum is compared, and let go of what that took. As tar_file_read. */
int tar_file_end(struct tar_file *file);
void tar_file_close(struct tar_file *file);

#endif
