/* A survey of images. From main's thread, in a run that only checks. */
#include "loader/opening/image_survey.h"

#include <errno.h>
#include <stdlib.h>

#define RECORDS_MIN 64u
#define RECORDS_MAX 512u
#define BYTES_MAX ((uint64_t)16 << 20)

static uint64_t choose_count(const struct dataset *dataset)
{
    const uint64_t fitting = dataset->payload_bytes_max > 0 ? BYTES_MAX / dataset->payload_bytes_max : RECORDS_MAX;
    const uint64_t wanted = fitting < RECORDS_MIN ? RECORDS_MIN : fitting > RECORDS_MAX ? RECORDS_MAX : fitting;
    return wanted < dataset->record_count ? wanted : dataset->record_count;
}

static void note_problem(struct image_survey *survey, uint64_t id, const struct record_problem *problem)
{
    survey->bad_id = id;
    survey->problem = *problem;
}

/* Pixels of samples, as many of each. */
static void add_pixels(struct image_survey *survey, const uint8_t *pixels, size_t count)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        if (pixels[i] < survey->lowest)
            survey->lowest = pixels[i];
        if (pixels[i] > survey->highest)
            survey->highest = pixels[i];
        sum += pixels[i];
    }
    survey->count++;
    survey->mean += ((double)sum / (double)count - survey->mean) / (double)survey->count;
}

/* 0, or -ENOMEM, which is no fault of the image. */
static int look(struct image_survey *survey, struct decode_context *context, uint64_t id, uint8_t *pixels)
{
    const struct dataset *const dataset = context->dataset;
    struct record_problem problem;
    int32_t label;
    const struct sample_target target = {
        .request = { .shape = dataset->options.shape }, .pixels = pixels, .label = &label };
    const int rc = record_load(context, id, &target, &problem);
    if (rc == -ENOMEM)
        return rc;
    if (rc < 0) {
        if (survey->unreadable++ == 0)
            note_problem(survey, id, &problem);
        return 0;
    }
    if (problem.text[0] != '\0' && survey->flawed++ == 0 && survey->unreadable == 0)
        note_problem(survey, id, &problem);
    add_pixels(survey, pixels, dataset->sample_bytes);
    return 0;
}

static bool is_unwanted(const struct dataset *dataset)
{
    return dataset->options.is_unwanted != NULL && atomic_load(dataset->options.is_unwanted);
}

static int look_at_all(struct image_survey *survey, struct decode_context *context, uint8_t *pixels)
{
    const struct dataset *const dataset = context->dataset;
    const uint64_t count = choose_count(dataset);
    int rc = 0;
    for (uint64_t i = 0; i < count && rc == 0 && !is_unwanted(dataset); i++)
        rc = look(survey, context, (uint64_t)((__uint128_t)dataset->record_count * i / count), pixels);
    return rc == 0 && is_unwanted(dataset) ? -ECANCELED : rc;
}

int image_survey_make(struct image_survey *survey_out, const struct dataset *dataset)
{
    uint8_t *const pixels = malloc(dataset->sample_bytes);
    struct decode_context *context = NULL;
    *survey_out = (struct image_survey){ .lowest = UINT8_MAX };
    int rc = pixels != NULL ? decode_context_open(&context, dataset) : -ENOMEM;
    if (rc == 0)
        rc = look_at_all(survey_out, context, pixels);
    decode_context_close(context);
    free(pixels);
    return rc;
}
