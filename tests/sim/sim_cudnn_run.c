/* Runs plans of the simulated cuDNN. A job contains all it needs, so descriptors may be destroyed after it is queued;
 * the stream's thread computes the convolution as sums of scaled rows of channels. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/sim.h"
#include "tests/sim/sim_cudnn.h"
#include "tests/sim/sim_cudnn_graph.h"
#include "tests/sim/sim_values.h"

#define LANES 8u                /* in buffers, channels are padded to a multiple of this */
#define WORKSPACE_PATTERN 0xFF  /* NaNs */

struct job {
    int device;
    int64_t engine;
    struct sim_operations graph;
    struct sim_operation convolution;
    void *x, *w, *y;                    /* inputs of the convolution, where x is that of the first operation; the one
                                         * that is computed is NULL */
    void *seconds[SIM_OPERATIONS_MAX];  /* the second inputs of pointwise operations */
    void *result;
    void *sum, *squares;                /* NULL: no statistics, no normalisation */
    void *values, *line_seconds[SIM_LINE], *factors[SIM_FACTORS];       /* of a normalisation */
    void *workspace;
    size_t workspace_bytes;
};

/* Values of a tensor as floats: images in the order N,H,W,C, filters in K,R,S,C, R,S,C,K or R,S,K,C, the last dimension
 * padded with zeros. */
struct values {
    int64_t dims[SIM_RANK];
    size_t row;                 /* padded last dimension */
    float *at;
};

static const int channels_last[SIM_RANK] = { 0, 2, 3, 1 };
static const int filters_last[SIM_RANK] = { 2, 3, 1, 0 };
static const int filters_first[SIM_RANK] = { 2, 3, 0, 1 };

static cudaDataType_t value_type(cudnnDataType_t type)
{
    return type == CUDNN_DATA_FLOAT ? CUDA_R_32F : type == CUDNN_DATA_HALF ? CUDA_R_16F : CUDA_R_16BF;
}

static struct values open_values(const struct sim_tensor *tensor, const int *order)
{
    struct values values;
    for (int i = 0; i < SIM_RANK; i++)
        values.dims[i] = tensor->dims[order[i]];
    values.row = ((size_t)values.dims[3] + LANES - 1) / LANES * LANES;
    values.at = sim_alloc((size_t)(values.dims[0] * values.dims[1] * values.dims[2]) * values.row * sizeof(float));
    return values;
}

static float *row_at(const struct values *values, int64_t a, int64_t b, int64_t c)
{
    return values->at + (size_t)((a * values->dims[1] + b) * values->dims[2] + c) * values->row;
}

/* The index in memory of the first element of the row. */
static size_t place_of(const struct sim_tensor *tensor, const int *order, int64_t a, int64_t b, int64_t c)
{
    return (size_t)(a * tensor->strides[order[0]] + b * tensor->strides[order[1]] + c * tensor->strides[order[2]]);
}

static struct values read_values(const struct sim_tensor *tensor, const void *memory, const int *order, bool tf32)
{
    const struct values values = open_values(tensor, order);
    const size_t step = (size_t)tensor->strides[order[3]];
    const cudaDataType_t type = value_type(tensor->type);
    for (int64_t a = 0; a < values.dims[0]; a++)
        for (int64_t b = 0; b < values.dims[1]; b++)
            for (int64_t c = 0; c < values.dims[2]; c++) {
                float *const row = row_at(&values, a, b, c);
                const size_t place = place_of(tensor, order, a, b, c);
                for (size_t i = 0; i < (size_t)values.dims[3]; i++) {
                    const float value = sim_value_read(type, memory, place + i * step);
                    row[i] = tf32 ? sim_tf32_round(value) : value;
                }
            }
    return values;
}

/* sum += factor * row, in whole lanes so that compilers vectorize it. */
static void add_scaled(float *restrict sum, float factor, const float *restrict row, size_t count)
{
    for (size_t i = 0; i < count; i += LANES)
        for (size_t lane = 0; lane < LANES; lane++)
            sum[i + lane] += factor * row[i + lane];
}

