/* Tests of the converters of folders, archives and tables: which images are taken, as what, and what is refused.
 * Converters are asked for their samples directly. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "tests/helpers/file_fixture.h"
#include "tests/helpers/tar_fixture.h"
#include "tests/helpers/test.h"
#include "tools/convert/convert.h"
#include "tools/convert/csv_table.h"

static atomic_bool interrupted;

/* An image of 3 x 2 pixels as far as its header goes, told from others by its last byte. */
#define IMAGE_BYTES 31u

static void make_image(uint8_t image_out[IMAGE_BYTES], char tag)
{
    static const uint8_t header[29] = {
        0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n', 0, 0, 0, 13, 'I', 'H', 'D', 'R', 0, 0, 0, 3, 0, 0, 0, 2, 8, 2,
    };

    memcpy(image_out, header, sizeof(header));
    image_out[29] = 0;
    image_out[30] = (uint8_t)tag;
}

/* Make the folders of a path. */
static void make_folders(const char *path)
{
    char above[256];

    for (const char *end = strchr(path, '/'); end != NULL; end = strchr(end + 1, '/')) {
        snprintf(above, sizeof(above), "%.*s", (int)(end - path), path);
        assert_true(mkdir(above, 0777) == 0 || errno == EEXIST);
    }
}

/* Images "PATH TAG": PATH ends with "/" for a folder, TAG is left out for text that is no image. */
static void make_files(const char *const *files)
{
    for (; *files != NULL; files++) {
        char path[256], tag = '\0';
        uint8_t image[IMAGE_BYTES];
        sscanf(*files, "%255s %c", path, &tag);
        make_folders(path);
        make_image(image, tag);
        if (path[strlen(path) - 1] != '/')
            fixture_write(path, tag != '\0' ? (const void *)image : "text", tag != '\0' ? sizeof(image) : 4);
    }
}

/* The same files as members of an archive. */
static void make_members(struct tar_fixture *tar, const char *const *files)
{
    for (; *files != NULL; files++) {
        char path[256], tag = '\0';
        uint8_t image[IMAGE_BYTES];
        sscanf(*files, "%255s %c", path, &tag);
        make_image(image, tag);
        const bool is_folder = path[strlen(path) - 1] == '/';
        tar_fixture_add(tar, is_folder ? '5' : '0', path, tag != '\0' ? (const void *)image : "text",
                        is_folder ? 0 : tag != '\0' ? sizeof(image) : 4);
    }
    tar_fixture_end(tar);
}

static void write_gzip(const char *path, const void *data, size_t bytes)
{
    gzFile file = gzopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(gzwrite(file, data, (unsigned)bytes), (int)bytes);
    assert_int_equal(gzclose(file), Z_OK);
}

/* A line "SPLIT LABEL TEXT NAME TAG" for an encoded image, "SPLIT LABEL PIXELS" for a raw one. */
static void tell_sample(char *line, size_t size, const char *split, const struct example_value *values, size_t count)
{
    static const char *const names[] = {
        "image/channels", "image/class/label", "image/class/text", "image/encoded", "image/filename", "image/format",
        "image/height", "image/width",
    };

    if (strcmp(values[0].name, "depth") == 0) {
        int length = snprintf(line, size, "%s %d", split, (int)values[3].int64);
        for (size_t i = 0; i < values[2].byte_count && i < 4; i++)
            length += snprintf(line + length, size - (size_t)length, " %d", ((const uint8_t *)values[2].bytes)[i]);
        return;
    }
    const size_t text = count == 8;
    for (size_t i = 0; i < count; i++)
        assert_string_equal(values[i].name, names[i + (i >= 2 && !text)]);
    const struct example_value *encoded = &values[2 + text];
    assert_int_equal(values[0].int64, 3);
    assert_int_equal(values[count - 1].int64, 3);
    assert_int_equal(values[count - 2].int64, 2);
    assert_memory_equal(values[count - 3].bytes, "PNG", 3);
    assert_int_equal(encoded->byte_count, IMAGE_BYTES);
    snprintf(line, size, "%s %d %.*s %.*s %c", split, (int)values[1].int64, text ? (int)values[2].byte_count : 1,
             text ? (const char *)values[2].bytes : "-", (int)encoded[1].byte_count, (const char *)encoded[1].bytes,
             ((const char *)encoded->bytes)[30]);
}

static void tell_source(const struct sample_source *source, char *out, size_t size)
{
    struct example_value values[SAMPLE_VALUES_MAX];
    void *scratch = malloc(source->scratch_bytes + 1);
    size_t count, length = strlen(out);

    assert_non_null(scratch);
    for (uint64_t i = 0; i < source->record_count; i++) {
        assert_int_equal(source->sample(source->arg, i, scratch, values, &count), 0);
        tell_sample(out + length, size - length, source->split, values, count);
        length += strlen(out + length);
        length += (size_t)snprintf(out + length, size - length, "\n");
    }
    free(scratch);
}

struct outcome {
    int rc;
    char samples[4096];
    char message[4096];
    uint32_t classes, height, width, depth;
};

/* Ask a converter for all samples of up to two inputs. */
static void run(const struct converter *converter, const char *input, const char *second, struct outcome *outcome)
{
    char *inputs[2] = { (char *)(uintptr_t)input, (char *)(uintptr_t)second };
    const struct convert_options options = {
        .inputs = inputs, .input_count = second != NULL ? 2 : 1, .output = "/nowhere", .interrupted = &interrupted,
    };
    struct conversion conversion = { .name = converter->name, .image_key = "image_raw", .label_key = "label" };
    struct stop *stop;

    *outcome = (struct outcome){ .rc = 0 };
    assert_int_equal(stop_open(&stop), 0);
    outcome->rc = converter_prepare(converter, &options, stop, &conversion);
    for (size_t i = 0; outcome->rc == 0 && i < conversion.source_count; i++)
        tell_source(&conversion.sources[i], outcome->samples, sizeof(outcome->samples));
    outcome->classes = conversion.classes;
    outcome->height = conversion.height;
    outcome->width = conversion.width;
    outcome->depth = conversion.depth;
    snprintf(outcome->message, sizeof(outcome->message), "%s", stop_message(stop));
    converter_release(converter, &conversion);
    stop_close(stop);
}

static void expect_samples(const struct converter *converter, const char *input, const char *second, const char *wanted)
{
    struct outcome outcome;

    run(converter, input, second, &outcome);
    if (outcome.rc != 0)
        fail_msg("%s: %s", input, outcome.message);
    assert_string_equal(outcome.samples, wanted);
}

static void expect_refused(const struct converter *converter, const char *input, const char *second, const char *words)
{
    struct outcome outcome;

    run(converter, input, second, &outcome);
    assert_true(outcome.rc < 0);
    if (strstr(outcome.message, words) == NULL)
        fail_msg("'%s' does not say '%s'", outcome.message, words);
}

#define FILES(...) ((const char *const[]){ __VA_ARGS__, NULL })

/* Both ways to give the same files: a folder, and archives. */
static void expect_samples_both_ways(const char *const *files, const char *wanted)
{
    static struct tar_fixture tar;

    tar.byte_count = 0;
    make_members(&tar, files);
    fixture_write("x.tar", tar.bytes, tar.byte_count);
    write_gzip("x.tar.gz", tar.bytes, tar.byte_count);
    expect_samples(&convert_archive, "x.tar", NULL, wanted);
    expect_samples(&convert_archive, "x.tar.gz", NULL, wanted);
    assert_int_equal(mkdir("x", 0777), 0);
    assert_int_equal(chdir("x"), 0);
    make_files(files);
    expect_samples(&convert_folder, ".", NULL, wanted);
}

static void expect_refused_both_ways(const char *const *files, const char *words)
{
    static struct tar_fixture tar;

    tar.byte_count = 0;
    make_members(&tar, files);
    fixture_write("x.tar", tar.bytes, tar.byte_count);
    expect_refused(&convert_archive, "x.tar", NULL, words);
    assert_int_equal(mkdir("x", 0777), 0);
    assert_int_equal(chdir("x"), 0);
    make_files(files);
    expect_refused(&convert_folder, ".", NULL, words);
    assert_int_equal(chdir(".."), 0);
    assert_int_equal(system("rm -rf x x.tar"), 0);
}

TEST_WITH(classes_are_folders_in_bytewise_order, fixture_folder_enter, fixture_folder_leave)
{
    expect_samples_both_ways(FILES("b/2.png B", "b/1.png A", "a-2/x.png C", "a/z.png D", "a/y.jpg E", "a/images/w F"),
                             "train 0 a images/w F\n"
                             "train 0 a y.jpg E\n"
                             "train 0 a z.png D\n"
                             "train 1 a-2 x.png C\n"
                             "train 2 b 1.png A\n"
                             "train 2 b 2.png B\n");
}

TEST_WITH(splits_are_folders_called_so, fixture_folder_enter, fixture_folder_leave)
{
    expect_samples_both_ways(FILES("train/a/1.png A", "train/b/2.png B", "val/b/3.png C", "test/a/4.png D"),
                             "train 0 a 1.png A\ntrain 1 b 2.png B\nvalidation 1 b 3.png C\ntest 0 a 4.png D\n");
}

TEST_WITH(tests_validate_where_nothing_else_does, fixture_folder_enter, fixture_folder_leave)
{
    expect_samples_both_ways(FILES("Test/a/1.png A", "Training/a/2.png B", "Training/b/3.png C"),
                             "train 0 a 2.png B\ntrain 1 b 3.png C\nvalidation 0 a 1.png A\n");
}

