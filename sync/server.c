/* Updates in host memory; their speed is limited by memory bandwidth. Called on the towers' communication streams. */
#include "sync/server.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "compute/floats.h"
#include "compute/param_groups.h"

/* The workspace of one tower: ranges with equal update parameters, and norms. */
struct workspace {
    struct param_groups groups; /* of the whole arena */
    double *sums;               /* sums of squares */
};

struct server {
    struct server_rules rules;
    uint32_t count;             /* number of buckets of gradients */
    struct bucket buckets[REGION_BUCKETS_MAX];
    /* Each guards the weights and states of its bucket in pushes and fetches. */
    pthread_mutex_t locks[REGION_BUCKETS_MAX];
    float *weights, *gradients, *states[OPTIMIZER_STATES_MAX];
    double *parts;              /* sums of squares of all towers; each tower computes some of them */
    struct workspace *workspaces;       /* [tower] */
};

bool server_needs_norms(const struct optimizer *optimizer)
{
    return optimizer->clip_norm > 0 || optimizer_adapts(optimizer->kind);
}

bool server_updates_apart(const struct server_rules *rules)
{
    return rules->defers || server_needs_norms(rules->optimizer);
}

size_t server_bytes(const struct server_rules *rules)
{
    return (2 + optimizer_state_count(rules->optimizer->kind)) * rules->arena->updated * sizeof(float);
}

static int open_workspace(struct server *server, struct workspace *workspace)
{
    const struct server_rules *const rules = &server->rules;
    int rc = param_groups_init(&workspace->groups, rules->net, rules->arena, rules->optimizer);
    const size_t bytes = rc == 0 ? param_groups_bytes(&workspace->groups) : 0;
    if (bytes == 0)
        return rc;
    workspace->sums = calloc(1, bytes);
    if (server->parts == NULL)
        server->parts = calloc(1, bytes);
    if (workspace->sums == NULL || server->parts == NULL)
        return -ENOMEM;
    param_groups_bind(&workspace->groups, workspace->sums);
    return 0;
}

static int open_floats(struct server *server)
{
    const size_t count = server->rules.arena->updated + 1;
    const uint32_t states = optimizer_state_count(server->rules.optimizer->kind);
    server->weights = calloc(count, sizeof(float));
    server->gradients = calloc(count, sizeof(float));
    bool is_there = server->weights != NULL && server->gradients != NULL;
    for (uint32_t i = 0; i < states; i++) {
        server->states[i] = calloc(count, sizeof(float));
        is_there = is_there && server->states[i] != NULL;
    }
    return is_there ? 0 : -ENOMEM;
}

int server_open(struct server **server_out, const struct server_rules *rules, const struct buckets *buckets)
{
    struct server *const server = calloc(1, sizeof(*server));
    if (server == NULL)
        return -ENOMEM;
    server->rules = *rules;
    server->count = buckets->of[REGION_GRADIENTS].count;
    memcpy(server->buckets, buckets->bucket, server->count * sizeof(*server->buckets));
    for (uint32_t b = 0; b < server->count; b++)
        pthread_mutex_init(&server->locks[b], NULL);
    server->workspaces = calloc(rules->schedule->towers, sizeof(*server->workspaces));
    int rc = server->workspaces != NULL ? open_floats(server) : -ENOMEM;
    for (uint32_t tower = 0; tower < rules->schedule->towers && rc == 0; tower++)
        rc = open_workspace(server, &server->workspaces[tower]);
    if (rc != 0) {
        server_close(server);
        return rc;
    }
    *server_out = server;
    return 0;
}

void server_close(struct server *server)
{
    if (server == NULL)
        return;
    for (uint32_t tower = 0; tower < server->rules.schedule->towers && server->workspaces != NULL; tower++) {
        param_groups_release(&server->workspaces[tower].groups);
        free(server->workspaces[tower].sums);
    }
    for (uint32_t b = 0; b < server->count; b++)
        pthread_mutex_destroy(&server->locks[b]);
    free(server->workspaces);
    free(server->parts);
    free(server->states[0]);
    free(server->states[1]);
    free(server->gradients);
    free(server->weights);
    free(server);
}

float *server_floats(struct server *server, enum region region)
{
    if (region == REGION_GRADIENTS || region == REGION_DEFERRED)
        return server->gradients;
    return region == REGION_WEIGHTS ? server->weights : server->states[region - REGION_STATES];
}

/* ---- the update ---- */

static struct local_batch local_batch_of(const struct server *server, uint32_t tower, uint64_t batch)
{
    struct local_batch local = { 0 };
    const int rc = schedule_find(server->rules.schedule, batch, tower, &local);
    assert(rc == 0 && local.phase == PHASE_TRAIN);
    (void)rc;
    return local;
}

static struct optimizer_step step_of(const struct server *server, const struct local_batch *local, uint32_t samples)
{
    return (struct optimizer_step){ .number = local->step,
                                    .learning_rate = (float)learning_rate_at(server->rules.learning_rate, local->step),
                                    .gradient_scale = 1.0f / (float)samples };
}

/* Clip gradients, which are sums, to a limit for means. */
static void clip_sums(const struct server *server, float *gradients, size_t count, uint32_t samples)
{
    const float most = (float)(server->rules.optimizer->clip_value / (double)(1.0f / (float)samples));
    if (most > 0)
        floats_clip(gradients, count, most);
}

