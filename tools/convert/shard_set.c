/* The directory of a set of shards: its lock and entries, the commit, and files of earlier conversions. Called by
 * the main thread of the converters. */
#include "tools/convert/shard_set.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "loader/shards/shard_list.h"
#include "stage/file/file.h"
#include "stage/file/folders.h"
#include "stage/file/whole_file.h"
#include "stage/log.h"
#include "tools/convert/convert.h"

/* ---- the directory ---- */

#define NUMBERS_LENGTH 15u      /* -NNNNN-of-NNNNN */

static const char *const split_names[] = { "train", "validation", "test" };
#define SPLIT_COUNT (sizeof(split_names) / sizeof(split_names[0]))

/* Report "cannot WHAT FOLDER/NAME: error". Returns -error. */
static int folder_fail(const struct set_folder *folder, const char *what, const char *name, int error)
{
    return convert_fail(folder->stop, EXIT_CODE_OUTPUT, -error, "cannot %s %s/%s: %s%s", what, folder->path, name,
                        exit_cause(-error), folder->advice);
}

int set_folder_open(struct set_folder *folder, const char *path, struct stop *stop)
{
    *folder = (struct set_folder){ .path = path, .advice = "", .stop = stop };
    folder->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder->fd < 0)
        return folder_fail(folder, "open", "", errno);
    const int rc = file_lock(folder->fd);
    if (rc == -EWOULDBLOCK) {
        stop_fail(stop, EXIT_CODE_OUTPUT, "%s: another pipetrain-convert is writing there", path);
        /* exit_code_of would give another exit code, because this errno also means a shortage of threads */
        return rc;
    }
    if (rc == -EOPNOTSUPP)
        log_message(LOG_RUN, "%s: the file system has no locks: make sure that no other process writes there", path);
    return rc == 0 || rc == -EOPNOTSUPP ? 0 : folder_fail(folder, "lock", "", -rc);
}

void set_folder_close(struct set_folder *folder)
{
    if (folder->fd >= 0)
        close(folder->fd);
    folder->fd = -1;
}

