/* Computes defaults from other settings, and checks keys against each other. Called by the main thread. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stage/text/decimal.h"
#include "tools/lib/config/input_checks.h"
#include "tools/lib/config/intervals.h"
#include "tools/lib/config/options.h"
#include "tools/lib/config/price.h"
#include "tools/lib/config/recipes.h"
#include "tools/lib/config/settings.h"
#include "tools/lib/config/settings_model.h"
#include "tools/lib/config/training.h"
#include "tools/lib/text/quantity.h"

#define CHECKPOINT_STEPS_MAX UINT64_C(1000000000)

/* ---- [train] ---- */

static void use_number(struct settings *settings, const char *key, double usual, double *field)
{
    if (usual != 0 && settings_origin(settings, SECTION_TRAIN, key)->origin == ORIGIN_DEFAULT)
        *field = usual;
}

static void use_usual(struct settings *settings)
{
    struct train_settings *const train = &settings->train;
    const struct optimizer_usual *const usual = optimizer_usual(train->optimizer);
    use_number(settings, "learning_rate", usual->learning_rate, &train->learning_rate);
    use_number(settings, "rho", usual->rho, &train->rho);
    use_number(settings, "epsilon", usual->epsilon, &train->epsilon);
    use_number(settings, "weight_decay", usual->weight_decay, &train->weight_decay);
}

static void report_train(struct settings *settings, struct problems *problems, const char *key, const char *message)
{
    settings_report(settings, problems, SECTION_TRAIN, key, message);
}

static void check_betas(struct settings *settings, struct problems *problems)
{
    char message[128];
    if (settings->train.betas.count == 2)
        return;
    snprintf(message, sizeof(message), "needs two numbers, as in 0.9 0.999, and has %u",
             (unsigned)settings->train.betas.count);
    report_train(settings, problems, "betas", message);
}

/* Refuse keys of a learning-rate schedule if there is none. */
static void check_unused(struct settings *settings, struct problems *problems)
{
    if (settings_origin(settings, SECTION_TRAIN, "schedule")->origin != ORIGIN_DEFAULT)
        return;
    for (const struct option_row *row = option_table; row->key != NULL; row++)
        if (row->uses[0].key != NULL && strcmp(row->uses[0].key, "schedule") == 0 &&
            settings->origins[option_index(row)].origin > ORIGIN_MODEL)
            report_train(settings, problems, row->key, "has no effect without a schedule: set train.schedule as well");
}

static void check_piecewise(struct settings *settings, struct problems *problems)
{
    const struct numbers *const boundaries = &settings->train.boundaries, *const factors = &settings->train.factors;
    char message[128];
    if (boundaries->count == 0) {
        report_train(settings, problems, "boundaries",
                     "is missing: schedule = piecewise changes the rate after each boundary");
    } else if (boundaries->count != factors->count) {
        snprintf(message, sizeof(message), "needs a number for each of the %u boundaries, and has %u",
                 (unsigned)boundaries->count, (unsigned)factors->count);
        report_train(settings, problems, "factors", message);
    }
    for (uint32_t i = 1; i < boundaries->count; i++)
        if (boundaries->value[i] <= boundaries->value[i - 1]) {
            report_train(settings, problems, "boundaries", "are not in ascending order");
            return;
        }
}

/* Does train.steps alone set the length of the run? Then its epochs depend on the data. */
static bool is_by_steps(struct settings *settings)
{
    return settings->train.steps > 0 && settings->train.schedule_epochs == 0 &&
           settings_origin(settings, SECTION_TRAIN, "epochs")->origin <= ORIGIN_MODEL;
}

static void check_schedule(struct settings *settings, struct problems *problems)
{
    const struct train_settings *const train = &settings->train;
    const bool ends = train->schedule == RATE_COSINE || train->schedule == RATE_POLYNOMIAL;
    const double epochs = train->schedule_epochs > 0 ? train->schedule_epochs : (double)train->epochs;
    check_unused(settings, problems);
    if (train->schedule == RATE_PIECEWISE)
        check_piecewise(settings, problems);
    if (train->schedule == RATE_ONE_CYCLE && train->warmup_epochs > 0)
        report_train(settings, problems, "warmup_epochs",
                     "one_cycle has a warm-up of its own: set its length with train.peak");
    if (ends && train->warmup_epochs > 0 && train->warmup_epochs >= epochs && !is_by_steps(settings))
        report_train(settings, problems, "warmup_epochs",
                     "leaves no epoch for the schedule, which begins after the warm-up");
}

