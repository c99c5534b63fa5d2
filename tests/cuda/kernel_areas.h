/* What the tests of kernels share: device memory with guards around it, full of NaNs before
 * it is written, and numbers of every type, drawn and compared. Failures end the test. */
#ifndef PIPETRAIN_TEST_KERNEL_AREAS_H
#define PIPETRAIN_TEST_KERNEL_AREAS_H

#include <stddef.h>
#include <stdint.h>

#include <cuda_runtime_api.h>

#include "compute/cuda/kernels.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define FOR_EACH_TYPE(type) for (enum value_type type = VALUE_FP32; type < VALUE_TYPE_COUNT; type++)
#define CUDA_OK(call) assert_int_equal(call, cudaSuccess)

enum { POISON_BYTE = 0xff };

/* What kernels are queued on. */
extern cudaStream_t stream;

/* 0, or 77 when there is no device, with a message: the exit status of a test that cannot run. */
int kernel_test_status(void);
/* For cmocka_run_group_tests. */
int kernel_test_open(void **state);
int kernel_test_close(void **state);

/* `bytes` of device memory: a copy of `from`, or poison (NaN in every type) when it is NULL. */
void *area_new(const void *from, size_t bytes);
/* Free all areas; their guards must be as they were. */
void areas_close(void);
/* What a kernel queued before has written. */
void read_back(const void *from, void *to, size_t bytes);
void assert_holds(const void *device, const void *expected, size_t bytes);

float rounded(enum value_type type, float value);
/* An area of numbers of a type, rounded from `values`. */
void *values_new(enum value_type type, const float *values, size_t count);
void *values_poison(enum value_type type, size_t count);
void values_read(enum value_type type, const void *device, float *values, size_t count);
/* Bit by bit what `expected` is when rounded once. */
void assert_values(enum value_type type, const void *device, const float *expected, size_t count);
void assert_near(double found, double expected, double relative, double absolute);

/* Zeros on the host, for free(); room for one more than `count`. */
float *floats_new(size_t count);
/* Normal numbers, already of the type. */
float *draw(enum value_type type, uint32_t what, size_t count);
/* Whole numbers from -limit to limit: exact in every type and sum, and often equal. */
float *draw_whole(uint32_t what, size_t count, uint32_t limit);

extern const size_t odd_counts[10];

#endif
