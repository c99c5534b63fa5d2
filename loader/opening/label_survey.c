/* A survey of labels. From main's thread, in a run that only checks. */
#include "loader/opening/label_survey.h"

#include <errno.h>
#include <stdlib.h>

#define RECORDS_MIN 256u
#define RECORDS_MAX 4096u
#define BYTES_MAX ((uint64_t)64 << 20)
#define UNREADABLE_MAX 4u       /* one behind the other: each takes its time where a disk fails */

static uint64_t choose_count(const struct dataset *dataset)
{
    const uint64_t fitting = dataset->payload_bytes_max > 0 ? BYTES_MAX / dataset->payload_bytes_max : RECORDS_MAX;
    const uint64_t wanted = fitting < RECORDS_MIN ? RECORDS_MIN : fitting > RECORDS_MAX ? RECORDS_MAX : fitting;
    return wanted < dataset->record_count ? wanted : dataset->record_count;
}

static void note_unreadable(struct label_survey *survey, uint64_t id, const struct record_problem *problem)
{
    if (survey->unreadable++ > 0)
        return;
    survey->bad_id = id;
    survey->problem = *problem;
}

/* Whether there is a label to read. */
static bool look(struct label_survey *survey, struct decode_context *context, uint64_t id)
{
    struct record_problem problem;
    struct sample_label label;
    uint64_t bytes;
    const uint8_t *const payload = record_payload(context, id, &bytes, &problem);
    problem.is_damage = payload == NULL;
    if (payload == NULL || sample_read_label(&context->dataset->format, payload, bytes, &label, problem.text,
                                             sizeof(problem.text)) < 0) {
        note_unreadable(survey, id, &problem);
        return false;
    }
    survey->labels[survey->count++] = label.stored;
    survey->repeats += label.has_repeats;
    return true;
}

static int label_compare(const void *a, const void *b)
{
    const int64_t one = *(const int64_t *)a, other = *(const int64_t *)b;
    return (one > other) - (one < other);
}

static bool is_unwanted(const struct dataset *dataset)
{
    return dataset->options.is_unwanted != NULL && atomic_load(dataset->options.is_unwanted);
}

static int look_at_all(struct label_survey *survey, struct decode_context *context, uint64_t count)
{
    const struct dataset *const dataset = context->dataset;
    uint32_t unreadable = 0;
    for (uint64_t i = 0; i < count && unreadable < UNREADABLE_MAX && !is_unwanted(dataset); i++) {
        const bool is_read = look(survey, context, (uint64_t)((__uint128_t)dataset->record_count * i / count));
        unreadable = is_read ? 0 : unreadable + 1;
    }
    return is_unwanted(dataset) ? -ECANCELED : 0;
}

int label_survey_make(struct label_survey *survey_out, const struct dataset *dataset)
{
    const uint64_t count = choose_count(dataset);
    struct label_survey survey = { .labels = calloc(count + 1, sizeof(*survey.labels)) };
    struct decode_context *context;
    if (survey.labels == NULL)
        return -ENOMEM;
    int rc = decode_context_open(&context, dataset);
    if (rc == 0) {
        rc = look_at_all(&survey, context, count);
        decode_context_close(context);
    }
    if (rc < 0) {
        label_survey_release(&survey);
        return rc;
    }
    qsort(survey.labels, survey.count, sizeof(*survey.labels), label_compare);
    *survey_out = survey;
    return 0;
}

void label_survey_release(struct label_survey *survey)
{
    free(survey->labels);
    *survey = (struct label_survey){ 0 };
}

static bool is_label(int64_t stored, int64_t offset, uint32_t classes)
{
    int64_t label;
    return !__builtin_add_overflow(stored, offset, &label) && label >= 0 && label < (int64_t)classes;
}

bool label_survey_fits(const struct label_survey *survey, int64_t offset, uint32_t classes)
{
    return survey->count == 0 || (is_label(survey->labels[0], offset, classes) &&
                                  is_label(survey->labels[survey->count - 1], offset, classes));
}

bool label_survey_offset(const struct label_survey *survey, uint32_t classes, int64_t *offset_out)
{
    int64_t from_lowest, from_highest;
    if (survey->count == 0 || __builtin_sub_overflow(0, survey->labels[0], &from_lowest) ||
        __builtin_sub_overflow((int64_t)classes - 1, survey->labels[survey->count - 1], &from_highest))
        return false;
    if (from_lowest > from_highest)     /* what is between them would do */
        return false;
    *offset_out = from_lowest > 0 ? from_lowest : from_highest < 0 ? from_highest : 0;
    return *offset_out >= -LABEL_OFFSET_MAX && *offset_out <= LABEL_OFFSET_MAX;
}
