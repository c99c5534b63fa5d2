/* The CPU backend on oneDNN: opening, parameters in, updates. Used from the
 * tower's thread, whose OpenMP team oneDNN and the loops of ours share. */
#include "compute/onednn/backend_onednn.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "compute/floats.h"
#include "compute/onednn/onednn_plan.h"
#include "compute/onednn/onednn_room.h"
#include "compute/team.h"

#define NOTED_BYTES ((size_t)32 << 20)  /* a batch's values that no cache holds */
#define SLICE_BYTES ((size_t)2 << 20)   /* of two threads, what each one's nearest large cache holds */
#define UPDATE_GRAIN 16u        /* floats: 64 bytes, a multiple of every vector */

static void onednn_close(struct backend *backend)
{
    if (backend == NULL)
        return;
    for (uint32_t i = 0; i < backend->spec.net->parameter_count && backend->stored != NULL; i++)
        nn_md_release(backend->stored[i]);
    if (backend->pool != NULL)
        backend->spec.device->ops->free(backend->spec.device, backend->pool);
    if (backend->stream != NULL)
        dnnl_stream_destroy(backend->stream);
    if (backend->engine != NULL)
        dnnl_engine_destroy(backend->engine);
    free(backend->stored);
    free(backend->blocks);
    free(backend->goes_back);
    free(backend);
    nn_room_leave();
}

static int engine_create(struct backend *backend)
{
    int rc = nn_room_hold();
    if (rc != 0)
        return rc;
    rc = NN_CHECK(dnnl_engine_create(&backend->engine, dnnl_cpu, 0));
    if (rc == 0)
        rc = NN_CHECK(dnnl_stream_create(&backend->stream, backend->engine, dnnl_stream_default_flags));
    nn_room_release();
    return rc;
}

static int backend_init(struct backend *backend)
{
    const struct net *net = backend->spec.net;
    backend->blocks = calloc((size_t)net->layer_count + 1, sizeof(*backend->blocks));
    backend->stored = calloc((size_t)net->parameter_count + 1, sizeof(*backend->stored));
    backend->goes_back = calloc((size_t)net->layer_count + 1, sizeof(*backend->goes_back));
    if (backend->blocks == NULL || backend->stored == NULL || backend->goes_back == NULL)
        return -ENOMEM;
    team_size(backend->spec.threads);
    const int rc = engine_create(backend);
    return rc != 0 ? rc : layouts_choose(backend);
}

static int onednn_supports(const struct backend_spec *spec, struct unsupported_reason *reason)
{
    if (spec->precision != PRECISION_FP32 && spec->convolution == CONVOLUTION_WINOGRAD)
        return unsupported_reason_set(reason, -EINVAL, "convolution", "Winograd's algorithm is for fp32 only");
    if (spec->precision == PRECISION_FP32 || (spec->precision == PRECISION_BF16 && nn_has_bf16()))
        return 0;
    return unsupported_reason_set(reason, -ENODEV, "precision",
                                  spec->precision != PRECISION_BF16 ? "the CPU computes in fp32 and bf16 only"
                                                           : "this CPU computes in fp32 only: bf16 needs AVX512-BF16 "
                                                             "or AMX");
}

static int onednn_open(struct backend **backend_out, const struct backend_spec *spec)
{
    int rc = backend_check(&backend_onednn_ops, spec);
    if (rc != 0)
        return rc;
    struct backend *backend = calloc(1, sizeof(*backend));
    if (backend == NULL)
        return -ENOMEM;
    backend->base.ops = &backend_onednn_ops;
    backend->spec = *spec;
    backend->type = spec->precision == PRECISION_BF16 ? VALUE_BF16 : VALUE_FP32;
    backend->noted_bytes = NOTED_BYTES;
    backend->slice_bytes = SLICE_BYTES;
    nn_room_join();
    rc = nn_room_result(backend_init(backend));
    if (rc) {
        onednn_close(backend);
        return rc;
    }
    *backend_out = backend;
    return 0;
}

static int onednn_stored_sizes(struct backend *backend, size_t *stored_counts)
{
    for (uint32_t i = 0; i < backend->spec.net->parameter_count; i++)
        stored_counts[i] = nn_md_bytes(backend->stored[i]) / sizeof(float);
    return 0;
}

static void onednn_lay_out(struct backend *backend, const struct arenas *arenas)
{
    backend->arenas = arenas;
}

static void onednn_needs(const struct backend *backend, struct backend_needs *needs_out)
{
    *needs_out = (struct backend_needs){ .values = backend->pool_needed, .room = NN_ROOM_BYTES };
}

