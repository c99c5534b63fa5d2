/* Finds shard files by patterns. Called while a data set is opened. */
#include "loader/shards/shard_list.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "formats/manifest.h"
#include "formats/tfrecord.h"
#include "loader/shards/catalog.h"
#include "loader/shards/pattern.h"
#include "loader/shards/shard_index.h"
#include "stage/log.h"

/* ---- file names ---- */

enum split split_of_name(const char *name)
{
    const enum split split = split_name_read(name, strlen(name)).split;
    return split == SPLIT_UNLABELLED ? SPLIT_UNSAID : split;
}

/* Suffixes of files beside shards that are not shards, and of unfinished files. */
static const char *const other_suffixes[] = {
    ".tmp", ".part", ".partial", "~", ".idx", ".index", ".json", ".txt", ".md5", ".sha256",
};

static bool ends_with(const char *name, const char *suffix)
{
    const size_t name_bytes = strlen(name), suffix_bytes = strlen(suffix);
    return name_bytes >= suffix_bytes && strcmp(name + name_bytes - suffix_bytes, suffix) == 0;
}

static bool is_companion(const char *name)
{
    for (size_t i = 0; i < sizeof(other_suffixes) / sizeof(*other_suffixes); i++) {
        if (ends_with(name, other_suffixes[i]))
            return true;
    }
    return index_file_is_name(name) || strcmp(name, CATALOG_FILE) == 0;
}

static const char *digits_end(const char *at)
{
    while (isdigit((unsigned char)*at))
        at++;
    return at;
}

/* Is the name NAME-NNNNN-of-NNNNN, with or without an extension? */
static bool is_numbered(const char *name)
{
    for (const char *of = strstr(name, "-of-"); of != NULL; of = strstr(of + 1, "-of-")) {
        const char *first = of;
        while (first > name && isdigit((unsigned char)first[-1]))
            first--;
        const char *end = digits_end(of + 4);
        if (first < of && first > name + 1 && first[-1] == '-' && end > of + 4 && (*end == '\0' || *end == '.'))
            return true;
    }
    return false;
}

bool shard_list_is_shard(const char *name)
{
    return name[0] != '.' && !is_companion(name) && (strstr(name, ".tfrecord") != NULL || is_numbered(name));
}

/* ---- folders to which a data set was not completely moved ---- */

/* Does the folder whose name is the first `bytes` bytes of `path` have the marker? */
static bool has_marker(const char *path, size_t bytes)
{
    char marker[PATH_MAX];
    struct stat status;
    const char *const slash = bytes > 0 && path[bytes - 1] != '/' ? "/" : "";
    const int length = snprintf(marker, sizeof(marker), "%.*s%s" MANIFEST_COMMIT_FILE, (int)bytes, path, slash);
    return length < (int)sizeof(marker) && lstat(marker, &status) == 0;
}

static size_t folder_bytes(const char *path)
{
    return (size_t)(shard_base_name(path) - path);
}

bool begun_set_is_in(const char *folder)
{
    return has_marker(folder, strlen(folder));
}

const char *begun_set_find(const struct shard_list *list)
{
    const char *last = NULL;
    for (uint32_t i = 0; i < list->count; i++) {
        const char *const path = list->paths[i];
        const size_t bytes = folder_bytes(path);
        if (last != NULL && folder_bytes(last) == bytes && memcmp(last, path, bytes) == 0)
            continue;
        if (has_marker(path, bytes))
            return path;
        last = path;
    }
    return NULL;
}

/* ---- lists ---- */

/* Add a path to the list. Takes ownership of it. */
static int list_add(struct shard_list *list, char *path)
{
    char **grown = path != NULL ? realloc(list->paths, (list->count + 1) * sizeof(*grown)) : NULL;
    if (grown == NULL) {
        free(path);
        return -ENOMEM;
    }
    list->paths = grown;
    list->paths[list->count++] = path;
    return 0;
}

static char *path_join(const char *folder, const char *name)
{
    char *path;
    const char *slash = ends_with(folder, "/") ? "" : "/";
    return asprintf(&path, "%s%s%s", folder, slash, name) < 0 ? NULL : path;
}

static int report_path(struct text *problems, const char *what, const char *path, const char *text, int result)
{
    text_line(problems);
    text_add(problems, "%s: ", what);
    text_add_escaped(problems, path);
    text_add(problems, ": %s", text);
    return result;
}

