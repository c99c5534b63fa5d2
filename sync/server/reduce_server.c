/* Towers that meet at a server in host memory. What is queued on communication streams waits for nothing but other
 * streams; a tower's thread waits for other towers' updates in reduce_server_fetch only. */
#include "sync/server/reduce_server.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compute/floats.h"
#include "stage/heartbeat.h"
#include "stage/trace/range.h"
#include "sync/meeting.h"
#include "sync/place.h"
#include "sync/server/server.h"

/* A push that is queued, or a bucket that is taken. Of every tower and bucket there is at most one. */
struct push { struct server_reduce *reduce; uint32_t tower, bucket, delay; uint64_t batch; };
/* What else a tower does there: `next` is of its word that steps before that are in. */
struct visit { struct server_reduce *reduce; uint32_t tower; uint64_t next; };

struct part {
    struct event *queued;       /* on the compute stream */
    struct event *fetched;      /* on the communication stream */
    struct push *pushes;        /* [bucket] */
    float *widened;             /* of a push, where halves are brought; NULL where none are pushed */
    struct visit visit;
};

struct server_reduce {
    struct meeting meeting;
    struct server *server;      /* opened by the first tower that joins */
    bool needs_norms, updates_apart;    /* its updates */
    struct place *places;       /* [tower], as in parts */
    struct part *parts;         /* [tower] */
    pthread_mutex_t lock;       /* guards what follows */
    pthread_cond_t changed;
    bool filled, cancelled;
    uint64_t *next;             /* [tower]: steps before that are in */
};

static struct server_reduce *server_reduce_of(void *reduce)
{
    return reduce;
}

static void serve(struct server_reduce *reduce, const struct share *share, uint64_t batch)
{
    places_sum_into(reduce->places, reduce->meeting.towers, REGION_GRADIENTS, share->begin, share->end,
                    server_floats(reduce->server, REGION_GRADIENTS));
    server_clip_value(reduce->server, share->tower, share->begin, share->end, batch);
    if (!reduce->updates_apart)
        server_update(reduce->server, share->tower, share->begin, share->end, batch);
}

static void sum_for_all(struct server_reduce *reduce, const struct share *share)
{
    const uint32_t towers = reduce->meeting.towers;
    places_sum(reduce->places, towers, share->region, share->begin, share->end, (struct tower_range){ 0, towers });
}

/* From the server to the tower's place. */
static void fetch(struct server_reduce *reduce, uint32_t tower, enum region region, size_t begin, size_t end)
{
    memcpy(reduce->places[tower].floats[region] + begin, server_floats(reduce->server, region) + begin,
           (end - begin) * sizeof(float));
}

/* Runs on a communication stream. */
static void share_serve(void *arg)
{
    struct share *const share = arg;
    struct server_reduce *const reduce = server_reduce_of(share->meeting);
    struct trace_track *const track = share->meeting->members[share->tower].track;
    const uint64_t begun_ns = trace_now(track), batch = share_batch(share);
    range_begin(TRACE_REDUCE, batch);
    switch (share_bucket(share)->use) {
    case BUCKET_SERVE: serve(reduce, share, batch); break;
    case BUCKET_SQUARE: server_square(reduce->server, share->tower); break;
    case BUCKET_UPDATE: server_update(reduce->server, share->tower, share->begin, share->end, batch); break;
    case BUCKET_FETCH: fetch(reduce, share->tower, share->region, share->begin, share->end); break;
    case BUCKET_ALL_REDUCE: sum_for_all(reduce, share); break;
    default: assert(!"a bucket with an owner");
    }
    range_end();
    trace_span(track, TRACE_REDUCE, (struct trace_batch){ batch, share->tower }, begun_ns, share->bucket);
}

/* Runs on a communication stream: what has been updated comes back. */
static void share_take(void *arg)
{
    const struct share *const share = arg;
    const struct bucket *const bucket = share_bucket(share);
    fetch(server_reduce_of(share->meeting), share->tower, REGION_WEIGHTS, bucket->offset,
          bucket->offset + bucket->count);
}