struct tap { int64_t r, s; };

/* The i-th tap of the filter. The reversed engine goes through the filter backwards, to sum in another order. */
static struct tap tap_at(const struct job *job, int64_t i)
{
    const int64_t *const dims = job->convolution.w.dims, count = dims[2] * dims[3];
    const int64_t at = job->engine == SIM_ENGINE_REVERSED ? count - 1 - i : i;
    return (struct tap){ at / dims[3], at % dims[3] };
}

/* The input pixel that the tap multiplies for an output pixel; false: it is outside the image. */
static bool seen(const struct job *job, struct tap tap, int64_t row, int64_t column, int64_t *h, int64_t *w)
{
    const struct sim_window *const window = &job->convolution.window;
    *h = row * window->strides[0] + tap.r - window->before[0];
    *w = column * window->strides[1] + tap.s - window->before[1];
    return *h >= 0 && *h < job->convolution.x.dims[2] && *w >= 0 && *w < job->convolution.x.dims[3];
}

/* The inverse: the output position at which the tap multiplies the input position; false: there is none. */
static bool seen_from(const struct job *job, int axis, int64_t tap, int64_t at, int64_t *from)
{
    const struct sim_window *const window = &job->convolution.window;
    const int64_t shifted = at + window->before[axis] - tap;
    *from = shifted / window->strides[axis];
    return shifted >= 0 && shifted % window->strides[axis] == 0 && *from < job->convolution.y.dims[2 + axis];
}

/* The groups of a convolution, and the input channels and filters of each. */
struct groups { int64_t count, channels, filters; };

static struct groups groups_of(const struct job *job)
{
    const int64_t *const w = job->convolution.w.dims, count = job->convolution.x.dims[1] / w[1];
    return (struct groups){ count, w[1], w[0] / count };
}

/* gather_tap for more groups than one: filter k connects the channels of its group with itself. */
static void gather_groups(const struct job *job, const float *pixel, const struct values *w, struct tap tap, float *sum)
{
    const struct groups groups = groups_of(job);
    for (int64_t k = 0; k < groups.count * groups.filters; k++)
        for (int64_t c = 0; c < groups.channels; c++) {
            const int64_t channel = k / groups.filters * groups.channels + c;
            if (job->y == NULL)
                sum[k] += pixel[channel] * row_at(w, tap.r, tap.s, c)[k];
            else
                sum[channel] += pixel[k] * row_at(w, tap.r, tap.s, k)[c];
        }
}

/* Adds what a pixel contributes to one of the result through one tap. */
static void gather_tap(const struct job *job, const float *pixel, const struct values *w, struct tap tap, float *sum)
{
    if (groups_of(job).count > 1) {
        gather_groups(job, pixel, w, tap, sum);
        return;
    }
    for (int64_t c = 0; c < w->dims[2]; c++)
        add_scaled(sum, pixel[c], row_at(w, tap.r, tap.s, c), w->row);
}

/* One pixel of the result, of the forward pass or of the gradient of the data: a sum over the pixels of `from` that the
 * filter connects with it. */
static void gather_pixel(const struct job *job, const struct values *from, const struct values *w, int64_t n,
                         int64_t row, int64_t column, float *sum)
{
    const bool is_forward = job->y == NULL;
    const int64_t *const dims = job->convolution.w.dims;
    for (int64_t i = 0; i < dims[2] * dims[3]; i++) {
        const struct tap tap = tap_at(job, i);
        int64_t h, v;
        if (is_forward ? !seen(job, tap, row, column, &h, &v)
                       : !seen_from(job, 0, tap.r, row, &h) || !seen_from(job, 1, tap.s, column, &v))
            continue;
        gather_tap(job, row_at(from, n, h, v), w, tap, sum);
    }
}

