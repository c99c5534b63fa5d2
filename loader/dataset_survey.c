/* Surveys of the images and labels of a data set. Called from main's thread. */
#include "loader/dataset_survey.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "loader/images/orientation.h"
#include "loader/images/pixel_survey.h"

/* Limits of a sample: the number of records, and the bytes that are read. */
struct sample_limits { uint64_t records_min, records_max, bytes_max; };
static const struct sample_limits image_sample = { 64, 512, (uint64_t)16 << 20 };
static const struct sample_limits label_sample = { 256, 4096, (uint64_t)64 << 20 };

/* A survey ends after this many unreadable labels in succession, since on a failing disk each takes long. */
#define UNREADABLE_LABELS_MAX 4u
/* TEXTS_MAX: records whose texts are compared. The comparison ends after TEXTS_EXPECTED records without a known
 * name. */
#define TEXTS_MAX 64u
#define TEXTS_EXPECTED 16u
#define PAIRS 64u
#define PAIRS_MIN 32u           /* fewer pairs are no evidence of the order */
#define UNREADABLE_PAIRS_MAX 4u
/* An excess of equal pairs is reported if it is this many standard deviations and this fraction of the pairs. */
#define STDS_MIN 4.5
#define EXCESS_MIN 0.15

static uint64_t choose_count(const struct dataset *dataset, const struct sample_limits *limits)
{
    const uint64_t fitting =
        dataset->payload_bytes_max > 0 ? limits->bytes_max / dataset->payload_bytes_max : limits->records_max;
    const uint64_t most = fitting < limits->records_max ? fitting : limits->records_max;
    const uint64_t wanted = most > limits->records_min ? most : limits->records_min;
    return wanted < dataset->record_count ? wanted : dataset->record_count;
}

/* The id of the i-th of `count` evenly spaced records. */
static uint64_t spread_id(const struct dataset *dataset, uint64_t i, uint64_t count)
{
    return (uint64_t)((__uint128_t)dataset->record_count * i / count);
}

/* ---- images ---- */

static void note_problem(struct image_survey *survey, uint64_t id, const struct record_problem *problem)
{
    survey->bad_id = id;
    survey->problem = *problem;
}

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

static bool is_turned(struct decode_context *context, uint64_t id)
{
    const char *const names[] = { context->dataset->format.keys[SAMPLE_IMAGE], NULL };
    struct record_problem problem;
    struct feature feature;
    const char *name;
    uint64_t bytes;
    size_t bad_offset;
    const uint8_t *const payload = record_payload(context, id, &bytes, &problem);
    if (payload == NULL || sample_key_find(names, payload, bytes, &name, &feature, &bad_offset) < 0 || name == NULL ||
        feature.kind != FEATURE_BYTES)
        return false;
    const struct orientation orientation = orientation_of(feature.bytes, feature.byte_count);
    return !orientation_is_upright(&orientation);
}

/* Decode an image and add it to the survey. An unreadable image is counted and is no error. 0 or -ENOMEM. */
static int decode_image(struct image_survey *survey, struct decode_context *context, uint64_t id, uint8_t *pixels)
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
    survey->turned += dataset->format.image == &image_encoded_ops && is_turned(context, id);
    if (pixels_are_flat(pixels, dataset->sample_bytes, dataset->options.shape.channels) && survey->flat++ == 0)
        survey->flat_id = id;
    return 0;
}

static int decode_images(struct image_survey *survey, struct decode_context *context, uint8_t *pixels)
{
    const struct dataset *const dataset = context->dataset;
    const uint64_t count = choose_count(dataset, &image_sample);
    int rc = 0;
    for (uint64_t i = 0; i < count && rc == 0 && !dataset_is_unwanted(dataset); i++)
        rc = decode_image(survey, context, spread_id(dataset, i, count), pixels);
    return rc == 0 && dataset_is_unwanted(dataset) ? -ECANCELED : rc;
}

int image_survey_make(struct image_survey *survey_out, const struct dataset *dataset)
{
    uint8_t *const pixels = malloc(dataset->sample_bytes);
    struct decode_context *context = NULL;
    *survey_out = (struct image_survey){ .lowest = UINT8_MAX };
    int rc = pixels != NULL ? decode_context_open(&context, dataset) : -ENOMEM;
    if (rc == 0)
        rc = decode_images(survey_out, context, pixels);
    decode_context_close(context);
    free(pixels);
    return rc;
}

/* ---- labels ---- */

static void note_unreadable(struct label_survey *survey, uint64_t id, const struct record_problem *problem)
{
    if (survey->unreadable++ > 0)
        return;
    survey->bad_id = id;
    survey->problem = *problem;
}

