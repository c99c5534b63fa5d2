/* The result of an evaluation. */
#include "tools/predict/evaluation_result.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "formats/json.h"
#include "stage/log.h"
#include "tools/lib/results/named_classes.h"
#include "tools/lib/text/columns.h"
#include "tools/lib/text/number.h"
#include "tools/lib/text/wrapped.h"

#define FIVE 5u
#define NAME_COLUMNS 20u
#define MOSTLY_COLUMNS 13u
#define PAIR_COLUMNS 30u
#define CLASSES_LISTED 100u     /* with more classes, only the worst are printed */
#define WORST_LISTED 20u
#define PAIRS_LISTED 20u
#define CSV_NAME_BYTES 4096u    /* longer names are shortened */

static struct class_text show_class(const struct evaluation_result *result, uint32_t class)
{
    return class_text(result->names != NULL ? result->names[class] : "", class);
}

static double percent(uint64_t part, uint64_t all)
{
    return all > 0 ? 100 * ((double)part / (double)all) : 0;
}

/* ---- the result ---- */

static double speed(const struct evaluation_result *result)
{
    return result->seconds > 0 ? (double)result->confusion->samples / result->seconds : 0;
}

void evaluation_print_result(const struct evaluation_result *result, FILE *out)
{
    const struct confusion *const confusion = result->confusion;
    char five[96] = "";
    if (confusion->classes > FIVE)
        snprintf(five, sizeof(five), ", top-5 %.2f %% (%s)", percent(confusion->among_five, confusion->samples),
                 number_grouped(confusion->among_five).text);
    wrapped_print(out, "result    %s samples, loss %.4f, top-1 %.2f %% (%s)%s", number_grouped(confusion->samples).text,
                  result->loss, percent(confusion->correct, confusion->samples),
                  number_grouped(confusion->correct).text, five);
    if (result->unreadable > 0)
        wrapped_print(out, "damage    %s records could not be read and are not counted",
                      number_grouped(result->unreadable).text);
}

/* Accuracy means little where it is no better than that of always giving the same answer. */
static void print_means(const struct evaluation_result *result, const struct mean_measures *means, FILE *out)
{
    const struct confusion *const confusion = result->confusion;
    wrapped_print(out, "classes   balanced accuracy %.2f %%, macro F1 %.4f", 100 * means->balanced_accuracy,
                  means->macro.f1);
    if (confusion->samples > 0 && confusion->correct <= confusion->counts[means->largest].samples)
        wrapped_print(out, "warning   always answering %s, the class with most samples, is right for %.2f %%: accuracy "
                      "does not show that anything was learned", show_class(result, (uint32_t)means->largest).text,
                      100 * means->largest_share);
}

/* ---- by class ---- */

static double f1_of(const struct confusion *confusion, uint32_t class)
{
    return class_measures_of(&confusion->counts[class]).f1;
}

static int compare_f1(const void *left, const void *right, void *confusion)
{
    const uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    const double f1_a = f1_of(confusion, a), f1_b = f1_of(confusion, b);
    if (f1_a != f1_b)
        return f1_a < f1_b ? -1 : 1;
    return a < b ? -1 : a > b;
}

static void print_measures(const char *name, uint64_t samples, const struct class_measures *measures, FILE *out)
{
    columns_print(out, name, NAME_COLUMNS, NAME_COLUMNS);
    fprintf(out, " %9s %10.4f %7.4f %7.4f", number_grouped(samples).text, measures->precision, measures->recall,
            measures->f1);
}

static void print_class(const struct evaluation_result *result, uint32_t class, FILE *out)
{
    const struct class_score score = confusion_class(result->confusion, class);
    const struct class_counts *const counts = &result->confusion->counts[class];
    const struct class_measures measures = class_measures_of(counts);
    print_measures(show_class(result, class).text, counts->samples, &measures, out);
    if (score.mostly != NULL) {
        fputs("  ", out);
        columns_print(out, show_class(result, score.mostly->predicted).text, 0, MOSTLY_COLUMNS);
        fprintf(out, " (%s)", number_grouped(score.mostly->samples).text);
    }
    fputc('\n', out);
}