/* Report that nothing matches the pattern, and a possible reason. */
static int report_nothing(struct text *problems, const char *what, const char *pattern, const char *text, int error)
{
    char line[2 * PATH_MAX + 256], hint[2 * PATH_MAX] = "";
    if (error == ENOENT)
        pattern_explain(pattern, hint, sizeof(hint));
    snprintf(line, sizeof(line), "%s%s", text, hint);
    return report_path(problems, what, pattern, line, -error);
}

static int path_compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void shard_list_sort(struct shard_list *list)
{
    if (list->count > 0)
        qsort(list->paths, list->count, sizeof(*list->paths), path_compare);
}

/* Keep only the shards whose names indicate `split`. 0 or -ENOMEM. */
static int keep_split(struct shard_list *list, enum split split)
{
    uint32_t kept = 0;
    list->left_out = calloc((size_t)list->count + 1, sizeof(*list->left_out));
    if (list->left_out == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < list->count; i++) {
        if (split_of_name(shard_base_name(list->paths[i])) == split)
            list->paths[kept++] = list->paths[i];
        else
            list->left_out[list->left_out_count++] = list->paths[i];
    }
    list->count = kept;
    return 0;
}

static bool has_split(const struct shard_list *list, enum split split)
{
    uint32_t i = 0;
    while (i < list->count && split_of_name(shard_base_name(list->paths[i])) != split)
        i++;
    return i < list->count;
}

static int report_other_split(const struct shard_list *list, const char *folder, const char *what,
                              struct text *problems)
{
    text_line(problems);
    text_add(problems, "%s: ", what);
    text_add_escaped(problems, folder);
    text_add(problems, ": no shard here is called %s; of another set: ", what);
    text_add_escaped(problems, shard_base_name(list->paths[0]));
    if (list->count > 1)
        text_add(problems, " and %" PRIu32 " more", list->count - 1);
    text_add(problems, ": name the files by a glob to use them anyway");
    return -ENOENT;
}

/* If names show that a directory has several splits, keep the wanted one; the test split if validation is wanted and
 * does not exist. Otherwise keep all files. */
static int choose_split(struct shard_list *list, const char *folder, const char *what, struct text *problems)
{
    static const enum split choices[][2] = { { SPLIT_TRAIN, SPLIT_UNSAID }, { SPLIT_VALIDATION, SPLIT_TEST } };
    const enum split *const wanted = choices[strcmp(what, "validation") == 0];
    for (size_t i = 0; i < 2; i++)
        if (has_split(list, wanted[i]))
            return keep_split(list, wanted[i]);
    if (list->count > 0 && !has_split(list, SPLIT_UNSAID))
        return report_other_split(list, folder, what, problems);
    return keep_split(list, SPLIT_UNSAID);
}

/* Make room for `more` further paths. 0 or -ENOMEM. */
static int make_room(char ***paths, uint32_t count, uint32_t more)
{
    char **const grown = realloc(*paths, ((size_t)count + more + 1) * sizeof(*grown));
    if (grown == NULL)
        return -ENOMEM;
    *paths = grown;
    return 0;
}

static void move_paths(char **paths, uint32_t *count, char *const *others, uint32_t *other_count)
{
    if (*other_count > 0)
        memcpy(paths + *count, others, *other_count * sizeof(*paths));
    *count += *other_count;
    *other_count = 0;
}

int shard_list_join(struct shard_list *list, struct shard_list *other)
{
    int rc = make_room(&list->paths, list->count, other->count);
    if (rc == 0)
        rc = make_room(&list->left_out, list->left_out_count, other->left_out_count);
    if (rc < 0)
        return rc;
    move_paths(list->paths, &list->count, other->paths, &other->count);
    move_paths(list->left_out, &list->left_out_count, other->left_out, &other->left_out_count);
    return 0;
}

int shard_list_append(struct shard_list *list, const char *folder, const char *name)
{
    return list_add(list, path_join(folder, name));
}

