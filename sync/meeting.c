/* How towers meet at every bucket. Called from the towers' threads; the waiting is done by
 * streams, but for two things: join, and a tower's wait for those that have not brought a
 * bucket yet. */
#include "sync/meeting.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#define SHARE_ALIGN 16u         /* floats: shares begin on cache lines */

static struct share *share_at(struct meeting *meeting, uint32_t tower, uint32_t bucket)
{
    return &meeting->shares[(size_t)bucket * meeting->towers + tower];
}

/* Opening and closing. */

int meeting_init(struct meeting *meeting, const struct reduce_ops *ops, const struct reduce_spec *spec)
{
    *meeting = (struct meeting){ .base.ops = ops, .towers = spec->towers };
    meeting->members = calloc(spec->towers, sizeof(*meeting->members));
    if (meeting->members == NULL)
        return -ENOMEM;
    pthread_mutex_init(&meeting->lock, NULL);
    pthread_cond_init(&meeting->changed, NULL);
    return 0;
}

static void event_close(struct event *event)
{
    if (event != NULL)
        event->device->ops->event_close(event);
}

static void close_shares(struct meeting *meeting)
{
    if (meeting->shares == NULL)
        return;
    const size_t count = (size_t)meeting->buckets.count * meeting->towers;
    for (size_t i = 0; i < count; i++) {
        event_close(meeting->shares[i].queued);
        event_close(meeting->shares[i].summed);
        event_close(meeting->shares[i].brought);
        event_close(meeting->shares[i].taken);
    }
}

void meeting_release(struct meeting *meeting)
{
    close_shares(meeting);
    pthread_cond_destroy(&meeting->changed);
    pthread_mutex_destroy(&meeting->lock);
    free(meeting->shares);
    free(meeting->turns);
    free(meeting->members);
}

/* Joining. */

/* The first tower to join brings the buckets; all bring the same. Lock held. */
static int make_room(struct meeting *meeting, const struct meeting_ops *ops, const struct buckets *buckets)
{
    if (meeting->shares != NULL)
        return 0;
    meeting->ops = ops;
    meeting->buckets = *buckets;
    meeting->shares = calloc((size_t)buckets->count * meeting->towers, sizeof(*meeting->shares));
    meeting->turns = calloc(buckets->count, sizeof(*meeting->turns));
    return meeting->shares != NULL && meeting->turns != NULL ? 0 : -ENOMEM;
}

/* All of the bucket, or nothing. */
static void take_all(const struct bucket *bucket, struct share *share, bool takes)
{
    share->begin = bucket->offset;
    share->end = bucket->offset + (takes ? bucket->count : 0);
}

/* Equal runs of whole cache lines; what has an owner is summed by that one, and fetched by each of the others,
 * what a server has by all. */
static void set_range(const struct meeting *meeting, struct share *share)
{
    const struct bucket *const bucket = &meeting->buckets.bucket[share->bucket];
    const size_t lines = (bucket->count + SHARE_ALIGN - 1) / SHARE_ALIGN;
    const size_t first = lines * share->tower / meeting->towers * SHARE_ALIGN;
    const size_t last = lines * (share->tower + 1) / meeting->towers * SHARE_ALIGN;
    switch (bucket->use) {
    case BUCKET_REDUCE: take_all(bucket, share, share->tower == bucket->owner); return;
    case BUCKET_BROADCAST: take_all(bucket, share, share->tower != bucket->owner); return;
    case BUCKET_FETCH: take_all(bucket, share, true); return;
    case BUCKET_ALL_REDUCE: case BUCKET_SERVE: case BUCKET_SQUARE: case BUCKET_UPDATE: break;
    }
    share->begin = bucket->offset + first;
    share->end = bucket->offset + (last < bucket->count ? last : bucket->count);
}

static int open_share(struct meeting *meeting, struct share *share, struct device *device)
{
    set_range(meeting, share);
    int rc = device->ops->event_open(device, EVENT_ORDER, &share->queued);
    if (rc == 0)
        rc = device->ops->event_open(device, EVENT_ORDER, &share->summed);
    if (rc == 0 && meeting->ops->bring != NULL)
        rc = device->ops->event_open(device, EVENT_ORDER, &share->brought);
    if (rc == 0 && meeting->ops->take != NULL)
        rc = device->ops->event_open(device, EVENT_ORDER, &share->taken);
    return rc;
}

static int open_shares(struct meeting *meeting, uint32_t tower, struct device *device)
{
    int rc = 0;
    for (uint32_t b = 0; b < meeting->buckets.count && rc == 0; b++) {
        struct share *const share = share_at(meeting, tower, b);
        *share = (struct share){
            .meeting = meeting, .tower = tower, .bucket = b, .region = meeting->buckets.bucket[b].region };
        rc = open_share(meeting, share, device);
    }
    return rc;
}

/* True for the last tower that comes. */
static bool enter(struct meeting *meeting, uint32_t tower, const struct reduce_member *member)
{
    pthread_mutex_lock(&meeting->lock);
    meeting->members[tower] = *member;
    const bool is_last = ++meeting->joined == meeting->towers;
    pthread_mutex_unlock(&meeting->lock);
    return is_last;
}

/* All towers are there: the last one lets them go on, or ends the meeting. */
static int connect_towers(struct meeting *meeting)
{
    const int rc = meeting->ops->connect == NULL ? 0 : meeting->ops->connect(meeting);
    pthread_mutex_lock(&meeting->lock);
    meeting->connected = rc == 0;
    meeting->cancelled = meeting->cancelled || rc != 0;
    pthread_cond_broadcast(&meeting->changed);
    pthread_mutex_unlock(&meeting->lock);
    return rc;
}

