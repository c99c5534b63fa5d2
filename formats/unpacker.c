/* Decompressing shards: deflate by ISA-L, LZ4 by liblz4. Called wherever compressed shards are read. Each unpacker is
 * used by one thread at a time. */
#include "formats/unpacker.h"

#include <errno.h>
#include <string.h>

#include "formats/tfrecord.h"

/* ---- recognising ---- */

static bool is_gzip(const uint8_t *magic)
{
    return memcmp(magic, "\x1f\x8b\x08", 3) == 0;
}

/* Only deflate with a window of 32 KiB, which every writer of TFRecords uses, and without a preset dictionary. */
static bool is_zlib(const uint8_t *magic)
{
    return magic[0] == 0x78 && (magic[0] * 256u + magic[1]) % 31 == 0 && (magic[1] & 0x20) == 0;
}

/* An LZ4 frame or a skippable frame. */
static bool is_lz4(const uint8_t *magic)
{
    return memcmp(magic, "\x04\x22\x4d\x18", 4) == 0 ||
           ((magic[0] & 0xf0) == 0x50 && memcmp(magic + 1, "\x2a\x4d\x18", 3) == 0);
}

static const struct {
    const char *name;
    bool (*may_begin)(const uint8_t *magic);
} containers[CONTAINER_COUNT] = {
    [CONTAINER_PLAIN] = { "plain", NULL },
    [CONTAINER_GZIP] = { "gzip", is_gzip },
    [CONTAINER_ZLIB] = { "zlib", is_zlib },
    [CONTAINER_LZ4] = { "LZ4", is_lz4 },
};

bool container_may_begin(enum container container, const uint8_t magic[CONTAINER_MAGIC_BYTES])
{
    return containers[container].may_begin(magic);
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
    while (container < CONTAINER_COUNT && !containers[container].may_begin(head))
        container++;
    return container < CONTAINER_COUNT ? container : CONTAINER_PLAIN;
}

const char *container_name(enum container container)
{
    return containers[container].name;
}

/* ---- gzip and zlib ----
 *
 * Headers and trailers are parsed here, since ISA-L loses its position in a header that arrives in two pieces. */

#define GZIP_HEADER_BYTES 10u
#define GZIP_TRAILER_BYTES 8u
#define ZLIB_HEADER_BYTES 2u
#define ZLIB_TRAILER_BYTES 4u

#define FLAG_HEADER_CRC 0x02u
#define FLAG_EXTRA 0x04u
#define FLAG_NAME 0x08u
#define FLAG_COMMENT 0x10u
#define FLAGS_RESERVED 0xe0u

static uint32_t le16(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8;
}

static uint32_t le32(const uint8_t *at)
{
    return le16(at) | le16(at + 2) << 16;
}

