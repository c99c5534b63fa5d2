/* summary.json: the result of a run, for programs. */
#include "tools/lib/run/summary.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "loader/dataset.h"
#include "stage/device.h"
#include "tools/lib/config/options.h"
#include "tools/lib/config/training.h"
#include "tools/lib/run/about.h"
#include "tools/lib/run/metrics.h"
#include "tools/lib/run/report.h"
#include "tools/lib/version.h"

static const char *const purpose_keys[MEMORY_PURPOSE_COUNT] = {
    [MEMORY_BATCHES] = "batches",
    [MEMORY_LOADER] = "loader",
    [MEMORY_IMAGES] = "large_images",
    [MEMORY_SLOTS] = "slots",
    [MEMORY_ARENAS] = "weights_and_states",
    [MEMORY_VALUES] = "activations",
    [MEMORY_WORKSPACE] = "workspace",
    [MEMORY_WEIGHT_COPIES] = "copies_of_weights",
    [MEMORY_SNAPSHOTS] = "snapshots",
    [MEMORY_REDUCTION] = "reduction",
    [MEMORY_RESULTS] = "results",
    [MEMORY_TRACE] = "trace",
};

static uint64_t purpose_bytes(const struct memory_needs *memory, enum memory_purpose purpose)
{
    uint64_t bytes = memory->host.bytes[purpose];
    for (uint32_t device = 0; device < memory->device_count; device++)
        bytes += memory->devices[device].bytes[purpose];
    return bytes;
}

static void summarize_plan(const struct run_plan *plan, const struct settings *settings, struct json *json)
{
    json_open_object(json, "plan");
    json_u64(json, "steps_per_epoch", schedule_steps_per_epoch(&plan->schedule));
    json_u64(json, "steps", schedule_step_count(&plan->schedule));
    json_u64(json, "threads_per_tower", plan->threads_per_tower);
    json_u64(json, "cores", plan->cores);
    json_quoted(json, "backend", run_plan_backend(plan).text);
    json_u64(json, "read_threads", plan->read_threads);
    json_u64(json, "decode_threads", plan->decode_threads);
    json_u64(json, "prefetch_depth", (uint64_t)settings->input.prefetch_depth);
    json_u64(json, "staging_depth", (uint64_t)settings->input.staging_depth);
    json_quoted(json, "mode", plan->devices.mode->name);
    json_quoted(json, "wire", settings_use_bf16_grads(settings) ? "bf16" : "fp32");
    json_open_object(json, "memory_bytes");
    for (int purpose = 0; purpose < MEMORY_PURPOSE_COUNT; purpose++)
        json_u64(json, purpose_keys[purpose], purpose_bytes(&plan->memory, (enum memory_purpose)purpose));
    json_close_object(json);
    json_close_object(json);
}

/* Write the histogram on one line, in the buffer for lines of metrics.jsonl. */
static void summarize_histogram(struct report *report, struct json *json)
{
    struct step_histogram histogram;
    account_histogram(report->account, &histogram);
    json_reset(&report->json);
    step_histogram_write(&histogram, &report->json);
    const char *const line = json_text(&report->json);
    if (line != NULL)
        json_verbatim(json, "step_ms_histogram", line);
}

/* Measure training; no time includes evaluations. */
static void measure_training(const struct report *report, const struct report_end *end, struct metric_values *values)
{
    const struct account *const account = report->account;
    const struct step_totals *const training = &account->state.training;
    struct run_values *const run = &values->run;
    values->images = training->images;
    values->seconds = (double)training->wall_ns / 1e9;
    values->share = account_fractions(account);
    values->feed = report_feed(report, end);
    values->loss = report_loss(report, &account->state.phases[PHASE_TRAIN]);
    run->steps = account->step;
    run->epochs = (double)account->step / (double)schedule_steps_per_epoch(&report->plan->schedule);
    run->speed = account_speeds(account);
    values->images_per_second = run->speed.mean;
    run->mean_images_per_second = totals_images_per_second(training);
    run->warmup_steps = account->warmup;
    run->step = account_percentiles(account);
    run->start_to_first_step_seconds = report_first_step_seconds(report);
    run->explained = account_explained(account);
    run->reading_computed = loader_reading_computed(&end->counts.loader);
    run->decoding_computed = loader_decoding_computed(&end->counts.loader);
    metrics_set_last_rank(values, account);
}

static void measure_evaluations(const struct report *report, struct metric_values *values)
{
    const struct step_totals *const evaluation = &report->account->state.phases[PHASE_EVALUATE];
    const struct run_progress *const progress = report->progress;
    struct run_values *const run = &values->run;
    run->validation.images = evaluation->images;
    run->validation.correct = report_correct(report, evaluation);
    run->validation.accuracy = report_accuracy(report, evaluation);
    run->validation.loss = report_loss(report, evaluation);
    run->validation.measures = report_measures(report);
    run->validation.is_complete = report_evaluation_is_complete(report);
    if (progress->best_images == 0)
        return;
    values->has |= NEEDS_EVALUATION;
    run->best.accuracy = run_progress_best(progress);
    run->best.value = run_progress_best_value(progress);
    run->best.correct = progress->best_correct;
    run->best.step = progress->best_step;
}

