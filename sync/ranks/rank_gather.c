/* Rank 0 receives the data of all ranks, and sends all of it to each. */
#include "sync/ranks/rank_gather.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int receive(struct ranks *ranks, uint32_t from, void *to, size_t bytes)
{
    struct message *message;
    const int rc = ranks_receive(ranks, from, MESSAGE_COLLECTIVE, &message);
    if (rc != 0)
        return rc;
    const bool is_whole = message->bytes == bytes;
    if (is_whole)
        memcpy(to, message->data, bytes);
    free(message);
    return is_whole ? 0 : -ECANCELED;
}

static int lead(struct ranks *ranks, const void *own, size_t bytes, char *all)
{
    int rc = 0;
    memcpy(all, own, bytes);
    for (uint32_t rank = 1; rank < ranks_size(ranks) && rc == 0; rank++)
        rc = receive(ranks, rank, all + rank * bytes, bytes);
    return rc == 0 ? ranks_send_all(ranks, MESSAGE_COLLECTIVE, all, ranks_size(ranks) * bytes) : rc;
}

int rank_gather(struct ranks *ranks, const void *own, size_t bytes, void *all_out)
{
    if (ranks_rank(ranks) == 0)
        return lead(ranks, own, bytes, all_out);
    const int rc = ranks_send(ranks, 0, MESSAGE_COLLECTIVE, own, bytes);
    return rc == 0 ? receive(ranks, 0, all_out, ranks_size(ranks) * bytes) : rc;
}