TEST_WITH(folders_around_the_whole_do_not_matter, fixture_folder_enter, fixture_folder_leave)
{
    expect_samples_both_ways(FILES("set/", "set/v1/", "set/v1/train/", "set/v1/train/a/1.png A",
                                   "set/v1/train/b/2.png B"),
                             "train 0 a 1.png A\ntrain 1 b 2.png B\n");
}

TEST_WITH(a_class_may_be_called_train, fixture_folder_enter, fixture_folder_leave)
{
    expect_samples_both_ways(FILES("train/1.png A", "car/2.png B"), "train 0 car 2.png B\ntrain 1 train 1.png A\n");
}

TEST_WITH(leaves_out_hidden_files_notes_and_images_in_no_class, fixture_folder_enter, fixture_folder_leave)
{
    expect_samples_both_ways(FILES("a/1.png A", "a/.DS_Store", "a/._1.png X", ".git/2.png X", "a/notes.txt", "README",
                                   "b/2.png B", "top.png X", "b/Thumbs.db"),
                             "train 0 a 1.png A\ntrain 1 b 2.png B\n");
}

TEST_WITH(skips_folders_of_systems, fixture_folder_enter, fixture_folder_leave)
{
    expect_samples_both_ways(FILES("@eaDir/a/1.png/SYNOPHOTO_THUMB_M.png X", "#recycle/old.png X", "a/1.png A",
                                   "a/@eaDir/1.png/SYNOPHOTO_THUMB_M.png X", "lost+found/3.png X", "$Recycle.Bin/S-1/4.png X",
                                   "b/@Recycle/5.png X", "b/2.png B", "__MACOSX/a/6.png X", "#snapshot/7.png X",
                                   "#recycled/8.png C", "found/9.png D", "b/.thumbnails/1.png X"),
                             "train 0 #recycled 8.png C\ntrain 1 a 1.png A\ntrain 2 b 2.png B\ntrain 3 found 9.png D\n");
}

TEST_WITH(refuses_layouts_that_mean_nothing, fixture_folder_enter, fixture_folder_leave)
{
    expect_refused_both_ways(FILES("1.png A", "2.png B"),
                             "contains 2 images and no folders of classes: put the images into one folder for each class");
    expect_refused_both_ways(FILES("notes.txt"), "no folder with images");
    expect_refused_both_ways(FILES("a/1.png A", "a/2.png B"), "only one class");
    expect_refused_both_ways(FILES("a/1.png A", "b/notes.txt", "b/"), "folder 'b' has no training image");
    expect_refused_both_ways(FILES("train/a/1.png A", "train/b/2.png B", "extra/c/3.png C"),
                             "neither for training, validation nor test");
    expect_refused_both_ways(FILES("train/a/1.png A", "train/b/2.png B", "val/c/3.png C"),
                             "folder 'c' is not a class of the training set; its classes are 'a', 'b'");
    expect_refused_both_ways(FILES("val/a/1.png A", "val/b/2.png B"), "no folder train");
    expect_refused_both_ways(FILES("train/a/1.png A", "valid/a/2.png B", "val/a/3.png C"),
                             "second folder for the same split");
}

TEST_WITH(splits_may_wrap_their_classes_and_be_called_anything_that_means_them, fixture_folder_enter,
          fixture_folder_leave)
{
    expect_samples_both_ways(FILES("seg_train/seg_train/a/1.png A", "seg_train/seg_train/b/2.png B",
                                   "seg_test/seg_test/b/3.png C", "seg_pred/seg_pred/4.png D", "notes/x.txt"),
                             "train 0 a 1.png A\ntrain 1 b 2.png B\nvalidation 1 b 3.png C\n");
}

TEST_WITH(a_test_set_without_classes_is_left_out, fixture_folder_enter, fixture_folder_leave)
{
    expect_samples_both_ways(FILES("Training_Data/images/a/1.png A", "Training_Data/images/b/2.png B",
                                   "TestData/test/3.png C"),
                             "train 0 a 1.png A\ntrain 1 b 2.png B\n");
    expect_samples_both_ways(FILES("train/a/images/1.png A", "train/b/images/2.png B", "val/images/3.png C",
                                   "test/images/4.png D"),
                             "train 0 a images/1.png A\ntrain 1 b images/2.png B\n");
}

TEST_WITH(images_without_classes_beside_splits_are_left_out, fixture_folder_enter, fixture_folder_leave)
{
    expect_samples_both_ways(FILES("Train/0/1.png A", "Train/1/2.png B", "Test/3.png C", "Meta/0.png D", "Meta/1.png D"),
                             "train 0 0 1.png A\ntrain 1 1 2.png B\n");
}

TEST_WITH(vehicles_are_classes, fixture_folder_enter, fixture_folder_leave)
{
    expect_samples_both_ways(FILES("bus/1.png A", "car/2.png B", "train/3.png C"),
                             "train 0 bus 1.png A\ntrain 1 car 2.png B\ntrain 2 train 3.png C\n");
}

TEST_WITH(refuses_splits_where_classes_should_be, fixture_folder_enter, fixture_folder_leave)
{
    expect_refused_both_ways(FILES("train/1.png A", "train/2.png B", "test1/3.png C"),
                             "train contains 2 images and no folders of classes");
    expect_refused_both_ways(FILES("a/train/1.png A", "b/train/2.png B", "a/val/3.png C", "b/val/4.png D"),
                             "a/val/3.png is in a folder for validation inside its class");
    expect_refused_both_ways(FILES("a/TestSet/1.png A", "a/2.png B", "b/3.png C"),
                             "put the splits outside, as train/CLASS and test/CLASS; --folders-are-classes");
    expect_refused_both_ways(FILES("train/train/a/1.png A", "train/train/b/1.png A", "train/val/a/1.png B"),
                             "is a split inside the training set");
    expect_refused_both_ways(FILES("a/1.png A", "b/2.png B", "test/3.png C"),
                             "next to test, a split by its name, there is a");
}

TEST_WITH(refuses_groups_of_the_same_classes_as_classes, fixture_folder_enter, fixture_folder_leave)
{
    expect_refused_both_ways(FILES("entrenamiento/gato/1.png A", "entrenamiento/perro/2.png B", "prueba/gato/3.png C",
                                   "prueba/perro/4.png D"),
                             "the folders entrenamiento, prueba, ... hold the same folders gato, perro, ..., which look "
                             "like the classes: call splits train, validation and test, as in train/gato");
    expect_refused_both_ways(FILES("HE-100K/ADI/1.png A", "HE-100K/BACK/2.png B", "VAL-7K/ADI/3.png C", "VAL-7K/BACK/4.png D"),
                             "merge other groups into one folder for each class; --folders-are-classes takes");
    expect_refused_both_ways(FILES("10253/0/1.png A", "10253/1/2.png B", "10254/0/3.png C", "8863/0/5.png E",
                                   "8863/1/6.png F"),
                             "hold the same folders 0, 1");
    expect_refused_both_ways(FILES("train/Art/images/dog/1.png A", "train/Art/images/horse/2.png B", "train/Photo/dog/3.png C",
                                   "train/Photo/horse/4.png D"),
                             "the folders Art, Photo, ... hold the same");
}

TEST_WITH(looks_into_images_beside_folders_of_notes, fixture_folder_enter, fixture_folder_leave)
{
    expect_samples_both_ways(FILES("cub/attributes/", "cub/attributes/a.txt", "cub/images/a/1.png A", "cub/images/b/2.png B",
                                   "cub/parts/", "cub/parts/a/", "cub/parts/a/1.txt"),
                             "train 0 a 1.png A\ntrain 1 b 2.png B\n");
    expect_refused_both_ways(FILES("x/Data/a/1.png A", "x/Data/b/2.png B", "x/Lists/", "x/Lists/a.txt"),
                             "folder 'Lists' has no training image: fill or remove it, or convert only x/Data if its folders");
}

TEST_WITH(refuses_initials_of_classes, fixture_folder_enter, fixture_folder_leave)
{
    expect_refused_both_ways(FILES("d/b/beach/1.png A", "d/b/bar/in/2.png B", "d/a/alley/3.png C", "d/a/airfield/x/4.png D",
                                   "d/c/cafe/5.png E"),
                             "the folders are initials of the classes in them, such as a of airfield and alley");
    expect_refused_both_ways(FILES("a/ant/1.png A", "b/bar/2.png B", "b/bee/2.png B", "c/cat/3.png C", "d/dog/3.png C"),
                             "such as b of bar and bee");
    expect_refused_both_ways(FILES("train/A/apple/1.png A", "train/A/ant/1.png A", "train/B/bee/2.png B",
                                   "train/B/bird/2.png B"), "such as A of ant and apple");
    expect_samples_both_ways(FILES("a/a1/1.png A", "a/a2/2.png B", "b/bob/3.png C", "b/ben/4.png D"),
                             "train 0 a a1/1.png A\ntrain 0 a a2/2.png B\ntrain 1 b ben/4.png D\ntrain 1 b bob/3.png C\n");
    expect_samples_both_ways(FILES("c/cat/1.png A", "c/2.png B", "c/cow/5.png B", "d/dog/3.png C", "d/duck/3.png C"),
                             "train 0 c 2.png B\ntrain 0 c cat/1.png A\ntrain 0 c cow/5.png B\ntrain 1 d dog/3.png C\n"
                             "train 1 d duck/3.png C\n");
}