int shard_list_folder(struct shard_list *list, const char *folder)
{
    DIR *const entries = opendir(folder);
    const struct dirent *entry;
    if (entries == NULL)
        return -errno;
    int rc = 0;
    while (rc == 0 && (errno = 0, entry = readdir(entries)) != NULL) {
        if (shard_list_is_shard(entry->d_name))
            rc = list_add(list, path_join(folder, entry->d_name));
    }
    if (rc == 0)
        rc = -errno;
    closedir(entries);
    shard_list_sort(list);
    return rc;
}

uint32_t shard_list_folder_length(char *const *paths, uint32_t count)
{
    const size_t bytes = (size_t)(shard_base_name(paths[0]) - paths[0]);
    uint32_t i = 1;
    while (i < count && (size_t)(shard_base_name(paths[i]) - paths[i]) == bytes &&
           memcmp(paths[i], paths[0], bytes) == 0)
        i++;
    return i;
}

#define FOLDERS_NAMED 5u

/* Is the path a folder, and does it have shards? Frees the path. */
static bool is_subfolder(char *path, bool *has_shards_out)
{
    struct shard_list inside = { 0 };
    struct stat status;
    const bool is_folder = path != NULL && stat(path, &status) == 0 && S_ISDIR(status.st_mode);
    *has_shards_out = is_folder && shard_list_folder(&inside, path) == 0 && inside.count > 0;
    shard_list_release(&inside);
    free(path);
    return is_folder;
}

/* Write "; its folders test, train have shards: give that path", or that they have none; "" if it has no folders. */
static void describe_folders(const char *folder, char *text, size_t text_size)
{
    DIR *const entries = opendir(folder);
    char names[2][PATH_MAX] = { "", "" };
    unsigned counts[2] = { 0, 0 };
    const struct dirent *entry;
    while (entries != NULL && (entry = readdir(entries)) != NULL) {
        bool has_shards;
        if (entry->d_name[0] == '.' || !is_subfolder(path_join(folder, entry->d_name), &has_shards))
            continue;
        const size_t length = strlen(names[has_shards]);
        if (counts[has_shards]++ < FOLDERS_NAMED)
            snprintf(names[has_shards] + length, PATH_MAX - length, "%s%s", length > 0 ? ", " : "", entry->d_name);
    }
    if (entries != NULL)
        closedir(entries);
    const bool has_shards = counts[1] > 0;
    const unsigned count = counts[has_shards];
    if (count > 0)
        snprintf(text, text_size, "; its folder%s %s%s %s %s", count == 1 ? "" : "s", names[has_shards],
                 count > FOLDERS_NAMED ? ", ..." : "", count == 1 ? "has" : "have",
                 has_shards ? "shards: give that path" : "none either");
}

/* Does the file begin like an uncompressed shard? Frees the path. */
static bool begins_as_shard(char *path)
{
    uint8_t header[TFRECORD_HEADER_BYTES];
    uint64_t payload_bytes;
    struct tfrecord_problem problem;
    struct stat status;
    FILE *const file = path != NULL && stat(path, &status) == 0 && S_ISREG(status.st_mode) ? fopen(path, "rb") : NULL;
    const bool is_read = file != NULL && fread(header, 1, sizeof(header), file) == sizeof(header);
    if (file != NULL)
        fclose(file);
    free(path);
    return is_read && tfrecord_header(header, &payload_bytes, &problem) == TFRECORD_OK;
}

#define FILES_OPENED 64u

/* Write a pattern for shards with unusual names, such as *.tfrec (Kaggle) and part-r-* (Spark); "" if there are
 * none. */
static void find_other_names(const char *folder, char *pattern, size_t pattern_size)
{
    DIR *const entries = opendir(folder);
    const struct dirent *entry;
    unsigned count = 0;
    pattern[0] = '\0';
    while (entries != NULL && pattern[0] == '\0' && count < FILES_OPENED && (entry = readdir(entries)) != NULL) {
        const char *const name = entry->d_name, *const ending = strrchr(name, '.');
        if (name[0] == '.' || is_companion(name))
            continue;
        count++;
        if (ending != NULL && strcmp(ending, ".tfrec") == 0)
            snprintf(pattern, pattern_size, "*.tfrec");
        else if (begins_as_shard(path_join(folder, name)))
            snprintf(pattern, pattern_size, "%.*s*", (int)strcspn(name, "0123456789"), name);
    }
    if (entries != NULL)
        closedir(entries);
}

