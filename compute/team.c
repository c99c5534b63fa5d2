/* Parallel loops of a tower. Called from the tower's thread. */
#include "compute/team.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "stage/address_space.h"
#include "stage/thread.h"

#define MEMBER_BYTES ((size_t)1 << 20)  /* that OpenMP and the C library keep of a thread, beside its stack; measured
                                         * are some tens of KiB */

#ifdef _OPENMP
#include <omp.h>
#endif

void team_size(uint32_t threads)
{
#ifdef _OPENMP
    omp_set_dynamic(0);
    omp_set_num_threads((int)threads);
#else
    (void)threads;
#endif
}

/* A thread that ends as soon as it gets the lock. */
static void wait_for_lock(void *lock)
{
    pthread_mutex_lock(lock);
    pthread_mutex_unlock(lock);
}

/* Start all threads at the same time, because only their sum may exceed a limit. */
static int try_threads(struct thread **threads, uint32_t count)
{
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    uint32_t started = 0;
    int rc = 0;
    pthread_mutex_lock(&lock);
    while (started < count && (rc = thread_start(&threads[started], "team", wait_for_lock, &lock)) == 0)
        started++;
    if (rc == 0)
        rc = check_address_space(count * MEMBER_BYTES);
    pthread_mutex_unlock(&lock);
    while (started > 0)
        thread_join(threads[--started]);
    return rc;
}

static void begin_member(void *arg, uint32_t member, size_t first, size_t end)
{
    (void)arg, (void)member, (void)first, (void)end;
}

/* The threads are tried before OpenMP is called, because some versions abort in their first call. */
int team_start(uint32_t threads)
{
    struct thread **const others = calloc(threads, sizeof(struct thread *));
    const int rc = others == NULL ? -ENOMEM : threads > 1 ? try_threads(others, threads - 1) : 0;
    free(others);
    if (rc != 0)
        return rc;
    team_size(threads);
    if (threads > 1)
        team_run(threads, threads, 1, begin_member, NULL);
    return 0;
}

int team_start_bound(struct device *device, const uint32_t *cpus, uint32_t cpu_count, uint32_t threads)
{
    if (cpus != NULL)
        thread_bind(cpus, cpu_count);
    else
        device->ops->bind(device);
    return threads > 0 ? team_start(threads) : 0;
}

static void run_member(uint32_t threads, uint32_t member, size_t count, size_t grain, team_work work, void *arg)
{
    const size_t grains = (count + grain - 1) / grain;
    const size_t first = grains * member / threads * grain;
    size_t end = grains * (member + 1) / threads * grain;
    if (end > count)
        end = count;
    if (first < end)
        work(arg, member, first, end);
}

/* A single grain is not worth a team. Teams always have all threads, because a smaller team would make OpenMP end
 * threads. If a limit of the environment makes the team smaller, its threads process several ranges each. */
void team_run(uint32_t threads, size_t count, size_t grain, team_work work, void *arg)
{
#ifdef _OPENMP
    if (threads > 1 && count > grain) {
#pragma omp parallel for num_threads((int)threads) schedule(static, 1)
        for (uint32_t member = 0; member < threads; member++)
            run_member(threads, member, count, grain, work, arg);
        return;
    }
#endif
    for (uint32_t member = 0; member < threads; member++)
        run_member(threads, member, count, grain, work, arg);
}
