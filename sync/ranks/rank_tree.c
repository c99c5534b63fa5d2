/* Builds the tree of ranks. Called by the communication thread when the ranks have connected. */
#include "sync/ranks/rank_tree.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct place { const char *host; uint32_t rank; };

static int compare_places(const void *left, const void *right)
{
    const struct place *const a = left, *const b = right;
    const int hosts = strcmp(a->host, b->host);
    return hosts != 0 ? hosts : (a->rank > b->rank) - (a->rank < b->rank);
}

static int compare_ranks(const void *left, const void *right)
{
    const uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

/* Member i > 0 of a heap is the child of an earlier one. */
static uint32_t heap_parent(uint32_t i)
{
    return (i - 1) / RANK_TREE_CHILDREN;
}

/* Set the parents of the ranks that do not lead their host. Returns the number of leaders. */
static uint32_t join_hosts(const struct place *places, uint32_t count, uint32_t *leaders, uint32_t *parents)
{
    uint32_t leader_count = 0;
    for (uint32_t i = 0, first = 0; i < count; i++) {
        if (i == 0 || strcmp(places[i].host, places[first].host) != 0) {
            first = i;
            leaders[leader_count++] = places[i].rank;
        } else {
            parents[places[i].rank] = places[first + heap_parent(i - first)].rank;
        }
    }
    return leader_count;
}

int rank_tree_find(const char *const *hosts, uint32_t count, uint32_t *parents_out)
{
    struct place *const places = calloc(count, sizeof(*places));
    uint32_t *const leaders = calloc(count, sizeof(*leaders));
    const int rc = places == NULL || leaders == NULL ? -ENOMEM : 0;
    for (uint32_t rank = 0; rank < count && rc == 0; rank++)
        places[rank] = (struct place){ hosts[rank], rank };
    if (rc == 0) {
        qsort(places, count, sizeof(*places), compare_places);
        const uint32_t leader_count = join_hosts(places, count, leaders, parents_out);
        qsort(leaders, leader_count, sizeof(*leaders), compare_ranks);
        parents_out[0] = 0;
        for (uint32_t i = 1; i < leader_count; i++)
            parents_out[leaders[i]] = leaders[heap_parent(i)];
    }
    free(places);
    free(leaders);
    return rc;
}

uint32_t rank_tree_child(const uint32_t *parents, uint32_t rank, uint32_t other)
{
    while (other != 0 && parents[other] != rank)
        other = parents[other];
    return other != 0 ? other : UINT32_MAX;
}
