/* Sums over rows. */
#include "tools/report/run_so_far.h"

#include <errno.h>
#include <math.h>
#include <string.h>

static double last_of(const struct columns *rows, enum value value)
{
    return rows->count > 0 ? rows->values[value][rows->count - 1] : NAN;
}

/* The sum of a value, times another one unless that is VALUE_COUNT; of rows that have both. */
static double sum_of(const struct columns *rows, enum value value, enum value weight)
{
    double sum = 0;
    for (size_t i = 0; i < rows->count; i++) {
        const double product = rows->values[value][i] * (weight != VALUE_COUNT ? rows->values[weight][i] : 1);
        sum += isfinite(product) ? product : 0;
    }
    return sum;
}

static int set_number(json_t *object, const char *key, double number)
{
    return isfinite(number) ? json_object_set_new(object, key, json_real(number)) : 0;
}

/* Shares of tower time, each row's for as long as it took. */
static int set_fractions(json_t *summary, const struct columns *rows)
{
    static const struct { enum value value; const char *key; } shares[] = {
        { VALUE_INPUT_WAIT, "input_wait" }, { VALUE_EXPOSED_COPY, "exposed_copy" }, { VALUE_FORWARD, "forward" },
        { VALUE_BACKWARD, "backward" }, { VALUE_EXPOSED_REDUCTION, "exposed_reduction" }, { VALUE_UPDATE, "update" },
        { VALUE_OTHER, "other" },
    };
    const double seconds = sum_of(rows, VALUE_SECONDS, VALUE_COUNT);
    json_t *const fractions = json_object();
    int failed = 0;
    for (size_t i = 0; i < sizeof(shares) / sizeof(shares[0]) && seconds > 0; i++)
        failed |= set_number(fractions, shares[i].key, sum_of(rows, shares[i].value, VALUE_SECONDS) / seconds);
    return json_object_set_new(summary, "fractions", fractions) | failed;
}

static int set_validation(json_t *summary, const struct columns *rows)
{
    json_t *const validation = json_object();
    int failed = set_number(validation, "images", last_of(rows, VALUE_IMAGES));
    failed |= set_number(validation, "accuracy", last_of(rows, VALUE_ACCURACY));
    failed |= set_number(validation, "loss", last_of(rows, VALUE_LOSS));
    return json_object_set_new(summary, "validation", validation) | failed;
}

static int set_training(json_t *summary, const struct columns *rows)
{
    const double images = sum_of(rows, VALUE_IMAGES, VALUE_COUNT), seconds = sum_of(rows, VALUE_SECONDS, VALUE_COUNT);
    int failed = set_number(summary, "steps", last_of(rows, VALUE_STEP));
    failed |= set_number(summary, "images", images);
    failed |= set_number(summary, "seconds", seconds);
    failed |= set_number(summary, "mean_images_per_second", images / seconds);
    return set_number(summary, "loss", last_of(rows, VALUE_LOSS)) | failed;
}

/* Where nothing is said the run decided it, and only its summary will tell. */
static int set_settings(json_t *summary, const struct settings_list *settings)
{
    static const struct { const char *key, *section, *setting; } told[] = {
        { "model", "model", "name" },           { "device", "devices", "kind" },
        { "towers", "devices", "towers" },      { "precision", "devices", "precision" },
        { "batch", "train", "batch" },          { "optimizer", "train", "optimizer" },
        { "rate", "train", "learning_rate" },   { "seed", "run", "seed" },
    };
    int failed = 0;
    for (size_t i = 0; i < sizeof(told) / sizeof(told[0]); i++) {
        const char *const value = settings_list_find(settings, told[i].section, told[i].setting);
        if (value != NULL && *value != '\0' && strcmp(value, "0") != 0)
            failed |= json_object_set_new(summary, told[i].key, json_string_nocheck(value));
    }
    return failed;
}

int run_so_far(const struct metrics *metrics, const struct settings_list *settings, bool has_summary,
               json_t **summary_out)
{
    const char *const ended = has_summary ? "its summary cannot be read" : "going on, or killed: no summary yet";
    json_t *const summary = json_object();
    int failed = json_object_set_new(summary, "ended", json_string(ended));
    failed |= set_settings(summary, settings);
    failed |= set_training(summary, &metrics->rows[ROW_TRAIN]);
    failed |= set_fractions(summary, &metrics->rows[ROW_TRAIN]);
    failed |= set_validation(summary, &metrics->rows[ROW_VALIDATION]);
    if (metrics->last_time[0] != '\0')
        failed |= json_object_set_new(summary, "last_row", json_string_nocheck(metrics->last_time));
    if (failed != 0) {
        json_decref(summary);
        return -ENOMEM;
    }
    *summary_out = summary;
    return 0;
}
