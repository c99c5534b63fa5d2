/* Who makes which records of the shards that are being written. A thread that writes a shard takes its records in
 * chunks; threads without a shard of their own make chunks ahead for those that have one. Chunks come out of a pool of
 * fixed size, so that memory does not depend on the set, and are written in their order, so that bytes do not depend on
 * who made what. */
#ifndef PIPETRAIN_CHUNK_BOARD_H
#define PIPETRAIN_CHUNK_BOARD_H

#include <pthread.h>
#include <stdatomic.h>

#include "tools/convert/shard_set.h"
#include "tools/convert/writing/block.h"

struct chunk_line;

/* Consecutive records of a shard. Whoever took it writes what follows `count`. */
struct chunk {
    struct chunk *next;                 /* that is free, too */
    struct chunk_line *line;
    uint64_t first, count;              /* records, by their place in the shard */
    bool is_made;                       /* under the board's lock */
    struct block frames;                /* one behind the other */
    size_t bytes;
    struct image_tally images;
};

/* A shard being written. Under the board's lock, but for `file`. */
struct chunk_line {
    struct shard_file *file;            /* NULL: nobody writes here now */
    uint64_t chunk_records, chunks, taken, written;
    struct chunk **ring;                /* of chunks taken, not written: at their numbers modulo the pool's size */
};

struct chunk_board {
    pthread_mutex_t lock;
    pthread_cond_t change;
    struct chunk *pool, *free;
    struct chunk_line *lines;           /* of each thread */
    struct chunk **rings;
    size_t line_count, pool_count;
    size_t writers;                     /* threads that may still open a line */
    const struct stop *stop;
    const atomic_bool *interrupted;
};

/* For so many threads, all of which begin as writers. 0 or -ENOMEM; chunk_board_release in both cases. */
int chunk_board_init(struct chunk_board *board, size_t threads, const struct stop *stop,
                     const atomic_bool *interrupted);
void chunk_board_release(struct chunk_board *board);
/* True when the work is to be given up. */
bool chunk_board_is_over(const struct chunk_board *board);

/* A writer begins a shard in its line, of chunks of so many records; it ends it. */
void chunk_board_open(struct chunk_board *board, struct chunk_line *line, struct shard_file *file,
                      uint64_t chunk_records);
void chunk_board_close(struct chunk_board *board, struct chunk_line *line);
/* The next thing to do for the writer of a line: a chunk to be made, or one that is made and next to be written. NULL
 * when all are written or the work is to be given up. Waits for chunks that others make. */
struct chunk *chunk_board_next(struct chunk_board *board, struct chunk_line *line);
/* The writer will open no line any more. */
void chunk_board_retire(struct chunk_board *board);
/* A chunk of anybody's to be made. Waits for one; NULL when there will be none. */
struct chunk *chunk_board_help(struct chunk_board *board);
/* The chunk is made, or cannot be and the set has failed; the chunk that came next is written. */
void chunk_board_made(struct chunk_board *board, struct chunk *chunk);
void chunk_board_written(struct chunk_board *board, struct chunk *chunk);

#endif
