/* Engines of the simulated cuDNN: their notes, the heuristics that propose them, and plans, which combine an engine
 * with a graph. */
#include <string.h>

#include "tests/sim/sim.h"
#include "tests/sim/sim_cudnn.h"
#include "tests/sim/sim_cudnn_graph.h"

#define HUGE_WORKSPACE ((int64_t)1 << 30)
#define COUNT_EXCESS 3                  /* the announced count of proposals exceeds the real one by this */
#define BIT(note) (1u << CUDNN_NUMERICAL_NOTE_##note)

struct engine {
    int64_t index;
    unsigned notes, float_notes;        /* for all graphs; in addition for FLOAT graphs */
    bool compiled, may_be_taken;
};

/* In the order in which the heuristics propose them. */
static const struct engine engines[] = {
    { .index = SIM_ENGINE_VARYING, .notes = BIT(NONDETERMINISTIC) },
    { .index = SIM_ENGINE_LARGE },
    { .index = SIM_ENGINE_COARSE, .notes = BIT(REDUCED_PRECISION_REDUCTION) },
    { .index = SIM_ENGINE_UNPLANNED },
    { .index = SIM_ENGINE_COMPILED, .compiled = true, .may_be_taken = true },
    { .index = SIM_ENGINE_TENSOR, .notes = BIT(TENSOR_CORE), .float_notes = BIT(DOWN_CONVERT_INPUTS),
      .may_be_taken = true },
    { .index = SIM_ENGINE_TILED, .may_be_taken = true },
    { .index = SIM_ENGINE_REVERSED, .may_be_taken = true },
    { .index = SIM_ENGINE_PLAIN, .notes = BIT(STRICT_NAN_PROP), .may_be_taken = true },
};
#define ENGINES (sizeof(engines) / sizeof(*engines))

static const struct engine *find(int64_t index)
{
    for (size_t i = 0; i < ENGINES; i++)
        if (engines[i].index == index)
            return &engines[i];
    return NULL;
}

bool sim_engine_exists(int64_t index)
{
    return find(index) != NULL;
}

void sim_engine_describe(struct sim_engine *engine)
{
    const struct engine *const row = find(engine->index);
    const bool is_float = sim_operations_result(&engine->graph)->type == CUDNN_DATA_FLOAT;
    const unsigned notes = row->notes | (is_float ? row->float_notes : 0);
    engine->note_count = 0;
    for (unsigned note = 0; note < CUDNN_NUMERICAL_NOTE_TYPE_COUNT; note++)
        if (notes >> note & 1)
            engine->notes[engine->note_count++] = (cudnnBackendNumericalNote_t)note;
    engine->behavior_count = row->compiled;
    engine->behavior[0] = CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION;
}

static const struct sim_operation *convolution_of(const struct sim_operations *graph)
{
    return &graph->operations[graph->convolution];
}

/* All tensors in memory have the same type, except that those of one number per channel may be FLOAT after the
 * convolution. Before it, tensors between operations have that type, too. */
static bool has_one_type(const struct sim_operations *graph)
{
    const struct sim_operation *const convolution = convolution_of(graph);
    const cudnnDataType_t type = graph->operations[0].x.is_virtual ? sim_operations_result(graph)->type
                                                                   : graph->operations[0].x.type;
    for (int64_t i = 0; i < graph->count; i++) {
        const struct sim_tensor *const second = &graph->operations[i].b;
        if (i < graph->convolution && (graph->operations[i].y.type != type ||
                                       (graph->operations[i].has_b && second->type != type)))
            return false;
        if (graph->operations[i].has_b && !second->is_virtual && second->type != type &&
            (second->type != CUDNN_DATA_FLOAT || second->dims[0] * second->dims[2] * second->dims[3] != 1))
            return false;
    }
    if (graph->has_norm && sim_norm_of(graph)->x.type != type)
        return false;
    return sim_operations_result(graph)->type == type && (convolution->w.is_virtual || convolution->w.type == type) &&
           (convolution->y.is_virtual || convolution->y.type == type);
}

/* What the real library only fuses by compiling a kernel: operations before a convolution or after a data gradient, and
 * statistics of types other than HALF; but not sums for a normalisation. */
