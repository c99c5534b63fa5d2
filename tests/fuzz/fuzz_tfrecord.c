/* Fuzz target of the TFRecord frame: any bytes as a shard. What verifies must lie inside the
 * input, and resynchronisation must stop at a frame that verifies. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "formats/tfrecord.h"
#include "tests/fuzz/fuzz.h"

#define SEED(text) {text, sizeof(text) - 1}

const struct fuzz_seed fuzz_seeds[] = {
    /* three records */
    SEED("\000\000\000\000\000\000\000\000\051\003\230\007\330\352\202\242\003\000\000\000\000\000\000\000"
         "\260\231\111\016\061\062\063\316\013\347\001\003\000\000\000\000\000\000\000\260\231\111\016\146"
         "\157\157\141\212\276\376"),
    {NULL, 0},
};

static void check_resynchronization(const uint8_t *data, size_t bytes)
{
    struct tfrecord_problem problem;
    uint64_t payload_bytes;
    const size_t at = tfrecord_resynchronize(data, bytes);

    if (at > bytes || (at == 0 && bytes > 0))
        abort();
    if (at < bytes && tfrecord_verify(data + at, bytes - at, &payload_bytes, &problem) != TFRECORD_OK)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    size_t at = 0;

    while (at < bytes) {
        struct tfrecord_problem problem;
        uint64_t payload_bytes;
        if (tfrecord_verify(data + at, bytes - at, &payload_bytes, &problem) != TFRECORD_OK) {
            check_resynchronization(data + at, bytes - at);
            break;
        }
        if (payload_bytes + TFRECORD_FRAME_BYTES > bytes - at)
            abort();
        at += (size_t)payload_bytes + TFRECORD_FRAME_BYTES;
    }
    return 0;
}
