/* The directory side of writing shards: names, lock, leftovers, the renaming at the end.
 * Called by the main thread of the converters. */
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

#include "stage/file/file.h"
#include "stage/file/folders.h"
#include "stage/file/whole_file.h"
#include "stage/log.h"

#define MANIFEST_TEMPORARY "." MANIFEST_NAME ".tmp"
#define NUMBERS_LENGTH 15u      /* -NNNNN-of-NNNNN */

static int fail(const struct shard_set *set, const char *what, const char *name, int error)
{
    stop_fail(set->stop, exit_code_of(-error, EXIT_CODE_OUTPUT), "cannot %s %s/%s: %s", what, set->spec.directory, name,
              strerror(error));
    return -error;
}

static const char *const splits[] = { "train", "validation", "test" };
#define SPLIT_COUNT (sizeof(splits) / sizeof(splits[0]))

/* What a shard's name says: SPLIT-NNNNN-of-NNNNN. */
struct shard_name { const char *split; unsigned long number, count; };

/* Whether the text is -NNNNN-of-NNNNN. */
static bool is_numbers(const char *text)
{
    static const char pattern[NUMBERS_LENGTH + 1] = "-ddddd-of-ddddd";

    for (size_t i = 0; i < NUMBERS_LENGTH; i++) {
        if (pattern[i] == 'd' ? !isdigit((unsigned char)text[i]) : text[i] != pattern[i])
            return false;
    }
    return true;
}

/* The shard of any split whose name the first `bytes` bytes are. */
static bool parse_shard_name(const char *name, size_t bytes, struct shard_name *shard_out)
{
    for (size_t i = 0; i < SPLIT_COUNT; i++) {
        const size_t split_bytes = strlen(splits[i]);
        if (bytes != split_bytes + NUMBERS_LENGTH || memcmp(name, splits[i], split_bytes) != 0 ||
            !is_numbers(name + split_bytes))
            continue;
        *shard_out = (struct shard_name){ splits[i], strtoul(name + split_bytes + 1, NULL, 10),
                                         strtoul(name + bytes - 5, NULL, 10) };
        return true;
    }
    return false;
}

static bool is_shard(const char *name)
{
    struct shard_name shard;
    return parse_shard_name(name, strlen(name), &shard);
}

/* A shard under its temporary name. */
static bool is_leftover(const char *name)
{
    const size_t bytes = strlen(name);
    struct shard_name shard;
    return bytes > 5 && name[0] == '.' && strcmp(name + bytes - 4, ".tmp") == 0 &&
           parse_shard_name(name + 1, bytes - 5, &shard);
}

/* Whether a shard of the set has this name. */
static bool is_of_set(const struct shard_set *set, const struct shard_name *shard)
{
    for (size_t i = 0; i < set->spec.source_count; i++) {
        const struct sample_source *const source = &set->spec.sources[i];
        if (strcmp(shard->split, source->split) == 0 && shard->count == source->shard_count &&
            shard->number < shard->count)
            return true;
    }
    return false;
}

/* What is in the directory of an earlier set. */
struct earlier { bool has_manifest, has_marker; char entry[NAME_MAX + 1]; };

/* Call `look` for every entry of the directory until one is not 0. */
static int visit_entries(struct shard_set *set, int (*look)(struct shard_set *set, const char *name, void *arg),
                         void *arg)
{
    const int fd = openat(set->directory_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *const entries = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;
    int rc = 0;

    if (entries == NULL) {
        const int error = errno;
        if (fd >= 0)
            close(fd);
        return fail(set, "list", ".", error);
    }
    while (rc == 0 && (errno = 0, entry = readdir(entries)) != NULL)
        rc = look(set, entry->d_name, arg);
    if (rc == 0 && errno != 0)
        rc = fail(set, "list", ".", errno);
    closedir(entries);
    return rc;
}

static int look_for_earlier(struct shard_set *set, const char *name, void *arg)
{
    struct earlier *const earlier = arg;
    const bool is_manifest = strcmp(name, MANIFEST_NAME) == 0;

    (void)set;
    earlier->has_manifest |= is_manifest;
    earlier->has_marker |= strcmp(name, MANIFEST_TEMPORARY) == 0;
    if (is_manifest || (earlier->entry[0] == '\0' && is_shard(name)))
        snprintf(earlier->entry, sizeof(earlier->entry), "%s", name);
    return 0;
}

static int remove_leftover(struct shard_set *set, const char *name, void *arg)
{
    const bool *const is_unfinished = arg;

    if (!is_leftover(name) && !(*is_unfinished && is_shard(name)))
        return 0;
    return unlinkat(set->directory_fd, name, 0) == 0 || errno == ENOENT ? 0 : fail(set, "remove", name, errno);
}

/* The marker goes last: until then what is left of the renaming can be told from a set. */
static int remove_leftovers(struct shard_set *set, bool is_unfinished)
{
    const int rc = visit_entries(set, remove_leftover, &is_unfinished);
    if (rc < 0)
        return rc;
    return unlinkat(set->directory_fd, MANIFEST_TEMPORARY, 0) == 0 || errno == ENOENT
               ? 0 : fail(set, "remove", MANIFEST_TEMPORARY, errno);
}

static int check_directory(struct shard_set *set)
{
    struct earlier earlier = { 0 };
    const int rc = visit_entries(set, look_for_earlier, &earlier);
    if (rc < 0)
        return rc;
    const bool is_unfinished = earlier.has_marker && !earlier.has_manifest;
    if (earlier.entry[0] == '\0' || is_unfinished || set->spec.may_replace)
        return remove_leftovers(set, is_unfinished);
    stop_fail(set->stop, EXIT_CODE_OUTPUT, "%s/%s: there is a data set already: choose another directory, or replace "
              "it with --force", set->spec.directory, earlier.entry);
    return -EEXIST;
}

static int open_directory(struct shard_set *set)
{
    const char *const directory = set->spec.directory;
    int rc = folders_make(directory, &set->topmost_made);
    if (rc < 0)
        return fail(set, "make", "", -rc);
    set->directory_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (set->directory_fd < 0)
        return fail(set, "open", "", errno);
    rc = file_lock(set->directory_fd);
    if (rc == -EWOULDBLOCK) {
        /* What is in it is another's: closing the set must not clear it away. */
        close(set->directory_fd);
        set->directory_fd = -1;
        set->topmost_made = 0;
        stop_fail(set->stop, EXIT_CODE_OUTPUT, "%s: another pipetrain-convert is writing there", directory);
        return -EWOULDBLOCK;
    }
    if (rc == -EOPNOTSUPP)
        log_message(LOG_RUN, "%s: the file system has no locks: nothing keeps a second writer out", directory);
    return rc == 0 || rc == -EOPNOTSUPP ? 0 : fail(set, "lock", "", -rc);
}

/* Shard i of k holds the positions from i*n/k to (i+1)*n/k. */
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
    if (set->files == NULL) {
        stop_fail(set->stop, EXIT_CODE_MEMORY, "no memory for the list of %zu shards", count);
        return -ENOMEM;
    }
    for (size_t i = 0; i < set->spec.source_count; i++) {
        for (uint32_t number = 0; number < sources[i].shard_count; number++)
            name_file(&set->files[set->file_count++], &sources[i], (uint32_t)i, number);
    }
    return 0;
}

