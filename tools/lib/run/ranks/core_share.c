/* Shares the cores of a host among its ranks. */
#include "tools/lib/run/ranks/core_share.h"

#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "tools/lib/limits.h"
#include "tools/lib/run/ranks/rank_share.h"

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

static void bound(void *user)
{
    ((struct core_user *)user)->host[HOST_NAME_BYTES - 1] = '\0';
}

static void share_of(const void *users, uint32_t count, uint32_t index, void *share_out)
{
    *(struct core_share *)share_out = core_share_of(users, count, index);
}

int core_share_agree(struct ranks *ranks, struct settings *settings)
{
    static const struct rank_share_rule rule = { "the cores of all ranks", sizeof(struct core_user),
                                                 sizeof(struct core_share), bound, NULL, share_of };
    struct core_share share = { .ranks = 1, .quota_ranks = 1 };
    if (ranks == NULL)
        return 0;
    const struct core_user user = this_user();
    const int code = rank_share_agree(ranks, &rule, &user, &share);
    if (code != 0)
        return code;
    settings->core_rank = share.rank;
    settings->core_ranks = share.ranks;
    settings->quota_ranks = share.quota_ranks;
    return 0;
}
