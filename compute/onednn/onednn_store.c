/* Parameters in and out of the arenas. pack reorders through oneDNN, which belongs to the tower's thread; plain and
 * unpack read the stored layout by themselves, so that any thread can. */
#include "compute/onednn/onednn_plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- into the arenas ---- */

/* The plain row-major layout, with the rank of the stored one: a dense layer's [out, in] is read as [out, C, H, W]
 * when its input has pixels, and the filters of a convolution with groups as [group, filter of the group]. */
static nn_md plain_md(const struct backend *backend, uint32_t parameter)
{
    static const dnnl_format_tag_t tags[] = { [1] = dnnl_a, [2] = dnnl_ab, [4] = dnnl_abcd, [5] = dnnl_abcde };
    struct nn_layout layout;
    if (nn_md_layout(backend->stored[parameter], &layout))
        return NULL;
    return nn_md_tag(layout.rank, layout.dims, tags[layout.rank], dnnl_f32);
}

static int reorder_run(const struct backend *backend, nn_md from_md, void *from, nn_md to_md, void *to)
{
    dnnl_primitive_desc_t pd = NULL;
    dnnl_primitive_t primitive = NULL;
    dnnl_exec_arg_t args[] = { { .arg = DNNL_ARG_FROM }, { .arg = DNNL_ARG_TO }, { .arg = DNNL_ARG_SCRATCHPAD } };
    nn_md scratch_md = NULL;
    void *scratch = NULL;
    int rc = nn_reorder_create(&pd, from_md, to_md, backend->engine);
    if (rc == 0)
        rc = nn_primitive_create(&primitive, pd);
    if (rc == 0 && (scratch_md = nn_md_of(pd, DNNL_ARG_SCRATCHPAD)) == NULL)
        rc = -ENOMEM;
    if (rc == 0 && nn_md_bytes(scratch_md) && posix_memalign(&scratch, 64, nn_md_bytes(scratch_md)))
        rc = -ENOMEM;
    if (rc == 0)
        rc = nn_memory_create(&args[0].memory, from_md, backend->engine, from);
    if (rc == 0)
        rc = nn_memory_create(&args[1].memory, to_md, backend->engine, to);
    if (rc == 0)
        rc = nn_memory_create(&args[2].memory, scratch_md, backend->engine, scratch);
    if (rc == 0 && (rc = nn_jit_begin()) == 0) {
        rc = NN_CHECK(dnnl_primitive_execute(primitive, backend->stream, 3, args));
        nn_jit_end();
    }
    for (size_t i = 0; i < sizeof(args) / sizeof(args[0]); i++)
        if (args[i].memory != NULL)
            dnnl_memory_destroy(args[i].memory);
    free(scratch);
    nn_md_release(scratch_md);
    if (primitive != NULL)
        dnnl_primitive_destroy(primitive);
    if (pd != NULL)
        dnnl_primitive_desc_destroy(pd);
    return rc;
}

int onednn_pack(struct backend *backend, uint32_t parameter, const float *plain, float *stored)
{
    nn_md md = plain_md(backend, parameter);
    if (md == NULL)
        return -ENOMEM;
    /* oneDNN's handles are not const; the source is only read. */
    const int rc = reorder_run(backend, md, (void *)(uintptr_t)plain, backend->stored[parameter], stored);
    nn_md_release(md);
    return nn_jit_result(rc);
}

/* ---- out of the arenas ---- */

/* Here the first two of five dimensions, a group and an output channel of the group, count as one, so that a layout has
 * four at most. */

/* A tile: elements that are close together in the stored form. It has some indices of the first two dimensions and some
 * of the window (all other dimensions). The offset of an element is the sum of the offset of its tile, the offset of
 * its row (index in the first dimension) and its offset in the row. A row is contiguous in the plain form. */
enum { TILE_ROWS = 16, TILE_WINDOW = 128, TILE_ROW_ELEMENTS = TILE_ROWS * TILE_WINDOW };

struct tile {
    dnnl_dim_t first[2], count[2], window, window_count;
    size_t offset, rows[TILE_ROWS], elements[TILE_ROW_ELEMENTS];
};

static dnnl_dim_t smaller(dnnl_dim_t a, dnnl_dim_t b)
{
    return a < b ? a : b;
}

static bool has_groups(const struct nn_layout *layout)
{
    return layout->rank == 5;
}

static dnnl_dim_t dim_of(const struct nn_layout *layout, int dim)
{
    const int at = dim + has_groups(layout);
    const dnnl_dim_t size = at < layout->rank ? layout->dims[at] : 1;
    return has_groups(layout) && dim == 0 ? layout->dims[0] * size : size;
}

