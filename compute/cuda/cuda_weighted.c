/* Convolutions (cuDNN) and dense layers (cuBLASLt). Backward begins with one pass of our own over the gradient of the
 * result: the ReLU's mask and the bias gradient. With 16-bit types data gradients also add the gradients of other
 * branches and apply the mask of the ReLU before them (backend_spec.fuses), by plans that cuDNN compiles. cuDNN writes
 * a weight gradient in the value type: 16-bit ones are widened from a buffer into the arena. In evaluation the batch
 * normalisation after a convolution is folded into a copy of weights and bias, which is made in every pass because they
 * may have changed; our own kernel computes an addition after the normalisation and its ReLU. */
#include "compute/cuda/cuda_plan.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "compute/cuda/cudnn_graph.h"
#include "stage/cuda/cuda_call.h"
#include "stage/cuda/device_cuda.h"
#include "stage/log.h"
#include "stage/thread.h"

struct weighted {
    struct conv_plan *convs[PRODUCT_PASS_COUNT];        /* convolution; NULL: not needed */
    struct dense_plan *products[PRODUCT_PASS_COUNT];    /* dense; NULL: not needed */
    uint32_t partials;          /* buffer; BUFFER_NONE: no bias, or the product computes its gradient */
    uint32_t weight_gradient;   /* buffer; BUFFER_NONE: the arena's range itself */
    bool on_side;            /* the weight gradient runs beside the data gradient (cuda_side.c) */
    uint32_t weight, bias;      /* buffers of the folded weights and bias; BUFFER_NONE: the layer's own are used */
    uint32_t sums;              /* buffer; BUFFER_NONE: the convolution computes no statistics */
    uint32_t norm_sums;         /* buffer; BUFFER_NONE: the data gradient computes no sums for a normalisation */
};

static const char *const pass_names[PRODUCT_PASS_COUNT] = {
    [FPROP] = "forward", [DGRAD] = "data gradient", [WGRAD] = "weight gradient",
};

static bool is_conv(const struct plan *plan, uint32_t index)
{
    return plan_layer(plan, index)->kind == LAYER_CONV2D;
}

static bool has_bias(const struct plan *plan, uint32_t index)
{
    return layer_has(plan_layer(plan, index), PARAMETER_BIAS);
}

static bool pass_is_needed(const struct plan *plan, uint32_t index, enum product_pass pass)
{
    return pass == FPROP || (pass == WGRAD && value_memory_needs_grad(&plan->base.values, index)) ||
           (pass == DGRAD && plan_has_inputs(&plan->base, index));
}

/* Does our own kernel sum the bias gradient? The product of a dense layer does it, unless the ReLU's mask must be
 * applied first. */
static bool sums_bias(const struct plan *plan, uint32_t index)
{
    return has_bias(plan, index) && (is_conv(plan, index) || plan_has_relu(plan, index));
}

/* Does a data gradient add others and apply a mask? In fp32 cuDNN has no engine for it, nor with groups. Not with
 * uneven padding (pads_evenly). */
static bool fuses(const struct plan *plan, uint32_t index)
{
    const struct backend *const backend = plan->base.backend;
    return backend->spec.fuses && backend->type != VALUE_FP32 && is_conv(plan, index) &&
           plan_layer(plan, index)->groups == 1 && pads_evenly(plan_layer(plan, index));
}

/* Should the convolution compute statistics of its result? */
static bool wants_sums(const struct plan *plan, uint32_t index)
{
    const struct plan_base *const base = &plan->base;
    for (uint32_t i = index + 1; i < base->net->layer_count; i++)
        if (fusion_is_head(&base->fusion, i) && plan_layer(plan, i)->kind == LAYER_BATCH_NORM &&
            plan_input(base, i, 0) == plan_output(base, index) && cuda_norm_source(plan, i) == index)
            return true;
    return false;
}

/* Should the data gradient be masked and summed for the normalisation inside of the convolution? cuDNN needs a
 * gamma. */
static bool wants_norm_sums(const struct plan *plan, uint32_t index)
{
    const uint32_t norm = is_conv(plan, index) ? cuda_norm_inside(plan, index) : NET_INPUT;
    return norm != NET_INPUT && pass_is_needed(plan, index, DGRAD) &&
           layer_has(plan_layer(plan, norm), PARAMETER_GAMMA);
}

