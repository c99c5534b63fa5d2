/* Options -> configuration -> trials, for --compare and --tune. */
#include "tools/lib/trial/trial_command.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "stage/log.h"
#include "stage/stop.h"
#include "stage/text/output.h"
#include "stage/text/program_folder.h"
#include "tools/lib/config/config.h"
#include "tools/lib/config/program_option.h"
#include "tools/lib/run/ranks/startup_abort.h"
#include "tools/lib/signals.h"
#include "tools/lib/text/quantity.h"

#define SECONDS_MAX 86400.0

struct arguments {
    const struct trial_command *command;
    const char *config_path;
    const char **assignments;           /* argc places */
    size_t assignment_count;
    bool help, quiet;
};

int trial_command_usage_error(const char *option, const char *value, const char *wants)
{
    log_message(LOG_ERROR, "%s=%.40s: wants %s", option, value, wants);
    return -EINVAL;
}

int trial_command_seconds(const char *option, const char *value, double least, double *seconds_out)
{
    char wants[160];
    double seconds = 0;
    (void)quantity_seconds(value, &seconds);
    if (!(seconds >= least) || seconds > SECONDS_MAX) {
        snprintf(wants, sizeof(wants), QUANTITY_SECONDS ": from %g to %g seconds", least, SECONDS_MAX);
        return trial_command_usage_error(option, value, wants);
    }
    *seconds_out = seconds;
    return 0;
}

static int parse_progress(const char *value, bool *quiet_out)
{
    const bool is_none = strcmp(value, "none") == 0;
    if (!is_none && strcmp(value, "line") != 0)
        return trial_command_usage_error("--progress", value, "line, one for each run, or none");
    *quiet_out = is_none;
    return 0;
}

static int parse_option(struct arguments *arguments, int letter, const char *name)
{
    const struct trial_command *const command = arguments->command;
    switch (letter) {
    case 'c': arguments->config_path = optarg; return 0;
    case 'h': arguments->help = true; return 0;
    case 'q': arguments->quiet = true; return 0;
    case TRIAL_OPTION_SET: arguments->assignments[arguments->assignment_count++] = optarg; return 0;
    case TRIAL_OPTION_PROGRESS: return parse_progress(optarg, &arguments->quiet);
    case TRIAL_OPTION_EXCLUDED: log_message(LOG_ERROR, "%s does not go with --%s", command->name, name); return -EINVAL;
    default: break;
    }
    const int rc = letter >= TRIAL_OPTION_OWN ? command->parse(command->arg, letter, optarg) : -EINVAL;
    arguments->help = arguments->help || rc > 0;
    return rc < 0 ? rc : 0;
}

/* 0, or -EINVAL after a message. */
static int parse_arguments(struct arguments *arguments, int argc, char **argv)
{
    const struct trial_command *const command = arguments->command;
    struct program_words words;
    program_option_words(command->options, "", &words);
    int letter, row = 0, rc = long_option_check(argc, argv, words.rows);
    while (rc == 0 && (letter = getopt_long(argc, argv, words.letters, words.rows, &row)) != -1)
        rc = parse_option(arguments, letter, words.rows[row].name);
    if (rc != 0 || arguments->help)
        return rc;
    if (optind < argc) {
        log_message(LOG_ERROR, "unexpected argument '%s': %s%s", argv[optind], program_folder(), command->example);
        return -EINVAL;
    }
    if (arguments->config_path == NULL) {
        log_message(LOG_ERROR, "no configuration given: %s%s", program_folder(), command->example);
        return -EINVAL;
    }
    return 0;
}

/* Also true for a terminal: the second trial could not read it again. */
static bool is_pipe(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
}

static void check_file(const char *path, struct problems *problems)
{
    if (is_pipe(path))
        problems_add(problems, path, "cannot come through a pipe, because every run reads it again: write it to a "
                                     "file");
}

static int read_configuration(const struct arguments *arguments, struct settings *settings, struct problems *problems)
{
    const struct trial_command *const command = arguments->command;
    check_file(arguments->config_path, problems);
    if (problems->count > 0)
        return -EINVAL;
    int rc = config_read(settings, arguments->config_path, problems);
    for (size_t i = 0; i < arguments->assignment_count && rc == 0; i++)
        rc = config_set(settings, arguments->assignments[i], problems);
    if (rc == 0 && problems->count == 0)
        check_file(settings->model.file, problems);
    if (rc == 0 && problems->count == 0)
        rc = command->prepare(command->arg, settings, problems);
    return rc == 0 && problems->count > 0 ? -EINVAL : rc;
}

/* Messages are written by threads, so signals are blocked first. */
static int run_trials(const struct arguments *arguments, bool has_rollback)
{
    const struct trial_spec spec = { .config_path = arguments->config_path,
                                     .assignments = arguments->assignments,
                                     .assignment_count = arguments->assignment_count,
                                     .has_rollback = has_rollback };
    signals_block();
    if (arguments->quiet)
        log_only_errors();
    const int rc = output_start();
    if (rc == 0)
        return arguments->command->run(arguments->command->arg, &spec);
    log_message(LOG_ERROR, "output could not be started: %s", exit_cause(rc));
    return EXIT_CODE_MEMORY;
}

static int run_command(const struct arguments *arguments)
{
    struct settings settings;
    struct problems problems;
    int code = startup_refuse_command(arguments->command->name);
    if (code != EXIT_CODE_OK)
        return code;
    if (settings_init(&settings) != 0) {
        log_message(LOG_ERROR, "the settings: %s", strerror(ENOMEM));
        return EXIT_CODE_MEMORY;
    }
    problems_init(&problems);
    const int rc = read_configuration(arguments, &settings, &problems);
    const bool has_rollback = settings.train.on_nan == ON_NAN_ROLLBACK;
    code = problems_end(&problems, rc == 0 ? EXIT_CODE_OK : (int)exit_code_of(rc, EXIT_CODE_USAGE));
    settings_release(&settings);
    return code == EXIT_CODE_OK ? run_trials(arguments, has_rollback) : code;
}

static int print_help(const struct trial_command *command)
{
    (void)output_start();       /* if it fails, output is written directly */
    command->print_usage(stdout);
    return EXIT_CODE_OK;
}

bool trial_command_has(int argc, char **argv, const char *option)
{
    const size_t bytes = strlen(option);
    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], option, bytes) == 0 && (argv[i][bytes] == '\0' || argv[i][bytes] == '='))
            return true;
    return false;
}

int trial_command_run(const struct trial_command *command, int argc, char **argv)
{
    struct arguments arguments = { .command = command,
                                   .assignments = calloc((size_t)argc, sizeof(*arguments.assignments)) };
    if (arguments.assignments == NULL) {
        log_message(LOG_ERROR, "the command line: %s", strerror(ENOMEM));
        return EXIT_CODE_MEMORY;
    }
    int code = EXIT_CODE_USAGE;
    if (parse_arguments(&arguments, argc, argv) == 0)
        code = arguments.help ? print_help(command) : run_command(&arguments);
    free(arguments.assignments);
    return code;
}