static bool is_mentioned(const struct class_counts *counts)
{
    return counts->samples > 0 || counts->predicted > 0;
}

/* The classes that have samples or are predicted, in order, or, if there are too many, those with the smallest F1
 * first. The caller frees the list. */
static uint32_t *list_classes(const struct confusion *confusion, uint32_t *count_out)
{
    uint32_t count = 0, *const classes = calloc((size_t)confusion->classes + 1, sizeof(*classes));
    for (uint32_t c = 0; c < confusion->classes && classes != NULL; c++)
        if (is_mentioned(&confusion->counts[c]))
            classes[count++] = c;
    if (count > CLASSES_LISTED)
        qsort_r(classes, count, sizeof(*classes), compare_f1, (void *)(uintptr_t)confusion);
    *count_out = count;
    return classes;
}

static void print_mean(const char *name, uint64_t samples, const struct class_measures *measures, FILE *out)
{
    print_measures(name, samples, measures, out);
    fputc('\n', out);
}

static void print_classes(const struct evaluation_result *result, const struct mean_measures *means, FILE *out)
{
    uint32_t count;
    uint32_t *const classes = list_classes(result->confusion, &count);
    const uint32_t listed = count > CLASSES_LISTED ? WORST_LISTED : count;
    if (listed < count)
        fprintf(out, "\nthe %" PRIu32 " worst of %" PRIu32 " classes (--json prints all)\n", listed, count);
    fprintf(out, "%s%-*s %9s %10s %7s %7s  mostly predicted as\n", listed < count ? "" : "\n", (int)NAME_COLUMNS,
            "class", "samples", "precision", "recall", "F1");
    for (uint32_t i = 0; i < listed; i++)
        print_class(result, classes[i], out);
    free(classes);
    print_mean("mean", result->confusion->samples, &means->macro, out);
    print_mean("mean over samples", result->confusion->samples, &means->weighted, out);
}

/* ---- the matrix ---- */

static uint64_t samples_at(const struct class_score *score, uint32_t predicted)
{
    for (size_t i = 0; i < score->cell_count; i++)
        if (score->cells[i].predicted == predicted)
            return score->cells[i].samples;
    return 0;
}

/* The width of a number in the matrix. */
static uint32_t matrix_width(const struct confusion *confusion)
{
    uint64_t most = confusion->classes > 0 ? confusion->classes - 1 : 0;
    for (size_t i = 0; i < confusion->cell_count; i++)
        most = confusion->cells[i].samples > most ? confusion->cells[i].samples : most;
    return 1 + (uint32_t)snprintf(NULL, 0, "%" PRIu64, most);
}

static void print_matrix(const struct evaluation_result *result, uint32_t width, FILE *out)
{
    const struct confusion *const confusion = result->confusion;
    fprintf(out, "\nconfusion matrix: one row per class, one column per predicted class\n%*s", (int)NAME_COLUMNS, "");
    for (uint32_t c = 0; c < confusion->classes; c++)
        fprintf(out, "%*" PRIu32, (int)width, c);
    fputc('\n', out);
    for (uint32_t label = 0; label < confusion->classes; label++) {
        const struct class_score score = confusion_class(confusion, label);
        columns_print(out, show_class(result, label).text, NAME_COLUMNS, NAME_COLUMNS);
        for (uint32_t c = 0; c < confusion->classes; c++)
            fprintf(out, "%*" PRIu64, (int)width, samples_at(&score, c));
        fputc('\n', out);
    }
}

static int compare_samples(const void *left, const void *right)
{
    const struct confusion_cell *const a = *(const struct confusion_cell *const *)left;
    const struct confusion_cell *const b = *(const struct confusion_cell *const *)right;
    if (a->samples != b->samples)
        return a->samples > b->samples ? -1 : 1;
    return a < b ? -1 : a > b;
}

