/* --compare: options give variants, which run in rounds of trials, which are reported. */
#include "tools/compare/compare.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stage/log.h"
#include "stage/stop.h"
#include "stage/text/decimal.h"
#include "tools/compare/compare_report.h"
#include "tools/lib/run/run_plan.h"
#include "tools/lib/trial/trial_command.h"

#define DEFAULT_ROUNDS 3
#define DEFAULT_SECONDS 10
#define NAME_BYTES 512

enum compare_format { COMPARE_TABLE, COMPARE_CSV, COMPARE_JSON };

static const char *const format_names[] = { [COMPARE_TABLE] = "table", [COMPARE_CSV] = "csv", [COMPARE_JSON] = "json",
                                            NULL };

/* The assignments of a variant: its value on each axis, and settings that make variants comparable. It owns the
 * texts. */
struct variant_words {
    char name[NAME_BYTES], threads[64];
    char *owned[AXES_MAX];
    const char *own[AXES_MAX + 2];
};

struct compare {
    struct trial_arguments words;           /* the first member: see trial_command.h */
    struct string_list texts;             /* arguments of --compare */
    struct axes axes;
    uint64_t rounds;
    double seconds;                     /* training time of each trial; 0: trials are limited by `steps` */
    uint64_t steps;                     /* steps of each trial; 0: trials are limited by `seconds` */
    enum compare_format format;
    uint32_t threads_per_tower;         /* used in all variants; 0: each variant has its own number */
    struct trial_spec spec;             /* used for every trial */
    struct variant *variants;
    struct variant_words *variant_words;
    struct comparison comparison;
};

#define FIELD(name) .offset = offsetof(struct compare, name)

static const struct program_option options[] = {
    { .letter = 'c', .name = "config", .value = "FILE", .store = STORE_TEXT, FIELD(words.config.path),
      .help = "the configuration; no pipe, because every run reads it" },
    { .name = "compare", .value = "KEY=VALUE,VALUE...",
      .help = "the values to compare; several KEYs: all combinations. SECTION.KEY, or KEY where only one section has "
              "it; a comma in a value is written \\," },
    { .name = "set", .value = "SECTION.KEY=VALUE", .store = STORE_LIST, FIELD(words.config.assignments),
      .help = "override a key in all variants; may be repeated" },
    { .name = "rounds", .value = "N", .store = STORE_NUMBER, .least = 1, .most = TRIAL_ROUNDS_MAX, FIELD(rounds),
      .help = "each variant runs once in every round (default 3)" },
    { .name = "seconds", .value = "S", .store = STORE_SECONDS, .least_seconds = 0.01, FIELD(seconds),
      .help = "train for S seconds per run (default 10)" },
    { .name = "steps", .value = "N", .store = STORE_NUMBER, .least = 1, .most = TRIAL_STEPS_MAX, FIELD(steps),
      .help = "train for N steps per run; only then are loss and accuracy compared" },
    { .name = "format", .value = "FORMAT", .store = STORE_CHOICE, .choices = format_names, FIELD(format),
      .help = "table, csv or json" },
    TRIAL_OPTION_ROWS("--compare"),
};

/* ---- the command line ---- */

static void print_usage(FILE *out)
{
    fputs("usage: pipetrain -c FILE --compare KEY=VALUE,VALUE... [OPTION]...\n"
          "Run variants of a configuration one after the other and compare them.\n\n", out);
    program_option_help(options, out);
    fputs("\n"
          "All variants are checked before the first one trains. The table shows medians of\n"
          "the rounds, the speed-up over the first variant and, where the number of towers\n"
          "differs, the efficiency: all towers of all variants then have as many threads.\n"
          "Run directories are temporary (in $TMPDIR or /tmp), and nothing else is written.\n"
          "Exit status as for pipetrain.\n\n"
          "  pipetrain -c run.conf --compare towers=1,2,4\n"
          "  pipetrain -c run.conf --compare source=real,cached,synthetic --seconds=30\n"
          "  pipetrain -c run.conf --compare towers=1,2 --compare staging_depth=1,2 \\\n"
          "      --steps=200 --format=csv > compared.csv\n", out);
}

