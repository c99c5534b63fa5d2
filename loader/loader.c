/* The life of a loader: computing sizes, memory, threads, counts. Called by main; chunk buffers are lent to readers and
 * decoders. */
#include "loader/loader.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/tfrecord.h"
#include "loader/augment/augment.h"
#include "loader/loader_internal.h"
#include "loader/shards/packed_shard.h"

/* Records of a chunk: enough that passing it on is cheap, few enough that threads share a batch and a buffer fits into
 * a core's cache. */
#define CHUNK_RECORDS 64u
#define CHUNK_BYTES ((size_t)1 << 20)
/* Chunks of small records may be larger, as long as a local batch has CHUNKS_OF_BATCH chunks for the threads. Chunks
 * that are read from files should fit into the cache. */
#define CHUNK_RECORDS_MAX 256u
#define CHUNK_READ_BYTES ((size_t)256 << 10)
#define CHUNKS_OF_BATCH 4u
/* Chunk buffers in the queue between readers and decoders. */
#define BUFFERS_BETWEEN 4u

/* Data sets with shards up to this size are kept in memory, as small ones benefit most. */
#define KEEP_BYTES ((size_t)128 << 20)

/* Reads of this size reach the full bandwidth of disks and networks. */
#define BLOCK_BYTES ((size_t)4 << 20)
#define WINDOW_BYTES ((size_t)128 << 20)

/* ---- sizes: a function of the spec ---- */

static size_t add(size_t a, size_t b)
{
    size_t sum;
    return __builtin_add_overflow(a, b, &sum) ? SIZE_MAX : sum;
}

static size_t multiply(size_t a, size_t b)
{
    size_t product;
    return __builtin_mul_overflow(a, b, &product) ? SIZE_MAX : product;
}

static size_t frame_bytes_max(const struct loader_spec *spec)
{
    size_t bytes = 0;
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        const struct dataset *dataset = spec->datasets[phase];
        if (dataset != NULL && dataset->payload_bytes_max + (size_t)TFRECORD_FRAME_BYTES > bytes)
            bytes = dataset->payload_bytes_max + (size_t)TFRECORD_FRAME_BYTES;
    }
    return bytes;
}

static size_t contexts_bytes(const struct loader_spec *spec)
{
    const struct dataset *const train = spec->datasets[PHASE_TRAIN];
    size_t bytes = train != NULL ? augment_room_bytes(spec->augment, &train->options.shape) : 0;
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        if (spec->datasets[phase] != NULL)
            bytes = add(bytes, decode_context_bytes(spec->datasets[phase]));
    return bytes;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t records_wanted(const struct loader_spec *spec, size_t frame_bytes, bool is_stored)
{
    const size_t share = schedule_local_max(spec->schedule) / CHUNKS_OF_BATCH;
    const size_t bytes = is_stored ? CHUNK_BYTES : CHUNK_READ_BYTES;
    const size_t more = least(least(bytes / frame_bytes, CHUNK_RECORDS_MAX), share);
    return more < CHUNK_RECORDS ? CHUNK_RECORDS : more;
}

static uint32_t choose_chunk_records(const struct loader_spec *spec, size_t frame_bytes, bool is_stored)
{
    size_t records = spec->chunk_records ? spec->chunk_records : records_wanted(spec, frame_bytes, is_stored);
    if (!spec->chunk_records && records * frame_bytes > CHUNK_BYTES)
        records = CHUNK_BYTES / frame_bytes + (CHUNK_BYTES < frame_bytes);
    return (uint32_t)least(records, schedule_local_max(spec->schedule));
}

static struct order_shape choose_order(const struct loader_spec *spec)
{
    const uint64_t records = spec->schedule->records[PHASE_TRAIN];
    if (spec->shuffle != SHUFFLE_BLOCK)
        return (struct order_shape){ .shuffle = spec->shuffle, .count = records, .classes = spec->classes };
    const struct window_sizes sizes = { spec->block_bytes ? spec->block_bytes : BLOCK_BYTES,
                                        spec->window_bytes ? spec->window_bytes : WINDOW_BYTES };
    return window_shape(spec->datasets[PHASE_TRAIN], spec->schedule, &sizes, spec->seed);
}

/* With lanes only their training records are kept. Returns `need`, or NULL: all records are. */
static const struct shard_store_need *find_need(struct shard_store_need *need, const struct loader_spec *spec,
                                                const struct order_shape *shape, enum phase phase)
{
    *need = (struct shard_store_need){ shape, schedule_lanes(spec->schedule), spec->seed };
    return phase == PHASE_TRAIN && order_lanes(shape) > 1 ? need : NULL;
}

static size_t choose_stores(const struct loader_spec *spec, const struct order_shape *shape, bool is_stored[PHASE_COUNT])
{
    const size_t keep_bytes = spec->keep_bytes ? spec->keep_bytes : KEEP_BYTES;
    size_t total = 0;
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        struct shard_store_need need;
        const struct dataset *const dataset = spec->datasets[phase];
        const size_t bytes = dataset == NULL ? 0
                             : shard_store_bytes(dataset, find_need(&need, spec, shape, (enum phase)phase));
        is_stored[phase] = dataset != NULL && bytes <= keep_bytes;
        if (is_stored[phase])
            total = add(total, bytes);
    }
    return total;
}

