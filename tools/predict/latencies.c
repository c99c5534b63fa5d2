/* Times below 64 ns have a place each; of larger ones the places are the first 6 bits. */
#include "tools/predict/latencies.h"

#include <math.h>

static uint32_t shift_of(uint64_t time_ns)
{
    return time_ns < 2 * LATENCY_STEPS ? 0 : 58u - (uint32_t)__builtin_clzll(time_ns);
}

/* The middle of the times of a place. */
static uint64_t time_of(uint32_t place)
{
    const uint32_t shift = place < 2 * LATENCY_STEPS ? 0 : place / LATENCY_STEPS - 1;
    const uint64_t first = (uint64_t)(place - shift * LATENCY_STEPS) << shift;
    return first + ((UINT64_C(1) << shift) >> 1);
}

void latencies_add(struct latencies *latencies, uint64_t time_ns)
{
    const uint32_t shift = shift_of(time_ns);
    latencies->places[shift * LATENCY_STEPS + (uint32_t)(time_ns >> shift)]++;
    latencies->count++;
}

uint64_t latencies_quantile(const struct latencies *latencies, double share)
{
    const uint64_t rank = (uint64_t)ceil(share * (double)latencies->count);
    uint64_t seen = 0;
    for (uint32_t i = 0; i < LATENCY_PLACES; i++) {
        seen += latencies->places[i];
        if (seen >= rank && seen > 0)
            return time_of(i);
    }
    return 0;
}
