/* The functions of pipetrain-feed.h that open, take, give back, seek and close. Any thread; the states are those of
 * struct pipetrain_feed, and no lock is held while a function waits for a batch or for the end of threads. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "stage/clock.h"
#include "tools/feed/feed_parts.h"
#include "tools/lib/version.h"

/* A take waits for so long before it looks whether it was interrupted, since a signal handler cannot wake it. */
#define SLICE_NS UINT64_C(50000000)
/* A take without a limit waits for so long for one of the lent batches, which its own thread may have. */
#define LENT_NS UINT64_C(1000000000)

const char *pipetrain_feed_version(void)
{
    return PIPETRAIN_VERSION;
}

const char *pipetrain_feed_result_name(int result)
{
    static const char *const names[] = {
        [PIPETRAIN_FEED_OK] = "OK", [PIPETRAIN_FEED_END] = "END", [PIPETRAIN_FEED_TIME] = "TIME",
        [PIPETRAIN_FEED_LENT] = "LENT", [PIPETRAIN_FEED_INTERRUPTED] = "INTERRUPTED",
        [PIPETRAIN_FEED_CLOSED] = "CLOSED", [PIPETRAIN_FEED_FORKED] = "FORKED", [PIPETRAIN_FEED_HANDLE] = "HANDLE",
        [PIPETRAIN_FEED_OPTION] = "OPTION", [PIPETRAIN_FEED_DATA] = "DATA", [PIPETRAIN_FEED_MEMORY] = "MEMORY",
        [PIPETRAIN_FEED_STATE] = "STATE", [PIPETRAIN_FEED_INTERNAL] = "INTERNAL",
    };
    const bool is_known = result >= 0 && (size_t)result < sizeof(names) / sizeof(names[0]);
    return is_known ? names[result] : "?";
}

/* ---- the life of a feed ---- */

static void feed_destroy(struct pipetrain_feed *feed)
{
    feed_plan_close(&feed->plan);
    pthread_cond_destroy(&feed->changed);
    pthread_mutex_destroy(&feed->found_lock);
    pthread_mutex_destroy(&feed->lock);
    free(feed->messages);
    free(feed->damaged);
    free(feed);
}

void feed_enter(struct pipetrain_feed *feed)
{
    atomic_fetch_add(&feed->references, 1);
}

void feed_leave(struct pipetrain_feed *feed)
{
    if (atomic_fetch_sub(&feed->references, 1) == 1)
        feed_destroy(feed);
}

int feed_enter_data(struct pipetrain_feed *feed)
{
    if (feed_is_forked(feed))
        return PIPETRAIN_FEED_FORKED;
    pthread_mutex_lock(&feed->lock);
    const bool is_closed = feed->is_closed;
    if (!is_closed) {
        feed->readers++;
        feed_enter(feed);
    }
    pthread_mutex_unlock(&feed->lock);
    return is_closed ? PIPETRAIN_FEED_CLOSED : PIPETRAIN_FEED_OK;
}

void feed_leave_data(struct pipetrain_feed *feed)
{
    pthread_mutex_lock(&feed->lock);
    feed->readers--;
    pthread_cond_broadcast(&feed->changed);
    pthread_mutex_unlock(&feed->lock);
    feed_leave(feed);
}

/* Called with the lock held. After a seek a record is found again. */
static bool is_kept(const struct pipetrain_feed *feed, const char *message)
{
    uint32_t i = 0;
    while (i < feed->damaged_count && strcmp(feed->damaged[i].message, message) != 0)
        i++;
    return i < feed->damaged_count;
}

/* Keep the first damaged records. Called by a decoder. */
static void damaged_add(void *arg, const struct damaged_record *record)
{
    struct pipetrain_feed *const feed = arg;
    char message[DAMAGE_TEXT_BYTES];
    damaged_record_describe(record, message, sizeof(message));
    pthread_mutex_lock(&feed->found_lock);
    if (feed->damaged_count < FEED_DAMAGED_MAX && !is_kept(feed, message)) {
        struct pipetrain_feed_problem *const kept = &feed->damaged[feed->damaged_count++];
        memcpy(kept->message, message, sizeof(message));
        problem_find_record(kept);
    }
    pthread_mutex_unlock(&feed->found_lock);
}

