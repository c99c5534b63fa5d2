/* Kernels over flat ranges of the arenas, for the part of a step after backward. Queued by the CUDA backend, and sums
 * over towers by the reduction between peers. All are bound by memory. */
#define LAUNCHES_EARLY
#include "compute/cuda/kernel_types.cuh"

#include <math.h>

#include "compute/floats.h"
#include "compute/part_norms.h"

#define QUAD 4u             /* floats a thread reads at once */

/* ---- sums of squares: a block for each part, then one for each range ---- */

#define RANGES_AT_ONCE 32u

struct squared_range { const float *floats; size_t count, part; double *sum; };
struct squared_ranges { squared_range of[RANGES_AT_ONCE]; };

/* The sum over all threads of the block, in thread 0. */
static __device__ inline double block_sum(double mine, double *sums)
{
    sums[threadIdx.x] = mine;
    for (uint32_t step = THREADS / 2; step > 0; step /= 2) {
        __syncthreads();
        if (threadIdx.x < step)
            sums[threadIdx.x] += sums[threadIdx.x + step];
    }
    return sums[0];
}

static __global__ void square_part(squared_ranges ranges)
{
    await_kernels_before();
    __shared__ double sums[THREADS];
    const squared_range range = ranges.of[blockIdx.y];
    const size_t begin = blockIdx.x * range.part, end = begin + range.part < range.count ? begin + range.part
                                                                                         : range.count;
    double sum = 0;
    if (begin >= range.count) {         /* most parts of a small range */
        if (threadIdx.x == 0)
            range.sum[1 + blockIdx.x] = 0;
        return;
    }
    FOUR_AT_ONCE
    for (size_t i = begin + threadIdx.x * QUAD; i < end; i += THREADS * QUAD) {
        const floats<QUAD> values = read_some<QUAD>(range.floats + i, end - i);
        for (uint32_t k = 0; k < QUAD; k++)
            sum += (double)values.value[k] * (double)values.value[k];
    }
    sum = block_sum(sum, sums);
    if (threadIdx.x == 0)
        range.sum[1 + blockIdx.x] = sum;
}

static __global__ void sum_square_parts(squared_ranges ranges)
{
    await_kernels_before();
    __shared__ double sums[THREADS];
    const squared_range range = ranges.of[blockIdx.x];
    const double sum = block_sum(threadIdx.x < SQUARES_PARTS ? range.sum[1 + threadIdx.x] : 0, sums);
    if (threadIdx.x == 0)
        range.sum[0] = sum;
}

cudaError_t kernel_squares(cudaStream_t stream, const struct squares *squares, uint32_t count)
{
    static_assert(SQUARES_PARTS <= THREADS, "one block sums all parts");
    cudaError_t status = cudaSuccess;
    for (uint32_t first = 0; first < count && status == cudaSuccess; first += RANGES_AT_ONCE) {
        const uint32_t some = count - first < RANGES_AT_ONCE ? count - first : RANGES_AT_ONCE;
        squared_ranges ranges = {};
        for (uint32_t i = 0; i < some; i++) {
            const struct squares &from = squares[first + i];
            if (!is_aligned({ from.floats }))
                return cudaErrorMisalignedAddress;
            ranges.of[i] = squared_range{ from.floats, from.count, squares_part_floats(from.count), from.sum };
        }
        status = launch_blocks(stream, SQUARES_PARTS, some, square_part, ranges);
        if (status == cudaSuccess)
            status = launch_blocks(stream, some, 1, sum_square_parts, ranges);
    }
    return status;
}

/* ---- norms over parts: one block, because these are a few numbers ---- */

static __global__ void put_norms(part_norms norms, const struct loss_scale *scale)
{
    await_kernels_before();
    const bool is_nonfinite = scale != NULL && scale->overflowed == LOSS_SCALE_BROKEN;
    for (uint32_t i = threadIdx.x; i < norms.count * part_norms_numbers(&norms); i += THREADS)
        part_norms_put(&norms, i, is_nonfinite);
}

cudaError_t kernel_put_norms(cudaStream_t stream, const struct part_norms *norms, const struct loss_scale *scale)
{
    return launch_blocks(stream, 1, 1, put_norms, *norms, scale);
}

