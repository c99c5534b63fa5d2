/* Blocks over rows of columns, for kernels that sum columns or do the same to all numbers of one:
 * who owns what, and the sums of a block. */
#ifndef PIPETRAIN_KERNEL_COLUMNS_CUH
#define PIPETRAIN_KERNEL_COLUMNS_CUH

#include "compute/cuda/kernel_types.cuh"

#define CHUNKS_MAX 512u
#define BLOCKS_WANTED 1024u     /* fill the largest device once */
#define ROWS_LEAST 4u           /* a thread's share below which more blocks cost more than they give */

/* A block sums `rows` rows of width * 8 columns: width threads along the columns, THREADS /
 * width (a power of two) along the rows. Depends on the shape alone, so that sums do not
 * differ between devices. */
struct tiling {
    uint32_t groups;            /* of eight columns, in all */
    uint32_t width;
    size_t tiles, chunks, rows; /* blocks along the columns; blocks along the rows, rows of each */
};

static inline struct tiling tiling_of(size_t rows, uint32_t columns)
{
    struct tiling tiling = { columns / GROUP, 1, 0, 0, 0 };
    while (tiling.width < WARP && tiling.width < tiling.groups)
        tiling.width *= 2;
    tiling.tiles = pieces(tiling.groups, tiling.width);
    if (rows == 0 || tiling.tiles == 0)
        return tiling;
    const size_t wanted = pieces(BLOCKS_WANTED, tiling.tiles) < CHUNKS_MAX ? pieces(BLOCKS_WANTED, tiling.tiles)
                                                                           : CHUNKS_MAX;
    const size_t least = ROWS_LEAST * (THREADS / tiling.width);
    tiling.rows = pieces(rows, wanted) > least ? pieces(rows, wanted) : least;
    tiling.chunks = pieces(rows, tiling.rows);
    return tiling;
}

/* For kernels that sum nothing: as many blocks as give every thread a few rows. */
static inline struct tiling fine_tiling_of(size_t rows, uint32_t columns)
{
    struct tiling tiling = tiling_of(rows, columns);
    const size_t least = ROWS_LEAST * (THREADS / tiling.width), most = pieces(rows, UINT16_MAX);
    tiling.rows = least > most ? least : most;
    tiling.chunks = pieces(rows, tiling.rows);
    return tiling;
}

/* What a thread owns of a matrix: eight columns of every `step`-th row from first to last. */
struct share {
    uint32_t group, groups;
    size_t first, last, step;
    __device__ size_t offset(size_t row) const { return (row * groups + group) * GROUP; }
    /* In a matrix whose rows are `stride` numbers apart. */
    __device__ size_t offset(size_t row, uint32_t stride) const { return row * stride + group * GROUP; }
    /* Where its block keeps the `number`-th of two sums. */
    __device__ size_t partial(uint32_t number) const
    {
        return (((size_t)blockIdx.y * 2 + number) * groups + group) * GROUP;
    }
};

static __device__ inline share share_of(const tiling &tiling, size_t rows)
{
    const uint32_t group = blockIdx.x * tiling.width + threadIdx.x % tiling.width;
    const size_t first = blockIdx.y * tiling.rows, last = first + tiling.rows < rows ? first + tiling.rows : rows;
    return share{ group, tiling.groups, first + threadIdx.x / tiling.width, group < tiling.groups ? last : 0,
                  THREADS / tiling.width };
}

/* Of the threads whose numbers are the same modulo `width`, a power of two, the first gets
 * the sum, in each of `count` rows. */
static __device__ inline void sum_lanes(float (*sums)[THREADS], uint32_t count, uint32_t width)
{
    for (uint32_t step = THREADS / 2; step >= width; step /= 2) {
        __syncthreads();
        if (threadIdx.x < step)
            for (uint32_t k = 0; k < count; k++)
                sums[k][threadIdx.x] += sums[k][threadIdx.x + step];
    }
}

#endif
