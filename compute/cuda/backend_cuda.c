/* The CUDA backend: opening, the arenas, the input step, operations over ranges. Used from the tower's thread; only
 * opening, pack, unpack, plan and segment wait for the device. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compute/cuda/cuda_plan.h"
#include "compute/cuda/cudnn_graph.h"
#include "stage/cuda/cuda_call.h"
#include "stage/cuda/device_cuda.h"
#include "stage/log.h"

/* ---- opening ---- */

static bool has_layer(const struct net *net, enum layer_kind kind)
{
    for (uint32_t i = 0; i < net->layer_count; i++)
        if (net->layers[i].kind == kind)
            return true;
    return false;
}

/* cuDNN consists of several libraries, which the loader finds one by one, so their versions may differ. */
static int check_versions(const char *name)
{
    if (cudnnGraphVersionCheck() == CUDNN_STATUS_SUCCESS && cudnnOpsVersionCheck() == CUDNN_STATUS_SUCCESS &&
        cudnnCnnVersionCheck() == CUDNN_STATUS_SUCCESS)
        return 0;
    log_message(LOG_ERROR, "%s: cuDNN's libraries are of different versions", name);
    return -EIO;
}

static int open_cudnn(struct backend *backend)
{
    int rc = check_versions(backend->name);
    if (rc == 0)
        rc = CUDNN_CALL(backend->name, cudnnCreate(&backend->cudnn));
    return rc == 0 ? CUDNN_CALL(backend->name, cudnnSetStream(backend->cudnn, backend->stream)) : rc;
}

/* Is the factor of the loss scale always 1? The loss scale then only records skipped steps. */
static bool scale_is_fixed(const struct backend *backend)
{
    return backend->spec.precision != PRECISION_FP16;
}

static int open_scale(struct backend *backend)
{
    const struct loss_scale first = { .factor = scale_is_fixed(backend) ? 1.0f : LOSS_SCALE_FIRST };
    struct device *const device = backend->spec.device;
    void *memory;
    int rc = device->ops->alloc(device, sizeof(first), &memory);
    if (rc != 0)
        return rc;
    backend->scale = memory;
    return cuda_store_write(backend, backend->scale, &first, sizeof(first));
}

static int open_class_weights(struct backend *backend)
{
    struct device *const device = backend->spec.device;
    const size_t bytes = backend->spec.net->classes * sizeof(*backend->class_weights);
    void *memory;
    const int rc = device->ops->alloc(device, bytes, &memory);
    if (rc != 0)
        return rc;
    backend->class_weights = memory;
    for (uint32_t c = 0; c < backend->spec.net->classes; c++)
        backend->class_weight_total += (double)backend->spec.class_weights[c];
    return cuda_store_write(backend, backend->class_weights, backend->spec.class_weights, bytes);
}

static int open_broken(struct backend *backend)
{
    struct device *const device = backend->spec.device;
    void *memory;
    const int rc = device->ops->alloc(device, sizeof(*backend->broken), &memory);
    if (rc == 0)
        backend->broken = memory;
    return rc;
}

static void cuda_backend_close(struct backend *backend)
{
    if (backend == NULL)
        return;
    struct device *const device = backend->spec.device;
    assert(backend->plans == NULL);
    cuda_convs_close(backend);
    cuda_side_close(backend);
    dense_library_close(backend->dense);
    if (backend->cudnn != NULL)
        CUDNN_CALL(backend->name, cudnnDestroy(backend->cudnn));
    void *const memory[] = { backend->base.pool, backend->workspace, backend->shadow, backend->scale, backend->broken,
                             backend->class_weights };
    for (size_t i = 0; i < sizeof(memory) / sizeof(memory[0]); i++)
        device->ops->free(device, memory[i]);
    device->ops->free_pinned(device, backend->bounce);
    if (backend->done != NULL)
        device->ops->event_close(backend->done);
    free(backend->ends);
    backend_base_release(&backend->base);
    free(backend);
}

