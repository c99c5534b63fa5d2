/* The tree of ranks by which messages between rank 0 and the others go where there are many. Pure functions. */
#ifndef PIPETRAIN_RANK_TREE_H
#define PIPETRAIN_RANK_TREE_H

#include <stdint.h>

/* Up to so many ranks exchange messages with rank 0 directly, and a rank has at most so many children on its host, and
 * with the lowest rank of each host, which leads it, as many on other hosts. */
#define RANK_TREE_CHILDREN 16u

/* Find the parents of ranks 0 to `count` - 1, whose hosts have these names, in a tree with root 0: the leaders of hosts
 * are children of other leaders, and the ranks of a host of its leader and of each other. parents_out[0] is 0. The path
 * from a rank to rank 0 has at most log(hosts) + log(ranks of a host) edges, to the base RANK_TREE_CHILDREN, rounded up.
 * 0 or -ENOMEM. */
int rank_tree_find(const char *const *hosts, uint32_t count, uint32_t *parents_out);
/* The child of `rank` whose subtree contains `other`; UINT32_MAX: none does. */
uint32_t rank_tree_child(const uint32_t *parents, uint32_t rank, uint32_t other);

#endif