static void gather(const struct job *job, const struct values *from, const struct values *w, struct values *result)
{
    for (int64_t n = 0; n < result->dims[0]; n++)
        for (int64_t row = 0; row < result->dims[1]; row++)
            for (int64_t column = 0; column < result->dims[2]; column++)
                gather_pixel(job, from, w, n, row, column, row_at(result, n, row, column));
}

/* Adds the products of pixel y of the result's gradient and pixel x of the image to one tap of all filters. `row` is
 * the padded length of x. */
static void weight_tap(const struct job *job, const float *y, const float *x, size_t row, struct tap tap,
                       struct values *part)
{
    const struct groups groups = groups_of(job);
    for (int64_t k = 0; k < groups.count * groups.filters; k++) {
        float *const sum = row_at(part, k, tap.r, tap.s);
        const float *const channels = x + k / groups.filters * groups.channels;
        if (groups.count == 1)
            add_scaled(sum, y[k], channels, row);
        for (int64_t c = 0; c < groups.channels && groups.count > 1; c++)
            sum[c] += y[k] * channels[c];
    }
}

/* The contribution of one image to the gradient of the filters. */
static void weight_image(const struct job *job, const struct values *x, const struct values *y, int64_t n,
                         struct values *part)
{
    const int64_t *const dims = job->convolution.w.dims;
    for (int64_t row = 0; row < y->dims[1]; row++)
        for (int64_t column = 0; column < y->dims[2]; column++)
            for (int64_t i = 0; i < dims[2] * dims[3]; i++) {
                const struct tap tap = tap_at(job, i);
                int64_t h, v;
                if (!seen(job, tap, row, column, &h, &v))
                    continue;
                weight_tap(job, row_at(y, n, row, column), row_at(x, n, h, v), x->row, tap, part);
            }
}

/* Sums image by image, which keeps the rounding errors of long sums small. */
static void weight_gradient(const struct job *job, const struct values *x, const struct values *y, struct values *w)
{
    struct values part = open_values(&job->convolution.w, channels_last);
    const size_t count = (size_t)(w->dims[0] * w->dims[1] * w->dims[2]) * w->row;
    for (int64_t i = 0; i < x->dims[0]; i++) {
        memset(part.at, 0, count * sizeof(float));
        weight_image(job, x, y, job->engine == SIM_ENGINE_REVERSED ? x->dims[0] - 1 - i : i, &part);
        add_scaled(w->at, 1, part.at, count);
    }
    free(part.at);
}

/* A factor that differs in every call for the varying engine; 1 for the others. */
static float noise(const struct job *job)
{
    static atomic_uint state;
    if (job->engine != SIM_ENGINE_VARYING)
        return 1;
    const unsigned next = atomic_fetch_add(&state, 1) * 2654435761u;
    return 1 + (float)(next >> 16 & 255) / 4096;
}

/* ---- pointwise operations ---- */

static float pointwise(cudnnPointwiseMode_t mode, float value, float second)
{
    switch (mode) {
    case CUDNN_POINTWISE_ADD:
        return value + second;
    case CUDNN_POINTWISE_SUB:
        return value - second;
    case CUDNN_POINTWISE_MUL:
        return value * second;
    case CUDNN_POINTWISE_RELU_BWD:
        return second > 0 ? value : 0;
    default:
        return value < 0 ? 0 : value;   /* RELU_FWD; NaN stays NaN, to show in the results */
    }
}

static float rounded(const struct sim_tensor *tensor, float value)
{
    float room;
    sim_value_write(value_type(tensor->type), &room, 0, value);
    return sim_value_read(value_type(tensor->type), &room, 0);
}

/* The index in memory of the number of a second input that belongs to pixel a, b, c. */
static size_t second_place(const struct sim_tensor *tensor, int64_t a, int64_t b, int64_t c)
{
    return place_of(tensor, channels_last, tensor->dims[0] > 1 ? a : 0, tensor->dims[2] > 1 ? b : 0,
                    tensor->dims[3] > 1 ? c : 0);
}

