/* Tests of the npy converter: arrays are written to a folder, converted, and compared sample by sample. */
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/helpers/capture.h"
#include "tests/helpers/file_fixture.h"
#include "tests/helpers/test.h"
#include "tests/helpers/zip_maker.h"
#include "tools/convert/convert.h"

#define COUNT 3u
#define HEIGHT 2u
#define WIDTH 3u
#define DEPTH 3u
#define PIXELS (HEIGHT * WIDTH * DEPTH)

/* A .npy file in memory. */
struct block { uint8_t *bytes; size_t byte_count; };

static struct block make_array(const char *type, const char *shape, const void *numbers, size_t bytes)
{
    char dictionary[200];
    const int length = snprintf(dictionary, sizeof(dictionary),
                                "{'descr': '%s', 'fortran_order': False, 'shape': %s, }\n", type, shape);
    struct block block = { malloc(10 + (size_t)length + bytes), 10 + (size_t)length + bytes };
    assert_non_null(block.bytes);
    memcpy(block.bytes, "\x93NUMPY\1\0", 8);
    block.bytes[8] = (uint8_t)length;
    block.bytes[9] = 0;
    memcpy(block.bytes + 10, dictionary, (size_t)length);
    memcpy(block.bytes + 10 + length, numbers, bytes);
    return block;
}

static void write_array(const char *name, const char *type, const char *shape, const void *numbers, size_t bytes)
{
    const struct block block = make_array(type, shape, numbers, bytes);
    fixture_write(name, block.bytes, block.byte_count);
    free(block.bytes);
}

/* A conversion of the files in the current folder. */
struct attempt {
    struct stop *stop;
    struct conversion conversion;
    int rc;
};

static void prepare(struct attempt *attempt, char *const *inputs, size_t count)
{
    static const atomic_bool interrupted = false;
    const struct convert_options options = { .inputs = inputs, .input_count = count, .interrupted = &interrupted };
    *attempt = (struct attempt){ .conversion = { .name = "npy" } };
    assert_int_equal(stop_open(&attempt->stop), 0);
    attempt->rc = converter_prepare(&convert_npy, &options, attempt->stop, &attempt->conversion);
}

static void release(struct attempt *attempt)
{
    converter_release(&convert_npy, &attempt->conversion);
    stop_close(attempt->stop);
}

static void prepare_pair(struct attempt *attempt)
{
    char *inputs[] = { (char[]){ "x.npy" }, (char[]){ "y.npy" } };
    prepare(attempt, inputs, 2);
}

/* Sample `index` of a split has this label and these pixels. */
static void expect_sample(const struct sample_source *source, uint64_t index, int64_t label, const uint8_t *pixels,
                          size_t bytes)
{
    struct example_value values[SAMPLE_VALUES_MAX];
    size_t count;
    void *const scratch = malloc(source->scratch_bytes);
    assert_int_equal(source->sample(source->arg, index, scratch, values, &count), 0);
    assert_int_equal(count, 5);
    assert_int_equal(values[3].int64, label);
    assert_int_equal(values[2].byte_count, bytes);
    assert_memory_equal(values[2].bytes, pixels, bytes);
    free(scratch);
}

/* The only image of x.npy, of class 1, has these pixels. */
static void expect_image(const uint8_t *pixels, size_t bytes)
{
    struct attempt attempt;
    prepare_pair(&attempt);
    assert_int_equal(attempt.rc, 0);
    expect_sample(&attempt.conversion.sources[0], 0, 1, pixels, bytes);
    release(&attempt);
}

static void expect_refusal(const char *words)
{
    struct attempt attempt;
    prepare_pair(&attempt);
    assert_true(attempt.rc < 0);
    if (strstr(stop_message(attempt.stop), words) == NULL)
        fail_msg("no '%s' in '%s'", words, stop_message(attempt.stop));
    assert_int_equal(stop_code(attempt.stop), EXIT_CODE_DATA);
    release(&attempt);
}

