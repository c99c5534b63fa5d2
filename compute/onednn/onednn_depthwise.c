/* The weight gradient of a depthwise convolution. oneDNN 2.6 has fast kernels for 3 x 3 windows in fp32 only; for
 * others it has plain loops, which take up to 300 times as long as forward.
 *
 * Channels are independent, so a block of 16 of them is computed together, in vectors. A thread copies a strip of a
 * sample, the rows of the input that some rows of the result read, to its scratch: as fp32, with the padding as zeros,
 * and the channels of a vector side by side. So the products need no special cases for layouts, types, odd channels and
 * borders, and the K x K reads of every number come from the cache. The sums of a tile of the window stay in registers
 * for as many rows of the strip as the first-level cache holds; then comes the next tile.
 *
 * Where blocks are few, each is divided into parts of the batch, whose sums are then added in pairs. Blocks and parts
 * depend only on sizes: any number of threads gives the same bits. */
#include "compute/onednn/onednn_depthwise.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compute/team.h"
#include "compute/vector.h"

#define BLOCK 16u               /* channels computed together: a cache line of fp32 */
#define STRIP_FLOATS ((size_t)32 << 10) /* most floats of a strip of several rows: a part of a second-level cache */
#define CACHED_FLOATS ((size_t)5 << 10) /* of a strip whose tiles are computed one after the other: a part of a
                                         * first-level cache */
#define ITEMS 64u               /* blocks are divided into parts of the batch until there are so many items of work */

struct depthwise {
    const struct layer *layer;
    struct tensor_layout in, out;
    bool is_wide;               /* vectors of LANES_WIDE */
    uint32_t lanes;             /* of a vector; a block is one or two vectors, which lie apart in scratch */
    uint32_t padded_w, strip_rows;      /* of a strip: columns of the image, rows of the result */
    uint32_t cached_rows;       /* rows of the result that are computed for all tiles, before the next ones */
    size_t image_floats, strip_floats;  /* of a strip: its image; with its gradient; of all vectors of a block */
    size_t blocks, parts, sum_floats;   /* sums of an item: [window position, then bias][BLOCK] */
    size_t *channels, *positions;       /* the offset of a weight is the sum of that of its channel and its position */
};

/* ---- products ---- */

/* A strip of one sample and block: the padded input in scratch, where a pixel is a vector, and the gradient of the
 * result in scratch or, in fp32, where it is. */
struct strip {
    const float *image, *gradient;
    size_t image_row, gradient_row;     /* floats from row to row */
    size_t image_half, gradient_half;   /* floats to the second LANES channels */
    size_t gradient_pixel;              /* floats from pixel to pixel */
    size_t row_step, column_step;       /* floats in the image from result to result */
    uint32_t rows, columns;             /* of the result */
    bool is_half;                       /* only the first LANES channels of the block exist */
};

/* A tile of the window. */
struct tile {
    uint32_t rows, columns;
    size_t image;               /* offset of its first position in the image */
    float *sums;                /* of its first position */
    size_t sums_row;            /* floats from row to row */
};

/* The sums are variables instead of an array, because compilers keep only those in registers. */
#define SUMS(of) \
    of(0) of(1) of(2) of(3) of(4) of(5) of(6) of(7) of(8) of(9) of(10) of(11) of(12) of(13) of(14) of(15) of(16) \
    of(17) of(18) of(19) of(20) of(21) of(22) of(23) of(24)