static __global__ void add_norms(part_norms norms, struct loss_scale *scale)
{
    await_kernels_before();
    for (uint32_t sum = threadIdx.x; sum < norms.sums; sum += THREADS)
        part_norms_add(&norms, sum);
    __syncthreads();
    if (threadIdx.x != 0)
        return;
    part_norms_add_gradients(&norms);
    if (scale != NULL && part_norms_nonfinite(&norms))
        scale->overflowed = LOSS_SCALE_BROKEN;
}

cudaError_t kernel_add_norms(cudaStream_t stream, const struct part_norms *norms, struct loss_scale *scale)
{
    return launch_blocks(stream, 1, 1, add_norms, *norms, scale);
}

/* ---- update: the rules of compute/optimizer.c, in the same order of operations ---- */

typedef struct optimizer_numbers numbers;

/* A weight and its states. */
struct number { float w, a, d; };

#define UPDATES_AT_ONCE 112u    /* ranges of a launch: the table is a kernel parameter, limited to 4 KiB */

struct updated_range {
    uint32_t block;             /* first block of the range */
    uint32_t quad;              /* offset of the range from the first range, in quads */
    uint32_t count, decays;
    const double *weight_squares, *gradient_squares;
};

struct updated_ranges {
    optimizer_range first;      /* the pointers of the first range */
    void *shadow;
    enum value_type type;       /* value type of the shadow */
    uint32_t count;
    numbers kept, decayed;      /* for ranges without and with weight decay */
    updated_range of[UPDATES_AT_ONCE];
};

/* An update rule. Only LARS adapts the rate to a range. */
struct rule {
    static __device__ inline void adapt(numbers *, const updated_range &) {}
};

struct sgd : rule {
    enum { STATES = 0 };
    static __device__ inline void run(const numbers &s, float g, number *n) { n->w -= s.rate * g; }
};

struct momentum : rule {
    enum { STATES = 1 };
    static __device__ inline void run(const numbers &s, float g, number *n)
    {
        n->a = s.momentum * n->a + g;
        n->w -= s.rate * n->a;
    }
};

struct nesterov : rule {
    enum { STATES = 1 };
    static __device__ inline void run(const numbers &s, float g, number *n)
    {
        n->a = s.momentum * n->a + g;
        n->w -= s.rate * (g + s.momentum * n->a);
    }
};

struct adadelta : rule {
    enum { STATES = 2 };
    static __device__ inline void run(const numbers &s, float g, number *n)
    {
        n->a = s.rho * n->a + (1.0f - s.rho) * g * g;
        const float u = g * sqrtf((n->d + s.epsilon) / (n->a + s.epsilon));
        n->w -= s.rate * u;
        n->d = s.rho * n->d + (1.0f - s.rho) * u * u;
    }
};

struct rmsprop : rule {
    enum { STATES = 2 };
    static __device__ inline void run(const numbers &s, float g, number *n)
    {
        n->a = s.rho * n->a + s.rho_rest * g * g;
        n->d = s.momentum * n->d + s.rate * (g / sqrtf(n->a + s.epsilon));
        n->w -= n->d;
    }
};

struct rmsprop_keras : rule {
    enum { STATES = 1 };
    static __device__ inline void run(const numbers &s, float g, number *n)
    {
        n->a = s.rho * n->a + s.rho_rest * g * g;
        n->w -= s.rate * (g / (sqrtf(n->a) + s.epsilon));
    }
};

struct rmsprop_pytorch : rule {
    enum { STATES = 2 };
    static __device__ inline void run(const numbers &s, float g, number *n)
    {
        n->a = s.rho * n->a + s.rho_rest * g * g;
        n->d = s.momentum * n->d + g / (sqrtf(n->a) + s.epsilon);
        n->w -= s.rate * n->d;
    }
};

/* Also for adamw. */
struct adam : rule {
    enum { STATES = 2 };
    static __device__ inline void run(const numbers &s, float g, number *n)
    {
        n->a = s.momentum * n->a + s.momentum_rest * g;
        n->d = s.rho * n->d + s.rho_rest * g * g;
        n->w -= s.shrink * n->w + s.rate * (n->a / (s.root * sqrtf(n->d) + s.epsilon));
    }
};

struct lars {
    enum { STATES = 1 };
    static __device__ inline void adapt(numbers *s, const updated_range &range)
    {
        if (range.weight_squares == NULL)
            return;
        const double w = sqrt(*range.weight_squares), g = (double)s->scale * sqrt(*range.gradient_squares);
        if (w > 0 && g > 0)
            s->rate = (float)((double)s->rate * (s->trust * w / (g + (double)s->decay * w)));
    }
    static __device__ inline void run(const numbers &s, float g, number *n)
    {
        n->a = s.momentum * n->a + s.rate * g;
        n->w -= n->a;
    }
};

