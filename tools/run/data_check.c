/* A histogram of labels, what it says of label_offset, and whether images can be decoded. */
#include "tools/run/data_check.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "loader/damage.h"
#include "loader/dataset_survey.h"
#include "stage/log.h"
#include "stage/stop.h"
#include "tools/config/number.h"
#include "tools/config/problems.h"
#include "tools/run/signals.h"
#include "tools/text/wrapped.h"

#define COLUMNS 80u
#define INDENT 8u
/* More classes are told in sum only. */
#define LISTED_MAX 100u
/* In so many records of each class one of the lowest label would be among them. */
#define RECORDS_OF_CLASS 10u

/* A stretch of equal labels in a survey. */
struct stretch {
    int64_t label;
    size_t count;
};

static struct stretch stretch_at(const struct label_survey *survey, size_t first)
{
    size_t end = first;
    while (end < survey->count && survey->labels[end] == survey->labels[first])
        end++;
    return (struct stretch){ survey->labels[first], end - first };
}

struct sums {
    size_t classes, rarest, commonest;
};

static struct sums sum(const struct label_survey *survey)
{
    struct sums sums = { 0, SIZE_MAX, 0 };
    for (size_t i = 0; i < survey->count;) {
        const struct stretch stretch = stretch_at(survey, i);
        sums.classes++;
        sums.rarest = stretch.count < sums.rarest ? stretch.count : sums.rarest;
        sums.commonest = stretch.count > sums.commonest ? stretch.count : sums.commonest;
        i += stretch.count;
    }
    return sums;
}

/* "0: 98  1: 102  ..." in lines. */
static void print_counts(const struct label_survey *survey, FILE *out)
{
    size_t column = COLUMNS;
    for (size_t i = 0; i < survey->count;) {
        const struct stretch stretch = stretch_at(survey, i);
        char text[64];
        const size_t bytes = (size_t)snprintf(text, sizeof(text), "  %" PRId64 ": %zu", stretch.label, stretch.count);
        if (column + bytes > COLUMNS) {
            fprintf(out, "%s%*s", i > 0 ? "\n" : "", (int)INDENT, "");
            column = INDENT;
        }
        fputs(text, out);
        column += bytes;
        i += stretch.count;
    }
    fputc('\n', out);
}

static const char *name_of(const struct dataset *dataset)
{
    return dataset->options.part == DATASET_HELD_OUT ? "validation" : dataset->options.what;
}

static void print_survey(const struct label_survey *survey, const struct dataset *dataset, FILE *out)
{
    const struct sums sums = sum(survey);
    char found[128] = "";
    if (survey->count > 0)
        snprintf(found, sizeof(found), ": %zu labels from %" PRId64 " to %" PRId64 ", %zu to %zu records each",
                 sums.classes, survey->labels[0], survey->labels[survey->count - 1], sums.rarest, sums.commonest);
    wrapped_print(out, "labels    %-10s %s of %s records verified%s", name_of(dataset),
                  number_grouped(survey->count).text, number_grouped(dataset->record_count).text, found);
    if (survey->count > 0 && sums.classes <= LISTED_MAX)
        print_counts(survey, out);
    if (survey->repeats > 0)
        wrapped_print(out, "%10sin %s of them image or label is there more than once: the last one counts", "",
                      number_grouped(survey->repeats).text);
}

/* Records of a survey that cannot be read, the first of them with its problem. */
struct unreadable {
    uint64_t count, id;
    const struct record_problem *problem;
};

/* A run would end at such a record; where it goes on that is said here. */
static void tell_unreadable(const struct unreadable *bad, const struct dataset *dataset, FILE *out,
                            struct problems *problems)
{
    char text[DAMAGE_TEXT_BYTES], more[64] = "";
    if (dataset->options.skip_damage) {
        fprintf(out, "%10s%s more cannot be read and will be left out\n", "", number_grouped(bad->count).text);
        return;
    }
    record_describe(dataset, bad->id, bad->problem, text, sizeof(text));
    if (bad->count > 1)
        snprintf(more, sizeof(more), "; %s more records are damaged", number_grouped(bad->count - 1).text);
    problems_add(problems, "pipetrain", "%s: %s%s%s", name_of(dataset), text, more,
                 bad->problem->is_damage ? SHARD_SKIP_ADVICE : "");
}

static void add_problem(const struct label_survey *survey, const struct dataset *dataset, struct problems *problems)
{
    const uint32_t classes = dataset->options.classes;
    const int64_t lowest = survey->labels[0], highest = survey->labels[survey->count - 1];
    int64_t offset;
    const bool has_offset = label_survey_offset(survey, classes, &offset);
    if (lowest == -1 && dataset->options.label_offset == 0)
        problems_add(problems, "pipetrain", "%s: labels are -1 to %" PRId64 ", which are not in [0, %" PRIu32 "): %s%s",
                     name_of(dataset), highest, classes, LABEL_MINUS_ONE,
                     has_offset ? "; " LABEL_COUNTED_FROM_MINUS_ONE : "");
    else if (has_offset)
        problems_add(problems, "pipetrain",
                     "%s: labels are %" PRId64 " to %" PRId64 " as stored, with label_offset = %" PRId64
                     " they are not in [0, %" PRIu32 "): set data.label_offset = %" PRId64,
                     name_of(dataset), lowest, highest, dataset->options.label_offset, classes, offset);
    else
        problems_add(problems, "pipetrain",
                     "%s: labels are %" PRId64 " to %" PRId64 " as stored, which are %s the %" PRIu32
                     " classes of the network: see data.classes", name_of(dataset), lowest, highest,
                     (uint64_t)highest - (uint64_t)lowest < classes ? "too far from" : "more than", classes);
}