TEST_WITH(refuses_a_set_inside_itself, fixture_folder_enter, fixture_folder_leave)
{
    static const char words[] = "contains folders called like the classes: remove it if it is a copy of the set inside itself";
    expect_refused_both_ways(FILES("set/a/1.png A", "set/b/2.png B", "set/set/a/1.png A", "set/set/b/2.png B"), words);
    expect_refused_both_ways(FILES("a/1.png A", "b/2.png B", "z/x/set/a/1.png A", "z/x/set/b/2.png B", "z/y.png C"),
                             "folder 'z/x/set' contains");
    expect_refused_both_ways(FILES("a/1.png A", "b/2.png B", "c/3.png B", "b/d/c/2.png B", "b/d/a/2.png B"), "folder 'b/d'");
    expect_refused_both_ways(FILES("train/a/1.png A", "train/b/2.png B", "train/train/a/1.png A", "train/train/b/2.png B"),
                             words);
    expect_refused_both_ways(FILES("train/a/1.png A", "train/b/2.png B", "val/a/1.png A", "val/b/x/a/2.png B",
                                   "val/b/x/b/2.png B"), "folder 'val/b/x' contains");
    expect_samples_both_ways(FILES("a/a/1.png A", "b/b/2.png B", "b/c/3.png C"),
                             "train 0 a a/1.png A\ntrain 1 b b/2.png B\ntrain 1 b c/3.png C\n");
}

TEST_WITH(refuses_masks_and_annotations_beside_images, fixture_folder_enter, fixture_folder_leave)
{
    expect_refused_both_ways(FILES("images/1.png A", "annotations/trimaps/1.png B"), "annotations is beside images");
    expect_refused_both_ways(FILES("V/JPEGImages/1.png A", "V/SegmentationClass/1.png B"), "V/SegmentationClass is beside");
    expect_refused_both_ways(FILES("COVID/images/1.png A", "COVID/masks/1.png B", "Normal/images/2.png C",
                                   "Normal/masks/2.png D"), "COVID/masks is beside images");
    expect_refused_both_ways(FILES("a/x1.png A", "a/x1-2.png A", "a/x1_mask.png B", "b/x2.png C"),
                             "a/x1_mask.png is a mask of the image beside it by its name: move masks away");
    expect_refused_both_ways(FILES("a/x.png A", "a/x_mask_1.png B", "b/x2.png C"), "a/x_mask_1.png is a mask");
    expect_samples_both_ways(FILES("mask/a_mask.png A", "no_mask/b_mask.png B", "no_mask/b_masked.png C"),
                             "train 0 mask a_mask.png A\ntrain 1 no_mask b_mask.png B\n"
                             "train 1 no_mask b_masked.png C\n");
}

TEST_WITH(classes_may_be_divided, fixture_folder_enter, fixture_folder_leave)
{
    expect_samples_both_ways(FILES("cat/tabby/1.png A", "cat/siamese/2.png B", "dog/pug/3.png C", "dog/boxer/4.png D"),
                             "train 0 cat siamese/2.png B\ntrain 0 cat tabby/1.png A\n"
                             "train 1 dog boxer/4.png D\ntrain 1 dog pug/3.png C\n");
    expect_samples_both_ways(FILES("a/2023/1.png A", "a/2024/2.png B", "b/2023/3.png C", "b/2024/4.png D"),
                             "train 0 a 2023/1.png A\ntrain 0 a 2024/2.png B\n"
                             "train 1 b 2023/3.png C\ntrain 1 b 2024/4.png D\n");
}

TEST_WITH(refuses_shards_parts_and_records_as_classes, fixture_folder_enter, fixture_folder_leave)
{
    expect_refused_both_ways(FILES("000/1.png A", "000/1.cls", "001/2.png B", "001/2.cls"), "as in WebDataset");
    expect_refused_both_ways(FILES("s_a/1.png A", "s_a/1.cls.txt", "s_b/2.png B", "s_b/2.CLS.TXT"), "as in WebDataset");
    expect_refused_both_ways(FILES("s_a/1.png A", "s_a/1.label", "s_b/2.png B", "s_b/2.label"), "as in WebDataset");
    expect_refused_both_ways(FILES("1.png A", "1.cls", "2.png B", "2.cls"), "labels of samples of WebDataset");
    expect_refused_both_ways(FILES("00000/a.png A", "00000/a.json", "00001/b.png B", "00001/b.json"),
                             "the folders 00000, 00001, ... are no classes: numbers, with a file (.json, .txt)");
    expect_refused_both_ways(FILES("00000/000.png A", "00000/001.png B", "00001/002.png C", "00001/003.png D"),
                             "numbered on from folder to folder");
    expect_refused_both_ways(FILES("part-1/x.png A", "part-1/y.png B", "part-2/z.png C", "part-2/w.png C"),
                             "parts of a set by their names");
    expect_refused_both_ways(FILES("images_001/images/1.png A", "images_002/images/2.png B"), "parts of a set by their names");
    expect_refused_both_ways(FILES("patient001/1.png A", "patient002/2.png B"), "parts of a set by their names");
    expect_refused_both_ways(FILES("id1/x.png A", "id2/x.png B", "id3/x.png C"), "with one image each");
    expect_refused_both_ways(FILES("0a1b2c3d/x.png A", "ffee0011/x.png B", "12345678/x.png C"),
                             "with one image each, as records are");
}

TEST_WITH(numbers_are_classes, fixture_folder_enter, fixture_folder_leave)
{
    expect_samples_both_ways(FILES("0/1.png A", "0/2.png B", "1/3.png C", "1/4.png D"),
                             "train 0 0 1.png A\ntrain 0 0 2.png B\ntrain 1 1 3.png C\ntrain 1 1 4.png D\n");
}

TEST_WITH(words_with_numbers_are_classes, fixture_folder_enter, fixture_folder_leave)
{
    expect_samples_both_ways(FILES("class_1/1.png A", "class_2/2.png B"),
                             "train 0 class_1 1.png A\ntrain 1 class_2 2.png B\n");
    expect_samples_both_ways(FILES("images_of_cats/1.png A", "images_of_dogs/2.png B"),
                             "train 0 images_of_cats 1.png A\ntrain 1 images_of_dogs 2.png B\n");
}

TEST_WITH(padded_numbers_are_classes, fixture_folder_enter, fixture_folder_leave)
{
    expect_samples_both_ways(FILES("00000/00000_1.png A", "00000/00001_1.png B", "00001/00000_1.png C", "00001/2.json"),
                             "train 0 00000 00000_1.png A\ntrain 0 00000 00001_1.png B\n"
                             "train 1 00001 00000_1.png C\n");
}

TEST_WITH(refuses_images_that_are_none_all_at_once, fixture_folder_enter, fixture_folder_leave)
{
    expect_refused_both_ways(FILES("a/1.png A", "b/2.png", "c/3.JPEG", "b/4.png B"), "2 files cannot be used");
    expect_refused_both_ways(FILES("a/1.png A", "b/2.png", "b/4.png B"), "b/2.png: is no image");
    expect_refused_both_ways(FILES("a/1.png A", "b/1.png", "b/2.png", "b/3.png", "b/4.png", "b/5.png", "b/6.png",
                                   "b/7.png"), "7 files cannot be used: remove or replace them");
}

TEST_WITH(follows_links_but_not_in_circles, fixture_folder_enter, fixture_folder_leave)
{
    make_files(FILES("far/1.png A", "set/b/2.png B", "3.png A"));
    assert_int_equal(symlink("../far", "set/a"), 0);
    assert_int_equal(symlink("../../3.png", "set/b/3.png"), 0);
    expect_samples(&convert_folder, "set", NULL, "train 0 a 1.png A\ntrain 1 b 2.png B\ntrain 1 b 3.png A\n");
    assert_int_equal(symlink(".", "set/a/again"), 0);
    expect_refused(&convert_folder, "set", NULL,
                   "1 file cannot be used: remove or replace it, or give --skip-unreadable to leave it out: a/again: is a link to "
                   "one of its own parent");
    assert_int_equal(unlink("far/again"), 0);
    assert_int_equal(symlink("..", "set/b/up"), 0);
    assert_int_equal(symlink("../set", "far/down"), 0);
    expect_refused(&convert_folder, "set", NULL, "a/down: is a link to one of its own parent");
    assert_int_equal(unlink("far/down"), 0);
    assert_int_equal(unlink("set/b/up"), 0);
    make_files(FILES("1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17/18/19/20/21/22/23/24/25/26/27/28/29/30/31/32/33/x A"));
    expect_refused(&convert_folder, ".", NULL, "/32/33: is more than 32 folders deep");
    assert_int_equal(symlink("nowhere", "set/b/4.png"), 0);
    expect_refused(&convert_folder, "set", NULL,
                   "set: 1 file cannot be used: remove or replace it, or give --skip-unreadable to leave it out: "
                   "b/4.png: No such file");
}

TEST_WITH(a_file_has_one_class_whatever_links_lead_to_it, fixture_folder_enter, fixture_folder_leave)
{
    make_files(FILES("set/cat/1.png A", "set/cat/2.png B", "set/dog/3.png C", "split/train/cat/1.png A",
                     "split/train/dog/2.png B", "split/val/cat/3.png C"));
    assert_int_equal(link("set/dog/3.png", "set/dog/4.png"), 0);
    assert_int_equal(link("split/train/cat/1.png", "split/val/cat/1.png"), 0);
    expect_samples(&convert_folder, "set", NULL,
                   "train 0 cat 1.png A\ntrain 0 cat 2.png B\ntrain 1 dog 3.png C\ntrain 1 dog 4.png C\n");
    expect_samples(&convert_folder, "split", NULL, "train 0 cat 1.png A\ntrain 1 dog 2.png B\nvalidation 0 cat 1.png A\n"
                                                   "validation 0 cat 3.png C\n");
    assert_int_equal(symlink("cat", "set/kitty"), 0);
    expect_refused(&convert_folder, "set", NULL, "cat/1.png and kitty/1.png are one file, through a link, in the classes cat "
                                                 "and kitty (2 such images): an image has one class");
    assert_int_equal(unlink("set/kitty"), 0);
    assert_int_equal(link("set/dog/3.png", "set/cat/3.png"), 0);
    expect_refused(&convert_folder, "set", NULL, "cat/3.png and dog/3.png are one file, through a link, in the classes cat and dog");
    assert_int_equal(symlink("../../train/dog/2.png", "split/val/cat/2.png"), 0);
    expect_refused(&convert_folder, "split", NULL, "in the classes dog and cat (1 such image)");
}

