/* The converter of existing shards: changes their number, order or compression, or makes a validation split. The
 * bytes of records do not change, except where images are resized or decoded. Prepared by the main thread; any
 * thread reads records. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <xxhash.h>

#include "formats/manifest.h"
#include "formats/tfrecord.h"
#include "loader/class_census.h"
#include "loader/class_text.h"
#include "loader/dataset_shards.h"
#include "loader/sample.h"
#include "loader/set_names.h"
#include "loader/shard_counts.h"
#include "loader/shards/shard_index.h"
#include "loader/shards/shard_list.h"
#include "loader/shards/shard_source.h"
#include "loader/shards/text.h"
#include "stage/file/file.h"
#include "stage/log.h"
#include "tools/convert/convert.h"
#include "tools/lib/text/progress.h"

/* ---- the records of all shards as one list ---- */

#define RECORD_SET_KEPT_MAX ((uint64_t)1 << 30)

struct record_shard {
    struct shard_source *source;
    struct shard_index index;
    uint64_t first;             /* index of its first record in the set */
    uint8_t *stream;            /* the decompressed shard, if it is kept in memory; else NULL */
};

/* Compares the class texts of all records with the class names or, without class names, with each other. */
struct text_check {
    pthread_mutex_t lock;       /* protects text_counts and census */
    struct class_text_counts text_counts;
    struct class_census census;
    struct class_texts texts;   /* constant while records are read */
};

struct record_set {
    struct shard_list list;
    struct record_shard *shards;    /* one for each path of the list */
    uint64_t record_count;
    uint64_t bytes;             /* of the frames of all records */
    uint32_t payload_bytes_max;
    const char *label_key;      /* NULL: one of the usual names */
    const atomic_bool *interrupted;
    struct stop *stop;
    struct text_check *check;
    uint64_t first_number;      /* number of the first record, counted over all splits */
};

#define CHUNK_BYTES ((uint64_t)16 << 20)

static int open_shard(struct record_set *set, uint32_t number)
{
    const struct shard_index_options options = { .is_unwanted = set->interrupted };
    struct record_shard *const shard = &set->shards[number];
    char problem[4096];

    int rc = shard_source_open(&shard->source, NULL, set->list.paths[number]);
    if (rc < 0)
        return convert_fail(set->stop, EXIT_CODE_DATA, rc, "%s: cannot be read: %s", set->list.paths[number],
                            exit_cause(rc));
    rc = shard_index_open(&shard->index, shard->source, &options, problem, sizeof(problem));
    if (rc < 0)
        return rc == -ECANCELED ? rc : convert_fail(set->stop, EXIT_CODE_DATA, rc, "%s", problem);
    shard->first = set->record_count;
    set->record_count += shard->index.record_count;
    set->bytes += shard->index.end;
    const uint32_t longest = shard_index_longest(&shard->index);
    set->payload_bytes_max = longest > set->payload_bytes_max ? longest : set->payload_bytes_max;
    return 0;
}

/* The size of a file; 0 if it is missing, because opening it later reports the error. */
static uint64_t file_bytes(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 ? (uint64_t)status.st_size : 0;
}

static int open_shards(struct record_set *set)
{
    struct progress progress;
    uint64_t bytes = 0;
    int rc = 0;

    for (uint32_t i = 0; i < set->list.count; i++)
        bytes += file_bytes(set->list.paths[i]);
    progress_begin_bytes(&progress, "indexing records", bytes);
    for (uint32_t i = 0; i < set->list.count && rc == 0; i++) {
        rc = open_shard(set, i);
        progress_add(&progress, file_bytes(set->list.paths[i]));
    }
    progress_end(&progress);
    return rc;
}

/* Takes ownership of the list. */
static int record_set_open(struct record_set *set, const struct shard_list *list, const atomic_bool *interrupted,
                           struct stop *stop)
{
    *set = (struct record_set){ .list = *list, .interrupted = interrupted, .stop = stop };
    set->shards = calloc(set->list.count + 1, sizeof(*set->shards));
    if (set->shards == NULL)
        return convert_fail(stop, EXIT_CODE_MEMORY, -ENOMEM, "no memory for %u shards", set->list.count);
    return open_shards(set);
}

