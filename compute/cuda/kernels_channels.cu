/* Kernels that rearrange channels or images, or combine neighbouring channels: pad_channels, zero padding of images,
 * concat, local response normalisation. Queued by the CUDA backend from the tower's thread. A thread owns eight
 * channels of a pixel; every sum has a fixed order. */
#define LAUNCHES_EARLY
#include "compute/cuda/kernel_types.cuh"

/* ---- pad_channels ---- */

/* Eight channels from `first` on of a pixel with channels [0, channels), zeros outside. */
template <typename T>
static __device__ inline floats<GROUP> read_shifted(const T *pixel, int64_t first, int64_t channels)
{
    if (first >= 0 && first % GROUP == 0 && first + GROUP <= channels)
        return read<GROUP>(pixel + first);
    floats<GROUP> values;
    for (uint32_t k = 0; k < GROUP; k++)
        values.value[k] = first + k >= 0 && first + k < channels ? widened(pixel[first + k]) : 0.0f;
    return values;
}

template <typename T>
static __global__ void pad_channels(size_t threads, pad_shape shape, const void *__restrict__ in,
                                    void *__restrict__ out)
{
    await_kernels_before();
    const size_t i = thread_number();
    if (i >= threads)
        return;
    const site at = site_of(i, shape.out_h, shape.out_w, shape.out_stored);
    const T *const pixel = (const T *)in + offset_of(at.sample, at.row * shape.stride, at.column * shape.stride,
                                                     shape.in_h, shape.in_w, shape.in_stored, 0);
    write((T *)out + i * GROUP, read_shifted(pixel, (int64_t)at.channel - shape.before, shape.channels));
}

template <typename T>
static __global__ void pad_channels_backward(size_t threads, pad_shape shape, const void *__restrict__ out_gradient,
                                             void *__restrict__ in_gradient, bool adds)
{
    await_kernels_before();
    const size_t i = thread_number();
    if (i >= threads)
        return;
    const site at = site_of(i, shape.in_h, shape.in_w, shape.in_stored);
    T *const to = (T *)in_gradient + i * GROUP;
    floats<GROUP> gradient = {};
    if (at.row % shape.stride == 0 && at.column % shape.stride == 0) {
        const T *const pixel =
            (const T *)out_gradient + offset_of(at.sample, at.row / shape.stride, at.column / shape.stride,
                                                shape.out_h, shape.out_w, shape.out_stored, 0);
        gradient = read_shifted(pixel, (int64_t)shape.before + at.channel, (int64_t)shape.before + shape.channels);
    }
    write(to, adds ? plus(read<GROUP>(to), gradient) : gradient);
}

static cudaError_t check_pad(const struct pad_shape *shape, const void *a, const void *b)
{
    if (shape->in_stored % GROUP != 0 || shape->out_stored % GROUP != 0 || shape->channels > shape->in_stored ||
        shape->stride == 0)
        return cudaErrorInvalidValue;
    return is_aligned({ a, b }) ? cudaSuccess : cudaErrorMisalignedAddress;
}

cudaError_t kernel_pad_channels(cudaStream_t stream, enum value_type type, const struct pad_shape *shape,
                                const void *in, void *out)
{
    static decltype(&pad_channels<float>) const kernels[VALUE_TYPE_COUNT] = FOR_TYPES(pad_channels);
    const cudaError_t status = check_pad(shape, in, out);
    if (status != cudaSuccess)
        return status;
    const size_t threads = (size_t)shape->count * shape->out_h * shape->out_w * (shape->out_stored / GROUP);
    return launch_threads(stream, threads, kernels[type], threads, *shape, in, out);
}

cudaError_t kernel_pad_channels_backward(cudaStream_t stream, enum value_type type, const struct pad_shape *shape,
                                         const void *out_gradient, void *in_gradient, bool adds)
{
    static decltype(&pad_channels_backward<float>) const kernels[VALUE_TYPE_COUNT] = FOR_TYPES(pad_channels_backward);
    const cudaError_t status = check_pad(shape, out_gradient, in_gradient);
    if (status != cudaSuccess)
        return status;
    const size_t threads = (size_t)shape->count * shape->in_h * shape->in_w * (shape->in_stored / GROUP);
    return launch_threads(stream, threads, kernels[type], threads, *shape, out_gradient, in_gradient, adds);
}

/* ---- zero padding of images ---- */

template <typename T>
static __global__ void surround(size_t threads, surround_shape shape, const void *__restrict__ in,
                                void *__restrict__ out)
{
    await_kernels_before();
    const size_t i = thread_number();
    if (i >= threads)
        return;
    const site at = site_of(i, shape.out_h, shape.out_w, shape.stored);
    const uint32_t row = at.row - shape.top, column = at.column - shape.left;   /* before the image the number wraps
                                                                                 * around and is too large */
    floats<GROUP> values = {};
    if (row < shape.in_h && column < shape.in_w)
        values = read<GROUP>((const T *)in +
                             offset_of(at.sample, row, column, shape.in_h, shape.in_w, shape.stored, at.channel));
    write((T *)out + i * GROUP, values);
}

