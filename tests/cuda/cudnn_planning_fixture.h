/* Fixture for tests of planning convolutions: devices that are only described to cuDNN, and shapes. Include it after
 * cmocka's headers. */
#ifndef PIPETRAIN_TEST_CUDNN_PLANNING_FIXTURE_H
#define PIPETRAIN_TEST_CUDNN_PLANNING_FIXTURE_H

#include "compute/cuda/cudnn_conv.h"

#define WORKSPACE_MAX ((size_t)256 << 20)

enum { SM_75, SM_80, SM_90, SM_100, SM_120, DEVICE_COUNT };

extern cudnnBackendDescriptor_t described_devices[DEVICE_COUNT];

/* The device called so (sm_90), or DEVICE_COUNT. */
int described_device(const char *name);

/* False when cuDNN or one of its libraries is missing. */
bool described_devices_open(void);
void described_devices_close(void);
struct conv_planner planner_for(int device);

/* Square images and windows; before and after are the padding. */
struct conv_shape square(enum product_pass pass, enum precision precision, uint32_t in_channels, uint32_t size,
                         uint32_t out_channels, uint32_t kernel, uint32_t stride, uint32_t before, uint32_t after);

/* Asserts that a plan exists for the whole shape, within the rules; `fast`: not by engine 0, which is slow. Returns
 * its workspace. Prints the plan for sm_90 after `what`. */
size_t assert_plans(int device, const struct conv_shape *shape, bool fast, const char *what);

#endif
