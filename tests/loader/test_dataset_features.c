/* What a set of shards says of the features of its records: keys, layouts, ranges, sizes, labels and names of classes
 * that it finds or that are not right. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "formats/example.h"
#include "formats/manifest.h"
#include "tests/helpers/example_fixture.h"
#include "tests/helpers/test.h"
#include "tests/helpers/tfrecord_fixture.h"

static void write_frame(const char *name, const uint8_t *frame, size_t bytes)
{
    fixture_write(fixture_path(folder, name), frame, bytes);
}

/* One shard holding one Example. */
static struct dataset_options write_example(const char *image_key, const void *image, size_t image_bytes,
                                            const char *label_key, int64_t label)
{
    static uint8_t frame[8192];
    write_frame("one.tfrecord", frame, fixture_example(image_key, image, image_bytes, label_key, label, frame));
    return fixture_options(fixture_path(folder, "one.tfrecord"));
}

static const uint8_t blank[4096];

TEST(finds_images_and_labels_under_their_usual_names)
{
    const char *images[] = { "image_raw", "image", "img_raw" }, *labels[] = { "label", "image/class/label" };
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 2; j++) {
            const struct dataset_options options = write_example(images[i], blank, FIXTURE_SAMPLE_BYTES, labels[j], 3);
            struct dataset *dataset = fixture_open(&options);
            assert_string_equal(dataset->format.keys[SAMPLE_IMAGE], images[i]);
            assert_string_equal(dataset->format.keys[SAMPLE_LABEL], labels[j]);
            assert_ptr_equal(dataset->format.image, &image_raw_hwc_ops);
            dataset_close(dataset);
        }
    }
}

TEST(uses_the_keys_it_is_given)
{
    struct dataset_options options = write_example("pic", blank, FIXTURE_SAMPLE_BYTES, "cls", 3);
    fixture_assert_refused(&options, "no feature known as image", "it has: cls (1 integer) pic (bytes)");
    options.image_key = "pic";
    fixture_assert_refused(&options, "no feature known as label", "label_key");
    options.label_key = "other";
    fixture_assert_refused(&options, "no feature 'other' for the label", "cls (1 integer)");
    options.label_key = "cls";
    dataset_close(fixture_open(&options));
}

TEST(reads_planar_cifar_images)
{
    uint8_t planes[3072], pixels[3072];
    for (size_t i = 0; i < sizeof(planes); i++)
        planes[i] = (uint8_t)(i * 7 + i / 1024);
    struct dataset_options options = write_example("image", planes, sizeof(planes), "label", 9);
    options.shape = (struct image_shape){ 32, 32, 3 };
    struct dataset *dataset = fixture_open(&options);
    assert_ptr_equal(dataset->format.image, &image_raw_chw_ops);
    int32_t label;
    fixture_load(dataset, 0, pixels, &label);
    for (size_t i = 0; i < 1024; i++) {
        for (size_t c = 0; c < 3; c++)
            assert_int_equal(pixels[3 * i + c], planes[1024 * c + i]);
    }
    assert_int_equal(label, 9);
    dataset_close(dataset);
}

TEST(the_layout_of_raw_pixels_can_be_set)
{
    uint8_t planes[FIXTURE_SAMPLE_BYTES], pixels[FIXTURE_SAMPLE_BYTES];
    int32_t label;
    fixture_pixels(3, planes);
    struct dataset_options options = write_example("image_raw", planes, sizeof(planes), "label", 9);
    options.layout = PIXEL_LAYOUT_CHW;
    struct dataset *dataset = fixture_open(&options);
    fixture_load(dataset, 0, pixels, &label);
    for (size_t i = 0; i < sizeof(planes) / 2; i++) {
        assert_int_equal(pixels[2 * i], planes[i]);
        assert_int_equal(pixels[2 * i + 1], planes[sizeof(planes) / 2 + i]);
    }
    dataset_close(dataset);
}

