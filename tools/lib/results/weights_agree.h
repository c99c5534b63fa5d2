/* Compares how weights were trained, according to their metadata, with the configuration. Main thread only. */
#ifndef PIPETRAIN_WEIGHTS_AGREE_H
#define PIPETRAIN_WEIGHTS_AGREE_H

#include <stdbool.h>
#include <stdint.h>

#include "compute/net.h"
#include "tools/lib/config/problems.h"
#include "tools/lib/config/settings.h"
#include "tools/lib/results/initial_weights.h"

/* The purpose of loading weights. Training scales validation images according to its own configuration; only an
 * evaluation must not use records on which the weights were trained. */
enum weights_use { WEIGHTS_TRAINED_ON, WEIGHTS_EVALUATED, WEIGHTS_PREDICTED_WITH };

/* Compare weights with the settings and the net of a configuration: the transform of pixels, the scaling of validation
 * images, the label offset, and the layers whose tensors are loaded (compute/net_difference.h). Options that the
 * configuration does not set get the values of the weights, in `settings` and `net`. If both differ: -EINVAL with a
 * problem for each difference that contains both values; with model.weights_differ, differences are logged and the
 * configuration's values are used. Weights without metadata are compared with the named models that have the same
 * tensors, and a difference is logged. 0, -EINVAL or -ENOMEM. */
int weights_agree(const struct initial_weights *weights, const char *path, struct settings *settings, struct net *net,
                  enum weights_use use, struct problems *problems);

/* Use the transform of pixels in a network's text (WEIGHTS_NET; NULL: none), unless the configuration sets one. 0 or
 * -ENOMEM. */
int weights_use_transform(const char *net_text, const struct settings *settings, struct net *net);

/* Find the label offset with which model.weights were trained, if the file has one and its last layer is loaded. Errors
 * of the file are reported when it is opened for loading. */
bool weights_label_offset(const struct settings *settings, int64_t *offset_out);

#endif
