/* Automatic augmentation: which operations change a training image. The spaces of operations and magnitudes are those
 * of torchvision's classes TrivialAugmentWide (Mueller, Hutter 2021), RandAugment (Cubuk et al. 2019) and AutoAugment
 * with the ImageNet policy (Cubuk et al. 2018). */
#ifndef PIPETRAIN_POLICY_H
#define PIPETRAIN_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "loader/augment/augment.h"
#include "loader/augment/operations.h"

/* The magnitude of an operation in step `bin` of a method, for samples of this shape. It is not negative; policy_draw
 * draws its sign if policy_is_signed. `bin` is less than policy_bins. Not for POLICY_NONE. */
double policy_magnitude(enum policy policy, enum operation_kind kind, uint32_t bin, const struct image_shape *shape);
uint32_t policy_bins(enum policy policy);
bool policy_is_signed(enum operation_kind kind);

/* Draw the operations of a training image, in their order: a pure function of augmentation and request. Returns their
 * number, at most POLICY_OPERATIONS_MAX. Any thread; allocates nothing. */
uint32_t policy_draw(const struct augment *augment, const struct image_request *request,
                     struct operation operations_out[POLICY_OPERATIONS_MAX]);

#endif