/* Memory of open shards, and of the streams that read compressed ones. */
static size_t sources_bytes(const struct loader_spec *spec)
{
    size_t bytes = packed_pool_bytes();
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        const struct dataset *const dataset = spec->datasets[phase];
        for (uint32_t i = 0; dataset != NULL && i < dataset->shard_count; i++)
            if (dataset->sources[i] != NULL)
                bytes = add(bytes, dataset->sources[i]->held_bytes);
    }
    return bytes;
}

static size_t total_bytes(const struct loader_sizes *sizes, const struct loader_spec *spec)
{
    const size_t records_bytes = multiply(sizes->chunk_records, sizeof(struct chunk_record));
    const size_t each_buffer_bytes = add(sizeof(struct chunk_buffer), add(records_bytes, sizes->buffer_bytes));
    const size_t decoder_bytes = add(sizeof(struct loader_thread), sizes->context_bytes);
    size_t total = add(sizeof(struct loader), multiply(sizes->buffer_count, each_buffer_bytes));
    total = add(total, multiply(spec->decode_threads, decoder_bytes));
    total = add(
        total, multiply(spec->read_threads, add(sizeof(struct loader_thread), read_batch_bytes(sizes->chunk_records))));
    total = add(total, sources_bytes(spec));
    total = add(total, add(sizes->damage_bytes, sizes->warnings_bytes));
    return add(total, add(sizes->store_bytes, sizes->window_bytes));
}

static void loader_sizes_init(struct loader_sizes *sizes, const struct loader_spec *spec)
{
    const size_t frame_bytes = frame_bytes_max(spec);
    *sizes = (struct loader_sizes){
        .buffer_count = spec->read_threads + spec->decode_threads + BUFFERS_BETWEEN,
        .context_bytes = contexts_bytes(spec),
        .order = choose_order(spec),
        .damage_bytes = spec->skip_corrupt ? damage_bytes(spec->datasets) : 0,
        .warnings_bytes = record_marks_bytes(spec->datasets),
    };
    sizes->store_bytes = choose_stores(spec, &sizes->order, sizes->is_stored);
    sizes->chunk_records = choose_chunk_records(spec, frame_bytes, sizes->is_stored[PHASE_TRAIN]);
    sizes->is_windowed = spec->shuffle == SHUFFLE_BLOCK && !sizes->is_stored[PHASE_TRAIN];
    if (sizes->is_windowed)
        sizes->window_bytes = window_store_bytes(spec->datasets[PHASE_TRAIN], &sizes->order,
                                                 schedule_lanes(spec->schedule).count);
    sizes->buffer_bytes = multiply(sizes->chunk_records, frame_bytes);
    sizes->total_bytes = total_bytes(sizes, spec);
}

static bool takes_large(const struct loader_spec *spec)
{
    bool takes = false;
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        takes = takes || (spec->datasets[phase] != NULL && spec->datasets[phase]->format.image != NULL &&
                          spec->datasets[phase]->format.image->takes_large);
    return takes;
}

struct loader_memory loader_memory(const struct loader_spec *spec)
{
    struct loader_sizes sizes;
    loader_sizes_init(&sizes, spec);
    const size_t blocks = sizes.is_windowed ? (size_t)sizes.order.window_blocks : 1;
    return (struct loader_memory){ .bytes = sizes.total_bytes,
                                   .kept_bytes = sizes.store_bytes,
                                   .window_spare_bytes = sizes.window_bytes - sizes.window_bytes / blocks,
                                   .takes_large = takes_large(spec),
                                   .is_read = !sizes.is_stored[PHASE_TRAIN] };
}

