/* A decoder thread: takes a chunk buffer with the bytes of its records, verifies, parses and decodes them, and writes
 * the samples to their positions in the batch. A damaged record ends the run or is replaced. */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "loader/augment/augment.h"
#include "loader/images/image_memory.h"
#include "loader/loader_internal.h"
#include "stage/clock.h"
#include "stage/thread.h"
#include "stage/trace/range.h"

/* How many records ahead of the decoded one are prefetched. */
#define SMALL_BYTES 1024
#define AHEAD_SMALL 3u
#define AHEAD 5u
#define PREFETCH_BYTES ((size_t)4096)
#define CACHE_LINE_BYTES ((size_t)64)

/* A position in a batch, and the record to be decoded there. */
struct place_target {
    struct sample_target sample;
    uint64_t *id;               /* in: id of the wanted record; out: of the decoded one */
    struct mix *mix;            /* may be NULL */
};

static int fail_record(const struct loader *loader, enum phase phase, uint64_t id, const struct record_problem *problem)
{
    char text[DAMAGE_TEXT_BYTES];
    record_describe(loader->spec.datasets[phase], id, problem, text, sizeof(text));
    return stop_fail(loader->spec.stop, EXIT_CODE_DATA, "%s%s", text, problem->is_damage ? SHARD_SKIP_ADVICE : "");
}

/* Report an image that needs too much memory. It is not damaged, so it is never skipped. */
static int fail_memory(const struct loader *loader, enum phase phase, uint64_t id, const struct record_problem *problem)
{
    char text[DAMAGE_TEXT_BYTES];
    record_describe(loader->spec.datasets[phase], id, problem, text, sizeof(text));
    return stop_fail(loader->spec.stop, EXIT_CODE_MEMORY, "%s", text);
}

/* Apparent damage may come from a wrong index file or from a file that the catalog does not describe, and then no record
 * is skipped. -ECANCELED if it does, else 0. */
static int check_index_file(const struct loader *loader, enum phase phase, uint64_t id,
                            const struct record_problem *problem)
{
    const struct dataset *const dataset = loader->spec.datasets[phase];
    const uint32_t shard = dataset_find(dataset, id).shard;
    if (!problem->is_damage || shard_index_prove(&dataset->indexes[shard], dataset->sources[shard]) == 0)
        return 0;
    char text[DAMAGE_TEXT_BYTES];
    shard_index_describe_stale(&dataset->indexes[shard], text, sizeof(text));
    return stop_fail(loader->spec.stop, EXIT_CODE_DATA, "%s: %s", dataset->paths[shard], text);
}

static void pass_on(const struct loader *loader, const struct found_problem *found)
{
    if (loader->spec.relay.pass != NULL)
        loader->spec.relay.pass(loader->spec.relay.arg, found);
}

/* Count a damaged record. -ECANCELED if the limit is exceeded. */
static int count_damage(struct loader *loader, enum phase phase, uint64_t id, const struct record_problem *problem)
{
    const bool is_new = damage_add(&loader->damage, phase, id, problem);
    if (is_new)
        pass_on(loader, &(struct found_problem){ phase, false, id, *problem });
    if (!is_new || damage_count(&loader->damage) <= loader->spec.corrupt_max)
        return 0;
    char summary[DAMAGE_SUMMARY_BYTES];
    damage_end(&loader->damage, summary, sizeof(summary));
    return stop_fail(loader->spec.stop, EXIT_CODE_DATA,
                     "more than %" PRIu64 " of %" PRIu64 " records are damaged, the limit set by data.max_corrupt; "
                     "%s",
                     loader->spec.corrupt_max, damage_record_count(&loader->damage), summary);
}

static void note_warning(struct loader *loader, enum phase phase, uint64_t id, const struct record_problem *warning)
{
    if (warning->text[0] != '\0' && decode_warnings_add(&loader->warnings, phase, id, warning))
        pass_on(loader, &(struct found_problem){ phase, true, id, *warning });
}

