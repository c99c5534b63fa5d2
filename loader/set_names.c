/* Finds the class names of a data set. Called by the main thread while shards are opened. */
#include "loader/set_names.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "formats/manifest.h"
#include "loader/shards/shard_list.h"
#include "stage/file/file.h"
#include "stage/log.h"

#define SHOWN_MAX 6u            /* largest number of names in a message */
#define NAME_BYTES 48u          /* size of a name in a message */
#define LIST_TEXT_BYTES 320u
#define PATH_TEXT_BYTES 1024u

/* ---- comparing and describing ---- */

void class_names_describe(const struct class_names *names, char *text_out, size_t text_size)
{
    size_t used = 0;
    uint32_t shown_count = 0;
    text_out[0] = '\0';
    for (uint32_t c = 0; c < names->count && shown_count <= SHOWN_MAX && used < text_size; c++) {
        char shown[NAME_BYTES], number[16] = "";
        if (*names->names[c] == '\0')
            continue;
        log_escape(names->names[c], strlen(names->names[c]), shown, sizeof(shown));
        if (c != shown_count)
            snprintf(number, sizeof(number), "%" PRIu32 ": ", c);
        used += (size_t)snprintf(text_out + used, text_size - used, "%s%s%s", shown_count > 0 ? ", " : "", number,
                                 shown_count < SHOWN_MAX ? shown : "...");
        shown_count++;
    }
}

/* Read a name that is a whole decimal number up to `most`. */
static bool read_number(const char *name, uint64_t most, uint64_t *number_out)
{
    *number_out = 0;
    for (; *name >= '0' && *name <= '9' && *number_out <= most; name++)
        *number_out = *number_out * 10 + (uint64_t)(*name - '0');
    return *name == '\0' && *number_out <= most;
}

/* Are all names numbers that could be labels, but in another order than the labels? The bytewise order of folders is 0,
 * 1, 10, 11, 2. Numbers that are all shifted by the same amount are in the order of labels. */
static bool are_numbers_in_another_order(const struct class_names *names)
{
    int64_t first = 0;
    bool is_begun = false, differ = false;
    for (uint32_t c = 0; c < names->count; c++) {
        uint64_t number;
        if (*names->names[c] == '\0')
            continue;
        if (!read_number(names->names[c], names->count, &number))
            return false;
        const int64_t shift = (int64_t)number - c;
        differ = differ || (is_begun && shift != first);
        first = shift;
        is_begun = true;
    }
    return differ;
}

static uint64_t class_count(const struct set_names *names)
{
    return names->classes > 0 ? names->classes : names->names.count;
}

bool set_names_differ(const struct set_names *a, const struct set_names *b)
{
    if (a->names.count > 0 && b->names.count > 0)
        return class_names_differ(&a->names, &b->names);
    if (class_count(a) == 0 || class_count(b) == 0)
        return false;
    return class_count(a) != class_count(b) || are_numbers_in_another_order(&a->names) ||
           are_numbers_in_another_order(&b->names);
}

void set_names_describe(const struct set_names *names, char *text_out, size_t text_size)
{
    if (are_numbers_in_another_order(&names->names)) {
        class_names_describe(&names->names, text_out, text_size);
        const size_t used = strlen(text_out);
        snprintf(text_out + used, text_size - used, " (numbers that are not their labels: name folders 00, 01, ..., "
                 "with equally many digits, and convert them again)");
    } else if (names->names.count > 0)
        class_names_describe(&names->names, text_out, text_size);
    else
        snprintf(text_out, text_size, "%" PRIu64 " classes without names", names->classes);
}

void set_names_release(struct set_names *names)
{
    class_names_release(&names->names);
    free(names->path);
    free(names->said_in);
    *names = (struct set_names){ 0 };
}

/* ---- the lists of a folder ---- */

struct search {
    struct shard_counts *counts;
    const struct set_names_request *request;
    struct text *problems;
    bool is_reported;           /* names other than the configured ones were reported */
};

/* Shards in one folder. */
struct folder {
    const char *path;           /* path of the first shard */
    char *const *paths;
    uint32_t count;
};

static char *path_beside(const char *shard, const char *name)
{
    char *path;
    return asprintf(&path, "%.*s%s", (int)(shard_base_name(shard) - shard), shard, name) < 0 ? NULL : path;
}