static int report_empty(const char *folder, const char *what, struct text *problems)
{
    char line[PATH_MAX + 256], folders[PATH_MAX] = "", pattern[NAME_MAX + 2];
    find_other_names(folder, pattern, sizeof(pattern));
    if (pattern[0] != '\0')
        snprintf(folders, sizeof(folders), "; name others by a glob: '%.*s/%s'", PATH_MAX - 64 - NAME_MAX, folder,
                 pattern);
    else
        describe_folders(folder, folders, sizeof(folders));
    snprintf(line, sizeof(line), "no shards in this directory (files named *.tfrecord* or NAME-NNNNN-of-NNNNN)%s; "
             "pipetrain-convert makes them", folders);
    return report_path(problems, what, folder, line, -ENOENT);
}

static int find_in_folder(struct shard_list *list, const char *folder, const char *what, struct text *problems)
{
    if (begun_set_is_in(folder))
        return report_path(problems, what, folder, BEGUN_SET_TEXT, -EBADMSG);
    const int rc = shard_list_folder(list, folder);
    list->is_folder = true;
    if (rc < 0)
        return report_path(problems, what, folder, strerror(-rc), rc);
    if (list->count == 0)
        return report_empty(folder, what, problems);
    return choose_split(list, folder, what, problems);
}

struct finding {
    struct shard_list *list;
    int error;                  /* error of the first directory that could not be listed, whose path follows */
    char unlisted[PATH_MAX];
};

static int add_found(void *arg, const char *path)
{
    struct finding *const finding = arg;
    return is_companion(shard_base_name(path)) ? 0 : list_add(finding->list, strdup(path));
}

/* Store the first directory that cannot be listed. Missing permission does not end the search, since the directory
 * may be unrelated to the wanted files; every other error does. */
static int note_unlisted(void *arg, const char *folder, int error)
{
    struct finding *const finding = arg;
    const bool ends_search = error != EACCES && error != EPERM;
    if (finding->error == 0 || ends_search) {
        finding->error = error;
        snprintf(finding->unlisted, sizeof(finding->unlisted), "%s", folder);
    }
    return ends_search ? -error : 0;
}

static int report_unlisted(const struct finding *finding, struct text *problems, const char *what)
{
    char line[128];
    snprintf(line, sizeof(line), "cannot be searched: %s", strerror(finding->error));
    return report_path(problems, what, finding->unlisted, line, -finding->error);
}

static int find_by_pattern(struct shard_list *list, const char *pattern, const char *what, struct text *problems)
{
    struct finding finding = { .list = list };
    const struct pattern_visitor visitor = { add_found, note_unlisted, &finding };
    const int rc = pattern_expand(pattern, &visitor);
    shard_list_sort(list);
    if (finding.error != 0 && (rc == -finding.error || list->count == 0))
        return finding.error == ENOMEM ? -ENOMEM : report_unlisted(&finding, problems, what);
    if (rc == 0 && list->count == 0)
        return report_nothing(problems, what, pattern, "no file matches this pattern", ENOENT);
    if (rc == 0 && finding.error != 0)
        log_message(LOG_RUN, "%s: %s: cannot be searched: %s", what, finding.unlisted, strerror(finding.error));
    return rc;
}

/* ---- numbered shards ---- */

/* A file NAME-NNNNN-of-NNNNN; other separators are possible. */
struct numbered {
    const char *path;
    size_t stem_bytes;          /* length of the path up to the end of NAME, without separators and .tfrecord there */
    uint64_t number, total;
};

/* The separator between the two numbers ("-of-"); NULL if there is none. */
static const char *find_of(const char *name)
{
    for (const char *of = strstr(name, "of"); of != NULL; of = strstr(of + 1, "of"))
        if (of > name + 1 && (of[-1] == '-' || of[-1] == '_') && of[2] == of[-1] && isdigit((unsigned char)of[-2]) &&
            isdigit((unsigned char)of[3]))
            return of - 1;
    return NULL;
}

/* The length of a stem without endings in which the names of one data set's files may differ. */
static size_t stem_length(const char *path, size_t bytes)
{
    static const char *const endings[] = { "-", "_", ".", ".tfrecord", ".tfrecords", ".tfrec" };
    const size_t least = (size_t)(shard_base_name(path) - path);
    for (size_t i = 0; i < sizeof(endings) / sizeof(*endings); i++) {
        const size_t ending = strlen(endings[i]);
        if (bytes >= least + ending && memcmp(path + bytes - ending, endings[i], ending) == 0)
            return stem_length(path, bytes - ending);
    }
    return bytes;
}

