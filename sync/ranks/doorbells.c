/* Doorbells of ranks on a host. */
#include "sync/ranks/doorbells.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "stage/clock.h"

/* In memory that other ranks share. */
struct doorbell {
    atomic_uint count;                  /* of rings; the futex */
    atomic_uint is_slept_at;            /* 1: its owner sleeps until the count changes */
    atomic_uint mail;                   /* announced */
};

struct doorbells {
    struct ranks *ranks;
    struct rank_memory *memory;         /* a doorbell */
};

int doorbells_open(struct doorbells **doorbells_out, struct ranks *ranks)
{
    struct doorbells *const doorbells = calloc(1, sizeof(*doorbells));
    if (doorbells == NULL)
        return -ENOMEM;
    doorbells->ranks = ranks;
    const int rc = rank_memory_open(&doorbells->memory, ranks, sizeof(struct doorbell));
    if (rc != 0) {
        free(doorbells);
        return rc;
    }
    *doorbells_out = doorbells;
    return 0;
}

void doorbells_close(struct doorbells *doorbells)
{
    if (doorbells == NULL)
        return;
    rank_memory_close(doorbells->memory, false);
    free(doorbells);
}

int doorbells_link(struct doorbells *doorbells, int tag, struct rank_wait *wait_out)
{
    return rank_memory_link(doorbells->memory, tag, wait_out);
}

static struct doorbell *doorbell_of(const struct doorbells *doorbells, uint32_t rank)
{
    return rank_memory_of(doorbells->memory, rank);
}

static struct doorbell *own_doorbell(const struct doorbells *doorbells)
{
    return doorbell_of(doorbells, ranks_rank(doorbells->ranks));
}

bool doorbells_reach(const struct doorbells *doorbells, uint32_t rank)
{
    return doorbell_of(doorbells, rank) != NULL;
}

/* Either the sleeper sees the new count, or this sees that it sleeps: both look after they have written. */
void doorbells_ring(struct doorbells *doorbells, uint32_t rank)
{
    struct doorbell *const doorbell = doorbell_of(doorbells, rank);
    atomic_fetch_add(&doorbell->count, 1);
    if (atomic_load(&doorbell->is_slept_at) != 0)
        (void)syscall(SYS_futex, &doorbell->count, FUTEX_WAKE, 1, NULL, NULL, 0);
}

uint32_t doorbells_count(const struct doorbells *doorbells)
{
    return atomic_load(&own_doorbell(doorbells)->count);
}

void doorbells_sleep(struct doorbells *doorbells, uint32_t seen, uint64_t due_ns)
{
    struct doorbell *const own = own_doorbell(doorbells);
    const struct timespec until = clock_timespec(due_ns);
    atomic_store(&own->is_slept_at, 1);
    (void)syscall(SYS_futex, &own->count, FUTEX_WAIT_BITSET, seen, &until, NULL, FUTEX_BITSET_MATCH_ANY);
    atomic_store(&own->is_slept_at, 0);
}

void doorbells_announce_mail(struct doorbells *doorbells, uint32_t rank)
{
    atomic_fetch_add(&doorbell_of(doorbells, rank)->mail, 1);
}

uint32_t doorbells_mail(const struct doorbells *doorbells)
{
    return atomic_load(&own_doorbell(doorbells)->mail);
}
