/* The rendezvous of towers at every bucket. Called by the towers' threads. Streams wait instead of threads; threads
 * wait only in join, for towers that have not started a bucket yet, and for a reduction that is completed outside of
 * the streams. */
#include "sync/rendezvous.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "stage/heartbeat.h"

#define SHARE_ALIGN 16u         /* in floats: shares begin at cache lines */

static struct share *share_at(struct rendezvous *rendezvous, uint32_t tower, uint32_t bucket)
{
    return &rendezvous->shares[(size_t)bucket * rendezvous->towers + tower];
}

/* Opening and closing. */

int rendezvous_init(struct rendezvous *rendezvous, const struct reduce_ops *ops, struct tower_range towers)
{
    *rendezvous = (struct rendezvous){ .base.ops = ops, .first = towers.first, .towers = towers.count,
                                       .sharing = towers };
    rendezvous->members = calloc(towers.count, sizeof(*rendezvous->members));
    if (rendezvous->members == NULL)
        return -ENOMEM;
    pthread_mutex_init(&rendezvous->lock, NULL);
    pthread_cond_init(&rendezvous->changed, NULL);
    return 0;
}

static void close_shares(struct rendezvous *rendezvous)
{
    if (rendezvous->shares == NULL)
        return;
    const size_t count = (size_t)rendezvous->buckets.count * rendezvous->towers;
    for (size_t i = 0; i < count; i++) {
        event_close(rendezvous->shares[i].queued);
        event_close(rendezvous->shares[i].summed);
        event_close(rendezvous->shares[i].copied_in);
        event_close(rendezvous->shares[i].copied_out);
    }
}

static struct rendezvous *kept;

bool rendezvous_close(struct rendezvous *rendezvous, bool is_used)
{
    close_shares(rendezvous);
    if (is_used || rendezvous_is_abandoned()) {
        rendezvous->next_kept = kept;
        kept = rendezvous;
        return false;
    }
    pthread_cond_destroy(&rendezvous->changed);
    pthread_mutex_destroy(&rendezvous->lock);
    free(rendezvous->shares);
    free(rendezvous->turns);
    free(rendezvous->members);
    return true;
}

bool rendezvous_is_abandoned(void)
{
    return atomic_load(&heartbeat_abandoned_work);
}

bool rendezvous_is_cancelled(struct rendezvous *rendezvous)
{
    pthread_mutex_lock(&rendezvous->lock);
    const bool is_cancelled = rendezvous->cancelled;
    pthread_mutex_unlock(&rendezvous->lock);
    return is_cancelled;
}

/* Joining. */

/* Allocate shares for the buckets of the first tower that joins; all towers have the same buckets. Lock held. */
static int make_room(struct rendezvous *rendezvous, const struct rendezvous_ops *ops, const struct buckets *buckets)
{
    if (rendezvous->shares != NULL)
        return 0;
    rendezvous->ops = ops;
    rendezvous->buckets = *buckets;
    rendezvous->shares = calloc((size_t)buckets->count * rendezvous->towers, sizeof(*rendezvous->shares));
    rendezvous->turns = calloc(buckets->count, sizeof(*rendezvous->turns));
    return rendezvous->shares != NULL && rendezvous->turns != NULL ? 0 : -ENOMEM;
}

/* The whole bucket, or nothing. */
static struct share_range whole_range(const struct bucket *bucket, bool has_it)
{
    return (struct share_range){ bucket->offset, bucket->offset + (has_it ? bucket->count : 0) };
}

static struct share_range piece_range(const struct bucket *bucket, uint32_t tower)
{
    const struct bucket piece = bucket_pieces(bucket, tower, 1);
    return whole_range(&piece, true);
}

/* How a bucket is divided into shares. A reduction that continues outside of the streams only stages terms or values
 * there: towers of the process share the additions, and each stages its own piece. */
static enum bucket_use shared_as(const struct rendezvous *rendezvous, const struct bucket *bucket)
{
    const bool is_staged = rendezvous->ops->is_completed_later && bucket->use != BUCKET_ALL_GATHER;
    return is_staged ? BUCKET_ALL_REDUCE : bucket->use;
}

/* An equal number of whole cache lines for each tower. A bucket with an owner is summed by the owner only, or copied by
 * each of the others; the values of a server are copied by all. Each tower sums its own piece, or sends it to the
 * others. */
struct share_range rendezvous_range(const struct rendezvous *rendezvous, const struct bucket *bucket, uint32_t tower)
{
    const size_t lines = (bucket->count + SHARE_ALIGN - 1) / SHARE_ALIGN, towers = rendezvous->sharing.count;
    const size_t first = lines * (tower - rendezvous->sharing.first) / towers * SHARE_ALIGN;
    const size_t last = lines * (tower - rendezvous->sharing.first + 1) / towers * SHARE_ALIGN;
    switch (shared_as(rendezvous, bucket)) {
    case BUCKET_REDUCE: return whole_range(bucket, tower == bucket->owner);
    case BUCKET_BROADCAST: return whole_range(bucket, tower != bucket->owner);
    case BUCKET_FETCH: return whole_range(bucket, true);
    case BUCKET_ALL_GATHER: case BUCKET_REDUCE_SCATTER: return piece_range(bucket, tower);
    case BUCKET_ALL_REDUCE: case BUCKET_SERVE: case BUCKET_SQUARE: case BUCKET_UPDATE: break;
    }
    return (struct share_range){ bucket->offset + first, bucket->offset + (last < bucket->count ? last : bucket->count) };
}

