/* The layouts of image classification sets in use, each as its converter writes a record: found from the record alone,
 * read to the right pixels and label, and refused where the label is no class of the network's. */
#include <stdio.h>
#include <string.h>

#include "formats/example.h"
#include "tests/helpers/example_fixture.h"
#include "tests/helpers/test.h"
#include "tests/helpers/tfrecord_fixture.h"
#include "tests/helpers/tiny_images.h"

/* Images are the beginning of it. */
static uint8_t numbers[3072];

enum { VALUES_MAX = 11, PIXELS_MAX = 3072, FRAME_MAX = 4096 };

static uint8_t plain_grey(size_t i)
{
    (void)i;
    return 90;
}

static uint8_t pixel_of_png(size_t i)
{
    const uint8_t colours[] = { (uint8_t)(30 * (i / 3 % 3)), (uint8_t)(30 * (i / 9)), 7 };
    return colours[i % 3];
}

static uint8_t row_of_numbers(size_t i)
{
    return numbers[i];
}

static uint8_t planes_of_numbers(size_t i)
{
    return numbers[i % 3 * 1024 + i / 3];
}

#define TEXT(key, text) { .name = key, .kind = FEATURE_BYTES, .bytes = text, .byte_count = sizeof(text) - 1 }
#define BYTES(key, array, count) { .name = key, .kind = FEATURE_BYTES, .bytes = array, .byte_count = count }
#define INTEGER(key, number) { .name = key, .kind = FEATURE_INT64S, .int64 = number }

static const struct layout {
    const char *what, *image_key, *label_key;
    const struct image_ops *image;
    struct image_shape shape;
    uint8_t (*pixel)(size_t i);
    int64_t stored_label, label_offset;
    bool has_boxes;
    struct example_value values[VALUES_MAX];    /* in bytewise order of their names */
} layouts[] = {
    { "ImageNet: labels from 1", "image/encoded", "image/class/label", &image_encoded_ops, { 8, 8, 3 }, plain_grey,
      1000, -1, true,
      { INTEGER("image/channels", 3), INTEGER("image/class/label", 1000), TEXT("image/class/synset", "n15075141"),
        TEXT("image/class/text", "toilet tissue, toilet paper"), TEXT("image/colorspace", "RGB"),
        TEXT("image/encoded", tiny_jpeg), TEXT("image/filename", "n15075141_1.JPEG"), TEXT("image/format", "JPEG"),
        INTEGER("image/height", 8), INTEGER("image/object/bbox/label", 1000), INTEGER("image/width", 8) } },
    { "ImageNet: a PNG that is called a JPEG", "image/encoded", "image/class/label", &image_encoded_ops, { 2, 3, 3 },
      pixel_of_png, 229, -1, true,
      { INTEGER("image/channels", 3), INTEGER("image/class/label", 229), TEXT("image/class/synset", "n02105855"),
        TEXT("image/colorspace", "RGB"), TEXT("image/encoded", tiny_png), TEXT("image/filename", "n02105855_2933.JPEG"),
        TEXT("image/format", "JPEG"), INTEGER("image/height", 2), INTEGER("image/width", 3) } },
    { "TF-Slim with PNG", "image/encoded", "image/class/label", &image_encoded_ops, { 2, 3, 3 }, pixel_of_png, 9, 0,
      false,
      { INTEGER("image/class/label", 9), TEXT("image/encoded", tiny_png), TEXT("image/format", "png"),
        INTEGER("image/height", 2), INTEGER("image/width", 3) } },
    { "TF-Slim with JPEG", "image/encoded", "image/class/label", &image_encoded_ops, { 8, 8, 3 }, plain_grey, 4, 0,
      false,
      { INTEGER("image/class/label", 4), TEXT("image/encoded", tiny_jpeg), TEXT("image/format", "jpg"),
        INTEGER("image/height", 8), INTEGER("image/width", 8) } },
    { "MNIST of the how-to", "image_raw", "label", &image_raw_hwc_ops, { 28, 28, 1 }, row_of_numbers,
      7, 0, false,
      { INTEGER("depth", 1), INTEGER("height", 28), BYTES("image_raw", numbers, 784), INTEGER("label", 7),
        INTEGER("width", 28) } },
    { "CIFAR-10, planar", "image", "label", &image_raw_chw_ops, { 32, 32, 3 }, planes_of_numbers, 9, 0, false,
      { BYTES("image", numbers, 3072), INTEGER("label", 9) } },
    { "TensorFlow Datasets with PNG", "image", "label", &image_encoded_ops, { 2, 3, 3 }, pixel_of_png, 2, 0, false,
      { TEXT("id", "train_00002"), TEXT("image", tiny_png), INTEGER("label", 2) } },
    { "TensorFlow Datasets with JPEG", "image", "label", &image_encoded_ops, { 8, 8, 3 }, plain_grey, 2, 0, false,
      { TEXT("file_name", "2.jpg"), TEXT("image", tiny_jpeg), INTEGER("label", 2) } },
};
enum { LAYOUTS = sizeof(layouts) / sizeof(*layouts) };

