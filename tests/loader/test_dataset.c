/* A set of shards: which files it takes, how records are numbered, and what it says of
 * files, keys, sizes and labels that are not right. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "formats/example.h"
#include "formats/tfrecord.h"
#include "loader/record.h"
#include "loader/shards/shard_list.h"
#include "tests/helpers/capture.h"
#include "tests/helpers/example_fixture.h"
#include "tests/helpers/memory_source.h"
#include "tests/helpers/tfrecord_fixture.h"

/* Every part must be in the message. */
static void assert_refused(const struct dataset_options *options, const char *first, const char *second)
{
    struct dataset *dataset;
    char problem[8192];
    assert_true(dataset_open(&dataset, options, problem, sizeof(problem)) < 0);
    if (strstr(problem, first) == NULL || strstr(problem, second) == NULL)
        fail_msg("'%s' does not hold '%s' and '%s'", problem, first, second);
}

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

static void load(const struct dataset *dataset, uint64_t id, uint8_t *pixels, int32_t *label)
{
    struct record_problem problem;
    struct decode_context *context;
    const struct sample_target target = {
        .request = { .shape = dataset->options.shape }, .pixels = pixels, .label = label };
    assert_int_equal(decode_context_open(&context, dataset), 0);
    assert_int_equal(record_load(context, id, &target, &problem), 0);
    decode_context_close(context);
}

static void assert_all_records(const struct dataset *dataset, uint64_t count)
{
    uint8_t pixels[FIXTURE_SAMPLE_BYTES], wanted[FIXTURE_SAMPLE_BYTES];
    assert_int_equal(dataset->record_count, count);
    for (uint64_t id = 0; id < count; id++) {
        int32_t label;
        load(dataset, id, pixels, &label);
        fixture_pixels(id, wanted);
        assert_memory_equal(pixels, wanted, sizeof(wanted));
        assert_int_equal(label, fixture_label(id));
    }
}

static void numbers_all_records_of_any_number_of_shards(void **state)
{
    (void)state;
    for (uint32_t shards = 1; shards <= 9; shards++) {
        char name[32], pattern[320];
        snprintf(name, sizeof(name), "set%u", shards);
        snprintf(pattern, sizeof(pattern), "%s", fixture_path(folder, name));
        assert_int_equal(mkdir(pattern, 0700), 0);
        fixture_write_set(pattern, shards, 101);
        struct dataset_options options = fixture_options(pattern);
        options.use_index_cache = true;
        for (int round = 0; round < 2; round++) {
            struct dataset *dataset = fixture_open(&options);
            assert_int_equal(dataset->shard_count, shards);
            assert_all_records(dataset, 101);
            dataset_close(dataset);
        }
        char glob[400];
        snprintf(glob, sizeof(glob), "%s/train-*", pattern);
        options.pattern = glob;
        struct dataset *dataset = fixture_open(&options);
        assert_all_records(dataset, 101);
        dataset_close(dataset);
    }
}

static void the_fingerprint_follows_names_sizes_and_counts(void **state)
{
    (void)state;
    uint64_t seen[4];
    const char *names[] = { "print-a.tfrecord", "print-b.tfrecord", "print-a.tfrecord", "print-a.tfrecord" };
    const uint32_t counts[] = { 10, 10, 11, 10 };
    for (int i = 0; i < 4; i++) {
        fixture_write_shard(fixture_path(folder, names[i]), 0, counts[i]);
        const struct dataset_options options = fixture_options(fixture_path(folder, names[i]));
        struct dataset *dataset = fixture_open(&options);
        seen[i] = dataset->fingerprint;
        dataset_close(dataset);
    }
    assert_true(seen[0] != seen[1] && seen[0] != seen[2] && seen[1] != seen[2]);
    assert_true(seen[0] == seen[3]);
}