/* Report that a folder has a second list with other names; the first list is used. */
static void report_other_list(struct search *search, const struct set_names *used, const struct set_names *other)
{
    char here[LIST_TEXT_BYTES], there[LIST_TEXT_BYTES];
    const bool is_other = used->names.count != other->names.count || class_names_differ(&used->names, &other->names);
    if (search->request->is_quiet || !is_other)
        return;
    class_names_describe(&used->names, here, sizeof(here));
    class_names_describe(&other->names, there, sizeof(there));
    log_message(LOG_RUN, "%s: %s has other class names than %s, which are used: %s; there %s", search->request->what,
                other->path, used->path, here, there);
}

/* Use the names and numbers of classes in a file, unless an earlier file of the folder has them. Takes ownership of
 * `list`. */
static void add_list(struct search *search, struct set_names *folder, struct set_names *list)
{
    if (list->names.count > 0 && folder->names.count > 0)
        report_other_list(search, folder, list);
    if (list->names.count == 0 || folder->names.count > 0) {
        set_names_release(list);
        return;
    }
    free(folder->path);
    folder->path = list->path;
    folder->names = list->names;
}

/* Read one list. Problems of the file are reported but are no error, since the user has not named the file. */
static int read_list(struct search *search, const char *shard, const char *name, struct set_names *folder)
{
    char problem[256] = "", *text;
    size_t bytes;
    struct set_names list = { .path = path_beside(shard, name) };
    if (list.path == NULL)
        return -ENOMEM;
    int rc = file_load(list.path, CLASS_NAMES_BYTES_MAX, &text, &bytes);
    if (rc == 0) {
        rc = class_names_read(&list.names, text, bytes, problem, sizeof(problem));
        free(text);
    }
    if (rc < 0 && rc != -ENOENT && rc != -ENOMEM && !search->request->is_quiet)
        log_message(LOG_RUN, "%s: %s: not used as the list of class names", list.path,
                    problem[0] != '\0' ? problem : file_load_problem(rc));
    add_list(search, folder, &list);
    return rc == -ENOMEM ? rc : 0;
}

/* Read the list of TensorFlow Datasets. It has every class, so its length is the number of classes unless an earlier
 * file gives it. */
static int read_key_list(struct search *search, const char *shard, const char *key, struct set_names *folder)
{
    char name[NAME_MAX + 1];
    const bool is_first = folder->names.count == 0;
    const int wanted = snprintf(name, sizeof(name), "%s.labels.txt", key != NULL ? key : "label");
    if (wanted >= (int)sizeof(name) || strchr(name, '/') != NULL)
        return 0;
    const int rc = read_list(search, shard, name, folder);
    if (rc < 0 || !is_first || folder->names.count == 0 || folder->classes > 0)
        return rc;
    folder->classes = folder->names.count;
    folder->said_in = strdup(folder->path);
    return folder->said_in != NULL ? 0 : -ENOMEM;
}

static int read_lists(struct search *search, const char *shard, const char *key, struct set_names *folder)
{
    const int rc = read_key_list(search, shard, key, folder);
    return rc == 0 ? read_list(search, shard, "labels.txt", folder) : rc;
}

/* Read the number of classes from the description. */
static int read_count(const char *shard, const struct manifest *manifest, const char *key, struct set_names *folder)
{
    const char *name;
    folder->classes = manifest_classes(manifest, key, &name);
    folder->said_in = folder->classes > 0 ? path_beside(shard, name) : NULL;
    return folder->classes > 0 && folder->said_in == NULL ? -ENOMEM : 0;
}

static int read_description(struct search *search, const char *shard, const struct manifest *manifest,
                            struct set_names *folder)
{
    struct set_names list = { .path = path_beside(shard, MANIFEST_FILE) };
    const int rc = list.path == NULL ? -ENOMEM
                                     : class_names_make(&list.names, (const char *const *)manifest->class_names,
                                                        (uint32_t)manifest->class_count, 0);
    add_list(search, folder, &list);
    return rc;
}

static bool lists_any(const struct manifest *manifest, const struct folder *folder)
{
    uint32_t i = 0;
    while (i < folder->count && manifest_find(manifest, shard_base_name(folder->paths[i])) == NULL)
        i++;
    return i < folder->count;
}

