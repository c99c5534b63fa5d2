/* Entering directories. Outputs never follow links. */
#include "tools/results/run_place.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stage/file/file.h"
#include "stage/file/whole_file.h"
#include "stage/log.h"
#include "tools/results/file_list.h"
#include "tools/results/lock_holder.h"
#include "tools/results/run_names.h"

#define ENTRIES_MAX 100         /* tries to enter a directory that others make and remove */

static const char *const result_names[] = {
    "run.conf",            "metrics.jsonl", "quarantine.jsonl", "summary.json",
    "weights.safetensors", "weights.previous.safetensors",      RUN_MODEL_FILE,     "best.safetensors",
};
#define RESULT_COUNT (sizeof(result_names) / sizeof(result_names[0]))

/* ---- entering ---- */

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

/* Those that this run made, as far as nothing else is in them. */
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

void run_place_leave(struct run_place *place)
{
    if (place->is_locked && !place->is_tried)
        lock_holder_clear(place->lock_fd);
    place->is_locked = false;
    const int fds[] = { place->lock_fd, place->fd };
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
        if (fds[i] >= 0)
            close(fds[i]);
    place->fd = place->lock_fd = -1;
}

static int check_kind(struct run_place *place, const char *file, mode_t mode)
{
    const char *const kind = file_kind(mode);
    if (kind == NULL)
        return 0;
    snprintf(place->obstacle, sizeof(place->obstacle), "%s is %s, not a regular file", file, kind);
    return S_ISLNK(mode) ? -ELOOP : -EINVAL;
}

static int check_file(struct run_place *place, const char *file)
{
    struct stat status;
    if (fstatat(place->fd, file, &status, AT_SYMLINK_NOFOLLOW) == 0)
        return check_kind(place, file, status.st_mode);
    return errno == ENOENT ? 0 : -errno;
}

/* Files are made in such a folder; one behind a link is somebody else's. */
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

/* For the message of the refusal, as far as it is known. */
static void tell_holder(struct run_place *place)
{
    char holder[sizeof(place->obstacle) - 32];
    lock_holder_read(place->lock_fd, holder, sizeof(holder));
    if (holder[0] != '\0')
        snprintf(place->obstacle, sizeof(place->obstacle), "another run is writing here: %s", holder);
}

/* -ESTALE: the run that held the lock has removed it. */
static int lock(struct run_place *place)
{
    const int makes = place->is_tried ? 0 : O_CREAT;
    place->lock_fd = openat(place->fd, ".lock", O_RDWR | makes | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    struct stat status;
    if (place->lock_fd < 0 && errno == ENOENT && place->is_tried)
        return 0;
    if (place->lock_fd < 0) {
        const int why = errno == ENOENT ? -ESTALE : -errno;
        const int rc = check_file(place, ".lock");
        return rc != 0 ? rc : why;
    }
    int rc = fstat(place->lock_fd, &status) == 0 ? check_kind(place, ".lock", status.st_mode) : -errno;
    if (rc == 0)
        rc = file_lock(place->lock_fd);
    place->is_locked = rc == 0;
    if (rc == -EWOULDBLOCK)
        tell_holder(place);
    if (rc == 0 && fstat(place->lock_fd, &status) == 0 && status.st_nlink == 0)
        rc = -ESTALE;
    return rc;
}

static bool holds_a_run(const struct run_place *place)
{
    return faccessat(place->fd, "run.conf", F_OK, 0) == 0;
}

/* Without locks, a directory that is new is nobody else's; one that was named is the user's concern. */
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
    rc = lock(place);
    if (rc == -EOPNOTSUPP)
        rc = go_without_lock(place, fresh);
    place->is_ours = rc == 0 && !place->is_tried;
    if (rc == 0 && fresh && holds_a_run(place))
        rc = -EEXIST;
    if (rc == 0 && place->is_tried && faccessat(place->fd, ".", W_OK | X_OK, AT_EACCESS) != 0)
        rc = -errno;
    if (rc == 0 && place->is_locked && !place->is_tried)
        lock_holder_write(place->lock_fd);
    return rc == 0 ? check_results(place) : rc;
}

/* Open and lock place->path. -EEXIST when it holds a run and `fresh` is asked for,
 * -EWOULDBLOCK when another run holds it. */
static int enter(struct run_place *place, bool fresh)
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
                 "a link on the way leads nowhere, or others remove it again and again");
    return rc;
}

void run_place_init(struct run_place *place)
{
    *place = (struct run_place){ .fd = -1, .lock_fd = -1 };
}

int run_place_enter_free(struct run_place *place, const char *base)
{
    for (int number = 1; number <= RUN_NAMES_MAX; number++) {
        int rc = run_name_numbered(place->path, sizeof(place->path), base, number);
        if (rc == 0)
            rc = enter(place, true);
        if (rc != -EEXIST && rc != -EWOULDBLOCK)
            return rc;
    }
    return -EEXIST;
}

int run_place_enter(struct run_place *place, const char *path)
{
    const int length = snprintf(place->path, sizeof(place->path), "%s", path);
    return length < (int)sizeof(place->path) ? enter(place, false) : -ENAMETOOLONG;
}

/* ---- is it still there? ---- */

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Where the directory is by now, as the kernel knows. */
static void find_path(int fd, char *path_out, size_t path_size)
{
    char link[32];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    const ssize_t bytes = readlink(link, path_out, path_size - 1);
    path_out[bytes > 0 ? bytes : 0] = '\0';
}

int run_place_look(const struct run_place *place, char *words_out, size_t words_size)
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
        snprintf(words_out, words_size, "it was removed while the run writes there");
        return -ENOENT;
    }
    find_path(place->fd, path, sizeof(path));
    snprintf(words_out, words_size, "it was moved while the run writes there: the results go to %s",
             path[0] != '\0' ? path : "where it is now");
    return -ESTALE;
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
void run_place_clear(const struct run_place *place)
{
    if (place->is_locked)
        file_list_remove(place->fd, is_leftover);
}

/* The lock goes while it is held: who opened it before notices that it has no name. */
void run_place_withdraw(struct run_place *place)
{
    if (place->made > 0 && place->is_ours)
        unlinkat(place->fd, ".lock", 0);
    remove_directories(place);
}
