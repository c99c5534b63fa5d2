/* --describe: the layers, sizes and needs of a model. */
#ifndef PIPETRAIN_DESCRIBE_H
#define PIPETRAIN_DESCRIBE_H

#include <stdio.h>

#include "compute/net.h"
#include "tools/lib/config/settings.h"

/* List all models. */
void describe_models(FILE *out);
/* Print layers, shapes, parameters, multiply-accumulates, and the memory for activations and gradients in training on
 * the CPU with the settings' batch (else the recipe's), precision, layout and threads; in fp32 where the CPU does not
 * support the precision. With devices.kind = cuda for a GPU, which need not be there, also the calls of a step. 0 or a
 * negative errno. */
int describe_net(const struct net *net, struct settings *settings, FILE *out);
/* Print the network as a model file (compute/netfile/net_file.h). If the settings name the model, its recipe follows in
 * comments, as sections of a configuration, because a file has no recipe. 0 or a negative errno. */
int describe_as_file(const struct net *net, const struct settings *settings, FILE *out);

#endif
