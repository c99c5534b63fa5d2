/* A reader: an empty work, the next chunk, room in its batch, the records' bytes, on to
 * the decoders. The work is taken before the chunk, so that the chunk everybody waits
 * for always has one. */
#include <inttypes.h>

#include "formats/tfrecord.h"
#include "loader/work.h"
#include "stage/clock.h"
#include "stage/log.h"
#include "stage/thread.h"
#include "stage/trace/range.h"

static size_t frame_bytes(const struct work_record *record)
{
    return record->read.place.payload_bytes + (size_t)TFRECORD_FRAME_BYTES;
}

/* Where the frame of a record is in memory, or NULL. */
static const uint8_t *find_frame(struct loader *loader, const struct work *work, uint64_t offset,
                                 const struct dataset_place *place, size_t *read_bytes)
{
    const enum phase phase = work->chunk.slice.phase;
    if (loader->plan.is_stored[phase])
        return shard_store_find(&loader->stores[phase], place, read_bytes);
    return work->window != NULL ? work->window->frames[offset] : NULL;
}

static void find_record(struct loader *loader, const struct work *work, struct work_record *record,
                        size_t *read_bytes)
{
    dataset_complete(loader->spec.datasets[work->chunk.slice.phase], &record->read.place);
    const uint8_t *const frame = find_frame(loader, work, record->offset, &record->read.place, read_bytes);
    record->is_stored = frame != NULL;
    if (frame != NULL) {
        record->read.frame = frame;
        record->read.got = (ssize_t)frame_bytes(record);
    }
}

/* Returns the bytes read meanwhile. */
static size_t find_records(struct loader *loader, struct work *work)
{
    const struct dataset *const dataset = loader->spec.datasets[work->chunk.slice.phase];
    size_t read_bytes = 0;
    for (uint32_t i = 0; i < work->chunk.count; i++) {
        struct work_record *const record = &work->records[i];
        record->offset = chunk_offset(&work->chunk, i);
        record->id = order_record_at(&work->chunk.order, record->offset);
        record->read.place = dataset_seek(dataset, record->id);
    }
    for (uint32_t i = 0; i < work->chunk.count; i++)
        find_record(loader, work, &work->records[i], &read_bytes);
    return read_bytes;
}

static bool follows(const struct work_record *record, const struct work_record *previous)
{
    const struct dataset_place *place = &record->read.place, *before = &previous->read.place;
    return !record->is_stored && place->shard == before->shard
        && place->offset == before->offset + frame_bytes(previous);
}

/* The run of records from `first` on that lie one behind the other in a shard: the index
 * behind its last one, and its bytes. */
static uint32_t find_run(const struct work *work, uint32_t first, size_t *bytes_out)
{
    uint32_t end = first + 1;
    *bytes_out = frame_bytes(&work->records[first]);
    while (end < work->chunk.count && follows(&work->records[end], &work->records[end - 1]))
        *bytes_out += frame_bytes(&work->records[end++]);
    return end;
}

/* Give each record of the run from `first` on its part of what was read, or the error. The index behind it. */
static uint32_t share_run(struct work *work, uint32_t first)
{
    const struct read_request *const request = work->records[first].request;
    const uint8_t *frame = request->buffer, *const frames_end = frame + request->bytes;
    ssize_t got = request->got;
    uint32_t i = first;
    for (; frame < frames_end; i++) {
        struct record_read *const read = &work->records[i].read;
        const ssize_t wanted = (ssize_t)frame_bytes(&work->records[i]);
        read->frame = frame;
        read->got = got < wanted ? got : wanted;
        frame += wanted;
        if (got >= 0)
            got -= read->got;
    }
    return i;
}

/* The first record from `i` on that is not stored, or the count. */
static uint32_t skip_stored(const struct work *work, uint32_t i)
{
    while (i < work->chunk.count && work->records[i].is_stored)
        i++;
    return i;
}

/* Ask for the run of records from `first` on, into the buffer from `at` on. The index behind it. */
static uint32_t add_run(struct worker *reader, struct work *work, uint32_t first, uint8_t **at)
{
    const struct dataset *const dataset = reader->loader->spec.datasets[work->chunk.slice.phase];
    struct work_record *const record = &work->records[first];
    const struct dataset_place *const place = &record->read.place;
    size_t bytes;
    const uint32_t end = find_run(work, first, &bytes);
    record->request = read_batch_add(reader->batch, &(struct read_request){ .source = dataset->sources[place->shard],
                                                                            .buffer = *at,
                                                                            .bytes = bytes,
                                                                            .offset = place->offset });
    *at += bytes;
    return end;
}

/* Read what is not stored; returns the bytes. What cannot be read is left to the decoder,
 * which says why. */
static size_t read_records(struct worker *reader, struct work *work)
{
    uint8_t *at = work->buffer;
    for (uint32_t i = skip_stored(work, 0); i < work->chunk.count; i = skip_stored(work, i))
        i = add_run(reader, work, i, &at);
    read_batch_run(reader->batch);
    for (uint32_t i = skip_stored(work, 0); i < work->chunk.count; i = skip_stored(work, i))
        i = share_run(work, i);
    return (size_t)(at - work->buffer);
}