static int open_parts(struct backend *backend)
{
    struct device *const device = backend->spec.device;
    const struct net *const net = backend->spec.net;
    int rc = cuda_enter(device);
    if (rc == 0)
        rc = device->ops->event_open(device, EVENT_ORDER, &backend->done);
    if (rc == 0)
        rc = device->ops->alloc_pinned(device, BOUNCE_BYTES, &backend->bounce);
    if (rc == 0)
        rc = open_broken(backend);
    if (rc == 0 && has_layer(net, LAYER_CONV2D))
        rc = open_cudnn(backend);
    if (rc == 0 && has_layer(net, LAYER_DENSE))
        rc = dense_library_open(&backend->dense, backend->name);
    if (rc == 0 && (backend->spec.skips_nonfinite || !scale_is_fixed(backend)))
        rc = open_scale(backend);
    if (rc == 0 && backend->spec.class_weights != NULL)
        rc = open_class_weights(backend);
    return rc;
}

/* The first convolution whose groups do not stay whole when channels and filters are padded, or NULL. */
static const struct layer *find_split_groups(const struct net *net)
{
    for (uint32_t i = 0; i < net->layer_count; i++)
        if (net->layers[i].kind == LAYER_CONV2D && groups_stored(&net->layers[i]) == 0)
            return &net->layers[i];
    return NULL;
}

/* Any multiple of 8 groups would fit. */
static int refuse_groups(const struct layer *layer, struct unsupported_reason *reason)
{
    const uint32_t channels = layer->in.channels / layer->groups, filters = layer->out.channels / layer->groups;
    uint32_t fitting = layer->groups;
    while (fitting * channels % 8 != 0 || fitting * filters % 8 != 0)
        fitting++;
    return unsupported_reason_set(reason, -EINVAL, "groups",
                                  "layer '%.47s': CUDA devices pad channels and filters to multiples of 8, which does "
                                  "not fit %u groups of %u channels and %u filters each (%u groups would fit, or use "
                                  "devices.kind = cpu)", layer->name, layer->groups, channels, filters, fitting);
}

static int cuda_backend_supports(const struct backend_spec *spec, struct unsupported_reason *reason)
{
    const struct layer *const split = spec->net != NULL ? find_split_groups(spec->net) : NULL;
    if (split != NULL)
        return refuse_groups(split, reason);
    if (spec->net != NULL && spec->net->share != NULL && spec->precision == PRECISION_FP16)
        return unsupported_reason_set(reason, -EINVAL, "parts",
                                      "fp16 has one loss scale for all gradients, but towers have gradients of their "
                                      "own with parts: set devices.precision = bf16");
    if (spec->layout == LAYOUT_NCHW)
        return unsupported_reason_set(reason, -EINVAL, "layout", "on CUDA devices activations are nhwc only, not nchw");
    if (spec->convolution != CONVOLUTION_AUTO)
        return unsupported_reason_set(reason, -EINVAL, "convolution",
                                      "on CUDA devices cuDNN chooses the algorithm: auto");
    if (spec->batch_statistics != BATCH_STATISTICS_EXACT && value_bytes(precision_type(spec->precision)) == 4)
        return unsupported_reason_set(reason, -EINVAL, "batch_statistics",
                                      "fused needs bf16 or fp16: set devices.precision, or use exact");
    return 0;
}

static int cuda_backend_open(struct backend **backend_out, const struct backend_spec *spec)
{
    int rc = backend_check(&backend_cuda_ops, spec);
    if (rc != 0)
        return rc;
    struct backend *const backend = calloc(1, sizeof(*backend));
    if (backend == NULL)
        return -ENOMEM;
    *backend = (struct backend){
        .base = { .ops = &backend_cuda_ops },
        .spec = *spec,
        .name = cuda_name(spec->device),
        .stream = cuda_stream_of(spec->compute),
        .type = precision_type(spec->precision),
    };
    rc = open_parts(backend);
    if (rc != 0) {
        cuda_backend_close(backend);
        return rc;
    }
    *backend_out = backend;
    return 0;
}

static void cuda_backend_lay_out(struct backend *backend, const struct arenas *arenas)
{
    backend->arenas = arenas;
}

static int cuda_backend_bind(struct backend *backend, const struct backend_memory *memory)
{
    backend->memory = *memory;
    return 0;
}

static const void *cuda_backend_carried(const struct backend *backend, size_t *bytes_out)
{
    *bytes_out = scale_is_fixed(backend) ? 0 : sizeof(*backend->scale);
    return backend->scale;
}

