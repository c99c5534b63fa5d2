/* pipetrain evaluate: command line -> settings -> evaluation -> result. Main thread only. */
#include "tools/predict/evaluate.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stage/log.h"
#include "stage/text/decimal.h"
#include "stage/text/shell_word.h"
#include "stage/text/text_stream.h"
#include "tools/lib/config/program_option.h"
#include "tools/lib/phase.h"
#include "tools/lib/results/result_file.h"
#include "tools/lib/results/trained_shards.h"
#include "tools/lib/results/weights.h"
#include "tools/lib/run/run_data.h"
#include "tools/lib/signals.h"
#include "tools/lib/text/number.h"
#include "tools/lib/text/wrapped.h"
#include "tools/predict/evaluation_result.h"
#include "tools/predict/known_names.h"
#include "tools/predict/trained.h"

#define CSV_MOST (UINT64_C(1) << 30)    /* bytes of the confusion matrix, which is in memory before it is written */

struct evaluate_request {
    const struct network_arguments *network;
    const char *csv;            /* file for the confusion matrix; NULL: none */
    bool may_replace;           /* replace an existing file */
    bool is_json;
    bool is_quiet;              /* print only the line with the result */
};

struct evaluation {
    struct settings *settings;
    const struct evaluate_request *request;
    struct found_weights found;
    struct trained trained;
    struct known_names names;
    struct confusion confusion;
    double loss_sum;
};

/* ---- network and data ---- */

/* Warn if the weights were trained on these shards; not if a part was held out, which is in the same shards. */
static void warn_of_trained(const struct trained *trained)
{
    char path[1024];
    uint32_t first = 0;
    const struct data_settings *const data = &trained->settings->data;
    const struct dataset *const dataset = trained->dataset;
    const char *const text = initial_weights_text(trained->weights, WEIGHTS_SHARDS);
    if (data->validation_split > 0 || data->allow_overlap || trained_shards_count(text, dataset, &first) == 0)
        return;
    log_escape(dataset->paths[first], strlen(dataset->paths[first]), path, sizeof(path));
    log_message(LOG_RUN, "%s was trained on shards of this set, such as %s: the result says nothing of other images "
                "(data.allow_overlap = yes: that is intended)", trained->weights_path, path);
}

static int open_data(struct evaluation *evaluation)
{
    const struct data_settings *const data = &evaluation->settings->data;
    if (*data->validation == '\0' && data->validation_split == 0) {
        const char *const folder = evaluation->request->network->folder;
        char conf[PATH_MAX], quoted[PATH_MAX];
        snprintf(conf, sizeof(conf), "%s/run.conf", folder != NULL ? folder : "");
        log_message(LOG_ERROR, "there is no validation set: set data.validation, for example with "
                               "--set data.validation='validation-*'%s%s", folder != NULL ? ", or take that of the run: "
                               "-c " : "", folder != NULL ? shell_word(conf, quoted, sizeof(quoted)) : "");
        return EXIT_CODE_USAGE;
    }
    const int code = trained_open_data(&evaluation->trained, false);
    if (code == 0)
        warn_of_trained(&evaluation->trained);
    return code == 0 ? known_names_find(&evaluation->names, &evaluation->trained) : code;
}

/* Refuse a matrix of very many classes, almost all of which would be zeros. */
static int check_csv(const struct evaluation *evaluation)
{
    const uint32_t classes = evaluation->trained.net->classes;
    const uint64_t samples = evaluation->trained.dataset->record_count, bytes = evaluation_csv_bytes(classes, samples);
    if (evaluation->request->csv == NULL || bytes <= CSV_MOST)
        return 0;
    log_message(LOG_ERROR, "--csv: the matrix of %s classes and %s samples would be at least %s of text: use --json, "
                "which lists the pairs of classes that occur", number_grouped(classes).text,
                number_grouped(samples).text, number_bytes(bytes).text);
    return EXIT_CODE_USAGE;
}

static int prepare(struct evaluation *evaluation)
{
    const struct evaluate_request *const request = evaluation->request;
    int code = request->csv != NULL ? result_file_check(request->csv, request->may_replace) : 0;
    if (code == 0)
        code = network_weights(request->network, evaluation->settings, &evaluation->found);
    if (code == 0 && request->csv != NULL)
        code = network_output_check(evaluation->settings, evaluation->found.path, request->csv);
    if (code == 0)
        code = trained_open(&evaluation->trained, evaluation->settings, evaluation->found.path,
                            WEIGHTS_EVALUATED);
    if (code == 0)
        code = open_data(evaluation);
    if (code == 0)
        code = check_csv(evaluation);
    phase_enter(RUN_PHASE_PLANNING);
    if (code == 0)
        code = trained_plan(&evaluation->trained, evaluation->trained.dataset->record_count, NULL);
    if (code != 0)
        return code;
    const struct net *const net = evaluation->trained.net;
    return confusion_init(&evaluation->confusion, net->classes, evaluation->trained.dataset->record_count) == 0
               ? signals_exit_code()
               : network_no_memory("the counts of all samples");
}

