/* The converter of NumPy's arrays: two .npy files, four with some to validate with, or an .npz archive. All headers
 * and labels are read and checked before anything is written; images of .npy files are read as they are written. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "stage/log.h"
#include "tools/convert/arrays/archive.h"
#include "tools/convert/arrays/image_array.h"
#include "tools/convert/arrays/label_array.h"
#include "tools/convert/convert.h"

static const char *const split_names[ARCHIVE_SPLITS] = { "train", "validation", "test" };

struct npy_split {
    const struct npy_set *set;
    const struct array *images;
    uint64_t count;
    uint32_t *labels;
    struct number_range range;          /* of the images' numbers */
    const struct image_range *meaning;  /* of them alone */
};

struct npy_set {
    const struct conversion *conversion;
    struct stop *stop;
    struct archive_arrays arrays[ARCHIVE_SPLITS];
    struct npy_split splits[ARCHIVE_SPLITS];
    struct image_shape_found shape;     /* of all splits */
    const struct image_range *meaning;  /* of all splits' numbers */
};

/* The inputs by pairs: images and labels to train with, to validate with. */
static int open_files(struct npy_set *set, const struct convert_options *options)
{
    for (size_t i = 0; i < options->input_count; i++) {
        struct archive_arrays *const arrays = &set->arrays[i / 2];
        struct array *const array = i % 2 == 0 ? &arrays->images : &arrays->labels;
        const int rc = array_open_file(array, options->inputs[i], set->stop);
        if (rc < 0)
            return rc;
        arrays->is_there = true;
    }
    return 0;
}

static int open_inputs(struct npy_set *set, const struct convert_options *options)
{
    if (archive_is_archive(options->inputs[0]) && options->input_count == 1)
        return archive_open(set->arrays, options->inputs[0], set->stop);
    for (int i = 0; i < ARCHIVE_SPLITS; i++)
        set->arrays[i].images.fd = set->arrays[i].labels.fd = -1;
    if (options->input_count % 2 == 0)
        return open_files(set, options);
    stop_fail(set->stop, EXIT_CODE_USAGE, "npy: one .npz file, or .npy files of images and of labels by turns");
    return -EINVAL;
}

/* The images of all splits have one shape and one type. */
static int check_images(struct npy_set *set, const struct array *images)
{
    const struct array *const first = &set->arrays[ARCHIVE_TRAIN].images;
    struct image_shape_found shape;

    const int rc = image_array_shape(images, &shape, set->stop);
    if (rc < 0)
        return rc;
    if (images->npy.dims[0] == 0)
        return array_fail(images, set->stop, "holds no images");
    if (images == first)
        set->shape = shape;
    if (shape.height == set->shape.height && shape.width == set->shape.width && shape.depth == set->shape.depth &&
        shape.is_planar == set->shape.is_planar && images->npy.kind == first->npy.kind &&
        images->npy.item_bytes == first->npy.item_bytes)
        return 0;
    stop_fail(set->stop, EXIT_CODE_DATA, "%s: its images are of another shape or type than those of %s", images->path,
              first->path);
    return -EBADMSG;
}

/* What the images' numbers mean, taken alone. */
static int find_meaning(struct npy_split *split, struct stop *stop)
{
    const struct npy *const npy = &split->images->npy;

    split->meaning = image_array_meaning(npy, &split->range);
    if (split->meaning != NULL)
        return 0;
    stop_fail(stop, EXIT_CODE_DATA, "%s: %s numbers from %g to %g: pixels are integers in 0..255, or floating-point in "
              "0..1, -0.5..0.5, -1..1 or 0..255; save them before they are normalised otherwise", split->images->path,
              npy_type_name(npy), split->range.least, split->range.most);
    return -EBADMSG;
}

static int load_split(struct npy_set *set, int number, uint32_t *classes, const atomic_bool *interrupted)
{
    const struct archive_arrays *const arrays = &set->arrays[number];
    struct npy_split *const split = &set->splits[number];
    uint32_t found;

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
    return rc < 0 ? rc : find_meaning(split, set->stop);
}

/* Both mean the same: alone what they mean together. One number alone, as in black images, may mean anything. */
static bool is_alike(const struct npy_split *one, const struct npy_split *other)
{
    const struct number_range both = { fmin(one->range.least, other->range.least),
                                       fmax(one->range.most, other->range.most) };
    const struct image_range *const meaning = image_array_meaning(&one->images->npy, &both);

    return meaning != NULL && (one->meaning == meaning || one->range.least == one->range.most) &&
           (other->meaning == meaning || other->range.least == other->range.most);
}

static int check_alike(const struct npy_set *set, const struct npy_split *one, const struct npy_split *other)
{
    if (is_alike(one, other))
        return 0;
    stop_fail(set->stop, EXIT_CODE_DATA, "%s has numbers from %g to %g, which are pixels of %s, and %s from %g to %g, "
              "which are pixels of %s: save both in the same range, as they were when they were uint8",
              one->images->path, one->range.least, one->range.most, one->meaning->name, other->images->path,
              other->range.least, other->range.most, other->meaning->name);
    return -EBADMSG;
}

