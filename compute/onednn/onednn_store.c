/* How parameters lie in the arenas of the oneDNN backend, read without oneDNN: its reorders
 * belong to the tower's thread and its team. */
#include <errno.h>
#include <stdlib.h>

#include "compute/onednn/backend_onednn.h"
#include "compute/onednn/onednn_plan.h"

/* Where the elements with index `index` along `dim` lie, seen from those with index 0. Blocked
 * layouts place every dimension by itself. */
static size_t offset_of(const struct nn_layout *layout, int dim, dnnl_dim_t index)
{
    dnnl_dim_t offset = 0, inner = 1;
    for (int b = layout->block_count; b-- > 0; inner *= layout->blocks[b]) {
        if (layout->block_dims[b] != dim)
            continue;
        offset += index % layout->blocks[b] * inner;
        index /= layout->blocks[b];
    }
    return (size_t)(offset + index * layout->strides[dim]);
}

/* Offsets of every index of every dimension, those of dimension d from offsets[d] on; dimensions
 * that the layout does not have have one index. */
static size_t *offsets_make(const struct nn_layout *layout, size_t *offsets[NN_RANK_MAX], size_t counts[NN_RANK_MAX])
{
    size_t total = 0;
    for (int d = 0; d < NN_RANK_MAX; d++)
        total += counts[d] = d < layout->rank ? (size_t)layout->dims[d] : 1;
    size_t *const all = calloc(total, sizeof(*all));
    size_t *next = all;
    for (int d = 0; all != NULL && d < NN_RANK_MAX; d++) {
        offsets[d] = next;
        for (size_t i = 0; d < layout->rank && i < counts[d]; i++)
            next[i] = offset_of(layout, d, (dnnl_dim_t)i);
        next += counts[d];
    }
    return all;
}

int onednn_plain(const struct backend *backend, uint32_t parameter, const float *stored, float *plain)
{
    struct nn_layout layout;
    size_t *offsets[NN_RANK_MAX], counts[NN_RANK_MAX];
    const int rc = nn_md_layout(backend->stored[parameter], &layout);
    if (rc != 0)
        return rc;
    size_t *const all = offsets_make(&layout, offsets, counts);
    if (all == NULL)
        return -ENOMEM;
    for (size_t a = 0; a < counts[0]; a++)
        for (size_t b = 0; b < counts[1]; b++)
            for (size_t c = 0; c < counts[2]; c++) {
                const float *const from = stored + offsets[0][a] + offsets[1][b] + offsets[2][c];
                for (size_t d = 0; d < counts[3]; d++)
                    *plain++ = from[offsets[3][d]];
            }
    free(all);
    return 0;
}
