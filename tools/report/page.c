/* Puts the data into the template. The build makes page_html.inc of page.html, a string for each line. */
#include "tools/report/page.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tools/lib/config/options.h"
#include "tools/lib/version.h"
#include "tools/report/report_input.h"

static const char *const template_lines[] = {
#include "tools/report/page_html.inc"
};

/* Where on the page a value of summary.json is shown. */
enum part { PART_TILES, PART_RESULT, PART_PLAN, PART_ENVIRONMENT };

static const char *const part_names[] = {
    [PART_TILES] = "tiles", [PART_RESULT] = "result", [PART_PLAN] = "plan", [PART_ENVIRONMENT] = "environment",
};

/* The values that the page shows, in the order of each part: `form` is how the page's script writes a value of this
 * kind, `path` its keys in summary.json. */
static const struct { enum part part; const char *name, *form, *path; } shown_values[] = {
    { PART_RESULT, "ended", "text", "ended" },
    { PART_RESULT, "because", "text", "reason" },
    { PART_RESULT, "validation accuracy, last", "share", "validation.accuracy" },
    { PART_RESULT, "validation accuracy, best", "share", "best.accuracy" },
    { PART_RESULT, "best at step", "count", "best.step" },
    { PART_RESULT, "validation loss", "number", "validation.loss" },
    { PART_RESULT, "validation images", "count", "validation.images" },
    { PART_RESULT, "training loss", "number", "loss" },
    { PART_RESULT, "steps", "count", "steps" },
    { PART_RESULT, "epochs", "number", "epochs" },
    { PART_RESULT, "images", "count", "images" },
    { PART_RESULT, "training time", "seconds", "seconds" },
    { PART_RESULT, "images/s", "rate", "images_per_second" },
    { PART_RESULT, "images/s, whole run", "rate", "mean_images_per_second" },
    { PART_RESULT, "step p50, ms", "number", "step_ms.p50" },
    { PART_RESULT, "step p90, ms", "number", "step_ms.p90" },
    { PART_RESULT, "step p99, ms", "number", "step_ms.p99" },
    { PART_RESULT, "first step after", "seconds", "start_to_first_step_seconds" },
    { PART_RESULT, "time in forward", "share", "fractions.forward" },
    { PART_RESULT, "time in backward", "share", "fractions.backward" },
    { PART_RESULT, "time in update", "share", "fractions.update" },
    { PART_RESULT, "exposed copy", "share", "fractions.exposed_copy" },
    { PART_RESULT, "exposed reduction", "share", "fractions.exposed_reduction" },
    { PART_RESULT, "input wait", "share", "fractions.input_wait" },
    { PART_RESULT, "copies hidden", "share", "copy.hidden" },
    { PART_RESULT, "host queue: mean batches", "number", "queues.ring.mean" },
    { PART_RESULT, "host queue: depth", "count", "queues.ring.depth" },
    { PART_RESULT, "host queue: found empty", "share", "queues.ring.empty" },
    { PART_RESULT, "device queue: mean batches", "number", "queues.slots.mean" },
    { PART_RESULT, "device queue: depth", "count", "queues.slots.depth" },
    { PART_RESULT, "device queue: found empty", "share", "queues.slots.empty" },
    { PART_RESULT, "readers busy", "share", "loader_busy.readers" },
    { PART_RESULT, "decoders busy", "share", "loader_busy.decoders" },
    { PART_RESULT, "damaged records", "count", "corrupt_records" },
    { PART_RESULT, "decoder warnings", "count", "decoder_warnings" },
    { PART_RESULT, "skipped steps", "count", "skipped_steps" },
    { PART_RESULT, "rollbacks", "count", "rollbacks" },
    { PART_RESULT, "peak memory", "bytes", "memory.peak_rss_bytes" },
    { PART_RESULT, "sample order hash", "text", "sample_order_hash" },
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
    { PART_TILES, "validation accuracy, last", "share", "validation.accuracy" },
    { PART_TILES, "validation accuracy, best", "share", "best.accuracy" },
    { PART_TILES, "training loss", "number", "loss" },
    { PART_TILES, "images/s", "rate", "images_per_second" },
    { PART_TILES, "images/s, whole run", "rate", "mean_images_per_second" },
    { PART_TILES, "ms per step, p50", "number", "step_ms.p50" },
    { PART_TILES, "ms per step, p99", "number", "step_ms.p99" },
    { PART_TILES, "training time", "seconds", "seconds" },
};

/* NULL: out of memory. */
static json_t *values_json(void)
{
    json_t *const list = json_array();
    int failed = 0;
    for (size_t i = 0; i < sizeof(shown_values) / sizeof(shown_values[0]); i++)
        failed |= json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s}",
                                                        "part", part_names[shown_values[i].part],
                                                        "name", shown_values[i].name, "form", shown_values[i].form,
                                                        "path", shown_values[i].path));
    if (failed == 0)
        return list;
    json_decref(list);
    return NULL;
}

/* '<' occurs in strings only. Escaped, nothing in them can end the script element that holds the JSON. */
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

/* Does the value of an option that nobody sets, "" or 0, mean that something else decides? A weight decay of 0 is one that
 * is used. */
static bool means_unset(const struct option_row *option)
{
    return (*option->initial == '\0' || strcmp(option->initial, "0") == 0) && option->initial_note != NULL &&
           !(option->section == SECTION_TRAIN && strcmp(option->key, "weight_decay") == 0);
}

/* Of every such option its value in run.conf, and who decides. NULL: out of memory. */
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
    json_t *const data = json_pack("{s:s, s:s, s:i, s:o, s:o, s:O}", "version", PIPETRAIN_VERSION, "made", made,
                                   "damage_shown_max", (int)REPORT_DAMAGE_SHOWN_MAX, "values", values_json(), "unset",
                                   unset_values(), "runs", runs);
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
