/* What writing into the folder of the input would remove. Called by main before anything is written. */
#include "tools/convert/records/in_place.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "formats/manifest.h"
#include "tools/convert/set_folder.h"

struct identity {
    dev_t device;
    ino_t inode;
};

/* The shards of an output folder among those that are converted. */
struct sifting {
    struct identity *inputs;    /* sorted */
    size_t input_count, met_count;
    char other[NAME_MAX + 1];   /* the first by name that is none of them; "": there is none */
    bool has_manifest;
};

static int compare(const void *a, const void *b)
{
    const struct identity *const one = a, *const other = b;
    if (one->device != other->device)
        return one->device < other->device ? -1 : 1;
    return (one->inode > other->inode) - (one->inode < other->inode);
}

static void identify(struct sifting *sifting, const struct shard_list *list)
{
    struct stat status;

    for (uint32_t i = 0; i < list->count; i++) {
        if (stat(list->paths[i], &status) == 0)
            sifting->inputs[sifting->input_count++] = (struct identity){ status.st_dev, status.st_ino };
    }
}

/* 0 or -ENOMEM. */
static int identify_all(struct sifting *sifting, const struct shard_list *lists, uint32_t count)
{
    size_t room = 1;

    for (uint32_t i = 0; i < count; i++)
        room += lists[i].count;
    sifting->inputs = calloc(room, sizeof(*sifting->inputs));
    if (sifting->inputs == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < count; i++)
        identify(sifting, &lists[i]);
    qsort(sifting->inputs, sifting->input_count, sizeof(*sifting->inputs), compare);
    return 0;
}

static bool is_input(const struct sifting *sifting, const struct set_folder *folder, const char *name)
{
    struct stat status;

    if (fstatat(folder->fd, name, &status, 0) != 0)
        return false;
    const struct identity identity = { status.st_dev, status.st_ino };
    return bsearch(&identity, sifting->inputs, sifting->input_count, sizeof(identity), compare) != NULL;
}

static int sift(const struct set_folder *folder, const char *name, void *arg)
{
    struct sifting *const sifting = arg;

    sifting->has_manifest |= strcmp(name, MANIFEST_FILE) == 0;
    if (!set_folder_is_shard(name))
        return 0;
    if (is_input(sifting, folder, name))
        sifting->met_count++;
    else if (sifting->other[0] == '\0' || strcmp(name, sifting->other) < 0)
        snprintf(sifting->other, sizeof(sifting->other), "%s", name);
    return 0;
}

static int judge(const struct sifting *sifting, const struct set_folder *folder, bool is_described)
{
    if (sifting->met_count == 0)
        return 0;
    if (sifting->other[0] != '\0')
        stop_fail(folder->stop, EXIT_CODE_USAGE, "%s/%s: is not converted, and would be removed with the shards beside "
                  "it that are: convert all of %s, or choose another directory", folder->path, sifting->other,
                  folder->path);
    else if (sifting->has_manifest && !is_described)
        stop_fail(folder->stop, EXIT_CODE_USAGE, "%s/" MANIFEST_FILE ": does not describe the shards beside it, and "
                  "would be replaced with them: move it away, or choose another directory", folder->path);
    else
        return 0;
    return -EINVAL;
}

int in_place_check(const struct shard_list *lists, uint32_t count, const char *output, bool is_described,
                   struct stop *stop)
{
    struct set_folder folder = { .path = output, .advice = "", .stop = stop };
    struct sifting sifting = { 0 };

    folder.fd = open(output, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder.fd < 0)
        return 0;               /* not there yet, or no folder: making it tells */
    int rc = identify_all(&sifting, lists, count);
    if (rc < 0)
        stop_fail(stop, EXIT_CODE_MEMORY, "no memory for the list of shards");
    else
        rc = set_folder_visit(&folder, sift, &sifting);
    if (rc == 0)
        rc = judge(&sifting, &folder, is_described);
    free(sifting.inputs);
    set_folder_close(&folder);
    return rc;
}
