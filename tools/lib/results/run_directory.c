/* The directory of a run: its lock, and its files. Outputs never follow symbolic links, and appear atomically. */
#include "tools/lib/results/run_directory.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "stage/file/file.h"
#include "stage/file/whole_file.h"
#include "stage/log.h"
#include "stage/text/text_stream.h"
#include "tools/lib/results/file_list.h"
#include "tools/lib/results/lock_file.h"
#include "tools/lib/results/run_names.h"
#include "tools/lib/text/number.h"

/* ---- the place of the directory ---- */

#define ENTRIES_MAX 100         /* attempts to enter a directory that others create and remove */

struct run_place {
    char path[PATH_MAX];
    size_t made;                /* length of the shortest path that this run created a directory for, 0: none */
    int fd;                     /* -1: not entered */
    struct lock_file lock;
    bool is_tried;              /* set by the caller to check only whether it can be entered; nothing is created */
    bool is_ours;               /* this process has the lock, or the file system has no locks */
    /* Why it cannot be used: the file that prevents it, or the holder of the lock; "" = none. */
    char obstacle[192];
};

static const char *const result_names[] = {
    "run.conf",            "metrics.jsonl", "quarantine.jsonl", "summary.json",
    "weights.safetensors", "weights.previous.safetensors",      RUN_MODEL_FILE,     "best.safetensors",
    "best.previous.safetensors",
};
#define RESULT_COUNT (sizeof(result_names) / sizeof(result_names[0]))

static int make_one(struct run_place *place, const char *path)
{
    if (mkdir(path, 0777) != 0)
        return errno == EEXIST ? 0 : -errno;
    if (place->made == 0)
        place->made = strlen(path);
    return 0;
}

static int make_directories(struct run_place *place)
{
    char part[PATH_MAX];
    strcpy(part, place->path);
    for (char *at = part + 1; *at != '\0'; at++) {
        if (*at != '/')
            continue;
        *at = '\0';
        const int rc = make_one(place, part);
        if (rc != 0)
            return rc;
        *at = '/';
    }
    return make_one(place, part);
}

/* Remove the directories that this run created, if they are empty. */
static void remove_directories(struct run_place *place)
{
    char *const path = place->path;
    size_t end = strlen(path);
    while (place->made > 0 && end >= place->made) {
        while (end > 1 && path[end - 1] == '/')
            end--;
        path[end] = '\0';
        if (rmdir(path) != 0)
            return;
        while (end > 0 && path[end - 1] != '/')
            end--;
    }
}

static void run_place_leave(struct run_place *place)
{
    lock_file_close(&place->lock, place->is_tried);
    if (place->fd >= 0)
        close(place->fd);
    place->fd = -1;
}

static int check_file(struct run_place *place, const char *file)
{
    return lock_file_check_kind(place->fd, file, place->obstacle, sizeof(place->obstacle));
}

