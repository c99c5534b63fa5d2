/* Dropout masks, also of whole samples: a function of (seed, layer, epoch, position, element) without state, so that
 * threads, towers and local batches do not change which values are dropped.
 *
 * Definition: a Philox block (key random_key(seed, RANDOM_DROPOUT, layer)) gives 16 bits to each of eight elements of a
 * sample. Element e of the sample at `position` in `epoch` uses the block at counter {e / 8, low 32 bits of position,
 * high 32 bits of position, epoch}, of that block the word e / 2 % 4, and of that word the low half when e is even,
 * else the high half. The value is kept when the half >= threshold = rate * 2^16, rounded; kept values are scaled by
 * 2^16 / (2^16 - threshold).
 *
 * e is the index of the value in its sample in C,H,W order, whatever the order in memory: all backends and layouts drop
 * the same values. */
#ifndef PIPETRAIN_DROPOUT_H
#define PIPETRAIN_DROPOUT_H

#include <stddef.h>
#include <stdint.h>

#include "stage/random.h"

struct dropout {
    struct random_key key;
    uint16_t threshold;         /* values whose 16 bits are below it are dropped */
    float scale;                /* factor of kept values */
};

/* `rate` in [0, 1); `layer` is net_random_stream. */
void dropout_init(struct dropout *dropout, uint64_t seed, uint32_t layer, float rate);
/* The mask of elements 0 .. count - 1 of one sample: 1 kept, 0 dropped. */
void dropout_mask(const struct dropout *dropout, uint32_t epoch, uint64_t position, size_t count,
                  uint8_t *mask_out);
/* The same in plain loops, for any CPU. */
void dropout_mask_plain(const struct dropout *dropout, uint32_t epoch, uint64_t position, size_t count,
                        uint8_t *mask_out);
/* Stochastic depth drops whole samples: the factor of all values of the sample at `position`, dropout->scale, or 0 when
 * its element 0 is dropped. */
float dropout_sample_factor(const struct dropout *dropout, uint32_t epoch, uint64_t position);
/* to[i] = mask[i] ? from[i] * scale : 0, for values in forward and gradients in backward. `to` may be `from`. */
void dropout_apply(const struct dropout *dropout, const uint8_t *mask, const float *from, float *to, size_t count);

#endif
