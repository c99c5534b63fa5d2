/* Waking the communication threads of ranks on this host. */
#include "sync/ranks/wakeup.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "stage/clock.h"

/* The flag of a rank, in shared memory. */
struct wakeup_flag {
    atomic_uint count;                  /* number of wake-ups; the owner waits on it as a futex */
    atomic_uint is_sleeping;            /* 1: the owner sleeps, or is about to sleep, until the count changes */
    atomic_uint announced;              /* messages that were announced to the owner */
};

struct wakeup {
    struct ranks *ranks;
    struct rank_memory *memory;         /* the memory of each rank contains a struct wakeup_flag */
};

int wakeup_open(struct wakeup **wakeup_out, struct ranks *ranks)
{
    struct wakeup *const wakeup = calloc(1, sizeof(*wakeup));
    if (wakeup == NULL)
        return -ENOMEM;
    wakeup->ranks = ranks;
    const int rc = rank_memory_open(&wakeup->memory, ranks, sizeof(struct wakeup_flag));
    if (rc != 0) {
        free(wakeup);
        return rc;
    }
    *wakeup_out = wakeup;
    return 0;
}

void wakeup_close(struct wakeup *wakeup)
{
    if (wakeup == NULL)
        return;
    rank_memory_close(wakeup->memory, false);
    free(wakeup);
}

int wakeup_connect(struct wakeup *wakeup, int tag, struct rank_wait *wait_out)
{
    return rank_memory_connect(wakeup->memory, tag, wait_out);
}

static struct wakeup_flag *flag_of(const struct wakeup *wakeup, uint32_t rank)
{
    return rank_memory_of(wakeup->memory, rank);
}

static struct wakeup_flag *own_flag(const struct wakeup *wakeup)
{
    return flag_of(wakeup, ranks_rank(wakeup->ranks));
}

bool wakeup_reaches(const struct wakeup *wakeup, uint32_t rank)
{
    return flag_of(wakeup, rank) != NULL;
}

/* Sender and sleeper write before they read, so either the sleeper sees the new count, or the sender sees
 * is_sleeping. */
void wakeup_send(struct wakeup *wakeup, uint32_t rank)
{
    struct wakeup_flag *const flag = flag_of(wakeup, rank);
    atomic_fetch_add(&flag->count, 1);
    if (atomic_load(&flag->is_sleeping) != 0)
        (void)syscall(SYS_futex, &flag->count, FUTEX_WAKE, 1, NULL, NULL, 0);
}

uint32_t wakeup_count(const struct wakeup *wakeup)
{
    return atomic_load(&own_flag(wakeup)->count);
}

void wakeup_sleep(struct wakeup *wakeup, uint32_t seen, uint64_t due_ns)
{
    struct wakeup_flag *const own = own_flag(wakeup);
    const struct timespec until = clock_timespec(due_ns);
    atomic_store(&own->is_sleeping, 1);
    (void)syscall(SYS_futex, &own->count, FUTEX_WAIT_BITSET, seen, &until, NULL, FUTEX_BITSET_MATCH_ANY);
    atomic_store(&own->is_sleeping, 0);
}

void wakeup_announce(struct wakeup *wakeup, uint32_t rank)
{
    atomic_fetch_add(&flag_of(wakeup, rank)->announced, 1);
}

uint32_t wakeup_announced(const struct wakeup *wakeup)
{
    return atomic_load(&own_flag(wakeup)->announced);
}
