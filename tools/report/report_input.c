/* Reads a run's files. summary.json is read first: a run that ends in the meantime is shown as running. */
#include "tools/report/report_input.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stage/file/file.h"
#include "stage/log.h"
#include "stage/stop.h"
#include "stage/text/utf8.h"
#include "tools/lib/signals.h"

#define FILE_BYTES_MAX (64u << 20)      /* of a file that is read as a whole */
#define LINE_BYTES_MAX (1u << 20)
#define PROBLEMS_MAX 16u                /* kept for the page */
#define DAMAGED_LINES_SHOWN 3u          /* damaged lines of a file that are reported one by one */
#define PATH_KEYS 4

enum row_kind { ROW_TRAIN, ROW_VALIDATION, ROW_KINDS };

static const char *const row_kinds[ROW_KINDS] = { [ROW_TRAIN] = "train", [ROW_VALIDATION] = "validation" };

enum column {
    COLUMN_STEP, COLUMN_LOSS, COLUMN_ACCURACY, COLUMN_SPEED, COLUMN_RATE, COLUMN_INPUT_WAIT, COLUMN_RING_MEAN,
    COLUMN_RING_LEAST, COLUMN_SLOTS_MEAN, COLUMN_SLOTS_LEAST, COLUMN_READERS, COLUMN_DECODERS, COLUMN_ELAPSED,
    COLUMN_IMAGES, COLUMN_SECONDS, COLUMN_EXPOSED_COPY, COLUMN_FORWARD, COLUMN_BACKWARD, COLUMN_EXPOSED_REDUCTION,
    COLUMN_UPDATE, COLUMN_OTHER, COLUMNS
};
#define COLUMNS_SHOWN COLUMN_IMAGES     /* those before it are drawn */

/* The names of the columns, and where in a row they are found; `whole`: what the number is divided by. */
static const struct { const char *name, *path[PATH_KEYS], *whole[PATH_KEYS]; } columns[COLUMNS] = {
    [COLUMN_STEP] = { "step", { "step" }, { NULL } },
    [COLUMN_LOSS] = { "loss", { "loss" }, { NULL } },
    [COLUMN_ACCURACY] = { "accuracy", { "accuracy" }, { NULL } },
    [COLUMN_SPEED] = { "images_per_second", { "images_per_second" }, { NULL } },
    [COLUMN_RATE] = { "learning_rate", { "learning_rate" }, { NULL } },
    [COLUMN_INPUT_WAIT] = { "input_wait", { "fractions", "input_wait" }, { NULL } },
    [COLUMN_RING_MEAN] = { "ring_mean", { "queues", "ring", "mean" }, { "queues", "ring", "depth" } },
    [COLUMN_RING_LEAST] = { "ring_least", { "queues", "ring", "least" }, { "queues", "ring", "depth" } },
    [COLUMN_SLOTS_MEAN] = { "slots_mean", { "queues", "slots", "mean" }, { "queues", "slots", "depth" } },
    [COLUMN_SLOTS_LEAST] = { "slots_least", { "queues", "slots", "least" }, { "queues", "slots", "depth" } },
    [COLUMN_READERS] = { "readers", { "loader_busy", "readers" }, { NULL } },
    [COLUMN_DECODERS] = { "decoders", { "loader_busy", "decoders" }, { NULL } },
    [COLUMN_ELAPSED] = { "elapsed", { NULL }, { NULL } },       /* at the end of the row, from the first row's start */
    [COLUMN_IMAGES] = { "images", { "images" }, { NULL } },
    [COLUMN_SECONDS] = { "seconds", { "seconds" }, { NULL } },
    [COLUMN_EXPOSED_COPY] = { "exposed_copy", { "fractions", "exposed_copy" }, { NULL } },
    [COLUMN_FORWARD] = { "forward", { "fractions", "forward" }, { NULL } },
    [COLUMN_BACKWARD] = { "backward", { "fractions", "backward" }, { NULL } },
    [COLUMN_EXPOSED_REDUCTION] = { "exposed_reduction", { "fractions", "exposed_reduction" }, { NULL } },
    [COLUMN_UPDATE] = { "update", { "fractions", "update" }, { NULL } },
    [COLUMN_OTHER] = { "other", { "fractions", "other" }, { NULL } },
};

