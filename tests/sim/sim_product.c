/* Matrix products on the CPU with fp32 sums, for the simulated cuBLASLt. A product whose reduction may be in place adds
 * its two parts in another order in every second run, so that its results vary. */
#include "tests/sim/sim_product.h"

#include <cublasLt.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/sim_values.h"

/* out[row * row_step + column * column_step] = op(matrix)(row, column), for all rows and columns. */
static void matrix_read(const struct sim_matrix *matrix, size_t rows, size_t columns, bool tf32, float *out,
                        size_t row_step, size_t column_step)
{
    for (size_t column = 0; column < columns; column++)
        for (size_t row = 0; row < rows; row++) {
            const size_t i = matrix->transposed ? row * matrix->stride + column : column * matrix->stride + row;
            const float value = sim_value_read(matrix->type, matrix->values, i);
            out[row * row_step + column * column_step] = tf32 ? sim_tf32_round(value) : value;
        }
}

/* sums[0..m) += a[i][0..m) * b[i] for i from begin to end. */
static void sum_products(const float *a, const float *b, size_t m, size_t begin, size_t end, float *restrict sums)
{
    for (size_t i = begin; i < end; i++) {
        const float factor = b[i];
        const float *const row = a + i * m;
        for (size_t j = 0; j < m; j++)
            sums[j] += row[j] * factor;
    }
}

/* sums[0..m) = one column of the product. sums has room for m more floats, which are scratch. */
static void column_sums(const struct sim_product *product, const float *a, const float *b, bool backwards, float *sums)
{
    const size_t middle = product->split || product->in_place ? product->k / 2 : 0;
    memset(sums, 0, 2 * product->m * sizeof(*sums));
    if (product->in_place) {        /* the part that finishes first is added first */
        sum_products(a, b, product->m, backwards ? middle : 0, backwards ? product->k : middle, sums);
        sum_products(a, b, product->m, backwards ? 0 : middle, backwards ? middle : product->k, sums);
        return;
    }
    sum_products(a, b, product->m, 0, middle, sums);
    sum_products(a, b, product->m, middle, product->k, sums + product->m);
    for (size_t i = 0; i < product->m; i++)
        sums[i] += sums[product->m + i];
}

static float finish_value(const struct sim_product *product, size_t row, float sum, size_t place)
{
    float value = product->alpha * sum;
    if (product->beta != 0)
        value += product->beta * sim_value_read(product->d.type, product->d.values, place);
    if (product->epilogue & CUBLASLT_EPILOGUE_BIAS)
        value += sim_value_read(product->d.type, product->bias, row);
    return product->epilogue & CUBLASLT_EPILOGUE_RELU && value <= 0 ? 0.0f : value;
}

static void bias_gradient(const struct sim_product *product, const float *b)
{
    for (size_t column = 0; column < product->n; column++) {
        float sum = 0;
        for (size_t i = 0; i < product->k; i++)
            sum += b[column * product->k + i];
        sim_value_write(product->d.type, product->bias, column, sum);
    }
}

static void multiply(const struct sim_product *product, const float *a, const float *b, bool backwards, float *sums)
{
    for (size_t column = 0; column < product->n; column++) {
        column_sums(product, a, b + column * product->k, backwards, sums);
        for (size_t row = 0; row < product->m; row++) {
            const size_t place = column * product->d.stride + row;
            sim_value_write(product->d.type, product->d.values, place, finish_value(product, row, sums[row], place));
        }
    }
}

/* Copies of A and B are stored in the order in which the sums read them: columns of op(A), and columns of op(B). */
void sim_product_run(void *arguments)
{
    static atomic_uint runs;
    const struct sim_product *const product = arguments;
    float *const a = sim_alloc((product->m * product->k + product->k * product->n + 2 * product->m) * sizeof(*a));
    float *const b = a + product->m * product->k;
    matrix_read(&product->a, product->m, product->k, product->tf32, a, 1, product->m);
    matrix_read(&product->b, product->k, product->n, product->tf32, b, 1, product->k);
    if (product->workspace_bytes > 0)
        memset(product->workspace, 0xff, product->workspace_bytes);
    multiply(product, a, b, atomic_fetch_add(&runs, 1) % 2 == 1, b + product->k * product->n);
    if (product->epilogue == CUBLASLT_EPILOGUE_BGRADB)
        bias_gradient(product, b);
    free(a);
}
