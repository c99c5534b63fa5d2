/* Sets up the pipeline of an evaluation, from a configuration or from weights alone, and runs it. Called by the main
 * thread. */
#include "tools/predict/trained.h"

#include <errno.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compute/net.h"
#include "stage/clock.h"
#include "stage/file/file.h"
#include "stage/log.h"
#include "stage/stop.h"
#include "stage/text/output.h"
#include "stage/text/program_folder.h"
#include "tools/lib/config/config.h"
#include "tools/lib/config/pixels.h"
#include "tools/lib/config/recipes.h"
#include "tools/lib/config/settings_model.h"
#include "tools/lib/phase.h"
#include "tools/lib/results/run_names.h"
#include "tools/lib/results/tensor_file.h"
#include "tools/lib/results/weights.h"
#include "tools/lib/run/environment.h"
#include "tools/lib/run/ranks/startup_abort.h"
#include "tools/lib/run/run_data.h"
#include "tools/lib/run/run_plan.h"
#include "tools/lib/run/run_state.h"
#include "tools/lib/run/team_wait.h"
#include "tools/lib/signals.h"
#include "tools/lib/text/number.h"
#include "tools/lib/text/wrapped.h"

/* ---- settings from the metadata of weights ---- */

/* Read the model from its text, which is untrusted. */
static int read_model_text(struct settings *settings, const char *text, const char *path, struct problems *problems)
{
    struct net *net = NULL;
    settings->model_text = strdup(text);
    settings->model_bytes = strlen(text);
    if (settings->model_text == NULL)
        return -ENOMEM;
    const int rc = settings_open_net(settings, &net);
    if (rc == -EINVAL)
        problems_add(problems, path, "its description of a network is invalid: name a model with --model=NAME, or give "
                                     "the configuration with -c FILE");
    if (rc == 0)
        pixels_check_resize(settings, net->input, problems);
    net_close(net);
    return rc;
}

static int read_model(struct settings *settings, const struct network_arguments *arguments,
                      const struct safetensors_index *index, struct problems *problems)
{
    const char *const text = safetensors_index_text(index, WEIGHTS_NET);
    pixels_choose_scaling(settings);
    const bool is_set = settings_origin(settings, SECTION_MODEL, "name")->origin > ORIGIN_MODEL ||
                        settings_origin(settings, SECTION_MODEL, "file")->origin > ORIGIN_MODEL;
    if (arguments->model == NULL && !is_set && text != NULL)
        return read_model_text(settings, text, arguments->weights, problems);
    if (arguments->model == NULL && !is_set) {
        problems_add(problems, arguments->weights, "does not contain its network: name it with --model=NAME, or give "
                                                   "the configuration with -c FILE");
        return -EINVAL;
    }
    int rc = arguments->model != NULL ? settings_choose_model(settings, "--model", arguments->model, problems) : 0;
    if (rc == 0)
        rc = settings_find_model(settings, problems);
    return rc == 0 ? recipe_apply_evaluation(settings) : rc;
}

static int read_weights_settings(struct settings *settings, const struct network_arguments *arguments,
                                 struct problems *problems)
{
    char problem[256];
    struct tensor_file file;
    int rc = tensor_file_open(&file, arguments->weights, problem, sizeof(problem));
    if (rc != 0) {
        problems_add(problems, arguments->weights, "%s", problem[0] != '\0' ? problem : strerror(-rc));
        return rc;
    }
    rc = config_collect(settings, &arguments->config, problems);
    if (rc == 0)
        rc = read_model(settings, arguments, &file.index, problems);
    tensor_file_close(&file);
    return rc;
}

static int own_network_settings(struct settings *settings, const struct network_arguments *arguments)
{
    struct problems problems;
    problems_init(&problems);
    const int rc = read_weights_settings(settings, arguments, &problems);
    const int code = rc == -EBADMSG || rc == -ENODATA ? EXIT_CODE_DATA : (int)exit_code_of(rc, EXIT_CODE_USAGE);
    const bool is_right = rc == 0 && problems.count == 0;
    return problems_end(&problems, is_right ? 0 : code);
}

/* ---- settings from a configuration ---- */

void trained_set_batch(struct settings *settings, int64_t batch)
{
    settings->train.batch = batch;
    settings->train.batch_per_tower = 0;
    settings->train.accumulate = 1;
    settings->train.slices = 0;
    settings->model.parts = 0;
    settings->devices.towers = 1;
    settings->sync.mode = SYNC_REPLICATED;
    settings->sync.consistency = CONSISTENCY_STRONG;
    settings->input.source = INPUT_REAL;
}

