/* pipetrain: train a classifier from TFRecord shards. The main function: read the command line and the settings,
 * then run. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "stage/log.h"
#include "stage/stop.h"
#include "stage/text/output.h"
#include "stage/text/program_folder.h"
#include "sync/ranks/launcher.h"
#include "sync/ranks/ranks.h"
#include "tools/compare/compare.h"
#include "tools/describe.h"
#include "tools/doctor/doctor.h"
#include "tools/doctor/sharing.h"
#include "tools/export/export.h"
#include "tools/lib/config/config.h"
#include "tools/lib/config/option_help.h"
#include "tools/lib/config/option_needs.h"
#include "tools/lib/config/options.h"
#include "tools/lib/config/overfit.h"
#include "tools/lib/config/pipetrain_options.h"
#include "tools/lib/config/pixels.h"
#include "tools/lib/config/settings_model.h"
#include "tools/lib/limits.h"
#include "tools/lib/phase.h"
#include "tools/lib/results/run_names.h"
#include "tools/lib/run/environment.h"
#include "tools/lib/run/ranks/core_share.h"
#include "tools/lib/run/ranks/startup_abort.h"
#include "tools/lib/run/ranks/startup_check.h"
#include "tools/lib/run/run.h"
#include "tools/lib/run/run_data.h"
#include "tools/lib/run/run_plan.h"
#include "tools/lib/run/team_wait.h"
#include "tools/lib/signals.h"
#include "tools/lib/trial/trial.h"
#include "tools/lib/version.h"
#include "tools/predict/evaluate.h"
#include "tools/predict/predict.h"
#include "tools/tune/tune.h"

struct arguments {
    char **argv;
    struct pipetrain_arguments words;
    enum run_kind kind;
    int wrong;                          /* exit code of an error in the command line, already reported; 0: none */
    struct launcher launcher;
    char launcher_problem[LAUNCHER_REASON_BYTES];       /* why this process cannot run under the launcher; else "" */
};

static void print_usage(FILE *out)
{
    fprintf(out, "usage: pipetrain -c FILE [--set SECTION.KEY=VALUE]...\n"
                 "                 [--check | --dry-run | --overfit=N]\n"
                 "       pipetrain -c FILE --compare KEY=VALUE,VALUE... [OPTION]...\n"
                 "       pipetrain -c FILE --tune[=SECONDS] [--tune-write]\n"
                 "       pipetrain evaluate -c FILE [--weights FILE] [OPTION]...\n"
                 "       pipetrain predict -w FILE [OPTION]... IMAGE... | FOLDER | SHARDS | -\n"
                 "       pipetrain export -w FILE -o FILE [OPTION]...\n"
                 "       pipetrain --describe[=MODEL] [--net] [-c FILE]\n"
                 "                 [--set SECTION.KEY=VALUE]...\n"
                 "       pipetrain --doctor[=json] [-c FILE] [--set SECTION.KEY=VALUE]...\n"
                 "       pipetrain --help[=KEY] | --version\n\n");
    program_option_help(pipetrain_options, out);
    fprintf(out, "  evaluate                  evaluate a trained network: loss, top-1, top-5,\n"
                 "                            per class\n"
                 "  predict                   classify images with a trained network\n"
                 "  export                    write a trained network as ONNX or for PyTorch\n");
}

/* Print the help of one key or section; for "", the help of the whole program. */
static int help(const char *name)
{
    if (*name == '\0') {
        print_usage(stdout);
        printf("\n");
        option_help_all(stdout);
        return EXIT_CODE_OK;
    }
    struct problems problems;
    problems_init(&problems);
    const int rc = option_help_one(stdout, name, &problems);
    return problems_end(&problems, rc == 0 ? EXIT_CODE_OK : EXIT_CODE_USAGE);
}

static int out_of_memory(const char *what)
{
    log_message(LOG_ERROR, "%s: %s", what, strerror(ENOMEM));
    return EXIT_CODE_MEMORY;
}

/* The checks of keys against each other. Without a configuration file only the settings of the model are completed. */
static int finish_settings(struct settings *settings, const struct arguments *arguments, struct problems *problems)
{
    const char *const model = arguments->words.describe;
    const int rc = model != NULL && *model != '\0' ? settings_choose_model(settings, "--describe", model, problems) : 0;
    if (rc != 0)
        return rc;
    if (arguments->words.config.path == NULL)
        return settings_find_model(settings, problems);
    return run_data_finish_settings(settings, problems);
}