static void takes_shards_and_leaves_their_companions(void **state)
{
    (void)state;
    const char *shards[] = { "a.tfrecord", "a.tfrecords", "train-00000-of-00004", "x-1-of-2", "v-00000-of-00001.gz",
                             "mnist.tfrecord-00001-of-00002" };
    const char *others[] = { ".a.tfrecord.pipetrain-index", ".train-00000-of-00004.pipetrain-index", "dataset.json",
                             "a.tfrecord.idx", "a.tfrecord.tmp", "train-00000-of-00004.tmp", "train-of-", "-1-of-2",
                             "a.tfrecord~", ".hidden.tfrecord", "labels.txt", "readme", "train-a-of-b",
                             ".train-00000-of-00004.pipetrain-index.17-abc.tmp" };
    for (size_t i = 0; i < sizeof(shards) / sizeof(*shards); i++)
        assert_true(shard_list_is_shard(shards[i]));
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
        assert_false(shard_list_is_shard(others[i]));
}

static void shards_are_sorted_bytewise(void **state)
{
    (void)state;
    const char *names[] = { "b.tfrecord", "B.tfrecord", "a-10-of-10", "a-9-of-10", "_.tfrecord" };
    const char *sorted[] = { "B.tfrecord", "_.tfrecord", "a-10-of-10", "a-9-of-10", "b.tfrecord" };
    char place[300];
    snprintf(place, sizeof(place), "%s", fixture_path(folder, "sorted"));
    assert_int_equal(mkdir(place, 0700), 0);
    for (size_t i = 0; i < 5; i++)
        fixture_write_shard(fixture_path(place, names[i]), i, 1);
    const struct dataset_options options = fixture_options(place);
    struct dataset *dataset = fixture_open(&options);
    for (size_t i = 0; i < 5; i++)
        assert_string_equal(strrchr(dataset->paths[i], '/') + 1, sorted[i]);
    dataset_close(dataset);
}

static void a_directory_of_two_splits_gives_the_one_that_is_meant(void **state)
{
    (void)state;
    static const char *const names[] = { "train-00000-of-00002", "train-00001-of-00002", "validation-00000-of-00001" };
    static const struct { const char *what; uint64_t records; } splits[] = { { "train", 5 }, { "validation", 4 } };
    char place[256];
    snprintf(place, sizeof(place), "%s", fixture_path(folder, "splits"));
    assert_int_equal(mkdir(place, 0700), 0);
    for (uint32_t i = 0; i < 3; i++)
        fixture_write_shard(fixture_path(place, names[i]), i, i + 2);
    for (size_t i = 0; i < 2; i++) {
        struct dataset_options options = fixture_options(place);
        options.what = splits[i].what;
        struct dataset *dataset = fixture_open(&options);
        assert_int_equal(dataset->record_count, splits[i].records);
        dataset_close(dataset);
    }
}

static void tells_of_shards_that_are_missing(void **state)
{
    (void)state;
    char place[256], text[1024];
    snprintf(place, sizeof(place), "%s", fixture_path(folder, "missing"));
    assert_int_equal(mkdir(place, 0700), 0);
    fixture_write_set(place, 3, 9);
    assert_int_equal(unlink(fixture_path(place, "train-00001-of-00003")), 0);
    const struct dataset_options options = fixture_options(place);
    struct capture capture;
    capture_begin(&capture);
    struct dataset *dataset = fixture_open(&options);
    capture_end(&capture, text, sizeof(text));
    assert_non_null(strstr(text, "only 2 of the 3 shards"));
    dataset_close(dataset);
}

static void names_with_glob_characters_are_files_first(void **state)
{
    (void)state;
    fixture_write_shard(fixture_path(folder, "odd[1]*.tfrecord"), 0, 3);
    const struct dataset_options options = fixture_options(fixture_path(folder, "odd[1]*.tfrecord"));
    struct dataset *dataset = fixture_open(&options);
    assert_int_equal(dataset->shard_count, 1);
    dataset_close(dataset);
}

