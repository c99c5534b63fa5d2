/* The directory side of writing shards: what is there before, the names of the files, what stays behind.
 * Called by the main thread of the converters. */
#include "tools/convert/shard_set.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stage/file/folders.h"
#include "stage/file/whole_file.h"
#include "tools/convert/set_commit.h"

/* A file of an earlier set: its manifest where it has one. */
struct earlier { char entry[NAME_MAX + 1]; };

static int look_for_earlier(const struct set_folder *folder, const char *name, void *arg)
{
    struct earlier *const earlier = arg;
    const bool is_manifest = strcmp(name, MANIFEST_NAME) == 0;

    (void)folder;
    if (is_manifest || (earlier->entry[0] == '\0' && set_folder_is_shard(name)))
        snprintf(earlier->entry, sizeof(earlier->entry), "%s", name);
    return 0;
}

static int remove_leftover(const struct set_folder *folder, const char *name, void *arg)
{
    (void)arg;
    return set_folder_is_temporary_shard(name) ? set_folder_remove(folder, name) : 0;
}

static int remove_leftovers(const struct set_folder *folder)
{
    const int rc = set_folder_visit(folder, remove_leftover, NULL);
    return rc < 0 ? rc : set_folder_remove(folder, SET_COMMIT_MANIFEST);
}

static int check_earlier(struct shard_set *set)
{
    struct earlier earlier = { "" };
    const int rc = set_folder_visit(&set->folder, look_for_earlier, &earlier);
    if (rc < 0 || earlier.entry[0] == '\0')
        return rc;
    if (set->spec.may_replace)
        return set_commit_check(&set->folder);
    stop_fail(set->stop, EXIT_CODE_OUTPUT, "%s/%s: there is a data set already: choose another directory, or replace "
              "it with --force", set->spec.directory, earlier.entry);
    return -EEXIST;
}

static int open_directory(struct shard_set *set)
{
    const char *const directory = set->spec.directory;
    const int rc = folders_make(directory, &set->topmost_made);

    if (rc < 0) {
        set->folder = (struct set_folder){ .path = directory, .fd = -1, .advice = "", .stop = set->stop };
        return set_folder_fail(&set->folder, "make", "", -rc);
    }
    return set_folder_open(&set->folder, directory, set->stop);
}

/* As long as a begun commit is there, what is temporary must stay. */
static int take_directory(struct shard_set *set)
{
    int rc = set_commit_resume(&set->folder);
    if (rc == 0)
        rc = check_earlier(set);
    if (rc == 0)
        rc = remove_leftovers(&set->folder);
    set->is_writing = rc == 0;
    return rc;
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
    *set = (struct shard_set){ .spec = *spec, .folder.fd = -1, .stop = stop };
    int rc = name_files(set);
    if (rc == 0)
        rc = open_directory(set);
    if (rc == 0)
        rc = take_directory(set);
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
        return set_folder_fail(&set->folder, "make", SET_COMMIT_MANIFEST, -fd);
    const struct file_part parts[] = { { text, strlen(text) }, { "\n", 1 } };
    const int rc = whole_file_fill(fd, parts, 2);
    return rc == 0 ? 0 : set_folder_fail(&set->folder, "write", SET_COMMIT_MANIFEST, -rc);
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
        folders_remove(set->spec.directory, set->topmost_made); /* one that has something in it stays */
    set_folder_close(&set->folder);
    free(set->files);
    *set = (struct shard_set){ .folder.fd = -1 };
}
