/* The learning rate as a function of the step: the one place that knows it. */
#ifndef PIPETRAIN_LEARNING_RATE_H
#define PIPETRAIN_LEARNING_RATE_H

#include <stdint.h>

struct learning_rate { double constant; };

/* Of the run's training step `step`, counted from 0 over all epochs (span.step). */
double learning_rate_at(const struct learning_rate *rate, uint64_t step);

#endif