static void says_what_is_wrong_with_a_pattern(void **state)
{
    (void)state;
    assert_int_equal(mkdir(fixture_path(folder, "nothing"), 0700), 0);
    struct dataset_options options = fixture_options(fixture_path(folder, "absent.tfrecord"));
    assert_refused(&options, "train: ", "absent.tfrecord: No such file");
    options.pattern = fixture_path(folder, "absent-*");
    assert_refused(&options, "absent-*", "no file matches");
    options.pattern = fixture_path(folder, "nothing");
    assert_refused(&options, "nothing", "no shards in this directory");
    options.pattern = "";
    assert_refused(&options, "train: ", "No such file");
    options.pattern = "/dev/null";
    assert_refused(&options, "/dev/null", "not a regular file");
    assert_int_equal(mkfifo(fixture_path(folder, "pipe.tfrecord"), 0600), 0);
    options.pattern = fixture_path(folder, "pipe.tfrecord");
    assert_refused(&options, "pipe.tfrecord", "not a regular file");
}

static void lists_every_problem_on_a_line_of_its_own(void **state)
{
    (void)state;
    char place[300];
    snprintf(place, sizeof(place), "%s", fixture_path(folder, "many"));
    assert_int_equal(mkdir(place, 0700), 0);
    fixture_write_shard(fixture_path(place, "a.tfrecord"), 0, 3);
    fixture_write(fixture_path(place, "b.tfrecord"), "", 0);
    fixture_write(fixture_path(place, "c.tfrecord"), "<html></html>", 13);
    assert_int_equal(mkdir(fixture_path(place, "d.tfrecord"), 0700), 0);
    const struct dataset_options options = fixture_options(place);
    struct dataset *dataset;
    char problem[4096];
    assert_true(dataset_open(&dataset, &options, problem, sizeof(problem)) < 0);
    const char *b = strstr(problem, "b.tfrecord: is empty"), *c = strstr(problem, "c.tfrecord: not a TFRecord shard");
    const char *d = strstr(problem, "d.tfrecord: is a directory");
    assert_true(b && c && d && b < c && c < d);
    size_t lines = 1;
    for (const char *at = problem; *at; at++)
        lines += *at == '\n';
    assert_int_equal(lines, 3);
}

static void no_shard_is_opened_for_who_wants_none_any_more(void **state)
{
    (void)state;
    struct dataset *dataset;
    char problem[1024], path[320];
    atomic_bool is_unwanted = true;
    snprintf(path, sizeof(path), "%s", fixture_path(folder, "unwanted"));
    assert_int_equal(mkdir(path, 0700), 0);
    fixture_write_set(path, 3, 10);
    struct dataset_options options = fixture_options(path);
    options.use_index_cache = true;
    options.is_unwanted = &is_unwanted;
    assert_int_equal(dataset_open(&dataset, &options, problem, sizeof(problem)), -ECANCELED);
    assert_string_equal(problem, "");
    is_unwanted = false;
    assert_int_equal(dataset_open(&dataset, &options, problem, sizeof(problem)), 0);
    assert_all_records(dataset, 10);
    dataset_close(dataset);
}

static void a_search_for_the_next_record_ends_for_who_wants_none_any_more(void **state)
{
    (void)state;
    const size_t bytes = (size_t)4 << 20;
    uint8_t *const data = calloc(1, bytes);
    char problem[1024];
    struct dataset *dataset;
    atomic_bool is_unwanted = false;
    struct memory_shard shard = {
        .name = "tail.tfrecord", .data = data, .bytes = bytes, .raised = &is_unwanted, .raised_at = 2 };
    fixture_record(0, data);
    memory_source_set(&shard, 1);
    fixture_write(fixture_path(folder, "tail.tfrecord"), "", 0);
    struct dataset_options options = fixture_options(fixture_path(folder, "tail.tfrecord"));
    options.source_ops = &memory_source_ops;
    options.skip_damage = true;
    options.is_unwanted = &is_unwanted;
    assert_int_equal(dataset_open(&dataset, &options, problem, sizeof(problem)), -ECANCELED);
    assert_string_equal(problem, "");
    assert_int_equal(shard.read, 2);
    free(data);
}

