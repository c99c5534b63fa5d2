/* Makes dataset.json. Called by the main thread when the shards are on the disk. */
#include "tools/convert/set_description.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/json.h"
#include "loader/images/pixel_survey.h"
#include "stage/log.h"
#include "stage/text/utf8.h"
#include "tools/lib/version.h"

/* Smallest plausible standard deviation of pixels in 0 to 255: photographs have 50 to 70, white digits on black 80;
 * images with only 0 and 1 have at most 0.5. */
#define DEVIATION_LEAST 3.0

/* A class name, and its text in JSON, which is owned. */
struct written_name {
    const char *name;
    char *text;
};

static bool may_change_in_json(const char *name)
{
    const size_t bytes = strlen(name);
    return utf8_valid_bytes(name, bytes) < bytes || strstr(name, "\xef\xbf\xbd") != NULL;
}

/* Returns the text, to be freed; NULL if out of memory. Releases the JSON. */
static char *take_text(struct json *json)
{
    const char *const text = json_text(json);
    char *const copy = text != NULL ? strdup(text) : NULL;
    json_release(json);
    return copy;
}

/* The name as JSON, to be freed; NULL if out of memory. */
static char *written(const char *name)
{
    struct json json;

    json_init(&json, false);
    json_open_array(&json, NULL);
    json_quoted(&json, NULL, name);
    json_close_array(&json);
    return take_text(&json);
}

static int compare_written(const void *left, const void *right)
{
    const struct written_name *const a = left, *const b = right;
    return strcmp(a->text, b->text);
}

/* Performs set_description_check for `count` names. */
static int check_written(struct written_name *names, size_t count, const char *converter, struct stop *stop)
{
    qsort(names, count, sizeof(*names), compare_written);
    for (size_t i = 1; i < count; i++) {
        if (compare_written(&names[i - 1], &names[i]) != 0)
            continue;
        return convert_fail(stop, EXIT_CODE_DATA, -EBADMSG, "%s: two class names are the same in UTF-8, '%s' and '%s': "
                            "rename one", converter, names[i - 1].name, names[i].name);
    }
    return 0;
}

int set_description_check(const struct conversion *conversion, struct stop *stop)
{
    const uint32_t classes = conversion->class_names != NULL ? conversion->classes : 0;
    struct written_name *const names = calloc(classes + (size_t)1, sizeof(*names));
    size_t count = 0;
    int rc = names != NULL ? 0 : -ENOMEM;

    for (uint32_t i = 0; i < classes && rc == 0; i++) {
        const char *const name = conversion->class_names[i];
        if (!may_change_in_json(name))
            continue;
        names[count] = (struct written_name){ name, written(name) };
        rc = names[count++].text != NULL ? 0 : -ENOMEM;
    }
    if (rc < 0)
        stop_fail(stop, EXIT_CODE_MEMORY, "no memory for the names of classes");
    else
        rc = check_written(names, count, conversion->name, stop);
    for (size_t i = 0; i < count; i++)
        free(names[i].text);
    free(names);
    return rc;
}

static void describe_file(struct json *json, const struct shard_file *file)
{
    char hash[17];

    snprintf(hash, sizeof(hash), "%016" PRIx64, file->content_hash);
    json_open_object(json, NULL);
    json_quoted(json, "file", file->name);
    json_u64(json, "records", file->record_count);
    json_u64(json, "bytes", file->bytes);
    json_quoted(json, "xxh3", hash);
    json_close_object(json);
}

static void describe_split(struct json *json, const struct shard_set *set, const struct sample_source *source)
{
    json_open_object(json, source->split);
    json_u64(json, "records", source->record_count);
    json_open_array(json, "shards");
    for (size_t i = 0; i < set->file_count; i++) {
        if (set->files[i].source == source)
            describe_file(json, &set->files[i]);
    }
    json_close_array(json);
    json_close_object(json);
}

/* Write a statistic of raw training images, one number for each channel. */
static void describe_pixels(struct json *json, const char *key, const struct pixel_sums *sums,
                            double (*number)(const struct pixel_sums *sums, uint32_t channel))
{
    json_open_array(json, key);
    for (uint32_t c = 0; c < sums->channels; c++)
        json_double(json, NULL, number(sums, c));
    json_close_array(json);
}

/* Merge the summaries of the files of one source; of all files if it is NULL. */
static struct image_summary summarize_images(const struct shard_set *set, const struct sample_source *source)
{
    struct image_summary summary = { 0 };

    for (size_t i = 0; i < set->file_count; i++) {
        if (source == NULL || set->files[i].source == source)
            image_summary_merge(&summary, &set->files[i].images);
    }
    return summary;
}

/* Write how the images were changed. */
static void describe_change(struct json *json, const struct image_change *change)
{
    if (change->is_upright)
        json_bool(json, "upright", true);
    if (change->short_side > 0)
        json_u64(json, "resize_short", change->short_side);
    if ((change->short_side > 0 || change->is_upright) && !change->is_raw)
        json_u64(json, "quality", change->quality);
}

