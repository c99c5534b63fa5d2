/* Finds the model to which the tensors of a file belong, by their names and shapes. */
#ifndef PIPETRAIN_TENSOR_MATCH_H
#define PIPETRAIN_TENSOR_MATCH_H

#include <stdbool.h>

#include "compute/model.h"
#include "compute/net.h"
#include "formats/safetensors.h"

#define TENSOR_MATCH_SIZE 512u

/* Is it a counter of PyTorch's BatchNorm or AveragedModel, which is not used? */
bool tensor_is_counter(const char *name);
/* The layer with an output for each class: the last one with weights before the loss. */
const struct layer *tensor_match_head(const struct net *net);
/* The number of classes in the file, from the shape of the model's last layer; 0: the file has no such tensor. */
uint32_t tensor_match_classes(const struct safetensors_index *index, const struct model *model);
/* Open the net of a model with the file's number of classes, if the file has all its tensors, of which only those of
 * the last layer may be missing; otherwise NULL. */
struct net *tensor_match_open(const struct safetensors_index *index, const struct model *model);
/* List the models whose parameters are exactly the `count` relevant tensors of the file, for a message: "'resnet50_v1'
 * with data.classes = 10", separated by commas; "" if there are none. */
void tensor_match_models(const struct safetensors_index *index, size_t count, char text_out[TENSOR_MATCH_SIZE]);
/* Find the value of model.skip with which the tensors that begin with the prefix ("": no prefix) can be loaded into the
 * network: patterns of all other tensors, and of the last layer if it is not in the file. False: other layers are
 * missing, too, or the patterns are too long. */
bool tensor_match_skip(const struct safetensors_index *index, const struct net *net, const char *prefix,
                       char text_out[TENSOR_MATCH_SIZE]);

#endif
