/* The converter of MNIST and of data sets with the same four files: IDX, compressed or not, as downloaded. All four
 * are read into memory and checked before anything is written. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "formats/idx.h"
#include "stage/log.h"
#include "tools/convert/archive_walk.h"
#include "tools/convert/convert.h"

#define CLASSES 10u
#define UNPACKED_BYTES_MAX ((size_t)2 << 30)
#define IMAGE_BYTES_MAX ((size_t)16 << 20)

enum mnist_file { TRAIN_IMAGES,
                  TRAIN_LABELS,
                  TEST_IMAGES,
                  TEST_LABELS,
                  FILE_COUNT };

/* The constant parts of the file names, and the XXH3 (64 bits) of the unpacked original files. */
static const struct known_file {
    const char *stem, *emnist_stem, *tail;
    uint32_t rank;
    uint64_t original;
} known_files[FILE_COUNT] = {
    [TRAIN_IMAGES] = { "train-images", "train-images", "idx3-ubyte", 3, 0x59bf22c057c52478u },
    [TRAIN_LABELS] = { "train-labels", "train-labels", "idx1-ubyte", 1, 0x8839fd1c4bb36825u },
    [TEST_IMAGES] = { "t10k-images", "test-images", "idx3-ubyte", 3, 0x6aa8aa9c0102c17cu },
    [TEST_LABELS] = { "t10k-labels", "test-labels", "idx1-ubyte", 1, 0x63c4bd8be7e7204fu },
};

/* One of the four files, unpacked. */
struct loaded_file {
    char *path;
    uint8_t *bytes;
    size_t byte_count;
    bool is_original;
    struct idx idx;
};

/* The argument of mnist_sample. */
struct mnist_split {
    const struct conversion *conversion;
    const struct idx *images, *labels;
};

struct mnist {
    char emnist[64]; /* prefix of EMNIST's file names, such as "emnist-digits-"; "": MNIST's names */
    struct loaded_file files[FILE_COUNT];
    struct mnist_split splits[2];
};

static int mnist_fail(struct stop *stop, const struct loaded_file *file, const char *problem)
{
    return convert_fail(stop, EXIT_CODE_DATA, -EBADMSG, "%s: %s", file->path, problem);
}

#define USUAL_NAMES 4u

/* One of the usual names of a file, to be freed; NULL if out of memory. */
static char *usual_path(const char *directory, const char *emnist, const struct known_file *known, unsigned number)
{
    static const char *const joints[] = { "-", "." }, *const ends[] = { "", ".gz" };
    char *path;

    return asprintf(&path, "%s/%s%s%s%s%s", directory, emnist, *emnist != '\0' ? known->emnist_stem : known->stem,
                    joints[number / 2], known->tail, ends[number % 2]) < 0
               ? NULL
               : path;
}

/* Find a file under one of its usual names. 0, -ENOENT or -ENOMEM. */
static int find_path(const char *directory, const char *emnist, const struct known_file *known, char **path_out)
{
    for (unsigned i = 0; i < USUAL_NAMES; i++) {
        char *const path = usual_path(directory, emnist, known, i);
        if (path == NULL)
            return -ENOMEM;
        if (access(path, F_OK) == 0) {
            *path_out = path;
            return 0;
        }
        free(path);
    }
    return -ENOENT;
}

static int check_folder(const char *path, struct stop *stop)
{
    struct stat status;

    if (stat(path, &status) < 0 || !S_ISREG(status.st_mode))
        return 0;
    return convert_fail(stop, EXIT_CODE_DATA, -ENOTDIR, "%s: is a file: give the folder that has all four files", path);
}

/* The length of the prefix of an EMNIST file name, such as "emnist-digits-"; 0 for other names. */
static size_t emnist_bytes(const char *name)
{
    static const char *const splits[] = { "-train-", "-test-" };
    const char *end = NULL;

    for (size_t i = 0; i < sizeof(splits) / sizeof(*splits) && end == NULL; i++)
        end = strncasecmp(name, "emnist-", 7) == 0 && strstr(name, "-ubyte") != NULL ? strstr(name + 6, splits[i])
                                                                                     : NULL;
    return end != NULL ? (size_t)(end - name) + 1 : 0;
}