/* One shard of Examples, each a list of floats between `darkest` and `brightest` and a label as a text. */
static struct dataset_options write_floats(float darkest, float brightest, const char *const *labels, size_t count)
{
    uint8_t data[8 * FIXTURE_FRAME_MAX];
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        float floats[FIXTURE_SAMPLE_BYTES];
        uint8_t payload[FIXTURE_FRAME_MAX];
        for (size_t j = 0; j < FIXTURE_SAMPLE_BYTES; j++)
            floats[j] = i + 1 < count ? darkest : darkest + (brightest - darkest) * (float)j / 23;
        size_t payload_bytes = example_fixture("image", FEATURE_FLOATS, floats, sizeof(floats), payload);
        payload_bytes += example_fixture("label", FEATURE_BYTES, labels[i], strlen(labels[i]), payload + payload_bytes);
        bytes += fixture_frame(payload, payload_bytes, data + bytes);
    }
    write_frame("floats.tfrecord", data, bytes);
    return fixture_options(fixture_path(folder, "floats.tfrecord"));
}

static const char *const flowers[] = { "roses", "tulips", "roses" };

TEST(finds_the_range_of_floats_from_several_records)
{
    uint8_t pixels[FIXTURE_SAMPLE_BYTES];
    int32_t label;
    char names[512];
    snprintf(names, sizeof(names), "%s", fixture_path(folder, "names.txt"));
    fixture_write(names, "tulips\nroses\n", 13);
    static const struct { float darkest, brightest; const char *range; } cases[] = {
        { 0, 1, "0..1" }, { -0.5f, 0.5f, "-0.5..0.5" }, { -1, 1, "-1..1" }, { 0, 255, "0..255" } };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct dataset_options options = write_floats(cases[i].darkest, cases[i].brightest, flowers, 3);
        options.class_names = names;
        struct dataset *dataset = fixture_open(&options);
        assert_string_equal(dataset->format.reading.range->name, cases[i].range);
        fixture_load(dataset, 2, pixels, &label);
        assert_int_equal(pixels[0], 0);
        assert_int_equal(pixels[23], 255);
        assert_int_equal(label, 1);
        dataset_close(dataset);
        options.range = IMAGE_RANGE_UNIT;
        if (cases[i].darkest < 0)
            fixture_assert_refused(&options, "are not in 0..1", "floats.tfrecord: record 0");
    }
    struct dataset_options options = write_floats(-3, 3, flowers, 3);
    options.class_names = names;
    fixture_assert_refused(&options, "holds floats from -3 to 3", "no pixels of 0..1");
    fixture_assert_refused(&options, "store them before they are normalised", "or as one of these ranges");
}

TEST(finds_the_names_of_classes_beside_the_shards)
{
    static const char *const lists[] = { "label.labels.txt", "labels.txt" };
    static const char *const texts[] = { "tulips\nroses\n", "1:roses\n0:tulips\n" };
    char pattern[512];
    struct dataset_options options = write_floats(0, 1, flowers, 3);
    snprintf(pattern, sizeof(pattern), "%s", options.pattern);
    options.pattern = pattern;
    fixture_assert_refused(&options, "holds the text 'roses'", "class_names");
    for (size_t i = 0; i < 2; i++) {
        fixture_write_text(fixture_path(folder, lists[i]), texts[i]);
        struct dataset *dataset = fixture_open(&options);
        assert_int_equal(dataset->class_names.count, 2);
        assert_string_equal(dataset->class_names.names[1], "roses");
        assert_non_null(strstr(dataset->class_names_path, lists[i]));
        dataset_close(dataset);
        assert_int_equal(unlink(fixture_path(folder, lists[i])), 0);
    }
    fixture_write_text(fixture_path(folder, MANIFEST_FILE), "{\"class_names\": [\"tulips\", \"roses\"], "
                       "\"splits\": {\"train\": {\"shards\": [{\"file\": \"floats.tfrecord\", \"records\": 3}]}}}");
    struct dataset *dataset = fixture_open(&options);
    uint8_t pixels[FIXTURE_SAMPLE_BYTES];
    int32_t label;
    assert_int_equal(dataset->class_names.count, 2);
    assert_non_null(strstr(dataset->class_names_path, MANIFEST_FILE));
    assert_string_equal(dataset->format.label.ops->name, "names of classes");
    fixture_load(dataset, 0, pixels, &label);
    assert_int_equal(label, 1);
    dataset_close(dataset);
    assert_int_equal(unlink(fixture_path(folder, MANIFEST_FILE)), 0);
    char nothing[512];
    snprintf(nothing, sizeof(nothing), "%s", fixture_path(folder, "nothing.txt"));
    options.class_names = nothing;
    fixture_assert_refused(&options, "nothing.txt: No such file", "");
    fixture_write(nothing, "\n", 1);
    fixture_assert_refused(&options, "nothing.txt: names no class", "");
}

