/* Chooses among numbered names. */
#include "tools/lib/results/run_names.h"

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

static int read_beginning(int fd, bool *is_of_others_out)
{
    char found[sizeof(RUN_CONF_BEGINNING) - 1];
    const int rc = file_read_at(fd, 0, found, sizeof(found));
    *is_of_others_out = rc != 0 || memcmp(found, RUN_CONF_BEGINNING, sizeof(found)) != 0;
    return rc == -EBADMSG ? 0 : rc;
}

/* run_directory_open reports what cannot be opened or is not a file. */
int run_name_is_of_others(const struct settings *settings, bool *is_of_others_out)
{
    char path[PATH_MAX];
    struct stat status;
    const int length = snprintf(path, sizeof(path), "%s/run.conf", settings->run.dir);
    *is_of_others_out = false;
    if (!run_name_was_given(settings) || length < 0 || (size_t)length >= sizeof(path))
        return 0;
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return 0;
    const bool is_file = fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
    const int rc = is_file ? read_beginning(fd, is_of_others_out) : 0;
    close(fd);
    return rc;
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

/* Is it the directory of a run of this name? Another configuration may be called NAME-2. */
static bool is_of_name(int parent, const char *directory, const char *name)
{
    char path[PATH_MAX], found[sizeof(RUN_CONF_BEGINNING) + OPTION_NAME_MAX + 2] = "", wanted[sizeof(found)];
    const int length = snprintf(wanted, sizeof(wanted), RUN_CONF_BEGINNING "%s\n", name);
    snprintf(path, sizeof(path), "%.4000s/run.conf", directory);
    const int fd = openat(parent, path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return false;
    const ssize_t bytes = read(fd, found, sizeof(found) - 1);
    close(fd);
    return length < (int)sizeof(wanted) && bytes >= length && memcmp(found, wanted, (size_t)length) == 0;
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

/* The largest number above `number` of a run beside run.dir, also after a gap that the user's removal of runs left. */
static int find_larger(const struct settings *settings, int number)
{
    char parent[PATH_MAX];
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
        if (found > number && is_of_name(dirfd(folder), entry->d_name, settings->run.name))
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
