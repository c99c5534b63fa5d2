/* Which ranks are on which host. At the start the name of each rank's host goes to rank 0, by a tree of the ranks'
 * numbers, and the names of all come back by it: a rank sends as many messages as it has ranks below it, and one to each
 * of its children. Then ranks of a host know each other, and messages that they exchange need not go to all others. */
#ifndef PIPETRAIN_RANK_HOSTS_H
#define PIPETRAIN_RANK_HOSTS_H

#include "sync/ranks/ranks.h"

#define RANK_HOST_BYTES 64u

struct rank_hosts;

/* A rank from which something is missing: its own message, or with for_answer one that answers others. */
struct rank_wait { uint32_t rank; bool for_answer; };

/* 0 or -ENOMEM. */
int rank_hosts_open(struct rank_hosts **hosts_out, struct ranks *ranks);
/* Accepts NULL. */
void rank_hosts_close(struct rank_hosts *hosts);
/* Exchange the names, with the tags `tag` and `tag` + 1. The communication thread calls this until it returns 1. 0: call
 * again; *wait_out then names a rank of which a message is missing: in rank 0 the lowest one whose name has not arrived.
 * Negative: an error of the MPI library. */
int rank_hosts_exchange(struct rank_hosts *hosts, int tag, struct rank_wait *wait_out);

/* When rank_hosts_exchange has returned 1: the name of a rank's host; */
const char *rank_hosts_name(const struct rank_hosts *hosts, uint32_t rank);
/* the ranks of this host, this one included, in order; before, there are none; */
uint32_t rank_hosts_near_count(const struct rank_hosts *hosts);
uint32_t rank_hosts_near(const struct rank_hosts *hosts, uint32_t place);
/* and the place of a rank among these, RANK_ELSEWHERE for one on another host. */
#define RANK_ELSEWHERE UINT32_MAX
uint32_t rank_hosts_place(const struct rank_hosts *hosts, uint32_t rank);

#endif
