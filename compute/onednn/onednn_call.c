/* Choosing, creating and running oneDNN primitives. Only call_run is part of a step. */
#include "compute/onednn/onednn_plan.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "stage/log.h"

static const char *const direction_names[] = {
    [NN_FORWARD] = "forward", [NN_BACKWARD_DATA] = "backward data", [NN_BACKWARD_WEIGHTS] = "backward weights",
};

/* ---- kernels that compute wrongly ---- */

/* Of rank 5, weights have groups, which are computed one by one. */
static dnnl_dim_t groups_of(const struct nn_op *op)
{
    dnnl_dim_t weights[NN_RANK_MAX];
    return op->weights != NULL && nn_md_dims(op->weights, weights) == 5 ? weights[0] : 1;
}

static bool strides_with_channels_left_over(const struct nn_op *op, const dnnl_dim_t *src)
{
    return (op->strides[0] > 1 || op->strides[1] > 1) && src[1] / groups_of(op) % 16 != 0;
}

static bool has_channels_left_over(const struct nn_op *op, const dnnl_dim_t *src)
{
    (void)op;
    return src[1] % 8 != 0;
}

static bool strides_wider_than_the_image(const struct nn_op *op, const dnnl_dim_t *src)
{
    return op->strides[1] > src[3];
}

/* Values of one channel described as channels last. In memory that is the same as channels first, and oneDNN treats
 * them as equal, but the strides in the descriptor differ. */
static bool is_one_channel_last(nn_md md)
{
    struct nn_layout layout;
    return nn_md_layout(md, &layout) == 0 && layout.rank == 4 && layout.dims[1] == 1 && layout.strides[1] == 1 &&
           layout.dims[2] * layout.dims[3] > 1;
}

static bool has_one_channel_last(const struct nn_op *op, const dnnl_dim_t *src)
{
    (void)src;
    return is_one_channel_last(op->src) || is_one_channel_last(op->dst);
}

#define EVERY_DIRECTION (1u << NN_FORWARD | 1u << NN_BACKWARD_DATA | 1u << NN_BACKWARD_WEIGHTS)

/* Convolutions of these shapes and directions are computed wrongly by implementations whose names contain `name` and
 * none of `others`, in versions [major_from, major_end) of oneDNN. */
static const struct broken_kernel {
    const char *name, *others[2];
    int major_from, major_end;
    unsigned directions;
    bool (*has_shape)(const struct nn_op *op, const dnnl_dim_t *src);
} broken_kernels[] = {
    /* 2.6, AVX2 and AVX-512, fp32: writes out of bounds. */
    { "1x1", { NULL }, 0, 3, EVERY_DIRECTION, strides_with_channels_left_over },
    /* 3.7 to 3.12, AVX2 and AVX-512, fp32, channels last: out of bounds again (uxlfoundation/oneDNN, issue 6035). */
    { "1x1", { NULL }, 3, INT_MAX, 1u << NN_BACKWARD_WEIGHTS, strides_with_channels_left_over },
    /* 2.6, CPUs without AVX2, depthwise, channels last: a forward with a sum jumps to a wrong address. */
    { "jit_dw:sse41", { NULL }, 0, 3, EVERY_DIRECTION, has_channels_left_over },
    /* 2.6.3 to 3.7.2, AVX-512 and AMX, bf16: reads uninitialised memory. */
    { "", { "gemm", "ref" }, 0, INT_MAX, 1u << NN_BACKWARD_WEIGHTS, strides_wider_than_the_image },
    /* 3.7.2, AVX-512, fp32: the matrix product gets the strides of channels last. */
    { "ncsp", { NULL }, 3, INT_MAX, EVERY_DIRECTION, has_one_channel_last },
};

static bool has_name(const struct broken_kernel *broken, const char *implementation)
{
    for (size_t i = 0; i < sizeof(broken->others) / sizeof(broken->others[0]); i++)
        if (broken->others[i] != NULL && strstr(implementation, broken->others[i]) != NULL)
            return false;
    return strstr(implementation, broken->name) != NULL;
}

