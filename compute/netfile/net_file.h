/* Networks as texts that people write (doc/model-files.md): a line per layer, in the words of compute/net.h. Called
 * while a run is being set up, from one thread. */
#ifndef PIPETRAIN_NET_FILE_H
#define PIPETRAIN_NET_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "compute/model.h"

#define NET_FILE_MAX (1u << 20)         /* bytes of a text */
#define NET_FILE_LINE_MAX 4095u         /* bytes of a line without its comment and with its counters filled in */
#define NET_FILE_DEPTH_MAX 8u           /* nested repeats */

/* Receives the problems of a text: `line` counts from 1, 0 is the text as a whole; `problem` is printable. */
struct net_file_sink {
    void (*report)(void *arg, uint32_t line, const char *problem);
    void *arg;
};

/* Read a text as a finished net, with the classes, dropout, transform and image size of the options; auxiliary losses
 * are as in the text. 0, -EINVAL or -ENOMEM. With -EINVAL all wrong lines were reported, in order, the text as a whole
 * first; each problem once, without those that follow from another problem. */
int net_file_read(struct net **net_out, const char *text, size_t bytes, const struct model_options *options,
                  const struct net_file_sink *sink);
/* Does a text have the line that sets the transform of pixels? */
bool net_file_has_transform(const char *text, size_t bytes);
/* Write a finished net as a text that reads back as the same net. Layers that repeat, except for a number that counts
 * up, are written as a repeat. 0; -EINVAL when the net or a layer has a name that a text cannot contain; -EIO when
 * writing to `out` fails; or -ENOMEM. */
int net_file_write(const struct net *net, FILE *out);

#endif
