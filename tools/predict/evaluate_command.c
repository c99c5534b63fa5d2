/* pipetrain evaluate: words and options -> settings -> evaluation. */
#include "tools/predict/evaluate_command.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stage/log.h"
#include "stage/text/output.h"
#include "tools/config/long_option.h"
#include "tools/predict/evaluate.h"
#include "tools/predict/trained.h"
#include "tools/run/signals.h"
#include "tools/run/team_wait.h"

/* Long options without a letter. */
enum { OPTION_SET = 256, OPTION_CSV, OPTION_JSON };

static const struct option long_options[] = {
    { "config", required_argument, NULL, 'c' },
    { "weights", required_argument, NULL, 'w' },
    { "set", required_argument, NULL, OPTION_SET },
    { "csv", required_argument, NULL, OPTION_CSV },
    { "json", no_argument, NULL, OPTION_JSON },
    { "help", no_argument, NULL, 'h' },
    { NULL, 0, NULL, 0 },
};

struct arguments {
    struct trained_settings source;     /* room for a --set in every word */
    struct evaluate_request request;
    bool help;
};

static void print_usage(FILE *out)
{
    fputs("Usage: pipetrain evaluate -c FILE [--weights FILE] [OPTION]...\n"
          "Evaluate a trained network on the validation set of a configuration.\n\n"
          "  -c, --config FILE         the configuration it was trained with\n"
          "  -w, --weights FILE        its weights; else weights.safetensors in run.dir\n"
          "      --set SECTION.KEY=VALUE   change a key; repeat for more\n"
          "      --csv FILE            write the confusion matrix\n"
          "      --json                the result as one JSON object\n"
          "  -h, --help\n\n"
          "Every sample of the validation set counts once. Told are the loss, how many are\n"
          "right (top-1) or among the five likeliest classes (top-5), the accuracy of each\n"
          "class, and what is taken for what: as a matrix where 80 columns hold it, else as\n"
          "the pairs that are confused most. One tower computes, whatever devices.towers\n"
          "says, in batches as one tower has them in training. The run directory is only\n"
          "read. Exit status as of pipetrain.\n\n"
          "  pipetrain evaluate -c run.conf\n"
          "  pipetrain evaluate -c run.conf --csv confusion.csv\n"
          "  pipetrain evaluate -c run.conf -w best.safetensors \\\n"
          "      --set data.validation='data/test-*' --json > test.json\n", out);
}

static int usage_error(const char *message, const char *word)
{
    log_message(LOG_ERROR, "evaluate: '%s' %s (pipetrain evaluate --help shows the usage)", word, message);
    return -EINVAL;
}

static int take_letter(struct arguments *arguments, int letter, char **argv)
{
    switch (letter) {
    case 'c': arguments->source.config_path = optarg; return 0;
    case 'w': arguments->request.weights = optarg; return 0;
    case OPTION_SET: arguments->source.assignments[arguments->source.count++] = optarg; return 0;
    case OPTION_CSV: arguments->request.csv = optarg; return 0;
    case OPTION_JSON: arguments->request.is_json = true; return 0;
    case 'h': arguments->help = true; return 0;
    case ':': return usage_error("needs a value behind it", argv[optind - 1]);
    default: return usage_error("is no option", argv[optind - 1]);
    }
}

/* 0, or -EINVAL after a message. */
static int parse_arguments(struct arguments *arguments, int argc, char **argv)
{
    int letter, rc = long_option_check(argc, argv, long_options);
    opterr = 0;
    while (rc == 0 && (letter = getopt_long(argc, argv, ":c:w:h", long_options, NULL)) != -1)
        rc = take_letter(arguments, letter, argv);
    if (rc != 0 || arguments->help)
        return rc;
    if (optind < argc)
        return usage_error("is one word too many", argv[optind]);
    if (arguments->source.config_path != NULL)
        return 0;
    log_message(LOG_ERROR, "no configuration given: pipetrain evaluate -c run.conf (--help tells more)");
    return -EINVAL;
}

/* What an evaluation says is waited for, however slow its reader. */
static int execute(struct settings *settings, const struct arguments *arguments, char **argv,
                   uint64_t process_start_ns)
{
    signals_hold();
    if (trained_may_restart(settings))
        team_wait_shorten(argv, process_start_ns);
    const int rc = signals_start();
    if (rc == 0)
        return evaluate(settings, &arguments->request);
    log_message(LOG_ERROR, "signals could not be begun: %s", exit_cause(rc));
    return EXIT_CODE_MEMORY;
}

static int run(const struct arguments *arguments, char **argv, uint64_t process_start_ns)
{
    struct settings settings;
    if (settings_init(&settings) != 0) {
        log_message(LOG_ERROR, "the settings: %s", strerror(ENOMEM));
        return EXIT_CODE_MEMORY;
    }
    int code = trained_read_settings(&settings, &arguments->source);
    if (code == 0)
        code = execute(&settings, arguments, argv, process_start_ns);
    settings_release(&settings);
    return code;
}

static int help(void)
{
    (void)output_start();       /* without it writing is direct */
    print_usage(stdout);
    return EXIT_CODE_OK;
}

int evaluate_command(int argc, char **argv, uint64_t process_start_ns)
{
    struct arguments arguments = { .source.assignments = calloc((size_t)argc, sizeof(char *)) };
    if (arguments.source.assignments == NULL) {
        log_message(LOG_ERROR, "the command line: %s", strerror(ENOMEM));
        return EXIT_CODE_MEMORY;
    }
    int code = EXIT_CODE_USAGE;
    if (parse_arguments(&arguments, argc - 1, argv + 1) == 0)
        code = arguments.help ? help() : run(&arguments, argv, process_start_ns);
    free(arguments.source.assignments);
    return code;
}
