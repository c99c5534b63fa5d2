/* Tests of how the records of a shard are shared out among threads: here one thread plays all of them. */
#include <stdbool.h>

#include "stage/stop.h"
#include "tests/helpers/test.h"
#include "tools/convert/chunk_board.h"

#define THREADS 2u
#define CHUNKS_MAX 4u           /* of two threads */

static struct chunk_board board;
static struct stop *stop;
static atomic_bool interrupted;

static int open_board(void **state)
{
    (void)state;
    atomic_store(&interrupted, false);
    return stop_open(&stop) == 0 ? chunk_board_init(&board, THREADS, stop, &interrupted) : -1;
}

static int close_board(void **state)
{
    (void)state;
    chunk_board_release(&board);
    stop_close(stop);
    return 0;
}

static struct board_chunk *next_to_make(void)
{
    struct board_chunk *const chunk = chunk_board_next(&board, &board.lines[0]);
    assert_non_null(chunk);
    assert_false(chunk->is_made);
    return chunk;
}

static void expect_next_to_write(const struct board_chunk *chunk)
{
    struct board_chunk *const next = chunk_board_next(&board, &board.lines[0]);
    assert_ptr_equal(next, chunk);
    assert_true(next->is_made);
    chunk_board_written(&board, next);
}

TEST_WITH(others_make_chunks_ahead_and_they_are_written_in_their_order, open_board, close_board)
{
    struct shard_file file = { .record_count = 8 };
    chunk_board_open(&board, &board.lines[0], &file, 3);
    struct board_chunk *const first = chunk_board_help(&board), *const second = chunk_board_help(&board);
    struct board_chunk *const third = next_to_make();
    assert_int_equal(first->first, 0);
    assert_int_equal(second->first, 3);
    assert_int_equal(third->first, 6);
    assert_int_equal(third->count, 2);
    chunk_board_made(&board, third);
    chunk_board_made(&board, second);
    chunk_board_made(&board, first);
    expect_next_to_write(first);
    expect_next_to_write(second);
    expect_next_to_write(third);
    assert_null(chunk_board_next(&board, &board.lines[0]));
    chunk_board_close(&board, &board.lines[0]);
}

TEST_WITH(no_more_chunks_are_about_than_the_pool_has, open_board, close_board)
{
    struct shard_file file = { .record_count = 100 };
    struct board_chunk *chunks[CHUNKS_MAX];
    chunk_board_open(&board, &board.lines[0], &file, 1);
    for (uint64_t i = 0; i < CHUNKS_MAX; i++)
        chunks[i] = chunk_board_help(&board);
    assert_null(board.free);
    chunk_board_made(&board, chunks[0]);
    expect_next_to_write(chunks[0]);
    assert_ptr_equal(next_to_make(), chunks[0]);
    assert_int_equal(chunks[0]->first, CHUNKS_MAX);
}

TEST_WITH(who_helps_helps_the_line_that_is_least_ahead, open_board, close_board)
{
    struct shard_file files[THREADS] = { { .record_count = 100 }, { .record_count = 100 } };
    for (size_t i = 0; i < THREADS; i++)
        chunk_board_open(&board, &board.lines[i], &files[i], 10);
    assert_ptr_equal(chunk_board_help(&board)->line, &board.lines[0]);
    assert_ptr_equal(chunk_board_help(&board)->line, &board.lines[1]);
    assert_ptr_equal(chunk_board_help(&board)->line, &board.lines[0]);
}

TEST_WITH(nobody_waits_when_no_thread_writes_or_the_work_is_given_up, open_board, close_board)
{
    struct shard_file file = { .record_count = 100 };
    chunk_board_open(&board, &board.lines[0], &file, 10);
    atomic_store(&interrupted, true);
    assert_null(chunk_board_next(&board, &board.lines[0]));
    assert_null(chunk_board_help(&board));
    atomic_store(&interrupted, false);
    chunk_board_close(&board, &board.lines[0]);
    chunk_board_retire(&board);
    chunk_board_retire(&board);
    assert_null(chunk_board_help(&board));
}

TESTS_MAIN(NULL, NULL)
