/* The network of a file of weights without a configuration: as the file itself says, or as it is named. Used by main
 * only. */
#ifndef PIPETRAIN_OWN_NETWORK_H
#define PIPETRAIN_OWN_NETWORK_H

#include "tools/config/settings.h"

struct own_network {
    const char *weights;        /* the file */
    const char *model;          /* a model by name, or a file of one; NULL: the file of weights says it */
    char **assignments;         /* of --set, which count more */
    int assignment_count;
};

/* Settings that were initialised become those of the network, with what the file says of how images were scaled in its
 * validation. 0, or an exit code after all messages. */
int own_network_settings(struct settings *settings, const struct own_network *network);

#endif