static void measure_costs(const struct report *report, const struct report_end *end, struct run_values *run)
{
    const double copied = (double)end->counts.feeders.copy_ns / 1e9;
    const double exposed = (double)report->account->process.times.exposed_copy / 1e9;
    run->cores = report_cores(report);
    run->copy.seconds = copied;
    run->copy.hidden = copied > exposed ? 1 - exposed / copied : 0;
    run->planned_bytes = memory_needs_bytes(&report->plan->memory);
    run->peak_rss_bytes = report_peak_bytes();
}

static void measure_faults(const struct report *report, const struct report_end *end, struct metric_values *values)
{
    const struct settings *const settings = report->settings;
    const bool skips = settings->train.on_nan == ON_NAN_SKIP;
    if (settings->devices.precision == PRECISION_FP16)
        values->has |= NEEDS_SKIPPING;
    if (settings->train.on_nan == ON_NAN_ROLLBACK || report->progress->rollbacks > 0)
        values->has |= NEEDS_ROLLBACKS;
    values->skipped_steps = skips ? report->progress->skipped : report->account->skipped_steps;
    values->run.rollbacks = report->progress->rollbacks;
    values->run.decoder_warnings = end->counts.loader.decoder_warnings;
    values->run.corrupt_records = end->counts.loader.corrupt_records;
}

static void measure_run(const struct report *report, const struct report_end *end, struct metric_values *values)
{
    *values = (struct metric_values){ .has = metric_needs_met(report->settings) };
    measure_training(report, end, values);
    measure_evaluations(report, values);
    measure_costs(report, end, &values->run);
    measure_faults(report, end, values);
    cost_measure(report->cost, values->images, report->progress, values);
}

/* Write "batches": the number of batches with staleness 0, 1, ... */
static void summarize_staleness(const struct staleness *staleness, struct json *json)
{
    json_open_object(json, "staleness");
    json_double(json, "mean", staleness_mean(staleness));
    json_u64(json, "max", staleness->most);
    json_open_array(json, "batches");
    for (uint32_t i = 0; i <= staleness->most; i++)
        json_u64(json, NULL, staleness->batches[i]);
    json_close_array(json);
    json_close_object(json);
}

static void summarize_times(const struct report *report, struct json *json)
{
    struct timespec now;
    char text[REPORT_TIME_SIZE];
    clock_gettime(CLOCK_REALTIME, &now);
    report_write_time(report->began, text);
    json_quoted(json, "began", text);
    report_write_time(now, text);
    json_quoted(json, "end", text);
}

static void summarize_training(const struct report *report, struct json *json)
{
    char text[TRAINING_TEXT_SIZE];
    training_describe_optimizer(&report->settings->train, text, sizeof(text));
    json_quoted(json, "optimizer", text);
    training_describe_rate(&report->settings->train, &report->plan->learning_rate, text, sizeof(text));
    json_quoted(json, "rate", text);
}

/* Write the stored size of the first image, and the size of the network's input. */
static void summarize_first_image(struct json *json, const struct dataset *set)
{
    json_open_object(json, "first_image");
    json_u64(json, "height", set->format.stored_height);
    json_u64(json, "width", set->format.stored_width);
    json_u64(json, "taken_height", set->options.shape.height);
    json_u64(json, "taken_width", set->options.shape.width);
    json_close_object(json);
}

static void summarize_set(struct json *json, const char *name, const char *named, const struct dataset *set)
{
    char fingerprint[24];
    if (set == NULL)
        return;
    snprintf(fingerprint, sizeof(fingerprint), "%016" PRIx64, set->fingerprint);
    json_open_object(json, name);
    json_quoted(json, "named", named);
    json_u64(json, "shards", set->shard_count);
    json_u64(json, "records", set->record_count);
    json_quoted(json, "fingerprint", fingerprint);
    if (set->format.stored_height > 0)
        summarize_first_image(json, set);
    json_close_object(json);
}

static void summarize_data(const struct report *report, struct json *json)
{
    const struct data_settings *const data = &report->settings->data;
    json_bool(json, "synthetic", report->settings->input.source == INPUT_SYNTHETIC);
    json_open_object(json, "data");
    summarize_set(json, "train", data->train, report->datasets[PHASE_TRAIN]);
    summarize_set(json, "validation", *data->validation != '\0' ? data->validation : data->train,
                  report->datasets[PHASE_EVALUATE]);
    json_close_object(json);
}

