/* How the blocks of a normalisation's pass share the rows of a matrix: used by kernels_norm.cu, and without a device by
 * tests and to count partial sums.
 *
 * The blocks go over the matrix side by side: in each turn a block takes one slab of adjacent rows, and the slabs that
 * all blocks take in one turn are adjacent, too. So at any time the pass reads a window of a few megabytes, which moves
 * from one end of the matrix to the other, and leaves the end that it reaches last in the device's cache. A pass that
 * begins there finds it: the first pass of a normalisation (statistics, sums of gradients) goes backwards, because
 * the layers before it write forwards, and the second one forwards. */
#ifndef PIPETRAIN_SWEEP_H
#define PIPETRAIN_SWEEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __CUDACC__
#define SWEEP_RULE static __host__ __device__ inline
#else
#define SWEEP_RULE static inline
#endif

#define SWEEP_THREADS 256u      /* of a block */
#define SWEEP_GROUP 8u          /* adjacent columns of a thread */
#define SWEEP_ROWS 4u           /* rows of a slab per thread */
#define SWEEP_WIDTH_MAX 32u     /* a warp reads 512 adjacent bytes of a 16-bit type */

/* Blocks of a pass that sums, for all columns together: few enough that all of them run side by side (four on each of
 * an A100's 108 multiprocessors), and with 64 bytes per thread in flight they still hide a latency of 700 ns at
 * 9 TB/s. */
#define SWEEP_BLOCKS 384u
#define SWEEP_CHUNKS_MAX 65535u /* of a grid */

/* Depends on the shape alone, so that sums are the same on all devices. */
struct sweep {
    uint32_t groups;            /* groups of eight columns */
    uint32_t width, width_bits; /* a block has `width` groups, a power of two */
    uint32_t tiles;             /* blocks along the columns */
    uint32_t slab_rows;
    uint32_t slabs;             /* the last one may have fewer rows */
    uint32_t chunks;            /* blocks along the rows */
    size_t rows;
    bool backwards;
};

/* A pass with one slab for every block and turn, as many blocks as there are slabs. Rows: less than 2^32. */
SWEEP_RULE struct sweep sweep_forwards(size_t rows, uint32_t columns)
{
    struct sweep sweep = { columns / SWEEP_GROUP, 1, 0, 0, 0, 0, 0, rows, false };
    while (sweep.width < SWEEP_WIDTH_MAX && sweep.width < sweep.groups) {
        sweep.width *= 2;
        sweep.width_bits++;
    }
    sweep.tiles = (sweep.groups + sweep.width - 1) / sweep.width;
    sweep.slab_rows = SWEEP_ROWS * (SWEEP_THREADS >> sweep.width_bits);
    sweep.slabs = (uint32_t)((rows + sweep.slab_rows - 1) / sweep.slab_rows);
    sweep.chunks = sweep.slabs < SWEEP_CHUNKS_MAX ? sweep.slabs : SWEEP_CHUNKS_MAX;
    return sweep;
}

/* A pass that sums the rows of each block: a chunk. */
SWEEP_RULE struct sweep sweep_backwards(size_t rows, uint32_t columns)
{
    struct sweep sweep = sweep_forwards(rows, columns);
    const uint32_t wanted = sweep.tiles > 0 ? (SWEEP_BLOCKS + sweep.tiles - 1) / sweep.tiles : 0;
    sweep.chunks = sweep.slabs < wanted ? sweep.slabs : wanted;
    sweep.backwards = true;
    return sweep;
}

/* The first row of the slab that is visited as number `visit`: block `chunk` visits the numbers chunk, chunk + chunks,
 * chunk + 2 * chunks ... below `slabs`. */
SWEEP_RULE size_t sweep_row(const struct sweep *sweep, uint32_t visit)
{
    return (size_t)(sweep->backwards ? sweep->slabs - 1 - visit : visit) * sweep->slab_rows;
}

/* The rows of a block in all its slabs. */
SWEEP_RULE size_t sweep_chunk_rows(const struct sweep *sweep, uint32_t chunk)
{
    const uint32_t slabs = (sweep->slabs - 1 - chunk) / sweep->chunks + 1;
    const uint32_t owner = sweep->backwards ? 0 : (sweep->slabs - 1) % sweep->chunks;      /* of the last slab */
    const size_t missing = (size_t)sweep->slabs * sweep->slab_rows - sweep->rows;
    return (size_t)slabs * sweep->slab_rows - (chunk == owner ? missing : 0);
}

#endif
