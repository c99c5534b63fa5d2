/* An evaluation from settings to its report, in main's thread. */
#include "tools/predict/evaluate.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "loader/loader.h"
#include "stage/clock.h"
#include "stage/log.h"
#include "stage/text/decimal.h"
#include "stage/text/text_stream.h"
#include "tools/phase.h"
#include "tools/predict/evaluation_report.h"
#include "tools/predict/found_weights.h"
#include "tools/predict/known_names.h"
#include "tools/predict/trained.h"
#include "tools/results/weights.h"
#include "tools/run/run_data.h"
#include "tools/shards/result_file.h"
#include "tools/signals.h"
#include "tools/text/wrapped.h"

struct evaluation {
    struct settings *settings;
    const struct evaluate_request *request;
    const char *weights_path;       /* lent by the request, or found_path */
    char found_path[PATH_MAX];
    struct trained trained;
    struct dataset *dataset;
    struct known_names names;
    struct ring *ring;
    struct loader *loader;
    struct loader_counts counts;
    struct confusion confusion;
    double loss_sum;
    uint64_t began_ns, wall_ns;
};

static int out_of_memory(const char *what)
{
    log_message(LOG_ERROR, "%s: %s", what, strerror(ENOMEM));
    return EXIT_CODE_MEMORY;
}

/* ---- what is evaluated ---- */

static int find_weights(struct evaluation *evaluation)
{
    evaluation->weights_path = evaluation->request->weights;
    if (evaluation->weights_path != NULL)
        return 0;
    const int code = found_weights(evaluation->settings, evaluation->found_path);
    evaluation->weights_path = evaluation->found_path;
    return code;
}

static int open_data(struct evaluation *evaluation)
{
    const struct data_settings *const data = &evaluation->settings->data;
    struct problems problems;
    phase_enter(RUN_PHASE_INDEXING);
    if (*data->validation == '\0' && data->validation_split == 0) {
        log_message(LOG_ERROR, "there is nothing to evaluate on: set data.validation, as with "
                               "--set data.validation='validation-*'");
        return EXIT_CODE_USAGE;
    }
    problems_init(&problems);
    const int rc = run_data_open_validation(&evaluation->dataset, evaluation->settings, evaluation->trained.net, false,
                                            &problems);
    problems_print(&problems);
    const int code = rc == 0 ? 0 : problems_code(&problems, exit_code_of(rc, EXIT_CODE_DATA));
    problems_release(&problems);
    if (code != 0)
        return signals_exit_code() != 0 ? signals_exit_code() : code;
    return known_names_find(&evaluation->names, &evaluation->trained, evaluation->dataset);
}

static int prepare(struct evaluation *evaluation)
{
    const struct evaluate_request *const request = evaluation->request;
    int code = request->csv != NULL ? result_file_check(request->csv, request->may_replace) : 0;
    if (code == 0)
        code = find_weights(evaluation);
    if (code == 0)
        code = trained_open(&evaluation->trained, evaluation->settings, evaluation->weights_path);
    if (code == 0)
        code = open_data(evaluation);
    phase_enter(RUN_PHASE_PLANNING);
    if (code == 0)
        code = trained_plan(&evaluation->trained, evaluation->dataset, evaluation->dataset->record_count);
    if (code != 0)
        return code;
    const struct net *const net = evaluation->trained.net;
    return confusion_init(&evaluation->confusion, net->classes, evaluation->dataset->record_count) == 0
               ? signals_exit_code()
               : out_of_memory("the counts of all samples");
}

/* ---- batches ---- */

static int start_loader(struct evaluation *evaluation)
{
    struct trained *const trained = &evaluation->trained;
    const struct dataset *const datasets[PHASE_COUNT] = { [PHASE_EVALUATE] = evaluation->dataset };
    struct loader_spec spec = run_plan_loader(&trained->plan, evaluation->settings, datasets);
    evaluation->ring = inference_ring(trained->inference);
    spec.rings = &evaluation->ring;
    spec.stop = trained->stop;
    const int rc = loader_start(&evaluation->loader, &spec);
    if (rc != 0 && !stop_failed(trained->stop))
        stop_fail(trained->stop, exit_code_of(rc, EXIT_CODE_MEMORY), "the loader could not be started: %s",
                  exit_cause(rc));
    return rc == 0 ? 0 : (int)stop_code(trained->stop);
}

static void add_batch(struct evaluation *evaluation, const struct inference_batch *batch)
{
    const uint32_t classes = evaluation->trained.net->classes;
    evaluation->loss_sum += batch->result.loss_sum;
    for (uint32_t i = 0; i < batch->slice.count; i++)
        if (batch->labels[i] != BATCH_NO_LABEL)
            confusion_add(&evaluation->confusion, batch->logits + (size_t)i * classes, (uint32_t)batch->labels[i]);
}

