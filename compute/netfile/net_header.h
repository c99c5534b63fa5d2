/* The lines in front of the layers. Private to this folder. */
#ifndef PIPETRAIN_NET_HEADER_H
#define PIPETRAIN_NET_HEADER_H

#include "compute/netfile/net_lines.h"

struct net_header {
    const char *model;          /* in text */
    struct shape image;
    uint32_t classes;
    float divisor;              /* 0: there is no transform */
    float mean[NET_CHANNELS_MAX], std[NET_CHANNELS_MAX];
    uint32_t mean_count, std_count;             /* 0: not given */
    uint32_t transform_line;
    char text[NET_FILE_LINE_MAX + 1];
};

/* Read the header of the lines; what is wrong or missing is told. Is it whole? */
bool net_header_read(struct net_header *header, const struct net_lines *lines, struct net_problems *problems);
/* An empty net of the header, for so many classes (0: its own). 0; -EINVAL, which was told; or -ENOMEM. */
int net_header_open(const struct net_header *header, uint32_t classes, struct net **net_out,
                    struct net_problems *problems);

#endif