/* Sets whose first label is ambiguous; the others decide. */
TEST(labels_of_one_character_are_what_the_others_are)
{
    static const struct {
        const char *labels[4];
        const char *kind;               /* NULL: the set is refused */
        int32_t first, last;
    } cases[] = {
        { { "7", "11", "0", "3" }, "digits as text", 7, 3 },
        { { "7", "3", "0", "1" }, "digits as text", 7, 1 },
        { { "11", "0", "7", "3" }, "digits as text", 11, 3 },
        { { "7", "\x0b", "5", "\x01" }, "single bytes", 55, 1 },
        { { "a", "b", "a", "\x01" }, "single bytes", 97, 1 },
        { { "a", "b", "a", "b" }, NULL, 0, 0 },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        uint8_t pixels[FIXTURE_SAMPLE_BYTES];
        int32_t first, last;
        struct dataset_options options = write_floats(0, 1, cases[i].labels, 4);
        options.classes = 100;
        if (cases[i].kind == NULL) {
            fixture_assert_refused(&options, "record 0 at byte 0: feature 'label' holds the text 'a'",
                                   "or store labels as integers");
            continue;
        }
        struct dataset *dataset = fixture_open(&options);
        assert_string_equal(dataset->format.label.ops->name, cases[i].kind);
        fixture_load(dataset, 0, pixels, &first);
        fixture_load(dataset, 3, pixels, &last);
        assert_int_equal(first, cases[i].first);
        assert_int_equal(last, cases[i].last);
        dataset_close(dataset);
    }
}

TEST(labels_out_of_range_are_accepted_on_request)
{
    struct dataset_options options = write_example("image_raw", blank, FIXTURE_SAMPLE_BYTES, "label", 1000);
    options.is_any_label_taken = true;
    dataset_close(fixture_open(&options));
}

TEST(refuses_images_that_are_not_the_networks)
{
    struct dataset_options options = write_example("image_raw", blank, 3136, "label", 3);
    fixture_assert_refused(&options, "one.tfrecord: record 0 at byte 0: has 3136 bytes of pixels", "wants 24 (4x3x2)");
    options = write_example("image_raw", blank, 3072, "label", 3);
    fixture_assert_refused(&options, "wants 24 (4x3x2): as many as images of 32x32x3", "--describe lists");
    options = write_example("image_raw", "train/roses/1.png", 17, "label", 3);
    fixture_assert_refused(&options, "feature 'image_raw' holds a text", "pipetrain-convert csv");
    fixture_assert_refused(&options, "holds a text", "choose it (data.image_key)");
    static const char *const texts[][2] = { { "/9j/4AAQSkZJRg==", "JPEG" }, { "_9j_4AAQSkZJRg", "JPEG" },
                                            { "iVBORw0KGgoAAAAN", "PNG" }, { "data:image/png;base64,iVBORw", "data-URI" } };
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        options = write_example("image_raw", texts[i][0], strlen(texts[i][0]), "label", 3);
        fixture_assert_refused(&options, "feature 'image_raw' holds the base64 text of a ", texts[i][1]);
    }
    options = write_example("image_raw", blank, 0, "label", 3);
    fixture_assert_refused(&options, "has 0 bytes of pixels", "wants 24");
    options = write_example("image/encoded", "\xff\xd8\xff\xe0 and so on", 14, "label", 3);
    options.shape.channels = 3;
    fixture_assert_refused(&options, "holds a JPEG image", "cannot be decoded");
    options = write_example("image", "\x89PNG\r\n\x1a\n and so on", 18, "label", 3);
    fixture_assert_refused(&options, "is of encoded images", "the network wants 2");
    options = write_example("image_raw", blank, FIXTURE_SAMPLE_BYTES, "label", 3);
    options.image_key = "label";
    fixture_assert_refused(&options, "has 1 integers, the network wants 24 (4x3x2)", "record 0");
}

