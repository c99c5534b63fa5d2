/* The functions of pipetrain-feed.h that report facts, statistics, damage and messages. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loader/label_table.h"
#include "stage/clock.h"
#include "tools/feed/feed_parts.h"
#include "tools/lib/config/feed_settings.h"
#include "tools/lib/limits.h"

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

/* What comes before the path of the first of several damaged records (damage_end, dataset_probe.c). */
#define FIRST_OF_SEVERAL "; the first: "

/* Where the path begins that ends at `end`: in the same line, after the name of the set or "the first: ". */
static const char *find_path(const char *message, const char *end)
{
    static const char *const sets[] = { "train: ", "validation: " };
    const char *const newline = memrchr(message, '\n', (size_t)(end - message));
    const char *path = newline != NULL ? newline + 1 : message;
    const char *const first = memmem(path, (size_t)(end - path), FIRST_OF_SEVERAL, strlen(FIRST_OF_SEVERAL));
    if (first != NULL)
        return first + strlen(FIRST_OF_SEVERAL);
    for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++)
        if (strncmp(path, sets[i], strlen(sets[i])) == 0)
            return path + strlen(sets[i]);
    return path;
}

void problem_find_record(struct pipetrain_feed_problem *problem)
{
    problem->record = PIPETRAIN_FEED_NO_RECORD;
    problem->file[0] = '\0';
    const char *at = strstr(problem->message, ": record ");
    while (at != NULL && !read_place(at, &problem->record))
        at = strstr(at + 1, ": record ");
    if (at == NULL)
        return;
    const char *const path = find_path(problem->message, at);
    const size_t bytes = (size_t)(at - path);
    if (bytes >= sizeof(problem->file))
        return;
    memcpy(problem->file, path, bytes);
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
    else {
        const struct log_sink *const before = log_sink_set(&feed->sink);
        result = count_classes(&feed->plan, counts, class_count, others_out, problem);
        (void)log_sink_set(before);
    }
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
    const uint64_t wall_ns = supply->asked_ns != 0 ? clock_now_ns() - supply->asked_ns : 0;
    loader_count(supply->loader, &counts);
    ring_count(supply->ring, &ring);
    stats->read_bytes += counts.bytes;
    stats->damaged_records += counts.corrupt_records;
    stats->decoder_warnings += counts.decoder_warnings;
    stats->read_busy = share(counts.read_busy_ns - supply->read_busy_ns, wall_ns, spec->read_threads);
    stats->decode_busy = share(counts.decode_busy_ns - supply->decode_busy_ns, wall_ns, spec->decode_threads);
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

/* Where takes waited for more than this share of the time, the feed limits the caller (VERDICT_INPUT_WAIT). */
#define WAIT_SHARE 0.02
/* The threads of a stage that work for this share of their time have no room left. */
#define ALWAYS_BUSY 0.75
/* In fewer batches the first ones would decide. */
#define BATCHES_LEAST 20u

/* The stage whose threads have no room left: what to change. */
static void describe_busy(const struct loader_spec *spec, const struct pipetrain_feed_stats *stats, double waited,
                          char *out, size_t out_bytes)
{
    const bool decodes = stats->decode_busy >= stats->read_busy;
    const uint32_t threads = decodes ? spec->decode_threads : spec->read_threads, cores = limits_cores();
    const double busy = decodes ? stats->decode_busy : stats->read_busy;
    int bytes = snprintf(out, out_bytes, "%s limits (takes waited %.1f %% of the time; %" PRIu32
                         " %s%s %.0f %% busy): ",
                         decodes ? "decoding" : "reading", 100 * waited, threads, decodes ? "decoder" : "reader",
                         threads == 1 ? "" : "s", 100 * busy);
    char *const fix = out + bytes;
    const size_t room = out_bytes - (size_t)bytes;
    if (!decodes)
        snprintf(fix, room, "raise input.read_threads to %" PRIu32 ", or set data.shuffle = block for storage that is "
                 "fast only with large reads", threads + 1);
    else if (threads < cores)
        snprintf(fix, room, "raise threads (input.decode_threads) to %" PRIu32, cores);
    else
        snprintf(fix, room, "all %" PRIu32 " cores decode: store smaller images (pipetrain-convert)", cores);
}

/* What limits the caller: its waits since its first take, and how busy the threads were since then or the last seek. */
static void describe_limit(const struct feed_plan *plan, const struct pipetrain_feed_stats *stats, uint64_t wall_ns,
                           char *out, size_t out_bytes)
{
    const double all = wall_ns > 0 ? (double)stats->waited_ns / (double)wall_ns : 0, waited = all < 1 ? all : 1;
    if (stats->batches < BATCHES_LEAST)
        out[0] = '\0';
    else if (waited <= WAIT_SHARE)
        snprintf(out, out_bytes, "the caller limits: takes waited %.1f %% of the time", 100 * waited);
    else if (stats->decode_busy >= ALWAYS_BUSY || stats->read_busy >= ALWAYS_BUSY)
        describe_busy(&plan->spec, stats, waited, out, out_bytes);
    else
        snprintf(out, out_bytes, "batches are taken in bursts (takes waited %.1f %% of the time, decoders %.0f %% "
                 "busy): raise depth (input.prefetch_depth) to %" PRIu32, 100 * waited, 100 * stats->decode_busy,
                 2 * plan->depth);
}

int pipetrain_feed_stats(struct pipetrain_feed *feed, struct pipetrain_feed_stats *stats_out)
{
    if (feed_is_forked(feed))
        return PIPETRAIN_FEED_FORKED;
    struct pipetrain_feed_stats stats = { .open_ns = clock_now_ns() - feed->opened_ns };
    pthread_mutex_lock(&feed->lock);
    const bool is_closed = feed->is_closed;
    const uint64_t wall_ns = feed->asked_ns != 0 ? clock_now_ns() - feed->asked_ns : 0;
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
    describe_limit(&feed->plan, &stats, wall_ns, stats.limit, sizeof(stats.limit));
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

void feed_message(void *arg, enum log_level level, const char *text)
{
    struct pipetrain_feed *const feed = arg;
    const size_t bytes = strlen(text);
    if (level == LOG_ERROR)     /* takes return it */
        return;
    pthread_mutex_lock(&feed->found_lock);
    if (bytes + 1 > FEED_MESSAGES_BYTES - feed->messages_bytes) {
        feed->messages_dropped++;
    } else {
        memcpy(feed->messages + feed->messages_bytes, text, bytes);
        feed->messages_bytes += bytes;
        feed->messages[feed->messages_bytes++] = '\n';
    }
    pthread_mutex_unlock(&feed->found_lock);
}

/* Called with the lock held: the bytes of the first lines that fit into `room` bytes; of a longer first line its
 * beginning. */
static size_t lines_that_fit(const struct pipetrain_feed *feed, size_t room)
{
    if (feed->messages_bytes <= room)
        return feed->messages_bytes;
    const char *const last = memrchr(feed->messages, '\n', room);
    return last != NULL ? (size_t)(last - feed->messages) + 1 : room;
}

int pipetrain_feed_messages(struct pipetrain_feed *feed, char *text_out, size_t bytes)
{
    if (feed_is_forked(feed))
        return PIPETRAIN_FEED_FORKED;
    if (bytes == 0)
        return PIPETRAIN_FEED_OK;
    pthread_mutex_lock(&feed->found_lock);
    const size_t taken = lines_that_fit(feed, bytes - 1);
    memcpy(text_out, feed->messages, taken);
    text_out[taken] = '\0';
    feed->messages_bytes -= taken;
    memmove(feed->messages, feed->messages + taken, feed->messages_bytes);
    if (feed->messages_bytes == 0 && feed->messages_dropped > 0) {
        feed->messages_bytes = (size_t)snprintf(feed->messages, FEED_MESSAGES_BYTES, "%" PRIu64 " more messages\n",
                                                feed->messages_dropped);
        feed->messages_dropped = 0;
    }
    pthread_mutex_unlock(&feed->found_lock);
    return PIPETRAIN_FEED_OK;
}

int pipetrain_feed_key(uint32_t index, struct pipetrain_feed_key *key_out)
{
    const struct option_row *const option = feed_settings_option(index);
    struct pipetrain_feed_key key = { 0 };
    if (option == NULL)
        return PIPETRAIN_FEED_END;
    snprintf(key.name, sizeof(key.name), "%s.%s", section_name(option->section), option->key);
    snprintf(key.type, sizeof(key.type), "%s", option_type_name(option->type));
    snprintf(key.initial, sizeof(key.initial), "%s", option->initial);
    option_range(option, key.range, sizeof(key.range));
    snprintf(key.help, sizeof(key.help), "%s", option->help);
    copy_struct(key_out, key_out->struct_bytes, &key, sizeof(key));
    return PIPETRAIN_FEED_OK;
}