static int queue_call(struct meeting *meeting, uint32_t tower, void (*call)(void *arg), const void *arg)
{
    struct stream *const communication = meeting->members[tower].communication;
    return communication->device->ops->call(communication, call, (void *)(uintptr_t)arg);
}

static int queue_bring(struct meeting *meeting, const struct share *share)
{
    const struct bucket *const bucket = share_bucket(share);
    const struct place *const place = &server_reduce_of(meeting)->places[share->tower];
    const bool is_read = bucket->use == BUCKET_SERVE || bucket->use == BUCKET_ALL_REDUCE;
    return is_read ? place_queue_bring(place, &meeting->members[share->tower], bucket) : 0;
}

static int queue_serve(struct meeting *meeting, struct share *share)
{
    return queue_call(meeting, share->tower, share_serve, share);
}

/* Not the weights of a bucket that is served: while backward goes on they are in use (reduce_server_take). */
static int queue_take(struct meeting *meeting, const struct share *share)
{
    const struct bucket *const bucket = share_bucket(share);
    const struct reduce_member *const member = &meeting->members[share->tower];
    const struct place *const place = &server_reduce_of(meeting)->places[share->tower];
    if (bucket->use == BUCKET_SERVE || bucket->use == BUCKET_SQUARE)
        return 0;
    const int rc = bucket->use == BUCKET_UPDATE ? queue_call(meeting, share->tower, share_take, share) : 0;
    return rc != 0 ? rc : place_queue_take(place, member, bucket);
}

static const struct meeting_ops at_the_server = { .bring = queue_bring, .take = queue_take, .sum = queue_serve };

static void event_close(struct event *event)
{
    if (event != NULL)
        event->device->ops->event_close(event);
}

static void server_reduce_close(struct reduce *base)
{
    struct server_reduce *const reduce = (struct server_reduce *)base;
    if (reduce == NULL)
        return;
    for (uint32_t d = 0; d < reduce->meeting.towers && reduce->parts != NULL && reduce->places != NULL; d++) {
        place_close(&reduce->places[d]);
        event_close(reduce->parts[d].queued);
        event_close(reduce->parts[d].fetched);
        free(reduce->parts[d].pushes);
        free(reduce->parts[d].widened);
    }
    server_close(reduce->server);
    meeting_release(&reduce->meeting);
    pthread_cond_destroy(&reduce->changed);
    pthread_mutex_destroy(&reduce->lock);
    free(reduce->next);
    free(reduce->parts);
    free(reduce->places);
    free(reduce);
}

static int server_reduce_open(struct reduce **reduce_out, const struct reduce_spec *spec)
{
    struct server_reduce *const reduce = calloc(1, sizeof(*reduce));
    const int rc = reduce == NULL ? -ENOMEM : meeting_init(&reduce->meeting, &reduce_server_ops, spec);
    if (rc != 0) {
        free(reduce);
        return rc;
    }
    pthread_mutex_init(&reduce->lock, NULL);
    pthread_cond_init(&reduce->changed, NULL);
    reduce->places = calloc(spec->towers, sizeof(*reduce->places));
    reduce->parts = calloc(spec->towers, sizeof(*reduce->parts));
    reduce->next = calloc(spec->towers, sizeof(*reduce->next));
    if (reduce->places == NULL || reduce->parts == NULL || reduce->next == NULL) {
        server_reduce_close(&reduce->meeting.base);
        return -ENOMEM;
    }
    *reduce_out = &reduce->meeting.base;
    return 0;
}

/* By the first tower that comes; no tower has any updates in but those before the process's first batch. */
static int open_server(struct server_reduce *reduce, const struct server_rules *rules, const struct buckets *buckets)
{
    pthread_mutex_lock(&reduce->lock);
    const uint64_t step = schedule_position(rules->schedule, rules->schedule->first).step;
    int rc = 0;
    if (reduce->server == NULL) {
        rc = server_open(&reduce->server, rules, buckets);
        reduce->needs_norms = server_needs_norms(rules->optimizer);
        reduce->updates_apart = server_updates_apart(rules);
        for (uint32_t d = 0; d < reduce->meeting.towers; d++)
            reduce->next[d] = step;
    }
    pthread_mutex_unlock(&reduce->lock);
    return rc;
}