/* The gradient scale after clipping by the global norm. */
static __device__ inline float clipped_scale(const numbers &s, double squares)
{
    const double share = s.clip_norm / ((double)s.scale * sqrt(squares) + CLIP_EPSILON);
    return share < 1 ? (float)((double)s.scale * share) : s.scale;
}

/* Writes the 16-bit copy of the weights. */
static __device__ inline void write_shadow(enum value_type type, void *shadow, size_t i, const floats<QUAD> &weights,
                                           size_t rest)
{
    if (type == VALUE_FP16)
        write_some((__half *)shadow + i, weights, rest);
    else if (type == VALUE_BF16)
        write_some((__nv_bfloat16 *)shadow + i, weights, rest);
    else
        write_some((float *)shadow + i, weights, rest);
}

/* The range that a block belongs to. */
static __device__ inline uint32_t range_of_block(const updated_ranges &ranges, uint32_t block)
{
    uint32_t first = 0, end = ranges.count;
    while (end - first > 1) {
        const uint32_t middle = (first + end) / 2;
        if (ranges.of[middle].block <= block)
            first = middle;
        else
            end = middle;
    }
    return first;
}

template <typename RULE>
static __global__ void update(updated_ranges ranges, const struct loss_scale *__restrict__ scale)
{
    await_kernels_before();
    const updated_range range = ranges.of[range_of_block(ranges, blockIdx.x)];
    const size_t at = ((size_t)(blockIdx.x - range.block) * THREADS + threadIdx.x) * QUAD;
    if (at >= range.count || (scale != NULL && scale->overflowed == LOSS_SCALE_BROKEN))
        return;
    const size_t rest = range.count - at, i = (size_t)range.quad * QUAD + at;
    numbers s = range.decays ? ranges.decayed : ranges.kept;
    if (scale != NULL)
        s.scale /= scale->factor;
    if (ranges.first.all_squares != NULL)
        s.scale = clipped_scale(s, *ranges.first.all_squares);
    RULE::adapt(&s, range);
    const floats<QUAD> gradient = read_some<QUAD>(ranges.first.gradients + i, rest);
    floats<QUAD> w = read_some<QUAD>(ranges.first.weights + i, rest), a = {}, d = {};
    if (RULE::STATES > 0)
        a = read_some<QUAD>(ranges.first.states[0] + i, rest);
    if (RULE::STATES > 1)
        d = read_some<QUAD>(ranges.first.states[1] + i, rest);
    for (uint32_t k = 0; k < QUAD; k++) {
        number n = { w.value[k], a.value[k], d.value[k] };
        RULE::run(s, s.scale * gradient.value[k] + s.decay * n.w, &n);
        w.value[k] = n.w, a.value[k] = n.a, d.value[k] = n.d;
    }
    write_some(ranges.first.weights + i, w, rest);
    if (RULE::STATES > 0)
        write_some(ranges.first.states[0] + i, a, rest);
    if (RULE::STATES > 1)
        write_some(ranges.first.states[1] + i, d, rest);
    if (ranges.shadow != NULL)
        write_shadow(ranges.type, ranges.shadow, i, w, rest);
}

/* Is `other` at the same offset from `first` in every array, and is the offset small enough for the table? */
static bool shares_offset(const optimizer_range &first, const optimizer_range &other)
{
    const ptrdiff_t offset = other.weights - first.weights;
    bool belongs = offset >= 0 && offset % QUAD == 0 && offset / QUAD <= UINT32_MAX &&
                   other.gradients - first.gradients == offset && other.all_squares == first.all_squares;
    for (uint32_t state = 0; state < OPTIMIZER_STATES_MAX; state++)
        belongs = belongs && (first.states[state] == NULL || other.states[state] - first.states[state] == offset);
    return belongs;
}

