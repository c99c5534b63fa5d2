/* What a failed check of a frame says to people. Called where damage is met: while
 * shards are indexed, and by decoders. */
#include "loader/shards/frame_text.h"

#include <inttypes.h>
#include <stdio.h>

void frame_text(enum tfrecord_check check, const struct tfrecord_problem *problem, char *text, size_t text_size)
{
    const char *what = tfrecord_check_text(check);
    switch (check) {
    case TFRECORD_OK:
        snprintf(text, text_size, "%s", what);
        break;
    case TFRECORD_LENGTH_CRC:
    case TFRECORD_PAYLOAD_CRC:
        snprintf(text, text_size, "%s (stored %08" PRIx32 ", computed %08" PRIx32 ")", what, problem->stored_crc,
                 problem->computed_crc);
        break;
    case TFRECORD_TOO_LONG:
        snprintf(text, text_size, "%s (%" PRIu64 " bytes, the limit is %" PRIu64 ")", what, problem->needed_bytes,
                 problem->available_bytes);
        break;
    case TFRECORD_CUT:
        snprintf(text, text_size, "%s (needs %" PRIu64 " bytes, %" PRIu64 " are left)", what, problem->needed_bytes,
                 problem->available_bytes);
        break;
    }
}
