/* The names of layers while a text is read: what stands behind each, and whether anything reads it. Private to this
 * folder. */
#ifndef PIPETRAIN_NET_NAMES_H
#define PIPETRAIN_NET_NAMES_H

#include "compute/netfile/net_lines.h"

#define NET_NAMES_MAX (NET_LAYERS_MAX + 1)      /* the image is one */
#define NET_NAME_IMAGE 0u                       /* its place */

struct net_name {
    char name[sizeof(((struct layer *)0)->name)];       /* "": it could not be read */
    int64_t layer;              /* what reads it reads this layer, or NET_INPUT; negative: its line is wrong */
    uint32_t line;
    bool is_read;
};

struct net_names {
    uint32_t count;
    struct net_name of[NET_NAMES_MAX];
};

/* Only the image is there. */
void net_names_init(struct net_names *names);
/* The place of a name, NET_NAMES_MAX when there is none. */
uint32_t net_names_find(const struct net_names *names, const char *name);
/* The name most like this one, or NULL. */
const char *net_names_nearest(const struct net_names *names, const char *name);
/* Is the word kept for something that is no layer? */
bool net_name_is_kept(const char *name);

#endif