/* Start the threads at batch `number`; what fails is what takes return. Called by the only thread that changes the
 * feed, without the lock. */
static int feed_start(struct pipetrain_feed *feed, uint64_t number, void **blocks, struct supply **supply_out)
{
    const struct damage_sink sink = { damaged_add, feed };
    struct pipetrain_feed_problem *const problem = &feed->failure_problem;
    if (blocks == NULL)
        blocks = blocks_open(&feed->plan);
    if (blocks == NULL)
        return feed_fail(problem, PIPETRAIN_FEED_MEMORY, "no memory for %" PRIu32 " batches of %zu bytes",
                         feed->plan.depth, feed->plan.block_bytes);
    const int result = supply_start(supply_out, &feed->plan, number, blocks, &sink, problem);
    if (result != PIPETRAIN_FEED_OK)
        blocks_close(&feed->plan, blocks);
    return result;
}

static int open_feed(struct pipetrain_feed *feed, const struct pipetrain_feed_options *options,
                     struct pipetrain_feed_problem *problem)
{
    feed->messages = malloc(FEED_MESSAGES_BYTES);
    int result = feed->messages != NULL ? feed_plan_open(&feed->plan, options, problem)
                                        : feed_fail(problem, PIPETRAIN_FEED_MEMORY, "%s", exit_cause(-ENOMEM));
    if (result != PIPETRAIN_FEED_OK)
        return result;
    feed->plan.dataset->options.is_unwanted = &feed->is_unwanted;
    feed->damaged = feed->plan.spec.skip_corrupt ? calloc(FEED_DAMAGED_MAX, sizeof(*feed->damaged)) : NULL;
    if (feed->plan.spec.skip_corrupt && feed->damaged == NULL)
        return feed_fail(problem, PIPETRAIN_FEED_MEMORY, "%s", exit_cause(-ENOMEM));
    result = feed_start(feed, 0, NULL, &feed->supply);
    if (result != PIPETRAIN_FEED_OK && problem != NULL)
        *problem = feed->failure_problem;
    return result;
}

int pipetrain_feed_open(struct pipetrain_feed **feed_out, const struct pipetrain_feed_options *options,
                        struct pipetrain_feed_problem *problem)
{
    struct pipetrain_feed *const feed = calloc(1, sizeof(*feed));
    if (feed == NULL)
        return feed_fail(problem, PIPETRAIN_FEED_MEMORY, "%s", exit_cause(-ENOMEM));
    feed->process = getpid();
    feed->opened_ns = clock_now_ns();
    feed->next_handle = 1;
    atomic_init(&feed->references, 1);
    pthread_mutex_init(&feed->lock, NULL);
    pthread_mutex_init(&feed->found_lock, NULL);
    clock_init_condition(&feed->changed);
    feed->sink = (struct log_sink){ feed_message, feed };
    const struct log_sink *const before = log_sink_set(&feed->sink);
    const int result = open_feed(feed, options, problem);
    (void)log_sink_set(before);
    if (result == PIPETRAIN_FEED_OK)
        *feed_out = feed;
    else
        feed_leave(feed);
    return result;
}

/* ---- taking ---- */

/* Called with the lock held: what happened before the first take says nothing about the caller's speed. */
static void begin_counting(struct pipetrain_feed *feed)
{
    struct supply *const supply = feed->supply;
    struct loader_counts counts;
    if (supply->asked_ns != 0)
        return;
    loader_count(supply->loader, &counts);
    supply->asked_ns = clock_now_ns();
    supply->read_busy_ns = counts.read_busy_ns;
    supply->decode_busy_ns = counts.decode_busy_ns;
    feed->asked_ns = feed->asked_ns != 0 ? feed->asked_ns : supply->asked_ns;
}

