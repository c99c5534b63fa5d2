/* A decoder: a work with its records' bytes, verified, parsed and written in place. A
 * record that is not right ends the run, or is replaced. */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "loader/augment/mixing.h"
#include "loader/work.h"
#include "stage/clock.h"
#include "stage/thread.h"
#include "stage/trace/range.h"

/* Records that are asked for before they are wanted. */
#define SMALL_BYTES 1024
#define AHEAD_SMALL 3u
#define AHEAD 5u
#define PREFETCH_BYTES ((size_t)4096)
#define CACHE_LINE_BYTES ((size_t)64)

/* A place of a batch, and the record it is for. */
struct place_target {
    struct sample_target sample;
    uint64_t *id;               /* in: the record wanted; out: the record given */
    struct mix *mix;            /* or NULL */
};

static int fail(const struct loader *loader, enum phase phase, uint64_t id, const struct record_problem *problem)
{
    char text[DAMAGE_TEXT_BYTES];
    record_describe(loader->spec.datasets[phase], id, problem, text, sizeof(text));
    return stop_fail(loader->spec.stop, EXIT_CODE_DATA, "%s%s", text, problem->is_damage ? SHARD_SKIP_ADVICE : "");
}

/* Memory is no fault of the record, which is neither damaged nor left out. */
static int fail_memory(const struct loader *loader, enum phase phase, uint64_t id, const struct record_problem *problem)
{
    char text[DAMAGE_TEXT_BYTES];
    record_describe(loader->spec.datasets[phase], id, problem, text, sizeof(text));
    return stop_fail(loader->spec.stop, EXIT_CODE_MEMORY, "%s", text);
}

/* What looks like damage may be an index that leads to the wrong place: no record is left out for that. -ECANCELED
 * where it does, else 0. */
static int check_index(const struct loader *loader, enum phase phase, uint64_t id, const struct record_problem *problem)
{
    const struct dataset *const dataset = loader->spec.datasets[phase];
    const uint32_t shard = dataset_find(dataset, id).shard;
    if (!problem->is_damage || shard_index_prove(&dataset->indexes[shard], dataset->sources[shard]) == 0)
        return 0;
    return stop_fail(loader->spec.stop, EXIT_CODE_DATA, "%s: " SHARD_INDEX_STALE_TEXT, dataset->paths[shard]);
}

/* Count a damaged record. -ECANCELED when that is one too many. */
static int count_damage(struct loader *loader, enum phase phase, uint64_t id, const struct record_problem *problem)
{
    const bool is_new = damage_add(&loader->damage, phase, id, problem);
    if (!is_new || damage_count(&loader->damage) <= loader->spec.corrupt_max)
        return 0;
    char first[DAMAGE_TEXT_BYTES];
    damage_end(&loader->damage, first, sizeof(first));
    return stop_fail(loader->spec.stop, EXIT_CODE_DATA,
                     "more than %" PRIu64 " of %" PRIu64 " records are damaged, the limit of data.max_corrupt (below 1 "
                     "a share of all); the first: %s",
                     loader->spec.corrupt_max, damage_record_count(&loader->damage), first);
}

static void note_warning(struct loader *loader, enum phase phase, uint64_t id, const struct record_problem *warning)
{
    if (warning->text[0] != '\0')
        decode_warnings_add(&loader->warnings, phase, id, warning);
}

/* The next good record in file order takes the place: which one that is depends on the
 * data alone. */
static int replace(struct worker *decoder, const struct place_target *target)
{
    struct loader *const loader = decoder->loader;
    const enum phase phase = target->sample.request.phase;
    const struct dataset *const dataset = loader->spec.datasets[phase];
    const uint64_t wanted = *target->id;
    for (uint64_t step = 1; step < dataset->record_count; step++) {
        const uint64_t id = (wanted + step) % dataset->record_count;
        struct record_problem problem;
        const int rc = record_load(decoder->contexts[phase], id, &target->sample, &problem);
        if (rc == -ENOMEM)
            return fail_memory(loader, phase, id, &problem);
        if (rc == 0) {
            note_warning(loader, phase, id, &problem);
            *target->id = id;
            return 0;
        }
        if (check_index(loader, phase, id, &problem) < 0 || count_damage(loader, phase, id, &problem) < 0)
            return -ECANCELED;
        if (stop_failed(loader->spec.stop))
            return -ECANCELED;
    }
    char first[DAMAGE_TEXT_BYTES];
    damage_end(&loader->damage, first, sizeof(first));
    return stop_fail(loader->spec.stop, EXIT_CODE_DATA,
                     "%s: no readable record is left, all %" PRIu64 " are damaged; the first: %s",
                     dataset->options.what, dataset->record_count + dataset->lost_records, first);
}

/* In evaluation every readable record counts once, so a damaged one leaves a hole. */
static int leave_hole(const struct loader *loader, const struct place_target *target)
{
    memset(target->sample.pixels, 0, loader->spec.layout->sample_bytes);
    *target->sample.label = BATCH_NO_LABEL;
    return 0;
}

static int skip(struct worker *decoder, const struct place_target *target, const struct record_problem *problem)
{
    struct loader *const loader = decoder->loader;
    const enum phase phase = target->sample.request.phase;
    if (check_index(loader, phase, *target->id, problem) < 0)
        return -ECANCELED;
    if (!loader->spec.skip_corrupt)
        return fail(loader, phase, *target->id, problem);
    if (count_damage(loader, phase, *target->id, problem) < 0)
        return -ECANCELED;
    return phase == PHASE_TRAIN ? replace(decoder, target) : leave_hole(loader, target);
}

