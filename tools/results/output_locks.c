/* A lock file lies in the folder of its output, so that every spelling of the folder's path leads to the same one. */
#include "tools/results/output_locks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stage/file/folders.h"
#include "stage/log.h"
#include "tools/results/run_directory.h"

#define FOLDER_LOCK ".tensorboard.lock"     /* the folder may be a run's directory, which has a .lock */
#define TRIES 100                           /* while others remove their lock files */

/* Where the lock of a file lies; `follows`: the path may end in a symbolic link to the file. False for what is no
 * regular file, such as /dev/stdout, or has no folder. */
static bool place_beside(struct output_lock *lock, const char *path, bool follows)
{
    char whole[PATH_MAX], real[PATH_MAX];
    struct stat status;
    const bool is_there = stat(path, &status) == 0;
    if ((is_there && !S_ISREG(status.st_mode)) || strlen(path) >= sizeof(whole))
        return false;
    strcpy(whole, is_there && follows && realpath(path, real) != NULL ? real : path);
    char *const slash = strrchr(whole, '/');
    const char *const name = slash != NULL ? slash + 1 : whole;
    const int bytes = snprintf(lock->name, sizeof(lock->name), ".%s.lock", name);
    if (bytes < 0 || (size_t)bytes >= sizeof(lock->name))
        return false;
    if (slash != NULL)
        slash[slash == whole ? 1 : 0] = '\0';
    snprintf(lock->folder, sizeof(lock->folder), "%s", slash != NULL ? whole : ".");
    return true;
}

static bool place_inside(struct output_lock *lock, const char *folder)
{
    strcpy(lock->name, FOLDER_LOCK);
    const int bytes = snprintf(lock->folder, sizeof(lock->folder), "%s", folder);
    return bytes >= 0 && (size_t)bytes < sizeof(lock->folder);
}

/* `makes`: the folder is made, too. */
static int try_lock(struct output_lock *lock, bool makes, bool only_tries, char *problem_out, size_t problem_size)
{
    if (makes && lock->made == 0)
        (void)folders_make(lock->folder, &lock->made);
    lock->folder_fd = open(lock->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock->folder_fd < 0)
        return -errno;
    return lock_file_open(&lock->file, lock->folder_fd, lock->name, only_tries, problem_out, problem_size);
}

static void leave(struct output_lock *lock, bool removes)
{
    if (removes)
        (void)unlinkat(lock->folder_fd, lock->name, 0);
    lock_file_close(&lock->file, !removes);
    if (lock->folder_fd >= 0)
        close(lock->folder_fd);
    lock->folder_fd = -1;
}

static int take(struct output_lock *lock, bool makes, bool only_tries, char *problem_out, size_t problem_size)
{
    int rc = -ESTALE;
    for (int i = 0; i < TRIES && rc == -ESTALE; i++) {
        leave(lock, false);
        rc = try_lock(lock, makes, only_tries, problem_out, problem_size);
    }
    return rc;
}

/* Of one output, as the key and its value name it; lock->folder and lock->name are set. */
static int lock_output(struct output_locks *locks, const char *key, const char *value, bool makes, bool only_tries,
                       char *problem_out, size_t problem_size)
{
    struct output_lock *const lock = &locks->locks[locks->count];
    char why[256] = "";
    lock->file.fd = lock->folder_fd = -1;
    const int rc = take(lock, makes && !only_tries, only_tries, why, sizeof(why));
    if (rc == -EOPNOTSUPP)
        log_message(LOG_RUN, "%s = %s: the file system has no locks: nothing keeps a second run from writing it", key,
                    value);
    if (rc != 0 || only_tries)
        leave(lock, rc == -EOPNOTSUPP && !only_tries);
    if (rc != 0)
        folders_remove(lock->folder, lock->made);
    locks->count += rc == 0 && !only_tries;
    if (rc != -EWOULDBLOCK && why[0] == '\0')
        return 0;
    snprintf(problem_out, problem_size, "%s = %s: %s%s", key, value,
             why[0] != '\0' ? why : "another run is writing here",
             rc == -EWOULDBLOCK ? ": give each run its own" : "");
    return rc;
}

static int lock_folder(struct output_locks *locks, const struct settings *settings, const char *directory,
                       bool only_tries, char *problem_out, size_t problem_size)
{
    char own[PATH_MAX];
    const char *folder = settings->report.tensorboard;
    if (*folder == '\0' || strcmp(folder, "no") == 0 || directory == NULL)
        return 0;
    snprintf(own, sizeof(own), "%.4000s/" RUN_EVENTS_FOLDER, directory);
    if (strcmp(folder, "yes") == 0 && only_tries)
        return 0;               /* the lock of the run's directory was tried */
    if (strcmp(folder, "yes") == 0)
        folder = own;
    return !place_inside(&locks->locks[locks->count], folder) ? 0 :
           lock_output(locks, "report.tensorboard", settings->report.tensorboard, true, only_tries, problem_out,
                       problem_size);
}

int output_locks_open(struct output_locks *locks, const struct settings *settings, const char *directory,
                      bool only_tries, char *problem_out, size_t problem_size)
{
    const struct { const char *key, *path; bool follows; } files[] = {
        { "report.trace", settings->report.trace, true },
        { "report.prometheus", directory != NULL ? settings->report.prometheus : "", false },
    };
    int rc = 0;
    *locks = (struct output_locks){ .count = 0 };
    for (size_t i = 0; i < sizeof(files) / sizeof(*files) && rc == 0; i++)
        if (*files[i].path != '\0' && place_beside(&locks->locks[locks->count], files[i].path, files[i].follows))
            rc = lock_output(locks, files[i].key, files[i].path, false, only_tries, problem_out, problem_size);
    return rc == 0 ? lock_folder(locks, settings, directory, only_tries, problem_out, problem_size) : rc;
}

void output_locks_close(struct output_locks *locks)
{
    while (locks->count > 0) {
        struct output_lock *const lock = &locks->locks[--locks->count];
        leave(lock, true);
        folders_remove(lock->folder, lock->made);
    }
}
