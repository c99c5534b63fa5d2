/* How are stored numbers to be read as pixels? Every possible type is tried on the same images: bytes of one type that
 * are read as another give numbers that are not finite, outside every range, or nearly 0. */
#include "loader/images/pixel_survey.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "loader/images/raw.h"

/* Numbers may exceed a range by this fraction of it, because of rounding. */
#define SLACK 1e-4f
/* A step of 8-bit pixels is 2^-8 of a range. Small integers read as floats are all below 2^-12. */
#define TINY 0x1p-12f
#define TINY_SHARE_MAX 0.25     /* scaled images have some tiny pixels at dark edges, but less than a quarter */
/* Two sums of N differences of noise rarely differ by more than this fraction divided by the square root of N. */
#define CHANCE 8.0
#define SIDE_MIN 8u             /* smaller images have too few neighbours */
#define WORD_MIN 16384          /* a data set of 16-bit images has at least one pixel above it */

static const float half_steps[PIXEL_SCALES] = { 0.5f / 255, 0.5f, 0.5f * 65535 / 255 };
/* Images are nearly grey if the difference between a pixel's channels is less than this fraction of the difference
 * between neighbouring pixels. */
#define CHANNELS_CLOSE 0.7
#define TURNED 1.3              /* how many times smoother images must be with height and width exchanged, or as signed
                                 * numbers */
#define BYTES_ALIKE 1.5         /* both bytes of 16-bit numbers may be pixels if one is at most this many times rougher
                                 * than the other */
/* Limits of relative roughness: above ROUGH_NOISE, the rougher byte of 16-bit numbers is noise; below ROUGH_PIXELS,
 * bytes are pictures. White noise has 1.15. */
#define ROUGH_NOISE 0.5
#define ROUGH_PIXELS 0.8

/* For each size of a number in bytes: the types to try, in this order, and types that are only compared with them, as
 * images may have been written in them by mistake. */
static const struct {
    enum number_kind kinds[2];
    uint32_t compared_count;
    enum number_kind compared[PIXEL_TYPES_MAX - 2];
} candidates[] = {
    [1] = { { NUMBER_BYTES, NUMBER_KIND_COUNT }, 1, { NUMBER_INT8 } },
    [2] = { { NUMBER_FLOAT16, NUMBER_UINT16 }, 6,
            { NUMBER_INT16, NUMBER_SWAPPED_FLOAT16, NUMBER_LOW_BYTE, NUMBER_HIGH_BYTE, NUMBER_BYTE_DIFFERENCE,
              NUMBER_BYTE_SUM } },
    [4] = { { NUMBER_FLOAT32, NUMBER_INT32 }, 1, { NUMBER_SWAPPED_FLOAT32 } },
    [8] = { { NUMBER_FLOAT64, NUMBER_INT64 }, 0, { NUMBER_BYTES } },
};

static void add_type(struct pixel_survey *survey, enum number_kind kind)
{
    if (kind != NUMBER_KIND_COUNT)
        survey->stats[survey->stats_count++] =
            (struct number_stats){ .type = &number_types[kind], .lowest = INFINITY, .highest = -INFINITY };
}

/* The statistics for a type; NULL if images are not compared with it. */
static const struct number_stats *find_stats(const struct pixel_survey *survey, enum number_kind kind)
{
    for (uint32_t i = 0; i < survey->stats_count; i++)
        if (survey->stats[i].type == &number_types[kind])
            return &survey->stats[i];
    return NULL;
}

void pixel_survey_begin_type(struct pixel_survey *survey, enum number_kind kind)
{
    *survey = (struct pixel_survey){ .type_count = 1 };
    add_type(survey, kind);
}

void pixel_survey_begin(struct pixel_survey *survey, uint32_t bytes)
{
    *survey = (struct pixel_survey){ .type_count = 0 };
    add_type(survey, candidates[bytes].kinds[0]);
    add_type(survey, candidates[bytes].kinds[1]);
    survey->type_count = survey->stats_count;
    for (uint32_t i = 0; i < candidates[bytes].compared_count; i++)
        add_type(survey, candidates[bytes].compared[i]);
}

void pixel_survey_release(struct pixel_survey *survey)
{
    scratch_release(&survey->values);
}

