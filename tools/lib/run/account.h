/* Sums over the towers' reports: loss and accuracy, the times of the parts of a step, the order in which samples were
 * seen. Used by main only; allocates nothing after account_open. */
#ifndef PIPETRAIN_ACCOUNT_H
#define PIPETRAIN_ACCOUNT_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "stage/schedule.h"
#include "sync/trainer.h"
#include "tools/lib/results/class_measures.h"
#include "tools/lib/run/ranks/rank_waits.h"
#include "tools/lib/run/step_stats.h"

/* Sums over the steps of a part of the run: samples and time. */
struct step_totals {
    uint64_t images, correct, steps;
    uint64_t lossless;          /* images of batches whose loss is not finite */
    double loss_sum;            /* over all other images */
    uint64_t wall_ns;           /* from the end of the step before these steps to the end of their last step */
    struct step_times times;    /* summed over towers */
};

/* Shares of the towers' time in training steps of this process, after warm-up if that has ended; they sum to 1 (all 0
 * without a step). */
struct fractions {
    double input_wait, exposed_copy, forward, backward, exposed_reduction, exposed_exchange, update, other;
};

struct step_percentiles { double p50_ms, p90_ms, p99_ms; };

/* The sums that are part of a checkpoint, so that a resumed run reports the same epochs, intervals and totals as an
 * uninterrupted one. Speeds (fractions, percentiles) are of one process and not part of a checkpoint. */
struct account_state {
    struct step_totals phases[PHASE_COUNT];     /* of the current or latest pass of each kind */
    struct step_totals interval, training;      /* of training: since account_interval_reset, and in total */
    /* A hash of the order in which training saw samples: the sum modulo 2^64 of xxh3(epoch from 0, position in the
     * epoch, id; each 64-bit, little-endian). The hash of a run is the sum of the hashes of its parts. */
    uint64_t order_hash;
    uint64_t evaluated_step;            /* training steps done at the latest evaluation */
    /* Measures by class of the latest evaluation; all 0: there was none, it is incomplete, or no sample has an
     * answer. */
    struct mean_measures measures;
};

/* async: how many training batches of this process' towers had each staleness; `most` is the largest staleness. */
struct staleness { uint64_t batches[STALENESS_MAX + 1]; uint32_t most; };

struct ranks;

/* Written only by account.c; may be read by all of main's code. Times are on clock_now_ns's clock. */
struct account {
    const struct schedule *schedule;
    struct account_state state;
    uint64_t step;              /* completed training steps of the run, including those before a resume */
    uint64_t warmup;            /* warm-up steps of this process: the first 10, fewer in short runs */
    struct step_totals process, warm;   /* training of this process, and the part after warm-up */
    struct step_totals recent;  /* training since account_recent_reset or the end of warm-up */
    struct queue_fills interval_fills, recent_fills;    /* since the resets of the same names */
    struct queue_fills fills;   /* of the steps after warm-up; until it has ended, of all steps so far */
    uint64_t last_end_ns;       /* when the last tower ended the batch that was added last */
    uint64_t first_step_ns;     /* when the first training step of this process ended; 0: none has ended */
    uint64_t begun_ns;          /* when the first step began */
    uint64_t towers_ns;         /* the times of all steps, training and evaluation, summed over towers */
    uint64_t seen_ns;           /* the host's time from begun_ns to the end of the latest step, summed over towers */
    struct class_counts *classes;       /* [class_count], of the current or latest evaluation */
    uint32_t class_count;
    double *durations_ms;       /* of full training batches after warm-up */
    uint64_t duration_count, duration_every;
    uint32_t skipped_steps;     /* fp16: training steps that were skipped, in the tower that skipped the most */
    struct staleness staleness;
    struct rank_waits *waits;   /* of training after warm-up; NULL: account_watch_ranks was not called */
};

/* Open the account of the run of `schedule` (lent), which begins with its first batch, of a network with `classes`
 * classes. 0 or -ENOMEM. */
int account_open(struct account **account_out, const struct schedule *schedule, uint32_t classes);
void account_close(struct account *account);
/* Before the first batch, where all towers of a step wait for each other's sums: find out which rank is last. In rank 0.
 * 0 or -ENOMEM. */
int account_watch_ranks(struct account *account, const struct ranks *ranks);
/* Before the first batch: continue from the sums of a checkpoint. */
void account_resume(struct account *account, const struct account_state *state);
/* Called when the first step begins. */
void account_begin(struct account *account, uint64_t now_ns);
/* Add a global batch: the reports of all towers of the run, in tower order; `towers` of them. */
void account_add(struct account *account, struct step_report *const *reports, uint32_t towers);
/* The hash that the report of a training batch adds to order_hash. */
uint64_t account_order(const struct step_report *report);
void account_interval_reset(struct account *account);
void account_recent_reset(struct account *account);

/* The mean time of a training step of this process after warm-up; NAN without one. */
double account_step_ms(const struct account *account);
struct fractions account_fractions(const struct account *account);
struct fractions totals_fractions(const struct step_totals *totals);
/* The sum of the towers' step times by their own clocks, as a share of the time since the first step by the host's
 * clock: near 1 if the accounting is right. NAN without a step. */
double account_explained(const struct account *account);
/* Percentiles of the times of full training batches of this process after warm-up; NAN without one. */
struct step_percentiles account_percentiles(const struct account *account);
/* A histogram of the times of the same steps as account_percentiles. */
void account_histogram(const struct account *account, struct step_histogram *histogram_out);
/* The training speed of this process after warm-up; its spread is over the same steps as account_percentiles. All NAN
 * without a step. */
struct speeds account_speeds(const struct account *account);
/* The mean staleness; NAN without a batch. */
double staleness_mean(const struct staleness *staleness);

/* Were measures by class found in the latest evaluation? */
static inline bool account_has_measures(const struct account *account)
{
    return account->state.measures.largest_share > 0;
}
static inline bool account_is_warm(const struct account *account)
{
    return account->process.steps >= account->warmup;
}
/* The mean loss; NAN without an image. */
static inline double totals_loss(const struct step_totals *totals)
{
    return totals->images > totals->lossless ? totals->loss_sum / (double)(totals->images - totals->lossless) : NAN;
}
static inline double totals_accuracy(const struct step_totals *totals)
{
    return totals->images > 0 ? (double)totals->correct / (double)totals->images : NAN;
}
static inline double totals_images_per_second(const struct step_totals *totals)
{
    return totals->wall_ns > 0 ? (double)totals->images * 1e9 / (double)totals->wall_ns : 0;
}

#endif
