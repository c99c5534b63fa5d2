/* Whose tensors a file holds, by their names and shapes. */
#ifndef PIPETRAIN_TENSOR_MATCH_H
#define PIPETRAIN_TENSOR_MATCH_H

#include <stdbool.h>

#include "compute/model.h"
#include "compute/net.h"
#include "formats/safetensors.h"

#define TENSOR_MATCH_SIZE 512u

/* NULL: there is none of that name. */
const struct safetensors_tensor *tensor_find(const struct safetensors_index *index, const char *name);
/* Is it of numbers that can be read, as many in each dimension as the parameter has? */
bool tensor_has_shape(const struct safetensors_tensor *tensor, const struct parameter *parameter);
/* The classes of the file, by the shape of the layer that has an output for each in the model; 0: it has no such
 * tensor. */
uint32_t tensor_match_classes(const struct safetensors_index *index, const struct model *model);
/* The models that have all of the file's tensors that count, `count` of them, and no others: "'resnet50_v1' with
 * data.classes = 10", one behind the other; "" when there is none. */
void tensor_match_models(const struct safetensors_index *index, size_t count, char text_out[TENSOR_MATCH_SIZE]);

#endif
