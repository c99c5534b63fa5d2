/* pipetrain-shards stats: print statistics of the labels, payloads and images of all records. Called by the main
 * thread. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/json.h"
#include "loader/class_census.h"
#include "loader/class_text.h"
#include "loader/label.h"
#include "loader/set_names.h"
#include "loader/shard_counts.h"
#include "stage/log.h"
#include "stage/stop.h"
#include "tools/shards/scan.h"
#include "tools/shards/shards_command.h"
#include "tools/shards/shards_statistics.h"

/* Only so many sizes of images are printed one by one; the rest are printed as one sum. */
#define SIZES_SHOWN 10u

/* The statistics of one thread of the scan. */
struct gatherer {
    struct shards_statistics statistics;
    struct class_text_counts texts;
    struct class_census census;         /* used only if no list names the labels */
    bool is_short_of_memory;
};

struct gathering {
    struct sample_names names;
    struct gatherer *gatherers;         /* one for each thread */
    struct set_names known;             /* names of the labels, from a list of the data set */
    struct class_texts texts;           /* the same names, for comparing records with them */
    uint64_t shards, damages;           /* damages: contradictions between names of labels count, too */
};

static bool visit(void *arg, uint32_t thread, uint32_t shard, const struct chunk_record *record,
                  struct record_problem *problem_out)
{
    const struct gathering *const gathering = arg;
    struct gatherer *const gatherer = &gathering->gatherers[thread];
    struct found_sample sample;
    size_t bad_offset;
    if (found_sample_read(&gathering->names, record->payload, record->payload_bytes, &sample, &bad_offset) < 0) {
        problem_out->has_crcs = false;
        snprintf(problem_out->text, sizeof(problem_out->text), "is not a tf.train.Example (byte %zu of its payload)",
                 bad_offset);
        return false;
    }
    if (shards_statistics_add(&gatherer->statistics, &sample, record->payload_bytes) < 0)
        gatherer->is_short_of_memory = true;
    const uint64_t number = (uint64_t)shard << 32 | (uint32_t)record->record;
    if (sample.has_label && gathering->known.names.count > 0)
        class_texts_compare(&gathering->texts, number, sample.label, record->payload, record->payload_bytes,
                            &gatherer->texts);
    else if (sample.has_label && class_census_add(&gatherer->census, number, sample.label, record->payload,
                                                  record->payload_bytes) < 0)
        gatherer->is_short_of_memory = true;
    return true;
}

/* Count the shard, and report its damaged records, which are missing in the statistics. */
static void report_shard(void *arg, struct scan *scan, const struct scan_shard *shard)
{
    struct gathering *const gathering = arg;
    char text[2048];
    if (shard->damage_count > 0 || shard->error < 0)
        scan_hide_progress(scan);
    gathering->shards++;
    gathering->damages += shard->damage_count + (shard->error < 0);
    if (shard->error < 0)
        log_message(LOG_ERROR, "%s: cannot be opened: %s", shard->path, exit_cause(shard->error));
    for (size_t i = 0; i < shard->damage_count; i++) {
        const struct scan_damage *const damage = &shard->damages[i];
        record_place_describe(shard->path, damage->record, damage->offset, &damage->problem, text, sizeof(text));
        log_message(LOG_ERROR, "%s", text);
    }
}

static int merge(const struct gathering *gathering, uint64_t threads, struct shards_statistics *statistics)
{
    int rc = 0;
    for (uint64_t i = 0; i < threads && rc == 0; i++)
        rc = gathering->gatherers[i].is_short_of_memory
                 ? -ENOMEM
                 : shards_statistics_merge(statistics, &gathering->gatherers[i].statistics);
    return rc;
}

static int gather(struct gathering *gathering, const struct shards_request *request, const struct shard_list *list)
{
    const struct scan_options options = {
        .paths = list->paths,
        .count = list->count,
        .threads = (uint32_t)request->jobs,
        .is_unwanted = request->is_unwanted,
        .visit = visit,
        .arg = gathering,
        .what = "counting",
    };
    return scan_shards(&options, report_shard, gathering);
}

