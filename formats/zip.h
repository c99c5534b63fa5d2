/* Zip archives, as far as NumPy's .npz files need them: members stored or deflated, without encryption, in
 * archives below 4 GiB. The archive is in memory. */
#ifndef PIPETRAIN_ZIP_H
#define PIPETRAIN_ZIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The archive, filled in by zip_open. */
struct zip {
    const uint8_t *bytes;
    size_t byte_count;
    size_t directory, directory_end;
};

struct zip_member {
    const char *name;           /* name_bytes long, not terminated */
    size_t name_bytes;
    bool is_deflated;
    const uint8_t *data;        /* as stored, in the archive */
    size_t data_bytes, unpacked_bytes;
    uint32_t crc;               /* CRC-32 of the unpacked bytes */
};

/* Find the directory. 0, or -EBADMSG with what is wrong. */
int zip_open(struct zip *zip_out, const uint8_t *bytes, size_t byte_count, const char **problem_out);
/* The member at *place, which is 0 for the first one and is moved on to the next. 0, -ENODATA behind the
 * last one, or -EBADMSG with what is wrong with the archive or this member. */
int zip_next(const struct zip *zip, size_t *place, struct zip_member *member_out, const char **problem_out);
/* Unpack a member to `out`, which has room for unpacked_bytes, and compare its checksum. 0, -EBADMSG with what is
 * wrong, or -ENOMEM. */
int zip_unpack(const struct zip_member *member, uint8_t *out, const char **problem_out);

#endif