void loader_add_problem(struct loader *loader, const struct found_problem *found)
{
    if (found->is_warning)
        note_warning(loader, found->phase, found->id, &found->problem);
    else
        (void)count_damage(loader, found->phase, found->id, &found->problem);
}

/* Replace a damaged record by the next good one in file order, so that the choice depends only on the data. */
static int replace_record(struct loader_thread *decoder, const struct place_target *target)
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
        if (check_index_file(loader, phase, id, &problem) < 0 || count_damage(loader, phase, id, &problem) < 0)
            return -ECANCELED;
        if (stop_failed(loader->spec.stop))
            return -ECANCELED;
    }
    char summary[DAMAGE_SUMMARY_BYTES];
    damage_end(&loader->damage, summary, sizeof(summary));
    return stop_fail(loader->spec.stop, EXIT_CODE_DATA,
                     "%s: no readable record is left, all %" PRIu64 " are damaged; %s",
                     dataset->options.what, dataset->record_count + dataset->lost_records, summary);
}

/* Leave the position of a damaged record empty. It is not replaced, since evaluation counts every readable record
 * once. */
static int leave_empty(const struct loader *loader, const struct place_target *target)
{
    memset(target->sample.pixels, 0, loader->spec.layout->of[target->sample.request.phase].sample_bytes);
    *target->sample.label = BATCH_NO_LABEL;
    return 0;
}

static int skip_record(struct loader_thread *decoder, const struct place_target *target,
                       const struct record_problem *problem)
{
    struct loader *const loader = decoder->loader;
    const enum phase phase = target->sample.request.phase;
    if (check_index_file(loader, phase, *target->id, problem) < 0)
        return -ECANCELED;
    if (!loader->spec.skip_corrupt)
        return fail_record(loader, phase, *target->id, problem);
    if (count_damage(loader, phase, *target->id, problem) < 0)
        return -ECANCELED;
    return phase == PHASE_TRAIN ? replace_record(decoder, target) : leave_empty(loader, target);
}

static int decode_record(struct loader_thread *decoder, const struct chunk_record *record,
                         const struct place_target *target)
{
    struct record_problem problem;
    struct decode_context *const context = decoder->contexts[target->sample.request.phase];
    const int rc = record_decode(context, &record->read, &target->sample, &problem);
    if (rc == -ENOMEM)
        return fail_memory(decoder->loader, target->sample.request.phase, *target->id, &problem);
    if (rc < 0)
        return skip_record(decoder, target, &problem);
    note_warning(decoder->loader, target->sample.request.phase, *target->id, &problem);
    return 0;
}

/* Frames are scattered in memory, so those needed soon are prefetched: small ones into the L1 cache, larger ones
 * earlier and into the L2 cache, because several of them do not fit into L1. */
static void prefetch(const struct chunk_buffer *buffer, uint32_t i)
{
    const bool is_small = buffer->records[i].read.got <= (ssize_t)SMALL_BYTES;
    const uint32_t wanted = i + (is_small ? AHEAD_SMALL : AHEAD);
    if (wanted >= buffer->chunk.count || !buffer->records[wanted].is_stored)
        return;
    const struct record_read *const read = &buffer->records[wanted].read;
    const size_t bytes = (size_t)read->got < PREFETCH_BYTES ? (size_t)read->got : PREFETCH_BYTES;
    for (size_t at = 0; is_small && at < bytes; at += CACHE_LINE_BYTES)
        __builtin_prefetch(read->frame + at, 0, 3);
    for (size_t at = 0; !is_small && at < bytes; at += CACHE_LINE_BYTES)
        __builtin_prefetch(read->frame + at, 0, 2);
}

static struct place_target find_target(const struct loader *loader, const struct chunk_buffer *buffer, uint32_t place)
{
    const struct batch *const batch = buffer->batch;
    const struct local_batch *const local = &buffer->chunk.local;
    const struct batch_layout *const layout = loader->spec.layout;
    const struct batch_image *const image = &layout->of[local->phase];
    return (struct place_target){
        .sample.request = {
            .augment = loader->spec.augment,
            .phase = local->phase,
            .epoch = local->epoch,
            .position = local->first_position + place,
            .shape = { image->height, image->width, layout->channels },
        },
        .sample.pixels = batch->pixels + place * image->sample_bytes,
        .sample.label = &batch->labels[place],
        .id = &batch->ids[place],
        .mix = batch->mixes != NULL ? &batch->mixes[place] : NULL,
    };
}

