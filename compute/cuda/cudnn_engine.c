/* Choosing among cuDNN's engines, and measuring their plans. While plans are made, from the tower's thread. */
#include "compute/cuda/cudnn_engine.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compute/cuda/plan_cache.h"
#include "compute/cuda/plan_timing.h"
#include "stage/cuda/cuda_call.h"

/* Ranks of admissible engines, best first; within a rank, engines keep the order of the heuristics. */
enum rank { RANK_READY, RANK_COPYING, RANK_COMPILED, RANK_SLOW };

struct search {
    const struct cudnn_graph *graph;
    const struct engine_rules *rules;
    uint32_t wanted, count;
    enum rank least, most;              /* only engines of these ranks are tried now */
    struct engine_plan *found;          /* sorted by rank */
    enum rank ranks[ENGINE_PLANS_MAX];
    /* Numbers of proposals, and of those rejected for each reason. */
    uint32_t proposed, nondeterministic, inexact, too_large, unsupported;
    size_t least_too_large;             /* bytes of workspace; 0: none was too large */
    struct cudnn_refusal refusal;
};

int engine_place(const struct engine_rules *rules, char *text, size_t text_size)
{
    char device[2048];
    int64_t length = 0;
    int rc;
    if (rules->handle != NULL)
        rc = plan_cache_device(rules->name, device, sizeof(device));
    else
        rc = descriptor_get(rules->properties, rules->name, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                            CUDNN_TYPE_CHAR, (int64_t)sizeof(device), &length, device);
    if (rc == 0)
        snprintf(text, text_size, "cudnn %zu, %.*s", cudnnGetVersion(),
                 rules->handle != NULL ? (int)strlen(device) : (int)length, device);
    return rc;
}

/* Reads the numerical notes of an engine as a bit set, and whether the engine is compiled at run time. */
static int notes_of(cudnnBackendDescriptor_t engine, const char *name, uint32_t *numerical_out, bool *compiled_out)
{
    cudnnBackendNumericalNote_t numerical[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    cudnnBackendBehaviorNote_t behavior[CUDNN_BEHAVIOR_NOTE_TYPE_COUNT];
    int64_t numerical_count = 0, behavior_count = 0;
    int rc = descriptor_get(engine, name, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                            CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &numerical_count, numerical);
    if (rc == 0)
        rc = descriptor_get(engine, name, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE,
                            CUDNN_BEHAVIOR_NOTE_TYPE_COUNT, &behavior_count, behavior);
    if (rc < 0)
        return rc;
    /* A later cuDNN may have notes that this header does not name, and may count more than fit. */
    *numerical_out = 0;
    for (int64_t i = 0; i < numerical_count && i < CUDNN_NUMERICAL_NOTE_TYPE_COUNT; i++)
        if (numerical[i] < CUDNN_NUMERICAL_NOTE_TYPE_COUNT)
            *numerical_out |= 1u << numerical[i];
    *compiled_out = false;
    for (int64_t i = 0; i < behavior_count && i < CUDNN_BEHAVIOR_NOTE_TYPE_COUNT; i++)
        *compiled_out |= behavior[i] == CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION;
    return 0;
}

static bool is_admissible(struct search *search, uint32_t notes)
{
    const uint32_t nondeterministic = 1u << CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
    uint32_t inexact = 1u << CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION;
    if (search->rules->exact)
        inexact |= 1u << CUDNN_NUMERICAL_NOTE_TENSOR_CORE | 1u << CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS;
    search->nondeterministic += (notes & nondeterministic) != 0;
    search->inexact += (notes & nondeterministic) == 0 && (notes & inexact) != 0;
    return (notes & (nondeterministic | inexact)) == 0;
}

static int engine_of(cudnnBackendDescriptor_t config, const char *name, cudnnBackendDescriptor_t *engine_out,
                     int64_t *index_out)
{
    cudnnBackendDescriptor_t engine = NULL;
    int rc = descriptor_open(&engine, name, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    if (rc < 0)
        return rc;
    rc = descriptor_get(config, name, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, NULL,
                        &engine);
    if (rc == 0)
        rc = descriptor_get(engine, name, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, NULL, index_out);
    if (rc == 0)
        *engine_out = engine;
    else
        descriptor_close(engine);
    return rc;
}

/* When several plans are wanted, an engine that is compiled at run time or slow is not worth measuring after others. */
static bool is_worthless(const struct search *search, enum rank rank)
{
    return search->wanted > 1 && search->count > 0 && rank >= RANK_COMPILED;
}

static bool has_plans_of(const struct search *search, int64_t engine)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < search->count; i++)
        count += search->found[i].engine == engine;
    return search->wanted > 1 && count >= ENGINE_PLANS_PER_ENGINE;
}

