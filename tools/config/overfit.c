/* Settings of --overfit. */
#include "tools/config/overfit.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/config/options.h"
#include "tools/config/settings_model.h"

static bool is_given(struct settings *settings, enum section section, const char *key)
{
    return settings_origin(settings, section, key)->origin == ORIGIN_COMMAND;
}

/* Set an option like --set, unless --set has set it. */
static int set(struct settings *settings, enum section section, const char *key, const char *value)
{
    char problem[256];
    if (is_given(settings, section, key))
        return 0;
    const int rc = option_parse(option_find(section, key), settings, value, problem, sizeof(problem));
    assert(rc != -EINVAL);
    settings_origin(settings, section, key)->origin = ORIGIN_COMMAND;
    return rc;
}

static int set_fixed(struct settings *settings)
{
    static const struct { enum section section; const char *key, *value; } values[] = {
        { SECTION_RUN, "resume", "never" },
        { SECTION_DATA, "validation_split", "0" },
        { SECTION_DATA, "allow_overlap", "yes" },
        { SECTION_DATA, "last_batch", "keep" },
        { SECTION_AUGMENT, "crop", "evaluated" },
        { SECTION_AUGMENT, "flip", "no" },
        { SECTION_AUGMENT, "colour", "no" },
        { SECTION_AUGMENT, "mixup", "0" },
        { SECTION_AUGMENT, "cutmix", "0" },
        { SECTION_MODEL, "dropout", "no" },
        { SECTION_TRAIN, "steps", "0" },
        { SECTION_TRAIN, "stop_at", "1" },
        { SECTION_TRAIN, "patience", "0" },
        { SECTION_TRAIN, "on_nan", "stop" },
        { SECTION_TRAIN, "weight_decay", "0" },
        { SECTION_TRAIN, "label_smoothing", "0" },
        { SECTION_TRAIN, "ema", "0" },
        { SECTION_TRAIN, "schedule", "constant" },
        { SECTION_TRAIN, "boundaries", "" },
        { SECTION_TRAIN, "factors", "" },
        { SECTION_TRAIN, "warmup_epochs", "0" },
        { SECTION_CHECKPOINT, "every", "never" },
        { SECTION_CHECKPOINT, "keep_best", "no" },
        { SECTION_CHECKPOINT, "on_stop", "no" },
    };
    int rc = 0;
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]) && rc == 0; i++)
        rc = set(settings, values[i].section, values[i].key, values[i].value);
    return rc;
}

int overfit_apply(struct settings *settings, int64_t samples)
{
    char text[24];
    snprintf(text, sizeof(text), "%" PRId64, samples);
    settings->overfit = samples;
    int rc = set(settings, SECTION_DATA, "limit", text);
    if (rc == 0)
        rc = set(settings, SECTION_DATA, "validation", settings->data.train);
    return rc == 0 ? set_fixed(settings) : rc;
}

static void fit_batch(struct settings *settings)
{
    struct train_settings *const train = &settings->train;
    if (settings_batch(settings) > settings->overfit) {
        train->batch_per_tower = 0;
        train->batch = settings->overfit;
    }
    if (settings_global_batch(settings) > settings->overfit)
        train->accumulate = 1;
}

void overfit_fit(struct settings *settings, uint64_t records)
{
    if (settings->overfit == 0 || records == 0)
        return;
    if ((uint64_t)settings->overfit > records)
        settings->overfit = (int64_t)records;
    fit_batch(settings);
    const int64_t steps = (settings->overfit - 1) / settings_global_batch(settings) + 1;
    const int64_t enough = (OVERFIT_STEPS + steps - 1) / steps;
    if (!is_given(settings, SECTION_TRAIN, "epochs"))
        settings->train.epochs = enough > OVERFIT_EPOCHS ? enough : OVERFIT_EPOCHS;
}

int overfit_finish(struct settings *settings)
{
    if (is_given(settings, SECTION_RUN, "dir"))
        return 0;
    char *dir;
    int length = (int)strlen(settings->run.dir);
    while (length > 1 && settings->run.dir[length - 1] == '/')
        length--;
    if (asprintf(&dir, "%.*s-overfit", length, settings->run.dir) < 0)
        return -ENOMEM;
    free(settings->run.dir);
    settings->run.dir = dir;
    return 0;
}
