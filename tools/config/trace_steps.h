/* Which steps a trace is of, as people write it. Pure, any thread. */
#ifndef PIPETRAIN_TRACE_STEPS_H
#define PIPETRAIN_TRACE_STEPS_H

#include <stdint.h>

struct trace_steps { uint64_t first, last; };   /* counted from 1; both 0: the last ones of the run */

/* "100..299", "" (the last ones). 0, or -EINVAL. */
int trace_steps_read(const char *text, struct trace_steps *steps_out);

#endif