static int cuda_backend_carry(struct backend *backend, const void *carried)
{
    const int rc = cuda_enter(backend->spec.device);
    return rc == 0 ? cuda_store_write(backend, backend->scale, carried, sizeof(*backend->scale)) : rc;
}

/* ---- plans ---- */

static void describe_recording(const struct plan *plan, char *text, size_t text_size)
{
    char beside[64] = "";
    if (plan->side_count > 0)
        snprintf(beside, sizeof(beside), ", %u weight gradients beside data gradients", plan->side_count);
    if (plan->forward != NULL)
        snprintf(text, text_size, "steps: recorded, forward as one graph, backward as %u%s", plan->segment_count,
                 beside);
    else if (plan->base.backend->ends == NULL && cuda_plan_is_recorded(plan))
        snprintf(text, text_size, "steps: recorded as graphs when all plans are made");
    else
        snprintf(text, text_size, "steps: queued call by call");
}

static void cuda_backend_plan_describe(const struct plan *plan, void (*write)(void *arg, const char *line), void *arg)
{
    char line[768];
    for (uint32_t i = plan->base.range.first; i < plan->base.range.end; i++) {
        cuda_layer_describe(plan, i, line, sizeof(line));
        write(arg, line);
    }
    describe_recording(plan, line, sizeof(line));
    write(arg, line);
}

/* ---- a step ---- */

int cuda_input(struct plan *plan, uint32_t count, const struct backend_input *input)
{
    const struct backend *const backend = plan->base.backend;
    const struct image_shape shape = {
        .count = count, .pixels = (uint32_t)value_pixels(plan, 0), .channels = plan_net(plan)->input.channels,
        .stored = value_stored(plan, 0), .width = plan_net(plan)->input.width,
    };
    const int rc = cuda_enter(backend->spec.device);
    if (rc != 0)
        return rc;
    return CUDA_CALL(backend->name,
                     kernel_input(backend->stream, backend->type, &shape, &plan_net(plan)->transform, input->pixels,
                                  input->labels, input->mixes, input->first_position, input->epoch,
                                  plan_data(plan, plan->base.values.values[0].buffer),
                                  plan_data(plan, plan->labels), plan_data(plan, plan->step)));
}

static int cuda_backend_input(struct plan *plan, const struct backend_input *input)
{
    return cuda_input(plan, plan->base.count, input);
}

static int cuda_backend_result(struct plan *plan, struct backend_result *result_out)
{
    const struct backend_spec *const spec = &plan->base.backend->spec;
    const struct device_ops *const ops = spec->device->ops;
    const struct loss_scale *const scale = plan->base.backend->scale;
    const int rc = ops->copy(spec->compute, result_out, plan_data(plan, plan->result), sizeof(*result_out),
                             COPY_FROM_DEVICE);
    if (rc != 0 || !spec->skips_nonfinite)
        return rc;
    return ops->copy(spec->compute, &result_out->is_skipped, &scale->overflowed, sizeof(scale->overflowed),
                     COPY_FROM_DEVICE);
}

static int cuda_backend_part_result(struct plan *plan, uint32_t first, uint32_t count,
                                    struct backend_result *result_out)
{
    const int rc = cuda_part_sum(plan, first, count, NULL);
    return rc == 0 ? cuda_backend_result(plan, result_out) : rc;
}

static int cuda_backend_answers(struct plan *plan, struct answer *answers_out)
{
    const struct backend_spec *const spec = &plan->base.backend->spec;
    return spec->device->ops->copy(spec->compute, answers_out, plan_data(plan, plan->base.answers),
                                   plan->base.count * sizeof(*answers_out), COPY_FROM_DEVICE);
}

static int cuda_backend_check(struct backend *backend, const float *gradients, size_t count)
{
    if (backend->scale == NULL)
        return 0;
    const int rc = cuda_enter(backend->spec.device);
    return rc != 0 ? rc : CUDA_CALL(backend->name, kernel_check(backend->stream, count, gradients, backend->scale));
}

static int cuda_backend_restore_if_nonfinite(struct backend *backend, float *floats, const float *kept, size_t count)
{
    const int rc = cuda_enter(backend->spec.device);
    return rc != 0 ? rc : CUDA_CALL(backend->name,
                                    kernel_restore_if_nonfinite(backend->stream, count, backend->scale, kept, floats));
}

