/* pipetrain --tune: words and options -> request. */
#include "tools/tune/tune_command.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stage/log.h"
#include "stage/stop.h"
#include "stage/text/decimal.h"
#include "stage/text/output.h"
#include "tools/config/config.h"
#include "tools/config/long_option.h"
#include "tools/run/signals.h"
#include "tools/trial/trial.h"
#include "tools/tune/tune.h"

#define SECONDS_USUAL 60
#define SECONDS_MOST 86400

/* Long options without a letter; those behind OPTION_OTHER are pipetrain's and say something else. */
enum { OPTION_SET = 256, OPTION_TUNE, OPTION_WRITE, OPTION_PROGRESS, OPTION_OTHER };

static const struct option long_options[] = {
    { "config", required_argument, NULL, 'c' },
    { "set", required_argument, NULL, OPTION_SET },
    { "tune", optional_argument, NULL, OPTION_TUNE },
    { "tune-write", no_argument, NULL, OPTION_WRITE },
    { "quiet", no_argument, NULL, 'q' },
    { "check", no_argument, NULL, OPTION_OTHER },
    { "dry-run", no_argument, NULL, OPTION_OTHER },
    { "overfit", required_argument, NULL, OPTION_OTHER },
    { "progress", required_argument, NULL, OPTION_PROGRESS },
    { "describe", optional_argument, NULL, OPTION_OTHER },
    { "compare", required_argument, NULL, OPTION_OTHER },
    { "net", no_argument, NULL, OPTION_OTHER },
    { "version", no_argument, NULL, OPTION_OTHER },
    { "help", no_argument, NULL, 'h' },
    { NULL, 0, NULL, 0 },
};

struct arguments {
    struct tune_request request;
    bool help, quiet;
};

static void print_usage(FILE *out)
{
    fputs("usage: pipetrain -c FILE --tune[=SECONDS] [OPTION]...\n"
          "Find how many threads and how much depth the feed of a configuration needs on\n"
          "this machine.\n\n"
          "  -c, --config FILE         the configuration; no pipe, since it is read often\n"
          "      --tune[=SECONDS]      all of it, at most (default 60, at least 10)\n"
          "      --tune-write          what it recommends goes into FILE; FILE as it was\n"
          "                            stays as FILE.bak\n"
          "      --set SECTION.KEY=VALUE   as for a run; repeat for more\n"
          "      --progress=KIND       line: one for each phase, as without it; none: as\n"
          "                            --quiet\n"
          "  -q, --quiet               no lines on stderr while it measures\n"
          "  -h, --help\n\n"
          "Short runs measure what towers need with input that is there, and how long\n"
          "reading and decoding take, with their spread. A model of the feed predicts every\n"
          "setting of input.read_threads, .decode_threads, .prefetch_depth, .staging_depth\n"
          "and, on CPUs, devices.threads_per_tower; the best ones run in turns with the\n"
          "configuration as it is. Nothing is kept of these runs. Exit status as of\n"
          "pipetrain.\n\n"
          "  pipetrain -c run.conf --tune\n"
          "  pipetrain -c run.conf --tune=120 --tune-write\n", out);
}

static int take_seconds(const char *text, double *seconds_out)
{
    const char *const end = decimal_end(text);
    const double seconds = end != NULL && *end == '\0' ? decimal_read(text) : 0;
    if (!(seconds >= TUNE_SECONDS_LEAST) || seconds > SECONDS_MOST) {
        log_message(LOG_ERROR, "--tune=%.40s: wants a number of seconds from %.0f to %d", text, TUNE_SECONDS_LEAST,
                    SECONDS_MOST);
        return -EINVAL;
    }
    *seconds_out = seconds;
    return 0;
}

/* Of the runs themselves nothing is shown. */
static int take_progress(const char *text, bool *quiet_out)
{
    const bool is_none = strcmp(text, "none") == 0;
    if (!is_none && strcmp(text, "line") != 0) {
        log_message(LOG_ERROR, "--progress=%.40s: with --tune wants line, one for each phase, or none", text);
        return -EINVAL;
    }
    *quiet_out = is_none;
    return 0;
}