static int onednn_bind(struct backend *backend, const struct backend_memory *memory)
{
    backend->memory = *memory;
    return 0;
}

/* The pool grows to what the largest plan needs; plans notice that it moved. Room stays for what oneDNN takes for
 * a moment in each step. */
static int onednn_allocate(struct backend *backend)
{
    struct device *const device = backend->spec.device;
    void *pool;
    if (backend->pool_needed <= backend->pool_bytes)
        return 0;
    device->ops->free(device, backend->pool);
    backend->pool = NULL;
    backend->pool_bytes = 0;
    const int rc = device->ops->alloc(device, backend->pool_needed, &pool);
    if (rc != 0)
        return rc;
    backend->pool = pool;
    backend->pool_bytes = backend->pool_needed;
    return nn_room_result(nn_room());
}

/* The parameter's plain row-major layout with the rank of its stored one: a dense layer's
 * [out, in] is read as [out, C, H, W] when its source has pixels. */
static nn_md plain_md(const struct backend *backend, uint32_t parameter)
{
    static const dnnl_format_tag_t tags[] = { [1] = dnnl_a, [2] = dnnl_ab, [4] = dnnl_abcd };
    struct nn_layout layout;
    if (nn_md_layout(backend->stored[parameter], &layout))
        return NULL;
    return nn_md_tag(layout.rank, layout.dims, tags[layout.rank], dnnl_f32);
}

static int reorder_run(const struct backend *backend, nn_md from_md, void *from, nn_md to_md, void *to)
{
    dnnl_primitive_desc_t pd = NULL;
    dnnl_primitive_t primitive = NULL;
    dnnl_exec_arg_t args[] = { { .arg = DNNL_ARG_FROM }, { .arg = DNNL_ARG_TO }, { .arg = DNNL_ARG_SCRATCHPAD } };
    nn_md scratch_md = NULL;
    void *scratch = NULL;
    int rc = nn_reorder_create(&pd, from_md, to_md, backend->engine);
    if (rc == 0)
        rc = nn_primitive_create(&primitive, pd);
    if (rc == 0 && (scratch_md = nn_md_of(pd, DNNL_ARG_SCRATCHPAD)) == NULL)
        rc = -ENOMEM;
    if (rc == 0 && nn_md_bytes(scratch_md) && posix_memalign(&scratch, 64, nn_md_bytes(scratch_md)))
        rc = -ENOMEM;
    if (rc == 0)
        rc = nn_memory_create(&args[0].memory, from_md, backend->engine, from);
    if (rc == 0)
        rc = nn_memory_create(&args[1].memory, to_md, backend->engine, to);
    if (rc == 0)
        rc = nn_memory_create(&args[2].memory, scratch_md, backend->engine, scratch);
    if (rc == 0 && (rc = nn_room_hold()) == 0) {
        rc = NN_CHECK(dnnl_primitive_execute(primitive, backend->stream, 3, args));
        nn_room_release();
    }
    for (size_t i = 0; i < sizeof(args) / sizeof(args[0]); i++)
        if (args[i].memory != NULL)
            dnnl_memory_destroy(args[i].memory);
    free(scratch);
    nn_md_release(scratch_md);
    if (primitive != NULL)
        dnnl_primitive_destroy(primitive);
    if (pd != NULL)
        dnnl_primitive_desc_destroy(pd);
    return rc;
}

static int onednn_pack(struct backend *backend, uint32_t parameter, const float *plain, float *stored)
{
    nn_md md = plain_md(backend, parameter);
    if (md == NULL)
        return -ENOMEM;
    /* oneDNN's handles are not const; the source is only read. */
    const int rc = reorder_run(backend, md, (void *)(uintptr_t)plain, backend->stored[parameter], stored);
    nn_md_release(md);
    return nn_room_result(rc);
}

static void square_parts(void *arg, uint32_t member, size_t first, size_t end)
{
    (void)member;
    squares_sum_parts(arg, first, end);
}

static int onednn_squares(struct backend *backend, const struct squares *squares, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct squares one = squares[i];
        team_run(backend->spec.threads, SQUARES_PARTS, 1, square_parts, &one);
        squares_sum(&one);
    }
    return 0;
}

struct update_work {
    const struct optimizer *optimizer;
    const struct optimizer_step *step;
    const struct optimizer_range *range;
};

