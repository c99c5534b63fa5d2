/* Images counted. Pure; called by the writing threads, each for its own records. */
#include "tools/convert/images/image_tally.h"

#include <stddef.h>

#include "formats/image_header.h"

static void note_size(struct image_tally *tally, uint32_t height, uint32_t width, uint32_t channels)
{
    const bool is_first = tally->height == 0 && !tally->differs;

    if (is_first) {
        tally->height = height;
        tally->width = width;
        tally->channels = channels;
    } else if (tally->height != height || tally->width != width || tally->channels != channels) {
        tally->height = tally->width = tally->channels = 0;
        tally->differs = true;
    }
}

/* An image without its end, of which decoders make what there is. */
static const char *cut_text(const struct found_sample *sample)
{
    if (sample->image == FOUND_JPEG && image_is_cut(sample->bytes, sample->byte_count, IMAGE_FORMAT_JPEG))
        return "is cut short: the end of the JPEG is missing";
    if (sample->image == FOUND_PNG && image_is_cut(sample->bytes, sample->byte_count, IMAGE_FORMAT_PNG))
        return "is cut short: the end of the PNG is missing";
    return NULL;
}

const char *image_tally_add(struct image_tally *tally, const char *image_key, const uint8_t *payload, size_t bytes)
{
    const struct sample_names names = { .image = image_key, .is_in_rows = true };
    struct found_sample sample;
    size_t bad_offset;

    if (found_sample_read(&names, payload, bytes, &sample, &bad_offset) < 0)
        sample.image = FOUND_NOTHING;
    tally->counts[sample.image]++;
    if (sample.width == 0)
        return NULL;
    note_size(tally, sample.height, sample.width, sample.channels);
    if (sample.image == FOUND_ROWS && sample.channels <= PIXEL_CHANNELS_MAX)
        pixel_sums_add(&tally->pixels, sample.bytes, sample.byte_count, sample.channels);
    return cut_text(&sample);
}

void image_tally_join(struct image_tally *tally, const struct image_tally *more)
{
    for (int i = 0; i < FOUND_KIND_COUNT; i++)
        tally->counts[i] += more->counts[i];
    if (more->differs || more->height > 0)
        note_size(tally, more->height, more->width, more->channels);
    tally->differs |= more->differs;
    pixel_sums_join(&tally->pixels, &more->pixels);
}

const char *image_tally_encoding(const struct image_tally *tally)
{
    const uint64_t *const counts = tally->counts;

    if (counts[FOUND_NOTHING] + counts[FOUND_UNKNOWN] + counts[FOUND_PLANES] + counts[FOUND_FLOATS] +
            counts[FOUND_INTEGERS] > 0)
        return NULL;
    if (counts[FOUND_ROWS] > 0)
        return counts[FOUND_JPEG] + counts[FOUND_PNG] == 0 ? "raw" : NULL;
    if (counts[FOUND_JPEG] > 0)
        return counts[FOUND_PNG] > 0 ? "JPEG and PNG" : "JPEG";
    return counts[FOUND_PNG] > 0 ? "PNG" : NULL;
}
