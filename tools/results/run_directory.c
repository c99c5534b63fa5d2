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
#include "tools/config/number.h"
#include "tools/results/file_list.h"
#include "tools/results/lines_file.h"
#include "tools/results/run_names.h"

#define ENTRIES_MAX 100         /* tries to enter a directory that others make and remove */

#define MODEL_FILE "run.net"    /* what model.file held */

static const char *const result_names[] = {
    "run.conf",            "metrics.jsonl", "quarantine.jsonl", "summary.json",
    "weights.safetensors", "weights.previous.safetensors",      MODEL_FILE,      "best.safetensors",
};
#define RESULT_COUNT (sizeof(result_names) / sizeof(result_names[0]))

static const char *const lines_names[RUN_LINES_COUNT] = {
    [RUN_METRICS] = "metrics.jsonl",
    [RUN_QUARANTINE] = "quarantine.jsonl",
};

struct run_directory {
    char path[PATH_MAX];
    size_t made;                /* length of the shortest path that this run made a directory of, 0: none */
    int fd, lock_fd;
    struct lines_file lines[RUN_LINES_COUNT];
    bool is_locked, is_ours;    /* is_ours: nobody else is in it, as far as locks tell */
    bool has_begun, has_model;
    char obstacle[128];         /* what stands in the place of a file, "" = nothing */
};

/* ---- entering ---- */

static int make_one(struct run_directory *directory, const char *path)
{
    if (mkdir(path, 0777) != 0)
        return errno == EEXIST ? 0 : -errno;
    if (directory->made == 0)
        directory->made = strlen(path);
    return 0;
}

static int make_directories(struct run_directory *directory)
{
    char part[PATH_MAX];
    strcpy(part, directory->path);
    for (char *at = part + 1; *at != '\0'; at++) {
        if (*at != '/')
            continue;
        *at = '\0';
        const int rc = make_one(directory, part);
        if (rc != 0)
            return rc;
        *at = '/';
    }
    return make_one(directory, part);
}

/* Those that this run made, as far as nothing else is in them. */
static void remove_directories(struct run_directory *directory)
{
    char *const path = directory->path;
    size_t end = strlen(path);
    while (directory->made > 0 && end >= directory->made) {
        while (end > 1 && path[end - 1] == '/')
            end--;
        path[end] = '\0';
        if (rmdir(path) != 0)
            return;
        while (end > 0 && path[end - 1] != '/')
            end--;
    }
}

static void close_fds(struct run_directory *directory)
{
    const int fds[] = { directory->lock_fd, directory->fd };
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
        if (fds[i] >= 0)
            close(fds[i]);
    directory->fd = directory->lock_fd = -1;
}

static int check_kind(struct run_directory *directory, const char *file, mode_t mode)
{
    const char *const kind = file_kind(mode);
    if (kind == NULL)
        return 0;
    snprintf(directory->obstacle, sizeof(directory->obstacle), "%s is %s, not a regular file", file, kind);
    return S_ISLNK(mode) ? -ELOOP : -EINVAL;
}

static int check_file(struct run_directory *directory, const char *file)
{
    struct stat status;
    if (fstatat(directory->fd, file, &status, AT_SYMLINK_NOFOLLOW) == 0)
        return check_kind(directory, file, status.st_mode);
    return errno == ENOENT ? 0 : -errno;
}

static int check_results(struct run_directory *directory)
{
    int rc = 0;
    for (size_t i = 0; i < RESULT_COUNT && rc == 0; i++)
        rc = check_file(directory, result_names[i]);
    return rc;
}

