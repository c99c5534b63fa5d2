/* Models by name. Called while a run is being set up. */
#include "compute/model.h"

#include <errno.h>
#include <string.h>

#include "stage/log.h"

const struct model *model_find(const char *name)
{
    for (const struct model *model = model_table; model->name != NULL; model++)
        if (strcmp(model->name, name) == 0 || (model->alias != NULL && strcmp(model->alias, name) == 0))
            return model;
    return NULL;
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
    model->build(net, options, model->variant);
    if (options->transform != NULL)
        net_use_transform(net, options->transform);
    rc = net_finish(net);
    if (rc < 0) {
        log_message(LOG_ERROR, "model %s: %s", name, net_error(net));
        net_close(net);
        return rc;
    }
    *net_out = net;
    return 0;
}