static size_t add_boxes(uint8_t *out)
{
    static const char *const names[] = { "image/object/bbox/xmax", "image/object/bbox/xmin", "image/object/bbox/ymax",
                                         "image/object/bbox/ymin" };
    static const float edges[] = { 0.25f, 0.75f };
    size_t bytes = 0;
    for (size_t i = 0; i < 4; i++)
        bytes += example_fixture(names[i], FEATURE_FLOATS, edges, sizeof(edges), out + bytes);
    return bytes;
}

/* A shard of one record of the layout, and the options to read it. */
static struct dataset_options write_record(const struct layout *layout)
{
    static uint8_t payload[FRAME_MAX], frame[FRAME_MAX];
    size_t count = 0;
    while (count < VALUES_MAX && layout->values[count].name != NULL)
        count++;
    assert_true(example_size(layout->values, count) + FIXTURE_FRAME_MAX <= sizeof(payload));
    size_t bytes = example_write(layout->values, count, payload);
    bytes += layout->has_boxes ? add_boxes(payload + bytes) : 0;
    const char *const path = fixture_path(folder, "train-00000-of-00001");
    fixture_write(path, frame, fixture_frame(payload, bytes, frame));
    struct dataset_options options = fixture_options(path);
    options.shape = layout->shape;
    options.classes = 1000;
    options.label_offset = layout->label_offset;
    return options;
}

static void expect_sample(const struct dataset *dataset, const struct layout *layout)
{
    static uint8_t pixels[PIXELS_MAX];
    int32_t label = -1;
    fixture_load(dataset, 0, pixels, &label);
    assert_int_equal(label, layout->stored_label + layout->label_offset);
    for (size_t i = 0; i < dataset->sample_bytes; i++)
        if (pixels[i] != layout->pixel(i))
            fail_msg("%s: number %zu is %u, not %u", layout->what, i, pixels[i], layout->pixel(i));
}

TEST(every_layout_in_use_is_found_by_itself_and_read)
{
    for (size_t i = 0; i < LAYOUTS; i++) {
        const struct dataset_options options = write_record(&layouts[i]);
        struct dataset *const dataset = fixture_open(&options);
        assert_string_equal(dataset->format.keys[SAMPLE_IMAGE], layouts[i].image_key);
        assert_string_equal(dataset->format.keys[SAMPLE_LABEL], layouts[i].label_key);
        if (dataset->format.image != layouts[i].image)
            fail_msg("%s: taken for %s", layouts[i].what, dataset->format.image->name);
        expect_sample(dataset, &layouts[i]);
        dataset_close(dataset);
    }
}

TEST(labels_just_outside_the_classes_are_refused_in_every_layout)
{
    for (size_t i = 0; i < LAYOUTS; i++) {
        struct dataset_options options = write_record(&layouts[i]);
        const int64_t label = layouts[i].stored_label + layouts[i].label_offset;
        char words[64];
        options.classes = (uint32_t)label;
        snprintf(words, sizeof(words), " is not in [0, %d)", (int)label);
        fixture_assert_refused(&options, "record 0 at byte 0: label ", words);
        options.classes = (uint32_t)label + 1;
        dataset_close(fixture_open(&options));
        options.label_offset = -layouts[i].stored_label - 1;
        fixture_assert_refused(&options, "record 0 at byte 0: label ", "(-1 with label_offset)");
    }
}

static int prepare(void **state)
{
    for (size_t i = 0; i < sizeof(numbers); i++)
        numbers[i] = (uint8_t)(i * 7 + i / 256 + 200);
    return fixture_folder_make(state);
}

TESTS_MAIN(prepare, fixture_folder_remove)
