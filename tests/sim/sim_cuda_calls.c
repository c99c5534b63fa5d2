/* Counts of calls of the simulated CUDA, for tests that run on a GPU as well. */
#include "tests/cuda/cuda_calls.h"

#include <stdio.h>
#include <string.h>

#include "tests/sim/sim.h"

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
