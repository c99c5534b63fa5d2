/* Inserts the data into the template. The build makes page_html.inc from page.html: one string for each line. */
#include "tools/report/page.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tools/lib/config/options.h"
#include "tools/lib/run/metrics.h"
#include "tools/lib/version.h"
#include "tools/report/report_input.h"

static const char *const template_lines[] = {
#include "tools/report/page_html.inc"
};

/* The section of the page that shows a value of summary.json. */
enum part { PART_HEADLINES, PART_RESULT, PART_ORDER, PART_PLAN, PART_ENVIRONMENT };

static const char *const part_names[] = {
    [PART_HEADLINES] = "headlines", [PART_RESULT] = "result", [PART_ORDER] = "order", [PART_PLAN] = "plan",
    [PART_ENVIRONMENT] = "environment",
};

/* The values of summary.json that the page shows besides metrics, in the order of each part. `form`: the name of the
 * format in the page's script; `path`: the keys of the value in summary.json. */
static const struct { enum part part; const char *name, *form, *path; } shown_values[] = {
    { PART_RESULT, "ended", "text", "ended" },
    { PART_RESULT, "because", "text", "reason" },
    { PART_RESULT, "best weights", "text", "best_weights.file" },
    { PART_RESULT, "best weights, epoch", "count", "best_weights.epoch" },
    { PART_RESULT, "best weights, step", "count", "best_weights.step" },
    { PART_ORDER, "sample order hash", "text", "sample_order_hash" },
    { PART_PLAN, "model", "text", "model" },
    { PART_PLAN, "parameters", "count", "parameters" },
    { PART_PLAN, "device", "text", "device" },
    { PART_PLAN, "towers", "count", "towers" },
    { PART_PLAN, "reduction", "text", "plan.mode" },
    { PART_PLAN, "batch", "count", "batch" },
    { PART_PLAN, "accumulated batches", "count", "accumulate" },
    { PART_PLAN, "precision", "text", "precision" },
    { PART_PLAN, "optimizer", "text", "optimizer" },
    { PART_PLAN, "learning rate", "text", "rate" },
    { PART_PLAN, "seed", "count", "seed" },
    { PART_PLAN, "steps per epoch", "count", "plan.steps_per_epoch" },
    { PART_PLAN, "steps", "count", "plan.steps" },
    { PART_PLAN, "reader threads", "count", "plan.read_threads" },
    { PART_PLAN, "decoder threads", "count", "plan.decode_threads" },
    { PART_PLAN, "threads per tower", "count", "plan.threads_per_tower" },
    { PART_PLAN, "cores", "count", "plan.cores" },
    { PART_PLAN, "prefetched batches, host", "count", "plan.prefetch_depth" },
    { PART_PLAN, "prefetched batches, device", "count", "plan.staging_depth" },
    { PART_PLAN, "synthetic images", "text", "synthetic" },
    { PART_PLAN, "training set", "text", "data.train.named" },
    { PART_PLAN, "training records", "count", "data.train.records" },
    { PART_PLAN, "training shards", "count", "data.train.shards" },
    { PART_PLAN, "training fingerprint", "text", "data.train.fingerprint" },
    { PART_PLAN, "validation set", "text", "data.validation.named" },
    { PART_PLAN, "validation records", "count", "data.validation.records" },
    { PART_PLAN, "validation shards", "count", "data.validation.shards" },
    { PART_PLAN, "validation fingerprint", "text", "data.validation.fingerprint" },
    { PART_PLAN, "planned memory", "bytes", "memory.planned_bytes" },
    { PART_PLAN, "memory: batches", "bytes", "plan.memory_bytes.batches" },
    { PART_PLAN, "memory: loader", "bytes", "plan.memory_bytes.loader" },
    { PART_PLAN, "memory: large images", "bytes", "plan.memory_bytes.large_images" },
    { PART_PLAN, "memory: slots", "bytes", "plan.memory_bytes.slots" },
    { PART_PLAN, "memory: weights and states", "bytes", "plan.memory_bytes.weights_and_states" },
    { PART_PLAN, "memory: activations", "bytes", "plan.memory_bytes.activations" },
    { PART_PLAN, "memory: workspace", "bytes", "plan.memory_bytes.workspace" },
    { PART_PLAN, "memory: copies of weights", "bytes", "plan.memory_bytes.copies_of_weights" },
    { PART_PLAN, "memory: snapshots", "bytes", "plan.memory_bytes.snapshots" },
    { PART_PLAN, "memory: reduction", "bytes", "plan.memory_bytes.reduction" },
    { PART_PLAN, "memory: results", "bytes", "plan.memory_bytes.results" },
    { PART_PLAN, "memory: trace", "bytes", "plan.memory_bytes.trace" },
    { PART_ENVIRONMENT, "pipetrain", "text", "version" },
    { PART_ENVIRONMENT, "began", "time", "began" },
    { PART_ENVIRONMENT, "ended", "time", "end" },
    { PART_ENVIRONMENT, "last row", "time", "last_row" },
    { PART_ENVIRONMENT, "machine", "text", "host.name" },
    { PART_ENVIRONMENT, "system", "text", "host.system" },
    { PART_ENVIRONMENT, "kernel", "text", "host.release" },
    { PART_ENVIRONMENT, "architecture", "text", "host.machine" },
    { PART_ENVIRONMENT, "processor", "text", "host.cpu" },
    { PART_ENVIRONMENT, "devices", "devices", "devices" },
    { PART_ENVIRONMENT, "price, an hour of a machine", "money", "price.per_hour" },
    { PART_ENVIRONMENT, "machines", "count", "price.machines" },
};