/* Computes a pointwise operation in place. */
static void apply(const struct sim_operation *operation, const void *second, struct values *values)
{
    const struct sim_tensor *const b = &operation->b;
    for (int64_t n = 0; n < values->dims[0]; n++)
        for (int64_t h = 0; h < values->dims[1]; h++)
            for (int64_t w = 0; w < values->dims[2]; w++) {
                float *const row = row_at(values, n, h, w);
                const size_t place = operation->has_b ? second_place(b, n, h, w) : 0;
                for (size_t i = 0; i < (size_t)values->dims[3]; i++) {
                    const float number = operation->has_b ? sim_value_read(value_type(b->type), second,
                                                                           place + i * (size_t)b->strides[1]) : 0;
                    const float made = pointwise(operation->pointwise.mode, row[i], number);
                    row[i] = operation->y.is_virtual ? rounded(&operation->y, made) : made;
                }
            }
}

static void apply_some(const struct job *job, int64_t from, int64_t to, struct values *values)
{
    for (int64_t i = from; i < to; i++)
        apply(&job->graph.operations[i], job->seconds[i], values);
}

/* What some engines do to the sums, and the rounding of a result that is not the graph's. */
static void finish_sums(const struct job *job, struct values *values)
{
    const struct sim_tensor *const made = sim_operation_result(&job->convolution);
    const size_t count = (size_t)(values->dims[0] * values->dims[1] * values->dims[2]) * values->row;
    for (size_t i = 0; i < count; i++) {
        float sum = values->at[i];
        if (job->engine == SIM_ENGINE_COARSE && !isnan(sum))
            sum = sim_float_of_bits(sim_round_bits(sim_float_bits(sum), 18));
        sum *= noise(job);
        values->at[i] = made->is_virtual ? rounded(made, sum) : sum;
    }
}

static void write_values(const struct job *job, const struct values *values)
{
    const struct sim_tensor *const tensor = sim_operations_result(&job->graph);
    const size_t step = (size_t)tensor->strides[channels_last[3]];
    const cudaDataType_t type = value_type(tensor->type);
    for (int64_t a = 0; a < values->dims[0]; a++)
        for (int64_t b = 0; b < values->dims[1]; b++)
            for (int64_t c = 0; c < values->dims[2]; c++) {
                const float *const row = row_at(values, a, b, c);
                const size_t place = place_of(tensor, channels_last, a, b, c);
                for (size_t i = 0; i < (size_t)values->dims[3]; i++)
                    sim_value_write(type, job->result, place + i * step, row[i]);
            }
}

/* Sums tiles of pixels, then the tiles, in fp32; the real engines sum in an order of their own. */
static void write_statistics(const struct job *job, const struct values *values)
{
    enum { TILE = 128 };
    const struct sim_tensor *const tensor = sim_operations_result(&job->graph);
    const int64_t pixels = values->dims[0] * values->dims[1] * values->dims[2];
    float *const sums = job->sum, *const squares = job->squares;
    for (int64_t c = 0; c < values->dims[3]; c++) {
        float sum = 0, square = 0;
        for (int64_t from = 0; from < pixels; from += TILE) {
            float of_tile = 0, squares_of_tile = 0;
            for (int64_t i = from; i < pixels && i < from + TILE; i++) {
                const float value = rounded(tensor, values->at[(size_t)i * values->row + (size_t)c]);
                of_tile += value;
                squares_of_tile += value * value;
            }
            sum += of_tile;
            square += squares_of_tile;
        }
        sums[c] = sum;
        squares[c] = square;
    }
}

