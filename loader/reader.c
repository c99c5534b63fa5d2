/* A reader thread: takes a free chunk buffer and the next chunk, waits for room in its batch, reads the records' bytes
 * and passes the buffer to the decoders. It takes the buffer before the chunk, so that the chunk for which all others
 * wait always has a buffer. */
#include <inttypes.h>

#include "formats/tfrecord.h"
#include "loader/loader_internal.h"
#include "stage/clock.h"
#include "stage/log.h"
#include "stage/thread.h"
#include "stage/trace/range.h"

static size_t frame_bytes(const struct chunk_record *record)
{
    return record->read.place.payload_bytes + (size_t)TFRECORD_FRAME_BYTES;
}

/* The frame of a record in the shard store or window, or NULL. */
static const uint8_t *find_frame(struct loader *loader, const struct chunk_buffer *buffer, uint64_t offset,
                                 const struct dataset_place *place, size_t *read_bytes)
{
    const enum phase phase = buffer->chunk.local.phase;
    if (loader->sizes.is_stored[phase])
        return shard_store_find(&loader->stores[phase], place, read_bytes);
    return buffer->window != NULL ? buffer->window->frames[offset] : NULL;
}

static void find_record(struct loader *loader, const struct chunk_buffer *buffer, struct chunk_record *record,
                        size_t *read_bytes)
{
    dataset_complete(loader->spec.datasets[buffer->chunk.local.phase], &record->read.place);
    const uint8_t *const frame = find_frame(loader, buffer, record->offset, &record->read.place, read_bytes);
    record->is_stored = frame != NULL;
    if (frame != NULL) {
        record->read.frame = frame;
        record->read.got = (ssize_t)frame_bytes(record);
    }
}

/* Find the records of the chunk, and their frames if they are in memory. Returns the number of bytes read for this. */
static size_t find_records(struct loader *loader, struct chunk_buffer *buffer)
{
    const struct dataset *const dataset = loader->spec.datasets[buffer->chunk.local.phase];
    size_t read_bytes = 0;
    for (uint32_t i = 0; i < buffer->chunk.count; i++) {
        struct chunk_record *const record = &buffer->records[i];
        record->offset = chunk_offset(&buffer->chunk, i);
        record->id = buffer->window != NULL ? window_record(buffer->window, &buffer->chunk.order, record->offset)
                                            : order_record_at(&buffer->chunk.order, record->offset);
        record->read.place = dataset_seek(dataset, record->id);
    }
    for (uint32_t i = 0; i < buffer->chunk.count; i++)
        find_record(loader, buffer, &buffer->records[i], &read_bytes);
    return read_bytes;
}

static bool follows(const struct chunk_record *record, const struct chunk_record *previous)
{
    const struct dataset_place *place = &record->read.place, *before = &previous->read.place;
    return !record->is_stored && place->shard == before->shard
        && place->offset == before->offset + frame_bytes(previous);
}

/* Find the run of records, from `first` on, that are consecutive in a shard: its bytes, and the index after its last
 * record. */
static uint32_t find_run(const struct chunk_buffer *buffer, uint32_t first, size_t *bytes_out)
{
    uint32_t end = first + 1;
    *bytes_out = frame_bytes(&buffer->records[first]);
    while (end < buffer->chunk.count && follows(&buffer->records[end], &buffer->records[end - 1]))
        *bytes_out += frame_bytes(&buffer->records[end++]);
    return end;
}

/* Assign each record of a run its part of the bytes read, or the error. Returns the index after the run. */
static uint32_t share_run(struct chunk_buffer *buffer, uint32_t first)
{
    const struct read_request *const request = buffer->records[first].request;
    const uint8_t *frame = request->buffer, *const frames_end = frame + request->bytes;
    ssize_t got = request->got;
    uint32_t i = first;
    for (; frame < frames_end; i++) {
        struct record_read *const read = &buffer->records[i].read;
        const ssize_t wanted = (ssize_t)frame_bytes(&buffer->records[i]);
        read->frame = frame;
        read->got = got < wanted ? got : wanted;
        frame += wanted;
        if (got >= 0)
            got -= read->got;
    }
    return i;
}

