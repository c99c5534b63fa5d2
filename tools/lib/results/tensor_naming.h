/* Names that other programs give to the tensors of torchvision's networks. Those of timm's networks that have the same
 * tensors are translated; others are recognised, for a message. Pure functions, any thread. */
#ifndef PIPETRAIN_TENSOR_NAMING_H
#define PIPETRAIN_TENSOR_NAMING_H

#include <stdbool.h>

#include "compute/net.h"
#include "formats/safetensors.h"

#define TENSOR_NAMING_BYTES 64u     /* size of a translated name: that of a parameter */
#define TENSOR_NAMING_VARIANTS 2u

/* A network whose tensors have the names. Several have the same tensors and compute differently. */
struct tensor_variant {
    const char *name;           /* in the other program; NULL: no more variants */
    float epsilon;              /* of all batch normalisations; 0: as in the model */
    bool pads_same;             /* convolutions with a stride have TensorFlow's padding */
    const char *edit;           /* the argument of sed that makes its network of `--describe=MODEL --net`; NULL: none */
};

struct tensor_name_part;
struct tensor_name_group;

struct tensor_naming {
    const char *owner;          /* "timm" */
    const char *model;          /* the model here that has the tensors, for which `groups` translate names; NULL: a
                                 * family, whose networks compute the same as torchvision's */
    const struct tensor_name_group *groups;
    struct tensor_variant variants[TENSOR_NAMING_VARIANTS + 1];
};

/* All namings; the owner of the last row is NULL. */
extern const struct tensor_naming tensor_namings[];

/* Translate a name. False: the naming has no other name for it. */
bool tensor_naming_translate(const struct tensor_naming *naming, const char *name,
                             char name_out[TENSOR_NAMING_BYTES]);
/* Is the name, in one of the namings, that of a parameter of the net? */
bool tensor_naming_knows(const struct net *net, const char *name);
/* Find the naming in which more tensors of the index have names of the net than without one; NULL: there is none. */
const struct tensor_naming *tensor_naming_find(const struct safetensors_index *index, const struct net *net);
/* Make the network of a variant out of that of the naming's model. */
void tensor_variant_apply(const struct tensor_variant *variant, struct net *net);

/* Describe the program that writes such names, which are not translated: "Hugging Face transformers". NULL: unknown. */
const char *tensor_naming_stranger(const char *name);

#endif
