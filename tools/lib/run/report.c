/* Progress, epoch table, metrics.jsonl, damaged records and result. */
#include "tools/lib/run/report.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <string.h>
#include <sys/resource.h>

#include "loader/dataset.h"
#include "loader/shards/text.h"
#include "stage/clock.h"
#include "stage/log.h"
#include "stage/text/program_folder.h"
#include "stage/text/shell_word.h"
#include "sync/ranks/ranks.h"
#include "tools/lib/results/named_classes.h"
#include "tools/lib/run/metrics.h"
#include "tools/lib/run/summary.h"
#include "tools/lib/run/verdict.h"
#include "tools/lib/text/number.h"
#include "tools/lib/text/wrapped.h"

#define INTERVAL_MOST 100u      /* the most steps between two rows, unless report.interval is set */
#define ROWS_PER_EPOCH 10u      /* the fewest rows in an epoch, or in a run shorter than an epoch */

double report_loss(const struct report *report, const struct step_totals *totals)
{
    return report->plan->devices.backend->computes ? totals_loss(totals) : NAN;
}

bool report_has_accuracy(const struct report *report)
{
    return report->plan->devices.backend->computes && report->settings->input.source != INPUT_SYNTHETIC;
}

double report_accuracy(const struct report *report, const struct step_totals *totals)
{
    return report_has_accuracy(report) ? totals_accuracy(totals) : NAN;
}

uint64_t report_correct(const struct report *report, const struct step_totals *totals)
{
    return report_has_accuracy(report) ? totals->correct : METRIC_UNKNOWN;
}

struct mean_measures report_measures(const struct report *report)
{
    const struct class_measures unknown = { NAN, NAN, NAN };
    if (report_has_accuracy(report) && account_has_measures(report->account))
        return report->account->state.measures;
    return (struct mean_measures){ .macro = unknown, .weighted = unknown, .balanced_accuracy = NAN,
                                   .largest_share = NAN };
}

/* ---- damaged records ---- */

#define PRINTED_MAX 10u
#define DAMAGE_LINE_BYTES 8192u        /* more than a line needs, but for paths with very many escaped characters */

static void print_record(const struct damaged_record *record, FILE *out)
{
    char path[DAMAGE_TEXT_BYTES];
    log_escape(record->path, strlen(record->path), path, sizeof(path));
    fprintf(out, "          %s: record %" PRIu64 " at byte %" PRIu64 ": %s\n", path, record->record, record->offset,
            record->problem.text);
}

static void print_file(const struct run_directory *directory, FILE *out)
{
    const uint64_t lost = run_directory_lost_lines(directory, RUN_QUARANTINE);
    fprintf(out, "          all are listed in %s/%s", run_directory_path(directory),
            run_directory_lines_name(RUN_QUARANTINE));
    if (lost > 0)
        fprintf(out, ", but for %s lines that could not be written", number_grouped(lost).text);
    fputc('\n', out);
}

void report_damage_print(const struct damage_list *list, uint64_t total, const struct run_directory *directory,
                         FILE *out)
{
    if (total == 0)
        return;
    const size_t printed = list->count < PRINTED_MAX ? list->count : PRINTED_MAX;
    uint64_t more = total;
    fprintf(out, "damage    %s damaged record%s skipped:\n", number_grouped(total).text, total == 1 ? "" : "s");
    for (size_t i = 0; i < printed; i++)
        print_record(&list->records[i], out);
    for (size_t i = 0; i < printed; i++)
        more -= list->records[i].count;
    if (more > 0)
        fprintf(out, "          and %s more\n", number_grouped(more).text);
    if (directory != NULL)
        print_file(directory, out);
}

static void write_crc(struct json *json, const char *key, uint32_t crc)
{
    char text[9];
    snprintf(text, sizeof(text), "%08" PRIx32, crc);
    json_quoted(json, key, text);
}

static void write_record(struct json *json, const struct damaged_record *record)
{
    json_open_object(json, NULL);
    json_quoted(json, "set", record->phase == PHASE_TRAIN ? "train" : "validation");
    json_quoted(json, "path", record->path);
    json_u64(json, "record", record->record);
    json_u64(json, "offset", record->offset);
    json_u64(json, "count", record->count);
    json_quoted(json, "problem", record->problem.text);
    if (record->problem.has_crcs) {
        write_crc(json, "stored_crc", record->problem.stored_crc);
        write_crc(json, "computed_crc", record->problem.computed_crc);
    }
    json_close_object(json);
}

