/* Finds the shard files of a data set by the patterns in the configuration. Called while a run is prepared. */
#include "loader/dataset_shards.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "formats/manifest.h"
#include "loader/set_names.h"
#include "loader/shards/pattern.h"
#include "loader/shards/text.h"
#include "stage/file/file.h"
#include "stage/log.h"

#define UNUSED_NAMED_MAX 3u
#define UNUSED_TEXT_BYTES 1024u

/* ---- splits in folders with a description ---- */

/* A pattern FOLDER or FOLDER:SPLIT. */
struct folder_request {
    char folder[PATH_MAX];      /* with a slash at the end */
    const char *split;          /* NULL: depends on `what` */
    const char *what;
    struct text *problems;
};

static bool is_folder(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

static bool set_folder(struct folder_request *request, const char *path, size_t bytes)
{
    while (bytes > 1 && path[bytes - 1] == '/')
        bytes--;
    if (bytes == 0 || bytes + 2 > sizeof(request->folder))
        return false;
    memcpy(request->folder, path, bytes);
    memcpy(request->folder + bytes, "/", 2);
    return is_folder(request->folder);
}

/* Split a pattern into folder and split. False if it is neither FOLDER nor FOLDER:SPLIT. */
static bool read_pattern(struct folder_request *request, const char *pattern)
{
    struct stat status;
    const char *const colon = strrchr(pattern, ':');
    if (stat(pattern, &status) == 0)
        return set_folder(request, pattern, strlen(pattern));
    if (colon == NULL || colon[1] == '\0' || strpbrk(colon, "/*?[") != NULL)
        return false;
    request->split = colon + 1;
    return set_folder(request, pattern, (size_t)(colon - pattern));
}

static void begin_line(const struct folder_request *request)
{
    text_line(request->problems);
    text_add(request->problems, "%s: ", request->what);
    text_add_escaped(request->problems, request->folder);
    text_add(request->problems, ": ");
}

static int report_no_split(const struct folder_request *request, const struct manifest *manifest)
{
    begin_line(request);
    if (request->split != NULL) {
        text_add(request->problems, "has no split '");
        text_add_escaped(request->problems, request->split);
        text_add(request->problems, "'; it has:");
    } else {
        text_add(request->problems, "has no split for %s, name one as FOLDER:SPLIT; it has:", request->what);
    }
    for (size_t i = 0; i < manifest->split_count; i++) {
        text_add(request->problems, " ");
        text_add_escaped(request->problems, manifest->split_names[i]);
    }
    return -ENOENT;
}

static bool find_named(const struct manifest *manifest, const char *name, size_t *split_out)
{
    for (size_t i = 0; i < manifest->split_count; i++) {
        if (strcmp(manifest->split_names[i], name) == 0) {
            *split_out = i;
            return true;
        }
    }
    return false;
}

static bool find_meant(const struct manifest *manifest, enum split meant, size_t *split_out)
{
    for (size_t i = 0; i < manifest->split_count; i++) {
        if (split_of_name(manifest->split_names[i]) == meant) {
            *split_out = i;
            return true;
        }
    }
    return false;
}

/* Find the wanted split; the test split is used if there is no validation split. */
static bool find_split(const struct folder_request *request, const struct manifest *manifest, size_t *split_out)
{
    if (request->split != NULL)
        return find_named(manifest, request->split, split_out);
    if (strcmp(request->what, "validation") != 0)
        return find_named(manifest, "train", split_out) || find_meant(manifest, SPLIT_TRAIN, split_out);
    return find_meant(manifest, SPLIT_VALIDATION, split_out) || find_meant(manifest, SPLIT_TEST, split_out);
}

static int add_shards(const struct folder_request *request, const struct manifest *manifest, size_t split,
                      struct shard_list *list)
{
    int rc = 0;
    for (size_t i = 0; i < manifest->count && rc == 0; i++)
        if (manifest->shards[i].split == split)
            rc = shard_list_append(list, request->folder, manifest->shards[i].file);
    shard_list_sort(list);
    list->is_folder = true;
    return rc;
}

/* The length of NAME in NAME-NNNNN-of-NNNNN; 0 for other names. */
static size_t stem_bytes(const char *name)
{
    const char *const of = strstr(name, "-of-");
    size_t bytes = of != NULL ? (size_t)(of - name) : 0;
    while (bytes > 0 && name[bytes - 1] >= '0' && name[bytes - 1] <= '9')
        bytes--;
    return bytes > 0 && name[bytes - 1] == '-' ? bytes : 0;
}

/* Check a file in the folder. One that is named like the listed shards but is not listed shows that the description is
 * of another version of the data set. */
static int check_entry(const struct folder_request *request, const struct manifest *manifest, const char *listed,
                       const char *name)
{
    const size_t stem = stem_bytes(listed);
    if (stem == 0 || strncmp(name, listed, stem) != 0 || stem_bytes(name) != stem || !shard_list_is_shard(name) ||
        manifest_find(manifest, name) != NULL)
        return 0;
    begin_line(request);
    text_add_escaped(request->problems, name);
    text_add(request->problems, " is none of the shards that %s lists, such as ", manifest->shards[0].listed_in);
    text_add_escaped(request->problems, listed);
    text_add(request->problems, ": one of them is of another version of the set");
    return -EBADMSG;
}

static int check_files(const struct folder_request *request, const struct manifest *manifest, const char *listed)
{
    DIR *const entries = opendir(request->folder);
    if (entries == NULL)
        return 0;               /* files in the folder may still be readable */
    const struct dirent *entry;
    int rc = 0;
    while (rc == 0 && (entry = readdir(entries)) != NULL)
        rc = check_entry(request, manifest, listed, entry->d_name);
    closedir(entries);
    return rc;
}

static int find_in_folder(const struct folder_request *request, const struct manifest *manifest,
                          struct shard_list *list)
{
    size_t split;
    if (!find_split(request, manifest, &split))
        return report_no_split(request, manifest);
    const int rc = add_shards(request, manifest, split, list);
    if (rc == 0 && list->count == 0) {
        begin_line(request);
        text_add(request->problems, "split '%.100s' has no shards", manifest->split_names[split]);
        return -ENOENT;
    }
    return rc < 0 ? rc : check_files(request, manifest, shard_base_name(list->paths[0]));
}

/* Find the shards of FOLDER:SPLIT, if no file has this name and the folder has a description; or of a TFDS folder,
 * whose split is chosen by `what` ("train" or "validation"). The list has all listed shards, existing or not; an
 * unlisted file of the split is an error. 0; -ENOTSUP if the pattern is neither of these; or another negative errno,
 * with a line in `problems` that begins with `what` unless it is -ENOMEM. */
static int split_folder_find(struct shard_list *list_out, struct shard_counts *counts, const char *pattern,
                             const char *what, struct text *problems)
{
    struct folder_request request = { .what = what, .problems = problems };
    struct shard_list list = { 0 };
    const struct manifest *manifest;
    if (!read_pattern(&request, pattern))
        return -ENOTSUP;
    if (begun_set_is_in(request.folder)) {
        begin_line(&request);
        text_add(problems, BEGUN_SET_TEXT);
        return -EBADMSG;
    }
    int rc = shard_counts_folder(counts, request.folder, &manifest);
    if (rc < 0)
        return rc;
    const bool is_tfds = manifest->count > 0 && strcmp(manifest->shards[0].listed_in, DATASET_INFO_FILE) == 0;
    if (manifest->count == 0 || (request.split == NULL && !is_tfds))
        return -ENOTSUP;
    rc = find_in_folder(&request, manifest, &list);
    if (rc == 0)
        *list_out = list;
    else
        shard_list_release(&list);
    return rc;
}

/* ---- files under several names ---- */

/* A file of a list, with its identity, to find several paths of the same file. */
struct named_file {
    struct file_identity file;
    const char *path;
    uint32_t place;             /* position in the lists */
};

static int place_compare(const void *a, const void *b)
{
    const struct named_file *const one = a, *const other = b;
    return (one->place > other->place) - (one->place < other->place);
}

static int named_file_compare(const void *a, const void *b)
{
    const struct named_file *const one = a, *const other = b;
    const int order = file_identity_compare(&one->file, &other->file);
    return order != 0 ? order : place_compare(a, b);
}

static bool is_same_file(const struct named_file *one, const struct named_file *other)
{
    return file_identity_compare(&one->file, &other->file) == 0;
}

/* Add the file at a path if it exists. */
static void add_named_file(struct named_file *files, uint32_t *count, const char *path, uint32_t place)
{
    struct stat status;
    if (stat(path, &status) == 0)
        files[(*count)++] = (struct named_file){ file_identity_of(&status), path, place };
}

/* ---- patterns ---- */

struct finding {
    struct shard_list list;
    const char *patterns, *what;
    struct shard_counts *counts;
    struct text *problems;
};

static int report_path(const struct finding *finding, const char *path, const char *text, const char *other)
{
    text_line(finding->problems);
    text_add(finding->problems, "%s: ", finding->what);
    text_add_escaped(finding->problems, path);
    text_add(finding->problems, ": %s", text);
    text_add_escaped(finding->problems, other);
    return -EINVAL;
}

/* Check by their names that the files are of one data set, unless a description lists them. */
static int check_names(struct finding *finding, const struct shard_list *found)
{
    const struct manifest_shard *listed = NULL;
    int rc = 0;
    for (uint32_t i = 0; i < found->count && rc == 0 && listed == NULL; i++)
        rc = shard_counts_find(finding->counts, found->paths[i], &listed);
    if (rc < 0 || listed != NULL)
        return rc;
    rc = shard_list_check_names(found, finding->what, finding->problems);
    if (rc == -EINVAL)
        text_add(finding->problems, ", or all of them by several, with commas between");
    return rc;
}

static int add_pattern(struct finding *finding, const char *pattern)
{
    struct shard_list found = { 0 };
    int rc = split_folder_find(&found, finding->counts, pattern, finding->what, finding->problems);
    if (rc == -ENOTSUP) {
        rc = shard_list_find_part(&found, pattern, finding->what, finding->problems);
        rc = rc == 0 ? check_names(finding, &found) : rc;
    }
    if (rc == 0)
        rc = shard_counts_add_absent(finding->counts, &found);
    if (rc == 0)
        rc = shard_list_join(&finding->list, &found);
    shard_list_release(&found);
    return rc;
}

static int add_part(struct finding *finding, const char *pattern)
{
    if (*pattern == '\0')
        return report_path(finding, finding->patterns, "the pattern before or after a comma is empty", "");
    return add_pattern(finding, pattern);
}

/* Add the files of all patterns. All are tried, so that all problems are reported. Returns the first error. */
static int add_patterns(struct finding *finding, char *rest)
{
    int first = 0;
    for (const char *pattern = pattern_cut(&rest); pattern != NULL && first != -ENOMEM; pattern = pattern_cut(&rest)) {
        const int rc = add_part(finding, pattern);
        if (rc == -ENOMEM || first == 0)
            first = rc;
    }
    return first;
}

/* Refuse a file that two patterns match: it would be trained on twice as often as the others. */
static int check_named_once(const struct finding *finding)
{
    const struct shard_list *const list = &finding->list;
    struct named_file *const files = calloc(list->count, sizeof(*files));
    uint32_t count = 0;
    if (files == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < list->count; i++)
        add_named_file(files, &count, list->paths[i], i);
    qsort(files, count, sizeof(*files), named_file_compare);
    int rc = 0;
    for (uint32_t i = 1; i < count && rc == 0; i++)
        if (is_same_file(&files[i], &files[i - 1]))
            rc = report_path(finding, files[i].path, "is named twice: the same file as ", files[i - 1].path);
    free(files);
    return rc;
}

static int find_each(struct finding *finding)
{
    char *const text = strdup(finding->patterns);
    if (text == NULL)
        return -ENOMEM;
    int rc = add_patterns(finding, text);
    if (rc == 0)
        rc = check_named_once(finding);
    free(text);
    return rc;
}

int dataset_shards_find(struct shard_list *list_out, const char *patterns, const char *what,
                        struct shard_counts *counts, struct text *problems)
{
    struct finding finding = { .patterns = patterns, .what = what, .counts = counts, .problems = problems };
    const bool is_one = strchr(patterns, ',') == NULL || access(patterns, F_OK) == 0;
    int rc = is_one ? add_pattern(&finding, patterns) : find_each(&finding);
    if (rc == 0)
        rc = shard_list_report_missing(&finding.list, what);
    if (rc < 0)
        shard_list_release(&finding.list);
    else
        *list_out = finding.list;
    return rc;
}

/* ---- shards that no data set uses ---- */

/* Keep the left-out files that no list uses, each once, in the order of the lists. Files that a list uses are in the
 * array as well, with `place` 0. */
static uint32_t keep_unused(struct named_file *files, uint32_t count)
{
    uint32_t kept = 0;
    struct named_file first = { .path = NULL };
    qsort(files, count, sizeof(*files), named_file_compare);
    for (uint32_t i = 0; i < count; i++) {
        const struct named_file file = files[i];
        const bool is_first = first.path == NULL || !is_same_file(&file, &first);
        if (is_first)
            first = file;
        if (is_first && file.place > 0)
            files[kept++] = file;
    }
    qsort(files, kept, sizeof(*files), place_compare);
    return kept;
}

static void report_unused(const struct named_file *files, uint32_t count)
{
    char buffer[UNUSED_TEXT_BYTES];
    struct text text;
    text_init(&text, buffer, sizeof(buffer));
    for (uint32_t i = 0; i < count && i < UNUSED_NAMED_MAX; i++) {
        text_add(&text, i > 0 ? ", " : "");
        text_add_escaped(&text, files[i].path);
    }
    if (count > UNUSED_NAMED_MAX)
        text_add(&text, " and %" PRIu32 " more", count - UNUSED_NAMED_MAX);
    log_message(LOG_RUN, "left out %" PRIu32 " shard%s: %s: in a directory, a set uses only the files named for it; "
                "name files or a glob to use others", count, count == 1 ? "" : "s", buffer);
}

int left_out_report(const struct shard_list *lists, uint32_t list_count)
{
    size_t room = 1;
    uint32_t count = 0, place = 0;
    for (uint32_t k = 0; k < list_count; k++)
        room += (size_t)lists[k].count + lists[k].left_out_count;
    struct named_file *const files = calloc(room, sizeof(*files));
    if (files == NULL)
        return -ENOMEM;
    for (uint32_t k = 0; k < list_count; k++) {
        for (uint32_t i = 0; i < lists[k].count; i++)
            add_named_file(files, &count, lists[k].paths[i], 0);
        for (uint32_t i = 0; i < lists[k].left_out_count; i++)
            add_named_file(files, &count, lists[k].left_out[i], ++place);
    }
    count = keep_unused(files, count);
    if (count > 0)
        report_unused(files, count);
    free(files);
    return 0;
}

/* ---- the description of a data set ---- */

/* The largest number of classes found in the folders, and the first list of names. */
struct class_search {
    struct shard_counts counts;
    struct set_names named;     /* names in the first folder that has any */
    const char *label_key;      /* NULL: the label of each folder's description */
    char folder[PATH_MAX];      /* the latest folder, with a slash at the end */
    uint64_t in_folder, most;
};

static bool is_link(const char *path)
{
    struct stat status;
    return lstat(path, &status) == 0 && S_ISLNK(status.st_mode);
}

/* Search the folder of a file and, if it has no description and the file is a link, the folder of the link's target. */
static void search_file(struct class_search *search, char *path)
{
    char problem[256];
    struct text problems;
    struct set_names names = { 0 };
    const struct set_names_request request = { .paths = &path, .count = 1, .label_key = search->label_key, .what = "",
                                               .advice = "", .is_quiet = true };
    const int bytes = (int)(shard_base_name(path) - path);
    const bool is_last = strlen(search->folder) == (size_t)bytes && memcmp(search->folder, path, (size_t)bytes) == 0;
    if (bytes >= (int)sizeof(search->folder) || (is_last && bytes > 0 && (search->in_folder > 0 || !is_link(path))))
        return;
    snprintf(search->folder, sizeof(search->folder), "%.*s", bytes, path);
    text_init(&problems, problem, sizeof(problem));
    search->in_folder = set_names_find(&names, &search->counts, &request, &problems) == 0 ? names.classes : 0;
    if (search->in_folder > search->most)
        search->most = search->in_folder;
    if (search->named.names.count > 0 || names.names.count == 0) {
        set_names_release(&names);
        return;
    }
    search->named = names;
}

/* Search the folder at a path, or the folder of the file at the path. */
static int search_path(void *arg, const char *path)
{
    char folder[PATH_MAX];
    const int bytes = snprintf(folder, sizeof(folder), "%s%s", path, is_folder(path) ? "/" : "");
    if (bytes < (int)sizeof(folder))
        search_file(arg, folder);
    return 0;
}

static int pass_unlisted(void *arg, const char *path, int error)
{
    (void)arg, (void)path, (void)error;
    return 0;
}

/* Search all matches of a pattern, or the directory of DIRECTORY:SPLIT. */
static void search_pattern(struct class_search *search, char *pattern)
{
    const struct pattern_visitor visitor = { search_path, pass_unlisted, search };
    char *const colon = strrchr(pattern, ':');
    if (access(pattern, F_OK) == 0) {
        (void)search_path(search, pattern);
        return;
    }
    (void)pattern_expand(pattern, &visitor);
    if (colon != NULL)
        *colon = '\0';
    if (colon != NULL && is_folder(pattern))
        (void)search_path(search, pattern);
}

void dataset_shards_names(struct set_names *names_out, const char *patterns, const char *label_key)
{
    struct class_search search = { .counts = { .is_quiet = true },
                                   .label_key = label_key != NULL && *label_key != '\0' ? label_key : NULL };
    char *const text = strdup(patterns), *rest = text;
    *names_out = (struct set_names){ 0 };
    if (text == NULL)
        return;
    if (strchr(patterns, ',') == NULL || access(patterns, F_OK) == 0)
        search_pattern(&search, text);
    else
        for (char *pattern = pattern_cut(&rest); pattern != NULL; pattern = pattern_cut(&rest))
            search_pattern(&search, pattern);
    shard_counts_release(&search.counts);
    free(text);
    *names_out = search.named;
    names_out->classes = search.most;
}

uint64_t dataset_shards_classes(const char *patterns, const char *label_key)
{
    struct set_names names;
    dataset_shards_names(&names, patterns, label_key);
    const uint64_t classes = names.classes;
    set_names_release(&names);
    return classes;
}
