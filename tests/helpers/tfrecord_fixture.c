/* Small TFRecord sets for tests. */
#include "tests/helpers/tfrecord_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "formats/example.h"
#include "formats/tfrecord.h"
#include "loader/record.h"
#include "tests/helpers/test.h"

void fixture_pixels(uint64_t id, uint8_t pixels_out[FIXTURE_SAMPLE_BYTES])
{
    for (uint32_t i = 0; i < FIXTURE_SAMPLE_BYTES; i++)
        pixels_out[i] = (uint8_t)((id * 2654435761u + i * 40503u) >> 7);
}

int32_t fixture_label(uint64_t id)
{
    return (int32_t)(id * 7 % FIXTURE_CLASSES);
}

size_t fixture_frame(const uint8_t *payload, size_t bytes, uint8_t *out)
{
    memmove(out + TFRECORD_HEADER_BYTES, payload, bytes);
    tfrecord_write_header(bytes, out);
    tfrecord_write_footer(out + TFRECORD_HEADER_BYTES, bytes, out + TFRECORD_HEADER_BYTES + bytes);
    return bytes + TFRECORD_FRAME_BYTES;
}

size_t fixture_example(const char *image_key, const void *image, size_t image_bytes, const char *label_key,
                       int64_t label, uint8_t *out)
{
    const struct example_value pixels = { .name = image_key, .kind = FEATURE_BYTES, .bytes = image,
                                          .byte_count = image_bytes };
    const struct example_value number = { .name = label_key, .kind = FEATURE_INT64S, .int64 = label };
    const struct example_value ascending[2] = { pixels, number }, descending[2] = { number, pixels };
    const struct example_value *values = strcmp(image_key, label_key) < 0 ? ascending : descending;
    const size_t bytes = example_write(values, 2, out + TFRECORD_HEADER_BYTES);
    return fixture_frame(out + TFRECORD_HEADER_BYTES, bytes, out);
}

/* Records differ in length: some carry the size of the image too. */
size_t fixture_record(uint64_t id, uint8_t *out)
{
    uint8_t pixels[FIXTURE_SAMPLE_BYTES];
    fixture_pixels(id, pixels);
    if (id % 3 == 0)
        return fixture_example("image_raw", pixels, sizeof(pixels), "label", fixture_label(id), out);
    const struct example_value values[] = {
        { .name = "depth", .kind = FEATURE_INT64S, .int64 = FIXTURE_CHANNELS },
        { .name = "height", .kind = FEATURE_INT64S, .int64 = FIXTURE_HEIGHT },
        { .name = "image_raw", .kind = FEATURE_BYTES, .bytes = pixels, .byte_count = sizeof(pixels) },
        { .name = "label", .kind = FEATURE_INT64S, .int64 = fixture_label(id) },
        { .name = "width", .kind = FEATURE_INT64S, .int64 = FIXTURE_WIDTH },
    };
    const size_t bytes = example_write(values, 5, out + TFRECORD_HEADER_BYTES);
    return fixture_frame(out + TFRECORD_HEADER_BYTES, bytes, out);
}

size_t fixture_three(uint8_t *out, size_t ends_out[3])
{
    size_t bytes = 0;
    for (uint64_t id = 0; id < 3; id++) {
        bytes += fixture_record(id, out + bytes);
        ends_out[id] = bytes;
    }
    return bytes;
}

void fixture_write_shard(const char *path, uint64_t first_id, uint32_t count)
{
    uint8_t *data = malloc((size_t)count * FIXTURE_FRAME_MAX + 1);
    size_t bytes = 0;
    assert_non_null(data);
    for (uint32_t i = 0; i < count; i++)
        bytes += fixture_record(first_id + i, data + bytes);
    fixture_write(path, data, bytes);
    free(data);
}

void fixture_write_set(const char *place, uint32_t shard_count, uint32_t record_count)
{
    uint32_t done = 0;
    for (uint32_t i = 0; i < shard_count; i++) {
        char name[64];
        const uint32_t left = record_count - done;
        const uint32_t count = i + 1 == shard_count ? left : left / (shard_count - i) - (left > 8 ? i % 2 : 0);
        snprintf(name, sizeof(name), "train-%05u-of-%05u", i, shard_count);
        fixture_write_shard(fixture_path(place, name), done, count);
        done += count;
    }
}

struct dataset_options fixture_options(const char *pattern)
{
    return (struct dataset_options){
        .what = "train", .pattern = pattern, .shape = { FIXTURE_HEIGHT, FIXTURE_WIDTH, FIXTURE_CHANNELS },
        .classes = FIXTURE_CLASSES,
    };
}

struct dataset *fixture_open(const struct dataset_options *options)
{
    struct dataset *dataset = NULL;
    char problem[4096];
    if (dataset_open(&dataset, options, problem, sizeof(problem)) < 0)
        fail_msg("%s", problem);
    return dataset;
}

struct dataset *fixture_open_set(const char *name, uint32_t shard_count, uint32_t record_count)
{
    char place[300];
    fixture_subfolder(place, sizeof(place), name);
    fixture_write_set(place, shard_count, record_count);
    const struct dataset_options options = fixture_options(place);
    return fixture_open(&options);
}

void fixture_assert_refused(const struct dataset_options *options, const char *first, const char *second)
{
    struct dataset *dataset;
    char problem[8192];
    assert_true(dataset_open(&dataset, options, problem, sizeof(problem)) < 0);
    if (strstr(problem, first) == NULL || strstr(problem, second) == NULL)
        fail_msg("'%s' does not hold '%s' and '%s'", problem, first, second);
}

void fixture_load(const struct dataset *dataset, uint64_t id, uint8_t *pixels_out, int32_t *label_out)
{
    struct record_problem problem;
    struct decode_context *context;
    const struct sample_target target = {
        .request = { .shape = dataset->options.shape }, .pixels = pixels_out, .label = label_out };
    assert_int_equal(decode_context_open(&context, dataset), 0);
    assert_int_equal(record_load(context, id, &target, &problem), 0);
    decode_context_close(context);
}

int fixture_open_index(struct shard_index *index, const char *path, bool skip_damage, bool use_cache, char *problem,
                       size_t problem_size)
{
    const struct shard_index_options options = { .skip_damage = skip_damage, .use_cache = use_cache };
    struct shard_source *source;
    assert_int_equal(shard_source_open(&source, NULL, path), 0);
    problem[0] = '\0';
    const int rc = shard_index_open(index, source, &options, problem, problem_size);
    shard_source_close(source);
    return rc;
}

void fixture_assert_index_opens(struct shard_index *index, const char *path, bool skip_damage, bool use_cache)
{
    char problem[1024];
    if (fixture_open_index(index, path, skip_damage, use_cache, problem, sizeof(problem)) < 0)
        fail_msg("%s", problem);
}
