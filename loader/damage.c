/* Damaged records and decoder warnings of a run. Decoders add to them, which is rare; main takes the list at the
 * end. */
#include "loader/damage.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/tfrecord.h"
#include "loader/shards/text.h"
#include "stage/log.h"

/* Further damaged records are counted without a message. */
#define REPORTED_MAX 10u
/* Shards with damage that are listed at the end of a run. */
#define SHARDS_LISTED 20u

/* ---- one bit per record ---- */

static size_t bits_bytes(const struct dataset *dataset)
{
    return dataset != NULL ? dataset->record_count / 8 + 1 : 0;
}

size_t record_marks_bytes(const struct dataset *const datasets[PHASE_COUNT])
{
    size_t bytes = 0;
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        bytes += bits_bytes(datasets[phase]);
    return bytes;
}

static int record_marks_init(struct record_marks *marks, const struct dataset *const datasets[PHASE_COUNT])
{
    *marks = (struct record_marks){ { NULL } };
    int rc = 0;
    for (int phase = 0; phase < PHASE_COUNT && rc == 0; phase++) {
        marks->bits[phase] = calloc(bits_bytes(datasets[phase]) + 1, 1);
        rc = marks->bits[phase] != NULL ? 0 : -ENOMEM;
    }
    return rc;
}

static void record_marks_release(struct record_marks *marks)
{
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        free(marks->bits[phase]);
    *marks = (struct record_marks){ { NULL } };
}

static bool record_marks_set(struct record_marks *marks, enum phase phase, uint64_t id)
{
    const uint8_t bit = (uint8_t)(1u << (id % 8));
    return (atomic_fetch_or(&marks->bits[phase][id / 8], bit) & bit) == 0;
}

/* ---- the list ---- */

static bool comes_before(const struct damaged_record *a, const struct damaged_record *b)
{
    if (a->phase != b->phase)
        return a->phase < b->phase;
    return a->shard != b->shard ? a->shard < b->shard : a->offset < b->offset;
}

/* Make room for a record; a full list drops its last record. False if `record` itself would be the last. */
static bool make_room(struct damage_list *list, const struct damaged_record *record)
{
    if (list->count < DAMAGE_LISTED_MAX) {
        list->count++;
        return true;
    }
    const struct damaged_record *const last = &list->records[DAMAGE_LISTED_MAX - 1];
    const bool comes_in = comes_before(record, last);
    list->unlisted += comes_in ? last->count : record->count;
    return comes_in;
}

void damage_list_add(struct damage_list *list, const struct damaged_record *record)
{
    if (!make_room(list, record))
        return;
    size_t at = list->count - 1;
    for (; at > 0 && comes_before(record, &list->records[at - 1]); at--)
        list->records[at] = list->records[at - 1];
    list->records[at] = *record;
}

void damaged_record_describe(const struct damaged_record *record, char *text, size_t text_size)
{
    record_place_describe(record->path, record->record, record->offset, &record->problem, text, text_size);
}

/* ---- damage ---- */

size_t damage_bytes(const struct dataset *const datasets[PHASE_COUNT])
{
    size_t bytes = sizeof(struct damage_list) + record_marks_bytes(datasets);
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        bytes += datasets[phase] != NULL ? datasets[phase]->shard_count * sizeof(uint64_t) : 0;
    return bytes;
}

/* Report a damaged record. Called with the lock held, so that no message follows damage_silence. */
static void report_locked(struct damage *damage, const struct damaged_record *record)
{
    const uint64_t before = damage->reported++;
    char text[DAMAGE_TEXT_BYTES];
    if (damage->is_silent || before > REPORTED_MAX)
        return;
    damaged_record_describe(record, text, sizeof(text));
    if (before < REPORTED_MAX)
        log_message(LOG_RUN, "skipped: %s", text);
    else
        log_message(LOG_RUN, "skipped: more damaged records; from here on they are only counted");
}

