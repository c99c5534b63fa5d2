/* The life of a loader: memory, threads, counts. Called by main. */
#include "loader/loader.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loader/work.h"

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
    struct work_plan plan;
    work_plan_init(&plan, spec);
    const size_t blocks = plan.is_windowed ? (size_t)plan.order.window_blocks : 1;
    return (struct loader_memory){ .bytes = plan.total_bytes,
                                   .kept_bytes = plan.store_bytes,
                                   .window_spare_bytes = plan.window_bytes - plan.window_bytes / blocks,
                                   .takes_large = takes_large(spec),
                                   .is_read = !plan.is_stored[PHASE_TRAIN] };
}

struct order_shape loader_order(const struct loader_spec *spec)
{
    struct work_plan plan;
    work_plan_init(&plan, spec);
    return plan.order;
}

static int work_init(struct work *work, const struct work_plan *plan)
{
    work->records = calloc(plan->chunk_records, sizeof(*work->records));
    work->buffer = malloc(plan->buffer_bytes);
    return work->records != NULL && work->buffer != NULL ? 0 : -ENOMEM;
}

static int open_works(struct loader *loader)
{
    const struct work_plan *plan = &loader->plan;
    loader->works = calloc(plan->work_count, sizeof(*loader->works));
    if (loader->works == NULL)
        return -ENOMEM;
    int rc = queue_open(&loader->free, plan->work_count);
    if (rc == 0)
        rc = queue_open(&loader->full, plan->work_count);
    for (uint32_t i = 0; i < plan->work_count && rc == 0; i++) {
        rc = work_init(&loader->works[i], plan);
        if (rc == 0)
            rc = queue_put(loader->free, &loader->works[i]);
    }
    return rc;
}

static struct worker *open_workers(struct loader *loader, uint32_t count, enum trace_kind kind)
{
    struct worker *workers = aligned_alloc(_Alignof(struct worker), count * sizeof(*workers));
    for (uint32_t i = 0; workers != NULL && i < count; i++)
        workers[i] = (struct worker){ .loader = loader, .track = trace_track_add(loader->spec.trace, kind, i) };
    return workers;
}

static int open_batches(struct loader *loader)
{
    int rc = 0;
    for (uint32_t i = 0; i < loader->spec.read_threads && rc == 0; i++)
        rc = read_batch_open(&loader->readers[i].batch, loader->plan.chunk_records);
    return rc;
}

static int open_all_workers(struct loader *loader)
{
    loader->readers = open_workers(loader, loader->spec.read_threads, TRACE_READER);
    loader->decoders = open_workers(loader, loader->spec.decode_threads, TRACE_DECODER);
    if (loader->readers == NULL || loader->decoders == NULL)
        return -ENOMEM;
    const int rc = open_batches(loader);
    return rc < 0 ? rc : queue_open(&loader->opened, loader->spec.decode_threads);
}

static int open_stores(struct loader *loader)
{
    int rc = 0;
    for (int phase = 0; phase < PHASE_COUNT && rc == 0; phase++) {
        if (loader->plan.is_stored[phase])
            rc = shard_store_init(&loader->stores[phase], loader->spec.datasets[phase]);
    }
    if (rc == 0 && loader->plan.is_windowed)
        rc = window_store_init(&loader->windows, loader->spec.datasets[PHASE_TRAIN], loader->spec.schedule,
                               &loader->plan.order, loader->spec.seed);
    return rc;
}