TEST_WITH(refuses_classes_that_look_the_same, fixture_folder_enter, fixture_folder_leave)
{
    static const char words[] = "look the same: they differ in blanks or in how accents are encoded";
    expect_refused_both_ways(FILES("caf\u00e9/1.png A", "cafe\u0301/2.png B", "tea/3.png C"), words);
    expect_refused_both_ways(FILES("train/a\u0308/1.png A", "train/b/2.png B", "train/\u00e4/3.png C"), words);
    expect_refused_both_ways(FILES("\uac00/1.png A", "\u1100\u1161/2.png B"), words);
    expect_refused_both_ways(FILES("cat/1.png A", "dog/2.png B", "cat\u00a0/3.png C"), words);
    expect_refused_both_ways(FILES("Cat\u00a0/1.png A", "\u3000" "cat/2.png B", "dog/3.png C"), words);
    expect_samples_both_ways(FILES("A/1.png A", "a/2.png B", "e\u0301/3.png C", "\u00f8/4.png D"),
                             "train 0 A 1.png A\ntrain 1 a 2.png B\ntrain 2 e\u0301 3.png C\ntrain 3 \u00f8 4.png D\n");
}

TEST_WITH(keeps_names_that_are_no_utf8, fixture_folder_enter, fixture_folder_leave)
{
    expect_samples_both_ways(FILES("a/\xe9.png A", "\xff/2.png B"), "train 0 a \xe9.png A\ntrain 1 \xff 2.png B\n");
}

TEST_WITH(tells_the_size_where_all_have_it, fixture_folder_enter, fixture_folder_leave)
{
    struct outcome outcome;

    make_files(FILES("a/1.png A", "b/2.png B"));
    run(&convert_folder, ".", NULL, &outcome);
    assert_int_equal(outcome.classes, 2);
    assert_int_equal(outcome.height, 2);
    assert_int_equal(outcome.width, 3);
    assert_int_equal(outcome.depth, 3);
    uint8_t other[IMAGE_BYTES];
    make_image(other, 'C');
    other[19] = 4;
    fixture_write("b/3.png", other, sizeof(other));
    struct stop *stop;
    assert_int_equal(stop_open(&stop), 0);
    static const char *const inputs[] = { "." };
    const struct convert_options options = {
        .inputs = (char *const *)(uintptr_t)inputs, .input_count = 1, .output = "/nowhere", .interrupted = &interrupted,
    };
    struct conversion conversion = { .name = "folder" };
    assert_int_equal(converter_prepare(&convert_folder, &options, stop, &conversion), 0);
    assert_int_equal(conversion.height, 0);
    assert_int_equal(conversion.depth, 0);
    converter_release(&convert_folder, &conversion);
    stop_close(stop);
}

TEST_WITH(notices_images_that_change_meanwhile, fixture_folder_enter, fixture_folder_leave)
{
    static const char *const inputs[] = { "." };
    const struct convert_options options = {
        .inputs = (char *const *)(uintptr_t)inputs, .input_count = 1, .output = "/nowhere", .interrupted = &interrupted,
    };
    struct conversion conversion = { .name = "folder" };
    struct example_value values[SAMPLE_VALUES_MAX];
    uint8_t scratch[256];
    struct stop *stop;
    size_t count;

    make_files(FILES("a/1.png A", "b/2.png B"));
    assert_int_equal(stop_open(&stop), 0);
    assert_int_equal(converter_prepare(&convert_folder, &options, stop, &conversion), 0);
    const struct sample_source *source = &conversion.sources[0];
    assert_true(source->scratch_bytes <= sizeof(scratch));
    assert_int_equal(source->sample(source->arg, 0, scratch, values, &count), 0);
    fixture_write("a/1.png", scratch, IMAGE_BYTES + 1);
    assert_int_equal(source->sample(source->arg, 0, scratch, values, &count), -EBADMSG);
    assert_non_null(strstr(stop_message(stop), "a/1.png: changed during the conversion"));
    converter_release(&convert_folder, &conversion);
    stop_close(stop);
}

TEST_WITH(gives_up_when_interrupted, fixture_folder_enter, fixture_folder_leave)
{
    struct outcome outcome;

    make_files(FILES("a/1.png A", "b/2.png B"));
    atomic_store(&interrupted, true);
    run(&convert_folder, ".", NULL, &outcome);
    atomic_store(&interrupted, false);
    assert_int_equal(outcome.rc, -ECANCELED);
    assert_string_equal(outcome.message, "");
    fixture_write_text("x.csv", "label,1x1,1x2,2x1,2x2\n1,0,0,0,0\n0,0,0,0,0\n");
    atomic_store(&interrupted, true);
    run(&convert_csv, "x.csv", NULL, &outcome);
    atomic_store(&interrupted, false);
    assert_int_equal(outcome.rc, -ECANCELED);
    assert_string_equal(outcome.message, "");
}

TEST_WITH(many_rows_have_few_classes_or_many, fixture_folder_enter, fixture_folder_leave)
{
    enum { ROWS = 200000, LABEL_BYTES = 16 };
    static const unsigned class_counts[] = { 3, 90000, ROWS };
    static char labels[ROWS][LABEL_BYTES];
    static struct csv_row rows[ROWS];
    struct csv_table table = { .input = "x.csv", .rows = rows, .row_count = ROWS };

    for (size_t c = 0; c < 3; c++) {
        char **names;
        uint32_t class_count;
        for (unsigned i = 0; i < ROWS; i++) {
            snprintf(labels[i], LABEL_BYTES, "c%06u", i * 7919u % class_counts[c]);
            rows[i].label = (struct csv_text){ labels[i], strlen(labels[i]) };
        }
        assert_int_equal(csv_classes_find(&table, 1, &(struct csv_label_choice){ .is_made = true }, &interrupted, NULL, &names, &class_count), 0);
        assert_int_equal(class_count, class_counts[c]);
        for (unsigned i = 0; i < ROWS; i++)
            assert_string_equal(names[rows[i].class], labels[i]);
        for (uint32_t i = 0; i < class_count; i++)
            free(names[i]);
        free(names);
    }
}

TEST_WITH(joins_archives_into_one_set, fixture_folder_enter, fixture_folder_leave)
{
    static struct tar_fixture tar;

    tar.byte_count = 0;
    make_members(&tar, FILES("train/", "train/a/1.png A", "train/b/2.png B"));
    write_gzip("train.tar.gz", tar.bytes, tar.byte_count);
    tar.byte_count = 0;
    make_members(&tar, FILES("test/", "test/a/1.png C"));
    fixture_write("test.tar", tar.bytes, tar.byte_count);
    expect_samples(&convert_archive, "train.tar.gz", "test.tar",
                   "train 0 a 1.png A\ntrain 1 b 2.png B\nvalidation 0 a 1.png C\n");
    expect_refused(&convert_archive, "train.tar.gz", "train.tar.gz", "the path train/a/1.png occurs twice");
    expect_refused(&convert_archive, "test.tar", NULL, "no folder train");
}

/* Write an archive of these members. */
static void make_archive(const char *path, const char *const *files)
{
    static struct tar_fixture tar;

    tar.byte_count = 0;
    make_members(&tar, files);
    fixture_write(path, tar.bytes, tar.byte_count);
}

TEST_WITH(archives_are_splits_by_their_names, fixture_folder_enter, fixture_folder_leave)
{
    static const char wanted[] = "train 0 a 1.png A\ntrain 1 b 2.png B\nvalidation 0 a 1.png C\n";
    make_archive("photos-train.tar", FILES("a/1.png A", "b/2.png B"));
    make_archive("photos-test.tar", FILES("a/1.png C"));
    expect_samples(&convert_archive, "photos-train.tar", "photos-test.tar", wanted);
    expect_samples(&convert_archive, "photos-test.tar", "photos-train.tar", wanted);
    make_archive("Training Set.tar", FILES("set/a/1.png A", "set/b/2.png B"));
    make_archive("val2017.tar", FILES("x/y/a/1.png C"));
    expect_samples(&convert_archive, "Training Set.tar", "val2017.tar", wanted);
    make_archive("1.tar", FILES("photos_train/a/1.png A", "photos_train/b/2.png B"));
    make_archive("2.tar", FILES("photos_test/a/1.png C"));
    expect_samples(&convert_archive, "1.tar", "2.tar", wanted);
    make_archive("more.tar", FILES("a/3.png D"));
    expect_samples(&convert_archive, "more.tar", "photos-train.tar",
                   "train 0 a 1.png A\ntrain 0 a 3.png D\ntrain 1 b 2.png B\n");
    make_archive("test.tar", FILES("a/4.png E"));
    expect_refused(&convert_archive, "more.tar", "test.tar", "test.tar is a split by its name, and more.tar");
    expect_refused(&convert_archive, "val2017.tar", "photos-test.tar", "is a split by its name, and no archive is for");
}

TEST_WITH(refuses_hostile_members, fixture_folder_enter, fixture_folder_leave)
{
    static struct tar_fixture tar;

    tar.byte_count = 0;
    tar_fixture_add(&tar, '0', "a/../../etc/x.png", "x", 1);
    tar_fixture_end(&tar);
    fixture_write("x.tar", tar.bytes, tar.byte_count);
    expect_refused(&convert_archive, "x.tar", NULL, "x.tar: a/../../etc/x.png: has a path with '..' in it");
    tar.byte_count = 0;
    tar_fixture_add(&tar, '2', "a/x.png", NULL, 0);
    tar_fixture_end(&tar);
    write_gzip("x.tar.gz", tar.bytes, tar.byte_count);
    expect_refused(&convert_archive, "x.tar.gz", NULL, "x.tar.gz: a/x.png: is a symbolic link");
}

