/* pipetrain: train a classifier from TFRecord shards. Command line -> settings -> run. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "stage/log.h"
#include "stage/stop.h"
#include "stage/text/decimal.h"
#include "stage/text/output.h"
#include "stage/text/program_folder.h"
#include "sync/ranks/launcher.h"
#include "sync/ranks/ranks.h"
#include "tools/compare/compare.h"
#include "tools/describe.h"
#include "tools/doctor/doctor.h"
#include "tools/lib/config/config.h"
#include "tools/lib/config/option_help.h"
#include "tools/lib/config/option_needs.h"
#include "tools/lib/config/options.h"
#include "tools/lib/config/overfit.h"
#include "tools/lib/config/pipetrain_options.h"
#include "tools/lib/config/pixels.h"
#include "tools/lib/config/program_option.h"
#include "tools/lib/config/settings_model.h"
#include "tools/lib/limits.h"
#include "tools/lib/phase.h"
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
    const char *config_path;
    char **assignments;                 /* argc places; count of --set */
    int assignment_count;
    char progress[64];                  /* as an assignment */
    int64_t overfit;                    /* samples; 0: not asked for */
    enum run_kind kind;
    bool help, version, describe, net, check, dry_run, quiet, doctor;
    enum doctor_form doctor_form;
    const char *help_name, *describe_name;      /* NULL: all */
    bool is_wrong;                      /* a message has said why */
    struct launcher launcher;
    char launcher_problem[LAUNCHER_REASON_BYTES];       /* why this process cannot run under it; else "" */
};

static void print_usage(FILE *out)
{
    fprintf(out, "usage: pipetrain -c FILE [--set SECTION.KEY=VALUE]...\n"
                 "                 [--check | --dry-run | --overfit=N]\n"
                 "       pipetrain -c FILE --compare KEY=VALUE,VALUE... [OPTION]...\n"
                 "       pipetrain -c FILE --tune[=SECONDS] [--tune-write]\n"
                 "       pipetrain evaluate -c FILE [--weights FILE] [OPTION]...\n"
                 "       pipetrain predict -w FILE [OPTION]... IMAGE... | FOLDER | SHARDS | -\n"
                 "       pipetrain --describe[=MODEL] [--net] [-c FILE]\n"
                 "                 [--set SECTION.KEY=VALUE]...\n"
                 "       pipetrain --doctor[=json] [-c FILE] [--set SECTION.KEY=VALUE]...\n"
                 "       pipetrain --help[=KEY] | --version\n\n");
    program_option_help(pipetrain_options, out);
    fprintf(out, "  evaluate                  evaluate a trained network: loss, top-1, top-5,\n"
                 "                            per class\n"
                 "  predict                   classify images with a trained network\n");
}

static int parse_samples(const char *text, int64_t *samples_out)
{
    uint64_t samples;
    if (decimal_u64(text, &samples) && samples > 0 && samples <= INT64_MAX) {
        *samples_out = (int64_t)samples;
        return 0;
    }
    log_message(LOG_ERROR, "--overfit=%.40s: not a number of samples (--overfit=100)", text);
    return -EINVAL;
}

/* One model at a time: 0, or -EINVAL after a message. */
static int note_described(struct arguments *arguments, const char *name)
{
    if (name != NULL && arguments->describe_name != NULL) {
        log_message(LOG_ERROR, "--describe=%s and --describe=%s: describe one model at a time",
                    arguments->describe_name, name);
        return -EINVAL;
    }
    arguments->describe = true;
    arguments->describe_name = name != NULL ? name : arguments->describe_name;
    return 0;
}