/* `help` may be NULL. */
static int add_value(json_t *list, enum part part, const char *name, const char *form, const char *path,
                     const char *help)
{
    return json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s, s:s?}", "part", part_names[part], "name", name,
                                                 "form", form, "path", path, "help", help));
}

/* The values that the page shows, as JSON. NULL: out of memory. */
static json_t *values_json(void)
{
    json_t *const list = json_array();
    int failed = 0;
    for (size_t i = 0; i < sizeof(shown_values) / sizeof(shown_values[0]); i++)
        failed |= add_value(list, shown_values[i].part, shown_values[i].name, shown_values[i].form,
                            shown_values[i].path, NULL);
    for (const struct metric *metric = metric_table; metric->help != NULL; metric++) {
        const char *const form = metric_unit_name(metric->unit);
        if (metric->label != NULL)
            failed |= add_value(list, PART_RESULT, metric->label, form, metric->path, metric->help);
        if (metric->is_headline)
            failed |= add_value(list, PART_HEADLINES, metric->label, form, metric->path, metric->help);
    }
    if (failed == 0)
        return list;
    json_decref(list);
    return NULL;
}

static int add_series(json_t *list, const char *rows, const char *path, const char *kind, const char *name)
{
    return json_array_append_new(list, json_pack("[s, s, s, s?]", rows, path, kind, name));
}

/* The curves of a chart as JSON; the most prominent one is first. */
static json_t *series_json(enum metric_chart_number number)
{
    const bool has_validation = metric_charts[number].has_validation;
    const bool is_of_validation = metric_charts[number].is_of_validation;
    json_t *const list = json_array();
    int failed = 0;
    for (int is_faint = 0; is_faint < 2; is_faint++)
        for (const struct metric *metric = metric_table; metric->help != NULL; metric++) {
            if (metric->chart != number || metric->is_faint != is_faint)
                continue;
            failed |= add_series(list, is_of_validation ? "validation" : "train", metric->path,
                                 is_faint || has_validation ? "faint" : is_of_validation ? "points" : "line",
                                 has_validation ? "training" : metric->curve);
            if (has_validation)
                failed |= add_series(list, "validation", metric->path, "points", "validation");
        }
    if (failed == 0)
        return list;
    json_decref(list);
    return NULL;
}