TEST_WITH(says_that_archives_in_the_input_have_to_be_unpacked, fixture_folder_enter, fixture_folder_leave)
{
    expect_refused_both_ways(FILES("n02.tar", "n01.tar"), "unpack the archives in it, such as n01.tar; if each is of one class");
    expect_refused_both_ways(FILES("train.zip", "labels.txt"), "such as train.zip");
}

TEST_WITH(refuses_what_is_no_archive_or_is_damaged, fixture_folder_enter, fixture_folder_leave)
{
    static struct tar_fixture tar;
    char cut[600];

    expect_refused(&convert_archive, "nowhere.tar", NULL, "nowhere.tar: No such file");
    expect_refused(&convert_archive, ".", NULL, ".: is a folder: convert it with 'folder'");
    fixture_write("x.zip", "PK\3\4", 4);
    expect_refused(&convert_archive, "x.zip", NULL, "x.zip: is ");
    fixture_write("x.xz", "\xfd" "7zXZ", 6);
    expect_refused(&convert_archive, "x.xz", NULL, "x.xz: is ");
    tar.byte_count = 0;
    make_members(&tar, FILES("a/1.png A", "b/2.png B"));
    write_gzip("whole.tar.gz", tar.bytes, tar.byte_count);
    FILE *file = fopen("whole.tar.gz", "rb");
    assert_non_null(file);
    const size_t bytes = fread(cut, 1, sizeof(cut), file);
    fclose(file);
    for (size_t less = 1; less < bytes - 4; less += 3) {
        fixture_write("cut.tar.gz", cut, bytes - less);
        expect_refused(&convert_archive, "cut.tar.gz", NULL, "damaged or cut short");
    }
    static const char *const parts[] = { "x.tar.gz.aa", "x.tar.gz.ab", "x.tar.gz.part-ac", "x.partaa", "x.tgz.001", "x_00" };
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        fixture_write(parts[i], cut + i, bytes - 40);
        expect_refused(&convert_archive, parts[i], NULL, "first join all parts in their order, with cat");
    }
    cut[bytes - 5] ^= 1;        /* of the checksum, which is behind all members */
    fixture_write("cut.tar.gz", cut, bytes);
    expect_refused(&convert_archive, "cut.tar.gz", NULL, "damaged or cut short");
    fixture_write("cut.tar", tar.bytes, 530);
    expect_refused(&convert_archive, "cut.tar", NULL, "cut short");
    fixture_write("no.tar", memset(cut, 'x', sizeof(cut)), sizeof(cut));
    expect_refused(&convert_archive, "no.tar", NULL, "is no archive of a known format");
}

TEST_WITH(takes_tables_of_paths, fixture_folder_enter, fixture_folder_leave)
{
    static const char wanted[] = "train 1 dog set/1.png A\ntrain 0 cat, big set/2.png B\n";

    make_files(FILES("set/1.png A", "set/2.png B"));
    fixture_write_text("x.csv", "set/1.png,dog\nset/2.png,\"cat, big\"\n");
    expect_samples(&convert_csv, "x.csv", NULL, wanted);
    fixture_write_text("x.csv", "label;filename\r\ndog; set/1.png\r\n\"cat, big\";set/2.png\r\n");
    expect_samples(&convert_csv, "x.csv", NULL, wanted);
    fixture_write_text("x.csv", "dog,set/1.png\n\"cat, big\",set/2.png");
    expect_samples(&convert_csv, "x.csv", NULL, wanted);
    fixture_write_text("x.csv", "id,Class,w,Image\n7,dog,3,set/1.png\n8,\"cat, big\",3,set/2.png\n");
    expect_samples(&convert_csv, "x.csv", NULL, wanted);
    fixture_write_text("x.csv", "path,species\nset/1.png,3\nset/2.png,0\n");
    expect_samples(&convert_csv, "x.csv", NULL, "train 3 - set/1.png A\ntrain 0 - set/2.png B\n");
    fixture_write_text("x.csv", "id,breed\nset/1.png,dog\nset/2.png,\"cat, big\"\n");
    expect_samples(&convert_csv, "x.csv", NULL, wanted);
}

TEST_WITH(a_first_file_with_another_name_is_no_header, fixture_folder_enter, fixture_folder_leave)
{
    make_files(FILES("set/one A", "one.x A", "2.png B"));
    fixture_write_text("x.csv", "set/one,a\n2.png,b\n");
    expect_samples(&convert_csv, "x.csv", NULL, "train 0 a set/one A\ntrain 1 b 2.png B\n");
    fixture_write_text("x.csv", "one.x,a\n2.png,b\n");
    expect_samples(&convert_csv, "x.csv", NULL, "train 0 a one.x A\ntrain 1 b 2.png B\n");
}

TEST_WITH(says_where_files_were_looked_for, fixture_folder_enter, fixture_folder_leave)
{
    make_files(FILES("set/1.png A"));
    fixture_write_text("set/x.csv", "1.png,a\nset/1.png,b\n");
    expect_refused(&convert_csv, "set/x.csv", NULL,
                   "leave it out (paths are relative to the table's folder, set/): set/1.png: No such file");
    fixture_write_text("x.csv", "set/1.png,a\n1.png,b\n");
    expect_refused(&convert_csv, "x.csv", NULL, "folder, the current directory; there are such files in set: "
                   "add --images=set): 1.png: No such file");
    make_files(FILES("other/2.png B"));
    fixture_write_text("x.csv", "1.png,a\n2.png,b\n");
    expect_refused(&convert_csv, "x.csv", NULL, "such files are in the folder set and in other, too: put all images, or "
                   "links to them, into one folder");
    fixture_write_text("x.csv", "id,kind,place,age,sex\nis_1,a,x,1,r\nis_2,b,x,2,r\nis_3,a,y,2,s\nis_4,b,y,1,s\n");
    expect_refused(&convert_csv, "x.csv", NULL, "if column id names them, give --path-column=id;");
    fixture_write_text("x.csv", "set/1.png,a\n/nowhere/1.png,b\n");
    expect_refused(&convert_csv, "x.csv", NULL, "leave it out: /nowhere/1.png: No such file");
}

TEST_WITH(paths_begin_at_the_table, fixture_folder_enter, fixture_folder_leave)
{
    make_files(FILES("set/img/1.png A", "set/img/2.png B"));
    fixture_write_text("set/train.csv", "img/1.png,a\nimg/2.png,b\n");
    fixture_write_text("val.csv", "path,label\nset/img/2.png,b\n");
    expect_samples(&convert_csv, "set/train.csv", "val.csv",
                   "train 0 a img/1.png A\ntrain 1 b img/2.png B\nvalidation 1 b set/img/2.png B\n");
}

TEST_WITH(takes_tables_of_pixels, fixture_folder_enter, fixture_folder_leave)
{
    static const char wanted[] = "train 3 0 1 2 255\ntrain 0 0 7 7 7\n";
    static const char table[] = "label,1x1,1x2,2x1,2x2\n3,0,1,2,255\n0,0,7,7,7\n";
    struct outcome outcome;

    fixture_write_text("x.csv", table);
    expect_samples(&convert_csv, "x.csv", NULL, wanted);
    run(&convert_csv, "x.csv", NULL, &outcome);
    assert_int_equal(outcome.classes, 4);
    assert_int_equal(outcome.height, 2);
    assert_int_equal(outcome.width, 2);
    assert_int_equal(outcome.depth, 1);
    fixture_write_text("x.csv", "pixel0,pixel1,pixel2,pixel3,class\n0,1,2,255,3\n0,7,7,7,0\n");
    expect_samples(&convert_csv, "x.csv", NULL, wanted);
    fixture_write_text("x.csv", "id,px_0_0,px_0_1,digit,px_1_0,px_1_1\n9,0,1,3,2,255\n8,0,7,0,7,7\n");
    expect_samples(&convert_csv, "x.csv", NULL, wanted);
    fixture_write_text("x.csv", "pixel0,pixel1,pixel2,pixel3,name\n0,1,2,255,three\n0,7,7,7,one\n");
    expect_samples(&convert_csv, "x.csv", NULL, "train 1 0 1 2 255\ntrain 0 0 7 7 7\n");
    write_gzip("x.csv.gz", table, sizeof(table) - 1);
    expect_samples(&convert_csv, "x.csv.gz", "x.csv.gz",
                   "train 3 0 1 2 255\ntrain 0 0 7 7 7\nvalidation 3 0 1 2 255\nvalidation 0 0 7 7 7\n");
}

