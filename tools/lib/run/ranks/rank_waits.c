/* Which rank is last, by the waits that the towers report. */
#include "tools/lib/run/ranks/rank_waits.h"

#include <errno.h>
#include <stdlib.h>

/* A rank in the step that is added: the waits of its tower that is last. */
struct rank_wait_of { uint32_t rank; uint64_t reduction_ns, input_ns; };

struct rank_sums { uint64_t last; int64_t behind_ns, input_ns; };       /* as in struct last_rank */

struct rank_waits {
    uint32_t ranks, towers;     /* towers: of each rank */
    uint64_t steps;
    struct rank_sums *sums;     /* [rank] */
    struct rank_wait_of *sorted;        /* [ranks] */
};

int rank_waits_open(struct rank_waits **waits_out, const struct schedule *schedule)
{
    const uint32_t towers = schedule_here(schedule).count, ranks = schedule->towers / towers;
    struct rank_waits *const waits = calloc(1, sizeof(*waits));
    if (waits == NULL)
        return -ENOMEM;
    *waits = (struct rank_waits){ .ranks = ranks, .towers = towers, .sums = calloc(ranks, sizeof(*waits->sums)),
                                  .sorted = calloc(ranks, sizeof(*waits->sorted)) };
    if (waits->sums == NULL || waits->sorted == NULL) {
        rank_waits_close(waits);
        return -ENOMEM;
    }
    *waits_out = waits;
    return 0;
}

void rank_waits_close(struct rank_waits *waits)
{
    if (waits == NULL)
        return;
    free(waits->sums);
    free(waits->sorted);
    free(waits);
}

static int compare_inputs(const void *left, const void *right)
{
    const struct rank_wait_of *const a = left, *const b = right;
    return (a->input_ns > b->input_ns) - (a->input_ns < b->input_ns);
}

static int compare_reductions(const void *left, const void *right)
{
    const struct rank_wait_of *const a = left, *const b = right;
    return (a->reduction_ns > b->reduction_ns) - (a->reduction_ns < b->reduction_ns);
}

static struct rank_wait_of wait_of(const struct rank_waits *waits, uint32_t rank, struct step_report *const *reports)
{
    struct rank_wait_of wait = { .rank = rank, .reduction_ns = UINT64_MAX };
    for (uint32_t d = rank * waits->towers; d < (rank + 1) * waits->towers; d++) {
        const struct step_times *const times = &reports[d]->times;
        if (times->exposed_reduction < wait.reduction_ns)
            wait = (struct rank_wait_of){ rank, times->exposed_reduction, times->input_wait };
    }
    return wait;
}

/* The index in `sorted` of the median of all others than the one at `index`; of two medians the lower one. */
static uint32_t median_of_others(const struct rank_waits *waits, uint32_t index)
{
    const uint32_t middle = (waits->ranks - 2) / 2;
    return middle < index ? middle : middle + 1;
}

static void add_behind(struct rank_waits *waits)
{
    const struct rank_wait_of *const sorted = waits->sorted;
    for (uint32_t i = 0; i < waits->ranks; i++)
        waits->sums[sorted[i].rank].behind_ns +=
            (int64_t)sorted[median_of_others(waits, i)].reduction_ns - (int64_t)sorted[i].reduction_ns;
    waits->sums[sorted[0].rank].last++;
}

static void add_inputs(struct rank_waits *waits)
{
    const struct rank_wait_of *const sorted = waits->sorted;
    for (uint32_t i = 0; i < waits->ranks; i++)
        waits->sums[sorted[i].rank].input_ns +=
            (int64_t)sorted[i].input_ns - (int64_t)sorted[median_of_others(waits, i)].input_ns;
}

void rank_waits_add(struct rank_waits *waits, struct step_report *const *reports)
{
    for (uint32_t rank = 0; rank < waits->ranks; rank++)
        waits->sorted[rank] = wait_of(waits, rank, reports);
    qsort(waits->sorted, waits->ranks, sizeof(*waits->sorted), compare_reductions);
    if (waits->sorted[waits->ranks / 2].reduction_ns == 0)
        return;
    waits->steps++;
    add_behind(waits);
    qsort(waits->sorted, waits->ranks, sizeof(*waits->sorted), compare_inputs);
    add_inputs(waits);
}

struct last_rank rank_waits_find(const struct rank_waits *waits)
{
    struct last_rank last = { .steps = 0 };
    if (waits == NULL || waits->steps == 0)
        return last;
    last.steps = waits->steps;
    last.ranks = waits->ranks;
    for (uint32_t rank = 1; rank < waits->ranks; rank++)
        if (waits->sums[rank].last > waits->sums[last.rank].last)
            last.rank = rank;
    const struct rank_sums *const sums = &waits->sums[last.rank];
    const double steps = (double)last.steps;
    last.share = (double)sums->last / steps;
    last.behind_ms = (double)sums->behind_ns / steps / 1e6;
    last.input_ms = (double)sums->input_ns / steps / 1e6;
    return last;
}

bool last_rank_is_slow(const struct last_rank *last, double step_ms)
{
    return last->steps >= LAST_STEPS && last->share >= 0.5 + 1 / (3.0 * last->ranks) &&
           last->behind_ms >= LAST_MS && last->behind_ms >= LAST_STEP_SHARE * step_ms;
}