/* 0, or -EINVAL after a message. */
static int parse_arguments(struct arguments *arguments, int argc, char **argv)
{
    struct program_words words;
    int letter;
    program_option_words(pipetrain_options, "", &words);
    if (long_option_check(argc, argv, words.rows) != 0)
        return -EINVAL;
    while ((letter = getopt_long(argc, argv, words.letters, words.rows, NULL)) != -1) {
        switch (letter) {
        case 'c':
            if (arguments->config_path != NULL && strcmp(arguments->config_path, optarg) != 0) {
                log_message(LOG_ERROR, "-c is given twice: '%s' and '%s'; --set SECTION.KEY=VALUE adds to a file",
                            arguments->config_path, optarg);
                return -EINVAL;
            }
            arguments->config_path = optarg;
            break;
        case WORD_SET: arguments->assignments[arguments->assignment_count++] = optarg; break;
        case WORD_CHECK: arguments->check = true; break;
        case WORD_DRY_RUN: arguments->dry_run = true; break;
        case WORD_OVERFIT:
            if (parse_samples(optarg, &arguments->overfit) != 0)
                return -EINVAL;
            break;
        case WORD_PROGRESS:
            snprintf(arguments->progress, sizeof(arguments->progress), "report.progress=%s", optarg);
            arguments->assignments[arguments->assignment_count++] = arguments->progress;
            break;
        case 'q': arguments->quiet = true; break;
        case WORD_DESCRIBE:
            if (note_described(arguments, optarg) != 0)
                return -EINVAL;
            break;
        case WORD_NET: arguments->net = true; break;
        case WORD_DOCTOR:
            arguments->doctor = true;
            if (optarg != NULL && doctor_form_find(optarg, &arguments->doctor_form) != 0)
                return -EINVAL;
            break;
        case 'h': arguments->help = true; arguments->help_name = optarg; break;
        case WORD_VERSION: arguments->version = true; break;
        default: return -EINVAL;
        }
    }
    /* "--describe MODEL" and "--help KEY" are accepted with a space, too. */
    if (optind < argc && arguments->describe && arguments->describe_name == NULL)
        arguments->describe_name = argv[optind++];
    if (optind < argc && arguments->help && arguments->help_name == NULL)
        arguments->help_name = argv[optind++];
    if (arguments->overfit > 0 && (arguments->check || arguments->dry_run)) {
        log_message(LOG_ERROR, "--overfit trains: use it without --check and --dry-run");
        return -EINVAL;
    }
    if (arguments->check && arguments->dry_run) {
        log_message(LOG_ERROR, "--check starts nothing and --dry-run runs a step: use one of them");
        return -EINVAL;
    }
    const bool runs = arguments->check || arguments->dry_run || arguments->overfit > 0;
    if (arguments->doctor && (runs || arguments->describe)) {
        log_message(LOG_ERROR, "--doctor runs nothing: use it without --check, --dry-run, --overfit and --describe");
        return -EINVAL;
    }
    const bool names_model = arguments->describe_name != NULL || arguments->config_path != NULL;
    if (arguments->net && !(arguments->describe && names_model)) {
        log_message(LOG_ERROR, "--net prints a model: %spipetrain --describe=MODEL --net", program_folder());
        return -EINVAL;
    }
    arguments->kind = arguments->check ? RUN_CHECK : arguments->dry_run ? RUN_DRY : RUN_TRAIN;
    if (optind == argc)
        return 0;
    log_message(LOG_ERROR, "unexpected argument '%s' (a configuration file follows -c)", argv[optind]);
    return -EINVAL;
}