/* Count, list and report damaged records. Any thread. */
static void add_record(struct damage *damage, const struct damaged_record *record)
{
    atomic_fetch_add(&damage->count, record->count);
    pthread_mutex_lock(&damage->lock);
    report_locked(damage, record);
    damage_list_add(damage->list, record);
    damage->in_shards[record->phase][record->shard] += record->count;
    damage->last = *record;
    if (damage->sink.add != NULL)
        damage->sink.add(damage->sink.arg, record);
    pthread_mutex_unlock(&damage->lock);
}

/* If the compressed data of a loss are damaged, report that damage instead of the header's. */
static bool find_break(struct shard_source *source, const struct shard_damage *lost, struct record_problem *problem)
{
    char text[sizeof(problem->text)];
    if (shard_source_find_break(source, lost->offset, text, sizeof(text)) >= lost->offset + lost->bytes)
        return false;
    memcpy(problem->text, text, sizeof(text));
    problem->has_crcs = false;
    return true;
}

/* Describe a loss by the header at its beginning, which was invalid when the shard was indexed. */
static void find_loss(const struct dataset *dataset, uint32_t shard, const struct shard_damage *lost,
                      struct record_problem *problem_out)
{
    uint8_t header[TFRECORD_HEADER_BYTES];
    const uint64_t left = dataset->indexes[shard].bytes - lost->offset;
    struct tfrecord_problem problem = { .needed_bytes = sizeof(header), .available_bytes = left };
    enum tfrecord_check check = TFRECORD_CUT;
    uint64_t payload_bytes;
    if (shard_source_read(dataset->sources[shard], header, sizeof(header), lost->offset) == (ssize_t)sizeof(header))
        check = tfrecord_header(header, &payload_bytes, &problem);
    if (check == TFRECORD_OK) {
        problem = (struct tfrecord_problem){ .needed_bytes = payload_bytes + TFRECORD_FRAME_BYTES,
                                            .available_bytes = left };
        check = TFRECORD_CUT;
    }
    record_problem_set(problem_out, check, &problem);
    if (find_break(dataset->sources[shard], lost, problem_out) && lost->bytes == 1)
        return;                 /* only the placeholder byte of a break: no bytes of records are lost here */
    const size_t length = strlen(problem_out->text);
    snprintf(problem_out->text + length, sizeof(problem_out->text) - length,
             ": no record was found in %" PRIu64 " byte%s", lost->bytes, lost->bytes == 1 ? "" : "s");
}

static void add_lost(struct damage *damage, enum phase phase, uint32_t shard)
{
    const struct dataset *const dataset = damage->datasets[phase];
    const struct shard_index *const index = &dataset->indexes[shard];
    for (uint64_t i = 0; i < index->damage_count; i++) {
        const struct shard_damage *const lost = &index->damages[i];
        if (!shard_index_counts(index, i))
            continue;
        struct damaged_record record = {
            .phase = phase,
            .shard = shard,
            .path = dataset->paths[shard],
            .record = lost->before_record - (lost->bad_offset < lost->offset),
            .offset = lost->bad_offset,
            .count = 1,
        };
        find_loss(dataset, shard, lost, &record.problem);
        add_record(damage, &record);
    }
}

