/* The damage a run has met. Decoders add to it, rarely; main takes its list at the end. */
#include "loader/damage.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/tfrecord.h"
#include "stage/log.h"

/* More damaged records are counted without a message. */
#define TOLD_MAX 10u

size_t damage_bytes(const struct dataset *const datasets[PASS_COUNT])
{
    return sizeof(struct damage_list) + record_marks_bytes(datasets);
}

/* With the lock, so that nothing is said behind damage_silence. */
static void tell_locked(struct damage *damage, const struct damaged_record *record)
{
    const uint64_t before = damage->told++;
    char text[DAMAGE_TEXT_BYTES];
    if (damage->is_silent || before > TOLD_MAX)
        return;
    damaged_record_describe(record, text, sizeof(text));
    if (before < TOLD_MAX)
        log_message(LOG_RUN, "skipped: %s", text);
    else
        log_message(LOG_RUN, "skipped: more damaged records, counted from here on");
}

/* Count, list and tell. Any thread. */
static void add_record(struct damage *damage, const struct damaged_record *record)
{
    atomic_fetch_add(&damage->count, record->count);
    pthread_mutex_lock(&damage->lock);
    tell_locked(damage, record);
    damage_list_add(damage->list, record);
    if (damage->sink.add != NULL)
        damage->sink.add(damage->sink.arg, record);
    pthread_mutex_unlock(&damage->lock);
}

/* What is kept is damaged there: that says more than a header does. */
static bool find_break(struct shard_source *source, const struct shard_damage *lost, struct record_problem *problem)
{
    char text[sizeof(problem->text)];
    if (shard_source_find_break(source, lost->offset, text, sizeof(text)) >= lost->offset + lost->bytes)
        return false;
    memcpy(problem->text, text, sizeof(text));
    problem->has_crcs = false;
    return true;
}

/* What the header at the beginning of a loss says, which was no right one when the shard was
 * indexed. */
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
        return;                 /* the byte that a break has, and no bytes of records */
    const size_t length = strlen(problem_out->text);
    snprintf(problem_out->text + length, sizeof(problem_out->text) - length,
             ": no record can be told in %" PRIu64 " byte%s", lost->bytes, lost->bytes == 1 ? "" : "s");
}

static void add_lost(struct damage *damage, enum pass pass, uint32_t shard)
{
    const struct dataset *const dataset = damage->datasets[pass];
    const struct shard_index *const index = &dataset->indexes[shard];
    for (uint64_t i = 0; i < index->damage_count; i++) {
        const struct shard_damage *const lost = &index->damages[i];
        if (!shard_index_counts(index, i))
            continue;
        struct damaged_record record = {
            .pass = pass,
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

/* Records that are not there at all, behind all that is. */
static void add_missing(struct damage *damage, enum pass pass, uint32_t shard)
{
    const struct dataset *const dataset = damage->datasets[pass];
    const struct shard_index *const index = &dataset->indexes[shard];
    const uint64_t missing = dataset->missing_records[shard];
    const uint64_t known = index->record_count + index->left_out + shard_index_lost(index);
    struct damaged_record record = {
        .pass = pass,
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

/* Records in front of a loss that are wrong for the same cause are no damage of their own. Of a set that is parted it
 * is told, and counted, with the part that is trained on. */
static void mark_losses(struct damage *damage, enum pass pass, uint32_t shard)
{
    const struct dataset *const dataset = damage->datasets[pass];
    const bool is_held_out = dataset->options.part == DATASET_HELD_OUT;
    const struct shard_index *const index = &dataset->indexes[shard];
    const struct shard_index *const told = is_held_out ? &damage->datasets[PASS_TRAIN]->indexes[shard] : index;
    uint64_t i = 0;
    for (uint64_t lost = 0; lost < told->damage_count; lost++) {
        while (i < index->record_count && index->records[i].offset < told->damages[lost].unit_offset)
            i++;
        for (; i < index->record_count && index->records[i].offset < told->damages[lost].offset; i++)
            (void)record_marks_set(&damage->known, pass, dataset->first_ids[shard] + i);
    }
}

static void add_losses(struct damage *damage, enum pass pass)
{
    const struct dataset *const dataset = damage->datasets[pass];
    for (uint32_t shard = 0; dataset != NULL && shard < dataset->shard_count; shard++) {
        mark_losses(damage, pass, shard);
        add_lost(damage, pass, shard);
        add_missing(damage, pass, shard);
    }
}

int damage_init(struct damage *damage, const struct dataset *const datasets[PASS_COUNT],
                const struct damage_sink *sink)
{
    *damage = (struct damage){ .list = calloc(1, sizeof(*damage->list)), .sink = *sink };
    for (int pass = 0; pass < PASS_COUNT; pass++)
        damage->datasets[pass] = datasets[pass];
    const int rc = damage->list != NULL ? record_marks_init(&damage->known, datasets) : -ENOMEM;
    if (rc < 0) {
        damage_release(damage);
        return rc;
    }
    pthread_mutex_init(&damage->lock, NULL);
    damage->has_lock = true;
    for (int pass = 0; pass < PASS_COUNT; pass++)
        add_losses(damage, (enum pass)pass);
    return 0;
}

void damage_release(struct damage *damage)
{
    if (damage->has_lock)
        pthread_mutex_destroy(&damage->lock);
    free(damage->list);
    record_marks_release(&damage->known);
    *damage = (struct damage){ 0 };
}

bool damage_add(struct damage *damage, enum pass pass, uint64_t id, const struct record_problem *problem)
{
    if (!record_marks_set(&damage->known, pass, id))
        return false;
    const struct dataset *const dataset = damage->datasets[pass];
    const struct dataset_place place = dataset_find(dataset, id);
    const struct damaged_record record = {
        .pass = pass,
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

void damage_end(struct damage *damage, char *text, size_t text_size)
{
    pthread_mutex_lock(&damage->lock);
    assert(damage->list->count > 0);
    damage->is_silent = true;
    damaged_record_describe(&damage->list->records[0], text, text_size);
    pthread_mutex_unlock(&damage->lock);
}

uint64_t damage_record_count(const struct damage *damage)
{
    uint64_t count = 0;
    for (int pass = 0; pass < PASS_COUNT; pass++)
        if (damage->datasets[pass] != NULL)
            count += damage->datasets[pass]->record_count + damage->datasets[pass]->lost_records;
    return count;
}

struct damage_list *damage_take_list(struct damage *damage)
{
    struct damage_list *const list = damage->list;
    damage->list = NULL;
    return list;
}