static void print_payloads(const struct gathering *gathering, const struct shards_statistics *statistics)
{
    const struct value_counts *const payloads = &statistics->payloads;
    printf("%" PRIu64 " records in %" PRIu64 " shard%s\n", statistics->records, gathering->shards,
           gathering->shards == 1 ? "" : "s");
    if (payloads->count > 0)
        printf("payload bytes: %" PRIu64 " in all, %" PRId64 " to %" PRId64 ", median %" PRId64 "\n",
               statistics->payload_bytes, payloads->entries[0].first, payloads->entries[payloads->count - 1].first,
               shards_statistics_median(payloads));
}

static void print_images(const struct value_counts *images)
{
    uint64_t others = 0;
    if (images->count == 0)
        return;
    printf("images, width x height x channels:\n");
    for (size_t i = 0; i < images->count; i++) {
        const struct found_sample image = shards_statistics_image(&images->entries[i]);
        if (i >= SIZES_SHOWN)
            others += images->entries[i].count;
        else if (image.width > 0)
            printf("%12" PRIu64 "  %s %" PRIu32 "x%" PRIu32 "x%" PRIu32 "\n", images->entries[i].count,
                   found_image_text(image.image), image.width, image.height, image.channels);
        else
            printf("%12" PRIu64 "  %s\n", images->entries[i].count, found_image_text(image.image));
    }
    if (others > 0)
        printf("%12" PRIu64 "  of %zu other sizes\n", others, images->count - SIZES_SHOWN);
}

static void print_offset(int64_t least, int64_t most, uint64_t classes)
{
    int64_t offset;
    if (classes == 0)
        return;
    if (shards_statistics_offset(least, most, classes, &offset))
        printf("for %" PRIu64 " classes: label_offset = %" PRId64 "\n", classes, offset);
    else
        printf("for %" PRIu64 " classes: no label_offset fits, the labels are %" PRId64 " to %" PRId64 "\n",
               classes, least, most);
    if (least == -1)
        printf("%s; %s\n", LABEL_MINUS_ONE, LABEL_COUNTED_FROM_MINUS_ONE);
}

/* The name of the label; NULL if it is unknown. */
static const char *label_name(const struct set_names *known, int64_t label)
{
    const uint64_t class = (uint64_t)label;
    const char *const name = class < known->names.count ? known->names.names[class] : "";
    return *name != '\0' ? name : NULL;
}

static void print_label(const struct set_names *known, const struct value_count *entry)
{
    const char *const name = label_name(known, entry->first);
    char shown[256] = "";
    if (name != NULL)
        log_plain(name, shown, sizeof(shown));
    printf("%12" PRIu64 "  %" PRId64 "%s%s\n", entry->count, entry->first, name != NULL ? "  " : "", shown);
}

static void print_labels(const struct gathering *gathering, const struct shards_statistics *statistics,
                         uint64_t classes)
{
    const struct value_counts *const labels = &statistics->labels;
    if (labels->count == 0 && statistics->unlabelled > 0)
        printf("labels: no record has an integer as its label; --label-key names the feature (" SHARDS_PROGRAM
               " head shows them)\n");
    if (labels->count == 0)
        return;
    const int64_t least = labels->entries[0].first, most = labels->entries[labels->count - 1].first;
    printf("labels: %zu different ones, %" PRId64 " to %" PRId64 "\n", labels->count, least, most);
    for (size_t i = 0; i < labels->count; i++)
        print_label(&gathering->known, &labels->entries[i]);
    if (statistics->unlabelled > 0)
        printf("%12" PRIu64 "  records without an integer as label\n", statistics->unlabelled);
    print_offset(least, most, classes);
}

/* Write the counts and the names of the labels. */
static void json_labels(struct json *json, const struct value_counts *labels, const struct set_names *known)
{
    char key[24];
    json_open_object(json, "labels");
    for (size_t i = 0; i < labels->count; i++) {
        snprintf(key, sizeof(key), "%" PRId64, labels->entries[i].first);
        json_u64(json, key, labels->entries[i].count);
    }
    json_close_object(json);
    json_open_object(json, "names");
    for (size_t i = 0; i < labels->count; i++) {
        const char *const name = label_name(known, labels->entries[i].first);
        snprintf(key, sizeof(key), "%" PRId64, labels->entries[i].first);
        if (name != NULL)
            json_quoted(json, key, name);
    }
    json_close_object(json);
}

