/* Towers with a parameter server in host memory. Calls that are queued on communication streams wait only for other
 * streams; a tower's thread waits for the updates of other towers only in reduce_server_fetch and reduce_server_gather.
 *
 * Towers in several processes have an asynchronous server in rank 0. Its own towers use it as in one process, the
 * others by messages (ranks/server_link.h). Where all towers need the same values, tower 0 gathers them from the
 * server, and the reduction of the ranks broadcasts them and sums the other regions. */
#include "sync/reduce_server.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compute/floats.h"
#include "stage/trace/range.h"
#include "sync/host_arena.h"
#include "sync/ranks/ranks.h"
#include "sync/ranks/server_link.h"
#include "sync/rendezvous.h"
#include "sync/server.h"
#include "sync/server_progress.h"

/* The argument of a queued push or fetch of a bucket; for each tower and bucket at most one is queued. */
struct push { struct server_reduce *reduce; uint32_t tower, bucket, delay; uint64_t batch; };
/* The argument of other queued calls; next: the tower's updates of steps before `next` are complete
 * (reduce_server_pushed). weights: of a fetch from another rank. */
struct visit { struct server_reduce *reduce; uint32_t tower; uint64_t next; const float *weights; };

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
    struct tower_range here;
    bool in_pairs;              /* as in struct reduce_spec */
    struct ranks *ranks;        /* NULL: all towers are in this process */
    struct reduce *among_ranks; /* broadcasts and sums; NULL without ranks */
    /* Opened by the first tower that joins; the server only in rank 0, the link only with ranks. */
    struct server *server;
    struct server_link *link;
    bool is_opened;
    int opened;                 /* the result */
    bool needs_norms, updates_apart;    /* the results of server_needs_norms and server_updates_apart */
    struct host_arena *arenas;  /* [tower of this process] */
    struct client *clients;     /* [tower of this process] */
    struct server_progress progress;    /* of the server, in rank 0 */
    pthread_mutex_t lock;       /* guards opening and cancelling */
    bool is_cancelled;
};

static struct server_reduce *server_reduce_of(void *reduce)
{
    return reduce;
}

/* The number in this process of a tower of the run. */
static uint32_t here_of(const struct server_reduce *reduce, uint32_t tower)
{
    return tower - reduce->here.first;
}

static struct reduce_member *member_of(struct server_reduce *reduce, uint32_t tower)
{
    return &reduce->rendezvous.members[here_of(reduce, tower)];
}

static struct client *client_of(struct server_reduce *reduce, uint32_t tower)
{
    return &reduce->clients[here_of(reduce, tower)];
}

static struct host_arena *arena_of(struct server_reduce *reduce, uint32_t tower)
{
    return &reduce->arenas[here_of(reduce, tower)];
}