/* Check the folder in which files are created: the target of a symbolic link may belong to somebody else. */
static int check_folder(struct run_place *place, const char *folder)
{
    struct stat status;
    if (fstatat(place->fd, folder, &status, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? 0 : -errno;
    if (!S_ISLNK(status.st_mode))
        return 0;
    snprintf(place->obstacle, sizeof(place->obstacle), "%s is %s, not a folder", folder, file_kind(status.st_mode));
    return -ELOOP;
}

static int check_results(struct run_place *place)
{
    int rc = check_folder(place, RUN_EVENTS_FOLDER);
    for (size_t i = 0; i < RESULT_COUNT && rc == 0; i++)
        rc = check_file(place, result_names[i]);
    return rc;
}

static bool holds_a_run(const struct run_place *place)
{
    return faccessat(place->fd, "run.conf", F_OK, 0) == 0;
}

/* Continue on a file system without locks. A run that looks for a free name then uses only a directory that it created;
 * a directory that the user named is used with a warning. */
static int go_without_lock(const struct run_place *place, bool fresh)
{
    if (fresh && place->made == 0)
        return -EEXIST;
    log_message(LOG_RUN, "%s: the file system has no locks: nothing keeps a second run out of the directory",
                place->path);
    return 0;
}

static int try_to_enter(struct run_place *place, bool fresh)
{
    int rc = make_directories(place);
    if (rc != 0)
        return rc == -ENOENT ? -ESTALE : rc;
    place->fd = open(place->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (place->fd < 0)
        return errno == ENOENT ? -ESTALE : -errno;
    if (fresh && holds_a_run(place))
        return -EEXIST;
    rc = lock_file_open(&place->lock, place->fd, ".lock", place->is_tried, place->obstacle, sizeof(place->obstacle));
    if (rc == -EOPNOTSUPP)
        rc = go_without_lock(place, fresh);
    place->is_ours = rc == 0 && !place->is_tried;
    if (rc == 0 && fresh && holds_a_run(place))
        rc = -EEXIST;
    if (rc == 0 && place->is_tried && faccessat(place->fd, ".", W_OK | X_OK, AT_EACCESS) != 0)
        rc = -errno;
    return rc == 0 ? check_results(place) : rc;
}

/* Create (with parents), open and lock place->path; the lock file then names this process. -EEXIST if it contains a run
 * and `fresh` is true; -EWOULDBLOCK if another run holds the lock; or another negative errno. place->obstacle may
 * contain the reason. After an error the caller has to call run_place_leave, before that run_place_withdraw if created
 * directories are to be removed. */
static int enter_place(struct run_place *place, bool fresh)
{
    int rc = -ESTALE;
    for (int i = 0; i < ENTRIES_MAX && rc == -ESTALE; i++) {
        run_place_leave(place);
        place->made = 0;
        place->obstacle[0] = '\0';
        rc = try_to_enter(place, fresh);
    }
    if (rc == -ESTALE)
        snprintf(place->obstacle, sizeof(place->obstacle),
                 "cannot be created: a symbolic link in its path has no target, or another process keeps removing it");
    return rc;
}

static void run_place_init(struct run_place *place)
{
    *place = (struct run_place){ .fd = -1, .lock = { .fd = -1 } };
}

/* Enter the first of runs/NAME, runs/NAME-2, ..., beginning with the last existing run of the name, that contains no
 * run and is not locked. -EEXIST: there is none. */
static int run_place_enter_free(struct run_place *place, const struct settings *settings)
{
    const int last = run_name_count(settings);
    for (int number = last > 1 ? last : 1; number <= RUN_NAMES_MAX; number++) {
        int rc = run_name_numbered(place->path, sizeof(place->path), settings->run.dir, number);
        if (rc == 0)
            rc = enter_place(place, true);
        if (rc != -EEXIST && rc != -EWOULDBLOCK)
            return rc;
    }
    return -EEXIST;
}

static int run_place_enter(struct run_place *place, const char *path)
{
    const int length = snprintf(place->path, sizeof(place->path), "%s", path);
    return length < (int)sizeof(place->path) ? enter_place(place, false) : -ENAMETOOLONG;
}

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* The current path of the directory, from the kernel. */
static void find_path(int fd, char *path_out, size_t path_size)
{
    char link[32];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    const ssize_t bytes = readlink(link, path_out, path_size - 1);
    path_out[bytes > 0 ? bytes : 0] = '\0';
}

/* Does the path still lead to the directory? If not, words_out contains the reason. 0; -ESTALE: it was moved, or
 * another directory has its path; -ENOENT: it was removed, and no more files can be written. */
static int run_place_look(const struct run_place *place, char *words_out, size_t words_size)
{
    struct stat entered, named;
    char path[PATH_MAX];
    words_out[0] = '\0';
    if (fstat(place->fd, &entered) != 0)
        return 0;
    const bool is_named = stat(place->path, &named) == 0;
    if (is_named ? is_same(&entered, &named) : errno != ENOENT && errno != ENOTDIR)
        return 0;
    if (entered.st_nlink == 0) {
        snprintf(words_out, words_size, "it was removed during the run");
        return -ENOENT;
    }
    find_path(place->fd, path, sizeof(path));
    snprintf(words_out, words_size, "it was moved during the run: results are written to %s",
             path[0] != '\0' ? path : "its new place");
    return -ESTALE;
}

bool run_directory_writes(const char *name)
{
    bool is_ours = strcmp(name, ".lock") == 0 || strncmp(name, "checkpoint-", strlen("checkpoint-")) == 0;
    for (size_t i = 0; i < RESULT_COUNT; i++)
        is_ours = is_ours || strcmp(name, result_names[i]) == 0;
    return is_ours;
}

static bool is_leftover(const char *name)
{
    bool is_ours = whole_file_is_any_temporary(name, "checkpoint-");
    for (size_t i = 0; i < RESULT_COUNT; i++)
        is_ours = is_ours || whole_file_is_temporary(name, result_names[i]);
    return is_ours;
}

/* Remove temporary files of runs that were killed. Only with the lock, which proves that no run is writing them. */
static void run_place_clear(const struct run_place *place)
{
    if (place->lock.is_locked)
        file_list_remove(place->fd, is_leftover);
}

/* Remove the directories that were created on entering, if they are empty. The lock file is removed while it is locked:
 * a process that has opened it before notices that its name is gone. */
static void run_place_withdraw(struct run_place *place)
{
    if (place->made > 0 && place->is_ours)
        unlinkat(place->fd, ".lock", 0);
    remove_directories(place);
}

/* ---- files of JSON lines ---- */

/* A file to which JSON lines are appended. A new file has a temporary name (whole_file.h) at first; lines can already
 * be added. The file of a resumed run is continued. Used by one thread at a time. */
struct jsonl_file {
    const char *name;           /* borrowed */
    const char *folder;         /* for messages; borrowed */
    int fd;                     /* -1: closed, or the run has no such file */
    bool goes_on;               /* the file of an earlier process of the run is continued */
    int failed;                 /* the first negative errno of a write */
    uint64_t lost;              /* number of lines that could not be written */
};

static int jsonl_file_make(struct jsonl_file *file, int directory_fd)
{
    file->fd = whole_file_make(directory_fd, file->name);
    return file->fd < 0 ? file->fd : 0;
}

static uint64_t jsonl_file_bytes(const struct jsonl_file *file)
{
    struct stat status;
    return file->fd >= 0 && fstat(file->fd, &status) == 0 ? (uint64_t)status.st_size : 0;
}

/* The end of the last complete line in the first `bytes`. */
static uint64_t end_of_line(int fd, uint64_t bytes)
{
    char byte = '\n';
    while (bytes > 0 && pread(fd, &byte, 1, (off_t)bytes - 1) == 1 && byte != '\n')
        bytes--;
    return bytes;
}

/* Replace a file with several hard links (as after cp -al), which belongs to other runs, too, by a copy of its first
 * `bytes` bytes. The copy has a temporary name until it appears as any new file does. */
static int jsonl_file_part(struct jsonl_file *file, int directory_fd, uint64_t bytes)
{
    const int old_fd = file->fd;
    char block[4096];
    size_t done = 1;
    int rc = jsonl_file_make(file, directory_fd);
    for (uint64_t at = 0; rc == 0 && at < bytes && done > 0; at += done) {
        rc = file_read_some(old_fd, at, block, bytes - at < sizeof(block) ? (size_t)(bytes - at) : sizeof(block),
                            &done);
        if (rc == 0)
            rc = file_write(file->fd, block, done);
    }
    close(old_fd);
    return rc;
}

/* Continue the file after its first `bytes`, and remove the rest. If there is no file, a new one is created. */
static int jsonl_file_go_on(struct jsonl_file *file, int directory_fd, uint64_t bytes)
{
    struct stat status;
    file->fd = openat(directory_fd, file->name, O_RDWR | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file->fd < 0 && errno != ENOENT)
        return -errno;
    if (file->fd < 0 && bytes > 0)
        log_message(LOG_RUN, "%s/%s is gone, whose lines the checkpoint continues: it begins anew, and reports of the "
                    "run lack what was in it", file->folder, file->name);
    if (file->fd < 0)
        return jsonl_file_make(file, directory_fd);
    const uint64_t there = jsonl_file_bytes(file);
    if (there < bytes)
        log_message(LOG_RUN, "%s/%s is shorter than when the checkpoint was saved: some of its lines are lost",
                    file->folder, file->name);
    const uint64_t whole = end_of_line(file->fd, there < bytes ? there : bytes);
    if (fstat(file->fd, &status) == 0 && status.st_nlink > 1)
        return jsonl_file_part(file, directory_fd, whole);
    file->goes_on = true;
    return ftruncate(file->fd, (off_t)whole) == 0 ? 0 : -errno;
}

static void jsonl_file_close(struct jsonl_file *file)
{
    if (file->fd >= 0)
        close(file->fd);
    file->fd = -1;
}

/* Write the line and its end with one call. An incomplete line is removed, because the next one would be appended to
 * it. */
static int append_line(const struct jsonl_file *file, struct json *line)
{
    const off_t whole = lseek(file->fd, 0, SEEK_END);
    if (json_text(line) == NULL || whole < 0)
        return whole < 0 ? -errno : -ENOMEM;
    line->text[line->bytes] = '\n';
    const int rc = file_write(file->fd, line->text, line->bytes + 1);
    line->text[line->bytes] = '\0';
    if (rc != 0 && lseek(file->fd, 0, SEEK_END) > whole && ftruncate(file->fd, whole) != 0)
        log_message(LOG_RUN, "%s: the last line is incomplete: %s", file->name, strerror(errno));
    return rc;
}

static void jsonl_file_add(struct jsonl_file *file, struct json *line)
{
    const int rc = append_line(file, line);
    if (rc != 0 && file->failed == 0)
        log_message(LOG_ERROR, "%s/%s: %s: the run continues without", file->folder, file->name, strerror(-rc));
    if (file->failed == 0)
        file->failed = rc;
    file->lost += rc != 0;
}

/* ---- the directory ---- */

static const char *const lines_names[RUN_LINES_COUNT] = {
    [RUN_METRICS] = "metrics.jsonl",
    [RUN_QUARANTINE] = "quarantine.jsonl",
};

struct run_directory {
    struct run_place place;
    struct jsonl_file lines[RUN_LINES_COUNT];
    bool has_begun, has_model;
    bool goes_on;               /* of a resumed run */
    int lost;                   /* the result of run_directory_look: 0, -ESTALE or -ENOENT */
};

/* Save a copy of model.file with the results, because the user may edit the file later; run.conf there names the
 * copy. */
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
    struct settings written = *settings;
    written.run.dir = (char *)(uintptr_t)directory->place.path;
    snprintf(model_path, sizeof(model_path), "%s/%s", directory->place.path, RUN_MODEL_FILE);
    if (settings->model_text != NULL)
        written.model.file = model_path;
    (void)settings_write(&written, out);    /* text_stream_end returns errors of the stream */
    int rc = text_stream_end(out, &text);
    if (rc == 0)
        rc = whole_file_prepare(directory->place.fd, "run.conf", &(struct file_part){ text, bytes }, 1);
    free(text);
    return rc;
}

static int open_lines(struct run_directory *directory, enum run_lines which, const struct run_past *past)
{
    struct jsonl_file *const lines = &directory->lines[which];
    return past != NULL ? jsonl_file_go_on(lines, directory->place.fd, past->lines_bytes[which])
                        : jsonl_file_make(lines, directory->place.fd);
}

/* Make the files of JSON lines; quarantine.jsonl exists only in runs that skip damaged records. */
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
                                   : run_place_enter_free(&directory->place, settings);
}

static int prepare(struct run_directory *directory, const struct settings *settings, const struct run_past *past)
{
    directory->goes_on = past != NULL;
    int rc = enter_of(directory, settings, past);
    if (rc == 0)
        run_place_clear(&directory->place);
    if (rc == 0)
        rc = write_model(directory, settings);
    if (rc == 0)
        rc = write_settings(directory, settings);
    return rc == 0 ? make_lines(directory, settings, past) : rc;
}

static int describe_error(const struct run_directory *directory, int rc, char *problem_out, size_t problem_size)
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
            (struct jsonl_file){ .name = lines_names[i], .folder = directory->place.path, .fd = -1 };
    const int rc = prepare(directory, settings, past);
    if (rc != 0) {
        describe_error(directory, rc, problem_out, problem_size);
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
        describe_error(&directory, rc, problem_out, problem_size);
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
             "run directory %s: the results need %s, and twice that while they are replaced; %s are free",
             directory->place.path, number_bytes(bytes).text, number_bytes(free_bytes).text);
    return -ENOSPC;
}