static void write_file(const struct run_directory *directory, struct json *json)
{
    const uint64_t lost = run_directory_lost_lines(directory, RUN_QUARANTINE);
    json_quoted(json, "file", run_directory_lines_name(RUN_QUARANTINE));
    if (lost > 0)
        json_u64(json, "file_lacks", lost);
}

void report_damage_write(const struct damage_list *list, const struct run_directory *directory, struct json *json)
{
    json_open_object(json, "damage");
    json_open_array(json, "records");
    for (size_t i = 0; list != NULL && i < list->count; i++)
        write_record(json, &list->records[i]);
    json_close_array(json);
    json_u64(json, "unlisted", list != NULL ? list->unlisted : 0);
    if (list != NULL && directory != NULL)
        write_file(directory, json);
    json_close_object(json);
}

int report_damage_init(struct report_damage *report, struct run_directory *directory)
{
    report->directory = directory;
    json_init(&report->line, false);
    return json_reserve(&report->line, DAMAGE_LINE_BYTES);
}

void report_damage_release(struct report_damage *report)
{
    json_release(&report->line);
}

void report_damage_add(void *report, const struct damaged_record *record)
{
    struct report_damage *const quarantine = report;
    if (quarantine->directory == NULL)
        return;
    json_reset(&quarantine->line);
    write_record(&quarantine->line, record);
    run_directory_add_line(quarantine->directory, RUN_QUARANTINE, &quarantine->line);
}

/* ---- the report ---- */

#define LINE_BYTES 2048u        /* more than a line of metrics.jsonl needs */
#define SUMMARY_BYTES 65536u    /* enough for a summary without hundreds of damaged records or epochs */

int report_init(struct report *report)
{
    clock_gettime(CLOCK_REALTIME, &report->began);
    report->interval_ns = clock_now_ns();
    report->cores = cores_look();
    json_init(&report->json, false);
    json_init(&report->summary, true);
    const struct observed_run run = {
        .settings = report->settings, .plan = report->plan, .net = report->net, .datasets = report->datasets,
        .directory = report->directory != NULL ? run_directory_path(report->directory) : NULL,
        .account = report->account, .cost = report->cost, .progress = report->progress, .saves = report->saves,
    };
    report->observers = observers_open(&run);
    int rc = progress_display_init(&report->display, report->settings, report->plan, report->account);
    report->display.pipeline = report->pipeline;
    if (rc == 0)
        rc = json_reserve(&report->json, LINE_BYTES);
    return rc == 0 ? json_reserve(&report->summary, SUMMARY_BYTES) : rc;
}

void report_release(struct report *report)
{
    observers_close(report->observers, report->is_over);
    progress_display_release(&report->display);
    json_release(&report->json);
    json_release(&report->summary);
}

uint64_t report_peak_bytes(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (uint64_t)usage.ru_maxrss * 1024 : 0;
}

struct cores_use report_cores(const struct report *report)
{
    const struct cores_seen now = cores_look();
    struct cores_use use = cores_use(&report->cores, &now);
    const double other_ranks = use.own * (report->settings->core_ranks - 1);
    use.own += other_ranks;
    if (!isnan(use.others))
        use.others = fmax(use.others - other_ranks, 0);
    return use;
}

double report_first_step_seconds(const struct report *report)
{
    const uint64_t first = report->account->first_step_ns;
    return first > 0 ? (double)(first - report->process_start_ns) / 1e9 : 0;
}

bool report_evaluation_is_complete(const struct report *report)
{
    const uint64_t steps = report->account->state.phases[PHASE_EVALUATE].steps;
    return steps > 0 && steps == schedule_batches_per_evaluation(&report->plan->schedule);
}

