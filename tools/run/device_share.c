/* Rank 0 compares the GPUs of all ranks. */
#include "tools/run/device_share.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stage/log.h"
#include "stage/stop.h"

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

static void find_user(const struct device_plan *plan, struct device_user *user)
{
    *user = (struct device_user){ .count = plan->count };
    (void)gethostname(user->host, sizeof(user->host) - 1);
    for (uint32_t i = 0; i < plan->count; i++) {
        struct device_description device;
        if (plan->ops->describe(plan->index[i], &device) == 0 && strstr(device.name, " MIG ") == NULL)
            snprintf(user->bus[i], BUS_BYTES, "%s", device.bus);
    }
}

/* Another version of this program may send anything; it is refused later. */
static void read_user(const struct mail *mail, struct device_user *user)
{
    *user = (struct device_user){ .count = 0 };
    if (mail->bytes != sizeof(*user))
        return;
    memcpy(user, mail->data, sizeof(*user));
    user->count = user->count < DEVICES_MAX ? user->count : DEVICES_MAX;
    user->host[HOST_NAME_BYTES - 1] = '\0';
    for (uint32_t i = 0; i < user->count; i++)
        user->bus[i][BUS_BYTES - 1] = '\0';
}

static int gather(struct ranks *ranks, struct device_user *users, uint32_t count)
{
    for (uint32_t rank = 1; rank < count; rank++) {
        struct mail *mail;
        const int rc = ranks_receive(ranks, rank, MAIL_MEETING, &mail);
        if (rc != 0)
            return rc;
        read_user(mail, &users[rank]);
        free(mail);
    }
    return 0;
}

static int lead(struct ranks *ranks, const struct device_plan *plan, uint32_t *share_out)
{
    const uint32_t count = ranks_size(ranks);
    struct device_user *const users = calloc(count, sizeof(*users));
    int rc = users == NULL ? -ENOMEM : gather(ranks, users, count);
    if (rc == 0)
        find_user(plan, &users[0]);
    for (uint32_t rank = 1; rank < count && rc == 0; rank++) {
        const uint32_t share = device_share_of(users, count, rank);
        rc = ranks_send(ranks, rank, MAIL_MEETING, &share, sizeof(share));
    }
    if (rc == 0)
        *share_out = device_share_of(users, count, 0);
    free(users);
    return rc;
}

static int follow(struct ranks *ranks, const struct device_plan *plan, uint32_t *share_out)
{
    struct device_user user;
    struct mail *mail;
    find_user(plan, &user);
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

int device_share_agree(struct ranks *ranks, struct device_plan *plan)
{
    uint32_t share = 1;
    if (ranks == NULL)
        return 0;
    const int rc = ranks_rank(ranks) == 0 ? lead(ranks, plan, &share) : follow(ranks, plan, &share);
    if (rc == -ENOMEM) {
        log_message(LOG_ERROR, "the GPUs of all ranks: %s", strerror(ENOMEM));
        return EXIT_CODE_MEMORY;
    }
    if (rc != 0)
        return EXIT_CODE_RANK;
    plan->sharing = share > plan->sharing ? share : plan->sharing;
    if (share > 1)
        log_message(LOG_RUN, "devices: %u ranks of this host use the same GPU: each plans with 1/%u of its free memory", share,
                    plan->sharing);
    return 0;
}
