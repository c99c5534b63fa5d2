/* The lock file is in the folder of its output, so that all paths of the folder lead to the same lock file. */
#include "tools/lib/results/output_locks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stage/file/folders.h"
#include "stage/log.h"
#include "tools/lib/results/run_directory.h"

#define FOLDER_LOCK ".tensorboard.lock"     /* the folder may be a run's directory, which has a .lock */
#define TRIES 100                           /* attempts while others remove their lock files */

/* Set the folder and the name of a file's lock. `follows`: the path may end in a symbolic link to the file. False if it
 * is not a regular file, such as /dev/stdout, or its folder does not exist. */
static bool place_beside(struct output_lock *lock, const char *path, bool follows)
{
    char whole[PATH_MAX], real[PATH_MAX];
    struct stat status;
    const bool is_there = stat(path, &status) == 0;
    if ((is_there && !S_ISREG(status.st_mode)) || strlen(path) >= sizeof(whole))
        return false;
    strcpy(whole, is_there && follows && realpath(path, real) != NULL ? real : path);
    const char *name;
    if (folder_of_file(whole, lock->folder, sizeof(lock->folder), &name) != 0)
        return false;
    const int bytes = snprintf(lock->name, sizeof(lock->name), ".%s.lock", name);
    return bytes >= 0 && (size_t)bytes < sizeof(lock->name);
}

static bool place_inside(struct output_lock *lock, const char *folder)
{
    strcpy(lock->name, FOLDER_LOCK);
    const int bytes = snprintf(lock->folder, sizeof(lock->folder), "%s", folder);
    return bytes >= 0 && (size_t)bytes < sizeof(lock->folder);
}

/* ---- two outputs in one place ---- */

/* Replace "//" and "/./" by "/". */
static void shorten(char *path)
{
    char *out = path;
    for (const char *at = path; *at != '\0'; at++) {
        while (at[0] == '/' && (at[1] == '/' || (at[1] == '.' && at[2] == '/')))
            at += at[1] == '/' ? 1 : 2;
        *out++ = *at;
    }
    *out = '\0';
}

/* Find the absolute path, without symbolic links, of a file; its last folders need not exist. */
static void find_place(const char *path, bool follows, char place[PATH_MAX])
{
    char folder[PATH_MAX], real[PATH_MAX];
    if (follows && realpath(path, place) != NULL)
        return;
    snprintf(folder, sizeof(folder), "%s", path);
    for (size_t end = strlen(folder); end > 1 && folder[end - 1] == '/'; end--)
        folder[end - 1] = '\0';
    const size_t length = strlen(folder);
    char *slash = strrchr(folder, '/');
    for (; slash != NULL; slash = strrchr(folder, '/')) {
        *slash = '\0';
        if (realpath(slash == folder ? "/" : folder, real) != NULL)
            break;
    }
    const size_t rest = slash != NULL ? (size_t)(slash + 1 - folder) : 0;
    if (slash == NULL && realpath(".", real) == NULL)
        real[0] = '\0';
    if (snprintf(place, PATH_MAX, "%s/%.*s", real, (int)(length - rest), path + rest) >= PATH_MAX)
        place[0] = '\0';
    shorten(place);
}

struct output { const char *key, *value; char place[PATH_MAX]; };

static void add_output(struct output *outputs, size_t *count, const char *key, const char *value, bool follows)
{
    struct stat status;
    const bool is_device = stat(value, &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
    if (*value == '\0' || is_device)
        return;
    struct output *const output = &outputs[(*count)++];
    *output = (struct output){ .key = key, .value = value };
    find_place(value, follows, output->place);
}

/* The name of the result that the run writes to this path in its directory; NULL: there is none. */
static const char *name_of_result(const char *place, const char *directory)
{
    char own[PATH_MAX];
    find_place(directory, true, own);
    const size_t bytes = strlen(own);
    if (strncmp(place, own, bytes) != 0 || place[bytes] != '/')
        return NULL;
    return run_directory_writes(place + bytes + 1) ? place + bytes + 1 : NULL;
}

/* Check that no output would replace another one, or a result. 0, or -ENOTUNIQ with a message. */
static int check_places(const struct output *outputs, size_t count, const char *directory, char *problem_out,
                        size_t problem_size)
{
    for (size_t i = 0; i < count; i++) {
        const char *const result = directory != NULL ? name_of_result(outputs[i].place, directory) : NULL;
        if (result != NULL) {
            snprintf(problem_out, problem_size, "%s = %s: the run writes its %s there (run.dir = %s): name another "
                     "file", outputs[i].key, outputs[i].value, result, directory);
            return -ENOTUNIQ;
        }
        for (size_t j = 0; j < i; j++)
            if (strcmp(outputs[i].place, outputs[j].place) == 0) {
                snprintf(problem_out, problem_size, "%s = %s and %s = %s are one place: give each its own",
                         outputs[j].key, outputs[j].value, outputs[i].key, outputs[i].value);
                return -ENOTUNIQ;
            }
    }
    return 0;
}

/* ---- locks ---- */

/* Try to lock an output. `makes`: create its folder, too. */
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

/* Lock an output, which the key and its value name in messages; lock->folder and lock->name are set. */
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

/* The folder of event files, or "". */
static const char *find_folder(const struct settings *settings, const char *directory, char own[PATH_MAX])
{
    const char *const folder = settings->report.tensorboard;
    if (strcmp(folder, "no") == 0 || directory == NULL)
        return "";
    snprintf(own, PATH_MAX, "%.4000s/" RUN_EVENTS_FOLDER, directory);
    return strcmp(folder, "yes") == 0 ? own : folder;
}

static int lock_folder(struct output_locks *locks, const struct settings *settings, const char *folder,
                       bool only_tries, char *problem_out, size_t problem_size)
{
    if (*folder == '\0' || (strcmp(settings->report.tensorboard, "yes") == 0 && only_tries))
        return 0;               /* the lock of the run's directory was already tried */
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
    char own[PATH_MAX];
    const char *const folder = find_folder(settings, directory, own);
    struct output outputs[OUTPUT_LOCKS_MAX];
    size_t count = 0;
    *locks = (struct output_locks){ .count = 0 };
    for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++)
        add_output(outputs, &count, files[i].key, files[i].path, files[i].follows);
    add_output(outputs, &count, "report.tensorboard", folder, true);
    int rc = check_places(outputs, count, directory, problem_out, problem_size);
    for (size_t i = 0; i < sizeof(files) / sizeof(*files) && rc == 0; i++)
        if (*files[i].path != '\0' && place_beside(&locks->locks[locks->count], files[i].path, files[i].follows))
            rc = lock_output(locks, files[i].key, files[i].path, false, only_tries, problem_out, problem_size);
    return rc == 0 ? lock_folder(locks, settings, folder, only_tries, problem_out, problem_size) : rc;
}

void output_locks_close(struct output_locks *locks)
{
    while (locks->count > 0) {
        struct output_lock *const lock = &locks->locks[--locks->count];
        leave(lock, true);
        folders_remove(lock->folder, lock->made);
    }
}