/* Fills in as many ranges as one launch can update and returns their number; 0 when a range is too large. */
static uint32_t fill_ranges(updated_ranges *filled, const optimizer_range *ranges, uint32_t count, size_t *blocks_out)
{
    size_t blocks = 0;
    uint32_t n = 0;
    for (; n < count && n < UPDATES_AT_ONCE && shares_offset(ranges[0], ranges[n]); n++) {
        const optimizer_range &range = ranges[n];
        const size_t more = pieces(range.count, (size_t)QUAD * THREADS);
        if (range.count > UINT32_MAX || blocks + more > INT32_MAX)
            break;
        filled->of[n] = updated_range{ (uint32_t)blocks, (uint32_t)((range.weights - ranges[0].weights) / QUAD),
                                      (uint32_t)range.count, range.decays, range.weight_squares,
                                      range.gradient_squares };
        blocks += more;
    }
    filled->first = ranges[0];
    filled->count = n;
    *blocks_out = blocks;
    return n;
}

cudaError_t kernel_update(cudaStream_t stream, enum optimizer_kind kind, const struct optimizer_numbers *kept,
                          const struct optimizer_numbers *decayed, const struct loss_scale *scale,
                          const struct optimizer_range *ranges, uint32_t count, enum value_type type, void *shadow)
{
    /* In the order of optimizer_kind. */
    static void (*const kernels[])(updated_ranges, const struct loss_scale *) = {
        update<sgd>, update<momentum>, update<nesterov>, update<adadelta>,
        update<rmsprop>, update<rmsprop_keras>, update<adam>, update<adam>, update<lars>,
        update<rmsprop_pytorch>,
    };
    static_assert(sizeof(kernels) / sizeof(*kernels) == OPTIMIZER_KIND_COUNT, "every rule has a kernel");
    static_assert(sizeof(updated_ranges) + sizeof(scale) <= 4096, "parameters of a kernel");
    cudaError_t status = cudaSuccess;
    uint32_t filled = 0;
    for (uint32_t first = 0; first < count && status == cudaSuccess; first += filled) {
        const optimizer_range &range = ranges[first];
        updated_ranges some = {};
        size_t blocks;
        some.type = type;
        some.kept = *kept;
        some.decayed = *decayed;
        if (shadow != NULL)
            some.shadow = (unsigned char *)shadow + (range.weights - ranges[0].weights) * (ptrdiff_t)value_bytes(type);
        if (!is_aligned({ range.weights, range.gradients, range.states[0], range.states[1], some.shadow }))
            return cudaErrorMisalignedAddress;
        filled = fill_ranges(&some, ranges + first, count - first, &blocks);
        status = filled == 0 ? cudaErrorInvalidValue : launch_blocks(stream, blocks, 1, kernels[kind], some, scale);
    }
    return status;
}

/* ---- between fp32 and the type of activations ---- */

template <typename T>
static __global__ void narrow(size_t count, const float *__restrict__ from, void *__restrict__ to)
{
    await_kernels_before();
    const size_t i = thread_number() * GROUP;
    if (i < count)
        write_some((T *)to + i, read_some<GROUP>(from + i, count - i), count - i);
}

template <typename T>
static __global__ void widen(size_t count, const void *__restrict__ from, float *__restrict__ to)
{
    await_kernels_before();
    const size_t i = thread_number() * GROUP;
    if (i < count)
        write_some(to + i, read_some<GROUP>((const T *)from + i, count - i), count - i);
}

cudaError_t kernel_narrow(cudaStream_t stream, enum value_type type, size_t count, const float *from, void *to)
{
    static void (*const kernels[VALUE_TYPE_COUNT])(size_t, const float *, void *) = FOR_TYPES(narrow);
    if (!is_aligned({ from, to }))
        return cudaErrorMisalignedAddress;
    return launch_threads(stream, pieces(count, GROUP), kernels[type], count, from, to);
}

cudaError_t kernel_widen(cudaStream_t stream, enum value_type type, size_t count, const void *from, float *to)
{
    static void (*const kernels[VALUE_TYPE_COUNT])(size_t, const void *, float *) = FOR_TYPES(widen);
    if (!is_aligned({ from, to }))
        return cudaErrorMisalignedAddress;
    return launch_threads(stream, pieces(count, GROUP), kernels[type], count, from, to);
}

/* ---- loss scale ---- */

static __global__ void check(size_t count, const float *__restrict__ gradients, struct loss_scale *scale)
{
    await_kernels_before();
    const size_t i = thread_number() * GROUP;
    if (i >= count)
        return;
    const floats<GROUP> values = read_some<GROUP>(gradients + i, count - i);
    bool is_good = true;
    for (uint32_t k = 0; k < GROUP; k++)
        is_good = is_good && fabsf(values.value[k]) < FINITE_BOUND;
    if (!is_good)
        scale->overflowed = LOSS_SCALE_BROKEN;      /* any number of threads write the same value */
}

