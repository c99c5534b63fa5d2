/* Rank 0 gathers the resources that all ranks use, and scatters their shares. */
#include "tools/lib/run/ranks/rank_share.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "stage/log.h"
#include "stage/stop.h"

static void *user_at(const struct rank_share_rule *rule, void *users, uint32_t rank)
{
    return (char *)users + rank * rule->user_bytes;
}

/* Receive a message into `to`. A message of another size, from another version of the program, is ignored. */
static int receive(struct ranks *ranks, uint32_t from, void *to, size_t bytes)
{
    struct message *message;
    const int rc = ranks_receive(ranks, from, MESSAGE_COLLECTIVE, &message);
    if (rc != 0)
        return rc;
    if (message->bytes == bytes)
        memcpy(to, message->data, bytes);
    free(message);
    return 0;
}

static int send_share(struct ranks *ranks, const struct rank_share_rule *rule, const void *users, uint32_t rank,
                      void *share)
{
    rule->share_of(users, ranks_size(ranks), rank, share);
    return ranks_send(ranks, rank, MESSAGE_COLLECTIVE, share, rule->share_bytes);
}

static int lead(struct ranks *ranks, const struct rank_share_rule *rule, const void *user, void *share_out)
{
    const uint32_t count = ranks_size(ranks);
    void *const users = calloc(count, rule->user_bytes);
    int rc = users == NULL ? -ENOMEM : 0;
    for (uint32_t rank = 1; rank < count && rc == 0; rank++) {
        rc = receive(ranks, rank, user_at(rule, users, rank), rule->user_bytes);
        if (rc == 0)
            rule->bound(user_at(rule, users, rank));
    }
    if (rc == 0)
        memcpy(users, user, rule->user_bytes);
    for (uint32_t rank = 1; rank < count && rc == 0; rank++)
        rc = send_share(ranks, rule, users, rank, share_out);
    if (rc == 0)
        rule->share_of(users, count, 0, share_out);
    free(users);
    return rc;
}

static int follow(struct ranks *ranks, const struct rank_share_rule *rule, const void *user, void *share_out)
{
    const int rc = ranks_send(ranks, 0, MESSAGE_COLLECTIVE, user, rule->user_bytes);
    return rc == 0 ? receive(ranks, 0, share_out, rule->share_bytes) : rc;
}

int rank_share_agree(struct ranks *ranks, const struct rank_share_rule *rule, const void *user, void *share_out)
{
    const int rc = ranks_rank(ranks) == 0 ? lead(ranks, rule, user, share_out) : follow(ranks, rule, user, share_out);
    if (rc == -ENOMEM) {
        log_message(LOG_ERROR, "%s: %s", rule->what, strerror(ENOMEM));
        return EXIT_CODE_MEMORY;
    }
    return rc != 0 ? EXIT_CODE_RANK : 0;
}