/* Decompress a shard into its buffer. */
static int read_stream(const struct record_set *set, struct record_shard *shard)
{
    const uint64_t all = shard->index.bytes;

    for (uint64_t at = 0; at < all;) {
        const size_t bytes = all - at < CHUNK_BYTES ? (size_t)(all - at) : CHUNK_BYTES;
        if (atomic_load(set->interrupted))
            return -ECANCELED;
        const ssize_t got = shard_source_read(shard->source, shard->stream + at, bytes, at);
        if (got != (ssize_t)bytes)
            return convert_fail(set->stop, EXIT_CODE_DATA, got < 0 ? (int)got : -EBADMSG, "%s: cannot be read: %s",
                                shard->source->path, got < 0 ? exit_cause((int)got) : "it was truncated");
        at += bytes;
    }
    return 0;
}

/* Total size of all compressed shards after decompression. */
static uint64_t packed_bytes(const struct record_set *set)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < set->list.count; i++)
        bytes += set->shards[i].source->ops->is_plain ? 0 : set->shards[i].index.bytes;
    return bytes;
}

/* Decompress as many compressed shards into memory as RECORD_SET_KEPT_MAX allows; *all_out: all of them fit. */
static int record_set_keep(struct record_set *set, bool *all_out)
{
    uint64_t left = RECORD_SET_KEPT_MAX;
    struct progress progress;
    bool all = true;
    int rc = 0;

    progress_begin_bytes(&progress, "decompressing", packed_bytes(set));
    for (uint32_t i = 0; i < set->list.count && rc == 0; i++) {
        struct record_shard *const shard = &set->shards[i];
        if (shard->source->ops->is_plain)
            continue;
        shard->stream = shard->index.bytes <= left ? malloc(shard->index.bytes + 1) : NULL;
        if (shard->stream != NULL) {
            left -= shard->index.bytes;
            rc = read_stream(set, shard);
        } else {
            all = false;
        }
        progress_add(&progress, shard->index.bytes);
    }
    progress_end(&progress);
    *all_out = all;
    return rc;
}

static void record_set_close(struct record_set *set)
{
    for (uint32_t i = 0; set->shards != NULL && i < set->list.count; i++) {
        free(set->shards[i].stream);
        shard_index_release(&set->shards[i].index);
        shard_source_close(set->shards[i].source);
    }
    free(set->shards);
    shard_list_release(&set->list);
    *set = (struct record_set){ 0 };
}

/* The shard that contains a record: the last one whose first record is at or before it. */
static const struct record_shard *find_shard(const struct record_set *set, uint64_t number)
{
    uint32_t low = 0, high = set->list.count;

    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (set->shards[middle].first <= number)
            low = middle;
        else
            high = middle;
    }
    return &set->shards[low];
}

static void record_set_name(void *arg, uint64_t number, char *text, size_t text_size)
{
    const struct record_set *const set = arg;
    const struct record_shard *const shard = find_shard(set, number);
    const uint64_t record = number - shard->first;

    snprintf(text, text_size, "%s: record %" PRIu64 " at byte %" PRIu64, shard->source->path, record,
             shard_index_find(&shard->index, record).offset);
}

static int record_set_read(void *arg, uint64_t number, void *frame, const uint8_t **payload_out, size_t *bytes_out)
{
    const struct record_set *const set = arg;
    const struct record_shard *const shard = find_shard(set, number);
    const uint64_t record = number - shard->first;
    const struct shard_record position = shard_index_find(&shard->index, record);
    struct tfrecord_problem problem;
    uint64_t payload_bytes;

    const size_t frame_bytes = (size_t)position.payload_bytes + TFRECORD_FRAME_BYTES;
    const uint8_t *const at = shard->stream != NULL ? shard->stream + position.offset : frame;
    const ssize_t got = shard->stream != NULL ? (ssize_t)frame_bytes
                                              : shard_source_read(shard->source, frame, frame_bytes, position.offset);
    if (got < 0)
        return convert_fail(set->stop, EXIT_CODE_DATA, (int)got, "%s: record %" PRIu64 " cannot be read: %s",
                            shard->source->path, record, exit_cause((int)got));
    const enum tfrecord_check check = tfrecord_verify(at, (size_t)got, &payload_bytes, &problem);
    if (check != TFRECORD_OK) {
        char name[4096], text[256];
        record_set_name(arg, number, name, sizeof(name));
        frame_problem_describe(check, &problem, text, sizeof(text));
        return convert_fail(set->stop, EXIT_CODE_DATA, -EBADMSG, "%s: %s", name, text);
    }
    *payload_out = at + TFRECORD_HEADER_BYTES;
    *bytes_out = (size_t)payload_bytes;
    return 0;
}