cudaError_t kernel_surround(cudaStream_t stream, enum value_type type, const struct surround_shape *shape,
                            const void *in, void *out)
{
    static decltype(&surround<float>) const kernels[VALUE_TYPE_COUNT] = FOR_TYPES(surround);
    if (shape->stored % GROUP != 0 || shape->top > shape->out_h || shape->in_h > shape->out_h - shape->top ||
        shape->left > shape->out_w || shape->in_w > shape->out_w - shape->left)
        return cudaErrorInvalidValue;
    if (!is_aligned({ in, out }))
        return cudaErrorMisalignedAddress;
    const size_t threads = (size_t)shape->count * shape->out_h * shape->out_w * (shape->stored / GROUP);
    return launch_threads(stream, threads, kernels[type], threads, *shape, in, out);
}

/* ---- concat ---- */

/* Where a part does not begin at a multiple of eight, a thread copies channels of two parts, or of a part and of the
 * kept channels. */
template <typename T>
static __global__ void concat_channels(size_t threads, struct concat concat, uint32_t groups, void *__restrict__ out)
{
    await_kernels_before();
    const size_t i = thread_number(), pixel = i / groups;
    const uint32_t channel = (concat.kept / GROUP + (uint32_t)(i % groups)) * GROUP;
    if (i >= threads)
        return;
    T *const to = (T *)out + pixel * concat.stride;
    floats<GROUP> values = {};
    if (channel < concat.kept)
        values = read_shifted(to, channel, concat.kept);
    uint32_t begin = concat.kept;
    for (uint32_t k = 0; k < concat.count && begin < channel + GROUP; k++) {
        const uint32_t channels = concat.parts[k].channels;
        const T *const from = (const T *)concat.parts[k].values + pixel * concat.parts[k].stride;
        if (begin + channels > channel)
            values = plus(values, read_shifted(from, (int64_t)channel - begin, channels));
        begin += channels;
    }
    write(to + channel, values);
}

/* Channels of the result. */
static size_t channels_of(const struct concat *concat)
{
    size_t channels = concat->kept;
    for (uint32_t k = 0; k < concat->count; k++)
        channels += concat->parts[k].channels;
    return channels;
}

static cudaError_t check_concat(const struct concat *concat, const void *out)
{
    if (concat->count == 0 || concat->count > LAYER_INPUTS_MAX || concat->stride % GROUP != 0 ||
        channels_of(concat) > concat->stride)
        return cudaErrorInvalidValue;
    for (uint32_t k = 0; k < concat->count; k++) {
        if (concat->parts[k].stride % GROUP != 0 || concat->parts[k].channels > concat->parts[k].stride)
            return cudaErrorInvalidValue;
        if (!is_aligned({ concat->parts[k].values, out }))
            return cudaErrorMisalignedAddress;
    }
    return cudaSuccess;
}

cudaError_t kernel_concat(cudaStream_t stream, enum value_type type, const struct concat *concat, void *out)
{
    static decltype(&concat_channels<float>) const kernels[VALUE_TYPE_COUNT] = FOR_TYPES(concat_channels);
    const cudaError_t status = check_concat(concat, out);
    if (status != cudaSuccess)
        return status;
    const size_t groups = pieces(channels_of(concat), GROUP) - concat->kept / GROUP, threads = concat->pixels * groups;
    return launch_threads(stream, threads, kernels[type], threads, *concat, (uint32_t)groups, out);
}

/* ---- local response normalisation: y = x * root^-beta, root = k + alpha / size * sum of squares ---- */

/* Parameters of the kernels: channels, how far the window reaches, factors. */
struct response { uint32_t channels, stored, groups, reach; float share, beta, k; };

static inline struct response response_of(const struct response_shape *shape)
{
    const struct local_response_norm *const how = &shape->how;
    const uint32_t reach = how->size / 2 < shape->stored ? how->size / 2 : shape->stored;
    return response{ shape->channels, shape->stored, shape->stored / GROUP, reach, how->alpha / (float)how->size,
                     how->beta, how->k };
}

static __device__ inline floats<GROUP> times(const floats<GROUP> &a, const floats<GROUP> &b)
{
    floats<GROUP> product;
    for (uint32_t k = 0; k < GROUP; k++)
        product.value[k] = a.value[k] * b.value[k];
    return product;
}

static __device__ inline uint32_t distance(uint32_t a, uint32_t b)
{
    return a < b ? b - a : a - b;
}

/* For eight channels from `first` on: the sums of the numbers, or of their squares, of all channels at most `reach`
 * away. */
template <bool SQUARES, typename T>
static __device__ inline floats<GROUP> neighbours(const T *pixel, uint32_t first, uint32_t stored, uint32_t reach)
{
    const uint32_t begin = first > reach ? (first - reach) / GROUP * GROUP : 0;
    const uint32_t end = stored - first > GROUP + reach ? first + GROUP + reach : stored;
    floats<GROUP> sums = {};
    for (uint32_t c = begin; c < end; c += GROUP) {
        const floats<GROUP> values = read<GROUP>(pixel + c), terms = SQUARES ? times(values, values) : values;
        for (uint32_t j = 0; j < GROUP; j++)
            for (uint32_t k = 0; k < GROUP; k++)
                sums.value[k] += distance(c + j, first + k) <= reach ? terms.value[j] : 0.0f;
    }
    return sums;
}