static void weighted_use(const struct plan *plan, uint32_t index, struct value_use *use_out)
{
    use_out->in_until = PASS_PARAMETERS;
    use_out->out_until = plan_has_relu(plan, index) ? PASS_PARAMETERS : PASS_FORWARD;
    use_out->out_sign = true;
    use_out->adds_apart = fuses(plan, index);
}

/* ---- convolutions of the backend ---- */

/* What a forward pass computes besides its result, and a data gradient of its flow. */
static enum conv_after after_of(const struct plan *plan, uint32_t index, enum product_pass pass)
{
    const struct flow *const flow = plan_flow(&plan->base, index, 0);
    const bool adds = flow->addend != BUFFER_NONE;
    if (pass == FPROP)
        return wants_sums(plan, index) ? CONV_AFTER_STATISTICS : CONV_AFTER_NOTHING;
    if (pass == WGRAD)
        return CONV_AFTER_NOTHING;
    if (wants_norm_sums(plan, index))
        return CONV_AFTER_NORM;
    return flow->masks ? (adds ? CONV_AFTER_ADD_DRELU : CONV_AFTER_DRELU) : adds ? CONV_AFTER_ADD : CONV_AFTER_NOTHING;
}

static struct conv_shape conv_shape_of(const struct plan *plan, uint32_t index, enum product_pass pass)
{
    const struct layer *const layer = plan_layer(plan, index);
    return (struct conv_shape){
        .pass = pass,
        .precision = plan->base.backend->spec.precision,
        .bias = pass == FPROP && (has_bias(plan, index) || plan_has_norm(plan, index)),
        .relu = pass == FPROP && plan_has_relu(plan, index) && !plan_has_sum(plan, index),
        .before = pass != DGRAD && cuda_norm_inside(plan, index) != NET_INPUT ? CONV_BEFORE_SCALE_RELU
                                                                              : CONV_BEFORE_NOTHING,
        .after = after_of(plan, index, pass),
        .count = plan->base.count,
        .in_channels = channels_stored(layer->in.channels),
        .in_h = layer->in.height, .in_w = layer->in.width,
        .out_channels = channels_stored(layer->out.channels),
        .out_h = layer->out.height, .out_w = layer->out.width,
        .kernel_h = layer->kernel_h, .kernel_w = layer->kernel_w,
        .stride_h = layer->stride_h, .stride_w = layer->stride_w,
        .pad_top = layer->pad_top, .pad_bottom = layer->pad_bottom,
        .pad_left = layer->pad_left, .pad_right = layer->pad_right,
        .groups = groups_stored(layer),
    };
}

static struct conv_plan *find_conv(const struct backend *backend, const struct conv_shape *shape)
{
    for (uint32_t i = 0; i < backend->conv_count; i++)
        if (conv_shape_equals(&backend->convs[i].shape, shape))
            return backend->convs[i].plan;
    return NULL;
}

static int make_room(struct backend *backend)
{
    if (backend->conv_count < backend->conv_room)
        return 0;
    const uint32_t room = backend->conv_room * 2 + 16;
    struct conv_entry *const convs = realloc(backend->convs, room * sizeof(*convs));
    if (convs == NULL)
        return -ENOMEM;
    backend->convs = convs;
    backend->conv_room = room;
    return 0;
}

static int add_conv(struct plan *plan, const struct conv_shape *shape, struct conv_plan **conv_out)
{
    struct backend *const backend = plan->base.backend;
    int rc = make_room(backend);
    if (rc == 0)
        rc = cuda_measuring_begin(plan, conv_shape_bytes(shape));
    if (rc == 0)
        rc = conv_plan_open(conv_out, &plan->planner, shape, shape->before != CONV_BEFORE_NOTHING);
    if (rc == 0)
        backend->convs[backend->conv_count++] = (struct conv_entry){ *shape, *conv_out };
    return rc;
}

/* Opens a plan of the layer's own, because a plan caches the layer's pointers. It shares the engine of the backend's
 * convolution of this shape, which is planned first if there is none yet. */