/* A number that identifies the class of a label, which may be of any type. */
static int64_t class_of(const struct feature *feature)
{
    if (feature->kind == FEATURE_INT64S && feature->value_count == 1)
        return feature->int64;
    if (feature->kind == FEATURE_BYTES && feature->value_count == 1)
        return (int64_t)XXH3_64bits(feature->bytes, feature->byte_count);
    return feature->kind == FEATURE_MISSING ? INT64_MIN
                                            : (int64_t)XXH3_64bits(feature->entry, feature->entry_bytes);
}

/* The label's feature. If it is missing or cannot be read, the kind is FEATURE_MISSING: readers report that. */
static struct feature find_label(const struct record_set *set, const uint8_t *payload, size_t bytes)
{
    const char *const only[] = { set->label_key, NULL };
    const char *const *const names = set->label_key != NULL ? only : sample_key_names[SAMPLE_LABEL];
    struct feature feature = { .kind = FEATURE_MISSING };
    const char *name;
    size_t bad_offset;

    if (sample_key_find(names, payload, bytes, &name, &feature, &bad_offset) < 0 || name == NULL)
        feature.kind = FEATURE_MISSING;
    return feature;
}

static int record_set_label(void *arg, uint64_t number, void *scratch, int64_t *label_out)
{
    const struct record_set *const set = arg;
    const uint8_t *payload;
    size_t bytes;

    const int rc = record_set_read(arg, number, scratch, &payload, &bytes);
    if (rc < 0)
        return rc;
    const struct feature feature = find_label(set, payload, bytes);
    *label_out = class_of(&feature);
    return 0;
}

/* Read a record, and compare its class text with the name of its class. */
static int record_set_payload(void *arg, uint64_t number, void *frame, const uint8_t **payload_out, size_t *bytes_out)
{
    const struct record_set *const set = arg;
    struct text_check *const check = set->check;
    struct class_text_counts text_counts = { .wrong = 0 };

    const int rc = record_set_read(arg, number, frame, payload_out, bytes_out);
    if (rc < 0)
        return rc;
    const uint64_t record = set->first_number + number;
    const struct feature label = find_label(set, *payload_out, *bytes_out);
    const bool has_names = check->texts.folded.count > 0;
    if (label.kind != FEATURE_INT64S || label.value_count != 1)
        return 0;
    if (has_names)
        class_texts_compare(&check->texts, record, label.int64, *payload_out, *bytes_out, &text_counts);
    pthread_mutex_lock(&check->lock);
    if (has_names)
        class_text_counts_join(&check->text_counts, &text_counts);
    const int result = has_names ? 0 : class_census_add(&check->census, record, label.int64, *payload_out, *bytes_out);
    pthread_mutex_unlock(&check->lock);
    return result < 0 ? convert_fail(set->stop, EXIT_CODE_MEMORY, result, "no memory for the names of classes") : 0;
}

/* ---- converting in place ---- */

/* The shards in the output folder: are all of them inputs? */
struct output_scan {
    struct file_identity *inputs; /* sorted */
    size_t input_count, found_count;
    char other[NAME_MAX + 1];   /* name of the first shard (in order of names) that is not an input; "": none */
    bool has_manifest;
};