static void an_empty_shard_is_skipped_only_when_asked(void **state)
{
    (void)state;
    char place[300];
    snprintf(place, sizeof(place), "%s", fixture_path(folder, "hollow"));
    assert_int_equal(mkdir(place, 0700), 0);
    fixture_write(fixture_path(place, "a.tfrecord"), "", 0);
    fixture_write_shard(fixture_path(place, "b.tfrecord"), 0, 5);
    fixture_write(fixture_path(place, "c.tfrecord"), "", 0);
    fixture_write(fixture_path(place, "d.tfrecord"), "", 0);
    fixture_write_shard(fixture_path(place, "e.tfrecord"), 5, 4);
    struct dataset_options options = fixture_options(place);
    assert_refused(&options, "c.tfrecord: is empty", "d.tfrecord: is empty");
    options.skip_damage = true;
    struct dataset *dataset = fixture_open(&options);
    assert_all_records(dataset, 9);
    assert_int_equal(dataset->lost_records, 3);
    dataset_close(dataset);
    options.pattern = fixture_path(place, "a.tfrecord");
    assert_refused(&options, "a.tfrecord", "holds no records");
}

static void finds_images_and_labels_under_their_usual_names(void **state)
{
    (void)state;
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

static void uses_the_keys_it_is_given(void **state)
{
    (void)state;
    struct dataset_options options = write_example("pic", blank, FIXTURE_SAMPLE_BYTES, "cls", 3);
    assert_refused(&options, "no feature known as image", "it has: cls (1 integers) pic (1 bytes)");
    options.image_key = "pic";
    assert_refused(&options, "no feature known as label", "label_key");
    options.label_key = "other";
    assert_refused(&options, "no feature 'other' for the label", "cls (1 integers)");
    options.label_key = "cls";
    dataset_close(fixture_open(&options));
}

static void reads_planar_cifar_images(void **state)
{
    (void)state;
    uint8_t planes[3072], pixels[3072];
    for (size_t i = 0; i < sizeof(planes); i++)
        planes[i] = (uint8_t)(i * 7 + i / 1024);
    struct dataset_options options = write_example("image", planes, sizeof(planes), "label", 9);
    options.shape = (struct image_shape){ 32, 32, 3 };
    struct dataset *dataset = fixture_open(&options);
    assert_ptr_equal(dataset->format.image, &image_raw_chw_ops);
    int32_t label;
    load(dataset, 0, pixels, &label);
    for (size_t i = 0; i < 1024; i++) {
        for (size_t c = 0; c < 3; c++)
            assert_int_equal(pixels[3 * i + c], planes[1024 * c + i]);
    }
    assert_int_equal(label, 9);
    dataset_close(dataset);
}

static void the_layout_of_raw_pixels_can_be_said(void **state)
{
    (void)state;
    uint8_t planes[FIXTURE_SAMPLE_BYTES], pixels[FIXTURE_SAMPLE_BYTES];
    int32_t label;
    fixture_pixels(3, planes);
    struct dataset_options options = write_example("image_raw", planes, sizeof(planes), "label", 9);
    options.layout = IMAGE_LAYOUT_CHW;
    struct dataset *dataset = fixture_open(&options);
    load(dataset, 0, pixels, &label);
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

static void finds_the_range_of_floats_from_several_records(void **state)
{
    (void)state;
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
        assert_string_equal(dataset->format.range->name, cases[i].range);
        load(dataset, 2, pixels, &label);
        assert_int_equal(pixels[0], 0);
        assert_int_equal(pixels[23], 255);
        assert_int_equal(label, 1);
        dataset_close(dataset);
        options.range = IMAGE_RANGE_UNIT;
        if (cases[i].darkest < 0)
            assert_refused(&options, "are not in 0..1", "floats.tfrecord: record 0");
    }
    struct dataset_options options = write_floats(-3, 3, flowers, 3);
    options.class_names = names;
    assert_refused(&options, "holds floats from -3 to 3", "no pixels of 0..1");
}

static void finds_the_names_of_classes_beside_the_shards(void **state)
{
    (void)state;
    static const char *const lists[] = { "label.labels.txt", "labels.txt" };
    static const char *const texts[] = { "tulips\nroses\n", "1:roses\n0:tulips\n" };
    char pattern[512];
    struct dataset_options options = write_floats(0, 1, flowers, 3);
    snprintf(pattern, sizeof(pattern), "%s", options.pattern);
    options.pattern = pattern;
    assert_refused(&options, "holds the text 'roses'", "class_names");
    for (size_t i = 0; i < 2; i++) {
        fixture_write_text(fixture_path(folder, lists[i]), texts[i]);
        struct dataset *dataset = fixture_open(&options);
        assert_int_equal(dataset->class_names.count, 2);
        assert_string_equal(dataset->class_names.names[1], "roses");
        assert_non_null(strstr(dataset->class_names_path, lists[i]));
        dataset_close(dataset);
        assert_int_equal(unlink(fixture_path(folder, lists[i])), 0);
    }
    char nothing[512];
    snprintf(nothing, sizeof(nothing), "%s", fixture_path(folder, "nothing.txt"));
    options.class_names = nothing;
    assert_refused(&options, "nothing.txt: No such file", "");
    fixture_write(nothing, "\n", 1);
    assert_refused(&options, "nothing.txt: names no class", "");
}

static void labels_out_of_range_wait_for_who_looks_at_them(void **state)
{
    (void)state;
    struct dataset_options options = write_example("image_raw", blank, FIXTURE_SAMPLE_BYTES, "label", 1000);
    options.is_any_label_taken = true;
    dataset_close(fixture_open(&options));
}

static void refuses_images_that_are_not_the_networks(void **state)
{
    (void)state;
    struct dataset_options options = write_example("image_raw", blank, 3136, "label", 3);
    assert_refused(&options, "one.tfrecord: record 0 at byte 0: has 3136 bytes of pixels", "wants 24 (4x3x2)");
    options = write_example("image_raw", "train/roses/1.png", 17, "label", 3);
    assert_refused(&options, "feature 'image_raw' holds a text", "pipetrain-convert csv");
    options = write_example("image_raw", blank, 0, "label", 3);
    assert_refused(&options, "has 0 bytes of pixels", "wants 24");
    options = write_example("image/encoded", "\xff\xd8\xff\xe0 and so on", 14, "label", 3);
    options.shape.channels = 3;
    assert_refused(&options, "holds a JPEG image", "cannot be decoded");
    options = write_example("image", "\x89PNG\r\n\x1a\n and so on", 18, "label", 3);
    assert_refused(&options, "is of encoded images", "the network wants 2");
    options = write_example("image_raw", blank, FIXTURE_SAMPLE_BYTES, "label", 3);
    options.image_key = "label";
    assert_refused(&options, "feature 'label' holds 1 integers", "pixels");
}

static void refuses_sizes_that_contradict_the_network(void **state)
{
    (void)state;
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
    assert_refused(&options, "record 0 at byte 0: says its ", "the network wants");
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

static void sizes_under_any_usual_name_must_be_those_of_the_pixels(void **state)
{
    (void)state;
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
            assert_refused(&options, wanted, "the network wants");
        }
        const int64_t large[3] = { 5, 5, 2 };
        options = write_sized(names[i], large, 50);
        dataset_close(fixture_open(&options));
        const int64_t deep[3] = { 5, 5, 3 };
        options = write_sized(names[i], deep, 75);
        assert_refused(&options, "has 75 bytes of pixels", "the network wants 24 (4x3x2)");
        options = write_sized(names[i], large, 49);
        assert_refused(&options, "has 49 bytes of pixels, but says it is 5x5x2", "");
    }
}

