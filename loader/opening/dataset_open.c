/* Opening a set of shards. Everything here runs before the first thread starts. */
#include "loader/dataset.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <xxhash.h>

#include "loader/dataset_shards.h"
#include "loader/opening/class_list.h"
#include "loader/opening/dataset_probe.h"
#include "loader/opening/opening.h"
#include "loader/opening/set_part.h"
#include "loader/shard_counts.h"
#include "loader/shards/shard_list.h"
#include "loader/shards/text.h"
#include "stage/log.h"

#define PROBLEM_BYTES OPENING_PROBLEM_BYTES

static int copy_string(const char **string)
{
    if (*string == NULL || !**string) {
        *string = NULL;
        return 0;
    }
    *string = strdup(*string);
    return *string != NULL ? 0 : -ENOMEM;
}

/* Every string is copied or NULL afterwards, whatever the result. */
static int copy_options(struct dataset *dataset, const struct dataset_options *options)
{
    struct dataset_options *copy = &dataset->options;
    *copy = *options;
    copy->counts = NULL;
    const char **const strings[] = { &copy->what, &copy->pattern, &copy->image_key, &copy->label_key,
                                    &copy->class_names };
    int rc = 0;
    for (size_t i = 0; i < sizeof(strings) / sizeof(*strings); i++) {
        if (copy_string(strings[i]) < 0)
            rc = -ENOMEM;
    }
    return rc;
}

static int format_init(struct dataset *dataset)
{
    const struct dataset_options *const options = &dataset->options;
    dataset->format = (struct sample_format){
        .label = { .classes = options->classes, .offset = options->label_offset,
                   .accepts_any = options->is_any_label_taken },
        .layout = options->layout,
        .range = options->range != IMAGE_RANGE_AUTO ? &image_ranges[options->range] : NULL,
        .keys = { [SAMPLE_IMAGE] = options->image_key, [SAMPLE_LABEL] = options->label_key },
    };
    return image_shape_bytes(&options->shape, &dataset->sample_bytes) ? 0 : -EOVERFLOW;
}

/* A shard that stays open need not be opened again, so as many descriptors as the system lets this process
 * have. */
static void raise_file_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static int allocate_shards(struct dataset *dataset, uint32_t count)
{
    dataset->sources = calloc(count, sizeof(*dataset->sources));
    dataset->indexes = calloc(count, sizeof(*dataset->indexes));
    dataset->first_ids = calloc((size_t)count + 1, sizeof(*dataset->first_ids));
    dataset->missing_records = calloc(count, sizeof(*dataset->missing_records));
    const bool is_all = dataset->sources != NULL && dataset->indexes != NULL && dataset->first_ids != NULL &&
                        dataset->missing_records != NULL;
    return is_all ? 0 : -ENOMEM;
}

/* Why a shard cannot be opened. */
static const char *open_problem(int error)
{
    static const char too_many[] =
        "too many open files, and no shard can be closed for it: raise the limit with ulimit -n";
    static const struct {
        int error;
        const char *text;
    } texts[] = { { EMFILE, too_many },
                 { ENFILE, too_many },
                 { EISDIR, "is a directory, not a shard" },
                 { ESPIPE, "is not a regular file" } };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        if (texts[i].error == error)
            return texts[i].text;
    return strerror(error);
}

/* A shard in which nothing can be told is lost as a whole where damage is skipped, if it is known to
 * be one, and how much is lost. A file of another kind is no damage. */
static int open_index(const struct dataset *dataset, uint32_t shard, const struct manifest_shard *listed, char *line,
                      size_t line_size)
{
    struct shard_source *const source = dataset->sources[shard];
    const struct shard_index_options options = {
        .skip_damage = dataset->options.skip_damage,
        .use_cache = dataset->options.use_index_cache,
        .what = dataset->options.what,
        .is_unwanted = dataset->options.is_unwanted,
    };
    const int rc = shard_index_open(&dataset->indexes[shard], source, &options, line, line_size);
    if (rc != -EBADMSG || !options.skip_damage || listed == NULL)
        return rc;
    return shard_index_lose(&dataset->indexes[shard], source);
}