/* Pixels of all images, rows of pixels of channels. */
static const uint8_t *all_pixels(void)
{
    static uint8_t pixels[COUNT * PIXELS];
    for (size_t i = 0; i < sizeof(pixels); i++)
        pixels[i] = (uint8_t)(i * 37 + 5);
    pixels[0] = 0;
    pixels[1] = 255;
    return pixels;
}

static const int64_t labels[COUNT] = { 4, 0, 2 };

static void expect_pixels(const uint8_t *pixels)
{
    struct attempt attempt;
    prepare_pair(&attempt);
    assert_int_equal(attempt.rc, 0);
    assert_int_equal(attempt.conversion.source_count, 1);
    assert_int_equal(attempt.conversion.classes, 5);
    assert_int_equal(attempt.conversion.height, HEIGHT);
    assert_int_equal(attempt.conversion.width, WIDTH);
    assert_int_equal(attempt.conversion.depth, DEPTH);
    for (uint64_t i = COUNT; i-- > 0;)
        expect_sample(&attempt.conversion.sources[0], i, labels[i], pixels + i * PIXELS, PIXELS);
    release(&attempt);
}

static void expect_all(void)
{
    expect_pixels(all_pixels());
}

TEST(takes_pixels_as_they_are_and_planes_turned)
{
    write_array("y.npy", "<i8", "(3,)", labels, sizeof(labels));
    write_array("x.npy", "|u1", "(3, 2, 3, 3)", all_pixels(), COUNT * PIXELS);
    expect_all();
    uint8_t wide[3 * 5 * 5], turned[3 * 5 * 5];
    for (size_t i = 0; i < sizeof(wide); i++)
        turned[i % 25 * 3 + i / 25] = wide[i] = (uint8_t)(3 * i);
    write_array("x.npy", "|u1", "(1, 3, 5, 5)", wide, sizeof(wide));
    write_array("y.npy", "|u1", "(1, 1)", "\1", 1);
    expect_image(turned, sizeof(turned));
}

/* Numbers that are the pixels when they are multiplied, and added to. */
static void write_scaled(const char *type, double scale, double offset)
{
    const uint8_t *const pixels = all_pixels();
    float narrow[COUNT * PIXELS];
    double wide[COUNT * PIXELS];
    int16_t whole[COUNT * PIXELS];
    for (size_t i = 0; i < COUNT * PIXELS; i++) {
        wide[i] = ((double)pixels[i] - offset) / scale;
        narrow[i] = (float)wide[i];
        whole[i] = (int16_t)pixels[i];
    }
    const void *const numbers = type[2] == '4' ? (void *)narrow : type[2] == '8' ? (void *)wide : (void *)whole;
    write_array("x.npy", type, "(3, 2, 3, 3)", numbers, COUNT * PIXELS * (size_t)(type[2] - '0'));
}

TEST(finds_the_range_of_numbers)
{
    write_array("y.npy", "<i8", "(3,)", labels, sizeof(labels));
    write_scaled("<f4", 255, 0);
    expect_all();
    write_scaled("<f8", 127.5, 127.5);
    expect_all();
    write_scaled("<f4", 255, 127.5);
    expect_all();
    write_scaled("<f4", 1, 0);
    expect_all();
    write_scaled("<i2", 1, 0);
    expect_all();
    write_scaled("<f4", 64, 128);       /* about -2 ... 2: normalised otherwise */
    expect_refusal("x.npy: float32 numbers from -2 to 1.98438");
    float numbers[COUNT * PIXELS] = { 0 };
    numbers[COUNT * PIXELS - 1] = NAN;
    write_array("x.npy", "<f4", "(3, 2, 3, 3)", numbers, sizeof(numbers));
    expect_refusal("NaN");
}