static bool read_numbers(const char *path, struct numbered *numbered_out)
{
    const char *const name = shard_base_name(path), *const of = find_of(name), *first = of;
    if (of == NULL)
        return false;
    while (first > name && isdigit((unsigned char)first[-1]))
        first--;
    *numbered_out = (struct numbered){ .path = path, .stem_bytes = stem_length(path, (size_t)(first - path)),
                                       .number = strtoull(first, NULL, 10), .total = strtoull(of + 4, NULL, 10) };
    return numbered_out->total > 0;
}

static int stem_compare(const struct numbered *a, const struct numbered *b)
{
    const size_t shorter = a->stem_bytes < b->stem_bytes ? a->stem_bytes : b->stem_bytes;
    const int order = memcmp(a->path, b->path, shorter);
    return order != 0 ? order : (a->stem_bytes > b->stem_bytes) - (a->stem_bytes < b->stem_bytes);
}

static int numbered_compare(const void *left, const void *right)
{
    const struct numbered *const a = left, *const b = right;
    const int order = stem_compare(a, b);
    if (order != 0)
        return order;
    if (a->total != b->total)
        return a->total < b->total ? -1 : 1;
    return a->number != b->number ? (a->number < b->number ? -1 : 1) : strcmp(a->path, b->path);
}

/* The numbered files of a list, sorted; the caller frees them. NULL when out of memory. */
static struct numbered *sort_numbered(const struct shard_list *list, uint32_t *count_out)
{
    struct numbered *const files = calloc((size_t)list->count + 1, sizeof(*files));
    *count_out = 0;
    for (uint32_t i = 0; i < list->count && files != NULL; i++)
        *count_out += read_numbers(list->paths[i], &files[*count_out]);
    if (files != NULL)
        qsort(files, *count_out, sizeof(*files), numbered_compare);
    return files;
}

/* Report missing shards of an -of-N set. They are no error, since the user may have left them out on purpose. */
static void report_missing(const struct numbered *files, uint32_t count, bool is_all, const char *what)
{
    char shown[1024] = "";
    if (count >= files->total)
        return;
    if (!is_all)
        log_escape(files->path, strlen(files->path), shown, sizeof(shown));
    log_message(LOG_RUN, "%s: found only %" PRIu32 " of the %" PRIu64 " shards that the file names count%s%s", what,
                count, files->total, is_all ? "" : ": ", shown);
}

/* Report that a folder has two sets of shards: files with one name have different totals, or two have the same
 * number. */
static int report_mixed(const struct numbered *one, const struct numbered *other, const char *what,
                        struct text *problems)
{
    const char *const name = shard_base_name(other->path), *const total = find_of(name) + 4;
    text_line(problems);
    text_add(problems, "%s: ", what);
    text_add_escaped(problems, one->path);
    text_add(problems, ": is of another conversion than ");
    text_add_escaped(problems, name);
    text_add(problems, " beside it, so records may be there twice: remove the shards of one");
    if (one->total != other->total)
        text_add(problems, ", or name those of the other by a glob: *-of-%.*s*",
                 (int)strspn(total, "0123456789"), total);
    return -EINVAL;
}

int shard_list_check_numbers(const struct shard_list *list, const char *what, bool wants_all, struct text *problems)
{
    uint32_t count, begin = 0;
    struct numbered *const files = sort_numbered(list, &count);
    int rc = files != NULL ? 0 : -ENOMEM;
    for (uint32_t i = 1; rc == 0 && i < count; i++) {
        const bool is_same = stem_compare(&files[i], &files[begin]) == 0;
        if (is_same && (files[i].total != files[begin].total || files[i].number == files[i - 1].number))
            rc = report_mixed(&files[files[i].total != files[begin].total ? begin : i - 1], &files[i], what, problems);
        begin = is_same ? begin : i;
    }
    free(files);
    return rc == 0 && wants_all ? shard_list_report_missing(list, what) : rc;
}

