/* Determines which ranks of a host may run on the same cores, so that each uses a share of them. A launcher may bind
 * ranks to cores of their own, to cores that several ranks share, or not at all. Used by main only. */
#ifndef PIPETRAIN_CORE_SHARE_H
#define PIPETRAIN_CORE_SHARE_H

#include <sched.h>
#include <stdint.h>

#include "sync/ranks/ranks.h"
#include "tools/lib/config/settings.h"
#include "tools/lib/run/ranks/rank_share.h"

/* The cores that a rank may run on. */
struct core_user {
    char host[HOST_NAME_BYTES];
    cpu_set_t cpus;
    uint64_t group;             /* the control group that limits its CPU time (limits.h); 0: none */
};

/* The ranks that share some of this rank's cores: the number of this rank among them (from 0) and their count; and the
 * count of ranks that share the CPU time of its control group. */
struct core_share { uint32_t rank, ranks, quota_ranks; };

/* The share of user `index` of `count`. */
struct core_share core_share_of(const struct core_user *users, uint32_t count, uint32_t index);
/* Set core_rank, core_ranks and quota_ranks of the settings. Called by all ranks; waits for them. 0, or an exit code
 * after a message or when a rank has failed. Does nothing if `ranks` is NULL. */
int core_share_agree(struct ranks *ranks, struct settings *settings);

#endif