/* Replace the file of an earlier run by this run's, or remove it. */
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

/* Give the earlier run's file another name. */
static int begin_previous(const struct run_directory *directory, const char *name, const char *previous)
{
    const int fd = directory->place.fd;
    return renameat(fd, name, fd, previous) == 0 || errno == ENOENT ? 0 : -errno;
}

/* When metrics.jsonl has been replaced, the directory counts as this run's. */
int run_directory_begin(struct run_directory *directory)
{
    const int fd = directory->place.fd;
    if (unlinkat(fd, "summary.json", 0) != 0 && errno != ENOENT)
        return -errno;
    int rc = begin_previous(directory, "weights.safetensors", "weights.previous.safetensors");
    if (rc == 0 && !directory->goes_on)
        rc = begin_previous(directory, "best.safetensors", "best.previous.safetensors");
    if (rc == 0)
        rc = begin_lines(directory, RUN_METRICS);
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

int run_directory_fd(const struct run_directory *directory)
{
    return directory->place.fd;
}

uint64_t run_directory_lines_bytes(const struct run_directory *directory, enum run_lines which)
{
    return jsonl_file_bytes(&directory->lines[which]);
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
        jsonl_file_add(&directory->lines[which], line);
}

const char *run_directory_lines_name(enum run_lines which)
{
    return lines_names[which];
}

uint64_t run_directory_lost_lines(const struct run_directory *directory, enum run_lines which)
{
    return directory->lines[which].lost;
}

/* Was a file of JSON lines removed or replaced by another file? */
static bool is_replaced(const struct run_directory *directory, enum run_lines which)
{
    struct stat open, named;
    const int fd = directory->lines[which].fd;
    if (fd < 0 || fstat(fd, &open) != 0)
        return false;
    if (fstatat(directory->place.fd, lines_names[which], &named, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT;         /* another error says nothing about the file */
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
        if (is_replaced(directory, which)) {
            log_message(LOG_ERROR, "run directory %s: %s was removed or replaced during the run: its old and new lines "
                        "are lost", directory->place.path, lines_names[which]);
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
        jsonl_file_close(&directory->lines[i]);
    run_place_leave(&directory->place);
    free(directory);
}

const char *run_directory_path(const struct run_directory *directory)
{
    return directory->place.path;
}
