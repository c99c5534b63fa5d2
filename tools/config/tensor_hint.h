/* The tensors of a network that somebody probably meant. */
#ifndef PIPETRAIN_TENSOR_HINT_H
#define PIPETRAIN_TENSOR_HINT_H

#include "compute/net.h"

#define TENSOR_HINT_SIZE 256

/* Behind a pattern that matches none: " (did you mean 'layer4.*'?)", a name or the front of some; or, where none is
 * near, " (they begin with conv1, bn1, layer1, ..., fc)". */
void tensor_hint(const struct net *net, const char *pattern, char text[TENSOR_HINT_SIZE]);

#endif