/* Two splits, each from one number to another. */
static void prepare_two(struct attempt *attempt, float train_least, float train_most, float least, float most)
{
    char *inputs[] = { (char[]){ "x.npy" }, (char[]){ "y.npy" }, (char[]){ "xv.npy" }, (char[]){ "y.npy" } };
    const float train[] = { train_least, train_most }, others[] = { least, most };
    write_array("y.npy", "|u1", "(1,)", "\1", 1);
    write_array("x.npy", "<f4", "(1, 1, 2)", train, sizeof(train));
    write_array("xv.npy", "<f4", "(1, 1, 2)", others, sizeof(others));
    prepare(attempt, inputs, 4);
}

TEST(refuses_splits_of_different_ranges)
{
    static const struct { float train_least, train_most, least, most; bool is_refused; uint8_t white; } rows[] = {
        { 0, 1, 0, 0.5f, false, 255 },
        { 0, 1, 0, 255, true, 0 },
        { 0, 255, 0, 0.9f, true, 0 },
        { -1, 1, 0, 1, true, 0 },
        { 0, 1, -0.5f, 0.5f, true, 0 },     /* together -1..1, which neither is */
        { 0, 255, 0, 0, false, 255 },       /* black images may be of any range */
        { 0, 0, 0, 255, false, 0 },
        { 0, 1, 200, 200, true, 0 },        /* of one colour, but not of 0..1 */
        { -1, -1, 200, 200, true, 0 },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct attempt attempt;
        prepare_two(&attempt, rows[i].train_least, rows[i].train_most, rows[i].least, rows[i].most);
        assert_int_equal(attempt.rc < 0, rows[i].is_refused);
        if (rows[i].is_refused)
            assert_int_equal(stop_code(attempt.stop), EXIT_CODE_DATA);
        else
            expect_sample(&attempt.conversion.sources[0], 0, 1, (const uint8_t[]){ 0, rows[i].white }, 2);
        release(&attempt);
    }
    struct attempt attempt;
    prepare_two(&attempt, 0, 1, 0, 255);
    assert_non_null(strstr(stop_message(attempt.stop),
                           "x.npy has numbers from 0 to 1, which suggest pixels of 0..1, but "
                           "xv.npy from 0 to 255, which suggest pixels of 0..255: save both in the same range"));
    release(&attempt);
    prepare_two(&attempt, 0, 1, -2, 2);
    assert_non_null(strstr(stop_message(attempt.stop), "xv.npy: float32 numbers from -2 to 2"));
    release(&attempt);
}

TEST(takes_halves)
{
    write_array("y.npy", "|u1", "(1,)", "\1", 1);
    write_array("x.npy", "<f2", "(1, 1, 3)", "\0\0\0\x38\0\x3c", 6);
    expect_image((const uint8_t[]){ 0, 128, 255 }, 3);
}

TEST(true_is_white)
{
    uint8_t truths[COUNT * PIXELS], pixels[COUNT * PIXELS];
    for (size_t i = 0; i < sizeof(truths); i++) {
        truths[i] = i % 3 == 0;
        pixels[i] = i % 3 == 0 ? 255 : 0;
    }
    write_array("y.npy", "<i8", "(3,)", labels, sizeof(labels));
    write_array("x.npy", "|b1", "(3, 2, 3, 3)", truths, sizeof(truths));
    expect_pixels(pixels);
}