cudaError_t kernel_check(cudaStream_t stream, size_t count, const float *gradients, struct loss_scale *scale)
{
    if (!is_aligned({ gradients }))
        return cudaErrorMisalignedAddress;
    return launch_threads(stream, pieces(count, GROUP), check, count, gradients, scale);
}

static __global__ void adjust_scale(struct loss_scale *scale, bool is_fixed)
{
    await_kernels_before();
    if (threadIdx.x != 0)
        return;
    struct loss_scale now = *scale;
    const bool is_broken = now.overflowed == LOSS_SCALE_BROKEN;
    now.skipped_steps += is_broken;
    now.overflowed = is_broken ? LOSS_SCALE_LEFT_OUT : 0;
    now.good_steps = is_fixed || is_broken ? 0 : now.good_steps + 1;
    if (is_broken && !is_fixed) {
        now.factor = now.factor / 2 > LOSS_SCALE_LEAST ? now.factor / 2 : LOSS_SCALE_LEAST;
    } else if (now.good_steps >= LOSS_SCALE_GROWTH) {
        now.good_steps = 0;
        now.factor = now.factor * 2 < LOSS_SCALE_MOST ? now.factor * 2 : LOSS_SCALE_MOST;
    }
    *scale = now;
}

cudaError_t kernel_adjust_scale(cudaStream_t stream, struct loss_scale *scale, bool is_fixed)
{
    return launch_blocks(stream, 1, 1, adjust_scale, scale, is_fixed);
}

static __global__ void restore_if_nonfinite(size_t count, const loss_scale *scale, const float *kept, float *floats)
{
    await_kernels_before();
    const size_t i = thread_number();
    if (i < count && scale->overflowed == LOSS_SCALE_BROKEN)
        floats[i] = kept[i];
}

cudaError_t kernel_restore_if_nonfinite(cudaStream_t stream, size_t count, const struct loss_scale *scale,
                                        const float *kept, float *floats)
{
    return launch_threads(stream, count, restore_if_nonfinite, count, scale, kept, floats);
}

/* ---- the first number that is not finite ---- */

static __global__ void forget_nonfinite(unsigned long long *first)
{
    await_kernels_before();
    if (threadIdx.x == 0)
        *first = UINT64_MAX;
}

static __global__ void find_nonfinite(size_t count, const float *__restrict__ range, unsigned long long *first)
{
    await_kernels_before();
    const size_t i = thread_number() * GROUP;
    if (i >= count)
        return;
    const floats<GROUP> values = read_some<GROUP>(range + i, count - i);
    uint32_t k = 0;
    while (k < GROUP && fabsf(values.value[k]) < FINITE_BOUND)
        k++;
    if (k < GROUP)
        atomicMin(first, (unsigned long long)(i + k));
}

cudaError_t kernel_find_nonfinite(cudaStream_t stream, size_t count, const float *range, uint64_t *first)
{
    static_assert(sizeof(unsigned long long) == sizeof(uint64_t), "the type that atomicMin takes");
    unsigned long long *const found = reinterpret_cast<unsigned long long *>(first);
    if (!is_aligned({ range }))
        return cudaErrorMisalignedAddress;
    const cudaError_t status = launch_blocks(stream, 1, 1, forget_nonfinite, found);
    return status != cudaSuccess ? status
                                 : launch_threads(stream, pieces(count, GROUP), find_nonfinite, count, range, found);
}

/* ---- clipping by value ---- */

static __global__ void limit_range(size_t count, float limit, const struct loss_scale *__restrict__ scale, float *range)
{
    await_kernels_before();
    const size_t i = thread_number() * QUAD;
    if (i >= count)
        return;
    const float most = scale != NULL ? limit * scale->factor : limit;
    floats<QUAD> values = read_some<QUAD>(range + i, count - i);
    for (uint32_t k = 0; k < QUAD; k++) {
        const float least = values.value[k] < -most ? -most : values.value[k];
        values.value[k] = least > most ? most : least;
    }
    write_some(range + i, values, count - i);
}

cudaError_t kernel_clip_value(cudaStream_t stream, size_t count, float limit, const struct loss_scale *scale,
                              float *range)
{
    if (!is_aligned({ range }))
        return cudaErrorMisalignedAddress;
    return launch_threads(stream, pieces(count, QUAD), limit_range, count, limit, scale, range);
}