/* Find the identities of all input files. 0 or -ENOMEM. */
static int identify_all(struct output_scan *scan, const struct shard_list *lists, uint32_t count)
{
    struct stat status;
    size_t room = 1;

    for (uint32_t i = 0; i < count; i++)
        room += lists[i].count;
    scan->inputs = calloc(room, sizeof(*scan->inputs));
    if (scan->inputs == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t p = 0; p < lists[i].count; p++)
            if (stat(lists[i].paths[p], &status) == 0)
                scan->inputs[scan->input_count++] = file_identity_of(&status);
    qsort(scan->inputs, scan->input_count, sizeof(*scan->inputs), file_identity_compare);
    return 0;
}

static bool is_input(const struct output_scan *scan, const struct set_folder *folder, const char *name)
{
    struct stat status;

    if (fstatat(folder->fd, name, &status, 0) != 0)
        return false;
    const struct file_identity identity = file_identity_of(&status);
    return bsearch(&identity, scan->inputs, scan->input_count, sizeof(identity), file_identity_compare) != NULL;
}

static int scan_entry(const struct set_folder *folder, const char *name, void *arg)
{
    struct output_scan *const scan = arg;

    scan->has_manifest |= strcmp(name, MANIFEST_FILE) == 0;
    if (!set_folder_is_shard(name))
        return 0;
    if (is_input(scan, folder, name))
        scan->found_count++;
    else if (scan->other[0] == '\0' || strcmp(name, scan->other) < 0)
        snprintf(scan->other, sizeof(scan->other), "%s", name);
    return 0;
}

static int check_scan(const struct output_scan *scan, const struct set_folder *folder, bool is_described)
{
    if (scan->found_count == 0)
        return 0;
    if (scan->other[0] != '\0')
        stop_fail(folder->stop, EXIT_CODE_USAGE, "%s/%s: is not an input, and would be removed with the shards next to "
                  "it that are: convert all of %s, or choose another directory", folder->path, scan->other,
                  folder->path);
    else if (scan->has_manifest && !is_described)
        stop_fail(folder->stop, EXIT_CODE_USAGE, "%s/" MANIFEST_FILE ": does not describe the shards next to it, and "
                  "would be replaced with them: move it away, or choose another directory", folder->path);
    else
        return 0;
    return -EINVAL;
}

/* Check that writing to `output` replaces only shards that are converted, and the manifest that describes them. */
static int in_place_check(const struct shard_list *lists, uint32_t count, const char *output, bool is_described,
                          struct stop *stop)
{
    struct set_folder folder = { .path = output, .advice = "", .stop = stop };
    struct output_scan scan = { 0 };

    folder.fd = open(output, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder.fd < 0)
        return 0;               /* the folder does not exist; if it is not a folder, creating it reports the error */
    int rc = identify_all(&scan, lists, count);
    if (rc < 0)
        stop_fail(stop, EXIT_CODE_MEMORY, "no memory for the list of shards");
    else
        rc = set_folder_visit(&folder, scan_entry, &scan);
    if (rc == 0)
        rc = check_scan(&scan, &folder, is_described);
    free(scan.inputs);
    set_folder_close(&folder);
    return rc;
}

/* ---- the converter ---- */

#define SPLITS 3u
#define INPUTS_MAX 2u

static const char *const split_names[SPLITS] = { "train", "validation", "test" };

struct tfrecord_set {
    struct record_set splits[SPLITS];
    struct shard_counts counts; /* the manifests in the folders of the shards */
    struct set_names names;     /* names of the classes, common to all splits */
    const char **class_names;   /* one for each class; NULL: classes have no names */
    struct text_check check;
    bool is_described;          /* the first training shard is listed in dataset.json */
};

static int find_shards(struct shard_list *list, const char *input, const char *split, struct stop *stop)
{
    char buffer[4096];
    struct text problems;

    text_init(&problems, buffer, sizeof(buffer));
    const int rc = shard_list_find(list, input, split, &problems);
    return rc < 0 ? convert_fail(stop, EXIT_CODE_DATA, rc, "%s", buffer) : 0;
}

static int report_memory(struct stop *stop)
{
    return convert_fail(stop, EXIT_CODE_MEMORY, -ENOMEM, "no memory");
}

