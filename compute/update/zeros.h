/* Clearing memory of a device on its compute stream, which devices have no operation for: by copies of zeros. */
#ifndef PIPETRAIN_ZEROS_H
#define PIPETRAIN_ZEROS_H

#include "stage/device.h"

#define ZERO_FLOATS 16384u      /* of the zeros */

/* Queue: floats[0 .. count), device memory, become 0. zeros: ZERO_FLOATS of the device's memory, which are. 0 or a
 * negative errno. */
int zeros_spread(struct stream *compute, const float *zeros, float *floats, size_t count);

#endif
