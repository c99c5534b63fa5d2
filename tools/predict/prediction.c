/* Prints predictions; each form has a row of functions. */
#include "tools/predict/prediction.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "stage/log.h"
#include "tools/lib/text/columns.h"

#define PATH_BYTES 4096u
#define NAME_BYTES 256u
#define PATH_COLUMNS_LEAST 5u
#define PATH_COLUMNS_MOST 36u
#define NAME_COLUMNS 30u        /* of 80 columns, of which a path and a probability need the rest */

int prediction_printer_init(struct prediction_printer *printer, uint32_t classes, uint32_t top)
{
    *printer = (struct prediction_printer){ .classes = classes, .top = top < classes ? top : classes };
    json_init(&printer->line, false);
    printer->ranked = calloc(printer->top, sizeof(*printer->ranked));
    return printer->ranked != NULL ? 0 : -ENOMEM;
}

void prediction_printer_release(struct prediction_printer *printer)
{
    json_release(&printer->line);
    free(printer->ranked);
    printer->ranked = NULL;
}

static const char *name_of(const struct prediction_printer *printer, uint32_t class)
{
    return printer->names != NULL ? printer->names[class] : "";
}

/* ---- a table of 80 columns ---- */

static uint32_t columns_of_paths(const struct prediction_printer *printer)
{
    const uint32_t wanted = printer->path_columns;
    return wanted < PATH_COLUMNS_LEAST ? PATH_COLUMNS_LEAST : wanted > PATH_COLUMNS_MOST ? PATH_COLUMNS_MOST : wanted;
}

static void head_of_table(struct prediction_printer *printer)
{
    fprintf(printer->out, "%-*s  %-*s probability\n", (int)columns_of_paths(printer), "image", (int)NAME_COLUMNS,
            "class");
}

/* Print a row of the table. A path that is too long gets its own line. */
static void print_table(struct prediction_printer *printer, const char *path, const float *logits,
                        const float *embedding)
{
    (void)logits, (void)embedding;
    const uint32_t columns = columns_of_paths(printer);
    char shown[PATH_BYTES], name[NAME_BYTES], class[NAME_BYTES + 16];
    log_plain(path, shown, sizeof(shown));
    const bool is_above = columns_count(shown) > columns;
    if (is_above)
        fprintf(printer->out, "%s\n", shown);
    for (uint32_t i = 0; i < printer->top; i++) {
        const struct ranked *const ranked = &printer->ranked[i];
        log_plain(name_of(printer, ranked->class), name, sizeof(name));
        snprintf(class, sizeof(class), "%" PRIu32 "%s%s", ranked->class, name[0] != '\0' ? " " : "", name);
        columns_print(printer->out, i == 0 && !is_above ? shown : "", columns, columns);
        fputs("  ", printer->out);
        columns_print(printer->out, class, NAME_COLUMNS, NAME_COLUMNS);
        fprintf(printer->out, " %9.2f %%\n", 100 * ranked->probability);
    }
}

/* ---- tab-separated values ---- */

static void head_of_tsv(struct prediction_printer *printer)
{
    fprintf(printer->out, "image\trank\tclass\tname\tprobability%s\n", printer->shows_logits ? "\tlogit" : "");
}

static void print_tsv(struct prediction_printer *printer, const char *path, const float *logits,
                      const float *embedding)
{
    (void)embedding;
    char shown[PATH_BYTES], name[NAME_BYTES];
    log_plain(path, shown, sizeof(shown));
    for (uint32_t i = 0; i < printer->top; i++) {
        const struct ranked *const ranked = &printer->ranked[i];
        log_plain(name_of(printer, ranked->class), name, sizeof(name));
        fprintf(printer->out, "%s\t%" PRIu32 "\t%" PRIu32 "\t%s\t%.6g", shown, i + 1, ranked->class, name,
                ranked->probability);
        if (printer->shows_logits)
            fprintf(printer->out, "\t%.9g", (double)logits[ranked->class]);
        fputc('\n', printer->out);
    }
}

/* ---- lines of JSON ---- */

static void no_head(struct prediction_printer *printer)
{
    (void)printer;
}

static void end_json(struct prediction_printer *printer)
{
    const char *const text = json_text(&printer->line);
    if (text != NULL)
        fprintf(printer->out, "%s\n", text);
    else
        log_message(LOG_ERROR, "a prediction cannot be printed: %s", strerror(ENOMEM));
}

static void add_floats(struct json *json, const char *key, const float *floats, uint32_t count)
{
    json_open_array(json, key);
    for (uint32_t i = 0; i < count; i++)
        json_float(json, NULL, floats[i]);
    json_close_array(json);
}

static void print_json(struct prediction_printer *printer, const char *path, const float *logits,
                       const float *embedding)
{
    struct json *const json = &printer->line;
    json_reset(json);
    json_open_object(json, NULL);
    json_quoted(json, "image", path);
    json_open_array(json, "top");
    for (uint32_t i = 0; i < printer->top; i++) {
        const struct ranked *const ranked = &printer->ranked[i];
        json_open_object(json, NULL);
        json_u64(json, "class", ranked->class);
        if (name_of(printer, ranked->class)[0] != '\0')
            json_quoted(json, "name", name_of(printer, ranked->class));
        json_double(json, "probability", ranked->probability);
        json_close_object(json);
    }
    json_close_array(json);
    if (printer->shows_logits)
        add_floats(json, "logits", logits, printer->classes);
    if (printer->embedding_count > 0)
        add_floats(json, "embedding", embedding, printer->embedding_count);
    json_close_object(json);
    end_json(printer);
}

static void print_json_problem(struct prediction_printer *printer, const char *path, const char *problem)
{
    struct json *const json = &printer->line;
    json_reset(json);
    json_open_object(json, NULL);
    json_quoted(json, "image", path);
    json_quoted(json, "problem", problem);
    json_close_object(json);
    end_json(printer);
}

static void no_problem(struct prediction_printer *printer, const char *path, const char *problem)
{
    (void)printer, (void)path, (void)problem;
}

/* ---- by form ---- */

static const struct {
    void (*head)(struct prediction_printer *printer);
    void (*print)(struct prediction_printer *printer, const char *path, const float *logits, const float *embedding);
    void (*problem)(struct prediction_printer *printer, const char *path, const char *problem);
} forms[PREDICTION_FORM_COUNT] = {
    [PREDICTION_TABLE] = { head_of_table, print_table, no_problem },
    [PREDICTION_TSV] = { head_of_tsv, print_tsv, no_problem },
    [PREDICTION_JSON] = { no_head, print_json, print_json_problem },
};

void prediction_print_head(struct prediction_printer *printer)
{
    forms[printer->form].head(printer);
}

void prediction_print(struct prediction_printer *printer, const char *path, const float *logits,
                      const float *embedding)
{
    ranking_top(logits, printer->classes, printer->top, printer->ranked);
    forms[printer->form].print(printer, path, logits, embedding);
}

void prediction_print_problem(struct prediction_printer *printer, const char *path, const char *problem)
{
    forms[printer->form].problem(printer, path, problem);
}
