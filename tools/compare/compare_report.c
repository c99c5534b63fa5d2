/* Prints a comparison as a table, as CSV or as JSON. */
#include "tools/compare/compare_report.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "formats/json.h"
#include "stage/log.h"
#include "stage/text/decimal.h"
#include "tools/lib/run/run_progress.h"
#include "tools/lib/text/columns.h"
#include "tools/lib/text/number.h"
#include "tools/lib/text/wrapped.h"
#include "tools/lib/version.h"

/* width of the values of a variant before the numbers; wider ones are printed on a line of their own */
#define NAMES_WIDTH 20
#define CELL_BYTES 32
#define OTHERS_NOTED 0.1        /* share of the cores' time used by other programs that is worth a note */
#define RATE (-1)               /* digits of a rate (number_rate_digits) */
#define NAME_BYTES 1024

/* A column of the table. Its content is the result of `value` or, if that is NULL, the median of the metric
 * `compared`. The width includes the blanks before the column. */
struct column {
    const char *name;
    int width;
    double (*value)(const struct comparison *comparison, uint32_t variant);
    int digits;                 /* after the decimal point, or RATE */
    const char *unit;
    const char *compared;       /* name of a metric (compared_name) */
};

/* Half the range of the speed over the rounds, in percent of the median. */
static double speed_range(const struct comparison *comparison, uint32_t variant)
{
    const struct spread spread = comparison_spread(comparison, variant, COMPARED_SPEED);
    return comparison->rounds > 1 ? 50 * (spread.most - spread.least) / spread.median : NAN;
}

/* The validation loss if all variants have one; else the training loss. */
static double shown_loss(const struct comparison *comparison, uint32_t variant)
{
    const char *const loss = comparison_has_validation(comparison) ? "validation_loss" : "loss";
    return comparison_spread(comparison, variant, loss).median;
}

static double efficiency(const struct comparison *comparison, uint32_t variant)
{
    return 100 * comparison_efficiency(comparison, variant);
}

static const struct column variant_columns[] = {
    { "images/s", 11, NULL, RATE, "", COMPARED_SPEED },    { "+/-", 8, speed_range, 1, " %", NULL },
    { "speed-up", 10, NULL, 3, "", COMPARED_SPEED_UP },  { "efficiency", 12, efficiency, 1, " %", NULL },
    { "accuracy", 10, NULL, 2, " %", "validation_accuracy" }, { "loss", 8, shown_loss, 4, "", NULL },
    { NULL, 0, NULL, 0, NULL, NULL },
};
static const struct column step_columns[] = {
    { "median ms", 12, NULL, 2, "", "step_p50_ms" },      { "p90 ms", 10, NULL, 2, "", "step_p90_ms" },
    { "p99 ms", 10, NULL, 2, "", "step_p99_ms" },         { "uncertainty", 13, NULL, RATE, "", "uncertainty" },
    { "jitter", 11, NULL, RATE, "", "jitter" },   { NULL, 0, NULL, 0, NULL, NULL },
};
static const struct column time_columns[] = {
    { "input wait", 12, NULL, 1, " %", "input_wait" },    { "copy", 8, NULL, 1, " %", "exposed_copy" },
    { "forward", 9, NULL, 1, " %", "forward" },           { "backward", 10, NULL, 1, " %", "backward" },
    { "reduction", 11, NULL, 1, " %", "exposed_reduction" }, { "update", 8, NULL, 1, " %", "update" },
    { NULL, 0, NULL, 0, NULL, NULL },
};
/* With model.parts in a variant. */
static const struct column exchange_columns[] = {
    { "input wait", 12, NULL, 1, " %", "input_wait" },    { "copy", 8, NULL, 1, " %", "exposed_copy" },
    { "forward", 9, NULL, 1, " %", "forward" },           { "backward", 10, NULL, 1, " %", "backward" },
    { "reduction", 11, NULL, 1, " %", "exposed_reduction" }, { "exchange", 10, NULL, 1, " %", "exposed_exchange" },
    { "update", 8, NULL, 1, " %", "update" },             { NULL, 0, NULL, 0, NULL, NULL },
};

static const struct column money_columns[] = {
    { "cost", 12, NULL, 6, "", "cost_money" },            { "images/unit", 14, NULL, RATE, "", "images_per_money" },
    { "to best", 12, NULL, 6, "", "money_to_best" },      { NULL, 0, NULL, 0, NULL, NULL },
};
static const struct column energy_columns[] = {
    { "joules", 12, NULL, 1, "", "joules" },              { "images/J", 14, NULL, RATE, "", "images_per_joule" },
    { "to best", 12, NULL, 1, "", "joules_to_best" },     { NULL, 0, NULL, 0, NULL, NULL },
};