static void json_images(struct json *json, const struct value_counts *images)
{
    json_open_array(json, "images");
    for (size_t i = 0; i < images->count; i++) {
        const struct found_sample image = shards_statistics_image(&images->entries[i]);
        json_open_object(json, NULL);
        json_quoted(json, "kind", found_image_text(image.image));
        json_u64(json, "width", image.width);
        json_u64(json, "height", image.height);
        json_u64(json, "channels", image.channels);
        json_u64(json, "records", images->entries[i].count);
        json_close_object(json);
    }
    json_close_array(json);
}

static void json_payloads(struct json *json, const struct shards_statistics *statistics)
{
    const struct value_counts *const payloads = &statistics->payloads;
    json_open_object(json, "payload_bytes");
    json_u64(json, "all", statistics->payload_bytes);
    if (payloads->count > 0) {
        json_u64(json, "least", (uint64_t)payloads->entries[0].first);
        json_u64(json, "median", (uint64_t)shards_statistics_median(payloads));
        json_u64(json, "most", (uint64_t)payloads->entries[payloads->count - 1].first);
    }
    json_close_object(json);
}

static int print_json(const struct gathering *gathering, const struct shards_statistics *statistics)
{
    struct json json;
    json_init(&json, true);
    json_open_object(&json, NULL);
    json_u64(&json, "shards", gathering->shards);
    json_u64(&json, "records", statistics->records);
    json_u64(&json, "damages", gathering->damages);
    json_u64(&json, "unlabelled", statistics->unlabelled);
    json_u64(&json, "turned", statistics->turned);
    json_payloads(&json, statistics);
    json_images(&json, &statistics->images);
    json_labels(&json, &statistics->labels, &gathering->known);
    json_close_object(&json);
    const char *const text = json_text(&json);
    const int rc = text != NULL ? 0 : -ENOMEM;
    if (text != NULL)
        puts(text);
    json_release(&json);
    return rc;
}

static int print(const struct gathering *gathering, const struct shards_request *request,
                struct shards_statistics *statistics)
{
    value_counts_sort(&statistics->labels, value_counts_by_key);
    value_counts_sort(&statistics->payloads, value_counts_by_key);
    value_counts_sort(&statistics->images, value_counts_by_count);
    if (request->is_json)
        return print_json(gathering, statistics);
    print_payloads(gathering, statistics);
    print_images(&statistics->images);
    if (statistics->turned > 0)
        printf("%12" PRIu64 "  are rotated by their EXIF orientation, which training ignores unless "
               "augment.orientation = exif\n",
               statistics->turned);
    print_labels(gathering, statistics, request->classes);
    return 0;
}

/* Find the names of the labels. If the folders of the shards name labels differently, that is reported as damage,
 * and labels have no names. */
static int find_names(struct gathering *gathering, const struct shards_request *request, const struct shard_list *list)
{
    char problem[1024];
    struct text text;
    struct shard_counts counts = { 0 };
    const struct set_names_request wanted = { .paths = list->paths, .count = list->count,
                                              .label_key = request->label_key, .what = "stats", .advice = "" };
    text_init(&text, problem, sizeof(problem));
    const int rc = set_names_find(&gathering->known, &counts, &wanted, &text);
    shard_counts_release(&counts);
    if (rc != -EINVAL)
        return rc;
    log_message(LOG_ERROR, "%s", problem);
    gathering->damages++;
    return 0;
}

static void name_record(const struct shard_list *list, uint64_t number, char *text, size_t text_size)
{
    char path[512];
    const char *const shard = list->paths[number >> 32];
    log_escape(shard, strlen(shard), path, sizeof(path));
    snprintf(text, text_size, "%s: record %" PRIu32, path, (uint32_t)number);
}

