/* --describe: what a model is made of. */
#ifndef PIPETRAIN_DESCRIBE_H
#define PIPETRAIN_DESCRIBE_H

#include <stdio.h>

#include "compute/net.h"
#include "tools/config/settings.h"

/* All models, a line each. */
void describe_models(FILE *out);
/* Layers, shapes, parameters, multiply-accumulates, and what a tower needs for values and gradients in training on the
 * CPU with the settings' batch (the recipe's, where none is set), precision, layout and threads; in fp32 where the CPU
 * does not compute in that precision. With devices.kind = cuda on a GPU, which need not be there, and what a step asks
 * of it. 0 or a negative errno. */
int describe_net(const struct net *net, struct settings *settings, FILE *out);

#endif
