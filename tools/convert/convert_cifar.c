/* The converter of the binary versions of CIFAR-10 and CIFAR-100, as the downloaded archive or its unpacked folder.
 * All files are read into memory and checked before anything is written. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "formats/class_names.h"
#include "stage/log.h"
#include "tools/convert/archive_walk.h"
#include "tools/convert/convert.h"

/* A record: its labels, followed by a plane of red, one of green and one of blue. */
#define SIDE 32u
#define DEPTH 3u
#define PLANE (SIDE * SIDE)
#define IMAGE (DEPTH * PLANE)
#define FILE_BYTES_MAX ((size_t)1 << 30)
#define BATCH_FILES_MAX 6u
#define OTHER_VERSIONS 2u

/* A kind of label; each record has one label of each kind. */
struct cifar_label {
    const char *name;           /* value of --label */
    uint32_t offset, classes;
    const char *names_file;
};

static const struct cifar_kind {
    const char *origin, *folder;        /* folder: inside the archive */
    const char *download;               /* file name of the archive */
    /* Other versions of the data set, which are refused: the names of the archive, the folder, and a file in it. */
    struct { const char *name, *download, *folder, *file; } others[OTHER_VERSIONS];
    const char *files[BATCH_FILES_MAX]; /* the last file has the validation samples */
    uint32_t file_count;
    struct cifar_label labels[2];       /* the first kind is the default of --label */
    uint32_t label_count;
} cifar10 = {
    .origin = "CIFAR-10, binary version", .folder = "cifar-10-batches-bin",
    .download = "cifar-10-binary.tar.gz",
    .others = { { "Python version (pickles)", "cifar-10-python.tar.gz", "cifar-10-batches-py", "data_batch_1" },
                { "MATLAB version", "cifar-10-matlab.tar.gz", "cifar-10-batches-mat", "data_batch_1.mat" } },
    .files = { "data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin",
               "test_batch.bin" },
    .file_count = 6, .labels = { { "class", 0, 10, "batches.meta.txt" } }, .label_count = 1,
}, cifar100 = {
    .origin = "CIFAR-100, binary version", .folder = "cifar-100-binary",
    .download = "cifar-100-binary.tar.gz",
    .others = { { "Python version (pickles)", "cifar-100-python.tar.gz", "cifar-100-python", "train" },
                { "MATLAB version", "cifar-100-matlab.tar.gz", "cifar-100-matlab", "train.mat" } },
    .files = { "train.bin", "test.bin" }, .file_count = 2,
    .labels = { { "fine", 1, 100, "fine_label_names.txt" }, { "coarse", 0, 20, "coarse_label_names.txt" } },
    .label_count = 2,
};

/* A file in the folder, or in any folder of the archive. */
struct cifar_file {
    const char *name;
    uint8_t *bytes;             /* owned; NULL until it is read */
    size_t byte_count;
};

/* A split: consecutive files. */
struct cifar_split {
    const struct cifar *cifar;
    const struct cifar_file *files;
    uint64_t record_count;
};

struct cifar {
    const struct cifar_kind *kind;
    const struct cifar_label *label;
    const struct conversion *conversion;
    bool is_archive;
    char *folder;               /* path of the folder with the files, or of the archive */
    /* Files of records, then the class names and, in an archive, files by which another version is recognised. */
    struct cifar_file files[BATCH_FILES_MAX + 1 + OTHER_VERSIONS];
    struct cifar_split splits[2];   /* training, validation */
    struct class_names class_names;
};

static size_t record_bytes(const struct cifar_kind *kind)
{
    return kind->label_count + IMAGE;
}

static int no_memory(struct stop *stop)
{
    return convert_fail(stop, EXIT_CODE_MEMORY, -ENOMEM, "no memory");
}

static int find_label(struct cifar *cifar, const char *wanted, struct stop *stop)
{
    for (uint32_t i = 0; i < cifar->kind->label_count; i++) {
        if (wanted == NULL || strcmp(cifar->kind->labels[i].name, wanted) == 0) {
            cifar->label = &cifar->kind->labels[i];
            return 0;
        }
    }
    return convert_fail(stop, EXIT_CODE_USAGE, -EINVAL, "--label=%s: there are fine and coarse", wanted);
}