static int open_widened(struct part *part, const struct reduce_member *member, const struct buckets *buckets)
{
    const struct bucket_run run = buckets->of[REGION_WEIGHTS];
    if (member->bf16_grads == NULL || run.count == 0 || buckets->bucket[run.first].use != BUCKET_FETCH)
        return 0;
    part->widened = calloc(member->regions[REGION_GRADIENTS].count, sizeof(float));
    return part->widened != NULL ? 0 : -ENOMEM;
}

static int open_part(struct server_reduce *reduce, uint32_t tower, const struct reduce_member *member,
                     const struct buckets *buckets)
{
    struct part *const part = &reduce->parts[tower];
    part->visit = (struct visit){ .reduce = reduce, .tower = tower };
    part->pushes = calloc(buckets->count, sizeof(*part->pushes));
    for (uint32_t b = 0; b < buckets->count && part->pushes != NULL; b++)
        part->pushes[b] = (struct push){ .reduce = reduce, .tower = tower, .bucket = b };
    int rc = part->pushes == NULL ? -ENOMEM : open_widened(part, member, buckets);
    if (rc == 0)
        rc = member->device->ops->event_open(member->device, EVENT_ORDER, &part->queued);
    if (rc == 0)
        rc = member->device->ops->event_open(member->device, EVENT_ORDER, &part->fetched);
    return rc;
}

static int server_reduce_join(struct reduce *base, uint32_t tower, const struct reduce_member *member,
                              const struct buckets *buckets)
{
    struct server_reduce *const reduce = (struct server_reduce *)base;
    int rc = open_server(reduce, member->rules, buckets);
    if (rc == 0)
        rc = open_part(reduce, tower, member, buckets);
    if (rc == 0)
        rc = place_open(&reduce->places[tower], member);
    return rc != 0 ? rc : meeting_join(&reduce->meeting, &at_the_server, tower, member, buckets);
}

/* The rules say for whom there is a server. */
static int server_reduce_supports(const struct reduce_towers *towers, struct unsupported_reason *reason)
{
    (void)towers, (void)reason;
    return 0;
}

static void server_reduce_cancel(struct reduce *base)
{
    struct server_reduce *const reduce = (struct server_reduce *)base;
    pthread_mutex_lock(&reduce->lock);
    reduce->cancelled = true;
    pthread_cond_broadcast(&reduce->changed);
    pthread_mutex_unlock(&reduce->lock);
    meeting_cancel(base);
}

const struct reduce_ops reduce_server_ops = {
    .name = "server",
    .pins_regions = true,
    .knows_owners = true,
    .supports = server_reduce_supports,
    .open = server_reduce_open,
    .close = server_reduce_close,
    .join = server_reduce_join,
    .start = meeting_start,
    .wait = meeting_wait,
    .cancel = server_reduce_cancel,
};

/* ---- towers by themselves ---- */

/* What the communication stream does next comes behind what is queued on the compute stream. */
static int follow_compute(struct server_reduce *reduce, uint32_t tower)
{
    const struct reduce_member *const member = &reduce->meeting.members[tower];
    struct event *const queued = reduce->parts[tower].queued;
    const int rc = stream_record(member->compute, queued);
    return rc != 0 ? rc : stream_wait(member->communication, queued);
}

static struct bucket whole_of(const struct reduce_member *member, enum region region)
{
    return (struct bucket){ .region = region, .count = member->regions[region].count };
}