/* Measure the use of the loader, which is not measured during an evaluation. */
static void measure_feed(struct report *report, const struct local_batch *local)
{
    struct loader_counts loader;
    if (!account_is_warm(report->account) || (report->meter.runs && !local->last_of_phase))
        return;
    pipeline_count_loader(report->pipeline, &loader);
    if (local->last_of_phase)
        feed_meter_stop(&report->meter, &loader, clock_now_ns());
    else
        feed_meter_start(&report->meter, &loader, clock_now_ns());
}

void report_step(struct report *report, struct step_report *const *reports)
{
    const struct step_report *const seen = reports[0];
    const struct local_batch *const local = &seen->local;
    report->gradient_norm = seen->gradient_norm;
    if (local->phase == PHASE_TRAIN)
        measure_feed(report, local);
    progress_display_step(&report->display, local);
    observers_begin(report->observers);
    if (seen->shown != NULL)
        observers_show(report->observers, reports);
}

void report_write_time(struct timespec time, char text[REPORT_TIME_SIZE])
{
    struct tm parts;
    char seconds[24];
    gmtime_r(&time.tv_sec, &parts);
    strftime(seconds, sizeof(seconds), "%Y-%m-%dT%H:%M:%S", &parts);
    snprintf(text, REPORT_TIME_SIZE, "%s.%03uZ", seconds, (unsigned)(time.tv_nsec / 1000000) % 1000u);
}

static void write_now(struct json *json)
{
    struct timespec now;
    char text[REPORT_TIME_SIZE];
    clock_gettime(CLOCK_REALTIME, &now);
    report_write_time(now, text);
    json_quoted(json, "time", text);
}

static void begin_metrics(struct report *report, const char *kind, const struct local_batch *local, uint64_t step)
{
    json_reset(&report->json);
    json_open_object(&report->json, NULL);
    json_quoted(&report->json, "kind", kind);
    json_u64(&report->json, "epoch", local->epoch + 1);
    json_u64(&report->json, "step", step);
    write_now(&report->json);
}

static void end_metrics(struct report *report)
{
    json_close_object(&report->json);
    run_directory_add_line(report->directory, RUN_METRICS, &report->json);
}

static double mean_of(uint64_t ns, uint64_t count, double unit_ns)
{
    return count > 0 ? (double)ns / unit_ns / (double)count : NAN;
}

/* Set the values of the process, as of the latest row. */
static void measure_process(const struct report *report, struct process_values *process)
{
    const struct step_times *const times = &report->account->process.times;
    process->step = report->account->step;
    process->records_skipped = report->loader.corrupt_records;
    process->read_seconds = (double)report->loader.read_busy_ns / 1e9;
    process->decode_seconds = (double)report->loader.decode_busy_ns / 1e9;
    process->forward_seconds = (double)times->forward / 1e9;
    process->backward_seconds = (double)times->backward / 1e9;
    process->update_seconds = (double)times->update / 1e9;
    process->input_wait_seconds = (double)times->input_wait / 1e9;
}

/* The values of a row of any kind. */
static void measure_row(const struct report *report, const struct local_batch *local, const struct step_totals *totals,
                        struct metric_values *values)
{
    *values = (struct metric_values){
        .has = metric_needs_met(report->settings),
        .epoch = local->epoch + 1,
        .images = totals->images,
        .correct = report_correct(report, totals),
        .skipped_steps = report->progress->skipped,
        .loss = report_loss(report, totals),
        .accuracy = report_accuracy(report, totals),
        .measures = report_measures(report),
        .seconds = (double)totals->wall_ns / 1e9,
        .images_per_second = totals_images_per_second(totals),
        .learning_rate = learning_rate_at(&report->plan->learning_rate, report->account->step - 1),
        .gradient_norm = report->gradient_norm,
        .step_seconds = mean_of(totals->wall_ns, totals->steps, 1e9),
        .step_ms = mean_of(totals->wall_ns, totals->steps, 1e6),
        .input_wait_ms = mean_of(totals->times.input_wait, totals->steps * report->plan->schedule.towers, 1e6),
        .share = totals_fractions(totals),
    };
    measure_process(report, &values->process);
    values->process.epoch = values->epoch;
}