static int open_conv(struct plan *plan, const struct conv_shape *shape, struct conv_plan **conv_out)
{
    struct conv_plan *conv = find_conv(plan->base.backend, shape);
    int rc = conv == NULL ? add_conv(plan, shape, &conv) : 0;
    return rc == 0 ? conv_plan_share(conv_out, conv) : rc;
}

void cuda_convs_close(struct backend *backend)
{
    for (uint32_t i = 0; i < backend->conv_count; i++)
        conv_plan_close(backend->convs[i].plan);
    free(backend->convs);
    for (uint32_t i = 0; i < backend->compiler_count; i++)
        CUDNN_CALL(backend->name, cudnnDestroy(backend->compilers[i]));
    free(backend->compilers);
}

/* ---- convolutions that cuDNN compiles: their plans take seconds, so threads make them side by side ---- */

#define COMPILERS_MAX 16u

/* Shared by the threads: convolutions, of which each thread takes the next one. */
struct compilation {
    const struct plan *plan;
    struct conv_entry *entries;         /* [count]; the plans are results, NULL: none */
    uint32_t count;
    atomic_uint next;
    atomic_int rc;                      /* the first failure, or 0 */
};

struct compiler { struct compilation *work; cudnnHandle_t handle; struct thread *thread; };

static void compiler_loop(void *arg)
{
    const struct compiler *const compiler = arg;
    struct compilation *const work = compiler->work;
    struct conv_planner planner = work->plan->planner;
    planner.handle = compiler->handle;
    int rc = cuda_enter(work->plan->base.backend->spec.device);
    for (uint32_t i; rc == 0 && (i = atomic_fetch_add(&work->next, 1)) < work->count;)
        rc = conv_plan_open(&work->entries[i].plan, &planner, &work->entries[i].shape, false);
    int none = 0;
    if (rc != 0)
        atomic_compare_exchange_strong(&work->rc, &none, rc);
}

static bool has_entry(const struct compilation *work, const struct conv_shape *shape)
{
    for (uint32_t i = 0; i < work->count; i++)
        if (conv_shape_equals(&work->entries[i].shape, shape))
            return true;
    return find_conv(work->plan->base.backend, shape) != NULL;
}

/* Finds the shapes of the plan that have to be compiled and are not planned yet. Those that normalise their input are
 * not compiled: cuDNN has engines for them, or refuses them (plan_conv). */
static int find_compiled(struct compilation *work)
{
    const struct plan *const plan = work->plan;
    work->entries = calloc(2 * (size_t)plan_net(plan)->layer_count, sizeof(*work->entries));
    if (work->entries == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < plan_net(plan)->layer_count; i++)
        for (enum product_pass pass = FPROP; pass <= DGRAD; pass++) {
            if (!fusion_is_head(&plan->base.fusion, i) || !is_conv(plan, i) ||
                after_of(plan, i, pass) == CONV_AFTER_NOTHING)
                continue;
            const struct conv_shape shape = conv_shape_of(plan, i, pass);
            if (shape.before == CONV_BEFORE_NOTHING && !has_entry(work, &shape))
                work->entries[work->count++].shape = shape;
        }
    return 0;
}

/* Handles stay open until the backend is closed, because plans that were made with them may refer to them. */
static int open_compilers(struct backend *backend, uint32_t count)
{
    if (backend->compilers == NULL)
        backend->compilers = calloc(COMPILERS_MAX, sizeof(*backend->compilers));
    int rc = backend->compilers != NULL ? 0 : -ENOMEM;
    while (rc == 0 && backend->compiler_count < count) {
        cudnnHandle_t *const handle = &backend->compilers[backend->compiler_count];
        rc = CUDNN_CALL(backend->name, cudnnCreate(handle));
        backend->compiler_count += rc == 0;
    }
    return rc;
}