/* ---- means and sums ---- */

static __global__ void scale_range(size_t count, float factor, float *range)
{
    await_kernels_before();
    const size_t i = thread_number() * QUAD;
    if (i >= count)
        return;
    floats<QUAD> values = read_some<QUAD>(range + i, count - i);
    for (uint32_t k = 0; k < QUAD; k++)
        values.value[k] *= factor;
    write_some(range + i, values, count - i);
}

cudaError_t kernel_scale(cudaStream_t stream, size_t count, float factor, float *range)
{
    if (!is_aligned({ range }))
        return cudaErrorMisalignedAddress;
    return launch_threads(stream, pieces(count, QUAD), scale_range, count, factor, range);
}

static __global__ void divide_range(size_t count, float factor, const float *__restrict__ divisor, float *range)
{
    await_kernels_before();
    const size_t i = thread_number() * QUAD;
    if (i >= count)
        return;
    const float scaled = *divisor == 0 ? 0.0f : factor / *divisor;
    floats<QUAD> values = read_some<QUAD>(range + i, count - i);
    for (uint32_t k = 0; k < QUAD; k++)
        values.value[k] *= scaled;
    write_some(range + i, values, count - i);
}

cudaError_t kernel_divide(cudaStream_t stream, size_t count, float factor, const float *divisor, float *range)
{
    if (!is_aligned({ range }))
        return cudaErrorMisalignedAddress;
    return launch_threads(stream, pieces(count, QUAD), divide_range, count, factor, divisor, range);
}

static __global__ void mix_ranges(size_t count, float share, float keep, const loss_scale *scale,
                                  const float *__restrict__ more, float *range)
{
    await_kernels_before();
    const size_t i = thread_number() * QUAD;
    if (i >= count || (scale != NULL && scale->overflowed == LOSS_SCALE_LEFT_OUT))
        return;
    const floats<QUAD> others = read_some<QUAD>(more + i, count - i);
    floats<QUAD> values = read_some<QUAD>(range + i, count - i);
    for (uint32_t k = 0; k < QUAD; k++)
        values.value[k] += share * (keep == 0 ? others.value[k] : others.value[k] - keep * values.value[k]);
    write_some(range + i, values, count - i);
}

cudaError_t kernel_axpby(cudaStream_t stream, size_t count, float share, float keep, const struct loss_scale *scale,
                       const float *more, float *range)
{
    if (!is_aligned({ more, range }))
        return cudaErrorMisalignedAddress;
    return launch_threads(stream, pieces(count, QUAD), mix_ranges, count, share, keep, scale, more, range);
}

/* ---- sums over towers, for the reduction between peers: at the speed of links and memory ---- */

#define SUM_LEVELS 7u           /* levels of a sum over KERNEL_TOWERS_MAX = 64 = 2^6 towers */

static __device__ void add_quad(floats<QUAD> *sum, const floats<QUAD> &more)
{
    for (uint32_t k = 0; k < QUAD; k++)
        sum->value[k] += more.value[k];
}

/* In pairs (stage/pairwise.h): sums[n] is the sum of the last 2^n towers, if bit n of the number of towers so far is
 * set. */
template <typename T>
static __device__ floats<QUAD> sum_in_pairs(const tower_arenas &arenas, some_arenas from, size_t i, size_t rest)
{
    floats<QUAD> sums[SUM_LEVELS];
    for (uint32_t tower = 0; tower < from.count; tower++) {
        floats<QUAD> sum = read_some<QUAD>((const T *)arenas.values[from.first + tower] + i, rest);
        uint32_t level = 0;
        for (; tower >> level & 1; level++)
            add_quad(&sum, sums[level]);
        sums[level] = sum;
    }
    uint32_t level = 0;
    while ((from.count >> level & 1) == 0)
        level++;
    floats<QUAD> sum = sums[level];
    for (level++; from.count >> level > 0; level++)
        if (from.count >> level & 1)
            add_quad(&sum, sums[level]);
    return sum;
}

template <typename T>
static __device__ void sum_some(const tower_arenas &arenas, some_arenas from, some_arenas into, size_t i, size_t rest)
{
    const floats<QUAD> sum = sum_in_pairs<T>(arenas, from, i, rest);
    for (uint32_t tower = into.first; tower < into.first + into.count; tower++)
        write_some((T *)arenas.values[tower] + i, sum, rest);
}