/* Is the server in another process? */
static bool is_remote(const struct server_reduce *reduce)
{
    return ranks_rank(reduce->ranks) != 0;
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

static void release(struct server_reduce *reduce)
{
    pthread_mutex_destroy(&reduce->lock);
    server_progress_close(&reduce->progress);
    free(reduce->clients);
    free(reduce->arenas);
    free(reduce);
}

static void server_reduce_close(struct reduce *base)
{
    struct server_reduce *const reduce = (struct server_reduce *)base;
    if (reduce == NULL)
        return;
    server_link_close(reduce->link);
    if (reduce->among_ranks != NULL)
        reduce->among_ranks->ops->close(reduce->among_ranks);
    for (uint32_t d = 0; d < reduce->here.count; d++) {
        host_arena_close(&reduce->arenas[d]);
        event_close(reduce->clients[d].queued);
        event_close(reduce->clients[d].fetched);
    }
    if (!rendezvous_close(&reduce->rendezvous, false))
        return;
    for (uint32_t d = 0; d < reduce->here.count; d++) {
        free(reduce->clients[d].pushes);
        free(reduce->clients[d].widened);
    }
    server_close(reduce->server);
    release(reduce);
}

static int open_reduce(struct reduce **reduce_out, const struct reduce_spec *spec, const struct reduce_ops *ops,
                       struct tower_range here)
{
    struct server_reduce *const reduce = calloc(1, sizeof(*reduce));
    if (reduce == NULL)
        return -ENOMEM;
    pthread_mutex_init(&reduce->lock, NULL);
    reduce->here = here;
    reduce->in_pairs = spec->in_pairs;
    reduce->ranks = spec->ranks;
    reduce->arenas = calloc(here.count, sizeof(*reduce->arenas));
    reduce->clients = calloc(here.count, sizeof(*reduce->clients));
    int rc = reduce->arenas != NULL && reduce->clients != NULL ? 0 : -ENOMEM;
    if (rc == 0 && spec->ranks != NULL)
        rc = reduce_ranks_ops.open(&reduce->among_ranks, spec);
    if (rc == 0)
        rc = rendezvous_init(&reduce->rendezvous, ops, here);
    if (rc != 0 && reduce->among_ranks != NULL)
        reduce->among_ranks->ops->close(reduce->among_ranks);
    if (rc != 0)
        release(reduce);
    else
        *reduce_out = &reduce->rendezvous.base;
    return rc;
}

static int server_reduce_open(struct reduce **reduce_out, const struct reduce_spec *spec)
{
    return open_reduce(reduce_out, spec, &reduce_server_ops, (struct tower_range){ 0, spec->towers });
}

/* All updates of steps before the process' first batch count as complete. */
static int open_server(struct server_reduce *reduce, const struct server_rules *rules, const struct buckets *buckets)
{
    const uint64_t step = schedule_position(rules->schedule, rules->schedule->first).step;
    if (is_remote(reduce))
        return 0;
    const int rc = server_progress_open(&reduce->progress, rules->schedule->towers, step);
    return rc == 0 ? server_open(&reduce->server, rules, buckets) : rc;
}

static int open_link(struct server_reduce *reduce, const struct reduce_member *member, uint32_t towers)
{
    const struct server_link_spec spec = {
        .ranks = reduce->ranks, .towers = towers, .here = reduce->here,
        .floats = member->regions[REGION_WEIGHTS].count, .has_bf16_grads = member->bf16_grads != NULL,
        .server = reduce->server, .progress = is_remote(reduce) ? NULL : &reduce->progress,
    };
    return reduce->ranks == NULL ? 0 : server_link_open(&reduce->link, &spec);
}

/* Called by every tower; the first one opens what is common. */
static int open_common(struct server_reduce *reduce, const struct reduce_member *member, const struct buckets *buckets)
{
    const struct server_rules *const rules = member->rules;
    pthread_mutex_lock(&reduce->lock);
    if (!reduce->is_opened) {
        reduce->needs_norms = server_needs_norms(rules->optimizer);
        reduce->updates_apart = server_updates_apart(rules);
        reduce->opened = reduce->is_cancelled ? -ECANCELED : open_server(reduce, rules, buckets);
        if (reduce->opened == 0)
            reduce->opened = open_link(reduce, member, rules->schedule->towers);
        reduce->is_opened = true;
    }
    const int rc = reduce->opened;
    pthread_mutex_unlock(&reduce->lock);
    return rc;
}

static int open_widened(const struct server_reduce *reduce, struct client *client, const struct reduce_member *member,
                        const struct buckets *buckets)
{
    const struct bucket_run run = buckets->of[REGION_WEIGHTS];
    const bool pushes = reduce->ranks != NULL || (run.count > 0 && buckets->bucket[run.first].use == BUCKET_FETCH);
    if (member->bf16_grads == NULL || is_remote(reduce) || !pushes)
        return 0;
    client->widened = calloc(member->regions[REGION_GRADIENTS].count, sizeof(float));
    return client->widened != NULL ? 0 : -ENOMEM;
}

static int open_client(struct server_reduce *reduce, uint32_t tower, const struct reduce_member *member,
                       const struct buckets *buckets)
{
    struct client *const client = client_of(reduce, tower);
    client->visit = (struct visit){ .reduce = reduce, .tower = tower };
    client->pushes = calloc(buckets->count, sizeof(*client->pushes));
    for (uint32_t b = 0; b < buckets->count && client->pushes != NULL; b++)
        client->pushes[b] = (struct push){ .reduce = reduce, .tower = tower, .bucket = b };
    int rc = client->pushes == NULL ? -ENOMEM : open_widened(reduce, client, member, buckets);
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
    int rc = open_common(reduce, member, buckets);
    if (rc == 0)
        rc = open_client(reduce, tower, member, buckets);
    if (rc == 0)
        rc = host_arena_open(arena_of(reduce, tower), member, reduce->in_pairs);
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
    reduce->is_cancelled = true;
    if (reduce->progress.next != NULL)
        server_progress_cancel(&reduce->progress);
    server_link_cancel(reduce->link);
    pthread_mutex_unlock(&reduce->lock);
    if (reduce->among_ranks != NULL)
        reduce_cancel(reduce->among_ranks);
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

/* ---- towers of several processes ---- */

static int ranks_open_server(struct reduce **reduce_out, const struct reduce_spec *spec)
{
    return open_reduce(reduce_out, spec, &reduce_server_ranks_ops, spec->here);
}

/* The ranks exchange all regions except the gradients. */
static int ranks_join(struct reduce *base, uint32_t tower, const struct reduce_member *member,
                      const struct buckets *buckets)
{
    struct server_reduce *const reduce = (struct server_reduce *)base;
    struct reduce_member exchanged = *member;
    exchanged.regions[REGION_GRADIENTS].count = 0;
    exchanged.bf16_grads = NULL;
    const int rc = server_reduce_join(base, tower, member, buckets);
    return rc != 0 ? rc : reduce->among_ranks->ops->join(reduce->among_ranks, tower, &exchanged, buckets);
}

static int ranks_start(struct reduce *base, uint32_t tower, uint32_t bucket, uint64_t batch)
{
    struct reduce *const among_ranks = ((struct server_reduce *)base)->among_ranks;
    return among_ranks->ops->start(among_ranks, tower, bucket, batch);
}

static int ranks_wait(struct reduce *base, uint32_t tower, uint32_t bucket)
{
    struct reduce *const among_ranks = ((struct server_reduce *)base)->among_ranks;
    return among_ranks->ops->wait(among_ranks, tower, bucket);
}

/* The first tower that leaves has seen the end of all updates of the run, or a cancel. */
static void ranks_leave(struct reduce *base, uint32_t tower)
{
    struct server_reduce *const reduce = (struct server_reduce *)base;
    server_link_end(reduce->link);
    reduce->among_ranks->ops->leave(reduce->among_ranks, tower);
}

static size_t ranks_host_bytes(const struct reduce *base, const struct buckets *buckets, bool has_bf16_grads)
{
    const struct server_reduce *const reduce = (const struct server_reduce *)base;
    const struct reduce *const among_ranks = reduce->among_ranks;
    const uint32_t towers = reduce->here.count * ranks_size(reduce->ranks);
    const struct bucket_run run = buckets->of[REGION_WEIGHTS];
    const size_t floats = buckets->bucket[run.first].count;
    return among_ranks->ops->host_bytes(among_ranks, buckets, has_bf16_grads) +
           server_link_bytes(reduce->ranks, towers, reduce->here, floats) / reduce->here.count;
}

const struct reduce_ops reduce_server_ranks_ops = {
    .name = "server",
    .pins_regions = reduce_pins_always,
    .knows_owners = true,
    .broadcasts_server = true,
    .host_bytes = ranks_host_bytes,
    .supports = server_reduce_supports,
    .open = ranks_open_server,
    .close = server_reduce_close,
    .join = ranks_join,
    .start = ranks_start,
    .wait = ranks_wait,
    .leave = ranks_leave,
    .cancel = server_reduce_cancel,
};

/* ---- fill, fetch and push ---- */

/* Make the communication stream wait for everything queued on the compute stream. */
static int follow_compute(struct server_reduce *reduce, uint32_t tower)
{
    const struct reduce_member *const member = member_of(reduce, tower);
    struct event *const queued = client_of(reduce, tower)->queued;
    const int rc = stream_record(member->compute, queued);
    return rc != 0 ? rc : stream_wait(member->communication, queued);
}

static struct bucket whole_of(const struct reduce_member *member, enum region region)
{
    return (struct bucket){ .region = region, .count = member->regions[region].count };
}

/* Is the region one of the server's: weights and states? */
static bool is_served(const struct reduce_member *member, int region)
{
    return region != REGION_GRADIENTS && member->regions[region].count > 0;
}

/* Runs on a communication stream. */
static void fill(void *arg)
{
    const struct visit *const visit = arg;
    struct server_reduce *const reduce = visit->reduce;
    const struct reduce_member *const member = member_of(reduce, visit->tower);
    for (int region = 0; region < REGION_STATISTICS; region++)
        if (is_served(member, region))
            memcpy(server_floats(reduce->server, region), arena_of(reduce, visit->tower)->floats[region],
                   member->regions[region].count * sizeof(float));
    server_progress_fill(&reduce->progress);
}

/* Make the compute stream wait for all that is queued on the communication stream. */
static int await_communication(struct server_reduce *reduce, uint32_t tower)
{
    const struct reduce_member *const member = member_of(reduce, tower);
    struct event *const fetched = client_of(reduce, tower)->fetched;
    const int rc = stream_record(member->communication, fetched);
    return rc != 0 ? rc : stream_wait(member->compute, fetched);
}

int reduce_server_fill(struct reduce *base, uint32_t tower)
{
    struct server_reduce *const reduce = (struct server_reduce *)base;
    const struct reduce_member *const member = member_of(reduce, tower);
    int rc = follow_compute(reduce, tower);
    for (int region = 0; region < REGION_STATISTICS && rc == 0; region++) {
        const struct bucket whole = whole_of(member, region);
        if (is_served(member, region))
            rc = host_arena_copy_in(arena_of(reduce, tower), member, &whole);
    }
    if (rc == 0)
        rc = queue_call(&reduce->rendezvous, here_of(reduce, tower), fill, &client_of(reduce, tower)->visit);
    /* The next step waits, because it overwrites deferred gradients. */
    return rc == 0 ? await_communication(reduce, tower) : rc;
}

/* Runs on a communication stream. */
static void gather(void *arg)
{
    const struct visit *const visit = arg;
    struct server_reduce *const reduce = visit->reduce;
    const struct reduce_member *const member = member_of(reduce, visit->tower);
    for (int region = 0; region < REGION_STATISTICS; region++)
        if (is_served(member, region))
            fetch(reduce, here_of(reduce, visit->tower), region, 0, member->regions[region].count);
}

int reduce_server_gather(struct reduce *base, uint32_t tower)
{
    struct server_reduce *const reduce = (struct server_reduce *)base;
    if (reduce->ranks == NULL)
        return 0;
    const struct reduce_member *const member = member_of(reduce, tower);
    struct visit *const visit = &client_of(reduce, tower)->visit;
    int rc = server_progress_await_all(&reduce->progress, visit->next);
    if (rc == 0)
        rc = follow_compute(reduce, tower);
    if (rc == 0)
        rc = queue_call(&reduce->rendezvous, here_of(reduce, tower), gather, visit);
    for (int region = 0; region < REGION_STATISTICS && rc == 0; region++) {
        const struct bucket whole = whole_of(member, region);
        if (is_served(member, region))
            rc = host_arena_copy_out(arena_of(reduce, tower), member, &whole, member->communication);
    }
    return rc == 0 ? await_communication(reduce, tower) : rc;
}

/* Wait until the tower may fetch; from another rank, also for the weights. The arguments of the tower's queued calls
 * are then free to be reused: the server has all that they sent. */
static int await_updates(struct server_reduce *reduce, uint32_t tower, uint64_t step, uint32_t bound,
                         uint32_t *staleness_out)
{
    if (is_remote(reduce))
        return server_link_fetch(reduce->link, tower, step, bound, &client_of(reduce, tower)->visit.weights,
                                 staleness_out);
    return server_progress_await(&reduce->progress, tower, step, bound, staleness_out);
}

/* Runs on a communication stream. */
static void visit_fetch(void *arg)
{
    const struct visit *const visit = arg;
    struct server_reduce *const reduce = visit->reduce;
    float *const weights = arena_of(reduce, visit->tower)->floats[REGION_WEIGHTS];
    if (is_remote(reduce))
        memcpy(weights, visit->weights, member_of(reduce, visit->tower)->regions[REGION_WEIGHTS].count * sizeof(float));
    else
        server_fetch(reduce->server, weights);
}

int reduce_server_fetch(struct reduce *base, uint32_t tower, uint64_t step, uint32_t bound, uint32_t *staleness_out)
{
    struct server_reduce *const reduce = (struct server_reduce *)base;
    const struct reduce_member *const member = member_of(reduce, tower);
    const struct bucket whole = whole_of(member, REGION_WEIGHTS);
    int rc = await_updates(reduce, tower, step, bound, staleness_out);
    if (rc == 0)
        rc = follow_compute(reduce, tower);
    if (rc == 0)
        rc = queue_call(&reduce->rendezvous, here_of(reduce, tower), visit_fetch, &client_of(reduce, tower)->visit);
    if (rc == 0)
        rc = host_arena_copy_out(arena_of(reduce, tower), member, &whole, member->communication);
    return rc == 0 ? await_communication(reduce, tower) : rc;
}

/* Runs on a communication stream. */
static void push_fetch(void *arg)
{
    const struct push *const push = arg;
    const struct bucket *const bucket = &push->reduce->rendezvous.buckets.bucket[push->bucket];
    fetch(push->reduce, here_of(push->reduce, push->tower), REGION_WEIGHTS, bucket->offset, bucket->offset + bucket->count);
}

int reduce_server_fetch_bucket(struct reduce *base, uint32_t tower, uint32_t number)
{
    struct server_reduce *const reduce = (struct server_reduce *)base;
    const struct reduce_member *const member = member_of(reduce, tower);
    struct client *const client = client_of(reduce, tower);
    struct bucket bucket = reduce->rendezvous.buckets.bucket[number];
    bucket.region = REGION_WEIGHTS;
    int rc = follow_compute(reduce, tower);
    if (rc == 0)
        rc = queue_call(&reduce->rendezvous, here_of(reduce, tower), push_fetch, &client->pushes[number]);
    if (rc == 0)
        rc = host_arena_copy_out(arena_of(reduce, tower), member, &bucket, member->communication);
    return rc == 0 ? await_communication(reduce, tower) : rc;
}

/* The range of a push: the bucket, or all gradients if norms of all gradients are needed. */
static struct bucket pushed_of(struct server_reduce *reduce, uint32_t tower, uint32_t bucket)
{
    return reduce->needs_norms ? whole_of(member_of(reduce, tower), REGION_GRADIENTS)
                               : reduce->rendezvous.buckets.bucket[bucket];
}

/* The pushed gradients as fp32. */
static float *push_floats(const struct push *push)
{
    const struct host_arena *const arena = arena_of(push->reduce, push->tower);
    const struct bucket bucket = pushed_of(push->reduce, push->tower, push->bucket);
    float *const widened = client_of(push->reduce, push->tower)->widened;
    if (widened == NULL)
        return arena->floats[REGION_GRADIENTS];
    floats_from_bf16(arena->bf16_grads + bucket.offset, widened + bucket.offset, bucket.count);
    return widened;
}

/* Send the gradients to the server's rank. An error ends the run. */
static void push_by_messages(const struct push *push)
{
    const struct host_arena *const arena = arena_of(push->reduce, push->tower);
    const struct bucket bucket = pushed_of(push->reduce, push->tower, push->bucket);
    const void *const numbers = arena->bf16_grads != NULL ? (const void *)arena->bf16_grads
                                                          : arena->floats[REGION_GRADIENTS];
    const struct server_gradients gradients = { numbers, bucket.offset, bucket.count };
    (void)server_link_push(push->reduce->link, push->tower, &gradients, push->bucket, push->batch, push->delay);
}

/* Runs on a communication stream. */
static void push_update(void *arg)
{
    const struct push *const push = arg;
    struct server_reduce *const reduce = push->reduce;
    if (rendezvous_is_abandoned())
        return;
    struct trace_track *const track = member_of(reduce, push->tower)->track;
    const uint64_t begun_ns = trace_now(track);
    range_begin(TRACE_REDUCE, push->batch);
    if (is_remote(reduce))
        push_by_messages(push);
    else
        server_push(reduce->server, push->tower, push_floats(push), push->bucket, push->batch, push->delay);
    range_end();
    trace_span(track, TRACE_REDUCE, (struct trace_batch){ push->batch, push->tower }, begun_ns, push->bucket);
}

int reduce_server_push(struct reduce *base, uint32_t tower, uint32_t bucket, uint64_t batch, uint32_t delay)
{
    struct server_reduce *const reduce = (struct server_reduce *)base;
    const struct reduce_member *const member = member_of(reduce, tower);
    struct push *const mine = &client_of(reduce, tower)->pushes[bucket];
    const struct bucket pushed = pushed_of(reduce, tower, bucket);
    mine->delay = delay;        /* free to be reused: the updates of the previous step are complete (await_updates) */
    mine->batch = batch;
    int rc = follow_compute(reduce, tower);
    if (rc == 0)
        rc = host_arena_copy_in(arena_of(reduce, tower), member, &pushed);
    return rc != 0 ? rc : queue_call(&reduce->rendezvous, here_of(reduce, tower), push_update, mine);
}

/* Runs on a communication stream. */
static void visit_pushed(void *arg)
{
    const struct visit *const visit = arg;
    struct server_reduce *const reduce = visit->reduce;
    if (rendezvous_is_abandoned())
        return;
    if (is_remote(reduce))
        (void)server_link_pushed(reduce->link, visit->tower, visit->next);      /* an error ends the run */
    else
        server_progress_set(&reduce->progress, visit->tower, visit->next);
}

int reduce_server_pushed(struct reduce *base, uint32_t tower, uint64_t next)
{
    struct server_reduce *const reduce = (struct server_reduce *)base;
    struct visit *const visit = &client_of(reduce, tower)->visit;
    visit->next = next;         /* also free, as in reduce_server_push */
    return queue_call(&reduce->rendezvous, here_of(reduce, tower), visit_pushed, visit);
}