/* Threads beyond the first, which is the caller's, are optional. */
static int run_compilers(struct compilation *work, uint32_t count)
{
    struct backend *const backend = work->plan->base.backend;
    struct compiler compilers[COMPILERS_MAX];
    const int rc = open_compilers(backend, count);
    if (rc != 0)
        return rc;
    for (uint32_t i = 0; i < count; i++) {
        compilers[i] = (struct compiler){ .work = work, .handle = backend->compilers[i] };
        if (i > 0 && thread_start(&compilers[i].thread, "compile", compiler_loop, &compilers[i]) != 0)
            compilers[i].thread = NULL;
    }
    compiler_loop(&compilers[0]);
    for (uint32_t i = 1; i < count; i++)
        thread_join(compilers[i].thread);
    return atomic_load(&work->rc);
}

/* Adds the plans that were made to those of the backend. */
static int keep_compiled(struct compilation *work, int rc)
{
    struct backend *const backend = work->plan->base.backend;
    for (uint32_t i = 0; i < work->count; i++) {
        if (rc == 0)
            rc = make_room(backend);
        if (rc == 0)
            backend->convs[backend->conv_count++] = work->entries[i];
        else
            conv_plan_close(work->entries[i].plan);
    }
    return rc;
}

/* Several towers with a plan cache take turns, so that the first one compiles and the others load its plans. */
static pthread_mutex_t compiling = PTHREAD_MUTEX_INITIALIZER;

int cuda_convs_compile(struct plan *plan)
{
    struct compilation work = { .plan = plan };
    if (plan->base.backend->cudnn == NULL)
        return 0;
    int rc = find_compiled(&work);
    const bool takes_turns = plan->planner.cache != NULL;
    if (takes_turns)
        pthread_mutex_lock(&compiling);
    if (rc == 0 && work.count > 0)
        rc = keep_compiled(&work, run_compilers(&work, work.count < COMPILERS_MAX ? work.count : COMPILERS_MAX));
    if (takes_turns)
        pthread_mutex_unlock(&compiling);
    free(work.entries);
    return rc;
}

static struct dense_shape dense_shape_of(const struct plan *plan, uint32_t index, enum product_pass pass)
{
    return (struct dense_shape){
        .pass = pass,
        .precision = plan->base.backend->spec.precision,
        .bias = has_bias(plan, index) && (pass == FPROP || (pass == WGRAD && !plan_has_relu(plan, index))),
        .relu = pass == FPROP && plan_has_relu(plan, index),
        .count = plan->base.count,
        .features = (uint32_t)value_count(plan, plan_input(&plan->base, index, 0)),
        .units = value_stored(plan, plan_output(&plan->base, index)),
    };
}

static size_t scratch_bytes(const struct plan *plan, uint32_t index, enum product_pass pass)
{
    if (!is_conv(plan, index)) {
        const struct dense_shape shape = dense_shape_of(plan, index, pass);
        return dense_shape_bytes(&shape);
    }
    const struct conv_shape shape = conv_shape_of(plan, index, pass);
    return conv_shape_bytes(&shape);
}

size_t cuda_weighted_scratch(const struct plan *plan)
{
    size_t most = 0;
    for (uint32_t i = 0; i < plan_net(plan)->layer_count; i++)
        for (uint32_t pass = 0; pass < PRODUCT_PASS_COUNT; pass++) {
            const enum layer_kind kind = plan_layer(plan, i)->kind;
            if ((kind != LAYER_CONV2D && kind != LAYER_DENSE) || !fusion_is_head(&plan->base.fusion, i) ||
                !pass_is_needed(plan, i, pass))
                continue;
            const size_t bytes = scratch_bytes(plan, i, pass);
            most = bytes > most ? bytes : most;
        }
    return most;
}

/* ---- planning ---- */

static int plan_conv(struct plan *plan, uint32_t index, enum product_pass pass)
{
    struct weighted *const state = plan->base.states[index];
    const struct conv_shape shape = conv_shape_of(plan, index, pass);
    const int rc = open_conv(plan, &shape, &state->convs[pass]);
    if (rc == 0)
        cuda_plan_workspace(plan, state->on_side && pass == WGRAD, conv_plan_workspace(state->convs[pass]));
    if (rc == -ENOTSUP && shape.before != CONV_BEFORE_NOTHING) {
        plan->stored_norms[cuda_norm_inside(plan, index)] = plan->has_refused = true;
        return 0;
    }
    if (rc == -ENOTSUP)
        log_message(LOG_ERROR, "%s: layer %s cannot be computed: its %s", plan->base.backend->name,
                    plan_layer(plan, index)->name, pass_names[pass]);
    return rc;
}

