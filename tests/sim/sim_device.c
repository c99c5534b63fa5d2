/* The device of test programs that are linked to the simulated CUDA. */
#include "tests/helpers/test_device_kind.h"

const char *const test_device_default = "cuda";
