/* Counts of images and sums of pixels. Pure; called by the writing threads, each for its own records. */
#include "tools/convert/image_summary.h"

#include <math.h>
#include <stddef.h>

#include "formats/image_header.h"
#include "loader/images/pixel_survey.h"

/* ---- sums of pixels ---- */

/* Extend grey sums to `channels` channels. */
static void widen(struct pixel_sums *sums, uint32_t channels)
{
    for (uint32_t c = sums->channels; c < channels && sums->count > 0; c++) {
        sums->sum[c] = sums->sum[0];
        sums->squares[c] = sums->squares[0];
    }
    sums->channels = channels;
}

static void pixel_sums_join(struct pixel_sums *sums, const struct pixel_sums *more)
{
    struct pixel_sums added = *more;

    if (added.channels < sums->channels)
        widen(&added, sums->channels);
    else
        widen(sums, added.channels);
    for (uint32_t c = 0; c < sums->channels; c++) {
        sums->sum[c] += added.sum[c];
        sums->squares[c] += added.squares[c];
    }
    sums->count += added.count;
}

static void pixel_sums_add(struct pixel_sums *sums, const uint8_t *pixels, size_t bytes, uint32_t channels)
{
    struct pixel_sums more = { .count = bytes / channels, .channels = channels };

    for (uint32_t c = 0; c < channels; c++) {
        uint64_t sum = 0, squares = 0;
        for (size_t i = c; i < bytes; i += channels) {
            sum += pixels[i];
            squares += (uint32_t)pixels[i] * pixels[i];
        }
        more.sum[c] = sum;
        more.squares[c] = squares;
    }
    pixel_sums_join(sums, &more);
}

double pixel_sums_mean(const struct pixel_sums *sums, uint32_t channel)
{
    return (double)sums->sum[channel] / (double)sums->count;
}

double pixel_sums_deviation(const struct pixel_sums *sums, uint32_t channel)
{
    /* count^2 times the variance, computed exactly */
    const unsigned __int128 spread = (unsigned __int128)sums->squares[channel] * sums->count -
                                     (unsigned __int128)sums->sum[channel] * sums->sum[channel];
    return sqrt((double)spread) / (double)sums->count;
}

/* ---- images ---- */

struct pixel_look pixel_look_at(const uint8_t *pixels, size_t bytes, uint32_t channels)
{
    struct pixel_look look = { .is_known = true, .is_flat = pixels_are_flat(pixels, bytes, channels) };

    for (size_t i = 0; i < bytes; i++)
        look.brightest = pixels[i] > look.brightest ? pixels[i] : look.brightest;
    return look;
}

static void note_look(struct image_summary *summary, const struct pixel_look *look)
{
    summary->looked_at += look->is_known;
    summary->brightest = look->brightest > summary->brightest ? look->brightest : summary->brightest;
}

static void note_size(struct image_summary *summary, uint32_t height, uint32_t width, uint32_t channels)
{
    const bool is_first = summary->height == 0 && !summary->differs;

    if (is_first) {
        summary->height = height;
        summary->width = width;
        summary->channels = channels;
    } else if (summary->height != height || summary->width != width || summary->channels != channels) {
        summary->height = summary->width = summary->channels = 0;
        summary->differs = true;
    }
}

/* The problem of a JPEG or PNG image without its end, which decoders accept and complete; NULL if there is none. */
static const char *cut_text(const struct found_sample *sample)
{
    if (sample->image == FOUND_JPEG && image_is_cut(sample->bytes, sample->byte_count, IMAGE_FORMAT_JPEG))
        return "is cut short: the end of the JPEG is missing";
    if (sample->image == FOUND_PNG && image_is_cut(sample->bytes, sample->byte_count, IMAGE_FORMAT_PNG))
        return "is cut short: the end of the PNG is missing";
    return NULL;
}

const char *image_summary_add(struct image_summary *summary, const struct found_sample *sample,
                              struct pixel_look *look)
{
    summary->counts[sample->image]++;
    if (sample->width == 0)
        return NULL;
    note_size(summary, sample->height, sample->width, sample->channels);
    if (sample->image == FOUND_ROWS && sample->channels <= PIXEL_CHANNELS_MAX)
        pixel_sums_add(&summary->pixels, sample->bytes, sample->byte_count, sample->channels);
    if (sample->image == FOUND_ROWS && !look->is_known)
        *look = pixel_look_at(sample->bytes, sample->byte_count, sample->channels);
    note_look(summary, look);
    return cut_text(sample);
}

void image_summary_merge(struct image_summary *summary, const struct image_summary *more)
{
    for (int i = 0; i < FOUND_KIND_COUNT; i++)
        summary->counts[i] += more->counts[i];
    if (more->differs || more->height > 0)
        note_size(summary, more->height, more->width, more->channels);
    summary->differs |= more->differs;
    summary->looked_at += more->looked_at;
    summary->brightest = more->brightest > summary->brightest ? more->brightest : summary->brightest;
    pixel_sums_join(&summary->pixels, &more->pixels);
}

const char *image_summary_encoding(const struct image_summary *summary)
{
    const uint64_t *const counts = summary->counts;

    if (counts[FOUND_NOTHING] + counts[FOUND_UNKNOWN] + counts[FOUND_PLANES] + counts[FOUND_FLOATS] +
            counts[FOUND_INTEGERS] > 0)
        return NULL;
    if (counts[FOUND_ROWS] > 0)
        return counts[FOUND_JPEG] + counts[FOUND_PNG] == 0 ? "raw" : NULL;
    if (counts[FOUND_JPEG] > 0)
        return counts[FOUND_PNG] > 0 ? "JPEG and PNG" : "JPEG";
    return counts[FOUND_PNG] > 0 ? "PNG" : NULL;
}
