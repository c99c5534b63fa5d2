/* Adding up what the towers report: loss and accuracy, where the time went, the order
 * in which samples were seen. Used by main only; allocates nothing after account_open. */
#ifndef PIPETRAIN_ACCOUNT_H
#define PIPETRAIN_ACCOUNT_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "stage/schedule.h"
#include "sync/trainer.h"
#include "tools/run/pace/fill.h"
#include "tools/run/pace/speeds.h"
#include "tools/run/summary/step_histogram.h"

/* Samples and time of a stretch of the run. */
struct tally {
    uint64_t images, correct, steps;
    uint64_t lossless;          /* images of steps that were left out, whose loss says nothing */
    double loss_sum;            /* over the others */
    uint64_t wall_ns;           /* from the end of the step before to the end of its last */
    struct step_times times;    /* summed over towers */
};

/* Shares of tower time in training steps of this process, after warm-up when the run got that far; they
 * sum to 1 (all 0 without a step). */
struct fractions { double input_wait, exposed_copy, forward, backward, exposed_reduction, update, other; };

struct step_percentiles { double p50_ms, p90_ms, p99_ms; };

/* The sums a run that goes on in another process takes along: what is said of an epoch, an
 * interval or the run is then what one process alone would say. Times are what they were;
 * speeds (fractions, percentiles) are of one process and not among them. */
struct account_state {
    struct tally passes[PHASE_COUNT];    /* this or the latest one of a kind */
    struct tally interval, training;    /* training: since account_interval_reset, and in all */
    uint64_t order_hash;
    uint64_t evaluated_step;            /* steps done when the latest evaluation was */
};

struct account;

/* For the run that `schedule` describes (lent), from its first batch on. 0 or -ENOMEM. */
int account_open(struct account **account_out, const struct schedule *schedule);
void account_close(struct account *account);
/* The sums behind the last batch that was added, and the way on from them: before the first. */
void account_save(const struct account *account, struct account_state *state_out);
void account_resume(struct account *account, const struct account_state *state);
/* The first step begins. */
void account_begin(struct account *account, uint64_t now_ns);
/* One global batch: the report of every tower of this process, in tower order; `towers` of them. */
void account_add(struct account *account, struct step_report *const *reports, uint32_t towers);

/* Tallies: of this or the latest pass of a kind, and of training since account_interval_reset. */
const struct tally *account_phase(const struct account *account, enum phase phase);
const struct tally *account_interval(const struct account *account);
void account_interval_reset(struct account *account);
/* Training of this process since account_recent_reset, and at most since the end of warm-up. */
const struct tally *account_recent(const struct account *account);
void account_recent_reset(struct account *account);
/* All training of the run so far, and that of this process alone. */
const struct tally *account_training(const struct account *account);
const struct tally *account_process(const struct account *account);

/* How full the queues were: in training since account_interval_reset, not going on from another process, since
 * account_recent_reset, and in that of this process, after warm-up as fractions are. */
const struct queue_fills *account_interval_fills(const struct account *account);
const struct queue_fills *account_recent_fills(const struct account *account);
const struct queue_fills *account_fills(const struct account *account);

struct fractions account_fractions(const struct account *account);
/* Share of the towers' time from the first step on, by the host's clock, that their steps add up to; NAN without. */
double account_explained(const struct account *account);
struct fractions tally_fractions(const struct tally *tally);
/* Of full training batches of this process after warm-up (its first 10 steps, fewer in short runs); NAN without one. */
struct step_percentiles account_percentiles(const struct account *account);
/* The same steps, counted. */
void account_histogram(const struct account *account, struct step_histogram *histogram_out);
/* How many steps of this process only warm up, and whether that is over. */
uint64_t account_warmup_steps(const struct account *account);
bool account_is_warm(const struct account *account);
/* The speed of this process: images over wall time in all training after warm-up, and how evenly it went by the steps
 * of the percentiles. All NAN without a step. */
struct speeds account_speeds(const struct account *account);
/* Training steps the run has done, those before its first batch included: a place in the run, where
 * account_training's steps are how many were added. */
uint64_t account_step(const struct account *account);
/* As many as were done when the latest evaluation was, 0 without one. */
uint64_t account_evaluated_step(const struct account *account);
/* The order in which training saw samples: the sum, modulo 2^64, over the training samples of
 * xxh3(epoch from 0, position in the epoch, id; each 64-bit, little-endian). The sums of parts of a
 * run, or of its processes, add up to that of the whole. */
uint64_t account_order_hash(const struct account *account);
/* fp16: training steps whose update was left out, in the tower that left out most. */
uint32_t account_skipped_steps(const struct account *account);
/* async: the training batches of this process' towers, by the staleness of their weights (step_report); at most
 * `most`, of which none was counted above. */
struct staleness { uint64_t batches[STALENESS_MAX + 1]; uint32_t most; };
const struct staleness *account_staleness(const struct account *account);
/* NAN without a batch. */
double staleness_mean(const struct staleness *staleness);
/* When the last tower was done with the batch that was added last, on clock_now_ns's clock. */
uint64_t account_end_ns(const struct account *account);
/* When this process' first training step ended, 0 = none did. */
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
