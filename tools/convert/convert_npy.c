/* The converter of NumPy arrays: two .npy files, four with a validation set, or one .npz archive. All headers and
 * labels are read and checked before anything is written; the images of .npy files are read while the shards are
 * written. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "formats/image_header.h"
#include "formats/npy.h"
#include "loader/images/image.h"
#include "loader/images/pixel_survey.h"
#include "stage/file/file.h"
#include "stage/log.h"
#include "stage/stop.h"
#include "tools/convert/archive_walk.h"
#include "tools/convert/convert.h"

/* ---- arrays ---- */

struct array {
    char *path;                 /* "x.npy" or "x.npz: x_train.npy", for messages; owned */
    int fd;                     /* -1: the array is in memory */
    uint8_t *bytes;             /* the data, if the array is a member of an archive; else NULL; owned */
    struct npy npy;
};

/* Splits; in an .npz archive they follow from the names of its arrays. */
enum npy_split_kind { NPY_TRAIN, NPY_VALIDATION, NPY_TEST, NPY_SPLITS };

struct npy_arrays { bool is_there; struct array images, labels; };

struct array_shape {
    uint32_t height, width, depth;
    bool is_planar;             /* the array is (N, C, H, W) */
};

/* The smallest and the largest number in arrays. */
struct number_range { double least, most; };

static int array_no_memory(struct stop *stop)
{
    return convert_fail(stop, EXIT_CODE_MEMORY, -ENOMEM, "no memory to read arrays");
}

static int array_fail(const struct array *array, struct stop *stop, const char *problem)
{
    return convert_fail(stop, EXIT_CODE_DATA, -EBADMSG, "%s: %s", array->path, problem);
}

static int array_fail_shape(const struct array *array, struct stop *stop, const char *problem)
{
    char shape[NPY_RANK_MAX * 24] = "";
    size_t length = 0;

    for (uint32_t i = 0; i < array->npy.rank; i++)
        length += (size_t)snprintf(shape + length, sizeof(shape) - length, "%s%" PRIu64, i > 0 ? ", " : "",
                                   array->npy.dims[i]);
    return convert_fail(stop, EXIT_CODE_DATA, -EBADMSG, "%s: has the shape (%s%s): %s", array->path, shape,
                        array->npy.rank == 1 ? "," : "", problem);
}

static int cannot_read(const struct array *array, int error, struct stop *stop)
{
    return convert_fail(stop, EXIT_CODE_DATA, -error, "%s: cannot read it: %s", array->path, exit_cause(-error));
}

#define OTHER_ADVICE ": unpack or load it, and save the images and the labels by numpy.save"

/* Parse the header from the first `head_bytes` bytes of the array, which has `all_bytes` bytes in all. */
static int parse_header(struct array *array, const uint8_t *head, size_t head_bytes, uint64_t all_bytes,
                        struct stop *stop)
{
    const char *problem;
    char text[128];

    if (npy_parse(head, head_bytes, &array->npy, &problem) < 0)
        return convert_fail(stop, EXIT_CODE_DATA, -EBADMSG, "%s: %s%s", array->path, problem,
                            problem == image_other_kind(head, head_bytes) ? OTHER_ADVICE : "");
    const uint64_t present = all_bytes - array->npy.header_bytes;
    if (present == array->npy.data_bytes)
        return 0;
    snprintf(text, sizeof(text), "has %" PRIu64 " bytes of numbers, but its shape needs %" PRIu64, present,
             array->npy.data_bytes);
    return array_fail(array, stop, text);
}

static int parse_file(struct array *array, uint64_t all_bytes, struct stop *stop)
{
    uint8_t *const head = malloc(NPY_HEADER_BYTES_MAX);
    if (head == NULL)
        return array_no_memory(stop);
    size_t got;
    int rc = file_read_some(array->fd, 0, head, NPY_HEADER_BYTES_MAX, &got);
    rc = rc < 0 ? cannot_read(array, -rc, stop) : parse_header(array, head, got, all_bytes, stop);
    free(head);
    return rc;
}