struct copy {
    struct number_stats *stats;
    float lowest, highest;      /* lowest and highest number of the current image */
    float *at;
};

static void copy_run(void *arg, const float *values, size_t count)
{
    struct copy *const copy = arg;
    struct number_stats *const stats = copy->stats;
    for (size_t i = 0; i < count; i++) {
        const float value = values[i], size = fabsf(value);
        if (!isfinite(value))
            copy->lowest = copy->highest = NAN;
        if (value < copy->lowest)
            copy->lowest = value;
        if (value > copy->highest)
            copy->highest = value;
        stats->nonzero_count += value != 0;
        stats->tiny_count += value != 0 && size < TINY;
        for (uint32_t k = 0; k < PIXEL_SCALES; k++)
            stats->dark_counts[k] += value != 0 && size < half_steps[k];
        stats->sum += (double)value;
        stats->squares += (double)value * (double)value;
    }
    stats->count += count;
    memcpy(copy->at, values, count * sizeof(*values));
    copy->at += count;
}

/* The sum of the differences between neighbours in planes with rows of `length` numbers; horizontal neighbours are
 * `step` apart. */
static double roughness(const float *values, uint32_t planes, uint32_t height, size_t length, size_t step)
{
    double sum = 0;
    for (uint32_t plane = 0; plane < planes; plane++)
        for (uint32_t y = 0; y < height; y++, values += length) {
            for (size_t i = step; i < length; i++)
                sum += (double)fabsf(values[i] - values[i - step]);
            for (size_t i = 0; y > 0 && i < length; i++)
                sum += (double)fabsf(values[i] - *(values + i - length));
        }
    return sum;
}

static double roughness_of(const float *values, const struct image_shape *shape, enum pixel_layout layout)
{
    return layout == PIXEL_LAYOUT_HWC
               ? roughness(values, 1, shape->height, (size_t)shape->width * shape->channels, shape->channels)
               : roughness(values, shape->channels, shape->height, shape->width, 1);
}

/* The mean difference between numbers that are `apart` apart, over `count` numbers. */
static double mean_difference(const float *values, size_t count, size_t apart)
{
    double sum = 0;
    for (size_t i = apart; i < count; i++)
        sum += (double)fabsf(values[i] - values[i - apart]);
    return sum / (double)(count - apart);
}

/* Add the differences between successive numbers, by their position in a pixel as if the layout were (H, W, C). If it
 * is, those between the last channel of a pixel and the next pixel are larger. If it is (C, H, W), all are alike. Those
 * from one row to the next are left out. */
static void add_pixel_differences(struct number_stats *stats, const float *values, const struct image_shape *shape)
{
    const size_t count = (size_t)shape->height * shape->width * shape->channels;
    double sums[2] = { 0 };
    size_t counts[2] = { 0 };
    for (size_t i = 1; i < count; i++) {
        const bool is_across = i % shape->channels == 0;
        if (i % shape->width == 0)
            continue;
        sums[is_across] += (double)fabsf(values[i] - values[i - 1]);
        counts[is_across]++;
    }
    if (counts[false] == 0 || counts[true] == 0)
        return;
    stats->inside_pixels += sums[false] / (double)counts[false];
    stats->across_pixels += sums[true] / (double)counts[true];
}

/* Add two mean differences: of numbers one plane apart, and of numbers that are a pixel or a row further apart. If the
 * layout is (C, H, W), the first are channels of one pixel and differ less. If it is (H, W, C), both are distant pixels
 * and differ equally. */
static void add_plane_differences(struct number_stats *stats, const float *values, const struct image_shape *shape)
{
    const size_t plane = (size_t)shape->height * shape->width, count = plane * shape->channels;
    stats->inside_planes += mean_difference(values, count, plane);
    stats->across_planes += fmin(mean_difference(values, count, plane + shape->channels),
                                 mean_difference(values, count, plane + (size_t)shape->channels * shape->width));
}

