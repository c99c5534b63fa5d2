/* --describe: what a model is made of. */
#ifndef PIPETRAIN_DESCRIBE_H
#define PIPETRAIN_DESCRIBE_H

#include <stdint.h>
#include <stdio.h>

#include "compute/net.h"

/* All models, a line each. */
void describe_models(FILE *out);
/* Layers, shapes, parameters, multiply-accumulates, and memory at `batch` samples. */
void describe_net(const struct net *net, uint32_t batch, FILE *out);

#endif