/* Every record passed its checksums, so a shard that changed is told, not an error. */
static void tell_changes(struct loader *loader, const struct dataset *dataset)
{
    for (uint32_t i = 0; i < dataset->shard_count && !loader->change_told; i++) {
        if (dataset->sources[i] == NULL || !shard_source_changed(dataset->sources[i]))
            continue;
        loader->change_told = true;
        log_message(LOG_RUN, "%s: the file was changed or replaced while it was read; the records read passed "
                    "their checksums", dataset->paths[i]);
    }
}

/* Find or read the records of a work whose batch is claimed. */
static void fill_work(struct worker *reader, struct work *work)
{
    struct loader *const loader = reader->loader;
    const uint64_t begun_ns = clock_now_ns();
    size_t bytes = find_records(loader, work);
    bytes += read_records(reader, work);
    if (work->chunk.last_of_phase)
        tell_changes(loader, loader->spec.datasets[work->chunk.slice.phase]);
    tally_add(&reader->tally.bytes, bytes);
    tally_add(&reader->tally.busy_ns, clock_now_ns() - begun_ns);
}

static int claim_batch(struct worker *reader, struct work *work)
{
    const uint64_t begun_ns = clock_now_ns();
    const int rc = ring_claim(reader->loader->spec.rings[work->chunk.tower], &work->chunk.slice, &work->batch);
    tally_add(&reader->tally.waited_ns, clock_now_ns() - begun_ns);
    return rc;
}

static int take_work(struct worker *reader, struct work **work_out)
{
    const uint64_t begun_ns = clock_now_ns();
    const int rc = work_take(reader->loader, work_out);
    tally_add(&reader->tally.waited_ns, clock_now_ns() - begun_ns);
    return rc;
}

static void tally_windows(struct worker *reader, uint64_t begun_ns, const struct window_cost *cost)
{
    tally_add(&reader->tally.bytes, cost->read_bytes);
    tally_add(&reader->tally.waited_ns, cost->waited_ns);
    tally_add(&reader->tally.busy_ns, clock_now_ns() - begun_ns - cost->waited_ns);
}

/* The window the chunk is of, where there are windows. */
static int take_window(struct worker *reader, struct work *work)
{
    struct loader *const loader = reader->loader;
    const struct chunk *const chunk = &work->chunk;
    work->window = NULL;
    if (!loader->plan.is_windowed || chunk->slice.phase != PHASE_TRAIN || chunk->count == 0)
        return 0;
    const uint64_t begun_ns = clock_now_ns();
    struct window_cost cost = { 0 };
    const int rc = window_store_take(&loader->windows, chunk, &work->window, &cost);
    tally_windows(reader, begun_ns, &cost);
    return rc;
}

/* Behind batch `batch`, which other threads have from here on. */
static void read_ahead(struct worker *reader, struct trace_batch batch)
{
    struct loader *const loader = reader->loader;
    if (!loader->plan.is_windowed)
        return;
    const uint64_t begun_ns = clock_now_ns();
    struct window_cost cost = { 0 };
    range_begin(TRACE_READ_AHEAD, batch.number);
    window_store_read_ahead(&loader->windows, &cost);
    range_end();
    tally_windows(reader, begun_ns, &cost);
    trace_span(reader->track, TRACE_READ_AHEAD, batch, begun_ns, 0);
}

/* The next chunk into the work and on to the decoders. 1 when the work was handed on, 0 when
 * there was nothing to do with it, or a negative errno. The reader came for an empty work at came_ns. */
static int read_chunk(struct worker *reader, struct work *work, uint64_t came_ns)
{
    int rc = cursor_next(&reader->loader->cursor, &work->chunk);
    if (rc == 0)
        rc = claim_batch(reader, work);
    range_end();
    if (rc < 0)
        return rc;
    const struct trace_batch batch = work_traced(reader->loader, work);
    trace_span(reader->track, TRACE_WAIT_ROOM, batch, came_ns, 0);
    const uint64_t begun_ns = trace_now(reader->track);
    range_begin(TRACE_READ, batch.number);
    rc = take_window(reader, work);
    if (rc >= 0)
        fill_work(reader, work);
    range_end();
    if (rc < 0)
        return rc;
    trace_span(reader->track, TRACE_READ, batch, begun_ns, work->chunk.count);
    if (work->chunk.count == 0)
        return 0;
    rc = queue_put(reader->loader->full, work);
    read_ahead(reader, batch);
    return rc < 0 ? rc : 1;
}

static int read_next(struct worker *reader)
{
    struct work *work;
    const uint64_t came_ns = trace_now(reader->track);
    range_begin(TRACE_WAIT_ROOM, RANGE_NO_BATCH);       /* ended by read_chunk */
    int rc = take_work(reader, &work);
    if (rc < 0) {
        range_end();
        return rc;
    }
    rc = read_chunk(reader, work, came_ns);
    if (rc <= 0)
        work_give_back(reader->loader, work);
    return rc;
}

void reader_loop(void *worker)
{
    struct worker *const reader = worker;
    if (reader->loader->spec.gives_way)
        thread_lower_priority();
    while (read_next(reader) >= 0)
        ;
    tally_add(&reader->tally.cpu_ns, clock_thread_ns());
    if (atomic_fetch_sub(&reader->loader->readers_left, 1) == 1)
        queue_finish(reader->loader->full);
}
