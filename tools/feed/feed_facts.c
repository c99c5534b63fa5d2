/* The functions of pipetrain-feed.h that report facts, statistics, damage and messages. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loader/label_table.h"
#include "stage/clock.h"
#include "tools/feed/feed_parts.h"

/* ---- problems ---- */

/* Read "record N at byte B: " at `text`. */
static bool read_place(const char *text, uint64_t *record_out)
{
    uint64_t record, offset;
    int end = 0;
    const bool is_place = sscanf(text, ": record %" SCNu64 " at byte %" SCNu64 ":%n", &record, &offset, &end) == 2 &&
                          end > 0;
    if (is_place)
        *record_out = record;
    return is_place;
}

void problem_find_record(struct pipetrain_feed_problem *problem)
{
    problem->record = PIPETRAIN_FEED_NO_RECORD;
    problem->file[0] = '\0';
    const char *at = strstr(problem->message, ": record ");
    while (at != NULL && !read_place(at, &problem->record))
        at = strstr(at + 1, ": record ");
    const size_t bytes = at != NULL ? (size_t)(at - problem->message) : 0;
    if (at == NULL || bytes >= sizeof(problem->file))
        return;
    memcpy(problem->file, problem->message, bytes);
    problem->file[bytes] = '\0';
}

/* ---- facts ---- */

/* Copy as much of a struct as the caller's version has, which begins with its size. */
static void copy_struct(void *out, size_t out_bytes, void *from, size_t from_bytes)
{
    memcpy(from, &out_bytes, sizeof(out_bytes));
    memcpy(out, from, out_bytes < from_bytes ? out_bytes : from_bytes);
}

/* The number of classes that the set describes, or that is configured; 0: unknown. */
static uint32_t class_count_of(const struct feed_plan *plan)
{
    const struct dataset *const dataset = plan->dataset;
    if (!dataset->options.classes_are_unknown)
        return dataset->options.classes;
    return dataset->class_names.count;
}

int pipetrain_feed_info(struct pipetrain_feed *feed, struct pipetrain_feed_info *info_out)
{
    const int result = feed_enter_data(feed);
    if (result != PIPETRAIN_FEED_OK)
        return result;
    const struct feed_plan *const plan = &feed->plan;
    const struct dataset *const dataset = plan->dataset;
    struct pipetrain_feed_info info = {
        .records = dataset->record_count,
        .steps_per_epoch = plan->steps_per_epoch,
        .epochs = plan->is_endless ? 0 : plan->epochs,
        .epoch_bytes = plan->epoch_bytes,
        .fingerprint = dataset->contents,
        .seed = plan->spec.seed,
        .classes = class_count_of(plan),
        .named_classes = dataset->class_names.count,
        .batch = plan->schedule.batch,
        .rank = plan->schedule.here.first,
        .world = plan->schedule.towers,
        .count_max = plan->layout.capacity,
        .depth = plan->depth,
        .threads = plan->spec.decode_threads,
        .read_threads = plan->spec.read_threads,
        .height = plan->is_raw ? 0 : dataset->options.shape.height,
        .width = plan->is_raw ? 0 : dataset->options.shape.width,
        .channels = plan->is_raw ? 0 : dataset->options.shape.channels,
        .shards = dataset->shard_count,
        .batch_bytes = plan->block_bytes,
    };
    copy_struct(info_out, info_out->struct_bytes, &info, sizeof(info));
    feed_leave_data(feed);
    return PIPETRAIN_FEED_OK;
}

int pipetrain_feed_class_name(struct pipetrain_feed *feed, uint32_t class_number, char *name_out, size_t name_bytes)
{
    int result = feed_enter_data(feed);
    if (result != PIPETRAIN_FEED_OK)
        return result;
    const struct class_names *const names = &feed->plan.dataset->class_names;
    if (class_number < names->count)
        snprintf(name_out, name_bytes, "%s", names->names[class_number]);
    else
        result = PIPETRAIN_FEED_END;
    feed_leave_data(feed);
    return result;
}

static int count_classes(const struct feed_plan *plan, uint64_t *counts, uint32_t class_count, uint64_t *others_out,
                         struct pipetrain_feed_problem *problem)
{
    int32_t *labels = NULL;
    uint64_t others = 0;
    const int rc = label_table_make(&labels, plan->dataset, plan->spec.decode_threads);
    if (rc == -ECANCELED)
        return PIPETRAIN_FEED_CLOSED;
    if (rc != 0)
        return feed_fail(problem, PIPETRAIN_FEED_MEMORY, "the labels cannot be read: %s", exit_cause(rc));
    memset(counts, 0, class_count * sizeof(*counts));
    for (uint64_t id = 0; id < plan->dataset->record_count; id++) {
        const bool is_counted = labels[id] >= 0 && (uint32_t)labels[id] < class_count;
        uint64_t *const count = is_counted ? &counts[labels[id]] : &others;
        (*count)++;
    }
    free(labels);
    if (others_out != NULL)
        *others_out = others;
    return PIPETRAIN_FEED_OK;
}