struct order_shape loader_order(const struct loader_spec *spec)
{
    struct loader_sizes sizes;
    loader_sizes_init(&sizes, spec);
    return sizes.order;
}

uint64_t loader_kept_file_bytes(const struct loader_spec *spec)
{
    struct loader_sizes sizes;
    struct shard_store_need need;
    loader_sizes_init(&sizes, spec);
    if (!sizes.is_stored[PHASE_TRAIN])
        return 0;
    return shard_store_file_bytes(spec->datasets[PHASE_TRAIN], find_need(&need, spec, &sizes.order, PHASE_TRAIN));
}

uint64_t loader_epoch_bytes(const struct loader_spec *spec)
{
    const struct dataset *const dataset = spec->datasets[PHASE_TRAIN];
    const struct schedule *const schedule = spec->schedule;
    uint64_t bytes = 0, records = 0;
    for (uint32_t i = 0; i < dataset->shard_count; i++) {
        bytes += dataset->indexes[i].bytes;
        records += dataset->indexes[i].record_count;
    }
    const bool is_shared = spec->shuffle != SHUFFLE_BLOCK || schedule->lanes > 1;
    const double share = is_shared ? (double)schedule_here(schedule).count / schedule->towers : 1;
    return records == 0 ? 0 : (uint64_t)((double)bytes * (double)schedule->records[PHASE_TRAIN] / (double)records * share);
}

/* ---- start ---- */

static int chunk_buffer_init(struct chunk_buffer *buffer, const struct loader_sizes *sizes)
{
    buffer->records = calloc(sizes->chunk_records, sizeof(*buffer->records));
    buffer->frames = malloc(sizes->buffer_bytes);
    return buffer->records != NULL && buffer->frames != NULL ? 0 : -ENOMEM;
}

static int open_buffers(struct loader *loader)
{
    const struct loader_sizes *sizes = &loader->sizes;
    loader->buffers = calloc(sizes->buffer_count, sizeof(*loader->buffers));
    if (loader->buffers == NULL)
        return -ENOMEM;
    int rc = queue_open(&loader->free, sizes->buffer_count);
    if (rc == 0)
        rc = queue_open(&loader->full, sizes->buffer_count);
    for (uint32_t i = 0; i < sizes->buffer_count && rc == 0; i++) {
        rc = chunk_buffer_init(&loader->buffers[i], sizes);
        if (rc == 0)
            rc = queue_put(loader->free, &loader->buffers[i]);
    }
    return rc;
}

static struct loader_thread *open_threads(struct loader *loader, uint32_t count, enum trace_kind kind)
{
    struct loader_thread *threads = aligned_alloc(_Alignof(struct loader_thread), count * sizeof(*threads));
    for (uint32_t i = 0; threads != NULL && i < count; i++)
        threads[i] = (struct loader_thread){ .loader = loader, .track = trace_track_add(loader->spec.trace, kind, i) };
    return threads;
}

static int open_batches(struct loader *loader)
{
    int rc = 0;
    for (uint32_t i = 0; i < loader->spec.read_threads && rc == 0; i++)
        rc = read_batch_open(&loader->readers[i].batch, loader->sizes.chunk_records);
    return rc;
}

static int open_all_threads(struct loader *loader)
{
    loader->readers = open_threads(loader, loader->spec.read_threads, TRACE_READER);
    loader->decoders = open_threads(loader, loader->spec.decode_threads, TRACE_DECODER);
    if (loader->readers == NULL || loader->decoders == NULL)
        return -ENOMEM;
    const int rc = open_batches(loader);
    return rc < 0 ? rc : queue_open(&loader->opened, loader->spec.decode_threads);
}

static int open_stores(struct loader *loader)
{
    int rc = 0;
    for (int phase = 0; phase < PHASE_COUNT && rc == 0; phase++) {
        struct shard_store_need need;
        if (loader->sizes.is_stored[phase])
            rc = shard_store_init(&loader->stores[phase], loader->spec.datasets[phase],
                                  find_need(&need, &loader->spec, &loader->sizes.order, (enum phase)phase));
    }
    if (rc == 0 && loader->sizes.is_windowed)
        rc = window_store_init(&loader->windows, loader->spec.datasets[PHASE_TRAIN], loader->spec.schedule,
                               &loader->sizes.order, loader->spec.seed);
    return rc;
}