static void refuses_labels_out_of_range_and_says_how_to_shift_them(void **state)
{
    (void)state;
    const int64_t bad[] = { -1, FIXTURE_CLASSES, 1000, INT64_MAX, INT64_MIN };
    struct dataset_options options;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        char wanted[64];
        options = write_example("image_raw", blank, FIXTURE_SAMPLE_BYTES, "label", bad[i]);
        snprintf(wanted, sizeof(wanted), "label %lld is not in [0, 10)", (long long)bad[i]);
        assert_refused(&options, wanted, "record 0 at byte 0");
    }
    options = write_example("image_raw", blank, FIXTURE_SAMPLE_BYTES, "label", FIXTURE_CLASSES);
    assert_refused(&options, "label_offset", "one lower");
    options.label_offset = -1;
    dataset_close(fixture_open(&options));
    options.label_offset = 1;
    assert_refused(&options, "label 10 (11 with label_offset)", "[0, 10)");
    options = write_example("image_raw", blank, FIXTURE_SAMPLE_BYTES, "label", INT64_MAX);
    options.label_offset = 1;
    assert_refused(&options, "label 9223372036854775807", "[0, 10)");
    options.label_offset = 0;
    options.label_key = "image_raw";
    assert_refused(&options, "feature 'image_raw' holds 1 bytes values", "one integer label");
}

