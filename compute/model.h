/* The models by name (doc/models.md). */
#ifndef PIPETRAIN_MODEL_H
#define PIPETRAIN_MODEL_H

#include "compute/net.h"

struct model_options {
    uint32_t classes;           /* 0: the model's own number */
    bool dropout;               /* false: leave dropout layers out */
    bool auxiliary;             /* with the auxiliary head, in models that have one */
    const struct input_transform *transform;    /* of the pixels; NULL: the model's own */
};

struct model {
    const char *name;
    const char *alias;          /* another name by which it is found, or NULL */
    const char *summary;        /* one line for --describe */
    struct shape input;
    uint32_t classes;           /* default */
    /* Appends the layers to an empty net. What does not fit shows in net_finish. */
    void (*build)(struct net *net, const struct model_options *options, uint32_t variant);
    uint32_t variant;           /* which member of its family: what the builder says it is */
};

/* All models, ended by a row whose name is NULL (compute/models/model_table.c). */
extern const struct model model_table[];
const struct model *model_find(const char *name);       /* by name or alias; NULL when there is none */
/* The finished net of a model. 0, -ENOENT, -EINVAL (reported) or -ENOMEM. */
int model_open(struct net **net_out, const char *name, const struct model_options *options);

#endif