/* The rows of a kind, in the order of the file; NAN where a row has no such number. */
struct table { size_t count, room; double *values[COLUMNS]; };

struct input {
    const char *path;
    json_t *run;                /* what is read; the members below are borrowed from it */
    json_t *problems, *damage;
    size_t problem_count;
    uint64_t damage_count;
    bool has_summary;
    struct table tables[ROW_KINDS];
    double elapsed;
    char last_time[40];         /* of the last row, as it says; "" = none */
};

/* ---- JSON ---- */

static bool json_has_type(const json_t *value, json_type type)
{
    return value != NULL && json_typeof(value) == type;
}

static double number_of(const json_t *value)
{
    return json_has_type(value, JSON_INTEGER) || json_has_type(value, JSON_REAL) ? json_number_value(value) : NAN;
}

static double number_at(const json_t *object, const char *const *path)
{
    for (; *path != NULL && object != NULL; path++)
        object = json_object_get(object, *path);
    return number_of(object);
}

/* 0, -EBADMSG with the reason in *problem, or -ENOMEM. jansson reports the latter only through errno. */
static int parse(const char *text, size_t bytes, json_t **value_out, json_error_t *problem)
{
    errno = 0;
    *value_out = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, problem);
    return *value_out != NULL ? 0 : errno == ENOMEM ? -ENOMEM : -EBADMSG;
}

/* Any bytes as a JSON string; what is not UTF-8 becomes U+FFFD. NULL: out of memory. */
static json_t *string_of(const char *bytes)
{
    static const char replacement[] = "\xef\xbf\xbd";
    size_t left = strlen(bytes), used = 0;
    char *const text = malloc(3 * left + 1);
    if (text == NULL)
        return NULL;
    while (left > 0) {
        const size_t length = utf8_character_bytes(bytes, left), step = length > 0 ? length : 1;
        memcpy(text + used, length > 0 ? bytes : replacement, length > 0 ? length : sizeof(replacement) - 1);
        used += length > 0 ? length : sizeof(replacement) - 1;
        bytes += step;
        left -= step;
    }
    json_t *const string = json_stringn_nocheck(text, used);
    free(text);
    return string;
}

/* Report it on stderr, and keep it for the page while there is room. */
__attribute__((format(printf, 2, 3)))
static void add_problem(struct input *input, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    log_message(LOG_ERROR, "%s", text);
    if (input->problem_count++ < PROBLEMS_MAX)
        (void)json_array_append_new(input->problems, string_of(text));
}

/* ---- files ---- */

