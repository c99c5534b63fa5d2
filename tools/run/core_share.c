/* Rank 0 compares the cores of all ranks. */
#include "tools/run/core_share.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stage/log.h"
#include "stage/stop.h"
#include "tools/limits.h"

static bool share_cores(const struct core_user *a, const struct core_user *b)
{
    cpu_set_t both;
    CPU_AND(&both, &a->cpus, &b->cpus);
    return CPU_COUNT(&both) > 0 && strcmp(a->host, b->host) == 0;
}

static bool share_quota(const struct core_user *a, const struct core_user *b)
{
    return a->group != 0 && a->group == b->group && strcmp(a->host, b->host) == 0;
}

struct core_share core_share_of(const struct core_user *users, uint32_t count, uint32_t index)
{
    struct core_share share = { .ranks = 1, .quota_ranks = 1 };
    for (uint32_t other = 0; other < count; other++) {
        share.quota_ranks += other != index && share_quota(&users[other], &users[index]);
        if (other != index && share_cores(&users[other], &users[index])) {
            share.ranks++;
            share.rank += other < index;
        }
    }
    return share;
}

static struct core_user this_user(void)
{
    struct core_user user = { .host = "", .group = cgroup_cpu("").id };
    (void)gethostname(user.host, sizeof(user.host) - 1);
    if (sched_getaffinity(0, sizeof(user.cpus), &user.cpus) != 0)
        CPU_ZERO(&user.cpus);
    return user;
}

static int gather(struct ranks *ranks, struct core_user *users, uint32_t count)
{
    users[0] = this_user();
    for (uint32_t rank = 1; rank < count; rank++) {
        struct mail *mail;
        const int rc = ranks_receive(ranks, rank, MAIL_MEETING, &mail);
        if (rc != 0)
            return rc;
        if (mail->bytes == sizeof(*users))      /* another version is refused later */
            memcpy(&users[rank], mail->data, sizeof(*users));
        users[rank].host[HOST_NAME_BYTES - 1] = '\0';
        free(mail);
    }
    return 0;
}

static int lead(struct ranks *ranks, struct core_share *share_out)
{
    const uint32_t count = ranks_size(ranks);
    struct core_user *const users = calloc(count, sizeof(*users));
    int rc = users == NULL ? -ENOMEM : gather(ranks, users, count);
    for (uint32_t rank = 1; rank < count && rc == 0; rank++) {
        const struct core_share share = core_share_of(users, count, rank);
        rc = ranks_send(ranks, rank, MAIL_MEETING, &share, sizeof(share));
    }
    if (rc == 0)
        *share_out = core_share_of(users, count, 0);
    free(users);
    return rc;
}

static int follow(struct ranks *ranks, struct core_share *share_out)
{
    const struct core_user user = this_user();
    struct mail *mail;
    int rc = ranks_send(ranks, 0, MAIL_MEETING, &user, sizeof(user));
    if (rc == 0)
        rc = ranks_receive(ranks, 0, MAIL_MEETING, &mail);
    if (rc != 0)
        return rc;
    if (mail->bytes == sizeof(*share_out))
        memcpy(share_out, mail->data, sizeof(*share_out));
    free(mail);
    return 0;
}

int core_share_agree(struct ranks *ranks, struct settings *settings)
{
    struct core_share share = { .ranks = 1, .quota_ranks = 1 };
    if (ranks == NULL)
        return 0;
    const int rc = ranks_rank(ranks) == 0 ? lead(ranks, &share) : follow(ranks, &share);
    if (rc == 0) {
        settings->core_rank = share.rank;
        settings->core_ranks = share.ranks;
        settings->quota_ranks = share.quota_ranks;
        return 0;
    }
    if (rc != -ENOMEM)
        return EXIT_CODE_RANK;
    log_message(LOG_ERROR, "the cores of all ranks: %s", strerror(ENOMEM));
    return EXIT_CODE_MEMORY;
}