static void check_max_time(struct settings *settings, struct problems *problems)
{
    struct train_settings *const train = &settings->train;
    char message[192];
    train->max_seconds = 0;
    (void)quantity_whole_seconds(train->max_time, &train->max_seconds);
    snprintf(message, sizeof(message), "'%.40s' is not a duration of whole seconds, at least one (" QUANTITY_SECONDS
             ")", train->max_time);
    if (train->max_seconds == 0 && *train->max_time != '\0')
        report_train(settings, problems, "max_time", message);
}

/* Check the conditions to stop that need other settings. */
static void check_ends(struct settings *settings, struct problems *problems)
{
    static const char needs[] = "needs a validation set: data.validation or data.validation_split names one";
    struct train_settings *const train = &settings->train;
    const bool evaluates = *settings->data.validation != '\0' || settings->data.validation_split > 0;
    check_max_time(settings, problems);
    if (train->best_by != BEST_BY_ACCURACY && !evaluates)
        report_train(settings, problems, "best_by", needs);
    if (train->stop_at > 1 && train->best_by != BEST_BY_LOSS)
        report_train(settings, problems, "stop_at", "is above 1: it is a share, such as 0.99, unless train.best_by is "
                                                    "loss");
    if (train->stop_at > 0 && !evaluates)
        report_train(settings, problems, "stop_at", needs);
    if (settings->checkpoint.keep_best == KEEP_BEST_CHECKPOINT && !evaluates)
        settings_report(settings, problems, SECTION_CHECKPOINT, "keep_best", needs);
    if (train->on_nan == ON_NAN_ROLLBACK && strcmp(settings->checkpoint.every, "never") == 0)
        report_train(settings, problems, "on_nan", "rollback needs checkpoints: set checkpoint.every as well");
    if (train->patience > 0 && !evaluates)
        report_train(settings, problems, "patience", needs);
}

static void settings_finish_train(struct settings *settings, struct problems *problems)
{
    use_usual(settings);
    check_betas(settings, problems);
    check_schedule(settings, problems);
    check_ends(settings, problems);
}

/* ---- all sections ---- */

/* Replace an owned text by `text`, which becomes owned. */
static int replace(char **field, char *text)
{
    if (text == NULL)
        return -ENOMEM;
    free(*field);
    *field = text;
    return 0;
}

/* Make a name of the file name without folder and suffix; "run" if nothing is left. */
static char *name_of_path(const char *path)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    const char *slash = strrchr(path, '/');
    const char *base = slash == NULL ? path : slash + 1;
    const char *dot = strrchr(base, '.');
    size_t length = dot == NULL ? strlen(base) : (size_t)(dot - base);
    if (length > OPTION_NAME_MAX)
        length = OPTION_NAME_MAX;
    char *name = strndup(base, length);
    for (char *byte = name; byte != NULL && *byte != '\0'; byte++)
        if (strchr(allowed, *byte) == NULL)
            *byte = '-';
    if (name != NULL && (*name == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)) {
        free(name);
        name = strdup("run");
    }
    return name;
}

int settings_fill_names(struct settings *settings)
{
    struct run_settings *const run = &settings->run;
    int rc = 0;
    if (*run->name == '\0')
        rc = replace(&run->name, name_of_path(settings->config_path));
    if (rc == 0 && *run->dir == '\0') {
        char *dir;
        settings_origin(settings, SECTION_RUN, "dir")->origin = ORIGIN_DEFAULT;
        rc = replace(&run->dir, asprintf(&dir, "runs/%s", run->name) < 0 ? NULL : dir);
    }
    return rc;
}

