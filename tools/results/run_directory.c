/* Files of a run. Outputs never follow links and appear whole or not at all. */
#include "tools/results/run_directory.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "stage/file/file.h"
#include "stage/file/whole_file.h"
#include "stage/log.h"
#include "stage/text/text_stream.h"
#include "tools/results/file_list.h"
#include "tools/results/lines_file.h"
#include "tools/results/run_names.h"
#include "tools/results/run_place.h"
#include "tools/text/number.h"

static const char *const lines_names[RUN_LINES_COUNT] = {
    [RUN_METRICS] = "metrics.jsonl",
    [RUN_QUARANTINE] = "quarantine.jsonl",
};

struct run_directory {
    struct run_place place;
    struct lines_file lines[RUN_LINES_COUNT];
    bool has_begun, has_model;
    int lost;                   /* as run_directory_look has found it: -ESTALE, -ENOENT; 0: it is there */
};

/* ---- opening and beginning ---- */

/* The file that describes the model may change: its text stays with the results, and run.conf there names that. */
static int write_model(struct run_directory *directory, const struct settings *settings)
{
    directory->has_model = settings->model_text != NULL;
    if (!directory->has_model)
        return 0;
    const struct file_part text = { settings->model_text, settings->model_bytes };
    return whole_file_prepare(directory->place.fd, RUN_MODEL_FILE, &text, 1);
}

static int write_settings(const struct run_directory *directory, const struct settings *settings)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *const out = open_memstream(&text, &bytes);
    if (out == NULL)
        return -ENOMEM;
    char model_path[PATH_MAX + sizeof("/" RUN_MODEL_FILE)];
    struct settings told = *settings;
    snprintf(model_path, sizeof(model_path), "%s/%s", directory->place.path, RUN_MODEL_FILE);
    if (settings->model_text != NULL)
        told.model.file = model_path;
    (void)settings_write(&told, out);       /* the stream knows of failures */
    int rc = text_stream_end(out, &text);
    if (rc == 0)
        rc = whole_file_prepare(directory->place.fd, "run.conf", &(struct file_part){ text, bytes }, 1);
    free(text);
    return rc;
}

static int open_lines(struct run_directory *directory, enum run_lines which, const struct run_past *past)
{
    struct lines_file *const lines = &directory->lines[which];
    return past != NULL ? lines_file_go_on(lines, directory->place.fd, past->lines_bytes[which])
                        : lines_file_make(lines, directory->place.fd);
}

/* Only a run that skips damage has records to list. */
static int make_lines(struct run_directory *directory, const struct settings *settings, const struct run_past *past)
{
    const int rc = open_lines(directory, RUN_METRICS, past);
    if (rc != 0 || settings->data.on_corrupt != ON_CORRUPT_SKIP)
        return rc;
    return open_lines(directory, RUN_QUARANTINE, past);
}

static int enter_of(struct run_directory *directory, const struct settings *settings, const struct run_past *past)
{
    if (past != NULL)
        return run_place_enter(&directory->place, past->path);
    return run_name_was_given(settings) ? run_place_enter(&directory->place, settings->run.dir)
                                   : run_place_enter_free(&directory->place, settings->run.dir);
}

static int prepare(struct run_directory *directory, const struct settings *settings, const struct run_past *past)
{
    int rc = enter_of(directory, settings, past);
    if (rc == 0)
        run_place_clear(&directory->place);
    if (rc == 0)
        rc = write_model(directory, settings);
    if (rc == 0)
        rc = write_settings(directory, settings);
    return rc == 0 ? make_lines(directory, settings, past) : rc;
}

static int refuse(const struct run_directory *directory, int rc, char *problem_out, size_t problem_size)
{
    const char *const why = directory->place.obstacle[0] != '\0' ? directory->place.obstacle
                          : rc == -EWOULDBLOCK             ? "another run is writing here"
                                                           : strerror(-rc);
    snprintf(problem_out, problem_size, "run directory %s: %s", directory->place.path, why);
    return rc;
}

