/* How parameters lie in the arenas of the oneDNN backend, read without oneDNN: its reorders
 * belong to the tower's thread and its team. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

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
 * some of the window, which is all the others. Where one lies is the sum of three offsets: that of the tile, that of
 * its row, which is its index in the first dimension, and that of its place in the row, which is whole in the plain
 * form. */
enum { TILE_ROWS = 16, TILE_WINDOW = 128, TILE_ROW_ELEMENTS = TILE_ROWS * TILE_WINDOW };

struct tile {
    dnnl_dim_t first[2], count[2], window, window_count;
    size_t place, rows[TILE_ROWS], elements[TILE_ROW_ELEMENTS];
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

static void place_rows(const struct nn_layout *layout, struct tile *tile)
{
    tile->count[0] = smaller(dim_of(layout, 0) - tile->first[0], TILE_ROWS);
    for (dnnl_dim_t i = 0; i < tile->count[0]; i++)
        tile->rows[i] = offset_of(layout, 0, tile->first[0] + i);
}

/* Seen from the first of them, which is at place. */
static void place_elements(const struct nn_layout *layout, struct tile *tile)
{
    size_t *element = tile->elements;
    for (dnnl_dim_t b = 0; b < tile->count[1]; b++)
        for (dnnl_dim_t i = 0; i < tile->window_count; i++)
            *element++ =
                offset_of(layout, 1, tile->first[1] + b) + window_offset(layout, tile->window + i) - tile->place;
}

/* The second dimension's blocks begin where tiles do, and a tile has the whole window: all tiles are alike. */
static bool is_regular(const struct nn_layout *layout)
{
    dnnl_dim_t block = 1;
    for (int b = 0; b < layout->block_count; b++)
        block *= layout->block_dims[b] == 1 ? layout->blocks[b] : 1;
    return TILE_ROWS % block == 0 && window_of(layout) <= TILE_WINDOW;
}

/* A row of a tile is whole in the plain form: of a larger window it has one element of the second dimension only. */
static void place_tile(const struct nn_layout *layout, struct tile *tile)
{
    const bool is_whole = window_of(layout) <= TILE_WINDOW;
    tile->count[1] = smaller(dim_of(layout, 1) - tile->first[1], is_whole ? TILE_ROWS : 1);
    tile->window_count = smaller(window_of(layout) - tile->window, TILE_ROW_ELEMENTS);
    tile->place = offset_of(layout, 1, tile->first[1]) + window_offset(layout, tile->window);
}

static void read_row(const float *from, const size_t *elements, float *to, dnnl_dim_t count)
{
    for (dnnl_dim_t i = 0; i < count; i++)
        to[i] = from[elements[i]];
}

#define PAIRS(a, b, c, d, e, f) __builtin_shufflevector(a, b, c, d, e, f)

typedef float four __attribute__((vector_size(16)));

/* Four elements of four rows that lie side by side: rows and columns change places in registers. */
static void turn(const float *from, const size_t *elements, float *to, size_t row_count)
{
    four at[4];
    for (int i = 0; i < 4; i++)
        memcpy(&at[i], from + elements[i], sizeof(four));
    const four low_a = PAIRS(at[0], at[1], 0, 4, 1, 5), low_b = PAIRS(at[2], at[3], 0, 4, 1, 5);
    const four high_a = PAIRS(at[0], at[1], 2, 6, 3, 7), high_b = PAIRS(at[2], at[3], 2, 6, 3, 7);
    const four rows[4] = { PAIRS(low_a, low_b, 0, 1, 4, 5), PAIRS(low_a, low_b, 2, 3, 6, 7),
                           PAIRS(high_a, high_b, 0, 1, 4, 5), PAIRS(high_a, high_b, 2, 3, 6, 7) };
    for (size_t a = 0; a < 4; a++)
        memcpy(to + a * row_count, &rows[a], sizeof(four));
}

static void read_four_rows(const float *from, const size_t *elements, float *to, size_t row_count, dnnl_dim_t count)
{
    const dnnl_dim_t turned = count / 4 * 4;
    for (dnnl_dim_t i = 0; i < turned; i += 4)
        turn(from, elements + i, to + i, row_count);
    for (size_t a = 0; a < 4; a++)
        read_row(from + a, elements + turned, to + a * row_count + turned, count - turned);
}

/* How many rows from this one on are read at once: 4 where their elements lie side by side, else 1. */
static dnnl_dim_t rows_at_once(const struct tile *tile, dnnl_dim_t row)
{
    if (row + 4 > tile->count[0])
        return 1;
    for (dnnl_dim_t a = 1; a < 4; a++)
        if (tile->rows[row + a] != tile->rows[row] + (size_t)a)
            return 1;
    return 4;
}

static void read_tile(const struct nn_layout *layout, const struct tile *tile, const float *stored, float *plain)
{
    const dnnl_dim_t count = tile->count[1] * tile->window_count, row_count = dim_of(layout, 1) * window_of(layout);
    dnnl_dim_t a = 0;
    while (a < tile->count[0]) {
        const dnnl_dim_t rows = rows_at_once(tile, a);
        const float *const from = stored + tile->place + tile->rows[a];
        float *const to = plain + (tile->first[0] + a) * row_count + tile->first[1] * window_of(layout) + tile->window;
        if (rows == 4)
            read_four_rows(from, tile->elements, to, (size_t)row_count, count);
        else
            read_row(from, tile->elements, to, count);
        a += rows;
    }
}

/* The tiles that have the same rows. */
static void read_rows(const struct nn_layout *layout, struct tile *tile, const float *stored, float *plain)
{
    const bool are_alike = is_regular(layout);
    for (tile->first[1] = 0; tile->first[1] < dim_of(layout, 1); tile->first[1] += tile->count[1])
        for (tile->window = 0; tile->window < window_of(layout); tile->window += tile->window_count) {
            place_tile(layout, tile);
            if (!are_alike || (tile->first[0] == 0 && tile->first[1] == 0))
                place_elements(layout, tile);
            read_tile(layout, tile, stored, plain);
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
    for (tile.first[0] = 0; tile.first[0] < dim_of(&layout, 0); tile.first[0] += TILE_ROWS) {
        place_rows(&layout, &tile);
        read_rows(&layout, &tile, stored, plain);
    }
    return 0;
}

int onednn_unpack(struct backend *backend, uint32_t parameter, const float *stored, float *plain)
{
    return onednn_plain(backend, parameter, stored, plain);
}