static int read_folder(struct search *search, const struct folder *folder, struct set_names *names)
{
    const struct manifest *manifest;
    int rc = shard_counts_of(search->counts, folder->path, &manifest);
    if (rc < 0)
        return rc;
    const char *const key = search->request->label_key != NULL ? search->request->label_key : manifest->label_key;
    const bool is_listed = lists_any(manifest, folder), is_used = is_listed || !search->request->is_strict;
    const bool has_names = is_used && manifest->class_count > 0 && manifest->class_count <= CLASS_NAMES_MAX &&
                           manifest_describes(manifest, key);
    const bool is_first = has_names && is_listed;
    if (is_used)
        rc = read_count(folder->path, manifest, key, names);
    if (rc == 0 && is_first)
        rc = read_description(search, folder->path, manifest, names);
    if (rc == 0)
        rc = read_lists(search, folder->path, key, names);
    if (rc == 0 && has_names && !is_first)
        rc = read_description(search, folder->path, manifest, names);
    if (rc == 0 && names->path == NULL && names->classes > 0)
        names->path = strdup(names->said_in);
    return rc < 0 || (names->path == NULL && names->classes > 0) ? -ENOMEM : 0;
}

/* ---- all folders ---- */

static int report_difference(struct search *search, const struct set_names *one, const struct set_names *other)
{
    char here[LIST_TEXT_BYTES], there[LIST_TEXT_BYTES];
    set_names_describe(one, here, sizeof(here));
    set_names_describe(other, there, sizeof(there));
    text_line(search->problems);
    text_add(search->problems, "%s: ", search->request->what);
    text_add_escaped(search->problems, other->path);
    text_add(search->problems, ": its classes are not those of ");
    text_add_escaped(search->problems, one->path);
    text_add(search->problems, ": %s; there %s: convert both sets together%s", there, here, search->request->advice);
    return -EINVAL;
}

static void compare_configured(struct search *search, const struct set_names *folder)
{
    const struct set_names *const configured = search->request->configured;
    if (search->is_reported || !class_names_differ(&configured->names, &folder->names))
        return;
    report_other_list(search, configured, folder);
    search->is_reported = true;
}

/* Use the larger number of classes. */
static void join_classes(struct set_names *all, struct set_names *folder, uint64_t classes)
{
    if (folder->classes > all->classes) {
        free(all->said_in);
        all->said_in = folder->said_in;
        folder->said_in = NULL;
    }
    all->classes = all->said_in != NULL ? classes : 0;
}

/* Compare a folder with the previous ones and keep the longer list. Takes ownership of `folder`. */
static int join(struct search *search, struct set_names *all, struct set_names *folder)
{
    const uint64_t classes = class_count(all) > class_count(folder) ? class_count(all) : class_count(folder);
    if (search->request->configured != NULL) {
        compare_configured(search, folder);
        join_classes(all, folder, folder->classes > all->classes ? folder->classes : all->classes);
        set_names_release(folder);
        return 0;
    }
    const int rc = set_names_differ(all, folder) ? report_difference(search, all, folder) : 0;
    const bool is_longer = folder->names.count > all->names.count || all->path == NULL;
    if (rc == 0 && is_longer) {
        const struct set_names before = *all;
        *all = *folder;
        *folder = before;
    }
    if (rc == 0)
        join_classes(all, folder, classes);
    set_names_release(folder);
    return rc;
}

/* Add the lists in the folder of the file that a link refers to. */
static int add_target(struct search *search, const char *path, struct set_names *all)
{
    char target[PATH_MAX];
    struct stat status;
    char *const paths[] = { target };
    const struct folder folder = { .path = target, .paths = paths, .count = 1 };
    struct set_names names = { 0 };
    if (lstat(path, &status) != 0 || !S_ISLNK(status.st_mode) || realpath(path, target) == NULL)
        return 0;
    const int rc = read_folder(search, &folder, &names);
    if (rc == 0)
        return join(search, all, &names);
    set_names_release(&names);
    return rc;
}

static int add_folder(struct search *search, const struct folder *folder, struct set_names *all)
{
    struct set_names names = { 0 };
    int rc = read_folder(search, folder, &names);
    const bool says_nothing = names.path == NULL;
    if (rc == 0)
        rc = join(search, all, &names);
    set_names_release(&names);
    for (uint32_t i = 0; rc == 0 && says_nothing && i < folder->count; i++)
        rc = add_target(search, folder->paths[i], all);
    return rc;
}

int set_names_find(struct set_names *names_out, struct shard_counts *counts, const struct set_names_request *request,
                   struct text *problems)
{
    struct search search = { .counts = counts, .request = request, .problems = problems };
    struct set_names all = { 0 };
    int rc = 0;
    for (uint32_t i = 0, length; i < request->count && rc == 0; i += length) {
        char *const *const paths = request->paths + i;
        length = shard_list_folder_length(paths, request->count - i);
        const struct folder folder = { .path = paths[0], .paths = paths, .count = length };
        rc = add_folder(&search, &folder, &all);
    }
    if (rc == 0)
        *names_out = all;
    else
        set_names_release(&all);
    return rc;
}