/* The number to print: shares are converted to percent. */
static double column_value(const struct comparison *comparison, uint32_t variant, const struct column *column)
{
    if (column->value != NULL)
        return column->value(comparison, variant);
    const double median = comparison_spread(comparison, variant, column->compared).median;
    return *column->unit == '\0' ? median : 100 * median;
}

static const char *shown_value(const struct comparison *comparison, uint32_t variant, size_t axis,
                               char shown[NAME_BYTES])
{
    const bool is_alone = comparison->axes->has_one_tower && variant == 0 && axis == 0;
    log_plain(is_alone ? AXES_ONE_TOWER : axes_value(comparison->axes, variant, axis), shown, NAME_BYTES);
    return *shown != '\0' ? shown : "\"\"";
}

static int axis_width(const struct comparison *comparison, size_t axis)
{
    char shown[NAME_BYTES];
    size_t width = strlen(comparison->axes->axes[axis].name);
    for (uint32_t v = 0; v < comparison->variants; v++) {
        const size_t length = columns_count(shown_value(comparison, v, axis, shown));
        width = length > width ? length : width;
    }
    return (int)width;
}

/* Do the values of all keys fit before the numbers? */
static bool has_room(const struct comparison *comparison)
{
    int width = 0;
    for (size_t i = 0; i < comparison->axes->count; i++)
        width += axis_width(comparison, i) + (i > 0 ? 2 : 0);
    return width <= NAMES_WIDTH;
}

static void print_head(const struct comparison *comparison, const struct column *columns, FILE *out)
{
    const struct axes *const axes = comparison->axes;
    if (has_room(comparison))
        for (size_t i = 0; i < axes->count; i++)
            fprintf(out, "%s%-*s", i > 0 ? "  " : "", axis_width(comparison, i), axes->axes[i].name);
    else
        fprintf(out, "%-*s", NAMES_WIDTH, "variant");
    for (const struct column *column = columns; column->name != NULL; column++)
        fprintf(out, "%*s", column->width, column->name);
    fputc('\n', out);
}

static void print_row(const struct comparison *comparison, uint32_t variant, const struct column *columns, FILE *out)
{
    char shown[NAME_BYTES], name[NAME_BYTES];
    if (has_room(comparison)) {
        for (size_t i = 0; i < comparison->axes->count; i++) {
            const size_t width = (size_t)axis_width(comparison, i);
            fputs(i > 0 ? "  " : "", out);
            columns_print(out, shown_value(comparison, variant, i, shown), width, width);
        }
    } else {
        axes_name(comparison->axes, variant, name, sizeof(name));
        log_plain(name, shown, sizeof(shown));
        fprintf(out, "%s\n%-*s", shown, NAMES_WIDTH, "");
    }
    for (const struct column *column = columns; column->name != NULL; column++) {
        const double value = column_value(comparison, variant, column);
        const int digits = column->digits == RATE ? number_rate_digits(value) : column->digits;
        fprintf(out, "%*s", column->width, number_cell(value, digits, column->unit, column->width - 1).text);
    }
    fputc('\n', out);
}

static void print_table(const struct comparison *comparison, const struct column *columns, FILE *out)
{
    print_head(comparison, columns, out);
    for (uint32_t v = 0; v < comparison->variants; v++)
        print_row(comparison, v, columns, out);
}

/* Print the measure that train.best_by names, under its name without "validation ". */
static void print_judged(const struct comparison *comparison, FILE *out)
{
    const char *const judged = comparison_judged_by(comparison);
    if (judged == NULL)
        return;
    const char *const name = strchr(best_by_words(comparison->best_by), ' ') + 1;
    const bool is_percent = comparison->best_by == BEST_BY_BALANCED_ACCURACY;
    const struct column columns[] = {
        { "accuracy", 10, NULL, 2, " %", "validation_accuracy" },
        { name, (int)strlen(name) + 2, NULL, is_percent ? 2 : 4, is_percent ? " %" : "", judged },
        { NULL, 0, NULL, 0, NULL, NULL },
    };
    fputs("\nthe last evaluation, by the measure of train.best_by\n", out);
    print_table(comparison, columns, out);
}

static bool has_any(const struct comparison *comparison, const char *name)
{
    for (uint32_t v = 0; v < comparison->variants; v++)
        if (isfinite(comparison_spread(comparison, v, name).median))
            return true;
    return false;
}