TEST(refuses_sizes_that_contradict_the_network)
{
    uint8_t payload[512], frame[600];
    const struct example_value values[] = {
        { .name = "height", .kind = FEATURE_INT64S, .int64 = FIXTURE_WIDTH },
        { .name = "image_raw", .kind = FEATURE_BYTES, .bytes = blank, .byte_count = FIXTURE_SAMPLE_BYTES },
        { .name = "label", .kind = FEATURE_INT64S, .int64 = 1 },
        { .name = "width", .kind = FEATURE_INT64S, .int64 = FIXTURE_HEIGHT + 1 },
    };
    const size_t bytes = example_write(values, 4, payload);
    write_frame("one.tfrecord", frame, fixture_frame(payload, bytes, frame));
    const struct dataset_options options = fixture_options(fixture_path(folder, "one.tfrecord"));
    fixture_assert_refused(&options, "record 0 at byte 0: says its ", "the network wants");
}

TEST(says_channels_that_records_have_and_networks_do_not)
{
    uint8_t payload[512], frame[600];
    const struct example_value values[] = {
        { .name = "depth", .kind = FEATURE_INT64S, .int64 = 4 },
        { .name = "height", .kind = FEATURE_INT64S, .int64 = 8 },
        { .name = "image_raw", .kind = FEATURE_BYTES, .bytes = blank, .byte_count = 256 },
        { .name = "label", .kind = FEATURE_INT64S, .int64 = 1 },
        { .name = "width", .kind = FEATURE_INT64S, .int64 = 8 },
    };
    const size_t bytes = example_write(values, 5, payload);
    write_frame("one.tfrecord", frame, fixture_frame(payload, bytes, frame));
    struct dataset_options options = fixture_options(fixture_path(folder, "one.tfrecord"));
    options.shape = (struct image_shape){ 8, 8, 3 };
    fixture_assert_refused(&options, "has 256 bytes of pixels, the network wants 192 (8x8x3)",
                           "8x8x4, and 4 channels are not made 3: store RGB without the fourth (alpha)");
}

static int value_compare(const void *a, const void *b)
{
    return strcmp(((const struct example_value *)a)->name, ((const struct example_value *)b)->name);
}

/* One shard of one Example that says `height`, `width` and `channels` of an image of `image_bytes`. */
static struct dataset_options write_sized(const char *const names[3], const int64_t sizes[3], size_t image_bytes)
{
    uint8_t payload[512], frame[600];
    struct example_value values[] = {
        { .name = "image_raw", .kind = FEATURE_BYTES, .bytes = blank, .byte_count = image_bytes },
        { .name = "label", .kind = FEATURE_INT64S, .int64 = 1 },
        { .name = names[0], .kind = FEATURE_INT64S, .int64 = sizes[0] },
        { .name = names[1], .kind = FEATURE_INT64S, .int64 = sizes[1] },
        { .name = names[2], .kind = FEATURE_INT64S, .int64 = sizes[2] },
    };
    qsort(values, 5, sizeof(*values), value_compare);
    write_frame("one.tfrecord", frame, fixture_frame(payload, example_write(values, 5, payload), frame));
    return fixture_options(fixture_path(folder, "one.tfrecord"));
}