/* Zeroes the gradient where the normalised value, which is recomputed, is not above 0. */
static void mask_by_norm(const struct job *job, struct values *gradient)
{
    const struct sim_tensor *const made = sim_operation_result(&job->graph.operations[1]);
    struct values line = read_values(&job->graph.line[0].x, job->values, channels_last, false);
    for (int i = 0; i < SIM_LINE; i++)
        apply(&job->graph.line[i], job->line_seconds[i], &line);
    const size_t count = (size_t)(line.dims[0] * line.dims[1] * line.dims[2]) * line.row;
    for (size_t i = 0; i < count; i++)
        gradient->at[i] = rounded(made, line.at[i] > 0 ? gradient->at[i] : 0);
    free(line.at);
}

/* The gradients of scale and bias. The factors, from which the real library computes the gradient of the values, are
 * NaN, because nothing reads them. */
static void write_norm_sums(const struct job *job, const struct values *gradient)
{
    const struct values values = read_values(&job->graph.line[0].x, job->values, channels_last, false);
    const int64_t pixels = values.dims[0] * values.dims[1] * values.dims[2];
    const float *const means = job->line_seconds[0], *const inverses = job->line_seconds[1];
    float *const scales = job->sum, *const biases = job->squares;
    for (int64_t c = 0; c < values.dims[3]; c++) {
        double scale = 0, bias = 0;
        for (int64_t i = 0; i < pixels; i++) {
            const size_t at = (size_t)i * values.row + (size_t)c;
            bias += (double)gradient->at[at];
            scale += (double)gradient->at[at] * ((double)values.at[at] - (double)means[c]);
        }
        scales[c] = (float)(scale * (double)inverses[c]);
        biases[c] = (float)bias;
        for (int i = 0; i < SIM_FACTORS; i++)
            ((float *)job->factors[i])[c] = NAN;
    }
    free(values.at);
}

static atomic_uint zero_inputs;

uint32_t sim_cudnn_zero_inputs(void)
{
    return atomic_load(&zero_inputs);
}

static void look_at_input(const struct values *values)
{
    size_t count = values->at != NULL ? values->row : 0, zeros = 0;
    for (int i = 0; i < 3; i++)
        count *= (size_t)values->dims[i];
    while (zeros < count && values->at[zeros] == 0)
        zeros++;
    if (values->at != NULL && zeros == count)
        atomic_fetch_add(&zero_inputs, 1);
}

static void compute(const struct job *job)
{
    const struct sim_operation *const convolution = &job->convolution;
    const struct sim_tensor *const read = &job->graph.operations[0].x;
    const bool tf32 = job->engine == SIM_ENGINE_TENSOR && read->type == CUDNN_DATA_FLOAT;
    struct values x = { .at = NULL }, w = { .at = NULL }, y = { .at = NULL };
    struct values result = open_values(sim_operation_result(convolution), channels_last);
    if (job->x != NULL) {
        x = read_values(read, job->x, channels_last, tf32);
        apply_some(job, 0, job->graph.convolution, &x);
    }
    if (job->w != NULL)
        w = read_values(&convolution->w, job->w, job->y == NULL ? filters_last : filters_first, tf32);
    if (job->y != NULL)
        y = read_values(&convolution->y, job->y, channels_last, tf32);
    look_at_input(&x);
    look_at_input(&w);
    look_at_input(&y);
    if (job->w == NULL)
        weight_gradient(job, &x, &y, &result);
    else
        gather(job, job->y == NULL ? &x : &y, &w, &result);
    finish_sums(job, &result);
    if (job->graph.has_norm)
        mask_by_norm(job, &result);
    else
        apply_some(job, job->graph.convolution + 1, job->graph.count, &result);
    write_values(job, &result);
    if (job->graph.has_statistics)
        write_statistics(job, &result);
    if (job->graph.has_norm)
        write_norm_sums(job, &result);
    free(x.at);
    free(w.at);
    free(y.at);
    free(result.at);
}

/* All memory of the job belongs to the device, and what it writes overlaps nothing else: an operation in place is not
 * supported. Returns the bytes of its tensors. */