/* Print the money and the energy of rounds, where they are known. */
static void print_costs(const struct comparison *comparison, FILE *out)
{
    static const char to_best[] = "from start to end; to best: up to its best evaluation";
    const bool is_one_price = axes_find(comparison->axes, "report.price") == NULL;
    if (has_any(comparison, "cost_money")) {
        fprintf(out, "\ncost of a round%s%s, %s\n", is_one_price ? " in " : "",
                is_one_price ? comparison->price.currency : "", to_best);
        print_table(comparison, money_columns, out);
    }
    if (has_any(comparison, "joules")) {
        fprintf(out, "\nenergy of a round, %s\n", to_best);
        print_table(comparison, energy_columns, out);
    }
}

static void print_length(const struct comparison *comparison, FILE *out)
{
    char steps[CELL_BYTES] = "", seconds[CELL_BYTES] = "";
    if (comparison->steps > 0)
        snprintf(steps, sizeof(steps), "%" PRIu64 " step%s", comparison->steps, comparison->steps == 1 ? "" : "s");
    if (comparison->seconds > 0)
        snprintf(seconds, sizeof(seconds), "%g s", comparison->seconds);
    wrapped_print(out, "compared  %u variants in %u round%s of %s%s%s; pipetrain %s on %s, %s", comparison->variants,
                  comparison->rounds, comparison->rounds == 1 ? "" : "s", steps,
                  *steps != '\0' && *seconds != '\0' ? " or " : "", seconds, PIPETRAIN_VERSION,
                  comparison->results->device, comparison->config_path);
}

/* Print the number of threads of each CPU tower: one number if it is equal in all variants. */
static void print_threads(const struct comparison *comparison, FILE *out)
{
    const uint64_t first = comparison->results->threads_per_tower;
    char list[NAME_BYTES] = "";
    bool differ = false;
    if (strcmp(comparison->results->device, "cpu") != 0)
        return;
    for (uint32_t v = 0; v < comparison->variants; v++) {
        const uint64_t threads = comparison_result(comparison, v, 0)->threads_per_tower;
        const size_t used = strlen(list);
        snprintf(list + used, sizeof(list) - used, "%s%" PRIu64, v > 0 ? ", " : "", threads);
        differ = differ || threads != first;
    }
    if (differ)
        wrapped_print(out, "threads   per tower, in the order of the rows: %s", list);
    else
        wrapped_print(out, "threads   %" PRIu64 " per tower in every variant", first);
}

static void print_others(const struct comparison *comparison, FILE *out)
{
    double most = 0;
    uint32_t at = 0;
    for (uint32_t v = 0; v < comparison->variants; v++)
        for (uint32_t r = 0; r < comparison->rounds; r++) {
            const double taken = comparison_value(comparison, v, r, "others") +
                                 comparison_value(comparison, v, r, "stolen");
            at = taken > most ? r + 1 : at;
            most = fmax(taken, most);
        }
    if (most > OTHERS_NOTED)
        wrapped_print(out, "note      other programs used up to %.0f %% of the cores' time (in round %u): compare "
                           "again when they have ended", 100 * most, at);
}

static bool has_exchanges(const struct comparison *comparison)
{
    for (uint32_t v = 0; v < comparison->variants; v++)
        if (comparison_spread(comparison, v, "exposed_exchange").median > 0)
            return true;
    return false;
}

void compare_report_table(const struct comparison *comparison, FILE *out)
{
    print_length(comparison, out);
    print_threads(comparison, out);
    fputc('\n', out);
    print_table(comparison, variant_columns, out);
    print_judged(comparison, out);
    fputs("\nstep times of a round; uncertainty and jitter of its images/s\n", out);
    print_table(comparison, step_columns, out);
    fputs("\nshares of the towers' time; copy and reduction: what was not hidden\n", out);
    print_table(comparison, has_exchanges(comparison) ? exchange_columns : time_columns, out);
    print_costs(comparison, out);
    const uint64_t warmup = comparison->results->values.run.warmup_steps;
    fprintf(out, "\nimages/s: all images over wall time, after %" PRIu64 " warm-up step%s\n"
                 "medians of the rounds; +/-: half the rounds' range\n"
                 "speed-up: against the first variant in the same round%s\n", warmup, warmup == 1 ? "" : "s",
            comparison_has_validation(comparison) ? "; loss: of validation" : "");
    print_others(comparison, out);
}

/* Quoted as in RFC 4180. */
static void write_text(const char *text, FILE *out)
{
    if (strpbrk(text, ",\"\r\n") == NULL) {
        fputs(text, out);
        return;
    }
    fputc('"', out);
    for (; *text != '\0'; text++) {
        if (*text == '"')
            fputc('"', out);
        fputc(*text, out);
    }
    fputc('"', out);
}

/* A comma and the number, which is empty if it is not finite. */
static void write_number(double value, FILE *out)
{
    char text[DECIMAL_SIZE] = "";
    if (isfinite(value))
        decimal_write(value, text, sizeof(text));
    fprintf(out, ",%s", text);
}

