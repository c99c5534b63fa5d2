/* How many GPUs the process can use, and which reach which. */
#ifndef PIPETRAIN_CUDA_COUNT_H
#define PIPETRAIN_CUDA_COUNT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stage/library.h"

/* As device_ops.count. The first call of CUDA: from main, before other threads. */
uint32_t cuda_count(char *why, size_t why_size);
/* The most devices that cuda_count can find, by the device files in `folder` ("/dev") and CUDA_VISIBLE_DEVICES, without
 * a call of CUDA; UINT32_MAX where neither says. */
uint32_t cuda_count_at_most(const char *folder);
/* As device_ops.reaches. A device reaches itself. */
bool cuda_reaches(uint32_t index, uint32_t other);
/* Versions of CUDA as 1000 * major + 10 * minor, 0 where there is none. */
int cuda_driver_version(void);
int cuda_runtime_version(void);
extern const struct library cuda_libraries[];

#endif
