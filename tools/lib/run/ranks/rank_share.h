/* What several ranks of a host use together is shared: rank 0 hears what each of them uses, and tells each its
 * share. Used by main only. */
#ifndef PIPETRAIN_RANK_SHARE_H
#define PIPETRAIN_RANK_SHARE_H

#include <stddef.h>
#include <stdint.h>

#include "sync/ranks/ranks.h"

struct rank_share_rule {
    const char *what;                   /* for messages, such as "the cores of all ranks" */
    size_t user_bytes, share_bytes;
    void (*bound)(void *user);          /* make what a program of another version sent safe to read */
    void (*share_of)(const void *users, uint32_t count, uint32_t index, void *share_out);
};

/* All ranks together: the share of this one, which uses `user`. Waits for all ranks. 0, or an exit code after a
 * message, or when a rank has failed. A program of another version uses nothing here and leaves `share_out` as it
 * is, until it is refused. */
int rank_share_agree(struct ranks *ranks, const struct rank_share_rule *rule, const void *user, void *share_out);

#endif