/* Set the batch to the number of samples that each tower computed at once in training. */
static void set_batch_of_training(struct settings *settings)
{
    const int64_t parts = settings->train.slices > 0 ? settings->train.slices : settings->devices.towers;
    trained_set_batch(settings, (settings_batch(settings) + parts - 1) / parts);
}

static int collect(struct settings *settings, const struct network_arguments *arguments, struct problems *problems)
{
    const int rc = config_collect(settings, &arguments->config, problems);
    settings->only_classifies = true;
    return rc != 0 && rc != -EINVAL ? rc : run_data_finish_settings(settings, problems);
}

static int trained_read_settings(struct settings *settings, const struct network_arguments *arguments)
{
    struct problems problems;
    problems_init(&problems);
    const int rc = collect(settings, arguments, &problems);
    if (rc != 0 || problems.count > 0)
        return problems_end(&problems, exit_code_of(rc, EXIT_CODE_USAGE));
    set_batch_of_training(settings);
    return 0;
}

/* Can the file be read again? A pipe cannot. */
static bool can_be_read_again(const char *path)
{
    struct stat status;
    return *path == '\0' || (stat(path, &status) == 0 && S_ISREG(status.st_mode));
}

void trained_settle(const struct settings *settings, char **argv, uint64_t process_start_ns)
{
    if (can_be_read_again(settings->config_path) && can_be_read_again(settings->model.file) &&
        run_plan_has_teams(settings))
        team_wait_shorten(argv, process_start_ns);
    run_name_report_followed(settings);
    pixels_warn(settings);
}

/* ---- network and weights ---- */

int trained_open(struct trained *trained, struct settings *settings, const char *weights_path, enum weights_use use)
{
    struct problems problems;
    *trained = (struct trained){ .settings = settings, .weights_path = weights_path };
    memory_bound_images(settings);
    if (stop_open(&trained->stop) != 0 || settings_open_net(settings, &trained->net) != 0)
        return network_no_memory("the model");
    problems_init(&problems);
    int rc = initial_weights_open(&trained->weights, weights_path, trained->net, NULL, run_data_classes(settings),
                                  &problems);
    if (rc == 0)
        rc = weights_agree(trained->weights, weights_path, settings, trained->net, use, &problems);
    const int code = problems_end(&problems, rc == 0         ? 0
                                             : rc == -EINVAL ? EXIT_CODE_USAGE
                                                             : (int)exit_code_of(rc, EXIT_CODE_DATA));
    if (code == 0)
        initial_weights_report_names(trained->weights);
    return code;
}

int trained_open_data(struct trained *trained, bool is_any_label_taken)
{
    struct problems problems;
    phase_enter(RUN_PHASE_INDEXING);
    problems_init(&problems);
    const int rc = run_data_open_validation(&trained->dataset, trained->settings, trained->net, is_any_label_taken,
                                            &problems);
    const int code = problems_end(&problems, rc == 0 ? 0 : (int)exit_code_of(rc, EXIT_CODE_DATA));
    return code != 0 && signals_exit_code() != 0 ? signals_exit_code() : code;
}

/* ---- the plan ---- */

static int choose_device(struct trained *trained, struct problems *problems)
{
    const int rc = run_devices_init(&trained->plan.devices, trained->settings, problems);
    if (rc != 0)
        return problems_end(problems, rc == -ENODEV ? EXIT_CODE_DEVICE : EXIT_CODE_USAGE);
    if (trained->plan.devices.backend->computes)
        return 0;
    problems_add(problems, "[devices] kind", "%s computes nothing: use auto, cpu or cuda",
                 trained->plan.devices.ops->kind);
    return problems_end(problems, EXIT_CODE_USAGE);
}

static int plan_samples(struct trained *trained, uint64_t samples, struct problems *problems)
{
    const struct dataset *const datasets[PHASE_COUNT] = { [PHASE_EVALUATE] = trained->dataset };
    trained->plan.only_evaluated = samples;
    trained->plan.is_fed = trained->dataset == NULL;
    const int rc = run_plan_init(&trained->plan, trained->settings, trained->net, datasets, problems);
    return problems_end(problems, rc == 0 ? 0 : EXIT_CODE_USAGE);
}

