/* The damage a run has met. Decoders add to it, rarely; main lists it at the end. */
#include "loader/damage.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loader/record.h"
#include "stage/log.h"

/* More damaged records are counted without a message. */
#define TOLD_MAX 10u

static size_t known_bytes(const struct dataset *dataset)
{
    return dataset != NULL ? dataset->record_count / 8 + 1 : 0;
}

size_t damage_bytes(const struct dataset *const datasets[PASS_COUNT])
{
    size_t bytes = DAMAGE_LINES_MAX * sizeof(struct damage_line);
    for (int pass = 0; pass < PASS_COUNT; pass++)
        bytes += known_bytes(datasets[pass]);
    return bytes;
}

/* Count, list and tell. Any thread. */
static void add_line(struct damage *damage, enum pass pass, uint64_t id, const char *text)
{
    const uint64_t before = atomic_fetch_add(&damage->count, 1);
    if (before < TOLD_MAX)
        log_message(LOG_RUN, "skipped: %s", text);
    else if (before == TOLD_MAX)
        log_message(LOG_RUN, "skipped: more damaged records, counted from here on");
    pthread_mutex_lock(&damage->lock);
    if (damage->line_count < DAMAGE_LINES_MAX) {
        struct damage_line *line = &damage->lines[damage->line_count++];
        line->pass = pass;
        line->id = id;
        snprintf(line->text, sizeof(line->text), "%s", text);
    }
    pthread_mutex_unlock(&damage->lock);
}

static void add_lost(struct damage *damage, enum pass pass, uint32_t shard)
{
    const struct dataset *dataset = damage->datasets[pass];
    const struct shard_index *index = &dataset->indexes[shard];
    for (uint64_t i = 0; i < index->damage_count; i++) {
        const struct shard_damage *lost = &index->damages[i];
        char text[DAMAGE_LINE_BYTES];
        snprintf(text, sizeof(text), "%s: record %" PRIu64 " at byte %" PRIu64 ": no record can be told in %" PRIu64
                 " bytes", dataset->paths[shard], lost->before_record + i, lost->offset, lost->bytes);
        add_line(damage, pass, dataset->first_ids[shard] + lost->before_record, text);
    }
}

int damage_init(struct damage *damage, const struct dataset *const datasets[PASS_COUNT])
{
    *damage = (struct damage){ .lines = calloc(DAMAGE_LINES_MAX, sizeof(*damage->lines)) };
    int rc = damage->lines != NULL ? 0 : -ENOMEM;
    for (int pass = 0; pass < PASS_COUNT && rc == 0; pass++) {
        damage->datasets[pass] = datasets[pass];
        damage->known[pass] = calloc(known_bytes(datasets[pass]) + 1, 1);
        rc = damage->known[pass] != NULL ? 0 : -ENOMEM;
    }
    if (rc < 0) {
        damage_release(damage);
        return rc;
    }
    pthread_mutex_init(&damage->lock, NULL);
    for (int pass = 0; pass < PASS_COUNT; pass++) {
        for (uint32_t shard = 0; datasets[pass] != NULL && shard < datasets[pass]->shard_count; shard++)
            add_lost(damage, (enum pass)pass, shard);
    }
    return 0;
}

void damage_release(struct damage *damage)
{
    if (damage->lines != NULL)
        pthread_mutex_destroy(&damage->lock);
    free(damage->lines);
    for (int pass = 0; pass < PASS_COUNT; pass++)
        free(damage->known[pass]);
    damage->lines = NULL;
    memset(damage->known, 0, sizeof(damage->known));
}

bool damage_add(struct damage *damage, enum pass pass, uint64_t id, const char *what)
{
    const uint8_t bit = (uint8_t)(1u << (id % 8));
    if (atomic_fetch_or(&damage->known[pass][id / 8], bit) & bit)
        return false;
    char text[DAMAGE_LINE_BYTES];
    record_describe(damage->datasets[pass], id, what, text, sizeof(text));
    add_line(damage, pass, id, text);
    return true;
}

uint64_t damage_count(const struct damage *damage)
{
    return atomic_load(&damage->count);
}

static int line_compare(const void *a, const void *b)
{
    const struct damage_line *first = a, *second = b;
    if (first->pass != second->pass)
        return first->pass < second->pass ? -1 : 1;
    return first->id < second->id ? -1 : first->id > second->id;
}

size_t damage_list(struct damage *damage, char (*lines)[DAMAGE_LINE_BYTES], size_t max)
{
    if (damage->lines == NULL)
        return 0;
    qsort(damage->lines, damage->line_count, sizeof(*damage->lines), line_compare);
    const size_t count = damage->line_count < max ? damage->line_count : max;
    for (size_t i = 0; i < count; i++)
        snprintf(lines[i], DAMAGE_LINE_BYTES, "%s", damage->lines[i].text);
    return count;
}
