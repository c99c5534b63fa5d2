/* Reading a run's directory. summary.json comes first: where the run ends meanwhile, it is one that goes on. */
#include "tools/report/shown_run.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stage/log.h"
#include "stage/stop.h"
#include "tools/end_request.h"
#include "tools/report/look.h"
#include "tools/report/run_file.h"
#include "tools/report/run_so_far.h"

#define DAMAGED_TOLD 3u         /* damaged lines of a file that are told one by one */

struct lines_reader {
    struct shown_run *run;
    const char *name;           /* of the file */
    const char *without;        /* what is missing without it; NULL: nothing */
    const char *no_value;       /* what to say of JSON that is no line of it */
    int (*add)(struct shown_run *run, json_t *value);   /* 0; -EBADMSG: it is none of the file's; -ENOMEM */
    uint64_t damaged;
};

static int add_row(struct shown_run *run, json_t *value)
{
    return metrics_add(&run->metrics, value);
}

static int add_damage(struct shown_run *run, json_t *value)
{
    if (!look_is(value, JSON_OBJECT))
        return -EBADMSG;
    const json_int_t count = json_integer_value(json_object_get(value, "count"));
    run->damage_count += count > 1 ? (uint64_t)count : 1;
    return json_array_size(run->damage) < DAMAGE_SHOWN_MAX && json_array_append(run->damage, value) != 0 ? -ENOMEM : 0;
}

static void tell_line(struct lines_reader *reader, const struct run_line *line, const char *problem)
{
    if (reader->damaged++ < DAMAGED_TOLD)
        remarks_add(&reader->run->remarks, "%s/%s: line %" PRIu64 " is damaged and left out: %s", reader->run->path,
                    reader->name, line->number, problem);
}

/* The last line of a run that goes on may be half written. */
static int take_line(void *arg, const struct run_line *line)
{
    struct lines_reader *const reader = arg;
    json_error_t problem = { .text = "" };
    json_t *value = NULL;
    if (atomic_load(end_requested()))
        return -ECANCELED;
    if (!line->is_ended && !reader->run->has_ended)
        return 0;
    if (line->is_cut) {
        tell_line(reader, line, "it is longer than 1 MiB");
        return 0;
    }
    int rc = look_parse(line->text, line->bytes, JSON_REJECT_DUPLICATES, &value, &problem);
    const bool is_json = rc == 0;
    if (is_json)
        rc = reader->add(reader->run, value);
    json_decref(value);
    if (rc == -EBADMSG)
        tell_line(reader, line, is_json ? reader->no_value : problem.text);
    return rc == -EBADMSG ? 0 : rc;
}

/* Of a file whose absence is told, or is as good as an empty one. 0, -ENOMEM or -ECANCELED. */
static int read_lines(struct lines_reader *reader, int directory_fd)
{
    struct shown_run *const run = reader->run;
    const int rc = run_file_lines(directory_fd, reader->name, take_line, reader);
    if (rc == -ENOMEM || rc == -ECANCELED)
        return rc;
    if (rc < 0 && (rc != -ENOENT || reader->without != NULL))
        remarks_add(&run->remarks, "%s/%s: %s%s%s", run->path, reader->name,
                    rc == -EINVAL ? "is no regular file" : strerror(-rc), reader->without != NULL ? ": " : "",
                    reader->without != NULL ? reader->without : "");
    if (reader->damaged > DAMAGED_TOLD)
        remarks_add(&run->remarks, "%s/%s: %" PRIu64 " lines are damaged in all", run->path, reader->name,
                    reader->damaged);
    return 0;
}

/* 0 also where there is none or it is damaged; -ENOMEM. */
static int read_summary(struct shown_run *run, int directory_fd)
{
    char *text = NULL;
    size_t bytes;
    json_error_t problem = { .text = "" };
    int rc = run_file_read(directory_fd, "summary.json", &text, &bytes);
    run->has_ended = rc != -ENOENT;
    if (rc < 0)
        snprintf(problem.text, sizeof(problem.text), "%s", rc == -EINVAL ? "is no regular file" : strerror(-rc));
    else if (look_parse(text, bytes, JSON_REJECT_DUPLICATES, &run->summary, &problem) == -ENOMEM)
        rc = -ENOMEM;
    free(text);
    if (run->summary != NULL && !look_is(run->summary, JSON_OBJECT)) {
        json_decref(run->summary);
        run->summary = NULL;
        snprintf(problem.text, sizeof(problem.text), "is no object");
    }
    if (run->summary == NULL && run->has_ended && rc != -ENOMEM)
        remarks_add(&run->remarks, "%s/summary.json: %s: what it tells is missing", run->path, problem.text);
    return rc == -ENOMEM ? rc : 0;
}

