/* Recognising compressed files. Called where shards are opened, and where the next unit is looked for behind
 * damage. */
#include "formats/packed/container.h"

#include <string.h>

#include "formats/tfrecord.h"

static bool is_gzip(const uint8_t *magic)
{
    return memcmp(magic, "\x1f\x8b\x08", 3) == 0;
}

/* Deflate in a window of 32 KiB, which every writer of TFRecords uses, and no dictionary. */
static bool is_zlib(const uint8_t *magic)
{
    return magic[0] == 0x78 && (magic[0] * 256u + magic[1]) % 31 == 0 && (magic[1] & 0x20) == 0;
}

/* A frame, or one to be skipped. */
static bool is_lz4(const uint8_t *magic)
{
    return memcmp(magic, "\x04\x22\x4d\x18", 4) == 0 ||
           ((magic[0] & 0xf0) == 0x50 && memcmp(magic + 1, "\x2a\x4d\x18", 3) == 0);
}

static const struct {
    const char *name;
    bool (*may_begin)(const uint8_t *magic);
} rows[CONTAINER_COUNT] = {
    [CONTAINER_PLAIN] = { "plain", NULL },
    [CONTAINER_GZIP] = { "gzip", is_gzip },
    [CONTAINER_ZLIB] = { "zlib", is_zlib },
    [CONTAINER_LZ4] = { "LZ4", is_lz4 },
};

bool container_may_begin(enum container container, const uint8_t magic[CONTAINER_MAGIC_BYTES])
{
    return rows[container].may_begin(magic);
}

static bool is_record(const uint8_t *head, size_t bytes)
{
    uint64_t payload_bytes;
    struct tfrecord_problem problem;
    return bytes >= TFRECORD_HEADER_BYTES && tfrecord_header(head, &payload_bytes, &problem) != TFRECORD_LENGTH_CRC;
}

enum container container_find(const uint8_t *head, size_t bytes)
{
    if (bytes < CONTAINER_MAGIC_BYTES || is_record(head, bytes))
        return CONTAINER_PLAIN;
    enum container container = CONTAINER_GZIP;
    while (container < CONTAINER_COUNT && !rows[container].may_begin(head))
        container++;
    return container < CONTAINER_COUNT ? container : CONTAINER_PLAIN;
}

const char *container_name(enum container container)
{
    return rows[container].name;
}
