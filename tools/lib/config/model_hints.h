/* Suggestions for a model or tensor that does not exist. */
#ifndef PIPETRAIN_MODEL_HINTS_H
#define PIPETRAIN_MODEL_HINTS_H

#include "compute/net.h"

#define MODEL_HINT_SIZE 320

/* Write a message such as "there is no model 'resnet50' (did you mean 'resnet50_v1' or 'resnet50_v2'?)": at most four
 * names, the nearest first, then those that contain the text. */
void model_hint(const char *name, char text[MODEL_HINT_SIZE]);

#define TENSOR_HINT_SIZE 256

/* The hint for a pattern that matches nothing: " (did you mean 'layer4.*'?)", a name or a prefix; or, if none is near,
 * " (they begin with conv1, bn1, layer1, ..., fc)". */
void tensor_hint(const struct net *net, const char *pattern, char text[TENSOR_HINT_SIZE]);

#endif
