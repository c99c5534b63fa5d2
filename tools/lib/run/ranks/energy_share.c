/* Shares the energy counters of a host among its ranks. */
#include "tools/lib/run/ranks/energy_share.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stage/log.h"
#include "stage/stop.h"
#include "tools/lib/run/ranks/rank_share.h"

static bool can_read_packages(const struct energy_user *user)
{
    return user->packages > 0 && user->packages_read == user->packages;
}

/* The rank that reads the packages of the host: the lowest one that can read all of them, or else some. UINT32_MAX: none
 * can. */
static uint32_t reader_of_packages(const struct energy_user *users, uint32_t count)
{
    uint32_t some = UINT32_MAX;
    for (uint32_t i = 0; i < count; i++) {
        if (can_read_packages(&users[i]))
            return i;
        if (users[i].packages_read > 0 && some == UINT32_MAX)
            some = i;
    }
    return some;
}

static bool has_gpu(const struct energy_user *user, const char *bus, bool is_read)
{
    for (uint32_t i = 0; i < user->gpus; i++)
        if (strcmp(user->bus[i], bus) == 0 && (user->reads[i] || !is_read))
            return true;
    return false;
}

/* The lowest rank that uses GPU `gpu` of this user, and can read it if `is_read`. UINT32_MAX: none can. */
static uint32_t first_of_gpu(const struct energy_user *users, uint32_t count, uint32_t index, uint32_t gpu, bool is_read)
{
    const char *const bus = users[index].bus[gpu];
    if (*bus == '\0')
        return is_read ? UINT32_MAX : index;
    for (uint32_t i = 0; i < count; i++)
        if (has_gpu(&users[i], bus, is_read))
            return i;
    return UINT32_MAX;
}

/* Keep the first reason; of several ranks with the name of the host. */
static void keep_reason(char reason[ENERGY_WHY_BYTES], const struct energy_user *user, uint32_t ranks, const char *why)
{
    if (*reason == '\0')
        snprintf(reason, ENERGY_WHY_BYTES, "%s%s%.*s", ranks > 1 ? user->host : "", ranks > 1 ? ": " : "",
                 (int)(ENERGY_WHY_BYTES - HOST_NAME_BYTES - 2), why);
}

static void add_packages(const struct energy_user *users, uint32_t count, uint32_t ranks, struct energy_sources *all)
{
    const uint32_t reader = reader_of_packages(users, count);
    if (reader < UINT32_MAX)
        all->packages += users[reader].packages_read;
    if (reader < UINT32_MAX && can_read_packages(&users[reader]))
        return;
    all->blind_hosts++;
    keep_reason(all->why_no_package, &users[0], ranks, users[0].why_no_package);
}

static void add_gpus(const struct energy_user *users, uint32_t count, uint32_t index, uint32_t ranks,
                     struct energy_sources *all)
{
    for (uint32_t gpu = 0; gpu < users[index].gpus; gpu++) {
        if (first_of_gpu(users, count, index, gpu, false) != index)
            continue;
        const bool is_read = first_of_gpu(users, count, index, gpu, true) < UINT32_MAX;
        *(is_read ? &all->gpus : &all->blind_gpus) += 1;
        if (!is_read)
            keep_reason(all->why_no_gpu, &users[index], ranks, users[index].why_no_gpu);
    }
}

void energy_share_add(const struct energy_user *users, uint32_t count, uint32_t ranks, struct energy_sources *all)
{
    add_packages(users, count, ranks, all);
    for (uint32_t i = 0; i < count; i++)
        add_gpus(users, count, i, ranks, all);
}

void energy_share_of(const struct energy_user *users, uint32_t count, uint32_t index, struct energy_share *share)
{
    share->packages = reader_of_packages(users, count) == index;
    for (uint32_t gpu = 0; gpu < users[index].gpus; gpu++)
        share->gpu[gpu] = first_of_gpu(users, count, index, gpu, true) == index;
}

static void describe_user(const struct energy *energy, const struct run_devices *devices, struct energy_user *user)
{
    *user = (struct energy_user){ .packages = energy->package_count, .packages_read = energy->packages_read,
                                  .gpus = energy->gpu_count };
    (void)gethostname(user->host, sizeof(user->host) - 1);
    for (uint32_t i = 0; i < user->gpus; i++) {
        run_devices_bus(devices, i, user->bus[i]);
        user->reads[i] = energy->gpus[i].is_read;
    }
    snprintf(user->why_no_package, ENERGY_WHY_BYTES, "%s", energy->why_no_package);
    snprintf(user->why_no_gpu, ENERGY_WHY_BYTES, "%s", energy->why_no_gpu);
}

static void bound(void *arg)
{
    struct energy_user *const user = arg;
    user->gpus = user->gpus < DEVICES_MAX ? user->gpus : DEVICES_MAX;
    user->host[HOST_NAME_BYTES - 1] = '\0';
    user->why_no_package[ENERGY_WHY_BYTES - 1] = user->why_no_gpu[ENERGY_WHY_BYTES - 1] = '\0';
    for (uint32_t i = 0; i < user->gpus; i++)
        user->bus[i][BUS_BYTES - 1] = '\0';
}

static void add_host(const void *users, uint32_t count, uint32_t ranks, void *share)
{
    energy_share_add(users, count, ranks, &((struct energy_share *)share)->all);
}

static void share_of(const void *users, uint32_t count, uint32_t index, void *share)
{
    energy_share_of(users, count, index, share);
}

int energy_share_agree(struct ranks *ranks, struct energy *energy, const struct run_devices *devices,
                       struct energy_sources *sources_out)
{
    static const struct rank_share_rule rule = { "the energy of all ranks", sizeof(struct energy_user),
                                                 sizeof(struct energy_share), bound, add_host,
                                                 share_of };
    struct energy_share share = { .packages = false };
    struct energy_user user;
    describe_user(energy, devices, &user);
    if (ranks == NULL) {
        energy_share_add(&user, 1, 1, &share.all);
        energy_share_of(&user, 1, 0, &share);
    }
    const int code = ranks != NULL ? rank_share_agree(ranks, &rule, &user, &share) : 0;
    if (code != 0)
        return code;
    energy_keep(energy, share.packages, share.gpu);
    *sources_out = share.all;
    return 0;
}