/* Add a label to the survey. False if it cannot be read. */
static bool survey_label(struct label_survey *survey, struct decode_context *context, uint64_t id)
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

static int read_labels(struct label_survey *survey, struct decode_context *context, uint64_t count)
{
    const struct dataset *const dataset = context->dataset;
    uint32_t unreadable = 0;
    for (uint64_t i = 0; i < count && unreadable < UNREADABLE_LABELS_MAX && !dataset_is_unwanted(dataset); i++) {
        const bool is_read = survey_label(survey, context, spread_id(dataset, i, count));
        unreadable = is_read ? 0 : unreadable + 1;
    }
    return dataset_is_unwanted(dataset) ? -ECANCELED : 0;
}

int label_survey_make(struct label_survey *survey_out, const struct dataset *dataset)
{
    const uint64_t count = choose_count(dataset, &label_sample);
    struct label_survey survey = { .labels = calloc(count + 1, sizeof(*survey.labels)) };
    struct decode_context *context;
    if (survey.labels == NULL)
        return -ENOMEM;
    int rc = decode_context_open(&context, dataset);
    if (rc == 0) {
        rc = read_labels(&survey, context, count);
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
    if (from_lowest > from_highest)     /* no offset moves all labels into the range */
        return false;
    *offset_out = from_lowest > 0 ? from_lowest : from_highest < 0 ? from_highest : 0;
    return *offset_out >= -LABEL_OFFSET_MAX && *offset_out <= LABEL_OFFSET_MAX;
}

/* ---- class names ---- */

/* The id of the i-th record to be compared. In a compressed shard all earlier data has to be decompressed, so records
 * near the beginnings of shards are used. */
static uint64_t text_id(const struct dataset *dataset, uint64_t i, uint64_t count)
{
    if (dataset_is_plain(dataset))
        return spread_id(dataset, i, count);
    const uint32_t shard = (uint32_t)(i % dataset->shard_count);
    const uint64_t id = dataset->first_ids[shard] + i / dataset->shard_count;
    return id < dataset->first_ids[shard + 1] ? id : dataset->first_ids[shard];
}

static void compare_text(struct class_text_counts *counts, const struct class_texts *texts,
                         struct decode_context *context, uint64_t id)
{
    const struct dataset *const dataset = context->dataset;
    struct record_problem problem;
    struct sample_label label;
    uint64_t bytes;
    const uint8_t *const payload = record_payload(context, id, &bytes, &problem);
    if (payload != NULL && sample_read_label(&dataset->format, payload, bytes, &label, problem.text,
                                             sizeof(problem.text)) == 0)
        class_texts_compare(texts, id, label.stored + dataset->options.label_offset, payload, bytes, counts);
}

int class_text_survey_make(struct class_text_counts *counts_out, const struct class_texts *texts,
                           const struct dataset *dataset)
{
    const uint64_t count = dataset->record_count < TEXTS_MAX ? dataset->record_count : TEXTS_MAX;
    struct class_text_counts counts = { .right = 0 };
    struct decode_context *context;
    const int rc = decode_context_open(&context, dataset);
    if (rc < 0)
        return rc;
    for (uint64_t i = 0; i < count && !dataset_is_unwanted(dataset); i++) {
        const uint64_t id = text_id(dataset, i, count);
        if (id < dataset->record_count)
            compare_text(&counts, texts, context, id);
        if (counts.right + counts.wrong == 0 && i + 1 >= TEXTS_EXPECTED)
            break;              /* records have no texts, or texts that are no names */
    }
    decode_context_close(context);
    *counts_out = counts;
    return dataset_is_unwanted(dataset) ? -ECANCELED : 0;
}

static int add_said(struct class_census *census, struct decode_context *context, uint64_t id)
{
    const struct dataset *const dataset = context->dataset;
    struct record_problem problem;
    struct sample_label label;
    uint64_t bytes;
    const uint8_t *const payload = record_payload(context, id, &bytes, &problem);
    if (payload == NULL || sample_read_label(&dataset->format, payload, bytes, &label, problem.text,
                                             sizeof(problem.text)) < 0)
        return 0;
    return class_census_add(census, id, label.stored, payload, bytes);
}

int class_census_make(struct class_census *census, const struct dataset *dataset)
{
    const uint64_t count = dataset->record_count < TEXTS_MAX ? dataset->record_count : TEXTS_MAX;
    struct decode_context *context;
    int rc = decode_context_open(&context, dataset);
    if (rc < 0)
        return rc;
    for (uint64_t i = 0; rc == 0 && i < count && !dataset_is_unwanted(dataset); i++) {
        const uint64_t id = text_id(dataset, i, count);
        if (id < dataset->record_count)
            rc = add_said(census, context, id);
        if (census->count == 0 && i + 1 >= TEXTS_EXPECTED)
            break;              /* records have no texts */
    }
    decode_context_close(context);
    return rc == 0 && dataset_is_unwanted(dataset) ? -ECANCELED : rc;
}

int class_census_names(struct class_names *names_out, const struct class_census *census, const struct dataset *dataset)
{
    const uint32_t classes = dataset->options.classes;
    const char **const names = calloc((size_t)classes + 1, sizeof(*names));
    uint32_t count = 0;
    int64_t number;
    if (names == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < census->count; i++) {
        if (__builtin_add_overflow(census->said[i].label, dataset->options.label_offset, &number) || number < 0 ||
            number >= classes || names[number] != NULL)
            continue;
        names[number] = census->said[i].text;
        count = number >= count ? (uint32_t)number + 1 : count;
    }
    for (uint32_t c = 0; c < count; c++)
        names[c] = names[c] != NULL ? names[c] : "";
    const int rc = class_names_make(names_out, names, count, 0);
    free(names);
    return rc;
}

/* ---- order of labels ---- */

struct label_pairs {
    const struct order_shape *shape;
    uint64_t seed;
    struct decode_context *context;
    int64_t labels[2 * PAIRS];
    uint32_t count;             /* number of labels, two for each pair */
};

static bool read_label(struct label_pairs *pairs, uint64_t position, int64_t *label_out)
{
    struct record_problem problem;
    struct sample_label label;
    uint64_t bytes;
    const uint64_t id = order_find(pairs->shape, pairs->seed, 0, position);
    const uint8_t *const payload = record_payload(pairs->context, id, &bytes, &problem);
    if (payload == NULL || sample_read_label(&pairs->context->dataset->format, payload, bytes, &label, problem.text,
                                             sizeof(problem.text)) < 0)
        return false;
    *label_out = label.stored;
    return true;
}

/* Read the labels of pairs that are trained on together, evenly spaced over the data set; without lanes no two of them
 * have a record in common. */
static int read_pairs(struct label_pairs *pairs)
{
    const uint64_t places = pairs->shape->count / 2, count = places < PAIRS ? places : PAIRS;
    uint32_t unreadable = 0;
    for (uint64_t i = 0; i < count && unreadable < UNREADABLE_PAIRS_MAX; i++) {
        const uint64_t position = 2 * (uint64_t)((__uint128_t)places * i / count);
        int64_t *const labels = pairs->labels + pairs->count;
        if (dataset_is_unwanted(pairs->context->dataset))
            return -ECANCELED;
        if (read_label(pairs, position, &labels[0]) &&
            read_label(pairs, order_neighbour(pairs->shape, pairs->seed, position), &labels[1]))
            pairs->count += 2;
        else
            unreadable++;
    }
    return 0;
}

/* The fraction of equal labels among all pairs of the labels read, which is the expectation for random pairs. */
static double equal_share(const struct label_pairs *pairs)
{
    uint32_t equal = 0, all = 0;
    for (uint32_t i = 0; i < pairs->count; i++)
        for (uint32_t j = i + 1; j < pairs->count; j++, all++)
            equal += pairs->labels[i] == pairs->labels[j];
    return all > 0 ? (double)equal / all : 1;
}

int label_order_look(struct label_order *look_out, const struct dataset *dataset, const struct order_shape *shape,
                     uint64_t seed)
{
    struct label_pairs pairs = { .shape = shape, .seed = seed };
    int rc = shape->count > 1 ? decode_context_open(&pairs.context, dataset) : 0;
    if (rc < 0)
        return rc;
    if (pairs.context != NULL)
        rc = read_pairs(&pairs);
    decode_context_close(pairs.context);
    if (rc < 0)
        return rc;
    *look_out = (struct label_order){ .pairs = pairs.count / 2 };
    for (uint32_t i = 0; i < pairs.count; i += 2)
        look_out->equal += pairs.labels[i] == pairs.labels[i + 1];
    const double share = equal_share(&pairs);
    look_out->expected = look_out->pairs * share;
    look_out->is_one_label = share == 1 && pairs.count > 0;
    look_out->label = pairs.labels[0];
    return 0;
}

bool label_order_is_sorted(const struct label_order *look)
{
    const double std = sqrt(look->expected * (1 - look->expected / (look->pairs > 0 ? look->pairs : 1)));
    const double excess = look->equal - look->expected;
    return look->pairs >= PAIRS_MIN && excess > STDS_MIN * std && excess > EXCESS_MIN * look->pairs;
}
