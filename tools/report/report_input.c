/* Reads a run's files. summary.json is read first: a run that ends in the meantime is shown as running. */
#include "tools/report/report_input.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
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
#include "tools/report/row_groups.h"

#define FILE_BYTES_MAX (64u << 20)      /* for files that are read as a whole */
#define LINE_BYTES_MAX (1u << 20)
#define NAME_ROOM 32u                   /* for a slash and the name of a file */
#define DAMAGED_LINES_SHOWN 3u          /* damaged lines of a file that are reported one by one */

enum row_kind { ROW_TRAIN, ROW_VALIDATION, ROW_KINDS };

static const char *const row_kinds[ROW_KINDS] = { [ROW_TRAIN] = "train", [ROW_VALIDATION] = "validation" };

struct input {
    const char *path;
    json_t *run;                /* the object that is being made; the members below are borrowed from it */
    json_t *problems, *damage;
    uint64_t damage_count;
    bool has_summary;
    struct row_groups rows[ROW_KINDS];
};

/* ---- JSON ---- */

/* 0, -EBADMSG with the reason in *problem, or -ENOMEM. jansson reports a lack of memory only through errno. */
static int parse(const char *text, size_t bytes, json_t **value_out, json_error_t *problem)
{
    errno = 0;
    *value_out = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, problem);
    return *value_out != NULL ? 0 : errno == ENOMEM ? -ENOMEM : -EBADMSG;
}

/* Any bytes as a JSON string; bytes that are not UTF-8 are replaced by U+FFFD. NULL: out of memory. */
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

/* Print a problem on stderr, and add it to the list for the page. */
__attribute__((format(printf, 2, 3)))
static void add_problem(struct input *input, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    log_message(LOG_ERROR, "%s", text);
    (void)json_array_append_new(input->problems, string_of(text));
}

/* ---- files of JSON lines ---- */

struct line {
    char *text;                 /* LINE_BYTES_MAX + 1 bytes; NUL-terminated, without the newline */
    size_t bytes;
    uint64_t number;            /* from 1 */
    bool is_cut;                /* the line is longer than LINE_BYTES_MAX and was truncated */
    bool is_ended;              /* the line ends with a newline, which only the last line of a file may lack */
};

/* A file of JSON lines. */
struct lines {
    struct input *input;
    const char *name;
    const char *consequence;    /* effect of a missing file, for the message; NULL: no message, the file is optional */
    const char *invalid;        /* the message for JSON that `add` rejects */
    int (*add)(struct input *input, json_t *value, uint64_t line);      /* 0, -EBADMSG or -ENOMEM */
    uint64_t damaged;
};

static void report_line(struct lines *lines, const struct line *line, const char *problem)
{
    if (lines->damaged++ < DAMAGED_LINES_SHOWN)
        add_problem(lines->input, "%s/%s: line %" PRIu64 " is damaged and left out: %s", lines->input->path,
                    lines->name, line->number, problem);
}

/* Parse and add a line. While a run continues, its last line may be written only in part, and is skipped. */
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
        rc = lines->add(lines->input, value, line->number);
    json_decref(value);
    if (rc == -EBADMSG)
        report_line(lines, line, is_json ? lines->invalid : problem.text);
    return rc == -EBADMSG ? 0 : rc;
}

/* Read the next line. False at the end of the file. */
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

/* Opens without waiting for the writer of a FIFO. 0, -ESPIPE (not a regular file) or another negative errno. */
static int open_lines(const char *path, FILE **file_out)
{
    struct stat status;
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    const int rc = fstat(fd, &status) != 0 ? -errno : S_ISREG(status.st_mode) ? 0 : -ESPIPE;
    *file_out = rc == 0 ? fdopen(fd, "r") : NULL;
    if (*file_out == NULL)
        close(fd);
    return rc != 0 || *file_out != NULL ? rc : -ENOMEM;
}