/* Check by their names that the shards belong to one set, unless they are listed in a manifest. */
static int check_names(struct shard_counts *counts, const struct shard_list *list, const char *split, struct stop *stop)
{
    char buffer[4096];
    struct text problems;
    const struct manifest_shard *listed = NULL;
    int rc = list->count > 0 ? shard_counts_find(counts, list->paths[0], &listed) : 0;

    text_init(&problems, buffer, sizeof(buffer));
    if (rc == 0 && listed == NULL)
        rc = shard_list_check_names(list, split, &problems);
    return rc == -EINVAL ? convert_fail(stop, EXIT_CODE_DATA, rc, "%s", buffer) : rc < 0 ? report_memory(stop) : 0;
}

static enum split split_of_path(const char *path)
{
    return split_of_name(shard_base_name(path));
}

/* The splits that occur in the names of shards in a folder, as one bit for each value of enum split; 0 if it is not
 * a folder. */
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

/* List the test shards of a folder. */
static int find_tests(struct shard_list *list_out, const char *input, struct stop *stop)
{
    struct shard_list list = { 0 };
    uint32_t kept = 0;
    const int rc = shard_list_folder(&list, input);

    if (rc < 0) {
        shard_list_release(&list);
        return convert_fail(stop, EXIT_CODE_DATA, rc, "%s: %s", input, exit_cause(rc));
    }
    for (uint32_t i = 0; i < list.count; i++) {
        if (split_of_path(list.paths[i]) == SPLIT_TEST)
            list.paths[kept++] = list.paths[i];
        else
            free(list.paths[i]);
    }
    list.count = kept;
    list.is_folder = true;
    *list_out = list;
    return 0;
}

/* Random reads of compressed shards are slow, so the shards are decompressed into memory. */
static int keep_streams(struct record_set *records, const char *input)
{
    bool all = true;
    const int rc = record_set_keep(records, &all);
    if (rc == 0 && !all)
        log_message(LOG_RUN, "%s: too large to keep decompressed in memory: shuffling takes long; --shuffle=none is "
                    "faster", input);
    return rc;
}

static int open_split(struct conversion *conversion, const char *input, const struct convert_options *options,
                      struct stop *stop)
{
    struct tfrecord_set *const set = conversion->state;
    struct record_set *const records = &set->splits[conversion->source_count];
    const char *const name = split_names[conversion->source_count];
    struct shard_list list;

    int rc = strcmp(name, "test") == 0 ? find_tests(&list, input, stop) : find_shards(&list, input, name, stop);
    if (rc == 0 && strcmp(name, "train") == 0)
        shard_list_report_other_split(&list);
    if (rc == 0)
        rc = record_set_open(records, &list, options->interrupted, stop);
    if (rc == 0)
        rc = check_names(&set->counts, &records->list, name, stop);
    records->check = &set->check;
    if (rc == 0 && !options->keeps_order)
        rc = keep_streams(records, input);
    if (rc == 0 && records->record_count == 0)
        rc = convert_fail(stop, EXIT_CODE_DATA, -ENODATA, "%s: contains no records", input);
    if (rc < 0)
        return rc;
    conversion->sources[conversion->source_count++] = (struct sample_source){
        .split = name, .record_count = records->record_count, .bytes = records->bytes,
        .scratch_bytes = (size_t)records->payload_bytes_max + TFRECORD_FRAME_BYTES, .payload = record_set_payload,
        .label = record_set_label, .name = record_set_name, .arg = records,
    };
    return 0;
}

/* Copy the names of features from the manifest of the input, unless options set them; only if the manifest lists the
 * first shard. */
static int copy_keys(struct conversion *conversion, const struct convert_options *options, struct stop *stop)
{
    struct tfrecord_set *const set = conversion->state;
    const char *const shard = set->splits[0].list.paths[0];
    const struct manifest *manifest;

    if (shard_counts_of(&set->counts, shard, &manifest) < 0)
        return report_memory(stop);
    set->is_described = manifest_find(manifest, shard_base_name(shard)) != NULL;
    conversion->image_key = options->image_key;
    conversion->label_key = options->label_key;
    if (set->is_described && conversion->image_key == NULL)
        conversion->image_key = manifest->image_key;
    if (set->is_described && conversion->label_key == NULL)
        conversion->label_key = manifest->label_key;
    return 0;
}