static void describe_image(struct json *json, const struct conversion *conversion, const struct shard_set *set,
                           const struct image_change *change)
{
    const struct image_summary all = summarize_images(set, NULL), train = summarize_images(set, &set->spec.sources[0]);
    const char *const encoding = image_summary_encoding(&all);

    json_open_object(json, "image");
    json_quoted(json, "key", conversion->image_key);
    if (encoding != NULL)
        json_quoted(json, "encoding", encoding);
    if (all.height > 0) {
        json_u64(json, "height", all.height);
        json_u64(json, "width", all.width);
        json_u64(json, "depth", all.channels);
    }
    describe_change(json, change);
    if (encoding != NULL && train.pixels.count > 0) {
        describe_pixels(json, "mean", &train.pixels, pixel_sums_mean);
        describe_pixels(json, "deviation", &train.pixels, pixel_sums_deviation);
    }
    json_close_object(json);
}

static void describe_classes(struct json *json, const struct conversion *conversion)
{
    if (conversion->classes > 0)
        json_u64(json, "classes", conversion->classes);
    if (conversion->class_names == NULL)
        return;
    json_open_array(json, "class_names");
    for (uint32_t i = 0; i < conversion->classes; i++)
        json_quoted(json, NULL, conversion->class_names[i]);
    json_close_array(json);
}

/* List the images that were left out because they cannot be read. */
static void describe_left_out(struct json *json, const struct left_out *left_out)
{
    if (left_out->count == 0)
        return;
    json_open_object(json, "left_out");
    json_u64(json, "images", left_out->count);
    json_open_array(json, "first");
    for (size_t i = 0; i < left_out->listed; i++)
        json_quoted(json, NULL, left_out->first[i]);
    json_close_array(json);
    json_close_object(json);
}

static void describe(struct json *json, const struct conversion *conversion, const struct shard_set *set,
                     const struct convert_options *options)
{
    json_open_object(json, NULL);
    json_quoted(json, "name", conversion->name);
    json_quoted(json, "origin", conversion->origin);
    json_quoted(json, "writer", CONVERT_PROGRAM " " PIPETRAIN_VERSION);
    json_u64(json, "seed", options->seed);
    describe_classes(json, conversion);
    if (conversion->label_key != NULL)
        json_quoted(json, "label_key", conversion->label_key);
    if (conversion->image_key != NULL)
        describe_image(json, conversion, set, &options->change);
    describe_left_out(json, &conversion->left_out);
    json_open_object(json, "splits");
    for (size_t i = 0; i < conversion->source_count; i++)
        describe_split(json, set, &conversion->sources[i]);
    json_close_object(json);
    json_close_object(json);
}

/* Are all images dark? Their brightest pixel may be white if the images have fewer than 8 bits. */
static bool are_dark(const struct image_summary *summary)
{
    const uint32_t least = summary->pixels.count > 0 ? PIXELS_DARK : PIXELS_NEARLY_BLACK;

    return summary->looked_at >= PIXELS_WARNED_IMAGES && summary->brightest > 0 && summary->brightest < least;
}

static void warn_of_darkness(const struct image_summary *summary, const char *split, const char *output)
{
    if (are_dark(summary))
        log_message(LOG_RUN, "%s: the %s images are dark: their brightest pixel is %u of 255; if that is white, as in "
                    "images of fewer than 8 bits%s, scale the numbers to 0 ... 255", output, split, summary->brightest,
                    summary->pixels.count > 0 ? "" : " or of 10 to 12 bits stored in 16");
}

/* Warn if the pixels hardly differ. Returns whether they do. */
static bool warn_of_blackness(const struct pixel_sums *pixels, const char *split, const char *output)
{
    double mean = 0, deviation = 0;

    for (uint32_t c = 0; c < pixels->channels && pixels->count > 0; c++) {
        mean += pixel_sums_mean(pixels, c) / pixels->channels;
        deviation = fmax(deviation, pixel_sums_deviation(pixels, c));
    }
    if (pixels->count == 0 || deviation >= DEVIATION_LEAST)
        return false;
    log_message(LOG_RUN, "%s: the %s images are nearly %s: pixels in 0 ... 255 have a mean of %.3g and a standard "
                "deviation of %.2g; if the pixels are in 0 ... 1, save them as floating-point numbers or multiply "
                "them by 255", output, split, mean < DEVIATION_LEAST ? "black" : "of one colour", mean, deviation);
    return true;
}

void set_description_warn(const struct shard_set *set, const char *output)
{
    for (size_t i = 0; i < set->spec.source_count; i++) {
        const struct sample_source *const source = &set->spec.sources[i];
        const struct image_summary summary = summarize_images(set, source);
        if (!warn_of_blackness(&summary.pixels, source->split, output))
            warn_of_darkness(&summary, source->split, output);
    }
}

char *set_description(const struct conversion *conversion, const struct shard_set *set,
                      const struct convert_options *options)
{
    struct json json;

    json_init(&json, true);
    describe(&json, conversion, set, options);
    return take_text(&json);
}
