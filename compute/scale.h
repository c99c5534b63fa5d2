/* Multiplying, mixing and limiting floats in place, for the backends that compute on the host. */
#ifndef PIPETRAIN_SCALE_H
#define PIPETRAIN_SCALE_H

#include <stddef.h>

/* In the calling thread. Elementwise, so any split of a range gives the same bits. */
void floats_scale(float *floats, size_t count, float factor);
/* floats[i] += share * (more[i] - keep * floats[i]): with share 1 and keep 0 a sum, with keep 1 a step of the length
 * `share` from the one to the other. */
void floats_axpby(float *floats, const float *more, size_t count, float share, float keep);
/* Those beyond it become `limit` or -limit; what is no number stays. */
void floats_clip(float *floats, size_t count, float limit);

#endif
