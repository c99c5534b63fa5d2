/* Rank 0 gathers the resources that all ranks use, and sends the shares of all to each. */
#include "tools/lib/run/ranks/rank_share.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "stage/log.h"
#include "stage/stop.h"

static void *share_at(const struct rank_share_rule *rule, void *shares, uint32_t rank)
{
    return (char *)shares + rank * rule->share_bytes;
}

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

/* ---- rank 0 ---- */

/* The users of a host, in the order of their ranks. */
struct host { const struct place *places; uint32_t count; };
/* A rank and its host, whose name begins its user. */
struct place { const char *host; uint32_t rank; };

struct gathering {
    const struct rank_share_rule *rule;
    uint32_t count;                     /* of ranks */
    char *users, *of_host;              /* [rank]; of one host, [its ranks] */
    char *shares, *common;              /* shares: [rank]; common: one share, what all have in common */
    struct place *places;               /* [count], sorted by host */
    struct host *hosts;                 /* [host_count], in the order of their lowest ranks */
    uint32_t host_count;
};

static int compare_places(const void *left, const void *right)
{
    const struct place *const a = left, *const b = right;
    const int hosts = strcmp(a->host, b->host);
    return hosts != 0 ? hosts : (a->rank > b->rank) - (a->rank < b->rank);
}

static int compare_hosts(const void *left, const void *right)
{
    const uint32_t a = ((const struct host *)left)->places->rank, b = ((const struct host *)right)->places->rank;
    return (a > b) - (a < b);
}

static void find_hosts(struct gathering *all)
{
    for (uint32_t rank = 0; rank < all->count; rank++)
        all->places[rank] = (struct place){ user_at(all->rule, all->users, rank), rank };
    qsort(all->places, all->count, sizeof(*all->places), compare_places);
    for (uint32_t i = 0; i < all->count; i++) {
        if (i == 0 || strcmp(all->places[i - 1].host, all->places[i].host) != 0)
            all->hosts[all->host_count++] = (struct host){ .places = &all->places[i] };
        all->hosts[all->host_count - 1].count++;
    }
    qsort(all->hosts, all->host_count, sizeof(*all->hosts), compare_hosts);
}

static void take_users(struct gathering *all, const struct host *host)
{
    for (uint32_t i = 0; i < host->count; i++)
        memcpy(user_at(all->rule, all->of_host, i), host->places[i].host, all->rule->user_bytes);
}

static void find_common(struct gathering *all)
{
    for (uint32_t h = 0; h < all->host_count && all->rule->add_host != NULL; h++) {
        take_users(all, &all->hosts[h]);
        all->rule->add_host(all->of_host, all->hosts[h].count, all->count, all->common);
    }
}

/* Find the shares of a host's ranks. */
static void find_shares(struct gathering *all, const struct host *host)
{
    const struct rank_share_rule *const rule = all->rule;
    take_users(all, host);
    for (uint32_t i = 0; i < host->count; i++) {
        void *const share = share_at(rule, all->shares, host->places[i].rank);
        memcpy(share, all->common, rule->share_bytes);
        rule->share_of(all->of_host, host->count, i, share);
    }
}

static int open_gathering(struct gathering *all, const struct rank_share_rule *rule, uint32_t count)
{
    *all = (struct gathering){ .rule = rule, .count = count, .users = calloc(count, rule->user_bytes),
                               .of_host = calloc(count, rule->user_bytes), .shares = calloc(count, rule->share_bytes),
                               .common = calloc(1, rule->share_bytes), .places = calloc(count, sizeof(*all->places)),
                               .hosts = calloc(count, sizeof(*all->hosts)) };
    return all->users != NULL && all->of_host != NULL && all->shares != NULL && all->common != NULL &&
           all->places != NULL && all->hosts != NULL ? 0 : -ENOMEM;
}

static void close_gathering(struct gathering *all)
{
    free(all->users);
    free(all->of_host);
    free(all->shares);
    free(all->common);
    free(all->places);
    free(all->hosts);
}

static int lead(struct ranks *ranks, const struct rank_share_rule *rule, const void *user, void *share_out)
{
    struct gathering all;
    int rc = open_gathering(&all, rule, ranks_size(ranks));
    for (uint32_t rank = 1; rank < all.count && rc == 0; rank++) {
        rc = receive(ranks, rank, user_at(rule, all.users, rank), rule->user_bytes);
        if (rc == 0)
            rule->bound(user_at(rule, all.users, rank));
    }
    if (rc == 0) {
        memcpy(all.users, user, rule->user_bytes);
        find_hosts(&all);
        find_common(&all);
    }
    for (uint32_t h = 0; h < all.host_count; h++)
        find_shares(&all, &all.hosts[h]);
    if (rc == 0)
        memcpy(share_out, share_at(rule, all.shares, 0), rule->share_bytes);
    if (rc == 0)
        rc = ranks_send_all(ranks, MESSAGE_COLLECTIVE, all.shares, all.count * rule->share_bytes);
    close_gathering(&all);
    return rc;
}

/* ---- all ---- */

static int follow(struct ranks *ranks, const struct rank_share_rule *rule, const void *user, void *share_out)
{
    const size_t bytes = ranks_size(ranks) * rule->share_bytes;
    struct message *message;
    int rc = ranks_send(ranks, 0, MESSAGE_COLLECTIVE, user, rule->user_bytes);
    if (rc == 0)
        rc = ranks_receive(ranks, 0, MESSAGE_COLLECTIVE, &message);
    if (rc != 0)
        return rc;
    if (message->bytes == bytes)
        memcpy(share_out, share_at(rule, message->data, ranks_rank(ranks)), rule->share_bytes);
    free(message);
    return 0;
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
