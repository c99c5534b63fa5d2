/* The converter of shards that are there: other numbers of shards, another order, another compression, samples held
 * out. What records hold stays as it is, to the byte, but for images that are to be changed. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/manifest.h"
#include "loader/dataset_shards.h"
#include "loader/shards/shard_list.h"
#include "loader/shards/text.h"
#include "stage/file/file.h"
#include "stage/log.h"
#include "tools/convert/convert.h"
#include "tools/convert/records/in_place.h"
#include "tools/convert/records/record_set.h"
#include "tools/convert/set_commit.h"

#define SPLITS 3u
#define INPUTS_MAX 2u

static const char *const split_names[SPLITS] = { "train", "validation", "test" };

struct tfrecord_split {
    struct record_set records;
    struct stop *stop;
};

struct tfrecord_set {
    struct tfrecord_split splits[SPLITS];
    struct manifest manifest;   /* that lies beside the shards to train with, or empty */
};

static int tfrecord_payload(void *arg, uint64_t index, void *scratch, const uint8_t **payload_out, size_t *bytes_out)
{
    const struct tfrecord_split *const split = arg;
    return record_set_read(&split->records, index, scratch, payload_out, bytes_out, split->stop);
}

static void tfrecord_name(void *arg, uint64_t index, char *text, size_t text_size)
{
    const struct tfrecord_split *const split = arg;
    record_set_name(&split->records, index, text, text_size);
}

static int find_shards(struct shard_list *list, const char *input, const char *split, struct stop *stop)
{
    char buffer[4096];
    struct text problems;

    text_init(&problems, buffer, sizeof(buffer));
    const int rc = shard_list_find(list, input, split, &problems);
    if (rc < 0)
        stop_fail(stop, exit_code_of(rc, EXIT_CODE_DATA), "%s", buffer);
    return rc;
}

static enum split split_of_path(const char *path)
{
    const char *const slash = strrchr(path, '/');
    return split_of_name(slash != NULL ? slash + 1 : path);
}

/* The sets that names in a folder tell of, a bit for each of enum split; none of anything else. */
static unsigned named_splits(const char *input)
{
    struct shard_list list = { 0 };
    unsigned splits = 0;

    if (shard_list_folder(&list, input) == 0) {
        for (uint32_t i = 0; i < list.count; i++)
            splits |= 1u << split_of_path(list.paths[i]);
    }
    shard_list_release(&list);
    return splits;
}

/* A folder's shards to test with, where they do not stand in for those to validate with. */
static int find_tests(struct shard_list *list_out, const char *input, struct stop *stop)
{
    struct shard_list list = { 0 };
    uint32_t kept = 0;
    const int rc = shard_list_folder(&list, input);

    if (rc < 0) {
        shard_list_release(&list);
        stop_fail(stop, exit_code_of(rc, EXIT_CODE_DATA), "%s: %s", input, exit_cause(rc));
        return rc;
    }
    for (uint32_t i = 0; i < list.count; i++) {
        if (split_of_path(list.paths[i]) == SPLIT_TEST)
            list.paths[kept++] = list.paths[i];
        else
            free(list.paths[i]);
    }
    list.count = kept;
    *list_out = list;
    return 0;
}

/* For records that are put into another order. */
static int keep_streams(struct record_set *records, const char *input, const struct convert_options *options,
                        struct stop *stop)
{
    bool all = true;
    const int rc = record_set_keep(records, options->interrupted, &all, stop);
    if (rc == 0 && !all)
        log_message(LOG_RUN, "%s: compressed, and too large to keep unpacked: another order of records takes long, "
                    "--shuffle=none does not", input);
    return rc;
}

static int open_split(struct conversion *conversion, const char *input, const struct convert_options *options,
                      struct stop *stop)
{
    struct tfrecord_set *const set = conversion->state;
    struct tfrecord_split *const split = &set->splits[conversion->source_count];
    const char *const name = split_names[conversion->source_count];
    struct shard_list list;

    split->stop = stop;
    int rc = strcmp(name, "test") == 0 ? find_tests(&list, input, stop) : find_shards(&list, input, name, stop);
    if (rc == 0)
        rc = record_set_open(&split->records, &list, options->interrupted, stop);
    if (rc == 0 && !options->keeps_order)
        rc = keep_streams(&split->records, input, options, stop);
    if (rc == 0 && split->records.record_count == 0) {
        stop_fail(stop, EXIT_CODE_DATA, "%s: holds no records", input);
        rc = -ENODATA;
    }
    if (rc < 0)
        return rc;
    conversion->sources[conversion->source_count++] = (struct sample_source){
        .split = name, .record_count = split->records.record_count, .bytes = split->records.bytes,
        .scratch_bytes = record_set_frame_bytes(&split->records), .payload = tfrecord_payload,
        .name = tfrecord_name, .arg = split,
    };
    return 0;
}

