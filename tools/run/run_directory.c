/* Files of a run. Outputs never follow links and appear whole or not at all. */
#include "tools/run/run_directory.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stage/log.h"
#include "tools/config/options.h"

#define DIRECTORIES_MAX 10000   /* runs/NAME-10000 ends the search for a free name */

struct run_directory {
    char path[PATH_MAX];
    int fd, lock_fd;
    int metrics_fd;
    int failed;                 /* first errno of a metrics write, negative */
};

static int make_directories(const char *path)
{
    char part[PATH_MAX];
    if (strlen(path) >= sizeof(part))
        return -ENAMETOOLONG;
    strcpy(part, path);
    for (char *at = part + 1; *at != '\0'; at++) {
        if (*at != '/')
            continue;
        *at = '\0';
        if (mkdir(part, 0777) != 0 && errno != EEXIST)
            return -errno;
        *at = '/';
    }
    return mkdir(part, 0777) != 0 && errno != EEXIST ? -errno : 0;
}

static void close_fds(struct run_directory *directory)
{
    const int fds[] = { directory->metrics_fd, directory->lock_fd, directory->fd };
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
        if (fds[i] >= 0)
            close(fds[i]);
    directory->fd = directory->lock_fd = directory->metrics_fd = -1;
}

/* Open and lock directory->path. -EEXIST when it holds a run and `fresh` is asked for,
 * -EWOULDBLOCK when another run holds it. */
static int enter(struct run_directory *directory, bool fresh)
{
    int rc = make_directories(directory->path);
    if (rc != 0)
        return rc;
    directory->fd = open(directory->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory->fd < 0)
        return -errno;
    if (fresh && faccessat(directory->fd, "run.conf", F_OK, 0) == 0)
        return -EEXIST;
    directory->lock_fd = openat(directory->fd, ".lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (directory->lock_fd < 0 || flock(directory->lock_fd, LOCK_EX | LOCK_NB) != 0)
        return -errno;
    return fresh && faccessat(directory->fd, "run.conf", F_OK, 0) == 0 ? -EEXIST : 0;
}

static int enter_free_name(struct run_directory *directory, const char *base)
{
    for (int number = 1; number <= DIRECTORIES_MAX; number++) {
        const int length = number == 1 ? snprintf(directory->path, sizeof(directory->path), "%s", base)
                                       : snprintf(directory->path, sizeof(directory->path), "%s-%d", base, number);
        if (length < 0 || (size_t)length >= sizeof(directory->path))
            return -ENAMETOOLONG;
        const int rc = enter(directory, true);
        if (rc != -EEXIST && rc != -EWOULDBLOCK)
            return rc;
        close_fds(directory);
    }
    return -EEXIST;
}

static int enter_named(struct run_directory *directory, const char *path)
{
    if (strlen(path) >= sizeof(directory->path))
        return -ENAMETOOLONG;
    strcpy(directory->path, path);
    return enter(directory, false);
}

static int write_settings(void *arg, FILE *out)
{
    return settings_write(arg, out);
}

static int write_first_files(struct run_directory *directory, const struct settings *settings)
{
    /* Results of an earlier run must not stand beside the metrics of this one; its weights
     * may be all that is left of days, so they are kept. */
    if (unlinkat(directory->fd, "summary.json", 0) != 0 && errno != ENOENT)
        return -errno;
    if (renameat(directory->fd, "weights.safetensors", directory->fd, "weights.previous.safetensors") != 0 &&
        errno != ENOENT)
        return -errno;
    const int rc = run_directory_write(directory, "run.conf", write_settings, (void *)settings);
    if (rc != 0)
        return rc;
    directory->metrics_fd = openat(directory->fd, "metrics.jsonl",
                                   O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0666);
    return directory->metrics_fd < 0 ? -errno : 0;
}

static bool dir_was_named(const struct settings *settings)
{
    const struct option_row *const option = option_find(SECTION_RUN, "dir");
    return settings->origins[option_index(option)].origin != ORIGIN_DEFAULT;
}

int run_directory_open(struct run_directory **directory_out, const struct settings *settings, char *problem_out,
                       size_t problem_size)
{
    struct run_directory *const directory = calloc(1, sizeof(*directory));
    if (directory == NULL)
        return -ENOMEM;
    directory->fd = directory->lock_fd = directory->metrics_fd = -1;
    int rc = dir_was_named(settings) ? enter_named(directory, settings->run.dir)
                                     : enter_free_name(directory, settings->run.dir);
    if (rc == 0)
        rc = write_first_files(directory, settings);
    if (rc != 0) {
        snprintf(problem_out, problem_size, "run directory %s: %s", directory->path,
                 rc == -EWOULDBLOCK ? "another run is writing here" : strerror(-rc));
        run_directory_close(directory);
        return rc;
    }
    *directory_out = directory;
    return 0;
}

void run_directory_close(struct run_directory *directory)
{
    if (directory == NULL)
        return;
    close_fds(directory);
    free(directory);
}

const char *run_directory_path(const struct run_directory *directory)
{
    return directory->path;
}

static int write_all(int fd, const char *text, size_t bytes)
{
    while (bytes > 0) {
        const ssize_t written = write(fd, text, bytes);
        if (written < 0 && errno != EINTR)
            return -errno;
        if (written > 0) {
            text += written;
            bytes -= (size_t)written;
        }
    }
    return 0;
}

void run_directory_metrics(struct run_directory *directory, struct json *line)
{
    if (directory == NULL || json_text(line) == NULL)
        return;
    int rc = write_all(directory->metrics_fd, line->text, line->bytes);
    if (rc == 0)
        rc = write_all(directory->metrics_fd, "\n", 1);
    if (rc != 0 && directory->failed == 0)
        log_message(LOG_ERROR, "%s/metrics.jsonl: %s: the run goes on without", directory->path, strerror(-rc));
    if (rc != 0)
        directory->failed = rc;
}

int run_directory_failed(const struct run_directory *directory)
{
    return directory->failed;
}

static int write_and_sync(int fd, int (*write)(void *arg, FILE *out), void *arg)
{
    FILE *const out = fdopen(fd, "w");
    if (out == NULL) {
        const int rc = -errno;
        close(fd);
        return rc;
    }
    int rc = write(arg, out);
    if (rc == 0 && (fflush(out) != 0 || fdatasync(fd) != 0))
        rc = -errno;
    if (fclose(out) != 0 && rc == 0)
        rc = -errno;
    return rc;
}

int run_directory_write(struct run_directory *directory, const char *file, int (*write)(void *arg, FILE *out),
                        void *arg)
{
    char temporary[NAME_MAX];
    snprintf(temporary, sizeof(temporary), ".%s.tmp.%ld", file, (long)getpid());
    unlinkat(directory->fd, temporary, 0);
    const int fd = openat(directory->fd, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0)
        return -errno;
    int rc = write_and_sync(fd, write, arg);
    if (rc == 0 && renameat(directory->fd, temporary, directory->fd, file) != 0)
        rc = -errno;
    if (rc != 0)
        unlinkat(directory->fd, temporary, 0);
    else if (fsync(directory->fd) != 0)
        rc = -errno;
    return rc;
}