static int open_share(struct rendezvous *rendezvous, struct share *share, struct device *device)
{
    const struct share_range range = rendezvous_range(rendezvous, share_bucket(share), rendezvous->first + share->tower);
    share->begin = range.begin;
    share->end = range.end;
    int rc = device->ops->event_open(device, EVENT_ORDER, &share->queued);
    if (rc == 0)
        rc = device->ops->event_open(device, EVENT_ORDER, &share->summed);
    if (rc == 0 && rendezvous->ops->copy_in != NULL)
        rc = device->ops->event_open(device, EVENT_ORDER, &share->copied_in);
    if (rc == 0 && rendezvous->ops->copy_out != NULL)
        rc = device->ops->event_open(device, EVENT_ORDER, &share->copied_out);
    return rc;
}

static int open_shares(struct rendezvous *rendezvous, uint32_t tower, struct device *device)
{
    int rc = 0;
    for (uint32_t b = 0; b < rendezvous->buckets.count && rc == 0; b++) {
        struct share *const share = share_at(rendezvous, tower, b);
        *share = (struct share){
            .rendezvous = rendezvous, .tower = tower, .bucket = b, .region = rendezvous->buckets.bucket[b].region };
        rc = open_share(rendezvous, share, device);
    }
    return rc;
}

/* Count a tower that joins. True for the last one. */
static bool enter(struct rendezvous *rendezvous, uint32_t tower, const struct reduce_member *member)
{
    pthread_mutex_lock(&rendezvous->lock);
    rendezvous->members[tower] = *member;
    const bool is_last = ++rendezvous->joined == rendezvous->towers;
    pthread_mutex_unlock(&rendezvous->lock);
    return is_last;
}

/* The last tower that joins lets all continue, or fails the rendezvous. */
static int connect_towers(struct rendezvous *rendezvous)
{
    const int rc = rendezvous->ops->connect == NULL ? 0 : rendezvous->ops->connect(rendezvous);
    pthread_mutex_lock(&rendezvous->lock);
    rendezvous->connected = rc == 0;
    rendezvous->cancelled = rendezvous->cancelled || rc != 0;
    pthread_cond_broadcast(&rendezvous->changed);
    pthread_mutex_unlock(&rendezvous->lock);
    return rc;
}

int rendezvous_join(struct rendezvous *rendezvous, const struct rendezvous_ops *ops, uint32_t tower,
                    const struct reduce_member *member, const struct buckets *buckets)
{
    const uint32_t here = tower - rendezvous->first;
    pthread_mutex_lock(&rendezvous->lock);
    int rc = make_room(rendezvous, ops, buckets);
    pthread_mutex_unlock(&rendezvous->lock);
    if (rc == 0)
        rc = open_shares(rendezvous, here, member->device);
    if (rc == 0 && enter(rendezvous, here, member))
        rc = connect_towers(rendezvous);
    if (rc != 0)
        return rc;

    pthread_mutex_lock(&rendezvous->lock);
    while (!rendezvous->connected && !rendezvous->cancelled)
        pthread_cond_wait(&rendezvous->changed, &rendezvous->lock);
    rc = rendezvous->cancelled ? -ECANCELED : 0;
    pthread_mutex_unlock(&rendezvous->lock);
    return rc;
}

/* One bucket of one batch. */

/* Called when the tower's bucket is queued: copy it to the memory in which it is summed, if that is another one. */
static int add_bucket(struct rendezvous *rendezvous, struct share *share)
{
    const struct reduce_member *const member = &rendezvous->members[share->tower];
    int rc = stream_record(member->compute, share->queued);
    if (rc != 0 || rendezvous->ops->copy_in == NULL)
        return rc;
    rc = stream_wait(member->communication, share->queued);
    if (rc == 0)
        rc = rendezvous->ops->copy_in(rendezvous, share);
    return rc != 0 ? rc : stream_record(member->communication, share->copied_in);
}

/* Make the communication stream wait for the buckets of all towers. */
static int await_copied_in(struct rendezvous *rendezvous, struct stream *communication, uint32_t bucket)
{
    int rc = 0;
    for (uint32_t d = 0; d < rendezvous->towers && rc == 0; d++) {
        const struct share *const share = share_at(rendezvous, d, bucket);
        rc = stream_wait(communication, rendezvous->ops->copy_in == NULL ? share->queued : share->copied_in);
    }
    return rc;
}

