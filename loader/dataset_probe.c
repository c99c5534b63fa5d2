/* Examines the first records of a data set. Called while it is opened. */
#include "loader/dataset_open.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "loader/record.h"
#include "stage/log.h"

/* Records that are examined, evenly spaced, if the first one is not enough. */
#define SAMPLED_RECORDS 64u

static void report_record(struct opening *opening, uint64_t id, const struct record_problem *problem)
{
    char line[OPENING_PROBLEM_BYTES];
    record_describe(opening->dataset, id, problem, line, sizeof(line));
    opening_report(opening, -EBADMSG, line);
}

/* Report that no record is readable although damaged ones are skipped. */
static void report_all_damaged(struct opening *opening, const struct record_problem *first)
{
    const struct dataset *const dataset = opening->dataset;
    char line[OPENING_PROBLEM_BYTES], place[OPENING_PROBLEM_BYTES / 2];
    record_describe(dataset, 0, first, place, sizeof(place));
    snprintf(line, sizeof(line), "no readable record is left, all %" PRIu64 " are damaged; the first: %s",
             dataset->record_count + dataset->lost_records, place);
    opening_report(opening, -EBADMSG, line);
}

/* Find the format from the first record with a valid frame, which is record 0 unless damage is skipped. Returns its id;
 * UINT64_MAX if there is none or its format is unknown. */
static uint64_t find_format(struct opening *opening, struct decode_context *context)
{
    struct dataset *const dataset = opening->dataset;
    struct record_problem first, problem;
    uint64_t id = 0, bytes = 0;
    const uint8_t *payload = record_payload(context, id, &bytes, &first);
    problem = first;
    while (payload == NULL && dataset->options.skip_damage && id + 1 < dataset->record_count)
        payload = record_payload(context, ++id, &bytes, &problem);
    if (payload != NULL &&
        sample_find_format(&dataset->format, &dataset->options.shape, payload, bytes, problem.text,
                           sizeof(problem.text)) == 0)
        return id;
    if (payload == NULL && dataset->options.skip_damage)
        report_all_damaged(opening, &first);
    else
        report_record(opening, id, &problem);
    return UINT64_MAX;
}

static uint64_t sampled_count(const struct dataset *dataset)
{
    return dataset->record_count < SAMPLED_RECORDS ? dataset->record_count : SAMPLED_RECORDS;
}

/* The id of the i-th examined record. In a compressed shard all earlier data has to be decompressed, so records near
 * the beginnings of shards are used. */
static uint64_t sampled_id(const struct dataset *dataset, uint64_t i)
{
    if (dataset_is_plain(dataset))
        return (uint64_t)((__uint128_t)dataset->record_count * i / sampled_count(dataset));
    const uint32_t shard = (uint32_t)(i % dataset->shard_count);
    const uint64_t id = dataset->first_ids[shard] + i / dataset->shard_count;
    return id < dataset->first_ids[shard + 1] ? id : dataset->first_ids[shard];
}

/* The payload of the i-th examined record; NULL if it cannot be read. */
static const uint8_t *sampled_payload(struct decode_context *context, uint64_t i, uint64_t *bytes_out)
{
    struct record_problem problem;
    const uint64_t id = sampled_id(context->dataset, i);
    return id < context->dataset->record_count ? record_payload(context, id, bytes_out, &problem) : NULL;
}

/* Does one of the examined records have a label that can only be a number? */
static bool labels_are_number_bytes(struct decode_context *context)
{
    const struct dataset *const dataset = context->dataset;
    bool is_number = false;
    for (uint64_t i = 0; i < sampled_count(dataset) && !is_number; i++) {
        uint64_t bytes;
        const uint8_t *const payload = sampled_payload(context, i, &bytes);
        is_number = payload != NULL && sample_label_is_number_byte(&dataset->format, payload, bytes);
    }
    return is_number;
}

