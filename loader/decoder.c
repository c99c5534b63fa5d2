/* A decoder: a work with its records' bytes, verified, parsed and written in place. A
 * record that is not right ends the run, or is replaced. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "loader/work.h"
#include "stage/clock.h"

#define PREFETCH_RECORDS 3u
#define PREFETCH_BYTES ((size_t)4096)
#define CACHE_LINE_BYTES ((size_t)64)

/* A place of a batch, and the record it is for. */
struct place_target {
    enum pass pass;
    struct record_target sample;
    uint64_t *id;               /* in: the record wanted; out: the record given */
};

static int fail(const struct loader *loader, enum pass pass, uint64_t id, const char *what)
{
    char text[DAMAGE_LINE_BYTES];
    record_describe(loader->spec.datasets[pass], id, what, text, sizeof text);
    return stop_fail(loader->spec.stop, EXIT_CODE_DATA, "%s", text);
}

/* Count a damaged record. -ECANCELED when that is one too many. */
static int count_damage(struct loader *loader, enum pass pass, uint64_t id, const char *what)
{
    const bool is_new = damage_add(&loader->damage, pass, id, what);
    if (!is_new || damage_count(&loader->damage) <= loader->spec.corrupt_max)
        return 0;
    char text[DAMAGE_LINE_BYTES];
    record_describe(loader->spec.datasets[pass], id, what, text, sizeof text);
    return stop_fail(loader->spec.stop, EXIT_CODE_DATA, "more than %" PRIu64 " damaged records (max_corrupt); "
                     "the last one met: %s", loader->spec.corrupt_max, text);
}

/* The next good record in file order takes the place: which one that is depends on the
 * data alone. */
static int replace(struct worker *decoder, const struct place_target *target)
{
    struct loader *loader = decoder->loader;
    const struct dataset *dataset = loader->spec.datasets[target->pass];
    const uint64_t wanted = *target->id;
    for (uint64_t step = 1; step < dataset->record_count; step++) {
        const uint64_t id = (wanted + step) % dataset->record_count;
        char what[RECORD_WHAT_BYTES];
        if (record_load(dataset, id, &target->sample, decoder->scratch, what) == 0) {
            *target->id = id;
            return 0;
        }
        if (count_damage(loader, target->pass, id, what) < 0)
            return -ECANCELED;
        if (stop_failed(loader->spec.stop))
            return -ECANCELED;
    }
    return stop_fail(loader->spec.stop, EXIT_CODE_DATA, "%s: no readable record is left", dataset->options.what);
}

/* In evaluation every readable record counts once, so a damaged one leaves a hole. */
static int leave_hole(const struct loader *loader, const struct place_target *target)
{
    memset(target->sample.pixels, 0, loader->spec.layout->sample_bytes);
    *target->sample.label = BATCH_NO_LABEL;
    return 0;
}

static int skip(struct worker *decoder, const struct place_target *target, const char *what)
{
    struct loader *loader = decoder->loader;
    if (!loader->spec.skip_corrupt)
        return fail(loader, target->pass, *target->id, what);
    if (count_damage(loader, target->pass, *target->id, what) < 0)
        return -ECANCELED;
    return target->pass == PASS_TRAIN ? replace(decoder, target) : leave_hole(loader, target);
}

static int decode_record(struct worker *decoder, const struct work_record *record, const struct place_target *target)
{
    struct loader *loader = decoder->loader;
    char what[RECORD_WHAT_BYTES];
    if (record_decode(loader->spec.datasets[target->pass], &record->read, &target->sample, decoder->scratch, what) < 0)
        return skip(decoder, target, what);
    return 0;
}

/* Frames lie anywhere in memory: ask for one while those before it are decoded. */
static void prefetch(const struct work *work, uint32_t i)
{
    if (i >= work->chunk.count || !work->records[i].is_stored)
        return;
    const struct record_read *read = &work->records[i].read;
    const size_t bytes = (size_t)read->got < PREFETCH_BYTES ? (size_t)read->got : PREFETCH_BYTES;
    for (size_t at = 0; at < bytes; at += CACHE_LINE_BYTES)
        __builtin_prefetch(read->frame + at);
}

static int decode_work(struct worker *decoder, const struct work *work)
{
    const struct batch *batch = work->batch;
    const size_t sample_bytes = decoder->loader->spec.layout->sample_bytes;
    int result = 0;
    for (uint32_t i = 0; i < work->chunk.count && result == 0; i++) {
        const uint32_t place = work->chunk.first + i;
        prefetch(work, i + PREFETCH_RECORDS);
        batch->ids[place] = work->records[i].id;
        const struct place_target target = {
            work->chunk.span.pass, { batch->pixels + place * sample_bytes, &batch->labels[place] },
            &batch->ids[place],
        };
        result = decode_record(decoder, &work->records[i], &target);
    }
    return result;
}

static int decode_next(struct worker *decoder)
{
    struct loader *loader = decoder->loader;
    void *item;
    const uint64_t begun_ns = clock_now_ns();
    int result = queue_get(loader->full, &item);
    const uint64_t got_ns = clock_now_ns();
    tally_add(&decoder->tally.waited_ns, got_ns - begun_ns);
    if (result < 0)
        return result;
    struct work *work = item;
    result = decode_work(decoder, work);
    if (result < 0)
        return result;
    ring_fill(loader->spec.rings[work->chunk.tower], work->batch, work->chunk.count);
    tally_add(&decoder->tally.records, work->chunk.count);
    tally_add(&decoder->tally.busy_ns, clock_now_ns() - got_ns);
    return queue_put(loader->free, work);
}

void decoder_loop(void *worker)
{
    while (decode_next(worker) == 0)
        ;
}
