/* Multiplying and limiting floats in place, for the backends that compute on the host. */
#ifndef PIPETRAIN_SCALE_H
#define PIPETRAIN_SCALE_H

#include <stddef.h>

/* In the calling thread. Elementwise, so any split of a range gives the same bits. */
void scale_floats(float *floats, size_t count, float factor);
/* Those beyond it become `limit` or -limit; what is no number stays. */
void limit_floats(float *floats, size_t count, float limit);

#endif