/* --overfit can only be used with real labels and a network that is trained. */
static int finish_overfit(struct settings *settings, int64_t samples, struct problems *problems)
{
    int rc = overfit_apply(settings, samples);
    if (rc == 0)
        rc = run_data_finish_settings(settings, problems);
    if (rc == 0)
        rc = overfit_finish(settings);
    if (rc == -ENOMEM && problems->count == 0)
        problems_add(problems, "pipetrain", "--overfit: %s", strerror(ENOMEM));
    if (rc == 0 && (settings->input.source == INPUT_SYNTHETIC || settings->devices.kind == DEVICE_CHOICE_NULL)) {
        problems_add(problems, "--overfit", "cannot learn with %s",
                     settings->input.source == INPUT_SYNTHETIC ? "input.source = synthetic" : "devices.kind = null");
        rc = -EINVAL;
    }
    return rc;
}

/* Apply the file, then --set, then the checks of keys against each other; all problems are collected before any is
 * printed. Without a file, --set changes the defaults. -ENOMEM: out of memory, the list of problems may be
 * incomplete. */
static int collect_settings(struct settings *settings, const struct arguments *arguments, struct problems *problems)
{
    const int64_t samples = (int64_t)arguments->words.overfit;
    const int rc = config_collect(settings, &arguments->words.config, problems);
    if (rc != 0 && rc != -EINVAL)
        return rc;
    return samples > 0 ? finish_overfit(settings, samples, problems) : finish_settings(settings, arguments, problems);
}

static int read_settings(struct settings *settings, const struct arguments *arguments)
{
    struct problems problems;
    problems_init(&problems);
    const int rc = collect_settings(settings, arguments, &problems);
    const bool is_right = rc == 0 && problems.count == 0;
    return problems_end(&problems, is_right ? EXIT_CODE_OK : (int)exit_code_of(rc, EXIT_CODE_USAGE));
}

/* Print the layers of the model and the preprocessing of its images. */
static int describe_layers(struct settings *settings, const struct net *net)
{
    const int rc = describe_net(net, settings, stdout);
    if (rc != 0)
        return rc;
    printf("\n");
    pixels_print(settings, net, stdout);
    return 0;
}

static int describe_model(struct settings *settings, bool as_file)
{
    struct net *net = NULL;
    int rc = settings_open_net(settings, &net);
    if (rc == 0)
        rc = as_file ? describe_as_file(net, settings, stdout) : describe_layers(settings, net);
    net_close(net);
    if (rc == -ENODEV)
        return EXIT_CODE_DEVICE;        /* reported already */
    if (rc != 0)
        log_message(LOG_ERROR, "cannot describe the model: %s", exit_cause(rc));
    return rc == 0 ? EXIT_CODE_OK : exit_code_of(rc, EXIT_CODE_INTERNAL);
}

static int describe(const struct arguments *arguments)
{
    const struct pipetrain_arguments *const words = &arguments->words;
    struct settings settings;
    if (*words->describe == '\0' && words->config.path == NULL && words->config.assignments.count == 0) {
        describe_models(stdout);
        return EXIT_CODE_OK;
    }
    if (settings_init(&settings) != 0)
        return out_of_memory("the settings");
    int code = read_settings(&settings, arguments);
    if (code == EXIT_CODE_OK)
        code = describe_model(&settings, words->net);
    settings_release(&settings);
    return code;
}

/* Without a configuration only the machine is checked. */
static int doctor(const struct arguments *arguments)
{
    const struct config_arguments *const config = &arguments->words.config;
    enum doctor_form form = DOCTOR_TABLE;
    struct settings settings;
    int code = startup_refuse_command("--doctor");
    if (code != EXIT_CODE_OK)
        return code;
    if (*arguments->words.doctor != '\0' && doctor_form_find(arguments->words.doctor, &form) != 0)
        return EXIT_CODE_USAGE;
    if (config->path == NULL && config->assignments.count > 0) {
        log_message(LOG_ERROR, "--set changes a configuration: %spipetrain --doctor -c run.conf --set ...",
                    program_folder());
        return EXIT_CODE_USAGE;
    }
    if (config->path == NULL)
        return doctor_run(NULL, form);
    if (settings_init(&settings) != 0)
        return out_of_memory("the settings");
    code = read_settings(&settings, arguments);
    if (code == EXIT_CODE_OK)
        code = doctor_run(&settings, form);
    settings_release(&settings);
    return code;
}

/* --quiet: print only errors and the result, and no progress. 0 or an exit code. */
static int be_quiet(struct settings *settings)
{
    const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC), out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    settings->result_out = out >= 0 ? fdopen(out, "w") : NULL;
    if (nowhere < 0 || settings->result_out == NULL || dup2(nowhere, STDOUT_FILENO) < 0) {
        log_message(LOG_ERROR, "--quiet: /dev/null: %s", strerror(errno));
        return EXIT_CODE_OUTPUT;
    }
    close(nowhere);
    log_only_errors();
    settings->report.progress = PROGRESS_NONE;
    return EXIT_CODE_OK;
}

