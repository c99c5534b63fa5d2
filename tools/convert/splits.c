/* Samples of a conversion: their order, the validation samples, the number of shards. Called by main between a
 * converter's prepare and the writing; sample functions by any thread. */
#include "tools/convert/splits.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "formats/tfrecord.h"
#include "tools/convert/convert.h"
#include "tools/convert/record_maker.h"

/* ---- order ---- */

/* A random number below `bound`: the high half of a product. Its bias is negligible for any real count. */
static uint64_t random_below(struct random_key key, uint64_t index, uint64_t bound)
{
    return (uint64_t)(((unsigned __int128)random_u64(key, index) * bound) >> 64);
}

uint64_t *sample_order(uint64_t count, struct random_key key)
{
    uint64_t *const order = calloc(count > 0 ? count : 1, sizeof(*order));
    if (order == NULL)
        return NULL;
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t j = random_below(key, i, i + 1);
        order[i] = order[j];
        order[j] = i;
    }
    return order;
}

uint64_t *sample_order_stored(uint64_t count)
{
    uint64_t *const order = calloc(count > 0 ? count : 1, sizeof(*order));
    for (uint64_t i = 0; order != NULL && i < count; i++)
        order[i] = i;
    return order;
}

/* ---- splits ---- */

#define TRAIN_SHARDS 4u
#define SHARD_BYTES ((uint64_t)1 << 30)
#define BYTES_MAX ((uint64_t)1 << 60)
#define CHANGED_MEASURED UINT64_C(32)   /* records that are made to estimate their size */

static int subset_sample(void *arg, uint64_t index, void *scratch, struct example_value values_out[SAMPLE_VALUES_MAX],
                       size_t *count_out)
{
    const struct sample_subset *const subset = arg;
    return subset->whole.sample(subset->whole.arg, subset->chosen[index], scratch, values_out, count_out);
}

static int subset_payload(void *arg, uint64_t index, void *scratch, const uint8_t **payload_out, size_t *bytes_out)
{
    const struct sample_subset *const subset = arg;
    return subset->whole.payload(subset->whole.arg, subset->chosen[index], scratch, payload_out, bytes_out);
}

static void subset_name(void *arg, uint64_t index, char *text, size_t text_size)
{
    const struct sample_subset *const subset = arg;
    subset->whole.name(subset->whole.arg, subset->chosen[index], text, text_size);
}