/* Records that were lost while the shards were indexed count as damage of the run. */
static int open_damage(struct loader *loader)
{
    if (!loader->spec.skip_corrupt)
        return 0;
    const int rc = damage_init(&loader->damage, loader->spec.datasets, &loader->spec.damage_sink);
    if (rc < 0 || damage_count(&loader->damage) <= loader->spec.corrupt_max)
        return rc;
    char summary[DAMAGE_SUMMARY_BYTES];
    damage_end(&loader->damage, summary, sizeof(summary));
    return stop_fail(loader->spec.stop, EXIT_CODE_DATA,
                     "%" PRIu64 " of %" PRIu64 " records are damaged, more than the %" PRIu64 " that data.max_corrupt "
                     "accepts; %s",
                     damage_count(&loader->damage), damage_record_count(&loader->damage), loader->spec.corrupt_max,
                     summary);
}

int loader_check(const struct loader_spec *spec)
{
    struct loader loader = { .spec = *spec };
    const int rc = open_damage(&loader);
    damage_release(&loader.damage);
    return rc;
}

static void limit_rings(const struct loader *loader)
{
    const struct schedule *const schedule = loader->spec.schedule;
    for (uint32_t i = 0; i < schedule_here(schedule).count; i++)
        ring_range(loader->spec.rings[i], schedule->first, schedule_batch_count(schedule));
}

static int start_threads(struct loader_thread *threads, uint32_t count, const char *what, void (*loop)(void *thread))
{
    int rc = 0;
    for (uint32_t i = 0; i < count && rc == 0; i++) {
        char name[16];
        snprintf(name, sizeof(name), "%s%" PRIu32, what, i % 1000);
        rc = thread_start(&threads[i].thread, name, loop, &threads[i]);
    }
    return rc;
}

/* Wait until all decoders have opened their contexts. Nothing is allocated afterwards. */
static int await_decoders(struct loader *loader)
{
    int rc = 0;
    for (uint32_t i = 0; i < loader->spec.decode_threads; i++) {
        void *decoder;
        const int got = queue_get(loader->opened, &decoder);
        if (rc == 0)
            rc = got < 0 ? got : ((struct loader_thread *)decoder)->open_result;
    }
    return rc;
}

static int start_all_threads(struct loader *loader)
{
    atomic_init(&loader->readers_left, loader->spec.read_threads);
    limit_rings(loader);
    int rc = start_threads(loader->decoders, loader->spec.decode_threads, "decoder", decoder_loop);
    if (rc == 0)
        rc = await_decoders(loader);
    if (rc == 0)
        rc = start_threads(loader->readers, loader->spec.read_threads, "reader", reader_loop);
    return rc;
}

static void check_spec(const struct loader_spec *spec)
{
    assert(spec->read_threads >= 1 && spec->decode_threads >= 1);
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        const struct dataset *dataset = spec->datasets[phase];
        assert(spec->schedule->records[phase] == 0 || dataset != NULL);
        assert(dataset == NULL || spec->schedule->records[phase] <= dataset->record_count);
        assert(dataset == NULL || dataset->sample_bytes == spec->layout->of[phase].sample_bytes);
    }
    assert(schedule_local_max(spec->schedule) <= spec->layout->capacity);
}

static int open_parts(struct loader *loader)
{
    int rc = open_buffers(loader);
    if (rc == 0)
        rc = open_all_threads(loader);
    if (rc == 0)
        rc = open_stores(loader);
    if (rc == 0)
        rc = open_damage(loader);
    if (rc == 0)
        rc = decode_warnings_init(&loader->warnings, loader->spec.datasets);
    return rc;
}

static int start_loader(struct loader *loader)
{
    int rc = stop_on_failure(loader->spec.stop, loader_end, loader);
    if (rc == 0)
        rc = start_all_threads(loader);
    if (rc == 0)
        return 0;
    loader_end(loader);
    loader_join(loader, NULL);
    return stop_fail(loader->spec.stop, EXIT_CODE_MEMORY, "the loader could not be started: %s",
                     exit_cause(rc));
}