static int help(const char *name)
{
    if (name == NULL) {
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

/* The checks between keys. Without a configuration file only the model is complete. */
static int finish_settings(struct settings *settings, const struct arguments *arguments, struct problems *problems)
{
    const char *const model = arguments->describe_name;
    const int rc = model != NULL ? settings_choose_model(settings, "--describe", model, problems) : 0;
    if (rc != 0)
        return rc;
    if (arguments->config_path == NULL)
        return settings_find_model(settings, problems);
    run_data_take_classes(settings);
    return settings_finish(settings, problems);
}

/* --overfit needs real labels and a network that is trained. */
static int finish_overfit(struct settings *settings, int64_t samples, struct problems *problems)
{
    int rc = overfit_apply(settings, samples);
    run_data_take_classes(settings);
    if (rc == 0)
        rc = settings_finish(settings, problems);
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

/* File, then --set, then checks between keys; all problems are collected before any is printed. Without a file there
 * are only the defaults and --set. -ENOMEM: out of memory, the problems may be incomplete. */
static int collect_settings(struct settings *settings, const struct arguments *arguments, struct problems *problems)
{
    const bool has_file = arguments->config_path != NULL;
    const int read = has_file ? config_read(settings, arguments->config_path, problems) : 0;
    const bool is_unread = read != 0 && read != -EINVAL;
    int rc = read;
    for (int i = 0; i < arguments->assignment_count && rc != -ENOMEM; i++)
        rc = config_set(settings, arguments->assignments[i], problems);
    if (rc != -ENOMEM && !is_unread)
        rc = arguments->overfit > 0 ? finish_overfit(settings, arguments->overfit, problems)
                                    : finish_settings(settings, arguments, problems);
    return rc;
}

static int read_settings(struct settings *settings, const struct arguments *arguments)
{
    struct problems problems;
    problems_init(&problems);
    const int rc = collect_settings(settings, arguments, &problems);
    const bool is_right = rc == 0 && problems.count == 0;
    return problems_end(&problems, is_right ? EXIT_CODE_OK : (int)exit_code_of(rc, EXIT_CODE_USAGE));
}

/* The layers of the model, and the preprocessing of its images. */
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
    struct settings settings;
    if (arguments->describe_name == NULL && arguments->config_path == NULL && arguments->assignment_count == 0) {
        describe_models(stdout);
        return EXIT_CODE_OK;
    }
    if (settings_init(&settings) != 0)
        return out_of_memory("the settings");
    int code = read_settings(&settings, arguments);
    if (code == EXIT_CODE_OK)
        code = describe_model(&settings, arguments->net);
    settings_release(&settings);
    return code;
}

/* Only the machine is checked where no configuration is given. */
static int doctor(const struct arguments *arguments)
{
    struct settings settings;
    int code = startup_refuse_command("--doctor");
    if (code != EXIT_CODE_OK)
        return code;
    if (arguments->config_path == NULL && arguments->assignment_count > 0) {
        log_message(LOG_ERROR, "--set changes a configuration: %spipetrain --doctor -c run.conf --set ...",
                    program_folder());
        return EXIT_CODE_USAGE;
    }
    if (arguments->config_path == NULL)
        return doctor_run(NULL, arguments->doctor_form);
    if (settings_init(&settings) != 0)
        return out_of_memory("the settings");
    code = read_settings(&settings, arguments);
    if (code == EXIT_CODE_OK)
        code = doctor_run(&settings, arguments->doctor_form);
    settings_release(&settings);
    return code;
}

/* Only errors and the result are printed, and no progress; 0 or an exit code. */
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

/* Output and signals have threads of their own. */
static int start_threads(void)
{
    int rc = output_start();
    if (rc == 0)
        rc = signals_start();
    if (rc != 0)
        log_message(LOG_ERROR, "cannot start the threads for output and signals: %s", exit_cause(rc));
    return rc == 0 ? EXIT_CODE_OK : EXIT_CODE_MEMORY;
}

/* What this process needs to run alone. It may be restarted here. */
static int prepare(struct settings *settings, const struct arguments *arguments, uint64_t process_start_ns)
{
    if (arguments->kind != RUN_CHECK && trial_can_read_again(arguments->config_path) &&
        (*settings->model.file == '\0' || trial_can_read_again(settings->model.file)) && run_plan_has_teams(settings))
        team_wait_shorten(arguments->argv, process_start_ns);
    const int code = arguments->quiet ? be_quiet(settings) : EXIT_CODE_OK;
    return code == EXIT_CODE_OK ? start_threads() : code;
}

/* Join the other processes that the launcher started. All of them get here, and end together if one cannot start. */
static int join_ranks(struct ranks **ranks_out, const struct launcher *launcher, struct settings *settings,
                      enum run_kind kind, int code)
{
    char reason[LAUNCHER_REASON_BYTES];
    const struct mpi_module *module;
    if (launcher->mpi == MPI_LIBRARY_NONE)
        return code;
    if (launcher_load(launcher, &module, reason) != 0)
        return startup_abort(reason);         /* others may have the module */
    const int opened = ranks_open(ranks_out, launcher, module, (uint32_t)settings->sync.deadline);
    if (opened != 0 && !ranks_failed(*ranks_out)) {
        startup_end(*ranks_out);
        return startup_abort_others(opened);
    }
    const struct startup_facts facts = { .kind = kind, .settings = settings };
    const int agreed = opened != 0 ? opened : startup_check_facts(*ranks_out, code, &facts);
    return agreed != 0 ? agreed : core_share_agree(*ranks_out, settings);
}

/* Some launchers send SIGTERM as soon as one of the processes has ended, whose exit code is then theirs: the one that
 * failed by itself ends first. Threads of the MPI library may hang, or use memory that is no longer there, after a rank
 * has failed. */
#define LEAVE_LATER_NS 300000000

static void leave_ranks(struct ranks *ranks, int code)
{
    if (ranks != NULL)
        signals_ignore();
    startup_end(ranks);
    if (ranks_failed(ranks)) {
        (void)ranks_flush(ranks);       /* the others may wait to be told */
        (void)output_end();
        if (code == EXIT_CODE_RANK)
            nanosleep(&(struct timespec){ .tv_nsec = LEAVE_LATER_NS }, NULL);
        ranks_close(ranks);
        /* 0: a rank fell silent after its last word. */
        _exit(code != 0 ? code : ranks_failure_code(ranks));
    }
    ranks_close(ranks);
}

/* The settings of a command line that can be run. 0, or an exit code after messages. */
static int configure(struct settings *settings, const struct arguments *arguments)
{
    if (arguments->is_wrong)
        return EXIT_CODE_USAGE;
    if (arguments->config_path != NULL)
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
        settings_report_followed(settings);
        option_needs_warn(settings);
        pixels_warn(settings);
        code = run_execute(settings, arguments->kind, process_start_ns, ranks);
    }
    if (settings->result_out != NULL)
        (void)fclose(settings->result_out);     /* the report has written all of it, or reported a failure */
    leave_ranks(ranks, code);
    return code;
}

static int run(const struct arguments *arguments, uint64_t process_start_ns)
{
    const struct launcher *const launcher = &arguments->launcher;
    struct settings settings;
    if (arguments->kind == RUN_CHECK)
        output_end_with_reader();       /* --check | head: nothing is lost but text */
    if (arguments->launcher_problem[0] != '\0')
        return startup_abort(arguments->launcher_problem);
    if (settings_init(&settings) != 0)
        return out_of_memory("the settings");
    settings.rank = launcher->rank;
    settings.ranks = launcher->size;
    settings.local_rank = launcher->local_rank;
    settings.local_ranks = launcher->local_size;
    settings.core_rank = launcher->local_rank;  /* until all ranks know more */
    settings.core_ranks = settings.quota_ranks = launcher->local_size;
    const int code = execute(&settings, arguments, process_start_ns);
    settings_release(&settings);
    return code;
}

static int dispatch(const struct arguments *arguments, uint64_t process_start_ns)
{
    if (arguments->is_wrong || (!arguments->help && !arguments->version && !arguments->describe && !arguments->doctor))
        return run(arguments, process_start_ns);
    startup_end(NULL);
    output_end_with_reader();
    (void)output_start();       /* without it writing is direct */
    if (arguments->help)
        return help(arguments->help_name);
    if (arguments->version) {
        printf("pipetrain %s\n", PIPETRAIN_VERSION);
        return EXIT_CODE_OK;
    }
    return arguments->doctor ? doctor(arguments) : describe(arguments);
}

/* Commands, by the first word of the command line. */
static const struct command {
    const char *name;
    int (*run)(int argc, char **argv, uint64_t process_start_ns);
} commands[] = {
    { "evaluate", evaluate_command },
    { "predict", predict_command },
};

static const struct command *find_command(int argc, char **argv)
{
    for (size_t i = 0; argc > 1 && i < sizeof(commands) / sizeof(commands[0]); i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return &commands[i];
    return NULL;
}

/* Of several processes one prints, and signals wait, so that all of them end with the code on which they agree. */
static int find_launcher(struct arguments *arguments)
{
    struct launcher *const launcher = &arguments->launcher;
    *launcher = (struct launcher){ .size = 1, .local_size = 1 };
    if (launcher_find(launcher, arguments->launcher_problem) != 0)
        return EXIT_CODE_OK;            /* the command may not need it */
    arguments->launcher_problem[0] = '\0';
    if (launcher->mpi == MPI_LIBRARY_NONE)
        return EXIT_CODE_OK;
    signals_block();
    return startup_begin(launcher->rank);
}

static int train(int argc, char **argv, uint64_t process_start_ns)
{
    struct arguments arguments = { .argv = argv, .assignments = calloc((size_t)argc + 1, sizeof(char *)) };
    if (arguments.assignments == NULL)
        return out_of_memory("the command line");
    int code = find_launcher(&arguments);
    if (code == EXIT_CODE_OK) {
        arguments.is_wrong = parse_arguments(&arguments, argc, argv) != 0;
        code = arguments.is_wrong && arguments.launcher.size == 1 ? EXIT_CODE_USAGE
                                                                  : dispatch(&arguments, process_start_ns);
    }
    startup_end(NULL);
    free(arguments.assignments);
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
    const int code = command != NULL                        ? command->run(argc, argv, process_start_ns)
                     : tune_command_is_meant(argc, argv)    ? tune_command(argc, argv)
                     : compare_command_is_meant(argc, argv) ? compare_command(argc, argv)
                                                            : train(argc, argv, process_start_ns);
    return output_end() != 0 && code == EXIT_CODE_OK ? EXIT_CODE_OUTPUT : code;
}