static int read_all_lines(struct lines *lines, const char *path)
{
    FILE *file = NULL;
    struct line line = { .text = malloc(LINE_BYTES_MAX + 1) };
    int rc = line.text != NULL ? open_lines(path, &file) : -ENOMEM;
    while (rc == 0 && next_line(file, &line))
        rc = add_line(lines, &line);
    if (rc == 0 && ferror(file) != 0)
        rc = -EIO;
    free(line.text);
    if (file != NULL)
        fclose(file);
    return rc;
}

/* Read all lines of a file. -ENOMEM or -ECANCELED; 0 also if the file is missing or damaged, which has been
 * reported. */
static int read_lines(struct lines *lines)
{
    struct input *const input = lines->input;
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/%s", input->path, lines->name);
    const int rc = read_all_lines(lines, path);
    if (rc == -ENOMEM || rc == -ECANCELED)
        return rc;
    if (rc < 0 && (rc != -ENOENT || lines->consequence != NULL))
        add_problem(input, "%s: %s%s%s", path, file_load_problem(rc), lines->consequence != NULL ? ": " : "",
                    lines->consequence != NULL ? lines->consequence : "");
    if (lines->damaged > DAMAGED_LINES_SHOWN)
        add_problem(input, "%s: %" PRIu64 " lines are damaged in all", path, lines->damaged);
    return 0;
}

/* Add a row of metrics.jsonl, unless it is of a kind that the page does not draw. */
static int add_row(struct input *input, json_t *row, uint64_t line)
{
    const char *const kind = json_string_value(json_object_get(row, "kind"));
    if (kind == NULL || !json_is_number(json_object_get(row, "step")))
        return -EBADMSG;
    for (int i = 0; i < ROW_KINDS; i++)
        if (strcmp(kind, row_kinds[i]) == 0)
            return row_groups_add(&input->rows[i], json_incref(row), line);
    return 0;
}

static int add_damage(struct input *input, json_t *record, uint64_t line)
{
    (void)line;
    if (!json_is_object(record))
        return -EBADMSG;
    const json_int_t count = json_integer_value(json_object_get(record, "count"));
    input->damage_count += count > 1 ? (uint64_t)count : 1;
    if (json_array_size(input->damage) >= REPORT_DAMAGE_SHOWN_MAX)
        return 0;
    return json_array_append(input->damage, record) == 0 ? 0 : -ENOMEM;
}

/* ---- files that are read at once ---- */

/* Read a JSON object from a file. 0, or a negative errno with the reason in problem->text. */
static int load_object(const char *path, json_t **object_out, json_error_t *problem)
{
    char *text = NULL;
    size_t bytes;
    json_t *value = NULL;
    int rc = file_load(path, FILE_BYTES_MAX, &text, &bytes);
    if (rc < 0)
        snprintf(problem->text, sizeof(problem->text), "%s", file_load_problem(rc));
    else
        rc = parse(text, bytes, &value, problem);
    free(text);
    if (rc < 0)
        return rc;
    if (json_is_object(value)) {
        *object_out = value;
        return 0;
    }
    snprintf(problem->text, sizeof(problem->text), "is not a JSON object");
    json_decref(value);
    return -EBADMSG;
}

/* Set `key` to the object in the file KEY.json, or to null. -ENOENT if the file is missing, -ENOMEM, else 0. */
static int read_object(struct input *input, const char *key, const char *consequence)
{
    char path[PATH_MAX];
    json_error_t problem = { .text = "" };
    json_t *object = NULL;
    snprintf(path, sizeof(path), "%s/%s.json", input->path, key);
    const int rc = load_object(path, &object, &problem);
    if (rc == -ENOMEM)
        return rc;
    if (rc < 0 && rc != -ENOENT)
        add_problem(input, "%s: %s: %s", path, problem.text, consequence);
    const int failed = json_object_set_new(input->run, key, object != NULL ? object : json_null());
    return failed != 0 ? -ENOMEM : rc == -ENOENT ? rc : 0;
}