static int plan_dense(struct plan *plan, uint32_t index, enum product_pass pass)
{
    struct backend *const backend = plan->base.backend;
    struct weighted *const state = plan->base.states[index];
    const struct dense_shape shape = dense_shape_of(plan, index, pass);
    int rc = cuda_measuring_begin(plan, dense_shape_bytes(&shape));
    const struct dense_planner planner = {
        .workspace_max = DENSE_WORKSPACE,
        .scratch = plan->planner.scratch, .workspace = plan->planner.workspace, .stream = backend->stream,
        .cache = backend->spec.plan_cache,
    };
    if (rc == 0)
        rc = dense_plan_open(&state->products[pass], backend->dense, &shape, &planner);
    if (rc == 0)
        cuda_plan_workspace(plan, state->on_side && pass == WGRAD, dense_plan_workspace(state->products[pass]));
    return rc;
}

/* Bytes of the weights in the value type. */
static size_t weight_bytes(const struct plan *plan, uint32_t index)
{
    const struct backend *const backend = plan->base.backend;
    const uint32_t weight = plan_layer(plan, index)->parameters[PARAMETER_WEIGHT];
    return backend->arenas->trained.ranges[weight].count * value_bytes(backend->type);
}

static int open_folded(struct plan *plan, uint32_t index, struct weighted *state)
{
    const size_t bias = value_stored(plan, plan_output(&plan->base, index)) * value_bytes(plan->base.backend->type);
    const int rc = plan_scratch(plan, index, weight_bytes(plan, index), PASS_FORWARD, PASS_FORWARD,
                                &state->weight);
    return rc == 0 ? plan_scratch(plan, index, bias, PASS_FORWARD, PASS_FORWARD, &state->bias) : rc;
}

static int open_backward(struct plan *plan, uint32_t index, struct weighted *state)
{
    const uint32_t out = plan_output(&plan->base, index);
    const size_t partials = kernel_bias_partials(value_rows(plan, out), value_stored(plan, out)) * sizeof(float);
    int rc = 0;
    if (sums_bias(plan, index))
        rc = plan_scratch(plan, index, partials, PASS_PARAMETERS, PASS_PARAMETERS, &state->partials);
    if (rc == 0 && is_conv(plan, index) && plan->base.backend->type != VALUE_FP32)
        rc = plan_scratch(plan, index, weight_bytes(plan, index), PASS_PARAMETERS, PASS_PARAMETERS,
                          &state->weight_gradient);
    return rc;
}

/* The memory of the weight gradient stays in use while it runs beside what follows. */
static void plan_side(struct plan *plan, uint32_t index, struct weighted *state)
{
    const struct value *const values = plan->base.values.values;
    const uint32_t norm = is_conv(plan, index) ? cuda_norm_inside(plan, index) : NET_INPUT;
    const uint32_t used[] = { values[plan_input(&plan->base, norm != NET_INPUT ? norm : index, 0)].buffer,
                              values[plan_output(&plan->base, index)].gradient, state->weight_gradient,
                              norm != NET_INPUT ? cuda_norm_line(plan, norm) : BUFFER_NONE };
    state->on_side = cuda_side_is_wanted(plan, index);
    if (state->on_side)
        cuda_side_plan(plan, index, used, sizeof(used) / sizeof(used[0]));
}

/* Has the plan a library for the layer? A plan that is only counted (cuda_counts.c) has none. */
static bool has_library(const struct plan *plan, uint32_t index)
{
    const struct backend *const backend = plan->base.backend;
    return is_conv(plan, index) ? backend->cudnn != NULL : backend->dense != NULL;
}

/* A plan that is only counted is taken to compute the statistics. */
static int open_sums(struct plan *plan, uint32_t index, struct weighted *state)
{
    const size_t bytes = 2 * value_stored(plan, plan_output(&plan->base, index)) * sizeof(float);
    if (!is_conv(plan, index) || !wants_sums(plan, index) ||
        (state->convs[FPROP] != NULL && !conv_plan_has_statistics(state->convs[FPROP])))
        return 0;
    return plan_scratch(plan, index, bytes, PASS_FORWARD, PASS_FORWARD, &state->sums);
}