/* The first thread's vector may begin before the range. */
template <typename T>
static __global__ void sum_towers(tower_arenas arenas, size_t begin, size_t end, some_arenas from, some_arenas into)
{
    await_kernels_before();
    const size_t i = begin / QUAD * QUAD + thread_number() * QUAD;
    if (i >= begin && i < end)
        sum_some<T>(arenas, from, into, i, end - i);
    for (size_t k = begin; i < begin && k < i + QUAD && k < end; k++)
        sum_some<T>(arenas, from, into, k, 1);
}

static bool are_among(const struct tower_arenas *arenas, struct some_arenas some)
{
    return some.count > 0 && some.first < arenas->count && some.count <= arenas->count - some.first;
}

cudaError_t kernel_sum_towers(cudaStream_t stream, enum value_type type, const struct tower_arenas *arenas,
                              size_t begin, size_t end, struct some_arenas from, struct some_arenas into)
{
    static void (*const kernels[VALUE_TYPE_COUNT])(tower_arenas, size_t, size_t, some_arenas, some_arenas) =
        FOR_TYPES(sum_towers);
    if (arenas->count == 0 || arenas->count > KERNEL_TOWERS_MAX || begin > end || !are_among(arenas, from) ||
        !are_among(arenas, into))
        return cudaErrorInvalidValue;
    for (uint32_t tower = 0; tower < arenas->count; tower++)
        if (!is_aligned({ arenas->values[tower] }))
            return cudaErrorMisalignedAddress;
    const size_t first = begin / QUAD * QUAD;
    return launch_threads(stream, pieces(end - first, QUAD), kernels[type], *arenas, begin, end, from, into);
}

/* ---- sums over terms, for the reductions between processes ---- */

#define TERM_LEVELS 13u         /* levels of a sum over TERM_TOWERS_MAX = 4096 = 2^12 towers */

static __device__ floats<QUAD> read_term(const sum_terms &terms, uint32_t term, size_t i, size_t rest)
{
    if (terms.bf16 >> term & 1)
        return read_some<QUAD>((const __nv_bfloat16 *)terms.values[term] + i, rest);
    return read_some<QUAD>((const float *)terms.values[term] + i, rest);
}

/* As sum_in_pairs, from sums of several towers: all but the last are of a power of two. The last one ends the sum, so
 * that it is added to all others, whatever their sizes. */
static __device__ floats<QUAD> sum_in_pairs_of_terms(const sum_terms &terms, size_t i, size_t rest)
{
    floats<QUAD> sums[TERM_LEVELS];
    for (uint32_t term = 0; term + 1 < terms.count; term++) {
        floats<QUAD> sum = read_term(terms, term, i, rest);
        uint32_t level = 0;
        while (terms.towers[term] >> level > 1)
            level++;
        for (; terms.first[term] >> level & 1; level++)
            add_quad(&sum, sums[level]);
        sums[level] = sum;
    }
    const uint32_t last = terms.count - 1;
    floats<QUAD> sum = read_term(terms, last, i, rest);
    for (uint32_t level = 0; terms.first[last] >> level > 0; level++)
        if (terms.first[last] >> level & 1)
            add_quad(&sum, sums[level]);
    return sum;
}

template <typename T>
static __global__ void sum_terms_into(sum_terms terms, size_t count, T *into)
{
    await_kernels_before();
    const size_t i = thread_number() * QUAD, rest = count - i;
    if (i < count)
        write_some(into + i, sum_in_pairs_of_terms(terms, i, rest), rest);
}

cudaError_t kernel_sum_terms(cudaStream_t stream, const struct sum_terms *terms, size_t count, enum value_type type,
                             void *into)
{
    if (terms->count == 0 || terms->count > SUM_TERMS_MAX || type == VALUE_FP16)
        return cudaErrorInvalidValue;
    if (!is_aligned({ into }))
        return cudaErrorMisalignedAddress;
    for (uint32_t term = 0; term < terms->count; term++)
        if (!is_aligned({ terms->values[term] }))
            return cudaErrorMisalignedAddress;
    if (type == VALUE_BF16)
        return launch_threads(stream, pieces(count, QUAD), sum_terms_into<__nv_bfloat16>, *terms, count,
                              (__nv_bfloat16 *)into);
    return launch_threads(stream, pieces(count, QUAD), sum_terms_into<float>, *terms, count, (float *)into);
}