/* -ESTALE: the run that held the lock has removed it. */
static int lock(struct run_directory *directory)
{
    directory->lock_fd =
        openat(directory->fd, ".lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    struct stat status;
    if (directory->lock_fd < 0) {
        const int why = errno == ENOENT ? -ESTALE : -errno;
        const int rc = check_file(directory, ".lock");
        return rc != 0 ? rc : why;
    }
    int rc = fstat(directory->lock_fd, &status) == 0 ? check_kind(directory, ".lock", status.st_mode) : -errno;
    if (rc == 0)
        rc = file_lock(directory->lock_fd);
    directory->is_locked = rc == 0;
    if (rc == 0 && fstat(directory->lock_fd, &status) == 0 && status.st_nlink == 0)
        rc = -ESTALE;
    return rc;
}

static bool holds_a_run(const struct run_directory *directory)
{
    return faccessat(directory->fd, "run.conf", F_OK, 0) == 0;
}

/* Without locks, a directory that is new is nobody else's; one that was named is the user's concern. */
static int go_without_lock(const struct run_directory *directory, bool fresh)
{
    if (fresh && directory->made == 0)
        return -EEXIST;
    log_message(LOG_RUN, "%s: the file system has no locks: nothing keeps a second run out of the directory",
                directory->path);
    return 0;
}

static int try_to_enter(struct run_directory *directory, bool fresh)
{
    int rc = make_directories(directory);
    if (rc != 0)
        return rc == -ENOENT ? -ESTALE : rc;
    directory->fd = open(directory->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory->fd < 0)
        return errno == ENOENT ? -ESTALE : -errno;
    if (fresh && holds_a_run(directory))
        return -EEXIST;
    rc = lock(directory);
    if (rc == -EOPNOTSUPP)
        rc = go_without_lock(directory, fresh);
    directory->is_ours = rc == 0;
    if (rc == 0 && fresh && holds_a_run(directory))
        rc = -EEXIST;
    return rc == 0 ? check_results(directory) : rc;
}

/* Open and lock directory->path. -EEXIST when it holds a run and `fresh` is asked for,
 * -EWOULDBLOCK when another run holds it. */
static int enter(struct run_directory *directory, bool fresh)
{
    int rc = -ESTALE;
    for (int i = 0; i < ENTRIES_MAX && rc == -ESTALE; i++) {
        close_fds(directory);
        directory->made = 0;
        rc = try_to_enter(directory, fresh);
    }
    if (rc == -ESTALE)
        snprintf(directory->obstacle, sizeof(directory->obstacle),
                 "a link on the way leads nowhere, or others remove it again and again");
    return rc;
}

static int enter_free_name(struct run_directory *directory, const char *base)
{
    for (int number = 1; number <= RUN_NAMES_MAX; number++) {
        int rc = run_name_numbered(directory->path, sizeof(directory->path), base, number);
        if (rc == 0)
            rc = enter(directory, true);
        if (rc != -EEXIST && rc != -EWOULDBLOCK)
            return rc;
    }
    return -EEXIST;
}

static int enter_named(struct run_directory *directory, const char *path)
{
    const int length = snprintf(directory->path, sizeof(directory->path), "%s", path);
    return length < (int)sizeof(directory->path) ? enter(directory, false) : -ENAMETOOLONG;
}

/* ---- leftovers ---- */

static bool is_leftover(const char *name)
{
    bool is_ours = whole_file_is_any_temporary(name, "checkpoint-");
    for (size_t i = 0; i < RESULT_COUNT; i++)
        is_ours = is_ours || whole_file_is_temporary(name, result_names[i]);
    return is_ours;
}

/* Who holds the lock is the only one that writes here: what others left is nobody's. */
static void remove_leftovers(const struct run_directory *directory)
{
    if (directory->is_locked)
        file_list_remove(directory->fd, is_leftover);
}

/* ---- opening and beginning ---- */

/* The file that describes the model may change: its text stays with the results, and run.conf there names that. */
static int write_model(struct run_directory *directory, const struct settings *settings)
{
    directory->has_model = settings->model_text != NULL;
    if (!directory->has_model)
        return 0;
    const struct file_part text = { settings->model_text, settings->model_bytes };
    return whole_file_prepare(directory->fd, MODEL_FILE, &text, 1);
}

static int write_settings(const struct run_directory *directory, const struct settings *settings)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *const out = open_memstream(&text, &bytes);
    if (out == NULL)
        return -ENOMEM;
    char model_path[PATH_MAX + sizeof("/" MODEL_FILE)];
    struct settings told = *settings;
    snprintf(model_path, sizeof(model_path), "%s/%s", directory->path, MODEL_FILE);
    if (settings->model_text != NULL)
        told.model.file = model_path;
    (void)settings_write(&told, out);       /* the stream knows of failures */
    int rc = text_stream_end(out, &text);
    if (rc == 0)
        rc = whole_file_prepare(directory->fd, "run.conf", &(struct file_part){ text, bytes }, 1);
    free(text);
    return rc;
}

static int open_lines(struct run_directory *directory, enum run_lines which, const struct run_past *past)
{
    struct lines_file *const lines = &directory->lines[which];
    return past != NULL ? lines_file_go_on(lines, directory->fd, past->lines_bytes[which])
                        : lines_file_make(lines, directory->fd);
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
        return enter_named(directory, past->path);
    return run_name_was_given(settings) ? enter_named(directory, settings->run.dir)
                                   : enter_free_name(directory, settings->run.dir);
}

