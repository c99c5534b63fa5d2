/* The result of an evaluation. */
#include "tools/predict/evaluation_result.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "formats/json.h"
#include "stage/log.h"
#include "tools/lib/text/columns.h"
#include "tools/lib/text/number.h"
#include "tools/lib/text/wrapped.h"

#define FIVE 5u
#define NAME_COLUMNS 20u
#define MOSTLY_COLUMNS 15u
#define PAIR_COLUMNS 30u
#define CLASSES_LISTED 100u     /* with more classes, only the worst are printed */
#define WORST_LISTED 20u
#define PAIRS_LISTED 20u
#define CSV_NAME_BYTES 4096u    /* longer names are shortened */

struct shown { char text[128]; };

/* The number of the class, and its name if it has one. */
static struct shown show_class(const struct evaluation_result *result, uint32_t class)
{
    const char *const name = result->names != NULL ? result->names[class] : "";
    struct shown shown;
    const int used = snprintf(shown.text, sizeof(shown.text), *name == '\0' ? "%" PRIu32 : "%" PRIu32 " ", class);
    if (*name != '\0')
        log_plain(name, shown.text + used, sizeof(shown.text) - (size_t)used);
    return shown;
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

/* ---- by class ---- */

static double accuracy_of(const struct confusion *confusion, uint32_t class)
{
    const struct class_score score = confusion_class(confusion, class);
    return percent(score.correct, score.samples);
}

static int compare_accuracy(const void *left, const void *right, void *confusion)
{
    const uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    const double accuracy_a = accuracy_of(confusion, a), accuracy_b = accuracy_of(confusion, b);
    if (accuracy_a != accuracy_b)
        return accuracy_a < accuracy_b ? -1 : 1;
    return a < b ? -1 : a > b;
}

static void print_class(const struct evaluation_result *result, uint32_t class, FILE *out)
{
    const struct class_score score = confusion_class(result->confusion, class);
    columns_print(out, show_class(result, class).text, NAME_COLUMNS, NAME_COLUMNS);
    fprintf(out, " %9s %9s %8.2f %%", number_grouped(score.samples).text, number_grouped(score.correct).text,
            percent(score.correct, score.samples));
    if (score.mostly != NULL) {
        fputs("  ", out);
        columns_print(out, show_class(result, score.mostly->predicted).text, 0, MOSTLY_COLUMNS);
        fprintf(out, " (%s)", number_grouped(score.mostly->samples).text);
    }
    fputc('\n', out);
}

/* The classes with samples, in order, or, if there are too many, the worst first. The caller frees the list. */
static uint32_t *list_classes(const struct confusion *confusion, uint32_t *count_out)
{
    uint32_t count = 0, *const classes = calloc(confusion->cell_count + 1, sizeof(*classes));
    for (size_t i = 0; i < confusion->cell_count && classes != NULL; i++)
        if (i == 0 || confusion->cells[i].label != confusion->cells[i - 1].label)
            classes[count++] = confusion->cells[i].label;
    if (count > CLASSES_LISTED)
        qsort_r(classes, count, sizeof(*classes), compare_accuracy, (void *)(uintptr_t)confusion);
    *count_out = count;
    return classes;
}

static void print_classes(const struct evaluation_result *result, FILE *out)
{
    uint32_t count;
    uint32_t *const classes = list_classes(result->confusion, &count);
    const uint32_t listed = count > CLASSES_LISTED ? WORST_LISTED : count;
    if (listed < count)
        fprintf(out, "\nthe %" PRIu32 " worst of %" PRIu32 " classes (--json prints all)\n", listed, count);
    fprintf(out, "%s%-*s %9s %9s %10s  mostly predicted as\n", listed < count ? "" : "\n", (int)NAME_COLUMNS, "class",
            "samples", "correct", "accuracy");
    for (uint32_t i = 0; i < listed; i++)
        print_class(result, classes[i], out);
    free(classes);
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
    evaluation_print_result(result, out);
    fprintf(out, "speed     %s images/s, %.2f s\n", number_rate(speed(result)).text, result->seconds);
    print_classes(result, out);
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

static void write_classes(const struct evaluation_result *result, struct json *json)
{
    json_open_array(json, "classes");
    for (uint32_t c = 0; c < result->confusion->classes; c++) {
        const struct class_score score = confusion_class(result->confusion, c);
        if (score.samples == 0)
            continue;
        json_open_object(json, NULL);
        json_u64(json, "class", c);
        if (result->names != NULL && result->names[c][0] != '\0')
            json_quoted(json, "name", result->names[c]);
        json_u64(json, "samples", score.samples);
        json_u64(json, "correct", score.correct);
        json_double(json, "accuracy", percent(score.correct, score.samples) / 100);
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
        if (score.samples == 0)
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