/* Runs on a communication stream. */
static void fill(void *arg)
{
    const struct visit *const visit = arg;
    struct server_reduce *const reduce = visit->reduce;
    const struct reduce_member *const member = &reduce->meeting.members[visit->tower];
    for (int region = 0; region < REGION_STATISTICS; region++)
        if (region == REGION_WEIGHTS || region >= REGION_STATES)
            if (member->regions[region].count > 0)
                memcpy(server_floats(reduce->server, region), reduce->places[visit->tower].floats[region],
                       member->regions[region].count * sizeof(float));
    pthread_mutex_lock(&reduce->lock);
    reduce->filled = true;
    pthread_cond_broadcast(&reduce->changed);
    pthread_mutex_unlock(&reduce->lock);
}

int reduce_server_fill(struct reduce *base, uint32_t tower)
{
    struct server_reduce *const reduce = (struct server_reduce *)base;
    const struct reduce_member *const member = &reduce->meeting.members[tower];
    int rc = follow_compute(reduce, tower);
    for (int region = 0; region < REGION_STATISTICS && rc == 0; region++) {
        const struct bucket whole = whole_of(member, region);
        if (region != REGION_GRADIENTS && whole.count > 0)
            rc = place_queue_bring(&reduce->places[tower], member, &whole);
    }
    struct part *const part = &reduce->parts[tower];
    if (rc == 0)
        rc = queue_call(&reduce->meeting, tower, fill, &part->visit);
    if (rc == 0)
        rc = stream_record(member->communication, part->fetched);
    return rc != 0 ? rc : stream_wait(member->compute, part->fetched);  /* the step writes what is deferred */
}

/* Called with the lock held. */
static uint64_t steps_in(const struct server_reduce *reduce)
{
    uint64_t least = reduce->next[0];
    for (uint32_t d = 1; d < reduce->meeting.towers; d++)
        least = reduce->next[d] < least ? reduce->next[d] : least;
    return least;
}

/* The tower's own updates are in, so that what they were queued with is free. */
static int await_updates(struct server_reduce *reduce, uint32_t tower, uint64_t step, uint32_t bound,
                         uint32_t *staleness_out)
{
    pthread_mutex_lock(&reduce->lock);
    heartbeat_begin_wait("waiting for its updates");
    while (reduce->next[tower] < step && !reduce->cancelled)
        pthread_cond_wait(&reduce->changed, &reduce->lock);
    heartbeat_end_wait();
    while ((!reduce->filled || steps_in(reduce) + bound < step) && !reduce->cancelled)
        pthread_cond_wait(&reduce->changed, &reduce->lock);
    const uint64_t in = steps_in(reduce);
    const bool cancelled = reduce->cancelled;
    pthread_mutex_unlock(&reduce->lock);
    *staleness_out = in < step ? (uint32_t)(step - in) : 0;
    return cancelled ? -ECANCELED : 0;
}

/* Runs on a communication stream. */
static void visit_fetch(void *arg)
{
    const struct visit *const visit = arg;
    server_fetch(visit->reduce->server, visit->reduce->places[visit->tower].floats[REGION_WEIGHTS]);
}

int reduce_server_fetch(struct reduce *base, uint32_t tower, uint64_t step, uint32_t bound, uint32_t *staleness_out)
{
    struct server_reduce *const reduce = (struct server_reduce *)base;
    const struct reduce_member *const member = &reduce->meeting.members[tower];
    struct part *const part = &reduce->parts[tower];
    const struct bucket whole = whole_of(member, REGION_WEIGHTS);
    int rc = await_updates(reduce, tower, step, bound, staleness_out);
    if (rc == 0)
        rc = follow_compute(reduce, tower);
    if (rc == 0)
        rc = queue_call(&reduce->meeting, tower, visit_fetch, &part->visit);
    if (rc == 0)
        rc = place_queue_take(&reduce->places[tower], member, &whole);
    if (rc == 0)
        rc = stream_record(member->communication, part->fetched);
    return rc != 0 ? rc : stream_wait(member->compute, part->fetched);
}

