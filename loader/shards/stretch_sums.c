/* CRCs by difference. Called where the walk along a shard looks for the next record behind
 * damage. */
#include "loader/shards/stretch_sums.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "formats/crc32c.h"

#define BLOCK_BYTES ((uint64_t)1024)
#define BUFFER_BYTES ((size_t)256 << 10)
#define ROOM_MIN ((size_t)1024)

static bool is_unwanted(const struct stretch_sums *sums)
{
    return sums->is_unwanted != NULL && atomic_load(sums->is_unwanted);
}

static int read_exact(struct stretch_sums *sums, size_t bytes, uint64_t offset)
{
    if (bytes == 0)
        return 0;
    if (is_unwanted(sums))
        return -ECANCELED;
    const ssize_t got = shard_source_read(sums->source, sums->buffer, bytes, offset);
    return got < 0 ? (int)got : (size_t)got < bytes ? -ESTALE : 0;
}

static int reserve(struct stretch_sums *sums, size_t count)
{
    if (sums->buffer == NULL)
        sums->buffer = malloc(BUFFER_BYTES);
    if (sums->buffer == NULL)
        return -ENOMEM;
    if (count <= sums->room)
        return 0;
    const size_t room = count < ROOM_MIN ? ROOM_MIN : 2 * count;
    uint32_t *const grown = realloc(sums->sums, room * sizeof(*grown));
    if (grown == NULL)
        return -ENOMEM;
    sums->sums = grown;
    sums->room = room;
    return 0;
}

/* What is kept begins at `block`, unless it goes on from there anyway. */
static int begin(struct stretch_sums *sums, uint64_t block)
{
    if (sums->count > 0 && block >= sums->first && block < sums->first + sums->count)
        return 0;
    const int rc = reserve(sums, 1);
    if (rc < 0)
        return rc;
    sums->first = block;
    sums->sums[0] = 0;
    sums->count = 1;
    return 0;
}

/* Keep sums up to the beginning of `block`. */
static int extend(struct stretch_sums *sums, uint64_t block)
{
    while (sums->first + sums->count <= block) {
        const uint64_t next = sums->first + sums->count - 1;
        const uint64_t missing = (block - next) * BLOCK_BYTES;
        const size_t bytes = missing < BUFFER_BYTES ? (size_t)missing : BUFFER_BYTES;
        int rc = reserve(sums, sums->count + bytes / BLOCK_BYTES);
        if (rc == 0)
            rc = read_exact(sums, bytes, next * BLOCK_BYTES);
        if (rc < 0)
            return rc;
        for (size_t at = 0; at < bytes; at += BLOCK_BYTES, sums->count++)
            sums->sums[sums->count] = crc32c_more(sums->sums[sums->count - 1], sums->buffer + at, BLOCK_BYTES);
    }
    return 0;
}

/* Of all bytes from block `first` to `end`, the beginning of whose block is kept. */
static int sum_to(struct stretch_sums *sums, uint64_t end, uint32_t *crc_out)
{
    const size_t edge = (size_t)(end % BLOCK_BYTES);
    const int rc = read_exact(sums, edge, end - edge);
    if (rc == 0)
        *crc_out = crc32c_more(sums->sums[end / BLOCK_BYTES - sums->first], sums->buffer, edge);
    return rc;
}

int stretch_sums_find(struct stretch_sums *sums, uint64_t offset, uint64_t bytes, uint32_t *crc_out)
{
    uint32_t front, whole;
    int rc = begin(sums, offset / BLOCK_BYTES);
    if (rc == 0)
        rc = extend(sums, (offset + bytes) / BLOCK_BYTES);
    if (rc == 0)
        rc = sum_to(sums, offset, &front);
    if (rc == 0)
        rc = sum_to(sums, offset + bytes, &whole);
    if (rc == 0)
        *crc_out = crc32c_behind(whole, front, bytes);
    return rc;
}

void stretch_sums_release(struct stretch_sums *sums)
{
    free(sums->sums);
    free(sums->buffer);
    *sums = (struct stretch_sums){ 0 };
}
