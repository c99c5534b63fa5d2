/* How training samples are mixed in pairs: mixup (Zhang, Cisse, Dauphin, Lopez-Paz 2018, "mixup: Beyond Empirical Risk
 * Minimization") and CutMix (Yun et al. 2019, "CutMix: Regularization Strategy to Train Strong Classifiers with
 * Localizable Features"). Drawn here, sample by sample; the device mixes (compute/mixing.h). */
#ifndef PIPETRAIN_LOADER_MIXING_H
#define PIPETRAIN_LOADER_MIXING_H

#include "loader/augment/augment.h"
#include "stage/batch.h"

static inline bool mixing_is_on(const struct augment *augment)
{
    return augment->mixup > 0 || augment->cutmix > 0;
}

/* How the sample at `position` of the epoch's training pass is mixed, of height x width pixels: a pure function of all
 * arguments. With probability `mixed` it is, by mixup or by CutMix where both are on, each with probability 1/2. Its
 * own share is drawn from the distribution Beta(a, a), a being the number of the method. CutMix takes a box of
 * sqrt(1 - share) times both sides around a uniform centre, cut at the sides; the share is that of the pixels outside
 * then. Any thread; allocates nothing. */
struct mix mixing_draw(const struct augment *augment, uint32_t epoch, uint64_t position, uint32_t height,
                       uint32_t width);

#endif