/* Determine how labels are stored if the first one is ambiguous: a digit or a byte. */
static int find_label(struct opening *opening, struct decode_context *context, uint64_t first_id)
{
    struct dataset *const dataset = opening->dataset;
    struct record_problem problem;
    uint64_t bytes;
    const uint8_t *payload = record_payload(context, first_id, &bytes, &problem);
    if (payload == NULL || !sample_label_is_open(&dataset->format, payload, bytes))
        return 0;
    const bool is_number = labels_are_number_bytes(context);
    payload = record_payload(context, first_id, &bytes, &problem);
    const int rc = payload == NULL ? -EBADMSG
                                   : sample_settle_label(&dataset->format, payload, bytes, is_number, problem.text,
                                                         sizeof(problem.text));
    if (rc < 0)
        report_record(opening, first_id, &problem);
    return rc;
}

/* Survey several images, as a single one may be dark. 0, or a negative errno after a report. */
static int survey_pixels(struct opening *opening, struct decode_context *context, struct pixel_survey *survey)
{
    const struct dataset *const dataset = opening->dataset;
    int rc = 0;
    for (uint64_t i = 0; i < sampled_count(dataset) && rc == 0; i++) {
        uint64_t bytes;
        const uint8_t *const payload = sampled_payload(context, i, &bytes);
        if (payload != NULL)
            rc = sample_survey_pixels(&dataset->format, &dataset->options.shape, payload, bytes, survey);
    }
    if (rc < 0)
        opening_report(opening, rc, "not enough memory to look at the first images");
    return rc;
}

/* Warn of raw images that are probably stored or read incorrectly. */
static void warn_of_pixels(const struct dataset *dataset, uint64_t images)
{
    const struct pixel_reading *const reading = &dataset->format.reading;
    const double brightest = (double)pixel_reading_value(reading, reading->highest);
    char text[128];
    sample_describe_images(&dataset->format, text, sizeof(text));
    const char *const what = dataset->options.what;
    if (reading->is_layout_doubtful)
        log_message(LOG_RUN, "%s: the pixels do not show whether images are (H, W, C) or (C, H, W); they are read as "
                    "%s. Set data.image_layout", what, text);
    if (reading->is_turned)
        log_message(LOG_RUN, "%s: images are much smoother with height and width exchanged: check the features that "
                    "give them", what);
    if (reading->is_signed)
        log_message(LOG_RUN, "%s: images are much smoother as signed bytes (int8), but are read as bytes of 0 to 255: "
                    "if they are signed, add 128 and convert them again; if not, set data.image_range = 0..255", what);
    if (reading->is_type_doubtful)
        log_message(LOG_RUN, "%s: the pixels do not show whether these are 16-bit numbers or bytes of images of "
                    "another shape; they are read as %s. Add features with height and width, or set data.image_range",
                    what, text);
    if (reading->is_mixed)
        log_message(LOG_RUN, "%s: some images are of 0..1 and others are not; all are read as %s, in which the former "
                    "are black", what, text);
    if (reading->dark_share > PIXELS_DARK_SHARE_MAX)
        log_message(LOG_RUN, "%s: %.0f %% of the nonzero numbers become black, because images are read as %s: set "
                    "data.image_range", what, 100 * reading->dark_share, text);
    if (images < PIXELS_WARNED_IMAGES || reading->dark_share > PIXELS_DARK_SHARE_MAX)
        return;
    if (reading->lowest == reading->highest)
        log_message(LOG_RUN, "%s: all pixels of %" PRIu64 " images are %g, so nothing can be learnt from them; they "
                    "are read as %s", what, images, (double)reading->lowest, text);
    else if (brightest < PIXELS_DARK)
        log_message(LOG_RUN, "%s: the brightest pixel of %" PRIu64 " images is %.3g of 255, so they are dark; they "
                    "are read as %s. If that is white, set data.image_range, or convert numbers of 0 to 255", what,
                    images, brightest, text);
}

