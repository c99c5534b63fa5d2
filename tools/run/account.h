/* Sums over the towers' reports: loss and accuracy, where the time went, the order in which samples were seen. Used by
 * main only; allocates nothing after account_open. */
#ifndef PIPETRAIN_ACCOUNT_H
#define PIPETRAIN_ACCOUNT_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "stage/schedule.h"
#include "sync/trainer.h"
#include "tools/run/step_stats.h"

/* Samples and time of a part of the run. */
struct tally {
    uint64_t images, correct, steps;
    uint64_t lossless;          /* images of batches whose loss is not finite */
    double loss_sum;            /* over the others */
    uint64_t wall_ns;           /* from the end of the step before to the end of its last step */
    struct step_times times;    /* summed over towers */
};

/* Shares of the towers' time in training steps of this process, after warm-up if that has ended; they sum to 1 (all 0
 * without a step). */
struct fractions { double input_wait, exposed_copy, forward, backward, exposed_reduction, update, other; };

struct step_percentiles { double p50_ms, p90_ms, p99_ms; };

/* The sums that are part of a saved state, so that a resumed run reports epochs, intervals and totals as one process
 * would. Speeds (fractions, percentiles) are of one process and not part of it. */
struct account_state {
    struct tally passes[PHASE_COUNT];    /* the current or latest one of each kind */
    struct tally interval, training;    /* of training: since account_interval_reset, and in total */
    uint64_t order_hash;
    uint64_t evaluated_step;            /* training steps done at the latest evaluation */
};

struct account;

/* For the run of `schedule` (lent), beginning with its first batch. 0 or -ENOMEM. */
int account_open(struct account **account_out, const struct schedule *schedule);
void account_close(struct account *account);
/* The sums after the batch that was added last; and, before the first one, to continue from such sums. */
void account_save(const struct account *account, struct account_state *state_out);
void account_resume(struct account *account, const struct account_state *state);
/* The first step begins. */
void account_begin(struct account *account, uint64_t now_ns);
/* One global batch: the report of every tower of this process, in tower order; `towers` of them. */
void account_add(struct account *account, struct step_report *const *reports, uint32_t towers);

/* Tallies: of the current or latest pass of a kind, and of training since account_interval_reset. */
const struct tally *account_phase(const struct account *account, enum phase phase);
const struct tally *account_interval(const struct account *account);
void account_interval_reset(struct account *account);
/* Training of this process since account_recent_reset or the end of warm-up. */
const struct tally *account_recent(const struct account *account);
void account_recent_reset(struct account *account);
/* All training of the run so far, and of this process alone. */
const struct tally *account_training(const struct account *account);
const struct tally *account_process(const struct account *account);

/* How full the queues were in training of this process: since account_interval_reset, since account_recent_reset, and
 * after warm-up, like fractions. */
const struct queue_fills *account_interval_fills(const struct account *account);
const struct queue_fills *account_recent_fills(const struct account *account);
const struct queue_fills *account_fills(const struct account *account);

struct fractions account_fractions(const struct account *account);
/* The sum of the towers' step times by their own clocks, as a share of the time since the first step by the host's
 * clock: near 1 if the accounting is right. NAN without a step. */
double account_explained(const struct account *account);
struct fractions tally_fractions(const struct tally *tally);
/* Of full training batches of this process after warm-up (10 steps, fewer in short runs); NAN without one. */
struct step_percentiles account_percentiles(const struct account *account);
/* Of the same steps. */
void account_histogram(const struct account *account, struct step_histogram *histogram_out);
/* How many steps of this process are warm-up, and whether that has ended. */
uint64_t account_warmup_steps(const struct account *account);
bool account_is_warm(const struct account *account);
/* The speed of this process in training after warm-up; its spread is over the steps of the percentiles. All NAN without
 * a step. */
struct speeds account_speeds(const struct account *account);
/* Training steps the run has done, with those before a resume. */
uint64_t account_step(const struct account *account);
/* The same at the latest evaluation, 0 without one. */
uint64_t account_evaluated_step(const struct account *account);
/* A hash of the order in which training saw samples: the sum modulo 2^64, over the training samples, of xxh3(epoch from
 * 0, position in the epoch, id; each 64-bit, little-endian). The sums of parts of a run add up to that of the whole. */
uint64_t account_order_hash(const struct account *account);
/* fp16: training steps that were skipped, in the tower that skipped most. */
uint32_t account_skipped_steps(const struct account *account);
/* async: how many training batches of this process' towers had each staleness; `most` is the largest one. */
struct staleness { uint64_t batches[STALENESS_MAX + 1]; uint32_t most; };
const struct staleness *account_staleness(const struct account *account);
/* NAN without a batch. */
double staleness_mean(const struct staleness *staleness);
/* When the last tower ended the batch that was added last, on clock_now_ns's clock. */
uint64_t account_end_ns(const struct account *account);
/* When the first training step of this process ended; 0: none did. */
uint64_t account_first_step_ns(const struct account *account);

/* NAN without an image. */
static inline double tally_loss(const struct tally *tally)
{
    return tally->images > tally->lossless ? tally->loss_sum / (double)(tally->images - tally->lossless) : NAN;
}
static inline double tally_accuracy(const struct tally *tally)
{
    return tally->images > 0 ? (double)tally->correct / (double)tally->images : NAN;
}
static inline double tally_images_per_second(const struct tally *tally)
{
    return tally->wall_ns > 0 ? (double)tally->images * 1e9 / (double)tally->wall_ns : 0;
}

#endif