int run_directory_open(struct run_directory **directory_out, const struct settings *settings,
                       const struct run_past *past, char *problem_out, size_t problem_size)
{
    struct run_directory *const directory = calloc(1, sizeof(*directory));
    if (directory == NULL) {
        snprintf(problem_out, problem_size, "run directory %s: %s", settings->run.dir, strerror(ENOMEM));
        return -ENOMEM;
    }
    run_place_init(&directory->place);
    for (size_t i = 0; i < RUN_LINES_COUNT; i++)
        directory->lines[i] =
            (struct lines_file){ .name = lines_names[i], .folder = directory->place.path, .fd = -1 };
    const int rc = prepare(directory, settings, past);
    if (rc != 0) {
        refuse(directory, rc, problem_out, problem_size);
        run_directory_close(directory);
        return rc;
    }
    *directory_out = directory;
    return 0;
}

int run_directory_check(const struct settings *settings, const struct run_past *past, uint64_t bytes,
                        char *problem_out, size_t problem_size)
{
    struct run_directory directory = { .has_begun = false };
    run_place_init(&directory.place);
    directory.place.is_tried = true;
    int rc = enter_of(&directory, settings, past);
    if (rc != 0)
        refuse(&directory, rc, problem_out, problem_size);
    else
        rc = run_directory_room(&directory, bytes, problem_out, problem_size);
    run_place_withdraw(&directory.place);
    run_place_leave(&directory.place);
    return rc;
}

int run_directory_room(const struct run_directory *directory, uint64_t bytes, char *problem_out, size_t problem_size)
{
    struct statvfs status;
    if (fstatvfs(directory->place.fd, &status) != 0 || status.f_blocks == 0)
        return 0;
    const uint64_t free_bytes = (uint64_t)status.f_bavail * status.f_frsize;
    if (free_bytes / 2 >= bytes)
        return 0;
    snprintf(problem_out, problem_size,
             "run directory %s: the results need %s, twice while they are replaced, free are %s", directory->place.path,
             number_bytes(bytes).text, number_bytes(free_bytes).text);
    return -ENOSPC;
}

/* This run's, or none: that of an earlier one goes. */
static int begin_file(const struct run_directory *directory, const char *name, bool is_ours)
{
    if (is_ours)
        return whole_file_appear(directory->place.fd, name);
    return unlinkat(directory->place.fd, name, 0) == 0 || errno == ENOENT ? 0 : -errno;
}

static int begin_lines(const struct run_directory *directory, enum run_lines which)
{
    if (directory->lines[which].goes_on)
        return 0;
    return begin_file(directory, lines_names[which], directory->lines[which].fd >= 0);
}

/* From the first name that is another on the directory is this run's. */
int run_directory_begin(struct run_directory *directory)
{
    const int fd = directory->place.fd;
    if (unlinkat(fd, "summary.json", 0) != 0 && errno != ENOENT)
        return -errno;
    if (renameat(fd, "weights.safetensors", fd, "weights.previous.safetensors") != 0 && errno != ENOENT)
        return -errno;
    int rc = begin_lines(directory, RUN_METRICS);
    directory->has_begun = rc == 0;
    if (rc == 0)
        rc = begin_lines(directory, RUN_QUARANTINE);
    if (rc == 0)
        rc = begin_file(directory, RUN_MODEL_FILE, directory->has_model);
    if (rc == 0)
        rc = whole_file_appear(fd, "run.conf");
    return rc == 0 ? whole_file_sync_names(fd) : rc;
}

/* ---- files ---- */

int run_directory_write(struct run_directory *directory, const char *file, const struct file_part *parts,
                        size_t count)
{
    return whole_file_write(directory->place.fd, file, parts, count);
}

int run_directory_prepare(struct run_directory *directory, const char *file, const struct file_part *parts,
                          size_t count)
{
    return whole_file_prepare(directory->place.fd, file, parts, count);
}

int run_directory_appear(struct run_directory *directory, const char *file)
{
    return whole_file_finish(directory->place.fd, file);
}

