/* How weights were trained, by their metadata, compared with the configuration. Main thread only. */
#ifndef PIPETRAIN_WEIGHTS_AGREE_H
#define PIPETRAIN_WEIGHTS_AGREE_H

#include <stdbool.h>
#include <stdint.h>

#include "compute/net.h"
#include "tools/lib/config/problems.h"
#include "tools/lib/config/settings.h"
#include "tools/lib/results/initial_weights.h"

/* What weights are loaded for. Training scales its validation images as its own configuration says; only an evaluation
 * must not see what was trained on. */
enum weights_use { WEIGHTS_TRAINED_ON, WEIGHTS_EVALUATED, WEIGHTS_PREDICTED_WITH };

/* Compare weights with the settings and the net of a configuration: the transform of pixels, the scaling of validation
 * images, the label offset, and the layers whose tensors are loaded (compute/net_difference.h). What the configuration
 * does not set becomes that of the weights, in `settings` and `net`. Where both say different things: -EINVAL with a
 * problem for each that has both values; with model.weights_differ, these are logged and the configuration's are used.
 * Weights without metadata are compared with the models by name that have such tensors, and a difference is logged. 0,
 * -EINVAL or -ENOMEM. */
int weights_agree(const struct initial_weights *weights, const char *path, struct settings *settings, struct net *net,
                  enum weights_use use, struct problems *problems);

/* Use the transform of pixels of a network's text (WEIGHTS_NET; NULL: none) where the configuration sets none. 0 or
 * -ENOMEM. */
int weights_use_transform(const char *net_text, const struct settings *settings, struct net *net);

/* The label offset that model.weights were trained with, if the file has one and its last layer is loaded. Errors of
 * the file are reported when it is opened for loading. */
bool weights_label_offset(const struct settings *settings, int64_t *offset_out);

#endif
