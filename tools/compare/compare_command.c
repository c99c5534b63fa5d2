/* pipetrain --compare: words and options -> request. */
#include "tools/compare/compare_command.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "stage/log.h"
#include "stage/stop.h"
#include "stage/text/decimal.h"
#include "stage/text/output.h"
#include "tools/compare/compare.h"
#include "tools/compare/comparison.h"
#include "tools/config/config.h"
#include "tools/config/long_option.h"
#include "tools/config/words/program_option.h"
#include "tools/run/run_plan.h"
#include "tools/run/signals.h"
#include "tools/trial/trial.h"

#define ROUNDS_USUAL 3
#define SECONDS_USUAL 10
#define SECONDS_MAX 86400

/* Long options without a letter; those behind OPTION_OTHER are pipetrain's and say something else. */
enum { OPTION_SET = 256, OPTION_COMPARE, OPTION_ROUNDS, OPTION_SECONDS, OPTION_STEPS, OPTION_FORMAT, OPTION_PROGRESS,
       OPTION_OTHER };

static const struct program_option options[] = {
    { 'c', "config", "FILE", false, "the configuration; no pipe, since it is read often", NULL, NULL },
    { OPTION_COMPARE, "compare", "KEY=VALUE,VALUE...", false,
      "what differs; several KEYs: all combinations. SECTION.KEY, or KEY where it is one of a kind; a comma in a value "
      "is written \\,", NULL, NULL },
    { OPTION_SET, "set", "SECTION.KEY=VALUE", false, "for all variants; repeat for more", NULL, NULL },
    { OPTION_ROUNDS, "rounds", "N", false, "each variant runs once in every round (default 3)", NULL, NULL },
    { OPTION_SECONDS, "seconds", "S", false, "of training, each time (default 10)", NULL, NULL },
    { OPTION_STEPS, "steps", "N", false, "training steps, each time: only then are loss and accuracy compared", NULL,
      NULL },
    { OPTION_FORMAT, "format", "FORMAT", false, "table, csv or json", NULL, NULL },
    { 'q', "quiet", NULL, false, "no line for each run on stderr", NULL, NULL },
    { OPTION_PROGRESS, "progress", "KIND", false, "line: one for each run, as without it; none: as --quiet", NULL,
      NULL },
    { OPTION_OTHER, "check", NULL, false, NULL, NULL, NULL },
    { OPTION_OTHER, "dry-run", NULL, false, NULL, NULL, NULL },
    { OPTION_OTHER, "overfit", "N", false, NULL, NULL, NULL },
    { OPTION_OTHER, "doctor", "json", true, NULL, NULL, NULL },
    { OPTION_OTHER, "describe", "MODEL", true, NULL, NULL, NULL },
    { OPTION_OTHER, "net", NULL, false, NULL, NULL, NULL },
    { OPTION_OTHER, "version", NULL, false, NULL, NULL, NULL },
    { 'h', "help", NULL, false, "this text", NULL, NULL },
    { 0, NULL, NULL, false, NULL, NULL, NULL },
};

struct arguments {
    struct compare_request request;
    char **compares;                    /* of --compare; argc places, as there are for --set */
    size_t compare_count;
    bool help, quiet;
};

static void print_usage(FILE *out)
{
    fputs("usage: pipetrain -c FILE --compare KEY=VALUE,VALUE... [OPTION]...\n"
          "Run variants of a configuration one after the other, and put them side by side.\n\n", out);
    program_option_help(options, out);
    fputs("\n"
          "All variants are checked before the first one trains. Told are medians over the\n"
          "rounds, speed-up against the first variant and, where the number of towers\n"
          "differs, efficiency: all towers of all variants have as many threads then. Run\n"
          "directories are temporary (in $TMPDIR or /tmp), and nothing else is written.\n"
          "Exit status as of pipetrain.\n\n"
          "  pipetrain -c run.conf --compare towers=1,2,4\n"
          "  pipetrain -c run.conf --compare source=real,cached,synthetic --seconds=30\n"
          "  pipetrain -c run.conf --compare towers=1,2 --compare staging_depth=1,2 \\\n"
          "      --steps=200 --format=csv > compared.csv\n", out);
}

