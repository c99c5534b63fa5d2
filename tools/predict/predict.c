/* Predictions from images to lines, in main's thread. */
#include "tools/predict/predict.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "loader/loader.h"
#include "stage/log.h"
#include "tools/config/options.h"
#include "tools/phase.h"
#include "tools/predict/image_source.h"
#include "tools/predict/known_names.h"
#include "tools/predict/trained.h"
#include "tools/run/run_data.h"
#include "tools/signals.h"

#define NAME_BYTES 4200u        /* of a record: its shard's path and its number */

struct prediction_run {
    struct settings *settings;
    const struct image_words *words;
    const struct predict_request *request;
    struct trained trained;
    struct dataset *dataset;            /* shards; NULL: files */
    struct known_names names;
    struct prediction_printer printer;
    struct ring *ring;
    struct loader *loader;
    struct image_source *source;
    uint64_t unreadable;
    uint64_t nonfinite;                 /* images whose outputs are no numbers */
};

static int out_of_memory(const char *what)
{
    log_message(LOG_ERROR, "%s: %s", what, strerror(ENOMEM));
    return EXIT_CODE_MEMORY;
}

/* ---- images ---- */

/* Whatever labels there are do not matter, and a damaged record is one that is told of. */
static int take_shards(struct settings *settings, const char *patterns)
{
    char problem[256];
    const struct option_row *const option = option_find(SECTION_DATA, "validation");
    const int rc = option_parse(option, settings, patterns, problem, sizeof(problem));
    if (rc == -ENOMEM)
        return out_of_memory(patterns);
    if (rc != 0) {
        log_message(LOG_ERROR, "%s: %s", patterns, problem);
        return EXIT_CODE_USAGE;
    }
    settings->data.validation_split = 0;
    settings->data.on_corrupt = ON_CORRUPT_SKIP;
    settings->data.max_corrupt = UINT32_MAX;
    return 0;
}

static int open_shards(struct prediction_run *run)
{
    struct problems problems;
    int code = take_shards(run->settings, run->words->shards);
    if (code != 0)
        return code;
    phase_enter(RUN_PHASE_INDEXING);
    problems_init(&problems);
    const int rc = run_data_open_validation(&run->dataset, run->settings, run->trained.net, true, &problems);
    problems_print(&problems);
    code = rc == 0 ? 0 : problems_code(&problems, exit_code_of(rc, EXIT_CODE_DATA));
    problems_release(&problems);
    return code != 0 && signals_exit_code() != 0 ? signals_exit_code() : code;
}

static uint64_t sample_count(const struct prediction_run *run)
{
    return run->dataset != NULL ? run->dataset->record_count : run->words->count;
}

/* Files are no part of what a loader would need. */
static void set_batch(struct prediction_run *run)
{
    const uint64_t count = sample_count(run);
    run->settings->train.batch = count < run->request->batch ? (int64_t)count : run->request->batch;
    run->settings->train.batch_per_tower = 0;
    run->settings->train.accumulate = 1;
    run->settings->devices.towers = 1;
    run->settings->input.source = run->dataset != NULL ? INPUT_REAL : INPUT_SYNTHETIC;
}

static uint32_t longest_path(const struct prediction_run *run)
{
    size_t longest = 0;
    for (uint64_t i = 0; i < run->words->count; i++)
        if (strlen(run->words->paths[i]) > longest)
            longest = strlen(run->words->paths[i]);
    for (uint32_t i = 0; run->dataset != NULL && i < run->dataset->shard_count; i++)
        if (strlen(run->dataset->paths[i]) + 8 > longest)
            longest = strlen(run->dataset->paths[i]) + 8;
    return longest < UINT32_MAX ? (uint32_t)longest : UINT32_MAX;
}

static int open_printer(struct prediction_run *run)
{
    const int code = known_names_find(&run->names, &run->trained, run->dataset);
    if (code != 0)
        return code;
    if (prediction_printer_init(&run->printer, run->trained.net->classes, run->request->top) != 0)
        return out_of_memory("the predictions");
    run->printer.form = run->request->form;
    run->printer.out = stdout;
    run->printer.names = run->names.names;
    run->printer.path_columns = longest_path(run);
    return 0;
}

static int prepare(struct prediction_run *run)
{
    int code = trained_open(&run->trained, run->settings, run->request->weights);
    if (code == 0 && run->words->shards != NULL)
        code = open_shards(run);
    if (code == 0)
        code = open_printer(run);
    if (code != 0)
        return code;
    set_batch(run);
    phase_enter(RUN_PHASE_PLANNING);
    code = trained_plan(&run->trained, run->dataset, sample_count(run));
    return code == 0 ? signals_exit_code() : code;
}

/* ---- batches ---- */

static int start_loader(struct prediction_run *run)
{
    const struct dataset *const datasets[PHASE_COUNT] = { [PHASE_EVALUATE] = run->dataset };
    struct loader_spec spec = run_plan_loader(&run->trained.plan, run->settings, datasets);
    spec.rings = &run->ring;
    spec.stop = run->trained.stop;
    return loader_start(&run->loader, &spec);
}

