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

/* The elements of one row: those that differ in the last dimension only. */
static float *read_row(const struct nn_layout *layout, const float *from, float *plain)
{
    const dnnl_dim_t count = layout->dims[layout->rank - 1];
    for (dnnl_dim_t i = 0; i < count; i++)
        *plain++ = from[offset_of(layout, layout->rank - 1, i)];
    return plain;
}

static dnnl_dim_t dim_of(const struct nn_layout *layout, int dim)
{
    return dim < layout->rank - 1 ? layout->dims[dim] : 1;
}

int onednn_plain(const struct backend *backend, uint32_t parameter, const float *stored, float *plain)
{
    struct nn_layout layout;
    const int rc = nn_md_layout(backend->stored[parameter], &layout);
    if (rc != 0)
        return rc;
    for (dnnl_dim_t a = 0; a < dim_of(&layout, 0); a++)
        for (dnnl_dim_t b = 0; b < dim_of(&layout, 1); b++)
            for (dnnl_dim_t c = 0; c < dim_of(&layout, 2); c++)
                plain = read_row(&layout, stored + offset_of(&layout, 0, a) + offset_of(&layout, 1, b) +
                                              offset_of(&layout, 2, c), plain);
    return 0;
}

int onednn_unpack(struct backend *backend, uint32_t parameter, const float *stored, float *plain)
{
    return onednn_plain(backend, parameter, stored, plain);
}