int shard_list_report_missing(const struct shard_list *list, const char *what)
{
    uint32_t count, begin = 0;
    struct numbered *const files = sort_numbered(list, &count);
    if (files == NULL)
        return -ENOMEM;
    for (uint32_t i = 1; i <= count; i++) {
        const bool is_same = i < count && stem_compare(&files[i], &files[begin]) == 0 &&
                             files[i].total == files[begin].total;
        if (!is_same)
            report_missing(&files[begin], i - begin, i - begin == list->count, what);
        begin = is_same ? begin : i;
    }
    free(files);
    return 0;
}

/* ---- shards with several names in one folder ---- */

/* If there are more other names than this, they are probably classes or have no meaning, unless each has several
 * files. */
#define NAMES_TOLD 3u

/* Files whose names differ only in numbers. */
struct name_group {
    const char *path;           /* path of the first file */
    size_t stem_bytes;
    bool is_numbered;           /* the name is NAME-NNNNN-of-NNNNN */
    uint32_t count;
};

static struct name_group read_name(const char *path)
{
    const char *const name = shard_base_name(path), *const ending = strstr(name, ".tfrec");
    size_t bytes = ending != NULL ? (size_t)(ending - path) : strlen(path);
    struct numbered numbered;
    if (read_numbers(path, &numbered))
        return (struct name_group){ path, numbered.stem_bytes, true, 1 };
    while (path + bytes > name && strchr("0123456789-_.", path[bytes - 1]) != NULL)
        bytes--;
    return (struct name_group){ path, bytes, false, 1 };
}

static bool is_same_name(const struct name_group *a, const struct name_group *b)
{
    return a->is_numbered == b->is_numbered && a->stem_bytes == b->stem_bytes &&
           memcmp(a->path, b->path, a->stem_bytes) == 0;
}

static int group_compare(const void *left, const void *right)
{
    const struct name_group *const a = left, *const b = right;
    if (a->is_numbered != b->is_numbered)
        return a->is_numbered ? -1 : 1;
    const size_t shorter = a->stem_bytes < b->stem_bytes ? a->stem_bytes : b->stem_bytes;
    const int order = memcmp(a->path, b->path, shorter);
    if (order != 0 || a->stem_bytes != b->stem_bytes)
        return order != 0 ? order : a->stem_bytes < b->stem_bytes ? -1 : 1;
    return strcmp(a->path, b->path);
}

/* Group the files of one folder by name, numbered names first; the caller frees the groups. NULL when out of memory. */
static struct name_group *group_names(char *const *paths, uint32_t count, uint32_t *groups_out)
{
    struct name_group *const groups = calloc(count, sizeof(*groups));
    uint32_t kept = 0;
    if (groups == NULL)
        return NULL;
    for (uint32_t i = 0; i < count; i++)
        groups[i] = read_name(paths[i]);
    qsort(groups, count, sizeof(*groups), group_compare);
    for (uint32_t i = 1; i < count; i++)
        if (is_same_name(&groups[i], &groups[kept]))
            groups[kept].count++;
        else
            groups[++kept] = groups[i];
    *groups_out = kept + 1;
    return groups;
}

static void describe_groups(const struct name_group *groups, uint32_t count, char *text, size_t text_size)
{
    char one[NAME_MAX + 1], other[NAME_MAX + 1];
    const char *const names[] = { shard_base_name(groups[0].path), shard_base_name(groups[1].path) };
    log_escape(names[0], strlen(names[0]), one, sizeof(one));
    log_escape(names[1], strlen(names[1]), other, sizeof(other));
    snprintf(text, text_size, "has shards of %" PRIu32 " names, such as %s (%" PRIu32 ") and %s (%" PRIu32 ")", count,
             one, groups[0].count, other, groups[1].count);
}

