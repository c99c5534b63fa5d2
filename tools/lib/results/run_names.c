/* Chooses among numbered names. */
#include "tools/lib/results/run_names.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stage/file/file.h"
#include "stage/text/shell_word.h"
#include "tools/lib/config/options.h"

/* settings_write begins with the name of the run. */
#define RUN_CONF_BEGINNING "[run]\nname = "

int run_name_numbered(char *path_out, size_t path_size, const char *base, int number)
{
    const int length = number == 1 ? snprintf(path_out, path_size, "%s", base)
                                   : snprintf(path_out, path_size, "%s-%d", base, number);
    return length < 0 || (size_t)length >= path_size ? -ENAMETOOLONG : 0;
}

bool run_name_was_given(const struct settings *settings)
{
    const struct option_row *const option = option_find(SECTION_RUN, "dir");
    return settings->origins[option_index(option)].origin > ORIGIN_MODEL;
}

static size_t length_of(const char *directory)
{
    size_t length = strlen(directory);
    while (length > 1 && directory[length - 1] == '/')
        length--;
    return length;
}

/* A run writes its summary when it ends; a killed run has none. Weights may also be kept where the rest was removed. */
static const char *find_result(const char *directory)
{
    static const char *const names[] = { "summary.json", "best.safetensors", "weights.safetensors" };
    char path[PATH_MAX];
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        const int length = snprintf(path, sizeof(path), "%s/%s", directory, names[i]);
        if (length > 0 && (size_t)length < sizeof(path) && access(path, F_OK) == 0)
            return names[i];
    }
    return NULL;
}

/* How run.conf in the directory begins: 0, with this text; 1, otherwise. -ENOENT: there is no such file, or it cannot be
 * opened; another negative errno: it cannot be read. */
static int compare_beginning(int parent_fd, const char *directory, const char *text)
{
    char path[PATH_MAX], found[sizeof(RUN_CONF_BEGINNING) + OPTION_NAME_MAX + 2];
    const size_t bytes = strlen(text);
    struct stat status;
    assert(bytes <= sizeof(found));
    const int length = snprintf(path, sizeof(path), "%s/run.conf", directory);
    const int fd = length < (int)sizeof(path) ? openat(parent_fd, path, O_RDONLY | O_NONBLOCK | O_CLOEXEC) : -1;
    if (fd < 0)
        return -ENOENT;
    const bool is_file = fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
    const int rc = is_file ? file_read_at(fd, 0, found, bytes) : -ENOENT;
    close(fd);
    if (rc != 0)
        return rc == -EBADMSG ? 1 : rc;         /* it is shorter */
    return memcmp(found, text, bytes) != 0;
}

/* run_directory_open reports what cannot be opened or is not a file. */
int run_name_is_of_others(const struct settings *settings, bool *is_of_others_out)
{
    const int rc = run_name_was_given(settings) ? compare_beginning(AT_FDCWD, settings->run.dir, RUN_CONF_BEGINNING) : 0;
    *is_of_others_out = rc == 1;
    return rc < 0 && rc != -ENOENT ? rc : 0;
}

/* The next name that does not exist. */
static void find_free_name(const char *directory, char path[PATH_MAX])
{
    char base[PATH_MAX];
    int number = 2;
    snprintf(base, sizeof(base), "%.*s", (int)length_of(directory), directory);
    while (number < RUN_NAMES_MAX && run_name_numbered(path, PATH_MAX, base, number) == 0 && access(path, F_OK) == 0)
        number++;
}

bool run_name_is_taken(const struct settings *settings, char *problem_out, size_t problem_size)
{
    char other[PATH_MAX] = "OTHER", quoted[PATH_MAX];
    const char *const directory = settings->run.dir;
    const char *const result = find_result(directory);
    if (!run_name_was_given(settings) || strcmp(settings->run.resume, "never") == 0 || result == NULL)
        return false;
    find_free_name(directory, other);
    snprintf(problem_out, problem_size,
             "run directory %s holds the results of an earlier run, and no checkpoint to resume (there is %s): choose "
             "another with --set run.dir=%s, or replace the results with --set run.resume=never", directory, result,
             shell_word(other, quoted, sizeof(quoted)));
    return true;
}

/* The number of a name BASE-N; 0: it is none. */
static int number_of(const char *entry, const char *base)
{
    const size_t bytes = strlen(base);
    char again[NAME_MAX + 1];
    if (strncmp(entry, base, bytes) != 0 || entry[bytes] != '-')
        return 0;
    const long number = strtol(entry + bytes + 1, NULL, 10);
    if (number < 2 || number > RUN_NAMES_MAX)
        return 0;
    snprintf(again, sizeof(again), "%.200s-%ld", base, number);
    return strcmp(again, entry) == 0 ? (int)number : 0;
}

/* The largest number above `number` of a run of this name beside run.dir, also after a gap that the user's removal of
 * runs left. Another configuration may be called NAME-2. */
static int find_larger(const struct settings *settings, int number)
{
    char parent[PATH_MAX], beginning[sizeof(RUN_CONF_BEGINNING) + OPTION_NAME_MAX + 1];
    snprintf(beginning, sizeof(beginning), RUN_CONF_BEGINNING "%.*s\n", OPTION_NAME_MAX, settings->run.name);
    const int length = (int)length_of(settings->run.dir);
    snprintf(parent, sizeof(parent), "%.*s", length, settings->run.dir);
    char *const slash = strrchr(parent, '/');
    const char *const base = slash != NULL ? slash + 1 : parent;
    if (slash != NULL)
        *slash = '\0';
    DIR *const folder = opendir(slash == NULL ? "." : slash == parent ? "/" : parent);
    if (folder == NULL)
        return number;
    for (const struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        const int found = number_of(entry->d_name, base);
        if (found > number && compare_beginning(dirfd(folder), entry->d_name, beginning) == 0)
            number = found;
    }
    closedir(folder);
    return number;
}

int run_name_count(const struct settings *settings)
{
    char path[PATH_MAX];
    int number = 0;
    while (number < RUN_NAMES_MAX && run_name_numbered(path, sizeof(path), settings->run.dir, number + 1) == 0 &&
           access(path, F_OK) == 0)
        number++;
    return find_larger(settings, number);
}
