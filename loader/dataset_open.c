/* Opening a data set. All functions run before the first thread starts. */
#include "loader/dataset_open.h"

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "loader/dataset_shards.h"
#include "loader/set_names.h"
#include "stage/file/file.h"
#include "stage/log.h"

#define PROBLEM_LINES_MAX 20u   /* more problems are counted but not listed */
#define NAMES_PROBLEM_BYTES 256u

/* ---- problems ---- */

void opening_fail(struct opening *opening, int result)
{
    opening->problem_count++;
    if (opening->result == 0)
        opening->result = result;
}

void opening_report(struct opening *opening, int result, const char *line)
{
    if (opening->problem_count < PROBLEM_LINES_MAX) {
        text_line(&opening->problems);
        text_add(&opening->problems, "%s: %s", opening->dataset->options.what, line);
    }
    opening_fail(opening, result);
}

void opening_report_path(struct opening *opening, int result, const char *path, const char *what)
{
    char line[OPENING_PROBLEM_BYTES];
    struct text text;
    text_init(&text, line, sizeof(line));
    text_add_escaped(&text, path);
    text_add(&text, ": %s", what);
    opening_report(opening, result, line);
}

static void opening_report_more(struct opening *opening)
{
    if (opening->problem_count <= PROBLEM_LINES_MAX)
        return;
    text_line(&opening->problems);
    text_add(&opening->problems, "%s: %" PRIu32 " more problems like these", opening->dataset->options.what,
             opening->problem_count - PROBLEM_LINES_MAX);
}

/* ---- options ---- */

static int copy_string(const char **string)
{
    if (*string == NULL || !**string) {
        *string = NULL;
        return 0;
    }
    *string = strdup(*string);
    return *string != NULL ? 0 : -ENOMEM;
}

/* Replace all strings by copies. On failure too, every string is a copy or NULL. */
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
        .is_raw = options->is_raw,
        .label = { .classes = options->classes, .classes_are_fixed = options->classes_are_fixed,
                   .offset = options->label_offset,
                   .accepts_any = options->is_any_label_taken },
        .layout = options->layout,
        .range = options->range != IMAGE_RANGE_AUTO ? &image_ranges[options->range] : NULL,
        .keys = { [SAMPLE_IMAGE] = options->image_key, [SAMPLE_LABEL] = options->label_key },
    };
    return image_shape_bytes(&options->shape, &dataset->sample_bytes) ? 0 : -EOVERFLOW;
}

/* ---- shards ---- */

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