static void add_neighbours(struct number_stats *stats, const float *values, const struct image_shape *shape)
{
    const double hwc = roughness_of(values, shape, PIXEL_LAYOUT_HWC);
    const double chw = shape->channels > 1 ? roughness_of(values, shape, PIXEL_LAYOUT_CHW) : hwc;
    stats->roughness_hwc += hwc;
    stats->roughness_chw += chw;
    stats->neighbour_count += 2.0 * shape->height * shape->width * shape->channels;
    if (shape->channels > 1) {
        stats->has_channels = true;
        add_pixel_differences(stats, values, shape);
        add_plane_differences(stats, values, shape);
    }
    if (shape->height != shape->width) {
        const struct image_shape turned = { shape->width, shape->height, shape->channels };
        stats->roughness_upright += fmin(hwc, chw);
        stats->roughness_turned += fmin(roughness_of(values, &turned, PIXEL_LAYOUT_HWC),
                                        roughness_of(values, &turned, PIXEL_LAYOUT_CHW));
    }
}

static void widen(struct number_stats *stats, float lowest, float highest)
{
    if (isnan(lowest) || isnan(stats->lowest))
        stats->lowest = stats->highest = NAN;
    stats->lowest = lowest < stats->lowest ? lowest : stats->lowest;
    stats->highest = highest > stats->highest ? highest : stats->highest;
    stats->varied_images += lowest < highest;
    stats->narrow_images += lowest < highest && lowest >= 0 && highest <= 1;
}

/* Add the numbers of an image. `shape` is NULL if it is unknown. */
static void add_numbers(struct number_stats *stats, const struct stored_image *image, const struct image_shape *shape,
                        float *values)
{
    struct stored_image typed = *image;
    struct copy copy = { .stats = stats, .lowest = INFINITY, .highest = -INFINITY, .at = values };
    typed.type = stats->type;
    number_visit(&typed, copy_run, &copy);
    widen(stats, copy.lowest, copy.highest);
    if (shape != NULL && shape->height >= SIDE_MIN && shape->width >= SIDE_MIN)
        add_neighbours(stats, values, shape);
}

int pixel_survey_add(struct pixel_survey *survey, const struct stored_image *image, const struct image_shape *wanted)
{
    struct stored_image counted = *image;
    struct image_shape shape;
    char problem[512];
    if (image->list == NULL && image->byte_count % survey->stats[0].type->bytes != 0)
        return 0;
    counted.type = survey->stats[0].type;
    counted.byte_count = number_count(&counted);
    const bool is_known = raw_shape_find(&counted, wanted, &shape, problem, sizeof(problem)) == 0;
    float *const values = scratch_need(&survey->values, counted.byte_count * sizeof(*values) + 1);
    if (values == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < survey->stats_count; i++)
        add_numbers(&survey->stats[i], image, is_known ? &shape : NULL, values);
    survey->image_count++;
    survey->sized_count += raw_shape_is_said(&counted, wanted);
    return 0;
}

/* The fraction of the nonzero numbers that become black in this range; 0 for ranges that do not begin at 0. */
static double dark_share(const struct number_stats *stats, const struct image_range *range)
{
    static const enum image_range_choice scales[PIXEL_SCALES] = { IMAGE_RANGE_UNIT, IMAGE_RANGE_BYTE,
                                                                  IMAGE_RANGE_WORD };
    for (uint32_t i = 0; i < PIXEL_SCALES; i++)
        if (range == &image_ranges[scales[i]] && stats->nonzero_count > 0)
            return (double)stats->dark_counts[i] / (double)stats->nonzero_count;
    return 0;
}

static bool is_in(float lowest, float highest, enum image_range_choice choice)
{
    const struct image_range *const range = &image_ranges[choice];
    const float slack = SLACK * (range->brightest - range->darkest);
    return lowest >= range->darkest - slack && highest <= range->brightest + slack;
}

/* Floats that slightly exceed 1 are not read as 0..255, where they would be black. */
const struct image_range *image_range_find(float lowest, float highest)
{
    for (int choice = IMAGE_RANGE_UNIT; choice <= IMAGE_RANGE_BYTE; choice++)
        if (is_in(lowest, highest, (enum image_range_choice)choice) && (choice != IMAGE_RANGE_BYTE || highest >= 2))
            return &image_ranges[choice];
    return NULL;
}