/* The use of the input pipeline since the previous interval, or since the loader was started. */
static struct feed_use measure_interval_feed(struct report *report)
{
    struct loader_counts loader;
    const uint64_t now_ns = clock_now_ns();
    pipeline_count_loader(report->pipeline, &loader);
    const struct loader_busy busy = loader_busy(&report->loader, &loader, now_ns - report->interval_ns, report->plan);
    report->loader = loader;
    report->interval_ns = now_ns;
    return feed_use(&report->account->interval_fills, &busy, report->settings);
}

uint64_t report_interval_steps(const struct settings *settings, const struct schedule *schedule)
{
    const uint64_t steps = schedule_step_count(schedule), per_epoch = schedule_steps_per_epoch(schedule);
    const uint64_t tenth = (steps < per_epoch ? steps : per_epoch) / ROWS_PER_EPOCH;
    if (settings->report.interval > 0)
        return (uint64_t)settings->report.interval;
    return tenth < 1 ? 1 : tenth < INTERVAL_MOST ? tenth : INTERVAL_MOST;
}

void report_interval(struct report *report, const struct local_batch *local)
{
    const struct feed_use feed = measure_interval_feed(report);
    struct metric_values values;
    measure_row(report, local, &report->account->state.interval, &values);
    values.feed = feed;
    begin_metrics(report, "train", local, local->step + 1);
    metrics_write(&values, IN_TRAIN, &report->json);
    end_metrics(report);
    observers_put(report->observers, PHASE_TRAIN, &values);
}

static void print_table_head(struct report *report)
{
    if (!report->table_has_head)
        printf("epoch    steps     loss  accuracy  images/s    wait | val loss  %8s seconds\n",
               best_by_title(report->settings->train.best_by));
    report->table_has_head = true;
}

/* Print the staleness of the towers' batches: "staleness mean 0.88 steps, at most 3; 0 steps: 52.5 %, 1: 19.1 %". */
static void print_staleness(const struct staleness *staleness)
{
    char line[1024];
    struct text text;
    uint64_t all = 0;
    text_init(&text, line, sizeof(line));
    for (uint32_t i = 0; i <= staleness->most; i++)
        all += staleness->batches[i];
    text_add(&text, "staleness mean %.2f steps, at most %u", staleness_mean(staleness), staleness->most);
    for (uint32_t i = 0, listed = 0; i <= staleness->most && all > 0; i++)
        if (staleness->batches[i] > 0)
            text_add(&text, listed++ == 0 ? "; %u steps: %.1f %%" : ", %u: %.1f %%", i,
                     100 * (double)staleness->batches[i] / (double)all);
    wrapped_print(stdout, "%s", line);
}

static struct number share_cell(double share)
{
    return number_cell(100 * share, 2, " %", 8);
}

/* Print loss and accuracy as columns of the table. */
static void print_loss(const struct report *report, const struct step_totals *totals)
{
    printf(" %8s  %8s", number_cell(report_loss(report, totals), 4, "", 8).text,
           share_cell(report_accuracy(report, totals)).text);
}

/* Print loss and accuracy of the evaluation, or in place of the accuracy the measure over the classes that
 * train.best_by names. */
static void print_validation(const struct report *report, const struct step_totals *evaluation)
{
    const enum best_by by = report->settings->train.best_by;
    if (!best_by_is_of_classes(by)) {
        print_loss(report, evaluation);
        return;
    }
    const double value = report_has_accuracy(report) ? best_by_value(by, report->account) : NAN;
    printf(" %8s  %8s", number_cell(report_loss(report, evaluation), 4, "", 8).text,
           by == BEST_BY_BALANCED_ACCURACY ? share_cell(value).text : number_cell(value, 4, "", 8).text);
}

static void print_row(struct report *report, const struct local_batch *local)
{
    const struct step_totals *const train = &report->account->state.phases[PHASE_TRAIN];
    const struct step_totals *const evaluation = &report->account->state.phases[PHASE_EVALUATE];
    const struct fractions share = totals_fractions(train);
    progress_display_clear(&report->display);
    print_table_head(report);
    printf("%5u %8s", local->epoch + 1, number_grouped(train->steps).text);
    print_loss(report, train);
    printf(" %9s  %4.1f %%", number_rate(totals_images_per_second(train)).text, 100 * share.input_wait);
    if (local->phase == PHASE_EVALUATE) {
        printf(" |");
        print_validation(report, evaluation);
        printf(" %7s", number_cell((double)(train->wall_ns + evaluation->wall_ns) / 1e9, 1, "", 7).text);
    }
    printf("\n");
    fflush(stdout);
}