TEST_WITH(numbers_at_both_ends_that_may_be_classes_are_not_guessed, fixture_folder_enter, fixture_folder_leave)
{
    static const struct { int first[4], last[4]; size_t label; } cases[] = {
        { { 0, 1, 2, 3 }, { 0, 7, 200, 0 }, 1 },    { { 7, 2, 9, 4 }, { 255, 254, 13, 0 }, 1 },
        { { 200, 9, 16, 0 }, { 3, 1, 2, 1 }, 65 },  { { 0, 0, 0, 0 }, { 3, 1, 2, 1 }, 65 },
        { { 10, 11, 12, 8 }, { 0, 0, 0, 0 }, 0 },   { { 3, 1, 2, 1 }, { 0, 0, 1, 5 }, 0 },
        { { 0, 0, 0, 0 }, { 0, 0, 0, 0 }, 0 },      { { 0, 0, 0, 0 }, { 0, 7, 200, 0 }, 0 },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct outcome outcome;
        char text[2048];
        size_t length = 0;
        for (int row = 0; row < 4; row++) {
            length += (size_t)snprintf(text + length, sizeof(text) - length, "%d,", cases[i].first[row]);
            for (int k = 0; k < 63; k++)
                length += (size_t)snprintf(text + length, sizeof(text) - length, "%d,", k * row);
            length += (size_t)snprintf(text + length, sizeof(text) - length, "%d\n", cases[i].last[row]);
        }
        fixture_write_text("x.csv", text);
        run(&convert_csv, "x.csv", NULL, &outcome);
        assert_int_equal(outcome.rc, cases[i].label == 0 ? -EINVAL : 0);
        if (cases[i].label == 0)
            assert_non_null(strstr(outcome.message, "give --label-column=1 or --label-column=65"));
        else
            assert_int_equal(atoi(outcome.samples + strlen("train ")),
                             cases[i].label == 1 ? cases[i].first[0] : cases[i].last[0]);
    }
}

TEST_WITH(an_image_has_one_class_however_often_it_is_in_tables, fixture_folder_enter, fixture_folder_leave)
{
    static const struct { const char *first, *second, *words; } cases[] = {
        { "path,label\n1.png,a\n2.png,b\n1.png,b\n", NULL, "line 2: 1.png has the class 'a', but 'b' in line 4" },
        { "path,label\n1.png,3\n./1.png,4\n", NULL, "line 2: 1.png has the class '3', but '4' in line 3" },
        { "path,label,split\n1.png,a,train\n2.png,b,train\n1.png,b,test\n", NULL, "but 'b' in line 4" },
        { "path,label\n1.png,a\n2.png,b\n", "path,label\n2.png,a\n", "but 'a' in line 2 of y.csv" },
        { "path,label\n1.png,a\n2.png,b\n1.png,a\n2.png,b\n1.png,a\n1.png,b\n", NULL, "but 'b' in line 7" },
        { "path,label\n1.png,a\n1,b\n", NULL, "'b' in line 3" },
        { "path,label\nset/1.png,a\nset//1.png,b\n", NULL, "'b' in line 3 of x.csv, where it is set//1.png" },
        { "path,label\n1.png,a\nset/../1.png,b\n", NULL, "'b' in line 3" },
        { "path,label\n1.png,a\nlink.png,b\n", NULL, "'b' in line 3" },
        { "path,label\n1.png,a\nhard.png,b\n", NULL, "'b' in line 3" },
        { "path,label\n1.png,a\n2.png,b\n", "path,label\nset/../2.png,a\n", "but 'a' in line 2 of y.csv" },
    };

    make_files(FILES("1.png A", "2.png B", "set/1.png C"));
    assert_int_equal(symlink("1.png", "link.png"), 0);
    assert_int_equal(link("1.png", "hard.png"), 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        fixture_write_text("x.csv", cases[i].first);
        if (cases[i].second != NULL)
            fixture_write_text("y.csv", cases[i].second);
        expect_refused(&convert_csv, "x.csv", cases[i].second != NULL ? "y.csv" : NULL, cases[i].words);
    }
    fixture_write_text("x.csv", "1.png,a\n2.png,b\n1.png,a\n");
    expect_samples(&convert_csv, "x.csv", NULL, "train 0 a 1.png A\ntrain 1 b 2.png B\ntrain 0 a 1.png A\n");
    fixture_write_text("set/y.csv", "1.png,b\n");          /* another file of that name */
    expect_samples(&convert_csv, "x.csv", "set/y.csv",
                   "train 0 a 1.png A\ntrain 1 b 2.png B\ntrain 0 a 1.png A\nvalidation 1 b 1.png C\n");
}

TEST_WITH(labels_that_mean_no_class_are_refused, fixture_folder_enter, fixture_folder_leave)
{
    static const char *const words[] = { "nan", "NaN", "NA", "N/A", "n/a", "#N/A", "<NA>", "null", "NULL", "?", "-", "-1",
                                         "-1.0", "#REF!", "#DIV/0!", "" };
    static const char *const kept[] = { "none", "None", "unknown", "nano", "nab", "-2", "--", "a-1" };
    char text[128], wanted[64];

    make_files(FILES("1.png A", "2.png B", "3.png C"));
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        snprintf(wanted, sizeof(wanted), i + 1 < sizeof(words) / sizeof(words[0]) ? "line 4: label '%s' " : "line 4: has no",
                 words[i]);
        snprintf(text, sizeof(text), "path,label\n1.png,cat\n2.png,dog\n3.png,%s\n", words[i]);
        fixture_write_text("x.csv", text);
        expect_refused(&convert_csv, "x.csv", NULL, wanted);
        snprintf(text, sizeof(text), "path,label\n1.png,0\n2.png,2\n3.png,%s\n", words[i]);
        fixture_write_text("x.csv", text);
        expect_refused(&convert_csv, "x.csv", NULL, wanted);
    }
    for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
        struct outcome outcome;
        snprintf(text, sizeof(text), "path,label\n1.png,cat\n2.png,dog\n3.png,%s\n", kept[i]);
        fixture_write_text("x.csv", text);
        run(&convert_csv, "x.csv", NULL, &outcome);
        assert_int_equal(outcome.rc, 0);
    }
    fixture_write_text("x.csv", "path,label\n1.png,-1\n2.png,1\n3.png,-1\n");
    expect_samples(&convert_csv, "x.csv", NULL, "train 0 -1 1.png A\ntrain 1 1 2.png B\ntrain 0 -1 3.png C\n");
}

TEST_WITH(blanks_and_line_ends_around_values_do_not_count, fixture_folder_enter, fixture_folder_leave)
{
    make_files(FILES("1.png A", "2.png B", "3.png C"));
    fixture_write_text("x.csv", "path, label\r\r\n1.png ,\tcat\r\r\n 2.png,\"dog\n\"\n3.png,cat\n");
    expect_samples(&convert_csv, "x.csv", NULL, "train 0 cat 1.png A\ntrain 1 dog 2.png B\ntrain 0 cat 3.png C\n");
}

TEST(whole_numbers_are_those_of_floating_point_too)
{
    static const struct { const char *text; int64_t number; } cases[] = {
        { "0", 0 }, { "7", 7 }, { "007", 7 }, { "999999999", 999999999 }, { "1000000000", -1 }, { "7.0", 7 }, { "7.000", 7 },
        { "7.", -1 }, { ".7", -1 }, { "7.5", -1 }, { "", -1 }, { "7 ", -1 }, { "-7", -1 }, { "7.0.0", -1 }, { "7,0", -1 },
        { "0.000000e+00", 0 }, { "1.000000000000000000e+00", 1 }, { "1.2e+01", 12 }, { "1.25e+01", -1 }, { "1.2E+02", 120 },
        { "120e-01", 12 }, { "125e-01", -1 }, { "0e-99", 0 }, { "1e+08", 100000000 }, { "1e+09", -1 }, { "1e+999", -1 },
        { "0e+999", 0 }, { "1e0", -1 }, { "1e", -1 }, { "1e+", -1 }, { "e+1", -1 }, { "1e+1000", -1 }, { "0.1e+01", 1 },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint32_t number = 0;
        const struct csv_text text = { cases[i].text, strlen(cases[i].text) };
        if (csv_read_number(text, &number) != (cases[i].number >= 0) ||
            (cases[i].number >= 0 && number != cases[i].number))
            fail_msg("'%s' is read as %u", cases[i].text, number);
    }
}

TEST_WITH(tables_of_floating_point_numbers_are_those_of_whole_ones, fixture_folder_enter, fixture_folder_leave)
{
    char text[4096];
    size_t length = 0;

    for (int row = 0; row < 2; row++) {
        length += (size_t)snprintf(text + length, sizeof(text) - length, "%.6e", 3.0 - row);
        for (int i = 0; i < 64; i++)
            length += (size_t)snprintf(text + length, sizeof(text) - length, ",%.6e", (double)(i * (3 * row + 1)));
        length += (size_t)snprintf(text + length, sizeof(text) - length, "\n");
    }
    fixture_write_text("x.csv", text);
    expect_samples(&convert_csv, "x.csv", NULL, "train 3 0 1 2 3\ntrain 2 0 4 8 12\n");
}

/* A table of 8 x 8 pixels without names: two rows whose pixels begin with 0, and their labels. */
static void write_wide(const char *first, const char *second, bool is_last)
{
    char text[1024];
    int length = 0;

    for (int row = 0; row < 2; row++) {
        const char *const label = row == 0 ? first : second;
        length += snprintf(text + length, sizeof(text) - (size_t)length, "%s%s", is_last ? "" : label,
                           is_last ? "" : ",");
        for (int i = 0; i < 64; i++)
            length += snprintf(text + length, sizeof(text) - (size_t)length, "%s%d", i > 0 ? "," : "", i * (row + 1));
        length += snprintf(text + length, sizeof(text) - (size_t)length, "%s%s\n", is_last ? "," : "",
                           is_last ? label : "");
    }
    fixture_write_text("x.csv", text);
}

TEST_WITH(takes_wide_tables_without_names, fixture_folder_enter, fixture_folder_leave)
{
    write_wide("3", "0", false);
    expect_samples(&convert_csv, "x.csv", NULL, "train 3 0 1 2 3\ntrain 0 0 2 4 6\n");
    write_wide("3", "0", true);                 /* a corner is always 0 */
    expect_samples(&convert_csv, "x.csv", NULL, "train 3 0 1 2 3\ntrain 0 0 2 4 6\n");
    write_wide("three", "one", true);
    expect_samples(&convert_csv, "x.csv", NULL, "train 1 0 1 2 3\ntrain 0 0 2 4 6\n");
}

