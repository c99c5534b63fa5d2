/* Files by device and inode. Called while a run is prepared. */
#include "loader/dataset_overlap.h"

#include <errno.h>
#include <stdlib.h>

struct identity {
    uint64_t device, inode;
};

static struct identity identity_of(const struct shard_source *source)
{
    return (struct identity){ source->device, source->stamp.inode };
}

static int identity_compare(const void *a, const void *b)
{
    const struct identity *const one = a, *const other = b;
    if (one->device != other->device)
        return one->device < other->device ? -1 : 1;
    return (one->inode > other->inode) - (one->inode < other->inode);
}

/* Of all files that are there; their count. */
static uint32_t identify(struct identity *identities, const struct dataset *dataset)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < dataset->shard_count; i++) {
        if (dataset->sources[i] != NULL)
            identities[count++] = identity_of(dataset->sources[i]);
    }
    return count;
}

static bool is_known(const struct identity *known, uint32_t count, const struct shard_source *source)
{
    if (source == NULL || count == 0)
        return false;
    const struct identity wanted = identity_of(source);
    return bsearch(&wanted, known, count, sizeof(*known), identity_compare) != NULL;
}

int dataset_overlap_find(struct dataset_overlap *overlap_out, const struct dataset *dataset,
                         const struct dataset *other)
{
    struct identity *const known = calloc(other->shard_count, sizeof(*known));
    struct dataset_overlap overlap = { 0 };
    if (known == NULL)
        return -ENOMEM;
    const uint32_t known_count = identify(known, other);
    qsort(known, known_count, sizeof(*known), identity_compare);
    for (uint32_t i = dataset->shard_count; i-- > 0;) {
        if (!is_known(known, known_count, dataset->sources[i]))
            continue;
        overlap.count++;
        overlap.first = i;
    }
    free(known);
    *overlap_out = overlap;
    return 0;
}