/* Called with the lock held: wait while a seek replaces the supply. Returns OK with the supply, which stays until
 * supply_leave, or the result of the take. */
static int supply_enter(struct pipetrain_feed *feed, uint64_t until_ns, struct supply **supply_out,
                        struct pipetrain_feed_problem *problem)
{
    while (feed->is_changing && !feed->is_closed && !atomic_load(&feed->is_interrupted)) {
        const uint64_t now_ns = clock_now_ns(), slice_ns = now_ns + SLICE_NS;
        if (now_ns >= until_ns)
            return PIPETRAIN_FEED_TIME;
        (void)wait_timed_until(&feed->changed, &feed->lock, until_ns < slice_ns ? until_ns : slice_ns,
                               &feed->waited_ns);
    }
    if (feed->is_closed)
        return PIPETRAIN_FEED_CLOSED;
    if (atomic_load(&feed->is_interrupted))
        return PIPETRAIN_FEED_INTERRUPTED;
    if (feed->supply == NULL) {
        if (problem != NULL)
            *problem = feed->failure_problem;
        return feed->failure;
    }
    begin_counting(feed);
    feed->supply->takers++;
    *supply_out = feed->supply;
    return PIPETRAIN_FEED_OK;
}

/* Called with the lock held. */
static void supply_leave(struct pipetrain_feed *feed, struct supply *supply)
{
    if (--supply->takers == 0)
        pthread_cond_broadcast(&feed->changed);
}

/* Take from the ring in slices of time. Returns as ring_take_until, or -EINTR. */
static int take_in_slices(const struct pipetrain_feed *feed, struct supply *supply, uint64_t until_ns,
                          struct batch **batch_out)
{
    for (uint64_t now_ns = clock_now_ns(), lent_ns = now_ns;;) {
        const uint64_t slice_ns = now_ns + SLICE_NS;
        const int rc = ring_take_until(supply->ring, until_ns < slice_ns ? until_ns : slice_ns, batch_out);
        now_ns = clock_now_ns();
        if (rc != -EBUSY)
            lent_ns = now_ns;
        if ((rc != -ETIMEDOUT && rc != -EBUSY) || now_ns >= until_ns || now_ns - lent_ns >= LENT_NS)
            return rc;
        if (atomic_load(&feed->is_interrupted))
            return -EINTR;
    }
}

/* Called with the lock held: note that the batch is lent. */
static uint64_t lend(struct pipetrain_feed *feed, struct supply *supply, struct batch *batch)
{
    struct lent_batch *lent = supply->lent;
    while (lent->batch != NULL)         /* the ring lends at most `depth` batches */
        lent++;
    *lent = (struct lent_batch){ feed->next_handle++, batch };
    supply->lent_count++;
    feed->batches++;
    feed->samples += batch->local.count;
    if (supply == feed->supply && batch->local.number >= feed->next_number)
        feed->next_number = batch->local.number + 1;
    atomic_fetch_add(&feed->references, 1);
    return lent->handle;
}

static uint64_t step_of_epoch(const struct feed_plan *plan, const struct local_batch *local)
{
    return local->number - (uint64_t)local->epoch * plan->steps_per_epoch;
}

static void describe(const struct feed_plan *plan, struct batch *batch, uint64_t handle,
                     struct pipetrain_feed_batch *batch_out)
{
    const struct local_batch *const local = &batch->local;
    int64_t *const labels = (int64_t *)(void *)((uint8_t *)batch->block + plan->labels_offset);
    const size_t bytes = batch_out->struct_bytes;
    for (uint32_t i = 0; !plan->is_raw && i < local->count; i++)
        labels[i] = batch->labels[i];
    if (batch->mixes != NULL && local->count % 2 == 1)
        batch->mixes[local->count - 1] = (struct mix){ .share = 1 };    /* it has no partner */
    const struct pipetrain_feed_batch described = {
        .struct_bytes = bytes,
        .handle = handle,
        .count = local->count,
        .global_count = local->global_count,
        .first_position = local->first_position,
        .epoch = local->epoch,
        .step_of_epoch = step_of_epoch(plan, local),
        .step = local->number,
        .is_last_of_epoch = local->last_of_phase,
        .images = plan->is_raw ? NULL : batch->pixels,
        .labels = plan->is_raw ? NULL : labels,
        .ids = batch->ids,
        .mixes = (const struct pipetrain_feed_mix *)(const void *)batch->mixes,
        .records = plan->is_raw ? batch->block : NULL,
    };
    memcpy(batch_out, &described, bytes < sizeof(described) ? bytes : sizeof(described));
}

