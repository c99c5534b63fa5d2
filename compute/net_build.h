/* What the two files of network descriptions share: opening, checking and closing (net.c) and
 * the kinds of layers (net_layers.c). Private to them. */
#ifndef PIPETRAIN_NET_BUILD_H
#define PIPETRAIN_NET_BUILD_H

#include "compute/net.h"

/* Keep the first message; later ones are consequences. Returns -EINVAL. */
int net_refuse(struct net *net, const char *name, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Is there at least one number, and not more than can be counted? */
bool shape_fits(struct shape shape);

#endif
