/* What test programs linked to the simulated CUDA run on. */
#include "tests/helpers/test_device_kind.h"

const char *const test_device_default = "cuda";