uint32_t cuda_conv_sums(const struct plan *plan, uint32_t conv)
{
    return ((const struct weighted *)plan->base.states[conv])->sums;
}

static int open_norm_sums(struct plan *plan, uint32_t index, struct weighted *state)
{
    const size_t bytes = CONV_NORM_SUMS * value_stored(plan, plan_input(&plan->base, index, 0)) * sizeof(float);
    if (!wants_norm_sums(plan, index) ||
        (state->convs[DGRAD] != NULL && !conv_plan_has_norm_sums(state->convs[DGRAD])))
        return 0;
    const int rc = plan_scratch(plan, index, bytes, PASS_INPUTS, PASS_INPUTS, &state->norm_sums);
    if (rc == 0)
        plan_use(plan, state->norm_sums, cuda_norm_inside(plan, index), PASS_PARAMETERS, PASS_PARAMETERS);
    return rc;
}

uint32_t cuda_conv_norm_sums(const struct plan *plan, uint32_t conv)
{
    const struct weighted *const state = plan->base.states[conv];
    const bool is_lost = state->convs[DGRAD] != NULL && !conv_plan_has_norm_sums(state->convs[DGRAD]);
    return is_lost ? BUFFER_NONE : state->norm_sums;
}

/* Keeps what a normalisation inside of the convolution is computed from. */
static void keep_inside(struct plan *plan, uint32_t index)
{
    const uint32_t norm = is_conv(plan, index) ? cuda_norm_inside(plan, index) : NET_INPUT;
    if (norm == NET_INPUT)
        return;
    const uint32_t in = plan->base.values.values[plan_input(&plan->base, norm, 0)].buffer;
    plan_use(plan, in, index, PASS_FORWARD, PASS_PARAMETERS);
    plan_use(plan, cuda_norm_line(plan, norm), index, PASS_FORWARD, PASS_PARAMETERS);
}

static int weighted_plan(struct plan *plan, uint32_t index)
{
    struct weighted *const state = plan->base.states[index];
    state->partials = state->weight_gradient = state->weight = state->bias = BUFFER_NONE;
    state->sums = state->norm_sums = BUFFER_NONE;
    int rc = value_memory_needs_grad(&plan->base.values, index) ? open_backward(plan, index, state) : 0;
    if (rc == 0)
        plan_side(plan, index, state);
    if (rc == 0 && plan_has_norm(plan, index))
        rc = open_folded(plan, index, state);
    keep_inside(plan, index);
    for (uint32_t pass = 0; pass < PRODUCT_PASS_COUNT && rc == 0 && has_library(plan, index); pass++)
        if (pass_is_needed(plan, index, pass))
            rc = is_conv(plan, index) ? plan_conv(plan, index, pass) : plan_dense(plan, index, pass);
    if (rc == 0)
        rc = open_sums(plan, index, state);
    return rc == 0 ? open_norm_sums(plan, index, state) : rc;
}

static void weighted_release(struct plan *plan, uint32_t index)
{
    struct weighted *const state = plan->base.states[index];
    for (uint32_t pass = 0; pass < PRODUCT_PASS_COUNT; pass++) {
        conv_plan_close(state->convs[pass]);
        dense_plan_close(state->products[pass]);
    }
}

void cuda_weighted_describe(const struct plan *plan, uint32_t index, char *text, size_t text_size)
{
    const struct weighted *const state = plan->base.states[index];
    size_t at = 0;
    for (uint32_t pass = 0; pass < PRODUCT_PASS_COUNT && at < text_size; pass++) {
        char how[128];
        if (!pass_is_needed(plan, index, pass))
            continue;
        if (is_conv(plan, index))
            conv_plan_describe(state->convs[pass], how, sizeof(how));
        else
            dense_plan_describe(state->products[pass], how, sizeof(how));
        at += (size_t)snprintf(text + at, text_size - at, "%s%s %s", at > 0 ? "; " : "", pass_names[pass], how);
    }
}

/* ---- running ---- */