static bool has_file(const char *folder, const char *between, const char *name)
{
    char *path;

    if (asprintf(&path, "%s%s%s/%s", folder, *between != '\0' ? "/" : "", between, name) < 0)
        return false;
    const bool is_there = access(path, F_OK) == 0;
    free(path);
    return is_there;
}

/* Find the folder with the files: the input itself, or a folder in it that has the name of the archive's folder. */
static int find_folder(struct cifar *cifar, const char *input, struct stop *stop)
{
    const char *const inner = has_file(input, cifar->kind->folder, cifar->kind->files[0]) ? cifar->kind->folder : "";

    if (asprintf(&cifar->folder, "%s%s%s", input, *inner != '\0' ? "/" : "", inner) >= 0)
        return 0;
    cifar->folder = NULL;
    return no_memory(stop);
}

static size_t count_records(const struct cifar_file *file, const struct cifar_kind *kind)
{
    return file->byte_count / record_bytes(kind);
}

/* Check the labels of all kinds, not only of the chosen one: invalid labels reveal a file of another data set. */
static int check_labels(const struct cifar *cifar, const struct cifar_file *file, const char *path, struct stop *stop)
{
    const struct cifar_kind *const kind = cifar->kind;

    for (size_t i = 0; i < count_records(file, kind); i++) {
        for (uint32_t l = 0; l < kind->label_count; l++) {
            const uint32_t label = file->bytes[i * record_bytes(kind) + kind->labels[l].offset];
            if (label < kind->labels[l].classes)
                continue;
            return convert_fail(stop, EXIT_CODE_DATA, -EBADMSG, "%s: %s label %u of image %zu is not in 0..%u", path,
                                kind->labels[l].name, label, i, kind->labels[l].classes - 1);
        }
    }
    return 0;
}

/* Read a file from the folder; the files of an archive have been read already. 0 or a negative errno. */
static int read_file(const struct cifar *cifar, struct cifar_file *file, const char *path)
{
    if (!cifar->is_archive)
        return unpacked_file_read(path, FILE_BYTES_MAX, &file->bytes, &file->byte_count);
    return file->bytes != NULL ? 0 : -ENOENT;
}

/* The name of another version, if the input contains that; else NULL. */
static const char *other_version(const struct cifar *cifar)
{
    const struct cifar_kind *const kind = cifar->kind;

    for (uint32_t i = 0; i < OTHER_VERSIONS; i++) {
        const char *const folder = kind->others[i].folder, *const file = kind->others[i].file;
        const bool is_there = cifar->is_archive ? cifar->files[kind->file_count + 1 + i].bytes != NULL
                                                : has_file(cifar->folder, "", file) ||
                                                      has_file(cifar->folder, folder, file) ||
                                                      has_file(cifar->folder, "", kind->others[i].download);
        if (is_there)
            return kind->others[i].name;
    }
    return NULL;
}

/* The first file is missing: report what the input contains instead. */
static void report_missing(const struct cifar *cifar, const char *path, struct stop *stop)
{
    const char *const download = cifar->kind->download, *const version = other_version(cifar);

    if (!cifar->is_archive && has_file(cifar->folder, "", download))
        stop_fail(stop, EXIT_CODE_DATA, "%s: contains %s, which is not unpacked: convert %s/%s", cifar->folder,
                  download, cifar->folder, download);
    else if (version != NULL)
        stop_fail(stop, EXIT_CODE_DATA, "%s: is the %s: get %s", cifar->folder, version, download);
    else
        stop_fail(stop, EXIT_CODE_DATA, "%s: cannot read it: No such file or directory: get %s (images in %s are "
                  "converted by pipetrain-convert %s)", path, download, cifar->is_archive ? "an archive" : "folders",
                  cifar->is_archive ? "tar" : "folder");
}

static int load_batch(struct cifar *cifar, uint32_t number, const char *path, struct stop *stop)
{
    struct cifar_file *const file = &cifar->files[number];
    const int rc = read_file(cifar, file, path);

    if (rc == -ENOENT && number == 0) {
        report_missing(cifar, path, stop);
        return rc;
    }
    if (rc < 0)
        return convert_fail(stop, EXIT_CODE_DATA, rc, "%s: cannot read it: %s", path, exit_cause(rc));
    if (file->byte_count == 0 || file->byte_count % record_bytes(cifar->kind) != 0)
        return convert_fail(stop, EXIT_CODE_DATA, -EBADMSG, "%s: %zu bytes are not a whole number of records of %zu "
                            "bytes", path, file->byte_count, record_bytes(cifar->kind));
    return check_labels(cifar, file, path, stop);
}

