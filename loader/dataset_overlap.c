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

int dataset_overlap_find(struct dataset_overlap *overlap_out, const struct dataset *dataset,
                         const struct dataset *other)
{
    struct identity *const known = calloc(other->shard_count, sizeof(*known));
    struct dataset_overlap overlap = { 0 };
    if (known == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < other->shard_count; i++)
        known[i] = identity_of(other->sources[i]);
    qsort(known, other->shard_count, sizeof(*known), identity_compare);
    for (uint32_t i = dataset->shard_count; i-- > 0;) {
        const struct identity wanted = identity_of(dataset->sources[i]);
        if (bsearch(&wanted, known, other->shard_count, sizeof(*known), identity_compare) == NULL)
            continue;
        overlap.count++;
        overlap.first = i;
    }
    free(known);
    *overlap_out = overlap;
    return 0;
}