/* A few numbers above 255 do not mean that integers have 16 bits, because all others would then be black. */
static const struct image_range *find_integer_range(const struct number_stats *stats)
{
    if (stats->lowest < 0 || !isfinite(stats->lowest))
        return NULL;
    if (stats->highest == 1)
        return &image_ranges[IMAGE_RANGE_UNIT];
    if (stats->highest <= 255)
        return &image_ranges[IMAGE_RANGE_BYTE];
    return stats->highest >= WORD_MIN && stats->highest <= 65535 ? &image_ranges[IMAGE_RANGE_WORD] : NULL;
}

/* The range of numbers of this type: the configured one, or else the first one that contains them. NULL: the numbers
 * have another type or are no pixels. 16-bit floats cannot reach 65535. */
static const struct image_range *find_range(const struct number_stats *stats, const struct image_range *configured)
{
    const struct image_range *const found = stats->type->is_float ? image_range_find(stats->lowest, stats->highest)
                                                                  : find_integer_range(stats);
    if (configured == NULL)
        return found;
    if (stats->type == &number_types[NUMBER_FLOAT16] && configured == &image_ranges[IMAGE_RANGE_WORD])
        return NULL;
    if (stats->type->is_float)
        return isfinite(stats->lowest) ? configured : NULL;
    return stats->lowest >= 0 ? configured : NULL;
}

static bool is_tiny(const struct number_stats *stats)
{
    return stats->type->is_float && (double)stats->tiny_count > TINY_SHARE_MAX * (double)stats->nonzero_count;
}

/* Are there negative numbers of plausible size? Then the bytes are floats, even if they fit no known range. */
static bool has_negative_floats(const struct number_stats *stats)
{
    return stats->type->is_float && isfinite(stats->lowest) && stats->lowest < 0 && !is_tiny(stats);
}

static double standard_deviation(const struct number_stats *stats)
{
    const double mean = stats->sum / (double)stats->count;
    return sqrt(fmax(stats->squares / (double)stats->count - mean * mean, 0));
}

/* The mean difference between neighbouring pixels, divided by the standard deviation of all pixels; 0 if unknown. Of
 * two ways to read the same images, the one with the smaller value is smoother. */
static double relative_roughness(const struct number_stats *stats)
{
    const double deviation = standard_deviation(stats);
    const double sum = fmin(stats->roughness_hwc, stats->roughness_chw);
    return deviation > 0 && stats->neighbour_count > 0 ? sum / stats->neighbour_count / deviation : 0;
}

/* What the two bytes of 16-bit numbers show about the numbers. */
enum byte_evidence { BYTES_OF_NUMBERS, BYTES_SWAPPED, BYTES_OF_PIXELS, BYTES_UNCLEAR };

static bool have_equal_spread(const struct number_stats *a, const struct number_stats *b)
{
    const double one = standard_deviation(a), other = standard_deviation(b);
    const double apart = fabs(a->sum / (double)a->count - b->sum / (double)b->count);
    return apart < 0.15 * fmax(one, other) && fmax(one, other) < 1.2 * fmin(one, other);
}

/* Were 8-bit pixels multiplied by 255 or 257, so that each byte is a function of the other? */
static bool is_byte_repeated(const struct pixel_survey *survey)
{
    return find_stats(survey, NUMBER_BYTE_DIFFERENCE)->highest <= 2 ||
           find_stats(survey, NUMBER_BYTE_SUM)->highest <= 1;
}

/* Are the numbers little-endian or big-endian, or is each byte a pixel? The more significant byte of a pixel is smooth
 * across the image, and the other is noise. If both are equally smooth, each byte is a pixel of an image of another
 * shape, unless the records give height and width. */
static enum byte_evidence look_at_bytes(const struct pixel_survey *survey)
{
    const struct number_stats *const low = find_stats(survey, NUMBER_LOW_BYTE);
    const struct number_stats *const high = find_stats(survey, NUMBER_HIGH_BYTE);
    const double low_roughness = relative_roughness(low), high_roughness = relative_roughness(high);
    if (low_roughness == 0 || high_roughness == 0 || is_byte_repeated(survey) ||
        low_roughness > BYTES_ALIKE * high_roughness)
        return BYTES_OF_NUMBERS;
    if (high_roughness > BYTES_ALIKE * low_roughness && high_roughness > ROUGH_NOISE)
        return BYTES_SWAPPED;
    if (survey->sized_count == survey->image_count || !have_equal_spread(low, high))
        return BYTES_OF_NUMBERS;
    return fmax(low_roughness, high_roughness) < ROUGH_PIXELS ? BYTES_OF_PIXELS : BYTES_UNCLEAR;
}

