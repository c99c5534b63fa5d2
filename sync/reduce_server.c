/* Towers with a parameter server in host memory. Calls that are queued on communication streams wait only for other
 * streams; a tower's thread waits for the updates of other towers only in reduce_server_fetch. */
#include "sync/reduce_server.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compute/floats.h"
#include "stage/heartbeat.h"
#include "stage/trace/range.h"
#include "sync/host_arena.h"
#include "sync/rendezvous.h"
#include "sync/server.h"

/* The argument of a queued push or fetch of a bucket; for each tower and bucket at most one is queued. */
struct push { struct server_reduce *reduce; uint32_t tower, bucket, delay; uint64_t batch; };
/* The argument of other queued calls; next: the tower's updates of steps before `next` are complete
 * (reduce_server_pushed). */
struct visit { struct server_reduce *reduce; uint32_t tower; uint64_t next; };

/* The state of one tower. */
struct client {
    struct event *queued;       /* on the compute stream */
    struct event *fetched;      /* on the communication stream */
    struct push *pushes;        /* [bucket] */
    float *widened;             /* bf16 gradients of a push as fp32; NULL: they are fp32, or not pushed */
    struct visit visit;
};

struct server_reduce {
    struct rendezvous rendezvous;
    struct server *server;      /* opened by the first tower that joins */
    bool needs_norms, updates_apart;    /* the results of server_needs_norms and server_updates_apart */
    struct host_arena *arenas;  /* [tower] */
    struct client *clients;     /* [tower] */
    pthread_mutex_t lock;       /* guards the members below */
    pthread_cond_t changed;
    bool filled, cancelled;
    uint64_t *next;             /* [tower]: the tower's updates of steps before this one are complete */
};

static struct server_reduce *server_reduce_of(void *reduce)
{
    return reduce;
}

static void serve(struct server_reduce *reduce, const struct share *share, uint64_t batch)
{
    host_arenas_sum_to(reduce->arenas, reduce->rendezvous.towers, REGION_GRADIENTS, share->begin, share->end,
                    server_floats(reduce->server, REGION_GRADIENTS));
    server_clip_value(reduce->server, share->tower, share->begin, share->end, batch);
    if (!reduce->updates_apart)
        server_update(reduce->server, share->tower, share->begin, share->end, batch);
}

static void sum_for_all(struct server_reduce *reduce, const struct share *share)
{
    const uint32_t towers = reduce->rendezvous.towers;
    host_arenas_sum(reduce->arenas, towers, share->region, share->begin, share->end, (struct tower_range){ 0, towers });
}

/* Copy from the server to the tower's host arena. */
static void fetch(struct server_reduce *reduce, uint32_t tower, enum region region, size_t begin, size_t end)
{
    memcpy(reduce->arenas[tower].floats[region] + begin, server_floats(reduce->server, region) + begin,
           (end - begin) * sizeof(float));
}