/* What is wrong with a shard's size or counts; false where nothing is. */
static bool find_difference(const struct shard_index *index, const struct manifest_shard *listed, char *text,
                            size_t text_size)
{
    if (listed != NULL && !shard_counts_agree(listed, index, text, text_size)) {
        const size_t length = strlen(text);
        snprintf(text + length, text_size - length,
                 ": convert again, or remove %s if the shard is right", listed->listed_in);
        return true;
    }
    snprintf(text, text_size, "is empty: 0 bytes");
    return listed == NULL && index->bytes == 0;
}

static void check_counts(struct opening *opening, uint32_t shard, const struct manifest_shard *listed)
{
    char text[PROBLEM_BYTES];
    struct dataset *const dataset = opening->dataset;
    const struct shard_index *const index = &dataset->indexes[shard];
    if (!find_difference(index, listed, text, sizeof(text)))
        return;
    if (!dataset->options.skip_damage) {
        opening_report_path(opening, -EBADMSG, dataset->paths[shard], text);
        return;
    }
    dataset->missing_records[shard] = shard_counts_missing(listed, index);
    if (dataset->missing_records[shard] == 0 && index->damage_count == 0)
        log_message(LOG_RUN, "%s: %s", dataset->paths[shard], text);
}

/* A shard that is listed and not there. */
static void meet_absent(struct opening *opening, uint32_t shard, const struct manifest_shard *listed)
{
    struct dataset *const dataset = opening->dataset;
    char text[PROBLEM_BYTES];
    if (dataset->options.skip_damage) {
        dataset->missing_records[shard] = listed->records;
        return;
    }
    shard_counts_tell_absent(listed, text, sizeof(text));
    opening_report_path(opening, -ENOENT, dataset->paths[shard], text);
}

static void open_shard(struct opening *opening, uint32_t shard)
{
    struct dataset *const dataset = opening->dataset;
    const char *const path = dataset->paths[shard];
    const struct manifest_shard *listed;
    char line[PROBLEM_BYTES] = "";
    int rc = shard_counts_find(opening->counts, path, &listed);
    if (rc == 0)
        rc = shard_source_open(&dataset->sources[shard], dataset->options.source_ops, path);
    if (rc == -ENOENT && listed != NULL) {
        meet_absent(opening, shard, listed);
        return;
    }
    if (rc < 0) {
        opening_report_path(opening, rc, path, open_problem(-rc));
        return;
    }
    rc = open_index(dataset, shard, listed, line, sizeof(line));
    if (rc == -ECANCELED)
        opening_fail(opening, rc);
    else if (rc < 0)
        opening_report(opening, rc, line);
    else
        check_counts(opening, shard, listed);
}

static bool is_unwanted(const struct dataset *dataset)
{
    return dataset->options.is_unwanted != NULL && atomic_load(dataset->options.is_unwanted);
}

static void open_shards(struct opening *opening)
{
    const struct dataset *const dataset = opening->dataset;
    for (uint32_t i = 0; i < dataset->shard_count && opening->result != -ENOMEM && !is_unwanted(dataset); i++)
        open_shard(opening, i);
    opening_tell_more(opening);
}

static void hash_add(XXH3_state_t *hash, const char *path, const struct shard_index *index)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    const uint64_t numbers[2] = { index->bytes, index->record_count };
    XXH3_64bits_update(hash, name, strlen(name) + 1);
    XXH3_64bits_update(hash, numbers, sizeof(numbers));
}

static int fingerprint(struct dataset *dataset)
{
    XXH3_state_t *hash = XXH3_createState();
    if (hash == NULL)
        return -ENOMEM;
    XXH3_64bits_reset(hash);
    for (uint32_t i = 0; i < dataset->shard_count; i++) {
        hash_add(hash, dataset->paths[i], &dataset->indexes[i]);
        dataset->contents = XXH3_64bits_withSeed(&dataset->indexes[i].contents, sizeof(uint64_t), dataset->contents);
    }
    dataset->fingerprint = XXH3_64bits_digest(hash);
    XXH3_freeState(hash);
    return 0;
}

