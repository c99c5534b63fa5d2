/* Chooses among numbered names. */
#include "tools/results/run_names.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stage/file/file.h"
#include "stage/text/shell_word.h"
#include "tools/config/options.h"

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

/* A run writes its summary when it ends; a killed run has none. */
static bool holds_results(const char *directory)
{
    char path[PATH_MAX];
    const int length = snprintf(path, sizeof(path), "%s/summary.json", directory);
    return length > 0 && (size_t)length < sizeof(path) && access(path, F_OK) == 0;
}

/* settings_write begins with the name of the run. */
static int read_beginning(int fd, bool *is_of_others_out)
{
    static const char beginning[] = "[run]\nname = ";
    char found[sizeof(beginning) - 1];
    const int rc = file_read_at(fd, 0, found, sizeof(found));
    *is_of_others_out = rc != 0 || memcmp(found, beginning, sizeof(found)) != 0;
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
    if (!run_name_was_given(settings) || strcmp(settings->run.resume, "never") == 0 || !holds_results(directory))
        return false;
    find_free_name(directory, other);
    snprintf(problem_out, problem_size,
             "run directory %s holds the results of an earlier run, and no checkpoint to resume: choose another with "
             "--set run.dir=%s, or replace the results with --set run.resume=never", directory,
             shell_word(other, quoted, sizeof(quoted)));
    return true;
}

int run_name_count(const struct settings *settings)
{
    char path[PATH_MAX];
    int number = 0;
    while (number < RUN_NAMES_MAX && run_name_numbered(path, sizeof(path), settings->run.dir, number + 1) == 0 &&
           access(path, F_OK) == 0)
        number++;
    return number;
}
