/* Checks whether two networks compute the same with the same weights, which the names and shapes of their tensors do
 * not show. Used while a run is being set up. */
#ifndef PIPETRAIN_NET_DIFFERENCE_H
#define PIPETRAIN_NET_DIFFERENCE_H

#include "compute/net.h"

#define NET_DIFFERENCE_SIZE 512u

/* Compare the layers of `ours` that have a loaded parameter (is_loaded, by parameter) with those of the same names in
 * `theirs`: their windows, strides, padding and epsilons, and the layers without parameters between them, up to the
 * loss. Layers that are not loaded, layers that only they read, dropout, image sizes, classes and initial values are
 * not compared. Returns the number of layers that differ, or -ENOMEM; text_out describes the first: "'c1' is conv2d
 * kernel 3x3 stride 1x1 padding 1,1,1,1, there conv2d kernel 3x3 stride 2x2 padding 0,1,0,1". */
int net_layers_differ(const struct net *ours, const struct net *theirs, const bool *is_loaded,
                      char text_out[NET_DIFFERENCE_SIZE]);

#endif
