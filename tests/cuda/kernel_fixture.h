/* Fixture of tests of kernels and products: device memory between guards, and typed random values. A failure ends the
 * test. */
#ifndef PIPETRAIN_TEST_KERNEL_FIXTURE_H
#define PIPETRAIN_TEST_KERNEL_FIXTURE_H

#include <stddef.h>
#include <stdint.h>

#include <cuda_runtime_api.h>

#include "compute/cuda/kernels.h"
#include "tests/helpers/test.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define FOR_EACH_TYPE(type) for (enum value_type type = VALUE_FP32; type < VALUE_TYPE_COUNT; type++)
#define CUDA_OK(call) assert_int_equal(call, cudaSuccess)
#define INVALID(call) assert_int_equal(call, cudaErrorInvalidValue)
#define MISALIGNED(call) assert_int_equal(call, cudaErrorMisalignedAddress)

enum { POISON_BYTE = 0xff };

extern cudaStream_t stream;

/* For main: `run` is the tests_run of its file, called with functions that open and close `stream`. Returns the exit
 * status, 77 when there is no device. */
int kernel_tests_run(int (*run)(CMFixtureFunction set_up, CMFixtureFunction tear_down));

/* `bytes` of device memory: a copy of `from`, or poison (NaN in every type) when it is NULL. */
void *area_new(const void *from, size_t bytes);
/* `bytes` of host memory, zeroed. */
void *host_new(size_t bytes);
/* Frees all memory of the two functions above; the guards around device memory must be intact. */
void areas_close(void);
/* Copies from the device after everything queued before. */
void read_back(const void *from, void *to, size_t bytes);
/* The same into new host memory. */
void *device_copy(const void *device, size_t bytes);
void assert_holds(const void *device, const void *expected, size_t bytes);

float rounded(enum value_type type, float value);
/* Device memory of `values`, rounded to the type. */
void *values_new(enum value_type type, const float *values, size_t count);
void *values_poison(enum value_type type, size_t count);
/* Writes values, rounded to the type, to existing device memory. */
void values_write(enum value_type type, void *device, const float *values, size_t count);
float *values_read(enum value_type type, const void *device, size_t count);
/* The device has the bits of `expected`, rounded once. */
void assert_values(enum value_type type, const void *device, const float *expected, size_t count);
void assert_within(double found, double expected, double relative, double absolute);

/* Host memory of host_new: zeros, with room for one more than `count`. */
float *floats_new(size_t count);
/* Random normal numbers, rounded to the type. */
float *draw(enum value_type type, uint32_t what, size_t count);
/* Random whole numbers from -limit to limit: exact in every type and sum, and often equal. */
float *draw_whole(uint32_t what, size_t count, uint32_t limit);

extern const size_t odd_counts[10];

#endif
