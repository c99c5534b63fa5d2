/* What the tests of planning convolutions share: devices that are described to cuDNN but not there,
 * and the shapes of convolutions. After cmocka's headers. */
#ifndef PIPETRAIN_TEST_CUDNN_PLANNING_FIXTURE_H
#define PIPETRAIN_TEST_CUDNN_PLANNING_FIXTURE_H

#include "compute/cuda/cudnn_conv.h"

#define WORKSPACE_MAX ((size_t)256 << 20)

enum { SM_75, SM_80, SM_90, SM_100, SM_120, DEVICE_COUNT };

extern cudnnBackendDescriptor_t described_devices[DEVICE_COUNT];

/* False when cuDNN or a library it loads is not here. */
bool described_devices_open(void);
void described_devices_close(void);
struct conv_planner planner_for(int device);

/* Square images and windows; before and after are the padding. */
struct conv_shape square(enum product_pass pass, enum precision precision, uint32_t in_channels, uint32_t size,
                         uint32_t out_channels, uint32_t kernel, uint32_t stride, uint32_t before, uint32_t after);

/* There is a plan that does all of the shape and keeps the rules; fast: engine 0, which does everything,
 * slowly, is not taken. Its workspace. Prints the plan for sm_90 behind `what`. */
size_t assert_plans(int device, const struct conv_shape *shape, bool fast, const char *what);

#endif
