/* --describe: what a model is made of. */
#ifndef PIPETRAIN_DESCRIBE_H
#define PIPETRAIN_DESCRIBE_H

#include <stdint.h>
#include <stdio.h>

#include "compute/net.h"

/* All models, a line each. */
void describe_models(FILE *out);
/* Layers, shapes, parameters, multiply-accumulates, and what a training step of `batch` samples needs
 * for values and gradients in their plain layout, nothing folded. 0 or a negative errno. */
int describe_net(const struct net *net, uint32_t batch, FILE *out);

#endif
