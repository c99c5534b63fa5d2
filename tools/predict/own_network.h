/* The network of a file of weights without a configuration: as the file itself says, or as it is named. Used by main
 * only. */
#ifndef PIPETRAIN_OWN_NETWORK_H
#define PIPETRAIN_OWN_NETWORK_H

#include "tools/predict/network_words.h"

/* Settings that were initialised become those of the network, with what the file says of how images were scaled in its
 * validation. 0, or an exit code after all messages. */
int own_network_settings(struct settings *settings, const struct network_words *words);

#endif