/* All charts as JSON. NULL: out of memory. */
static json_t *charts_json(void)
{
    json_t *const list = json_array();
    int failed = 0;
    for (enum metric_chart_number number = CHART_NONE + 1; number < CHART_COUNT; number++) {
        const struct metric_chart *const chart = &metric_charts[number];
        failed |= json_array_append_new(list, json_pack("{s:s, s:b, s:b, s:b, s:b, s:s?, s:o}", "title", chart->title,
                                                        "isShare", chart->is_share, "fromZero", chart->from_zero,
                                                        "mayBeLog", chart->may_be_log, "isOverTime",
                                                        chart->is_over_time, "whole", chart->whole, "series",
                                                        series_json(number)));
    }
    if (failed == 0)
        return list;
    json_decref(list);
    return NULL;
}

/* '<' occurs only inside of strings, where it is escaped: so no string can end the script element that contains the
 * JSON. */
static int write_escaped(const char *text, size_t bytes, void *out)
{
    while (bytes > 0) {
        const char *const bracket = memchr(text, '<', bytes);
        const size_t plain = bracket != NULL ? (size_t)(bracket - text) : bytes;
        fwrite(text, 1, plain, out);
        if (bracket == NULL)
            return 0;
        fputs("\\u003c", out);
        text += plain + 1;
        bytes -= plain + 1;
    }
    return 0;
}

/* Does the default value of this option, "" or 0, mean that the program chooses a value? The weight decay is an
 * exception: its 0 is used as it is. */
static bool means_unset(const struct option_row *option)
{
    return (*option->initial == '\0' || strcmp(option->initial, "0") == 0) && option->initial_note != NULL &&
           !(option->section == SECTION_TRAIN && strcmp(option->key, "weight_decay") == 0);
}

/* The options for which means_unset is true, as JSON: the default value, and a text that tells how the value is
 * chosen. NULL: out of memory. */
static json_t *unset_values(void)
{
    json_t *const unset = json_object();
    int failed = 0;
    for (const struct option_row *option = option_table; option->key != NULL; option++) {
        char name[64];
        snprintf(name, sizeof(name), "%s.%s", section_name(option->section), option->key);
        if (means_unset(option))
            failed |= json_object_set_new(unset, name, json_pack("[s, s]", option->initial, option->initial_note));
    }
    if (failed == 0)
        return unset;
    json_decref(unset);
    return NULL;
}

static int write_data(FILE *out, json_t *runs)
{
    char made[64] = "";
    const time_t now = time(NULL);
    struct tm parts;
    if (gmtime_r(&now, &parts) != NULL)
        strftime(made, sizeof(made), "%Y-%m-%d %H:%M:%S UTC", &parts);
    json_t *const data = json_pack("{s:s, s:s, s:i, s:o, s:o, s:o, s:O}", "version", PIPETRAIN_VERSION, "made", made,
                                   "damage_shown_max", (int)REPORT_DAMAGE_SHOWN_MAX, "values", values_json(), "charts",
                                   charts_json(), "unset", unset_values(), "runs", runs);
    const int rc = data == NULL ? -ENOMEM
                   : json_dump_callback(data, write_escaped, out, JSON_COMPACT | JSON_ENSURE_ASCII |
                                        JSON_REAL_PRECISION(9)) != 0 ? -ENOMEM : 0;
    fputc('\n', out);
    json_decref(data);
    return rc;
}

int page_write(FILE *out, json_t *runs)
{
    int rc = 0;
    for (size_t i = 0; i < sizeof(template_lines) / sizeof(template_lines[0]) && rc == 0; i++) {
        if (strcmp(template_lines[i], "@DATA@\n") == 0)
            rc = write_data(out, runs);
        else
            fputs(template_lines[i], out);
    }
    return rc;
}
