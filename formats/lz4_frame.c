/* LZ4 frames by liblz4. Called by the converters; any thread. */
#include "formats/lz4_frame.h"

#include <errno.h>
#include <lz4frame.h>

/* Larger data than LZ4's bounds are made for. */
#define FRAME_BYTES_MAX ((size_t)1 << 31)

static LZ4F_preferences_t preferences_of(size_t bytes)
{
    return (LZ4F_preferences_t){
        .frameInfo = {
            .blockSizeID = LZ4F_max64KB,
            .blockMode = LZ4F_blockIndependent,
            .contentChecksumFlag = LZ4F_contentChecksumEnabled,
            .contentSize = bytes,
            .blockChecksumFlag = LZ4F_blockChecksumEnabled,
        },
    };
}

size_t lz4_frame_bound(size_t bytes)
{
    const LZ4F_preferences_t preferences = preferences_of(bytes);
    return bytes <= FRAME_BYTES_MAX ? LZ4F_compressFrameBound(bytes, &preferences) : SIZE_MAX;
}

int lz4_frame_write(const uint8_t *data, size_t bytes, uint8_t *out, size_t *out_bytes)
{
    const size_t bound = lz4_frame_bound(bytes);
    if (bound == SIZE_MAX)
        return -EFBIG;
    const LZ4F_preferences_t preferences = preferences_of(bytes);
    const size_t written = LZ4F_compressFrame(out, bound, data, bytes, &preferences);
    if (LZ4F_isError(written))
        return -ENOMEM;
    *out_bytes = written;
    return 0;
}