/* Start the thread that writes the output and the thread that handles signals. */
static int start_threads(void)
{
    int rc = output_start();
    if (rc == 0)
        rc = signals_start();
    if (rc != 0)
        log_message(LOG_ERROR, "cannot start the threads for output and signals: %s", exit_cause(rc));
    return rc == 0 ? EXIT_CODE_OK : EXIT_CODE_MEMORY;
}

/* Prepare this process for a run, without the other ranks yet. May restart the program (team_wait_shorten). */
static int prepare(struct settings *settings, const struct arguments *arguments, uint64_t process_start_ns)
{
    if (arguments->kind != RUN_CHECK && trial_can_read_again(arguments->words.config.path) &&
        (*settings->model.file == '\0' || trial_can_read_again(settings->model.file)) && run_plan_has_teams(settings))
        team_wait_shorten(arguments->argv, process_start_ns);
    const int code = arguments->words.quiet ? be_quiet(settings) : EXIT_CODE_OK;
    return code == EXIT_CODE_OK ? start_threads() : code;
}

/* Connect to the other processes that the launcher started. Every process calls this, also after an error (`code`),
 * so that all end together if one of them cannot start. */
static int join_ranks(struct ranks **ranks_out, const struct launcher *launcher, struct settings *settings,
                      enum run_kind kind, int code)
{
    char reason[LAUNCHER_REASON_BYTES];
    const struct mpi_module *module;
    if (launcher->mpi == MPI_LIBRARY_NONE)
        return code;
    if (launcher_load(launcher, &module, reason) != 0)
        return startup_abort(reason);         /* other processes may have found the module */
    const int opened = ranks_open(ranks_out, launcher, module, (uint32_t)settings->sync.deadline);
    if (opened != 0 && !ranks_failed(*ranks_out)) {
        startup_end(*ranks_out);
        return startup_abort_others(opened);
    }
    const struct startup_facts facts = { .kind = kind, .settings = settings };
    const int agreed = opened != 0 ? opened : startup_check_facts(*ranks_out, code, &facts);
    return agreed != 0 ? agreed : core_share_agree(*ranks_out, settings);
}

/* Some launchers send SIGTERM to all processes as soon as one has ended, and exit with the code of that process. So
 * a process that ends only because another rank failed waits, and the failed rank ends first. After a rank has
 * failed, threads of the MPI library may hang or use memory that is already freed: the process ends with _exit. */
#define LEAVE_LATER_S 1

static void leave_ranks(struct ranks *ranks, int code)
{
    if (ranks != NULL)
        signals_ignore();
    startup_end(ranks);
    if (ranks_failed(ranks)) {
        (void)ranks_flush(ranks);       /* other ranks may wait for the message */
        (void)output_end();
        if (code == EXIT_CODE_RANK)
            nanosleep(&(struct timespec){ .tv_sec = LEAVE_LATER_S }, NULL);
        ranks_close(ranks);
        /* `code` is 0 if a rank stopped answering after its last message. */
        _exit(code != 0 ? code : ranks_failure_code(ranks));
    }
    ranks_close(ranks);
}

/* Read the settings, if the command line is correct. 0, or an exit code after messages. */
static int configure(struct settings *settings, const struct arguments *arguments)
{
    if (arguments->wrong != 0)
        return arguments->wrong;
    if (arguments->words.config.path != NULL)
        return read_settings(settings, arguments);
    log_message(LOG_ERROR, "no configuration: use %spipetrain -c run.conf (see --help)", program_folder());
    return EXIT_CODE_USAGE;
}

static int execute(struct settings *settings, const struct arguments *arguments, uint64_t process_start_ns)
{
    struct ranks *ranks = NULL;
    int code = configure(settings, arguments);
    signals_block();
    if (code == EXIT_CODE_OK)
        code = prepare(settings, arguments, process_start_ns);
    code = join_ranks(&ranks, &arguments->launcher, settings, arguments->kind, code);
    if (code == EXIT_CODE_OK) {
        run_name_report_followed(settings);
        option_needs_warn(settings);
        pixels_warn(settings);
        code = run_execute(settings, arguments->kind, process_start_ns, ranks);
    }
    if (settings->result_out != NULL)
        (void)fclose(settings->result_out);     /* the report has written all results, or has reported a failure */
    leave_ranks(ranks, code);
    return code;
}