/* The paths of the shards of all splits, to be freed; NULL if out of memory. */
static char **all_paths(const struct tfrecord_set *set, uint32_t *count_out)
{
    uint32_t count = 0, at = 0;

    for (size_t i = 0; i < SPLITS; i++)
        count += set->splits[i].list.count;
    char **const paths = calloc((size_t)count + 1, sizeof(*paths));
    for (size_t i = 0; i < SPLITS && paths != NULL; i++)
        for (uint32_t k = 0; k < set->splits[i].list.count; k++)
            paths[at++] = set->splits[i].list.paths[k];
    *count_out = count;
    return paths;
}

/* Find the class names in the folders of all shards; the folders have to agree. */
static int find_names(struct tfrecord_set *set, const char *label_key, struct stop *stop)
{
    char problem[2048];
    struct text text;
    struct set_names_request request = { .label_key = label_key, .what = "tfrecord", .advice = "",
                                         .is_strict = true };
    char **const paths = all_paths(set, &request.count);

    request.paths = paths;
    text_init(&text, problem, sizeof(problem));
    const int rc = paths != NULL ? set_names_find(&set->names, &set->counts, &request, &text) : -ENOMEM;
    free(paths);
    return rc == -EINVAL ? convert_fail(stop, EXIT_CODE_DATA, rc, "%s", problem) : rc < 0 ? report_memory(stop) : 0;
}

static int copy_names(struct conversion *conversion, struct stop *stop)
{
    struct tfrecord_set *const set = conversion->state;
    const struct class_names *const names = &set->names.names;
    const int rc = find_names(set, conversion->label_key, stop);

    if (rc < 0)
        return rc;
    conversion->classes = set->names.classes <= CLASS_NAMES_MAX ? (uint32_t)set->names.classes : 0;
    if (conversion->classes < names->count)
        conversion->classes = names->count;
    if (names->count == 0)
        return 0;
    set->class_names = calloc(conversion->classes, sizeof(*set->class_names));
    if (set->class_names == NULL)
        return report_memory(stop);
    for (uint32_t c = 0; c < conversion->classes; c++)
        set->class_names[c] = c < names->count ? names->names[c] : "";
    conversion->class_names = set->class_names;
    return 0;
}

/* Prepare comparing the class texts of all records with the class names. */
static int begin_text_check(struct conversion *conversion, struct stop *stop)
{
    struct tfrecord_set *const set = conversion->state;

    for (size_t i = 1; i < SPLITS; i++)
        set->splits[i].first_number = set->splits[i - 1].first_number + set->splits[i - 1].record_count;
    return class_texts_open(&set->check.texts, &set->names.names) < 0 ? report_memory(stop) : 0;
}

static void name_any(const struct tfrecord_set *set, uint64_t number, char *text, size_t text_size)
{
    const struct record_set *records = &set->splits[SPLITS - 1];

    while (records > set->splits && (records->record_count == 0 || records->first_number > number))
        records--;
    record_set_name((void *)(uintptr_t)records, number - records->first_number, text, text_size);
}

/* Refuse labels that mean several classes, according to the texts of the records. */
static int end_census(struct tfrecord_set *set, struct stop *stop)
{
    const struct class_census_result result = class_census_end(&set->check.census);
    char here[4096], there[4096], text[sizeof(here) + sizeof(there) + 512];

    if (!result.is_contradiction && !result.is_doubtful)
        return 0;
    name_any(set, result.usual->record, here, sizeof(here));
    name_any(set, result.strange->record, there, sizeof(there));
    class_census_describe(&result, here, there, text, sizeof(text));
    if (result.is_contradiction)
        return convert_fail(stop, EXIT_CODE_DATA, -EBADMSG, "%s: sets with other orders of classes were put together: "
                            "convert them one by one", text);
    log_message(LOG_RUN, "%s", text);
    return 0;
}