TEST(refuses_what_does_not_go_together)
{
    const uint8_t *const pixels = all_pixels();
    const int64_t negative[COUNT] = { 1, -1, 0 };
    write_array("y.npy", "<i8", "(3,)", labels, sizeof(labels));
    write_array("x.npy", "|u1", "(3, 18)", pixels, COUNT * PIXELS);
    expect_refusal("x.npy: has the shape (3, 18): is not that of images");
    expect_refusal("array.reshape(-1, 3, H, W)");
    write_array("x.npy", "|u1", "(2, 2, 3, 3)", pixels, 2 * PIXELS);
    expect_refusal("y.npy: has 3 labels for 2 images");
    write_array("x.npy", "|u1", "(3, 2, 3, 3)", pixels, COUNT * PIXELS - 1);
    expect_refusal("x.npy: has 53 bytes of numbers, but its shape needs 54");
    write_array("x.npy", "|u1", "(0, 2, 3, 3)", pixels, 0);
    expect_refusal("x.npy: has no images");
    write_array("x.npy", "|u1", "(3, 3, 3, 2)", pixels, COUNT * PIXELS);
    expect_refusal("x.npy: has the shape (3, 3, 3, 2): has images of neither 1 nor 3 channels");
    write_array("x.npy", "|u1", "(3, 2, 3, 3)", pixels, COUNT * PIXELS);
    write_array("y.npy", "<u8", "(3,)", negative, sizeof(negative));
    expect_refusal("y.npy: label 9223372036854775807 or more of image 1 is not a class");
    write_array("y.npy", "<i8", "(3,)", negative, sizeof(negative));
    expect_refusal("y.npy: label -1 of image 1 is not a class");
    write_array("y.npy", "<f4", "(3,)", labels, 3 * sizeof(float));
    expect_refusal("y.npy: labels are floating-point");
    write_array("y.npy", "<i4", "(3, 2)", labels, sizeof(labels));
    expect_refusal("y.npy: has the shape (3, 2): is not that of labels");
    write_array("y.npy", "<f4", "(3, 2)", labels, sizeof(labels));
    expect_refusal("array.argmax(1)");
    write_array("y.npy", "<U1", "(3,)", labels, 3 * sizeof(uint32_t));
    expect_refusal("y.npy: has the dtype str (texts): save numbers");
    assert_int_equal(unlink("y.npy"), 0);
    expect_refusal("y.npy: cannot read it: No such file");
}

/* Rows of pixels with channels are no images; images that are so narrow have four sizes. */
TEST(refuses_rows_with_channels)
{
    static const struct { const char *shape; uint32_t count; bool is_taken; } rows[] = {
        { "(2, 64, 3)", 384, false },   { "(2, 3, 64)", 384, false },    { "(2, 1, 17)", 34, false },
        { "(2, 17, 4)", 136, false },   { "(2, 64, 3, 1)", 384, true },  { "(2, 1, 64, 1)", 128, true },
        { "(2, 4, 16)", 128, true },    { "(2, 5, 64)", 640, true },
    };
    static const uint8_t pixels[640];

    write_array("y.npy", "|u1", "(2,)", "\1\0", 2);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct attempt attempt;
        write_array("x.npy", "|u1", rows[i].shape, pixels, rows[i].count);
        prepare_pair(&attempt);
        assert_int_equal(attempt.rc == 0, rows[i].is_taken);
        release(&attempt);
        if (!rows[i].is_taken)
            expect_refusal("if images really are so narrow, save array[..., None]");
    }
}

TEST(says_which_axis_is_taken_for_the_channels)
{
    static const struct { const char *shape; bool is_told; } rows[] = {
        { "(2, 3, 8, 3)", true }, { "(2, 3, 8, 1)", true }, { "(2, 1, 8, 3)", true }, { "(2, 1, 8, 1)", false },
        { "(2, 5, 8, 3)", false }, { "(2, 3, 8, 5)", false },
    };
    static const uint8_t pixels[2 * 3 * 8 * 5];
    char text[2048];

    write_array("y.npy", "|u1", "(2,)", "\1\0", 2);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct attempt attempt;
        const uint32_t sizes[] = { (uint32_t)rows[i].shape[4] - '0', (uint32_t)rows[i].shape[10] - '0' };
        write_array("x.npy", "|u1", rows[i].shape, pixels, 2 * 8 * sizes[0] * sizes[1]);
        assert_int_equal(CAPTURE(text, (prepare_pair(&attempt), attempt.rc)), 0);
        assert_int_equal(strstr(text, "x.npy: its shape can be read in two ways") != NULL, rows[i].is_told);
        release(&attempt);
    }
}

static void add_array(struct zip_maker *maker, const char *name, const char *type, const char *shape,
                      const void *numbers, size_t bytes)
{
    const struct block block = make_array(type, shape, numbers, bytes);
    zip_maker_add(maker, name, block.bytes, block.byte_count, bytes > 10);
    free(block.bytes);
}

