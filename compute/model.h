/* The models by name (doc/models.md). */
#ifndef PIPETRAIN_MODEL_H
#define PIPETRAIN_MODEL_H

#include "compute/net.h"

struct model_options {
    uint32_t classes;           /* 0: the model's own number */
    bool dropout;               /* false: omit dropout layers */
    bool auxiliary;             /* include the auxiliary head of models that have one */
    const struct input_transform *transform;    /* of pixels; NULL: the model's own */
    uint32_t height, width;     /* size of the images; 0: the model's own */
};

/* The size of a model's images with these options. */
static inline struct shape model_image(const struct model_options *options, struct shape own)
{
    return options->height > 0 ? (struct shape){ own.channels, options->height, options->width } : own;
}

struct model {
    const char *name;
    const char *alias;          /* another name for it, or NULL */
    const char *summary;        /* one line for --describe */
    struct shape input;
    uint32_t classes;           /* default */
    /* Appends the layers to an empty net. Errors show in net_finish. */
    void (*build)(struct net *net, const struct model_options *options, uint32_t variant);
    uint32_t variant;           /* argument of build: which model of the family */
    bool is_torchvision;        /* torchvision has the same network, for which it publishes weights */
};

/* All models (compute/models/model_table.c); the name of the last row is NULL. */
extern const struct model model_table[];
const struct model *model_find(const char *name);       /* by name or alias; NULL when there is none */
/* Open the finished net of a model. 0, -ENOENT, -EINVAL (logged) or -ENOMEM. */
int model_open(struct net **net_out, const char *name, const struct model_options *options);

#endif