/* Refuse class names that contradict the texts of most records. */
static int end_text_check(const struct conversion *conversion, struct stop *stop)
{
    struct tfrecord_set *const set = conversion->state;
    const struct class_text_counts *const text_counts = &set->check.text_counts;
    char where[4096], text[2 * sizeof(where)];

    if (text_counts->wrong == 0)
        return end_census(set, stop);
    name_any(set, text_counts->record, where, sizeof(where));
    class_text_counts_describe(text_counts, &set->check.texts, text_counts->label, set->names.path, where, text,
                               sizeof(text));
    if (class_text_counts_contradicts(text_counts))
        return convert_fail(stop, EXIT_CODE_DATA, -EBADMSG, "%s: correct the names", text);
    log_message(LOG_RUN, "%s", text);
    return 0;
}

/* Check the other shards in the folders of the input and the output. */
static int check_folders(const struct conversion *conversion, const char *output, struct stop *stop)
{
    const struct tfrecord_set *const set = conversion->state;
    struct shard_list lists[SPLITS];

    for (size_t i = 0; i < SPLITS; i++)
        lists[i] = set->splits[i].list;
    const int rc = left_out_report(lists, SPLITS);
    return rc < 0 ? convert_fail(stop, EXIT_CODE_MEMORY, rc, "no memory")
                  : in_place_check(lists, SPLITS, output, set->is_described, stop);
}

/* Finish commits that were interrupted in folders of the input: such a folder contains shards of two sets. */
static int finish_commits(const struct convert_options *options, struct stop *stop)
{
    int rc = 0;

    for (size_t i = 0; i < options->input_count && rc == 0; i++)
        rc = set_commit_resume_in(options->inputs[i], stop);
    return rc;
}

static int tfrecord_prepare(const struct convert_options *options, struct stop *stop, struct conversion *conversion)
{
    int rc = finish_commits(options, stop);
    if (rc < 0)
        return rc;
    static const unsigned validation = 1u << SPLIT_VALIDATION, test = 1u << SPLIT_TEST;
    const char *const last = options->inputs[options->input_count - 1];
    const unsigned named = options->input_count == 1 ? named_splits(last) & (validation | test) : validation;

    struct tfrecord_set *const set = conversion->state;
    pthread_mutex_init(&set->check.lock, NULL);
    conversion->origin = "TFRecord shards";
    rc = open_split(conversion, options->inputs[0], options, stop);
    if (rc == 0 && named != 0)
        rc = open_split(conversion, last, options, stop);
    if (rc == 0 && named == (validation | test))
        rc = open_split(conversion, last, options, stop);
    if (rc == 0)
        rc = copy_keys(conversion, options, stop);
    if (rc == 0)
        rc = copy_names(conversion, stop);
    for (size_t i = 0; i < SPLITS; i++)
        set->splits[i].label_key = conversion->label_key;
    if (rc == 0)
        rc = begin_text_check(conversion, stop);
    conversion->finish = end_text_check;
    return rc < 0 ? rc : check_folders(conversion, options->output, stop);
}

static void tfrecord_release(struct conversion *conversion)
{
    struct tfrecord_set *const set = conversion->state;

    for (size_t i = 0; i < SPLITS; i++)
        record_set_close(&set->splits[i]);
    pthread_mutex_destroy(&set->check.lock);
    class_texts_close(&set->check.texts);
    class_census_release(&set->check.census);
    shard_counts_release(&set->counts);
    set_names_release(&set->names);
    free(set->class_names);
}

const struct converter convert_tfrecord = {
    .name = "tfrecord",
    .summary = "existing shards, compressed or not: a folder, a file or a glob, and a second one for validation unless "
               "the folder contains both; records do not change, except where images are resized or decoded",
    .inputs = "SHARDS [SHARDS]",
    .input_count_least = 1,
    .input_count_most = INPUTS_MAX,
    .takes = CONVERT_IMAGES | CONVERT_KEYS,
    .state_bytes = sizeof(struct tfrecord_set),
    .prepare = tfrecord_prepare,
    .release = tfrecord_release,
};