/* Are images much smoother as numbers of the signed type than as numbers of the chosen type? */
static bool is_smoother_signed(const struct pixel_survey *survey, const struct number_stats *chosen,
                               enum number_kind signed_kind)
{
    const struct number_stats *const other = find_stats(survey, signed_kind);
    return other != NULL && other->lowest < 0 && relative_roughness(other) > 0 &&
           relative_roughness(chosen) > TURNED * relative_roughness(other);
}

/* Do signed numbers lie on both sides of 0, in less than half the range that they have as unsigned numbers? */
static bool is_around_zero(const struct number_stats *chosen, const struct number_stats *other)
{
    return other->lowest < 0 && other->highest > 0 &&
           2 * ((double)other->highest - other->lowest) < (double)chosen->highest - chosen->lowest;
}

/* Are the numbers plausible pixels if their bytes are swapped? */
static bool are_swapped_floats(const struct pixel_survey *survey, enum number_kind kind)
{
    const struct number_stats *const other = find_stats(survey, kind);
    return other != NULL && isfinite(other->lowest) && other->lowest >= -255 && other->highest <= 255 &&
           other->highest > other->lowest && !is_tiny(other);
}

#define SWAPPED_FLOATS16 \
    "big-endian 16-bit floats, and little-endian ones are read: convert them (NumPy: astype('<f2'))"
#define SWAPPED_FLOATS32 "big-endian floats, and little-endian ones are read: convert them (NumPy: astype('<f4'))"
#define BYTES_OF_ANOTHER_SHAPE \
    "as many bytes as 16-bit numbers of the shape wanted, but neighbouring bytes look like pixels of 8 bits in " \
    "another shape: add features that say height and width, or set data.image_range if they are 16-bit numbers"

static const char *find_word_mistake(const struct pixel_survey *survey, const struct number_stats *chosen)
{
    const enum byte_evidence evidence = look_at_bytes(survey);
    if (is_around_zero(chosen, find_stats(survey, NUMBER_INT16)) ||
        is_smoother_signed(survey, chosen, NUMBER_INT16))
        return "signed 16-bit integers, of which some are negative: bring them to 0..255 or 0..65535 first";
    if (are_swapped_floats(survey, NUMBER_SWAPPED_FLOAT16))
        return SWAPPED_FLOATS16;
    if (evidence == BYTES_SWAPPED)
        return "big-endian 16-bit integers, and little-endian ones are read: convert them (NumPy: astype('<u2'))";
    return evidence == BYTES_OF_PIXELS ? BYTES_OF_ANOTHER_SHAPE : NULL;
}

/* The type that the images probably have instead of the chosen one, and what to do; NULL: the chosen type is
 * plausible. */
static const char *find_mistake(const struct pixel_survey *survey, const struct number_stats *chosen,
                                const struct image_range *range)
{
    if (survey->stats_count == survey->type_count)      /* a list or a tensor determines the type */
        return NULL;
    if (chosen->type == &number_types[NUMBER_FLOAT16]) {
        if (dark_share(chosen, range) > PIXELS_DARK_SHARE_MAX)
            return "numbers of 2 bytes that can be floats or integers: data.image_range = 0..65535 says integers, "
                   "tf.io.serialize_tensor keeps the type";
        return look_at_bytes(survey) == BYTES_OF_PIXELS ? BYTES_OF_ANOTHER_SHAPE : NULL;
    }
    if (range != &image_ranges[IMAGE_RANGE_WORD])
        return NULL;
    if (chosen->type == &number_types[NUMBER_INT32])
        return are_swapped_floats(survey, NUMBER_SWAPPED_FLOAT32) ? SWAPPED_FLOATS32 : NULL;
    return chosen->type == &number_types[NUMBER_UINT16] ? find_word_mistake(survey, chosen) : NULL;
}

/* Is the low byte of 16-bit integers smooth? It is noise, unless images are very smooth or nearly empty. A smooth low
 * byte may belong to some channels of a larger image. */
