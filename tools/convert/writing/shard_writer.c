/* The writing threads of the converters. Each thread takes the next file of the set, writes it from the first record to
 * the last, syncs it and reads it back. Threads that find no file any more make records for the others. */
#include "tools/convert/writing/shard_writer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "formats/tfrecord.h"
#include "stage/thread.h"
#include "tools/convert/progress.h"
#include "tools/convert/sample_order.h"
#include "tools/convert/writing/chunk_board.h"
#include "tools/convert/writing/read_back.h"
#include "tools/convert/writing/record_maker.h"
#include "tools/convert/writing/shard_sink.h"

#define JOBS_MAX 1024u
/* A chunk of records: little enough to keep some for every thread, enough to be worth its handing over. */
#define CHUNK_BYTES ((uint64_t)256 << 10)
#define CHUNK_RECORDS_MAX UINT64_C(64)

/* Shared by the threads; all but progress, board and the counters is constant while they run. */
struct work {
    struct shard_set *set;
    const struct shard_writer_options *options;
    uint64_t **orders;          /* per source: the sample at each position */
    struct progress progress;   /* every record counts when it is written and when it is read back */
    struct chunk_board board;
    atomic_size_t next_file, next_line;
};

/* What one thread has at hand. */
struct desk {
    struct work *work;
    struct chunk_line *line;
    struct record_maker maker;
    struct shard_sink sink;
};

static int add_frame(struct desk *desk, struct chunk *chunk, uint64_t index)
{
    const struct shard_set *const set = desk->work->set;
    const uint8_t *payload;
    size_t bytes;

    const int rc = record_maker_payload(&desk->maker, chunk->line->file->source, index, &payload, &bytes);
    if (rc < 0)
        return rc;
    if (block_reserve(&chunk->frames, chunk->bytes + bytes + TFRECORD_FRAME_BYTES) < 0) {
        stop_fail(set->stop, EXIT_CODE_MEMORY, "no memory to make records");
        return -ENOMEM;
    }
    uint8_t *const frame = chunk->frames.bytes + chunk->bytes, *const body = frame + TFRECORD_HEADER_BYTES;
    if (bytes > 0)
        memcpy(body, payload, bytes);
    tfrecord_write_header(bytes, frame);
    tfrecord_write_footer(body, bytes, body + bytes);
    const char *const flaw = image_tally_add(&chunk->images, set->spec.image_key, body, bytes);
    if (flaw != NULL)
        record_maker_tell(&desk->maker, chunk->line->file->source, index, flaw);
    chunk->bytes += bytes + TFRECORD_FRAME_BYTES;
    return 0;
}

/* What fails has been told, and ends the work of all. */
static void make_chunk(struct desk *desk, struct chunk *chunk)
{
    const struct shard_file *const file = chunk->line->file;
    const uint64_t *const order = desk->work->orders[file->source_number] + file->first_position + chunk->first;
    int rc = 0;

    chunk->bytes = 0;
    chunk->images = (struct image_tally){ 0 };
    for (uint64_t i = 0; i < chunk->count && rc == 0 && !chunk_board_is_over(&desk->work->board); i++)
        rc = add_frame(desk, chunk, order[i]);
    chunk_board_made(&desk->work->board, chunk);
}

static int put_chunk(struct desk *desk, struct chunk *chunk)
{
    size_t at = 0;
    int rc = 0;

    while (at < chunk->bytes && rc == 0) {
        const uint8_t *const frame = chunk->frames.bytes + at;
        const size_t bytes = (size_t)tfrecord_payload_bytes(frame) + TFRECORD_FRAME_BYTES;
        rc = shard_sink_put(&desk->sink, frame, bytes);
        at += bytes;
    }
    image_tally_join(&chunk->line->file->images, &chunk->images);
    progress_add(&desk->work->progress, chunk->count);
    chunk_board_written(&desk->work->board, chunk);
    return rc;
}

/* Records that come to about CHUNK_BYTES. */
static uint64_t chunk_records(const struct sample_source *source)
{
    const uint64_t each = source->bytes > 0 ? source->bytes / source->record_count : source->scratch_bytes;
    const uint64_t records = CHUNK_BYTES / (each + TFRECORD_FRAME_BYTES);

    return records == 0 ? 1 : records < CHUNK_RECORDS_MAX ? records : CHUNK_RECORDS_MAX;
}

static int write_records(struct desk *desk, struct shard_file *file)
{
    struct chunk_board *const board = &desk->work->board;
    struct chunk *chunk;
    int rc = 0;

    chunk_board_open(board, desk->line, file, chunk_records(file->source));
    while (rc == 0 && (chunk = chunk_board_next(board, desk->line)) != NULL) {
        if (chunk->is_made)
            rc = put_chunk(desk, chunk);
        else
            make_chunk(desk, chunk);
    }
    chunk_board_close(board, desk->line);
    return rc == 0 && chunk_board_is_over(board) ? -ECANCELED : rc;
}

