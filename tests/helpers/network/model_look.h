/* Find layers and parameters of a model, for tests. A missing one fails the test. */
#ifndef PIPETRAIN_MODEL_LOOK_H
#define PIPETRAIN_MODEL_LOOK_H

#include "compute/model.h"

/* Open a model, which the caller closes; 0 classes: the model's own number. */
struct net *model_make(const char *name, uint32_t classes, bool dropout);
const struct layer *layer_named(const struct net *net, const char *name);
const struct parameter *parameter_named(const struct net *net, const char *name);
/* The name of the layer that input k of a layer comes from; "image" for the image. */
const char *layer_reads(const struct net *net, const char *name, uint32_t k);
uint32_t count_kind(const struct net *net, enum layer_kind kind);

#endif
