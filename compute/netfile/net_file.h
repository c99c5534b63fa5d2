/* A network as a text that people write (doc/model-files.md): a line a layer, in the words of compute/net.h.
 * Called while a run is being set up, from one thread. */
#ifndef PIPETRAIN_NET_FILE_H
#define PIPETRAIN_NET_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "compute/model.h"

#define NET_FILE_MAX (1u << 20)         /* bytes */
#define NET_FILE_LINE_MAX 4095u         /* bytes of a line, without its comment and with its counters put in */
#define NET_FILE_DEPTH_MAX 8u           /* of repeats in repeats */

/* Who hears what is wrong: `line` counts from 1, 0 is the text as a whole; `problem` is printable. */
struct net_file_sink {
    void (*tell)(void *arg, uint32_t line, const char *problem);
    void *arg;
};

/* The finished net that the text describes, with the classes, dropout and transform of the options; whether there
 * is an auxiliary loss is the text's business. 0; -EINVAL after every line that is wrong was told of, in their
 * order, once each and without what only follows from another, the text as a whole first; or -ENOMEM. */
int net_file_read(struct net **net_out, const char *text, size_t bytes, const struct model_options *options,
                  const struct net_file_sink *sink);
/* A finished net as a text that reads back as the same net: layers that say the same but for a number that counts stand
 * in a repeat. 0; -EINVAL when it or a layer has a name that such a text cannot hold; -EIO when `out` does not take it;
 * or -ENOMEM. */
int net_file_write(const struct net *net, FILE *out);

#endif