/* Set "conf" to the text of run.conf. 0 or -ENOMEM. */
static int read_settings(struct input *input)
{
    char path[PATH_MAX], *text = NULL;
    size_t bytes;
    snprintf(path, sizeof(path), "%s/run.conf", input->path);
    const int rc = file_load(path, FILE_BYTES_MAX, &text, &bytes);
    if (rc == -ENOMEM)
        return rc;
    if (rc != 0)
        add_problem(input, "%s: %s", path, file_load_problem(rc));
    const int failed = json_object_set_new(input->run, "conf", text != NULL ? string_of(text) : json_null());
    free(text);
    return failed != 0 ? -ENOMEM : 0;
}

/* ---- all files ---- */

static int read_files(struct input *input)
{
    struct lines rows = { .input = input, .name = "metrics.jsonl", .consequence = "there are no curves",
                          .invalid = "it is not a row of a run", .add = add_row };
    struct lines damage = { .input = input, .name = "quarantine.jsonl", .invalid = "it is not a damaged record",
                            .add = add_damage };
    int rc = read_object(input, "summary", "its contents are missing here");
    input->has_summary = rc != -ENOENT;
    if (rc == 0 || rc == -ENOENT)
        rc = read_object(input, "evaluation", "it is not shown");
    if (rc == 0 || rc == -ENOENT)
        rc = read_settings(input);
    if (rc == 0)
        rc = read_lines(&rows);
    if (rc == 0)
        rc = read_lines(&damage);
    return rc;
}

/* Move the data that were read into input->run. 0 or -ENOMEM. */
static int finish(struct input *input)
{
    int failed = json_object_set_new(input->run, "has_summary", json_boolean(input->has_summary));
    for (int i = 0; i < ROW_KINDS; i++)
        failed |= json_object_set_new(input->run, row_kinds[i], row_groups_end(&input->rows[i]));
    failed |= json_object_set_new(input->run, "damage_count", json_integer((json_int_t)input->damage_count));
    return failed != 0 ? -ENOMEM : 0;
}

static int read_run(json_t **run_out, const char *path)
{
    struct input input = { .path = path, .run = json_object(), .problems = json_array(), .damage = json_array() };
    int failed = json_object_set_new(input.run, "problems", input.problems);
    failed |= json_object_set_new(input.run, "damage", input.damage);
    failed |= json_object_set_new(input.run, "path", string_of(path));
    int rc = failed != 0 ? -ENOMEM : read_files(&input);
    if (rc == 0)
        rc = finish(&input);
    for (int i = 0; i < ROW_KINDS; i++)
        row_groups_release(&input.rows[i]);
    if (rc == 0)
        *run_out = input.run;
    else
        json_decref(input.run);
    return rc;
}

/* Check that the directory contains a file of a run. 0, -ENOENT if it does not, or another negative errno. */
static int find_files(const char *path)
{
    static const char *const names[] = { "summary.json", "metrics.jsonl" };
    char file[PATH_MAX];
    int rc = strlen(path) + NAME_ROOM > sizeof(file) ? -ENAMETOOLONG : -ENOENT;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && rc == -ENOENT; i++) {
        snprintf(file, sizeof(file), "%s/%s", path, names[i]);
        rc = access(file, F_OK) == 0 ? 0 : -errno;
    }
    return rc;
}

int report_input_read(json_t **run_out, const char *path)
{
    struct stat status;
    int rc = stat(path, &status) != 0 ? -errno : S_ISDIR(status.st_mode) ? 0 : -ENOTDIR;
    if (rc == 0 && (rc = find_files(path)) == -ENOENT) {
        log_message(LOG_ERROR, "%s: not the directory of a run: it has neither metrics.jsonl nor summary.json: "
                    "name one, such as runs/run", path);
        return EXIT_CODE_DATA;
    }
    if (rc == 0)
        rc = read_run(run_out, path);
    if (rc == -ECANCELED)
        return signals_exit_code();
    if (rc != 0)
        log_message(LOG_ERROR, "%s: %s%s", path, strerror(-rc),
                    rc == -ENOTDIR ? ": name the directory of a run, such as runs/run" : "");
    return rc == 0 ? EXIT_CODE_OK : (int)exit_code_of(rc, EXIT_CODE_DATA);
}