static bool is_low_byte_smooth(const struct pixel_survey *survey)
{
    const double roughness = relative_roughness(find_stats(survey, NUMBER_LOW_BYTE));
    return roughness > 0 && roughness < ROUGH_NOISE && !is_byte_repeated(survey) &&
           survey->sized_count < survey->image_count;
}

static bool is_type_doubtful(const struct pixel_survey *survey, const struct number_stats *chosen,
                             const struct image_range *range)
{
    const bool is_half = chosen->type == &number_types[NUMBER_FLOAT16];
    const bool is_word = chosen->type == &number_types[NUMBER_UINT16] && range == &image_ranges[IMAGE_RANGE_WORD];
    if ((!is_half && !is_word) || survey->type_count == 1)
        return false;
    return look_at_bytes(survey) == BYTES_UNCLEAR || (is_word && is_low_byte_smooth(survey));
}

static int report_numbers(const struct pixel_survey *survey, char *problem, size_t problem_size)
{
    const struct number_stats *const stats = &survey->stats[0];
    const bool is_odd = isnan(stats->lowest) || (stats->lowest < 0 && fabsf(stats->lowest) > 255);
    if (is_odd && are_swapped_floats(survey, NUMBER_SWAPPED_FLOAT16))
        snprintf(problem, problem_size, "%s", SWAPPED_FLOATS16);
    else if (is_odd && are_swapped_floats(survey, NUMBER_SWAPPED_FLOAT32))
        snprintf(problem, problem_size, "%s", SWAPPED_FLOATS32);
    else if (survey->type_count > 1 && !has_negative_floats(stats) && (isnan(stats->lowest) || is_tiny(stats)))
        snprintf(problem, problem_size,
                 "numbers of %u bytes that are neither %s of a range in use nor %s of 0..255 or 0..65535: are the "
                 "sizes right?", stats->type->bytes, stats->type->name, survey->stats[1].type->name);
    else if (isnan(stats->lowest))
        snprintf(problem, problem_size, "%s that are no numbers (NaN or infinity)", stats->type->name);
    else if (stats->type->is_float)
        snprintf(problem, problem_size,
                 "%s from %g to %g in the first records, which are no pixels of 0..1, -0.5..0.5, -1..1 or 0..255: "
                 "store them before they are normalised (mean, deviation), or as one of these ranges",
                 stats->type->name, (double)stats->lowest, (double)stats->highest);
    else
        snprintf(problem, problem_size,
                 "%s from %.9g to %.9g in the first records, which are no pixels of 0..1, 0..255 or 0..65535: "
                 "store them as one of these ranges",
                 stats->type->name, (double)stats->lowest, (double)stats->highest);
    return -EBADMSG;
}

/* The layout in which a pixel's channels differ less than neighbouring pixels do, as in images that are grey or nearly
 * grey; this works also if neighbours differ as much as any two pixels. AUTO if this holds in both layouts or in
 * neither. */
static enum pixel_layout find_grey(const struct number_stats *stats)
{
    const double share = CHANNELS_CLOSE - CHANCE / sqrt(stats->neighbour_count + 1);
    const bool hwc = stats->inside_pixels < share * stats->across_pixels;
    const bool chw = stats->inside_planes < share * stats->across_planes;
    return hwc == chw ? PIXEL_LAYOUT_AUTO : hwc ? PIXEL_LAYOUT_HWC : PIXEL_LAYOUT_CHW;
}

static void choose_layout(const struct number_stats *stats, const struct pixel_choice *choice,
                          struct pixel_reading *reading)
{
    const double hwc = stats->roughness_hwc, chw = stats->roughness_chw;
    const double clear = choice->clear + CHANCE / sqrt(stats->neighbour_count + 1);
    const enum pixel_layout grey = find_grey(stats);
    reading->layout = choice->layout != PIXEL_LAYOUT_AUTO ? choice->layout : choice->usual_layout;
    reading->has_channels = stats->has_channels;
    if (choice->layout != PIXEL_LAYOUT_AUTO || !reading->has_channels)
        return;
    reading->is_layout_found = grey != PIXEL_LAYOUT_AUTO || hwc > clear * chw || chw > clear * hwc;
    reading->is_layout_doubtful = !reading->is_layout_found && hwc > 0;
    if (reading->is_layout_found)
        reading->layout = grey != PIXEL_LAYOUT_AUTO ? grey : hwc < chw ? PIXEL_LAYOUT_HWC : PIXEL_LAYOUT_CHW;
}

