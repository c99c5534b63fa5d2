/* The table of backends that are built in, and functions that several of them share. */
#include "compute/backend.h"

#include <errno.h>
#include <string.h>

#include "compute/floats.h"
#include "compute/mixing.h"
#include "stage/log.h"

/* In order of preference. */
static const struct backend_ops *const backends[] = {
#ifdef HAVE_CUDA
    &backend_cuda_ops,
#endif
#ifdef HAVE_ONEDNN
    &backend_onednn_ops,
#endif
    &backend_reference_ops,
    &backend_null_ops,
};

enum { BACKENDS = sizeof(backends) / sizeof(backends[0]) };

const struct backend_ops *backend_find(const char *name)
{
    for (int i = 0; i < BACKENDS; i++)
        if (strcmp(backends[i]->name, name) == 0)
            return backends[i];
    return NULL;
}

const char *instructions_name(enum instructions set)
{
    static const char *const names[] = {
        [INSTRUCTIONS_BASE] = "SSE",  [INSTRUCTIONS_SSE41] = "SSE4.1",   [INSTRUCTIONS_AVX] = "AVX",
        [INSTRUCTIONS_AVX2] = "AVX2", [INSTRUCTIONS_AVX512] = "AVX-512", [INSTRUCTIONS_BF16] = "AVX512-BF16",
        [INSTRUCTIONS_AMX] = "AMX",
    };
    return names[set];
}

uint32_t backend_fitting(const struct backend_needs *needs, uint32_t count, size_t there)
{
    const size_t fixed = needs->workspace + needs->weights;
    return there > fixed ? (uint32_t)((double)count * (double)(there - fixed) / (double)needs->values) : 0;
}

const struct backend_ops *backend_choose(const char *name, const char *device)
{
    for (int i = 0; i < BACKENDS; i++)
        if (strcmp(backends[i]->device, device) == 0 &&
            (name == NULL || !backends[i]->computes || strcmp(backends[i]->name, name) == 0))
            return backends[i];
    return NULL;
}

int backend_check(const struct backend_ops *ops, const struct backend_spec *spec)
{
    const char *const kind = spec->device->ops->kind;
    struct unsupported_reason reason = { .what = "" };
    if (strcmp(kind, ops->device) != 0)
        log_message(LOG_ERROR, "the %s backend does not support devices of kind %s", ops->name, kind);
    else if (ops->supports(spec, &reason) != 0)
        log_message(LOG_ERROR, "the %s backend: %s: %s", ops->name, reason.what, reason.why);
    else
        return 0;
    return -ENOTSUP;
}

int backend_find_nonfinite(struct backend *backend, const float *floats, size_t count, uint64_t *first_out)
{
    (void)backend;
    *first_out = floats_find_nonfinite(floats, count);
    return 0;
}

int backend_to_bf16(struct backend *backend, const float *floats, uint16_t *halves, size_t count)
{
    (void)backend;
    floats_to_bf16(floats, halves, count);
    return 0;
}

int backend_from_bf16(struct backend *backend, const uint16_t *halves, float *floats, size_t count)
{
    (void)backend;
    floats_from_bf16(halves, floats, count);
    return 0;
}

void backend_send_nothing(float *numbers, size_t count, struct mixed_label *labels, uint32_t rows)
{
    memset(numbers, 0, count * sizeof(*numbers));
    for (uint32_t i = 0; i < rows; i++)
        labels[i] = (struct mixed_label){ BATCH_NO_LABEL, BATCH_NO_LABEL, 1 };
}
