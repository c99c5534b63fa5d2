/* Many reads at once: the same bytes as reads one by one, and the same errors. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "loader/shards/read_batch.h"
#include "stage/random.h"
#include "tests/helpers/memory_source.h"
#include "tests/helpers/test.h"
#include "tests/helpers/tfrecord_fixture.h"

enum { FILES = 40, FILE_BYTES = 20000, REQUESTS = 600, BYTES_MOST = 3000 };

static char paths[FILES][320];
static uint8_t contents[FILES][FILE_BYTES];
static uint8_t buffers[REQUESTS][BYTES_MOST];

static int make_files(void **state)
{
    assert_int_equal(fixture_folder_make(state), 0);
    const struct random_key key = random_key(1, RANDOM_DRAW, 0);
    for (int i = 0; i < FILES; i++) {
        for (int j = 0; j < FILE_BYTES; j++)
            contents[i][j] = (uint8_t)random_u64(key, (uint64_t)i * FILE_BYTES + (uint64_t)j);
        snprintf(paths[i], sizeof(paths[i]), "%s/%d", folder, i);
        fixture_write(paths[i], contents[i], FILE_BYTES);
    }
    return 0;
}

static void open_sources(struct shard_source *sources[FILES])
{
    for (int i = 0; i < FILES; i++)
        assert_int_equal(shard_source_open(&sources[i], NULL, paths[i]), 0);
}

static void close_sources(struct shard_source *sources[FILES])
{
    for (int i = 0; i < FILES; i++)
        shard_source_close(sources[i]);
}

/* The file of request `i`; its place there, which may be beyond the end of the file. */
static struct read_request request_of(struct shard_source *const sources[FILES], uint32_t i)
{
    const struct random_key key = random_key(2, RANDOM_DRAW, i);
    return (struct read_request){
        .source = sources[random_u64(key, 0) % FILES],
        .buffer = buffers[i],
        .bytes = 1 + random_u64(key, 1) % BYTES_MOST,
        .offset = random_u64(key, 2) % (FILE_BYTES + 100),
    };
}

static void assert_read(struct shard_source *const sources[FILES], const struct read_request *request)
{
    int file = 0;
    while (sources[file] != request->source)
        file++;
    const uint64_t there = request->offset < FILE_BYTES ? FILE_BYTES - request->offset : 0;
    const size_t expected = there < request->bytes ? (size_t)there : request->bytes;
    assert_int_equal(request->got, expected);
    if (expected > 0)
        assert_memory_equal(request->buffer, contents[file] + request->offset, expected);
}

static void run_and_check(struct read_batch *batch, struct shard_source *const sources[FILES], uint32_t count)
{
    struct read_request *requests[REQUESTS];
    memset(buffers, 0xee, sizeof(buffers));
    for (uint32_t i = 0; i < count; i++) {
        const struct read_request request = request_of(sources, i);
        requests[i] = read_batch_add(batch, &request);
    }
    read_batch_run(batch);
    for (uint32_t i = 0; i < count; i++)
        assert_read(sources, requests[i]);
}

TEST(any_number_of_requests_gives_what_the_files_hold)
{
    static const uint32_t counts[] = { 0, 1, 2, 3, 64, 255, 256, 257, REQUESTS };
    struct shard_source *sources[FILES];
    struct read_batch *batch;
    open_sources(sources);
    assert_int_equal(read_batch_open(&batch, REQUESTS), 0);
    for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++)
        run_and_check(batch, sources, counts[i]);
    read_batch_close(batch);
    close_sources(sources);
}

/* In a process of its own: far fewer descriptors than files. */
TEST(files_that_are_not_open_are_read_all_the_same)
{
    const pid_t child = fork();
    if (child == 0) {
        const struct rlimit few = { 40, 40 };
        struct shard_source *sources[FILES];
        struct read_batch *batch;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
        open_sources(sources);
        assert_int_equal(read_batch_open(&batch, REQUESTS), 0);
        for (int i = 0; i < 3; i++)
            run_and_check(batch, sources, REQUESTS);
        read_batch_close(batch);
        close_sources(sources);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* One that gives little at a time, and fails at one place. */
TEST(a_source_without_a_file_is_read_by_itself)
{
    struct memory_shard shard = {
        .name = "0", .data = contents[3], .bytes = FILE_BYTES, .piece = 100, .bad_offset = 10000, .error = -EIO };
    struct shard_source *source;
    struct read_batch *batch;
    memory_source_set(&shard, 1);
    assert_int_equal(shard_source_open(&source, &memory_source_ops, paths[0]), 0);
    assert_int_equal(read_batch_open(&batch, 3), 0);
    const struct read_request whole = { .source = source, .buffer = buffers[0], .bytes = BYTES_MOST, .offset = 7 };
    const struct read_request bad = { .source = source, .buffer = buffers[1], .bytes = BYTES_MOST, .offset = 9000 };
    const struct read_request behind = { .source = source, .buffer = buffers[2], .bytes = 5, .offset = FILE_BYTES };
    const struct read_request *const first = read_batch_add(batch, &whole);
    const struct read_request *const second = read_batch_add(batch, &bad), *const last = read_batch_add(batch, &behind);
    read_batch_run(batch);
    assert_int_equal(first->got, BYTES_MOST);
    assert_memory_equal(buffers[0], contents[3] + 7, BYTES_MOST);
    assert_int_equal(second->got, -EIO);
    assert_int_equal(last->got, 0);
    read_batch_close(batch);
    shard_source_close(source);
}

TESTS_MAIN(make_files, fixture_folder_remove)
