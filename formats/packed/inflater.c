/* gzip and zlib, part by part. Called wherever compressed shards are read; any thread. */
#include "formats/packed/inflater.h"

#include <string.h>

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

/* Every part says whether it is done with, so that the next can go on; where not, it waits or `problem` is
 * set. */

static bool go_to(struct inflater *inflater, enum inflater_part part)
{
    inflater->part = part;
    return true;
}

static bool refuse(struct inflater *inflater, const char *problem)
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

/* Whether all bytes of a field have come. */
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
        return refuse(inflater, "no gzip member begins here");
    if (field[2] != 8 || (field[3] & FLAGS_RESERVED) != 0)
        return refuse(inflater, "the header of the gzip member is damaged");
    inflater->flags = field[3];
    return go_to(inflater, INFLATER_EXTRA_LENGTH);
}

static bool read_zlib_header(struct inflater *inflater)
{
    const uint32_t method = inflater->field[0], flags = inflater->field[1];
    if ((method & 0x0f) != 8 || method > 0x78 || (method * 256 + flags) % 31 != 0)
        return refuse(inflater, "no zlib stream begins here");
    if ((flags & 0x20) != 0)
        return refuse(inflater, "the zlib stream needs a dictionary");
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

/* A text that ends with a 0, where the flag says that there is one. */
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
        return refuse(inflater, "the checksum of the gzip header differs");
    return go_to(inflater, INFLATER_BODY);
}

static uint32_t trailer_bytes(const struct inflater *inflater)
{
    return inflater->is_gzip ? GZIP_TRAILER_BYTES : ZLIB_TRAILER_BYTES;
}

/* ISA-L has read ahead, up to 8 bytes: they are the beginning of the trailer, and behind it. */
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
        return refuse(inflater, "its compressed data are damaged");
    return state->block_state == ISAL_BLOCK_FINISH && end_body(inflater);
}

static bool check_trailer(struct inflater *inflater, struct unpack_piece *piece)
{
    const uint8_t *const field = inflater->field;
    if (!have_field(inflater, piece, trailer_bytes(inflater)))
        return false;
    const uint32_t stored = inflater->is_gzip ? le32(field) : be32(field);
    if (stored != inflater->state.crc)
        return refuse(inflater, "the checksum of what was compressed differs");
    if (inflater->is_gzip && le32(field + 4) != inflater->given_bytes)
        return refuse(inflater, "the length of what was compressed differs");
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

/* Zeros all of it: ISA-L leaves tables of the unit before, and what damaged data give depends on them. */
void inflater_begin(struct inflater *inflater, bool is_gzip)
{
    memset(inflater, 0, sizeof(*inflater));
    isal_inflate_init(&inflater->state);
    inflater->state.crc_flag = is_gzip ? ISAL_GZIP_NO_HDR : ISAL_ZLIB_NO_HDR;
    inflater->is_gzip = is_gzip;
}

enum unpack inflater_step(struct inflater *inflater, struct unpack_piece *piece)
{
    while (inflater->part < INFLATER_PART_COUNT && parts[inflater->part](inflater, piece))
        ;
    if (inflater->problem != NULL)
        return UNPACK_DAMAGED;
    return inflater->part == INFLATER_PART_COUNT ? UNPACK_ENDED : UNPACK_WAITS;
}