bool nn_op_is_broken(const struct nn_op *op, const char *implementation, int major)
{
    dnnl_dim_t src[NN_RANK_MAX];
    if (op->kind != NN_CONVOLUTION || nn_md_dims(op->src, src) != 4)
        return false;
    for (size_t i = 0; i < sizeof(broken_kernels) / sizeof(broken_kernels[0]); i++) {
        const struct broken_kernel *const broken = &broken_kernels[i];
        const bool applies = major >= broken->major_from && major < broken->major_end &&
                              (broken->directions >> op->direction & 1) != 0;
        if (applies && has_name(broken, implementation) && broken->has_shape(op, src))
            return true;
    }
    return false;
}

/* ---- choosing ---- */

/* Winograd's kernels transform the values tile by tile or, when the number of tiles has no suitable divisor, all at
 * once: then the transformed values take twice the memory of the values. */
static bool scratchpad_fits(const struct nn_op *op, const_dnnl_primitive_desc_t pd)
{
    return nn_pd_scratch_bytes(pd) <= op->winograd;
}

/* "gemm" in the name of a convolution means that the image is copied into columns first; inner products are matrix
 * products anyway. */
static enum pd_class pd_class_of(const struct nn_op *op, const_dnnl_primitive_desc_t pd)
{
    if (nn_op_is_broken(op, nn_pd_name(pd), DNNL_VERSION_MAJOR))
        return PD_NONE;
    if (nn_pd_is_ref(pd))
        return PD_REF;
    if (op->winograd != 0)
        return scratchpad_fits(op, pd) ? PD_WINOGRAD : PD_NONE;
    return op->kind == NN_CONVOLUTION && strstr(nn_pd_name(pd), "gemm") != NULL ? PD_GEMM : PD_FAST;
}

static enum pd_class pd_find_best(dnnl_engine_t engine, const struct nn_op *op, const_dnnl_primitive_desc_t forward,
                                  dnnl_primitive_desc_t *pd_out)
{
    dnnl_primitive_desc_t pds[NN_IMPLEMENTATIONS_MAX];
    const int count = nn_op_list(op, engine, forward, pds);
    enum pd_class best = PD_NONE;
    int found = -1;
    for (int i = 0; i < count; i++) {
        const enum pd_class class = pd_class_of(op, pds[i]);
        if (class < best) {
            best = class;
            found = i;
        }
    }
    for (int i = 0; i < count; i++)
        if (i != found)
            dnnl_primitive_desc_destroy(pds[i]);
    if (found >= 0)
        *pd_out = pds[found];
    return best;
}

enum pd_class pd_find(dnnl_engine_t engine, const struct nn_op *op, const_dnnl_primitive_desc_t forward,
                      dnnl_primitive_desc_t *pd_out)
{
    struct nn_op direct = *op;
    direct.winograd = 0;
    if (op->winograd != 0 && pd_find_best(engine, op, forward, pd_out) == PD_WINOGRAD)
        return PD_WINOGRAD;
    return pd_find_best(engine, &direct, forward, pd_out);
}

size_t pd_winograd_bytes(dnnl_engine_t engine, const struct nn_op *op)
{
    dnnl_primitive_desc_t pd = NULL;
    size_t bytes = SIZE_MAX;
    if (pd_find_best(engine, op, NULL, &pd) == PD_WINOGRAD)
        bytes = nn_pd_scratch_bytes(pd);
    if (pd != NULL)
        dnnl_primitive_desc_destroy(pd);
    return bytes;
}

enum pd_class pd_class_of_best(dnnl_engine_t engine, const struct nn_op *op, const_dnnl_primitive_desc_t forward)
{
    dnnl_primitive_desc_t pd = NULL;
    const enum pd_class class = pd_find(engine, op, forward, &pd);
    if (pd != NULL)
        dnnl_primitive_desc_destroy(pd);
    return class;
}

/* Operands that may have other layouts than the given ones: the weights; all of them; or all of them, with channels of
 * values last. oneDNN never chooses the last for groups of a few channels, but has kernels for it only. */
