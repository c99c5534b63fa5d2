/* The table of a comparison, and its rows as CSV. */
#include "tools/compare/compare_report.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "stage/log.h"
#include "stage/text/decimal.h"
#include "tools/text/wrapped.h"
#include "tools/version.h"

#define NAMES_WIDTH 20          /* of values in front of numbers; wider ones stand on lines of their own */
#define CELL_BYTES 32
#define NAME_BYTES 1024

/* A column: what it is called, how wide it is with the blanks in front, and what stands in it. */
struct column {
    const char *name;
    int width;
    double (*value)(const struct comparison *comparison, uint32_t variant);
    int digits;                 /* behind the point */
    const char *unit;
};

static double median(const struct comparison *comparison, uint32_t variant, enum measure measure)
{
    return comparison_spread(comparison, variant, measure).median;
}

static double speed(const struct comparison *comparison, uint32_t variant)
{
    return median(comparison, variant, MEASURE_SPEED);
}

/* Half the range, in per cent of the median. */
static double speed_range(const struct comparison *comparison, uint32_t variant)
{
    const struct spread spread = comparison_spread(comparison, variant, MEASURE_SPEED);
    return comparison->rounds > 1 ? 50 * (spread.most - spread.least) / spread.median : NAN;
}

static double speed_up(const struct comparison *comparison, uint32_t variant)
{
    return median(comparison, variant, MEASURE_SPEED_UP);
}

static double efficiency(const struct comparison *comparison, uint32_t variant)
{
    return 100 * comparison_efficiency(comparison, variant);
}

static double accuracy(const struct comparison *comparison, uint32_t variant)
{
    return 100 * median(comparison, variant, MEASURE_ACCURACY);
}

static double loss(const struct comparison *comparison, uint32_t variant)
{
    return median(comparison, variant, MEASURE_LOSS);
}

static double mean(const struct comparison *comparison, uint32_t variant)
{
    return median(comparison, variant, MEASURE_MEAN);
}

static double uncertainty(const struct comparison *comparison, uint32_t variant)
{
    return median(comparison, variant, MEASURE_UNCERTAINTY);
}

static double jitter(const struct comparison *comparison, uint32_t variant)
{
    return median(comparison, variant, MEASURE_JITTER);
}

static double p50(const struct comparison *comparison, uint32_t variant)
{
    return median(comparison, variant, MEASURE_P50);
}

static double p99(const struct comparison *comparison, uint32_t variant)
{
    return median(comparison, variant, MEASURE_P99);
}

static double input_wait(const struct comparison *comparison, uint32_t variant)
{
    return 100 * median(comparison, variant, MEASURE_INPUT_WAIT);
}

static const struct column of_variants[] = {
    { "images/s", 11, speed, 1, "" },       { "+/-", 8, speed_range, 1, " %" },
    { "speed-up", 10, speed_up, 3, "" },    { "efficiency", 12, efficiency, 1, " %" },
    { "accuracy", 10, accuracy, 2, " %" },  { "loss", 8, loss, 4, "" },
    { NULL, 0, NULL, 0, NULL },
};
static const struct column of_steps[] = {
    { "mean", 11, mean, 1, "" },            { "+/-", 8, uncertainty, 1, "" },
    { "jitter", 9, jitter, 1, "" },         { "p50 ms", 10, p50, 2, "" },
    { "p99 ms", 9, p99, 2, "" },            { "input wait", 12, input_wait, 1, " %" },
    { NULL, 0, NULL, 0, NULL },
};

static const char *shown_value(const struct comparison *comparison, uint32_t variant, size_t axis,
                               char shown[NAME_BYTES])
{
    log_plain(axes_value(comparison->axes, variant, axis), shown, NAME_BYTES);
    return *shown != '\0' ? shown : "\"\"";
}

static int axis_width(const struct comparison *comparison, size_t axis)
{
    char shown[NAME_BYTES];
    size_t width = strlen(comparison->axes->axes[axis].name);
    for (uint32_t v = 0; v < comparison->variants; v++) {
        const size_t length = strlen(shown_value(comparison, v, axis, shown));
        width = length > width ? length : width;
    }
    return (int)width;
}