/* root^exponent of eight channels; 0 in padding. */
static __device__ inline floats<GROUP> powers(const response &how, uint32_t first, const floats<GROUP> &squares,
                                              float exponent)
{
    floats<GROUP> result;
    for (uint32_t k = 0; k < GROUP; k++)
        result.value[k] =
            first + k < how.channels ? powf(how.k + how.share * squares.value[k], exponent) : 0.0f;
    return result;
}

template <typename T>
static __global__ void response_norm(size_t threads, response how, const void *__restrict__ in,
                                     void *__restrict__ out)
{
    await_kernels_before();
    const size_t i = thread_number();
    const uint32_t first = (uint32_t)(i % how.groups) * GROUP;
    if (i >= threads)
        return;
    const T *const pixel = (const T *)in + i * GROUP - first;
    const floats<GROUP> squares = neighbours<true>(pixel, first, how.stored, how.reach);
    write((T *)out + i * GROUP, times(read<GROUP>(pixel + first), powers(how, first, squares, -how.beta)));
}

/* gradient * x * root^(-beta - 1): each channel's share in the gradient of the sums of squares. */
template <typename T>
static __global__ void response_terms(size_t threads, response how, const void *__restrict__ in,
                                      const void *__restrict__ out_gradient, float *__restrict__ terms)
{
    await_kernels_before();
    const size_t i = thread_number();
    const uint32_t first = (uint32_t)(i % how.groups) * GROUP;
    if (i >= threads)
        return;
    const T *const pixel = (const T *)in + i * GROUP - first;
    const floats<GROUP> squares = neighbours<true>(pixel, first, how.stored, how.reach);
    const floats<GROUP> product = times(read<GROUP>(pixel + first), read<GROUP>((const T *)out_gradient + i * GROUP));
    write(terms + i * GROUP, times(product, powers(how, first, squares, -how.beta - 1)));
}

/* in_gradient may be out_gradient. */
template <typename T>
static __global__ void response_gradient(size_t threads, response how, const void *__restrict__ in,
                                         const void *out_gradient, const float *__restrict__ terms,
                                         void *in_gradient, bool adds)
{
    await_kernels_before();
    const size_t i = thread_number();
    const uint32_t first = (uint32_t)(i % how.groups) * GROUP;
    if (i >= threads)
        return;
    const T *const pixel = (const T *)in + i * GROUP - first;
    T *const to = (T *)in_gradient + i * GROUP;
    const floats<GROUP> roots = powers(how, first, neighbours<true>(pixel, first, how.stored, how.reach), -how.beta);
    const floats<GROUP> sums = neighbours<false>(terms + i * GROUP - first, first, how.stored, how.reach);
    const floats<GROUP> values = read<GROUP>(pixel + first);
    floats<GROUP> gradient = times(read<GROUP>((const T *)out_gradient + i * GROUP), roots);
    for (uint32_t k = 0; k < GROUP; k++)
        gradient.value[k] -= 2 * how.share * how.beta * values.value[k] * sums.value[k];
    write(to, adds ? plus(read<GROUP>(to), gradient) : gradient);
}

static cudaError_t check_response(const struct response_shape *shape, std::initializer_list<const void *> pointers)
{
    if (shape->stored % GROUP != 0 || shape->channels > shape->stored || shape->how.size % 2 == 0)
        return cudaErrorInvalidValue;
    return is_aligned(pointers) ? cudaSuccess : cudaErrorMisalignedAddress;
}

cudaError_t kernel_response_norm(cudaStream_t stream, enum value_type type, const struct response_shape *shape,
                                 const void *in, void *out)
{
    static decltype(&response_norm<float>) const kernels[VALUE_TYPE_COUNT] = FOR_TYPES(response_norm);
    const cudaError_t status = check_response(shape, { in, out });
    if (status != cudaSuccess)
        return status;
    const size_t threads = shape->pixels * (shape->stored / GROUP);
    return launch_threads(stream, threads, kernels[type], threads, response_of(shape), in, out);
}

cudaError_t kernel_response_norm_backward(cudaStream_t stream, enum value_type type,
                                          const struct response_shape *shape, const void *in,
                                          const void *out_gradient, float *terms, void *in_gradient, bool adds)
{
    static decltype(&response_terms<float>) const find_terms[VALUE_TYPE_COUNT] = FOR_TYPES(response_terms);
    static decltype(&response_gradient<float>) const kernels[VALUE_TYPE_COUNT] = FOR_TYPES(response_gradient);
    cudaError_t status = check_response(shape, { in, out_gradient, terms, in_gradient });
    const size_t threads = shape->pixels * (shape->stored / GROUP);
    if (status == cudaSuccess)
        status = launch_threads(stream, threads, find_terms[type], threads, response_of(shape), in, out_gradient,
                                terms);
    return status != cudaSuccess ? status
                                 : launch_threads(stream, threads, kernels[type], threads, response_of(shape), in,
                                                  out_gradient, terms, in_gradient, adds);
}