/* Opens without waiting for the writer of a FIFO. Returns a descriptor or a negative errno. */
static int open_regular(int directory_fd, const char *name, uint64_t *bytes_out)
{
    struct stat status;
    const int fd = openat(directory_fd, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    const int rc = fstat(fd, &status) != 0 ? -errno : S_ISREG(status.st_mode) ? 0 : -EINVAL;
    if (rc == 0) {
        *bytes_out = (uint64_t)status.st_size;
        return fd;
    }
    close(fd);
    return rc;
}

static const char *open_error(int rc)
{
    return rc == -EINVAL ? "is not a regular file" : strerror(-rc);
}

/* The whole file, terminated; to be freed. 0 or a negative errno: -EFBIG above FILE_BYTES_MAX. */
static int read_file(int directory_fd, const char *name, char **text_out, size_t *bytes_out)
{
    uint64_t size = 0;
    const int fd = open_regular(directory_fd, name, &size);
    if (fd < 0)
        return fd;
    char *const text = size <= FILE_BYTES_MAX ? malloc((size_t)size + 1) : NULL;
    int rc = text != NULL ? 0 : size <= FILE_BYTES_MAX ? -ENOMEM : -EFBIG;
    if (rc == 0)
        rc = file_read_some(fd, 0, text, (size_t)size, bytes_out);
    close(fd);
    if (rc < 0) {
        free(text);
        return rc;
    }
    text[*bytes_out] = '\0';
    *text_out = text;
    return 0;
}

struct line {
    char *text;                 /* LINE_BYTES_MAX + 1 bytes; terminated, without the line's end */
    size_t bytes;
    uint64_t number;            /* from 1 */
    bool is_cut;                /* longer than LINE_BYTES_MAX */
    bool is_ended;              /* only the last line of a file may have no end */
};

/* A file of JSON lines that is read. */
struct lines {
    struct input *input;
    const char *name;
    const char *consequence;    /* of a missing file; NULL: it may be missing */
    const char *invalid;        /* the message for JSON that `add` rejects */
    int (*add)(struct input *input, json_t *value);     /* 0, -EBADMSG or -ENOMEM */
    uint64_t damaged;
};

static void report_line(struct lines *lines, const struct line *line, const char *problem)
{
    if (lines->damaged++ < DAMAGED_LINES_SHOWN)
        add_problem(lines->input, "%s/%s: line %" PRIu64 " is damaged and left out: %s", lines->input->path,
                    lines->name, line->number, problem);
}

/* The last line of a run that continues may be half written. */
static int add_line(struct lines *lines, const struct line *line)
{
    json_error_t problem = { .text = "" };
    json_t *value = NULL;
    if (atomic_load(signals_requested()))
        return -ECANCELED;
    if (line->bytes == 0 || (!line->is_ended && !lines->input->has_summary))
        return 0;
    if (line->is_cut) {
        report_line(lines, line, "it is longer than 1 MiB");
        return 0;
    }
    int rc = parse(line->text, line->bytes, &value, &problem);
    const bool is_json = rc == 0;
    if (is_json)
        rc = lines->add(lines->input, value);
    json_decref(value);
    if (rc == -EBADMSG)
        report_line(lines, line, is_json ? lines->invalid : problem.text);
    return rc == -EBADMSG ? 0 : rc;
}

/* False at the end of the file. */
static bool next_line(FILE *file, struct line *line)
{
    int byte = getc_unlocked(file);
    if (byte == EOF)
        return false;
    *line = (struct line){ .text = line->text, .number = line->number + 1 };
    for (; byte != EOF && byte != '\n'; byte = getc_unlocked(file)) {
        if (line->bytes < LINE_BYTES_MAX)
            line->text[line->bytes++] = (char)byte;
        else
            line->is_cut = true;
    }
    line->text[line->bytes] = '\0';
    line->is_ended = byte == '\n';
    return true;
}

static int read_all_lines(struct lines *lines, int directory_fd)
{
    uint64_t size = 0;
    const int fd = open_regular(directory_fd, lines->name, &size);
    FILE *const file = fd >= 0 ? fdopen(fd, "r") : NULL;
    struct line line = { .text = file != NULL ? malloc(LINE_BYTES_MAX + 1) : NULL };
    int rc = fd < 0 ? fd : line.text == NULL ? -ENOMEM : 0;
    while (rc == 0 && next_line(file, &line))
        rc = add_line(lines, &line);
    if (rc == 0 && ferror(file) != 0)
        rc = -EIO;
    free(line.text);
    if (file != NULL)
        fclose(file);
    else if (fd >= 0)
        close(fd);
    return rc;
}

/* 0 also where the file is missing or damaged; -ENOMEM or -ECANCELED. */
static int read_lines(struct lines *lines, int directory_fd)
{
    struct input *const input = lines->input;
    const int rc = read_all_lines(lines, directory_fd);
    if (rc == -ENOMEM || rc == -ECANCELED)
        return rc;
    if (rc < 0 && (rc != -ENOENT || lines->consequence != NULL))
        add_problem(input, "%s/%s: %s%s%s", input->path, lines->name, open_error(rc),
                    lines->consequence != NULL ? ": " : "", lines->consequence != NULL ? lines->consequence : "");
    if (lines->damaged > DAMAGED_LINES_SHOWN)
        add_problem(input, "%s/%s: %" PRIu64 " lines are damaged in all", input->path, lines->name, lines->damaged);
    return 0;
}

/* ---- metrics.jsonl ---- */

static int table_reserve(struct table *table)
{
    if (table->count < table->room)
        return 0;
    const size_t room = table->room > 0 ? 2 * table->room : 64;
    for (int column = 0; column < COLUMNS; column++) {
        double *const values = reallocarray(table->values[column], room, sizeof(*values));
        if (values == NULL)
            return -ENOMEM;
        table->values[column] = values;
    }
    table->room = room;
    return 0;
}

static int table_add(struct table *table, const json_t *row, double *elapsed)
{
    const int rc = table_reserve(table);
    if (rc != 0)
        return rc;
    for (int column = 0; column < COLUMNS; column++) {
        double number = columns[column].path[0] != NULL ? number_at(row, columns[column].path) : NAN;
        if (columns[column].whole[0] != NULL)
            number /= number_at(row, columns[column].whole);
        table->values[column][table->count] = number;
    }
    const double seconds = table->values[COLUMN_SECONDS][table->count];
    *elapsed += isfinite(*elapsed + seconds) && seconds > 0 ? seconds : 0;
    table->values[COLUMN_ELAPSED][table->count++] = *elapsed;
    return 0;
}

/* Rows of other kinds are not drawn. */
static int add_row(struct input *input, json_t *row)
{
    const char *const kind = json_string_value(json_object_get(row, "kind"));
    const char *const time = json_string_value(json_object_get(row, "time"));
    if (kind == NULL || isnan(number_of(json_object_get(row, "step"))))
        return -EBADMSG;
    for (int i = 0; i < ROW_KINDS; i++)
        if (strcmp(kind, row_kinds[i]) == 0) {
            if (time != NULL)
                snprintf(input->last_time, sizeof(input->last_time), "%s", time);
            return table_add(&input->tables[i], row, &input->elapsed);
        }
    return 0;
}

/* Six digits are enough to draw a number, and keep the page small. What is not finite becomes null. */
static json_t *shown_number(double number)
{
    char text[32];
    if (!isfinite(number))
        return json_null();
    snprintf(text, sizeof(text), "%.6g", number);
    return json_real(strtod(text, NULL));
}

enum bucket_value { BUCKET_MEAN, BUCKET_LEAST, BUCKET_MOST, BUCKET_VALUES };

/* Of the finite values from `first` up to `end`. */
static double bucket_value(const double *values, size_t first, size_t end, enum bucket_value which)
{
    double sum = 0, least = INFINITY, most = -INFINITY;
    size_t count = 0;
    for (size_t i = first; i < end; i++) {
        if (!isfinite(values[i]))
            continue;
        sum += values[i];
        least = fmin(least, values[i]);
        most = fmax(most, values[i]);
        count++;
    }
    return count == 0 ? NAN : which == BUCKET_LEAST ? least : which == BUCKET_MOST ? most : sum / (double)count;
}

static int set_column(json_t *object, const struct table *table, enum column column, enum bucket_value which)
{
    static const char *const suffixes[BUCKET_VALUES] = { "", "_least", "_most" };
    const size_t points = table->count < REPORT_ROWS_SHOWN_MAX ? table->count : REPORT_ROWS_SHOWN_MAX;
    char name[64];
    json_t *const numbers = json_array();
    int failed = 0;
    for (size_t i = 0; i < points; i++)
        failed |= json_array_append_new(numbers, shown_number(bucket_value(table->values[column],
                                                                          i * table->count / points,
                                                                          (i + 1) * table->count / points, which)));
    snprintf(name, sizeof(name), "%s%s", columns[column].name, suffixes[which]);
    return json_object_set_new(object, name, numbers) | failed;
}

static json_t *table_json(const struct table *table)
{
    const bool is_thinned = table->count > REPORT_ROWS_SHOWN_MAX;
    json_t *const object = json_object();
    int failed = json_object_set_new(object, "is_thinned", json_boolean(is_thinned));
    for (enum column column = 0; column < COLUMNS_SHOWN; column++)
        for (enum bucket_value which = 0; which < (is_thinned ? BUCKET_VALUES : 1); which++)
            failed |= set_column(object, table, column, which);
    if (failed == 0)
        return object;
    json_decref(object);
    return NULL;
}

/* ---- the summary of a run that has none ---- */

static double last_of(const struct table *table, enum column column)
{
    return table->count > 0 ? table->values[column][table->count - 1] : NAN;
}

/* The sum over the rows of a column, times another one where `weight` is not COLUMNS. */
static double sum_of(const struct table *table, enum column column, enum column weight)
{
    double sum = 0;
    for (size_t i = 0; i < table->count; i++) {
        const double product = table->values[column][i] * (weight != COLUMNS ? table->values[weight][i] : 1);
        sum += isfinite(product) ? product : 0;
    }
    return sum;
}

static int set_number(json_t *object, const char *key, double number)
{
    return isfinite(number) ? json_object_set_new(object, key, json_real(number)) : 0;
}

/* Shares of tower time, weighted by the time of each row. */
static json_t *fractions_of(const struct table *table, double seconds)
{
    static const enum column shares[] = {
        COLUMN_INPUT_WAIT, COLUMN_EXPOSED_COPY, COLUMN_FORWARD, COLUMN_BACKWARD, COLUMN_EXPOSED_REDUCTION,
        COLUMN_UPDATE, COLUMN_OTHER,
    };
    json_t *const fractions = json_object();
    for (size_t i = 0; i < sizeof(shares) / sizeof(shares[0]) && seconds > 0; i++)
        (void)set_number(fractions, columns[shares[i]].name, sum_of(table, shares[i], COLUMN_SECONDS) / seconds);
    return fractions;
}

/* The first of the best evaluations, as summary.json has it. NULL: out of memory. */
static json_t *best_of(const struct table *validation)
{
    json_t *const best = json_object();
    size_t found = validation->count;
    for (size_t i = 0; i < validation->count; i++)
        if (isfinite(validation->values[COLUMN_ACCURACY][i]) &&
            (found == validation->count ||
             validation->values[COLUMN_ACCURACY][i] > validation->values[COLUMN_ACCURACY][found]))
            found = i;
    if (found == validation->count)
        return best;
    int failed = set_number(best, "accuracy", validation->values[COLUMN_ACCURACY][found]);
    failed |= set_number(best, "step", validation->values[COLUMN_STEP][found]);
    if (failed == 0)
        return best;
    json_decref(best);
    return NULL;
}

/* The names of summary.json, as far as the rows tell them. NULL: out of memory. */
static json_t *summary_of_rows(const struct input *input)
{
    const struct table *const train = &input->tables[ROW_TRAIN], *const validation = &input->tables[ROW_VALIDATION];
    const double images = sum_of(train, COLUMN_IMAGES, COLUMNS), seconds = sum_of(train, COLUMN_SECONDS, COLUMNS);
    json_t *const summary = json_object(), *const result = json_object();
    int failed = json_object_set_new(summary, "validation", result);
    failed |= set_number(result, "images", last_of(validation, COLUMN_IMAGES));
    failed |= set_number(result, "accuracy", last_of(validation, COLUMN_ACCURACY));
    failed |= set_number(result, "loss", last_of(validation, COLUMN_LOSS));
    failed |= json_object_set_new(summary, "best", best_of(validation));
    failed |= json_object_set_new(summary, "ended", json_string(input->has_summary ? "its summary cannot be read"
                                                                : "running or killed: no summary yet"));
    failed |= set_number(summary, "steps", last_of(train, COLUMN_STEP));
    failed |= set_number(summary, "images", images);
    failed |= set_number(summary, "seconds", seconds);
    failed |= set_number(summary, "mean_images_per_second", images / seconds);
    failed |= set_number(summary, "loss", last_of(train, COLUMN_LOSS));
    failed |= json_object_set_new(summary, "fractions", fractions_of(train, seconds));
    if (input->last_time[0] != '\0')
        failed |= json_object_set_new(summary, "last_row", string_of(input->last_time));
    if (failed == 0)
        return summary;
    json_decref(summary);
    return NULL;
}

/* ---- all files ---- */

/* An object from a file; *object_out stays NULL where it is missing or damaged. Returns -ENOENT where it is missing,
 * -ENOMEM, else 0. */
static int read_object(struct input *input, int directory_fd, const char *name, const char *consequence,
                       json_t **object_out)
{
    char *text = NULL;
    size_t bytes;
    json_error_t problem = { .text = "" };
    json_t *value = NULL;
    int rc = read_file(directory_fd, name, &text, &bytes);
    if (rc == -ENOENT || rc == -ENOMEM)
        return rc;
    if (rc < 0)
        snprintf(problem.text, sizeof(problem.text), "%s", open_error(rc));
    else
        rc = parse(text, bytes, &value, &problem);
    free(text);
    if (rc == -ENOMEM)
        return rc;
    if (json_has_type(value, JSON_OBJECT)) {
        *object_out = value;
        return 0;
    }
    add_problem(input, "%s/%s: %s: %s", input->path, name, value != NULL ? "is not a JSON object" : problem.text,
                consequence);
    json_decref(value);
    return 0;
}

/* Sets "conf". 0 or -ENOMEM. */
static int read_settings(struct input *input, int directory_fd)
{
    char *text = NULL;
    size_t bytes;
    const int rc = read_file(directory_fd, "run.conf", &text, &bytes);
    if (rc == -ENOMEM)
        return rc;
    if (rc != 0)
        add_problem(input, "%s/run.conf: %s", input->path, open_error(rc));
    const int failed = json_object_set_new(input->run, "conf", text != NULL ? string_of(text) : json_null());
    free(text);
    return failed != 0 ? -ENOMEM : 0;
}

static int add_damage(struct input *input, json_t *record)
{
    if (!json_has_type(record, JSON_OBJECT))
        return -EBADMSG;
    const json_int_t count = json_integer_value(json_object_get(record, "count"));
    input->damage_count += count > 1 ? (uint64_t)count : 1;
    if (json_array_size(input->damage) >= REPORT_DAMAGE_SHOWN_MAX)
        return 0;
    return json_array_append(input->damage, record) == 0 ? 0 : -ENOMEM;
}

/* Without quarantine.jsonl: the list in the summary, which is cut at 256 records. */
static int add_damage_of_summary(struct input *input, const json_t *summary)
{
    const json_t *const listed = json_object_get(json_object_get(summary, "damage"), "records");
    for (size_t i = 0; i < json_array_size(listed); i++)
        if (add_damage(input, json_array_get(listed, i)) == -ENOMEM)
            return -ENOMEM;
    const double count = number_of(json_object_get(summary, "corrupt_records"));
    input->damage_count = count > 0 && count < 1e15 ? (uint64_t)count : 0;
    return 0;
}

/* Puts what was read into input->run. 0 or -ENOMEM. */
static int finish(struct input *input, json_t *summary, json_t *evaluation)
{
    json_t *const run = input->run;
    int failed = json_object_set_new(run, "has_summary", json_boolean(input->has_summary));
    failed |= json_object_set_new(run, "summary", summary != NULL ? summary : summary_of_rows(input));
    failed |= json_object_set_new(run, "evaluation", evaluation != NULL ? evaluation : json_null());
    for (int i = 0; i < ROW_KINDS; i++)
        failed |= json_object_set_new(run, row_kinds[i], table_json(&input->tables[i]));
    failed |= json_object_set_new(run, "elapsed", json_real(input->elapsed));
    if (failed == 0 && input->damage_count == 0)
        failed = add_damage_of_summary(input, json_object_get(run, "summary"));
    failed |= json_object_set_new(run, "damage_count", json_integer((json_int_t)input->damage_count));
    if (input->problem_count > PROBLEMS_MAX) {
        char more[48];
        snprintf(more, sizeof(more), "and %zu more", input->problem_count - PROBLEMS_MAX);
        failed |= json_array_append_new(input->problems, json_string(more));
    }
    return failed != 0 ? -ENOMEM : 0;
}

static int read_files(struct input *input, int directory_fd)
{
    struct lines rows = { .input = input, .name = "metrics.jsonl", .consequence = "there are no curves",
                          .invalid = "it is not a row of a run", .add = add_row };
    struct lines damage = { .input = input, .name = "quarantine.jsonl", .invalid = "it is not a damaged record",
                            .add = add_damage };
    json_t *summary = NULL, *evaluation = NULL;
    int rc = read_object(input, directory_fd, "summary.json", "its contents are missing here", &summary);
    input->has_summary = rc != -ENOENT;
    if (rc == 0 || rc == -ENOENT)
        rc = read_object(input, directory_fd, "evaluation.json", "it is not shown", &evaluation);
    if (rc == 0 || rc == -ENOENT)
        rc = read_settings(input, directory_fd);
    if (rc == 0)
        rc = read_lines(&rows, directory_fd);
    if (rc == 0)
        rc = read_lines(&damage, directory_fd);
    if (rc == 0)
        return finish(input, summary, evaluation);
    json_decref(summary);
    json_decref(evaluation);
    return rc;
}

/* What follows the last slash, but for slashes at the end. */
static const char *last_component(const char *path)
{
    const char *part = path;
    for (const char *at = path; *at != '\0'; at++)
        if (*at == '/' && at[1] != '\0' && at[1] != '/')
            part = at + 1;
    return part;
}

static int input_open(struct input *input, const char *path)
{
    *input = (struct input){ .path = path, .run = json_object(), .problems = json_array(), .damage = json_array() };
    int failed = json_object_set_new(input->run, "problems", input->problems);
    failed |= json_object_set_new(input->run, "damage", input->damage);
    failed |= json_object_set_new(input->run, "path", string_of(path));
    failed |= json_object_set_new(input->run, "name", string_of(last_component(path)));
    return failed != 0 ? -ENOMEM : 0;
}

/* 0, -ENOENT where the directory has no file of a run, or another negative errno. */
static int find_files(int directory_fd)
{
    static const char *const names[] = { "summary.json", "metrics.jsonl" };
    int rc = -ENOENT;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && rc == -ENOENT; i++)
        rc = faccessat(directory_fd, names[i], F_OK, 0) == 0 ? 0 : -errno;
    return rc;
}

