/* pipetrain export: command line -> settings and weights -> a file for other programs. Main thread only. */
#include "tools/export/export.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "stage/log.h"
#include "stage/stop.h"
#include "stage/text/program_folder.h"
#include "tools/export/export_output.h"
#include "tools/export/export_subject.h"
#include "tools/export/onnx_file.h"
#include "tools/export/torch_module.h"
#include "tools/lib/config/options.h"
#include "tools/lib/config/pixels.h"
#include "tools/lib/config/program_option.h"
#include "tools/lib/phase.h"
#include "tools/lib/results/run_names.h"
#include "tools/lib/signals.h"
#include "tools/lib/text/number.h"
#include "tools/predict/known_names.h"
#include "tools/predict/trained.h"

/* The kinds of files. */
enum export_form { EXPORT_ONNX, EXPORT_TORCH, EXPORT_FORM_COUNT };

static export_writer *const writers[EXPORT_FORM_COUNT] = {
    [EXPORT_ONNX] = onnx_file_write,
    [EXPORT_TORCH] = torch_module_write,
};

struct export_request {
    const char *output;         /* file; "-": standard output */
    bool may_replace;
    bool is_torch;              /* a module for PyTorch instead of an ONNX model */
    struct export_options options;
};

struct arguments {
    struct network_arguments network;
    struct export_request request;
};

/* ---- the export ---- */

static void print_result(const struct trained *trained, const struct export_output *output)
{
    if (strcmp(output->path, "-") != 0)
        printf("%s: %s from %s, %s%s%s\n", output->path, trained->net->model, trained->weights_path,
               number_bytes(output->bytes).text, *output->note != '\0' ? ", " : "", output->note);
}

static int write_output(const struct trained *trained, const struct known_names *names,
                        const struct export_request *request, struct export_output *output)
{
    const struct export_subject subject = {
        .settings = trained->settings,
        .net = trained->net,
        .weights = trained->weights,
        .weights_path = trained->weights_path,
        .names = names->names,
        .options = request->options,
    };
    int code = writers[request->is_torch ? EXPORT_TORCH : EXPORT_ONNX](&subject, output);
    if (code == EXIT_CODE_OK)
        code = export_output_finish(output);
    if (code == EXIT_CODE_OK)
        print_result(trained, output);
    return code;
}

static int export_network(struct settings *settings, const char *weights, const struct export_request *request)
{
    struct trained trained = { .settings = NULL };
    struct known_names names = { .names = NULL };
    struct export_output output;
    int code = export_output_init(&output, request->output, request->may_replace);
    if (code == EXIT_CODE_OK)
        code = network_output_check(settings, weights, request->output);
    if (code == EXIT_CODE_OK)
        code = trained_open(&trained, settings, weights, WEIGHTS_PREDICTED_WITH);
    if (code == EXIT_CODE_OK)
        code = known_names_find(&names, &trained);
    if (code == EXIT_CODE_OK)
        code = write_output(&trained, &names, request, &output);
    export_output_release(&output);
    known_names_release(&names);
    trained_close(&trained);
    return code;
}

/* ---- the command line ---- */

#define FIELD(name) .offset = offsetof(struct arguments, name)

static const char *const layouts[] = { "nchw", "nhwc", NULL }, *const inputs[] = { "uint8", "float", NULL };

static const struct program_option options[] = {
    { .letter = 'w', .name = "weights", .value = "FILE", .store = STORE_TEXT, FIELD(network.weights),
      .help = "weights, a checkpoint, or a run directory: its best weights" },
    { .name = "last", .store = STORE_FLAG, FIELD(network.wants_last),
      .help = "of a run: its last weights, not the best ones" },
    { .letter = 'o', .name = "output", .value = "FILE", .store = STORE_TEXT, FIELD(request.output),
      .help = "the file to write, model.onnx or net.py; -: to stdout" },
    { .letter = 'c', .name = "config", .value = "FILE", .store = STORE_TEXT, FIELD(network.config.path),
      .help = "the configuration of the training run, if the weights do not name their network (the default of -w is "
              "then the best weights of the last run)" },
    { .letter = 'm', .name = "model", .value = "NAME", .store = STORE_TEXT, FIELD(network.model),
      .help = "the model instead: a name or a file (mine.net)" },
    { .name = "set", .value = "SECTION.KEY=VALUE", .store = STORE_LIST, FIELD(network.config.assignments),
      .help = "override a key; may be repeated (SECTION. is optional if only one section has KEY)" },
    { .name = "layout", .value = "LAYOUT", .store = STORE_CHOICE, .choices = layouts, FIELD(request.options.layout),
      .help = "order of the input's dimensions: nchw (default) or nhwc, as decoders of images give them" },
    { .name = "input", .value = "TYPE", .store = STORE_CHOICE, .choices = inputs, FIELD(request.options.input),
      .help = "type of the input's pixels: uint8 (default), or float, also from 0 to 255: the file contains their "
              "normalisation" },
    { .name = "no-fold", .store = STORE_FLAG, FIELD(request.options.keeps_norms),
      .help = "write batch normalisation as layers of its own instead of folding it into convolutions" },
    { .name = "torch", .store = STORE_FLAG, FIELD(request.is_torch),
      .help = "write a Python module for PyTorch instead, which loads the weights from their file" },
    { .letter = 'f', .name = "force", .store = STORE_FLAG, FIELD(request.may_replace),
      .help = "replace an existing file" },
    { .letter = 'h', .name = "help", .store = STORE_FLAG, FIELD(network.wants_help), .help = "this text" },
    { .name = NULL },
};