/* EMNIST consists of six data sets, whose files have different prefixes and may be in the same folder. */
static int find_emnist(struct mnist *mnist, const char *directory, struct stop *stop)
{
    DIR *const entries = opendir(directory);
    const struct dirent *entry;
    int rc = 0;

    while (entries != NULL && rc == 0 && (entry = readdir(entries)) != NULL) {
        const size_t bytes = emnist_bytes(entry->d_name);
        if (bytes == 0 || bytes >= sizeof(mnist->emnist))
            continue;
        if (mnist->emnist[0] == '\0')
            snprintf(mnist->emnist, sizeof(mnist->emnist), "%.*s", (int)bytes, entry->d_name);
        else if (strlen(mnist->emnist) != bytes || strncmp(mnist->emnist, entry->d_name, bytes) != 0)
            rc = convert_fail(stop, EXIT_CODE_DATA, -EINVAL, "%s: has files of several sets of EMNIST, as %s* and "
                              "%.*s*: move the four of one into a folder of their own", directory, mnist->emnist,
                              (int)bytes, entry->d_name);
    }
    if (entries != NULL)
        closedir(entries);
    return rc;
}

/* Look for all four files before any is read, so that one message lists all missing files. 0, -ENOENT or -ENOMEM. */
static int find_named(struct mnist *mnist, const char *directory, int *count_out, char missing[512])
{
    size_t length = 0;

    *count_out = 0;
    for (int i = 0; i < FILE_COUNT; i++) {
        const struct known_file *const known = &known_files[i];
        const int rc = find_path(directory, mnist->emnist, known, &mnist->files[i].path);
        if (rc == -ENOMEM)
            return rc;
        *count_out += rc == 0;
        if (rc < 0)
            length += (size_t)snprintf(missing + length, 512 - length, "%s%s%s-%s[.gz]", length ? ", " : "",
                                       mnist->emnist, mnist->emnist[0] != '\0' ? known->emnist_stem : known->stem,
                                       known->tail);
    }
    return *count_out < FILE_COUNT ? -ENOENT : 0;
}

#define DEPTH_MOST 3u

/* List the folders inside `directory` that contain such files, like DIR/MNIST/raw made by torchvision. */
static void find_below(const char *directory, unsigned depth, char *text, size_t text_size)
{
    DIR *const entries = depth < DEPTH_MOST ? opendir(directory) : NULL;
    const struct dirent *entry;

    while (entries != NULL && (entry = readdir(entries)) != NULL) {
        char *below = NULL, *found = NULL;
        struct stat status;
        if (entry->d_name[0] == '.' || asprintf(&below, "%s/%s", directory, entry->d_name) < 0)
            continue;
        const size_t length = strlen(text);
        const bool is_folder = stat(below, &status) == 0 && S_ISDIR(status.st_mode);
        if (is_folder && find_path(below, "", &known_files[TRAIN_IMAGES], &found) == 0)
            snprintf(text + length, text_size - length, "%s%s", length == 0 ? "; there are such files in " : ", ",
                     below);
        else if (is_folder)
            find_below(below, depth + 1, text, text_size);
        free(found);
        free(below);
    }
    if (entries != NULL)
        closedir(entries);
}

static int find_files(struct mnist *mnist, const char *directory, struct stop *stop)
{
    char missing[512] = "", below[1024] = "";
    int count;
    int rc = find_named(mnist, directory, &count, missing);

    if (rc == -ENOENT && count == 0) {
        rc = find_emnist(mnist, directory, stop);
        if (rc < 0)
            return rc;
        rc = find_named(mnist, directory, &count, missing);
    }
    if (rc == -ENOMEM)
        return convert_fail(stop, EXIT_CODE_MEMORY, rc, "%s: no memory for file names", directory);
    if (rc == 0)
        return 0;
    if (count == 0)
        find_below(directory, 0, below, sizeof(below));
    return convert_fail(stop, EXIT_CODE_DATA, -ENOENT, "%s: files are missing: %s%s", directory, missing,
                        count > 0 ? "" : below[0] != '\0' ? below
                        : "; those of other data sets have to be called so (EMNIST's may keep their names)");
}

static void report_origin(struct loaded_file *file, const struct known_file *known)
{
    const uint64_t sum = XXH3_64bits(file->bytes, file->byte_count);
    file->is_original = sum == known->original;
    log_message(LOG_RUN, "%s: %s, XXH3 %016" PRIx64 " unpacked", file->path,
                file->is_original ? "the MNIST original" : "not the MNIST original", sum);
}

/* Does the file at `path` contain other data? A file that cannot be read, such as an incomplete download, does not
 * count. */
static bool holds_other_data(const struct loaded_file *file, const char *path)
{
    uint8_t *bytes = NULL;
    size_t byte_count;
    const bool is_read = strcmp(path, file->path) != 0 &&
                         unpacked_file_read(path, UNPACKED_BYTES_MAX, &bytes, &byte_count) == 0;
    const bool is_other = is_read &&
                          (byte_count != file->byte_count || memcmp(bytes, file->bytes, byte_count) != 0);

    if (is_read)
        free(bytes);
    return is_other;
}