static void summarize_host(struct json *json)
{
    struct utsname system;
    struct device_description cpu = { .name = "" };
    if (uname(&system) != 0)
        return;
    (void)device_host_ops.describe(0, &cpu);
    json_open_object(json, "host");
    json_quoted(json, "name", system.nodename);
    json_quoted(json, "system", system.sysname);
    json_quoted(json, "release", system.release);
    json_quoted(json, "machine", system.machine);
    json_quoted(json, "cpu", cpu.name);
    json_close_object(json);
}

/* Write which weights best.safetensors has. */
static void summarize_best(const struct report *report, struct json *json)
{
    const struct run_progress *const progress = &report->best.progress;
    if (!report->has_best)
        return;
    json_open_object(json, "best_weights");
    json_quoted(json, "file", CHECKPOINT_BEST_FILE);
    json_u64(json, "epoch", report->best.epoch);
    json_u64(json, "step", report->best.step);
    json_quoted(json, "by", option_choice_name(option_find(SECTION_TRAIN, "best_by"), (int)progress->best_by));
    json_double(json, "value", run_progress_best_value(progress));
    json_close_object(json);
}

/* Copy the rows of epochs from metrics.jsonl, which also contains those of earlier processes of the run. */
static void list_epochs(const struct report *report, struct json *json)
{
    static const char begins[] = "{\"kind\":\"epoch\",";
    char *line = NULL;
    size_t room = 0;
    FILE *const file = run_directory_read_lines(report->directory, RUN_METRICS);
    json_open_array(json, "epoch_rows");
    while (file != NULL && getline(&line, &room, file) > 0) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, begins, sizeof(begins) - 1) == 0)
            json_verbatim(json, NULL, line);
    }
    json_close_array(json);
    free(line);
    if (file != NULL)
        fclose(file);
}

static void summarize(struct report *report, struct json *json, const struct report_end *end,
                      const struct verdict *verdict)
{
    char hash[24];
    struct metric_values values;
    snprintf(hash, sizeof(hash), "%016" PRIx64, report->account->state.order_hash);
    measure_run(report, end, &values);
    json_open_object(json, NULL);
    json_quoted(json, "version", PIPETRAIN_VERSION);
    json_quoted(json, "ended", end->early != NULL ? end->ended : "finished");
    if (end->early != NULL)
        json_quoted(json, "reason", end->early);
    summarize_times(report, json);
    json_quoted(json, "model", report->net->model);
    json_u64(json, "parameters", report->net->trainable_count);
    json_open_object(json, "input");
    json_u64(json, "height", report->net->input.height);
    json_u64(json, "width", report->net->input.width);
    json_close_object(json);
    json_quoted(json, "device", report->plan->devices.ops->kind);
    json_u64(json, "towers", report->plan->schedule.towers);
    json_u64(json, "batch", report->plan->schedule.batch);
    json_u64(json, "accumulate", (uint64_t)report->settings->train.accumulate);
    json_u64(json, "slices", report->plan->schedule.slices);
    json_u64(json, "parts", run_plan_parts(report->plan, report->settings));
    json_quoted(json, "precision", precision_name(report->settings->devices.precision));
    json_u64(json, "seed", (uint64_t)report->settings->run.seed);
    if (report->identity != NULL)
        json_quoted(json, "identity", report->identity);
    summarize_training(report, json);
    summarize_plan(report->plan, report->settings, json);
    summarize_data(report, json);
    summarize_host(json);
    about_write(&report->plan->devices, report->settings->input.source != INPUT_SYNTHETIC, json);
    metrics_write(&values, IN_SPEED, json);
    summarize_histogram(report, json);
    metrics_write(&values, IN_TIME, json);
    metrics_write(&values, IN_LEARNED, json);
    summarize_best(report, json);
    if (verdict != NULL)
        verdict_write(verdict, json);
    else
        json_quoted(json, "verdict", "the run failed");
    cost_write(report->cost, json);
    metrics_write(&values, IN_SPENT, json);
    metrics_write(&values, IN_COSTS, json);
    if (report->plan->devices.mode->serves == SERVES_EACH)
        summarize_staleness(&report->account->staleness, json);
    metrics_write(&values, IN_FAULTS, json);
    report_damage_write(end->counts.damage, report->directory, json);
    metrics_write(&values, IN_MEMORY, json);
    json_quoted(json, "sample_order_hash", hash);
    list_epochs(report, json);
    json_close_object(json);
}

int summary_write(struct report *report, const struct report_end *end, const struct verdict *verdict)
{
    if (report->directory == NULL)
        return 0;
    report_find_best(report);
    json_reset(&report->summary);
    summarize(report, &report->summary, end, verdict);
    const struct file_part parts[] = { { report->summary.text, report->summary.bytes }, { "\n", 1 } };
    if (json_text(&report->summary) == NULL)
        return -ENOMEM;
    return whole_file_write(run_directory_fd(report->directory), "summary.json", parts, 2);
}
