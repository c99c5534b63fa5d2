/* Mixup and CutMix: how inputs and losses of samples that are mixed in pairs are computed (struct mix in
 * stage/batch.h). All backends use these functions, on the host and on the device. */
#ifndef PIPETRAIN_COMPUTE_MIXING_H
#define PIPETRAIN_COMPUTE_MIXING_H

#include <stdbool.h>
#include <stdint.h>

#include "stage/batch.h"

#ifdef __CUDACC__
#define MIXING_RULE static __host__ __device__ inline
#else
#define MIXING_RULE static inline
#endif

/* The target of a sample: `share` of its own label, the rest of its partner's. */
struct mixed_label {
    int32_t label;              /* BATCH_NO_LABEL: no sample */
    int32_t other;
    float share;                /* 1: other is label */
};

/* The partner of sample i in a local batch of `count` samples; the last sample of an odd number is its own partner. */
MIXING_RULE uint32_t mixing_partner(uint32_t i, uint32_t count)
{
    return (i ^ 1) < count ? i ^ 1 : i;
}

/* How sample i is mixed. It is not mixed without mixes (NULL), without a partner, or if it or its partner has no
 * label. */
MIXING_RULE struct mix mixing_find(const struct mix *mixes, const int32_t *labels, uint32_t i, uint32_t count)
{
    const uint32_t partner = mixing_partner(i, count);
    const struct mix alone = { 1, 0, 0, 0, 0 };
    return mixes == NULL || partner == i || labels[i] < 0 || labels[partner] < 0 ? alone : mixes[i];
}

/* The mixed value of a channel of pixel (y, x), in 0..255, before the transform. */
MIXING_RULE float mixing_pixel(const struct mix *mix, uint8_t own, uint8_t other, uint32_t y, uint32_t x)
{
    const bool is_inside = y >= mix->top && y < mix->bottom && x >= mix->left && x < mix->right;
    const float share = mix->top == mix->bottom ? mix->share : is_inside ? 0.0f : 1.0f;
    return share * (float)own + (1 - share) * (float)other;
}

MIXING_RULE struct mixed_label mixing_label(const struct mix *mixes, const int32_t *labels, uint32_t i, uint32_t count)
{
    const struct mix mix = mixing_find(mixes, labels, i, count);
    const struct mixed_label alone = { labels[i], labels[i], 1 };
    const struct mixed_label mixed = { labels[i], labels[mixing_partner(i, count)], mix.share };
    return mix.share == 1 ? alone : mixed;
}

/* The class weight of a sample: the mean of those of its labels, by their shares. */
MIXING_RULE float mixing_class_weight(const struct mixed_label *wanted, const float *class_weights)
{
    const float own = class_weights[wanted->label];
    return wanted->share == 1 ? own : wanted->share * own + (1 - wanted->share) * class_weights[wanted->other];
}

/* The label that counts as correct: the one with the larger share. */
MIXING_RULE int32_t mixing_answer(const struct mixed_label *wanted)
{
    return wanted->share >= 0.5f ? wanted->label : wanted->other;
}

#endif