static int usage_error(const char *option, const char *value, const char *wants)
{
    log_message(LOG_ERROR, "%s=%.40s: wants %s", option, value, wants);
    return -EINVAL;
}

static int take_count(const char *option, const char *text, uint64_t most, uint64_t *count_out)
{
    char wants[64];
    const char *const end = decimal_integer_end(text);
    const bool is_number = end != NULL && *end == '\0' && *text >= '0' && *text <= '9' && strlen(text) < 19;
    const uint64_t count = is_number ? strtoull(text, NULL, 10) : 0;
    snprintf(wants, sizeof(wants), "a number from 1 to %" PRIu64, most);
    if (count < 1 || count > most)
        return usage_error(option, text, wants);
    *count_out = count;
    return 0;
}

static int take_seconds(const char *text, double *seconds_out)
{
    const char *const end = decimal_end(text);
    const double seconds = end != NULL && *end == '\0' ? decimal_read(text) : 0;
    if (!(seconds > 0) || seconds > SECONDS_MAX)
        return usage_error("--seconds", text, "a number of seconds up to 86400, one day");
    *seconds_out = seconds;
    return 0;
}

static int take_format(const char *text, enum compare_format *format_out)
{
    static const char *const names[] = { [COMPARE_TABLE] = "table", [COMPARE_CSV] = "csv", [COMPARE_JSON] = "json" };
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (strcmp(text, names[i]) == 0) {
            *format_out = (enum compare_format)i;
            return 0;
        }
    return usage_error("--format", text, "table, csv or json");
}

/* Of the runs themselves nothing is shown. */
static int take_progress(const char *text, bool *quiet_out)
{
    const bool is_none = strcmp(text, "none") == 0;
    if (!is_none && strcmp(text, "line") != 0)
        return usage_error("--progress", text, "line, one for each run, or none");
    *quiet_out = is_none;
    return 0;
}

static int take_letter(struct arguments *arguments, int letter)
{
    struct compare_request *const request = &arguments->request;
    uint64_t rounds;
    switch (letter) {
    case 'c': request->config_path = optarg; return 0;
    case OPTION_SET: request->assignments[request->assignment_count++] = optarg; return 0;
    case OPTION_COMPARE:
        arguments->help = arguments->help || strcmp(optarg, "help") == 0 || strcmp(optarg, "--help") == 0;
        arguments->compares[arguments->compare_count++] = optarg;
        return 0;
    case OPTION_ROUNDS:
        if (take_count("--rounds", optarg, COMPARISON_ROUNDS_MAX, &rounds) != 0)
            return -EINVAL;
        request->rounds = (uint32_t)rounds;
        return 0;
    case OPTION_SECONDS: return take_seconds(optarg, &request->seconds);
    case OPTION_STEPS: return take_count("--steps", optarg, TRIAL_STEPS_MAX, &request->steps);
    case OPTION_FORMAT: return take_format(optarg, &request->format);
    case OPTION_PROGRESS: return take_progress(optarg, &arguments->quiet);
    case 'q': arguments->quiet = true; return 0;
    case 'h': arguments->help = true; return 0;
    case OPTION_OTHER:
        log_message(LOG_ERROR, "--compare does not go with --check, --dry-run, --overfit, --describe, --doctor, "
                               "--version");
        return -EINVAL;
    default: return -EINVAL;
    }
}

/* 0, or -EINVAL after a message. */
static int parse_arguments(struct arguments *arguments, int argc, char **argv)
{
    struct program_words words;
    program_option_words(options, "", &words);
    int letter, rc = long_option_check(argc, argv, words.rows);
    while (rc == 0 && (letter = getopt_long(argc, argv, words.letters, words.rows, NULL)) != -1)
        rc = take_letter(arguments, letter);
    if (rc != 0 || arguments->help)
        return rc;
    if (optind < argc) {
        log_message(LOG_ERROR, "unexpected argument '%s' (a configuration file follows -c)", argv[optind]);
        return -EINVAL;
    }
    if (arguments->request.config_path == NULL) {
        log_message(LOG_ERROR, "no configuration given: pipetrain -c run.conf --compare towers=1,2");
        return -EINVAL;
    }
    if (arguments->request.seconds == 0 && arguments->request.steps == 0)
        arguments->request.seconds = SECONDS_USUAL;
    return 0;
}