/* The first record from `i` on that has to be read, or chunk.count. */
static uint32_t skip_stored(const struct chunk_buffer *buffer, uint32_t i)
{
    while (i < buffer->chunk.count && buffer->records[i].is_stored)
        i++;
    return i;
}

/* Request a read of the run of records that begins at `first`, to *at. Returns the index after the run. */
static uint32_t add_run(struct loader_thread *reader, struct chunk_buffer *buffer, uint32_t first, uint8_t **at)
{
    const struct dataset *const dataset = reader->loader->spec.datasets[buffer->chunk.local.phase];
    struct chunk_record *const record = &buffer->records[first];
    const struct dataset_place *const place = &record->read.place;
    size_t bytes;
    const uint32_t end = find_run(buffer, first, &bytes);
    record->request = read_batch_add(reader->batch, &(struct read_request){ .source = dataset->sources[place->shard],
                                                                            .buffer = *at,
                                                                            .bytes = bytes,
                                                                            .offset = place->offset });
    *at += bytes;
    return end;
}

/* Read the records that are not in memory. Returns the number of bytes. The decoder reports failed reads. */
static size_t read_records(struct loader_thread *reader, struct chunk_buffer *buffer)
{
    uint8_t *at = buffer->frames;
    for (uint32_t i = skip_stored(buffer, 0); i < buffer->chunk.count; i = skip_stored(buffer, i))
        i = add_run(reader, buffer, i, &at);
    read_batch_run(reader->batch);
    for (uint32_t i = skip_stored(buffer, 0); i < buffer->chunk.count; i = skip_stored(buffer, i))
        i = share_run(buffer, i);
    return (size_t)(at - buffer->frames);
}

/* Report changed shards. They are no error, since all records passed their checksums. */
static void report_changes(struct loader *loader, const struct dataset *dataset)
{
    for (uint32_t i = 0; i < dataset->shard_count && !loader->change_reported; i++) {
        if (dataset->sources[i] == NULL || !shard_source_changed(dataset->sources[i]))
            continue;
        loader->change_reported = true;
        log_message(LOG_RUN, "%s: the file was changed or replaced while it was read; the records read passed "
                    "their checksums", dataset->paths[i]);
    }
}

/* Find or read the records of a chunk whose batch is claimed. */
static void fill_buffer(struct loader_thread *reader, struct chunk_buffer *buffer)
{
    struct loader *const loader = reader->loader;
    const uint64_t begun_ns = clock_now_ns();
    size_t bytes = find_records(loader, buffer);
    bytes += read_records(reader, buffer);
    if (buffer->chunk.last_of_phase)
        report_changes(loader, loader->spec.datasets[buffer->chunk.local.phase]);
    counter_add(&reader->counters.bytes, bytes);
    counter_add(&reader->counters.busy_ns, clock_now_ns() - begun_ns);
}

static int claim_batch(struct loader_thread *reader, struct chunk_buffer *buffer)
{
    const uint64_t begun_ns = clock_now_ns();
    const int rc = ring_claim(reader->loader->spec.rings[buffer->chunk.tower], &buffer->chunk.local, &buffer->batch);
    counter_add(&reader->counters.waited_ns, clock_now_ns() - begun_ns);
    return rc;
}

static int take_buffer(struct loader_thread *reader, struct chunk_buffer **buffer_out)
{
    const uint64_t begun_ns = clock_now_ns();
    const int rc = chunk_buffer_take(reader->loader, buffer_out);
    counter_add(&reader->counters.waited_ns, clock_now_ns() - begun_ns);
    return rc;
}

