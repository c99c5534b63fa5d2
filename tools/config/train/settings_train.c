/* The section [train] as a whole. Called by settings_finish. */
#include "tools/config/train/settings_train.h"

#include <stdio.h>
#include <string.h>

#include "tools/config/duration.h"
#include "tools/config/options.h"
#include "tools/config/settings_model.h"

/* What a rule is published or used with; 0: the default of the option table. */
static const struct usual { double learning_rate, rho, epsilon, weight_decay; } usual_table[OPTIMIZER_KIND_COUNT] = {
    [OPTIMIZER_SGD] = { .learning_rate = 0.01 },
    [OPTIMIZER_MOMENTUM] = { .learning_rate = 0.01 },
    [OPTIMIZER_NESTEROV] = { .learning_rate = 0.01 },
    [OPTIMIZER_RMSPROP] = { .learning_rate = 0.01, .rho = 0.9, .epsilon = 1 },
    [OPTIMIZER_RMSPROP_KERAS] = { .learning_rate = 0.001, .rho = 0.9 },
    [OPTIMIZER_ADAM] = { .learning_rate = 0.001 },
    [OPTIMIZER_ADAMW] = { .learning_rate = 0.001, .weight_decay = 0.01 },
};

static void use(struct settings *settings, const char *key, double usual, double *field)
{
    if (usual != 0 && settings_origin(settings, SECTION_TRAIN, key)->origin == ORIGIN_DEFAULT)
        *field = usual;
}

static void use_usual(struct settings *settings)
{
    struct train_settings *const train = &settings->train;
    const struct usual *const usual = &usual_table[train->optimizer];
    use(settings, "learning_rate", usual->learning_rate, &train->learning_rate);
    use(settings, "rho", usual->rho, &train->rho);
    use(settings, "epsilon", usual->epsilon, &train->epsilon);
    use(settings, "weight_decay", usual->weight_decay, &train->weight_decay);
}

static void report(struct settings *settings, struct problems *problems, const char *key, const char *message)
{
    settings_report(settings, problems, SECTION_TRAIN, key, message);
}

static void check_betas(struct settings *settings, struct problems *problems)
{
    char message[128];
    if (settings->train.betas.count == 2)
        return;
    snprintf(message, sizeof(message), "has %u numbers: there are two, as in 0.9 0.999",
             (unsigned)settings->train.betas.count);
    report(settings, problems, "betas", message);
}

/* Keys that say how the rate changes, where nothing says that it does. */
static void check_unused(struct settings *settings, struct problems *problems)
{
    static const char *const keys[] = { "schedule_epochs", "boundaries", "factors",    "decay_factor", "decay_epochs",
                                        "staircase",       "rate_decay", "final_rate", "power",        "peak" };
    if (settings_origin(settings, SECTION_TRAIN, "schedule")->origin != ORIGIN_DEFAULT)
        return;
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (settings_origin(settings, SECTION_TRAIN, keys[i])->origin > ORIGIN_MODEL)
            report(settings, problems, keys[i], "changes nothing without a schedule: set train.schedule as well");
}

static void check_piecewise(struct settings *settings, struct problems *problems)
{
    const struct numbers *const boundaries = &settings->train.boundaries, *const factors = &settings->train.factors;
    char message[128];
    if (boundaries->count == 0) {
        report(settings, problems, "boundaries", "is missing: schedule = piecewise changes the rate behind them");
    } else if (boundaries->count != factors->count) {
        snprintf(message, sizeof(message), "has %u numbers, and boundaries %u: there is one for each",
                 (unsigned)factors->count, (unsigned)boundaries->count);
        report(settings, problems, "factors", message);
    }
    for (uint32_t i = 1; i < boundaries->count; i++)
        if (boundaries->value[i] <= boundaries->value[i - 1]) {
            report(settings, problems, "boundaries", "are not in ascending order");
            return;
        }
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
        report(settings, problems, "warmup_epochs", "one_cycle has a warm-up of its own: train.peak says how long");
    if (ends && train->warmup_epochs > 0 && train->warmup_epochs >= epochs)
        report(settings, problems, "warmup_epochs", "leaves the schedule no epoch: it begins behind the warm-up");
}

static void check_max_time(struct settings *settings, struct problems *problems)
{
    struct train_settings *const train = &settings->train;
    char message[128];
    train->max_seconds = duration_seconds(train->max_time);
    snprintf(message, sizeof(message), "'%.40s' is no time: a number of seconds, minutes or hours (90 minutes)",
             train->max_time);
    if (train->max_seconds == 0 && *train->max_time != '\0')
        report(settings, problems, "max_time", message);
}

/* Ends that need something to be there. */
static void check_ends(struct settings *settings, struct problems *problems)
{
    static const char needs[] = "needs a validation set: data.validation or data.validation_split names one";
    struct train_settings *const train = &settings->train;
    const bool evaluates = *settings->data.validation != '\0' || settings->data.validation_split > 0;
    check_max_time(settings, problems);
    if (train->stop_at > 0 && !evaluates)
        report(settings, problems, "stop_at", needs);
    if (settings->checkpoint.keep_best && !evaluates)
        settings_report(settings, problems, SECTION_CHECKPOINT, "keep_best", needs);
    if (train->on_nan == ON_NAN_ROLLBACK && strcmp(settings->checkpoint.every, "never") == 0)
        report(settings, problems, "on_nan", "rollback goes back to a saved state: set checkpoint.every as well");
    if (train->patience > 0 && !evaluates)
        report(settings, problems, "patience", needs);
}

void settings_finish_train(struct settings *settings, struct problems *problems)
{
    use_usual(settings);
    check_betas(settings, problems);
    check_schedule(settings, problems);
    check_ends(settings, problems);
}
