/* Are two descriptions of networks the same? */
#ifndef PIPETRAIN_NET_COMPARE_H
#define PIPETRAIN_NET_COMPARE_H

#include "compute/net.h"

/* NULL when every field of the nets, their layers and their parameters is the same; else the name of the first that
 * differs. The memory of both is theirs. */
const char *net_difference(const struct net *a, const struct net *b);

#endif