static int prepare(struct run_directory *directory, const struct settings *settings, const struct run_past *past)
{
    int rc = enter_of(directory, settings, past);
    if (rc == 0)
        remove_leftovers(directory);
    if (rc == 0)
        rc = write_model(directory, settings);
    if (rc == 0)
        rc = write_settings(directory, settings);
    return rc == 0 ? make_lines(directory, settings, past) : rc;
}

static int refuse(const struct run_directory *directory, int rc, char *problem_out, size_t problem_size)
{
    const char *const why = directory->obstacle[0] != '\0' ? directory->obstacle
                          : rc == -EWOULDBLOCK             ? "another run is writing here"
                                                           : strerror(-rc);
    snprintf(problem_out, problem_size, "run directory %s: %s", directory->path, why);
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
    directory->fd = directory->lock_fd = -1;
    for (size_t i = 0; i < RUN_LINES_COUNT; i++)
        directory->lines[i] = (struct lines_file){ .name = lines_names[i], .folder = directory->path, .fd = -1 };
    const int rc = prepare(directory, settings, past);
    if (rc != 0) {
        refuse(directory, rc, problem_out, problem_size);
        run_directory_close(directory);
        return rc;
    }
    *directory_out = directory;
    return 0;
}

int run_directory_room(const struct run_directory *directory, uint64_t bytes, char *problem_out, size_t problem_size)
{
    struct statvfs status;
    if (fstatvfs(directory->fd, &status) != 0 || status.f_blocks == 0)
        return 0;
    const uint64_t free_bytes = (uint64_t)status.f_bavail * status.f_frsize;
    if (free_bytes / 2 >= bytes)
        return 0;
    snprintf(problem_out, problem_size,
             "run directory %s: the results need %s, twice while they are replaced, free are %s", directory->path,
             number_bytes(bytes).text, number_bytes(free_bytes).text);
    return -ENOSPC;
}

/* This run's, or none: that of an earlier one goes. */
static int begin_file(const struct run_directory *directory, const char *name, bool is_ours)
{
    if (is_ours)
        return whole_file_appear(directory->fd, name);
    return unlinkat(directory->fd, name, 0) == 0 || errno == ENOENT ? 0 : -errno;
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
    const int fd = directory->fd;
    if (unlinkat(fd, "summary.json", 0) != 0 && errno != ENOENT)
        return -errno;
    if (renameat(fd, "weights.safetensors", fd, "weights.previous.safetensors") != 0 && errno != ENOENT)
        return -errno;
    int rc = begin_lines(directory, RUN_METRICS);
    directory->has_begun = rc == 0;
    if (rc == 0)
        rc = begin_lines(directory, RUN_QUARANTINE);
    if (rc == 0)
        rc = begin_file(directory, MODEL_FILE, directory->has_model);
    if (rc == 0)
        rc = whole_file_appear(fd, "run.conf");
    return rc == 0 ? whole_file_sync_names(fd) : rc;
}

/* ---- files ---- */

int run_directory_write(struct run_directory *directory, const char *file, const struct file_part *parts,
                        size_t count)
{
    return whole_file_write(directory->fd, file, parts, count);
}

void run_directory_keep(struct run_directory *directory, uint64_t (*number_of)(const char *name), uint64_t number,
                        uint32_t keep)
{
    file_list_keep(directory->fd, number_of, number, keep);
}

uint64_t run_directory_lines_bytes(const struct run_directory *directory, enum run_lines which)
{
    return lines_file_bytes(&directory->lines[which]);
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

int run_directory_failed(const struct run_directory *directory)
{
    int failed = 0;
    for (size_t i = 0; i < RUN_LINES_COUNT && failed == 0; i++)
        failed = directory->lines[i].failed;
    return failed;
}

/* ---- closing ---- */

/* The lock goes while it is held: who opened it before notices that it has no name. */
static void withdraw(struct run_directory *directory)
{
    if (directory->made > 0 && directory->is_ours)
        unlinkat(directory->fd, ".lock", 0);
    remove_directories(directory);
}

void run_directory_close(struct run_directory *directory)
{
    if (directory == NULL)
        return;
    if (directory->fd >= 0) {
        whole_file_drop(directory->fd, "run.conf");
        whole_file_drop(directory->fd, MODEL_FILE);
        for (size_t i = 0; i < RUN_LINES_COUNT; i++)
            whole_file_drop(directory->fd, lines_names[i]);
    }
    if (!directory->has_begun)
        withdraw(directory);
    for (size_t i = 0; i < RUN_LINES_COUNT; i++)
        lines_file_close(&directory->lines[i]);
    close_fds(directory);
    free(directory);
}

const char *run_directory_path(const struct run_directory *directory)
{
    return directory->path;
}