static void refuses_what_is_no_example(void **state)
{
    (void)state;
    uint8_t frame[64];
    write_frame("one.tfrecord", frame, fixture_frame((const uint8_t *)"\x0a\x7f garbage", 10, frame));
    struct dataset_options options = fixture_options(fixture_path(folder, "one.tfrecord"));
    assert_refused(&options, "record 0 at byte 0: is no tf.train.Example", "byte 0");
    write_frame("one.tfrecord", frame, fixture_frame((const uint8_t *)"", 0, frame));
    assert_refused(&options, "no feature known as image", "it has: none");
}

static void a_damaged_first_record_is_named_or_passed_over(void **state)
{
    (void)state;
    uint8_t data[3 * FIXTURE_FRAME_MAX];
    size_t bytes = 0;
    for (uint64_t id = 0; id < 3; id++)
        bytes += fixture_record(id, data + bytes);
    data[20] ^= 1;
    write_frame("one.tfrecord", data, bytes);
    struct dataset_options options = fixture_options(fixture_path(folder, "one.tfrecord"));
    assert_refused(&options, "record 0 at byte 0: payload checksum differs (stored ", "a second read agrees");
    options.skip_damage = true;
    struct dataset *dataset = fixture_open(&options);
    assert_int_equal(dataset->record_count, 3);
    dataset_close(dataset);
}

static void a_name_of_several_lines_is_one_line_of_a_message(void **state)
{
    (void)state;
    uint8_t frame[FIXTURE_FRAME_MAX];
    const char *const path = fixture_path(folder, "two\nlines\x1b[31m\xc2\x9b.tfrecord");
    const size_t bytes = fixture_record(0, frame);
    frame[20] ^= 1;
    fixture_write(path, frame, bytes);
    const struct dataset_options options = fixture_options(path);
    struct dataset *dataset;
    char problem[4096];
    assert_true(dataset_open(&dataset, &options, problem, sizeof(problem)) < 0);
    assert_non_null(strstr(problem, "two\\x0alines\\x1b[31m\\xc2\\x9b.tfrecord: record 0 at byte 0: payload checksum"));
    assert_null(strpbrk(problem, "\n\x1b\xc2"));
}

static void a_foreign_shard_among_others_is_named(void **state)
{
    (void)state;
    char place[300];
    uint8_t frame[8192];
    snprintf(place, sizeof(place), "%s", fixture_path(folder, "mixed"));
    assert_int_equal(mkdir(place, 0700), 0);
    fixture_write_shard(fixture_path(place, "a.tfrecord"), 0, 3);
    const size_t bytes = fixture_example("image_raw", blank, 3136, "label", 1, frame);
    fixture_write(fixture_path(place, "b.tfrecord"), frame, bytes);
    const struct dataset_options options = fixture_options(place);
    assert_refused(&options, "b.tfrecord: record 0 at byte 0: has 3136 bytes", "wants 24");
}

