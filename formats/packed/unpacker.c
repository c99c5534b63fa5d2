/* One decoder for all containers. Called wherever compressed shards are read, by one thread at a time. */
#include "formats/packed/unpacker.h"

#include <errno.h>

#define LZ4_HEADER_BYTES_MIN 7u
#define LZ4_SIZED_HEADER_BYTES 15u
/* Codes of block sizes in a frame's header: 64 KiB, each four times the one before. */
#define LZ4_CODE_MIN 4u
#define LZ4_CODE_MAX 7u
#define LZ4_BLOCK_MIN ((size_t)64 << 10)
/* Beside two blocks: their checksum, and history where they depend on each other. */
#define LZ4_HISTORY_BYTES ((size_t)160 << 10)

/* Headers of frames whose blocks, of each size, depend on each other, which takes the most memory, and that hold
 * 0 bytes. */
static const uint8_t lz4_headers[][LZ4_SIZED_HEADER_BYTES] = {
    { 0x04, 0x22, 0x4d, 0x18, 0x48, 0x40, 0, 0, 0, 0, 0, 0, 0, 0, 0x67 },
    { 0x04, 0x22, 0x4d, 0x18, 0x48, 0x50, 0, 0, 0, 0, 0, 0, 0, 0, 0x9a },
    { 0x04, 0x22, 0x4d, 0x18, 0x48, 0x60, 0, 0, 0, 0, 0, 0, 0, 0, 0xec },
    { 0x04, 0x22, 0x4d, 0x18, 0x48, 0x70, 0, 0, 0, 0, 0, 0, 0, 0, 0x6f },
};

int unpacker_init(struct unpacker *unpacker)
{
    unpacker->container = CONTAINER_PLAIN;
    unpacker->problem = NULL;
    return LZ4F_isError(LZ4F_createDecompressionContext(&unpacker->lz4, LZ4F_VERSION)) ? -ENOMEM : 0;
}

void unpacker_release(struct unpacker *unpacker)
{
    (void)LZ4F_freeDecompressionContext(unpacker->lz4);
    unpacker->lz4 = NULL;
}

static size_t block_bytes_of(uint32_t code)
{
    return LZ4_BLOCK_MIN << 2 * (code - LZ4_CODE_MIN);
}

size_t unpacker_lz4_block_bytes(const uint8_t *head, size_t bytes)
{
    const bool is_frame = bytes > 5 && head[0] == lz4_headers[0][0];
    const uint32_t code = is_frame ? head[5] >> 4 & 7 : LZ4_CODE_MAX;
    return block_bytes_of(code >= LZ4_CODE_MIN ? code : LZ4_CODE_MAX);
}

/* Let it have seen the header, which allocates, and sets the size of the frame to 0. */
static void show_header(struct unpacker *unpacker, uint32_t code)
{
    uint8_t none;
    size_t given = 0, taken = LZ4_SIZED_HEADER_BYTES;
    LZ4F_resetDecompressionContext(unpacker->lz4);
    (void)LZ4F_decompress(unpacker->lz4, &none, &given, lz4_headers[code - LZ4_CODE_MIN], &taken, NULL);
    LZ4F_resetDecompressionContext(unpacker->lz4);
}

void unpacker_reserve_lz4(struct unpacker *unpacker, size_t block_bytes)
{
    uint32_t code = LZ4_CODE_MIN;
    while (code < LZ4_CODE_MAX && block_bytes_of(code) < block_bytes)
        code++;
    show_header(unpacker, code);
}

size_t unpacker_bytes(size_t block_bytes)
{
    return sizeof(struct unpacker) + (block_bytes > 0 ? 2 * block_bytes + LZ4_HISTORY_BYTES : 0);
}

static void begin_gzip(struct unpacker *unpacker)
{
    inflater_begin(&unpacker->inflater, true);
}

static void begin_zlib(struct unpacker *unpacker)
{
    inflater_begin(&unpacker->inflater, false);
}

/* A reset alone leaves the size of a frame that was not read to its end, and a frame that does not say its own
 * is then held to that. */
static void begin_lz4(struct unpacker *unpacker)
{
    show_header(unpacker, LZ4_CODE_MIN);
    unpacker->lz4_wanted = LZ4_HEADER_BYTES_MIN;
}

static enum unpack step_inflater(struct unpacker *unpacker, struct unpack_piece *piece)
{
    const enum unpack result = inflater_step(&unpacker->inflater, piece);
    unpacker->problem = unpacker->inflater.problem;
    return result;
}

/* A block at a time, as long as there is input and room. */
static enum unpack step_lz4(struct unpacker *unpacker, struct unpack_piece *piece)
{
    size_t taken, given;
    do {
        taken = piece->in_bytes < unpacker->lz4_wanted ? piece->in_bytes : unpacker->lz4_wanted;
        given = piece->out_bytes;
        const size_t hint = LZ4F_decompress(unpacker->lz4, piece->out, &given, piece->in, &taken, NULL);
        if (LZ4F_isError(hint)) {
            unpacker->problem = LZ4F_getErrorName(hint);
            return UNPACK_DAMAGED;
        }
        piece->in += taken;
        piece->in_bytes -= taken;
        piece->out += given;
        piece->out_bytes -= given;
        if (hint == 0)
            return UNPACK_ENDED;
        unpacker->lz4_wanted = hint;
    } while (taken + given > 0 && piece->in_bytes > 0 && piece->out_bytes > 0);
    return UNPACK_WAITS;
}

static const struct {
    void (*begin)(struct unpacker *unpacker);
    enum unpack (*step)(struct unpacker *unpacker, struct unpack_piece *piece);
    bool can_save;
} rows[CONTAINER_COUNT] = {
    [CONTAINER_GZIP] = { begin_gzip, step_inflater, true },
    [CONTAINER_ZLIB] = { begin_zlib, step_inflater, true },
    [CONTAINER_LZ4] = { begin_lz4, step_lz4, false },
};

void unpacker_begin(struct unpacker *unpacker, enum container container)
{
    unpacker->container = container;
    unpacker->problem = NULL;
    rows[container].begin(unpacker);
}

enum unpack unpacker_step(struct unpacker *unpacker, struct unpack_piece *piece)
{
    return rows[unpacker->container].step(unpacker, piece);
}

size_t unpacker_unread(const struct unpacker *unpacker)
{
    return rows[unpacker->container].can_save ? unpacker->inflater.unread_bytes : 0;
}

const struct inflater *unpacker_save(const struct unpacker *unpacker)
{
    return rows[unpacker->container].can_save ? &unpacker->inflater : NULL;
}

void unpacker_restore(struct unpacker *unpacker, enum container container, const struct inflater *saved)
{
    unpacker->container = container;
    unpacker->problem = NULL;
    unpacker->inflater = *saved;
}