/* What is lost counts once, with what is trained on. */
static void keep_part(struct dataset *dataset)
{
    for (uint32_t i = 0; i < dataset->shard_count; i++) {
        struct shard_index *const index = &dataset->indexes[i];
        set_part_keep(index, dataset->paths[i], dataset->options.part, dataset->options.held_out);
        if (dataset->options.part == DATASET_HELD_OUT) {
            index->damage_count = 0;
            dataset->missing_records[i] = 0;
        }
    }
}

static void keep_spread(struct dataset *dataset)
{
    struct set_spread spread = { .wanted = dataset->options.limit };
    for (uint32_t i = 0; i < dataset->shard_count; i++)
        spread.all += dataset->indexes[i].record_count;
    for (uint32_t i = 0; i < dataset->shard_count && spread.wanted < spread.all; i++)
        set_part_spread(&spread, &dataset->indexes[i]);
}

static void number_records(struct dataset *dataset)
{
    for (uint32_t i = 0; i < dataset->shard_count; i++) {
        const struct shard_index *index = &dataset->indexes[i];
        dataset->first_ids[i] = dataset->record_count;
        dataset->record_count += index->record_count;
        dataset->lost_records += shard_index_lost(index) + dataset->missing_records[i];
        for (uint64_t j = 0; j < index->record_count; j++) {
            if (index->records[j].payload_bytes > dataset->payload_bytes_max)
                dataset->payload_bytes_max = index->records[j].payload_bytes;
        }
    }
    dataset->first_ids[dataset->shard_count] = dataset->record_count;
}

/* What should have been in a shard of a set that has no records at all. */
static void report_lost(struct opening *opening, uint32_t shard)
{
    const struct dataset *const dataset = opening->dataset;
    const uint64_t lost = shard_index_lost(&dataset->indexes[shard]) + dataset->missing_records[shard];
    const struct manifest_shard *listed;
    char text[PROBLEM_BYTES];
    if (lost == 0 || shard_counts_find(opening->counts, dataset->paths[shard], &listed) < 0)
        return;
    if (dataset->sources[shard] == NULL && listed != NULL)
        shard_counts_tell_absent(listed, text, sizeof(text));
    else if (!find_difference(&dataset->indexes[shard], listed, text, sizeof(text)))
        return;
    opening_report_path(opening, -ENODATA, dataset->paths[shard], text);
}

static void report_no_records(struct opening *opening)
{
    const struct dataset *const dataset = opening->dataset;
    opening_report_path(opening, -ENODATA, dataset->options.pattern,
                        dataset->options.part == DATASET_ALL ? "holds no records"
                                                             : "has too few records to hold out a part of them");
    for (uint32_t i = 0; i < dataset->shard_count; i++)
        report_lost(opening, i);
    opening_tell_more(opening);
}

static void look_into(struct opening *opening)
{
    class_list_find(opening);
    if (opening->result == 0)
        dataset_probe(opening);
}

static void open_set(struct opening *opening)
{
    struct dataset *dataset = opening->dataset;
    open_shards(opening);
    if (opening->result == 0 && is_unwanted(dataset))
        opening->result = -ECANCELED;
    if (opening->result < 0)
        return;
    if (dataset->options.part != DATASET_ALL)
        keep_part(dataset);
    if (dataset->options.limit > 0)
        keep_spread(dataset);
    number_records(dataset);
    if (dataset->record_count == 0)
        report_no_records(opening);
    else if (fingerprint(dataset) < 0)
        opening_report(opening, -ENOMEM, "not enough memory");
    else
        look_into(opening);
}

static int prepare(struct opening *opening, const struct dataset_options *options)
{
    int rc = copy_options(opening->dataset, options);
    if (rc == 0)
        rc = format_init(opening->dataset);
    if (rc < 0 && rc != -ENOMEM)
        opening_report(opening, rc, strerror(-rc));
    return rc;
}