static int open_pipeline(struct trained *trained, const struct pipeline_input *input)
{
    struct pipeline_parts parts = {
        .settings = trained->settings,
        .plan = &trained->plan,
        .net = trained->net,
        .datasets = { [PHASE_EVALUATE] = trained->dataset },
        .reports_outputs = true,
        .stop = trained->stop,
    };
    if (input != NULL)
        parts.input = *input;
    if (pipeline_open(&trained->pipeline, &parts) != 0)
        return (int)stop_code(trained->stop);
    return pipeline_check_memory(trained->pipeline);
}

int trained_plan(struct trained *trained, uint64_t samples, const struct pipeline_input *input)
{
    struct problems problems;
    problems_init(&problems);
    int code = choose_device(trained, &problems);
    if (code == 0)
        code = plan_samples(trained, samples, &problems);
    if (code == 0)
        environment_warn(&trained->plan);
    problems_release(&problems);
    return code == 0 ? open_pipeline(trained, input) : code;
}

/* ---- batches ---- */

static int begin(struct trained *trained)
{
    phase_enter(RUN_PHASE_ALLOCATING);
    signals_set_callback(pipeline_request_stop, trained->pipeline, false);
    if (pipeline_allocate(trained->pipeline) != 0)
        return (int)stop_code(trained->stop);
    const int code = run_weights_write(trained->weights, trained->pipeline, &trained->plan);
    (void)malloc_trim(0);       /* frees the buffer for the largest parameter, which is not needed any more */
    return code;
}

static void run_batches(struct trained *trained, bool (*add)(void *arg, const struct step_report *report), void *arg)
{
    const uint64_t began_ns = clock_now_ns();
    struct step_report **reports;
    bool goes_on = true;
    phase_enter(RUN_PHASE_EVALUATING);
    pipeline_go(trained->pipeline);
    while (goes_on && pipeline_step(trained->pipeline, &reports) == 0) {
        goes_on = add(arg, reports[0]);
        pipeline_give_back(trained->pipeline);
    }
    trained->wall_ns = clock_now_ns() - began_ns;
}

static void close_pipeline(struct trained *trained)
{
    struct pipeline_counts counts = { .damage = NULL };
    phase_enter(RUN_PHASE_CLOSING);
    signals_set_callback(NULL, NULL, false);
    pipeline_close(trained->pipeline, &counts);
    trained->pipeline = NULL;
    trained->counts = counts.loader;
    free(counts.damage);
}

int trained_evaluate(struct trained *trained, bool (*add)(void *arg, const struct step_report *report), void *arg)
{
    const int code = begin(trained);
    if (code == 0)
        run_batches(trained, add, arg);
    close_pipeline(trained);
    if (code != 0)
        return code;
    return stop_failed(trained->stop) ? (int)stop_code(trained->stop) : signals_exit_code();
}

void trained_close(struct trained *trained)
{
    pipeline_close(trained->pipeline, NULL);
    initial_weights_close(trained->weights);
    net_close(trained->net);
    stop_close(trained->stop);
    dataset_close(trained->dataset);
    *trained = (struct trained){ .settings = NULL };
}

void trained_print_device(const struct trained *trained, FILE *out)
{
    const struct run_plan *const plan = &trained->plan;
    const uint32_t threads = plan->threads_per_tower;
    char more[64] = "";
    if (plan->devices.ops->host_memory)
        snprintf(more, sizeof(more), ", %u thread%s", threads, threads == 1 ? "" : "s");
    wrapped_print(out, "device    %s, %s, %s%s, batches of %u", plan->devices.ops->kind, run_plan_backend(plan).text,
                  precision_name(trained->settings->devices.precision), more, plan->schedule.batch);
}

/* ---- commands ---- */

int network_no_memory(const char *what)
{
    log_message(LOG_ERROR, "%s: %s", what, strerror(ENOMEM));
    return EXIT_CODE_MEMORY;
}

int network_arguments_check(const struct network_arguments *arguments, const char *command, const char *example)
{
    if (arguments->config.path != NULL && arguments->model != NULL)
        log_message(LOG_ERROR, "%s: -m %s and -c both name a network: give only one of them", command,
                    arguments->model);
    else if (arguments->config.path == NULL && arguments->weights == NULL)
        log_message(LOG_ERROR, "%s: no weights and no configuration given: %spipetrain %s (see --help)", command,
                    program_folder(), example);
    else
        return 0;
    return -EINVAL;
}