/* Make the stream wait for the sums of all shares. */
static int await_sums(struct rendezvous *rendezvous, struct stream *stream, uint32_t bucket)
{
    int rc = 0;
    for (uint32_t d = 0; d < rendezvous->towers && rc == 0; d++)
        rc = stream_wait(stream, share_at(rendezvous, d, bucket)->summed);
    return rc;
}

static int queue_sum(struct rendezvous *rendezvous, uint32_t tower, uint32_t bucket)
{
    struct share *const share = share_at(rendezvous, tower, bucket);
    struct stream *const communication = rendezvous->members[tower].communication;
    int rc = await_copied_in(rendezvous, communication, bucket);
    if (rc == 0)
        rc = rendezvous->ops->sum(rendezvous, share);
    return rc != 0 ? rc : stream_record(communication, share->summed);
}

static int queue_copy_out(struct rendezvous *rendezvous, uint32_t tower, uint32_t bucket)
{
    struct share *const share = share_at(rendezvous, tower, bucket);
    const struct reduce_member *const member = &rendezvous->members[tower];
    const bool is_apart = rendezvous->ops->has_results_stream && member->results != NULL;
    struct stream *const stream = is_apart ? member->results : member->communication;
    int rc = await_sums(rendezvous, stream, bucket);
    if (rc == 0)
        rc = rendezvous->ops->copy_out(rendezvous, share, stream);
    return rc != 0 ? rc : stream_record(stream, share->copied_out);
}

static uint64_t last_batch(const struct share *share)
{
    return share->batches[(share->started_count - 1) % SHARE_BATCHES];
}

/* Queue the sums of a bucket that all towers have started. */
static int queue_bucket(struct rendezvous *rendezvous, uint32_t bucket)
{
    const bool is_copied = rendezvous->ops->copy_out != NULL && !rendezvous->ops->is_completed_later;
    int rc = 0;
    for (uint32_t d = 0; d < rendezvous->towers; d++)
        assert(last_batch(share_at(rendezvous, d, bucket)) == last_batch(share_at(rendezvous, 0, bucket)));
    for (uint32_t d = 0; d < rendezvous->towers && rc == 0; d++)
        rc = queue_sum(rendezvous, d, bucket);
    for (uint32_t d = 0; d < rendezvous->towers && rc == 0 && is_copied; d++)
        rc = queue_copy_out(rendezvous, d, bucket);
    return rc;
}

void rendezvous_complete(struct rendezvous *rendezvous, uint32_t bucket)
{
    pthread_mutex_lock(&rendezvous->lock);
    rendezvous->turns[bucket].generation++;
    pthread_cond_broadcast(&rendezvous->changed);
    pthread_mutex_unlock(&rendezvous->lock);
}

int rendezvous_start(struct reduce *base, uint32_t tower, uint32_t bucket, uint64_t batch)
{
    struct rendezvous *const rendezvous = (struct rendezvous *)base;
    struct turn *const turn = &rendezvous->turns[bucket];
    struct share *const share = share_at(rendezvous, tower - rendezvous->first, bucket);
    share->batches[share->started_count++ % SHARE_BATCHES] = batch;
    int rc = add_bucket(rendezvous, share);
    if (rc != 0 || atomic_fetch_add(&turn->arrived, 1) + 1 < rendezvous->towers)
        return rc;
    atomic_store(&turn->arrived, 0);
    rc = queue_bucket(rendezvous, bucket);
    if (rc == 0 && !rendezvous->ops->is_completed_later)
        rendezvous_complete(rendezvous, bucket);
    return rc;
}

int rendezvous_wait(struct reduce *base, uint32_t tower, uint32_t bucket)
{
    struct rendezvous *const rendezvous = (struct rendezvous *)base;
    const uint32_t here = tower - rendezvous->first;
    struct share *const share = share_at(rendezvous, here, bucket);
    struct stream *const compute = rendezvous->members[here].compute;
    pthread_mutex_lock(&rendezvous->lock);
    while (rendezvous->turns[bucket].generation <= share->waited && !rendezvous->cancelled)
        pthread_cond_wait(&rendezvous->changed, &rendezvous->lock);
    const bool cancelled = rendezvous->cancelled;
    pthread_mutex_unlock(&rendezvous->lock);
    if (cancelled)
        return -ECANCELED;
    share->waited++;
    if (rendezvous->ops->copy_out == NULL) {
        const int rc = await_sums(rendezvous, compute, bucket);
        return rc == 0 && rendezvous->ops->await_others != NULL ? rendezvous->ops->await_others(rendezvous, share) : rc;
    }
    const int rc = rendezvous->ops->is_completed_later ? queue_copy_out(rendezvous, here, bucket) : 0;
    return rc != 0 ? rc : stream_wait(compute, share->copied_out);
}

void rendezvous_cancel(struct reduce *base)
{
    struct rendezvous *const rendezvous = (struct rendezvous *)base;
    pthread_mutex_lock(&rendezvous->lock);
    rendezvous->cancelled = true;
    pthread_cond_broadcast(&rendezvous->changed);
    pthread_mutex_unlock(&rendezvous->lock);
}
