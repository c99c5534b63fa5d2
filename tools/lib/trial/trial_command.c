/* Reads options and configuration, and runs the trials, for --compare and --tune. */
#include "tools/lib/trial/trial_command.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "stage/log.h"
#include "stage/stop.h"
#include "stage/text/output.h"
#include "stage/text/program_folder.h"
#include "tools/lib/config/config.h"
#include "tools/lib/run/ranks/startup_abort.h"
#include "tools/lib/signals.h"

const char *const trial_progress_names[] = { [TRIAL_PROGRESS_LINE] = "line", [TRIAL_PROGRESS_NONE] = "none", NULL };

/* Check the words after the options. 0, or -EINVAL after a message. */
static int check_words(const struct trial_command *command, const struct trial_arguments *arguments,
                       const char *unexpected)
{
    if (unexpected != NULL)
        log_message(LOG_ERROR, "unexpected argument '%s': %s%s", unexpected, program_folder(), command->example);
    else if (arguments->config.path == NULL)
        log_message(LOG_ERROR, "no configuration given: %s%s", program_folder(), command->example);
    else
        return 0;
    return -EINVAL;
}

/* Is it a pipe or a terminal, which the second trial could not read again? */
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

static int read_configuration(const struct trial_command *command, struct trial_arguments *arguments,
                              struct settings *settings, struct problems *problems)
{
    check_file(arguments->config.path, problems);
    if (problems->count > 0)
        return -EINVAL;
    int rc = config_collect(settings, &arguments->config, problems);
    if (rc == 0)
        check_file(settings->model.file, problems);
    if (rc == 0 && problems->count == 0)
        rc = command->prepare(arguments, settings, problems);
    return rc == 0 && problems->count > 0 ? -EINVAL : rc;
}

/* Run the trials. Signals are blocked before output_start starts threads, as signals_block requires. */
static int run_trials(const struct trial_command *command, struct trial_arguments *arguments, bool has_rollback)
{
    const struct trial_spec spec = { .config = arguments->config, .has_rollback = has_rollback };
    signals_block();
    if (arguments->is_quiet || arguments->progress == TRIAL_PROGRESS_NONE)
        log_only_errors();
    const int rc = output_start();
    if (rc == 0)
        return command->run(arguments, &spec);
    log_message(LOG_ERROR, "output could not be started: %s", exit_cause(rc));
    return EXIT_CODE_MEMORY;
}

static int run_command(const struct trial_command *command, struct trial_arguments *arguments)
{
    struct settings settings;
    struct problems problems;
    int code = startup_refuse_command(command->name);
    if (code != EXIT_CODE_OK)
        return code;
    if (settings_init(&settings) != 0) {
        log_message(LOG_ERROR, "the settings: %s", strerror(ENOMEM));
        return EXIT_CODE_MEMORY;
    }
    problems_init(&problems);
    const int rc = read_configuration(command, arguments, &settings, &problems);
    const bool has_rollback = settings.train.on_nan == ON_NAN_ROLLBACK;
    code = problems_end(&problems, rc == 0 ? EXIT_CODE_OK : (int)exit_code_of(rc, EXIT_CODE_USAGE));
    settings_release(&settings);
    return code == EXIT_CODE_OK ? run_trials(command, arguments, has_rollback) : code;
}

static int print_help(const struct trial_command *command)
{
    (void)output_start();       /* if this fails, output is written directly */
    command->print_usage(stdout);
    return EXIT_CODE_OK;
}

int trial_command_run(const struct trial_command *command, struct trial_arguments *arguments, int argc, char **argv)
{
    int first;
    const int rc = program_options_read(command->line, argc, argv, arguments, &first);
    int code = (int)exit_code_of(rc, EXIT_CODE_USAGE);
    if (rc == 0 && arguments->wants_help)
        code = print_help(command);
    else if (rc == 0 && check_words(command, arguments, first < argc ? argv[first] : NULL) == 0)
        code = run_command(command, arguments);
    config_arguments_release(&arguments->config);
    return code;
}
