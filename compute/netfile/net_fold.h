/* Layers whose lines say the same but for a number that counts, and how a text has them once: as the body of a repeat.
 * Private to this folder. */
#ifndef PIPETRAIN_NET_FOLD_H
#define PIPETRAIN_NET_FOLD_H

#include "compute/netfile/net_file.h"

/* What the lines of all layers say, but for what these read. */
struct net_script {
    const struct net *net;
    const char **front, **rest; /* by layer: kind and name, and what stands behind what it reads */
};

struct net_row { char text[NET_FILE_LINE_MAX + 1]; };

/* A run of layers that is a repeat: `turns` times `lines` of them. */
struct net_fold {
    uint32_t first;             /* layer of the first turn */
    uint32_t lines;
    uint32_t turns;             /* 1: it is a single layer, and no repeat */
    uint32_t counts_from;
};

/* The repeat that begins with layer `first` and takes the fewest lines for those it stands for. */
struct net_fold net_fold_find(const struct net_script *script, uint32_t first);
/* Line `line` of what the repeat goes through, or of the single layer. */
void net_fold_line(const struct net_script *script, const struct net_fold *fold, uint32_t line,
                   struct net_row *row_out);

#endif