enum freedom { FREE_WEIGHTS, FREE_VALUES, NHWC_VALUES };

/* pd_find with other layouts. */
static enum pd_class pd_find_free(dnnl_engine_t engine, const struct nn_op *op, const_dnnl_primitive_desc_t forward,
                                  enum freedom freedom, dnnl_primitive_desc_t *pd_out)
{
    struct nn_op free_op = *op;
    free_op.weights = nn_md_loose(op->weights);
    if (freedom != FREE_WEIGHTS) {
        free_op.src = freedom == NHWC_VALUES ? nn_md_nhwc(op->src) : nn_md_loose(op->src);
        free_op.dst = freedom == NHWC_VALUES ? nn_md_nhwc(op->dst) : nn_md_loose(op->dst);
    }
    enum pd_class class = PD_NONE;
    if (free_op.weights != NULL && free_op.src != NULL && free_op.dst != NULL)
        class = pd_find(engine, &free_op, forward, pd_out);
    nn_md_release(free_op.weights);
    if (freedom != FREE_WEIGHTS) {
        nn_md_release(free_op.src);
        nn_md_release(free_op.dst);
    }
    return class;
}

/* With op->sums, dst holds an addend, which is only worth a reorder for groups of a few channels: oneDNN has no kernels
 * for them in blocked layouts. */
static enum freedom most_freedom(const struct nn_op *op)
{
    if (groups_of(op) > 1)
        return NHWC_VALUES;
    return op->sums ? FREE_WEIGHTS : FREE_VALUES;
}

/* Winograd's algorithm is worth reorders of weights, not of values. */
static enum pd_class pd_choose(dnnl_engine_t engine, const struct nn_op *op, const_dnnl_primitive_desc_t forward,
                               dnnl_primitive_desc_t *pd_out)
{
    enum pd_class best = pd_find(engine, op, forward, pd_out);
    for (int freedom = FREE_WEIGHTS; freedom <= (int)most_freedom(op); freedom++) {
        dnnl_primitive_desc_t pd;
        if (best <= (op->winograd != 0 && freedom == FREE_WEIGHTS ? PD_WINOGRAD : PD_FAST))
            break;
        const enum pd_class class = pd_find_free(engine, op, forward, (enum freedom)freedom, &pd);
        if (class == PD_NONE)
            continue;
        if (class >= best) {
            dnnl_primitive_desc_destroy(pd);
            continue;
        }
        if (best != PD_NONE)
            dnnl_primitive_desc_destroy(*pd_out);
        best = class;
        *pd_out = pd;
    }
    return best;
}

enum pd_class pd_class_of_call(dnnl_engine_t engine, const struct nn_op *op)
{
    dnnl_primitive_desc_t pd = NULL;
    const enum pd_class class = pd_choose(engine, op, NULL, &pd);
    if (pd != NULL)
        dnnl_primitive_desc_destroy(pd);
    return class;
}

static int primitive_refuse(const struct plan *plan, uint32_t layer, const struct nn_op *op, const char *what)
{
    const int rc = nn_jit_result(-ENOTSUP);
    if (rc == -ENOMEM)
        return rc;
    const struct layer *about = plan_layer(plan, layer);
    log_message(LOG_ERROR, "layer '%s' %s, %u samples of %ux%ux%u to %ux%ux%u: %s", about->name,
                direction_names[op->direction], plan->base.count, about->in.channels, about->in.height,
                about->in.width, about->out.channels, about->out.height, about->out.width, what);
    return rc;
}

static int primitive_find(const struct plan *plan, struct nn_call *call, uint32_t layer,
                          const struct nn_op *op, const_dnnl_primitive_desc_t forward)
{
    const struct backend *backend = plan_backend(plan);
    const enum pd_class class = pd_choose(backend->engine, op, forward, &call->pd);
    if (class == PD_NONE)
        return primitive_refuse(plan, layer, op, "oneDNN has no implementation");
    if (class == PD_REF && !backend->spec.allow_ref)
        return primitive_refuse(plan, layer, op, "oneDNN has only a \"ref\" implementation, which is very slow; "
                      "devices.allow_ref = yes accepts it");
    return 0;
}

