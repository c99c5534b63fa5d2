/* Chunks handed out and taken back. Called by all writing threads; waits are for chunks that another thread makes or
 * writes, which it does or the set fails.
 *
 * A thread that finds no free chunk waits for one to be written. Chunks of a line are taken in its order, so that a
 * line that holds any holds the one that is written next: somebody always goes on. */
#include "tools/convert/writing/chunk_board.h"

#include <errno.h>
#include <stdlib.h>

/* Of each thread: one it makes, one that waits to be written. */
#define CHUNKS_EACH 2u

int chunk_board_init(struct chunk_board *board, size_t threads, const struct stop *stop,
                     const atomic_bool *interrupted)
{
    const size_t pool_count = CHUNKS_EACH * threads;
    *board = (struct chunk_board){
        .line_count = threads, .pool_count = pool_count, .writers = threads, .stop = stop, .interrupted = interrupted,
        .pool = calloc(pool_count, sizeof(*board->pool)), .lines = calloc(threads, sizeof(*board->lines)),
        .rings = calloc(threads, pool_count * sizeof(*board->rings)),
    };
    pthread_mutex_init(&board->lock, NULL);
    pthread_cond_init(&board->change, NULL);
    if (board->pool == NULL || board->lines == NULL || board->rings == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < pool_count; i++) {
        board->pool[i].next = board->free;
        board->free = &board->pool[i];
    }
    for (size_t i = 0; i < threads; i++)
        board->lines[i].ring = board->rings + i * pool_count;
    return 0;
}

void chunk_board_release(struct chunk_board *board)
{
    for (size_t i = 0; board->pool != NULL && i < board->pool_count; i++)
        block_release(&board->pool[i].frames);
    free(board->pool);
    free(board->lines);
    free(board->rings);
    pthread_cond_destroy(&board->change);
    pthread_mutex_destroy(&board->lock);
}

bool chunk_board_is_over(const struct chunk_board *board)
{
    return stop_failed(board->stop) || atomic_load(board->interrupted);
}

void chunk_board_open(struct chunk_board *board, struct chunk_line *line, struct shard_file *file,
                      uint64_t chunk_records)
{
    pthread_mutex_lock(&board->lock);
    line->file = file;
    line->chunk_records = chunk_records;
    line->chunks = file->record_count / chunk_records + (file->record_count % chunk_records > 0);
    line->taken = line->written = 0;
    pthread_cond_broadcast(&board->change);
    pthread_mutex_unlock(&board->lock);
}

void chunk_board_close(struct chunk_board *board, struct chunk_line *line)
{
    pthread_mutex_lock(&board->lock);
    line->file = NULL;
    pthread_mutex_unlock(&board->lock);
}

/* The next chunk of the line that nobody has, NULL when there is none or no room for it. */
static struct chunk *take_locked(struct chunk_board *board, struct chunk_line *line)
{
    struct chunk *const chunk = board->free;

    if (chunk == NULL || line->file == NULL || line->taken == line->chunks)
        return NULL;
    board->free = chunk->next;
    const uint64_t first = line->taken * line->chunk_records, left = line->file->record_count - first;
    chunk->line = line;
    chunk->first = first;
    chunk->count = left < line->chunk_records ? left : line->chunk_records;
    chunk->is_made = false;
    line->ring[line->taken++ % board->pool_count] = chunk;
    return chunk;
}

/* The chunk that is written next where it is made, else one to make. */
static struct chunk *next_locked(struct chunk_board *board, struct chunk_line *line)
{
    struct chunk *const chunk = line->ring[line->written % board->pool_count];

    return line->written < line->taken && chunk->is_made ? chunk : take_locked(board, line);
}

struct chunk *chunk_board_next(struct chunk_board *board, struct chunk_line *line)
{
    struct chunk *chunk = NULL;

    pthread_mutex_lock(&board->lock);
    while (!chunk_board_is_over(board) && line->written < line->chunks &&
           (chunk = next_locked(board, line)) == NULL)
        pthread_cond_wait(&board->change, &board->lock);
    pthread_mutex_unlock(&board->lock);
    return chunk;
}

void chunk_board_retire(struct chunk_board *board)
{
    pthread_mutex_lock(&board->lock);
    board->writers--;
    pthread_cond_broadcast(&board->change);
    pthread_mutex_unlock(&board->lock);
}

/* One of the line that is least far ahead. */
static struct chunk *help_locked(struct chunk_board *board)
{
    struct chunk_line *neediest = NULL;

    for (size_t i = 0; i < board->line_count; i++) {
        struct chunk_line *const line = &board->lines[i];
        if (line->file != NULL && line->taken < line->chunks &&
            (neediest == NULL || line->taken - line->written < neediest->taken - neediest->written))
            neediest = line;
    }
    return neediest != NULL ? take_locked(board, neediest) : NULL;
}

struct chunk *chunk_board_help(struct chunk_board *board)
{
    struct chunk *chunk = NULL;

    pthread_mutex_lock(&board->lock);
    while (!chunk_board_is_over(board) && (chunk = help_locked(board)) == NULL && board->writers > 0)
        pthread_cond_wait(&board->change, &board->lock);
    pthread_mutex_unlock(&board->lock);
    return chunk;
}

void chunk_board_made(struct chunk_board *board, struct chunk *chunk)
{
    pthread_mutex_lock(&board->lock);
    chunk->is_made = true;
    pthread_cond_broadcast(&board->change);
    pthread_mutex_unlock(&board->lock);
}

void chunk_board_written(struct chunk_board *board, struct chunk *chunk)
{
    pthread_mutex_lock(&board->lock);
    chunk->line->written++;
    chunk->next = board->free;
    board->free = chunk;
    pthread_cond_broadcast(&board->change);
    pthread_mutex_unlock(&board->lock);
}