int loader_start(struct loader **loader_out, const struct loader_spec *spec)
{
    check_spec(spec);
    struct loader *loader = calloc(1, sizeof(*loader));
    if (loader == NULL)
        return -ENOMEM;
    loader->spec = *spec;
    loader_sizes_init(&loader->sizes, spec);
    int rc = cursor_init(&loader->cursor, spec->schedule, &loader->sizes.order, schedule_lanes(spec->schedule),
                         spec->seed, loader->sizes.chunk_records);
    if (rc == 0)
        rc = open_parts(loader);
    if (rc == 0)
        rc = start_loader(loader);
    if (rc < 0) {
        loader_close(loader);
        return rc;
    }
    *loader_out = loader;
    return 0;
}

static void join_threads(struct loader_thread *threads, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        thread_join(threads[i].thread);
        threads[i].thread = NULL;
    }
}

void loader_join(struct loader *loader, struct loader_counts *counts_out)
{
    if (loader == NULL)
        return;
    join_threads(loader->readers, loader->spec.read_threads);
    join_threads(loader->decoders, loader->spec.decode_threads);
    if (counts_out != NULL)
        loader_count(loader, counts_out);
}

/* Check that no buffer is lost. After an early end, buffers may still be in the full queue. */
static void check_buffers(const struct loader *loader)
{
    struct queue_counts between;
    queue_count(loader->full, &between);
    assert(loader->lent == between.put - between.got);
    (void)between;
}

static void close_buffers(struct loader *loader)
{
    if (loader->full != NULL)
        check_buffers(loader);
    for (uint32_t i = 0; loader->buffers != NULL && i < loader->sizes.buffer_count; i++) {
        free(loader->buffers[i].records);
        free(loader->buffers[i].frames);
    }
    free(loader->buffers);
    queue_close(loader->free);
    queue_close(loader->full);
}

void loader_close(struct loader *loader)
{
    if (loader == NULL)
        return;
    stop_withdraw(loader->spec.stop, loader);
    close_buffers(loader);
    for (uint32_t i = 0; loader->readers != NULL && i < loader->spec.read_threads; i++)
        read_batch_close(loader->readers[i].batch);
    free(loader->readers);
    free(loader->decoders);
    queue_close(loader->opened);
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        shard_store_release(&loader->stores[phase]);
    window_store_release(&loader->windows);
    damage_release(&loader->damage);
    decode_warnings_release(&loader->warnings);
    cursor_release(&loader->cursor);
    free(loader);
}

void loader_end(void *loader)
{
    struct loader *const ended = loader;
    damage_silence(&ended->damage);
    queue_cancel(ended->free);
    queue_cancel(ended->full);
    if (ended->sizes.is_windowed)
        window_store_cancel(&ended->windows);
    for (uint32_t i = 0; i < schedule_here(ended->spec.schedule).count; i++)
        ring_cancel(ended->spec.rings[i]);
}

static uint64_t value_of(const atomic_uint_fast64_t *value)
{
    return atomic_load_explicit(value, memory_order_relaxed);
}

void loader_count(struct loader *loader, struct loader_counts *counts_out)
{
    struct loader_counts counts = {
        .corrupt_records = damage_count(&loader->damage),
        .decoder_warnings = decode_warnings_count(&loader->warnings),
    };
    for (uint32_t i = 0; i < loader->spec.read_threads; i++) {
        const struct thread_counters *counters = &loader->readers[i].counters;
        counts.bytes += value_of(&counters->bytes);
        counts.read_busy_ns += value_of(&counters->busy_ns);
        counts.read_waited_room_ns += value_of(&counters->waited_ns);
        counts.read_cpu_ns += value_of(&counters->cpu_ns);
    }
    for (uint32_t i = 0; i < loader->spec.decode_threads; i++) {
        const struct thread_counters *counters = &loader->decoders[i].counters;
        counts.records += value_of(&counters->records);
        counts.decode_busy_ns += value_of(&counters->busy_ns);
        counts.decode_waited_input_ns += value_of(&counters->waited_ns);
        counts.decode_cpu_ns += value_of(&counters->cpu_ns);
    }
    *counts_out = counts;
}

struct damage_list *loader_take_damage(struct loader *loader)
{
    return damage_take_list(&loader->damage);
}
