/* A few members of a tar archive, compressed with gzip or not, in memory. */
#ifndef PIPETRAIN_TAR_MEMBERS_H
#define PIPETRAIN_TAR_MEMBERS_H

#include <stddef.h>
#include <stdint.h>

#include "stage/stop.h"

#define TAR_MEMBER_BYTES_MAX ((uint64_t)1 << 30)

/* A member that is wanted, whatever folders it is in. */
struct tar_wanted {
    const char *name;
    uint8_t *bytes;             /* owned by the caller (free); NULL while it was not met */
    size_t byte_count;
};

/* Walk through the archive and fill in those of `wanted` that it has. 0, or a negative errno after stop_fail: an
 * archive that is damaged or cannot be read, a member that is absurdly large or there twice. What was filled in
 * stays. */
int tar_members_read(const char *path, struct tar_wanted *wanted, size_t count, struct stop *stop);

#endif