TEST(reads_archives_by_the_names_in_them)
{
    const uint8_t *const pixels = all_pixels();
    char *inputs[] = { (char[]){ "set.npz" } };
    struct zip_maker maker = { 0 };
    struct attempt attempt;
    add_array(&maker, "x_test.npy", "|u1", "(1, 2, 3, 3)", pixels + PIXELS, PIXELS);
    add_array(&maker, "y_test.npy", "|u1", "(1,)", "\7", 1);
    add_array(&maker, "x_train.npy", "|u1", "(3, 2, 3, 3)", pixels, COUNT * PIXELS);
    add_array(&maker, "y_train.npy", "<i8", "(3,)", labels, sizeof(labels));
    zip_maker_end(&maker);
    fixture_write("set.npz", maker.bytes, maker.byte_count);
    prepare(&attempt, inputs, 1);
    assert_int_equal(attempt.rc, 0);
    assert_int_equal(attempt.conversion.classes, 8);
    assert_int_equal(attempt.conversion.source_count, 2);
    assert_string_equal(attempt.conversion.sources[1].split, "validation");
    expect_sample(&attempt.conversion.sources[0], 2, 2, pixels + 2 * PIXELS, PIXELS);
    expect_sample(&attempt.conversion.sources[1], 0, 7, pixels + PIXELS, PIXELS);
    release(&attempt);
    maker.bytes[100] ^= 1;
    fixture_write("set.npz", maker.bytes, maker.byte_count);
    prepare(&attempt, inputs, 1);
    assert_true(attempt.rc < 0);
    assert_int_equal(stop_code(attempt.stop), EXIT_CODE_DATA);
    assert_non_null(strstr(stop_message(attempt.stop), "set.npz: x_test.npy: "));
    release(&attempt);
    zip_maker_release(&maker);
}

TEST(names_in_archives_are_known_in_any_capitals)
{
    static const char *const names[][2] = {
        { "X_train.npy", "Y_train.npy" }, { "X.npy", "Y.npy" }, { "X.npy", "y.npy" }, { "Images.npy", "LABELS.npy" },
        { "Train_Images.npy", "train_labels.npy" },
    };
    const uint8_t *const pixels = all_pixels();
    char *inputs[] = { (char[]){ "set.npz" } };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        for (int times = 1; times <= 2; times++) {
            struct zip_maker maker = { 0 };
            struct attempt attempt;
            add_array(&maker, names[i][0], "|u1", "(3, 2, 3, 3)", pixels, COUNT * PIXELS);
            add_array(&maker, names[i][1], "<i8", "(3,)", labels, sizeof(labels));
            if (times == 2)
                add_array(&maker, i == 1 ? "x.npy" : names[i][0], "|u1", "(3, 2, 3, 3)", pixels, COUNT * PIXELS);
            zip_maker_end(&maker);
            fixture_write("set.npz", maker.bytes, maker.byte_count);
            prepare(&attempt, inputs, 1);
            assert_int_equal(attempt.rc, times == 1 ? 0 : -EBADMSG);
            if (times == 1)
                expect_sample(&attempt.conversion.sources[0], 2, 2, pixels + 2 * PIXELS, PIXELS);
            else
                assert_non_null(strstr(stop_message(attempt.stop), "the same name but for capitals"));
            release(&attempt);
            zip_maker_release(&maker);
        }
}