static int array_open_file(struct array *array, const char *path, struct stop *stop)
{
    struct stat stat;

    *array = (struct array){ .fd = -1, .path = strdup(path) };
    if (array->path == NULL)
        return array_no_memory(stop);
    /* Without O_NONBLOCK, open() of a FIFO without a writer would block. */
    array->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (array->fd < 0 || fstat(array->fd, &stat) != 0)
        return cannot_read(array, errno, stop);
    const char *const kind = file_kind(stat.st_mode);
    if (kind == NULL)
        return parse_file(array, (uint64_t)stat.st_size, stop);
    return convert_fail(stop, EXIT_CODE_DATA, -EINVAL, "%s: is %s, not a .npy file", path, kind);
}

static void array_close(struct array *array)
{
    if (array->fd >= 0)
        close(array->fd);
    free(array->path);
    free(array->bytes);
    *array = (struct array){ .fd = -1 };
}

/* Read the current member of `walk`, whose archive is at `path`. */
static int array_open_member(struct array *array, const char *path, struct archive_walk *walk,
                             const struct archive_member *member, struct stop *stop)
{
    array_close(array);
    if (asprintf(&array->path, "%s: %s", path, member->path) < 0) {
        array->path = NULL;
        return array_no_memory(stop);
    }
    const int rc = archive_member_load(walk, member, &array->bytes);
    if (rc == -ENOMEM)
        return convert_fail(stop, EXIT_CODE_MEMORY, rc, "%s: no memory to unpack its %" PRIu64 " bytes: unpack the "
                            "archive and name its .npy files, which are read in parts", array->path, member->bytes);
    if (rc < 0) {
        const char *const problem = archive_walk_problem(walk);
        return convert_fail(stop, EXIT_CODE_DATA, rc, "%s: %s", array->path,
                            problem != NULL ? problem : exit_cause(rc));
    }
    return parse_header(array, array->bytes, (size_t)member->bytes, member->bytes, stop);
}

static int array_read(const struct array *array, uint64_t offset, void *out, size_t bytes, struct stop *stop)
{
    if (array->bytes != NULL) {
        memcpy(out, array->bytes + array->npy.header_bytes + offset, bytes);
        return 0;
    }
    size_t got;
    const int rc = file_read_some(array->fd, array->npy.header_bytes + offset, out, bytes, &got);
    if (rc < 0)
        return cannot_read(array, -rc, stop);
    return got == bytes ? 0 : array_fail(array, stop, "was truncated while it was read");
}

/* ---- .npz archives ---- */

/* Names of an array of images and the array of their labels. For each split, the first pair that the archive
 * contains is used. */
static const struct name_pair { enum npy_split_kind split; const char *images, *labels; } pairs[] = {
    { NPY_TRAIN, "x_train", "y_train" },
    { NPY_TRAIN, "train_images", "train_labels" },
    { NPY_TRAIN, "images", "labels" },
    { NPY_TRAIN, "x", "y" },
    { NPY_TRAIN, "data", "target" },
    { NPY_TRAIN, "arr_0", "arr_1" },
    { NPY_VALIDATION, "x_val", "y_val" },
    { NPY_VALIDATION, "x_valid", "y_valid" },
    { NPY_VALIDATION, "val_images", "val_labels" },
    { NPY_TEST, "x_test", "y_test" },
    { NPY_TEST, "test_images", "test_labels" },
};
#define PAIR_COUNT (sizeof(pairs) / sizeof(pairs[0]))

/* Names of members as text, for messages. */
struct name_list { char text[512]; size_t length; };

/* Argument for visiting an archive twice: first to find which pairs of arrays it contains, then to read the chosen
 * arrays. */
struct npz {
    const char *path;
    struct stop *stop;
    struct npy_arrays *arrays;  /* for each split; is_there: the archive contains the pair of index `chosen` */
    size_t chosen[NPY_SPLITS];
    bool has_images[PAIR_COUNT], has_labels[PAIR_COUNT];
    bool are_alike;             /* the names of two arrays differ only in upper and lower case */
    struct name_list all, unused;
};

/* Is the member NAME.npy? Case is ignored. */
static bool is_array(const struct archive_member *member, const char *name)
{
    const size_t bytes = strlen(name);
    return !member->is_folder && strncasecmp(member->path, name, bytes) == 0 &&
           strcmp(member->path + bytes, ".npy") == 0;
}