static int run_open(struct nn_call *call, const_dnnl_primitive_desc_t pd, struct nn_run **run_out)
{
    struct nn_run *run = &call->runs[call->run_count];
    *run = (struct nn_run){ 0 };
    const int rc = nn_primitive_create(&run->primitive, pd);
    if (rc)
        return rc;
    call->run_count++;
    *run_out = run;
    return 0;
}

static void run_operand(struct nn_run *run, int arg, dnnl_memory_t memory)
{
    run->args[run->arg_count++] = (dnnl_exec_arg_t){ .arg = arg, .memory = memory };
}

/* Enlarges the plan's scratchpad to the bytes that this primitive needs. */
static int run_scratch(struct plan *plan, struct nn_run *run, const_dnnl_primitive_desc_t pd)
{
    nn_md md = nn_md_of(pd, DNNL_ARG_SCRATCHPAD);
    const size_t bytes = md != NULL ? nn_md_bytes(md) : 0;
    int rc = md != NULL ? 0 : -ENOMEM;
    if (bytes > 0) {
        dnnl_memory_t memory;
        struct lifetime *const scratch = &plan->base.values.buffers[plan->scratch];
        if (bytes > scratch->bytes)
            scratch->bytes = bytes;
        rc = plan_memory(plan, md, (struct place){ PLACE_BUFFER, plan->scratch, 0 }, &memory);
        if (rc == 0)
            run_operand(run, DNNL_ARG_SCRATCHPAD, memory);
    }
    nn_md_release(md);
    return rc;
}

static int reorder_open(struct plan *plan, struct nn_call *call, nn_md from_md, dnnl_memory_t from, nn_md to_md,
                        dnnl_memory_t to)
{
    dnnl_primitive_desc_t pd = NULL;
    struct nn_run *run;
    int rc = nn_reorder_create(&pd, from_md, to_md, plan_backend(plan)->engine);
    if (rc)
        return rc;
    rc = run_open(call, pd, &run);
    if (rc == 0) {
        run_operand(run, DNNL_ARG_FROM, from);
        run_operand(run, DNNL_ARG_TO, to);
        rc = run_scratch(plan, run, pd);
    }
    dnnl_primitive_desc_destroy(pd);
    return rc;
}

static bool is_output(int arg, enum nn_direction direction)
{
    if (direction == NN_FORWARD)
        return arg == DNNL_ARG_DST;
    if (direction == NN_BACKWARD_DATA)
        return arg == DNNL_ARG_DIFF_SRC;
    return arg == DNNL_ARG_DIFF_WEIGHTS || arg == DNNL_ARG_DIFF_BIAS;
}

/* Does the primitive read the operand? With op->sums, forward reads dst. */
static bool is_input(int arg, const struct nn_op *op)
{
    return !is_output(arg, op->direction) || (arg == DNNL_ARG_DST && op->sums);
}

/* The memory of an operand, and the memory passed to the primitive: the same one, or a copy in the layout that the
 * primitive requires. */
struct bound_operand {
    nn_md wanted;
    dnnl_memory_t own, given;
};

struct call_time { uint32_t head; enum pass pass; };

/* Finds a buffer for a reordered copy: that of the first call, enlarged, or a new one. */
static int copy_buffer(struct plan *plan, size_t bytes, uint32_t first_call, struct call_time time,
                       uint32_t *buffer_out)
{
    if (first_call != BUFFER_NONE) {
        struct lifetime *const life = &plan->base.values.buffers[first_call];
        life->bytes = bytes > life->bytes ? bytes : life->bytes;
        *buffer_out = first_call;
        return 0;
    }
    return plan_scratch(plan, time.head, bytes, time.pass, time.pass, buffer_out);
}