static size_t check_memory(const struct job *job)
{
    const struct sim_operations *const graph = &job->graph;
    const struct sim_operation *const convolution = &job->convolution;
    const struct sim_operation *const statistics = sim_statistics_of(graph);
    const struct sim_operation *const norm = sim_norm_of(graph);
    const struct sim_operation *const summing = statistics != NULL ? statistics : norm;
    const size_t written = 4 + SIM_FACTORS;
    size_t count = written;
    struct sim_operand operands[8 + SIM_FACTORS + SIM_LINE + SIM_OPERATIONS_MAX] = {
        { "cudnnBackendExecute, result", job->result, sim_tensor_bytes(sim_operations_result(graph)) },
        { "cudnnBackendExecute, workspace", job->workspace, job->workspace_bytes },
        { "cudnnBackendExecute, sum", job->sum, summing == NULL ? 0 : sim_tensor_bytes(&summing->sum) },
        { "cudnnBackendExecute, squares", job->squares, summing == NULL ? 0 : sim_tensor_bytes(&summing->squares) },
    };
    for (int i = 0; i < SIM_FACTORS; i++)
        operands[4 + i] = (struct sim_operand){ "cudnnBackendExecute, factors", job->factors[i],
                                                norm == NULL ? 0 : sim_tensor_bytes(&norm->factors[i]) };
    operands[count++] = (struct sim_operand){ "cudnnBackendExecute, x", job->x,
                                              job->x == NULL ? 0 : sim_tensor_bytes(&graph->operations[0].x) };
    operands[count++] = (struct sim_operand){ "cudnnBackendExecute, w", job->w,
                                              job->w == NULL ? 0 : sim_tensor_bytes(&convolution->w) };
    operands[count++] = (struct sim_operand){ "cudnnBackendExecute, y", job->y,
                                              job->y == NULL ? 0 : sim_tensor_bytes(&convolution->y) };
    if (norm != NULL)
        operands[count++] = (struct sim_operand){ "cudnnBackendExecute, values", job->values,
                                                  sim_tensor_bytes(&norm->x) };
    for (int i = 0; i < SIM_LINE && norm != NULL; i++)
        operands[count++] = (struct sim_operand){ "cudnnBackendExecute, vector", job->line_seconds[i],
                                                  sim_tensor_bytes(&graph->line[i].b) };
    for (int64_t i = 0; i < graph->count; i++)
        operands[count++] = (struct sim_operand){ "cudnnBackendExecute, second input", job->seconds[i],
            job->seconds[i] != NULL ? sim_tensor_bytes(&graph->operations[i].b) : 0 };
    sim_check_operands(operands, count, written, job->device);
    return sim_operand_bytes(operands, count) - job->workspace_bytes;
}

static void run(void *argument)
{
    const struct job *const job = argument;
    check_memory(job);
    if (job->workspace_bytes > 0)
        memset(job->workspace, WORKSPACE_PATTERN, job->workspace_bytes);
    compute(job);
    if (job->workspace_bytes > 0)
        memset(job->workspace, WORKSPACE_PATTERN, job->workspace_bytes);
}

static cudnnStatus_t bind(const struct sim_pack *pack, const struct sim_tensor *tensor, void **memory_out)
{
    for (int64_t i = 0; i < pack->id_count; i++) {
        if (pack->ids[i] != tensor->id)
            continue;
        if (pack->pointers[i] == NULL)
            return sim_cudnn_fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "tensor %lld is NULL", (long long)tensor->id);
        if ((uintptr_t)pack->pointers[i] % (uintptr_t)tensor->alignment != 0)
            return sim_cudnn_fail(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER, "tensor %lld is not aligned to %lld",
                                  (long long)tensor->id, (long long)tensor->alignment);
        *memory_out = pack->pointers[i];
        return CUDNN_STATUS_SUCCESS;
    }
    return sim_cudnn_fail(CUDNN_STATUS_BAD_PARAM, "no pointer for tensor %lld", (long long)tensor->id);
}