static void list_name(struct name_list *list, const struct archive_member *member)
{
    if (list->length < sizeof(list->text))
        list->length += (size_t)snprintf(list->text + list->length, sizeof(list->text) - list->length, " %s",
                                         member->path);
}

static int note_member(void *arg, struct archive_walk *walk, const struct archive_member *member)
{
    struct npz *const npz = arg;

    (void)walk;
    list_name(&npz->all, member);
    for (size_t i = 0; i < PAIR_COUNT; i++) {
        const bool is_images = is_array(member, pairs[i].images), is_labels = is_array(member, pairs[i].labels);
        npz->are_alike |= (is_images && npz->has_images[i]) || (is_labels && npz->has_labels[i]);
        npz->has_images[i] |= is_images;
        npz->has_labels[i] |= is_labels;
    }
    return 0;
}

/* Read the member if it is one of the chosen arrays; else add it to the list of unused members. */
static int read_member(void *arg, struct archive_walk *walk, const struct archive_member *member)
{
    struct npz *const npz = arg;
    bool is_used = member->is_folder;
    int rc = 0;

    for (int i = 0; i < NPY_SPLITS && rc == 0; i++) {
        struct npy_arrays *const arrays = &npz->arrays[i];
        const struct name_pair *const names = &pairs[npz->chosen[i]];
        const bool is_images = arrays->is_there && is_array(member, names->images);
        const bool is_labels = arrays->is_there && is_array(member, names->labels);
        if (is_images || is_labels)
            rc = array_open_member(is_images ? &arrays->images : &arrays->labels, npz->path, walk, member, npz->stop);
        is_used |= is_images || is_labels;
    }
    if (!is_used)
        list_name(&npz->unused, member);
    return rc;
}

static bool is_npz(const char *path)
{
    const size_t bytes = strlen(path);
    return bytes > 4 && strcmp(path + bytes - 4, ".npz") == 0;
}

/* Argument for reading an archive that contains a single array, as numpy.savez writes for one argument. */
struct single_npz {
    const char *path;
    struct stop *stop;
    struct array *array;
    size_t count;
    struct name_list all;
};

static int read_first(void *arg, struct archive_walk *walk, const struct archive_member *member)
{
    struct single_npz *const npz = arg;

    list_name(&npz->all, member);
    return npz->count++ == 0 ? array_open_member(npz->array, npz->path, walk, member, npz->stop) : 0;
}

static int array_open_only(struct array *array, const char *path, const atomic_bool *interrupted, struct stop *stop)
{
    struct single_npz npz = { .path = path, .stop = stop, .array = array };
    const int rc = archive_visit(path, interrupted, read_first, &npz, stop);

    if (rc < 0 || npz.count == 1)
        return rc;
    return convert_fail(stop, EXIT_CODE_DATA, -EBADMSG, "%s: has %zu arrays:%s: name it alone if it has images and "
                        "labels, or save one array in each file", path, npz.count, npz.all.text);
}

/* For each split, choose the first pair of which the archive contains both arrays. */
static void choose_pairs(struct npz *npz)
{
    for (size_t i = 0; i < PAIR_COUNT; i++) {
        struct npy_arrays *const arrays = &npz->arrays[pairs[i].split];
        if (arrays->is_there || !npz->has_images[i] || !npz->has_labels[i])
            continue;
        arrays->is_there = true;
        npz->chosen[pairs[i].split] = i;
    }
}

/* Read the images and labels of every split. 0, or a negative errno after stop_fail; a missing training set is an
 * error. */
static int open_npz(struct npy_arrays arrays[NPY_SPLITS], const char *path, const atomic_bool *interrupted,
                    struct stop *stop)
{
    struct npz npz = { .path = path, .stop = stop, .arrays = arrays };
    int rc = archive_visit(path, interrupted, note_member, &npz, stop);

    if (rc < 0)
        return rc;
    choose_pairs(&npz);
    if (npz.are_alike)
        return convert_fail(stop, EXIT_CODE_DATA, -EBADMSG, "%s: two arrays have the same name but for capitals: "
                            "save only those that are meant; it has:%s", path, npz.all.text);
    if (!arrays[NPY_TRAIN].is_there)
        return convert_fail(stop, EXIT_CODE_DATA, -EBADMSG, "%s: has no images and labels under a known name "
                            "(x_train.npy and y_train.npy, images.npy and labels.npy, ...); it has:%s", path,
                            npz.all.text);
    rc = archive_visit(path, interrupted, read_member, &npz, stop);
    if (rc == 0 && npz.unused.length > 0)
        log_message(LOG_RUN, "%s: not used:%s; images and labels for validation are called x_val and y_val, and "
                    "x_test and y_test", path, npz.unused.text);
    return rc;
}

