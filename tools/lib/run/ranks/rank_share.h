/* Ranks of a host that use the same cores or GPUs share them. Every rank tells rank 0 which cores or GPUs it uses. Rank 0
 * finds each rank's share, one host after the other, and sends the shares of all ranks as one message, which ranks pass on
 * to others. Used by main only. */
#ifndef PIPETRAIN_RANK_SHARE_H
#define PIPETRAIN_RANK_SHARE_H

#include <stddef.h>
#include <stdint.h>

#include "sync/ranks/ranks.h"

/* A user begins with the name of its host, char[HOST_NAME_BYTES]. */
#define HOST_NAME_BYTES 72u
struct rank_share_rule {
    const char *what;                   /* for error messages, such as "the cores of all ranks" */
    size_t user_bytes, share_bytes;
    void (*bound)(void *user);          /* make data from another version of the program safe to read */
    /* Add what is common to the shares of all ranks of the run, of the users of one host, to a share; called for each
     * host. NULL: there is nothing. */
    void (*add_host)(const void *users, uint32_t count, uint32_t ranks, void *share);
    /* Set the rest of the share of user `index` of the `count` users of its host, in the order of their ranks. */
    void (*share_of)(const void *users, uint32_t count, uint32_t index, void *share);
};

/* Determine the share of this rank, which uses `user`. Called by all ranks; waits for them. 0, or an exit code after a
 * message or when a rank has failed. A rank with another version of the program counts as using nothing, and its
 * `share_out` stays unchanged; startup_check refuses it later. */
int rank_share_agree(struct ranks *ranks, const struct rank_share_rule *rule, const void *user, void *share_out);

#endif