static int decode_record(struct worker *decoder, const struct work_record *record, const struct place_target *target)
{
    struct record_problem problem;
    struct decode_context *const context = decoder->contexts[target->sample.request.phase];
    const int rc = record_decode(context, &record->read, &target->sample, &problem);
    if (rc == -ENOMEM)
        return fail_memory(decoder->loader, target->sample.request.phase, *target->id, &problem);
    if (rc < 0)
        return skip(decoder, target, &problem);
    note_warning(decoder->loader, target->sample.request.phase, *target->id, &problem);
    return 0;
}

/* Frames lie anywhere in memory: ask for what is wanted soon. Small ones come into the first cache, which has no room
 * for all of larger ones that is on its way; those come into the second, in better time. */
static void prefetch(const struct work *work, uint32_t i)
{
    const bool is_small = work->records[i].read.got <= (ssize_t)SMALL_BYTES;
    const uint32_t wanted = i + (is_small ? AHEAD_SMALL : AHEAD);
    if (wanted >= work->chunk.count || !work->records[wanted].is_stored)
        return;
    const struct record_read *const read = &work->records[wanted].read;
    const size_t bytes = (size_t)read->got < PREFETCH_BYTES ? (size_t)read->got : PREFETCH_BYTES;
    for (size_t at = 0; is_small && at < bytes; at += CACHE_LINE_BYTES)
        __builtin_prefetch(read->frame + at, 0, 3);
    for (size_t at = 0; !is_small && at < bytes; at += CACHE_LINE_BYTES)
        __builtin_prefetch(read->frame + at, 0, 2);
}

static struct place_target find_target(const struct loader *loader, const struct work *work, uint32_t place)
{
    const struct batch *const batch = work->batch;
    const struct batch_slice *const slice = &work->chunk.slice;
    return (struct place_target){
        .sample.request = {
            .augment = loader->spec.augment,
            .phase = slice->phase,
            .epoch = slice->epoch,
            .position = slice->first_position + place,
            .shape = loader->shape,
        },
        .sample.pixels = batch->pixels + place * loader->spec.layout->sample_bytes,
        .sample.label = &batch->labels[place],
        .id = &batch->ids[place],
        .mix = batch->mixes != NULL ? &batch->mixes[place] : NULL,
    };
}

/* The sample's own, whichever record comes to be there. */
static void draw_mix(const struct place_target *target)
{
    const struct image_request *const request = &target->sample.request;
    if (target->mix != NULL && request->phase == PHASE_TRAIN)
        *target->mix = mixing_draw(request->augment, request->epoch, request->position, request->shape.height,
                                   request->shape.width);
}

static int decode_work(struct worker *decoder, const struct work *work)
{
    int rc = 0;
    for (uint32_t i = 0; i < work->chunk.count && rc == 0; i++) {
        const struct place_target target = find_target(decoder->loader, work, work->chunk.first + i);
        prefetch(work, i);
        *target.id = work->records[i].id;
        draw_mix(&target);
        rc = decode_record(decoder, &work->records[i], &target);
    }
    return rc;
}

static int get_work(struct worker *decoder, struct work **work_out)
{
    void *item;
    const uint64_t begun_ns = clock_now_ns();
    range_begin(TRACE_WAIT_RECORDS, RANGE_NO_BATCH);
    const int rc = queue_get(decoder->loader->full, &item);
    range_end();
    tally_add(&decoder->tally.waited_ns, clock_now_ns() - begun_ns);
    if (rc < 0)
        return rc;
    *work_out = item;
    trace_span(decoder->track, TRACE_WAIT_RECORDS, work_traced(decoder->loader, item), begun_ns, 0);
    return 0;
}

static int decode_next(struct worker *decoder)
{
    struct loader *const loader = decoder->loader;
    struct work *work;
    int rc = get_work(decoder, &work);
    if (rc < 0)
        return rc;
    const uint64_t begun_ns = clock_now_ns();
    range_begin(TRACE_DECODE, work_traced(loader, work).number);
    rc = decode_work(decoder, work);
    range_end();
    if (rc == 0) {
        trace_span(decoder->track, TRACE_DECODE, work_traced(loader, work), begun_ns, work->chunk.count);
        ring_fill(loader->spec.rings[work->chunk.tower], work->batch, work->chunk.count);
        tally_add(&decoder->tally.records, work->chunk.count);
        tally_add(&decoder->tally.busy_ns, clock_now_ns() - begun_ns);
    }
    if (work->window != NULL)
        window_store_give_back(&loader->windows, &work->chunk);
    work_give_back(loader, work);
    return rc;
}

static int open_contexts(struct worker *decoder)
{
    int rc = 0;
    for (int phase = 0; phase < PHASE_COUNT && rc == 0; phase++) {
        const struct dataset *const dataset = decoder->loader->spec.datasets[phase];
        if (dataset != NULL)
            rc = decode_context_open(&decoder->contexts[phase], dataset);
    }
    return rc;
}

static void close_contexts(struct worker *decoder)
{
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        decode_context_close(decoder->contexts[phase]);
}

void decoder_loop(void *worker)
{
    struct worker *const decoder = worker;
    if (decoder->loader->spec.gives_way)
        thread_lower_priority();
    int rc = decoder->open_result = open_contexts(decoder);
    (void)queue_put(decoder->loader->opened, decoder);
    while (rc == 0)
        rc = decode_next(decoder);
    tally_add(&decoder->tally.cpu_ns, clock_thread_ns());
    close_contexts(decoder);
}