/* ---- images ---- */

#define DEPTH_MAX 4u
#define ROW_PIXELS 17u          /* more than 4 x 4 pixels */
#define IMAGE_NUMBERS_MAX ((uint64_t)16 << 20)
#define CHUNK_BYTES ((size_t)1 << 20)

static bool is_depth(uint64_t size)
{
    return size >= 1 && size <= DEPTH_MAX;
}

static bool is_side(uint64_t size)
{
    return size >= 1 && size <= IMAGE_NUMBERS_MAX;
}

/* An image with two sizes: are they probably the channels and the pixels of a single row, instead of height and
 * width? */
static bool is_row(uint64_t one, uint64_t other)
{
    return (is_depth(one) && other >= ROW_PIXELS) || (is_depth(other) && one >= ROW_PIXELS);
}

static int image_array_shape(const struct array *images, struct array_shape *shape_out, struct stop *stop)
{
    const uint64_t *const dims = images->npy.dims;
    const uint32_t rank = images->npy.rank;
    const bool is_last = rank == 3 || (rank == 4 && is_depth(dims[3]));
    const uint64_t depth = rank == 3 ? 1 : dims[is_last ? 3 : 1];
    const uint64_t height = dims[is_last ? 1 : 2], width = dims[is_last ? 2 : 3];

    if ((rank != 3 && rank != 4) || !is_depth(depth))
        return array_fail_shape(images, stop, "is not that of images: they are (N, H, W), (N, H, W, C) or "
                                "(N, C, H, W), with 1 or 3 channels C. If each row is an image, save "
                                "array.reshape(-1, H, W), array.reshape(-1, H, W, 3) or, if all of red comes first "
                                "as in CIFAR-10's, array.reshape(-1, 3, H, W)");
    if (depth != 1 && depth != 3)
        return array_fail_shape(images, stop, "has images of neither 1 nor 3 channels: save them in grey or in RGB");
    if (rank == 3 && is_row(dims[1], dims[2]))
        return array_fail_shape(images, stop, "are these rows of pixels with an axis of channels? Then save "
                                "array.reshape(-1, H, W, C) or array.reshape(-1, C, H, W); if images really are so "
                                "narrow, save array[..., None]");
    if (!is_side(height) || !is_side(width) || height * width * depth > IMAGE_NUMBERS_MAX)
        return array_fail(images, stop, "has images without pixels, or of over 16 million numbers");
    *shape_out = (struct array_shape){ (uint32_t)height, (uint32_t)width, (uint32_t)depth, !is_last };
    return 0;
}

/* False if a number is infinite or NaN. */
static bool widen_range(struct number_range *range, const struct npy *npy, const uint8_t *numbers, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += npy->item_bytes) {
        const double number = npy_number(npy, numbers + at);
        if (!isfinite(number))
            return false;
        range->least = fmin(range->least, number);
        range->most = fmax(range->most, number);
    }
    return true;
}

static int read_range(const struct array *images, struct number_range *range, uint8_t *chunk,
                      const atomic_bool *interrupted, struct stop *stop)
{
    const uint64_t all = images->npy.data_bytes;

    for (uint64_t offset = 0; offset < all; offset += CHUNK_BYTES) {
        const size_t bytes = all - offset < CHUNK_BYTES ? (size_t)(all - offset) : CHUNK_BYTES;
        if (atomic_load(interrupted))
            return -ECANCELED;
        const int rc = array_read(images, offset, chunk, bytes, stop);
        if (rc < 0)
            return rc;
        if (!widen_range(range, &images->npy, chunk, bytes))
            return array_fail(images, stop, "contains infinite numbers or NaN");
    }
    return 0;
}

static bool is_uint8(const struct npy *npy)
{
    return npy->kind == NPY_UINT && npy->item_bytes == 1;
}