static void add_validation(struct report *report, const struct local_batch *local,
                           const struct metric_values *evaluation)
{
    begin_metrics(report, "validation", local, report->account->step);
    metrics_write(evaluation, IN_VALIDATION, &report->json);
    end_metrics(report);
    observers_put(report->observers, PHASE_EVALUATE, evaluation);
}

/* Write the row of an epoch. summary.json contains a copy of these rows. */
static void add_epoch(struct report *report, const struct local_batch *local, const struct metric_values *evaluation)
{
    struct metric_values values;
    measure_row(report, local, &report->account->state.phases[PHASE_TRAIN], &values);
    begin_metrics(report, "epoch", local, report->account->step);
    metrics_write(&values, IN_EPOCH, &report->json);
    if (evaluation != NULL) {
        json_open_object(&report->json, "validation");
        metrics_write(evaluation, IN_EPOCH_VALIDATION, &report->json);
        json_close_object(&report->json);
    }
    end_metrics(report);
}

void report_epoch(struct report *report, const struct local_batch *local)
{
    const bool is_evaluated = local->phase == PHASE_EVALUATE;
    struct metric_values evaluation;
    print_row(report, local);
    if (is_evaluated) {
        measure_row(report, local, &report->account->state.phases[PHASE_EVALUATE], &evaluation);
        add_validation(report, local, &evaluation);
    }
    add_epoch(report, local, is_evaluated ? &evaluation : NULL);
}

/* The reason why there is no validation accuracy. */
static const char *why_unevaluated(const struct report *report, const struct step_totals *evaluation)
{
    if (report->plan->schedule.records[PHASE_EVALUATE] == 0)
        return "there is no validation set";
    if (!report_has_accuracy(report))
        return "images and labels are synthetic";
    if (evaluation->steps == 0)
        return "the run ended before the evaluation";
    return report_evaluation_is_complete(report) ? "no record of the validation set can be read"
                                                 : "the run ended during the evaluation";
}

/* The result is printed even with --quiet. */
static FILE *result_out(const struct report *report)
{
    return report->settings->result_out != NULL ? report->settings->result_out : stdout;
}

/* Could the final weights be evaluated, but were not? */
static bool leaves_unevaluated(const struct report *report, uint64_t evaluated_step)
{
    return report->plan->schedule.records[PHASE_EVALUATE] > 0 && report_has_accuracy(report) &&
           evaluated_step < report->account->step;
}

/* Accuracy means little where it is no better than that of always giving the same answer. Left out with --quiet. */
static void print_guessing(const struct report *report, const struct step_totals *evaluation)
{
    const struct mean_measures *const measures = &report->account->state.measures;
    if (!account_has_measures(report->account) || totals_accuracy(evaluation) > measures->largest_share ||
        report->net->classes < 2)
        return;
    const struct class_names *const names = &report->datasets[PHASE_EVALUATE]->class_names;
    if (measures->largest_share >= 1 && evaluation->images > 1)
        wrapped_print(stdout, "warning   every validation record has class %s: accuracy shows nothing if these labels are "
                      "placeholders, as in test sets without labels",
                      class_text_of(names, (uint32_t)measures->largest).text);
    else
        wrapped_print(stdout, "warning   always answering class %s, the class with most samples, is right for %.2f %%: "
                      "accuracy does not show that anything was learned",
                      class_text_of(names, (uint32_t)measures->largest).text, 100 * measures->largest_share);
}

/* The measure over the classes that train.best_by names, for the line of the result: ", macro F1 0.9134"; else "". */
struct measure_text { char text[64]; };
static struct measure_text result_measure(const struct report *report)
{
    const enum best_by by = report->settings->train.best_by;
    struct measure_text out = { "" };
    if (best_by_is_of_classes(by) && account_has_measures(report->account))
        snprintf(out.text, sizeof(out.text), ", %s %s", strchr(best_by_words(by), ' ') + 1,
                 best_by_text(by, best_by_value(by, report->account)).text);
    return out;
}