/* Load the class names. They are optional: without them, the data set is converted without names. */
static int load_names(struct cifar *cifar, uint32_t number, const char *path, struct stop *stop)
{
    struct cifar_file *const file = &cifar->files[number];
    char problem[256];

    if (read_file(cifar, file, path) < 0) {
        log_message(LOG_RUN, "%s: cannot be read: the classes have no names", path);
        return 0;
    }
    const int rc = class_names_read(&cifar->class_names, (const char *)file->bytes, file->byte_count, problem,
                                    sizeof(problem));
    if (rc == -ENOMEM)
        return no_memory(stop);
    if (rc == 0 && cifar->class_names.count == cifar->label->classes)
        return 0;
    if (rc < 0)
        stop_fail(stop, EXIT_CODE_DATA, "%s: %s", path, problem);
    else
        stop_fail(stop, EXIT_CODE_DATA, "%s: names %u classes, not %u", path, cifar->class_names.count,
                  cifar->label->classes);
    return -EBADMSG;
}

/* The name of file `number`; the number after that of the last record file is the file of class names. */
static const char *file_name(const struct cifar *cifar, uint32_t number)
{
    return number == cifar->kind->file_count ? cifar->label->names_file : cifar->kind->files[number];
}

static int load_file(struct cifar *cifar, uint32_t number, struct stop *stop)
{
    char *path;

    if (asprintf(&path, "%s/%s", cifar->folder, file_name(cifar, number)) < 0)
        return no_memory(stop);
    const int rc = number == cifar->kind->file_count ? load_names(cifar, number, path, stop)
                                                     : load_batch(cifar, number, path, stop);
    free(path);
    return rc;
}

static struct cifar_file *find_wanted(struct cifar *cifar, const struct archive_member *member)
{
    const char *const slash = strrchr(member->path, '/'), *const name = slash != NULL ? slash + 1 : member->path;

    for (size_t i = 0; i < sizeof(cifar->files) / sizeof(cifar->files[0]) && !member->is_folder; i++) {
        if (cifar->files[i].name != NULL && strcmp(cifar->files[i].name, name) == 0)
            return &cifar->files[i];
    }
    return NULL;
}

struct cifar_archive {
    struct cifar *cifar;
    struct stop *stop;
};

static int read_member(void *arg, struct archive_walk *walk, const struct archive_member *member)
{
    const struct cifar_archive *const archive = arg;
    struct cifar_file *const wanted = find_wanted(archive->cifar, member);
    const char *problem = NULL;

    if (wanted == NULL)
        return 0;
    if (wanted->bytes != NULL)
        problem = "is in the archive twice";
    else if (member->bytes > FILE_BYTES_MAX)
        problem = "is larger than 1 GiB";
    const int rc = problem != NULL ? -EBADMSG : archive_member_load(walk, member, &wanted->bytes);
    if (rc < 0)
        return archive_walk_fail(walk, archive->cifar->folder, problem, rc, archive->stop);
    wanted->byte_count = (size_t)member->bytes;
    return 0;
}

static int load(struct cifar *cifar, const char *input, struct stop *stop)
{
    const uint32_t count = cifar->kind->file_count + 1;
    struct stat stat_of_input;
    int rc = 0;

    cifar->is_archive = stat(input, &stat_of_input) == 0 && S_ISREG(stat_of_input.st_mode);
    for (uint32_t i = 0; i < count; i++)
        cifar->files[i].name = file_name(cifar, i);
    for (uint32_t i = 0; i < OTHER_VERSIONS; i++)
        cifar->files[count + i].name = cifar->kind->others[i].file;
    if (cifar->is_archive)
        rc = archive_visit(input, NULL, read_member, &(struct cifar_archive){ cifar, stop }, stop);
    for (uint32_t i = 0; i < count && rc == 0; i++)
        rc = load_file(cifar, i, stop);
    return rc;
}

static const uint8_t *find_record(const struct cifar_split *split, uint64_t index)
{
    const struct cifar_kind *const kind = split->cifar->kind;
    const struct cifar_file *file = split->files;

    for (; index >= count_records(file, kind); file++)
        index -= count_records(file, kind);
    return file->bytes + index * record_bytes(kind);
}

