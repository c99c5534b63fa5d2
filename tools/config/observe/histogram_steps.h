/* Behind which steps there are histograms, as people write it. Pure, any thread. */
#ifndef PIPETRAIN_HISTOGRAM_STEPS_H
#define PIPETRAIN_HISTOGRAM_STEPS_H

#include <stdbool.h>
#include <stdint.h>

struct histogram_steps {
    bool each_epoch;            /* behind its last step */
    uint64_t every;             /* training steps of the run; 0: not by steps */
};

/* "none", "" (the same), "epoch", "500", "500 steps". 0, or -EINVAL. */
int histogram_steps_read(const char *text, struct histogram_steps *steps_out);

#endif
