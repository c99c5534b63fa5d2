/* Compare two descriptions of networks. */
#ifndef PIPETRAIN_NET_COMPARE_H
#define PIPETRAIN_NET_COMPARE_H

#include "compute/net.h"

/* The name of the first field of the nets, their layers and their parameters that differs; NULL: none. */
const char *net_difference(const struct net *a, const struct net *b);

#endif