/* In CSV and JSON, speeds are followed by their range. */
static bool has_range(const char *name)
{
    return strcmp(name, COMPARED_SPEED) == 0 || strcmp(name, COMPARED_SPEED_UP) == 0;
}

static void write_csv_names(const struct comparison *comparison, FILE *out)
{
    for (size_t i = 0; i < comparison->axes->count; i++)
        fprintf(out, "%s%s", comparison->axes->axes[i].key, i + 1 < comparison->axes->count ? "," : "");
    fputs(",towers,threads_per_tower,batch,rounds,steps,images,efficiency", out);
    for (size_t i = 0; compared_name(i) != NULL; i++) {
        const char *const name = compared_name(i);
        fprintf(out, ",%s", name);
        if (has_range(name))
            fprintf(out, ",%s_least,%s_most", name, name);
    }
    fputc('\n', out);
}

static void write_csv_row(const struct comparison *comparison, uint32_t variant, FILE *out)
{
    const struct trial_result *const result = comparison_result(comparison, variant, 0);
    for (size_t i = 0; i < comparison->axes->count; i++) {
        write_text(axes_value(comparison->axes, variant, i), out);
        fputs(i + 1 < comparison->axes->count ? "," : "", out);
    }
    fprintf(out, ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu32 ",%" PRIu64 ",%" PRIu64, result->towers,
            result->threads_per_tower, result->batch, comparison->rounds, result->values.run.steps,
            result->values.images);
    write_number(comparison_efficiency(comparison, variant), out);
    for (size_t i = 0; compared_name(i) != NULL; i++) {
        const struct spread spread = comparison_spread(comparison, variant, compared_name(i));
        write_number(spread.median, out);
        if (has_range(compared_name(i))) {
            write_number(spread.least, out);
            write_number(spread.most, out);
        }
    }
    fputc('\n', out);
}

void compare_report_csv(const struct comparison *comparison, FILE *out)
{
    write_csv_names(comparison, out);
    for (uint32_t v = 0; v < comparison->variants; v++)
        write_csv_row(comparison, v, out);
}

static void write_compared(const struct comparison *comparison, uint32_t variant, const char *name, struct json *json)
{
    const struct spread spread = comparison_spread(comparison, variant, name);
    json_open_object(json, name);
    json_double(json, "median", spread.median);
    json_double(json, "least", spread.least);
    json_double(json, "most", spread.most);
    json_open_array(json, "rounds");
    for (uint32_t r = 0; r < comparison->rounds; r++)
        json_double(json, NULL, comparison_value(comparison, variant, r, name));
    json_close_array(json);
    json_close_object(json);
}

static void write_json_variant(const struct comparison *comparison, uint32_t variant, struct json *json)
{
    const struct trial_result *const result = comparison_result(comparison, variant, 0);
    json_open_object(json, NULL);
    json_open_object(json, "settings");
    for (size_t i = 0; i < comparison->axes->count; i++)
        json_quoted(json, comparison->axes->axes[i].key, axes_value(comparison->axes, variant, i));
    json_close_object(json);
    json_quoted(json, "device", result->device);
    json_u64(json, "towers", result->towers);
    json_u64(json, "threads_per_tower", result->threads_per_tower);
    json_u64(json, "batch", result->batch);
    json_open_array(json, "images");
    for (uint32_t r = 0; r < comparison->rounds; r++)
        json_u64(json, NULL, comparison_result(comparison, variant, r)->values.images);
    json_close_array(json);
    json_u64(json, "peak_rss_bytes", result->values.run.peak_rss_bytes);
    json_double(json, "efficiency", comparison_efficiency(comparison, variant));
    for (size_t i = 0; compared_name(i) != NULL; i++)
        write_compared(comparison, variant, compared_name(i), json);
    json_close_object(json);
}

int compare_report_json(const struct comparison *comparison, FILE *out)
{
    struct json json;
    json_init(&json, true);
    json_open_object(&json, NULL);
    json_quoted(&json, "version", PIPETRAIN_VERSION);
    json_quoted(&json, "config", comparison->config_path);
    json_u64(&json, "rounds", comparison->rounds);
    json_u64(&json, "steps", comparison->steps);
    json_double(&json, "seconds", comparison->seconds);
    json_bool(&json, "equal_samples", comparison_has_equal_samples(comparison));
    json_open_array(&json, "variants");
    for (uint32_t v = 0; v < comparison->variants; v++)
        write_json_variant(comparison, v, &json);
    json_close_array(&json);
    json_close_object(&json);
    const char *const text = json_text(&json);
    if (text != NULL)
        fprintf(out, "%s\n", text);
    json_release(&json);
    return text != NULL ? 0 : -ENOMEM;
}