#define SIDE 8u
#define PIXEL_NAME_BYTES 64

/* Names of the pixel in a row, column and channel, of which the grey ones have none. */
static void name_pixel(char name_out[PIXEL_NAME_BYTES], size_t way, size_t y, size_t x, size_t c, size_t channels)
{
    const size_t place = y * SIDE + x, value = place * channels + c;

    switch (way) {
    case 0: snprintf(name_out, PIXEL_NAME_BYTES, "pixel%zu", value); break;
    case 1: snprintf(name_out, PIXEL_NAME_BYTES, "V%03zu", value + 1); break;
    case 2: snprintf(name_out, PIXEL_NAME_BYTES, "%zux%zu", y + 1, x * channels + c + 1); break;
    case 3: snprintf(name_out, PIXEL_NAME_BYTES, "28_px_%zu_%zu_%zu", y, x, c); break;
    case 4: snprintf(name_out, PIXEL_NAME_BYTES, "c%zu_p%zu", c, place); break;
    case 5: snprintf(name_out, PIXEL_NAME_BYTES, "%c%zu", "RGB"[c], place); break;
    default: snprintf(name_out, PIXEL_NAME_BYTES, "%zu_%s", place, (const char *const[]){ "red", "green", "blue" }[c]);
    }
}

struct named_pixel { char name[PIXEL_NAME_BYTES]; size_t value; };

static int compare_texts(const void *a, const void *b)
{
    return strcmp(((const struct named_pixel *)a)->name, ((const struct named_pixel *)b)->name);
}

/* An image whose pixels count from 0, with the columns in an order: as images are stored, backwards, sorted as text,
 * one channel after the other, odd ones first. */
static void write_named(size_t way, size_t order, size_t channels)
{
    static struct named_pixel pixels[SIDE * SIDE * 3];
    const size_t count = SIDE * SIDE * channels;
    char text[8192];
    size_t length = (size_t)snprintf(text, sizeof(text), "label");

    for (size_t i = 0; i < count; i++) {
        const size_t value = order == 1   ? count - 1 - i
                             : order == 3 ? i % (SIDE * SIDE) * channels + i / (SIDE * SIDE)
                             : order == 4 ? (2 * i + 1) % (count + 1)
                                          : i;
        pixels[i].value = value;
        name_pixel(pixels[i].name, way, value / channels / SIDE, value / channels % SIDE, value % channels, channels);
    }
    if (order == 2)
        qsort(pixels, count, sizeof(*pixels), compare_texts);
    for (size_t i = 0; i < count; i++)
        length += (size_t)snprintf(text + length, sizeof(text) - length, ",%s", pixels[i].name);
    for (int row = 0; row < 2; row++) {
        length += (size_t)snprintf(text + length, sizeof(text) - length, "\n%d", row);
        for (size_t i = 0; i < count; i++)
            length += (size_t)snprintf(text + length, sizeof(text) - length, ",%zu", pixels[i].value);
    }
    snprintf(text + length, sizeof(text) - length, "\n");
    fixture_write_text("x.csv", text);
}

TEST_WITH(names_with_numbers_say_where_a_pixel_is, fixture_folder_enter, fixture_folder_leave)
{
    for (size_t channels = 1; channels <= 3; channels += 2)
        for (size_t way = 0; way < (channels == 3 ? 7 : 5); way++)
            for (size_t order = 0; order < 5; order++) {
                write_named(way, order, channels);
                expect_samples(&convert_csv, "x.csv", NULL, "train 0 0 1 2 3\ntrain 1 0 1 2 3\n");
            }
}

/* A table of 64 pixels, of which the second has this name, and further columns. */
static void write_renamed(const char *second, const char *third, size_t further)
{
    char text[2048];
    size_t length = (size_t)snprintf(text, sizeof(text), "label,p0,%s,%s", second, third);

    for (int i = 3; i < 64; i++)
        length += (size_t)snprintf(text + length, sizeof(text) - length, ",p%d", i);
    for (size_t i = 0; i < further; i++)
        length += (size_t)snprintf(text + length, sizeof(text) - length, ",m%zu", i);
    for (int row = 0; row < 2; row++) {
        length += (size_t)snprintf(text + length, sizeof(text) - length, "\n%d", row);
        for (size_t i = 0; i < 64 + further; i++)
            length += (size_t)snprintf(text + length, sizeof(text) - length, ",%zu", i);
    }
    fixture_write_text("x.csv", text);
}

/* A table of pixels that are called by two numbers. */
static void write_grid(const char *between, size_t rows, size_t columns)
{
    char text[2048];
    size_t length = (size_t)snprintf(text, sizeof(text), "label");

    for (size_t y = 0; y < rows; y++)
        for (size_t x = 0; x < columns; x++)
            length += (size_t)snprintf(text + length, sizeof(text) - length, ",p%zu%s%zu", y, between, x);
    for (int row = 0; row < 2; row++) {
        length += (size_t)snprintf(text + length, sizeof(text) - length, "\n%d", row);
        for (size_t i = 0; i < rows * columns; i++)
            length += (size_t)snprintf(text + length, sizeof(text) - length, ",%zu", i);
    }
    fixture_write_text("x.csv", text);
}

TEST_WITH(names_that_do_not_say_where_a_pixel_is_are_refused, fixture_folder_enter, fixture_folder_leave)
{
    write_renamed("p2", "p1", 0);
    expect_samples(&convert_csv, "x.csv", NULL, "train 0 0 2 1 3\ntrain 1 0 2 1 3\n");
    write_renamed("p1", "p02", 40);
    expect_samples(&convert_csv, "x.csv", NULL, "train 0 0 1 2 3\ntrain 1 0 1 2 3\n");
    write_renamed("p1", "p1", 0);
    expect_refused(&convert_csv, "x.csv", NULL, "64 columns called like p0 have gaps or repeat");
    write_renamed("p64", "p2", 0);
    expect_refused(&convert_csv, "x.csv", NULL, "give --pixels-column=p0 if they are in their order");
    write_renamed("p4294967297", "p2", 0);
    expect_refused(&convert_csv, "x.csv", NULL, "have gaps or repeat");
    write_grid("_", 4, 16);
    expect_refused(&convert_csv, "x.csv", NULL, "rows and columns of an image that is not square");
    write_grid("y", 16, 4);
    expect_refused(&convert_csv, "x.csv", NULL, "the 64 columns called like p0y0");
    write_grid("-", 8, 8);
    expect_samples(&convert_csv, "x.csv", NULL, "train 0 0 1 2 3\ntrain 1 0 1 2 3\n");
    write_renamed("p1", "p2", 64);
    expect_refused(&convert_csv, "x.csv", NULL, "columns called like p0 and like m63 may both be pixels");
}

TEST_WITH(a_y_beside_an_x_is_a_coordinate_and_no_label, fixture_folder_enter, fixture_folder_leave)
{
    static const char *const tables[] = {
        "image,x,y,w,h,diagnosis\n1.png,0,0,9,9,cat\n2.png,1,1,9,9,dog\n",
        "image,x,y,label\n1.png,0,0,cat\n2.png,1,1,dog\n",
        "patientId,X,Y,width,height,Target\n1.png,,,,,cat\n2.png,1.5,-2e1,3.0,4.0,dog\n",
        "label,y,x,image\ncat,0.5,0.25,1.png\ndog,1,1,2.png\n",
        "x,y\n1.png,cat\n2.png,dog\n",
    };

    make_files(FILES("1.png A", "2.png B"));
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        fixture_write_text("x.csv", tables[i]);
        expect_samples(&convert_csv, "x.csv", NULL, "train 0 cat 1.png A\ntrain 1 dog 2.png B\n");
    }
    fixture_write_text("x.csv", "x,y\n1.png,0\n2.png,1\n");
    expect_samples(&convert_csv, "x.csv", NULL, "train 0 - 1.png A\ntrain 1 - 2.png B\n");
    fixture_write_text("x.csv", "image,x,y\n1.png,0,0\n2.png,1,1\n");
    expect_refused(&convert_csv, "x.csv", NULL, "has no column of classes");
}

/* Faces of a contest: all pixels are in one column, and the split is in another one. */
TEST_WITH(takes_pixels_in_one_column_and_follows_the_column_of_splits, fixture_folder_enter, fixture_folder_leave)
{
    static const char wanted[] = "train 1 0 1 2 3\ntrain 0 4 5 6 7\nvalidation 0 9 8 7 6\ntest 1 5 5 5 5\n";

    fixture_write_text("x.csv", "emotion,pixels,Usage\n1,0 1 2 3 0 0 0 0 0,Training\n1,5 5 5 5 0 0 0 0 0,PrivateTest\n"
                                "0,9 8 7 6 0 0 0 0 0,PublicTest\n0,4 5 6 7 0 0 0 0 0,Training\n");
    expect_samples(&convert_csv, "x.csv", NULL, wanted);
    fixture_write_text("x.csv", "Usage;label;image\ntrain;1;[0, 1, 2, 3, 0, 0, 0, 0, 0]\n"
                                "train;0;[4, 5, 6, 7, 0, 0, 0, 0, 0]\nval;0;[9, 8, 7, 6, 0, 0, 0, 0, 0]\n"
                                "test;1;[5, 5, 5, 5, 0, 0, 0, 0, 0]\n");
    expect_samples(&convert_csv, "x.csv", NULL, wanted);
}