/* Report records with the same label that name different classes. 0 or -ENOMEM. */
static int report_census(struct gathering *gathering, const struct shards_request *request,
                         const struct shard_list *list)
{
    struct class_census all = { .count = 0 };
    char text[2048], here[1024], there[1024];
    int rc = 0;
    for (uint64_t i = 0; i < request->jobs && rc == 0; i++)
        rc = class_census_join(&all, &gathering->gatherers[i].census);
    const struct class_census_result result = class_census_end(&all);
    if (rc == 0 && (result.is_contradiction || result.is_doubtful)) {
        name_record(list, result.usual->record, here, sizeof(here));
        name_record(list, result.strange->record, there, sizeof(there));
        class_census_describe(&result, here, there, text, sizeof(text));
        log_message(result.is_contradiction ? LOG_ERROR : LOG_RUN, "stats: %s", text);
        gathering->damages += result.is_contradiction;
    }
    class_census_release(&all);
    return rc;
}

/* Report records that name another class than the list of names does. */
static void report_texts(struct gathering *gathering, const struct shards_request *request,
                         const struct shard_list *list)
{
    struct class_text_counts all = { .wrong = 0 };
    char text[2048], where[1024];
    for (uint64_t i = 0; i < request->jobs; i++)
        class_text_counts_join(&all, &gathering->gatherers[i].texts);
    if (all.wrong == 0)
        return;
    name_record(list, all.record, where, sizeof(where));
    class_text_counts_describe(&all, &gathering->texts, all.label, gathering->known.path, where, text, sizeof(text));
    log_message(class_text_counts_contradicts(&all) ? LOG_ERROR : LOG_RUN, "stats: %s", text);
    gathering->damages += class_text_counts_contradicts(&all);
}

static int gather_and_print(struct gathering *gathering, const struct shards_request *request,
                           const struct shard_list *list)
{
    struct shards_statistics statistics = { 0 };
    int rc = find_names(gathering, request, list);
    if (rc == 0)
        rc = class_texts_open(&gathering->texts, &gathering->known.names);
    if (rc == 0)
        rc = gather(gathering, request, list);
    if (rc == 0)
        rc = merge(gathering, request->jobs, &statistics);
    if (rc == 0)
        rc = report_census(gathering, request, list);
    if (rc == 0) {
        report_texts(gathering, request, list);
        rc = print(gathering, request, &statistics);
    }
    class_texts_close(&gathering->texts);
    set_names_release(&gathering->known);
    shards_statistics_release(&statistics);
    return rc;
}

static int run(const struct shards_request *request, struct shard_list *list)
{
    struct gathering gathering = {
        .names = { .image = request->image_key, .label = request->label_key },
        .gatherers = calloc(request->jobs, sizeof(*gathering.gatherers)),
    };
    const int rc = gathering.gatherers != NULL ? gather_and_print(&gathering, request, list) : -ENOMEM;
    for (uint64_t i = 0; i < request->jobs && gathering.gatherers != NULL; i++) {
        shards_statistics_release(&gathering.gatherers[i].statistics);
        class_census_release(&gathering.gatherers[i].census);
    }
    free(gathering.gatherers);
    if (rc < 0 && rc != -ECANCELED)
        log_message(LOG_ERROR, "not all shards were counted: %s", exit_cause(rc));
    return rc < 0 ? (int)exit_code_of(rc, EXIT_CODE_STOPPED) : gathering.damages > 0 ? EXIT_CODE_DATA : EXIT_CODE_OK;
}

const struct shards_command command_stats = {
    .name = "stats",
    .words = "PATTERN...",
    .words_least = 1,
    .words_most = UINT32_MAX,
    .options = "jilCJ",
    .summary = "labels, payloads and images of all records",
    .help = "Counts the records of each label, the sizes of payloads, and the sizes of\n"
            "images, which come from the headers of JPEG and PNG images, or the features\n"
            "next to raw pixels. Every record is read and verified; damaged ones are\n"
            "reported and not counted, exit status 3. --classes prints the\n"
            "data.label_offset to use.\n\n"
            "  " SHARDS_PROGRAM " stats data/digits\n"
            "  " SHARDS_PROGRAM " stats 'imagenet/train-*' --classes=1000\n"
            "  " SHARDS_PROGRAM " stats mine.tfrecord --image-key=pic --label-key=kind --json\n",
    .takes_patterns = true,
    .run = run,
};