static size_t offset_of(const struct nn_layout *layout, int dim, dnnl_dim_t index)
{
    if (!has_groups(layout))
        return nn_layout_offset(layout, dim, index);
    if (dim > 0)
        return nn_layout_offset(layout, dim + 1, index);
    return nn_layout_offset(layout, 0, index / layout->dims[1]) + nn_layout_offset(layout, 1, index % layout->dims[1]);
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

static void find_row_offsets(const struct nn_layout *layout, struct tile *tile)
{
    tile->count[0] = smaller(dim_of(layout, 0) - tile->first[0], TILE_ROWS);
    for (dnnl_dim_t i = 0; i < tile->count[0]; i++)
        tile->rows[i] = offset_of(layout, 0, tile->first[0] + i);
}

/* Finds the offsets of a tile's elements relative to the offset of the tile. */
static void find_element_offsets(const struct nn_layout *layout, struct tile *tile)
{
    size_t *element = tile->elements;
    for (dnnl_dim_t b = 0; b < tile->count[1]; b++)
        for (dnnl_dim_t i = 0; i < tile->window_count; i++)
            *element++ = offset_of(layout, 1, tile->first[1] + b) +
                         window_offset(layout, tile->window + i) - tile->offset;
}

/* Are all tiles alike? Yes when blocks of the second dimension begin where tiles do, and a tile has the whole
 * window. */
static bool is_regular(const struct nn_layout *layout)
{
    dnnl_dim_t block = 1;
    for (int b = 0; b < layout->block_count; b++)
        block *= layout->block_dims[b] == 1 + has_groups(layout) ? layout->blocks[b] : 1;
    return TILE_ROWS % block == 0 && window_of(layout) <= TILE_WINDOW;
}

/* With a window larger than TILE_WINDOW a tile has one index of the second dimension, so that a row stays
 * contiguous. */
static void set_tile(const struct nn_layout *layout, struct tile *tile)
{
    const bool is_whole = window_of(layout) <= TILE_WINDOW;
    tile->count[1] = smaller(dim_of(layout, 1) - tile->first[1], is_whole ? TILE_ROWS : 1);
    tile->window_count = smaller(window_of(layout) - tile->window, TILE_ROW_ELEMENTS);
    tile->offset = offset_of(layout, 1, tile->first[1]) + window_offset(layout, tile->window);
}

static void copy_row(const float *from, const size_t *elements, float *to, dnnl_dim_t count)
{
    for (dnnl_dim_t i = 0; i < count; i++)
        to[i] = from[elements[i]];
}

#define SHUFFLE(a, b, c, d, e, f) __builtin_shufflevector(a, b, c, d, e, f)

typedef float four __attribute__((vector_size(16)));

/* Transposes, in registers, four elements of four rows that are adjacent in the stored form. */
static void transpose(const float *from, const size_t *elements, float *to, size_t row_count)
{
    four at[4];
    for (int i = 0; i < 4; i++)
        memcpy(&at[i], from + elements[i], sizeof(four));
    const four low_a = SHUFFLE(at[0], at[1], 0, 4, 1, 5), low_b = SHUFFLE(at[2], at[3], 0, 4, 1, 5);
    const four high_a = SHUFFLE(at[0], at[1], 2, 6, 3, 7), high_b = SHUFFLE(at[2], at[3], 2, 6, 3, 7);
    const four rows[4] = { SHUFFLE(low_a, low_b, 0, 1, 4, 5), SHUFFLE(low_a, low_b, 2, 3, 6, 7),
                           SHUFFLE(high_a, high_b, 0, 1, 4, 5), SHUFFLE(high_a, high_b, 2, 3, 6, 7) };
    for (size_t a = 0; a < 4; a++)
        memcpy(to + a * row_count, &rows[a], sizeof(four));
}

static void copy_four_rows(const float *from, const size_t *elements, float *to, size_t row_count, dnnl_dim_t count)
{
    const dnnl_dim_t transposed = count / 4 * 4;
    for (dnnl_dim_t i = 0; i < transposed; i += 4)
        transpose(from, elements + i, to + i, row_count);
    for (size_t a = 0; a < 4; a++)
        copy_row(from + a, elements + transposed, to + a * row_count + transposed, count - transposed);
}

/* The number of rows that are copied at once, beginning with `row`: 4 when their elements are adjacent, else 1. */
static dnnl_dim_t rows_at_once(const struct tile *tile, dnnl_dim_t row)
{
    if (row + 4 > tile->count[0])
        return 1;
    for (dnnl_dim_t a = 1; a < 4; a++)
        if (tile->rows[row + a] != tile->rows[row] + (size_t)a)
            return 1;
    return 4;
}

static void copy_tile(const struct nn_layout *layout, const struct tile *tile, const float *stored, float *plain)
{
    const dnnl_dim_t count = tile->count[1] * tile->window_count, row_count = dim_of(layout, 1) * window_of(layout);
    dnnl_dim_t a = 0;
    while (a < tile->count[0]) {
        const dnnl_dim_t rows = rows_at_once(tile, a);
        const float *const from = stored + tile->offset + tile->rows[a];
        float *const to = plain + (tile->first[0] + a) * row_count + tile->first[1] * window_of(layout) + tile->window;
        if (rows == 4)
            copy_four_rows(from, tile->elements, to, (size_t)row_count, count);
        else
            copy_row(from, tile->elements, to, count);
        a += rows;
    }
}

/* Copies all tiles that have the same rows. */
static void copy_tiles(const struct nn_layout *layout, struct tile *tile, const float *stored, float *plain)
{
    const bool are_alike = is_regular(layout);
    for (tile->first[1] = 0; tile->first[1] < dim_of(layout, 1); tile->first[1] += tile->count[1])
        for (tile->window = 0; tile->window < window_of(layout); tile->window += tile->window_count) {
            set_tile(layout, tile);
            if (!are_alike || (tile->first[0] == 0 && tile->first[1] == 0))
                find_element_offsets(layout, tile);
            copy_tile(layout, tile, stored, plain);
        }
}

/* Copies tile by tile, so that each cache line is read once for any blocks of the stored form. */
int onednn_plain(const struct backend *backend, uint32_t parameter, const float *stored, float *plain)
{
    struct nn_layout layout;
    const int rc = nn_md_layout(backend->stored[parameter], &layout);
    if (rc != 0)
        return rc;
    struct tile tile;
    for (tile.first[0] = 0; tile.first[0] < dim_of(&layout, 0); tile.first[0] += TILE_ROWS) {
        find_row_offsets(&layout, &tile);
        copy_tiles(&layout, &tile, stored, plain);
    }
    return 0;
}

int onednn_unpack(struct backend *backend, uint32_t parameter, const float *stored, float *plain)
{
    return onednn_plain(backend, parameter, stored, plain);
}