/* Refuse another file with different data and another usual name: it may be of another data set, downloaded or
 * unpacked. */
static int check_names(const struct loaded_file *file, const char *emnist, const struct known_file *known,
                       const char *directory, struct stop *stop)
{
    int rc = 0;

    for (unsigned i = 0; i < USUAL_NAMES && rc == 0; i++) {
        char *const path = usual_path(directory, emnist, known, i);
        if (path == NULL)
            return convert_fail(stop, EXIT_CODE_MEMORY, -ENOMEM, "%s: no memory for file names", directory);
        if (holds_other_data(file, path))
            rc = convert_fail(stop, EXIT_CODE_DATA, -EBADMSG, "%s and %s hold different data: remove the one that is "
                                                              "of another data set",
                              file->path, path);
        free(path);
    }
    return rc;
}

static int load_file(struct loaded_file *file, const struct known_file *known, struct stop *stop)
{
    const char *problem;

    const int rc = unpacked_file_read(file->path, UNPACKED_BYTES_MAX, &file->bytes, &file->byte_count);
    if (rc == -EBADMSG || rc == -EFBIG)
        return mnist_fail(stop, file,
                          rc == -EFBIG ? "unpacks to over 2 GiB" : "compressed data is damaged or cut short");
    if (rc < 0)
        return convert_fail(stop, EXIT_CODE_DATA, rc, "%s: cannot read it: %s", file->path, exit_cause(rc));
    if (idx_parse(file->bytes, file->byte_count, &file->idx, &problem) < 0)
        return mnist_fail(stop, file, problem);
    if (file->idx.rank != known->rank)
        return mnist_fail(stop, file, known->rank == 3 ? "is no file of images: its magic number is not 00 00 08 03"
                          : "is no file of labels: its magic number is not 00 00 08 01");
    report_origin(file, known);
    return 0;
}

static int check_labels(const struct loaded_file *labels, struct stop *stop)
{
    for (size_t i = 0; i < labels->idx.data_bytes; i++) {
        if (labels->idx.data[i] < CLASSES)
            continue;
        return convert_fail(stop, EXIT_CODE_DATA, -EBADMSG, "%s: label %u of image %zu is not in 0..%u, as in MNIST, "
                                                            "Fashion-MNIST and Kuzushiji-MNIST: convert EMNIST and "
                            "other data sets from NumPy arrays: " CONVERT_PROGRAM " npy", labels->path,
                            labels->idx.data[i], i, CLASSES - 1);
    }
    return 0;
}

static int check_pair(const struct loaded_file *images, const struct loaded_file *labels, struct stop *stop)
{
    if (images->idx.dims[0] != labels->idx.dims[0])
        return convert_fail(stop, EXIT_CODE_DATA, -EBADMSG, "%s has %" PRIu32 " images, but %s has %" PRIu32 " labels",
                            images->path, images->idx.dims[0], labels->path, labels->idx.dims[0]);
    if (images->idx.data_bytes == 0)
        return mnist_fail(stop, images, "holds no pixels");
    if (images->idx.data_bytes / images->idx.dims[0] > IMAGE_BYTES_MAX)
        return mnist_fail(stop, images, "its images are larger than 16 MiB");
    return check_labels(labels, stop);
}

static int check_sizes(const struct mnist *mnist, struct stop *stop)
{
    const struct loaded_file *train = &mnist->files[TRAIN_IMAGES], *test = &mnist->files[TEST_IMAGES];

    if (train->idx.dims[1] == test->idx.dims[1] && train->idx.dims[2] == test->idx.dims[2])
        return 0;
    return convert_fail(stop, EXIT_CODE_DATA, -EBADMSG, "%s has images of %" PRIu32 "x%" PRIu32 ", but %s of %" PRIu32
                        "x%" PRIu32, train->path, train->idx.dims[1], train->idx.dims[2], test->path, test->idx.dims[1],
                        test->idx.dims[2]);
}

static int count_originals(const struct mnist *mnist)
{
    int count = 0;

    for (int i = 0; i < FILE_COUNT; i++)
        count += mnist->files[i].is_original;
    return count;
}

/* Report files of different data sets, which are not noticed otherwise if their numbers of samples agree. */
static void report_mixture(const struct mnist *mnist, const char *directory)
{
    const int count = count_originals(mnist);

    if (count > 0 && count < FILE_COUNT)
        log_message(LOG_RUN, "%s: only %d of the four files %s the MNIST original: if the others are of another data "
                             "set, labels or test images are wrong",
                    directory, count, count == 1 ? "is" : "are");
}