/* The cells of wrong predictions. The caller frees the list. */
static const struct confusion_cell **list_pairs(const struct confusion *confusion, size_t *count_out)
{
    const struct confusion_cell **const pairs = calloc(confusion->cell_count + 1, sizeof(struct confusion_cell *));
    size_t count = 0;
    for (size_t i = 0; i < confusion->cell_count && pairs != NULL; i++)
        if (confusion->cells[i].label != confusion->cells[i].predicted)
            pairs[count++] = &confusion->cells[i];
    if (count > 1)
        qsort(pairs, count, sizeof(struct confusion_cell *), compare_samples);
    *count_out = count;
    return pairs;
}

static void print_pairs(const struct evaluation_result *result, FILE *out)
{
    size_t count;
    const struct confusion_cell **const pairs = list_pairs(result->confusion, &count);
    if (count > 0)
        fprintf(out, "\nconfused most (--csv writes the whole matrix)\n%9s  %-*s predicted as\n", "samples",
                (int)PAIR_COLUMNS, "class");
    for (size_t i = 0; i < count && i < PAIRS_LISTED; i++) {
        fprintf(out, "%9s  ", number_grouped(pairs[i]->samples).text);
        columns_print(out, show_class(result, pairs[i]->label).text, PAIR_COLUMNS, PAIR_COLUMNS);
        fputc(' ', out);
        columns_print(out, show_class(result, pairs[i]->predicted).text, 0, PAIR_COLUMNS);
        fputc('\n', out);
    }
    free((void *)pairs);
}

void evaluation_print(const struct evaluation_result *result, FILE *out)
{
    const uint32_t width = matrix_width(result->confusion);
    const struct mean_measures means = mean_measures_of(result->confusion->counts, result->confusion->classes);
    evaluation_print_result(result, out);
    print_means(result, &means, out);
    fprintf(out, "speed     %s images/s, %.2f s\n", number_rate(speed(result)).text, result->seconds);
    print_classes(result, &means, out);
    if (NAME_COLUMNS + (uint64_t)width * result->confusion->classes <= WRAPPED_COLUMNS)
        print_matrix(result, width, out);
    else
        print_pairs(result, out);
}

/* ---- for scripts ---- */

static void write_share(struct json *json, const char *key, uint64_t correct, uint64_t samples)
{
    json_open_object(json, key);
    json_u64(json, "correct", correct);
    json_double(json, "accuracy", percent(correct, samples) / 100);
    json_close_object(json);
}

static void write_measures(struct json *json, const struct class_measures *measures)
{
    json_double(json, "precision", measures->precision);
    json_double(json, "recall", measures->recall);
    json_double(json, "f1", measures->f1);
}

static void write_mean(struct json *json, const char *key, const struct class_measures *measures)
{
    json_open_object(json, key);
    write_measures(json, measures);
    json_close_object(json);
}

static void write_means(const struct confusion *confusion, struct json *json)
{
    const struct mean_measures means = mean_measures_of(confusion->counts, confusion->classes);
    json_double(json, "balanced_accuracy", means.balanced_accuracy);
    write_mean(json, "macro", &means.macro);
    write_mean(json, "weighted", &means.weighted);
    json_open_object(json, "largest_class");
    json_u64(json, "class", means.largest);
    json_double(json, "share", means.largest_share);
    json_close_object(json);
}