int meeting_join(struct meeting *meeting, const struct meeting_ops *ops, uint32_t tower,
                 const struct reduce_member *member, const struct buckets *buckets)
{
    pthread_mutex_lock(&meeting->lock);
    int rc = make_room(meeting, ops, buckets);
    pthread_mutex_unlock(&meeting->lock);
    if (rc == 0)
        rc = open_shares(meeting, tower, member->device);
    if (rc == 0 && enter(meeting, tower, member))
        rc = connect_towers(meeting);
    if (rc != 0)
        return rc;

    pthread_mutex_lock(&meeting->lock);
    while (!meeting->connected && !meeting->cancelled)
        pthread_cond_wait(&meeting->changed, &meeting->lock);
    rc = meeting->cancelled ? -ECANCELED : 0;
    pthread_mutex_unlock(&meeting->lock);
    return rc;
}

/* One bucket of one batch. */

/* The tower's bucket is queued; its communication stream carries them away, if need be. */
static int bring(struct meeting *meeting, struct share *share)
{
    const struct reduce_member *const member = &meeting->members[share->tower];
    int rc = stream_record(member->compute, share->queued);
    if (rc != 0 || meeting->ops->bring == NULL)
        return rc;
    rc = stream_wait(member->communication, share->queued);
    if (rc == 0)
        rc = meeting->ops->bring(meeting, share);
    return rc != 0 ? rc : stream_record(member->communication, share->brought);
}

/* What the tower's communication stream does next comes behind all towers' buckets. */
static int await_brought(struct meeting *meeting, struct stream *communication, uint32_t bucket)
{
    int rc = 0;
    for (uint32_t d = 0; d < meeting->towers && rc == 0; d++) {
        const struct share *const share = share_at(meeting, d, bucket);
        rc = stream_wait(communication, meeting->ops->bring == NULL ? share->queued : share->brought);
    }
    return rc;
}

/* What the stream does next comes behind the sums of all shares. */
static int await_sums(struct meeting *meeting, struct stream *stream, uint32_t bucket)
{
    int rc = 0;
    for (uint32_t d = 0; d < meeting->towers && rc == 0; d++)
        rc = stream_wait(stream, share_at(meeting, d, bucket)->summed);
    return rc;
}

static int queue_sum(struct meeting *meeting, uint32_t tower, uint32_t bucket)
{
    struct share *const share = share_at(meeting, tower, bucket);
    struct stream *const communication = meeting->members[tower].communication;
    int rc = await_brought(meeting, communication, bucket);
    if (rc == 0)
        rc = meeting->ops->sum(meeting, share);
    return rc != 0 ? rc : stream_record(communication, share->summed);
}

static int queue_take(struct meeting *meeting, uint32_t tower, uint32_t bucket)
{
    struct share *const share = share_at(meeting, tower, bucket);
    struct stream *const communication = meeting->members[tower].communication;
    int rc = await_sums(meeting, communication, bucket);
    if (rc == 0)
        rc = meeting->ops->take(meeting, share);
    return rc != 0 ? rc : stream_record(communication, share->taken);
}

static uint64_t last_batch(const struct share *share)
{
    return share->batches[(share->brought_count - 1) % SHARE_BATCHES];
}

/* All towers have brought the bucket. */
static int queue_bucket(struct meeting *meeting, uint32_t bucket)
{
    int rc = 0;
    for (uint32_t d = 0; d < meeting->towers; d++)
        assert(last_batch(share_at(meeting, d, bucket)) == last_batch(share_at(meeting, 0, bucket)));
    for (uint32_t d = 0; d < meeting->towers && rc == 0; d++)
        rc = queue_sum(meeting, d, bucket);
    for (uint32_t d = 0; d < meeting->towers && rc == 0 && meeting->ops->take != NULL; d++)
        rc = queue_take(meeting, d, bucket);
    return rc;
}

int meeting_start(struct reduce *base, uint32_t tower, uint32_t bucket, uint64_t batch)
{
    struct meeting *const meeting = (struct meeting *)base;
    struct turn *const turn = &meeting->turns[bucket];
    struct share *const share = share_at(meeting, tower, bucket);
    share->batches[share->brought_count++ % SHARE_BATCHES] = batch;
    int rc = bring(meeting, share);
    if (rc != 0 || atomic_fetch_add(&turn->arrived, 1) + 1 < meeting->towers)
        return rc;
    atomic_store(&turn->arrived, 0);
    rc = queue_bucket(meeting, bucket);
    if (rc != 0)
        return rc;
    pthread_mutex_lock(&meeting->lock);
    turn->generation++;
    pthread_cond_broadcast(&meeting->changed);
    pthread_mutex_unlock(&meeting->lock);
    return 0;
}

int meeting_wait(struct reduce *base, uint32_t tower, uint32_t bucket)
{
    struct meeting *const meeting = (struct meeting *)base;
    struct share *const share = share_at(meeting, tower, bucket);
    struct stream *const compute = meeting->members[tower].compute;
    pthread_mutex_lock(&meeting->lock);
    while (meeting->turns[bucket].generation <= share->waited && !meeting->cancelled)
        pthread_cond_wait(&meeting->changed, &meeting->lock);
    const bool cancelled = meeting->cancelled;
    pthread_mutex_unlock(&meeting->lock);
    if (cancelled)
        return -ECANCELED;
    share->waited++;
    return meeting->ops->take == NULL ? await_sums(meeting, compute, bucket) : stream_wait(compute, share->taken);
}

void meeting_cancel(struct reduce *base)
{
    struct meeting *const meeting = (struct meeting *)base;
    pthread_mutex_lock(&meeting->lock);
    meeting->cancelled = true;
    pthread_cond_broadcast(&meeting->changed);
    pthread_mutex_unlock(&meeting->lock);
}