static void find_doubts(const struct pixel_survey *survey, const struct number_stats *stats,
                        const struct image_range *configured, struct pixel_reading *reading)
{
    reading->is_turned = stats->roughness_turned > 0 && stats->roughness_upright > TURNED * stats->roughness_turned;
    reading->dark_share = dark_share(stats, reading->range);
    if (configured != NULL)
        return;
    reading->is_signed = stats->type == &number_types[NUMBER_BYTES] && is_smoother_signed(survey, stats, NUMBER_INT8);
    reading->is_type_doubtful = is_type_doubtful(survey, stats, reading->range);
    reading->is_mixed = stats->type->is_float && reading->range == &image_ranges[IMAGE_RANGE_BYTE] &&
                        stats->narrow_images > 1 && 30 * stats->narrow_images > stats->varied_images;
}

/* Assume a type, range and layout if no image could be read; decoding reports why. */
static void assume(const struct number_stats *stats, const struct pixel_choice *choice,
                   struct pixel_reading *reading_out)
{
    *reading_out = (struct pixel_reading){
        .type = stats->type,
        .range = choice->range != NULL ? choice->range : &image_ranges[IMAGE_RANGE_BYTE],
        .layout = choice->usual_layout,
    };
}

int pixel_survey_settle(const struct pixel_survey *survey, const struct pixel_choice *choice,
                        struct pixel_reading *reading_out, char *problem_out, size_t problem_size)
{
    if (survey->stats[0].count == 0) {
        assume(&survey->stats[0], choice, reading_out);
        return 0;
    }
    for (uint32_t i = 0; i < survey->type_count && !(i > 0 && has_negative_floats(&survey->stats[0])); i++) {
        const struct number_stats *const stats = &survey->stats[i];
        const struct image_range *const range = find_range(stats, choice->range);
        if (range == NULL || (survey->type_count > 1 && is_tiny(stats)))
            continue;
        const char *const mistake = choice->range == NULL ? find_mistake(survey, stats, range) : NULL;
        if (mistake != NULL) {
            snprintf(problem_out, problem_size, "%s", mistake);
            return -EBADMSG;
        }
        *reading_out = (struct pixel_reading){ .type = stats->type, .range = range, .lowest = stats->lowest,
                                               .highest = stats->highest };
        choose_layout(stats, choice, reading_out);
        find_doubts(survey, stats, choice->range, reading_out);
        return 0;
    }
    return report_numbers(survey, problem_out, problem_size);
}

/* Are the pixels bytes that need no conversion? */
static bool is_raw(const struct pixel_reading *reading)
{
    return reading->type == &number_types[NUMBER_BYTES] && reading->range == &image_ranges[IMAGE_RANGE_BYTE];
}

const struct image_ops *pixel_reading_ops(const struct pixel_reading *reading)
{
    const bool is_planar = reading->layout == PIXEL_LAYOUT_CHW;
    if (is_raw(reading))
        return is_planar ? &image_raw_chw_ops : &image_raw_hwc_ops;
    return is_planar ? &image_numbers_chw_ops : &image_numbers_hwc_ops;
}

void pixel_reading_describe(const struct pixel_reading *reading, char *text_out, size_t text_size)
{
    snprintf(text_out, text_size, "%s %s%s%s%s", reading->type->name,
             reading->layout == PIXEL_LAYOUT_CHW ? "(C, H, W)" : "(H, W, C)", is_raw(reading) ? "" : " of ",
             is_raw(reading) ? "" : reading->range->name,
             reading->is_layout_found ? ", layout as neighbouring pixels show" : "");
}

float pixel_reading_value(const struct pixel_reading *reading, float number)
{
    return (number - reading->range->darkest) * (255.0f / (reading->range->brightest - reading->range->darkest));
}

bool pixels_are_flat(const uint8_t *pixels, size_t bytes, uint32_t channels)
{
    for (size_t i = channels; i < bytes; i++) {
        const int step = pixels[i] - pixels[i % channels];
        if (step < -1 || step > 1)
            return false;
    }
    return bytes > channels;
}