void run_directory_drop(struct run_directory *directory, const char *file)
{
    whole_file_drop(directory->place.fd, file);
}

void run_directory_keep(struct run_directory *directory, uint64_t (*number_of)(const char *name), uint64_t number,
                        uint32_t keep)
{
    file_list_keep(directory->place.fd, number_of, number, keep);
}

uint64_t run_directory_lines_bytes(const struct run_directory *directory, enum run_lines which)
{
    return lines_file_bytes(&directory->lines[which]);
}

int run_directory_sync_lines(const struct run_directory *directory)
{
    int rc = 0;
    for (size_t i = 0; i < RUN_LINES_COUNT && rc == 0; i++)
        if (directory->lines[i].fd >= 0)
            rc = file_sync(directory->lines[i].fd);
    return rc;
}

void run_directory_add_line(struct run_directory *directory, enum run_lines which, struct json *line)
{
    if (directory != NULL)
        lines_file_add(&directory->lines[which], line);
}

const char *run_directory_lines_name(enum run_lines which)
{
    return lines_names[which];
}

uint64_t run_directory_lost_lines(const struct run_directory *directory, enum run_lines which)
{
    return directory->lines[which].lost;
}

/* A file of lines that was removed, or has another in its place. */
static bool has_left(const struct run_directory *directory, enum run_lines which)
{
    struct stat open, named;
    const int fd = directory->lines[which].fd;
    if (fd < 0 || fstat(fd, &open) != 0)
        return false;
    if (fstatat(directory->place.fd, lines_names[which], &named, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT;         /* any other error says nothing of the file */
    return open.st_dev != named.st_dev || open.st_ino != named.st_ino;
}

int run_directory_look(struct run_directory *directory)
{
    char words[PATH_MAX + 128];
    if (directory == NULL || !directory->has_begun || directory->lost == -ENOENT)
        return directory != NULL ? directory->lost : 0;
    const int before = directory->lost;
    const int rc = run_place_look(&directory->place, words, sizeof(words));
    if (rc != 0 && rc != before)
        log_message(LOG_ERROR, "run directory %s: %s", directory->place.path, words);
    directory->lost = rc != 0 ? rc : before;
    for (enum run_lines which = 0; which < RUN_LINES_COUNT && directory->lost == 0; which++)
        if (has_left(directory, which)) {
            log_message(LOG_ERROR, "run directory %s: %s was removed or replaced while the run writes there: what it "
                        "held and will hold is lost", directory->place.path, lines_names[which]);
            directory->lost = -ESTALE;
        }
    return directory->lost;
}

FILE *run_directory_read_lines(const struct run_directory *directory, enum run_lines which)
{
    const int fd = openat(directory->place.fd, lines_names[which], O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    FILE *const file = fd >= 0 ? fdopen(fd, "r") : NULL;
    if (file == NULL && fd >= 0)
        close(fd);
    return file;
}

int run_directory_failed(const struct run_directory *directory)
{
    int failed = directory->lost;
    for (size_t i = 0; i < RUN_LINES_COUNT && failed == 0; i++)
        failed = directory->lines[i].failed;
    return failed;
}

/* ---- closing ---- */

void run_directory_close(struct run_directory *directory)
{
    if (directory == NULL)
        return;
    if (directory->place.fd >= 0) {
        whole_file_drop(directory->place.fd, "run.conf");
        whole_file_drop(directory->place.fd, RUN_MODEL_FILE);
        for (size_t i = 0; i < RUN_LINES_COUNT; i++)
            whole_file_drop(directory->place.fd, lines_names[i]);
    }
    if (!directory->has_begun)
        run_place_withdraw(&directory->place);
    for (size_t i = 0; i < RUN_LINES_COUNT; i++)
        lines_file_close(&directory->lines[i]);
    run_place_leave(&directory->place);
    free(directory);
}

const char *run_directory_path(const struct run_directory *directory)
{
    return directory->place.path;
}