/* Whether `limit` descriptors are enough to open a set and read every record of it, in a process of its own;
 * the problem goes to stdout. */
static bool can_read_with(const struct dataset_options *options, rlim_t limit, uint64_t records)
{
    const struct rlimit few = { limit, limit };
    const pid_t child = fork();
    if (child == 0) {
        struct dataset *dataset;
        char problem[8192];
        setrlimit(RLIMIT_NOFILE, &few);
        const int rc = dataset_open(&dataset, options, problem, sizeof(problem));
        if (rc == 0) {
            assert_all_records(dataset, records);
            dataset_close(dataset);
        }
        _exit(rc == 0 ? 0 : rc == -EMFILE && strstr(problem, "ulimit -n") != NULL ? 1 : 2);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) < 2);
    return WEXITSTATUS(status) == 0;
}

static void more_shards_than_descriptors_are_read(void **state)
{
    (void)state;
    char place[300];
    snprintf(place, sizeof(place), "%s", fixture_path(folder, "crowd"));
    assert_int_equal(mkdir(place, 0700), 0);
    fixture_write_set(place, 300, 900);
    struct dataset_options options = fixture_options(place);
    for (int round = 0; round < 3; round++) {
        assert_true(can_read_with(&options, 64, 900));
        options.use_index_cache = true;
    }
    assert_true(can_read_with(&options, 5, 900));
    options.pattern = fixture_path(place, "train-00007-of-00300");
    assert_false(can_read_with(&options, 3, 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_all_records_of_any_number_of_shards),
        cmocka_unit_test(the_fingerprint_follows_names_sizes_and_counts),
        cmocka_unit_test(takes_shards_and_leaves_their_companions),
        cmocka_unit_test(shards_are_sorted_bytewise),
        cmocka_unit_test(a_directory_of_two_splits_gives_the_one_that_is_meant),
        cmocka_unit_test(tells_of_shards_that_are_missing),
        cmocka_unit_test(names_with_glob_characters_are_files_first),
        cmocka_unit_test(says_what_is_wrong_with_a_pattern),
        cmocka_unit_test(lists_every_problem_on_a_line_of_its_own),
        cmocka_unit_test(no_shard_is_opened_for_who_wants_none_any_more),
        cmocka_unit_test(a_search_for_the_next_record_ends_for_who_wants_none_any_more),
        cmocka_unit_test(an_empty_shard_is_skipped_only_when_asked),
        cmocka_unit_test(finds_images_and_labels_under_their_usual_names),
        cmocka_unit_test(uses_the_keys_it_is_given),
        cmocka_unit_test(reads_planar_cifar_images),
        cmocka_unit_test(the_layout_of_raw_pixels_can_be_said),
        cmocka_unit_test(finds_the_range_of_floats_from_several_records),
        cmocka_unit_test(finds_the_names_of_classes_beside_the_shards),
        cmocka_unit_test(labels_out_of_range_wait_for_who_looks_at_them),
        cmocka_unit_test(refuses_images_that_are_not_the_networks),
        cmocka_unit_test(refuses_sizes_that_contradict_the_network),
        cmocka_unit_test(sizes_under_any_usual_name_must_be_those_of_the_pixels),
        cmocka_unit_test(refuses_labels_out_of_range_and_says_how_to_shift_them),
        cmocka_unit_test(refuses_what_is_no_example),
        cmocka_unit_test(a_damaged_first_record_is_named_or_passed_over),
        cmocka_unit_test(a_name_of_several_lines_is_one_line_of_a_message),
        cmocka_unit_test(a_foreign_shard_among_others_is_named),
        cmocka_unit_test(more_shards_than_descriptors_are_read),
    };
    return cmocka_run_group_tests(tests, fixture_folder_make, fixture_folder_remove);
}
