/* Settings of --overfit: in_overfit of option_table, and settings that depend on the data. */
#include "tools/lib/config/overfit.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/lib/config/options.h"
#include "tools/lib/config/settings_model.h"

static bool is_given(struct settings *settings, enum section section, const char *key)
{
    return settings_origin(settings, section, key)->origin == ORIGIN_COMMAND;
}

/* Set an option as --set does, unless --set has set it. */
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
    int rc = 0;
    for (const struct option_row *row = option_table; row->key != NULL && rc == 0; row++)
        if (row->in_overfit != NULL)
            rc = set(settings, row->section, row->key, row->in_overfit);
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