/* Stores the argument of --compare. */
static int store_texts(void *out, const struct program_option *option, const char *value)
{
    struct compare *const compare = out;
    if (strcmp(value, "help") != 0 && strcmp(value, "--help") != 0)
        return program_list_add(&compare->texts, option->name, value);
    compare->words.wants_help = true;
    return 0;
}

static const struct program_command command_line = {
    .usage = "pipetrain --compare", .options = options, .store = store_texts,
};

static void check_variants(const struct axes *axes, struct problems *problems)
{
    const uint64_t variants = axes_variants(axes);
    if (variants > AXES_VARIANTS_MAX)
        problems_add(problems, "--compare", "%" PRIu64 " variants are more than %u", variants, AXES_VARIANTS_MAX);
    else if (variants < 2)
        problems_add(problems, "--compare", "wants two values or more (towers=1,2,4; to see how much equal runs "
                                            "differ: towers=1,1)");
}

/* If different numbers of towers are compared, each tower has as many threads as with the largest number: then a
 * variant with more towers uses more cores. 0: each variant has its own number of threads. */
static uint32_t find_common_threads(const struct axes *axes, const struct settings *settings)
{
    const struct axis *const towers = axes_find(axes, "devices.towers");
    uint64_t most = axes->has_one_tower ? (uint64_t)settings->devices.towers : 0;
    if (axes_find(axes, "devices.threads_per_tower") != NULL)
        return 0;
    for (size_t i = 0; towers != NULL && i < towers->count; i++) {
        uint64_t count;
        if (decimal_u64(towers->values[i], &count) && count > most)
            most = count;
    }
    return most > 0 && most <= UINT32_MAX ? run_plan_threads(settings, (uint32_t)most) : 0;
}

/* Makes the axes; the values are checked later, with each variant. */
static int prepare(struct trial_arguments *arguments, struct settings *settings, struct problems *problems)
{
    struct compare *const compare = (struct compare *)arguments;
    int rc = 0;
    for (size_t i = 0; i < compare->texts.count && rc != -ENOMEM; i++)
        rc = axes_add(&compare->axes, compare->texts.words[i], settings, problems);
    if (rc != 0 || problems->count > 0)
        return rc;
    check_variants(&compare->axes, problems);
    axes_add_one_tower(&compare->axes, settings);
    compare->threads_per_tower = find_common_threads(&compare->axes, settings);
    compare->comparison.best_by = settings->train.best_by;
    (void)price_read(settings->report.price, &compare->comparison.price);
    return 0;
}

/* ---- trials ---- */

static int out_of_memory(void)
{
    log_message(LOG_ERROR, "--compare: %s", strerror(ENOMEM));
    return EXIT_CODE_MEMORY;
}

static int interrupted(const struct trial_result *result)
{
    log_message(LOG_RUN, "interrupted: no results, since not all variants ran");
    return result->exit_code;
}

/* 0 or -ENOMEM; call variants_release in both cases. */
static int variant_init(struct variant *variant, struct variant_words *words, const struct compare *compare,
                        uint32_t index)
{
    const struct axes *const axes = &compare->axes;
    axes_name(axes, index, words->name, sizeof(words->name));
    *variant = (struct variant){ .name = words->name, .own = words->own };
    if (compare->threads_per_tower > 0) {
        snprintf(words->threads, sizeof(words->threads), "devices.threads_per_tower=%" PRIu32,
                 compare->threads_per_tower);
        words->own[variant->own_count++] = words->threads;
    }
    for (size_t i = 0; i < axes->count; i++) {
        if (asprintf(&words->owned[i], "%s=%s", axes->axes[i].key, axes_value(axes, index, i)) < 0) {
            words->owned[i] = NULL;
            return -ENOMEM;
        }
        words->own[variant->own_count++] = words->owned[i];
    }
    if (axes->has_one_tower && index == 0)
        words->own[variant->own_count++] = "devices.towers=1";
    return 0;
}

static int variants_init(struct compare *compare)
{
    const uint32_t count = compare->comparison.variants;
    compare->variants = calloc(count, sizeof(*compare->variants));
    compare->variant_words = calloc(count, sizeof(*compare->variant_words));
    int rc = compare->variants == NULL || compare->variant_words == NULL ? -ENOMEM : 0;
    for (uint32_t v = 0; v < count && rc == 0; v++)
        rc = variant_init(&compare->variants[v], &compare->variant_words[v], compare, v);
    return rc;
}

