/* TFRecord framing (doc/formats.md): length, its CRC, payload, its CRC. */
#ifndef PIPETRAIN_TFRECORD_H
#define PIPETRAIN_TFRECORD_H

#include <stddef.h>
#include <stdint.h>

#define TFRECORD_HEADER_BYTES 12u
#define TFRECORD_FOOTER_BYTES 4u
#define TFRECORD_FRAME_BYTES 16u        /* header and footer */
#define TFRECORD_PAYLOAD_MAX (64u << 20) /* longer payloads are refused */

enum tfrecord_check {
    TFRECORD_OK,
    TFRECORD_LENGTH_CRC,        /* the length's CRC differs */
    TFRECORD_PAYLOAD_CRC,       /* the payload's CRC differs */
    TFRECORD_TOO_LONG,          /* the length is over TFRECORD_PAYLOAD_MAX */
    TFRECORD_CUT                /* fewer bytes than the frame needs */
};

struct tfrecord_problem {       /* filled when a check is not TFRECORD_OK */
    uint32_t stored_crc, computed_crc;
    uint64_t needed_bytes, available_bytes;
};

/* Read a header from 12 bytes: the payload's length. TFRECORD_OK, _LENGTH_CRC or _TOO_LONG. */
enum tfrecord_check tfrecord_header(const uint8_t header[TFRECORD_HEADER_BYTES], uint64_t *payload_bytes_out,
                                    struct tfrecord_problem *problem_out);
/* The payload's length from a header that was verified before. */
uint64_t tfrecord_payload_bytes(const uint8_t header[TFRECORD_HEADER_BYTES]);
/* Compare the 4 bytes after a payload with the payload's CRC: TFRECORD_OK or _PAYLOAD_CRC. */
enum tfrecord_check tfrecord_footer(const uint8_t footer[TFRECORD_FOOTER_BYTES], uint32_t payload_crc,
                                    struct tfrecord_problem *problem_out);
/* Verify a whole frame of `bytes` bytes: on TFRECORD_OK the payload is
 * frame + 12 and *payload_bytes_out long (frames may be followed by more bytes). */
enum tfrecord_check tfrecord_verify(const uint8_t *frame, size_t bytes, uint64_t *payload_bytes_out,
                                    struct tfrecord_problem *problem_out);
/* Write the 12 header bytes, and the 4 footer bytes of a payload. */
void tfrecord_write_header(uint64_t payload_bytes, uint8_t header_out[TFRECORD_HEADER_BYTES]);
void tfrecord_write_footer(const uint8_t *payload, size_t payload_bytes, uint8_t footer_out[TFRECORD_FOOTER_BYTES]);
/* Text for a check, e.g. "payload checksum differs". */
const char *tfrecord_check_text(enum tfrecord_check check);

#endif