int set_folder_visit(const struct set_folder *folder,
                     int (*look)(const struct set_folder *folder, const char *name, void *arg), void *arg)
{
    const int fd = openat(folder->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *const entries = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;
    int rc = 0;

    if (entries == NULL) {
        const int error = errno;
        if (fd >= 0)
            close(fd);
        return folder_fail(folder, "list", ".", error);
    }
    while (rc == 0 && (errno = 0, entry = readdir(entries)) != NULL)
        rc = look(folder, entry->d_name, arg);
    if (rc == 0 && errno != 0)
        rc = folder_fail(folder, "list", ".", errno);
    closedir(entries);
    return rc;
}

/* Remove a file, if it exists. */
static int folder_remove(const struct set_folder *folder, const char *name)
{
    return unlinkat(folder->fd, name, 0) == 0 || errno == ENOENT ? 0 : folder_fail(folder, "remove", name, errno);
}

static int folder_rename(const struct set_folder *folder, const char *name, const char *new_name)
{
    if (renameat(folder->fd, name, folder->fd, new_name) != 0)
        return folder_fail(folder, "rename to", new_name, errno);
    return 0;
}

static int folder_sync(const struct set_folder *folder)
{
    const int rc = whole_file_sync_names(folder->fd);
    return rc == 0 ? 0 : folder_fail(folder, "sync", "", -rc);
}

/* Does the text start with -NNNNN-of-NNNNN? */
static bool is_numbers(const char *text)
{
    static const char pattern[NUMBERS_LENGTH + 1] = "-ddddd-of-ddddd";

    for (size_t i = 0; i < NUMBERS_LENGTH; i++) {
        if (pattern[i] == 'd' ? !isdigit((unsigned char)text[i]) : text[i] != pattern[i])
            return false;
    }
    return true;
}

/* Do the first `bytes` bytes have the form SPLIT-NNNNN-of-NNNNN? */
static bool is_shard_name(const char *name, size_t bytes)
{
    for (size_t i = 0; i < SPLIT_COUNT; i++) {
        const size_t split_bytes = strlen(split_names[i]);
        if (bytes == split_bytes + NUMBERS_LENGTH && memcmp(name, split_names[i], split_bytes) == 0 &&
            is_numbers(name + split_bytes))
            return true;
    }
    return false;
}

bool set_folder_is_shard(const char *name)
{
    return is_shard_name(name, strlen(name));
}

static bool is_temporary_shard(const char *name)
{
    const size_t bytes = strlen(name);
    return bytes > 5 && name[0] == '.' && strcmp(name + bytes - 4, ".tmp") == 0 && is_shard_name(name + 1, bytes - 5);
}

/* ---- the commit ---- */

#define MARKER_BYTES_MAX ((size_t)1 << 30)     /* a manifest of this size would list more shards than a set can have */

static const char unfinished_advice[] =
    ": the new data set is complete there, partly under temporary names (.*.tmp), which must be kept; the previous set "
    "is lost: run pipetrain-convert again with this directory as -o, or as input of tfrecord, to finish it";

struct temporary { char name[128]; };

static struct temporary temporary_of(const char *shard)
{
    struct temporary temporary;
    snprintf(temporary.name, sizeof(temporary.name), ".%s.tmp", shard);
    return temporary;
}

/* 1 if the file exists, 0 if not, or a negative errno after stop_fail. */
static int look_at(const struct set_folder *folder, const char *name, struct stat *status_out)
{
    if (fstatat(folder->fd, name, status_out, AT_SYMLINK_NOFOLLOW) == 0)
        return 1;
    return errno == ENOENT ? 0 : folder_fail(folder, "stat", name, errno);
}

/* Refuse an entry that has the name of a shard or of the manifest, but is not a file: it could be neither replaced
 * nor removed. If it is a symbolic link, the link is replaced, not its target. */
static int check_entry(const struct set_folder *folder, const char *name, void *arg)
{
    struct stat status;

    (void)arg;
    if (!set_folder_is_shard(name) && strcmp(name, MANIFEST_FILE) != 0)
        return 0;
    const int rc = look_at(folder, name, &status);
    const char *const kind = rc <= 0 || S_ISLNK(status.st_mode) ? NULL : file_kind(status.st_mode);
    if (kind == NULL)
        return rc < 0 ? rc : 0;
    return convert_fail(folder->stop, EXIT_CODE_OUTPUT, -EEXIST, "%s/%s: is %s in the place of a file of the data set: "
                        "move it away%s", folder->path, name, kind, folder->advice);
}

/* Give a shard its final name. If the temporary file does not exist, an earlier attempt has renamed it. */
static int name_shard(const struct set_folder *folder, const char *shard)
{
    const struct temporary temporary = temporary_of(shard);
    struct stat status;
    const int rc = look_at(folder, temporary.name, &status);
    return rc > 0 ? folder_rename(folder, temporary.name, shard) : rc;
}

static int remove_other(const struct set_folder *folder, const char *name, void *arg)
{
    const struct manifest *const manifest = arg;
    return set_folder_is_shard(name) && manifest_find(manifest, name) == NULL ? folder_remove(folder, name) : 0;
}

/* Perform the steps after the marker was made. Each is synced before the next one relies on it. */
static int roll_forward(struct set_folder *folder, struct manifest *manifest)
{
    folder->advice = unfinished_advice;
    int rc = folder_sync(folder);
    if (rc == 0)
        rc = folder_remove(folder, MANIFEST_FILE);
    for (size_t i = 0; i < manifest->count && rc == 0; i++)
        rc = name_shard(folder, manifest->shards[i].file);
    if (rc == 0)
        rc = set_folder_visit(folder, remove_other, manifest);
    if (rc == 0)
        rc = folder_sync(folder);
    if (rc == 0)
        rc = folder_rename(folder, MANIFEST_COMMIT_FILE, MANIFEST_FILE);
    if (rc < 0)
        return rc;
    folder->advice = "";
    return folder_sync(folder);
}

static int fail_memory(const struct set_folder *folder)
{
    return convert_fail(folder->stop, EXIT_CODE_MEMORY, -ENOMEM, "no memory for the list of shards");
}

static int read_marker(const struct set_folder *folder, struct manifest *manifest, const char *text, size_t bytes)
{
    char problem[256];
    const int rc = manifest_read(manifest, text, bytes, problem, sizeof(problem));

    if (rc == -ENOMEM)
        return fail_memory(folder);
    if (rc < 0)
        stop_fail(folder->stop, EXIT_CODE_OUTPUT, "%s/%s: %s: the unfinished commit in this directory cannot be "
                  "continued", folder->path, MANIFEST_COMMIT_FILE, problem);
    return rc;
}

static int check_shard(const struct set_folder *folder, const struct manifest_shard *shard)
{
    const struct temporary temporary = temporary_of(shard->file);
    struct stat status = { 0 };
    int rc = 0;

    if (set_folder_is_shard(shard->file)) {
        rc = look_at(folder, temporary.name, &status);
        if (rc == 0)
            rc = look_at(folder, shard->file, &status);
    }
    if (rc < 0 || (rc > 0 && S_ISREG(status.st_mode) && (uint64_t)status.st_size == shard->bytes))
        return rc < 0 ? rc : 0;
    return convert_fail(folder->stop, EXIT_CODE_OUTPUT, -EBADMSG, "%s: an unfinished commit cannot be continued: %s is "
                        "missing or has another length. The shards here belong to two sets: remove them and "
                        MANIFEST_COMMIT_FILE, folder->path, shard->file);
}

/* Before the commit: check that all shards exist, under their final or temporary names. */
static int check_all(const struct set_folder *folder, const struct manifest *manifest)
{
    int rc = 0;

    for (size_t i = 0; i < manifest->count && rc == 0; i++)
        rc = check_shard(folder, &manifest->shards[i]);
    return rc < 0 ? rc : set_folder_visit(folder, check_entry, NULL);
}

/* Make the marker, which begins the commit. A rename may report an error although it was done, for example over a
 * network. */
static int begin_commit(const struct set_folder *folder, bool *begun_out)
{
    struct stat status;
    int rc = folder_sync(folder);
    if (rc == 0) {
        rc = folder_rename(folder, SET_COMMIT_MANIFEST, MANIFEST_COMMIT_FILE);
        *begun_out = rc == 0 || look_at(folder, MANIFEST_COMMIT_FILE, &status) != 0;
    }
    return rc;
}

int set_commit_run(struct set_folder *folder, const char *text, bool *begun_out)
{
    struct manifest manifest = { 0 };
    char problem[256];

    *begun_out = false;
    /* The text is our own, so this can only fail for lack of memory. */
    if (manifest_read(&manifest, text, strlen(text), problem, sizeof(problem)) < 0)
        return fail_memory(folder);
    int rc = check_all(folder, &manifest);
    if (rc == 0)
        rc = begin_commit(folder, begun_out);
    if (rc == 0)
        rc = roll_forward(folder, &manifest);
    manifest_release(&manifest);
    return rc;
}

/* Load the marker of an unfinished commit. */
static int load_marker(const struct set_folder *folder, char **text_out, size_t *bytes_out)
{
    char *path;

    if (asprintf(&path, "%s/" MANIFEST_COMMIT_FILE, folder->path) < 0)
        return fail_memory(folder);
    const int rc = file_load(path, MARKER_BYTES_MAX, text_out, bytes_out);
    if (rc < 0)
        stop_fail(folder->stop, exit_code_of(rc, EXIT_CODE_OUTPUT), "%s: %s: an unfinished commit cannot be "
                  "continued", path, file_load_problem(rc));
    free(path);
    return rc;
}

static int resume_commit(struct set_folder *folder)
{
    struct manifest manifest = { 0 };
    char *text = NULL;
    size_t bytes = 0;

    int rc = load_marker(folder, &text, &bytes);
    if (rc == 0)
        rc = read_marker(folder, &manifest, text, bytes);
    if (rc == 0)
        rc = check_all(folder, &manifest);
    if (rc == 0)
        rc = roll_forward(folder, &manifest);
    manifest_release(&manifest);
    free(text);
    return rc;
}

int set_commit_resume(struct set_folder *folder)
{
    struct stat status;

    int rc = look_at(folder, MANIFEST_COMMIT_FILE, &status);
    if (rc <= 0)
        return rc;
    rc = resume_commit(folder);
    if (rc == 0)
        log_message(LOG_RUN, "%s: finished the commit of a data set that an earlier run had begun",
                    folder->path);
    return rc;
}

int set_commit_resume_in(const char *path, struct stop *stop)
{
    struct set_folder folder;

    if (!begun_set_is_in(path))
        return 0;
    int rc = set_folder_open(&folder, path, stop);
    if (rc == 0)
        rc = set_commit_resume(&folder);
    set_folder_close(&folder);
    return rc;
}

/* ---- the set ---- */

/* The name of a file of an existing set: that of the manifest, if there is one, else of a shard. */
struct earlier { char entry[NAME_MAX + 1]; };

static int look_for_earlier(const struct set_folder *folder, const char *name, void *arg)
{
    struct earlier *const earlier = arg;
    const bool is_manifest = strcmp(name, MANIFEST_FILE) == 0;

    (void)folder;
    if (is_manifest || (earlier->entry[0] == '\0' && set_folder_is_shard(name)))
        snprintf(earlier->entry, sizeof(earlier->entry), "%s", name);
    return 0;
}

static int remove_leftover(const struct set_folder *folder, const char *name, void *arg)
{
    (void)arg;
    return is_temporary_shard(name) ? folder_remove(folder, name) : 0;
}

static int remove_leftovers(const struct set_folder *folder)
{
    const int rc = set_folder_visit(folder, remove_leftover, NULL);
    return rc < 0 ? rc : folder_remove(folder, SET_COMMIT_MANIFEST);
}

static int check_earlier(struct shard_set *set)
{
    struct earlier earlier = { "" };
    const int rc = set_folder_visit(&set->folder, look_for_earlier, &earlier);
    if (rc < 0 || earlier.entry[0] == '\0')
        return rc;
    if (set->spec.may_replace)
        return set_folder_visit(&set->folder, check_entry, NULL);
    return convert_fail(set->stop, EXIT_CODE_OUTPUT, -EEXIST, "%s/%s: there is a data set already: choose another "
                        "directory, or replace it with --force", set->spec.directory, earlier.entry);
}

static int open_directory(struct shard_set *set)
{
    const int rc = folders_make(set->spec.directory, &set->topmost_made);

    return rc < 0 ? folder_fail(&set->folder, "create", "", -rc)
                  : set_folder_open(&set->folder, set->spec.directory, set->stop);
}

/* Finish an unfinished commit first, because it needs the temporary files, which are removed afterwards. */
static int prepare_directory(struct shard_set *set)
{
    int rc = set_commit_resume(&set->folder);
    if (rc == 0)
        rc = check_earlier(set);
    if (rc == 0)
        rc = remove_leftovers(&set->folder);
    set->is_writing = rc == 0;
    return rc;
}

/* The position of the first record of a shard: shard i of k has the positions from i*n/k to (i+1)*n/k. */
static uint64_t first_position(const struct sample_source *source, uint32_t number)
{
    const uint64_t each = source->record_count / source->shard_count;
    const uint64_t more = source->record_count % source->shard_count;

    return number * each + (number < more ? number : more);
}

static void name_file(struct shard_file *file, const struct sample_source *source, uint32_t source_number,
                      uint32_t number)
{
    file->source = source;
    file->source_number = source_number;
    file->number = number;
    file->first_position = first_position(source, number);
    file->record_count = first_position(source, number + 1) - file->first_position;
    snprintf(file->name, sizeof(file->name), "%s-%05u-of-%05u", source->split, number, source->shard_count);
    snprintf(file->temporary_name, sizeof(file->temporary_name), ".%s.tmp", file->name);
}

static int name_files(struct shard_set *set)
{
    const struct sample_source *const sources = set->spec.sources;
    size_t count = 0;

    for (size_t i = 0; i < set->spec.source_count; i++)
        count += sources[i].shard_count;
    set->files = calloc(count ? count : 1, sizeof(*set->files));
    if (set->files == NULL)
        return convert_fail(set->stop, EXIT_CODE_MEMORY, -ENOMEM, "no memory for the list of %zu shards", count);
    for (size_t i = 0; i < set->spec.source_count; i++) {
        for (uint32_t number = 0; number < sources[i].shard_count; number++)
            name_file(&set->files[set->file_count++], &sources[i], (uint32_t)i, number);
    }
    return 0;
}

int shard_set_open(struct shard_set *set, const struct shard_set_spec *spec, struct stop *stop)
{
    *set = (struct shard_set){ .spec = *spec, .stop = stop };
    set->folder = (struct set_folder){ .path = spec->directory, .fd = -1, .advice = "", .stop = stop };
    int rc = name_files(set);
    if (rc == 0)
        rc = open_directory(set);
    if (rc == 0)
        rc = prepare_directory(set);
    return rc;
}

int shard_set_create(const struct shard_set *set, const char *temporary_name)
{
    const int fd = openat(set->folder.fd, temporary_name,
                          O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    return fd < 0 ? -errno : fd;
}

static int write_manifest(const struct shard_set *set, const char *text)
{
    const int fd = shard_set_create(set, SET_COMMIT_MANIFEST);

    if (fd < 0)
        return folder_fail(&set->folder, "create", SET_COMMIT_MANIFEST, -fd);
    const struct file_part parts[] = { { text, strlen(text) }, { "\n", 1 } };
    const int rc = whole_file_fill(fd, parts, 2);
    return rc == 0 ? 0 : folder_fail(&set->folder, "write", SET_COMMIT_MANIFEST, -rc);
}

int shard_set_commit(struct shard_set *set, const char *manifest)
{
    bool has_begun = false;
    int rc = write_manifest(set, manifest);

    if (rc == 0)
        rc = set_commit_run(&set->folder, manifest, &has_begun);
    set->is_writing = !has_begun;
    return rc;
}

void shard_set_close(struct shard_set *set)
{
    if (set->is_writing) {
        unlinkat(set->folder.fd, SET_COMMIT_MANIFEST, 0);
        for (size_t i = 0; i < set->file_count; i++)
            unlinkat(set->folder.fd, set->files[i].temporary_name, 0);
    }
    if (set->topmost_made > 0)
        folders_remove(set->spec.directory, set->topmost_made); /* directories that are not empty are kept */
    set_folder_close(&set->folder);
    free(set->files);
    *set = (struct shard_set){ .folder.fd = -1 };
}
