/* Parse ranges ("100..299") and intervals of steps ("epoch", "500"). Pure functions, any
 * thread. */
#ifndef PIPETRAIN_INTERVALS
#define PIPETRAIN_INTERVALS

#include <stdbool.h>
#include <stdint.h>


struct trace_steps { uint64_t first, last; };   /* counted from 1; both 0: the last steps of the run */

/* Parse "100..299", or "" for the last steps. 0 or -EINVAL. */
int trace_steps_read(const char *text, struct trace_steps *steps_out);

struct histogram_steps {
    bool each_epoch;            /* after the last step of each epoch */
    uint64_t every;             /* after each multiple of this number of steps; 0: never */
};

/* Parse "none" or "", "epoch", "500" or "500 steps". 0 or -EINVAL. */
int histogram_steps_read(const char *text, struct histogram_steps *steps_out);

#endif
