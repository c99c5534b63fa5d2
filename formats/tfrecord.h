/* TFRecord framing (doc/formats.md): the payload's length, the length's CRC, the payload, the payload's CRC. */
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
    TFRECORD_CUT                /* fewer bytes than the frame has */
};

struct tfrecord_problem {       /* set unless a check is TFRECORD_OK */
    uint32_t stored_crc, computed_crc;
    uint64_t needed_bytes, available_bytes;
};

/* Read the payload's length from a header. TFRECORD_OK, _LENGTH_CRC or _TOO_LONG. */
enum tfrecord_check tfrecord_header(const uint8_t header[TFRECORD_HEADER_BYTES], uint64_t *payload_bytes_out,
                                    struct tfrecord_problem *problem_out);
/* The payload's length from a header that has already been verified. */
uint64_t tfrecord_payload_bytes(const uint8_t header[TFRECORD_HEADER_BYTES]);
/* Compare the CRC in a footer with the payload's CRC: TFRECORD_OK or _PAYLOAD_CRC. */
enum tfrecord_check tfrecord_footer(const uint8_t footer[TFRECORD_FOOTER_BYTES], uint32_t payload_crc,
                                    struct tfrecord_problem *problem_out);
/* Verify a frame at the beginning of `bytes` bytes. On TFRECORD_OK the payload begins at frame + 12 and has
 * *payload_bytes_out bytes; more bytes may follow the frame. */
enum tfrecord_check tfrecord_verify(const uint8_t *frame, size_t bytes, uint64_t *payload_bytes_out,
                                    struct tfrecord_problem *problem_out);
/* Write the header of a payload of this length, and the footer of a payload. */
void tfrecord_write_header(uint64_t payload_bytes, uint8_t header_out[TFRECORD_HEADER_BYTES]);
void tfrecord_write_footer(const uint8_t *payload, size_t payload_bytes, uint8_t footer_out[TFRECORD_FOOTER_BYTES]);
/* The text for a check, for example "payload checksum differs". */
const char *tfrecord_check_text(enum tfrecord_check check);

#endif
