/* Validation samples and numbers of shards. Called by main between a converter's prepare and the writing. */
#include "tools/convert/splits.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "formats/tfrecord.h"
#include "tools/convert/sample_order.h"
#include "tools/convert/writing/record_maker.h"

#define TRAIN_SHARDS 4u
#define SHARD_BYTES ((uint64_t)1 << 30)
#define BYTES_MAX ((uint64_t)1 << 60)
#define CHANGED_MEASURED UINT64_C(32)   /* records made to see how long they are */

static int part_sample(void *arg, uint64_t index, void *scratch, struct example_value values_out[SAMPLE_VALUES_MAX],
                       size_t *count_out)
{
    const struct sample_part *const part = arg;
    return part->whole.sample(part->whole.arg, part->chosen[index], scratch, values_out, count_out);
}

static int part_payload(void *arg, uint64_t index, void *scratch, const uint8_t **payload_out, size_t *bytes_out)
{
    const struct sample_part *const part = arg;
    return part->whole.payload(part->whole.arg, part->chosen[index], scratch, payload_out, bytes_out);
}

static void part_name(void *arg, uint64_t index, char *text, size_t text_size)
{
    const struct sample_part *const part = arg;
    part->whole.name(part->whole.arg, part->chosen[index], text, text_size);
}

static int number_compare(const void *a, const void *b)
{
    const uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

/* The chosen samples, in their order in the whole. */
static struct sample_source make_part(struct sample_part *part, const struct sample_source *whole, const char *split,
                                      uint64_t *chosen, uint64_t count)
{
    qsort(chosen, count, sizeof(*chosen), number_compare);
    *part = (struct sample_part){ .whole = *whole, .chosen = chosen };
    struct sample_source source = *whole;
    source.split = split;
    source.record_count = count;
    source.bytes = (uint64_t)((double)whole->bytes / (double)whole->record_count * (double)count);
    source.sample = part_sample;
    source.payload = whole->payload != NULL ? part_payload : NULL;
    source.name = whole->name != NULL ? part_name : NULL;
    source.arg = part;
    return source;
}

/* The samples to hold out of `count`: more than none and fewer than all. */
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
    stop_fail(stop, EXIT_CODE_USAGE, "--validation takes %" PRIu64 " of %" PRIu64 " samples: some must be left to %s",
              held_out, count, held_out > 0 ? "train with" : "validate with");
    return -EINVAL;
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
    uint64_t held_out;

    if (!options->has_validation)
        return 0;
    if (has_validation(conversion)) {
        stop_fail(stop, EXIT_CODE_USAGE, "--validation: %s has samples to validate with already", conversion->name);
        return -EINVAL;
    }
    const int rc = held_out_count(options, whole.record_count, stop, &held_out);
    if (rc < 0)
        return rc;
    hold_out->order = sample_order(whole.record_count, random_key(options->seed, RANDOM_HOLD_OUT, 0));
    if (hold_out->order == NULL) {
        stop_fail(stop, EXIT_CODE_MEMORY, "no memory to choose from %" PRIu64 " samples", whole.record_count);
        return -ENOMEM;
    }
    conversion->sources[0] = make_part(&hold_out->parts[0], &whole, "train", hold_out->order + held_out,
                                       whole.record_count - held_out);
    conversion->sources[conversion->source_count++] =
        make_part(&hold_out->parts[1], &whole, "validation", hold_out->order, held_out);
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

/* Make some records, one of each stretch of the source, for the mean of their bytes. */
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

/* The bytes of a source's records: as it says; as if all were like the first; or, where images change, like some. */
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

/* So many shards of about `shard_bytes`, at least `least`. */
static int count_by_bytes(struct sample_source *source, uint64_t shard_bytes, uint64_t least, struct stop *stop)
{
    const uint64_t needed = source->bytes / shard_bytes + (source->bytes % shard_bytes > 0);
    const uint64_t count = smaller(needed > least ? needed : least, source->record_count);
    if (count > SHARD_COUNT_MAX) {
        stop_fail(stop, EXIT_CODE_USAGE, "%s would be %" PRIu64 " shards, but %u can be named: "
                  "give a larger --shard-size", source->split, count, SHARD_COUNT_MAX);
        return -EINVAL;
    }
    source->shard_count = (uint32_t)count;
    return 0;
}

static int count_as_told(struct sample_source *source, uint64_t shards, struct stop *stop)
{
    if (shards > source->record_count) {
        stop_fail(stop, EXIT_CODE_USAGE, "--shards=%" PRIu64 ": there are only %" PRIu64 " training records", shards,
                  source->record_count);
        return -EINVAL;
    }
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
                     ? count_as_told(source, options->shards, stop)
                     : count_by_bytes(source, shard_bytes, i == 0 ? train_least : 1, stop);
    }
    return rc;
}
