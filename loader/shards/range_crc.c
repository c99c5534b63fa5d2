/* CRCs of ranges, computed from CRCs of prefixes. Called when the next record is searched for after damage. */
#include "loader/shards/range_crc.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "formats/crc32c.h"

#define BLOCK_BYTES ((uint64_t)1024)
#define BUFFER_BYTES ((size_t)256 << 10)
#define ROOM_MIN ((size_t)1024)

static bool is_unwanted(const struct range_crc *crc)
{
    return crc->is_unwanted != NULL && atomic_load(crc->is_unwanted);
}

static int read_exact(struct range_crc *crc, size_t bytes, uint64_t offset)
{
    if (bytes == 0)
        return 0;
    if (is_unwanted(crc))
        return -ECANCELED;
    const ssize_t got = shard_source_read(crc->source, crc->buffer, bytes, offset);
    return got < 0 ? (int)got : (size_t)got < bytes ? -ESTALE : 0;
}

static int range_crc_reserve(struct range_crc *crc, size_t count)
{
    if (crc->buffer == NULL)
        crc->buffer = malloc(BUFFER_BYTES);
    if (crc->buffer == NULL)
        return -ENOMEM;
    if (count <= crc->room)
        return 0;
    const size_t room = count < ROOM_MIN ? ROOM_MIN : 2 * count;
    uint32_t *const grown = realloc(crc->sums, room * sizeof(*grown));
    if (grown == NULL)
        return -ENOMEM;
    crc->sums = grown;
    crc->room = room;
    return 0;
}

/* Restart the sums at `block`, unless it is already included. */
static int range_crc_begin(struct range_crc *crc, uint64_t block)
{
    if (crc->count > 0 && block >= crc->first && block < crc->first + crc->count)
        return 0;
    const int rc = range_crc_reserve(crc, 1);
    if (rc < 0)
        return rc;
    crc->first = block;
    crc->sums[0] = 0;
    crc->count = 1;
    return 0;
}

/* Extend the sums up to the beginning of `block`. */
static int range_crc_extend(struct range_crc *crc, uint64_t block)
{
    while (crc->first + crc->count <= block) {
        const uint64_t next = crc->first + crc->count - 1;
        const uint64_t missing = (block - next) * BLOCK_BYTES;
        const size_t bytes = missing < BUFFER_BYTES ? (size_t)missing : BUFFER_BYTES;
        int rc = range_crc_reserve(crc, crc->count + bytes / BLOCK_BYTES);
        if (rc == 0)
            rc = read_exact(crc, bytes, next * BLOCK_BYTES);
        if (rc < 0)
            return rc;
        for (size_t at = 0; at < bytes; at += BLOCK_BYTES, crc->count++)
            crc->sums[crc->count] = crc32c_more(crc->sums[crc->count - 1], crc->buffer + at, BLOCK_BYTES);
    }
    return 0;
}

/* The CRC of all bytes from block `first` to offset `end`. */
static int sum_to(struct range_crc *crc, uint64_t end, uint32_t *crc_out)
{
    const size_t edge = (size_t)(end % BLOCK_BYTES);
    const int rc = read_exact(crc, edge, end - edge);
    if (rc == 0)
        *crc_out = crc32c_more(crc->sums[end / BLOCK_BYTES - crc->first], crc->buffer, edge);
    return rc;
}

int range_crc_find(struct range_crc *crc, uint64_t offset, uint64_t bytes, uint32_t *crc_out)
{
    uint32_t front, whole;
    int rc = range_crc_begin(crc, offset / BLOCK_BYTES);
    if (rc == 0)
        rc = range_crc_extend(crc, (offset + bytes) / BLOCK_BYTES);
    if (rc == 0)
        rc = sum_to(crc, offset, &front);
    if (rc == 0)
        rc = sum_to(crc, offset + bytes, &whole);
    if (rc == 0)
        *crc_out = crc32c_behind(whole, front, bytes);
    return rc;
}

void range_crc_release(struct range_crc *crc)
{
    free(crc->sums);
    free(crc->buffer);
    *crc = (struct range_crc){ 0 };
}
