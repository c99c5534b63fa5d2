/* Ranges in builds without NVTX do nothing. */
#include "stage/trace/range.h"

void range_prepare(void)
{
}

void range_begin(enum trace_name name, uint64_t batch)
{
    (void)name;
    (void)batch;
}

void range_end(void)
{
}
