/* The layout of parameters in the arenas of the CUDA backend, and copies in and out. Copies block; a training step
 * makes none.
 *
 * A weight is stored as [outputs][pixels][channels], outputs and channels padded: pixels are those of the kernel of a
 * convolution (K,R,S,C), or those of the image that a dense layer reads, whose channels are innermost. The plain form
 * is [outputs][channels][pixels]. The channels of a convolution are those of a group, and padding adds whole groups. A
 * parameter with one number per channel is one output of one pixel. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compute/cuda/cuda_plan.h"
#include "stage/cuda/cuda_call.h"
#include "stage/cuda/device_cuda.h"

struct filter {
    size_t outputs, outputs_stored, channels, stored, pixels;
};

static struct filter filter_of(const struct net *net, uint32_t index)
{
    const struct parameter *const parameter = &net->parameters[index];
    const struct layer *const layer = &net->layers[parameter->layer];
    if (parameter->kind != PARAMETER_WEIGHT)
        return (struct filter){ 1, 1, parameter->dims[0], channels_stored(parameter->dims[0]), 1 };
    const bool is_conv = layer->kind == LAYER_CONV2D;
    return (struct filter){
        .outputs = parameter->dims[0],
        .outputs_stored = channels_stored(parameter->dims[0]),
        .channels = is_conv ? parameter->dims[1] : layer->in.channels,
        .stored = channels_stored(layer->in.channels) / (is_conv ? groups_stored(layer) : 1),
        .pixels = is_conv ? (size_t)layer->kernel_h * layer->kernel_w : (size_t)layer->in.height * layer->in.width,
    };
}

static size_t filter_count(const struct filter *filter)
{
    return filter->outputs_stored * filter->pixels * filter->stored;
}

int cuda_stored_sizes(struct backend *backend, size_t *stored_counts)
{
    for (uint32_t i = 0; i < backend->spec.net->parameter_count; i++) {
        const struct filter filter = filter_of(backend->spec.net, i);
        stored_counts[i] = filter_count(&filter);
    }
    return 0;
}

static void filter_pack(const struct filter *f, const float *plain, float *stored)
{
    for (size_t output = 0; output < f->outputs; output++)
        for (size_t channel = 0; channel < f->channels; channel++)
            for (size_t pixel = 0; pixel < f->pixels; pixel++)
                stored[(output * f->pixels + pixel) * f->stored + channel] = *plain++;
}

/* Writes the plain form of floats [begin, begin + count) of the stored one; `stored` points to the first of them. */
static void filter_unpack(const struct filter *f, size_t begin, size_t count, const float *stored, float *plain)
{
    for (size_t i = 0; i < count; i++) {
        const size_t channel = (begin + i) % f->stored, pixel = (begin + i) / f->stored % f->pixels;
        const size_t output = (begin + i) / f->stored / f->pixels;
        if (channel < f->channels && output < f->outputs)
            plain[(output * f->channels + channel) * f->pixels + pixel] = stored[i];
    }
}

/* ---- copies ---- */

int cuda_store_wait(struct backend *backend)
{
    const int rc = stream_record(backend->spec.compute, backend->done);
    return rc == 0 ? backend->spec.device->ops->event_wait(backend->done) : rc;
}

static size_t chunk_of(size_t left)
{
    return left < BOUNCE_BYTES ? left : BOUNCE_BYTES;
}

/* Copies through pinned memory, because a copy from pageable memory would wait in the driver, where a cancellation
 * cannot end it. */
int cuda_store_write(struct backend *backend, void *to, const void *from, size_t bytes)
{
    const struct device_ops *const ops = backend->spec.device->ops;
    int rc = 0;
    for (size_t at = 0; at < bytes && rc == 0; at += BOUNCE_BYTES) {
        const size_t chunk = chunk_of(bytes - at);
        memcpy(backend->bounce, (const char *)from + at, chunk);
        rc = ops->copy(backend->spec.compute, (char *)to + at, backend->bounce, chunk, COPY_TO_DEVICE);
        if (rc == 0)
            rc = cuda_store_wait(backend);
    }
    return rc;
}

/* ---- parameters ---- */

/* Updates the shadow where weights have changed. */
static int shadow_update(struct backend *backend, const float *stored, size_t count)
{
    const uintptr_t begin = (uintptr_t)backend->memory.weights, at = (uintptr_t)stored;
    if (backend->shadow == NULL || at < begin || at >= begin + backend->arenas->trained.count * sizeof(*stored))
        return 0;
    const size_t offset = (size_t)(stored - backend->memory.weights);
    void *const shadow = (char *)backend->shadow + offset * value_bytes(backend->type);
    const int rc = CUDA_CALL(backend->name, kernel_narrow(backend->stream, backend->type, count, stored, shadow));
    return rc == 0 ? cuda_store_wait(backend) : rc;
}

int cuda_store_pack(struct backend *backend, uint32_t parameter, const float *plain, float *stored)
{
    const struct filter filter = filter_of(backend->spec.net, parameter);
    const size_t count = filter_count(&filter);
    float *const packed = calloc(count, sizeof(*packed));
    int rc = packed != NULL ? cuda_enter(backend->spec.device) : -ENOMEM;
    if (rc == 0) {
        filter_pack(&filter, plain, packed);
        rc = cuda_store_write(backend, stored, packed, count * sizeof(*packed));
    }
    if (rc == 0)
        rc = shadow_update(backend, stored, count);
    free(packed);
    return rc;
}

int cuda_store_plain(const struct backend *backend, uint32_t parameter, const float *stored, float *plain)
{
    const struct filter filter = filter_of(backend->spec.net, parameter);
    filter_unpack(&filter, 0, filter_count(&filter), stored, plain);
    return 0;
}

/* Through pinned memory, as cuda_store_write. */
int cuda_store_unpack(struct backend *backend, uint32_t parameter, const float *stored, float *plain)
{
    const struct device_ops *const ops = backend->spec.device->ops;
    const struct filter filter = filter_of(backend->spec.net, parameter);
    const size_t bytes = filter_count(&filter) * sizeof(*stored);
    int rc = cuda_enter(backend->spec.device);
    for (size_t at = 0; at < bytes && rc == 0; at += BOUNCE_BYTES) {
        const size_t chunk = chunk_of(bytes - at);
        rc = ops->copy(backend->spec.compute, backend->bounce, (const char *)stored + at, chunk, COPY_FROM_DEVICE);
        if (rc == 0)
            rc = cuda_store_wait(backend);
        if (rc == 0)
            filter_unpack(&filter, at / sizeof(*stored), chunk / sizeof(*stored), backend->bounce, plain);
    }
    return rc;
}
