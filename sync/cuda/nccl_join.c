/* How the towers of all processes get one communicator. In the start main of all processes compares the GPUs, of which
 * no two towers may use one. The last tower of a process that joins reports that to rank 0; when all processes have
 * done so, rank 0 sends the communicator's id to all. Before that nothing waits in NCCL, so a process may plan for as
 * long as it needs. Later, and until the run's `stop` is connected with the ranks (ranks_set_stop), a message of the
 * same kind reports that its sender has failed. A run that goes back to a checkpoint opens another group: what is
 * received of the one before is dropped. */
#include "sync/cuda/nccl_rank.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "stage/clock.h"
#include "stage/log.h"
#include "sync/ranks/rank_gather.h"
#include "sync/ranks/ranks.h"

#define NAP_NS 1000000
#define WATCH_NS 1000000u

/* Messages to rank 0: its towers have joined, or it has failed. Those from rank 0: the communicator, or it has failed.
 * */
struct notice { uint32_t group, has_failed; };
struct new_communicator { struct notice notice; ncclUniqueId id; };

/* ---- failures ---- */

static void announce_failure(struct nccl_group *group)
{
    const struct notice failure = { .group = group->number, .has_failed = 1 };
    if (group->ranks == NULL)
        return;
    if (ranks_rank(group->ranks) > 0)
        (void)ranks_send(group->ranks, 0, MESSAGE_NCCL, &failure, sizeof(failure));
    else
        (void)ranks_send_all(group->ranks, MESSAGE_NCCL, &failure, sizeof(failure));
}

void nccl_cancel_all(struct nccl_group *group)
{
    if (!atomic_exchange(&group->cancelled, true))
        announce_failure(group);
    pthread_mutex_lock(&group->lock);
    pthread_cond_broadcast(&group->changed);
    pthread_mutex_unlock(&group->lock);
}

/* The next message of this group, or NULL. No later group is open before all processes have closed this one. */
static struct message *try_receive(const struct nccl_group *group, uint32_t from)
{
    struct message *message;
    while ((message = ranks_try_receive(group->ranks, from, MESSAGE_NCCL)) != NULL &&
           ((const struct notice *)(const void *)message->data)->group != group->number)
        free(message);
    return message;
}

static bool has_message(const struct nccl_group *group, uint32_t from)
{
    struct message *const message = try_receive(group, from);
    const bool has = message != NULL;
    free(message);
    return has;
}

void nccl_watch_processes(struct nccl_rank *rank_here)
{
    struct nccl_group *const group = rank_here->group;
    struct ranks *const ranks = group->ranks;
    const uint64_t now_ns = ranks != NULL ? clock_now_ns() : 0;
    if (ranks == NULL || atomic_load(&group->cancelled) || now_ns - rank_here->watched_ns < WATCH_NS)
        return;
    rank_here->watched_ns = now_ns;
    const bool leads = ranks_rank(ranks) == 0;
    bool has_failed = ranks_failed(ranks);
    for (uint32_t rank = leads ? 1 : 0; rank < (leads ? ranks_size(ranks) : 1) && !has_failed; rank++)
        has_failed = has_message(group, rank);
    if (has_failed)
        nccl_cancel_all(group);
}

/* ---- what NCCL would refuse, or hang at ---- */

/* Fail if two towers of this process are on one device. */
static int check_shared_device(const struct nccl_group *group, uint32_t tower)
{
    for (uint32_t d = 0; d < tower; d++) {
        if (cuda_ordinal(group->devices[d]) != cuda_ordinal(group->devices[tower]))
            continue;
        log_message(LOG_ERROR, "sync.reduce = nccl: towers %u and %u are both on %s, and NCCL takes one tower a "
                    "device: use sync.reduce = peer", group->here.first + d, group->here.first + tower,
                    cuda_name(group->devices[tower]));
        return -EINVAL;
    }
    return 0;
}

/* Fail if launches block until they end, because collectives end only together. */
static int check_blocking_launches(const struct nccl_group *group)
{
    const char *const blocking = getenv("CUDA_LAUNCH_BLOCKING");
    if (group->here.count == 1 || blocking == NULL || blocking[0] == '\0' || strcmp(blocking, "0") == 0)
        return 0;
    log_message(LOG_ERROR, "sync.reduce = nccl: CUDA_LAUNCH_BLOCKING=%s can hang with several devices in one process: "
                "unset it", blocking);
    return -EINVAL;
}

static int check_towers(const struct nccl_group *group)
{
    int rc = check_blocking_launches(group);
    for (uint32_t d = 0; d < group->here.count && rc == 0; d++)
        rc = check_shared_device(group, d);
    return rc;
}

/* The GPU of a tower. */
struct gpu_place { char host[64], bus[sizeof(((struct device_description *)0)->bus)]; uint32_t tower; };

static void find_places(const struct reduce_towers *towers, struct gpu_place *places)
{
    for (uint32_t d = 0; d < towers->here.count; d++) {
        struct device_description description;
        places[d] = (struct gpu_place){ .tower = towers->here.first + d };
        (void)gethostname(places[d].host, sizeof(places[d].host) - 1);
        if (towers->devices->describe(towers->index[d % towers->device_count], &description) == 0)
            memcpy(places[d].bus, description.bus, sizeof(description.bus));
    }
}

static int compare_places(const void *left, const void *right)
{
    const struct gpu_place *const a = left, *const b = right;
    const int hosts = strcmp(a->host, b->host), buses = hosts != 0 ? hosts : strcmp(a->bus, b->bus);
    return buses != 0 ? buses : (a->tower > b->tower) - (a->tower < b->tower);
}