int pipetrain_feed_class_counts(struct pipetrain_feed *feed, uint64_t *counts, uint32_t class_count,
                                uint64_t *others_out, struct pipetrain_feed_problem *problem)
{
    int result = feed_enter_data(feed);
    if (result != PIPETRAIN_FEED_OK)
        return result;
    if (feed->plan.is_raw)
        result = feed_fail(problem, PIPETRAIN_FEED_OPTION, "raw records have no labels to count");
    else
        result = count_classes(&feed->plan, counts, class_count, others_out, problem);
    feed_leave_data(feed);
    return result;
}

/* ---- statistics ---- */

static double share(uint64_t busy_ns, uint64_t wall_ns, uint32_t threads)
{
    const double busy = wall_ns > 0 ? (double)busy_ns / ((double)wall_ns * threads) : 0;
    return busy < 1 ? busy : 1;
}

/* Called with the lock held: the counts of the supply that there is. */
static void add_supply(const struct pipetrain_feed *feed, struct pipetrain_feed_stats *stats)
{
    const struct supply *const supply = feed->supply;
    const struct loader_spec *const spec = &feed->plan.spec;
    struct loader_counts counts;
    struct ring_counts ring;
    if (supply == NULL || supply->loader == NULL)
        return;
    const uint64_t wall_ns = clock_now_ns() - supply->started_ns;
    loader_count(supply->loader, &counts);
    ring_count(supply->ring, &ring);
    stats->read_bytes += counts.bytes;
    stats->damaged_records += counts.corrupt_records;
    stats->decoder_warnings += counts.decoder_warnings;
    stats->read_busy = share(counts.read_busy_ns, wall_ns, spec->read_threads);
    stats->decode_busy = share(counts.decode_busy_ns, wall_ns, spec->decode_threads);
    stats->ready = (uint32_t)(ring.published - ring.taken);
}

/* Called with the lock held: lent batches of all supplies. */
static uint32_t count_lent(const struct pipetrain_feed *feed)
{
    uint32_t lent = feed->supply != NULL ? feed->supply->lent_count : 0;
    for (const struct supply *supply = feed->retired; supply != NULL; supply = supply->next)
        lent += supply->lent_count;
    return lent;
}

int pipetrain_feed_stats(struct pipetrain_feed *feed, struct pipetrain_feed_stats *stats_out)
{
    if (feed_is_forked(feed))
        return PIPETRAIN_FEED_FORKED;
    struct pipetrain_feed_stats stats = { .open_ns = clock_now_ns() - feed->opened_ns };
    pthread_mutex_lock(&feed->lock);
    const bool is_closed = feed->is_closed;
    stats.batches = feed->batches;
    stats.samples = feed->samples;
    stats.waited_ns = feed->waited_ns;
    stats.read_bytes = feed->counts.bytes;
    stats.damaged_records = feed->counts.corrupt_records;
    stats.decoder_warnings = feed->counts.decoder_warnings;
    stats.lent = count_lent(feed);
    if (!is_closed && !feed->is_changing)
        add_supply(feed, &stats);
    pthread_mutex_unlock(&feed->lock);
    copy_struct(stats_out, stats_out->struct_bytes, &stats, sizeof(stats));
    return is_closed ? PIPETRAIN_FEED_CLOSED : PIPETRAIN_FEED_OK;
}

/* ---- damage and messages ---- */

int pipetrain_feed_damaged(struct pipetrain_feed *feed, uint32_t index, struct pipetrain_feed_problem *damage_out)
{
    if (feed_is_forked(feed))
        return PIPETRAIN_FEED_FORKED;
    pthread_mutex_lock(&feed->found_lock);
    const bool is_known = index < feed->damaged_count;
    if (is_known)
        *damage_out = feed->damaged[index];
    pthread_mutex_unlock(&feed->found_lock);
    return is_known ? PIPETRAIN_FEED_OK : PIPETRAIN_FEED_END;
}

int pipetrain_feed_messages(struct pipetrain_feed *feed, char *text_out, size_t bytes)
{
    if (feed_is_forked(feed))
        return PIPETRAIN_FEED_FORKED;
    if (bytes > 0)
        text_out[0] = '\0';
    return PIPETRAIN_FEED_OK;
}

int pipetrain_feed_key(uint32_t index, struct pipetrain_feed_key *key_out)
{
    (void)index;
    (void)key_out;
    return PIPETRAIN_FEED_END;
}