/* ---- batches ---- */

static bool add_batch(void *arg, const struct step_report *report)
{
    struct evaluation *const evaluation = arg;
    const uint32_t classes = evaluation->trained.net->classes;
    evaluation->loss_sum += report->result.loss_sum;
    for (uint32_t i = 0; i < report->local.count; i++)
        if (report->labels[i] != BATCH_NO_LABEL)
            confusion_add(&evaluation->confusion, report->logits + (size_t)i * classes, (uint32_t)report->labels[i]);
    return true;
}

static int compute(struct evaluation *evaluation)
{
    const int code = trained_evaluate(&evaluation->trained, add_batch, evaluation);
    if (code != 0 || isfinite(evaluation->loss_sum))
        return code;
    log_message(LOG_ERROR, "%s: the loss is not a finite number", evaluation->found.path);
    return EXIT_CODE_NONFINITE;
}

/* ---- the result ---- */

/* Read the number of steps from the metadata of the file, which is untrusted. */
static uint64_t steps_of(const struct initial_weights *weights)
{
    const char *const text = initial_weights_text(weights, WEIGHTS_STEPS);
    uint64_t steps;
    return text != NULL && decimal_u64(text, &steps) ? steps : UINT64_MAX;
}

static struct evaluation_result result_of(const struct evaluation *evaluation)
{
    const struct confusion *const confusion = &evaluation->confusion;
    return (struct evaluation_result){
        .model = evaluation->trained.net->model,
        .weights = evaluation->found.path,
        .steps = steps_of(evaluation->trained.weights),
        .confusion = confusion,
        .names = evaluation->names.names,
        .loss = confusion->samples > 0 ? evaluation->loss_sum / (double)confusion->samples : NAN,
        .unreadable = evaluation->trained.counts.corrupt_records,
        .seconds = (double)evaluation->trained.wall_ns / 1e9,
    };
}

static void print_subject(const struct evaluation *evaluation, const struct evaluation_result *result)
{
    const struct dataset *const datasets[PHASE_COUNT] = { [PHASE_EVALUATE] = evaluation->trained.dataset };
    const struct found_weights *const found = &evaluation->found;
    char steps[64] = "";
    if (result->steps != UINT64_MAX)
        snprintf(steps, sizeof(steps), ", after %" PRIu64 " step%s", result->steps, result->steps == 1 ? "" : "s");
    wrapped_print(stdout, "model     %s", result->model);
    wrapped_print(stdout, "weights   %s%s%s%s%s", result->weights, steps, found->which[0] != '\0' ? ": " : "",
                  found->which, found->is_best ? "; --last: the last ones" : "");
    run_data_print(datasets, stdout);
    trained_print_device(&evaluation->trained, stdout);
}

static int write_csv(const struct evaluation_result *result, const struct evaluate_request *request)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *const out = open_memstream(&text, &bytes);
    if (out == NULL)
        return network_no_memory("the confusion matrix");
    evaluation_write_csv(result, out);
    if (text_stream_end(out, &text) != 0)
        return network_no_memory("the confusion matrix");
    const int code = result_file_write(request->csv, request->may_replace, &(struct file_part){ text, bytes }, 1);
    free(text);
    return code;
}

static int write_result(struct evaluation *evaluation)
{
    confusion_finish(&evaluation->confusion);
    const struct evaluation_result result = result_of(evaluation);
    if (evaluation->request->is_json) {
        if (evaluation_write_json(&result, stdout) != 0)
            return network_no_memory("the result");
    } else if (evaluation->request->is_quiet) {
        evaluation_print_result(&result, stdout);
    } else {
        print_subject(evaluation, &result);
        evaluation_print(&result, stdout);
    }
    return evaluation->request->csv != NULL ? write_csv(&result, evaluation->request) : 0;
}

static int evaluate(struct settings *settings, const struct evaluate_request *request)
{
    struct evaluation evaluation = { .settings = settings, .request = request };
    int code = prepare(&evaluation);
    if (code == 0)
        code = compute(&evaluation);
    if (code == 0)
        code = write_result(&evaluation);
    trained_close(&evaluation.trained);
    confusion_release(&evaluation.confusion);
    known_names_release(&evaluation.names);
    return code;
}

/* ---- the command line ---- */

