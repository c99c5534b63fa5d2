/* Hints: the right section for a key, or the nearest name. */
#include "tools/config/config_hint.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "stage/text/names.h"

/* A problem with this option is being reported: it needs no second one. */
static void mark_bad(struct settings *settings, const struct option_row *option)
{
    settings->origins[option_index(option)].is_bad = true;
}

/* "[run] or [model]", the sections that have `key`; "" when none has. */
static void sections_with(const char *key, struct settings *settings, char *text, size_t text_size)
{
    size_t used = 0;
    *text = '\0';
    for (const struct option_row *option = option_table; option->key != NULL; option++)
        if (strcmp(option->key, key) == 0 && used < text_size) {
            used += (size_t)snprintf(text + used, text_size - used, "%s[%s]", used == 0 ? "" : " or ",
                                     section_name(option->section));
            mark_bad(settings, option);
        }
}

/* The option nearest to `key`, of one section or of all (SECTION_COUNT). NULL when none is near. */
static const struct option_row *nearest_option(enum section section, const char *key)
{
    struct nearest nearest = { .name = key };
    for (const struct option_row *option = option_table; option->key != NULL; option++)
        if (section == SECTION_COUNT || option->section == section)
            nearest_offer(&nearest, option->key, option);
    return nearest.best;
}

/* What else options are called: by other programs for training, or here in earlier versions. */
static const struct other_name { const char *other; enum section section; const char *key; } other_names[] = {
    { "accumulation_steps", SECTION_TRAIN, "accumulate" },
    { "amp", SECTION_DEVICES, "precision" },
    { "batch_size", SECTION_TRAIN, "batch" },
    { "clip_grad_norm", SECTION_TRAIN, "clip_norm" },
    { "cutmix_alpha", SECTION_AUGMENT, "cutmix" },
    { "data_dir", SECTION_DATA, "train" },
    { "dtype", SECTION_DEVICES, "precision" },
    { "early_stop", SECTION_TRAIN, "patience" },
    { "early_stopping", SECTION_TRAIN, "patience" },
    { "ema_decay", SECTION_TRAIN, "ema" },
    { "every_n_steps", SECTION_CHECKPOINT, "every" },
    { "gpus", SECTION_DEVICES, "towers" },
    { "grad_accum", SECTION_TRAIN, "accumulate" },
    { "grad_clip", SECTION_TRAIN, "clip_norm" },
    { "gradient_accumulation", SECTION_TRAIN, "accumulate" },
    { "gradient_accumulation_steps", SECTION_TRAIN, "accumulate" },
    { "init", SECTION_MODEL, "weights" },
    { "keep_last", SECTION_CHECKPOINT, "keep" },
    { "log_interval", SECTION_REPORT, "interval" },
    { "lr", SECTION_TRAIN, "learning_rate" },
    { "lr_schedule", SECTION_TRAIN, "schedule" },
    { "max_epochs", SECTION_TRAIN, "epochs" },
    { "max_grad_norm", SECTION_TRAIN, "clip_norm" },
    { "max_steps", SECTION_TRAIN, "steps" },
    { "mixup_alpha", SECTION_AUGMENT, "mixup" },
    { "num_classes", SECTION_DATA, "classes" },
    { "num_epochs", SECTION_TRAIN, "epochs" },
    { "num_gpus", SECTION_DEVICES, "towers" },
    { "num_workers", SECTION_INPUT, "decode_threads" },
    { "opt", SECTION_TRAIN, "optimizer" },
    { "prefetch_factor", SECTION_INPUT, "prefetch_depth" },
    { "pretrained", SECTION_MODEL, "weights" },
    { "print_freq", SECTION_REPORT, "interval" },
    { "save_best", SECTION_CHECKPOINT, "keep_best" },
    { "save_every", SECTION_CHECKPOINT, "every" },
    { "save_steps", SECTION_CHECKPOINT, "every" },
    { "scheduler", SECTION_TRAIN, "schedule" },
    { "smoothing", SECTION_TRAIN, "label_smoothing" },
    { "warmup", SECTION_TRAIN, "warmup_epochs" },
    { "warmup_steps", SECTION_TRAIN, "warmup_epochs" },
    { "wd", SECTION_TRAIN, "weight_decay" },
    { "workers", SECTION_INPUT, "decode_threads" },
};

#define OTHER_NAMES (sizeof(other_names) / sizeof(*other_names))

/* Are they the same word, whatever joins its parts: batch_size, batch-size, batchsize, BatchSize? */
static bool is_same_word(const char *a, const char *b)
{
    for (;; a++, b++) {
        while (*a != '\0' && !isalnum((unsigned char)*a))
            a++;
        while (*b != '\0' && !isalnum((unsigned char)*b))
            b++;
        if (*a == '\0' || tolower((unsigned char)*a) != tolower((unsigned char)*b))
            return *a == *b;
    }
}

/* NULL: nobody calls an option so. */
static const struct option_row *find_other_name(const char *key)
{
    for (size_t i = 0; i < OTHER_NAMES; i++)
        if (is_same_word(other_names[i].other, key))
            return option_find(other_names[i].section, other_names[i].key);
    return NULL;
}

static const struct option_row *nearest_other_name(const char *key)
{
    struct nearest nearest = { .name = key };
    for (size_t i = 0; i < OTHER_NAMES; i++)
        nearest_offer(&nearest, other_names[i].other, option_find(other_names[i].section, other_names[i].key));
    return nearest.best;
}

/* The option that may be meant, of the section where that has one. */
static const struct option_row *nearest_anywhere(enum section section, const char *key)
{
    const struct option_row *near = nearest_option(section, key);
    if (near == NULL)
        near = nearest_option(SECTION_COUNT, key);
    return near != NULL ? near : nearest_other_name(key);
}

void config_hint_key(struct settings *settings, enum section section, const char *key, char *hint, size_t hint_size)
{
    char sections[128], where[64] = "";
    sections_with(key, settings, sections, sizeof(sections));
    if (*sections != '\0') {
        snprintf(hint, hint_size, " (it belongs in %s)", sections);
        return;
    }
    const struct option_row *const same = find_other_name(key);
    const struct option_row *const meant = same != NULL ? same : nearest_anywhere(section, key);
    *hint = '\0';
    if (meant == NULL)
        return;
    mark_bad(settings, meant);
    if (meant->section != section)
        snprintf(where, sizeof(where), " in [%s]", section_name(meant->section));
    snprintf(hint, hint_size, same != NULL ? " (here it is '%s'%s)" : " (did you mean '%s'%s?)", meant->key, where);
}

enum section config_hint_section(const char *name, char *hint, size_t hint_size)
{
    struct nearest nearest = { .name = name };
    for (enum section section = 0; section < SECTION_COUNT; section++)
        nearest_offer(&nearest, section_name(section), section_name(section));
    *hint = '\0';
    if (nearest.best == NULL)
        return SECTION_COUNT;
    snprintf(hint, hint_size, " (did you mean [%s]?)", (const char *)nearest.best);
    return section_find(nearest.best);
}
