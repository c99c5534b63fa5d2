/* What is wrong with a text, kept until all of it is known, and then told in the order of the lines. Private to this
 * folder. */
#ifndef PIPETRAIN_NET_REPORT_H
#define PIPETRAIN_NET_REPORT_H

#include <stdbool.h>
#include <stddef.h>

#include "compute/netfile/net_file.h"

struct net_remark {
    uint32_t line;
    size_t number;              /* of those before it */
    char *problem;
};

struct net_report {             /* begins as all 0 */
    struct net_remark *remarks;
    size_t count, room;
    bool is_short;              /* of memory: something could not be kept */
};

/* Keep a remark; fits net_file_sink.tell. */
void net_report_add(void *report, uint32_t line, const char *problem);
/* Tell all: those of the text as a whole first, those of a line as they came. 0, or -ENOMEM without a word where
 * something could not be kept. */
int net_report_tell(struct net_report *report, const struct net_file_sink *sink);
void net_report_release(struct net_report *report);

#endif
