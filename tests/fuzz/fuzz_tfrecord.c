/* Fuzz target of the TFRecord frame: any bytes as a shard. What verifies must lie inside the
 * input, and verifies again when the input ends where it does. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "formats/tfrecord.h"
#include "tests/fuzz/fuzz.h"

#define SEED(text) { text, sizeof(text) - 1 }

const struct fuzz_seed fuzz_seeds[] = {
    /* three records */
    SEED("\000\000\000\000\000\000\000\000\051\003\230\007\330\352\202\242\003\000\000\000\000\000\000\000"
         "\260\231\111\016\061\062\063\316\013\347\001\003\000\000\000\000\000\000\000\260\231\111\016\146"
         "\157\157\141\212\276\376"),
    { NULL, 0 },
};

/* The frame of `payload_bytes` at `data`, cut off from what follows: the same, and one byte shorter no more. */
static void check_frame(const uint8_t *data, size_t bytes, uint64_t payload_bytes)
{
    struct tfrecord_problem problem;
    uint64_t again;
    if (payload_bytes + TFRECORD_FRAME_BYTES > bytes)
        abort();
    const size_t frame_bytes = (size_t)payload_bytes + TFRECORD_FRAME_BYTES;
    if (tfrecord_verify(data, frame_bytes, &again, &problem) != TFRECORD_OK || again != payload_bytes)
        abort();
    if (tfrecord_verify(data, frame_bytes - 1, &again, &problem) != TFRECORD_CUT)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct tfrecord_problem problem;
    uint64_t payload_bytes;
    for (size_t at = 0; at < bytes; at += (size_t)payload_bytes + TFRECORD_FRAME_BYTES) {
        if (tfrecord_verify(data + at, bytes - at, &payload_bytes, &problem) != TFRECORD_OK)
            break;
        check_frame(data + at, bytes - at, payload_bytes);
    }
    return 0;
}
