/* Which rank is last, by the times that the towers report. */
#include "tools/lib/run/ranks/rank_waits.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A rank in the step that is added: the times of its tower that is last. */
struct rank_step { uint32_t rank; uint64_t busy_ns, reduction_ns, input_ns; };

struct rank_sums {
    uint64_t last, clearly_last;                /* steps, as in struct last_rank */
    int64_t behind_ns, input_ns, most_ns;
    int64_t blocks_ns[LAST_BLOCKS_MAX];         /* behind_ns by successive parts of block_steps steps */
};

struct rank_waits {
    uint32_t ranks, towers;     /* towers: of each rank */
    uint64_t steps, block_steps, waited_ns;
    uint32_t *hosts;            /* [rank] */
    struct rank_sums *sums;     /* [rank] */
    struct rank_step *sorted;   /* [ranks] */
};

int rank_waits_open(struct rank_waits **waits_out, const struct schedule *schedule, const uint32_t *hosts)
{
    const uint32_t towers = schedule_here(schedule).count, ranks = schedule->towers / towers;
    struct rank_waits *const waits = calloc(1, sizeof(*waits));
    if (waits == NULL)
        return -ENOMEM;
    *waits = (struct rank_waits){ .ranks = ranks, .towers = towers, .block_steps = 1,
                                  .hosts = calloc(ranks, sizeof(*waits->hosts)),
                                  .sums = calloc(ranks, sizeof(*waits->sums)),
                                  .sorted = calloc(ranks, sizeof(*waits->sorted)) };
    if (waits->hosts == NULL || waits->sums == NULL || waits->sorted == NULL) {
        rank_waits_close(waits);
        return -ENOMEM;
    }
    for (uint32_t rank = 0; rank < ranks; rank++)
        waits->hosts[rank] = hosts != NULL ? hosts[rank] : rank;
    *waits_out = waits;
    return 0;
}

void rank_waits_close(struct rank_waits *waits)
{
    if (waits == NULL)
        return;
    free(waits->hosts);
    free(waits->sums);
    free(waits->sorted);
    free(waits);
}