static cudnnStatus_t bind_norm(struct job *job, const struct sim_pack *pack)
{
    const struct sim_operation *const norm = sim_norm_of(&job->graph);
    cudnnStatus_t status = bind(pack, &norm->x, &job->values);
    for (int i = 0; i < SIM_LINE && status == CUDNN_STATUS_SUCCESS; i++)
        status = bind(pack, &job->graph.line[i].b, &job->line_seconds[i]);
    for (int i = 0; i < SIM_FACTORS && status == CUDNN_STATUS_SUCCESS; i++)
        status = bind(pack, &norm->factors[i], &job->factors[i]);
    if (status == CUDNN_STATUS_SUCCESS)
        status = bind(pack, &norm->sum, &job->sum);
    return status == CUDNN_STATUS_SUCCESS ? bind(pack, &norm->squares, &job->squares) : status;
}

static cudnnStatus_t bind_all(struct job *job, const struct sim_pack *pack)
{
    const struct sim_operations *const graph = &job->graph;
    const struct sim_operation *const convolution = &job->convolution;
    const struct sim_tensor *const made = sim_operation_result(convolution);
    cudnnStatus_t status = bind(pack, sim_operations_result(graph), &job->result);
    if (status == CUDNN_STATUS_SUCCESS && made != &convolution->x)
        status = bind(pack, &graph->operations[0].x, &job->x);
    if (status == CUDNN_STATUS_SUCCESS && made != &convolution->w)
        status = bind(pack, &convolution->w, &job->w);
    if (status == CUDNN_STATUS_SUCCESS && made != &convolution->y)
        status = bind(pack, &convolution->y, &job->y);
    for (int64_t i = 0; i < graph->count && status == CUDNN_STATUS_SUCCESS; i++)
        if (graph->operations[i].has_b && !graph->operations[i].b.is_virtual)
            status = bind(pack, &graph->operations[i].b, &job->seconds[i]);
    if (status == CUDNN_STATUS_SUCCESS && graph->has_statistics)
        status = bind(pack, &sim_statistics_of(graph)->sum, &job->sum);
    if (status == CUDNN_STATUS_SUCCESS && graph->has_statistics)
        status = bind(pack, &sim_statistics_of(graph)->squares, &job->squares);
    return status == CUDNN_STATUS_SUCCESS && graph->has_norm ? bind_norm(job, pack) : status;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan_handle,
                                  cudnnBackendDescriptor_t pack_handle)
{
    SIM_CUDNN_ENTER();
    const struct sim_descriptor *const plan = sim_descriptor_of(plan_handle, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    const struct sim_descriptor *const pack = sim_descriptor_of(pack_handle, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    if (plan == NULL || pack == NULL)
        return sim_cudnn_fail(CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE, "not a plan and a variant pack");
    if (!plan->final || !pack->final)
        return sim_cudnn_fail(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "the plan or the pack is not finalised");
    struct job job = { .device = sim_handle_device(handle), .engine = plan->body.plan.config.engine.index };
    if (sim_handle_device(plan->body.plan.handle) != job.device)
        return sim_cudnn_fail(CUDNN_STATUS_BAD_PARAM, "the plan is not made for this device");
    job.graph = plan->body.plan.config.engine.graph;
    job.convolution = job.graph.operations[job.graph.convolution];
    job.workspace_bytes = (size_t)plan->body.plan.workspace;
    job.workspace = pack->body.pack.workspace;
    if (job.workspace_bytes > 0 && job.workspace == NULL)
        return sim_cudnn_fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no workspace");
    const cudnnStatus_t status = bind_all(&job, &pack->body.pack);
    if (status != CUDNN_STATUS_SUCCESS)
        return status;
    sim_count_bytes(__func__, check_memory(&job));
    sim_stream_push(sim_handle_stream(handle), run, &job, sizeof(job));
    return CUDNN_STATUS_SUCCESS;
}
