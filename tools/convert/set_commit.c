/* The renaming at the end of a conversion, and taking up one that was cut short. */
#include "tools/convert/set_commit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "formats/manifest.h"
#include "loader/shards/shard_list.h"
#include "stage/file/file.h"
#include "stage/log.h"

#define MARKER_BYTES_MAX ((size_t)1 << 30)     /* a set of more shards than this lists cannot be made */

static const char advice[] = ": the new data set is complete there, in part under temporary names (.*.tmp) that must "
                             "stay, the earlier one is given up: run pipetrain-convert with this directory again, as "
                             "-o or as shards of tfrecord, which finishes that first";

struct temporary { char name[128]; };

static struct temporary temporary_of(const char *shard)
{
    struct temporary temporary;
    snprintf(temporary.name, sizeof(temporary.name), ".%s.tmp", shard);
    return temporary;
}

/* 1 for what is there, 0 for what is not, or a negative errno after stop_fail. */
static int look_at(const struct set_folder *folder, const char *name, struct stat *status_out)
{
    if (fstatat(folder->fd, name, status_out, AT_SYMLINK_NOFOLLOW) == 0)
        return 1;
    return errno == ENOENT ? 0 : set_folder_fail(folder, "look at", name, errno);
}

/* A link is replaced, not what it leads to. */
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
    stop_fail(folder->stop, EXIT_CODE_OUTPUT, "%s/%s: is %s, where a data set's file belongs: move it away%s",
              folder->path, name, kind, folder->advice);
    return -EEXIST;
}

int set_commit_check(const struct set_folder *folder)
{
    return set_folder_visit(folder, check_entry, NULL);
}

/* A shard that has no temporary name got its own in an earlier attempt. */
static int name_shard(const struct set_folder *folder, const char *shard)
{
    const struct temporary temporary = temporary_of(shard);
    struct stat status;
    const int rc = look_at(folder, temporary.name, &status);
    return rc > 0 ? set_folder_rename(folder, temporary.name, shard) : rc;
}

static int remove_other(const struct set_folder *folder, const char *name, void *arg)
{
    const struct manifest *const manifest = arg;
    return set_folder_is_shard(name) && manifest_find(manifest, name) == NULL ? set_folder_remove(folder, name) : 0;
}

/* Each step is on the disk before the next one relies on it. */
static int roll_forward(struct set_folder *folder, struct manifest *manifest)
{
    folder->advice = advice;
    int rc = set_folder_sync(folder);
    if (rc == 0)
        rc = set_folder_remove(folder, MANIFEST_FILE);
    for (size_t i = 0; i < manifest->count && rc == 0; i++)
        rc = name_shard(folder, manifest->shards[i].file);
    if (rc == 0)
        rc = set_folder_visit(folder, remove_other, manifest);
    if (rc == 0)
        rc = set_folder_sync(folder);
    if (rc == 0)
        rc = set_folder_rename(folder, MANIFEST_COMMIT_FILE, MANIFEST_FILE);
    if (rc < 0)
        return rc;
    folder->advice = "";
    return set_folder_sync(folder);
}

static int fail_memory(const struct set_folder *folder)
{
    stop_fail(folder->stop, EXIT_CODE_MEMORY, "no memory for the list of shards");
    return -ENOMEM;
}

static int read_marker(const struct set_folder *folder, struct manifest *manifest, const char *text, size_t bytes)
{
    char problem[256];
    const int rc = manifest_read(manifest, text, bytes, problem, sizeof(problem));

    if (rc == -ENOMEM)
        return fail_memory(folder);
    if (rc < 0)
        stop_fail(folder->stop, EXIT_CODE_OUTPUT, "%s/%s: %s: which shards belong to the data set that was being put "
                  "in place here cannot be told", folder->path, MANIFEST_COMMIT_FILE, problem);
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
    stop_fail(folder->stop, EXIT_CODE_OUTPUT, "%s: a data set that was being put in place here cannot be finished: its "
              "%s is missing or of another length; to give it up, remove " MANIFEST_COMMIT_FILE " and the shards: they "
              "are of two sets", folder->path, shard->file);
    return -EBADMSG;
}

/* Nothing is begun that cannot come to an end: the shards must all be there, under one of their names. */
static int check_shards(const struct set_folder *folder, const struct manifest *manifest)
{
    int rc = 0;

    for (size_t i = 0; i < manifest->count && rc == 0; i++)
        rc = check_shard(folder, &manifest->shards[i]);
    return rc;
}

static int check_all(const struct set_folder *folder, const struct manifest *manifest)
{
    const int rc = check_shards(folder, manifest);
    return rc < 0 ? rc : set_commit_check(folder);
}

/* A renaming that failed may have happened all the same, as over a network. */
static int begin(const struct set_folder *folder, bool *begun_out)
{
    struct stat status;
    int rc = set_folder_sync(folder);
    if (rc == 0) {
        rc = set_folder_rename(folder, SET_COMMIT_MANIFEST, MANIFEST_COMMIT_FILE);
        *begun_out = rc == 0 || look_at(folder, MANIFEST_COMMIT_FILE, &status) != 0;
    }
    return rc;
}

int set_commit_run(struct set_folder *folder, const char *text, bool *begun_out)
{
    struct manifest manifest = { 0 };
    char problem[256];

    *begun_out = false;
    /* What was written by us has nothing else wrong with it. */
    if (manifest_read(&manifest, text, strlen(text), problem, sizeof(problem)) < 0)
        return fail_memory(folder);
    int rc = check_all(folder, &manifest);
    if (rc == 0)
        rc = begin(folder, begun_out);
    if (rc == 0)
        rc = roll_forward(folder, &manifest);
    manifest_release(&manifest);
    return rc;
}

/* The bytes of the marker. */
static int load_marker(const struct set_folder *folder, char **text_out, size_t *bytes_out)
{
    char *path;

    if (asprintf(&path, "%s/" MANIFEST_COMMIT_FILE, folder->path) < 0)
        return fail_memory(folder);
    const int rc = file_load(path, MARKER_BYTES_MAX, text_out, bytes_out);
    if (rc < 0)
        stop_fail(folder->stop, exit_code_of(rc, EXIT_CODE_OUTPUT), "%s: %s: the data set that was being put in place "
                  "here cannot be finished", path, file_load_problem(rc));
    free(path);
    return rc;
}

static int resume(struct set_folder *folder)
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
    rc = resume(folder);
    if (rc == 0)
        log_message(LOG_RUN, "%s: the data set that an earlier run had begun to put in place is finished",
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