static int compare(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int compare_inputs(const void *left, const void *right)
{
    return compare(((const struct rank_step *)left)->input_ns, ((const struct rank_step *)right)->input_ns);
}

static int compare_reductions(const void *left, const void *right)
{
    return compare(((const struct rank_step *)left)->reduction_ns, ((const struct rank_step *)right)->reduction_ns);
}

static int compare_busy(const void *left, const void *right)
{
    return compare(((const struct rank_step *)left)->busy_ns, ((const struct rank_step *)right)->busy_ns);
}

/* The step of a rank without its waits for sums and exchanges: it is as late as its last tower. */
static struct rank_step step_of(const struct rank_waits *waits, uint32_t rank, struct step_report *const *reports)
{
    struct rank_step step = { .rank = rank };
    for (uint32_t d = rank * waits->towers; d < (rank + 1) * waits->towers; d++) {
        const struct step_times *const times = &reports[d]->times;
        const uint64_t waited_ns = times->exposed_reduction + times->exposed_exchange;
        const uint64_t busy_ns = times->total - waited_ns;
        if (d == rank * waits->towers || busy_ns > step.busy_ns)
            step = (struct rank_step){ rank, busy_ns, waited_ns, times->input_wait };
    }
    return step;
}

/* The index in `sorted` of the median of all others than the one at `index`; of two medians the lower one. */
static uint32_t median_of_others(const struct rank_waits *waits, uint32_t index)
{
    const uint32_t middle = (waits->ranks - 2) / 2;
    return middle < index ? middle : middle + 1;
}

/* Make room for further parts: two successive ones become one. */
static void merge_blocks(struct rank_waits *waits)
{
    for (uint32_t rank = 0; rank < waits->ranks; rank++) {
        int64_t *const blocks = waits->sums[rank].blocks_ns;
        for (uint32_t i = 0; i < LAST_BLOCKS_MAX / 2; i++)
            blocks[i] = blocks[2 * i] + blocks[2 * i + 1];
        memset(blocks + LAST_BLOCKS_MAX / 2, 0, LAST_BLOCKS_MAX / 2 * sizeof(*blocks));
    }
    waits->block_steps *= 2;
}

/* Is the last rank late by a share of the step that counts? */
static bool is_clear(const struct rank_waits *waits)
{
    const struct rank_step *const last = &waits->sorted[waits->ranks - 1];
    const uint64_t median_ns = waits->sorted[median_of_others(waits, waits->ranks - 1)].busy_ns;
    return (double)(last->busy_ns - median_ns) >= LAST_STEP_SHARE * (double)(last->busy_ns + last->reduction_ns);
}

static void add_behind(struct rank_waits *waits)
{
    const struct rank_step *const sorted = waits->sorted;
    if (waits->steps == LAST_BLOCKS_MAX * waits->block_steps)
        merge_blocks(waits);
    for (uint32_t i = 0; i < waits->ranks; i++) {
        struct rank_sums *const sums = &waits->sums[sorted[i].rank];
        const int64_t behind_ns =
            (int64_t)sorted[i].busy_ns - (int64_t)sorted[median_of_others(waits, i)].busy_ns;
        sums->behind_ns += behind_ns;
        sums->most_ns = behind_ns > sums->most_ns ? behind_ns : sums->most_ns;
        sums->blocks_ns[waits->steps / waits->block_steps] += behind_ns;
    }
    struct rank_sums *const last = &waits->sums[sorted[waits->ranks - 1].rank];
    last->last++;
    last->clearly_last += is_clear(waits);
}

static void add_inputs(struct rank_waits *waits)
{
    const struct rank_step *const sorted = waits->sorted;
    for (uint32_t i = 0; i < waits->ranks; i++)
        waits->sums[sorted[i].rank].input_ns +=
            (int64_t)sorted[i].input_ns - (int64_t)sorted[median_of_others(waits, i)].input_ns;
}

void rank_waits_add(struct rank_waits *waits, struct step_report *const *reports)
{
    for (uint32_t rank = 0; rank < waits->ranks; rank++)
        waits->sorted[rank] = step_of(waits, rank, reports);
    qsort(waits->sorted, waits->ranks, sizeof(*waits->sorted), compare_busy);
    add_behind(waits);
    qsort(waits->sorted, waits->ranks, sizeof(*waits->sorted), compare_inputs);
    add_inputs(waits);
    qsort(waits->sorted, waits->ranks, sizeof(*waits->sorted), compare_reductions);
    waits->waited_ns += waits->sorted[waits->ranks / 2].reduction_ns;
    waits->steps++;
}

/* The mean of behind_ns over complete parts, divided by its standard error; 0 with fewer than two of them. */
static double certainty_of(const struct rank_waits *waits, const struct rank_sums *sums)
{
    const uint64_t blocks = waits->steps / waits->block_steps;
    double mean = 0, squares = 0;
    for (uint64_t i = 0; i < blocks; i++)
        mean += (double)sums->blocks_ns[i] / (double)blocks;
    for (uint64_t i = 0; i < blocks; i++)
        squares += ((double)sums->blocks_ns[i] - mean) * ((double)sums->blocks_ns[i] - mean);
    if (blocks < 2)
        return 0;
    return squares > 0 ? mean / sqrt(squares / (double)(blocks - 1) / (double)blocks) : copysign(INFINITY, mean);
}

/* The ranks of the rank's host, if all are late by at least half as much as the rank, and there are other hosts; or 1. */
static uint32_t late_together(const struct rank_waits *waits, uint32_t rank)
{
    uint32_t of_host = 0, late = 0;
    for (uint32_t other = 0; other < waits->ranks; other++) {
        if (waits->hosts[other] != waits->hosts[rank])
            continue;
        of_host++;
        late += waits->sums[other].behind_ns >= waits->sums[rank].behind_ns / 2;
    }
    return late == of_host && of_host < waits->ranks ? of_host : 1;
}

struct last_rank rank_waits_find(const struct rank_waits *waits)
{
    struct last_rank last = { .steps = 0 };
    if (waits == NULL || waits->steps == 0 || waits->waited_ns == 0)
        return last;
    last.steps = waits->steps;
    last.ranks = waits->ranks;
    for (uint32_t rank = 1; rank < waits->ranks; rank++)
        if (waits->sums[rank].behind_ns > waits->sums[last.rank].behind_ns)
            last.rank = rank;
    const struct rank_sums *const sums = &waits->sums[last.rank];
    const double steps = (double)last.steps;
    last.together = late_together(waits, last.rank);
    last.share = (double)sums->last / steps;
    last.clear_share = (double)sums->clearly_last / steps;
    last.behind_ms = (double)sums->behind_ns / steps / 1e6;
    last.input_ms = (double)sums->input_ns / steps / 1e6;
    last.most_ms = (double)sums->most_ns / 1e6;
    last.waited_ms = (double)waits->waited_ns / steps / 1e6;
    last.certainty = certainty_of(waits, sums);
    return last;
}

bool last_rank_is_slow(const struct last_rank *last, double step_ms)
{
    const double least_ms = fmax(LAST_STEP_SHARE * step_ms, fmin(LAST_MS, LAST_SHORT_STEP_SHARE * step_ms));
    const bool is_chance = last->certainty < LAST_CERTAINTY && last->clear_share < 0.5 + 1 / (3.0 * last->ranks);
    return last->steps >= LAST_STEPS && !is_chance && last->behind_ms >= least_ms &&
           last->waited_ms >= last->behind_ms / 2;
}

bool last_rank_rests(const struct last_rank *last)
{
    return last->most_ms >= LAST_REST * last->behind_ms && last->share < 1.0 / last->ranks + LAST_CHANCE;
}