/* The message about a shard that cannot be opened. */
static const char *open_problem(int error)
{
    static const char too_many[] = "too many open files: raise the limit with ulimit -n";
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

/* Open the index of a shard. If damage is skipped, an unreadable shard is lost as a whole, but only if the data set's
 * description lists it, because then it is known to be a shard and how many records are lost. A file of another kind is
 * not damage. */
static int open_index(const struct dataset *dataset, uint32_t shard, const struct manifest_shard *listed, bool rebuild,
                      char *line, size_t line_size)
{
    struct shard_source *const source = dataset->sources[shard];
    const struct shard_index_options options = {
        .skip_damage = dataset->options.skip_damage,
        .use_cache = dataset->options.use_index_cache,
        .rebuild = rebuild,
        .what = dataset->options.what,
        .is_unwanted = dataset->options.is_unwanted,
    };
    const int rc = shard_index_open(&dataset->indexes[shard], source, &options, line, line_size);
    if (rc != -EBADMSG || !options.skip_damage || listed == NULL)
        return rc;
    return shard_index_lose(&dataset->indexes[shard], source);
}

/* Describe a size or count of a shard that differs from the description; false if none does. */
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
    char text[OPENING_PROBLEM_BYTES];
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

/* Does an index from an index file contradict the data set's description? The index file may be forged, so the shard
 * itself is checked then. */
static bool is_doubtful(const struct dataset *dataset, uint32_t shard, const struct manifest_shard *listed)
{
    const struct shard_index *const index = &dataset->indexes[shard];
    char text[OPENING_PROBLEM_BYTES];
    return atomic_load(&index->is_unproved) && find_difference(index, listed, text, sizeof(text));
}

/* Handle a shard that the description lists but that does not exist. If rank 0 has it, the set is not damaged: a part of
 * it was not copied to this host. */
static void handle_absent(struct opening *opening, uint32_t shard, const struct manifest_shard *listed)
{
    struct dataset *const dataset = opening->dataset;
    char text[OPENING_PROBLEM_BYTES];
    if (dataset->options.given != NULL) {
        opening_report_path(opening, -ENOENT, dataset->paths[shard],
                            "is missing here, and rank 0 has it: copy it from the host of rank 0. Every host needs all "
                            "shards, also with data.lanes: a lane has blocks of all of them");
        return;
    }
    if (dataset->options.skip_damage) {
        dataset->missing_records[shard] = listed->records;
        return;
    }
    shard_counts_report_absent(listed, text, sizeof(text));
    opening_report_path(opening, -ENOENT, dataset->paths[shard], text);
}

/* ---- shards that a catalog describes ---- */

/* A shard in a catalog, or in what rank 0 has sent, and what of it its index needs. */
struct description {
    const struct catalog_shard *shard;  /* NULL: the shard is not described */
    const char *listed_in;
    int64_t listed_ns;
    struct dataset_catalog *catalog;    /* NULL: it is described by rank 0 */
};

static bool uses_catalogs(const struct dataset *dataset)
{
    return dataset->options.use_index_cache && dataset->options.source_ops == NULL;
}

/* Report a catalog that cannot be used, once for its shards. */
static void report_catalog(struct opening *opening, const struct shard_folder *folder)
{
    const int rc = folder->catalog_result;
    const char *const problem = rc == -EMFILE || rc == -ENFILE ? open_problem(-rc) : folder->catalog_problem;
    if (opening->bad_catalog == NULL || strcmp(opening->bad_catalog, folder->name) != 0)
        opening_report_path(opening, rc, folder->catalog_path, problem);
    opening->bad_catalog = folder->name;
}

/* The entry for the catalog of the folder that shard_counts has found last; NULL without memory. */
static struct dataset_catalog *find_catalog(struct dataset *dataset, const struct shard_counts *counts)
{
    const struct shard_folder *const folder = &counts->folders[counts->last];
    for (uint32_t i = 0; i < dataset->catalog_count; i++)
        if (dataset->catalogs[i]->folder == counts->last)
            return dataset->catalogs[i];
    const size_t count = dataset->catalog_count;
    struct dataset_catalog **const grown = realloc(dataset->catalogs, (count + 1) * sizeof(struct dataset_catalog *));
    if (grown == NULL)
        return NULL;
    dataset->catalogs = grown;
    struct dataset_catalog *const catalog = calloc(1, sizeof(*catalog));
    char path[PATH_MAX];
    log_escape(folder->catalog_path, strlen(folder->catalog_path), path, sizeof(path));
    if (catalog == NULL || (catalog->path = strdup(path)) == NULL) {
        free(catalog);
        return NULL;
    }
    catalog->folder = counts->last;
    grown[dataset->catalog_count++] = catalog;
    return catalog;
}

/* Find what another process has found in the shard. False after a report. */
static bool find_given(struct opening *opening, uint32_t shard, struct description *description_out)
{
    const struct dataset *const dataset = opening->dataset;
    const struct dataset_start *const given = dataset->options.given;
    const char *const path = dataset->paths[shard];
    char text[OPENING_PROBLEM_BYTES];
    *description_out = (struct description){
        .shard = dataset_start_find(given, shard, shard_base_name(path)), .listed_in = SHARD_LISTED_BY_RANK,
        .listed_ns = shard < given->catalog.shard_count ? given->listed_ns[shard] : 0,
    };
    if (description_out->shard != NULL)
        return true;
    snprintf(text, sizeof(text), "is shard %" PRIu32 " here, and one of another name in rank 0: all hosts need the same "
             "shards", shard);
    opening_report_path(opening, -EBADMSG, path, text);
    return false;
}

/* Find the shard in the catalog of its folder. It is not described if there is no catalog, or if the file has a name by
 * which a catalog never takes it for a shard. False after a report. */
static bool find_described(struct opening *opening, uint32_t shard, struct description *description_out)
{
    struct dataset *const dataset = opening->dataset;
    const char *const path = dataset->paths[shard];
    const struct shard_folder *folder;
    char text[OPENING_PROBLEM_BYTES];
    *description_out = (struct description){ .shard = NULL };
    if (dataset->options.given != NULL)
        return find_given(opening, shard, description_out);
    if (!uses_catalogs(dataset))
        return true;
    int rc = shard_counts_catalog(opening->counts, path, &folder);
    if (rc == 0 && folder->catalog_result < 0 && folder->catalog_result != -ENOENT)
        report_catalog(opening, folder);
    if (rc == 0 && folder->catalog_result < 0)
        return folder->catalog_result == -ENOENT;
    struct dataset_catalog *const catalog = rc == 0 ? find_catalog(dataset, opening->counts) : NULL;
    if (catalog == NULL) {
        opening_report(opening, -ENOMEM, "not enough memory for the catalog");
        return false;
    }
    *description_out = (struct description){ catalog_find(&folder->catalog, shard_base_name(path)), catalog->path,
                                             folder->catalog_ns, catalog };
    if (description_out->shard != NULL || !shard_list_is_shard(shard_base_name(path)))
        return true;
    snprintf(text, sizeof(text), "is one of %" PRIu32 " shards of this set, but none of the %" PRIu32 " that %s lists: "
             CATALOG_ADVICE, dataset->shard_count, folder->catalog.shard_count, catalog->path);
    opening_report_path(opening, -EBADMSG, path, text);
    return false;
}

/* Does a compressed shard, which is opened at once, have the fingerprint of the catalog? 0, -EBADMSG, or another
 * negative errno. */
static int compare_fingerprint(const struct shard_index *index, struct shard_source *source)
{
    uint64_t fingerprint = 0;
    const int rc = shard_fingerprint(index, source, &fingerprint);
    return rc == 0 && fingerprint != index->fingerprint ? -EBADMSG : rc;
}

/* Compare a shard with the catalog, as far as is known without reading it, and get its index from there. False after a
 * report. */
static bool open_described(struct opening *opening, uint32_t shard, const struct description *description)
{
    struct dataset *const dataset = opening->dataset;
    const struct catalog_shard *const described = description->shard;
    struct shard_index *const index = &dataset->indexes[shard];
    struct shard_source *const source = dataset->sources[shard];
    char text[OPENING_PROBLEM_BYTES];
    if (source->stamp.bytes != described->stored_bytes) {
        snprintf(text, sizeof(text), "is %" PRIu64 " bytes long, %s says %" PRIu64 ": restore it, or %s",
                 source->stamp.bytes, description->listed_in, described->stored_bytes,
                 dataset->options.given != NULL ? "copy it from the host of rank 0" : CATALOG_ADVICE);
        opening_report_path(opening, -EBADMSG, dataset->paths[shard], text);
        return false;
    }
    int rc = catalog_index(described, description->listed_in, index);
    index->stamp = source->stamp;
    index->listed_ns = description->listed_ns;
    if (description->catalog != NULL)
        *(described->is_packed ? &description->catalog->packed_count : &description->catalog->plain_count) += 1;
    if (rc == 0 && described->is_packed == source->ops->is_plain)
        rc = -EBADMSG;
    if (rc == 0 && described->is_packed)
        rc = compare_fingerprint(index, source);
    if (rc == 0)
        return true;
    snprintf(text, sizeof(text), "cannot be read: %s", strerror(-rc));
    if (rc == -EBADMSG)
        shard_index_describe_stale(index, text, sizeof(text));
    opening_report_path(opening, rc, dataset->paths[shard], text);
    return false;
}

/* Open the source of a shard. An uncompressed one that a catalog describes is opened when it is first read. */
static int open_source(struct dataset *dataset, uint32_t shard, const struct catalog_shard *described)
{
    struct shard_source **const source = &dataset->sources[shard];
    const char *const path = dataset->paths[shard];
    if (described != NULL && !described->is_packed)
        return shard_file_defer(source, path, shard_index_recognise, &dataset->indexes[shard]);
    return shard_source_open(source, dataset->options.source_ops, path);
}

static void open_shard(struct opening *opening, uint32_t shard)
{
    struct dataset *const dataset = opening->dataset;
    const char *const path = dataset->paths[shard];
    const struct manifest_shard *listed;
    struct description description;
    char line[OPENING_PROBLEM_BYTES] = "";
    if (!find_described(opening, shard, &description))
        return;
    int rc = shard_counts_find(opening->counts, path, &listed);
    if (rc == 0)
        rc = open_source(dataset, shard, description.shard);
    if (rc == -ENOENT && listed != NULL) {
        handle_absent(opening, shard, listed);
        return;
    }
    if (rc < 0) {
        opening_report_path(opening, rc, path, open_problem(-rc));
        return;
    }
    if (description.shard != NULL) {
        if (open_described(opening, shard, &description))
            check_counts(opening, shard, listed);
        return;
    }
    rc = open_index(dataset, shard, listed, opening->rebuilds_indexes, line, sizeof(line));
    if (rc == 0 && is_doubtful(dataset, shard, listed)) {
        shard_index_release(&dataset->indexes[shard]);
        rc = open_index(dataset, shard, listed, true, line, sizeof(line));
    }
    if (rc == -ECANCELED)
        opening_fail(opening, rc);
    else if (rc < 0)
        opening_report(opening, rc, line);
    else
        check_counts(opening, shard, listed);
}

static void open_shards(struct opening *opening)
{
    const struct dataset *const dataset = opening->dataset;
    for (uint32_t i = 0; i < dataset->shard_count && opening->result != -ENOMEM && !dataset_is_unwanted(dataset); i++)
        open_shard(opening, i);
    opening_report_more(opening);
}

static int contents_compare(const void *left, const void *right, void *arg)
{
    const struct dataset *const dataset = arg;
    const uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    const struct shard_index *const one = &dataset->indexes[a], *const other = &dataset->indexes[b];
    if (one->contents != other->contents)
        return one->contents < other->contents ? -1 : 1;
    return one->record_count != other->record_count ? (one->record_count < other->record_count ? -1 : 1)
                                                    : (a > b) - (a < b);
}

/* Report copies of a shard under another name. They may be intended, to weight their records. */
static int report_copies(const struct dataset *dataset)
{
    uint32_t *const order = calloc(dataset->shard_count, sizeof(*order));
    char first[1024], copy[1024];
    uint32_t copies = 0;
    if (order == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < dataset->shard_count; i++)
        order[i] = i;
    qsort_r(order, dataset->shard_count, sizeof(*order), contents_compare, (void *)(uintptr_t)dataset);
    for (uint32_t i = 1; i < dataset->shard_count; i++) {
        const struct shard_index *const one = &dataset->indexes[order[i - 1]];
        const struct shard_index *const other = &dataset->indexes[order[i]];
        if (one->record_count == 0 || one->record_count != other->record_count || one->contents != other->contents)
            continue;
        if (copies++ > 0)
            continue;
        log_escape(dataset->paths[order[i - 1]], strlen(dataset->paths[order[i - 1]]), first, sizeof(first));
        log_escape(dataset->paths[order[i]], strlen(dataset->paths[order[i]]), copy, sizeof(copy));
    }
    if (copies > 0)
        log_message(LOG_RUN, "%s: %" PRIu32 " shard%s the same records as another one, such as %s and %s: they are "
                    "used twice", dataset->options.what, copies, copies == 1 ? " holds" : "s hold", first, copy);
    free(order);
    return 0;
}

/* Report other files in the folders of the shards. Not for a held-out part, which has the same shards as the rest. */
static void report_others(struct opening *opening)
{
    const struct dataset *const dataset = opening->dataset;
    if (dataset->options.part == DATASET_HELD_OUT)
        return;
    int rc = shard_counts_report_others(opening->counts, dataset->paths, dataset->shard_count, dataset->options.what);
    if (rc == 0)
        rc = report_copies(dataset);
    if (rc < 0)
        opening_report(opening, rc, "not enough memory");
}

static void hash_add(XXH3_state_t *hash, const char *path, const struct shard_index *index)
{
    const char *const name = shard_base_name(path);
    const uint64_t numbers[2] = { index->bytes, index->record_count };
    XXH3_64bits_update(hash, name, strlen(name) + 1);
    XXH3_64bits_update(hash, numbers, sizeof(numbers));
}

static int set_fingerprint(struct dataset *dataset)
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

/* ---- parts of a data set ---- */

/* One part of a shard's records. Each record is held out with probability limit / 2^64. */
struct part { uint64_t key, limit; bool is_held_out; };

/* Depends only on the shard's file name, from which the key is made, and on the record's number: the parts are the same
 * in every run, with any seed. */
static bool is_in_part(void *arg, uint64_t number)
{
    const struct part *const part = arg;
    const uint64_t bytes = htole64(number);
    return (XXH3_64bits_withSeed(&bytes, sizeof(bytes), part->key) < part->limit) == part->is_held_out;
}

/* Keep one part of every shard. Lost records are counted once, with the part used for training. 0 or -ENOMEM. */
static int keep_part(struct dataset *dataset)
{
    int rc = 0;
    for (uint32_t i = 0; i < dataset->shard_count && rc == 0; i++) {
        struct shard_index *const index = &dataset->indexes[i];
        const char *const name = shard_base_name(dataset->paths[i]);
        struct part part = { XXH3_64bits(name, strlen(name)), (uint64_t)(dataset->options.held_out * 0x1p64),
                             dataset->options.part == DATASET_HELD_OUT };
        rc = shard_index_keep(index, is_in_part, &part);
        if (part.is_held_out) {
            index->damage_count = 0;
            dataset->missing_records[i] = 0;
        }
    }
    return rc;
}

/* A selection of evenly spaced records: of `all` records, the ones with numbers floor(i * all / wanted), i < wanted; 1
 * <= wanted <= all < 2^63. */
struct spread { uint64_t all, wanted, passed; };

/* Record g is selected, that is g = floor(i * all / wanted) for some i, if [g * wanted, (g + 1) * wanted) contains a
 * multiple of `all`. `passed` is g * wanted modulo `all`. Called for all records of the data set in order. */
static bool is_in_spread(void *arg, uint64_t number)
{
    (void)number;
    struct spread *const spread = arg;
    const bool is_taken = spread->passed == 0 || spread->passed > spread->all - spread->wanted;
    spread->passed += spread->wanted;
    if (spread->passed >= spread->all)
        spread->passed -= spread->all;
    return is_taken;
}

/* 0 or -ENOMEM. */
static int keep_spread(struct dataset *dataset)
{
    struct spread spread = { .wanted = dataset->options.limit };
    int rc = 0;
    for (uint32_t i = 0; i < dataset->shard_count; i++)
        spread.all += dataset->indexes[i].record_count;
    for (uint32_t i = 0; i < dataset->shard_count && spread.wanted < spread.all && rc == 0; i++)
        rc = shard_index_keep(&dataset->indexes[i], is_in_spread, &spread);
    return rc;
}

static void number_records(struct dataset *dataset)
{
    for (uint32_t i = 0; i < dataset->shard_count; i++) {
        const struct shard_index *index = &dataset->indexes[i];
        dataset->first_ids[i] = dataset->record_count;
        dataset->record_count += index->record_count;
        dataset->lost_records += shard_index_lost(index) + dataset->missing_records[i];
        const uint32_t longest = shard_index_longest(index);
        dataset->payload_bytes_max = longest > dataset->payload_bytes_max ? longest : dataset->payload_bytes_max;
    }
    dataset->first_ids[dataset->shard_count] = dataset->record_count;
}

/* ---- class names ---- */

/* Read the list data.class_names. 0, or a negative errno with a text that follows "PATH: ". */
static int read_names(struct set_names *names, const char *path, char *problem, size_t problem_size)
{
    char *text;
    size_t bytes;
    int rc = file_load(path, CLASS_NAMES_BYTES_MAX, &text, &bytes);
    if (rc < 0) {
        snprintf(problem, problem_size, "%s", file_load_problem(rc));
        return rc;
    }
    rc = class_names_read(&names->names, text, bytes, problem, problem_size);
    free(text);
    if (rc == 0)
        names->path = strdup(path);
    return rc == 0 && names->path == NULL ? -ENOMEM : rc;
}

/* The number of stored labels from 0 on whose classes the network has. */
static int64_t stored_classes(const struct dataset_options *options)
{
    return (int64_t)options->classes - options->label_offset;
}

/* Does the list number classes from 1, as in 1:cat 2:dog, while labels are numbered from 0? */
static bool counts_from_one(const struct set_names *names, const struct dataset_options *options)
{
    return names->names.count > 1 && *names->names.names[0] == '\0' &&
           (int64_t)names->names.count == stored_classes(options) + 1;
}

static void describe_count(const struct dataset *dataset, const struct set_names *names, char *text, size_t text_size)
{
    if (counts_from_one(names, &dataset->options))
        snprintf(text, text_size, "counts its classes from 1 to %" PRIu32 ", where %" PRIu32 " counted from 0 are "
                 "wanted: count them from 0, or set data.label_offset = -1 if labels begin at 1",
                 names->names.count - 1, dataset->options.classes);
    else
        snprintf(text, text_size, "names %" PRIu32 " class%s, the network has %" PRIu32, names->names.count,
                 names->names.count == 1 ? "" : "es", dataset->options.classes);
}

/* Compare the length of a list with the network's classes, which are those of dataset.json unless configured
 * otherwise. */
static void check_count(struct opening *opening, struct set_names *names)
{
    const struct dataset *const dataset = opening->dataset;
    const struct dataset_options *const options = &dataset->options;
    const int64_t count = names->names.count;
    const bool is_configured = options->class_names != NULL, is_described = names->classes > 0 && !is_configured;
    char text[OPENING_PROBLEM_BYTES];
    if (count == 0 || options->classes_are_unknown || count == options->classes || count == stored_classes(options) ||
        (is_described && count == (int64_t)names->classes))
        return;
    describe_count(dataset, names, text, sizeof(text));
    if (is_configured && counts_from_one(names, options))
        opening_report_path(opening, -EINVAL, names->path, text);
    else if (options->part != DATASET_HELD_OUT)
        log_message(LOG_RUN, "%s: %s %s", options->what, names->path, text);
    if (!is_configured && counts_from_one(names, options))
        class_names_release(&names->names);
}

/* Store the names by class number. A class of the network is a stored label plus label_offset. A list has a name either
 * for each stored label or for each class of the network. */
static int set_names(struct dataset *dataset, struct set_names *names)
{
    const struct dataset_options *const options = &dataset->options;
    const int64_t count = names->names.count;
    const bool is_stored = options->label_offset != 0 && options->label_offset > -count &&
                           options->label_offset <= DATASET_CLASSES_MAX && count != options->classes &&
                           count == stored_classes(options);
    dataset->stored_classes = names->classes > 0 ? names->classes : names->names.count;
    dataset->class_names_path = names->path;
    dataset->classes_said_in = names->said_in;
    names->path = names->said_in = NULL;
    const int rc = class_names_make(&dataset->class_names, names->names.names, names->names.count,
                                    is_stored ? (int32_t)options->label_offset : 0);
    if (rc == 0 && dataset->class_names.count > 0)
        dataset->format.label.names = &dataset->class_names;
    return rc;
}

/* Read the names in the folders of all shards. */
static int find_beside(struct opening *opening, const struct set_names *configured, struct set_names *names)
{
    const struct dataset *const dataset = opening->dataset;
    const struct set_names_request request = { .paths = dataset->paths, .count = dataset->shard_count,
                                               .label_key = dataset->options.label_key, .what = dataset->options.what,
                                               .configured = configured,
                                               .advice = ", or name the classes of both with data.class_names = FILE",
                                               .is_quiet = dataset->options.part == DATASET_HELD_OUT };
    const int rc = set_names_find(names, opening->counts, &request, &opening->problems);
    if (rc < 0)
        opening_fail(opening, rc);
    return rc;
}

/* Use the configured list for the meaning of labels, also if lists beside the shards differ. */
static int find_configured(struct opening *opening, struct set_names *names)
{
    char problem[NAMES_PROBLEM_BYTES] = "not enough memory";
    const char *const path = opening->dataset->options.class_names;
    struct set_names beside = { 0 };
    int rc = read_names(names, path, problem, sizeof(problem));
    if (rc < 0)
        opening_report_path(opening, rc, path, problem);
    else
        rc = find_beside(opening, names, &beside);
    names->classes = beside.classes;
    names->said_in = beside.said_in;
    beside.said_in = NULL;
    set_names_release(&beside);
    return rc;
}

/* ---- the data set ---- */

/* For a data set without records: report a shard's lost records. */
static void report_lost(struct opening *opening, uint32_t shard)
{
    const struct dataset *const dataset = opening->dataset;
    const uint64_t lost = shard_index_lost(&dataset->indexes[shard]) + dataset->missing_records[shard];
    const struct manifest_shard *listed;
    char text[OPENING_PROBLEM_BYTES];
    if (lost == 0 || shard_counts_find(opening->counts, dataset->paths[shard], &listed) < 0)
        return;
    if (dataset->sources[shard] == NULL && listed != NULL)
        shard_counts_report_absent(listed, text, sizeof(text));
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
    opening_report_more(opening);
}

static bool has_shard(const struct dataset *dataset, const char *name)
{
    uint32_t i = 0;
    while (i < dataset->shard_count && strcmp(shard_base_name(dataset->paths[i]), name) != 0)
        i++;
    return i < dataset->shard_count;
}

static bool is_given(const struct dataset_start *given, const char *name)
{
    uint32_t i = 0;
    while (i < given->catalog.shard_count && strcmp(dataset_start_name(given, i), name) != 0)
        i++;
    return i < given->catalog.shard_count;
}

/* Name the first shard of rank 0 that is not here, else the first one here that rank 0 does not have. "" if shards in
 * several folders have the same names. */
static void describe_other(const struct dataset *dataset, char *text, size_t text_size)
{
    const struct dataset_start *const given = dataset->options.given;
    uint32_t i = 0;
    text[0] = '\0';
    while (i < given->catalog.shard_count && has_shard(dataset, dataset_start_name(given, i)))
        i++;
    if (i < given->catalog.shard_count) {
        snprintf(text, text_size, ", whose first that is not here is %s", dataset_start_name(given, i));
        return;
    }
    for (i = 0; i < dataset->shard_count && text[0] == '\0'; i++) {
        const char *const name = shard_base_name(dataset->paths[i]);
        if (!is_given(given, name))
            snprintf(text, text_size, ", which has no %s", name);
    }
}

/* Compare the number of shards with that of the process that has described them. */
static void check_given(struct opening *opening)
{
    const struct dataset *const dataset = opening->dataset;
    const struct dataset_start *const given = dataset->options.given;
    char text[OPENING_PROBLEM_BYTES], other[320];
    if (given == NULL || given->catalog.shard_count == dataset->shard_count)
        return;
    describe_other(dataset, other, sizeof(other));
    snprintf(text, sizeof(text), "has %" PRIu32 " shards here, and %" PRIu32 " in rank 0%s: all hosts need the same "
             "shards, also with data.lanes",
             dataset->shard_count, given->catalog.shard_count, other);
    opening_report_path(opening, -EBADMSG, dataset->options.pattern, text);
}

static void open_set(struct opening *opening)
{
    struct dataset *dataset = opening->dataset;
    check_given(opening);
    if (opening->result == 0)
        open_shards(opening);
    if (opening->result == 0 && dataset_is_unwanted(dataset))
        opening->result = -ECANCELED;
    if (opening->result == 0)
        report_others(opening);
    if (opening->result < 0)
        return;
    int rc = dataset->options.part != DATASET_ALL ? keep_part(dataset) : 0;
    if (rc == 0 && dataset->options.limit > 0)
        rc = keep_spread(dataset);
    number_records(dataset);
    if (rc == 0 && dataset->record_count == 0)
        report_no_records(opening);
    else if (rc == 0)
        rc = set_fingerprint(dataset);
    if (rc < 0)
        opening_report(opening, rc, "not enough memory");
    if (opening->result == 0 && !dataset->options.is_raw)
        dataset_probe(opening);
}

static int prepare_options(struct opening *opening, const struct dataset_options *options)
{
    int rc = copy_options(opening->dataset, options);
    if (rc == 0)
        rc = format_init(opening->dataset);
    if (rc < 0 && rc != -ENOMEM)
        opening_report(opening, rc, strerror(-rc));
    return rc;
}

/* Check the number of classes. More classes than the network has are an error at once, as a label that is too large
 * would end the run only when it is read. Fewer are reported, because spare classes may be intended. A held-out part is
 * reported with the rest. */
static void check_classes(struct opening *opening, const struct set_names *names)
{
    const uint64_t classes = names->classes;
    const struct dataset *const dataset = opening->dataset;
    const struct dataset_options *const options = &dataset->options;
    const int64_t wanted = classes <= DATASET_CLASSES_MAX ? (int64_t)classes + options->label_offset : INT64_MAX;
    char text[OPENING_PROBLEM_BYTES], shifted[64] = "";
    if (classes == 0 || options->classes_are_unknown || wanted == (int64_t)options->classes || options->part == DATASET_HELD_OUT)
        return;
    const bool is_possible = wanted > 0 && wanted <= DATASET_CLASSES_MAX;
    if (is_possible && options->label_offset != 0)
        snprintf(shifted, sizeof(shifted), " (%" PRId64 " with data.label_offset)", wanted);
    const int length = snprintf(text, sizeof(text), "%s says %" PRIu64 " classes%s, the %s %" PRIu32,
                                shard_base_name(names->said_in), classes, shifted,
                                options->classes_are_fixed ? "weights are of a network with" : "network has",
                                options->classes);
    if (is_possible && !options->classes_are_fixed)
        snprintf(text + length, sizeof(text) - (size_t)length, ": set data.classes = %" PRId64, wanted);
    const bool is_too_large = wanted > (int64_t)options->classes;
    if (is_too_large && !options->is_any_label_taken)
        opening_report(opening, -ERANGE, text);
    else if (is_too_large || !options->may_lack_classes || (options->classes_are_fixed && names->names.count == 0))
        log_message(LOG_RUN, "%s: %s", options->what, text);
}

/* Use the description in the first shard's folder for options that are not configured. */
static int use_description(struct opening *opening)
{
    struct dataset *const dataset = opening->dataset;
    struct dataset_options *const options = &dataset->options;
    const struct manifest *manifest;
    const int rc = shard_counts_of(opening->counts, dataset->paths[0], &manifest);
    if (rc < 0)
        return rc;
    dataset->listed_in = manifest->count > 0 ? manifest->shards[0].listed_in : MANIFEST_FILE;
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

/* Find the names of the classes and their number. */
static int find_classes(struct opening *opening)
{
    struct dataset *const dataset = opening->dataset;
    struct set_names names = { 0 };
    int rc = dataset->options.class_names != NULL ? find_configured(opening, &names)
                                                : find_beside(opening, NULL, &names);
    if (rc == 0) {
        check_classes(opening, &names);
        check_count(opening, &names);
        rc = opening->result < 0 ? opening->result : set_names(dataset, &names);
    }
    set_names_release(&names);
    return rc;
}

static int find_shards(struct opening *opening)
{
    struct dataset *dataset = opening->dataset;
    struct shard_list list;
    const char *pattern = dataset->options.pattern != NULL ? dataset->options.pattern : "";
    int rc = dataset_shards_find(&list, pattern, dataset->options.what, opening->counts, &opening->problems);
    if (rc < 0)
        return rc;
    if (dataset->options.what != NULL && strcmp(dataset->options.what, "train") == 0)
        shard_list_report_other_split(&list);
    dataset->paths = list.paths;
    dataset->shard_count = list.count;
    dataset->left_out = list.left_out;
    dataset->left_out_count = list.left_out_count;
    rc = use_description(opening);
    if (rc == 0 && !dataset->options.is_raw)
        rc = find_classes(opening);
    return rc < 0 ? rc : allocate_shards(dataset, list.count);
}

/* Open the data set. -ESTALE: an index file was wrong, so opening has to be repeated with rebuilt indexes. */
static int open_once(struct dataset **dataset_out, const struct dataset_options *options, bool rebuilds_indexes,
                     char *problem_out, size_t problem_size)
{
    struct shard_counts own = { 0 };
    struct opening opening = {
        .dataset = calloc(1, sizeof(*opening.dataset)),
        .counts = options->counts != NULL ? options->counts : &own,
        .rebuilds_indexes = rebuilds_indexes,
    };
    text_init(&opening.problems, problem_out, problem_size);
    if (opening.dataset == NULL)
        return -ENOMEM;
    opening.result = prepare_options(&opening, options);
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

int dataset_open(struct dataset **dataset_out, const struct dataset_options *options,
                 char *problem_out, size_t problem_size)
{
    const int rc = open_once(dataset_out, options, false, problem_out, problem_size);
    return rc == -ESTALE ? open_once(dataset_out, options, true, problem_out, problem_size) : rc;
}