static int image_array_range(const struct array *images, struct number_range *range, const atomic_bool *interrupted,
                             struct stop *stop)
{
    if (is_uint8(&images->npy)) {
        range->least = fmin(range->least, 0);
        range->most = fmax(range->most, UINT8_MAX);
        return 0;
    }
    uint8_t *const chunk = malloc(CHUNK_BYTES);
    if (chunk == NULL)
        return array_no_memory(stop);
    const int rc = read_range(images, range, chunk, interrupted, stop);
    free(chunk);
    return rc;
}

static const struct image_range *pixel_range_of(const struct npy *npy, const struct number_range *range)
{
    if (npy->kind == NPY_BOOL)
        return &image_ranges[IMAGE_RANGE_UNIT];
    if (npy->kind == NPY_FLOAT)
        return image_range_find((float)range->least, (float)range->most);
    return range->least >= 0 && range->most <= UINT8_MAX ? &image_ranges[IMAGE_RANGE_BYTE] : NULL;
}

static size_t image_numbers(const struct array_shape *shape)
{
    return (size_t)shape->height * shape->width * shape->depth;
}

static size_t image_array_scratch(const struct array *images, const struct array_shape *shape)
{
    return image_numbers(shape) * images->npy.item_bytes;
}

static uint8_t to_pixel(const struct npy *npy, const uint8_t *at, double scale, double offset)
{
    if (is_uint8(npy))
        return *at;
    const double pixel = npy_number(npy, at) * scale + offset + 0.5;
    return pixel < 0 ? 0 : pixel >= 256 ? UINT8_MAX : (uint8_t)pixel;
}

static int image_array_read(const struct array *images, const struct array_shape *shape,
                            const struct image_range *pixel_range, uint64_t index, uint8_t *scratch,
                            uint8_t *pixels_out, struct stop *stop)
{
    const size_t area = (size_t)shape->height * shape->width, bytes = image_array_scratch(images, shape);
    const size_t item_bytes = images->npy.item_bytes;
    const double scale = 255.0 / ((double)pixel_range->brightest - (double)pixel_range->darkest);
    const double offset = -(double)pixel_range->darkest * scale;
    const size_t pixel_step = shape->is_planar ? 1 : shape->depth, channel_step = shape->is_planar ? area : 1;

    const int rc = array_read(images, index * bytes, scratch, bytes, stop);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < area; i++)
        for (size_t c = 0; c < shape->depth; c++)
            *pixels_out++ = to_pixel(&images->npy, scratch + (i * pixel_step + c * channel_step) * item_bytes, scale,
                                     offset);
    return 0;
}

/* ---- labels ---- */

#define CLASSES_MAX (1u << 24)  /* a larger label is probably a mistake */

static int check_label_shape(const struct array *labels, uint64_t count, struct stop *stop)
{
    const struct npy *const npy = &labels->npy;

    if (npy->rank == 0 || npy->data_bytes / npy->item_bytes != npy->dims[0])
        return array_fail_shape(labels, stop, "is not that of labels: they are (N) or (N, 1), one number per image. If "
                                "each row is a one-hot label, save array.argmax(1); one image cannot have several "
                                "classes");
    if (npy->kind == NPY_FLOAT)
        return array_fail(labels, stop, "labels are floating-point numbers: save array.astype('int64')");
    if (npy->dims[0] == count)
        return 0;
    return convert_fail(stop, EXIT_CODE_DATA, -EBADMSG, "%s: has %" PRIu64 " labels for %" PRIu64 " images",
                        labels->path, npy->dims[0], count);
}

static int parse_labels(const struct array *labels, uint64_t count, const uint8_t *numbers, uint32_t *labels_out,
                        uint32_t *classes_out, struct stop *stop)
{
    uint32_t classes = 0;

    for (uint64_t i = 0; i < count; i++) {
        int64_t label = INT64_MAX;
        char text[96];
        const bool is_known = npy_integer(&labels->npy, numbers + i * labels->npy.item_bytes, &label);
        if (label < 0 || label >= CLASSES_MAX) {
            snprintf(text, sizeof(text), "label %" PRIi64 "%s of image %" PRIu64 " is not a class", label,
                     is_known ? "" : " or more", i);
            return array_fail(labels, stop, text);
        }
        labels_out[i] = (uint32_t)label;
        classes = labels_out[i] >= classes ? labels_out[i] + 1 : classes;
    }
    *classes_out = classes;
    return 0;
}