/* Check the groups of a folder. Two numbered sets are an error if the pattern names only their folder. */
static int check_groups(const struct name_group *groups, uint32_t count, bool is_folder, const char *what,
                        struct text *problems)
{
    uint32_t numbered = 0, files = 0;
    char text[3 * NAME_MAX], folder[PATH_MAX];
    for (uint32_t i = 0; i < count; i++) {
        numbered += groups[i].is_numbered;
        files += groups[i].count;
    }
    const uint32_t told = is_folder ? count : numbered;
    if (told < 2 || (numbered < 2 && count > NAMES_TOLD && 2 * count > files))
        return 0;
    describe_groups(groups, told, text, sizeof(text));
    snprintf(folder, sizeof(folder), "%.*s", (int)(shard_base_name(groups[0].path) - groups[0].path), groups[0].path);
    if (!is_folder || numbered < 2) {
        log_message(LOG_RUN, "%s: %s %s: all are used as one set; a glob chooses", what, folder, text);
        return 0;
    }
    text_line(problems);
    text_add(problems, "%s: ", what);
    text_add_escaped(problems, folder);
    text_add(problems, ": %s, which may be different sets: name those that are wanted by a glob: ", text);
    text_add(problems, "%.*s*", (int)groups[0].stem_bytes + 1, groups[0].path);
    return -EINVAL;
}

int shard_list_check_names(const struct shard_list *list, const char *what, struct text *problems)
{
    int rc = 0;
    for (uint32_t i = 0, length; i < list->count && rc == 0; i += length) {
        uint32_t count = 0;
        length = shard_list_folder_length(list->paths + i, list->count - i);
        struct name_group *const groups = group_names(list->paths + i, length, &count);
        rc = groups != NULL ? check_groups(groups, count, list->is_folder, what, problems) : -ENOMEM;
        free(groups);
    }
    return rc;
}

/* The split of a path: of its file name or, if that indicates none, of its folder's name if that has no other words. */
static enum split split_of_path(const char *path)
{
    const char *const name = shard_base_name(path);
    const char *first = name > path ? name - 1 : path;
    const enum split split = split_of_name(name);
    if (split != SPLIT_UNSAID || first == path)
        return split;
    while (first > path && first[-1] != '/')
        first--;
    const struct split_name folder = split_name_read(first, (size_t)(name - 1 - first));
    return folder.is_whole ? folder.split : SPLIT_UNSAID;
}

void shard_list_report_other_split(const struct shard_list *list)
{
    const char *first = NULL;
    uint32_t count = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        const enum split split = split_of_path(list->paths[i]);
        if (split == SPLIT_UNSAID || split == SPLIT_TRAIN)
            continue;
        first = count++ == 0 ? list->paths[i] : first;
    }
    if (count == 0)
        return;
    char path[1024];
    log_escape(first, strlen(first), path, sizeof(path));
    log_message(LOG_RUN, "train: %" PRIu32 " of the %" PRIu32 " shards, such as %s, %s called %s: training on %s",
                count, list->count, path, count == 1 ? "is" : "are", split_text(split_of_path(first)),
                count == 1 ? "it" : "them");
}

int shard_list_find_part(struct shard_list *list_out, const char *pattern, const char *what, struct text *problems)
{
    struct shard_list list = { 0 };
    struct stat status;
    int rc;
    if (stat(pattern, &status) == 0)
        rc = S_ISDIR(status.st_mode) ? find_in_folder(&list, pattern, what, problems)
                                         : list_add(&list, strdup(pattern));
    else if (strpbrk(pattern, "*?[") != NULL)
        rc = find_by_pattern(&list, pattern, what, problems);
    else
        rc = report_nothing(problems, what, pattern, strerror(errno), errno);
    const char *const begun = rc == 0 ? begun_set_find(&list) : NULL;
    if (begun != NULL)
        rc = report_path(problems, what, begun, BEGUN_SET_TEXT, -EBADMSG);
    if (rc == 0)
        rc = shard_list_check_numbers(&list, what, false, problems);
    if (rc < 0) {
        shard_list_release(&list);
        return rc;
    }
    *list_out = list;
    return 0;
}

int shard_list_find(struct shard_list *list_out, const char *pattern, const char *what, struct text *problems)
{
    struct shard_list list;
    int rc = shard_list_find_part(&list, pattern, what, problems);
    if (rc < 0)
        return rc;
    rc = shard_list_report_missing(&list, what);
    if (rc == 0)
        *list_out = list;
    else
        shard_list_release(&list);
    return rc;
}

void shard_list_release(struct shard_list *list)
{
    for (uint32_t i = 0; i < list->count; i++)
        free(list->paths[i]);
    for (uint32_t i = 0; i < list->left_out_count; i++)
        free(list->left_out[i]);
    free(list->paths);
    free(list->left_out);
    *list = (struct shard_list){ 0 };
}
