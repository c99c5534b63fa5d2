/* Waking the communication threads of ranks on this host. */
#include "sync/ranks/wakeup.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "stage/clock.h"

/* The flag of a thread. */
struct wakeup_flag {
    atomic_uint count;                  /* number of wake-ups; the thread waits on it as a futex */
    atomic_uint is_sleeping;            /* 1: the thread sleeps, or is about to sleep, until the count changes */
};

/* The flags of a rank, in shared memory. */
struct wakeup_flags {
    struct wakeup_flag flags[RANKS_THREADS_MAX];
    atomic_uint announced;              /* messages that were announced to the owner */
    atomic_uint threads;                /* constant once the ranks are connected */
};

struct wakeup {
    struct ranks *ranks;
    struct rank_memory *memory;         /* the memory of each rank contains a struct wakeup_flags */
};

static struct wakeup_flags *flags_of(const struct wakeup *wakeup, uint32_t rank)
{
    return rank_memory_of(wakeup->memory, rank);
}

static struct wakeup_flags *own_flags(const struct wakeup *wakeup)
{
    return flags_of(wakeup, ranks_rank(wakeup->ranks));
}

int wakeup_open(struct wakeup **wakeup_out, struct ranks *ranks)
{
    struct wakeup *const wakeup = calloc(1, sizeof(*wakeup));
    if (wakeup == NULL)
        return -ENOMEM;
    wakeup->ranks = ranks;
    const int rc = rank_memory_open(&wakeup->memory, ranks, sizeof(struct wakeup_flags));
    if (rc != 0) {
        free(wakeup);
        return rc;
    }
    wakeup_set_threads(wakeup, 1);
    *wakeup_out = wakeup;
    return 0;
}

void wakeup_set_threads(struct wakeup *wakeup, uint32_t threads)
{
    atomic_store(&own_flags(wakeup)->threads, threads);
}

void wakeup_close(struct wakeup *wakeup)
{
    if (wakeup == NULL)
        return;
    rank_memory_close(wakeup->memory, false);
    free(wakeup);
}

int wakeup_know_hosts(struct wakeup *wakeup)
{
    return rank_memory_know_hosts(wakeup->memory);
}

int wakeup_connect(struct wakeup *wakeup, int tag, struct rank_wait *wait_out)
{
    return rank_memory_connect(wakeup->memory, tag, wait_out);
}

bool wakeup_reaches(const struct wakeup *wakeup, uint32_t rank)
{
    return flags_of(wakeup, rank) != NULL;
}

/* Sender and sleeper write before they read, so either the sleeper sees the new count, or the sender sees
 * is_sleeping. */
void wakeup_send(struct wakeup *wakeup, uint32_t rank, uint32_t lane)
{
    struct wakeup_flags *const flags = flags_of(wakeup, rank);
    struct wakeup_flag *const flag = &flags->flags[lane % atomic_load(&flags->threads)];
    atomic_fetch_add(&flag->count, 1);
    if (atomic_load(&flag->is_sleeping) != 0)
        (void)syscall(SYS_futex, &flag->count, FUTEX_WAKE, 1, NULL, NULL, 0);
}

uint32_t wakeup_count(const struct wakeup *wakeup, uint32_t thread)
{
    return atomic_load(&own_flags(wakeup)->flags[thread].count);
}

void wakeup_sleep(struct wakeup *wakeup, uint32_t thread, uint32_t seen, uint64_t due_ns)
{
    struct wakeup_flag *const own = &own_flags(wakeup)->flags[thread];
    const struct timespec until = clock_timespec(due_ns);
    atomic_store(&own->is_sleeping, 1);
    (void)syscall(SYS_futex, &own->count, FUTEX_WAIT_BITSET, seen, &until, NULL, FUTEX_BITSET_MATCH_ANY);
    atomic_store(&own->is_sleeping, 0);
}

void wakeup_announce(struct wakeup *wakeup, uint32_t rank)
{
    atomic_fetch_add(&flags_of(wakeup, rank)->announced, 1);
}

uint32_t wakeup_announced(const struct wakeup *wakeup)
{
    return atomic_load(&own_flags(wakeup)->announced);
}