TEST(sizes_under_any_usual_name_must_be_those_of_the_pixels)
{
    static const char *const names[][3] = { { "height", "width", "depth" },
                                            { "image/height", "image/width", "image/channels" },
                                            { "height", "width", "channels" } };
    for (size_t i = 0; i < 3; i++) {
        const int64_t right[3] = { FIXTURE_HEIGHT, FIXTURE_WIDTH, FIXTURE_CHANNELS };
        struct dataset_options options = write_sized(names[i], right, FIXTURE_SAMPLE_BYTES);
        dataset_close(fixture_open(&options));
        for (int j = 0; j < 3; j++) {
            int64_t wrong[3] = { FIXTURE_HEIGHT, FIXTURE_WIDTH, FIXTURE_CHANNELS };
            char wanted[64];
            wrong[j] = j == 0 ? -4 : 77;
            options = write_sized(names[i], wrong, FIXTURE_SAMPLE_BYTES);
            snprintf(wanted, sizeof(wanted), "says its %s is %d, ", names[i][j], j == 0 ? -4 : 77);
            fixture_assert_refused(&options, wanted, "the network wants");
        }
        const int64_t large[3] = { 5, 5, 2 };
        options = write_sized(names[i], large, 50);
        dataset_close(fixture_open(&options));
        const int64_t deep[3] = { 5, 5, 3 };
        options = write_sized(names[i], deep, 75);
        fixture_assert_refused(&options, "has 75 bytes of pixels", "the network wants 24 (4x3x2)");
        options = write_sized(names[i], large, 49);
        fixture_assert_refused(&options, "has 49 bytes of pixels, but its sizes are 5x5x2", "");
    }
}

TEST(refuses_labels_out_of_range_and_says_how_to_shift_them)
{
    const int64_t bad[] = { -1, FIXTURE_CLASSES, 1000, INT64_MAX, INT64_MIN };
    struct dataset_options options;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        char wanted[64];
        options = write_example("image_raw", blank, FIXTURE_SAMPLE_BYTES, "label", bad[i]);
        snprintf(wanted, sizeof(wanted), "label %lld is not in [0, 10)", (long long)bad[i]);
        fixture_assert_refused(&options, wanted, "record 0 at byte 0");
    }
    options = write_example("image_raw", blank, FIXTURE_SAMPLE_BYTES, "label", FIXTURE_CLASSES);
    fixture_assert_refused(&options, "label_offset", "one lower");
    options.label_offset = -1;
    dataset_close(fixture_open(&options));
    options.label_offset = 1;
    fixture_assert_refused(&options, "label 10 (11 with label_offset)", "[0, 10)");
    options = write_example("image_raw", blank, FIXTURE_SAMPLE_BYTES, "label", INT64_MAX);
    options.label_offset = 1;
    fixture_assert_refused(&options, "label 9223372036854775807", "[0, 10)");
    options.label_offset = 0;
    options.label_key = "image_raw";
    fixture_assert_refused(&options, "feature 'image_raw' holds 24 bytes, one integer label", "record 0");
}

TEST(refuses_what_is_no_example)
{
    uint8_t frame[64];
    write_frame("one.tfrecord", frame, fixture_frame((const uint8_t *)"\x0a\x7f garbage", 10, frame));
    struct dataset_options options = fixture_options(fixture_path(folder, "one.tfrecord"));
    fixture_assert_refused(&options, "record 0 at byte 0: is not a tf.train.Example", "byte 0");
    write_frame("one.tfrecord", frame, fixture_frame((const uint8_t *)"", 0, frame));
    fixture_assert_refused(&options, "no feature known as image", "it has: none");
}

TESTS_MAIN(fixture_folder_make, fixture_folder_remove)
