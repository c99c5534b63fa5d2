/* Sets of encoded images: recognised by the first record, each image decoded by its own first bytes. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "loader/record.h"
#include "tests/helpers/loader_harness.h"
#include "tests/helpers/test.h"
#include "tests/helpers/tfrecord_fixture.h"
#include "tests/helpers/tiny_images.h"

enum { HEIGHT = 2, WIDTH = 3, SAMPLE_BYTES = HEIGHT * WIDTH * 3 };

struct image {
    const void *bytes;
    size_t count;
};

#define IMAGE(text) { text, sizeof(text) - 1 }

static struct dataset_options write_set(const struct image *images, size_t count)
{
    static uint8_t frames[8192];
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += fixture_example("image/encoded", images[i].bytes, images[i].count, "image/class/label", (int64_t)i,
                                 frames + bytes);
    const char *const path = fixture_path(folder, "one.tfrecord");
    fixture_write(path, frames, bytes);
    struct dataset_options options = fixture_options(path);
    options.shape = (struct image_shape){ HEIGHT, WIDTH, 3 };
    return options;
}

/* The text of what is wrong with record `id`; "" when nothing is. */
static const char *load(const struct dataset *dataset, uint64_t id, uint8_t sample[SAMPLE_BYTES])
{
    static struct record_problem problem;
    struct decode_context *context;
    int32_t label = -1;
    const struct sample_target target = {
        .request = { .shape = dataset->options.shape }, .pixels = sample, .label = &label };
    assert_int_equal(decode_context_open(&context, dataset), 0);
    problem.text[0] = '\0';
    if (record_load(context, id, &target, &problem) == 0)
        assert_int_equal(label, id);
    decode_context_close(context);
    return problem.text;
}

TEST(images_of_both_formats_and_any_size_are_read)
{
    static const struct image images[] = { IMAGE(tiny_jpeg), IMAGE(tiny_png), IMAGE(tiny_jpeg) };
    uint8_t sample[SAMPLE_BYTES];
    const struct dataset_options options = write_set(images, 3);
    struct dataset *const dataset = fixture_open(&options);
    assert_ptr_equal(dataset->format.image, &image_encoded_ops);
    assert_int_equal(dataset->format.stored_height, 8);
    assert_int_equal(dataset->format.stored_width, 8);
    for (uint64_t id = 0; id < 3; id += 2) {
        assert_string_equal(load(dataset, id, sample), "");
        for (size_t i = 0; i < SAMPLE_BYTES; i++)
            assert_int_equal(sample[i], 90);
    }
    assert_string_equal(load(dataset, 1, sample), "");
    for (size_t i = 0; i < SAMPLE_BYTES; i++)
        assert_int_equal(sample[i], i % 3 == 0 ? 30 * (i / 3 % WIDTH) : i % 3 == 1 ? 30 * (i / 3 / WIDTH) : 7);
    dataset_close(dataset);
}

TEST(what_cannot_be_read_among_them_is_reported)
{
    static const uint8_t pixels[SAMPLE_BYTES];
    static const struct image images[] = { IMAGE(tiny_png), IMAGE("GIF89a and so on"),
                                           IMAGE("\xff\xd8\xff\xd9 and so on"), { pixels, sizeof(pixels) }, { "", 0 } };
    static const char *const words[] = { "", "holds a GIF image", "holds a JPEG image that cannot be decoded: ",
                                         "holds raw pixels, but the first record of the set an encoded image",
                                         "is neither a JPEG nor a PNG (0 bytes)" };
    uint8_t sample[SAMPLE_BYTES];
    const struct dataset_options options = write_set(images, 5);
    struct dataset *const dataset = fixture_open(&options);
    for (uint64_t id = 0; id < 5; id++)
        assert_non_null(strstr(load(dataset, id, sample), words[id]));
    dataset_close(dataset);
}

TEST(pixels_that_begin_like_an_image_are_pixels_when_they_are_as_many)
{
    static const struct image image = IMAGE("\xff\xd8\xff\xe0 fourteen more");
    uint8_t sample[SAMPLE_BYTES];
    assert_int_equal(image.count, SAMPLE_BYTES);
    const struct dataset_options options = write_set(&image, 1);
    struct dataset *const dataset = fixture_open(&options);
    assert_ptr_equal(dataset->format.image, &image_raw_hwc_ops);
    assert_string_equal(load(dataset, 0, sample), "");
    assert_memory_equal(sample, image.bytes, SAMPLE_BYTES);
    dataset_close(dataset);
}

/* What a run of three epochs over the set counts of warnings. */
static uint64_t count_warnings(const struct dataset *dataset, uint32_t threads)
{
    struct harness harness = {
        .spec = { .datasets = { dataset, dataset }, .shuffle = SHUFFLE_FULL, .seed = 3, .read_threads = 1,
                  .decode_threads = threads },
        .schedule = { .batch = 2, .towers = 1, .epochs = 3 },
        .depth = 2,
    };
    harness_run(&harness);
    assert_string_equal(harness.message, "");
    harness_release(&harness);
    return harness.counts.decoder_warnings;
}

TEST(flaws_that_a_decoder_ignores_are_reported_and_counted_once)
{
    static const struct image images[] = { IMAGE(tiny_jpeg), IMAGE(tiny_png),
                                           { tiny_jpeg, sizeof(tiny_jpeg) - 3 }, IMAGE(tiny_jpeg),
                                           { tiny_jpeg, sizeof(tiny_jpeg) - 4 } };
    uint8_t sample[SAMPLE_BYTES];
    struct dataset_options options = write_set(images, 5);
    struct dataset *dataset = fixture_open(&options);
    for (uint64_t id = 0; id < 5; id++) {
        const char *const told = load(dataset, id, sample);
        assert_int_equal(strstr(told, "has flaws: Premature end of JPEG file") != NULL, id == 2 || id == 4);
        assert_int_equal(told[0] == '\0', id != 2 && id != 4);
    }
    for (uint32_t threads = 1; threads <= 3; threads++)
        assert_int_equal(count_warnings(dataset, threads), 4);      /* two in each of the passes */
    dataset_close(dataset);
    options = write_set(images, 2);
    dataset = fixture_open(&options);
    assert_int_equal(count_warnings(dataset, 1), 0);
    dataset_close(dataset);
}

TESTS_MAIN(fixture_folder_make, fixture_folder_remove)