/* Refuse batch = 0, except with batch_per_tower, as in a run.conf. Called before the recipe sets it. */
static void check_no_batch(struct settings *settings, struct problems *problems)
{
    const struct train_settings *const train = &settings->train;
    if (train->batch == 0 && train->batch_per_tower == 0 &&
        settings_origin(settings, SECTION_TRAIN, "batch")->origin > ORIGIN_MODEL)
        settings_report(settings, problems, SECTION_TRAIN, "batch",
                        "0 samples are no batch: use at least 1, or leave the key out for the batch of the model");
}

/* Unset train.batch or train.batch_per_tower because the other key is used, so that the plan shows only that one. */
static void unset_size(int64_t *size, struct option_origin *origin)
{
    *size = 0;
    origin->origin = ORIGIN_DEFAULT;
}

/* Choose between batch and batch_per_tower; the command line overrides the file. */
static void check_batch(struct settings *settings, struct problems *problems)
{
    struct train_settings *train = &settings->train;
    if (train->batch > 0 && train->batch_per_tower > 0) {
        struct option_origin *const batch = settings_origin(settings, SECTION_TRAIN, "batch");
        struct option_origin *const per_tower = settings_origin(settings, SECTION_TRAIN, "batch_per_tower");
        if (batch->origin == per_tower->origin)
            settings_report(settings, problems, SECTION_TRAIN, "batch_per_tower",
                            "batch is set as well: set only one of them");
        else if (batch->origin > per_tower->origin)
            unset_size(&train->batch_per_tower, per_tower);
        else
            unset_size(&train->batch, batch);
    }
    if (train->batch == 0)
        unset_size(&train->batch, settings_origin(settings, SECTION_TRAIN, "batch"));
    if (train->batch == 0 && train->batch_per_tower == 0)
        train->batch = TRAIN_BATCH_DEFAULT;
    const struct option_row *batch = option_find(SECTION_TRAIN, "batch");
    if (settings_global_batch(settings) > batch->most) {
        char message[128];
        snprintf(message, sizeof(message), "%lld samples of a step in all towers together are over the limit of %lld",
                 (long long)settings_global_batch(settings), (long long)batch->most);
        settings_report(settings, problems, SECTION_TRAIN, train->accumulate > 1 ? "accumulate" : "batch_per_tower",
                        message);
    }
}

/* The number of steps in "500" or "500 steps"; 0 for other texts. */
static uint64_t read_steps(const char *text)
{
    uint64_t steps;
    const char *const end = decimal_u64_start(text, &steps);
    if (end == NULL || steps > CHECKPOINT_STEPS_MAX)
        return 0;
    const char *const unit = end + strspn(end, " \t");
    return *end == '\0' || strcmp(unit, "steps") == 0 || strcmp(unit, "step") == 0 ? steps : 0;
}

/* The seconds in a duration. A number without a unit is a number of steps here, not of seconds. */
static uint64_t read_seconds(const char *text)
{
    uint64_t seconds;
    const char *const end = decimal_end(text);
    return end != NULL && *end != '\0' && quantity_whole_seconds(text, &seconds) == 0 ? seconds : 0;
}

/* Read checkpoint.every: "never", "epoch", "500", "500 steps", "10 minutes". */
static void read_checkpoint_rule(struct settings *settings, struct problems *problems)
{
    struct checkpoint_settings *const checkpoint = &settings->checkpoint;
    const char *const text = checkpoint->every;
    checkpoint->each_epoch = strcmp(text, "epoch") == 0;
    checkpoint->steps = checkpoint->seconds = 0;
    if (checkpoint->each_epoch || strcmp(text, "never") == 0)
        return;
    checkpoint->steps = read_steps(text);
    checkpoint->seconds = read_seconds(text);
    char message[192];
    snprintf(message, sizeof(message), "'%.60s' is not one of: never, epoch, a number of steps from 1 on (500), a "
             "duration (10 minutes, 1h30m)", text);
    if (checkpoint->steps == 0 && checkpoint->seconds == 0)
        settings_report(settings, problems, SECTION_CHECKPOINT, "every", message);
}

