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
#include "tools/config/words/program_option.h"
#include "tools/predict/evaluate.h"
#include "tools/predict/trained.h"
#include "tools/run/team_wait.h"
#include "tools/signals.h"

#define BATCH_ALONE 64          /* where no configuration says one */

/* Long options without a letter. */
enum { OPTION_SET = 256, OPTION_CSV, OPTION_JSON };

static const struct program_option options[] = {
    { 'c', "config", "FILE", false, "the configuration it was trained with", NULL, NULL },
    { 'w', "weights", "FILE", false,
      "its weights, or a saved state: without -c they tell network and scaling of images (with -c by default "
      "those of its last run, or where it was killed its newest saved state)", NULL, NULL },
    { 'm', "model", "NAME", false, "without -c: the model of weights that tell none, by name or as a file (mine.net)",
      NULL, NULL },
    { OPTION_SET, "set", "SECTION.KEY=VALUE", false,
      "change a key; repeat for more (SECTION. may be left out where one section alone has KEY)", NULL, NULL },
    { OPTION_CSV, "csv", "FILE", false, "write the confusion matrix", NULL, NULL },
    { 'f', "force", NULL, false, "let --csv replace a file that is there", NULL, NULL },
    { OPTION_JSON, "json", NULL, false, "the result as one JSON object", NULL, NULL },
    { 'q', "quiet", NULL, false, "print nothing but errors and the result", NULL, NULL },
    { 'h', "help", NULL, false, "this text", NULL, NULL },
    { 0, NULL, NULL, false, NULL, NULL, NULL },
};

struct arguments {
    struct network_words network;       /* room for a --set in every word */
    struct evaluate_request request;
    bool help;
};

static void print_usage(FILE *out)
{
    fputs("Usage: pipetrain evaluate -c FILE [--weights FILE] [OPTION]...\n"
          "  or   pipetrain evaluate -w FILE --set data.validation=SHARDS [OPTION]...\n"
          "Evaluate a trained network on a validation set.\n\n", out);
    program_option_help(options, out);
    fputs("\n"
          "Every sample of the validation set counts once. Told are the loss, how many are\n"
          "right (top-1) or among the five likeliest classes (top-5), the accuracy of each\n"
          "class, and what is taken for what: as a matrix where 80 columns hold it, else as\n"
          "the pairs that are confused most. One tower computes, whatever devices.towers\n"
          "says, in batches as one tower has them in training, without -c of 64. The run\n"
          "directory is only read. Exit status as of pipetrain.\n\n"
          "  pipetrain evaluate -c run.conf\n"
          "  pipetrain evaluate -c run.conf --csv confusion.csv\n"
          "  pipetrain evaluate -c run.conf -w best.safetensors \\\n"
          "      --set data.validation='data/test-*' --json > test.json\n"
          "  pipetrain evaluate -w weights.safetensors --set data.validation='test-*'\n", out);
}

static int usage_error(const char *message, const char *word)
{
    log_message(LOG_ERROR, "evaluate: '%s' %s (pipetrain evaluate --help shows the usage)", word, message);
    return -EINVAL;
}

static int take_letter(struct arguments *arguments, int letter, char **argv)
{
    switch (letter) {
    case 'c': arguments->network.config = optarg; return 0;
    case 'w': arguments->network.weights = optarg; return 0;
    case 'm': arguments->network.model = optarg; return 0;
    case OPTION_SET: arguments->network.assignments[arguments->network.assignment_count++] = optarg; return 0;
    case OPTION_CSV: arguments->request.csv = optarg; return 0;
    case 'f': arguments->request.may_replace = true; return 0;
    case OPTION_JSON: arguments->request.is_json = true; return 0;
    case 'q': arguments->request.is_quiet = true; return 0;
    case 'h': arguments->help = true; return 0;
    case ':': return usage_error("needs a value behind it", argv[optind - 1]);
    default: return usage_error("is no option", argv[optind - 1]);
    }
}

/* 0, or -EINVAL after a message. */
static int parse_arguments(struct arguments *arguments, int argc, char **argv)
{
    struct program_words words;
    program_option_words(options, ":", &words);
    int letter, rc = long_option_check(argc, argv, words.rows);
    opterr = 0;
    while (rc == 0 && (letter = getopt_long(argc, argv, words.letters, words.rows, NULL)) != -1)
        rc = take_letter(arguments, letter, argv);
    if (rc != 0 || arguments->help)
        return rc;
    if (optind < argc)
        return usage_error("is one word too many", argv[optind]);
    return network_words_check(&arguments->network, "evaluate", "evaluate -c run.conf");
}

/* Weights alone: the batch is no part of what they tell. */
static int read_settings(struct settings *settings, const struct arguments *arguments)
{
    const int code = network_words_settings(settings, &arguments->network);
    if (arguments->network.config != NULL)
        return code;
    if (settings->train.batch == 0)
        settings->train.batch = BATCH_ALONE;
    settings->train.batch_per_tower = 0;
    settings->train.accumulate = 1;
    settings->devices.towers = 1;
    return code;
}

/* What an evaluation says is waited for, however slow its reader. */
static int execute(struct settings *settings, const struct arguments *arguments, char **argv,
                   uint64_t process_start_ns)
{
    signals_block();
    if (arguments->request.is_quiet)
        log_only_errors();
    if (trained_may_restart(settings))
        team_wait_shorten(argv, process_start_ns);
    const int rc = signals_start();
    struct evaluate_request request = arguments->request;
    request.weights = arguments->network.weights;
    if (rc == 0)
        return evaluate(settings, &request);
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
    int code = read_settings(&settings, arguments);
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
    struct arguments arguments = { .network.assignments = calloc((size_t)argc, sizeof(char *)) };
    if (arguments.network.assignments == NULL) {
        log_message(LOG_ERROR, "the command line: %s", strerror(ENOMEM));
        return EXIT_CODE_MEMORY;
    }
    int code = EXIT_CODE_USAGE;
    output_end_with_reader();
    if (parse_arguments(&arguments, argc - 1, argv + 1) == 0)
        code = arguments.help ? help() : run(&arguments, argv, process_start_ns);
    free(arguments.network.assignments);
    return code;
}
