/* Deciding how numbers are read as pixels. Each type that they can be is tried on the same images: bytes of one type
 * read as another give numbers that are not finite, outside of every range or next to 0. */
#include "loader/images/pixel_survey.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "loader/images/raw_shape.h"

/* How far beyond a range its ends may be rounded, in parts of it. */
#define SLACK 1e-4f
/* One step of 255 is 2^-8 of a range. Small integers read as floats are all below 2^-12: 65,535 as float16 in none. */
#define TINY 0x1p-12f
#define TINY_SHARE_MAX 0.25     /* scaling makes some pixels of a dark edge tiny, not a quarter of all that are not 0 */
/* The sums of N differences of noise are rarely farther from each other than this, divided by the root of N. */
#define CHANCE 8.0
#define SIDE_LEAST 8u           /* neighbours in fewer pixels show nothing */
#define WORD_LEAST 16384        /* the brightest of some images of 16 bits is brighter */

static const enum number_kind candidates[][PIXEL_TYPES_MAX] = {
    [1] = { NUMBER_BYTES, NUMBER_BYTES },
    [2] = { NUMBER_FLOAT16, NUMBER_UINT16 },
    [4] = { NUMBER_FLOAT32, NUMBER_INT32 },
    [8] = { NUMBER_FLOAT64, NUMBER_INT64 },
};

static void add_type(struct pixel_survey *survey, enum number_kind kind)
{
    survey->stats[survey->type_count++] =
        (struct number_stats){ .type = &number_types[kind], .lowest = INFINITY, .highest = -INFINITY };
}

void pixel_survey_begin_type(struct pixel_survey *survey, enum number_kind kind)
{
    *survey = (struct pixel_survey){ 0 };
    add_type(survey, kind);
}

void pixel_survey_begin(struct pixel_survey *survey, uint32_t bytes)
{
    pixel_survey_begin_type(survey, candidates[bytes][0]);
    if (candidates[bytes][1] != candidates[bytes][0])
        add_type(survey, candidates[bytes][1]);
}

void pixel_survey_release(struct pixel_survey *survey)
{
    scratch_release(&survey->values);
}

/* An image's numbers on their way to memory. */
struct copy {
    struct number_stats *stats;
    float *at;
};

static void copy_run(void *arg, const float *values, size_t count)
{
    struct copy *const copy = arg;
    struct number_stats *const stats = copy->stats;
    for (size_t i = 0; i < count; i++) {
        const float value = values[i];
        if (!isfinite(value))
            stats->lowest = stats->highest = NAN;
        if (value < stats->lowest)
            stats->lowest = value;
        if (value > stats->highest)
            stats->highest = value;
        stats->nonzero_count += value != 0;
        stats->tiny_count += value != 0 && fabsf(value) < TINY;
        stats->sum += (double)value;
    }
    stats->count += count;
    memcpy(copy->at, values, count * sizeof(*values));
    copy->at += count;
}

/* The differences of neighbours, summed: planes of rows of `length` numbers, of which those `step` apart are
 * neighbours. */
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

/* The shape is NULL where it is not known. */
static void add_numbers(struct number_stats *stats, const struct stored_image *image, const struct image_shape *shape,
                        float *values)
{
    struct stored_image typed = *image;
    typed.type = stats->type;
    number_visit(&typed, copy_run, &(struct copy){ stats, values });
    if (shape == NULL || shape->channels < 2 || shape->height < SIDE_LEAST || shape->width < SIDE_LEAST)
        return;
    const size_t row = (size_t)shape->width * shape->channels;
    stats->pair_count += 2.0 * (double)row * shape->height;
    stats->roughness_hwc += roughness(values, 1, shape->height, row, shape->channels);
    stats->roughness_chw += roughness(values, shape->channels, shape->height, shape->width, 1);
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
    for (uint32_t i = 0; i < survey->type_count; i++)
        add_numbers(&survey->stats[i], image, is_known ? &shape : NULL, values);
    survey->image_count++;
    return 0;
}