/* Runs on a communication stream. */
static void take(void *arg)
{
    const struct push *const push = arg;
    const struct bucket *const bucket = &push->reduce->meeting.buckets.bucket[push->bucket];
    fetch(push->reduce, push->tower, REGION_WEIGHTS, bucket->offset, bucket->offset + bucket->count);
}

int reduce_server_take(struct reduce *base, uint32_t tower, uint32_t number)
{
    struct server_reduce *const reduce = (struct server_reduce *)base;
    const struct reduce_member *const member = &reduce->meeting.members[tower];
    struct part *const part = &reduce->parts[tower];
    struct bucket bucket = reduce->meeting.buckets.bucket[number];
    bucket.region = REGION_WEIGHTS;
    int rc = follow_compute(reduce, tower);
    if (rc == 0)
        rc = queue_call(&reduce->meeting, tower, take, &part->pushes[number]);
    if (rc == 0)
        rc = place_queue_take(&reduce->places[tower], member, &bucket);
    if (rc == 0)
        rc = stream_record(member->communication, part->fetched);
    return rc != 0 ? rc : stream_wait(member->compute, part->fetched);
}

/* Where norms of all gradients are needed a push is of all. */
static struct bucket pushed_of(const struct server_reduce *reduce, uint32_t tower, uint32_t bucket)
{
    return reduce->needs_norms ? whole_of(&reduce->meeting.members[tower], REGION_GRADIENTS)
                               : reduce->meeting.buckets.bucket[bucket];
}

/* What was brought, as floats. */
static float *push_floats(const struct push *push)
{
    const struct place *const place = &push->reduce->places[push->tower];
    const struct bucket bucket = pushed_of(push->reduce, push->tower, push->bucket);
    float *const widened = push->reduce->parts[push->tower].widened;
    if (widened == NULL)
        return place->floats[REGION_GRADIENTS];
    floats_from_bf16(place->bf16_grads + bucket.offset, widened + bucket.offset, bucket.count);
    return widened;
}

/* Runs on a communication stream. */
static void push(void *arg)
{
    const struct push *const push = arg;
    struct server_reduce *const reduce = push->reduce;
    struct trace_track *const track = reduce->meeting.members[push->tower].track;
    const uint64_t begun_ns = trace_now(track);
    range_begin(TRACE_REDUCE, push->batch);
    server_push(reduce->server, push->tower, push_floats(push), push->bucket, push->batch, push->delay);
    range_end();
    trace_span(track, TRACE_REDUCE, (struct trace_batch){ push->batch, push->tower }, begun_ns, push->bucket);
}

int reduce_server_push(struct reduce *base, uint32_t tower, uint32_t bucket, uint64_t batch, uint32_t delay)
{
    struct server_reduce *const reduce = (struct server_reduce *)base;
    const struct reduce_member *const member = &reduce->meeting.members[tower];
    struct push *const mine = &reduce->parts[tower].pushes[bucket];
    const struct bucket pushed = pushed_of(reduce, tower, bucket);
    mine->delay = delay;        /* of the step before is read: its fetch has seen that in */
    mine->batch = batch;
    int rc = follow_compute(reduce, tower);
    if (rc == 0)
        rc = place_queue_bring(&reduce->places[tower], member, &pushed);
    return rc != 0 ? rc : queue_call(&reduce->meeting, tower, push, mine);
}

/* Runs on a communication stream. */
static void visit_pushed(void *arg)
{
    const struct visit *const visit = arg;
    struct server_reduce *const reduce = visit->reduce;
    pthread_mutex_lock(&reduce->lock);
    reduce->next[visit->tower] = visit->next;
    pthread_cond_broadcast(&reduce->changed);
    pthread_mutex_unlock(&reduce->lock);
}

int reduce_server_pushed(struct reduce *base, uint32_t tower, uint64_t next)
{
    struct server_reduce *const reduce = (struct server_reduce *)base;
    struct visit *const visit = &reduce->parts[tower].visit;
    visit->next = next;         /* as there */
    return queue_call(&reduce->meeting, tower, visit_pushed, visit);
}