/* Print the validation result, except after a dry run. */
static void print_evaluation(const struct report *report)
{
    FILE *const out = result_out(report);
    const struct step_totals *const evaluation = &report->account->state.phases[PHASE_EVALUATE];
    const uint64_t then = report->account->state.evaluated_step, steps = report->account->step;
    char place[96] = "", quoted[PATH_MAX];
    if (!report->plan->devices.backend->computes || report->directory == NULL)
        return;
    if (then < steps)
        snprintf(place, sizeof(place), ", at step %s of %s", number_grouped(then).text, number_grouped(steps).text);
    const bool is_evaluated = report_evaluation_is_complete(report) && evaluation->images > 0 &&
                              report_has_accuracy(report);
    if (is_evaluated)
        wrapped_print(out, "result    validation accuracy %.2f %% (%s of %s), loss %.4f%s%s",
                      100 * totals_accuracy(evaluation), number_grouped(evaluation->correct).text,
                      number_grouped(evaluation->images).text, totals_loss(evaluation), result_measure(report).text, place);
    else
        fprintf(out, "result    not evaluated: %s\n", why_unevaluated(report, evaluation));
    if (is_evaluated)
        print_guessing(report, evaluation);
    if (!leaves_unevaluated(report, report_evaluation_is_complete(report) ? then : 0))
        return;
    shell_word(run_directory_path(report->directory), quoted, sizeof(quoted));
    wrapped_print(out, "%*sto evaluate the final weights: %spipetrain evaluate -c %s/run.conf --weights "
                  "%s/weights.safetensors", (int)WRAPPED_INDENT, "", program_folder(), quoted, quoted);
}

/* Print where the weights of the best evaluation are. */
static void print_kept(const struct report *report)
{
    const struct best_file *const best = &report->best;
    const enum best_by by = (enum best_by)best->progress.best_by;
    const double value = run_progress_best_value(&best->progress);
    if (report->has_best && best->step == report->progress->best_step)
        wrapped_print(stdout, "%*sits weights, after epoch %" PRIu32 ", are in " CHECKPOINT_BEST_FILE ": evaluate, predict "
                      "and export take them from the run directory (--last: the last ones)", (int)WRAPPED_INDENT, "",
                      best->epoch);
    else if (report->has_best && report->settings->checkpoint.keep_best != KEEP_BEST_NO)
        wrapped_print(stdout, "%*sits weights were not kept; " CHECKPOINT_BEST_FILE " has those after epoch %" PRIu32
                      ", %s %s", (int)WRAPPED_INDENT, "", best->epoch, best_by_words(by), best_by_text(by, value).text);
    else
        wrapped_print(stdout, "%*sthe saved weights are those of the last step; checkpoint.keep_best = weights keeps the "
                      "best ones, too", (int)WRAPPED_INDENT, "");
}

void report_find_best(struct report *report)
{
    char path[PATH_MAX + sizeof("/" CHECKPOINT_BEST_FILE)];
    if (report->directory == NULL)
        return;
    snprintf(path, sizeof(path), "%s/" CHECKPOINT_BEST_FILE, run_directory_path(report->directory));
    report->has_best = best_file_read(&report->best, path, false) == 0;
}

/* Print the best evaluation, unless it is the last one. With --quiet the note about the saved weights is left out. */
static void print_best(const struct report *report)
{
    const struct run_progress *const progress = report->progress;
    const struct step_totals *const evaluation = &report->account->state.phases[PHASE_EVALUATE];
    const enum best_by by = (enum best_by)progress->best_by;
    if (progress->best_images == 0 || progress->best_step >= report->account->state.evaluated_step)
        return;
    if (by == BEST_BY_ACCURACY)
        wrapped_print(result_out(report), "best      validation accuracy %.2f %% (%s of %s), at step %s",
                      100 * run_progress_best(progress), number_grouped(progress->best_correct).text,
                      number_grouped(progress->best_images).text, number_grouped(progress->best_step).text);
    else
        wrapped_print(result_out(report), "best      %s %s, at step %s", best_by_words(by),
                      best_by_text(by, run_progress_best_value(progress)).text,
                      number_grouped(progress->best_step).text);
    const bool is_better = by != BEST_BY_ACCURACY || totals_accuracy(evaluation) < run_progress_best(progress);
    if (report->directory != NULL && report_evaluation_is_complete(report) && is_better)
        print_kept(report);
}