static int cifar_label(void *arg, uint64_t index, void *scratch, int64_t *label_out)
{
    const struct cifar_split *const split = arg;

    (void)scratch;
    *label_out = find_record(split, index)[split->cifar->label->offset];
    return 0;
}

/* Make the features of a sample. The planes are interleaved, because shards contain rows of pixels. */
static int cifar_sample(void *arg, uint64_t index, void *scratch, struct example_value values_out[SAMPLE_VALUES_MAX],
                        size_t *count_out)
{
    const struct cifar_split *const split = arg;
    const uint8_t *const record = find_record(split, index), *const planes = record + split->cifar->kind->label_count;
    uint8_t *const pixels = scratch;

    for (size_t i = 0; i < PLANE; i++)
        for (size_t c = 0; c < DEPTH; c++)
            pixels[i * DEPTH + c] = planes[c * PLANE + i];
    *count_out = convert_raw_image(split->cifar->conversion, pixels, record[split->cifar->label->offset], values_out);
    return 0;
}

static void add_source(struct conversion *conversion, struct cifar_split *split, const char *name, uint32_t first,
                       uint32_t count)
{
    const struct cifar *const cifar = conversion->state;

    *split = (struct cifar_split){ .cifar = cifar, .files = cifar->files + first };
    for (uint32_t i = 0; i < count; i++)
        split->record_count += count_records(&cifar->files[first + i], cifar->kind);
    conversion->sources[conversion->source_count++] = (struct sample_source){
        .split = name, .record_count = split->record_count, .scratch_bytes = IMAGE, .sample = cifar_sample,
        .label = cifar_label, .arg = split,
    };
}

static void describe(struct cifar *cifar, struct conversion *conversion)
{
    const uint32_t last = cifar->kind->file_count - 1;

    conversion->origin = cifar->kind->origin;
    conversion->classes = cifar->label->classes;
    conversion->class_names = cifar->class_names.names;
    conversion->height = conversion->width = SIDE;
    conversion->depth = DEPTH;
    add_source(conversion, &cifar->splits[0], "train", 0, last);
    add_source(conversion, &cifar->splits[1], "validation", last, 1);
}

static int prepare(const struct cifar_kind *kind, const struct convert_options *options, struct stop *stop,
                   struct conversion *conversion)
{
    struct cifar *const cifar = conversion->state;

    *cifar = (struct cifar){ .kind = kind, .conversion = conversion };
    int rc = find_label(cifar, options->label, stop);
    if (rc == 0)
        rc = find_folder(cifar, options->inputs[0], stop);
    if (rc == 0)
        rc = load(cifar, options->inputs[0], stop);
    if (rc == 0)
        describe(cifar, conversion);
    return rc;
}

static int cifar10_prepare(const struct convert_options *options, struct stop *stop, struct conversion *conversion)
{
    return prepare(&cifar10, options, stop, conversion);
}

static int cifar100_prepare(const struct convert_options *options, struct stop *stop, struct conversion *conversion)
{
    return prepare(&cifar100, options, stop, conversion);
}

static void cifar_release(struct conversion *conversion)
{
    struct cifar *const cifar = conversion->state;

    for (uint32_t i = 0; i < BATCH_FILES_MAX + 1 + OTHER_VERSIONS; i++)
        free(cifar->files[i].bytes);
    free(cifar->folder);
    class_names_release(&cifar->class_names);
}

const struct converter convert_cifar10 = {
    .name = "cifar10",
    .summary = "the binary version of CIFAR-10: its .tar.gz, or the unpacked folder",
    .inputs = "FILE",
    .input_count_least = 1,
    .input_count_most = 1,
    .has_named_inputs = true,
    .state_bytes = sizeof(struct cifar),
    .prepare = cifar10_prepare,
    .release = cifar_release,
};

const struct converter convert_cifar100 = {
    .name = "cifar100",
    .summary = "the binary version of CIFAR-100: its .tar.gz, or the unpacked folder",
    .inputs = "FILE",
    .input_count_least = 1,
    .input_count_most = 1,
    .takes = CONVERT_LABEL,
    .has_named_inputs = true,
    .state_bytes = sizeof(struct cifar),
    .prepare = cifar100_prepare,
    .release = cifar_release,
};
