/* Which model the tensors of a file belong to, by their names and shapes. */
#ifndef PIPETRAIN_TENSOR_MATCH_H
#define PIPETRAIN_TENSOR_MATCH_H

#include <stdbool.h>

#include "compute/model.h"
#include "compute/net.h"
#include "formats/safetensors.h"

#define TENSOR_MATCH_SIZE 512u

/* Is it a counter of PyTorch's BatchNorm or AveragedModel, which is not needed? */
bool tensor_is_counter(const char *name);
/* The layer that has an output for each class: the last one with weights on the way to the loss. */
const struct layer *tensor_match_head(const struct net *net);
/* The number of classes of the file, by the shape of the model's last layer; 0: the file has no such tensor. */
uint32_t tensor_match_classes(const struct safetensors_index *index, const struct model *model);
/* The net of a model, with as many classes as the file has, if the file has all its tensors except those of the last
 * layer, which may be missing; else NULL. */
struct net *tensor_match_open(const struct safetensors_index *index, const struct model *model);
/* The models whose parameters are exactly the file's `count` relevant tensors, for a message: "'resnet50_v1' with
 * data.classes = 10", separated by commas; "" when there is none. */
void tensor_match_models(const struct safetensors_index *index, size_t count, char text_out[TENSOR_MATCH_SIZE]);
/* The value of model.skip with which the network is loaded from the tensors that begin with the prefix ("" for no
 * prefix): patterns of all others, and of the last layer where that is not in the file. False: it has not all other
 * layers, or the patterns are too long. */
bool tensor_match_skip(const struct safetensors_index *index, const struct net *net, const char *prefix,
                       char text_out[TENSOR_MATCH_SIZE]);

#endif