/* Returns 1 and sets the rank; 0 when it is not the turn of the engine's rank, the rules exclude the engine or enough of
 * its plans were found; or a negative errno. */
static int rate_engine(struct search *search, cudnnBackendDescriptor_t config, enum rank *rank_out)
{
    cudnnBackendDescriptor_t engine = NULL;
    int64_t index;
    uint32_t notes = 0;
    bool compiled = false;
    int rc = engine_of(config, search->rules->name, &engine, &index);
    if (rc < 0)
        return rc;
    rc = notes_of(engine, search->rules->name, &notes, &compiled);
    descriptor_close(engine);
    if (rc < 0)
        return rc;
    /* Engine 0 is cuDNN's generic implementation. */
    *rank_out = index == 0 ? RANK_SLOW : compiled ? RANK_COMPILED : RANK_READY;
    if (*rank_out < search->least || *rank_out > search->most)
        return 0;
    search->proposed++;
    if (search->rules->failed != NULL && *search->rules->failed == index)
        return 0;
    if (search->rules->no_generic && *rank_out == RANK_SLOW)
        return 0;
    return is_admissible(search, notes) && !has_plans_of(search, index) && !is_worthless(search, *rank_out) ? 1 : 0;
}

static int plan_open(cudnnBackendDescriptor_t *plan_out, const struct engine_rules *rules)
{
    cudnnBackendDescriptor_t plan;
    int rc = descriptor_open(&plan, rules->name, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    if (rc < 0)
        return rc;
    if (rules->handle != NULL)
        rc = descriptor_set(plan, rules->name, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1,
                            &rules->handle);
    else
        rc = descriptor_set(plan, rules->name, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP,
                            CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &rules->properties);
    if (rc == 0)
        *plan_out = plan;
    else
        descriptor_close(plan);
    return rc;
}

static int read_workspace(struct engine_plan *plan, const char *name)
{
    int64_t workspace = 0;
    const int rc = descriptor_get(plan->plan, name, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64,
                                  1, NULL, &workspace);
    plan->workspace = (size_t)workspace;
    return rc;
}

/* Reads the engine of a finished plan. */
static int read_engine(struct engine_plan *plan, const char *name)
{
    cudnnBackendDescriptor_t config, engine;
    int rc = descriptor_open(&config, name, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    if (rc < 0)
        return rc;
    rc = descriptor_get(plan->plan, name, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                        CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, NULL, &config);
    if (rc == 0)
        rc = engine_of(config, name, &engine, &plan->engine);
    if (rc == 0)
        descriptor_close(engine);
    descriptor_close(config);
    return rc;
}

/* Finalizes a plan whose other attributes are set. */
static int plan_finish(struct engine_plan *plan, const char *name, struct cudnn_refusal *refusal)
{
    int rc = descriptor_finalize_plan(plan->plan, name, refusal);
    if (rc == 0)
        rc = read_workspace(plan, name);
    if (rc == 0)
        rc = read_engine(plan, name);
    return rc;
}

/* A plan whose kernels are compiled, but not loaded: without a device that is all that can be done. */
static int accept_unloaded(struct engine_plan *plan, cudnnBackendDescriptor_t config, const char *name)
{
    cudnnBackendDescriptor_t engine;
    const int rc = engine_of(config, name, &engine, &plan->engine);
    if (rc == 0)
        descriptor_close(engine);
    plan->is_unloaded = rc == 0;
    return rc;
}

static int plan_of(struct search *search, cudnnBackendDescriptor_t config, struct engine_plan *plan_out)
{
    const struct engine_rules *const rules = search->rules;
    struct engine_plan plan = { .plan = NULL };
    int rc = plan_open(&plan.plan, rules);
    if (rc == 0)
        rc = descriptor_set(plan.plan, rules->name, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                            CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &config);
    if (rc == 0)
        rc = plan_finish(&plan, rules->name, &search->refusal);
    if (rc == -ENOEXEC)
        rc = rules->handle == NULL ? accept_unloaded(&plan, config, rules->name) : -ENOTSUP;
    if (rc == 0)
        *plan_out = plan;
    else
        engine_plan_close(&plan);
    return rc;
}

static void insert_plan(struct search *search, const struct engine_plan *plan, enum rank rank)
{
    uint32_t at = search->count;
    if (search->count == search->wanted)
        engine_plan_close(&search->found[--at]);
    else
        search->count++;
    for (; at > 0 && search->ranks[at - 1] > rank; at--) {
        search->found[at] = search->found[at - 1];
        search->ranks[at] = search->ranks[at - 1];
    }
    search->found[at] = *plan;
    search->ranks[at] = rank;
}

static bool is_no_better(const struct search *search, enum rank rank)
{
    return search->count == search->wanted && search->ranks[search->count - 1] <= rank;
}

static void note_too_large(struct search *search, size_t workspace)
{
    search->too_large++;
    if (search->least_too_large == 0 || workspace < search->least_too_large)
        search->least_too_large = workspace;
}

/* Keeps the plan or closes it. */
static void keep_plan(struct search *search, struct engine_plan *plan, enum rank rank)
{
    if (rank == RANK_READY && search->wanted == 1 && plan->workspace >= search->rules->copy_bytes)
        rank = RANK_COPYING;
    const bool is_large = plan->workspace > search->rules->workspace_max;
    if (is_large)
        note_too_large(search, plan->workspace);
    if (is_large || is_no_better(search, rank))
        engine_plan_close(plan);
    else
        insert_plan(search, plan, rank);
}

static int try_proposal(struct search *search, cudnnBackendDescriptor_t config)
{
    enum rank rank = RANK_SLOW;
    struct engine_plan plan;
    const int admissible = rate_engine(search, config, &rank);
    if (admissible <= 0 || is_no_better(search, rank))
        return admissible < 0 ? admissible : 0;
    const int rc = plan_of(search, config, &plan);
    if (rc == -ENOTSUP) {
        search->unsupported++;
        return 0;
    }
    if (rc == 0)
        keep_plan(search, &plan, rank);
    return rc;
}

static int try_proposals(struct search *search, cudnnBackendDescriptor_t heuristics, cudnnBackendDescriptor_t *configs,
                         int64_t capacity)
{
    int64_t count = 0;
    int rc = 0;
    for (int64_t i = 0; i < capacity && rc == 0; i++)
        rc = descriptor_open(&configs[i], search->rules->name, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    if (rc == 0)
        rc = descriptor_get(heuristics, search->rules->name, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                            CUDNN_TYPE_BACKEND_DESCRIPTOR, capacity, &count, configs);
    assert(count <= capacity);
    for (int64_t i = 0; i < count && rc == 0; i++)
        rc = try_proposal(search, configs[i]);
    return rc;
}

static int read_proposals(struct search *search, cudnnBackendDescriptor_t heuristics)
{
    int64_t capacity = 0;
    int rc = descriptor_get(heuristics, search->rules->name, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                            CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &capacity, NULL);
    if (rc < 0 || capacity == 0)
        return rc;
    cudnnBackendDescriptor_t *const configs = calloc((size_t)capacity, sizeof(*configs));
    if (configs == NULL)
        return -ENOMEM;
    rc = try_proposals(search, heuristics, configs, capacity);
    for (int64_t i = 0; i < capacity; i++)
        descriptor_close(configs[i]);
    free(configs);
    return rc;
}

static int query_heuristics(struct search *search, cudnnBackendHeurMode_t mode)
{
    const struct engine_rules *const rules = search->rules;
    const cudnnBackendDescriptor_t graph = graph_whole(search->graph);
    cudnnBackendDescriptor_t heuristics;
    int rc = descriptor_open(&heuristics, rules->name, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    if (rc < 0)
        return rc;
    rc = descriptor_set(heuristics, rules->name, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
                        CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph);
    if (rc == 0)
        rc = descriptor_set(heuristics, rules->name, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    if (rc == 0 && rules->handle == NULL)
        rc = descriptor_set(heuristics, rules->name, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP,
                            CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &rules->properties);
    if (rc == 0)
        rc = descriptor_finalize(heuristics, rules->name, &search->refusal);
    if (rc == 0)
        rc = read_proposals(search, heuristics);
    descriptor_close(heuristics);
    return rc == -ENOTSUP ? 0 : rc;
}

static void explain_failure(const struct search *search, struct cudnn_refusal *refusal)
{
    snprintf(refusal->text, sizeof(refusal->text),
             "of %u proposals %u may vary, %u round, %u ask for more than %zu bytes, %u are refused%s%.100s",
             search->proposed, search->nondeterministic, search->inexact, search->too_large,
             search->rules->workspace_max, search->unsupported, *search->refusal.text ? ": " : "",
             search->refusal.text);
}

static bool has_enough(const struct search *search)
{
    if (search->wanted > 1)
        return search->count > 0 && search->ranks[0] < RANK_COMPILED;
    return search->count == search->wanted && search->ranks[search->count - 1] == RANK_READY;
}

/* Tries the proposed engines of these ranks. */
static int try_ranks(struct search *search, enum rank least, enum rank most)
{
    search->least = least;
    search->most = most;
    const int rc = query_heuristics(search, CUDNN_HEUR_MODE_A);
    return rc == 0 && !has_enough(search) ? query_heuristics(search, CUDNN_HEUR_MODE_FALLBACK) : rc;
}

/* The heuristics propose engines first that are compiled at run time, in seconds, for depthwise convolutions for example.
 * Where one plan is wanted, nothing is compiled before the others were tried. */
static int try_all(struct search *search)
{
    if (search->wanted > 1)
        return try_ranks(search, RANK_READY, RANK_SLOW);
    int rc = try_ranks(search, RANK_READY, RANK_COPYING);
    if (rc == 0 && search->count == 0)
        rc = try_ranks(search, RANK_COMPILED, RANK_COMPILED);
    if (rc == 0 && search->count == 0)
        rc = try_ranks(search, RANK_SLOW, RANK_SLOW);
    return rc;
}

int engine_find(const struct cudnn_graph *graph, const struct engine_rules *rules, uint32_t wanted,
                struct engine_plan *found, uint32_t *found_out, struct cudnn_refusal *refusal)
{
    assert(wanted >= 1 && wanted <= ENGINE_PLANS_MAX);
    struct search search = { .graph = graph, .rules = rules, .wanted = wanted, .found = found };
    int rc = try_all(&search);
    if (rc == 0 && search.count == 0) {
        explain_failure(&search, refusal);
        rc = -ENOTSUP;
    }
    if (rc == 0 && search.ranks[0] == RANK_SLOW)
        found[0].others_workspace = search.least_too_large;
    if (rc == 0)
        *found_out = search.count;
    else
        while (search.count > 0)
            engine_plan_close(&found[--search.count]);
    return rc;
}

void engine_plan_close(struct engine_plan *plan)
{
    descriptor_close(plan->plan);
    plan->plan = NULL;
}

int engine_plan_save(const struct engine_plan *plan, const char *name, char **text_out, size_t *bytes_out)
{
    int64_t length = 0;
    struct cudnn_refusal refusal;
    if (plan->is_unloaded)
        return -ENOTSUP;
    int rc = cudnn_try(cudnnBackendGetAttribute(plan->plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                                                CUDNN_TYPE_CHAR, 0, &length, NULL),
                       name, "cudnnBackendGetAttribute", &refusal);
    if (rc < 0)
        return rc;
    char *const text = malloc((size_t)length + 1);
    if (text == NULL)
        return -ENOMEM;
    rc = descriptor_get(plan->plan, name, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, length,
                        &length, text);
    if (rc < 0) {
        free(text);
        return rc;
    }
    *text_out = text;
    *bytes_out = (size_t)length;
    return 0;
}

int engine_plan_load(struct engine_plan *plan_out, const struct engine_rules *rules, const char *text, size_t bytes)
{
    struct engine_plan plan = { .plan = NULL };
    struct cudnn_refusal refusal;
    int rc = plan_open(&plan.plan, rules);
    if (rc == 0)
        rc = cudnn_try(cudnnBackendSetAttribute(plan.plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                                                CUDNN_TYPE_CHAR, (int64_t)bytes, text),
                       rules->name, "cudnnBackendSetAttribute", &refusal);
    if (rc == 0)
        rc = plan_finish(&plan, rules->name, &refusal);
    if (rc == 0)
        *plan_out = plan;
    else
        engine_plan_close(&plan);
    return rc == -ENOEXEC ? -ENOTSUP : rc;
}

/* ---- measuring plans ---- */

struct measuring {
    const struct engine_plan *plans;
    const struct engine_rules *rules;
    cudnnBackendDescriptor_t pack;
    struct cudnn_refusal *refusal;
};

static int run_plan(void *arg, uint32_t i)
{
    const struct measuring *const measuring = arg;
    const struct engine_rules *const rules = measuring->rules;
    return cudnn_try(HEARTBEAT_CALL("cudnnBackendExecute", cudnnBackendExecute(rules->handle, measuring->plans[i].plan,
                                                                               measuring->pack)),
                     rules->name, "cudnnBackendExecute", measuring->refusal);
}

int engine_fastest(const struct engine_plan *plans, uint32_t count, const struct engine_rules *rules,
                   cudnnBackendDescriptor_t pack, cudaStream_t stream, uint32_t *best_out,
                   struct cudnn_refusal *refusal)
{
    struct measuring measuring = { .plans = plans, .rules = rules, .pack = pack, .refusal = refusal };
    return plan_fastest(rules->name, stream, count, run_plan, &measuring, best_out);
}
