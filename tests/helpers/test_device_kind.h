/* The kind of device a test program runs on: the environment's PIPETRAIN_TEST_DEVICE, when
 * unset "cpu", or "cuda" in programs linked to the simulated CUDA. One source tests every
 * device. */
#ifndef PIPETRAIN_TEST_DEVICE_KIND_H
#define PIPETRAIN_TEST_DEVICE_KIND_H

#include <stdbool.h>

#include "stage/device.h"

extern const char *const test_device_default;

/* The table of the kind, which has at least one device. Where it has none, or the kind is
 * not built in, ends the program with 77 (skipped), or, with PIPETRAIN_TEST_REQUIRED=1,
 * with 1; says why. First called from main, before other threads; where no alarm is set, sets one of
 * a quarter of an hour. */
const struct device_ops *test_device_ops(void);

/* Does the compute stream run in the thread that queues? Then a test may look at what it
 * queued without waiting. */
bool test_device_is_inline(void);

#endif
