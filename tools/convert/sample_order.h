/* The order of samples in shards. */
#ifndef PIPETRAIN_SAMPLE_ORDER_H
#define PIPETRAIN_SAMPLE_ORDER_H

#include <stdint.h>

#include "stage/random.h"

/* The numbers 0 ... count - 1 in an order that depends on key and count only; the caller frees it. NULL
 * without memory. */
uint64_t *sample_order(uint64_t count, struct random_key key);
/* The same numbers one after the other. */
uint64_t *sample_order_stored(uint64_t count);

#endif