/* Nothing is missing where there is none. 0 or -ENOMEM. */
static int read_evaluation(struct shown_run *run, int directory_fd)
{
    char *text = NULL;
    size_t bytes;
    json_error_t problem = { .text = "" };
    int rc = run_file_read(directory_fd, "evaluation.json", &text, &bytes);
    if (rc < 0 && rc != -ENOENT)
        snprintf(problem.text, sizeof(problem.text), "%s", rc == -EINVAL ? "is no regular file" : strerror(-rc));
    else if (rc == 0)
        rc = look_parse(text, bytes, JSON_REJECT_DUPLICATES, &run->evaluation, &problem);
    free(text);
    if (rc == -ENOMEM)
        return rc;
    if (rc != -ENOENT && !look_is(run->evaluation, JSON_OBJECT))
        remarks_add(&run->remarks, "%s/evaluation.json: %s: it is not shown", run->path,
                    run->evaluation != NULL ? "is no object" : problem.text);
    return 0;
}

static int read_settings(struct shown_run *run, int directory_fd)
{
    size_t bytes;
    const int rc = run_file_read(directory_fd, "run.conf", &run->conf, &bytes);
    if (rc == 0)
        return settings_list_read(&run->settings, run->conf);
    if (rc != -ENOMEM)
        remarks_add(&run->remarks, "%s/run.conf: %s", run->path,
                    rc == -EINVAL ? "is no regular file" : strerror(-rc));
    return rc == -ENOMEM ? rc : 0;
}

/* What a summary has where there is no file: the first 256. */
static int take_damage_of_summary(struct shown_run *run)
{
    static const char *const records[] = { "damage", "records", NULL }, *const total[] = { "corrupt_records", NULL };
    const json_t *const listed = look_at(run->summary, records);
    if (run->damage_count > 0)
        return 0;
    for (size_t i = 0; i < json_array_size(listed); i++) {
        const int rc = add_damage(run, json_array_get(listed, i));
        if (rc == -ENOMEM)
            return rc;
    }
    const double count = look_number_at(run->summary, total);
    run->damage_count = count > 0 && count < 1e15 ? (uint64_t)count : 0;
    return 0;
}

static int read_files(struct shown_run *run, int directory_fd)
{
    struct lines_reader rows = {
        .run = run, .name = "metrics.jsonl", .without = "there are no curves", .no_value = "it is no row of a run",
        .add = add_row,
    };
    struct lines_reader damage = {
        .run = run, .name = "quarantine.jsonl", .no_value = "it is no damaged record", .add = add_damage,
    };
    run->damage = json_array();
    int rc = run->damage != NULL ? read_summary(run, directory_fd) : -ENOMEM;
    if (rc == 0)
        rc = read_evaluation(run, directory_fd);
    if (rc == 0)
        rc = read_settings(run, directory_fd);
    if (rc == 0)
        rc = read_lines(&rows, directory_fd);
    if (rc == 0)
        rc = read_lines(&damage, directory_fd);
    if (rc == 0 && run->summary == NULL)
        rc = run_so_far(&run->metrics, &run->settings, run->has_ended, &run->summary);
    return rc == 0 ? take_damage_of_summary(run) : rc;
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

/* What follows the last slash, but for slashes at the end. */
static const char *last_part(const char *path)
{
    const char *part = path;
    for (const char *at = path; *at != '\0'; at++)
        if (*at == '/' && at[1] != '\0' && at[1] != '/')
            part = at + 1;
    return part;
}

int shown_run_read(struct shown_run *run_out, const char *path)
{
    *run_out = (struct shown_run){ .path = path, .name = last_part(path) };
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        log_message(LOG_ERROR, "%s: %s%s", path, strerror(errno),
                    errno == ENOTDIR ? ": name the directory of a run, such as runs/run" : "");
        return EXIT_CODE_DATA;
    }
    int rc = find_files(fd);
    if (rc == -ENOENT)
        log_message(LOG_ERROR, "%s: is no directory of a run: it has neither metrics.jsonl nor summary.json: "
                    "name one, such as runs/run", path);
    else if (rc == 0)
        rc = read_files(run_out, fd);
    close(fd);
    if (rc != 0 && rc != -ENOENT && rc != -ECANCELED)
        log_message(LOG_ERROR, "%s: %s", path, strerror(-rc));
    return rc == -ECANCELED ? end_request_code() : rc == 0 ? EXIT_CODE_OK : (int)exit_code_of(rc, EXIT_CODE_DATA);
}

void shown_run_release(struct shown_run *run)
{
    json_decref(run->summary);
    json_decref(run->evaluation);
    json_decref(run->damage);
    free(run->conf);
    settings_list_release(&run->settings);
    metrics_release(&run->metrics);
    remarks_release(&run->remarks);
}