static int operand_bind(struct plan *plan, const struct nn_call *call, const struct operand *operand,
                        struct call_time time, struct bound_operand *bound, uint32_t *copy)
{
    const uint32_t first_call = *copy;
    *copy = BUFFER_NONE;
    bound->wanted = nn_md_of(call->pd, operand->arg);
    if (bound->wanted == NULL)
        return -ENOMEM;
    int rc = plan_memory(plan, operand->md, operand->place, &bound->own);
    bound->given = bound->own;
    if (rc || nn_md_equal(bound->wanted, operand->md))
        return rc;
    rc = copy_buffer(plan, nn_md_bytes(bound->wanted), first_call, time, copy);
    if (rc)
        return rc;
    return plan_memory(plan, bound->wanted, (struct place){ PLACE_BUFFER, *copy, 0 }, &bound->given);
}

static int runs_open(struct plan *plan, struct nn_call *call, const struct nn_op *op, const struct operand *operands,
                     const struct bound_operand *bound, uint32_t operand_count)
{
    int rc = 0;
    for (uint32_t i = 0; i < operand_count && rc == 0; i++)
        if (bound[i].given != bound[i].own && is_input(operands[i].arg, op))
            rc = reorder_open(plan, call, operands[i].md, bound[i].own, bound[i].wanted, bound[i].given);
    struct nn_run *run;
    if (rc == 0)
        rc = run_open(call, call->pd, &run);
    if (rc)
        return rc;
    for (uint32_t i = 0; i < operand_count; i++)
        run_operand(run, operands[i].arg, bound[i].given);
    rc = run_scratch(plan, run, call->pd);
    for (uint32_t i = 0; i < operand_count && rc == 0; i++)
        if (bound[i].given != bound[i].own && is_output(operands[i].arg, op->direction))
            rc = reorder_open(plan, call, bound[i].wanted, bound[i].given, operands[i].md, bound[i].own);
    return rc;
}

int call_open(struct plan *plan, struct nn_call *call, uint32_t layer, const struct nn_op *op,
              const_dnnl_primitive_desc_t forward, const struct operand *operands, uint32_t operand_count,
              enum pass pass, const struct nn_call *first_call)
{
    struct bound_operand bound[CALL_OPERANDS_MAX] = { { 0 } };
    *call = (struct nn_call){ 0 };
    for (uint32_t i = 0; i < CALL_OPERANDS_MAX; i++)
        call->copies[i] = first_call != NULL ? first_call->copies[i] : BUFFER_NONE;
    int rc = primitive_find(plan, call, layer, op, forward);
    for (uint32_t i = 0; i < operand_count && rc == 0; i++)
        rc = operand_bind(plan, call, &operands[i], (struct call_time){ layer, pass }, &bound[i],
                          &call->copies[i]);
    if (rc == 0)
        rc = runs_open(plan, call, op, operands, bound, operand_count);
    for (uint32_t i = 0; i < operand_count; i++)
        nn_md_release(bound[i].wanted);
    return rc;
}

void call_close(struct nn_call *call)
{
    for (uint32_t i = 0; i < call->run_count; i++)
        dnnl_primitive_destroy(call->runs[i].primitive);
    if (call->pd != NULL)
        dnnl_primitive_desc_destroy(call->pd);
    *call = (struct nn_call){ 0 };
}

int call_run(const struct plan *plan, const struct nn_call *call)
{
    const dnnl_stream_t stream = plan_backend(plan)->stream;
    for (uint32_t i = 0; i < call->run_count; i++) {
        const struct nn_run *run = &call->runs[i];
        const int rc = NN_CHECK(dnnl_primitive_execute(run->primitive, stream, run->arg_count, run->args));
        if (rc)
            return rc;
    }
    return 0;
}

void call_describe(const struct nn_call *call, char *text, size_t text_size)
{
    if (call->pd == NULL)
        snprintf(text, text_size, "none");
    else if (call->run_count == 1)
        snprintf(text, text_size, "%s", nn_pd_name(call->pd));
    else
        snprintf(text, text_size, "%s+%u reorder%s", nn_pd_name(call->pd), call->run_count - 1,
                 call->run_count == 2 ? "" : "s");
}
