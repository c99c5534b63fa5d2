/* pipetrain predict: words and options -> settings -> predictions. */
#include "tools/predict/predict_command.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stage/log.h"
#include "stage/text/decimal.h"
#include "stage/text/output.h"
#include "tools/config/long_option.h"
#include "tools/config/words/program_option.h"
#include "tools/predict/found_weights.h"
#include "tools/predict/predict.h"
#include "tools/predict/trained.h"
#include "tools/run/team_wait.h"
#include "tools/signals.h"

#define TOP_DEFAULT 5u
#define TOP_MOST 1000u
#define BATCH_DEFAULT 64u
#define BATCH_MOST 65536u

/* Long options without a letter. */
enum { OPTION_SET = 256, OPTION_TOP, OPTION_BATCH, OPTION_TSV, OPTION_JSON };

static const struct program_option options[] = {
    { 'w', "weights", "FILE", false, "its weights", NULL, NULL },
    { 'c', "config", "FILE", false,
      "its configuration, where the weights do not say all (-w: by default those of its last run, or where it was "
      "killed its newest saved state)", NULL, NULL },
    { 'm', "model", "NAME", false, "or its model, by name or as a file (mine.net)", NULL, NULL },
    { OPTION_SET, "set", "SECTION.KEY=VALUE", false,
      "change a key; repeat for more (SECTION. may be left out where one section alone has KEY)", NULL, NULL },
    { OPTION_TOP, "top", "N", false, "the N likeliest classes (default 5)", NULL, NULL },
    { OPTION_BATCH, "batch", "N", false, "images computed at a time, at most (default 64)", NULL, NULL },
    { OPTION_TSV, "tsv", NULL, false, "tab-separated: image, rank, class, name, probability", NULL, NULL },
    { OPTION_JSON, "json", NULL, false, "a JSON object a line", NULL, NULL },
    { 'h', "help", NULL, false, "this text", NULL, NULL },
    { 0, NULL, NULL, false, NULL, NULL, NULL },
};

struct arguments {
    struct network_words network;       /* room for a --set in every word */
    struct predict_request request;
    char **words;
    int word_count;
    bool help;
};

static void print_usage(FILE *out)
{
    fputs("Usage: pipetrain predict -w FILE [OPTION]... IMAGE... | FOLDER | SHARDS | -\n"
          "Tell what a trained network takes images for.\n\n", out);
    program_option_help(options, out);
    fputs("\n"
          "An IMAGE is a JPEG or PNG file of any size. Of a FOLDER these are all in it and\n"
          "below, found by their content; hidden files and __MACOSX are skipped, other\n"
          "files are counted. SHARDS are TFRecord files, folders of them or globs in\n"
          "quotes; their labels are not looked at. With - paths come from standard input,\n"
          "a line each or, as of find -print0, with a 0 behind each.\n"
          "Images are decoded and scaled as those of the validation set were in training.\n"
          "One that cannot be read is told on standard error, the others go on, and the\n"
          "exit status is 3. A saved state has weights as well.\n\n"
          "  pipetrain predict -w runs/run/weights.safetensors photo.jpg\n"
          "  pipetrain predict -w best.safetensors --top 1 --tsv photos > classes.tsv\n"
          "  pipetrain predict -w resnet50.safetensors -m torchvision_resnet50 cat.jpg\n"
          "  find photos -name '*.jpg' | pipetrain predict -w best.safetensors --json -\n", out);
}

static int usage_error(const char *message, const char *word)
{
    log_message(LOG_ERROR, "predict: '%s' %s (pipetrain predict --help shows the usage)", word, message);
    return -EINVAL;
}

static int take_number(const char *text, uint32_t most, uint32_t *number_out)
{
    uint64_t number;
    if (decimal_u64(text, &number) && number >= 1 && number <= most) {
        *number_out = (uint32_t)number;
        return 0;
    }
    char message[64];
    snprintf(message, sizeof(message), "is not a whole number from 1 to %" PRIu32, most);
    return usage_error(message, text);
}

static int take_form(struct predict_request *request, enum prediction_form form)
{
    if (request->form != PREDICTION_TABLE && request->form != form) {
        log_message(LOG_ERROR, "predict: --tsv and --json are two forms of the same: give one of them");
        return -EINVAL;
    }
    request->form = form;
    return 0;
}

static int take_letter(struct arguments *arguments, int letter, char **argv)
{
    struct predict_request *const request = &arguments->request;
    switch (letter) {
    case 'w': arguments->network.weights = optarg; return 0;
    case 'c': arguments->network.config = optarg; return 0;
    case 'm': arguments->network.model = optarg; return 0;
    case OPTION_SET: arguments->network.assignments[arguments->network.assignment_count++] = optarg; return 0;
    case OPTION_TOP: return take_number(optarg, TOP_MOST, &request->top);
    case OPTION_BATCH: return take_number(optarg, BATCH_MOST, &request->batch);
    case OPTION_TSV: return take_form(request, PREDICTION_TSV);
    case OPTION_JSON: return take_form(request, PREDICTION_JSON);
    case 'h': arguments->help = true; return 0;
    case ':': return usage_error("needs a value behind it", argv[optind - 1]);
    default: return usage_error("is no option", argv[optind - 1]);
    }
}

static int check_arguments(const struct arguments *arguments)
{
    const int rc =
        network_words_check(&arguments->network, "predict", "predict -w weights.safetensors photo.jpg");
    if (rc != 0)
        return rc;
    if (arguments->word_count > 0)
        return 0;
    log_message(LOG_ERROR, "no images given: pipetrain predict -w weights.safetensors photo.jpg (--help tells more)");
    return -EINVAL;
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
    arguments->words = argv + optind;
    arguments->word_count = argc - optind;
    return check_arguments(arguments);
}

/* From here on a request ends the work behind a batch. */
static int predict_images(struct settings *settings, const struct image_words *words,
                          const struct predict_request *request)
{
    signals_block();
    const int rc = signals_start();
    if (rc == 0)
        return predict(settings, words, request);
    log_message(LOG_ERROR, "signals could not be begun: %s", exit_cause(rc));
    return EXIT_CODE_MEMORY;
}

static int predict_words(struct settings *settings, const struct arguments *arguments)
{
    struct predict_request request = arguments->request;
    struct image_words words = { .count = 0 };
    char found[PATH_MAX];
    request.weights = arguments->network.weights != NULL ? arguments->network.weights : found;
    int code = image_words_read(&words, arguments->words, arguments->word_count);
    if (code == 0 && request.weights == found)
        code = found_weights(settings, found);
    if (code == 0)
        code = predict_images(settings, &words, &request);
    image_words_release(&words);
    return code;
}

static int run(const struct arguments *arguments, char **argv, uint64_t process_start_ns)
{
    struct settings settings;
    if (settings_init(&settings) != 0) {
        log_message(LOG_ERROR, "the settings: %s", strerror(ENOMEM));
        return EXIT_CODE_MEMORY;
    }
    int code = network_words_settings(&settings, &arguments->network);
    if (code == 0 && trained_may_restart(&settings))
        team_wait_shorten(argv, process_start_ns);
    if (code == 0)
        code = predict_words(&settings, arguments);
    settings_release(&settings);
    return code;
}

static int help(void)
{
    (void)output_start();       /* without it writing is direct */
    print_usage(stdout);
    return EXIT_CODE_OK;
}

int predict_command(int argc, char **argv, uint64_t process_start_ns)
{
    struct arguments arguments = { .request = { .top = TOP_DEFAULT, .batch = BATCH_DEFAULT },
                                   .network.assignments = calloc((size_t)argc, sizeof(char *)) };
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