/* The weights of a layer in the value type. The pointer is not const because cuDNN has no const pointers; weights are
 * only read. */
static void *weight_of(const struct plan *plan, uint32_t index)
{
    return (void *)(uintptr_t)parameter_value(plan, index, PARAMETER_WEIGHT);
}

/* The operands of the input: that of the group, or that of a normalisation inside with its scale and shift. */
static struct conv_operands input_of(const struct plan *plan, uint32_t index)
{
    const uint32_t norm = cuda_norm_inside(plan, index);
    if (norm == NET_INPUT)
        return (struct conv_operands){ .in = in_value(plan, index, 0) };
    const char *const line = plan_data(plan, cuda_norm_line(plan, norm));
    const size_t bytes = value_stored(plan, plan_output(&plan->base, norm)) * value_bytes(plan->base.backend->type);
    return (struct conv_operands){ .in = in_value(plan, norm, 0), .scale = line, .shift = line + bytes };
}

static int run_conv(struct plan *plan, uint32_t index, enum product_pass pass, struct conv_operands operands)
{
    const struct backend *const backend = plan->base.backend;
    const struct weighted *const state = plan->base.states[index];
    operands.workspace = backend->workspace;
    return conv_plan_run(state->convs[pass], backend->cudnn, &operands);
}

static int run_dense(struct plan *plan, uint32_t index, enum product_pass pass, struct dense_operands operands)
{
    const struct backend *const backend = plan->base.backend;
    const struct weighted *const state = plan->base.states[index];
    operands.workspace = backend->workspace;
    return dense_plan_run(state->products[pass], backend->stream, &operands);
}

static int add_input(struct plan *plan, uint32_t index)
{
    void *const out = out_value(plan, index);
    const size_t count = value_counts(plan, plan_output(&plan->base, index));
    return LAYER_KERNEL(plan, kernel_add, count, out, in_value(plan, index, 1), plan_has_relu(plan, index), out);
}

static int forward_folded(struct plan *plan, uint32_t index)
{
    const struct weighted *const state = plan->base.states[index];
    const uint32_t norm = plan_group(&plan->base, index)->tail[0];
    const uint32_t filters = value_stored(plan, plan_output(&plan->base, index));
    void *const weight = plan_data(plan, state->weight), *const bias = plan_data(plan, state->bias);
    const struct folding folding = {
        .filters = filters,
        .numbers = weight_bytes(plan, index) / value_bytes(plan->base.backend->type) / filters,
        .epsilon = plan_layer(plan, norm)->epsilon,
        .weights = parameter_weights(plan, index, PARAMETER_WEIGHT),
        .bias = parameter_weights(plan, index, PARAMETER_BIAS),
        .gamma = parameter_weights(plan, norm, PARAMETER_GAMMA),
        .beta = parameter_weights(plan, norm, PARAMETER_BETA),
        .mean = parameter_statistic(plan, norm, PARAMETER_RUNNING_MEAN),
        .variance = parameter_statistic(plan, norm, PARAMETER_RUNNING_VARIANCE),
    };
    int rc = LAYER_KERNEL(plan, kernel_norm_fold, &folding, weight, bias);
    if (rc == 0)
        rc = run_conv(plan, index, FPROP, (struct conv_operands){
            .in = in_value(plan, index, 0), .weight = weight, .bias = bias, .out = out_value(plan, index) });
    return rc == 0 && plan_has_sum(plan, index) ? add_input(plan, index) : rc;
}

static int forward_conv(struct plan *plan, uint32_t index)
{
    const struct weighted *const state = plan->base.states[index];
    struct conv_operands operands = input_of(plan, index);
    operands.weight = weight_of(plan, index);
    operands.bias = parameter_value(plan, index, PARAMETER_BIAS);
    operands.out = out_value(plan, index);
    operands.sums = plan_data(plan, state->sums);
    return run_conv(plan, index, FPROP, operands);
}

static int weighted_forward(struct plan *plan, uint32_t index)
{
    if (plan_has_norm(plan, index))
        return forward_folded(plan, index);
    if (is_conv(plan, index))
        return forward_conv(plan, index);
    return run_dense(plan, index, FPROP, (struct dense_operands){
        .in = in_value(plan, index, 0), .out = out_value(plan, index), .weight = weight_of(plan, index),
        .bias = parameter_value(plan, index, PARAMETER_BIAS) });
}

