/* Handing out chunks. Called by all writing threads. Every wait is for a chunk that another thread makes or writes; if
 * that fails, the set has failed and all waits end.
 *
 * No deadlock: a thread that finds no free chunk waits until one is written. The chunks of a line are taken in order,
 * so a line that has any has the one to be written next, and its writer can continue. */
#include "tools/convert/chunk_board.h"

#include <errno.h>
#include <stdlib.h>

/* Per thread: one being made, one waiting to be written. */
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

/* The next chunk of the line that no thread has taken; NULL: there is none, or no free memory for it. */
static struct board_chunk *take_locked(struct chunk_board *board, struct chunk_line *line)
{
    struct board_chunk *const chunk = board->free;

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

/* The chunk to be written next, if it has been made; else one to make. */
static struct board_chunk *next_locked(struct chunk_board *board, struct chunk_line *line)
{
    struct board_chunk *const chunk = line->ring[line->written % board->pool_count];

    return line->written < line->taken && chunk->is_made ? chunk : take_locked(board, line);
}

struct board_chunk *chunk_board_next(struct chunk_board *board, struct chunk_line *line)
{
    struct board_chunk *chunk = NULL;

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

/* A chunk of the line with the fewest chunks ahead. */
static struct board_chunk *help_locked(struct chunk_board *board)
{
    struct chunk_line *shortest = NULL;

    for (size_t i = 0; i < board->line_count; i++) {
        struct chunk_line *const line = &board->lines[i];
        if (line->file != NULL && line->taken < line->chunks &&
            (shortest == NULL || line->taken - line->written < shortest->taken - shortest->written))
            shortest = line;
    }
    return shortest != NULL ? take_locked(board, shortest) : NULL;
}

struct board_chunk *chunk_board_help(struct chunk_board *board)
{
    struct board_chunk *chunk = NULL;

    pthread_mutex_lock(&board->lock);
    while (!chunk_board_is_over(board) && (chunk = help_locked(board)) == NULL && board->writers > 0)
        pthread_cond_wait(&board->change, &board->lock);
    pthread_mutex_unlock(&board->lock);
    return chunk;
}

void chunk_board_made(struct chunk_board *board, struct board_chunk *chunk)
{
    pthread_mutex_lock(&board->lock);
    chunk->is_made = true;
    pthread_cond_broadcast(&board->change);
    pthread_mutex_unlock(&board->lock);
}

void chunk_board_written(struct chunk_board *board, struct board_chunk *chunk)
{
    pthread_mutex_lock(&board->lock);
    chunk->line->written++;
    chunk->next = board->free;
    board->free = chunk;
    pthread_cond_broadcast(&board->change);
    pthread_mutex_unlock(&board->lock);
}
