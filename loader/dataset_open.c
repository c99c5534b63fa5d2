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
#include "loader/record.h"
#include "loader/shard_counts.h"
#include "loader/shards/shard_list.h"
#include "loader/shards/text.h"
#include "stage/log.h"

/* More problems than this are counted, not listed. */
#define PROBLEM_LINES_MAX 20u
#define PROBLEM_BYTES 2048u

/* A data set being opened. */
struct opening {
    struct dataset *dataset;
    struct shard_counts *counts;
    struct text problems;
    uint32_t problem_count;
    int result;                 /* of the first problem */
};

static void opening_fail(struct opening *opening, int result)
{
    opening->problem_count++;
    if (opening->result == 0)
        opening->result = result;
}

/* A line "WHAT: TEXT" about what went wrong with `result`. */
static void opening_report(struct opening *opening, int result, const char *line)
{
    if (opening->problem_count < PROBLEM_LINES_MAX) {
        text_line(&opening->problems);
        text_add(&opening->problems, "%s: %s", opening->dataset->options.what, line);
    }
    opening_fail(opening, result);
}

static void opening_report_path(struct opening *opening, int result, const char *path, const char *what)
{
    char line[PROBLEM_BYTES];
    struct text text;
    text_init(&text, line, sizeof(line));
    text_add_escaped(&text, path);
    text_add(&text, ": %s", what);
    opening_report(opening, result, line);
}

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
    const char **const strings[] = { &copy->what, &copy->pattern, &copy->image_key, &copy->label_key };
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
        .classes = options->classes,
        .label_offset = options->label_offset,
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
                 ": convert again, or remove " MANIFEST_FILE " if the shard is right");
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

static void tell_more(struct opening *opening)
{
    if (opening->problem_count <= PROBLEM_LINES_MAX)
        return;
    text_line(&opening->problems);
    text_add(&opening->problems, "%s: %" PRIu32 " more problems like these", opening->dataset->options.what,
             opening->problem_count - PROBLEM_LINES_MAX);
}

static void open_shards(struct opening *opening)
{
    const struct dataset *const dataset = opening->dataset;
    for (uint32_t i = 0; i < dataset->shard_count && opening->result != -ENOMEM && !is_unwanted(dataset); i++)
        open_shard(opening, i);
    tell_more(opening);
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
    for (uint32_t i = 0; i < dataset->shard_count; i++)
        hash_add(hash, dataset->paths[i], &dataset->indexes[i]);
    dataset->fingerprint = XXH3_64bits_digest(hash);
    XXH3_freeState(hash);
    return 0;
}

static void number_records(struct dataset *dataset)
{
    for (uint32_t i = 0; i < dataset->shard_count; i++) {
        const struct shard_index *index = &dataset->indexes[i];
        dataset->first_ids[i] = dataset->record_count;
        dataset->record_count += index->record_count;
        dataset->lost_records += index->damage_count + dataset->missing_records[i];
        for (uint64_t j = 0; j < index->record_count; j++) {
            if (index->records[j].payload_bytes > dataset->payload_bytes_max)
                dataset->payload_bytes_max = index->records[j].payload_bytes;
        }
    }
    dataset->first_ids[dataset->shard_count] = dataset->record_count;
}

static void probe_report(struct opening *opening, uint64_t id, const struct record_problem *problem)
{
    char line[PROBLEM_BYTES];
    record_describe(opening->dataset, id, problem, line, sizeof(line));
    opening_report(opening, -EBADMSG, line);
}

/* Find the format from the first record whose frame is right; with skip_damage that may be a
 * later one. UINT64_MAX when there is none or it has no known format. */
static uint64_t probe_format(struct opening *opening, struct decode_context *context)
{
    struct dataset *const dataset = opening->dataset;
    struct record_problem problem;
    uint64_t id = 0, bytes = 0;
    const uint8_t *payload = record_payload(context, id, &bytes, &problem);
    while (payload == NULL && dataset->options.skip_damage && id + 1 < dataset->record_count)
        payload = record_payload(context, ++id, &bytes, &problem);
    if (payload != NULL &&
        sample_find_format(&dataset->format, &dataset->options.shape, payload, bytes, problem.text,
                           sizeof(problem.text)) == 0)
        return id;
    probe_report(opening, id, &problem);
    return UINT64_MAX;
}

static void probe_sample(struct opening *opening, struct decode_context *context, uint64_t id, uint8_t *pixels)
{
    int32_t label;
    const struct sample_target target = {
        .request = { .shape = opening->dataset->options.shape }, .pixels = pixels, .label = &label };
    struct record_problem problem;
    if (record_load(context, id, &target, &problem) < 0)
        probe_report(opening, id, &problem);
}

/* The first record of every other shard shows a foreign shard before training does. */
static void probe_samples(struct opening *opening, struct decode_context *context, uint64_t id, uint8_t *pixels)
{
    const struct dataset *const dataset = opening->dataset;
    probe_sample(opening, context, id, pixels);
    for (uint32_t i = 1; i < dataset->shard_count && opening->result == 0 && !dataset->options.skip_damage; i++)
        if (dataset->indexes[i].record_count > 0)
            probe_sample(opening, context, dataset->first_ids[i], pixels);
}

/* The codec of a context is that of the format, so the format is found with one context and
 * tried with another. */
static int probe(struct opening *opening, uint8_t *pixels)
{
    struct decode_context *context;
    int rc = decode_context_open(&context, opening->dataset);
    if (rc < 0)
        return rc;
    const uint64_t id = probe_format(opening, context);
    decode_context_close(context);
    if (id == UINT64_MAX)
        return 0;
    rc = decode_context_open(&context, opening->dataset);
    if (rc < 0)
        return rc;
    probe_samples(opening, context, id, pixels);
    decode_context_close(context);
    return 0;
}

static void probe_records(struct opening *opening)
{
    uint8_t *const pixels = malloc(opening->dataset->sample_bytes);
    const int rc = pixels != NULL ? probe(opening, pixels) : -ENOMEM;
    if (rc < 0)
        opening_report(opening, rc, "not enough memory to read a record");
    free(pixels);
}

/* What should have been in a shard of a set that has no records at all. */
static void report_lost(struct opening *opening, uint32_t shard)
{
    const struct dataset *const dataset = opening->dataset;
    const uint64_t lost = dataset->indexes[shard].damage_count + dataset->missing_records[shard];
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
    opening_report_path(opening, -ENODATA, dataset->options.pattern, "holds no records");
    for (uint32_t i = 0; i < dataset->shard_count; i++)
        report_lost(opening, i);
    tell_more(opening);
}

static void open_set(struct opening *opening)
{
    struct dataset *dataset = opening->dataset;
    open_shards(opening);
    if (opening->result == 0 && is_unwanted(dataset))
        opening->result = -ECANCELED;
    if (opening->result < 0)
        return;
    number_records(dataset);
    if (dataset->record_count == 0)
        report_no_records(opening);
    else if (fingerprint(dataset) < 0)
        opening_report(opening, -ENOMEM, "not enough memory");
    else
        probe_records(opening);
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

static int find_shards(struct opening *opening)
{
    struct dataset *dataset = opening->dataset;
    struct shard_list list;
    const char *pattern = dataset->options.pattern != NULL ? dataset->options.pattern : "";
    const int rc = dataset_shards_find(&list, pattern, dataset->options.what, opening->counts, &opening->problems);
    if (rc < 0)
        return rc;
    dataset->paths = list.paths;
    dataset->shard_count = list.count;
    return allocate_shards(dataset, list.count);
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