/* Sorts the places; of the towers that share a GPU it names the lowest and the one before it. */
static int check_places(struct gpu_place *places, const struct reduce_towers *towers,
                        struct unsupported_reason *reason)
{
    const uint32_t each = towers->here.count;
    const struct gpu_place *same = NULL;
    qsort(places, towers->run, sizeof(*places), compare_places);
    for (uint32_t i = 1; i < towers->run; i++)
        if (*places[i].bus != '\0' && strcmp(places[i - 1].bus, places[i].bus) == 0 &&
            strcmp(places[i - 1].host, places[i].host) == 0 && (same == NULL || places[i].tower < same->tower))
            same = &places[i];
    return same == NULL ? 0 : unsupported_reason_set(reason, -EINVAL, "reduce", "rank %u and rank %u both use the GPU %s "
                                                     "of %s, and NCCL takes one tower a GPU", same[-1].tower / each,
                                                     same->tower / each, same->bus, same->host);
}

int nccl_agree(const struct reduce_towers *towers, struct ranks *ranks, struct unsupported_reason *reason)
{
    struct gpu_place *const all = calloc(towers->run + towers->here.count, sizeof(*all));
    if (all == NULL)
        return -ENOMEM;
    struct gpu_place *const own = all + towers->run;
    find_places(towers, own);
    int rc = rank_gather(ranks, own, towers->here.count * sizeof(*own), all);
    if (rc == 0)
        rc = check_places(all, towers, reason);
    free(all);
    return rc;
}

/* ---- all processes ---- */

/* Wait for a message of this group. NULL: it was a failure, or the group is cancelled. */
static struct message *await_message(struct nccl_group *group, uint32_t from)
{
    struct message *message = NULL;
    while (message == NULL && !atomic_load(&group->cancelled) && !ranks_failed(group->ranks)) {
        message = try_receive(group, from);
        if (message == NULL)
            nanosleep(&(struct timespec){ .tv_nsec = NAP_NS }, NULL);
    }
    if (message != NULL && !((const struct notice *)(const void *)message->data)->has_failed)
        return message;
    free(message);
    return NULL;
}

/* Rank 0: wait until all other processes have joined. */
static int await_processes(struct nccl_group *group)
{
    for (uint32_t rank = 1; rank < group->processes; rank++) {
        struct message *const message = await_message(group, rank);
        if (message == NULL)
            return -ECANCELED;
        free(message);
    }
    return 0;
}

static int lead(struct nccl_group *group, ncclUniqueId *id_out)
{
    struct new_communicator communicator = { .notice.group = group->number };
    int rc = await_processes(group);
    if (rc == 0)
        rc = cuda_enter(group->devices[0]);
    if (rc == 0)
        rc = NCCL_CALL(cuda_name(group->devices[0]), ncclGetUniqueId(&communicator.id));
    if (rc == 0 && group->ranks != NULL)
        rc = ranks_send_all(group->ranks, MESSAGE_NCCL, &communicator, sizeof(communicator));
    *id_out = communicator.id;
    return rc;
}

static int follow(struct nccl_group *group, ncclUniqueId *id_out)
{
    const struct notice ready = { .group = group->number };
    const int rc = ranks_send(group->ranks, 0, MESSAGE_NCCL, &ready, sizeof(ready));
    if (rc != 0)
        return rc;
    struct message *const message = await_message(group, 0);
    if (message == NULL)
        return -ECANCELED;
    memcpy(id_out, message->data + offsetof(struct new_communicator, id), sizeof(*id_out));
    free(message);
    return 0;
}

/* ---- the towers of this process ---- */

/* Count a tower that joins. True for the last one. */
static bool join_count(struct nccl_group *group, uint32_t here, struct device *device)
{
    pthread_mutex_lock(&group->lock);
    group->devices[here] = device;
    const bool is_last = ++group->joined == group->here.count;
    pthread_mutex_unlock(&group->lock);
    return is_last;
}

/* The last tower finds the communicator's id, or ends the rendezvous. */
static int find_id(struct nccl_group *group)
{
    ncclUniqueId id;
    int rc = check_towers(group);
    if (rc == 0)
        rc = ranks_rank(group->ranks) == 0 ? lead(group, &id) : follow(group, &id);
    pthread_mutex_lock(&group->lock);
    if (rc == 0)
        group->id = id;
    group->has_id = rc == 0;
    group->is_broken = rc != 0;
    pthread_cond_broadcast(&group->changed);
    pthread_mutex_unlock(&group->lock);
    if (rc != 0)
        nccl_cancel_all(group);
    return rc;
}

/* Wait for the other towers; this is no stall, because a tower that does not join hangs elsewhere or has failed. */
static int await_id(struct nccl_group *group)
{
    pthread_mutex_lock(&group->lock);
    while (!group->has_id && !group->is_broken && !atomic_load(&group->cancelled))
        pthread_cond_wait(&group->changed, &group->lock);
    const bool is_over = group->is_broken || atomic_load(&group->cancelled);
    pthread_mutex_unlock(&group->lock);
    return is_over ? -ECANCELED : 0;
}

int nccl_join_all(struct nccl_group *group, uint32_t here, struct device *device, ncclUniqueId *id_out)
{
    int rc = join_count(group, here, device) ? find_id(group) : 0;
    if (rc == 0)
        rc = await_id(group);
    *id_out = group->id;
    return rc;
}