static const struct program_command command_line = {
    .name = "export", .usage = "pipetrain export", .options = options,
};

static void print_usage(FILE *out)
{
    fputs("Usage: pipetrain export -w FILE -o FILE [OPTION]...\n"
          "Write a trained network as a file for other programs: an ONNX model, or with\n"
          "--torch a module for PyTorch.\n\n", out);
    program_option_help(options, out);
    fputs("\n"
          "The ONNX model takes pixels from 0 to 255 of images that have the size of the\n"
          "network already, and computes logits and probabilities as pipetrain predict\n"
          "does. Its metadata name the classes and say how images are scaled; dropout,\n"
          "auxiliary losses and stochastic depth are left out. The Python module has the\n"
          "network as an nn.Module, and functions that load weights and images. Exit status\n"
          "as for pipetrain.\n\n"
          "  pipetrain export -w runs/run -o model.onnx\n"
          "  pipetrain export -c run.conf -o model.onnx --layout=nhwc\n"
          "  pipetrain export -w resnet50.safetensors -m torchvision_resnet50 -o r50.onnx\n"
          "  pipetrain export -w runs/run --torch -o net.py\n", out);
}

static bool has_onnx_option(const struct export_options *given)
{
    return given->layout != EXPORT_NCHW || given->input != EXPORT_UINT8 || given->keeps_norms;
}

static bool ends_with(const char *text, const char *end)
{
    const size_t bytes = strlen(text), end_bytes = strlen(end);
    return bytes >= end_bytes && strcmp(text + bytes - end_bytes, end) == 0;
}

static int check_arguments(void *out, char **words, int count)
{
    static const char example[] = "export -w runs/run -o model.onnx";
    const struct arguments *const arguments = out;
    if (count > 0)
        return program_usage_error(&command_line, "unexpected argument '%s'", *words);
    const int rc = network_arguments_check(&arguments->network, "export", example);
    if (rc != 0)
        return rc;
    if (arguments->request.output == NULL)
        log_message(LOG_ERROR, "no output given: %spipetrain %s (see --help)", program_folder(), example);
    else if (arguments->request.is_torch && has_onnx_option(&arguments->request.options))
        log_message(LOG_ERROR, "export: --layout, --input and --no-fold are for ONNX: leave them out with --torch");
    else if (*arguments->request.output == '\0')
        log_message(LOG_ERROR, "export: --output: the name of the file is empty");
    else if (arguments->request.is_torch && ends_with(arguments->request.output, ".onnx"))
        log_message(LOG_ERROR, "export: %s: --torch writes a Python module: name it net.py, or leave --torch out for ONNX",
                    arguments->request.output);
    else if (!arguments->request.is_torch && ends_with(arguments->request.output, ".py"))
        log_message(LOG_ERROR, "export: %s: add --torch for a Python module; ONNX models are called model.onnx",
                    arguments->request.output);
    else
        return 0;
    return -EINVAL;
}

static int run_export(struct settings *settings, const void *out, char **argv, uint64_t process_start_ns)
{
    const struct arguments *const arguments = out;
    struct found_weights found;
    (void)argv, (void)process_start_ns;
    signals_block();
    run_name_report_followed(settings);
    pixels_warn(settings);
    network_arguments_warn(&arguments->network, settings, "export", USED_BY_EXPORT);
    int code = network_command_start_signals();
    if (code == EXIT_CODE_OK)
        code = network_weights(&arguments->network, settings, &found);
    if (code != EXIT_CODE_OK)
        return code;
    found_weights_report(&found);
    return export_network(settings, found.path, &arguments->request);
}

static const struct network_command command = {
    .line = &command_line, .print_usage = print_usage, .check = check_arguments, .run = run_export,
};

int export_command(int argc, char **argv, uint64_t process_start_ns)
{
    struct arguments arguments = { .request = { .output = NULL } };
    return network_command_run(&command, &arguments.network, argc, argv, process_start_ns);
}