/* Print the speed. An interrupted run may have no step after warm-up, or only a step with a partial batch. */
static void print_speed(const struct report *report)
{
    const struct speeds speed = account_speeds(report->account);
    const struct step_percentiles step = account_percentiles(report->account);
    const uint64_t warmup = report->account->warmup;
    char spread[48] = "";
    if (isfinite(speed.uncertainty))
        snprintf(spread, sizeof(spread), " +/- %s",
                 number_cell(100 * speed.uncertainty / speed.mean, 1, " %", 10).text);
    if (isnan(speed.mean) || isnan(step.p50_ms))
        wrapped_print(stdout, "speed     too few steps to measure: the first %" PRIu64 " are warm-up", warmup);
    else
        wrapped_print(stdout, "speed     %s images/s%s, the mean after %" PRIu64 " warm-up step%s; a step "
                              "takes %.2f ms (median), %.2f (p90), %.2f (p99)", number_rate(speed.mean).text,
                      spread, warmup, warmup == 1 ? "" : "s", step.p50_ms, step.p90_ms,
                      step.p99_ms);
}

static void print_training(const struct report *report)
{
    const struct step_totals *const training = &report->account->state.training;
    wrapped_print(stdout, "training  %s step%s, %s images in %.1f s; first step %.2f s after the start; peak memory %s",
                  number_grouped(training->steps).text, training->steps == 1 ? "" : "s",
                  number_grouped(training->images).text, (double)training->wall_ns / 1e9,
                  report_first_step_seconds(report), number_bytes(report_peak_bytes()).text);
}

static void print_time(const struct report *report)
{
    const struct fractions share = account_fractions(report->account);
    char exchange[48] = "";
    if (share.exposed_exchange > 0)
        snprintf(exchange, sizeof(exchange), ", exposed exchange %.1f", 100 * share.exposed_exchange);
    wrapped_print(stdout, "time      input wait %.1f %%, exposed copy %.1f, forward %.1f, backward %.1f, exposed "
                          "reduction %.1f%s, update %.1f, other %.1f",
                  100 * share.input_wait, 100 * share.exposed_copy, 100 * share.forward, 100 * share.backward,
                  100 * share.exposed_reduction, exchange, 100 * share.update, 100 * share.other);
}

/* The use of the input pipeline; if the run was stopped early, the current interval of the meter is still open. */
struct feed_use report_feed(const struct report *report, const struct report_end *end)
{
    struct feed_meter meter = report->meter;
    feed_meter_stop(&meter, &end->counts.loader, end->loader_end_ns);
    const struct loader_busy busy = feed_meter_busy(&meter, report->plan);
    return feed_use(&report->account->fills, &busy, report->settings);
}

static void print_feed(const struct report *report, const struct report_end *end)
{
    const struct feed_use use = report_feed(report, end);
    feed_print(&use, report->settings, stdout);
}

static void print_warnings(uint64_t count)
{
    if (count > 0)
        printf("warnings  %s image%s with minor damage that the decoder ignored\n", number_grouped(count).text,
               count == 1 ? "" : "s");
}

static void print_cost(const struct report *report)
{
    struct metric_values values = { .has = 0 };
    cost_measure(report->cost, report->account->state.training.images, report->progress, &values);
    cost_print(report->cost, &values, stdout);
}

static double ratio(double part, double whole)
{
    return whole > 0 ? part / whole : 0;
}

static bool is_encoded(const struct dataset *dataset)
{
    return dataset != NULL && dataset->format.image == &image_encoded_ops;
}

/* Collect the facts that determine the verdict. Called when the pipeline is closed. */
static uint32_t find_taken_side(const struct report *report, const struct dataset *dataset)
{
    return sides_longer(sides_shorter(dataset->options.shape.height, dataset->options.shape.width),
                        sides_shorter(report->net->input.height, report->net->input.width));
}