/* The result of a take that got no batch. -1: the supply was replaced or is being closed, look again. */
static int result_of_take(int rc, const struct supply *supply, struct pipetrain_feed_problem *problem)
{
    static const struct { int rc, result; } results[] = {
        { -ENODATA, PIPETRAIN_FEED_END }, { -ETIMEDOUT, PIPETRAIN_FEED_TIME }, { -EBUSY, PIPETRAIN_FEED_LENT },
        { -EINTR, PIPETRAIN_FEED_INTERRUPTED },
    };
    for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++)
        if (results[i].rc == rc)
            return results[i].result;
    return stop_failed(supply->stop) ? supply_failure(supply, problem) : -1;
}

/* Take once from the supply that there is. Returns the result, or -1: look again. */
static int take_once(struct pipetrain_feed *feed, uint64_t until_ns, struct pipetrain_feed_batch *batch_out,
                     struct pipetrain_feed_problem *problem)
{
    struct supply *supply = NULL;
    struct batch *batch = NULL;
    uint64_t handle = 0;
    pthread_mutex_lock(&feed->lock);
    int result = supply_enter(feed, until_ns, &supply, problem);
    pthread_mutex_unlock(&feed->lock);
    if (result != PIPETRAIN_FEED_OK)
        return result;
    const uint64_t begun_ns = clock_now_ns();
    const int rc = take_in_slices(feed, supply, until_ns, &batch);
    if (rc != 0)
        result = result_of_take(rc, supply, problem);
    pthread_mutex_lock(&feed->lock);
    feed->waited_ns += clock_now_ns() - begun_ns;
    if (rc == 0)
        handle = lend(feed, supply, batch);
    supply_leave(feed, supply);
    pthread_mutex_unlock(&feed->lock);
    if (rc == 0)
        describe(&feed->plan, batch, handle, batch_out);
    return result;
}

int pipetrain_feed_take(struct pipetrain_feed *feed, uint64_t limit_ns, struct pipetrain_feed_batch *batch_out,
                        struct pipetrain_feed_problem *problem)
{
    if (feed_is_forked(feed))
        return PIPETRAIN_FEED_FORKED;
    if (batch_out->struct_bytes < offsetof(struct pipetrain_feed_batch, images))
        return feed_fail(problem, PIPETRAIN_FEED_OPTION, "struct_bytes is %zu: set it to sizeof(struct "
                         "pipetrain_feed_batch)", batch_out->struct_bytes);
    const uint64_t now_ns = clock_now_ns();
    const uint64_t until_ns = limit_ns > CLOCK_NEVER - now_ns ? CLOCK_NEVER : now_ns + limit_ns;
    int result;
    feed_enter(feed);
    do {
        result = take_once(feed, until_ns, batch_out, problem);
    } while (result == -1);
    feed_leave(feed);
    return result;
}

/* ---- giving back ---- */

/* Called with the lock held: find a lent batch, which is no longer listed then. Returns its supply, or NULL. */
static struct supply *find_lent(struct pipetrain_feed *feed, uint64_t handle, struct batch **batch_out)
{
    struct supply *const lists[] = { feed->supply, feed->retired };
    for (size_t l = 0; l < 2; l++)
        for (struct supply *supply = lists[l]; supply != NULL; supply = supply->next)
            for (uint32_t i = 0; i < feed->plan.depth; i++)
                if (supply->lent[i].handle == handle && handle != 0) {
                    *batch_out = supply->lent[i].batch;
                    supply->lent[i] = (struct lent_batch){ 0, NULL };
                    return supply;
                }
    return NULL;
}