static int run_batches(struct evaluation *evaluation)
{
    struct trained *const trained = &evaluation->trained;
    struct inference_batch batch;
    int rc;
    phase_enter(RUN_PHASE_EVALUATING);
    evaluation->began_ns = clock_now_ns();
    while ((rc = inference_next(trained->inference, &batch)) == 0)
        add_batch(evaluation, &batch);
    evaluation->wall_ns = clock_now_ns() - evaluation->began_ns;
    if (stop_failed(trained->stop))
        return (int)stop_code(trained->stop);
    if (rc != -ENODATA || signals_exit_code() != 0)
        return signals_exit_code();
    if (isfinite(evaluation->loss_sum))
        return 0;
    log_message(LOG_ERROR, "%s: the loss is not a finite number", evaluation->weights_path);
    return EXIT_CODE_NONFINITE;
}

static void end_loader(struct evaluation *evaluation)
{
    phase_enter(RUN_PHASE_CLOSING);
    signals_set_callback(NULL, NULL, false);
    if (evaluation->loader == NULL)
        return;
    loader_end(evaluation->loader);
    loader_join(evaluation->loader, &evaluation->counts);
    loader_close(evaluation->loader);
    evaluation->loader = NULL;
}

static int compute(struct evaluation *evaluation)
{
    struct inference *const inference = evaluation->trained.inference;
    phase_enter(RUN_PHASE_ALLOCATING);
    int code = inference_begin(inference);
    if (code != 0)
        return code;
    signals_set_callback(inference_end, inference, false);
    code = start_loader(evaluation);
    if (code == 0)
        code = run_batches(evaluation);
    end_loader(evaluation);
    return code;
}

/* ---- the report ---- */

/* As the file says, which may say anything. */
static uint64_t steps_of(const struct initial_weights *weights)
{
    const char *const text = initial_weights_text(weights, WEIGHTS_STEPS);
    uint64_t steps;
    return text != NULL && decimal_u64(text, &steps) ? steps : UINT64_MAX;
}

static struct evaluation_report report_of(const struct evaluation *evaluation)
{
    const struct confusion *const confusion = &evaluation->confusion;
    return (struct evaluation_report){
        .model = evaluation->trained.net->model,
        .weights = evaluation->weights_path,
        .steps = steps_of(evaluation->trained.weights),
        .confusion = confusion,
        .names = evaluation->names.names,
        .loss = confusion->samples > 0 ? evaluation->loss_sum / (double)confusion->samples : NAN,
        .unreadable = evaluation->counts.corrupt_records,
        .seconds = (double)evaluation->wall_ns / 1e9,
    };
}

static void print_subject(const struct evaluation *evaluation, const struct evaluation_report *report)
{
    const struct dataset *const datasets[PHASE_COUNT] = { [PHASE_EVALUATE] = evaluation->dataset };
    char steps[64] = "";
    if (report->steps != UINT64_MAX)
        snprintf(steps, sizeof(steps), ", after %" PRIu64 " step%s", report->steps, report->steps == 1 ? "" : "s");
    wrapped_print(stdout, "model     %s", report->model);
    wrapped_print(stdout, "weights   %s%s", report->weights, steps);
    run_data_print(datasets, stdout);
    trained_print_device(&evaluation->trained, stdout);
}

static int write_csv(const struct evaluation_report *report, const struct evaluate_request *request)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *const out = open_memstream(&text, &bytes);
    if (out == NULL)
        return out_of_memory("the confusion matrix");
    evaluation_write_csv(report, out);
    if (text_stream_end(out, &text) != 0)
        return out_of_memory("the confusion matrix");
    const int code = result_file_write(request->csv, request->may_replace, &(struct file_part){ text, bytes }, 1);
    free(text);
    return code;
}

static int tell(struct evaluation *evaluation)
{
    confusion_finish(&evaluation->confusion);
    const struct evaluation_report report = report_of(evaluation);
    if (evaluation->request->is_json) {
        if (evaluation_write_json(&report, stdout) != 0)
            return out_of_memory("the report");
    } else if (evaluation->request->is_quiet) {
        evaluation_print_result(&report, stdout);
    } else {
        print_subject(evaluation, &report);
        evaluation_print(&report, stdout);
    }
    return evaluation->request->csv != NULL ? write_csv(&report, evaluation->request) : 0;
}

static void release(struct evaluation *evaluation)
{
    trained_close(&evaluation->trained);
    confusion_release(&evaluation->confusion);
    known_names_release(&evaluation->names);
    dataset_close(evaluation->dataset);
}

int evaluate(struct settings *settings, const struct evaluate_request *request)
{
    struct evaluation evaluation = { .settings = settings, .request = request };
    int code = prepare(&evaluation);
    if (code == 0)
        code = compute(&evaluation);
    if (code == 0)
        code = tell(&evaluation);
    release(&evaluation);
    return code;
}