static int cuda_backend_squares(struct backend *backend, const struct squares *squares, uint32_t count)
{
    const int rc = cuda_enter(backend->spec.device);
    return rc != 0 ? rc : CUDA_CALL(backend->name, kernel_squares(backend->stream, squares, count));
}

static int cuda_backend_put_norms(struct backend *backend, const struct part_norms *norms)
{
    const int rc = cuda_enter(backend->spec.device);
    return rc != 0 ? rc : CUDA_CALL(backend->name, kernel_put_norms(backend->stream, norms, backend->scale));
}

static int cuda_backend_add_norms(struct backend *backend, const struct part_norms *norms)
{
    const int rc = cuda_enter(backend->spec.device);
    return rc != 0 ? rc : CUDA_CALL(backend->name, kernel_add_norms(backend->stream, norms, backend->scale));
}

/* The loss scale is adjusted once, after all ranges. */
static int cuda_backend_update(struct backend *backend, const struct optimizer *optimizer,
                               const struct optimizer_step *step, const struct optimizer_range *ranges,
                               uint32_t range_count)
{
    const struct optimizer_numbers kept = optimizer_numbers(optimizer, step, false);
    const struct optimizer_numbers decayed = optimizer_numbers(optimizer, step, true);
    void *shadow = NULL;
    if (backend->shadow != NULL && range_count > 0)
        shadow = (char *)backend->shadow +
                 (size_t)(ranges[0].weights - backend->memory.weights) * value_bytes(backend->type);
    int rc = cuda_enter(backend->spec.device);
    if (rc == 0)
        rc = CUDA_CALL(backend->name, kernel_update(backend->stream, optimizer->kind, &kept, &decayed, backend->scale,
                                                    ranges, range_count, backend->type, shadow));
    if (rc == 0 && backend->scale != NULL)
        rc = CUDA_CALL(backend->name, kernel_adjust_scale(backend->stream, backend->scale,
                                                          scale_is_fixed(backend)));
    return rc;
}

static int cuda_backend_scale(struct backend *backend, float *floats, size_t count, float factor)
{
    const int rc = cuda_enter(backend->spec.device);
    return rc != 0 ? rc : CUDA_CALL(backend->name, kernel_scale(backend->stream, count, factor, floats));
}

static int cuda_backend_divide(struct backend *backend, float *floats, size_t count, float factor, const float *divisor)
{
    const int rc = cuda_enter(backend->spec.device);
    return rc != 0 ? rc : CUDA_CALL(backend->name, kernel_divide(backend->stream, count, factor, divisor, floats));
}

static int cuda_backend_to_bf16(struct backend *backend, const float *floats, uint16_t *halves, size_t count)
{
    const int rc = cuda_enter(backend->spec.device);
    return rc != 0 ? rc : CUDA_CALL(backend->name, kernel_narrow(backend->stream, VALUE_BF16, count, floats, halves));
}

static int cuda_backend_from_bf16(struct backend *backend, const uint16_t *halves, float *floats, size_t count)
{
    const int rc = cuda_enter(backend->spec.device);
    return rc != 0 ? rc : CUDA_CALL(backend->name, kernel_widen(backend->stream, VALUE_BF16, count, halves, floats));
}

static int cuda_backend_axpby(struct backend *backend, float *floats, const float *more, size_t count, float share,
                              float keep)
{
    const int rc = cuda_enter(backend->spec.device);
    return rc != 0 ? rc : CUDA_CALL(backend->name,
                                    kernel_axpby(backend->stream, count, share, keep, NULL, more, floats));
}

static int cuda_backend_ema_update(struct backend *backend, float *average, const float *floats, size_t count,
                                   float share)
{
    const int rc = cuda_enter(backend->spec.device);
    return rc != 0 ? rc : CUDA_CALL(backend->name,
                                    kernel_axpby(backend->stream, count, share, 1, backend->scale, floats, average));
}

static int cuda_backend_clip_value(struct backend *backend, float *gradients, size_t count, float limit)
{
    const int rc = cuda_enter(backend->spec.device);
    return rc != 0 ? rc : CUDA_CALL(backend->name, kernel_clip_value(backend->stream, count, limit, backend->scale,
                                                                gradients));
}