static bool is_compiled_fusion(const struct sim_operations *graph)
{
    if (graph->has_statistics)
        return sim_operations_result(graph)->type != CUDNN_DATA_HALF;
    if (graph->has_norm)
        return false;
    return graph->count > 1 && (graph->convolution > 0 || convolution_of(graph)->type !=
                                                              CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
}

/* Has any engine the graph? Sums for a normalisation are of HALF, compiled fusions of 16-bit types, and those of a
 * weight gradient of HALF only. */
static bool has_engines(const struct sim_operations *graph)
{
    const struct sim_operation *const convolution = convolution_of(graph);
    const cudnnDataType_t type = sim_operations_result(graph)->type;
    if (graph->has_norm && type != CUDNN_DATA_HALF)
        return false;
    if (!has_one_type(graph) || (is_compiled_fusion(graph) && type == CUDNN_DATA_FLOAT))
        return false;
    return !is_compiled_fusion(graph) || type == CUDNN_DATA_HALF ||
           convolution->type != CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR;
}

static bool is_proposed(const struct sim_heuristics *heuristics, const struct engine *engine)
{
    const unsigned refused = sim_cudnn_refused();
    if ((refused & SIM_CUDNN_ENGINES) != 0 || !has_engines(&heuristics->graph))
        return false;
    if ((refused & SIM_CUDNN_FUSION_ENGINES) != 0 && sim_is_fused(&heuristics->graph))
        return false;
    if (is_compiled_fusion(&heuristics->graph) && engine->may_be_taken && !engine->compiled)
        return false;
    if (heuristics->mode == CUDNN_HEUR_MODE_FALLBACK)
        return engine->index == SIM_ENGINE_PLAIN;
    return engine->index != SIM_ENGINE_PLAIN &&
           ((refused & SIM_CUDNN_HEURISTICS) == 0 || !engine->may_be_taken);
}

cudnnStatus_t sim_heuristics_find(struct sim_heuristics *heuristics)
{
    if (heuristics->mode != CUDNN_HEUR_MODE_A && heuristics->mode != CUDNN_HEUR_MODE_FALLBACK)
        return sim_cudnn_fail(CUDNN_STATUS_NOT_SUPPORTED, "heuristics of mode %d", (int)heuristics->mode);
    if ((sim_cudnn_refused() & SIM_CUDNN_FUSION) != 0 && sim_is_fused(&heuristics->graph))
        return sim_cudnn_fail(CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN, "a test wants no fusion");
    heuristics->result_count = 0;
    for (size_t i = 0; i < ENGINES; i++)
        if (is_proposed(heuristics, &engines[i]))
            heuristics->results[heuristics->result_count++] = engines[i].index;
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t fill_config(const struct sim_heuristics *heuristics, int64_t i, cudnnBackendDescriptor_t handle)
{
    struct sim_descriptor *const config = sim_descriptor_of(handle, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    if (config == NULL || config->final)
        return sim_cudnn_fail(CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE,
                              "result %d goes into a fresh ENGINECFG descriptor", (int)i);
    struct sim_engine *const engine = &config->body.config.engine;
    memcpy(&engine->graph, &heuristics->graph, sizeof(engine->graph));
    engine->index = heuristics->results[i];
    sim_engine_describe(engine);
    config->final = true;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t sim_heuristics_results(const struct sim_heuristics *heuristics, int64_t capacity, int64_t *count_out,
                                     cudnnBackendDescriptor_t *descriptors)
{
    const bool wanted = descriptors != NULL && capacity > 0;
    const int64_t count = !wanted ? heuristics->result_count + COUNT_EXCESS
        : capacity < heuristics->result_count ? capacity : heuristics->result_count;
    for (int64_t i = 0; wanted && i < count; i++) {
        const cudnnStatus_t status = fill_config(heuristics, i, descriptors[i]);
        if (status != CUDNN_STATUS_SUCCESS)
            return status;
    }
    if (count_out != NULL)
        *count_out = count;
    return CUDNN_STATUS_SUCCESS;
}

static int64_t workspace_of(const struct sim_engine *engine)
{
    if (engine->index == SIM_ENGINE_LARGE)
        return HUGE_WORKSPACE;
    if (engine->index == SIM_ENGINE_TENSOR)
        return 131;
    if (engine->index == SIM_ENGINE_TILED)
        return (int64_t)sim_tensor_bytes(&convolution_of(&engine->graph)->w) + 107;
    return 0;
}

/* The text of a plan, which is JSON in the real library. */
struct plan_text {
    uint64_t version, hash;     /* of the library; of the engine */
    struct sim_engine engine;   /* without a handle */
};

static void write_text(struct sim_descriptor *plan)
{
    struct plan_text *const text = sim_alloc(sizeof(*text));
    memcpy(&text->engine, &plan->body.plan.config.engine, sizeof(text->engine));
    text->engine.graph.handle = NULL;
    text->version = CUDNN_VERSION;
    text->hash = sim_hash(&text->engine, sizeof(text->engine));
    plan->text = (char *)text;
    plan->text_bytes = sizeof(*text);
}

static cudnnStatus_t read_text(struct sim_descriptor *plan)
{
    struct plan_text text;
    if (plan->text_bytes != sizeof(text))
        return sim_cudnn_fail(CUDNN_STATUS_BAD_PARAM, "not the text of a plan");
    memcpy(&text, plan->text, sizeof(text));
    if (text.version != CUDNN_VERSION)
        return sim_cudnn_fail(CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH, "a plan of another version");
    if (text.hash != sim_hash(&text.engine, sizeof(text.engine)))
        return sim_cudnn_fail(CUDNN_STATUS_BAD_PARAM, "the text of the plan is damaged");
    memcpy(&plan->body.plan.config.engine, &text.engine, sizeof(text.engine));
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t sim_plan_finish(struct sim_descriptor *descriptor)
{
    struct sim_plan *const plan = &descriptor->body.plan;
    const struct sim_engine *const engine = &plan->config.engine;
    const bool has_config = sim_descriptor_has(descriptor, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
    if (has_config == (descriptor->text != NULL))
        return sim_cudnn_fail(CUDNN_STATUS_BAD_PARAM, "a plan of neither a configuration nor a text, or of both");
    sim_handle_device(plan->handle);
    if (!has_config) {
        const cudnnStatus_t status = read_text(descriptor);
        if (status != CUDNN_STATUS_SUCCESS)
            return status;
    }
    if (engine->index == SIM_ENGINE_UNPLANNED)
        return sim_cudnn_fail(CUDNN_STATUS_NOT_SUPPORTED, "engine %lld does not take the graph",
                              (long long)engine->index);
    plan->workspace = workspace_of(engine);
    if (has_config && find(engine->index)->compiled)
        sim_count("compilation");
    if (has_config)
        write_text(descriptor);
    return CUDNN_STATUS_SUCCESS;
}
