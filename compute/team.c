/* The split of a loop over the tower's threads. Called from the tower's thread. */
#include "compute/team.h"

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

/* One grain is not worth a team, and a smaller team than the one before would make OpenMP
 * end threads. A team smaller than asked for (a limit of the environment) does the same
 * ranges in turns. */
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
