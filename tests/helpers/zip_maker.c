/* Zip archives for tests. */
#include "tests/helpers/zip_maker.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static void put(uint8_t **block, size_t *block_bytes, const void *data, size_t bytes)
{
    *block = realloc(*block, *block_bytes + bytes + 1);
    if (*block == NULL)
        abort();
    if (bytes > 0)
        memcpy(*block + *block_bytes, data, bytes);
    *block_bytes += bytes;
}

static void put_number(uint8_t **block, size_t *block_bytes, uint64_t value, size_t bytes)
{
    uint8_t low_first[8];
    for (size_t i = 0; i < bytes; i++)
        low_first[i] = (uint8_t)(value >> 8 * i);
    put(block, block_bytes, low_first, bytes);
}

static size_t deflate_all(const void *data, size_t bytes, uint8_t *out, size_t room)
{
    z_stream stream = { .next_in = (Bytef *)(uintptr_t)data, .avail_in = (uInt)bytes, .next_out = out,
                        .avail_out = (uInt)room };
    if (deflateInit2(&stream, 6, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK ||
        deflate(&stream, Z_FINISH) != Z_STREAM_END)
        abort();
    deflateEnd(&stream);
    return stream.total_out;
}

void zip_maker_add(struct zip_maker *maker, const char *name, const void *data, size_t bytes, bool deflates)
{
    uint8_t *const packed = malloc(2 * bytes + 1000);
    if (packed == NULL)
        abort();
    const size_t packed_bytes = deflates ? deflate_all(data, bytes, packed, 2 * bytes + 1000) : bytes;
    uint8_t *common = NULL;     /* to both headers: versions, flags, method, time, checksum, sizes, lengths */
    size_t common_bytes = 0;
    put_number(&common, &common_bytes, 20, 2);                  /* version needed */
    put_number(&common, &common_bytes, 0, 2);                   /* flags */
    put_number(&common, &common_bytes, deflates ? 8 : 0, 2);
    put_number(&common, &common_bytes, 0, 4);                   /* time and date */
    put_number(&common, &common_bytes, crc32_z(0, data, bytes), 4);
    put_number(&common, &common_bytes, packed_bytes, 4);
    put_number(&common, &common_bytes, bytes, 4);
    put_number(&common, &common_bytes, strlen(name), 2);
    put_number(&common, &common_bytes, 0, 2);                   /* no extra field in the directory */

    put(&maker->directory, &maker->directory_bytes, "PK\1\2\24\0", 6);
    put(&maker->directory, &maker->directory_bytes, common, common_bytes);
    put(&maker->directory, &maker->directory_bytes, "\0\0\0\0\0\0\0\0\0", 10);
    put_number(&maker->directory, &maker->directory_bytes, maker->byte_count, 4);
    put(&maker->directory, &maker->directory_bytes, name, strlen(name));

    common[24] = 4;                                             /* an extra field, as zip64 has one */
    put(&maker->bytes, &maker->byte_count, "PK\3\4", 4);
    put(&maker->bytes, &maker->byte_count, common, common_bytes);
    put(&maker->bytes, &maker->byte_count, name, strlen(name));
    put(&maker->bytes, &maker->byte_count, "\1\0\0\0", 4);
    put(&maker->bytes, &maker->byte_count, deflates ? packed : data, packed_bytes);
    maker->member_count++;
    free(common);
    free(packed);
}

void zip_maker_end(struct zip_maker *maker)
{
    const size_t begin = maker->byte_count;
    put(&maker->bytes, &maker->byte_count, maker->directory, maker->directory_bytes);
    put(&maker->bytes, &maker->byte_count, "PK\5\6\0\0\0\0", 8);
    put_number(&maker->bytes, &maker->byte_count, maker->member_count, 2);
    put_number(&maker->bytes, &maker->byte_count, maker->member_count, 2);
    put_number(&maker->bytes, &maker->byte_count, maker->directory_bytes, 4);
    put_number(&maker->bytes, &maker->byte_count, begin, 4);
    put_number(&maker->bytes, &maker->byte_count, 0, 2);
}

void zip_maker_release(struct zip_maker *maker)
{
    free(maker->bytes);
    free(maker->directory);
    *maker = (struct zip_maker){ 0 };
}