static struct verdict_facts find_facts(const struct report *report, const struct report_end *end)
{
    const struct pipeline_counts *const counts = &end->counts;
    const struct dataset *const dataset = report->datasets[PHASE_TRAIN];
    const double wall_ns = (double)end->loader_wall_ns;
    const struct feed_use feed = report_feed(report, end);
    const struct last_rank last = rank_waits_find(report->account->waits);
    struct parts_gain parts = { .bytes = 0 };
    (void)run_plan_parts_gain(report->plan, report->settings, report->net, &parts);
    return (struct verdict_facts){
        .steps = report->account->process.steps,
        .share = account_fractions(report->account),
        .busy = feed.busy,
        .ring_empty = feed.ring.fill.empty,
        .reading_cpu = loader_reading_computed(&counts->loader),
        .copying = ratio((double)counts->feeders.copy_ns, wall_ns * report->plan->devices.towers.count),
        .main_busy = 1 - ratio((double)counts->main_waited_ns, wall_ns),
        .cores = report_cores(report),
        .step = account_percentiles(report->account),
        .images_per_second = account_speeds(report->account).mean,
        .is_encoded = is_encoded(dataset),
        .stored_side =
            is_encoded(dataset) ? sides_shorter(dataset->format.stored_height, dataset->format.stored_width) : 0,
        .taken_side = is_encoded(dataset) ? find_taken_side(report, dataset) : 0,
        .last = last,
        .last_name = last.steps > 0 ? ranks_name(report->ranks, last.rank) : NULL,
        .last_host = last.steps > 0 ? ranks_host(report->ranks, last.rank) : NULL,
        .step_ms = account_step_ms(report->account),
        .parts = parts,
    };
}

static int write_summary(struct report *report, const struct report_end *end, const struct verdict *verdict)
{
    const int rc = summary_write(report, end, verdict);
    if (rc != 0)
        log_message(LOG_ERROR, "%s/summary.json: %s", run_directory_path(report->directory), strerror(-rc));
    return rc != 0 || report->directory == NULL ? rc : run_directory_failed(report->directory);
}

int report_result(struct report *report, const struct report_end *end)
{
    const struct verdict_facts facts = find_facts(report, end);
    struct verdict verdict;
    verdict_find(&facts, report->plan, report->settings, &verdict);
    report_find_best(report);
    progress_display_clear(&report->display);
    if (end->early != NULL)
        wrapped_print(result_out(report), "ended     early, %s", end->early);
    print_evaluation(report);
    print_best(report);
    const bool is_written = fflush(result_out(report)) == 0 && ferror(result_out(report)) == 0;
    if (report->progress->skipped > 0)
        printf("skipped   %s step%s, because gradients were not finite\n",
               number_grouped(report->progress->skipped).text, report->progress->skipped == 1 ? "" : "s");
    else if (report->settings->devices.precision == PRECISION_FP16)
        printf("fp16      %s steps skipped, because a gradient overflowed\n",
               number_grouped(report->account->skipped_steps).text);
    if (report->progress->rollbacks > 0)
        printf("rollback  %u time%s to a checkpoint: the learning rate is 1 / %u of what was set\n",
               (unsigned)report->progress->rollbacks, report->progress->rollbacks == 1 ? "" : "s",
               1u << report->progress->rollbacks);
    if (report->plan->devices.mode->serves == SERVES_EACH)
        print_staleness(&report->account->staleness);
    if (!report->plan->devices.mode->is_one_model && report->plan->schedule.towers > 1)
        wrapped_print(stdout, "note      each tower is a model of its own: loss and accuracy are means over all of "
                              "them, the saved weights are tower 0's");
    if (facts.steps > 0) {
        print_speed(report);
        print_training(report);
        print_time(report);
        print_feed(report, end);
        if (report->directory != NULL)
            print_cost(report);
    }
    print_warnings(end->counts.loader.decoder_warnings);
    report_damage_print(end->counts.damage, end->counts.loader.corrupt_records, report->directory, stdout);
    wrapped_print(stdout, "verdict   %s", verdict.text);
    report->is_over = end->early == NULL;
    if (!is_written && report->settings->result_out != NULL) {
        log_message(LOG_ERROR, "the result cannot be written to stdout");
        (void)write_summary(report, end, &verdict);
        return -EIO;
    }
    return write_summary(report, end, &verdict);
}