static void count_windows(struct loader_thread *reader, uint64_t begun_ns, const struct window_cost *cost)
{
    counter_add(&reader->counters.bytes, cost->read_bytes);
    counter_add(&reader->counters.waited_ns, cost->waited_ns);
    counter_add(&reader->counters.busy_ns, clock_now_ns() - begun_ns - cost->waited_ns);
}

/* Borrow the chunk's window, if training uses windows. */
static int take_window(struct loader_thread *reader, struct chunk_buffer *buffer)
{
    struct loader *const loader = reader->loader;
    const struct chunk *const chunk = &buffer->chunk;
    buffer->window = NULL;
    if (!loader->sizes.is_windowed || chunk->local.phase != PHASE_TRAIN || chunk->count == 0)
        return 0;
    const uint64_t begun_ns = clock_now_ns();
    struct window_cost cost = { 0 };
    const int rc = window_store_take(&loader->windows, chunk, &buffer->window, &cost);
    count_windows(reader, begun_ns, &cost);
    return rc;
}

/* Read the lane's next window ahead; the trace entry is for `batch`, which other threads may already own. */
static void read_ahead(struct loader_thread *reader, uint32_t lane, struct trace_batch batch)
{
    struct loader *const loader = reader->loader;
    if (!loader->sizes.is_windowed)
        return;
    const uint64_t begun_ns = clock_now_ns();
    struct window_cost cost = { 0 };
    range_begin(TRACE_READ_AHEAD, batch.number);
    window_store_read_ahead(&loader->windows, lane, &cost);
    range_end();
    count_windows(reader, begun_ns, &cost);
    trace_span(reader->track, TRACE_READ_AHEAD, batch, begun_ns, 0);
}

/* Fill the buffer with the next chunk and pass it to the decoders. Returns 1 if it was passed on, 0 if the chunk is
 * empty, or a negative errno. The reader has been waiting since came_ns. */
static int read_chunk(struct loader_thread *reader, struct chunk_buffer *buffer, uint64_t came_ns)
{
    int rc = cursor_next(&reader->loader->cursor, &buffer->chunk);
    if (rc == 0)
        rc = claim_batch(reader, buffer);
    range_end();
    if (rc < 0)
        return rc;
    const struct trace_batch batch = chunk_buffer_traced(reader->loader, buffer);
    trace_span(reader->track, TRACE_WAIT_ROOM, batch, came_ns, 0);
    const uint64_t begun_ns = trace_now(reader->track);
    range_begin(TRACE_READ, batch.number);
    rc = take_window(reader, buffer);
    if (rc >= 0)
        fill_buffer(reader, buffer);
    range_end();
    if (rc < 0)
        return rc;
    trace_span(reader->track, TRACE_READ, batch, begun_ns, buffer->chunk.count);
    if (buffer->chunk.count == 0)
        return 0;
    const uint32_t lane = buffer->chunk.lane;
    rc = queue_put(reader->loader->full, buffer);
    read_ahead(reader, lane, batch);
    return rc < 0 ? rc : 1;
}

static int read_next(struct loader_thread *reader)
{
    struct chunk_buffer *buffer;
    const uint64_t came_ns = trace_now(reader->track);
    range_begin(TRACE_WAIT_ROOM, RANGE_NO_BATCH);       /* ended by read_chunk */
    int rc = take_buffer(reader, &buffer);
    if (rc < 0) {
        range_end();
        return rc;
    }
    rc = read_chunk(reader, buffer, came_ns);
    if (rc <= 0)
        chunk_buffer_give_back(reader->loader, buffer);
    return rc;
}

void reader_loop(void *thread)
{
    struct loader_thread *const reader = thread;
    if (reader->loader->spec.gives_way)
        thread_lower_priority();
    while (read_next(reader) >= 0)
        ;
    counter_add(&reader->counters.cpu_ns, clock_thread_ns());
    if (atomic_fetch_sub(&reader->loader->readers_left, 1) == 1)
        queue_finish(reader->loader->full);
}
