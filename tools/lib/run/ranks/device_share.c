/* Shares the memory of GPUs among the ranks of a host. */
#include "tools/lib/run/ranks/device_share.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "stage/log.h"
#include "tools/lib/run/ranks/rank_share.h"

static bool has_bus(const struct device_user *user, const char *bus)
{
    for (uint32_t i = 0; i < user->count; i++)
        if (strcmp(user->bus[i], bus) == 0)
            return true;
    return false;
}

static uint32_t count_users(const struct device_user *users, uint32_t count, const char *host, const char *bus)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < count; i++)
        found += strcmp(users[i].host, host) == 0 && has_bus(&users[i], bus);
    return found;
}

uint32_t device_share_of(const struct device_user *users, uint32_t count, uint32_t index)
{
    const struct device_user *const user = &users[index];
    uint32_t most = 1;
    for (uint32_t i = 0; i < user->count; i++) {
        const uint32_t here = *user->bus[i] == '\0' ? 1 : count_users(users, count, user->host, user->bus[i]);
        most = here > most ? here : most;
    }
    return most;
}

static void find_user(const struct run_devices *plan, struct device_user *user)
{
    *user = (struct device_user){ .count = plan->count };
    (void)gethostname(user->host, sizeof(user->host) - 1);
    for (uint32_t i = 0; i < plan->count; i++)
        run_devices_bus(plan, i, user->bus[i]);
}

static void bound(void *arg)
{
    struct device_user *const user = arg;
    user->count = user->count < DEVICES_MAX ? user->count : DEVICES_MAX;
    user->host[HOST_NAME_BYTES - 1] = '\0';
    for (uint32_t i = 0; i < user->count; i++)
        user->bus[i][BUS_BYTES - 1] = '\0';
}

static void share_of(const void *users, uint32_t count, uint32_t index, void *share_out)
{
    *(uint32_t *)share_out = device_share_of(users, count, index);
}

int device_share_agree(struct ranks *ranks, struct run_devices *plan)
{
    static const struct rank_share_rule rule = { "the GPUs of all ranks", sizeof(struct device_user), sizeof(uint32_t),
                                                 bound, NULL, share_of };
    struct device_user user;
    uint32_t share = 1;
    if (ranks == NULL)
        return 0;
    find_user(plan, &user);
    const int code = rank_share_agree(ranks, &rule, &user, &share);
    if (code != 0)
        return code;
    plan->sharing = share > plan->sharing ? share : plan->sharing;
    if (share > 1)
        log_message(LOG_RUN, "devices: %u ranks of this host use the same GPU: each plans with 1/%u of its free memory",
                    share, plan->sharing);
    return 0;
}
