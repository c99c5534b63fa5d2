/* A matrix product that the simulated cuBLASLt queues. */
#ifndef PIPETRAIN_SIM_PRODUCT_H
#define PIPETRAIN_SIM_PRODUCT_H

#include <library_types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Column-major, with `stride` elements from one column to the next. */
struct sim_matrix { cudaDataType_t type; size_t stride; bool transposed; void *values; };

/* D (m x n) = alpha * op(A) * op(B) + beta * D. */
struct sim_product {
    size_t m, n, k;
    struct sim_matrix a, b, d;
    float alpha, beta;
    uint32_t epilogue;
    void *bias;
    bool tf32;                  /* inputs are rounded to tf32 */
    bool split;                 /* summed in two parts, in the workspace */
    bool in_place;              /* summed in two parts, in an order that varies */
    void *workspace;
    size_t workspace_bytes;
};

/* Computes a struct sim_product. Runs on the stream's thread. */
void sim_product_run(void *product);

#endif