int shard_set_open(struct shard_set *set, const struct shard_set_spec *spec, struct stop *stop)
{
    *set = (struct shard_set){ .spec = *spec, .directory_fd = -1, .stop = stop };
    int rc = name_files(set);
    if (rc == 0)
        rc = open_directory(set);
    if (rc == 0)
        rc = check_directory(set);
    return rc;
}

int shard_set_create(const struct shard_set *set, const char *temporary_name)
{
    const int fd = openat(set->directory_fd, temporary_name,
                          O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    return fd < 0 ? -errno : fd;
}

static int write_manifest(const struct shard_set *set, const char *manifest)
{
    const int fd = shard_set_create(set, MANIFEST_TEMPORARY);

    if (fd < 0)
        return fail(set, "make", MANIFEST_TEMPORARY, -fd);
    const struct file_part parts[] = { { manifest, strlen(manifest) }, { "\n", 1 } };
    const int rc = whole_file_fill(fd, parts, 2);
    return rc == 0 ? 0 : fail(set, "write", MANIFEST_TEMPORARY, -rc);
}

static int give_name(const struct shard_set *set, const char *temporary_name, const char *name)
{
    if (renameat(set->directory_fd, temporary_name, set->directory_fd, name) != 0)
        return fail(set, "rename to", name, errno);
    return 0;
}

static int give_names(struct shard_set *set)
{
    for (size_t i = 0; i < set->file_count; i++) {
        const int rc = give_name(set, set->files[i].temporary_name, set->files[i].name);
        if (rc < 0)
            return rc;
    }
    return give_name(set, MANIFEST_TEMPORARY, MANIFEST_NAME);
}

/* A shard of the set that was there; those that new ones are called like are replaced at once. */
static int remove_earlier(struct shard_set *set, const char *name, void *arg)
{
    struct shard_name shard;

    (void)arg;
    if (!parse_shard_name(name, strlen(name), &shard) || is_of_set(set, &shard) ||
        unlinkat(set->directory_fd, name, 0) == 0)
        return 0;
    return fail(set, "remove", name, errno);
}

int shard_set_commit(struct shard_set *set, const char *manifest)
{
    int rc = write_manifest(set, manifest);
    if (rc < 0)
        return rc;
    if (unlinkat(set->directory_fd, MANIFEST_NAME, 0) != 0 && errno != ENOENT)
        return fail(set, "remove", MANIFEST_NAME, errno);
    rc = visit_entries(set, remove_earlier, NULL);
    if (rc == 0)
        rc = give_names(set);
    if (rc < 0)
        return rc;
    rc = whole_file_sync_names(set->directory_fd);
    if (rc < 0)
        return fail(set, "sync", "", -rc);
    set->committed = true;
    return 0;
}

void shard_set_close(struct shard_set *set)
{
    if (set->directory_fd >= 0 && !set->committed) {
        unlinkat(set->directory_fd, MANIFEST_TEMPORARY, 0);
        for (size_t i = 0; i < set->file_count; i++)
            unlinkat(set->directory_fd, set->files[i].temporary_name, 0);
    }
    if (!set->committed)
        folders_remove(set->spec.directory, set->topmost_made); /* one that has something else in it stays */
    if (set->directory_fd >= 0)
        close(set->directory_fd);
    free(set->files);
    *set = (struct shard_set){ .directory_fd = -1 };
}