/* Masks the gradient by the ReLU and sums the bias gradient, if the group has them. */
static int begin_backward(struct plan *plan, uint32_t index)
{
    const struct weighted *const state = plan->base.states[index];
    const uint32_t out = plan_output(&plan->base, index);
    void *const gradient = out_gradient(plan, index);
    const void *const values = plan_has_relu(plan, index) ? out_value(plan, index) : NULL;
    if (sums_bias(plan, index))
        return LAYER_KERNEL(plan, kernel_bias_gradient, value_rows(plan, out), value_stored(plan, out), values,
                            gradient, plan_data(plan, state->partials),
                            parameter_gradient(plan, index, PARAMETER_BIAS));
    if (values == NULL)
        return 0;
    return LAYER_KERNEL(plan, kernel_relu_backward, value_counts(plan, out), values, gradient, gradient, false);
}

static int conv_weight_gradient(struct plan *plan, uint32_t index)
{
    const struct weighted *const state = plan->base.states[index];
    const uint32_t weight = plan_layer(plan, index)->parameters[PARAMETER_WEIGHT];
    float *const gradient = parameter_gradient(plan, index, PARAMETER_WEIGHT);
    const bool is_direct = state->weight_gradient == BUFFER_NONE;
    void *const made = is_direct ? gradient : plan_data(plan, state->weight_gradient);
    struct conv_operands operands = input_of(plan, index);
    operands.weight = made;
    operands.out = out_gradient(plan, index);
    const int rc = run_conv(plan, index, WGRAD, operands);
    if (rc != 0 || is_direct)
        return rc;
    return LAYER_KERNEL(plan, kernel_widen, plan->base.backend->arenas->trained.ranges[weight].count, made, gradient);
}

static int weight_gradient(struct plan *plan, uint32_t index)
{
    if (is_conv(plan, index))
        return conv_weight_gradient(plan, index);
    float *const bias_gradient = sums_bias(plan, index) ? NULL : parameter_gradient(plan, index, PARAMETER_BIAS);
    return run_dense(plan, index, WGRAD, (struct dense_operands){
        .in = in_value(plan, index, 0), .out = out_gradient(plan, index),
        .weight_gradient = parameter_gradient(plan, index, PARAMETER_WEIGHT), .bias_gradient = bias_gradient });
}

static int weighted_backward_parameters(struct plan *plan, uint32_t index)
{
    const struct weighted *const state = plan->base.states[index];
    const int rc = begin_backward(plan, index);
    if (rc != 0)
        return rc;
    return state->on_side ? cuda_side_run(plan, index, weight_gradient) : weight_gradient(plan, index);
}

static int conv_data_gradient(struct plan *plan, uint32_t index)
{
    const struct weighted *const state = plan->base.states[index];
    struct conv_operands operands = {
        .in = in_gradient(plan, index, 0), .weight = weight_of(plan, index), .out = out_gradient(plan, index),
        .addend = plan_data(plan, plan_flow(&plan->base, index, 0)->addend), .relu_out = in_value(plan, index, 0),
    };
    if (state->norm_sums != BUFFER_NONE) {
        cuda_norm_operands(plan, cuda_norm_inside(plan, index), &operands);
        operands.sums = plan_data(plan, state->norm_sums);
    }
    return run_conv(plan, index, DGRAD, operands);
}

static int weighted_backward_inputs(struct plan *plan, uint32_t index)
{
    if (is_conv(plan, index))
        return conv_data_gradient(plan, index);
    return run_dense(plan, index, DGRAD, (struct dense_operands){
        .in = in_gradient(plan, index, 0), .out = out_gradient(plan, index), .weight = weight_of(plan, index) });
}

const struct layer_ops cuda_weighted_ops = {
    .use = weighted_use,
    .state_bytes = sizeof(struct weighted),
    .plan = weighted_plan,
    .forward = weighted_forward,
    .backward_parameters = weighted_backward_parameters,
    .backward_inputs = weighted_backward_inputs,
    .release = weighted_release,
};
