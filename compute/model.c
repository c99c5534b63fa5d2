/* The table of models. Called while a run is being set up. */
#include "compute/model.h"

#include <errno.h>
#include <string.h>

#include "stage/log.h"

const struct model model_table[] = {
    { "mnist_cnn", "two convolutions of 32 filters and two dense layers for 28x28 grey images",
      { 1, 28, 28 }, 10, model_build_mnist_cnn },
    { "mnist_cnn2", "as mnist_cnn with 64 filters in the second convolution",
      { 1, 28, 28 }, 10, model_build_mnist_cnn2 },
    { "resnet20_v1", "residual network of 20 layers for 32x32 colour images (CIFAR-10)",
      { 3, 32, 32 }, 10, model_build_resnet20_v1 },
    { .name = NULL },
};

const struct model *model_find(const char *name)
{
    for (const struct model *model = model_table; model->name != NULL; model++)
        if (strcmp(model->name, name) == 0)
            return model;
    return NULL;
}

static void replace_transform(struct net *net, const struct input_transform *transform)
{
    net_transform(net, transform->divisor, transform->is_plain ? NULL : transform->mean,
                  transform->is_plain ? NULL : transform->deviation);
}

int model_open(struct net **net_out, const char *name, const struct model_options *options)
{
    const struct model *model = model_find(name);
    if (model == NULL)
        return -ENOENT;
    struct net *net;
    int rc = net_open(&net, model->name, model->input, options->classes ? options->classes : model->classes);
    if (rc < 0)
        return rc;
    model->build(net, options);
    if (options->transform != NULL)
        replace_transform(net, options->transform);
    rc = net_finish(net);
    if (rc < 0) {
        log_message(LOG_ERROR, "model %s: %s", name, net_error(net));
        net_close(net);
        return rc;
    }
    *net_out = net;
    return 0;
}
