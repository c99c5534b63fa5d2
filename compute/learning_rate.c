/* How fast a run learns. Called by trainers when they queue an update, and by reports. */
#include "compute/learning_rate.h"

double learning_rate_at(const struct learning_rate *rate, uint64_t step)
{
    (void)step;
    return rate->constant;
}
