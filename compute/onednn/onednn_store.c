/* How parameters lie in the arenas of the oneDNN backend, read without oneDNN: its reorders
 * belong to the tower's thread and its team. */
#include <errno.h>
#include <stdlib.h>

#include "compute/onednn/backend_onednn.h"
#include "compute/onednn/onednn_plan.h"

/* Where the elements with index `index` along `dim` lie, seen from those with index 0. Blocked
 * layouts place every dimension by itself; a dimension there is not has the index 0 only. */
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

/* A part of a parameter whose elements lie close together in its stored form: some of the first two dimensions, and
 * some of the window, which is all the others. Where they lie is the sum of three offsets. */
enum { TILE_ROWS = 16, TILE_WINDOW = 128 };

struct tile {
    dnnl_dim_t first[2], count[2], window, window_count;
    size_t offsets[2][TILE_ROWS], window_offsets[TILE_WINDOW];
};

static dnnl_dim_t smaller(dnnl_dim_t a, dnnl_dim_t b)
{
    return a < b ? a : b;
}

static dnnl_dim_t dim_of(const struct nn_layout *layout, int dim)
{
    return dim < layout->rank ? layout->dims[dim] : 1;
}

static dnnl_dim_t window_of(const struct nn_layout *layout)
{
    return dim_of(layout, 2) * dim_of(layout, 3);
}

static size_t window_offset(const struct nn_layout *layout, dnnl_dim_t index)
{
    const dnnl_dim_t columns = dim_of(layout, 3);
    return offset_of(layout, 2, index / columns) + offset_of(layout, 3, index % columns);
}

static void place_tile(const struct nn_layout *layout, struct tile *tile)
{
    for (int dim = 0; dim < 2; dim++) {
        tile->count[dim] = smaller(dim_of(layout, dim) - tile->first[dim], TILE_ROWS);
        for (dnnl_dim_t i = 0; i < tile->count[dim]; i++)
            tile->offsets[dim][i] = offset_of(layout, dim, tile->first[dim] + i);
    }
    tile->window_count = smaller(window_of(layout) - tile->window, TILE_WINDOW);
    for (dnnl_dim_t i = 0; i < tile->window_count; i++)
        tile->window_offsets[i] = window_offset(layout, tile->window + i);
}

static void read_tile(const struct nn_layout *layout, const struct tile *tile, const float *stored, float *plain)
{
    for (dnnl_dim_t a = 0; a < tile->count[0]; a++)
        for (dnnl_dim_t b = 0; b < tile->count[1]; b++) {
            const float *const from = stored + tile->offsets[0][a] + tile->offsets[1][b];
            const dnnl_dim_t row = (tile->first[0] + a) * dim_of(layout, 1) + tile->first[1] + b;
            float *const to = plain + row * window_of(layout) + tile->window;
            for (dnnl_dim_t i = 0; i < tile->window_count; i++)
                to[i] = from[tile->window_offsets[i]];
        }
}

/* By tiles, so that a line of the cache is read once, whatever the blocks of the stored form are. */
int onednn_plain(const struct backend *backend, uint32_t parameter, const float *stored, float *plain)
{
    struct nn_layout layout;
    const int rc = nn_md_layout(backend->stored[parameter], &layout);
    if (rc != 0)
        return rc;
    struct tile tile;
    for (tile.first[0] = 0; tile.first[0] < dim_of(&layout, 0); tile.first[0] += TILE_ROWS)
        for (tile.first[1] = 0; tile.first[1] < dim_of(&layout, 1); tile.first[1] += TILE_ROWS)
            for (tile.window = 0; tile.window < window_of(&layout); tile.window += TILE_WINDOW) {
                place_tile(&layout, &tile);
                read_tile(&layout, &tile, stored, plain);
            }
    return 0;
}

int onednn_unpack(struct backend *backend, uint32_t parameter, const float *stored, float *plain)
{
    return onednn_plain(backend, parameter, stored, plain);
}
