/* Distributes the making of records over the threads that write shards. A thread that writes a shard splits its
 * records into chunks; threads without a shard make chunks for the others. Chunks come from a pool of fixed size, so
 * memory does not depend on the set, and are written in order, so the bytes do not depend on which thread made what.
 * */
#ifndef PIPETRAIN_CHUNK_BOARD_H
#define PIPETRAIN_CHUNK_BOARD_H

#include <pthread.h>
#include <stdatomic.h>

#include "tools/convert/block.h"
#include "tools/convert/shard_set.h"

struct chunk_line;

/* Consecutive records of a shard. The thread that makes the chunk writes the fields after `count`. */
struct board_chunk {
    struct board_chunk *next;           /* in the list of free chunks */
    struct chunk_line *line;
    uint64_t first, count;              /* records, by position in the shard */
    bool is_made;                       /* under the board's lock */
    struct block frames;                /* concatenated */
    size_t bytes;
    struct image_tally images;
};

/* A shard that is being written. Under the board's lock, except `file`. */
struct chunk_line {
    struct shard_file *file;            /* NULL: no shard now */
    uint64_t chunk_records, chunks, taken, written;
    struct board_chunk **ring;          /* chunks taken and not yet written, at their number modulo the pool's size */
};

struct chunk_board {
    pthread_mutex_t lock;
    pthread_cond_t change;
    struct board_chunk *pool, *free;
    struct chunk_line *lines;           /* one per thread */
    struct board_chunk **rings;
    size_t line_count, pool_count;
    size_t writers;                     /* threads that may still open a shard */
    const struct stop *stop;
    const atomic_bool *interrupted;
};

/* For `threads` threads, all of which begin as writers. 0 or -ENOMEM; chunk_board_release in both cases. */
int chunk_board_init(struct chunk_board *board, size_t threads, const struct stop *stop,
                     const atomic_bool *interrupted);
void chunk_board_release(struct chunk_board *board);
/* True once the set has failed or was interrupted. */
bool chunk_board_is_over(const struct chunk_board *board);

/* A writer begins a shard, in chunks of `chunk_records`; and ends it. */
void chunk_board_open(struct chunk_board *board, struct chunk_line *line, struct shard_file *file,
                      uint64_t chunk_records);
void chunk_board_close(struct chunk_board *board, struct chunk_line *line);
/* The next chunk for the writer of a line: one to make, or a finished one that is the next to be written. NULL when
 * all are written or the board is over. Waits for chunks that other threads make. */
struct board_chunk *chunk_board_next(struct chunk_board *board, struct chunk_line *line);
/* The thread will not open a shard any more. */
void chunk_board_retire(struct chunk_board *board);
/* A chunk to make for any writer. Waits for one; NULL once there will be none. */
struct board_chunk *chunk_board_help(struct chunk_board *board);
/* The chunk has been made (or the set has failed); the chunk has been written. */
void chunk_board_made(struct chunk_board *board, struct board_chunk *chunk);
void chunk_board_written(struct chunk_board *board, struct board_chunk *chunk);

#endif