/* Draw how the sample is mixed. This depends on the sample's position, not on the record that is decoded there. */
static void draw_mix(const struct place_target *target)
{
    const struct image_request *const request = &target->sample.request;
    if (target->mix != NULL && request->phase == PHASE_TRAIN)
        *target->mix = mixing_draw(request->augment, request->epoch, request->position, request->shape.height,
                                   request->shape.width);
}

static int decode_buffer(struct loader_thread *decoder, const struct chunk_buffer *buffer)
{
    int rc = 0;
    for (uint32_t i = 0; i < buffer->chunk.count && rc == 0; i++) {
        const struct place_target target = find_target(decoder->loader, buffer, buffer->chunk.first + i);
        prefetch(buffer, i);
        *target.id = buffer->records[i].id;
        draw_mix(&target);
        rc = decode_record(decoder, &buffer->records[i], &target);
    }
    return rc;
}

static int get_buffer(struct loader_thread *decoder, struct chunk_buffer **buffer_out)
{
    void *item;
    const uint64_t begun_ns = clock_now_ns();
    range_begin(TRACE_WAIT_RECORDS, RANGE_NO_BATCH);
    const int rc = queue_get(decoder->loader->full, &item);
    range_end();
    counter_add(&decoder->counters.waited_ns, clock_now_ns() - begun_ns);
    if (rc < 0)
        return rc;
    *buffer_out = item;
    trace_span(decoder->track, TRACE_WAIT_RECORDS, chunk_buffer_traced(decoder->loader, item), begun_ns, 0);
    return 0;
}

static int decode_next(struct loader_thread *decoder)
{
    struct loader *const loader = decoder->loader;
    struct chunk_buffer *buffer;
    int rc = get_buffer(decoder, &buffer);
    if (rc < 0)
        return rc;
    const uint64_t begun_ns = clock_now_ns();
    range_begin(TRACE_DECODE, chunk_buffer_traced(loader, buffer).number);
    rc = decode_buffer(decoder, buffer);
    range_end();
    if (rc == 0) {
        trace_span(decoder->track, TRACE_DECODE, chunk_buffer_traced(loader, buffer), begun_ns, buffer->chunk.count);
        ring_fill(loader->spec.rings[buffer->chunk.tower], buffer->batch, buffer->chunk.count);
        counter_add(&decoder->counters.records, buffer->chunk.count);
        counter_add(&decoder->counters.busy_ns, clock_now_ns() - begun_ns);
    }
    if (buffer->window != NULL)
        window_store_give_back(&loader->windows, &buffer->chunk);
    chunk_buffer_give_back(loader, buffer);
    return rc;
}

static int open_contexts(struct loader_thread *decoder)
{
    int rc = 0;
    for (int phase = 0; phase < PHASE_COUNT && rc == 0; phase++) {
        const struct dataset *const dataset = decoder->loader->spec.datasets[phase];
        if (dataset != NULL)
            rc = decode_context_open(&decoder->contexts[phase], dataset);
    }
    return rc;
}

static void close_contexts(struct loader_thread *decoder)
{
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        decode_context_close(decoder->contexts[phase]);
}

void decoder_loop(void *thread)
{
    struct loader_thread *const decoder = thread;
    if (decoder->loader->spec.gives_way)
        thread_lower_priority();
    image_memory_limit_thread(decoder->loader->spec.max_pixels);
    int rc = decoder->open_result = open_contexts(decoder);
    (void)queue_put(decoder->loader->opened, decoder);
    while (rc == 0)
        rc = decode_next(decoder);
    counter_add(&decoder->counters.cpu_ns, clock_thread_ns());
    close_contexts(decoder);
}