#define BATCH_ALONE 64          /* the batch size without a configuration, because weights do not contain it */

struct arguments {
    struct network_arguments network;
    struct evaluate_request request;
};

#define FIELD(name) .offset = offsetof(struct arguments, name)

static const struct program_option options[] = {
    { .letter = 'c', .name = "config", .value = "FILE", .store = STORE_TEXT, FIELD(network.config.path),
      .help = "the configuration of the training run" },
    { .letter = 'w', .name = "weights", .value = "FILE", .store = STORE_TEXT, FIELD(network.weights),
      .help = "weights, a checkpoint, or a run directory: its best weights. With -c the default is those of the last "
              "run. Without -c, FILE's metadata names the network and how images are scaled" },
    { .name = "last", .store = STORE_FLAG, FIELD(network.wants_last),
      .help = "of a run: its last weights, not the best ones" },
    { .letter = 'm', .name = "model", .value = "NAME", .store = STORE_TEXT, FIELD(network.model),
      .help = "without -c: the model, if the weights do not name it; a name or a file (mine.net)" },
    { .name = "set", .value = "SECTION.KEY=VALUE", .store = STORE_LIST, FIELD(network.config.assignments),
      .help = "override a key; may be repeated (SECTION. is optional if only one section has KEY)" },
    { .name = "csv", .value = "FILE", .store = STORE_TEXT, FIELD(request.csv), .help = "write the confusion matrix" },
    { .letter = 'f', .name = "force", .store = STORE_FLAG, FIELD(request.may_replace),
      .help = "let --csv replace an existing file" },
    { .name = "json", .store = STORE_FLAG, FIELD(request.is_json), .help = "print the result as one JSON object" },
    { .letter = 'q', .name = "quiet", .store = STORE_FLAG, FIELD(request.is_quiet),
      .help = "print only errors and the result" },
    { .letter = 'h', .name = "help", .store = STORE_FLAG, FIELD(network.wants_help), .help = "this text" },
    { .name = NULL },
};

static const struct program_command command_line = {
    .name = "evaluate", .usage = "pipetrain evaluate", .options = options,
};

static void print_usage(FILE *out)
{
    fputs("Usage: pipetrain evaluate -c FILE [--weights FILE] [OPTION]...\n"
          "  or   pipetrain evaluate -w FILE --set data.validation=SHARDS [OPTION]...\n"
          "Evaluate a trained network on a validation set.\n\n", out);
    program_option_help(options, out);
    fputs("\n"
          "Prints loss, top-1, top-5 and balanced accuracy, precision, recall and F1 of\n"
          "each class, and the confusion matrix, or the most confused pairs of classes if\n"
          "80 columns are too few. Every sample of the validation set counts once. The\n"
          "evaluation uses one tower, with the batch size of one tower in training\n"
          "(without -c: 64). The run directory is only read. Exit status as for\n"
          "pipetrain.\n\n"
          "  pipetrain evaluate -c run.conf\n"
          "  pipetrain evaluate -c run.conf --csv confusion.csv\n"
          "  pipetrain evaluate -c run.conf -w best.safetensors \\\n"
          "      --set data.validation='data/test-*' --json > test.json\n"
          "  pipetrain evaluate -w weights.safetensors --set data.validation='test-*'\n", out);
}

static int check_arguments(void *out, char **words, int count)
{
    const struct arguments *const arguments = out;
    if (count > 0)
        return program_usage_error(&command_line, "unexpected argument '%s'", *words);
    return network_arguments_check(&arguments->network, "evaluate", "evaluate -c run.conf");
}

/* Run the command; at the end it waits for a slow reader of the results. */
static int run_evaluate(struct settings *settings, const void *out, char **argv, uint64_t process_start_ns)
{
    const struct arguments *const arguments = out;
    struct evaluate_request request = arguments->request;
    request.network = &arguments->network;
    signals_block();
    if (arguments->network.config.path == NULL)
        trained_set_batch(settings, settings->train.batch > 0 ? settings->train.batch : BATCH_ALONE);
    if (request.is_quiet)
        log_only_errors();
    trained_settle(settings, argv, process_start_ns);
    network_arguments_warn(&arguments->network, settings, "evaluate", USED_BY_EVALUATE);
    const int code = network_command_start_signals();
    return code == 0 ? evaluate(settings, &request) : code;
}

static const struct network_command command = {
    .line = &command_line, .print_usage = print_usage, .check = check_arguments, .run = run_evaluate,
};

int evaluate_command(int argc, char **argv, uint64_t process_start_ns)
{
    struct arguments arguments = { .request = { .csv = NULL } };
    return network_command_run(&command, &arguments.network, argc, argv, process_start_ns);
}
