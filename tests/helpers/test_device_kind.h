/* The kind of device on which a test program runs: PIPETRAIN_TEST_DEVICE in the environment; by default "cpu", or
 * "cuda" in programs that are linked to the simulated CUDA. One source tests every device. */
#ifndef PIPETRAIN_TEST_DEVICE_KIND_H
#define PIPETRAIN_TEST_DEVICE_KIND_H

#include <stdbool.h>

#include "stage/device.h"

extern const char *const test_device_default;

/* The operations of this kind, which has at least one device. Without a device, or where the kind is not built in,
 * prints why and ends the program with 77 (skipped), or with 1 if PIPETRAIN_TEST_REQUIRED=1. Called first from main,
 * before other threads start; sets an alarm of a quarter of an hour, unless there is one. */
const struct device_ops *test_device_ops(void);

/* Does the compute stream run in the thread that queues? Then a test need not wait for results. */
bool test_device_is_inline(void);

#endif