static int check_variants(const struct axes *axes, struct problems *problems)
{
    const uint64_t variants = axes_variants(axes);
    if (variants > AXES_VARIANTS_MAX)
        problems_add(problems, "--compare", "%" PRIu64 " variants are more than %u", variants, AXES_VARIANTS_MAX);
    else if (variants < 2)
        problems_add(problems, "--compare", "wants two values or more (towers=1,2,4; to see how much runs differ by "
                                            "themselves: towers=1,1)");
    return problems->count == 0 ? 0 : -EINVAL;
}

/* Or a terminal: what can be read only once. */
static bool is_pipe(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
}

static void refuse_pipe(const char *path, struct problems *problems)
{
    problems_add(problems, path, "every run of a comparison reads it anew, so it cannot come through a pipe: write it "
                                 "to a file");
}

/* Threads of each tower where numbers of towers are compared: what the most towers leave to each, so that more towers
 * are more cores. 0: each variant has its own. */
static uint32_t threads_of_all(const struct axes *axes, const struct settings *settings)
{
    const struct axis *const towers = axes_find(axes, "devices.towers");
    uint64_t most = axes->has_one_tower ? (uint64_t)settings->devices.towers : 0;
    if (axes_find(axes, "devices.threads_per_tower") != NULL)
        return 0;
    for (size_t i = 0; towers != NULL && i < towers->count; i++) {
        const uint64_t count = strtoull(towers->values[i], NULL, 10);
        most = count > most ? count : most;
    }
    return most > 0 && most <= UINT32_MAX ? run_plan_threads(settings, (uint32_t)most) : 0;
}

/* Keys and values, and what each trial reads at its start; what the configuration says otherwise is checked with each
 * variant. */
static int read_request(struct arguments *arguments, struct settings *settings, struct problems *problems)
{
    struct compare_request *const request = &arguments->request;
    int rc = 0;
    for (size_t i = 0; i < arguments->compare_count && rc != -ENOMEM; i++)
        rc = axes_add(&request->axes, arguments->compares[i], settings, problems);
    if (rc != -ENOMEM && problems->count == 0)
        rc = check_variants(&request->axes, problems);
    if (rc != 0 || problems->count > 0)
        return rc != 0 ? rc : -EINVAL;
    if (is_pipe(request->config_path))
        refuse_pipe(request->config_path, problems);
    else
        rc = config_read(settings, request->config_path, problems);
    for (size_t i = 0; i < request->assignment_count && rc == 0; i++)
        rc = config_set(settings, request->assignments[i], problems);
    axes_add_one_tower(&request->axes, settings);
    request->threads_per_tower = threads_of_all(&request->axes, settings);
    request->goes_back = settings->train.on_nan == ON_NAN_ROLLBACK;
    if (rc == 0 && problems->count == 0 && is_pipe(settings->model.file))
        refuse_pipe(settings->model.file, problems);
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
        return compare(&arguments->request);
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
    const int rc = read_request(arguments, &settings, &problems);
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

bool compare_command_is_meant(int argc, char **argv)
{
    static const char name[] = "--compare";
    const size_t bytes = sizeof(name) - 1;
    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], name, bytes) == 0 && (argv[i][bytes] == '\0' || argv[i][bytes] == '='))
            return true;
    return false;
}

int compare_command(int argc, char **argv)
{
    char **const words = calloc(2 * (size_t)argc, sizeof(*words));
    if (words == NULL) {
        log_message(LOG_ERROR, "the command line: %s", strerror(ENOMEM));
        return EXIT_CODE_MEMORY;
    }
    struct arguments arguments = { .request = { .rounds = ROUNDS_USUAL, .assignments = words },
                                   .compares = words + argc };
    int code = EXIT_CODE_USAGE;
    if (parse_arguments(&arguments, argc, argv) == 0)
        code = arguments.help ? help() : run(&arguments);
    axes_release(&arguments.request.axes);
    free(words);
    return code;
}