void network_arguments_warn(const struct network_arguments *arguments, const struct settings *settings,
                            const char *command, unsigned uses)
{
    uses |= (arguments->weights == NULL ? USED_OF_RUN : 0u) | (arguments->config.path != NULL ? USED_WITH_CONFIG : 0u);
    option_unused_warn(settings, command, uses);
}

static int run_command(const struct network_command *command, const struct network_arguments *arguments, char **argv,
                       uint64_t process_start_ns)
{
    struct settings settings;
    int code = startup_refuse_command(argv[1]);
    if (code != 0)
        return code;
    if (settings_init(&settings) != 0)
        return network_no_memory("the settings");
    code = arguments->config.path != NULL ? trained_read_settings(&settings, arguments)
                                      : own_network_settings(&settings, arguments);
    if (code == 0)
        code = command->run(&settings, arguments, argv, process_start_ns);
    settings_release(&settings);
    return code;
}

/* Replace a run directory in the weights by the file there. 0, or an exit code after a message. */
static int choose_in_folder(struct network_arguments *arguments)
{
    struct stat status;
    struct found_weights found;
    const char *const folder = arguments->weights;
    const bool is_folder = folder != NULL && stat(folder, &status) == 0 && S_ISDIR(status.st_mode);
    if (folder != NULL && !is_folder && arguments->wants_last) {
        log_message(LOG_ERROR, "--last chooses among the weights of a run directory, but %s is none", folder);
        return EXIT_CODE_USAGE;
    }
    if (!is_folder)
        return 0;
    const int rc = found_weights_in(folder, arguments->wants_last, false, &found);
    if (rc != 0) {
        log_message(LOG_ERROR, "%s: %s", folder, rc != -ENOENT ? strerror(-rc)
                    : "the directory has no weights: no " WEIGHTS_FILE ", " CHECKPOINT_BEST_FILE " or checkpoint");
        return exit_code_of(rc, EXIT_CODE_DATA);
    }
    arguments->folder = folder;
    snprintf(arguments->in_folder, sizeof(arguments->in_folder), "%s", found.path);
    arguments->weights = arguments->in_folder;
    return 0;
}

int network_weights(const struct network_arguments *arguments, const struct settings *settings,
                    struct found_weights *found_out)
{
    if (arguments->folder != NULL)
        return found_weights_in(arguments->folder, arguments->wants_last, true, found_out) == 0 ? 0 : EXIT_CODE_DATA;
    if (arguments->weights == NULL)
        return found_weights_of_run(settings, arguments->wants_last, found_out);
    found_weights_describe(arguments->weights, found_out);
    return 0;
}

int network_output_check(const struct settings *settings, const char *weights, const char *output)
{
    const char *const inputs[] = { weights, settings->config_path, settings->model.file, settings->data.class_names };
    for (size_t i = 0; i < sizeof(inputs) / sizeof(inputs[0]); i++)
        if (*inputs[i] != '\0' && file_is_same(inputs[i], output)) {
            log_message(LOG_ERROR, "%s: is read by the command: name another output", output);
            return EXIT_CODE_USAGE;
        }
    return EXIT_CODE_OK;
}

int network_command_run(const struct network_command *command, struct network_arguments *arguments, int argc,
                        char **argv, uint64_t process_start_ns)
{
    int first;
    output_end_with_reader();
    const int rc = program_options_read(command->line, argc - 1, argv + 1, arguments, &first);
    int code = (int)exit_code_of(rc, EXIT_CODE_USAGE);
    if (rc == 0 && arguments->wants_help) {
        (void)output_start();       /* if this fails, output is unbuffered */
        command->print_usage(stdout);
        code = EXIT_CODE_OK;
    } else if (rc == 0 && command->check(arguments, argv + 1 + first, argc - 1 - first) == 0) {
        code = choose_in_folder(arguments);
        if (code == 0)
            code = run_command(command, arguments, argv, process_start_ns);
    }
    config_arguments_release(&arguments->config);
    return code;
}

int network_command_start_signals(void)
{
    const int rc = signals_start();
    if (rc == 0)
        return 0;
    log_message(LOG_ERROR, "signal handling cannot start: %s", exit_cause(rc));
    return EXIT_CODE_MEMORY;
}