static int number_compare(const void *a, const void *b)
{
    const uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

/* The chosen samples, in their original order. */
static struct sample_source make_subset(struct sample_subset *subset, const struct sample_source *whole,
                                        const char *split, uint64_t *chosen, uint64_t count)
{
    qsort(chosen, count, sizeof(*chosen), number_compare);
    *subset = (struct sample_subset){ .whole = *whole, .chosen = chosen };
    struct sample_source source = *whole;
    source.split = split;
    source.record_count = count;
    source.bytes = (uint64_t)((double)whole->bytes / (double)whole->record_count * (double)count);
    source.sample = subset_sample;
    source.payload = whole->payload != NULL ? subset_payload : NULL;
    source.name = whole->name != NULL ? subset_name : NULL;
    source.arg = subset;
    return source;
}

/* How many of `count` samples to hold out: at least one, and not all. */
static int held_out_count(const struct convert_options *options, uint64_t count, struct stop *stop,
                          uint64_t *held_out_count_out)
{
    const uint64_t held_out = options->validation_share > 0
                                  ? (uint64_t)((double)count * options->validation_share + 0.5)
                                  : options->validation;
    if (held_out < count && (held_out > 0 || options->validation_share <= 0)) {
        *held_out_count_out = held_out;
        return 0;
    }
    return convert_fail(stop, EXIT_CODE_USAGE, -EINVAL, "--validation takes %" PRIu64 " of %" PRIu64 " samples: none "
                        "would be left for %s", held_out, count, held_out > 0 ? "training" : "validation");
}

static bool has_validation(const struct conversion *conversion)
{
    for (size_t i = 0; i < conversion->source_count; i++) {
        if (strcmp(conversion->sources[i].split, "validation") == 0)
            return true;
    }
    return false;
}

int splits_hold_out(struct hold_out *hold_out, struct conversion *conversion, const struct convert_options *options,
                    struct stop *stop)
{
    const struct sample_source whole = conversion->sources[0];
    uint64_t held_out = 0;

    if (!options->has_validation)
        return 0;
    if (has_validation(conversion))
        return convert_fail(stop, EXIT_CODE_USAGE, -EINVAL, "--validation: %s has a validation set already",
                            conversion->name);
    const int rc = held_out_count(options, whole.record_count, stop, &held_out);
    if (rc < 0)
        return rc;
    hold_out->order = sample_order(whole.record_count, random_key(options->seed, RANDOM_HOLD_OUT, 0));
    if (hold_out->order == NULL)
        return convert_fail(stop, EXIT_CODE_MEMORY, -ENOMEM, "no memory to choose from %" PRIu64 " samples",
                            whole.record_count);
    conversion->sources[0] = make_subset(&hold_out->subsets[0], &whole, "train", hold_out->order + held_out,
                                       whole.record_count - held_out);
    conversion->sources[conversion->source_count++] =
        make_subset(&hold_out->subsets[1], &whole, "validation", hold_out->order, held_out);
    return 0;
}

void hold_out_release(struct hold_out *hold_out)
{
    free(hold_out->order);
    *hold_out = (struct hold_out){ 0 };
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Make `count` records, evenly spread over the source, and return their mean size. */
static int measure_records(const struct sample_source *source, uint64_t count, struct record_maker *maker,
                           double *mean_out)
{
    uint64_t sum = 0;

    for (uint64_t i = 0; i < count; i++) {
        const uint64_t index = (uint64_t)((double)source->record_count / (double)count * (double)i);
        const uint8_t *payload;
        size_t bytes;
        const int rc = record_maker_payload(maker, source, index, &payload, &bytes);
        if (rc < 0)
            return rc;
        sum += bytes + TFRECORD_FRAME_BYTES;
    }
    *mean_out = (double)sum / (double)count;
    return 0;
}

/* Estimate the bytes of a source's records: as the source says, else from the first record or, if images are changed,
 * from some of them. */
static int find_bytes(struct sample_source *source, const struct image_change *change, struct stop *stop)
{
    const bool is_changed = image_change_is_any(change);
    struct record_maker maker;
    double mean = 0;

    if ((source->bytes > 0 && !is_changed) || source->record_count == 0)
        return 0;
    int rc = record_maker_open(&maker, source, 1, change, stop);
    maker.is_silent = true;
    if (rc == 0)
        rc = measure_records(source, is_changed ? smaller(source->record_count, CHANGED_MEASURED) : 1, &maker, &mean);
    record_maker_close(&maker);
    const double bytes = mean * (double)source->record_count;
    source->bytes = bytes < (double)BYTES_MAX ? (uint64_t)bytes : BYTES_MAX;
    return rc;
}

/* Set the number of shards so that each has about `shard_bytes`; at least `least`. */
static int count_by_bytes(struct sample_source *source, uint64_t shard_bytes, uint64_t least, struct stop *stop)
{
    const uint64_t needed = source->bytes / shard_bytes + (source->bytes % shard_bytes > 0);
    const uint64_t count = smaller(needed > least ? needed : least, source->record_count);
    if (count > SHARD_COUNT_MAX)
        return convert_fail(stop, EXIT_CODE_USAGE, -EINVAL, "%s would be %" PRIu64 " shards, more than %u: give a "
                            "larger --shard-size", source->split, count, SHARD_COUNT_MAX);
    source->shard_count = (uint32_t)count;
    return 0;
}

static int count_as_requested(struct sample_source *source, uint64_t shards, struct stop *stop)
{
    if (shards > source->record_count)
        return convert_fail(stop, EXIT_CODE_USAGE, -EINVAL, "--shards=%" PRIu64 ": there are only %" PRIu64 " training "
                            "records", shards, source->record_count);
    source->shard_count = (uint32_t)shards;
    return 0;
}

int splits_count_shards(struct conversion *conversion, const struct convert_options *options, struct stop *stop)
{
    const uint64_t shard_bytes = options->shard_bytes > 0 ? options->shard_bytes : SHARD_BYTES;
    const uint64_t train_least = options->shard_bytes > 0 ? 1 : TRAIN_SHARDS;
    int rc = 0;

    for (size_t i = 0; i < conversion->source_count && rc == 0; i++) {
        struct sample_source *const source = &conversion->sources[i];
        rc = find_bytes(source, &options->change, stop);
        if (rc == 0)
            rc = i == 0 && options->shards > 0
                     ? count_as_requested(source, options->shards, stop)
                     : count_by_bytes(source, shard_bytes, i == 0 ? train_least : 1, stop);
    }
    return rc;
}
