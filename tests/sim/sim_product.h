/* A matrix product queued by the simulated cuBLASLt. */
#ifndef PIPETRAIN_SIM_PRODUCT_H
#define PIPETRAIN_SIM_PRODUCT_H

#include <library_types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Column-major, columns `stride` apart. */
struct sim_matrix { cudaDataType_t type; size_t stride; bool transposed; void *values; };

/* D (m x n) = alpha * op(A) * op(B) + beta * D. */
struct sim_product {
    size_t m, n, k;
    struct sim_matrix a, b, d;
    float alpha, beta;
    uint32_t epilogue;
    void *bias;
    bool tf32;                  /* inputs are rounded to tf32 */
    bool split;                 /* op(A)'s columns are summed in two parts, through the workspace */
    bool in_place;              /* in two parts, in the order they happen to be done */
    void *workspace;
    size_t workspace_bytes;
};

/* Compute it: `product` is a struct sim_product. On the stream's thread. */
void sim_product_run(void *product);

#endif
