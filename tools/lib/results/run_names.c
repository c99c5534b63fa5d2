/* Chooses a numbered name, and finds the directory of a configuration that a run has written. */
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

#include "compute/netfile/net_file.h"
#include "stage/file/file.h"
#include "stage/log.h"
#include "stage/text/shell_word.h"
#include "tools/lib/config/option_needs.h"
#include "tools/lib/config/options.h"
#include "tools/lib/config/settings_model.h"
#include "tools/lib/results/run_directory.h"

/* The beginning of a file of settings_write, followed by the name of the run. */
#define RUN_CONF_BEGINNING "[run]\nname = "
#define METRICS_BEGINNING "{\"kind\":"
#define QUARANTINE_BEGINNING "{\"set\":"

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

/* Find a result in the directory: a run writes its summary at its end, but a killed run has none; weights may have been
 * kept when the rest was removed. */
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

/* Does the file in the directory begin with this text? 0: yes; 1: no; -ENOENT: there is no such file, or it cannot be
 * opened; another negative errno: it cannot be read. */
static int compare_beginning(int parent_fd, const char *directory, const char *file, const char *text)
{
    char path[PATH_MAX], found[sizeof(RUN_CONF_BEGINNING) + OPTION_NAME_MAX + 2];
    const size_t bytes = strlen(text);
    struct stat status;
    assert(bytes <= sizeof(found));
    const int length = snprintf(path, sizeof(path), "%s/%s", directory, file);
    const int fd = length < (int)sizeof(path) ? openat(parent_fd, path, O_RDONLY | O_NONBLOCK | O_CLOEXEC) : -1;
    if (fd < 0)
        return -ENOENT;
    const bool is_file = fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
    const int rc = is_file ? file_read_at(fd, 0, found, bytes) : -ENOENT;
    close(fd);
    if (rc != 0)
        return rc == -EBADMSG ? 1 : rc;         /* -EBADMSG: the file is shorter */
    return memcmp(found, text, bytes) != 0;
}

/* Does the file have a first line that no run writes? An empty file is a run's own: it was killed at its start. */
static bool has_other_lines(const char *directory, const char *file, const char *beginning)
{
    char path[PATH_MAX];
    struct stat status;
    const int length = snprintf(path, sizeof(path), "%s/%s", directory, file);
    return length < (int)sizeof(path) && stat(path, &status) == 0 && status.st_size > 0 &&
           compare_beginning(AT_FDCWD, directory, file, beginning) == 1;
}

/* Does the directory contain another network than this run's? */
static bool has_other_network(const struct settings *settings)
{
    char path[PATH_MAX], *text;
    size_t bytes;
    const int length = snprintf(path, sizeof(path), "%s/" RUN_MODEL_FILE, settings->run.dir);
    const int rc = length < (int)sizeof(path) ? file_load(path, NET_FILE_MAX, &text, &bytes) : -ENAMETOOLONG;
    if (rc != 0)
        return rc == -EFBIG;
    const bool is_same = settings->model_text != NULL && bytes == settings->model_bytes &&
                         memcmp(text, settings->model_text, bytes) == 0;
    free(text);
    return !is_same;
}

/* Files that cannot be opened, or are no regular files, are reported by run_directory_open. */
int run_name_find_others(const struct settings *settings, const char **file_out)
{
    const char *const directory = settings->run.dir;
    *file_out = NULL;
    if (!run_name_was_given(settings))
        return 0;
    const int rc = compare_beginning(AT_FDCWD, directory, "run.conf", RUN_CONF_BEGINNING);
    if (rc == 1)
        *file_out = "run.conf";
    else if (rc != -ENOENT)
        return rc;
    else if (has_other_lines(directory, "metrics.jsonl", METRICS_BEGINNING))
        *file_out = "metrics.jsonl";
    else if (has_other_lines(directory, "quarantine.jsonl", QUARANTINE_BEGINNING))
        *file_out = "quarantine.jsonl";
    else if (has_other_network(settings))
        *file_out = RUN_MODEL_FILE;
    return 0;
}

/* Find the next name that does not exist. */
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

/* The number N of a name BASE-N; 0: it is not such a name. */
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

/* The largest number above `number` of a run of this name next to run.dir; there may be gaps, because users remove
 * runs. Runs of another configuration that is called NAME-2 do not count. */
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
        if (found > number && compare_beginning(dirfd(folder), entry->d_name, "run.conf", beginning) == 0)
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

/* ---- a configuration beside the results of its run ---- */

static const char *base_name(const char *path)
{
    const char *const slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static bool is_there(const char *folder, const char *file)
{
    char path[PATH_MAX];
    struct stat status;
    return snprintf(path, sizeof(path), "%s/%s", folder, file) < (int)sizeof(path) && stat(path, &status) == 0;
}

/* Use `ours` if the file of settings names another path. */
static int follow_key(struct settings *settings, enum section section, const char *key, const char *ours)
{
    char **const field = option_field(option_find(section, key), settings), *text, *copy;
    if (settings_origin(settings, section, key)->origin != ORIGIN_FILE || **field == '\0' || file_is_same(*field, ours))
        return 0;
    const char *const before = settings->followed != NULL ? settings->followed : "";
    if (asprintf(&text, "%s%s%s.%s %s (not %s)", before, *before != '\0' ? ", " : "", section_name(section), key, ours,
                 *field) < 0)
        return -ENOMEM;
    free(settings->followed);
    settings->followed = text;
    copy = strdup(ours);
    if (copy == NULL)
        return -ENOMEM;
    free(*field);
    *field = copy;
    return 0;
}

/* The original directory may still exist, and belong to another run. */
int run_name_follow(struct settings *settings)
{
    const char *const path = settings->config_path, *const name = base_name(path);
    char folder[PATH_MAX], model[PATH_MAX + sizeof("/" RUN_MODEL_FILE)];
    int rc = 0;
    if ((strcmp(name, "run.conf") != 0 && !options_are_all_set(settings)) || strlen(path) >= sizeof(folder))
        return 0;
    snprintf(folder, sizeof(folder), "%.*s", (int)(name - path), path);
    folder[length_of(folder)] = '\0';
    if (folder[0] == '\0')
        strcpy(folder, ".");
    if (is_there(folder, "metrics.jsonl") || is_there(folder, "summary.json"))
        rc = follow_key(settings, SECTION_RUN, "dir", folder);
    snprintf(model, sizeof(model), "%s/" RUN_MODEL_FILE, folder);
    const bool names_copy = strcmp(base_name(settings->model.file), RUN_MODEL_FILE) == 0;
    return rc == 0 && names_copy && is_there(folder, RUN_MODEL_FILE)
               ? follow_key(settings, SECTION_MODEL, "file", model) : rc;
}

void run_name_report_followed(const struct settings *settings)
{
    if (settings->followed != NULL)
        log_message(LOG_RUN, "%s lies beside the files of its run, which are used: %s", settings->config_path,
                    settings->followed);
}
