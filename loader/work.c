/* Sizes of a loader's memory, from its spec alone, called for the plan and at the start; and
 * lending of works, called by readers and decoders. */
#include "loader/work.h"

#include "formats/tfrecord.h"
#include "loader/packed/packed_pool.h"

/* Enough records that handing on costs little beside decoding, few enough that a batch
 * is shared among threads and a buffer stays in the cache of a core. */
#define CHUNK_RECORDS 64u
#define CHUNK_BYTES ((size_t)1 << 20)
/* Small records can share what a hand-over costs with more, as long as a slice is still shared among threads. Those
 * that are read, not found in memory, are to stay in the cache. */
#define CHUNK_RECORDS_MAX 256u
#define CHUNK_READ_BYTES ((size_t)256 << 10)
#define CHUNKS_OF_SLICE 4u
/* Works that are neither at a reader nor at a decoder: the slack between them. */
#define WORKS_BETWEEN 4u

/* Small data sets take little memory and profit most. */
#define KEEP_BYTES ((size_t)128 << 20)

/* Large enough that disks and networks give what they can. */
#define BLOCK_BYTES ((size_t)4 << 20)
#define WINDOW_BYTES ((size_t)128 << 20)

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
    size_t bytes = 0;
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
    const size_t share = schedule_slice_max(spec->schedule) / CHUNKS_OF_SLICE;
    const size_t bytes = is_stored ? CHUNK_BYTES : CHUNK_READ_BYTES;
    const size_t more = least(least(bytes / frame_bytes, CHUNK_RECORDS_MAX), share);
    return more < CHUNK_RECORDS ? CHUNK_RECORDS : more;
}

static uint32_t choose_chunk_records(const struct loader_spec *spec, size_t frame_bytes, bool is_stored)
{
    size_t records = spec->chunk_records ? spec->chunk_records : records_wanted(spec, frame_bytes, is_stored);
    if (!spec->chunk_records && records * frame_bytes > CHUNK_BYTES)
        records = CHUNK_BYTES / frame_bytes + (CHUNK_BYTES < frame_bytes);
    return (uint32_t)least(records, schedule_slice_max(spec->schedule));
}

static size_t choose_stores(const struct loader_spec *spec, bool is_stored[PHASE_COUNT])
{
    const size_t keep_bytes = spec->keep_bytes ? spec->keep_bytes : KEEP_BYTES;
    size_t bytes = 0;
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        const struct dataset *dataset = spec->datasets[phase];
        is_stored[phase] = dataset != NULL && shard_store_bytes(dataset) <= keep_bytes;
        if (is_stored[phase])
            bytes = add(bytes, shard_store_bytes(dataset));
    }
    return bytes;
}

static struct order_shape choose_order(const struct loader_spec *spec)
{
    const uint64_t records = spec->schedule->records[PHASE_TRAIN];
    if (spec->shuffle != SHUFFLE_BLOCK)
        return (struct order_shape){ .shuffle = spec->shuffle, .count = records };
    return window_shape(spec->datasets[PHASE_TRAIN], records, spec->block_bytes ? spec->block_bytes : BLOCK_BYTES,
                        spec->window_bytes ? spec->window_bytes : WINDOW_BYTES);
}

/* What open shards have taken, and what compressed ones are read with. */
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

static size_t total_bytes(const struct work_plan *plan, const struct loader_spec *spec)
{
    const size_t records_bytes = multiply(plan->chunk_records, sizeof(struct work_record));
    const size_t work_bytes = add(sizeof(struct work), add(records_bytes, plan->buffer_bytes));
    const size_t decoder_bytes = add(sizeof(struct worker), plan->context_bytes);
    size_t total = add(sizeof(struct loader), multiply(plan->work_count, work_bytes));
    total = add(total, multiply(spec->decode_threads, decoder_bytes));
    total = add(total, multiply(spec->read_threads, add(sizeof(struct worker), read_batch_bytes(plan->chunk_records))));
    total = add(total, sources_bytes(spec));
    total = add(total, add(plan->damage_bytes, plan->warnings_bytes));
    return add(total, add(plan->store_bytes, plan->window_bytes));
}

void work_plan_init(struct work_plan *plan, const struct loader_spec *spec)
{
    const size_t frame_bytes = frame_bytes_max(spec);
    *plan = (struct work_plan){
        .work_count = spec->read_threads + spec->decode_threads + WORKS_BETWEEN,
        .context_bytes = contexts_bytes(spec),
        .order = choose_order(spec),
        .damage_bytes = spec->skip_corrupt ? damage_bytes(spec->datasets) : 0,
        .warnings_bytes = record_marks_bytes(spec->datasets),
    };
    plan->store_bytes = choose_stores(spec, plan->is_stored);
    plan->chunk_records = choose_chunk_records(spec, frame_bytes, plan->is_stored[PHASE_TRAIN]);
    plan->is_windowed = spec->shuffle == SHUFFLE_BLOCK && !plan->is_stored[PHASE_TRAIN];
    if (plan->is_windowed)
        plan->window_bytes = window_store_bytes(spec->datasets[PHASE_TRAIN], &plan->order);
    plan->buffer_bytes = multiply(plan->chunk_records, frame_bytes);
    plan->total_bytes = total_bytes(plan, spec);
}

int work_take(struct loader *loader, struct work **work_out)
{
    void *work;
    const int rc = queue_get(loader->free, &work);
    if (rc < 0)
        return rc;
    atomic_fetch_add(&loader->lent, 1);
    *work_out = work;
    return 0;
}

void work_give_back(struct loader *loader, struct work *work)
{
    atomic_fetch_sub(&loader->lent, 1);
    (void)queue_put(loader->free, work);    /* a queue that was cancelled needs it no more */
}

struct trace_batch work_traced(const struct loader *loader, const struct work *work)
{
    const struct chunk *const chunk = &work->chunk;
    return (struct trace_batch){ chunk->slice.number, schedule_here(loader->spec.schedule).first + chunk->tower };
}
