/* The directory side of writing shards: names, lock, leftovers, the renaming at the end.
 * Called by the main thread of the converters. */
#include "tools/convert/shard_set.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stage/file/file.h"
#include "stage/file/whole_file.h"
#include "stage/log.h"

#define MANIFEST_TEMPORARY "." MANIFEST_NAME ".tmp"
#define NUMBERS_LENGTH 15u      /* -NNNNN-of-NNNNN */

static int fail(const struct shard_set *set, const char *what, const char *name, int error)
{
    stop_fail(set->stop, exit_code_of(-error, EXIT_CODE_OUTPUT), "cannot %s %s/%s: %s", what, set->directory, name,
              strerror(error));
    return -error;
}

/* SPLIT-NNNNN-of-NNNNN of `bytes` characters: the number of shards, or -1. */
static long parse_shard_name(const char *name, size_t bytes, const char *split)
{
    static const char pattern[] = "-ddddd-of-ddddd";
    const size_t split_bytes = strlen(split);

    if (bytes != split_bytes + NUMBERS_LENGTH || memcmp(name, split, split_bytes) != 0)
        return -1;
    const char *numbers = name + split_bytes;
    for (size_t i = 0; i < NUMBERS_LENGTH; i++) {
        if (pattern[i] == 'd' ? !isdigit((unsigned char)numbers[i]) : numbers[i] != pattern[i])
            return -1;
    }
    return strtol(numbers + NUMBERS_LENGTH - 5, NULL, 10);
}

static bool is_leftover(const char *name, const struct sample_source *sources, size_t source_count)
{
    const size_t bytes = strlen(name);

    if (strcmp(name, MANIFEST_TEMPORARY) == 0)
        return true;
    if (bytes < 5 || name[0] != '.' || strcmp(name + bytes - 4, ".tmp") != 0)
        return false;
    for (size_t i = 0; i < source_count; i++) {
        if (parse_shard_name(name + 1, bytes - 5, sources[i].split) >= 0)
            return true;
    }
    return false;
}

/* A shard that the new set does not replace, but that would be read with it. */
static bool is_foreign(const char *name, const struct sample_source *sources, size_t source_count)
{
    for (size_t i = 0; i < source_count; i++) {
        const long shard_count = parse_shard_name(name, strlen(name), sources[i].split);
        if (shard_count >= 0 && shard_count != (long)sources[i].shard_count)
            return true;
    }
    return false;
}

static int refuse_foreign(const struct shard_set *set, const char *name)
{
    stop_fail(set->stop, EXIT_CODE_OUTPUT,
              "%s/%s belongs to a set with another number of shards: remove that set or choose another directory",
              set->directory, name);
    return -EEXIST;
}

static int check_entries(const struct shard_set *set, DIR *entries, const struct sample_source *sources,
                         size_t source_count)
{
    const struct dirent *entry;

    while ((errno = 0, entry = readdir(entries)) != NULL) {
        if (is_foreign(entry->d_name, sources, source_count))
            return refuse_foreign(set, entry->d_name);
        if (!is_leftover(entry->d_name, sources, source_count))
            continue;
        if (unlinkat(set->directory_fd, entry->d_name, 0) != 0)
            return fail(set, "remove", entry->d_name, errno);
    }
    return errno == 0 ? 0 : fail(set, "list", ".", errno);
}

static int check_directory(const struct shard_set *set, const struct sample_source *sources, size_t source_count)
{
    const int fd = openat(set->directory_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *entries = fd < 0 ? NULL : fdopendir(fd);

    if (entries == NULL) {
        const int error = errno;
        if (fd >= 0)
            close(fd);
        return fail(set, "list", ".", error);
    }
    const int rc = check_entries(set, entries, sources, source_count);
    closedir(entries);
    return rc;
}

static int open_directory(struct shard_set *set)
{
    set->directory_made = mkdir(set->directory, 0777) == 0;
    if (!set->directory_made && errno != EEXIST)
        return fail(set, "make", "", errno);
    set->directory_fd = open(set->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (set->directory_fd < 0)
        return fail(set, "open", "", errno);
    const int rc = file_lock(set->directory_fd);
    if (rc == -EWOULDBLOCK) {
        /* What is in it is another's: closing the set must not clear it away. */
        close(set->directory_fd);
        set->directory_fd = -1;
        set->directory_made = false;
        stop_fail(set->stop, EXIT_CODE_OUTPUT, "%s: another pipetrain-convert is writing there", set->directory);
        return -EWOULDBLOCK;
    }
    if (rc == -EOPNOTSUPP)
        log_message(LOG_RUN, "%s: the file system has no locks: nothing keeps a second writer out", set->directory);
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

static int name_files(struct shard_set *set, const struct sample_source *sources, size_t source_count)
{
    size_t count = 0;

    for (size_t i = 0; i < source_count; i++)
        count += sources[i].shard_count;
    set->files = calloc(count ? count : 1, sizeof(*set->files));
    if (set->files == NULL) {
        stop_fail(set->stop, EXIT_CODE_MEMORY, "no memory for the list of %zu shards", count);
        return -ENOMEM;
    }
    for (size_t i = 0; i < source_count; i++) {
        for (uint32_t number = 0; number < sources[i].shard_count; number++)
            name_file(&set->files[set->file_count++], &sources[i], (uint32_t)i, number);
    }
    return 0;
}

int shard_set_open(struct shard_set *set, const char *directory, const struct sample_source *sources,
                   size_t source_count, struct stop *stop)
{
    *set = (struct shard_set){ .directory = directory, .directory_fd = -1, .stop = stop };
    int rc = name_files(set, sources, source_count);
    if (rc == 0)
        rc = open_directory(set);
    if (rc == 0)
        rc = check_directory(set, sources, source_count);
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
    int rc = file_write(fd, manifest, strlen(manifest));
    if (rc == 0)
        rc = file_write(fd, "\n", 1);
    if (rc == 0)
        rc = file_sync(fd);
    if (close(fd) != 0 && rc == 0)
        rc = -errno;
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

int shard_set_commit(struct shard_set *set, const char *manifest)
{
    int rc = write_manifest(set, manifest);
    if (rc < 0)
        return rc;
    if (unlinkat(set->directory_fd, MANIFEST_NAME, 0) != 0 && errno != ENOENT)
        return fail(set, "remove", MANIFEST_NAME, errno);
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
    if (set->directory_made && !set->committed)
        rmdir(set->directory);  /* stays when something else is in it */
    if (set->directory_fd >= 0)
        close(set->directory_fd);
    free(set->files);
    *set = (struct shard_set){ .directory_fd = -1 };
}