/* Add the records that are missing at the end of a shard, by the count in the data set's description. */
static void add_missing(struct damage *damage, enum phase phase, uint32_t shard)
{
    const struct dataset *const dataset = damage->datasets[phase];
    const struct shard_index *const index = &dataset->indexes[shard];
    const uint64_t missing = dataset->missing_records[shard];
    const uint64_t known = index->record_count + index->left_out + shard_index_lost(index);
    struct damaged_record record = {
        .phase = phase,
        .shard = shard,
        .path = dataset->paths[shard],
        .record = index->record_count + index->left_out,
        .offset = index->bytes,
        .count = missing,
    };
    if (missing == 0)
        return;
    if (dataset->sources[shard] == NULL)
        snprintf(record.problem.text, sizeof(record.problem.text),
                 "is missing: %s says %" PRIu64 " record%s", dataset->listed_in, missing, missing == 1 ? "" : "s");
    else if (index->bytes == 0 && missing == 1)
        snprintf(record.problem.text, sizeof(record.problem.text), "is empty: 0 bytes");
    else
        snprintf(record.problem.text, sizeof(record.problem.text),
                 "%" PRIu64 " record%s missing from here on: %s says %" PRIu64, missing,
                 missing == 1 ? " is" : "s are", dataset->listed_in, known + missing);
    add_record(damage, &record);
}

/* Mark damaged records before a loss that have the same cause, so that they are not counted in addition. If a part of a
 * data set is held out, losses are reported and counted with the part used for training. */
static void mark_losses(struct damage *damage, enum phase phase, uint32_t shard)
{
    const struct dataset *const dataset = damage->datasets[phase];
    const bool is_held_out = dataset->options.part == DATASET_HELD_OUT;
    const struct shard_index *const index = &dataset->indexes[shard];
    const struct shard_index *const told = is_held_out ? &damage->datasets[PHASE_TRAIN]->indexes[shard] : index;
    uint64_t i = 0;
    for (uint64_t lost = 0; lost < told->damage_count; lost++) {
        while (i < index->record_count && shard_index_find(index, i).offset < told->damages[lost].unit_offset)
            i++;
        for (; i < index->record_count && shard_index_find(index, i).offset < told->damages[lost].offset; i++)
            (void)record_marks_set(&damage->known, phase, dataset->first_ids[shard] + i);
    }
}

static void add_losses(struct damage *damage, enum phase phase)
{
    const struct dataset *const dataset = damage->datasets[phase];
    for (uint32_t shard = 0; dataset != NULL && shard < dataset->shard_count; shard++) {
        mark_losses(damage, phase, shard);
        add_lost(damage, phase, shard);
        add_missing(damage, phase, shard);
    }
}

int damage_init(struct damage *damage, const struct dataset *const datasets[PHASE_COUNT],
                const struct damage_sink *sink)
{
    *damage = (struct damage){ .list = calloc(1, sizeof(*damage->list)), .sink = *sink };
    int rc = damage->list != NULL ? record_marks_init(&damage->known, datasets) : -ENOMEM;
    for (int phase = 0; phase < PHASE_COUNT && rc == 0; phase++) {
        damage->datasets[phase] = datasets[phase];
        damage->in_shards[phase] = calloc(datasets[phase] != NULL ? datasets[phase]->shard_count + 1 : 1,
                                          sizeof(*damage->in_shards[phase]));
        rc = damage->in_shards[phase] != NULL ? 0 : -ENOMEM;
    }
    if (rc < 0) {
        damage_release(damage);
        return rc;
    }
    pthread_mutex_init(&damage->lock, NULL);
    damage->has_lock = true;
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        add_losses(damage, (enum phase)phase);
    return 0;
}

void damage_release(struct damage *damage)
{
    if (damage->has_lock)
        pthread_mutex_destroy(&damage->lock);
    free(damage->list);
    record_marks_release(&damage->known);
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        free(damage->in_shards[phase]);
    *damage = (struct damage){ 0 };
}

bool damage_add(struct damage *damage, enum phase phase, uint64_t id, const struct record_problem *problem)
{
    if (!record_marks_set(&damage->known, phase, id))
        return false;
    const struct dataset *const dataset = damage->datasets[phase];
    const struct dataset_place place = dataset_find(dataset, id);
    const struct damaged_record record = {
        .phase = phase,
        .shard = place.shard,
        .path = dataset->paths[place.shard],
        .record = dataset_number(dataset, &place),
        .offset = place.offset,
        .count = 1,
        .problem = *problem,
    };
    add_record(damage, &record);
    return true;
}