static void variants_release(struct compare *compare)
{
    for (uint32_t v = 0; v < compare->comparison.variants && compare->variant_words != NULL; v++)
        for (size_t i = 0; i < AXES_MAX; i++)
            free(compare->variant_words[v].owned[i]);
    free(compare->variant_words);
    free(compare->variants);
}

/* Check the settings of all variants before the first one trains. A problem that consecutive variants share is
 * printed once. */
static int check_all(const struct compare *compare)
{
    struct trial_result result, previous = { .problem = "" };
    struct trial_spec spec = compare->spec;
    int code = 0;
    for (uint32_t v = 0; v < compare->comparison.variants; v++) {
        spec.own = compare->variants[v].own;
        spec.own_count = compare->variants[v].own_count;
        const int rc = trial_check(&spec, &result);
        if (rc == -ECANCELED)
            return interrupted(&result);
        if (rc == 0)
            continue;
        if (strcmp(result.problem, previous.problem) != 0)
            trial_print_problem(compare->variants[v].name, &result);
        previous = result;
        code = code == 0 ? result.exit_code : code;
    }
    return code;
}

static int run_round(const struct compare *compare, uint32_t round)
{
    const struct comparison *const comparison = &compare->comparison;
    struct trial_result *const results = &comparison->results[(size_t)round * comparison->variants];
    char label[48];
    uint32_t last = 0;
    snprintf(label, sizeof(label), "round %u of %u", round + 1, comparison->rounds);
    const int rc = trial_round(&compare->spec, label, compare->variants, comparison->variants, results, &last);
    if (rc == -ECANCELED)
        return interrupted(&results[last]);
    if (rc != 0)
        trial_print_problem(compare->variants[last].name, &results[last]);
    return rc == 0 ? 0 : results[last].exit_code;
}

static int run_all(const struct compare *compare)
{
    int code = check_all(compare);
    for (uint32_t r = 0; r < compare->comparison.rounds && code == 0; r++)
        code = run_round(compare, r);
    return code;
}

static int print_comparison(const struct compare *compare)
{
    switch (compare->format) {
    case COMPARE_TABLE: compare_report_table(&compare->comparison, stdout); return EXIT_CODE_OK;
    case COMPARE_CSV: compare_report_csv(&compare->comparison, stdout); return EXIT_CODE_OK;
    default: return compare_report_json(&compare->comparison, stdout) == 0 ? EXIT_CODE_OK : out_of_memory();
    }
}

static int run_comparison(struct trial_arguments *arguments, const struct trial_spec *spec)
{
    struct compare *const compare = (struct compare *)arguments;
    struct comparison *const comparison = &compare->comparison;
    if (compare->seconds == 0 && compare->steps == 0)
        compare->seconds = DEFAULT_SECONDS;
    compare->spec = *spec;
    compare->spec.seconds = compare->seconds;
    compare->spec.steps = compare->steps;
    compare->spec.skips_evaluation = compare->steps == 0;       /* a trial by time measures speed only */
    *comparison = (struct comparison){ .axes = &compare->axes,
                                       .config_path = spec->config.path,
                                       .best_by = comparison->best_by,
                                       .price = comparison->price,
                                       .seconds = compare->seconds,
                                       .steps = compare->steps,
                                       .variants = (uint32_t)axes_variants(&compare->axes),
                                       .rounds = (uint32_t)compare->rounds };
    comparison->results = calloc((size_t)comparison->variants * comparison->rounds, sizeof(*comparison->results));
    const bool is_ready = comparison->results != NULL && variants_init(compare) == 0;
    int code = is_ready ? run_all(compare) : out_of_memory();
    if (code == 0)
        code = print_comparison(compare);
    variants_release(compare);
    free(comparison->results);
    return code;
}

static const struct trial_command command = {
    .name = "--compare", .example = "pipetrain -c run.conf --compare towers=1,2", .line = &command_line,
    .print_usage = print_usage, .prepare = prepare, .run = run_comparison,
};

int compare_command(int argc, char **argv, uint64_t process_start_ns)
{
    struct compare compare = { .rounds = DEFAULT_ROUNDS };
    (void)process_start_ns;
    const int code = trial_command_run(&command, &compare.words, argc, argv);
    axes_release(&compare.axes);
    free(compare.texts.words);
    return code;
}