static int cuda_backend_find_nonfinite(struct backend *backend, const float *floats, size_t count, uint64_t *first_out)
{
    const struct backend_spec *const spec = &backend->spec;
    int rc = cuda_enter(spec->device);
    if (rc == 0)
        rc = CUDA_CALL(backend->name, kernel_find_nonfinite(backend->stream, count, floats, backend->broken));
    return rc != 0 ? rc : spec->device->ops->copy(spec->compute, first_out, backend->broken, sizeof(*first_out),
                                                  COPY_FROM_DEVICE);
}

/* With 16-bit types: updates the shadow. */
static int cuda_backend_weights_changed(struct backend *backend, size_t offset, size_t count)
{
    if (backend->shadow == NULL)
        return 0;
    void *const shadow = (char *)backend->shadow + offset * value_bytes(backend->type);
    const int rc = cuda_enter(backend->spec.device);
    return rc != 0 ? rc : CUDA_CALL(backend->name, kernel_narrow(backend->stream, backend->type, count,
                                                                 backend->memory.weights + offset, shadow));
}

static void put_cudnn(char *text, size_t text_size)
{
    const size_t number = cudnnGetVersion();
    snprintf(text, text_size, "%zu.%zu.%zu", number / 10000, number / 100 % 100, number % 100);
}

static void put_cublaslt(char *text, size_t text_size)
{
    const struct cublaslt_api *const api = cublaslt_api_find();
    const size_t number = api != NULL ? api->cublasLtGetVersion() : 0;
    if (number > 0)
        snprintf(text, text_size, "%zu.%zu.%zu", number / 10000, number / 100 % 100, number % 100);
    else
        snprintf(text, text_size, "?");
}

static const struct library cudnn_libraries[] = {
    { "cuDNN", put_cudnn, "libcudnn.so" },
    { "cuBLASLt", put_cublaslt, "libcublasLt.so" },
    { NULL, NULL, NULL },
};

const struct backend_ops backend_cuda_ops = {
    .name = "cuda",
    .libraries = cudnn_libraries,
    .host_memory = false,
    .device = "cuda",
    .computes = true,
    .keeps_plans = true,
    .supports = cuda_backend_supports,
    .open = cuda_backend_open,
    .count_step = cuda_count_step,
    .close = cuda_backend_close,
    .stored_sizes = cuda_stored_sizes,
    .lay_out = cuda_backend_lay_out,
    .plan = cuda_plan_open,
    .plan_close = cuda_plan_close,
    .needs = cuda_memory_needs,
    .bind = cuda_backend_bind,
    .allocate = cuda_memory_allocate,
    .pack = cuda_store_pack,
    .unpack = cuda_store_unpack,
    .plain = cuda_store_plain,
    .carried = cuda_backend_carried,
    .carry = cuda_backend_carry,
    .plan_describe = cuda_backend_plan_describe,
    .input = cuda_backend_input,
    .forward = cuda_plan_forward,
    .backward = cuda_plan_backward,
    .result = cuda_backend_result,
    .answers = cuda_backend_answers,
    .values = cuda_values,
    .part_result = cuda_backend_part_result,
    .part_answers = cuda_part_answers,
    .part_weigh = cuda_part_weigh,
    .send_nothing = cuda_send_nothing,
    .segment = cuda_plan_segment,
    .check = cuda_backend_check,
    .restore_if_nonfinite = cuda_backend_restore_if_nonfinite,
    .squares = cuda_backend_squares,
    .put_norms = cuda_backend_put_norms,
    .add_norms = cuda_backend_add_norms,
    .update = cuda_backend_update,
    .clip_value = cuda_backend_clip_value,
    .scale = cuda_backend_scale,
    .divide = cuda_backend_divide,
    .to_bf16 = cuda_backend_to_bf16,
    .from_bf16 = cuda_backend_from_bf16,
    .axpby = cuda_backend_axpby,
    .ema_update = cuda_backend_ema_update,
    .find_nonfinite = cuda_backend_find_nonfinite,
    .weights_changed = cuda_backend_weights_changed,
};
