/* Which ranks of a host may run on the same cores, so that each takes a share of them. A launcher may bind ranks to
 * cores of their own, to some that several of them share, or to none. Used by main only. */
#ifndef PIPETRAIN_CORE_SHARE_H
#define PIPETRAIN_CORE_SHARE_H

#include <sched.h>
#include <stdint.h>

#include "sync/ranks/ranks.h"
#include "tools/lib/config/settings.h"

#define HOST_NAME_BYTES 72u

/* The cores that a rank may run on. */
struct core_user {
    char host[HOST_NAME_BYTES];
    cpu_set_t cpus;
    uint64_t group;             /* the control group that limits its CPU time (limits.h); 0: none */
};

/* The number of this rank among the `ranks` that share some of its cores, and how many share the CPU time of its
 * control group. */
struct core_share { uint32_t rank, ranks, quota_ranks; };

/* The share of user `index` of `count`. */
struct core_share core_share_of(const struct core_user *users, uint32_t count, uint32_t index);
/* Called by all ranks; waits for them. Sets core_rank, core_ranks and quota_ranks of the settings. 0, or an exit
 * code after a message, or when a rank has failed. Does nothing where `ranks` is NULL. */
int core_share_agree(struct ranks *ranks, struct settings *settings);

#endif