static int run(const struct arguments *arguments, uint64_t process_start_ns)
{
    const struct launcher *const launcher = &arguments->launcher;
    struct settings settings;
    if (arguments->kind == RUN_CHECK)
        output_end_with_reader();       /* as in `pipetrain --check | head`: only text is lost when the reader ends */
    if (arguments->launcher_problem[0] != '\0')
        return startup_abort(arguments->launcher_problem);
    if (settings_init(&settings) != 0)
        return out_of_memory("the settings");
    settings.rank = launcher->rank;
    settings.ranks = launcher->size;
    settings.local_rank = launcher->local_rank;
    settings.local_ranks = launcher->local_size;
    settings.core_rank = launcher->local_rank;  /* until all ranks have agreed on the cores */
    settings.core_ranks = settings.quota_ranks = launcher->local_size;
    const int code = execute(&settings, arguments, process_start_ns);
    settings_release(&settings);
    return code;
}

static int dispatch(const struct arguments *arguments, uint64_t process_start_ns)
{
    const struct pipetrain_arguments *const words = &arguments->words;
    const bool prints = words->help != NULL || words->version || words->describe != NULL || words->doctor != NULL;
    if (arguments->wrong != 0 || !prints)
        return run(arguments, process_start_ns);
    startup_end(NULL);
    output_end_with_reader();
    (void)output_start();       /* on an error, output is written directly */
    if (words->help != NULL)
        return help(words->help);
    if (words->version) {
        printf("pipetrain %s\n", PIPETRAIN_VERSION);
        return EXIT_CODE_OK;
    }
    return words->doctor != NULL ? doctor(arguments) : describe(arguments);
}

/* A command is selected by the first argument, or by an option anywhere on the command line. */
static const struct command {
    const char *name;
    int (*run)(int argc, char **argv, uint64_t process_start_ns);
} commands[] = {
    { "evaluate", evaluate_command }, { "predict", predict_command }, { "export", export_command },
    { "--tune", tune_command }, { "--tune-write", tune_command }, { "--compare", compare_command },
    { SHARING_COMMAND, sharing_command },       /* children of --doctor; not for users */
};

/* Is this argument the option, alone or as OPTION=VALUE? */
static bool is_option(const char *word, const char *option)
{
    const size_t bytes = strlen(option);
    return strncmp(word, option, bytes) == 0 && (word[bytes] == '\0' || word[bytes] == '=');
}

static bool is_meant(const struct command *command, int argc, char **argv)
{
    if (*command->name != '-')
        return argc > 1 && strcmp(argv[1], command->name) == 0;
    for (int i = 1; i < argc; i++)
        if (is_option(argv[i], command->name))
            return true;
    return false;
}

static const struct command *find_command(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
        if (is_meant(&commands[i], argc, argv))
            return &commands[i];
    return NULL;
}

/* If the process is one of several, only one of them prints, and signals are blocked until all agree on an exit
 * code. */
static int find_launcher(struct arguments *arguments)
{
    struct launcher *const launcher = &arguments->launcher;
    *launcher = (struct launcher){ .size = 1, .local_size = 1 };
    if (launcher_find(launcher, arguments->launcher_problem) != 0)
        return EXIT_CODE_OK;            /* a command like --help needs no launcher */
    arguments->launcher_problem[0] = '\0';
    if (launcher->mpi == MPI_LIBRARY_NONE)
        return EXIT_CODE_OK;
    signals_block();
    return startup_begin(launcher->rank);
}

static int train(int argc, char **argv, uint64_t process_start_ns)
{
    struct arguments arguments = { .argv = argv };
    int code = find_launcher(&arguments);
    if (code == EXIT_CODE_OK) {
        const int rc = pipetrain_arguments_read(&arguments.words, argc, argv);
        arguments.wrong = rc != 0 ? (int)exit_code_of(rc, EXIT_CODE_USAGE) : 0;
        arguments.kind = arguments.words.check ? RUN_CHECK : arguments.words.dry_run ? RUN_DRY : RUN_TRAIN;
        code = arguments.wrong != 0 && arguments.launcher.size == 1 ? arguments.wrong
                                                                    : dispatch(&arguments, process_start_ns);
    }
    startup_end(NULL);
    config_arguments_release(&arguments.words.config);
    return code;
}

int main(int argc, char **argv)
{
    const uint64_t process_start_ns = team_wait_begin();
    environment_unbind(argv, process_start_ns);
    signals_catch();
    phase_begin();
    output_fill_closed();
    if (limits_prepare() != 0)
        return EXIT_CODE_MEMORY;
    const struct command *const command = find_command(argc, argv);
    const int code = command != NULL ? command->run(argc, argv, process_start_ns) : train(argc, argv, process_start_ns);
    return output_end() != 0 && code == EXIT_CODE_OK ? EXIT_CODE_OUTPUT : code;
}
