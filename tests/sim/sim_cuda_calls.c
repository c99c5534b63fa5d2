/* What tests that run on a GPU as well find in the simulated CUDA: the device, and counts of calls. */
#include "tests/cuda/cuda_calls.h"

#include <stdio.h>
#include <string.h>

#include "tests/helpers/test_device_kind.h"
#include "tests/sim/sim.h"

const char *const test_device_default = "cuda";

bool cuda_calls_open(char *why, size_t why_size)
{
    snprintf(why, why_size, "%s", "");
    return true;
}

/* The simulation replaces cudaLaunchKernelEx, which in the real header is a template that calls cudaLaunchKernelExC. */
uint64_t cuda_calls(const char *function)
{
    return sim_calls(strcmp(function, "cudaLaunchKernelExC") == 0 ? "cudaLaunchKernelEx" : function);
}

bool cuda_is_simulated(void)
{
    return true;
}

void cuda_slow_us(uint32_t us)
{
    sim_delay_us(us);
}