/* In range, and yet every label could be one lower. */
static void print_doubt(const struct label_survey *survey, const struct dataset *dataset, FILE *out)
{
    const size_t classes = sum(survey).classes + 1;
    const int64_t offset = dataset->options.label_offset;
    if (survey->count < RECORDS_OF_CLASS * classes || survey->labels[0] + offset != 1)
        return;
    wrapped_print(out, "%10sno record of class 0: if labels count from 1, set data.label_offset = %" PRId64, "",
                  offset - 1);
}

static int check_labels(const struct dataset *dataset, FILE *out, struct problems *problems)
{
    struct label_survey survey;
    const int rc = label_survey_make(&survey, dataset);
    if (rc == -ENOMEM)
        problems_add(problems, "pipetrain", "%s: not enough memory to look at labels", name_of(dataset));
    if (rc < 0)
        return rc;
    print_survey(&survey, dataset, out);
    if (survey.unreadable > 0)
        tell_unreadable(&(struct unreadable){ survey.unreadable, survey.bad_id, &survey.problem }, dataset, out,
                        problems);
    const bool is_broken = survey.unreadable > 0 && !dataset->options.skip_damage;
    const bool fits = label_survey_fits(&survey, dataset->options.label_offset, dataset->options.classes);
    if (!fits)
        add_problem(&survey, dataset, problems);
    else if (survey.count > 0)
        print_doubt(&survey, dataset, out);
    label_survey_release(&survey);
    return fits && !is_broken ? 0 : -EINVAL;
}

static void print_images(const struct image_survey *survey, const struct dataset *dataset, FILE *out)
{
    char pixels[96] = "", flawed[64] = "";
    if (survey->count > 0)
        snprintf(pixels, sizeof(pixels), ": pixels from %u to %u, mean %.1f", survey->lowest, survey->highest,
                 survey->mean);
    if (survey->flawed > 0)
        snprintf(flawed, sizeof(flawed), "; the decoder warns of %s of them", number_grouped(survey->flawed).text);
    wrapped_print(out, "images    %-10s %s of %s decoded%s%s%s", name_of(dataset), number_grouped(survey->count).text,
                  number_grouped(dataset->record_count).text, pixels, flawed,
                  survey->count + survey->unreadable < dataset->record_count
                      ? "; all are decoded by pipetrain-shards check --decode" : "");
}

/* Images that nothing can be learnt of. Raw ones are warned of when the set is opened. */
static void warn_of_images(const struct image_survey *survey, const struct dataset *dataset)
{
    if (survey->count < PIXELS_WARNED_IMAGES || dataset->format.image != &image_encoded_ops ||
        survey->highest >= PIXELS_NEARLY_BLACK)
        return;
    log_message(LOG_RUN, "%s: the brightest pixel of %" PRIu64 " images is %u of 255: they are black, or nearly",
                name_of(dataset), survey->count, survey->highest);
}

static int check_images(const struct dataset *dataset, FILE *out, struct problems *problems)
{
    struct image_survey survey;
    const int rc = image_survey_make(&survey, dataset);
    if (rc == -ENOMEM)
        problems_add(problems, "pipetrain", "%s: not enough memory to decode images", name_of(dataset));
    if (rc < 0)
        return rc;
    print_images(&survey, dataset, out);
    warn_of_images(&survey, dataset);
    if (survey.unreadable > 0)
        tell_unreadable(&(struct unreadable){ survey.unreadable, survey.bad_id, &survey.problem }, dataset, out,
                        problems);
    return survey.unreadable > 0 && !dataset->options.skip_damage ? -EINVAL : 0;
}

/* Images are decoded only where labels are right: the same records are bad. */
static int check_set(const struct dataset *dataset, FILE *out, struct problems *problems)
{
    const int rc = check_labels(dataset, out, problems);
    return rc == 0 ? check_images(dataset, out, problems) : rc;
}

/* 0, -EINVAL with problems where labels are out of range or, unless damage is skipped, a record looked at cannot be
 * read, -ENOMEM, or -ECANCELED soon after the sets have become unwanted. */
static int check_all(const struct dataset *const datasets[PHASE_COUNT], FILE *out, struct problems *problems)
{
    int rc = 0;
    for (int phase = 0; phase < PHASE_COUNT && (rc == 0 || rc == -EINVAL); phase++) {
        const int result = datasets[phase] != NULL ? check_set(datasets[phase], out, problems) : 0;
        rc = result != 0 ? result : rc;
    }
    fflush(out);
    return rc;
}

int data_check(const struct dataset *const datasets[PHASE_COUNT], FILE *out)
{
    struct problems problems;
    problems_init(&problems);
    const int rc = check_all(datasets, out, &problems);
    if (rc != 0 && rc != -ECANCELED)
        problems_print(&problems);
    const int code = rc == -ECANCELED ? signals_exit_code()
                     : rc == 0        ? 0
                                      : problems_code(&problems, exit_code_of(rc, EXIT_CODE_DATA));
    problems_release(&problems);
    return code;
}
