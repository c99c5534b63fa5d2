/* The frame of a TFRecord. Called by the shard index, the readers and decoders of the loader, and the converters; pure
 * functions, any thread. */
#include "formats/tfrecord.h"

#include <string.h>

#include "formats/crc32c.h"

static void put_le(uint64_t value, uint8_t *out, int bytes)
{
    for (int i = 0; i < bytes; i++)
        out[i] = (uint8_t)(value >> (8 * i));
}

static uint32_t get_le32(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static uint64_t get_le64(const uint8_t *at)
{
    return (uint64_t)get_le32(at) | (uint64_t)get_le32(at + 4) << 32;
}

static enum tfrecord_check record_cut(uint64_t needed, uint64_t available, struct tfrecord_problem *problem_out)
{
    *problem_out = (struct tfrecord_problem){ .needed_bytes = needed, .available_bytes = available };
    return TFRECORD_CUT;
}

static enum tfrecord_check crc_differs(enum tfrecord_check check, uint32_t stored, uint32_t computed,
                                       struct tfrecord_problem *problem_out)
{
    *problem_out = (struct tfrecord_problem){ .stored_crc = stored, .computed_crc = computed };
    return check;
}

enum tfrecord_check tfrecord_header(const uint8_t header[TFRECORD_HEADER_BYTES], uint64_t *payload_bytes_out,
                                    struct tfrecord_problem *problem_out)
{
    const uint32_t stored = get_le32(header + 8);
    const uint32_t computed = crc32c_masked(header, 8);
    const uint64_t payload_bytes = get_le64(header);

    if (stored != computed)
        return crc_differs(TFRECORD_LENGTH_CRC, stored, computed, problem_out);
    if (payload_bytes > TFRECORD_PAYLOAD_MAX) {
        *problem_out = (struct tfrecord_problem){ .needed_bytes = payload_bytes,
                                                 .available_bytes = TFRECORD_PAYLOAD_MAX };
        return TFRECORD_TOO_LONG;
    }
    *payload_bytes_out = payload_bytes;
    return TFRECORD_OK;
}

uint64_t tfrecord_payload_bytes(const uint8_t header[TFRECORD_HEADER_BYTES])
{
    return get_le64(header);
}

enum tfrecord_check tfrecord_footer(const uint8_t footer[TFRECORD_FOOTER_BYTES], uint32_t payload_crc,
                                    struct tfrecord_problem *problem_out)
{
    const uint32_t stored = get_le32(footer), computed = crc32c_mask(payload_crc);
    return stored == computed ? TFRECORD_OK : crc_differs(TFRECORD_PAYLOAD_CRC, stored, computed, problem_out);
}

enum tfrecord_check tfrecord_verify(const uint8_t *frame, size_t bytes, uint64_t *payload_bytes_out,
                                    struct tfrecord_problem *problem_out)
{
    if (bytes < TFRECORD_HEADER_BYTES)
        return record_cut(TFRECORD_HEADER_BYTES, bytes, problem_out);

    uint64_t payload_bytes;
    enum tfrecord_check check = tfrecord_header(frame, &payload_bytes, problem_out);
    if (check != TFRECORD_OK)
        return check;
    if (bytes < payload_bytes + TFRECORD_FRAME_BYTES)
        return record_cut(payload_bytes + TFRECORD_FRAME_BYTES, bytes, problem_out);

    const uint8_t *const payload = frame + TFRECORD_HEADER_BYTES;
    check = tfrecord_footer(payload + payload_bytes, crc32c(payload, (size_t)payload_bytes), problem_out);
    if (check == TFRECORD_OK)
        *payload_bytes_out = payload_bytes;
    return check;
}

void tfrecord_write_header(uint64_t payload_bytes, uint8_t header_out[TFRECORD_HEADER_BYTES])
{
    put_le(payload_bytes, header_out, 8);
    put_le(crc32c_masked(header_out, 8), header_out + 8, 4);
}

void tfrecord_write_footer(const uint8_t *payload, size_t payload_bytes, uint8_t footer_out[TFRECORD_FOOTER_BYTES])
{
    put_le(crc32c_masked(payload, payload_bytes), footer_out, 4);
}

const char *tfrecord_check_text(enum tfrecord_check check)
{
    static const char *const texts[] = {
        [TFRECORD_OK] = "intact",
        [TFRECORD_LENGTH_CRC] = "length checksum differs",
        [TFRECORD_PAYLOAD_CRC] = "payload checksum differs",
        [TFRECORD_TOO_LONG] = "length is over the limit",
        [TFRECORD_CUT] = "record is cut short",
    };
    return texts[check];
}
