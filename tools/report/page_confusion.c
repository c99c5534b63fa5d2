/* What classes were taken for, by the evaluation that lies beside the run. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "tools/config/number.h"
#include "tools/report/draw/html.h"
#include "tools/report/look.h"
#include "tools/report/page.h"

#define CLASSES_DRAWN 100
#define NUMBER_MAX ((json_int_t)1 << 53)

struct matrix {
    uint32_t classes;
    uint64_t *samples;          /* by class, and by what it was taken for */
    const char **names;         /* by class, NULL: it has none; of the evaluation */
};

/* A whole number from 0, or -1. */
static json_int_t whole_of(const json_t *object, const char *key)
{
    const json_t *const value = json_object_get(object, key);
    const json_int_t number = look_is(value, JSON_INTEGER) ? json_integer_value(value) : -1;
    return number < NUMBER_MAX ? number : -1;
}

static json_int_t larger(json_int_t a, json_int_t b)
{
    return a > b ? a : b;
}

/* One more than the last class that is told of. */
static json_int_t count_classes(const json_t *evaluation)
{
    const json_t *const cells = json_object_get(evaluation, "confusion");
    json_int_t last = -1;
    for (size_t i = 0; i < json_array_size(cells); i++) {
        const json_t *const cell = json_array_get(cells, i);
        last = larger(last, larger(whole_of(cell, "class"), whole_of(cell, "predicted")));
    }
    return last + 1;
}

static void read_names(struct matrix *matrix, const json_t *classes)
{
    for (size_t i = 0; i < json_array_size(classes); i++) {
        const json_int_t label = whole_of(json_array_get(classes, i), "class");
        if (label >= 0 && label < (json_int_t)matrix->classes)
            matrix->names[label] = json_string_value(json_object_get(json_array_get(classes, i), "name"));
    }
}

/* Cells that tell no three whole numbers are left out. 0 or -ENOMEM. */
static int matrix_open(struct matrix *matrix, const json_t *evaluation, uint32_t classes)
{
    const json_t *const cells = json_object_get(evaluation, "confusion");
    *matrix = (struct matrix){ classes, calloc((size_t)classes * classes, sizeof(*matrix->samples)),
                               calloc(classes, sizeof(*matrix->names)) };
    if (matrix->samples == NULL || matrix->names == NULL)
        return -ENOMEM;
    read_names(matrix, json_object_get(evaluation, "classes"));
    for (size_t i = 0; i < json_array_size(cells); i++) {
        const json_t *const cell = json_array_get(cells, i);
        const json_int_t label = whole_of(cell, "class"), predicted = whole_of(cell, "predicted");
        const json_int_t samples = whole_of(cell, "samples");
        if (label >= 0 && predicted >= 0 && samples >= 0)
            matrix->samples[(size_t)label * classes + (size_t)predicted] = (uint64_t)samples;
    }
    return 0;
}

static void matrix_close(struct matrix *matrix)
{
    free(matrix->samples);
    free(matrix->names);
}

/* The darker, the larger its share of its class; what is right is bold. */
static void write_row(FILE *out, const struct matrix *matrix, uint32_t label)
{
    const uint64_t *const samples = matrix->samples + (size_t)label * matrix->classes;
    uint64_t all = 0;
    for (uint32_t c = 0; c < matrix->classes; c++)
        all += samples[c];
    fprintf(out, "<tr><th scope=\"row\">%" PRIu32 " ", label);
    html_text(out, matrix->names[label] != NULL ? matrix->names[label] : "");
    fputs("</th>", out);
    for (uint32_t c = 0; c < matrix->classes; c++) {
        if (samples[c] == 0)
            fputs("<td></td>", out);
        else
            fprintf(out, "<td%s style=\"background:rgba(57,106,177,%.2f)\">%" PRIu64 "</td>",
                    c == label ? " class=\"right\"" : "", 0.6 * (double)samples[c] / (double)all, samples[c]);
    }
    fputs("</tr>\n", out);
}

static int write_matrix(FILE *out, const json_t *evaluation, uint32_t classes)
{
    struct matrix matrix;
    const int rc = matrix_open(&matrix, evaluation, classes);
    if (rc == 0) {
        fputs("<div class=\"scroll matrix\"><table><thead><tr><th>class</th>", out);
        for (uint32_t c = 0; c < classes; c++)
            fprintf(out, "<th>%" PRIu32 "</th>", c);
        fputs("</tr></thead><tbody>\n", out);
        for (uint32_t c = 0; c < classes; c++)
            write_row(out, &matrix, c);
        fputs("</tbody></table></div>\n", out);
    }
    matrix_close(&matrix);
    return rc;
}

static void write_heading(const struct page *page, const struct shown_run *run)
{
    const char *const weights = json_string_value(json_object_get(run->evaluation, "weights"));
    const json_int_t samples = whole_of(run->evaluation, "samples");
    fputs("<h3>", page->out);
    page_name(page, run);
    fprintf(page->out, ": %s samples, ", samples >= 0 ? number_grouped((uint64_t)samples).text : "?");
    html_text(page->out, weights != NULL ? weights : "weights that are not named");
    fputs("</h3>\n", page->out);
}

int page_confusion(const struct page *page)
{
    bool is_any = false;
    int rc = 0;
    for (uint32_t i = 0; i < page->run_count && rc == 0; i++) {
        const struct shown_run *const run = &page->runs[i];
        const json_int_t classes = count_classes(run->evaluation);
        if (classes == 0)
            continue;
        if (!is_any)
            fputs("<h2>What classes were taken for</h2>\n<p class=\"soft\">A row is a class, its columns what its "
                  "images were taken for.</p>\n", page->out);
        is_any = true;
        write_heading(page, run);
        if (classes <= CLASSES_DRAWN)
            rc = write_matrix(page->out, run->evaluation, (uint32_t)classes);
        else
            fprintf(page->out, "<p class=\"soft\">Of %" JSON_INTEGER_FORMAT " classes it is not drawn: it is in the "
                    "run's evaluation.json.</p>\n", classes);
    }
    return rc;
}