/* More classes than the network has are refused before the first step, as a label that is too large ends the run only
 * where it is read. Fewer are said, as a network with spare classes may be meant. What is held out is told of with the
 * rest. */
static void check_classes(struct opening *opening, const struct manifest *manifest)
{
    const struct dataset *const dataset = opening->dataset;
    const struct dataset_options *const options = &dataset->options;
    const int64_t wanted = manifest->classes <= DATASET_CLASSES_MAX ? (int64_t)manifest->classes + options->label_offset
                                                                    : INT64_MAX;
    char text[PROBLEM_BYTES];
    if (manifest->classes == 0 || wanted == (int64_t)options->classes || options->part == DATASET_HELD_OUT)
        return;
    const int length = snprintf(text, sizeof(text), "%s says %" PRIu64 " classes, the network has %" PRIu32,
                                dataset->listed_in, manifest->classes, options->classes);
    if (wanted > 0 && wanted <= DATASET_CLASSES_MAX)
        snprintf(text + length, sizeof(text) - (size_t)length, ": set data.classes = %" PRId64, wanted);
    const bool is_too_large = wanted > (int64_t)options->classes;
    if (is_too_large && !options->is_any_label_taken)
        opening_report(opening, -ERANGE, text);
    else if (is_too_large || !options->may_lack_classes)
        log_message(LOG_RUN, "%s: %s", options->what, text);
}

/* What the description of the set in the first shard's folder says, where nothing is configured. */
static int take_description(struct opening *opening)
{
    struct dataset *const dataset = opening->dataset;
    struct dataset_options *const options = &dataset->options;
    const struct manifest *manifest;
    const int rc = shard_counts_of(opening->counts, dataset->paths[0], &manifest);
    if (rc < 0)
        return rc;
    dataset->listed_in = manifest->count > 0 ? manifest->shards[0].listed_in : MANIFEST_FILE;
    check_classes(opening, manifest);
    if (opening->result < 0)
        return opening->result;
    if (manifest->image_key == NULL)
        return 0;
    if (options->image_key == NULL)
        options->image_key = strdup(manifest->image_key);
    if (options->label_key == NULL)
        options->label_key = strdup(manifest->label_key);
    dataset->format.keys[SAMPLE_IMAGE] = options->image_key;
    dataset->format.keys[SAMPLE_LABEL] = options->label_key;
    return options->image_key != NULL && options->label_key != NULL ? 0 : -ENOMEM;
}

static int find_shards(struct opening *opening)
{
    struct dataset *dataset = opening->dataset;
    struct shard_list list;
    const char *pattern = dataset->options.pattern != NULL ? dataset->options.pattern : "";
    int rc = dataset_shards_find(&list, pattern, dataset->options.what, opening->counts, &opening->problems);
    if (rc < 0)
        return rc;
    dataset->paths = list.paths;
    dataset->shard_count = list.count;
    dataset->left_out = list.left_out;
    dataset->left_out_count = list.left_out_count;
    rc = take_description(opening);
    return rc < 0 ? rc : allocate_shards(dataset, list.count);
}

int dataset_open(struct dataset **dataset_out, const struct dataset_options *options,
                 char *problem_out, size_t problem_size)
{
    struct shard_counts own = { 0 };
    struct opening opening = {
        .dataset = calloc(1, sizeof(*opening.dataset)),
        .counts = options->counts != NULL ? options->counts : &own,
    };
    text_init(&opening.problems, problem_out, problem_size);
    if (opening.dataset == NULL)
        return -ENOMEM;
    raise_file_limit();
    opening.result = prepare(&opening, options);
    if (opening.result == 0)
        opening.result = find_shards(&opening);
    if (opening.result == 0)
        open_set(&opening);
    shard_counts_release(&own);
    if (opening.result < 0) {
        dataset_close(opening.dataset);
        return opening.result;
    }
    *dataset_out = opening.dataset;
    return 0;
}