/* What was lost while the shards were indexed counts as damage of the run. */
static int open_damage(struct loader *loader)
{
    if (!loader->spec.skip_corrupt)
        return 0;
    const int rc = damage_init(&loader->damage, loader->spec.datasets, &loader->spec.damage_sink);
    if (rc < 0 || damage_count(&loader->damage) <= loader->spec.corrupt_max)
        return rc;
    char first[DAMAGE_TEXT_BYTES];
    damage_end(&loader->damage, first, sizeof(first));
    return stop_fail(loader->spec.stop, EXIT_CODE_DATA,
                     "%" PRIu64 " of %" PRIu64 " records are damaged, more than the %" PRIu64 " that data.max_corrupt "
                     "accepts (below 1 a share of all); the first: %s",
                     damage_count(&loader->damage), damage_record_count(&loader->damage), loader->spec.corrupt_max,
                     first);
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

static int start_workers(struct worker *workers, uint32_t count, const char *what, void (*loop)(void *worker))
{
    int rc = 0;
    for (uint32_t i = 0; i < count && rc == 0; i++) {
        char name[16];
        snprintf(name, sizeof(name), "%s%" PRIu32, what, i % 1000);
        rc = thread_start(&workers[i].thread, name, loop, &workers[i]);
    }
    return rc;
}

/* Every decoder has opened its contexts: nothing is allocated from here on. */
static int await_decoders(struct loader *loader)
{
    int rc = 0;
    for (uint32_t i = 0; i < loader->spec.decode_threads; i++) {
        void *decoder;
        const int got = queue_get(loader->opened, &decoder);
        if (rc == 0)
            rc = got < 0 ? got : ((struct worker *)decoder)->open_result;
    }
    return rc;
}

static int start_all_workers(struct loader *loader)
{
    atomic_init(&loader->readers_left, loader->spec.read_threads);
    limit_rings(loader);
    int rc = start_workers(loader->decoders, loader->spec.decode_threads, "decoder", decoder_loop);
    if (rc == 0)
        rc = await_decoders(loader);
    if (rc == 0)
        rc = start_workers(loader->readers, loader->spec.read_threads, "reader", reader_loop);
    return rc;
}

static void check_spec(const struct loader_spec *spec)
{
    assert(spec->read_threads >= 1 && spec->decode_threads >= 1);
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        const struct dataset *dataset = spec->datasets[phase];
        assert(spec->schedule->records[phase] == 0 || dataset != NULL);
        assert(dataset == NULL || spec->schedule->records[phase] <= dataset->record_count);
        assert(dataset == NULL || dataset->sample_bytes == spec->layout->sample_bytes);
    }
    assert(schedule_slice_max(spec->schedule) <= spec->layout->capacity);
}

static int open_parts(struct loader *loader)
{
    int rc = open_works(loader);
    if (rc == 0)
        rc = open_all_workers(loader);
    if (rc == 0)
        rc = open_stores(loader);
    if (rc == 0)
        rc = open_damage(loader);
    if (rc == 0)
        rc = decode_warnings_init(&loader->warnings, loader->spec.datasets);
    return rc;
}

static int run(struct loader *loader)
{
    int rc = stop_on_failure(loader->spec.stop, loader_end, loader);
    if (rc == 0)
        rc = start_all_workers(loader);
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
    loader->shape = (struct image_shape){ spec->layout->height, spec->layout->width, spec->layout->channels };
    work_plan_init(&loader->plan, spec);
    cursor_init(&loader->cursor, spec->schedule, &loader->plan.order, spec->seed, loader->plan.chunk_records);
    int rc = open_parts(loader);
    if (rc == 0)
        rc = run(loader);
    if (rc < 0) {
        loader_close(loader);
        return rc;
    }
    *loader_out = loader;
    return 0;
}

static void join_workers(struct worker *workers, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        thread_join(workers[i].thread);
        workers[i].thread = NULL;
    }
}

void loader_join(struct loader *loader, struct loader_counts *counts_out)
{
    if (loader == NULL)
        return;
    join_workers(loader->readers, loader->spec.read_threads);
    join_workers(loader->decoders, loader->spec.decode_threads);
    if (counts_out != NULL)
        loader_count(loader, counts_out);
}

/* What is left between readers and decoders of a run that ended early has no owner. */
static void check_works(const struct loader *loader)
{
    struct queue_counts between;
    queue_count(loader->full, &between);
    assert(loader->lent == between.put - between.got);
    (void)between;
}

static void close_works(struct loader *loader)
{
    if (loader->full != NULL)
        check_works(loader);
    for (uint32_t i = 0; loader->works != NULL && i < loader->plan.work_count; i++) {
        free(loader->works[i].records);
        free(loader->works[i].buffer);
    }
    free(loader->works);
    queue_close(loader->free);
    queue_close(loader->full);
}

void loader_close(struct loader *loader)
{
    if (loader == NULL)
        return;
    stop_withdraw(loader->spec.stop, loader);
    close_works(loader);
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
    if (ended->plan.is_windowed)
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
        const struct tally *tally = &loader->readers[i].tally;
        counts.bytes += value_of(&tally->bytes);
        counts.read_busy_ns += value_of(&tally->busy_ns);
        counts.read_waited_room_ns += value_of(&tally->waited_ns);
        counts.read_cpu_ns += value_of(&tally->cpu_ns);
    }
    for (uint32_t i = 0; i < loader->spec.decode_threads; i++) {
        const struct tally *tally = &loader->decoders[i].tally;
        counts.records += value_of(&tally->records);
        counts.decode_busy_ns += value_of(&tally->busy_ns);
        counts.decode_waited_input_ns += value_of(&tally->waited_ns);
        counts.decode_cpu_ns += value_of(&tally->cpu_ns);
    }
    *counts_out = counts;
}

struct damage_list *loader_take_damage(struct loader *loader)
{
    return damage_take_list(&loader->damage);
}