static void check_data(struct settings *settings, struct problems *problems)
{
    const bool needs_train = !settings->only_classifies || settings->data.validation_split > 0;
    if (*settings->data.train == '\0' && settings->input.source != INPUT_SYNTHETIC && needs_train)
        settings_report(settings, problems, SECTION_DATA, "train",
                        "is missing: set it in [data], or source = synthetic in [input]");
    if (settings->data.validation_split > 0 && *settings->data.validation != '\0')
        settings_report(settings, problems, SECTION_DATA, "validation_split",
                        "validation is set as well: set only one of them");
}

/* The problem of report.prometheus, or NULL. node_exporter reads only files with the suffix .prom. */
static const char *prometheus_problem(const char *path)
{
    static const char end[] = ".prom";
    const size_t bytes = strlen(path), end_bytes = sizeof(end) - 1;
    if (bytes == 0 || (bytes > end_bytes && strcmp(path + bytes - end_bytes, end) == 0 &&
                       path[bytes - end_bytes - 1] != '/'))
        return NULL;
    return strchr(path, ':') != NULL
               ? "is not a file: a run does not listen on a port; name a file, such as metrics/run.prom, in a folder "
                 "that node_exporter's textfile collector reads"
               : "is not the name of a file that ends in .prom, such as metrics/run.prom (for node_exporter's textfile "
                 "collector)";
}

static void report_value(struct settings *settings, struct problems *problems, const char *key, const char *value,
                         const char *words)
{
    char message[192];
    snprintf(message, sizeof(message), "'%.60s' %s", value, words);
    settings_report(settings, problems, SECTION_REPORT, key, message);
}

static void check_observers(struct settings *settings, struct problems *problems)
{
    struct trace_steps steps;
    struct histogram_steps histograms;
    struct price price;
    const char *const problem = prometheus_problem(settings->report.prometheus);
    if (histogram_steps_read(settings->report.histograms, &histograms) != 0)
        report_value(settings, problems, "histograms", settings->report.histograms,
                     "is not one of: none, epoch, a number of steps (500)");
    if (problem != NULL)
        settings_report(settings, problems, SECTION_REPORT, "prometheus", problem);
    if (price_read(settings->report.price, &price) != 0)
        report_value(settings, problems, "price", settings->report.price,
                     "is not a price: write what a machine costs for an hour, as " PRICE_WORDS);
    if (trace_steps_read(settings->report.trace_steps, &steps) != 0)
        report_value(settings, problems, "trace_steps", settings->report.trace_steps,
                     "is not a range of steps, counted from 1, as in 100..299");
}

int settings_finish(struct settings *settings, struct problems *problems)
{
    const size_t problems_before = problems->count;
    int rc = settings_fill_names(settings);
    if (rc != 0) {
        problems_add(problems, "pipetrain", "%s: %s", settings->config_path, strerror(-rc));
        return rc;
    }
    check_data(settings, problems);
    if (!settings->only_classifies)
        input_check_lanes(settings, problems);
    read_checkpoint_rule(settings, problems);
    check_observers(settings, problems);
    if (settings_find_model(settings, problems) == -ENOMEM)
        return -ENOMEM;
    check_no_batch(settings, problems);
    const int applied = recipe_apply(settings);
    if (applied != 0) {
        problems_add(problems, "pipetrain", "the model's recipe: %s", strerror(-applied));
        return applied;
    }
    check_batch(settings, problems);
    input_check_mixing(settings, settings_global_batch(settings), problems);
    settings_check_sync(settings, problems);
    settings_finish_train(settings, problems);
    return problems->count > problems_before ? -EINVAL : 0;
}

int settings_usual(struct settings *usual, const struct settings *settings)
{
    struct problems problems;
    int rc = settings_init(usual);
    usual->ranks = settings->ranks;
    if (rc == 0)
        rc = replace(&usual->config_path, strdup(settings->config_path));
    if (rc == 0 && *settings->model.name != '\0')
        rc = replace(&usual->model.name, strdup(settings->model.name));
    if (rc != 0)
        return rc;
    problems_init(&problems);
    const enum input_source source = usual->input.source;
    usual->input.source = settings->input.source;       /* recipes depend on it */
    rc = settings_finish(usual, &problems);     /* these settings have no data, which is not an error here */
    usual->input.source = source;
    problems_release(&problems);
    return rc == -ENOMEM ? rc : 0;
}