/* Split the arena into ranges with equal update parameters, and list the sums of squares that these need. */
static struct param_groups *group_arena(struct server *server, uint32_t tower, const float *gradients)
{
    struct param_groups *const groups = &server->workspaces[tower].groups;
    const struct optimizer_range whole = { .weights = server->weights, .gradients = gradients,
                                           .states = { server->states[0], server->states[1] } };
    param_groups_select(groups, &whole, 0, server->rules.arena->updated);
    return groups;
}

/* The part of a range that is in [begin, end) of the arena, with the norms of the whole range. */
static struct optimizer_range clip_range(const struct server *server, const struct optimizer_range *range, size_t begin,
                                      size_t end)
{
    struct optimizer_range part = *range;
    const size_t offset = (size_t)(range->weights - server->weights), last = offset + range->count;
    const size_t from = begin > offset ? begin : offset, to = end < last ? end : last;
    part.count = to > from ? to - from : 0;
    const size_t moved = part.count > 0 ? from - offset : 0;
    part.weights += moved;
    part.gradients += moved;
    for (int i = 0; i < OPTIMIZER_STATES_MAX; i++)
        part.states[i] = part.states[i] != NULL ? part.states[i] + moved : NULL;
    return part;
}

static void update(struct server *server, const struct param_groups *groups, size_t begin, size_t end,
                   const struct optimizer_step *step)
{
    for (uint32_t i = 0; i < groups->range_count; i++) {
        const struct optimizer_range part = clip_range(server, &groups->ranges[i], begin, end);
        if (part.count > 0)
            optimizer_update(server->rules.optimizer, step, &part);
    }
}

/* ---- one update of all towers ---- */

void server_clip_value(struct server *server, uint32_t tower, size_t begin, size_t end, uint64_t batch)
{
    clip_sums(server, server->gradients + begin, end - begin, local_batch_of(server, tower, batch).global_count);
}

/* The offset of these sums of squares, which is the same in all arrays of sums. */
static size_t offset_of(const struct server *server, uint32_t tower, const struct squares *squares)
{
    return (size_t)(squares->sum - server->workspaces[tower].sums);
}

void server_square(struct server *server, uint32_t tower)
{
    const struct param_groups *const groups = group_arena(server, tower, server->gradients);
    const size_t towers = server->rules.schedule->towers;
    const size_t first = SQUARES_PARTS * tower / towers, end = SQUARES_PARTS * (tower + 1) / towers;
    for (uint32_t i = 0; i < groups->squares_count; i++) {
        const struct squares *const squares = &groups->squares[i];
        squares_sum_parts(squares, first, end);
        memcpy(server->parts + offset_of(server, tower, squares) + 1 + first, squares->sum + 1 + first,
               (end - first) * sizeof(double));
    }
}

/* Complete the sums of squares with the parts of all towers. */
static void gather_squares(struct server *server, uint32_t tower, const struct param_groups *groups)
{
    for (uint32_t i = 0; i < groups->squares_count; i++) {
        const struct squares *const squares = &groups->squares[i];
        memcpy(squares->sum + 1, server->parts + offset_of(server, tower, squares) + 1, SQUARES_PARTS * sizeof(double));
        squares_sum(squares);
    }
}

void server_update(struct server *server, uint32_t tower, size_t begin, size_t end, uint64_t batch)
{
    const struct param_groups *const groups = group_arena(server, tower, server->gradients);
    const struct local_batch local = local_batch_of(server, tower, batch);
    const struct optimizer_step step = step_of(server, &local, local.global_count);
    gather_squares(server, tower, groups);
    update(server, groups, begin, end, &step);
}

/* ---- updates of single towers ---- */

static void sum_squares(const struct param_groups *groups)
{
    for (uint32_t i = 0; i < groups->squares_count; i++) {
        squares_sum_parts(&groups->squares[i], 0, SQUARES_PARTS);
        squares_sum(&groups->squares[i]);
    }
}

static void lock_buckets(struct server *server, uint32_t first, uint32_t count)
{
    for (uint32_t b = first; b < first + count; b++)
        pthread_mutex_lock(&server->locks[b]);
}

static void unlock_buckets(struct server *server, uint32_t first, uint32_t count)
{
    for (uint32_t b = first; b < first + count; b++)
        pthread_mutex_unlock(&server->locks[b]);
}

void server_push(struct server *server, uint32_t tower, float *gradients, uint32_t bucket, uint64_t batch,
                 uint32_t delay)
{
    const bool is_all = server_needs_norms(server->rules.optimizer);
    const uint32_t first = is_all ? 0 : bucket, count = is_all ? server->count : 1;
    const size_t begin = server->buckets[first].offset;
    const size_t end = server->buckets[first + count - 1].offset + server->buckets[first + count - 1].count;
    const struct local_batch local = local_batch_of(server, tower, batch);
    struct optimizer_step step = step_of(server, &local, local.count);
    step.learning_rate *= (float)local.count / (float)local.global_count / (float)delay;
    clip_sums(server, gradients + begin, end - begin, local.count);
    lock_buckets(server, first, count);
    const struct param_groups *const groups = group_arena(server, tower, gradients);
    sum_squares(groups);
    update(server, groups, begin, end, &step);
    unlock_buckets(server, first, count);
}

void server_fetch(struct server *server, float *weights_out)
{
    for (uint32_t b = 0; b < server->count; b++) {
        const struct bucket *const bucket = &server->buckets[b];
        lock_buckets(server, b, 1);
        memcpy(weights_out + bucket->offset, server->weights + bucket->offset, bucket->count * sizeof(float));
        unlock_buckets(server, b, 1);
    }
}