static int take_letter(struct arguments *arguments, int letter)
{
    struct tune_request *const request = &arguments->request;
    switch (letter) {
    case 'c': request->config_path = optarg; return 0;
    case OPTION_SET: request->assignments[request->assignment_count++] = optarg; return 0;
    case OPTION_TUNE: return optarg != NULL ? take_seconds(optarg, &request->seconds) : 0;
    case OPTION_WRITE: request->writes = true; return 0;
    case OPTION_PROGRESS: return take_progress(optarg, &arguments->quiet);
    case 'q': arguments->quiet = true; return 0;
    case 'h': arguments->help = true; return 0;
    case OPTION_OTHER:
        log_message(LOG_ERROR, "--tune does not go with --check, --dry-run, --overfit, --describe, --compare, "
                               "--version");
        return -EINVAL;
    default: return -EINVAL;
    }
}

/* 0, or -EINVAL after a message. */
static int parse_arguments(struct arguments *arguments, int argc, char **argv)
{
    int letter, rc = long_option_check(argc, argv, long_options);
    while (rc == 0 && (letter = getopt_long(argc, argv, "c:hq", long_options, NULL)) != -1)
        rc = take_letter(arguments, letter);
    if (rc != 0 || arguments->help)
        return rc;
    if (optind < argc) {
        log_message(LOG_ERROR, "unexpected argument '%s' (a configuration file follows -c, seconds --tune=)",
                    argv[optind]);
        return -EINVAL;
    }
    if (arguments->request.config_path == NULL) {
        log_message(LOG_ERROR, "no configuration given: pipetrain -c run.conf --tune");
        return -EINVAL;
    }
    return 0;
}

/* What cannot be read is config_read's to tell. */
static void check_path(const char *path, struct problems *problems)
{
    FILE *const file = fopen(path, "re");
    const bool is_there = file != NULL;
    if (is_there)
        fclose(file);
    if (is_there && !trial_can_read_again(path))
        problems_add(problems, path, "every run reads it anew, so it cannot come through a pipe: write it to a file");
}

static int read_configuration(struct tune_request *request, struct settings *settings, struct problems *problems)
{
    check_path(request->config_path, problems);
    if (problems->count > 0)
        return -EINVAL;
    int rc = config_read(settings, request->config_path, problems);
    for (size_t i = 0; i < request->assignment_count && rc == 0; i++)
        rc = config_set(settings, request->assignments[i], problems);
    request->ram_budget = (size_t)settings->input.ram_budget;
    request->is_cached = settings->input.source == INPUT_CACHED;
    request->goes_back = settings->train.on_nan == ON_NAN_ROLLBACK;
    return rc == 0 && problems->count > 0 ? -EINVAL : rc;
}

/* What it says goes through threads of their own; requests to end wait for whoever looks. */
static int execute(const struct arguments *arguments)
{
    signals_hold();
    if (arguments->quiet)
        log_only_errors();
    const int rc = output_start();
    if (rc == 0)
        return tune(&arguments->request);
    log_message(LOG_ERROR, "output could not be begun: %s", exit_cause(rc));
    return EXIT_CODE_MEMORY;
}

static int run(struct arguments *arguments)
{
    struct settings settings;
    struct problems problems;
    if (settings_init(&settings) != 0) {
        log_message(LOG_ERROR, "the settings: %s", strerror(ENOMEM));
        return EXIT_CODE_MEMORY;
    }
    problems_init(&problems);
    const int rc = read_configuration(&arguments->request, &settings, &problems);
    problems_print(&problems);
    const int code = rc == 0 ? EXIT_CODE_OK : problems_code(&problems, exit_code_of(rc, EXIT_CODE_USAGE));
    problems_release(&problems);
    settings_release(&settings);
    return code == EXIT_CODE_OK ? execute(arguments) : code;
}

static int help(void)
{
    (void)output_start();       /* without it writing is direct */
    print_usage(stdout);
    return EXIT_CODE_OK;
}

bool tune_command_is_meant(int argc, char **argv)
{
    static const char name[] = "--tune";
    const size_t bytes = sizeof(name) - 1;
    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], name, bytes) == 0 &&
            (argv[i][bytes] == '\0' || argv[i][bytes] == '=' || strcmp(argv[i] + bytes, "-write") == 0))
            return true;
    return false;
}

int tune_command(int argc, char **argv)
{
    char **const words = calloc((size_t)argc, sizeof(*words));
    if (words == NULL) {
        log_message(LOG_ERROR, "the command line: %s", strerror(ENOMEM));
        return EXIT_CODE_MEMORY;
    }
    struct arguments arguments = { .request = { .seconds = SECONDS_USUAL, .assignments = words } };
    int code = EXIT_CODE_USAGE;
    if (parse_arguments(&arguments, argc, argv) == 0)
        code = arguments.help ? help() : run(&arguments);
    free(words);
    return code;
}