/* Do the values of all keys stand in front of the numbers? */
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
        for (size_t i = 0; i < comparison->axes->count; i++)
            fprintf(out, "%s%-*s", i > 0 ? "  " : "", axis_width(comparison, i),
                    shown_value(comparison, variant, i, shown));
    } else {
        axes_name(comparison->axes, variant, name, sizeof(name));
        log_plain(name, shown, sizeof(shown));
        fprintf(out, "%s\n%-*s", shown, NAMES_WIDTH, "");
    }
    for (const struct column *column = columns; column->name != NULL; column++) {
        const double value = column->value(comparison, variant);
        char cell[CELL_BYTES] = "-";
        if (isfinite(value))
            snprintf(cell, sizeof(cell), "%.*f%s", column->digits, value, column->unit);
        fprintf(out, "%*s", column->width, cell);
    }
    fputc('\n', out);
}

static void print_table(const struct comparison *comparison, const struct column *columns, FILE *out)
{
    print_head(comparison, columns, out);
    for (uint32_t v = 0; v < comparison->variants; v++)
        print_row(comparison, v, columns, out);
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

void compare_report_table(const struct comparison *comparison, FILE *out)
{
    print_length(comparison, out);
    fputc('\n', out);
    print_table(comparison, of_variants, out);
    fputs("\nsteps of a round: images/s, times, share of waiting for input\n", out);
    print_table(comparison, of_steps, out);
    fputs("\nmedians of the rounds; images/s: of the median step, +/- half the rounds' range\n"
          "speed-up: against the first variant in the same round\n"
          "mean, +/-, jitter: over the steps of a round, as tf_cnn_benchmarks has them\n", out);
}

/* As RFC 4180 has it. */
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

/* A comma and the number, nothing for one that is not there. */
static void write_number(double value, FILE *out)
{
    char text[DECIMAL_SIZE] = "";
    if (isfinite(value))
        decimal_write(value, text, sizeof(text));
    fprintf(out, ",%s", text);
}

/* Speeds have their range behind them. */
static bool has_range(enum measure measure)
{
    return measure == MEASURE_SPEED || measure == MEASURE_SPEED_UP;
}

static void write_names(const struct comparison *comparison, FILE *out)
{
    for (size_t i = 0; i < comparison->axes->count; i++)
        fprintf(out, "%s%s", comparison->axes->axes[i].key, i + 1 < comparison->axes->count ? "," : "");
    fputs(",towers,batch,rounds,steps,images,efficiency", out);
    for (enum measure measure = 0; measure < MEASURE_COUNT; measure++) {
        const char *const name = measure_name(measure);
        fprintf(out, ",%s", name);
        if (has_range(measure))
            fprintf(out, ",%s_least,%s_most", name, name);
    }
    fputc('\n', out);
}

static void write_row(const struct comparison *comparison, uint32_t variant, FILE *out)
{
    const struct trial_result *const result = comparison_result(comparison, variant);
    for (size_t i = 0; i < comparison->axes->count; i++) {
        write_text(axes_value(comparison->axes, variant, i), out);
        fputs(i + 1 < comparison->axes->count ? "," : "", out);
    }
    fprintf(out, ",%" PRIu64 ",%" PRIu64 ",%" PRIu32 ",%" PRIu64 ",%" PRIu64, result->towers, result->batch,
            comparison->rounds, result->steps, result->images);
    write_number(comparison_efficiency(comparison, variant), out);
    for (enum measure measure = 0; measure < MEASURE_COUNT; measure++) {
        const struct spread spread = comparison_spread(comparison, variant, measure);
        write_number(spread.median, out);
        if (has_range(measure)) {
            write_number(spread.least, out);
            write_number(spread.most, out);
        }
    }
    fputc('\n', out);
}

void compare_report_csv(const struct comparison *comparison, FILE *out)
{
    write_names(comparison, out);
    for (uint32_t v = 0; v < comparison->variants; v++)
        write_row(comparison, v, out);
}