static int start_source(struct prediction_run *run)
{
    struct stop *const stop = run->trained.stop;
    run->ring = inference_ring(run->trained.inference);
    const struct image_source_spec spec = {
        .paths = run->words->paths,
        .count = run->words->count,
        .plan = &run->trained.plan,
        .ring = run->ring,
        .stop = stop,
    };
    const int rc = run->dataset != NULL ? start_loader(run) : image_source_start(&run->source, &spec);
    if (rc != 0 && !stop_failed(stop))
        stop_fail(stop, exit_code_of(rc, EXIT_CODE_MEMORY), "the images' threads could not be started: %s",
                  exit_cause(rc));
    return rc == 0 ? 0 : (int)stop_code(stop);
}

/* The path of an image, or the place of a record. */
static const char *name_sample(const struct prediction_run *run, uint64_t id, char *room)
{
    if (run->dataset == NULL)
        return run->words->paths[id];
    const struct dataset_place place = dataset_find(run->dataset, id);
    snprintf(room, NAME_BYTES, "%.4096s:%" PRIu64, run->dataset->paths[place.shard],
             dataset_number(run->dataset, &place));
    return room;
}

/* NULL: there were pixels. The loader has told of damaged records itself. */
static const char *problem_of(const struct prediction_run *run, const struct inference_batch *batch, uint32_t i)
{
    if (run->dataset != NULL)
        return batch->labels[i] == BATCH_NO_LABEL ? "is damaged" : NULL;
    return image_source_problem(run->source, batch->ids[i]);
}

/* As evaluation has it, such numbers are no result (exit code 73). */
static bool are_finite(const struct prediction_run *run, const float *logits)
{
    bool all = true;
    for (uint32_t c = 0; c < run->trained.net->classes; c++)
        all = all && isfinite(logits[c]);
    return all;
}

static void tell_batch(struct prediction_run *run, const struct inference_batch *batch)
{
    char room[NAME_BYTES];
    for (uint32_t i = 0; i < batch->slice.count; i++) {
        const char *const name = name_sample(run, batch->ids[i], room), *problem = problem_of(run, batch, i);
        const float *const logits = batch->logits + (size_t)i * run->trained.net->classes;
        if (problem == NULL && are_finite(run, logits)) {
            prediction_print(&run->printer, name, logits);
            continue;
        }
        run->unreadable += problem != NULL;
        run->nonfinite += problem == NULL;
        if (problem == NULL)
            log_message(LOG_RUN, "%s: %s", name, problem = "the network's output for it is not a finite number");
        else if (run->dataset == NULL)
            log_message(LOG_RUN, "%s: %s", name, problem);
        prediction_print_problem(&run->printer, name, problem);
    }
    (void)fflush(stdout);
}

static int run_batches(struct prediction_run *run)
{
    struct trained *const trained = &run->trained;
    struct inference_batch batch;
    int rc;
    phase_enter(RUN_PHASE_EVALUATING);
    prediction_print_head(&run->printer);
    while ((rc = inference_next(trained->inference, &batch)) == 0 && !ferror(stdout))
        tell_batch(run, &batch);
    if (stop_failed(trained->stop))
        return (int)stop_code(trained->stop);
    if (signals_exit_code() != 0)
        return signals_exit_code();
    if (run->unreadable > 0)
        log_message(LOG_ERROR, "%" PRIu64 " of %" PRIu64 " images could not be read", run->unreadable,
                    sample_count(run));
    if (run->nonfinite > 0) {
        log_message(LOG_ERROR, "%s: the network's output for %" PRIu64 " of %" PRIu64 " images is not a finite number",
                    run->request->weights, run->nonfinite, sample_count(run));
        return EXIT_CODE_NONFINITE;
    }
    return run->unreadable + run->words->empty_folders + run->words->unread > 0 ? EXIT_CODE_DATA : 0;
}

static void end_source(struct prediction_run *run)
{
    phase_enter(RUN_PHASE_CLOSING);
    signals_set_callback(NULL, NULL, false);
    inference_end(run->trained.inference);
    if (run->loader != NULL)
        loader_end(run->loader);
    loader_join(run->loader, NULL);
    loader_close(run->loader);
    image_source_close(run->source);
}

static int compute(struct prediction_run *run)
{
    struct inference *const inference = run->trained.inference;
    phase_enter(RUN_PHASE_ALLOCATING);
    int code = inference_begin(inference);
    if (code != 0)
        return code;
    signals_set_callback(inference_end, inference, false);
    code = start_source(run);
    if (code == 0)
        code = run_batches(run);
    end_source(run);
    return code;
}

int predict(struct settings *settings, const struct image_words *words, const struct predict_request *request)
{
    struct prediction_run run = { .settings = settings, .words = words, .request = request };
    int code = prepare(&run);
    if (code == 0)
        code = compute(&run);
    trained_close(&run.trained);
    prediction_printer_release(&run.printer);
    known_names_release(&run.names);
    dataset_close(run.dataset);
    return code;
}