static void write_classes(const struct evaluation_result *result, struct json *json)
{
    json_open_array(json, "classes");
    for (uint32_t c = 0; c < result->confusion->classes; c++) {
        const struct class_counts *const counts = &result->confusion->counts[c];
        const struct class_measures measures = class_measures_of(counts);
        if (!is_mentioned(counts))
            continue;
        json_open_object(json, NULL);
        json_u64(json, "class", c);
        if (result->names != NULL && result->names[c][0] != '\0')
            json_quoted(json, "name", result->names[c]);
        json_u64(json, "samples", counts->samples);
        json_u64(json, "predicted", counts->predicted);
        json_u64(json, "correct", counts->correct);
        json_double(json, "accuracy", percent(counts->correct, counts->samples) / 100);
        write_measures(json, &measures);
        json_close_object(json);
    }
    json_close_array(json);
}

static void write_confusion(const struct confusion *confusion, struct json *json)
{
    json_open_array(json, "confusion");
    for (size_t i = 0; i < confusion->cell_count; i++) {
        json_open_object(json, NULL);
        json_u64(json, "class", confusion->cells[i].label);
        json_u64(json, "predicted", confusion->cells[i].predicted);
        json_u64(json, "samples", confusion->cells[i].samples);
        json_close_object(json);
    }
    json_close_array(json);
}

static void write_result(const struct evaluation_result *result, struct json *json)
{
    const struct confusion *const confusion = result->confusion;
    json_open_object(json, NULL);
    json_quoted(json, "model", result->model);
    json_quoted(json, "weights", result->weights);
    if (result->steps != UINT64_MAX)
        json_u64(json, "steps", result->steps);
    json_u64(json, "samples", confusion->samples);
    json_u64(json, "unreadable", result->unreadable);
    json_double(json, "loss", result->loss);
    write_share(json, "top1", confusion->correct, confusion->samples);
    if (confusion->classes > FIVE)
        write_share(json, "top5", confusion->among_five, confusion->samples);
    write_means(confusion, json);
    json_double(json, "seconds", result->seconds);
    json_double(json, "images_per_second", speed(result));
    write_classes(result, json);
    write_confusion(confusion, json);
    json_close_object(json);
}

int evaluation_write_json(const struct evaluation_result *result, FILE *out)
{
    struct json json;
    json_init(&json, false);
    write_result(result, &json);
    const char *const text = json_text(&json);
    if (text != NULL)
        fprintf(out, "%s\n", text);
    json_release(&json);
    return text != NULL ? 0 : -ENOMEM;
}

uint64_t evaluation_csv_bytes(uint32_t classes, uint64_t samples)
{
    const uint64_t rows = samples < classes ? samples : classes;
    return 2 * (uint64_t)classes * (rows + 1);
}

/* Quotes are doubled as in RFC 4180; control characters are escaped as in messages, for people who use a terminal. */
static void write_csv_class(const struct evaluation_result *result, uint32_t class, FILE *out)
{
    char name[CSV_NAME_BYTES] = "";
    if (result->names != NULL)
        log_plain(result->names[class], name, sizeof(name));
    if (*name == '\0') {
        fprintf(out, "%" PRIu32, class);
        return;
    }
    fputc('"', out);
    for (const char *byte = name; *byte != '\0'; byte++) {
        if (*byte == '"')
            fputc('"', out);
        fputc(*byte, out);
    }
    fputc('"', out);
}

void evaluation_write_csv(const struct evaluation_result *result, FILE *out)
{
    const struct confusion *const confusion = result->confusion;
    fputs("class", out);
    for (uint32_t c = 0; c < confusion->classes; c++) {
        fputc(',', out);
        write_csv_class(result, c, out);
    }
    fputc('\n', out);
    for (uint32_t label = 0; label < confusion->classes; label++) {
        const struct class_score score = confusion_class(confusion, label);
        const struct confusion_cell *cell = score.cells, *const end = score.cells + score.cell_count;
        if (score.cell_count == 0)
            continue;
        write_csv_class(result, label, out);
        for (uint32_t c = 0; c < confusion->classes; c++) {
            const bool is_next = cell < end && cell->predicted == c;
            fprintf(out, ",%" PRIu64, is_next ? cell->samples : 0);
            cell += is_next;
        }
        fputc('\n', out);
    }
}