#define IN_TILE(i) ((i) < row_count * column_count)
#define SUM_AT(i) (tile->sums + (i) / column_count * tile->sums_row + (i) % column_count * BLOCK)
#define SUM_LOAD(i) \
    if (IN_TILE(i)) \
        memcpy(&sum##i, SUM_AT(i), sizeof(sum##i));
#define SUM_ADD(i) \
    if (IN_TILE(i)) { \
        memcpy(&number, image + (i) / column_count * strip->image_row + (i) % column_count * lanes_of_vector, \
               sizeof(number)); \
        sum##i += factor * number; \
    }
#define SUM_STORE(i) \
    if (IN_TILE(i)) \
        memcpy(SUM_AT(i), &sum##i, sizeof(sum##i));
#define SUM_DECLARE(i) , sum##i = { 0 }

/* Defines a function that adds the products of a strip to the sums of a tile, for the channels of a vector. The sizes
 * of the tile are constants for which all its sums fit into registers. */
#define DEFINE_TILE_ADD(name, vector) \
    ALWAYS_INLINE void name(const struct strip *strip, const struct tile *tile, uint32_t row_count, \
                            uint32_t column_count) \
    { \
        enum { lanes_of_vector = sizeof(vector) / sizeof(float) }; \
        vector factor, number SUMS(SUM_DECLARE); \
        SUMS(SUM_LOAD) \
        for (uint32_t y = 0; y < strip->rows; y++) { \
            const float *image = strip->image + tile->image + y * strip->row_step; \
            const float *gradient = strip->gradient + y * strip->gradient_row; \
            for (uint32_t x = 0; x < strip->columns; x++) { \
                memcpy(&factor, gradient, sizeof(factor)); \
                SUMS(SUM_ADD) \
                image += strip->column_step; \
                gradient += strip->gradient_pixel; \
            } \
        } \
        SUMS(SUM_STORE) \
    }

DEFINE_TILE_ADD(add_tile, lanes)
DEFINE_TILE_ADD(add_tile_wide, lanes_wide)

/* The tiles for 16 registers and for the 32 of LANES_WIDE; of equally wide ones the highest first. */
#define TILES(of) of(2, 7) of(1, 7) of(3, 5) of(2, 5) of(1, 5) of(3, 3) of(1, 3) of(3, 1) of(1, 1)
#define TILES_WIDE(of) of(3, 7) of(1, 7) of(5, 5) of(1, 5) of(3, 3) of(1, 3) of(3, 1) of(1, 1)

struct tile_size { uint32_t rows, columns; };
#define TILE_SIZE(rows_, columns_) { rows_, columns_ },
static const struct tile_size tile_sizes[] = { TILES(TILE_SIZE) }, tile_sizes_wide[] = { TILES_WIDE(TILE_SIZE) };

#define TILE_CASE(rows_, columns_) \
    if (tile->rows == (rows_) && tile->columns == (columns_)) \
        add_tile(strip, tile, rows_, columns_);
#define TILE_CASE_WIDE(rows_, columns_) \
    if (tile->rows == (rows_) && tile->columns == (columns_)) \
        add_tile_wide(strip, tile, rows_, columns_);

VECTOR_PRODUCTS
static void tile_add(const struct strip *strip, const struct tile *tile)
{
    TILES(TILE_CASE);
}

VECTOR_PRODUCTS_WIDE
static void tile_add_wide(const struct strip *strip, const struct tile *tile)
{
    TILES_WIDE(TILE_CASE_WIDE);
}

/* The largest tile of at most these sizes. */
static struct tile_size find_tile(bool is_wide, uint32_t rows, uint32_t columns)
{
    const struct tile_size *size = is_wide ? tile_sizes_wide : tile_sizes;
    while (size->columns > columns || size->rows > rows)
        size++;
    return *size;
}

/* Of the rows of one vector. */
static void add_products(const struct depthwise *depthwise, const struct strip *strip, float *sums)
{
    const uint32_t kernel_h = depthwise->layer->kernel_h, kernel_w = depthwise->layer->kernel_w;
    struct tile_size size = { 1, 1 };
    for (uint32_t column = 0; column < kernel_w; column += size.columns)
        for (uint32_t row = 0; row < kernel_h; row += size.rows) {
            size = find_tile(depthwise->is_wide, kernel_h - row, kernel_w - column);
            const struct tile tile = {
                .rows = size.rows, .columns = size.columns,
                .image = row * strip->image_row + column * depthwise->lanes,
                .sums = sums + ((size_t)row * kernel_w + column) * BLOCK, .sums_row = (size_t)kernel_w * BLOCK,
            };
            (depthwise->is_wide ? tile_add_wide : tile_add)(strip, &tile);
        }
}

/* Of all rows, some at a time. */
static void add_vector(const struct depthwise *depthwise, const struct strip *strip, float *sums)
{
    for (uint32_t row = 0; row < strip->rows; row += depthwise->cached_rows) {
        const uint32_t left = strip->rows - row;
        struct strip rows = *strip;
        rows.image += row * strip->row_step;
        rows.gradient += row * strip->gradient_row;
        rows.rows = left < depthwise->cached_rows ? left : depthwise->cached_rows;
        add_products(depthwise, &rows, sums);
    }
}

static void add_block(const struct depthwise *depthwise, const struct strip *strip, float *sums)
{
    struct strip right = *strip;
    right.image += strip->image_half;
    right.gradient += strip->gradient_half;
    add_vector(depthwise, strip, sums);
    if (!depthwise->is_wide && !strip->is_half)
        add_vector(depthwise, &right, sums + LANES);
}

VECTOR_LOOPS
static void add_bias(const struct strip *strip, float *sums)
{
    for (uint32_t y = 0; y < strip->rows; y++)
        for (uint32_t x = 0; x < strip->columns; x++)
            for (uint32_t c = 0; c < BLOCK; c++)
                sums[c] += strip->gradient[y * strip->gradient_row + x * strip->gradient_pixel +
                                           c / LANES * strip->gradient_half + c % LANES];
}

/* ---- strips ---- */

/* Rows of some channels of a value. */
struct rows {
    size_t at, step;            /* offset of the first pixel, distance between pixels */
    uint32_t rows, columns;
    size_t to_row, to_pixel, to_half;   /* floats in scratch from row to row, pixel to pixel, to the second LANES
                                         * channels */
};

ALWAYS_INLINE void copy_lanes(enum value_type type, const void *values, const struct rows *rows, size_t count,
                              float *to)
{
    size_t at = rows->at;
    lanes numbers;
    for (uint32_t y = 0; y < rows->rows; y++)
        for (uint32_t x = 0; x < rows->columns; x++, at += rows->step)
            for (size_t c = 0; c < count; c += LANES) {
                lanes_read(type, values, at + c, LANES, &numbers);
                LANES_STORE(to + y * rows->to_row + x * rows->to_pixel + c / LANES * rows->to_half, numbers, LANES);
            }
}

/* `count` channels that lie side by side: LANES or BLOCK. */
VECTOR_LOOPS
static void copy_adjacent(enum value_type type, const void *values, const struct rows *rows, size_t count, float *to)
{
    if (count == BLOCK)
        FOR_TYPE(type, copy_lanes, values, rows, BLOCK, to);
    else
        FOR_TYPE(type, copy_lanes, values, rows, LANES, to);
}

static void copy_channel(enum value_type type, const void *values, const struct rows *rows, float *to)
{
    size_t at = rows->at;
    for (uint32_t y = 0; y < rows->rows; y++)
        for (uint32_t x = 0; x < rows->columns; x++, at += rows->step)
            to[y * rows->to_row + x * rows->to_pixel] = value_read(type, values, at);
}

/* Copies the rows from `first` on of a block of channels of a sample. Channel c is channel c / copies of the value.
 * Missing channels are not written. */
static void copy_block(const struct tensor_layout *tensor, const void *values, size_t copies, size_t block,
                       uint32_t first, struct rows *rows, float *to)
{
    const size_t end = tensor->shape.channels * copies, pixel = (size_t)first * tensor->shape.width;
    const bool are_adjacent = copies == 1 && tensor->block >= LANES;
    size_t c = block * BLOCK;
    const size_t together = tensor->block >= BLOCK && c + BLOCK <= end ? BLOCK : LANES;
    rows->step = tensor_step(tensor);
    rows->columns = tensor->shape.width;
    for (; are_adjacent && c + together <= end && c < (block + 1) * BLOCK; c += together) {
        rows->at = tensor_at(tensor, c, pixel);
        copy_adjacent(tensor->type, values, rows, together, to + c % BLOCK / LANES * rows->to_half);
    }
    for (; c < end && c < (block + 1) * BLOCK; c++) {
        rows->at = tensor_at(tensor, c / copies, pixel);
        copy_channel(tensor->type, values, rows, to + c % BLOCK / LANES * rows->to_half + c % LANES);
    }
}

/* Floats in scratch from the first LANES channels of a block to the others: behind all rows of the first vector, or in
 * the same one. */
static size_t half_distance(const struct depthwise *depthwise, size_t block_floats)
{
    return depthwise->is_wide ? LANES : block_floats / 2;
}

/* Sets `count` rows to 0 in the image of each vector of the block. */
static void clear_rows(const struct depthwise *depthwise, size_t first, size_t count, float *image)
{
    const size_t row_floats = (size_t)depthwise->padded_w * depthwise->lanes;
    for (size_t at = 0; at < depthwise->image_floats; at += depthwise->image_floats * depthwise->lanes / BLOCK)
        memset(image + at + first * row_floats, 0, count * row_floats * sizeof(float));
}

/* Copies the rows of the image that `rows` rows of the result read, the first of them from row `top` on. Columns of
 * padding keep their zeros, and so do rows when every strip is a whole sample. */
static void copy_image(const struct depthwise *depthwise, const void *values, size_t block, int64_t top, uint32_t rows,
                       float *image)
{
    const struct layer *const layer = depthwise->layer;
    const size_t row_floats = (size_t)depthwise->padded_w * depthwise->lanes;
    const size_t copies = layer->out.channels / layer->in.channels;
    const int64_t height = layer->in.height, count = (int64_t)(rows - 1) * layer->stride_h + layer->kernel_h;
    const int64_t before = top < 0 ? -top : 0, after = top + count > height ? top + count - height : 0;
    if (depthwise->strip_rows < layer->out.height) {
        const int64_t last = after < count ? after : count;
        clear_rows(depthwise, 0, (size_t)(before < count ? before : count), image);
        clear_rows(depthwise, (size_t)(count - last), (size_t)last, image);
    }
    if (before + after >= count)
        return;
    struct rows inside = { .rows = (uint32_t)(count - before - after), .to_row = row_floats,
                           .to_pixel = depthwise->lanes,
                           .to_half = half_distance(depthwise, depthwise->image_floats) };
    copy_block(&depthwise->in, values, copies, block, (uint32_t)(top + before), &inside,
               image + (size_t)before * row_floats + (size_t)layer->pad_left * depthwise->lanes);
}

/* Finds the gradient of the strip where it is, if vectors can be read there. */
static bool find_gradient(const struct depthwise *depthwise, const void *gradients, size_t block, uint32_t first,
                          struct strip *strip)
{
    const struct tensor_layout *const out = &depthwise->out;
    const size_t channel = block * BLOCK, pixel = (size_t)first * out->shape.width;
    if (out->type != VALUE_FP32 || out->block < LANES || channel + BLOCK > out->shape.channels ||
        (depthwise->is_wide && out->block < BLOCK))
        return false;
    const size_t at = tensor_at(out, channel, pixel);
    strip->gradient = (const float *)gradients + at;
    strip->gradient_pixel = tensor_step(out);
    strip->gradient_row = out->shape.width * tensor_step(out);
    strip->gradient_half = tensor_at(out, channel + LANES, pixel) - at;
    return true;
}

static void copy_gradient(const struct depthwise *depthwise, const void *gradients, size_t block, uint32_t first,
                          struct strip *strip, float *to)
{
    const size_t floats = depthwise->strip_floats - depthwise->image_floats;
    struct rows rows = { .rows = strip->rows, .to_row = (size_t)strip->columns * depthwise->lanes,
                         .to_pixel = depthwise->lanes, .to_half = half_distance(depthwise, floats) };
    copy_block(&depthwise->out, gradients, 1, block, first, &rows, to);
    strip->gradient = to;
    strip->gradient_pixel = rows.to_pixel;
    strip->gradient_row = rows.to_row;
    strip->gradient_half = rows.to_half;
}

/* The strip of the result's rows from `first` on. */
static void add_strip(const struct depthwise *depthwise, const void *values, const void *gradients, size_t block,
                      uint32_t first, float *scratch, float *sums)
{
    const struct layer *const layer = depthwise->layer;
    const uint32_t left = layer->out.height - first;
    struct strip strip = {
        .image = scratch, .image_row = (size_t)depthwise->padded_w * depthwise->lanes,
        .image_half = half_distance(depthwise, depthwise->image_floats),
        .row_step = (size_t)layer->stride_h * depthwise->padded_w * depthwise->lanes,
        .column_step = (size_t)layer->stride_w * depthwise->lanes,
        .rows = left < depthwise->strip_rows ? left : depthwise->strip_rows, .columns = layer->out.width,
        .is_half = block * BLOCK + LANES >= layer->out.channels,
    };
    copy_image(depthwise, values, block, (int64_t)first * layer->stride_h - layer->pad_top, strip.rows, scratch);
    if (!find_gradient(depthwise, gradients, block, first, &strip))
        copy_gradient(depthwise, gradients, block, first, &strip, scratch + depthwise->image_floats);
    add_block(depthwise, &strip, sums);
    if (layer_has(layer, PARAMETER_BIAS))
        add_bias(&strip, sums + (size_t)layer->kernel_h * layer->kernel_w * BLOCK);
}

/* ---- the batch ---- */

struct depthwise_work { const struct depthwise *depthwise; const struct depthwise_operands *operands; };

/* An item is a part of a block: samples [count * part / parts, count * (part + 1) / parts). */
static void add_items(void *arg, uint32_t member, size_t begin, size_t end)
{
    const struct depthwise_work *const work = arg;
    const struct depthwise *const depthwise = work->depthwise;
    const struct depthwise_operands *const operands = work->operands;
    const struct tensor_layout *const in = &depthwise->in, *const out = &depthwise->out;
    float *const scratch = operands->scratch + member * depthwise->strip_floats;
    memset(scratch, 0, depthwise->strip_floats * sizeof(float));
    for (size_t item = begin; item < end; item++) {
        const size_t block = item / depthwise->parts, part = item % depthwise->parts;
        float *const sums = operands->sums + item * depthwise->sum_floats;
        memset(sums, 0, depthwise->sum_floats * sizeof(float));
        if (out->shape.channels < (block + 1) * BLOCK)  /* the last block has no other channels than its own */
            memset(scratch, 0, depthwise->strip_floats * sizeof(float));
        for (size_t i = operands->count * part / depthwise->parts;
             i < operands->count * (part + 1) / depthwise->parts; i++)
            for (uint32_t row = 0; row < depthwise->layer->out.height; row += depthwise->strip_rows)
                add_strip(depthwise, value_at(in->type, operands->values, i * tensor_count(in)),
                          value_at(out->type, operands->gradients, i * tensor_count(out)), block, row, scratch, sums);
    }
}

static void add_in_pairs(float *sums, size_t parts, size_t floats)
{
    for (size_t step = 1; step < parts; step *= 2)
        for (size_t i = 0; i + step < parts; i += 2 * step)
            for (size_t k = 0; k < floats; k++)
                sums[i * floats + k] += sums[(i + step) * floats + k];
}

static void store_channel(const struct depthwise *depthwise, const struct depthwise_operands *operands,
                          size_t channel, const float *sums)
{
    const struct layer *const layer = depthwise->layer;
    const size_t positions = (size_t)layer->kernel_h * layer->kernel_w;
    float *const weights = operands->weights + depthwise->channels[channel];
    for (size_t i = 0; i < positions; i++)
        weights[depthwise->positions[i]] =
            sums[i * BLOCK] + (operands->adds ? weights[depthwise->positions[i]] : 0.0f);
    if (operands->bias != NULL)
        operands->bias[channel] = sums[positions * BLOCK] + (operands->adds ? operands->bias[channel] : 0.0f);
}

static void store_blocks(void *arg, uint32_t member, size_t begin, size_t end)
{
    const struct depthwise_work *const work = arg;
    const struct depthwise *const depthwise = work->depthwise;
    const size_t channels = depthwise->layer->out.channels;
    (void)member;
    for (size_t block = begin; block < end; block++) {
        float *const sums = work->operands->sums + block * depthwise->parts * depthwise->sum_floats;
        add_in_pairs(sums, depthwise->parts, depthwise->sum_floats);
        for (size_t c = 0; c < BLOCK && block * BLOCK + c < channels; c++)
            store_channel(depthwise, work->operands, block * BLOCK + c, sums + c);
    }
}

void depthwise_compute(const struct depthwise *depthwise, const struct depthwise_operands *operands, uint32_t threads)
{
    struct depthwise_work work = { depthwise, operands };
    team_run(threads, depthwise->blocks * depthwise->parts, 1, add_items, &work);
    team_run(threads, depthwise->blocks, 1, store_blocks, &work);
}

/* ---- opening ---- */

static int find_offsets(struct depthwise *depthwise, nn_md stored)
{
    const struct layer *const layer = depthwise->layer;
    const uint32_t positions = layer->kernel_h * layer->kernel_w, copies = layer->out.channels / layer->in.channels;
    struct nn_layout layout;
    const int rc = nn_md_layout(stored, &layout);
    if (rc != 0)
        return rc;
    depthwise->channels = calloc(layer->out.channels, sizeof(*depthwise->channels));
    depthwise->positions = calloc(positions, sizeof(*depthwise->positions));
    if (depthwise->channels == NULL || depthwise->positions == NULL)
        return -ENOMEM;
    for (uint32_t c = 0; c < layer->out.channels; c++)
        depthwise->channels[c] = nn_layout_offset(&layout, 0, c / copies) + nn_layout_offset(&layout, 1, c % copies);
    for (uint32_t i = 0; i < positions; i++)
        depthwise->positions[i] = nn_layout_offset(&layout, layout.rank - 2, i / layer->kernel_w) +
                                  nn_layout_offset(&layout, layout.rank - 1, i % layer->kernel_w);
    return 0;
}

static size_t image_floats(const struct depthwise *depthwise, uint32_t rows)
{
    const struct layer *const layer = depthwise->layer;
    return ((size_t)(rows - 1) * layer->stride_h + layer->kernel_h) * depthwise->padded_w * BLOCK;
}

static size_t strip_floats(const struct depthwise *depthwise, uint32_t rows)
{
    return image_floats(depthwise, rows) + (size_t)rows * depthwise->layer->out.width * BLOCK;
}

int depthwise_open(const struct layer *layer, const struct tensor_layout *in, const struct tensor_layout *out,
                   size_t count_max, nn_md stored, struct depthwise **depthwise_out)
{
    struct depthwise *const depthwise = calloc(1, sizeof(*depthwise));
    if (depthwise == NULL)
        return -ENOMEM;
    *depthwise = (struct depthwise){
        .layer = layer, .in = *in, .out = *out, .is_wide = vector_is_wide(), .strip_rows = layer->out.height,
        .padded_w = layer->in.width + layer->pad_left + layer->pad_right,
        .lanes = vector_is_wide() ? LANES_WIDE : LANES,
        .blocks = (layer->out.channels + BLOCK - 1) / BLOCK,
        .sum_floats = ((size_t)layer->kernel_h * layer->kernel_w + 1) * BLOCK,
    };
    const size_t parts = ITEMS / depthwise->blocks;
    depthwise->parts = parts > count_max ? count_max : parts > 0 ? parts : 1;
    while (depthwise->strip_rows > 1 && strip_floats(depthwise, depthwise->strip_rows) > STRIP_FLOATS)
        depthwise->strip_rows = (depthwise->strip_rows + 1) / 2;
    const struct tile_size tile = find_tile(depthwise->is_wide, layer->kernel_h, layer->kernel_w);
    const bool is_one_tile = tile.rows == layer->kernel_h && tile.columns == layer->kernel_w;
    depthwise->cached_rows = depthwise->strip_rows;
    while (!is_one_tile && depthwise->cached_rows > 1 &&
           strip_floats(depthwise, depthwise->cached_rows) * depthwise->lanes / BLOCK > CACHED_FLOATS)
        depthwise->cached_rows--;
    depthwise->image_floats = image_floats(depthwise, depthwise->strip_rows);
    depthwise->strip_floats = strip_floats(depthwise, depthwise->strip_rows);
    const int rc = find_offsets(depthwise, stored);
    if (rc == 0)
        *depthwise_out = depthwise;
    else
        depthwise_close(depthwise);
    return rc;
}

void depthwise_close(struct depthwise *depthwise)
{
    if (depthwise == NULL)
        return;
    free(depthwise->channels);
    free(depthwise->positions);
    free(depthwise);
}

size_t depthwise_scratch_bytes(const struct depthwise *depthwise, uint32_t threads)
{
    return threads * depthwise->strip_floats * sizeof(float);
}

size_t depthwise_sum_bytes(const struct depthwise *depthwise)
{
    return depthwise->blocks * depthwise->parts * depthwise->sum_floats * sizeof(float);
}