/* Every two splits mean the same by their numbers; then so do all. */
static int choose_meaning(struct npy_set *set)
{
    struct number_range all = { INFINITY, -INFINITY };
    int rc = 0;

    for (int i = 0; i < ARCHIVE_SPLITS; i++) {
        if (!set->arrays[i].is_there)
            continue;
        for (int before = 0; before < i && rc == 0; before++)
            if (set->arrays[before].is_there)
                rc = check_alike(set, &set->splits[before], &set->splits[i]);
        all = (struct number_range){ fmin(all.least, set->splits[i].range.least),
                                     fmax(all.most, set->splits[i].range.most) };
    }
    set->meaning = image_array_meaning(&set->arrays[ARCHIVE_TRAIN].images.npy, &all);
    return rc;
}

static void tell_meaning(const struct npy_set *set)
{
    const struct array *const images = &set->arrays[ARCHIVE_TRAIN].images;

    log_message(LOG_RUN, "%s: %ux%ux%u, %s%s, %s taken as %s", images->path, set->shape.height, set->shape.width,
                set->shape.depth, npy_type_name(&images->npy), set->shape.is_planar ? ", planes (N, C, H, W)" : "",
                images->npy.kind == NPY_FLOAT ? "floating-point numbers" : "numbers",
                images->npy.kind == NPY_BOOL ? "0 (False) and 255 (True)" : set->meaning->name);
}

static int load(struct npy_set *set, const struct convert_options *options, uint32_t *classes_out)
{
    uint32_t classes = 0;
    int rc = 0;

    for (int i = 0; i < ARCHIVE_SPLITS && rc == 0; i++) {
        if (set->arrays[i].is_there)
            rc = load_split(set, i, &classes, options->interrupted);
    }
    if (rc == 0)
        rc = choose_meaning(set);
    if (rc == 0)
        tell_meaning(set);
    *classes_out = classes;
    return rc;
}

static int npy_sample(void *arg, uint64_t index, void *scratch, struct example_value values_out[SAMPLE_VALUES_MAX],
                      size_t *count_out)
{
    const struct npy_split *const split = arg;
    const struct npy_set *const set = split->set;
    uint8_t *const pixels = (uint8_t *)scratch + image_array_scratch(split->images, &set->shape);

    const int rc = image_array_read(split->images, &set->shape, set->meaning, index, scratch, pixels, set->stop);
    if (rc == 0)
        *count_out = convert_raw_image(set->conversion, pixels, split->labels[index], values_out);
    return rc;
}

static void describe(struct npy_set *set, uint32_t classes, struct conversion *conversion)
{
    const size_t pixels = (size_t)set->shape.height * set->shape.width * set->shape.depth;

    conversion->origin = "NumPy arrays";
    conversion->classes = classes;
    conversion->height = set->shape.height;
    conversion->width = set->shape.width;
    conversion->depth = set->shape.depth;
    for (int i = 0; i < ARCHIVE_SPLITS; i++) {
        if (!set->arrays[i].is_there)
            continue;
        /* Test images are what is there to validate with, unless others are. */
        const bool validates = i == ARCHIVE_TEST && !set->arrays[ARCHIVE_VALIDATION].is_there;
        conversion->sources[conversion->source_count++] = (struct sample_source){
            .split = validates ? "validation" : split_names[i], .record_count = set->splits[i].count,
            .scratch_bytes = image_array_scratch(set->splits[i].images, &set->shape) + pixels,
            .sample = npy_sample, .arg = &set->splits[i],
        };
    }
}

static int npy_prepare(const struct convert_options *options, struct stop *stop, struct conversion *conversion)
{
    struct npy_set *const set = calloc(1, sizeof(*set));
    uint32_t classes;

    conversion->state = set;
    if (set == NULL) {
        stop_fail(stop, EXIT_CODE_MEMORY, "no memory");
        return -ENOMEM;
    }
    set->conversion = conversion;
    set->stop = stop;
    int rc = open_inputs(set, options);
    if (rc == 0)
        rc = load(set, options, &classes);
    if (rc == 0)
        describe(set, classes, conversion);
    return rc;
}

static void npy_release(struct conversion *conversion)
{
    struct npy_set *const set = conversion->state;

    if (set == NULL)
        return;
    archive_close(set->arrays);
    for (int i = 0; i < ARCHIVE_SPLITS; i++)
        free(set->splits[i].labels);
    free(set);
}

const struct converter convert_npy = {
    .name = "npy",
    .summary = "NumPy arrays of images (N,H,W, N,H,W,C or N,C,H,W; numbers in 0..255, 0..1, -0.5..0.5 or -1..1) and "
               "of labels (integers): two .npy files, two more to validate with, or instead one .npz file",
    .inputs = "IMAGES LABELS",
    .input_count_least = 1,
    .input_count_most = 4,
    .prepare = npy_prepare,
    .release = npy_release,
};