uint64_t damage_count(const struct damage *damage)
{
    return atomic_load(&damage->count);
}

void damage_silence(struct damage *damage)
{
    if (!damage->has_lock)
        return;
    pthread_mutex_lock(&damage->lock);
    damage->is_silent = true;
    pthread_mutex_unlock(&damage->lock);
}

static bool is_same_record(const struct damaged_record *a, const struct damaged_record *b)
{
    return a->phase == b->phase && a->shard == b->shard && a->offset == b->offset;
}

/* Add the counts of the shards: "; in each file: a.tfrecord 3 of 100, b.tfrecord 1 of 80". */
static void list_shards(const struct damage *damage, struct text *text)
{
    uint32_t listed = 0, more = 0;
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        const struct dataset *const dataset = damage->datasets[phase];
        for (uint32_t shard = 0; dataset != NULL && shard < dataset->shard_count; shard++) {
            const struct shard_index *const index = &dataset->indexes[shard];
            const uint64_t lost = damage->in_shards[phase][shard];
            char path[DAMAGE_TEXT_BYTES];
            if (lost == 0 || (listed == SHARDS_LISTED && ++more > 0))
                continue;
            log_escape(dataset->paths[shard], strlen(dataset->paths[shard]), path, sizeof(path));
            text_add(text, "%s%s %" PRIu64 " of %" PRIu64, listed++ == 0 ? "; in each file: " : ", ", path, lost,
                     index->record_count + index->left_out + shard_index_lost(index) + dataset->missing_records[shard]);
        }
    }
    if (more > 0)
        text_add(text, " and %" PRIu32 " more files", more);
}

void damage_end(struct damage *damage, char *text, size_t text_size)
{
    char record[DAMAGE_TEXT_BYTES];
    struct text summary;
    text_init(&summary, text, text_size);
    pthread_mutex_lock(&damage->lock);
    assert(damage->list->count > 0);
    damage->is_silent = true;
    damaged_record_describe(&damage->list->records[0], record, sizeof(record));
    text_add(&summary, "the first: %s", record);
    if (!is_same_record(&damage->last, &damage->list->records[0])) {
        damaged_record_describe(&damage->last, record, sizeof(record));
        text_add(&summary, "; the last: %s", record);
    }
    list_shards(damage, &summary);
    pthread_mutex_unlock(&damage->lock);
}

uint64_t damage_record_count(const struct damage *damage)
{
    uint64_t count = 0;
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        if (damage->datasets[phase] != NULL)
            count += damage->datasets[phase]->record_count + damage->datasets[phase]->lost_records;
    return count;
}

struct damage_list *damage_take_list(struct damage *damage)
{
    struct damage_list *const list = damage->list;
    damage->list = NULL;
    return list;
}

/* ---- warnings ---- */

int decode_warnings_init(struct decode_warnings *warnings, const struct dataset *const datasets[PHASE_COUNT])
{
    *warnings = (struct decode_warnings){ .count = 0 };
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        warnings->datasets[phase] = datasets[phase];
    return record_marks_init(&warnings->known, datasets);
}

void decode_warnings_release(struct decode_warnings *warnings)
{
    record_marks_release(&warnings->known);
}

bool decode_warnings_add(struct decode_warnings *warnings, enum phase phase, uint64_t id,
                         const struct record_problem *warning)
{
    if (!record_marks_set(&warnings->known, phase, id))
        return false;
    if (atomic_fetch_add(&warnings->count, 1) > 0)
        return true;
    char text[DAMAGE_TEXT_BYTES];
    record_describe(warnings->datasets[phase], id, warning, text, sizeof(text));
    log_message(LOG_RUN, "%s: the part that could be decoded is used; further such images are only counted", text);
    return true;
}

uint64_t decode_warnings_count(const struct decode_warnings *warnings)
{
    return atomic_load(&warnings->count);
}