TEST(says_which_arrays_are_not_used)
{
    const uint8_t *const pixels = all_pixels();
    char *inputs[] = { (char[]){ "set.npz" } };
    struct zip_maker maker = { 0 };
    struct attempt attempt;
    char text[2048];
    add_array(&maker, "arr_0.npy", "|u1", "(3, 2, 3, 3)", pixels, COUNT * PIXELS);
    add_array(&maker, "arr_1.npy", "<i8", "(3,)", labels, sizeof(labels));
    add_array(&maker, "arr_2.npy", "|u1", "(1, 2, 3, 3)", pixels, PIXELS);
    add_array(&maker, "split.npy", "|u1", "(1,)", "\7", 1);
    zip_maker_end(&maker);
    fixture_write("set.npz", maker.bytes, maker.byte_count);
    assert_int_equal(CAPTURE(text, (prepare(&attempt, inputs, 1), attempt.rc)), 0);
    assert_non_null(strstr(text, "set.npz: not used: arr_2.npy split.npy; "));
    release(&attempt);
    zip_maker_release(&maker);
}

/* Kuzushiji-49 has one array in each of four archives. */
TEST(reads_the_only_array_of_an_archive)
{
    const uint8_t *const pixels = all_pixels();
    char *inputs[] = { (char[]){ "x.npz" }, (char[]){ "y.npy" } };
    struct zip_maker maker = { 0 };
    struct attempt attempt;
    write_array("y.npy", "<i8", "(3,)", labels, sizeof(labels));
    add_array(&maker, "arr_0.npy", "|u1", "(3, 2, 3, 3)", pixels, COUNT * PIXELS);
    zip_maker_end(&maker);
    fixture_write("x.npz", maker.bytes, maker.byte_count);
    zip_maker_release(&maker);
    prepare(&attempt, inputs, 2);
    assert_int_equal(attempt.rc, 0);
    expect_sample(&attempt.conversion.sources[0], 2, labels[2], pixels + 2 * PIXELS, PIXELS);
    release(&attempt);
    maker = (struct zip_maker){ 0 };
    add_array(&maker, "x.npy", "|u1", "(3, 2, 3, 3)", pixels, COUNT * PIXELS);
    add_array(&maker, "y.npy", "<i8", "(3,)", labels, sizeof(labels));
    zip_maker_end(&maker);
    fixture_write("x.npz", maker.bytes, maker.byte_count);
    zip_maker_release(&maker);
    prepare(&attempt, inputs, 2);
    assert_true(attempt.rc < 0);
    assert_non_null(strstr(stop_message(attempt.stop), "x.npz: has 2 arrays: x.npy y.npy: name it alone if "));
    release(&attempt);
}

TEST(names_files_that_are_no_arrays)
{
    static const struct { const char *bytes, *words; } rows[] = {
        { "MATLAB 5.0 MAT-file, Platform: GLNXA64", "x.npy: is a MATLAB file: unpack or load it, and save" },
        { "\x89HDF\r\n\x1a\n", "x.npy: is an HDF5 file: unpack or load it" },
        { "\x80\x04\x95", "x.npy: is a Python pickle: unpack or load it" },
        { "\x1f\x8b\x08", "x.npy: is compressed with gzip: unpack or load it" },
        { "", "x.npy: is empty" },
        { "NUMPY", "x.npy: is no .npy file" },
    };
    char *inputs[] = { (char[]){ "x.npy" } };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct attempt attempt;
        fixture_write("x.npy", (const uint8_t *)rows[i].bytes, strlen(rows[i].bytes));
        expect_refusal(rows[i].words);
        prepare(&attempt, inputs, 1);
        assert_non_null(strstr(stop_message(attempt.stop), rows[i].words));
        release(&attempt);
    }
}

TEST(says_what_there_is_where_no_name_is_known)
{
    char *inputs[] = { (char[]){ "set.npz" } };
    struct zip_maker maker = { 0 };
    struct attempt attempt;
    add_array(&maker, "faces.npy", "|u1", "(1,)", "\7", 1);
    zip_maker_end(&maker);
    fixture_write("set.npz", maker.bytes, maker.byte_count);
    prepare(&attempt, inputs, 1);
    assert_int_equal(attempt.rc, -EBADMSG);
    assert_non_null(strstr(stop_message(attempt.stop), "it has: faces.npy"));
    release(&attempt);
    zip_maker_release(&maker);
}

TESTS_MAIN(fixture_folder_enter, fixture_folder_leave)