/* Runs on a communication stream. */
static void share_serve(void *arg)
{
    struct share *const share = arg;
    if (rendezvous_is_abandoned())
        return;
    struct server_reduce *const reduce = server_reduce_of(share->rendezvous);
    struct trace_track *const track = share->rendezvous->members[share->tower].track;
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

/* Runs on a communication stream. */
static void share_fetch(void *arg)
{
    const struct share *const share = arg;
    const struct bucket *const bucket = share_bucket(share);
    fetch(server_reduce_of(share->rendezvous), share->tower, REGION_WEIGHTS, bucket->offset,
          bucket->offset + bucket->count);
}

static int queue_call(struct rendezvous *rendezvous, uint32_t tower, void (*call)(void *arg), const void *arg)
{
    struct stream *const communication = rendezvous->members[tower].communication;
    return communication->device->ops->call(communication, call, (void *)(uintptr_t)arg);
}

static int queue_copy_in(struct rendezvous *rendezvous, const struct share *share)
{
    const struct bucket *const bucket = share_bucket(share);
    const struct host_arena *const arena = &server_reduce_of(rendezvous)->arenas[share->tower];
    const bool is_read = bucket->use == BUCKET_SERVE || bucket->use == BUCKET_ALL_REDUCE;
    return is_read ? host_arena_copy_in(arena, &rendezvous->members[share->tower], bucket) : 0;
}

static int queue_serve(struct rendezvous *rendezvous, struct share *share)
{
    return queue_call(rendezvous, share->tower, share_serve, share);
}

/* Copy the result of a bucket from the server to the tower. The weights of a bucket of gradients are left out: backward
 * may still read them, so reduce_server_fetch_bucket fetches them later. */
static int queue_copy_out(struct rendezvous *rendezvous, const struct share *share, struct stream *stream)
{
    const struct bucket *const bucket = share_bucket(share);
    const struct reduce_member *const member = &rendezvous->members[share->tower];
    const struct host_arena *const arena = &server_reduce_of(rendezvous)->arenas[share->tower];
    if (bucket->use == BUCKET_SERVE || bucket->use == BUCKET_SQUARE)
        return 0;
    const int rc = bucket->use == BUCKET_UPDATE ? queue_call(rendezvous, share->tower, share_fetch, share) : 0;
    return rc != 0 ? rc : host_arena_copy_out(arena, member, bucket, stream);
}

static const struct rendezvous_ops at_the_server = {
    .copy_in = queue_copy_in,
    .copy_out = queue_copy_out,
    .sum = queue_serve,
};

static void server_reduce_close(struct reduce *base)
{
    struct server_reduce *const reduce = (struct server_reduce *)base;
    if (reduce == NULL)
        return;
    const uint32_t towers = reduce->clients != NULL && reduce->arenas != NULL ? reduce->rendezvous.towers : 0;
    for (uint32_t d = 0; d < towers; d++) {
        host_arena_close(&reduce->arenas[d]);
        event_close(reduce->clients[d].queued);
        event_close(reduce->clients[d].fetched);
    }
    if (!rendezvous_close(&reduce->rendezvous, false))
        return;
    for (uint32_t d = 0; d < towers; d++) {
        free(reduce->clients[d].pushes);
        free(reduce->clients[d].widened);
    }
    server_close(reduce->server);
    pthread_cond_destroy(&reduce->changed);
    pthread_mutex_destroy(&reduce->lock);
    free(reduce->next);
    free(reduce->clients);
    free(reduce->arenas);
    free(reduce);
}

static int server_reduce_open(struct reduce **reduce_out, const struct reduce_spec *spec)
{
    struct server_reduce *const reduce = calloc(1, sizeof(*reduce));
    const struct tower_range all = { 0, spec->towers };
    const int rc = reduce == NULL ? -ENOMEM : rendezvous_init(&reduce->rendezvous, &reduce_server_ops, all);
    if (rc != 0) {
        free(reduce);
        return rc;
    }
    pthread_mutex_init(&reduce->lock, NULL);
    pthread_cond_init(&reduce->changed, NULL);
    reduce->arenas = calloc(spec->towers, sizeof(*reduce->arenas));
    reduce->clients = calloc(spec->towers, sizeof(*reduce->clients));
    reduce->next = calloc(spec->towers, sizeof(*reduce->next));
    if (reduce->arenas == NULL || reduce->clients == NULL || reduce->next == NULL) {
        server_reduce_close(&reduce->rendezvous.base);
        return -ENOMEM;
    }
    *reduce_out = &reduce->rendezvous.base;
    return 0;
}

/* Called by the first tower that joins. All updates of steps before the process' first batch count as complete. */
static int open_server(struct server_reduce *reduce, const struct server_rules *rules, const struct buckets *buckets)
{
    pthread_mutex_lock(&reduce->lock);
    const uint64_t step = schedule_position(rules->schedule, rules->schedule->first).step;
    int rc = 0;
    if (reduce->server == NULL) {
        rc = server_open(&reduce->server, rules, buckets);
        reduce->needs_norms = server_needs_norms(rules->optimizer);
        reduce->updates_apart = server_updates_apart(rules);
        for (uint32_t d = 0; d < reduce->rendezvous.towers; d++)
            reduce->next[d] = step;
    }
    pthread_mutex_unlock(&reduce->lock);
    return rc;
}

static int open_widened(struct client *client, const struct reduce_member *member, const struct buckets *buckets)
{
    const struct bucket_run run = buckets->of[REGION_WEIGHTS];
    if (member->bf16_grads == NULL || run.count == 0 || buckets->bucket[run.first].use != BUCKET_FETCH)
        return 0;
    client->widened = calloc(member->regions[REGION_GRADIENTS].count, sizeof(float));
    return client->widened != NULL ? 0 : -ENOMEM;
}

static int open_client(struct server_reduce *reduce, uint32_t tower, const struct reduce_member *member,
                     const struct buckets *buckets)
{
    struct client *const client = &reduce->clients[tower];
    client->visit = (struct visit){ .reduce = reduce, .tower = tower };
    client->pushes = calloc(buckets->count, sizeof(*client->pushes));
    for (uint32_t b = 0; b < buckets->count && client->pushes != NULL; b++)
        client->pushes[b] = (struct push){ .reduce = reduce, .tower = tower, .bucket = b };
    int rc = client->pushes == NULL ? -ENOMEM : open_widened(client, member, buckets);
    if (rc == 0)
        rc = member->device->ops->event_open(member->device, EVENT_ORDER, &client->queued);
    if (rc == 0)
        rc = member->device->ops->event_open(member->device, EVENT_ORDER, &client->fetched);
    return rc;
}

static int server_reduce_join(struct reduce *base, uint32_t tower, const struct reduce_member *member,
                              const struct buckets *buckets)
{
    struct server_reduce *const reduce = (struct server_reduce *)base;
    int rc = open_server(reduce, member->rules, buckets);
    if (rc == 0)
        rc = open_client(reduce, tower, member, buckets);
    if (rc == 0)
        rc = host_arena_open(&reduce->arenas[tower], member);
    return rc != 0 ? rc : rendezvous_join(&reduce->rendezvous, &at_the_server, tower, member, buckets);
}

/* The mode chooses this reduction, whatever the devices support. */
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
    rendezvous_cancel(base);
}