static int write_file(struct desk *desk, struct shard_file *file)
{
    int rc = shard_sink_open(&desk->sink, file);

    if (rc == 0)
        rc = write_records(desk, file);
    if (rc == 0)
        rc = shard_sink_finish(&desk->sink);
    shard_sink_abandon(&desk->sink);
    return rc < 0 ? rc : read_back(desk->work->set, file, desk->work->options->interrupted, &desk->work->progress);
}

static int desk_init(struct desk *desk, struct work *work)
{
    const struct shard_set_spec *const spec = &work->set->spec;

    *desk = (struct desk){ .work = work, .line = &work->board.lines[atomic_fetch_add(&work->next_line, 1)] };
    int rc = shard_sink_init(&desk->sink, work->set);
    if (rc == 0)
        rc = record_maker_open(&desk->maker, spec->sources, spec->source_count, &work->options->change,
                               work->set->stop);
    return rc;
}

static void desk_release(struct desk *desk)
{
    record_maker_close(&desk->maker);
    shard_sink_release(&desk->sink);
}

static void writer_loop(void *arg)
{
    struct work *const work = arg;
    struct desk desk;
    struct chunk *chunk;
    int rc = desk_init(&desk, work);

    while (rc == 0) {
        const size_t next = atomic_fetch_add(&work->next_file, 1);
        if (next >= work->set->file_count)
            break;
        rc = write_file(&desk, &work->set->files[next]);
    }
    chunk_board_retire(&work->board);
    while (rc == 0 && (chunk = chunk_board_help(&work->board)) != NULL)
        make_chunk(&desk, chunk);
    desk_release(&desk);
}

static uint32_t source_count(const struct shard_set *set)
{
    return set->file_count ? set->files[set->file_count - 1].source_number + 1 : 0;
}

static int make_orders(struct work *work)
{
    work->orders = calloc(source_count(work->set) + 1, sizeof(*work->orders));
    if (work->orders == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < work->set->file_count; i++) {
        const struct shard_file *file = &work->set->files[i];
        uint64_t **order = &work->orders[file->source_number];
        const struct random_key key = random_key(work->options->seed, RANDOM_SHUFFLE, file->source_number);
        if (*order == NULL)
            *order = work->options->keeps_order ? sample_order_stored(file->source->record_count)
                                                : sample_order(file->source->record_count, key);
        if (*order == NULL)
            return -ENOMEM;
    }
    return 0;
}

static void free_orders(struct work *work)
{
    for (uint32_t i = 0; work->orders != NULL && i < source_count(work->set); i++)
        free(work->orders[i]);
    free(work->orders);
}

static uint64_t count_records(const struct shard_set *set)
{
    uint64_t count = 0;

    for (size_t i = 0; i < set->file_count; i++)
        count += set->files[i].record_count;
    return count;
}

/* More threads than records would have nothing to do. */
static uint32_t wanted_threads(const struct work *work)
{
    const uint64_t records = count_records(work->set), jobs = work->options->jobs;
    const uint64_t wanted = jobs < records ? jobs : records;

    return wanted == 0 ? 1 : wanted < JOBS_MAX ? (uint32_t)wanted : JOBS_MAX;
}

/* Main is one of them. */
static void run_threads(struct work *work, uint32_t wanted)
{
    struct thread *threads[JOBS_MAX];
    uint32_t started = 0;

    while (started + 1 < wanted && thread_start(&threads[started], "writer", writer_loop, work) == 0)
        started++;
    for (uint32_t missing = started + 1; missing < wanted; missing++)
        chunk_board_retire(&work->board);       /* no thread to be had: the others do it */
    writer_loop(work);
    for (uint32_t i = 0; i < started; i++)
        thread_join(threads[i]);
}

int shards_write(struct shard_set *set, const struct shard_writer_options *options)
{
    struct work work = { .set = set, .options = options };
    const uint32_t threads = wanted_threads(&work);
    int rc = chunk_board_init(&work.board, threads, set->stop, options->interrupted);

    if (rc == 0)
        rc = make_orders(&work);
    progress_begin_steps(&work.progress, "writing and reading back", "records", count_records(set), 2);
    if (rc == 0)
        run_threads(&work, threads);
    else
        stop_fail(set->stop, EXIT_CODE_MEMORY, "no memory for the order of the records");
    progress_end(&work.progress);
    free_orders(&work);
    const bool is_over = chunk_board_is_over(&work.board);
    chunk_board_release(&work.board);
    return rc == 0 && is_over ? -ECANCELED : rc;
}