/* Called with the lock held. Is the supply retired, and unlinked by this because nobody uses it? */
static bool unlink_unused(struct pipetrain_feed *feed, struct supply *supply)
{
    struct supply **at = &feed->retired;
    while (*at != NULL && *at != supply)
        at = &(*at)->next;
    if (*at == NULL || supply->lent_count > 0)
        return false;
    *at = supply->next;
    return true;
}

int pipetrain_feed_give_back(struct pipetrain_feed *feed, uint64_t handle)
{
    if (feed_is_forked(feed))
        return PIPETRAIN_FEED_FORKED;
    struct batch *batch = NULL;
    pthread_mutex_lock(&feed->lock);
    struct supply *const supply = find_lent(feed, handle, &batch);
    pthread_mutex_unlock(&feed->lock);
    if (supply == NULL)
        return PIPETRAIN_FEED_HANDLE;
    supply_clear(supply, batch);
    ring_give_back(supply->ring, batch);
    pthread_mutex_lock(&feed->lock);
    supply->lent_count--;
    const bool is_unused = unlink_unused(feed, supply);
    pthread_mutex_unlock(&feed->lock);
    if (is_unused)
        blocks_close(&feed->plan, supply_close(supply));
    feed_leave(feed);
    return PIPETRAIN_FEED_OK;
}

/* ---- interrupting ---- */

void pipetrain_feed_interrupt(struct pipetrain_feed *feed)
{
    atomic_store(&feed->is_interrupted, true);
}

void pipetrain_feed_resume(struct pipetrain_feed *feed)
{
    atomic_store(&feed->is_interrupted, false);
}

/* ---- seeking and closing ---- */

/* Become the only thread that changes the feed. False: it is closed. */
static bool change_begin(struct pipetrain_feed *feed)
{
    pthread_mutex_lock(&feed->lock);
    while (feed->is_changing)
        pthread_cond_wait(&feed->changed, &feed->lock);
    const bool is_closed = feed->is_closed;
    feed->is_changing = !is_closed;
    pthread_mutex_unlock(&feed->lock);
    return !is_closed;
}

/* End the supply's threads and wait until no thread takes from it. Returns its blocks if none of them is lent;
 * otherwise it is retired. */
static void **supply_retire(struct pipetrain_feed *feed)
{
    struct supply *const supply = feed->supply;
    struct loader_counts counts = { 0 };
    if (supply == NULL)
        return NULL;
    supply_end(supply, &counts);
    pthread_mutex_lock(&feed->lock);
    while (supply->takers > 0)
        pthread_cond_wait(&feed->changed, &feed->lock);
    feed->counts.bytes += counts.bytes;
    feed->counts.records += counts.records;
    feed->counts.corrupt_records += counts.corrupt_records;
    feed->counts.decoder_warnings += counts.decoder_warnings;
    feed->supply = NULL;
    const bool is_lent = supply->lent_count > 0;
    if (is_lent) {
        supply->next = feed->retired;
        feed->retired = supply;
    }
    pthread_mutex_unlock(&feed->lock);
    return is_lent ? NULL : supply_close(supply);
}

/* `failure`: what takes return without a supply. */
static void change_end(struct pipetrain_feed *feed, struct supply *supply, int failure, uint64_t next_number)
{
    pthread_mutex_lock(&feed->lock);
    feed->supply = supply;
    feed->next_number = next_number;
    feed->failure = failure;
    feed->is_changing = false;
    pthread_cond_broadcast(&feed->changed);
    pthread_mutex_unlock(&feed->lock);
}