const struct reduce_ops reduce_server_ops = {
    .name = "server",
    .pins_regions = reduce_pins_always,
    .knows_owners = true,
    .supports = server_reduce_supports,
    .open = server_reduce_open,
    .close = server_reduce_close,
    .join = server_reduce_join,
    .start = rendezvous_start,
    .wait = rendezvous_wait,
    .cancel = server_reduce_cancel,
};

/* ---- fill, fetch and push ---- */

/* Make the communication stream wait for everything queued on the compute stream. */
static int follow_compute(struct server_reduce *reduce, uint32_t tower)
{
    const struct reduce_member *const member = &reduce->rendezvous.members[tower];
    struct event *const queued = reduce->clients[tower].queued;
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
    const struct reduce_member *const member = &reduce->rendezvous.members[visit->tower];
    for (int region = 0; region < REGION_STATISTICS; region++)
        if (region == REGION_WEIGHTS || region >= REGION_STATES)
            if (member->regions[region].count > 0)
                memcpy(server_floats(reduce->server, region), reduce->arenas[visit->tower].floats[region],
                       member->regions[region].count * sizeof(float));
    pthread_mutex_lock(&reduce->lock);
    reduce->filled = true;
    pthread_cond_broadcast(&reduce->changed);
    pthread_mutex_unlock(&reduce->lock);
}

int reduce_server_fill(struct reduce *base, uint32_t tower)
{
    struct server_reduce *const reduce = (struct server_reduce *)base;
    const struct reduce_member *const member = &reduce->rendezvous.members[tower];
    int rc = follow_compute(reduce, tower);
    for (int region = 0; region < REGION_STATISTICS && rc == 0; region++) {
        const struct bucket whole = whole_of(member, region);
        if (region != REGION_GRADIENTS && whole.count > 0)
            rc = host_arena_copy_in(&reduce->arenas[tower], member, &whole);
    }
    struct client *const client = &reduce->clients[tower];
    if (rc == 0)
        rc = queue_call(&reduce->rendezvous, tower, fill, &client->visit);
    if (rc == 0)
        rc = stream_record(member->communication, client->fetched);
    /* The next step waits, because it overwrites deferred gradients. */
    return rc != 0 ? rc : stream_wait(member->compute, client->fetched);
}

/* The number of steps of which all towers' updates are complete. Lock held. */
static uint64_t complete_steps(const struct server_reduce *reduce)
{
    uint64_t least = reduce->next[0];
    for (uint32_t d = 1; d < reduce->rendezvous.towers; d++)
        least = reduce->next[d] < least ? reduce->next[d] : least;
    return least;
}

/* Wait until the updates of all towers are complete up to the staleness bound, and those of this tower for all earlier
 * steps, because the arguments of its queued calls are reused. */
static int await_updates(struct server_reduce *reduce, uint32_t tower, uint64_t step, uint32_t bound,
                         uint32_t *staleness_out)
{
    pthread_mutex_lock(&reduce->lock);
    heartbeat_begin_wait("waiting for its updates");
    while (reduce->next[tower] < step && !reduce->cancelled)
        pthread_cond_wait(&reduce->changed, &reduce->lock);
    heartbeat_end_wait();
    while ((!reduce->filled || complete_steps(reduce) + bound < step) && !reduce->cancelled)
        pthread_cond_wait(&reduce->changed, &reduce->lock);
    const uint64_t complete = complete_steps(reduce);
    const bool cancelled = reduce->cancelled;
    pthread_mutex_unlock(&reduce->lock);
    *staleness_out = complete < step ? (uint32_t)(step - complete) : 0;
    return cancelled ? -ECANCELED : 0;
}

/* Runs on a communication stream. */
static void visit_fetch(void *arg)
{
    const struct visit *const visit = arg;
    server_fetch(visit->reduce->server, visit->reduce->arenas[visit->tower].floats[REGION_WEIGHTS]);
}