/* No other data set in such files has as many images. */
static bool is_emnist_digits(const struct mnist *mnist)
{
    return mnist->files[TRAIN_IMAGES].idx.dims[0] == 240000 && mnist->files[TEST_IMAGES].idx.dims[0] == 40000;
}

/* Files of EMNIST may be linked or renamed, so the name of each file is checked. */
static void report_emnist(const struct mnist *mnist, const char *directory)
{
    bool is_emnist = count_originals(mnist) == FILE_COUNT ||
                     convert_report_emnist(directory, is_emnist_digits(mnist));

    for (int i = 0; i < FILE_COUNT && !is_emnist; i++)
        is_emnist = convert_report_emnist(mnist->files[i].path, false);
}

static int load_files(struct mnist *mnist, const char *directory, struct stop *stop)
{
    int rc = check_folder(directory, stop);

    if (rc == 0)
        rc = find_files(mnist, directory, stop);
    for (int i = 0; rc == 0 && i < FILE_COUNT; i++)
        rc = load_file(&mnist->files[i], &known_files[i], stop);
    for (int i = 0; rc == 0 && i < FILE_COUNT; i++)
        rc = check_names(&mnist->files[i], mnist->emnist, &known_files[i], directory, stop);
    if (rc == 0)
        rc = check_pair(&mnist->files[TRAIN_IMAGES], &mnist->files[TRAIN_LABELS], stop);
    if (rc == 0)
        rc = check_pair(&mnist->files[TEST_IMAGES], &mnist->files[TEST_LABELS], stop);
    if (rc == 0)
        rc = check_sizes(mnist, stop);
    if (rc < 0)
        return rc;
    report_mixture(mnist, directory);
    report_emnist(mnist, directory);
    return 0;
}

static int mnist_sample(void *arg, uint64_t index, void *scratch, struct example_value values_out[SAMPLE_VALUES_MAX],
                        size_t *count_out)
{
    const struct mnist_split *split = arg;
    const size_t image_bytes = (size_t)split->images->dims[1] * split->images->dims[2];

    (void)scratch;
    *count_out = convert_raw_image(split->conversion, split->images->data + index * image_bytes,
                                   split->labels->data[index], values_out);
    return 0;
}

static int mnist_label(void *arg, uint64_t index, void *scratch, int64_t *label_out)
{
    const struct mnist_split *const split = arg;

    (void)scratch;
    *label_out = split->labels->data[index];
    return 0;
}

static struct sample_source make_source(struct mnist_split *split, const char *name)
{
    return (struct sample_source){
        .split = name,
        .record_count = split->images->dims[0],
        .sample = mnist_sample,
        .label = mnist_label,
        .arg = split,
    };
}

static void describe(struct mnist *mnist, struct conversion *conversion)
{
    const struct idx *images = &mnist->files[TRAIN_IMAGES].idx;

    mnist->splits[0] = (struct mnist_split){ conversion, images, &mnist->files[TRAIN_LABELS].idx };
    mnist->splits[1] = (struct mnist_split){ conversion, &mnist->files[TEST_IMAGES].idx,
                                             &mnist->files[TEST_LABELS].idx };
    conversion->origin = count_originals(mnist) == FILE_COUNT ? "the original MNIST files"
                                                              : "files in the layout of MNIST";
    conversion->classes = CLASSES;
    conversion->height = images->dims[1];
    conversion->width = images->dims[2];
    conversion->depth = 1;
    conversion->sources[0] = make_source(&mnist->splits[0], "train");
    conversion->sources[1] = make_source(&mnist->splits[1], "validation");
    conversion->source_count = 2;
}

static int mnist_prepare(const struct convert_options *options, struct stop *stop, struct conversion *conversion)
{
    struct mnist *const mnist = conversion->state;
    const int rc = load_files(mnist, options->inputs[0], stop);
    if (rc == 0)
        describe(mnist, conversion);
    return rc;
}

static void mnist_release(struct conversion *conversion)
{
    struct mnist *const mnist = conversion->state;

    for (int i = 0; i < FILE_COUNT; i++) {
        free(mnist->files[i].path);
        free(mnist->files[i].bytes);
    }
}

const struct converter convert_mnist = {
    .name = "mnist",
    .summary = "the four files of MNIST, as downloaded (gzip or not), from DIR",
    .inputs = "DIR",
    .input_count_least = 1,
    .input_count_most = 1,
    .has_named_inputs = true,
    .state_bytes = sizeof(struct mnist),
    .prepare = mnist_prepare,
    .release = mnist_release,
};