static bool is_in(float lowest, float highest, enum image_range_choice choice)
{
    const struct image_range *const range = &image_ranges[choice];
    const float slack = SLACK * (range->brightest - range->darkest);
    return lowest >= range->darkest - slack && highest <= range->brightest + slack;
}

const struct image_range *image_range_find(float lowest, float highest)
{
    for (int choice = IMAGE_RANGE_UNIT; choice <= IMAGE_RANGE_BYTE; choice++)
        if (is_in(lowest, highest, (enum image_range_choice)choice))
            return &image_ranges[choice];
    return NULL;
}

/* Images of 0 alone are bytes as they are. A few numbers above 255 do not make a set one of 16 bits, in which the
 * others would be black. */
static const struct image_range *find_integer_range(const struct number_stats *stats)
{
    if (stats->lowest < 0 || !isfinite(stats->lowest))
        return NULL;
    if (stats->highest == 1)
        return &image_ranges[IMAGE_RANGE_UNIT];
    if (stats->highest <= 255)
        return &image_ranges[IMAGE_RANGE_BYTE];
    return stats->highest >= WORD_LEAST && stats->highest <= 65535 ? &image_ranges[IMAGE_RANGE_WORD] : NULL;
}

/* The range that numbers of this type lie in, the configured one if there is one; NULL: they are of another type, or no
 * pixels. */
static const struct image_range *find_range(const struct number_stats *stats, const struct image_range *configured)
{
    const struct image_range *const found = stats->type->is_float ? image_range_find(stats->lowest, stats->highest)
                                                                  : find_integer_range(stats);
    if (configured == NULL)
        return found;
    if (stats->type->is_float)
        return isfinite(stats->lowest) ? configured : NULL;
    return stats->lowest >= 0 ? configured : NULL;
}

static bool is_tiny(const struct number_stats *stats)
{
    return stats->type->is_float && (double)stats->tiny_count > TINY_SHARE_MAX * (double)stats->nonzero_count;
}

static int report(const struct pixel_survey *survey, char *problem, size_t problem_size)
{
    const struct number_stats *const stats = &survey->stats[0];
    if (survey->type_count > 1 && (isnan(stats->lowest) || is_tiny(stats)))
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

static void choose_layout(const struct number_stats *stats, const struct pixel_choice *choice,
                          struct pixel_reading *reading)
{
    const double hwc = stats->roughness_hwc, chw = stats->roughness_chw;
    const bool is_one_channel = hwc == 0 && chw == 0;
    const double clear = choice->clear + CHANCE / sqrt(stats->pair_count + 1);
    reading->layout = choice->layout != PIXEL_LAYOUT_AUTO ? choice->layout : choice->usual_layout;
    if (choice->layout != PIXEL_LAYOUT_AUTO || is_one_channel)
        return;
    reading->is_layout_found = hwc > clear * chw || chw > clear * hwc;
    reading->is_layout_doubtful = !reading->is_layout_found && hwc > 0;
    if (reading->is_layout_found)
        reading->layout = hwc < chw ? PIXEL_LAYOUT_HWC : PIXEL_LAYOUT_CHW;
}

/* No image was seen, which is said when one is decoded. */
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
    for (uint32_t i = 0; i < survey->type_count; i++) {
        const struct number_stats *const stats = &survey->stats[i];
        const struct image_range *const range = find_range(stats, choice->range);
        if (range == NULL || (survey->type_count > 1 && is_tiny(stats)))
            continue;
        *reading_out = (struct pixel_reading){ .type = stats->type, .range = range, .lowest = stats->lowest,
                                               .highest = stats->highest,
                                               .mean = (float)(stats->sum / (double)stats->count) };
        choose_layout(stats, choice, reading_out);
        return 0;
    }
    return report(survey, problem_out, problem_size);
}

/* Bytes that are pixels as they are. */
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