static int label_array_read(const struct array *labels, uint64_t count, uint32_t **labels_out, uint32_t *classes_out,
                            struct stop *stop)
{
    int rc = check_label_shape(labels, count, stop);
    if (rc < 0)
        return rc;
    uint8_t *const numbers = malloc(labels->npy.data_bytes + 1);
    uint32_t *const classes = calloc(count + 1, sizeof(*classes));
    if (numbers != NULL && classes != NULL) {
        rc = array_read(labels, 0, numbers, labels->npy.data_bytes, stop);
    } else {
        stop_fail(stop, EXIT_CODE_MEMORY, "%s: no memory for %" PRIu64 " labels", labels->path, count);
        rc = -ENOMEM;
    }
    if (rc == 0)
        rc = parse_labels(labels, count, numbers, classes, classes_out, stop);
    free(numbers);
    if (rc < 0)
        free(classes);
    else
        *labels_out = classes;
    return rc;
}

/* ---- the converter ---- */

static const char *const split_names[NPY_SPLITS] = { "train", "validation", "test" };

struct npy_split {
    const struct npy_set *set;
    const struct array *images;
    uint64_t count;
    uint32_t *labels;
    struct number_range range;              /* of the numbers in the images */
    const struct image_range *pixel_range;  /* range of pixel values that `range` suggests */
};

struct npy_set {
    const struct conversion *conversion;
    struct stop *stop;
    struct npy_arrays arrays[NPY_SPLITS];
    struct npy_split splits[NPY_SPLITS];
    struct array_shape shape;     /* common to all splits */
    const struct image_range *pixel_range;  /* range of pixel values that the numbers of all splits suggest */
};

/* Open the inputs: pairs of images and labels, for training and for validation. */
static int open_files(struct npy_set *set, const struct convert_options *options)
{
    for (size_t i = 0; i < options->input_count; i++) {
        struct npy_arrays *const arrays = &set->arrays[i / 2];
        struct array *const array = i % 2 == 0 ? &arrays->images : &arrays->labels;
        const char *const path = options->inputs[i];
        const int rc = is_npz(path) ? array_open_only(array, path, options->interrupted, set->stop)
                                    : array_open_file(array, path, set->stop);
        if (rc < 0)
            return rc;
        arrays->is_there = true;
    }
    return 0;
}

static int open_inputs(struct npy_set *set, const struct convert_options *options)
{
    for (int i = 0; i < NPY_SPLITS; i++)
        set->arrays[i].images.fd = set->arrays[i].labels.fd = -1;
    if (is_npz(options->inputs[0]) && options->input_count == 1)
        return open_npz(set->arrays, options->inputs[0], options->interrupted, set->stop);
    const int rc = open_files(set, options);
    if (rc < 0 || options->input_count % 2 == 0)
        return rc;
    return convert_fail(set->stop, EXIT_CODE_USAGE, -EINVAL, "npy: name one .npz file, or pairs of .npy files: images, "
                        "labels, validation images, validation labels");
}

/* Check that the images of all splits have the same shape and type. */
static int check_images(struct npy_set *set, const struct array *images)
{
    const struct array *const first = &set->arrays[NPY_TRAIN].images;
    struct array_shape shape;

    const int rc = image_array_shape(images, &shape, set->stop);
    if (rc < 0)
        return rc;
    if (images->npy.dims[0] == 0)
        return array_fail(images, set->stop, "has no images");
    if (images == first)
        set->shape = shape;
    if (shape.height == set->shape.height && shape.width == set->shape.width && shape.depth == set->shape.depth &&
        shape.is_planar == set->shape.is_planar && images->npy.kind == first->npy.kind &&
        images->npy.item_bytes == first->npy.item_bytes)
        return 0;
    return convert_fail(set->stop, EXIT_CODE_DATA, -EBADMSG, "%s: its images have a different shape or type from those "
                        "of %s", images->path, first->path);
}