static int read_directory(json_t **run_out, const char *path, int directory_fd)
{
    struct input input;
    int rc = input_open(&input, path);
    if (rc == 0)
        rc = read_files(&input, directory_fd);
    for (int kind = 0; kind < ROW_KINDS; kind++)
        for (int column = 0; column < COLUMNS; column++)
            free(input.tables[kind].values[column]);
    if (rc == 0)
        *run_out = input.run;
    else
        json_decref(input.run);
    return rc;
}

int report_input_read(json_t **run_out, const char *path)
{
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        log_message(LOG_ERROR, "%s: %s%s", path, strerror(errno),
                    errno == ENOTDIR ? ": name the directory of a run, such as runs/run" : "");
        return EXIT_CODE_DATA;
    }
    int rc = find_files(fd);
    const bool is_run = rc != -ENOENT;
    if (!is_run)
        log_message(LOG_ERROR, "%s: not the directory of a run: it has neither metrics.jsonl nor summary.json: "
                    "name one, such as runs/run", path);
    else if (rc == 0)
        rc = read_directory(run_out, path, fd);
    close(fd);
    if (rc != 0 && is_run && rc != -ECANCELED)
        log_message(LOG_ERROR, "%s: %s", path, strerror(-rc));
    return rc == -ECANCELED ? signals_exit_code() : rc == 0 ? EXIT_CODE_OK : (int)exit_code_of(rc, EXIT_CODE_DATA);
}