TEST_WITH(columns_of_splits_are_followed, fixture_folder_enter, fixture_folder_leave)
{
    static const struct { const char *name, *words[4]; bool has_test; } cases[] = {
        { "split", { "train", "train", "val", "test" }, true }, { "Set", { "Train", "TRAIN", "Valid", "Test" }, true },
        { "usage", { "Training", "Training", "PublicTest", "PrivateTest" }, true },
        { "subset", { "train_set", "training set", "dev", "testing" }, true },
        { "is_valid", { "0", "0", "1", "1" }, false },      { "is_valid", { "False", "False", "True", "True" }, false },
        { "isTest", { "0", "0", "1", "1" }, false },        { "is_train", { "TRUE", "TRUE", "FALSE", "FALSE" }, false },
        { "is_training_img", { "1", "1", "0", "0" }, false }, { "IsTestSet", { "no", "no", "yes", "yes" }, false },
        { "train", { "True", "True", "False", "False" }, false }, { "Test", { "0", "0", "1", "1" }, false },
        { "validation", { "f", "f", "t", "t" }, false },
        { "partition", { "train", "train", "test", "test" }, false }, { "phase", { "train", "train", "val", "val" }, false },
        { "fold", { "training", "training", "validation", "validation" }, false },
        { "anything", { "train", "train", "holdout", "holdout" }, false },
    };

    make_files(FILES("1.png A", "2.png B", "3.png C", "4.png D"));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[512];
        const char *const *const words = cases[i].words;
        snprintf(text, sizeof(text), "path,label,%s\n3.png,a,%s\n1.png,a,%s\n4.png,b,%s\n2.png,b,%s\n", cases[i].name,
                 words[2], words[0], words[3], words[1]);
        fixture_write_text("x.csv", text);
        expect_samples(&convert_csv, "x.csv", NULL, cases[i].has_test
                       ? "train 0 a 1.png A\ntrain 1 b 2.png B\nvalidation 0 a 3.png C\ntest 1 b 4.png D\n"
                       : "train 0 a 1.png A\ntrain 1 b 2.png B\nvalidation 0 a 3.png C\nvalidation 1 b 4.png D\n");
    }
}

TEST_WITH(columns_that_may_be_splits_and_are_not_are_left_out, fixture_folder_enter, fixture_folder_leave)
{
    static const char *const columns[][3] = {
        { "fold", "1", "2" }, { "stage", "T1", "T2" }, { "dataset", "north", "south" }, { "valid", "1", "0" },
        { "island", "1", "0" }, { "mode", "day", "night" },
    };

    make_files(FILES("1.png A", "2.png B"));
    for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++) {
        char text[256];
        snprintf(text, sizeof(text), "path,label,%s\n1.png,a,%s\n2.png,b,%s\n", columns[i][0], columns[i][1], columns[i][2]);
        fixture_write_text("x.csv", text);
        expect_samples(&convert_csv, "x.csv", NULL, "train 0 a 1.png A\ntrain 1 b 2.png B\n");
    }
}

TEST_WITH(labels_that_are_words_for_splits_are_labels, fixture_folder_enter, fixture_folder_leave)
{
    make_files(FILES("1.png A", "2.png B"));
    fixture_write_text("x.csv", "path,label\n1.png,train\n2.png,test\n");
    expect_samples(&convert_csv, "x.csv", NULL, "train 1 train 1.png A\ntrain 0 test 2.png B\n");
    fixture_write_text("x.csv", "1.png,train\n2.png,bus\n");
    expect_samples(&convert_csv, "x.csv", NULL, "train 1 train 1.png A\ntrain 0 bus 2.png B\n");
}

TEST_WITH(numbers_of_several_meanings_are_not_guessed, fixture_folder_enter, fixture_folder_leave)
{
    static const struct { const char *table, *words; } cases[] = {
        { "3,10,20,30,40\n0,10,20,30,40\n", "may be pixels, one-hot classes, coordinates or others" },
        { "label,x1,y1,x2,y2\n3,10,20,30,40\n0,10,20,30,40\n", "--pixels-column" },
        { "a,b,c,d,e\n3,10,20,30,40\n0,10,20,30,40\n", "may be pixels" },
        { "image,cat,dog\n1.png,1,0\n1.png,0,1\n", "may be one-hot classes" },
        { "lesion_id,image_id,dx,dx_type,age,sex\nH1,1,nv,histo,40.0,male\nH1,1,bkl,histo,60.0,female\n",
          "choose it with --label-column, among lesion_id, dx, dx_type, age, sex" },
        { "1.png,red,round\n1.png,blue,flat\n", "choose it with --label-column, among column 2, column 3" },
        { "pixel0,pixel1,pixel2,pixel3\n0,1,2,3\n3,2,1,0\n", "has no column of classes" },
        { "path,label\n1.png,\"1,0\"\n1.png,\"2,0\"\n", "decimal commas" },
        { "path,id\n1.png,7\n1.png,8\n", "has no column of classes" },
        { "path,label\n1.png,0\n1.png,1\n1.png,2\n1.png,3\n1.png,4\n1.png,5\n1.png,6\n1.png,7\n1.png,8\n1.png,9\n",
          "another label in each row" },
        { "path,class,target\n1.png,a,x\n1.png,a,y\n1.png,b,x\n", "class and target may both be the class" },
        { "path,label,split\n1.png,a,1\n1.png,b,2\n", "a value that is no split, such as '1'" },
        { "path,label,split\n1.png,a,train\n1.png,b,extra\n", "a value that is no split, such as 'extra'" },
        { "path,label,partition\n1.png,a,0\n1.png,b,1\n", "column partition has a value that is no split, such as '0'" },
        { "path,label,Subset\n1.png,a,train\n1.png,b,2\n", "column Subset has a value that is no split, such as '2'" },
        { "path,label,phase\n1.png,a,train\n1.png,b,extra\n", "column phase has a value that is no split" },
        { "path,label,test\n1.png,a,1\n1.png,b,2\n", "column test has a value that is no split, such as '2'" },
        { "path,label,is_test_set\n1.png,a,0\n1.png,b,?\n", "column is_test_set has a value" },
        { "path,train,bus\n1.png,1,0\n1.png,0,1\n", "may be one-hot classes" },
        { "path,label,split\n1.png,a,test\n1.png,b,test\n", "has no row to train on" },
        { "path,label,is_train,is_test\n1.png,a,1,0\n1.png,b,0,1\n", "2 columns say splits" },
    };

    make_files(FILES("1.png A"));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        fixture_write_text("x.csv", cases[i].table);
        expect_refused(&convert_csv, "x.csv", NULL, cases[i].words);
    }
}

TEST_WITH(refuses_tables_that_are_wrong, fixture_folder_enter, fixture_folder_leave)
{
    static const struct { const char *table, *words; } wrong[] = {
        { "", "x.csv: line 1: the table is empty" },
        { "a\nb\n", "one column: it needs" },
        { "1.png a\n1.png b\n", "blanks do not separate any: write commas" },
        { "{\"image\": \"1.png\", \"label\": 1}\n", "x.csv: is JSON" }, { "[\n {\"image\": \"1.png\"}]", "is JSON" },
        { "PAR1\025\4\025", "x.csv: is a Parquet file" },
        { "path,label\n", "has no rows except its header" },
        { "a.png,x,1\nb.png,y,2\n", "name it 'label' in the first row" },
        { "filename,tone,hue\nb.png,y,2\n", "cannot tell which column has the classes: name it 'label'" },
        { "thing,class,weight\nb,y,2\n", "cannot tell which column has the files: name it 'path'" },
        { "1.png,a\n1.png\n", "line 2: fewer fields" },
        { "1.png,a\n\n1.png,b,c\n", "line 3: more fields" },
        { "1.png,a\n1.png,\n", "line 2: has no class" },
        { "1.png,a\n,b\n", "line 2: has no file" },
        { "1.png,a\n\"1.png,b\n", "not closed" },
        { "1.png,a\n1.png,a\n", "all rows have the same class" },
        { "1.png,1\n1.png,1000000\n", "line 2: label '1000000' is over 999999" },
        { "1.png,a\nmissing.png,b\n", "missing.png: No such file" },
        { "1.png,a\nx.csv,b\n", "x.csv: is no image" },
        { "1.png,a\n.,b\n", ".: is not a regular file" },
        { "label,1x1,1x2,2x1,2x2\n1,0,0,0,0\n2,0,0,256,0\n", "line 3: a pixel is not a whole number" },
        { "label,1x1,1x2,2x1,2x2\n1,0,0,0,0\n2,0,0,-1,0\n", "line 3: a pixel" },
        { "label,1x1,1x2,2x1,2x2\n1,0,0,0,0\n2,0,0,0.5,0\n", "line 3: a pixel" },
        { "label,1x1,1x2,2x1,2x2\n1,0,0,0,0\n2,0,0,0,0,0\n", "line 3: more fields" },
        { "label,1x1,1x2,1x3,1x4,1x5\n1,0,0,0,0,0\n2,0,0,0,0,0\n", "are not a square image" },
    };

    make_files(FILES("1.png A"));
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        fixture_write_text("x.csv", wrong[i].table);
        expect_refused(&convert_csv, "x.csv", NULL, wrong[i].words);
    }
    expect_refused(&convert_csv, "missing.csv", NULL, "missing.csv: No such file");
    fixture_write_text("x.csv", "1.png,a\n1.png,b\n");
    fixture_write_text("y.csv", "1.png,c\n1.png,b\n");
    expect_refused(&convert_csv, "x.csv", "y.csv", "y.csv: line 1: label 'c' is not a class of the training table");
    fixture_write_text("y.csv", "label,1x1,1x2,2x1,2x2\n1,0,0,0,0\n2,0,0,0,0\n");
    expect_refused(&convert_csv, "x.csv", "y.csv", "different columns");
}

TESTS_MAIN(NULL, NULL)