static uint32_t be32(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* The function of a part returns true when the part is complete. It returns false when it needs more input or output
 * space, or when it has set `problem`. */

static bool go_to(struct inflater *inflater, enum inflater_part part)
{
    inflater->part = part;
    return true;
}

static bool unpack_refuse(struct inflater *inflater, const char *problem)
{
    inflater->problem = problem;
    return false;
}

static uint8_t take_byte(struct inflater *inflater, struct unpack_piece *piece)
{
    if (inflater->part < INFLATER_HEADER_CRC)
        inflater->header_crc = crc32_gzip_refl(inflater->header_crc, piece->in, 1);
    piece->in_bytes--;
    return *piece->in++;
}

/* Collect the bytes of a field. True when all of them have been read. */
static bool have_field(struct inflater *inflater, struct unpack_piece *piece, uint32_t bytes)
{
    while (inflater->field_bytes < bytes && piece->in_bytes > 0)
        inflater->field[inflater->field_bytes++] = take_byte(inflater, piece);
    if (inflater->field_bytes < bytes)
        return false;
    inflater->field_bytes = 0;
    return true;
}

static bool read_gzip_header(struct inflater *inflater)
{
    const uint8_t *const field = inflater->field;
    if (field[0] != 0x1f || field[1] != 0x8b)
        return unpack_refuse(inflater, "no gzip member begins here");
    if (field[2] != 8 || (field[3] & FLAGS_RESERVED) != 0)
        return unpack_refuse(inflater, "the header of the gzip member is damaged");
    inflater->flags = field[3];
    return go_to(inflater, INFLATER_EXTRA_LENGTH);
}

static bool read_zlib_header(struct inflater *inflater)
{
    const uint32_t method = inflater->field[0], flags = inflater->field[1];
    if ((method & 0x0f) != 8 || method > 0x78 || (method * 256 + flags) % 31 != 0)
        return unpack_refuse(inflater, "no zlib stream begins here");
    if ((flags & 0x20) != 0)
        return unpack_refuse(inflater, "the zlib stream needs a dictionary");
    return go_to(inflater, INFLATER_BODY);
}

static bool read_header(struct inflater *inflater, struct unpack_piece *piece)
{
    if (!have_field(inflater, piece, inflater->is_gzip ? GZIP_HEADER_BYTES : ZLIB_HEADER_BYTES))
        return false;
    return inflater->is_gzip ? read_gzip_header(inflater) : read_zlib_header(inflater);
}

static bool read_extra_length(struct inflater *inflater, struct unpack_piece *piece)
{
    if ((inflater->flags & FLAG_EXTRA) == 0)
        return go_to(inflater, INFLATER_NAME);
    if (!have_field(inflater, piece, 2))
        return false;
    inflater->skip_bytes = le16(inflater->field);
    return go_to(inflater, INFLATER_EXTRA);
}

static bool skip_extra(struct inflater *inflater, struct unpack_piece *piece)
{
    for (; inflater->skip_bytes > 0 && piece->in_bytes > 0; inflater->skip_bytes--)
        (void)take_byte(inflater, piece);
    return inflater->skip_bytes == 0 && go_to(inflater, INFLATER_NAME);
}

/* Skip a zero-terminated text, if the flag says that the header has it. */
static bool skip_text(struct inflater *inflater, struct unpack_piece *piece, uint32_t flag, enum inflater_part next)
{
    if ((inflater->flags & flag) == 0)
        return go_to(inflater, next);
    while (piece->in_bytes > 0)
        if (take_byte(inflater, piece) == 0)
            return go_to(inflater, next);
    return false;
}

static bool skip_name(struct inflater *inflater, struct unpack_piece *piece)
{
    return skip_text(inflater, piece, FLAG_NAME, INFLATER_COMMENT);
}

static bool skip_comment(struct inflater *inflater, struct unpack_piece *piece)
{
    return skip_text(inflater, piece, FLAG_COMMENT, INFLATER_HEADER_CRC);
}

static bool check_header(struct inflater *inflater, struct unpack_piece *piece)
{
    if ((inflater->flags & FLAG_HEADER_CRC) == 0)
        return go_to(inflater, INFLATER_BODY);
    if (!have_field(inflater, piece, 2))
        return false;
    if (le16(inflater->field) != (inflater->header_crc & 0xffff))
        return unpack_refuse(inflater, "the checksum of the gzip header differs");
    return go_to(inflater, INFLATER_BODY);
}

static uint32_t trailer_bytes(const struct inflater *inflater)
{
    return inflater->is_gzip ? GZIP_TRAILER_BYTES : ZLIB_TRAILER_BYTES;
}

/* ISA-L has read up to 8 bytes too many: they are the beginning of the trailer and, after it, of the next unit. */
static bool end_body(struct inflater *inflater)
{
    uint32_t ahead = (uint32_t)inflater->state.read_in_length / 8;
    uint64_t bytes = inflater->state.read_in >> (inflater->state.read_in_length % 8);
    for (; ahead > 0 && inflater->field_bytes < trailer_bytes(inflater); ahead--, bytes >>= 8)
        inflater->field[inflater->field_bytes++] = (uint8_t)bytes;
    inflater->unread_bytes = ahead;
    return go_to(inflater, INFLATER_TRAILER);
}

static uint32_t clip(size_t bytes)
{
    return bytes < UINT32_MAX ? (uint32_t)bytes : UINT32_MAX;
}

static bool inflate_body(struct inflater *inflater, struct unpack_piece *piece)
{
    struct inflate_state *const state = &inflater->state;
    const uint32_t in_bytes = clip(piece->in_bytes), out_bytes = clip(piece->out_bytes);
    state->next_in = (uint8_t *)(uintptr_t)piece->in;
    state->avail_in = in_bytes;
    state->next_out = piece->out;
    state->avail_out = out_bytes;
    const int status = isal_inflate(state);
    const uint32_t given = out_bytes - state->avail_out, taken = in_bytes - state->avail_in;
    piece->in += taken;
    piece->in_bytes -= taken;
    piece->out += given;
    piece->out_bytes -= given;
    inflater->given_bytes += given;
    if (status != ISAL_DECOMP_OK)
        return unpack_refuse(inflater, "its compressed data are damaged");
    return state->block_state == ISAL_BLOCK_FINISH && end_body(inflater);
}

static bool check_trailer(struct inflater *inflater, struct unpack_piece *piece)
{
    const uint8_t *const field = inflater->field;
    if (!have_field(inflater, piece, trailer_bytes(inflater)))
        return false;
    const uint32_t stored = inflater->is_gzip ? le32(field) : be32(field);
    if (stored != inflater->state.crc)
        return unpack_refuse(inflater, "the checksum of what was compressed differs");
    if (inflater->is_gzip && le32(field + 4) != inflater->given_bytes)
        return unpack_refuse(inflater, "the length of what was compressed differs");
    return go_to(inflater, INFLATER_PART_COUNT);
}

static bool (*const parts[INFLATER_PART_COUNT])(struct inflater *inflater, struct unpack_piece *piece) = {
    [INFLATER_HEADER] = read_header,
    [INFLATER_EXTRA_LENGTH] = read_extra_length,
    [INFLATER_EXTRA] = skip_extra,
    [INFLATER_NAME] = skip_name,
    [INFLATER_COMMENT] = skip_comment,
    [INFLATER_HEADER_CRC] = check_header,
    [INFLATER_BODY] = inflate_body,
    [INFLATER_TRAILER] = check_trailer,
};

/* Clear the whole state: ISA-L keeps tables of the previous unit, on which the output of damaged data would depend. */
static void inflater_begin(struct inflater *inflater, bool is_gzip)
{
    memset(inflater, 0, sizeof(*inflater));
    isal_inflate_init(&inflater->state);
    inflater->state.crc_flag = is_gzip ? ISAL_GZIP_NO_HDR : ISAL_ZLIB_NO_HDR;
    inflater->is_gzip = is_gzip;
}

static enum unpack inflater_step(struct inflater *inflater, struct unpack_piece *piece)
{
    while (inflater->part < INFLATER_PART_COUNT && parts[inflater->part](inflater, piece))
        ;
    if (inflater->problem != NULL)
        return UNPACK_DAMAGED;
    return inflater->part == INFLATER_PART_COUNT ? UNPACK_ENDED : UNPACK_WAITS;
}

/* ---- any container ---- */

#define LZ4_HEADER_BYTES_MIN 7u
#define LZ4_SIZED_HEADER_BYTES 15u
/* Codes of block sizes in a frame's header: code 4 is 64 KiB, and each further code is four times as large. */
#define LZ4_CODE_MIN 4u
#define LZ4_CODE_MAX 7u
#define LZ4_BLOCK_MIN ((size_t)64 << 10)
/* Memory beyond two blocks: a block checksum and, for dependent blocks, the history. */
#define LZ4_HISTORY_BYTES ((size_t)160 << 10)

/* Headers of empty frames, one for each block size, with dependent blocks, which need the most memory. */
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

/* Let liblz4 parse a header of an empty frame: it allocates the memory for this block size and sets the expected
 * content size to 0. */
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

/* LZ4F_resetDecompressionContext alone would keep the content size of a frame that was not read to its end. The next
 * frame would be checked against that size if it has none itself. */
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

/* Decompress block by block, while there is input and output space. */
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
} decoders[CONTAINER_COUNT] = {
    [CONTAINER_GZIP] = { begin_gzip, step_inflater, true },
    [CONTAINER_ZLIB] = { begin_zlib, step_inflater, true },
    [CONTAINER_LZ4] = { begin_lz4, step_lz4, false },
};

void unpacker_begin(struct unpacker *unpacker, enum container container)
{
    unpacker->container = container;
    unpacker->problem = NULL;
    decoders[container].begin(unpacker);
}

enum unpack unpacker_step(struct unpacker *unpacker, struct unpack_piece *piece)
{
    return decoders[unpacker->container].step(unpacker, piece);
}

size_t unpacker_unread(const struct unpacker *unpacker)
{
    return decoders[unpacker->container].can_save ? unpacker->inflater.unread_bytes : 0;
}

const struct inflater *unpacker_save(const struct unpacker *unpacker)
{
    return decoders[unpacker->container].can_save ? &unpacker->inflater : NULL;
}

void unpacker_restore(struct unpacker *unpacker, enum container container, const struct inflater *saved)
{
    unpacker->container = container;
    unpacker->problem = NULL;
    unpacker->inflater = *saved;
}