/* Find how raw pixels are read. */
static int settle_pixels(struct opening *opening, struct decode_context *context, uint64_t first_id)
{
    struct dataset *const dataset = opening->dataset;
    struct pixel_survey survey;
    struct record_problem problem;
    sample_begin_survey(&dataset->format, &survey);
    int rc = survey_pixels(opening, context, &survey);
    if (rc == 0) {
        rc = sample_settle_pixels(&dataset->format, &dataset->options.shape, &survey, problem.text,
                                  sizeof(problem.text));
        if (rc < 0)
            report_record(opening, first_id, &problem);
        else
            warn_of_pixels(dataset, survey.image_count);
    }
    pixel_survey_release(&survey);
    return rc;
}

static void try_record(struct opening *opening, struct decode_context *context, uint64_t id, uint8_t *pixels)
{
    int32_t label;
    const struct sample_target target = {
        .request = { .shape = opening->dataset->options.shape }, .pixels = pixels, .label = &label };
    struct record_problem problem;
    char line[OPENING_PROBLEM_BYTES];
    const int rc = record_load(context, id, &target, &problem);
    if (rc == 0)
        return;
    const uint32_t shard = dataset_find(opening->dataset, id).shard;
    struct shard_index *const index = &opening->dataset->indexes[shard];
    const bool is_stale = problem.is_damage && shard_index_prove(index, opening->dataset->sources[shard]) != 0;
    if (is_stale && index->listed_in == NULL) {
        opening_fail(opening, -ESTALE);
        return;
    }
    if (is_stale)
        shard_index_describe_stale(index, problem.text, sizeof(problem.text));
    record_describe(opening->dataset, id, &problem, line, sizeof(line));
    opening_report(opening, rc == -ENOMEM ? -ENOMEM : -EBADMSG, line);
}

/* Shards that a catalog describes are not opened for this. */
static void try_records(struct opening *opening, struct decode_context *context, uint64_t id, uint8_t *pixels)
{
    const struct dataset *const dataset = opening->dataset;
    try_record(opening, context, id, pixels);
    for (uint32_t i = 1; i < dataset->shard_count && opening->result == 0 && !dataset->options.skip_damage; i++)
        if (dataset->indexes[i].record_count > 0 && dataset->indexes[i].listed_in == NULL)
            try_record(opening, context, dataset->first_ids[i], pixels);
}

/* Open a context that need not read the records that are given. */
static int open_context(const struct dataset *dataset, struct decode_context **context_out)
{
    const int rc = decode_context_open(context_out, dataset);
    if (rc == 0 && dataset->options.given != NULL)
        (*context_out)->given = &dataset->options.given->records;
    return rc;
}

/* The codec of a context is that of the format, so the context that finds the format is not used for decoding. */
static int probe(struct opening *opening, uint8_t *pixels)
{
    struct decode_context *context;
    int rc = open_context(opening->dataset, &context);
    if (rc < 0)
        return rc;
    context->kept = opening->dataset->options.keeps_start ? &opening->dataset->start : NULL;
    const uint64_t id = find_format(opening, context);
    const bool is_found = id != UINT64_MAX && find_label(opening, context, id) == 0 &&
                          (opening->dataset->format.image != NULL || settle_pixels(opening, context, id) == 0);
    decode_context_close(context);
    if (!is_found)
        return 0;
    rc = open_context(opening->dataset, &context);
    if (rc < 0)
        return rc;
    try_records(opening, context, id, pixels);
    decode_context_close(context);
    return 0;
}

void dataset_probe(struct opening *opening)
{
    uint8_t *const pixels = malloc(opening->dataset->sample_bytes);
    const int rc = pixels != NULL ? probe(opening, pixels) : -ENOMEM;
    if (rc < 0)
        opening_report(opening, rc, "not enough memory to read a record");
    free(pixels);
}