/* Find the range of pixel values of one split. */
static int find_pixel_range(struct npy_split *split, struct stop *stop)
{
    const struct npy *const npy = &split->images->npy;

    split->pixel_range = pixel_range_of(npy, &split->range);
    if (split->pixel_range != NULL)
        return 0;
    return convert_fail(stop, EXIT_CODE_DATA, -EBADMSG, "%s: %s numbers from %g to %g: these are not pixels, which are "
                        "integers in 0..255 or floating-point numbers in 0..1, -0.5..0.5, -1..1 or 0..255: save the "
                        "images before they are normalised", split->images->path, npy_type_name(npy),
                        split->range.least, split->range.most);
}

static int load_split(struct npy_set *set, int number, uint32_t *classes, const atomic_bool *interrupted)
{
    const struct npy_arrays *const arrays = &set->arrays[number];
    struct npy_split *const split = &set->splits[number];
    uint32_t found = 0;

    *split = (struct npy_split){ .set = set, .images = &arrays->images, .range = { INFINITY, -INFINITY } };
    int rc = check_images(set, split->images);
    if (rc < 0)
        return rc;
    split->count = split->images->npy.dims[0];
    rc = label_array_read(&arrays->labels, split->count, &split->labels, &found, set->stop);
    if (rc < 0)
        return rc;
    *classes = found > *classes ? found : *classes;
    rc = image_array_range(split->images, &split->range, interrupted, set->stop);
    return rc < 0 ? rc : find_pixel_range(split, set->stop);
}

/* Do both splits have the same range of pixel values as their numbers together? A split with a single number, such
 * as black images, is compatible with any range. */
static bool have_same_range(const struct npy_split *one, const struct npy_split *other)
{
    const struct number_range both = { fmin(one->range.least, other->range.least),
                                       fmax(one->range.most, other->range.most) };
    const struct image_range *const pixel_range = pixel_range_of(&one->images->npy, &both);

    return pixel_range != NULL && (one->pixel_range == pixel_range || one->range.least == one->range.most) &&
           (other->pixel_range == pixel_range || other->range.least == other->range.most);
}

static int check_same_range(const struct npy_set *set, const struct npy_split *one, const struct npy_split *other)
{
    if (have_same_range(one, other))
        return 0;
    return convert_fail(set->stop, EXIT_CODE_DATA, -EBADMSG, "%s has numbers from %g to %g, which suggest pixels of "
                        "%s, but %s from %g to %g, which suggest pixels of %s: save both in the same range",
                        one->images->path, one->range.least, one->range.most, one->pixel_range->name,
                        other->images->path, other->range.least, other->range.most, other->pixel_range->name);
}

/* Print the range of pixel values. The numbers found are left out for bytes and booleans, whose range follows from
 * the type. */
static void log_pixel_range(const struct npy_set *set, const struct number_range *found)
{
    const struct array *const images = &set->arrays[NPY_TRAIN].images;
    const struct npy *const npy = &images->npy;
    char range[64] = "";

    if (!is_uint8(npy) && npy->kind != NPY_BOOL)
        snprintf(range, sizeof(range), "from %.4g to %.4g ", found->least, found->most);
    log_message(LOG_RUN, "%s: %ux%ux%u, %s%s, %s %staken as %s", images->path, set->shape.height, set->shape.width,
                set->shape.depth, npy_type_name(npy), set->shape.is_planar ? ", planes (N, C, H, W)" : "",
                npy->kind == NPY_FLOAT ? "floating-point numbers" : "numbers", range,
                npy->kind == NPY_BOOL ? "0 (False) and 255 (True)" : set->pixel_range->name);
}

/* Check that all splits have the same range of pixel values, and print it. */
static int choose_pixel_range(struct npy_set *set)
{
    struct number_range all = { INFINITY, -INFINITY };
    int rc = 0;

    for (int i = 0; i < NPY_SPLITS; i++) {
        if (!set->arrays[i].is_there)
            continue;
        for (int before = 0; before < i && rc == 0; before++)
            if (set->arrays[before].is_there)
                rc = check_same_range(set, &set->splits[before], &set->splits[i]);
        all = (struct number_range){ fmin(all.least, set->splits[i].range.least),
                                     fmax(all.most, set->splits[i].range.most) };
    }
    set->pixel_range = pixel_range_of(&set->arrays[NPY_TRAIN].images.npy, &all);
    if (rc == 0)
        log_pixel_range(set, &all);
    return rc;
}