int reduce_server_fetch(struct reduce *base, uint32_t tower, uint64_t step, uint32_t bound, uint32_t *staleness_out)
{
    struct server_reduce *const reduce = (struct server_reduce *)base;
    const struct reduce_member *const member = &reduce->rendezvous.members[tower];
    struct client *const client = &reduce->clients[tower];
    const struct bucket whole = whole_of(member, REGION_WEIGHTS);
    int rc = await_updates(reduce, tower, step, bound, staleness_out);
    if (rc == 0)
        rc = follow_compute(reduce, tower);
    if (rc == 0)
        rc = queue_call(&reduce->rendezvous, tower, visit_fetch, &client->visit);
    if (rc == 0)
        rc = host_arena_copy_out(&reduce->arenas[tower], member, &whole, member->communication);
    if (rc == 0)
        rc = stream_record(member->communication, client->fetched);
    return rc != 0 ? rc : stream_wait(member->compute, client->fetched);
}

/* Runs on a communication stream. */
static void push_fetch(void *arg)
{
    const struct push *const push = arg;
    const struct bucket *const bucket = &push->reduce->rendezvous.buckets.bucket[push->bucket];
    fetch(push->reduce, push->tower, REGION_WEIGHTS, bucket->offset, bucket->offset + bucket->count);
}

int reduce_server_fetch_bucket(struct reduce *base, uint32_t tower, uint32_t number)
{
    struct server_reduce *const reduce = (struct server_reduce *)base;
    const struct reduce_member *const member = &reduce->rendezvous.members[tower];
    struct client *const client = &reduce->clients[tower];
    struct bucket bucket = reduce->rendezvous.buckets.bucket[number];
    bucket.region = REGION_WEIGHTS;
    int rc = follow_compute(reduce, tower);
    if (rc == 0)
        rc = queue_call(&reduce->rendezvous, tower, push_fetch, &client->pushes[number]);
    if (rc == 0)
        rc = host_arena_copy_out(&reduce->arenas[tower], member, &bucket, member->communication);
    if (rc == 0)
        rc = stream_record(member->communication, client->fetched);
    return rc != 0 ? rc : stream_wait(member->compute, client->fetched);
}

/* The range of a push: the bucket, or all gradients if norms of all gradients are needed. */
static struct bucket pushed_of(const struct server_reduce *reduce, uint32_t tower, uint32_t bucket)
{
    return reduce->needs_norms ? whole_of(&reduce->rendezvous.members[tower], REGION_GRADIENTS)
                               : reduce->rendezvous.buckets.bucket[bucket];
}

/* The pushed gradients as fp32. */
static float *push_floats(const struct push *push)
{
    const struct host_arena *const arena = &push->reduce->arenas[push->tower];
    const struct bucket bucket = pushed_of(push->reduce, push->tower, push->bucket);
    float *const widened = push->reduce->clients[push->tower].widened;
    if (widened == NULL)
        return arena->floats[REGION_GRADIENTS];
    floats_from_bf16(arena->bf16_grads + bucket.offset, widened + bucket.offset, bucket.count);
    return widened;
}

/* Runs on a communication stream. */
static void push_update(void *arg)
{
    const struct push *const push = arg;
    struct server_reduce *const reduce = push->reduce;
    if (rendezvous_is_abandoned())
        return;
    struct trace_track *const track = reduce->rendezvous.members[push->tower].track;
    const uint64_t begun_ns = trace_now(track);
    range_begin(TRACE_REDUCE, push->batch);
    server_push(reduce->server, push->tower, push_floats(push), push->bucket, push->batch, push->delay);
    range_end();
    trace_span(track, TRACE_REDUCE, (struct trace_batch){ push->batch, push->tower }, begun_ns, push->bucket);
}

int reduce_server_push(struct reduce *base, uint32_t tower, uint32_t bucket, uint64_t batch, uint32_t delay)
{
    struct server_reduce *const reduce = (struct server_reduce *)base;
    const struct reduce_member *const member = &reduce->rendezvous.members[tower];
    struct push *const mine = &reduce->clients[tower].pushes[bucket];
    const struct bucket pushed = pushed_of(reduce, tower, bucket);
    mine->delay = delay;        /* free to be reused: the updates of the previous step are complete (await_updates) */
    mine->batch = batch;
    int rc = follow_compute(reduce, tower);
    if (rc == 0)
        rc = host_arena_copy_in(&reduce->arenas[tower], member, &pushed);
    return rc != 0 ? rc : queue_call(&reduce->rendezvous, tower, push_update, mine);
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
    struct visit *const visit = &reduce->clients[tower].visit;
    visit->next = next;         /* also free, as in reduce_server_push */
    return queue_call(&reduce->rendezvous, tower, visit_pushed, visit);
}