static void update_part(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct update_work *work = arg;
    struct optimizer_range part = *work->range;
    (void)member;
    part.weights += first;
    part.gradients += first;
    for (uint32_t i = 0; i < OPTIMIZER_STATES_MAX; i++)
        if (part.states[i] != NULL)
            part.states[i] += first;
    part.count = end - first;
    optimizer_update(work->optimizer, work->step, &part);
}

static int onednn_update(struct backend *backend, const struct optimizer *optimizer, const struct optimizer_step *step,
                         const struct optimizer_range *ranges, uint32_t range_count)
{
    for (uint32_t i = 0; i < range_count; i++) {
        struct update_work work = { optimizer, step, &ranges[i] };
        team_run(backend->spec.threads, ranges[i].count, UPDATE_GRAIN, update_part, &work);
    }
    return 0;
}

struct scale_work {
    float *floats;
    float factor;
};

static void scale_part(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct scale_work *work = arg;
    (void)member;
    floats_scale(work->floats + first, end - first, work->factor);
}

static int onednn_scale(struct backend *backend, float *floats, size_t count, float factor)
{
    struct scale_work work = { floats, factor };
    team_run(backend->spec.threads, count, UPDATE_GRAIN, scale_part, &work);
    return 0;
}

struct mix_work { float *floats; const float *more; float share, keep; };

static void mix_part(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct mix_work *work = arg;
    (void)member;
    floats_axpby(work->floats + first, work->more + first, end - first, work->share, work->keep);
}

static int onednn_axpby(struct backend *backend, float *floats, const float *more, size_t count, float share,
                        float keep)
{
    struct mix_work work = { floats, more, share, keep };
    team_run(backend->spec.threads, count, UPDATE_GRAIN, mix_part, &work);
    return 0;
}

static void limit_part(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct scale_work *work = arg;
    (void)member;
    floats_clip(work->floats + first, end - first, work->factor);
}

static int onednn_clip_value(struct backend *backend, float *gradients, size_t count, float limit)
{
    struct scale_work work = { gradients, limit };
    team_run(backend->spec.threads, count, UPDATE_GRAIN, limit_part, &work);
    return 0;
}

struct narrow_work { const float *floats; uint16_t *halves; };

static void narrow_part(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct narrow_work *work = arg;
    (void)member;
    floats_to_bf16(work->floats + first, work->halves + first, end - first);
}

static int onednn_to_bf16(struct backend *backend, const float *floats, uint16_t *halves, size_t count)
{
    struct narrow_work work = { floats, halves };
    team_run(backend->spec.threads, count, UPDATE_GRAIN, narrow_part, &work);
    return 0;
}

struct widen_work { const uint16_t *halves; float *floats; };

static void widen_part(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct widen_work *work = arg;
    (void)member;
    floats_from_bf16(work->halves + first, work->floats + first, end - first);
}

static int onednn_from_bf16(struct backend *backend, const uint16_t *halves, float *floats, size_t count)
{
    struct widen_work work = { halves, floats };
    team_run(backend->spec.threads, count, UPDATE_GRAIN, widen_part, &work);
    return 0;
}

static void put_onednn(char *text, size_t text_size)
{
    const dnnl_version_t *const version = dnnl_version();
    snprintf(text, text_size, "%d.%d.%d", version->major, version->minor, version->patch);
}

static const struct library onednn_libraries[] = { { "oneDNN", put_onednn, "libdnnl.so" },
                                                   { NULL, NULL, NULL } };

const struct backend_ops backend_onednn_ops = {
    .name = "onednn",
    .libraries = onednn_libraries,
    .host_memory = true,
    .has_teams = true,
    .instructions = nn_instructions,
    .device = "cpu",
    .computes = true,
    .supports = onednn_supports,
    .open = onednn_open,
    .close = onednn_close,
    .stored_sizes = onednn_stored_sizes,
    .lay_out = onednn_lay_out,
    .plan = onednn_plan_open,
    .plan_close = onednn_plan_close,
    .needs = onednn_needs,
    .bind = onednn_bind,
    .allocate = onednn_allocate,
    .pack = onednn_pack,
    .unpack = onednn_unpack,
    .plain = onednn_plain,
    .plan_describe = onednn_plan_describe,
    .input = onednn_input,
    .forward = onednn_forward,
    .backward = onednn_backward,
    .result = onednn_result,
    .logits = onednn_logits,
    .squares = onednn_squares,
    .update = onednn_update,
    .clip_value = onednn_clip_value,
    .scale = onednn_scale,
    .axpby = onednn_axpby,
    .to_bf16 = onednn_to_bf16,
    .from_bf16 = onednn_from_bf16,
    .find_nonfinite = backend_find_nonfinite,
};