/* Report a shape in which both the second and the last size can be the number of channels, and one of them is 3. */
static void report_axis(const struct npy_set *set)
{
    const struct array *const images = &set->arrays[NPY_TRAIN].images;
    const uint64_t *const dims = images->npy.dims;

    if (images->npy.rank == 4 && is_depth(dims[1]) && is_depth(dims[3]) && (dims[1] == 3 || dims[3] == 3))
        log_message(LOG_RUN, "%s: its shape can be read in two ways: images are taken as (N, H, W, C); if they are "
                    "(N, C, H, W), save array.transpose(0, 2, 3, 1)", images->path);
}

static int load_splits(struct npy_set *set, const struct convert_options *options, uint32_t *classes_out)
{
    uint32_t classes = 0;
    int rc = 0;

    for (int i = 0; i < NPY_SPLITS && rc == 0; i++) {
        if (set->arrays[i].is_there)
            rc = load_split(set, i, &classes, options->interrupted);
    }
    if (rc == 0)
        rc = choose_pixel_range(set);
    if (rc == 0)
        report_axis(set);
    *classes_out = classes;
    return rc;
}

static int npy_sample(void *arg, uint64_t index, void *scratch, struct example_value values_out[SAMPLE_VALUES_MAX],
                      size_t *count_out)
{
    const struct npy_split *const split = arg;
    const struct npy_set *const set = split->set;
    uint8_t *const pixels = (uint8_t *)scratch + image_array_scratch(split->images, &set->shape);

    const int rc = image_array_read(split->images, &set->shape, set->pixel_range, index, scratch, pixels, set->stop);
    if (rc == 0)
        *count_out = convert_raw_image(set->conversion, pixels, split->labels[index], values_out);
    return rc;
}

static int npy_label(void *arg, uint64_t index, void *scratch, int64_t *label_out)
{
    const struct npy_split *const split = arg;

    (void)scratch;
    *label_out = split->labels[index];
    return 0;
}

static void describe(struct npy_set *set, uint32_t classes, struct conversion *conversion)
{
    conversion->origin = "NumPy arrays";
    conversion->classes = classes;
    conversion->height = set->shape.height;
    conversion->width = set->shape.width;
    conversion->depth = set->shape.depth;
    for (int i = 0; i < NPY_SPLITS; i++) {
        if (!set->arrays[i].is_there)
            continue;
        /* Without validation images, the test images are used for validation. */
        const bool validates = i == NPY_TEST && !set->arrays[NPY_VALIDATION].is_there;
        conversion->sources[conversion->source_count++] = (struct sample_source){
            .split = validates ? "validation" : split_names[i], .record_count = set->splits[i].count,
            .scratch_bytes = image_array_scratch(set->splits[i].images, &set->shape) + image_numbers(&set->shape),
            .sample = npy_sample, .label = npy_label, .arg = &set->splits[i],
        };
    }
}

static int npy_prepare(const struct convert_options *options, struct stop *stop, struct conversion *conversion)
{
    struct npy_set *const set = conversion->state;
    uint32_t classes;

    set->conversion = conversion;
    set->stop = stop;
    int rc = open_inputs(set, options);
    if (rc == 0)
        rc = load_splits(set, options, &classes);
    if (rc == 0)
        describe(set, classes, conversion);
    return rc;
}

static void npy_release(struct conversion *conversion)
{
    struct npy_set *const set = conversion->state;

    for (int i = 0; i < NPY_SPLITS; i++) {
        array_close(&set->arrays[i].images);
        array_close(&set->arrays[i].labels);
        free(set->splits[i].labels);
    }
}

const struct converter convert_npy = {
    .name = "npy",
    .summary = "NumPy arrays of images (N,H,W, N,H,W,C or N,C,H,W; numbers in 0..255, 0..1, -0.5..0.5 or -1..1) and "
               "of labels (integers): two .npy files, two more for validation, or one .npz file",
    .inputs = "IMAGES LABELS",
    .input_count_least = 1,
    .input_count_most = 4,
    .takes_pixels = true,
    .state_bytes = sizeof(struct npy_set),
    .prepare = npy_prepare,
    .release = npy_release,
};
