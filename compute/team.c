/* Parallel loops of a tower. Called from the tower's thread; main calls team_try and team_is_bound. */
#include "compute/team.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>

#include "stage/address_space.h"
#include "stage/thread.h"

#define MEMBER_BYTES ((size_t)1 << 20)  /* memory of OpenMP and the C library per thread, in addition to its stack; some
                                         * tens of KiB were measured */

#ifdef _OPENMP
#include <omp.h>
#endif

void team_size(uint32_t threads)
{
#ifdef _OPENMP
    omp_set_dynamic(0);
    omp_set_max_active_levels(1);
    omp_set_num_threads((int)threads);
#else
    (void)threads;
#endif
}

/* The function of a thread that ends as soon as it gets the lock. */
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

/* Can the system start `count` more threads? They are tried before OpenMP is called, because some versions abort in
 * their first call. */
static int check_room(uint32_t count)
{
    struct thread **const others = calloc((size_t)count + 1, sizeof(struct thread *));
    const int rc = others == NULL ? -ENOMEM : count > 0 ? try_threads(others, count) : 0;
    free(others);
    return rc;
}

/* Teams that are tried at the same time: each posts `counted`, and ends when it gets `hold`. */
struct trial { pthread_mutex_t hold; sem_t counted; uint32_t threads; };
struct trial_team { struct trial *trial; struct thread *thread; uint32_t found; };

static void hold_team(struct trial *trial)
{
    sem_post(&trial->counted);
    wait_for_lock(&trial->hold);
}

/* The number of threads that a team of the calling thread has when `threads` are requested. `trial` may be NULL. */
static uint32_t count_members(uint32_t threads, struct trial *trial)
{
    uint32_t count = threads;
    team_size(threads);
#ifdef _OPENMP
#pragma omp parallel num_threads((int)threads)
#pragma omp master
#endif
    {
#ifdef _OPENMP
        count = (uint32_t)omp_get_num_threads();
#endif
        if (trial != NULL)
            hold_team(trial);
    }
    return count;
}

int team_start(uint32_t threads)
{
    const int rc = check_room(threads - 1);
    if (rc != 0)
        return rc;
    return count_members(threads, NULL) == threads ? 0 : -EAGAIN;
}

static void trial_team_run(void *arg)
{
    struct trial_team *const team = arg;
    team->found = count_members(team->trial->threads, team->trial);
}

static uint32_t find_smallest(struct trial *trial, struct trial_team *teams, uint32_t team_count)
{
    uint32_t started = 0, smallest = trial->threads;
    pthread_mutex_lock(&trial->hold);
    for (uint32_t i = 0; i < team_count; i++) {
        teams[i].trial = trial;
        started += thread_start(&teams[i].thread, "team", trial_team_run, &teams[i]) == 0;
    }
    while (started > 0)
        started -= sem_wait(&trial->counted) == 0;
    pthread_mutex_unlock(&trial->hold);
    for (uint32_t i = 0; i < team_count; i++) {
        thread_join(teams[i].thread);
        smallest = teams[i].found < smallest ? teams[i].found : smallest;
    }
    return smallest;
}

uint32_t team_try(uint32_t teams, uint32_t threads)
{
    struct trial_team *const all = calloc(teams, sizeof(*all));
    struct trial trial = { .hold = PTHREAD_MUTEX_INITIALIZER, .threads = threads };
    uint32_t found = 0;
    if (all != NULL && check_room(teams * threads) == 0) {
        sem_init(&trial.counted, 0, 0);
        found = find_smallest(&trial, all, teams);
        sem_destroy(&trial.counted);
    }
    free(all);
    return found;
}

bool team_is_bound(cpu_set_t *cpus_out)
{
    CPU_ZERO(cpus_out);
#ifdef _OPENMP
    for (int place = 0; place < omp_get_num_places(); place++) {
        const int count = omp_get_place_num_procs(place);
        int *const ids = calloc((size_t)count + 1, sizeof(*ids));
        if (ids == NULL)
            break;
        omp_get_place_proc_ids(place, ids);
        for (int i = 0; i < count; i++)
            if (ids[i] >= 0 && ids[i] < CPU_SETSIZE)
                CPU_SET(ids[i], cpus_out);
        free(ids);
    }
#endif
    return CPU_COUNT(cpus_out) > 0;
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