/* Read the manifest beside a shard where there is one that lists it; one that cannot be read is none. 0 or -ENOMEM. */
static int read_manifest(struct manifest *manifest, const char *shard)
{
    const char *const slash = strrchr(shard, '/'), *const name = slash != NULL ? slash + 1 : shard;
    char *path, *text = NULL, problem[256];
    size_t bytes;

    if (asprintf(&path, "%.*s" MANIFEST_FILE, (int)(name - shard), shard) < 0)
        return -ENOMEM;
    int rc = file_load(path, MANIFEST_BYTES_MAX, &text, &bytes);
    if (rc == 0)
        rc = manifest_read(manifest, text, bytes, problem, sizeof(problem));
    if (rc == 0 && manifest_find(manifest, name) == NULL)
        manifest_release(manifest);
    free(text);
    free(path);
    return rc == -ENOMEM ? rc : 0;
}

/* What is known of the shards stays known: the keys of features, unless others are given, and the names of classes. */
static int take_over_manifest(struct conversion *conversion, const struct convert_options *options, struct stop *stop)
{
    struct tfrecord_set *const set = conversion->state;
    const int rc = read_manifest(&set->manifest, set->splits[0].records.list.paths[0]);

    if (rc < 0) {
        stop_fail(stop, EXIT_CODE_MEMORY, "no memory");
        return rc;
    }
    conversion->image_key = options->image_key != NULL ? options->image_key : set->manifest.image_key;
    conversion->label_key = options->label_key != NULL ? options->label_key : set->manifest.label_key;
    conversion->class_names = (const char *const *)set->manifest.class_names;
    conversion->classes = (uint32_t)set->manifest.class_count;
    return 0;
}

/* What the folder of the input, and that of the output, hold besides the shards that are converted. */
static int look_beside(const struct conversion *conversion, const char *output, struct stop *stop)
{
    const struct tfrecord_set *const set = conversion->state;
    struct shard_list lists[SPLITS];

    for (size_t i = 0; i < SPLITS; i++)
        lists[i] = set->splits[i].records.list;
    const int rc = left_out_report(lists, SPLITS);
    if (rc < 0)
        stop_fail(stop, EXIT_CODE_MEMORY, "no memory");
    return rc < 0 ? rc : in_place_check(lists, SPLITS, output, set->manifest.count > 0, stop);
}

/* A directory in which a set was being put in place holds two halves until that is finished. */
static int finish_begun(const struct convert_options *options, struct stop *stop)
{
    int rc = 0;

    for (size_t i = 0; i < options->input_count && rc == 0; i++)
        rc = set_commit_resume_in(options->inputs[i], stop);
    return rc;
}

static int tfrecord_prepare(const struct convert_options *options, struct stop *stop, struct conversion *conversion)
{
    int rc = finish_begun(options, stop);
    if (rc < 0)
        return rc;
    static const unsigned validation = 1u << SPLIT_VALIDATION, test = 1u << SPLIT_TEST;
    const char *const last = options->inputs[options->input_count - 1];
    const unsigned named = options->input_count == 1 ? named_splits(last) & (validation | test) : validation;

    conversion->state = calloc(1, sizeof(struct tfrecord_set));
    if (conversion->state == NULL) {
        stop_fail(stop, EXIT_CODE_MEMORY, "no memory");
        return -ENOMEM;
    }
    conversion->origin = "TFRecord shards";
    rc = open_split(conversion, options->inputs[0], options, stop);
    if (rc == 0)
        rc = take_over_manifest(conversion, options, stop);
    if (rc == 0 && named != 0)
        rc = open_split(conversion, last, options, stop);
    if (rc == 0 && named == (validation | test))
        rc = open_split(conversion, last, options, stop);
    return rc < 0 ? rc : look_beside(conversion, options->output, stop);
}

static void tfrecord_release(struct conversion *conversion)
{
    struct tfrecord_set *const set = conversion->state;

    if (set == NULL)
        return;
    for (size_t i = 0; i < SPLITS; i++)
        record_set_close(&set->splits[i].records);
    manifest_release(&set->manifest);
    free(set);
}

const struct converter convert_tfrecord = {
    .name = "tfrecord",
    .summary = "shards that are there, compressed or not: a folder, a file or a glob, and another one for validation "
               "where it is no folder of both; records stay as they are, "
               "but for images that are to be changed",
    .inputs = "SHARDS [SHARDS]",
    .input_count_least = 1,
    .input_count_most = INPUTS_MAX,
    .takes = CONVERT_IMAGES | CONVERT_QUALITY | CONVERT_KEYS,
    .prepare = tfrecord_prepare,
    .release = tfrecord_release,
};
