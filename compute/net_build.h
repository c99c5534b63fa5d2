/* What the files of network descriptions share: opening, checking and closing (net.c), the kinds of layers
 * (net_layers.c) and their windows (net_window.c), and descriptions as texts (netfile/). Private to them. */
#ifndef PIPETRAIN_NET_BUILD_H
#define PIPETRAIN_NET_BUILD_H

#include "compute/net.h"

/* Keep the first message; later ones are consequences. Returns -EINVAL. */
int net_refuse(struct net *net, const char *name, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Is there at least one number, and not more than can be counted? */
bool shape_fits(struct shape shape);

/* The layer's window, padding and pixels out, of its pixels in. 0, or -EINVAL after net_refuse. */
int layer_set_window(struct net *net, struct layer *layer, struct window window);
/* Has the layer the padding that PADDING_SAME gives its window? */
bool layer_pads_same(const struct layer *layer);

/* How parameters of a kind begin unless the model says otherwise. */
struct initializer initializer_usual(enum parameter_kind kind);

#endif