int feed_number_of(const struct feed_plan *plan, uint64_t epoch, uint64_t step_of_epoch, uint64_t *number_out)
{
    if (step_of_epoch > plan->steps_per_epoch || epoch > plan->epochs)
        return -EINVAL;
    const uint64_t number = epoch * plan->steps_per_epoch + step_of_epoch;
    if (number > plan->epochs * plan->steps_per_epoch)
        return -EINVAL;
    *number_out = number;
    return 0;
}

int feed_fail_step(const struct pipetrain_feed *feed, uint64_t epoch, uint64_t step_of_epoch, int result,
                   struct pipetrain_feed_problem *problem)
{
    return feed_fail(problem, result, "there is no step %" PRIu64 " of epoch %" PRIu64 ": the feed has %" PRIu64
                     " epochs of %" PRIu64 " steps", step_of_epoch, epoch, feed->plan.epochs,
                     feed->plan.steps_per_epoch);
}

int pipetrain_feed_seek_to(struct pipetrain_feed *feed, uint64_t epoch, uint64_t step_of_epoch,
                           struct pipetrain_feed_problem *problem)
{
    uint64_t number;
    if (feed_is_forked(feed))
        return PIPETRAIN_FEED_FORKED;
    if (feed_number_of(&feed->plan, epoch, step_of_epoch, &number) != 0)
        return feed_fail_step(feed, epoch, step_of_epoch, PIPETRAIN_FEED_OPTION, problem);
    feed_enter(feed);
    int result = PIPETRAIN_FEED_CLOSED;
    if (change_begin(feed)) {
        const struct log_sink *const before = log_sink_set(&feed->sink);
        struct supply *supply = NULL;
        void **const blocks = supply_retire(feed);
        result = feed_start(feed, number, blocks, &supply);
        if (result != PIPETRAIN_FEED_OK && problem != NULL)
            *problem = feed->failure_problem;
        (void)log_sink_set(before);
        change_end(feed, supply, result, number);
    }
    feed_leave(feed);
    return result;
}

int pipetrain_feed_position(struct pipetrain_feed *feed, uint64_t *epoch_out, uint64_t *step_of_epoch_out)
{
    if (feed_is_forked(feed))
        return PIPETRAIN_FEED_FORKED;
    pthread_mutex_lock(&feed->lock);
    const bool is_closed = feed->is_closed;
    const uint64_t number = feed->next_number;
    pthread_mutex_unlock(&feed->lock);
    if (is_closed)
        return PIPETRAIN_FEED_CLOSED;
    *epoch_out = number / feed->plan.steps_per_epoch;
    *step_of_epoch_out = number % feed->plan.steps_per_epoch;
    return PIPETRAIN_FEED_OK;
}

/* Called by the only thread that changes the feed: wait until no thread uses the data set. */
static void await_readers(struct pipetrain_feed *feed)
{
    pthread_mutex_lock(&feed->lock);
    while (feed->readers > 0)
        pthread_cond_wait(&feed->changed, &feed->lock);
    pthread_mutex_unlock(&feed->lock);
}

int pipetrain_feed_close(struct pipetrain_feed *feed)
{
    if (feed_is_forked(feed))
        return PIPETRAIN_FEED_FORKED;
    feed_enter(feed);
    if (change_begin(feed)) {
        pthread_mutex_lock(&feed->lock);
        feed->is_closed = true;
        pthread_cond_broadcast(&feed->changed);
        pthread_mutex_unlock(&feed->lock);
        atomic_store(&feed->is_unwanted, true);
        const struct log_sink *const before = log_sink_set(&feed->sink);
        blocks_close(&feed->plan, supply_retire(feed));
        await_readers(feed);
        feed_plan_end(&feed->plan);
        (void)log_sink_set(before);
        change_end(feed, NULL, PIPETRAIN_FEED_CLOSED, 0);
    }
    feed_leave(feed);
    return PIPETRAIN_FEED_OK;
}

void pipetrain_feed_free(struct pipetrain_feed *feed)
{
    if (feed == NULL || feed_is_forked(feed))
        return;
    (void)pipetrain_feed_close(feed);
    feed_leave(feed);
}
