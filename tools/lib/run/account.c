/* Sums over the towers' reports. */
#include "tools/lib/run/account.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "stage/pairwise.h"
#include "sync/ranks/ranks.h"

#define WARMUP_STEPS 10u
/* The most step times that are kept for percentiles; in longer runs only every second, third, ... step is kept. */
#define DURATIONS_MAX (1u << 20)

int account_open(struct account **account_out, const struct schedule *schedule, uint32_t classes)
{
    struct account *const account = calloc(1, sizeof(*account));
    if (account == NULL)
        return -ENOMEM;
    const uint64_t steps = schedule_steps_left(schedule);
    account->schedule = schedule;
    account->step = schedule_position(schedule, schedule->first).step;
    account->warmup = steps / 10 < WARMUP_STEPS ? steps / 10 : WARMUP_STEPS;
    account->class_count = classes;
    account->classes = calloc((size_t)classes + 1, sizeof(*account->classes));
    account->duration_every = steps / DURATIONS_MAX + 1;
    account->durations_ms = calloc(steps / account->duration_every + 1, sizeof(*account->durations_ms));
    if (account->durations_ms == NULL || account->classes == NULL) {
        account_close(account);
        return -ENOMEM;
    }
    *account_out = account;
    return 0;
}

void account_close(struct account *account)
{
    if (account == NULL)
        return;
    rank_waits_close(account->waits);
    free(account->durations_ms);
    free(account->classes);
    free(account);
}

/* The number of a rank's host is that of the first rank on it. */
static void number_hosts(const struct ranks *ranks, uint32_t count, uint32_t *hosts_out)
{
    for (uint32_t rank = 0; rank < count; rank++) {
        uint32_t first = rank > 0 ? hosts_out[rank - 1] : 0;
        if (strcmp(ranks_host(ranks, first), ranks_host(ranks, rank)) != 0)
            for (first = 0; strcmp(ranks_host(ranks, first), ranks_host(ranks, rank)) != 0;)
                first++;
        hosts_out[rank] = first;
    }
}

int account_watch_ranks(struct account *account, const struct ranks *ranks)
{
    const uint32_t count = account->schedule->towers / schedule_here(account->schedule).count;
    uint32_t *const hosts = calloc(count, sizeof(*hosts));
    if (hosts == NULL)
        return -ENOMEM;
    number_hosts(ranks, count, hosts);
    const int rc = rank_waits_open(&account->waits, account->schedule, hosts);
    free(hosts);
    return rc;
}

void account_resume(struct account *account, const struct account_state *state)
{
    account->state = *state;
}

void account_begin(struct account *account, uint64_t now_ns)
{
    account->last_end_ns = account->begun_ns = now_ns;
}

static void add_times(struct step_times *sum, const struct step_times *times)
{
    sum->input_wait += times->input_wait;
    sum->exposed_copy += times->exposed_copy;
    sum->forward += times->forward;
    sum->backward += times->backward;
    sum->exposed_reduction += times->exposed_reduction;
    sum->exposed_exchange += times->exposed_exchange;
    sum->update += times->update;
    sum->other += times->other;
    sum->total += times->total;
}

static void add_totals(struct step_totals *sum, const struct step_totals *totals)
{
    sum->images += totals->images;
    sum->correct += totals->correct;
    sum->steps += totals->steps;
    sum->lossless += totals->lossless;
    sum->loss_sum += totals->loss_sum;
    sum->wall_ns += totals->wall_ns;
    add_times(&sum->times, &totals->times);
}

/* The totals of one global batch. With class weights the loss of a batch is their weighted mean, which counts as the
 * loss of each of its images. *end_ns_out becomes the time at which the last tower ended it. */
static struct step_totals batch_totals(struct step_report *const *reports, uint32_t towers, uint64_t *end_ns_out)
{
    struct step_totals totals = { .steps = 1 };
    struct pairwise_sum losses = { .count = 0 };
    double weights = 0;
    *end_ns_out = 0;
    for (uint32_t d = 0; d < towers; d++) {
        const struct step_report *const report = reports[d];
        assert(report->local.number == reports[0]->local.number);
        totals.images += report->result.counted;
        totals.correct += report->result.correct;
        pairwise_add(&losses, report->result.loss_sum);
        weights += report->result.weight_sum;
        add_times(&totals.times, &report->times);
        if (report->ended_ns > *end_ns_out)
            *end_ns_out = report->ended_ns;
    }
    totals.loss_sum = pairwise_total(&losses);
    if (weights > 0)
        totals.loss_sum *= (double)totals.images / weights;
    if (!isfinite(totals.loss_sum)) {
        totals.lossless = totals.images;
        totals.loss_sum = 0;
    }
    return totals;
}

/* A sum of hashes is the same whichever tower sees a sample. */
uint64_t account_order(const struct step_report *report)
{
    uint64_t order = 0;
    if (report->ids == NULL)
        return report->order;
    for (uint32_t i = 0; i < report->local.count; i++) {
        const uint64_t seen[] = { report->local.epoch, report->local.first_position + i, report->ids[i] };
        order += XXH3_64bits(seen, sizeof(seen));
    }
    return order;
}

/* The number of samples in a full batch. */
static uint64_t full_batch(const struct schedule *schedule)
{
    const uint64_t records = schedule->records[PHASE_TRAIN];
    return schedule->batch < records ? schedule->batch : records;
}

static void add_duration(struct account *account, const struct local_batch *local, const struct step_totals *totals)
{
    const uint64_t seen = account->process.steps;
    add_totals(&account->process, totals);
    if (seen < account->warmup)
        return;
    add_totals(&account->warm, totals);
    if (local->global_count == full_batch(account->schedule) && seen % account->duration_every == 0)
        account->durations_ms[account->duration_count++] = (double)totals->wall_ns / 1e6;
}

static void add_fills(struct account *account, struct step_report *const *reports, uint32_t towers)
{
    if (account->process.steps == account->warmup)
        account->fills = (struct queue_fills){ 0 };
    struct queue_fills *const sums[] = { &account->interval_fills, &account->recent_fills, &account->fills };
    for (size_t i = 0; i < sizeof(sums) / sizeof(*sums); i++)
        for (uint32_t d = 0; d < towers; d++) {
            fill_add(&sums[i]->ring, reports[d]->batches_found);
            fill_add(&sums[i]->slots, reports[d]->slots_found);
        }
}

static void add_staleness(struct staleness *sum, uint32_t staleness)
{
    assert(staleness <= STALENESS_MAX);
    sum->batches[staleness]++;
    sum->most = staleness > sum->most ? staleness : sum->most;
}

static void add_training(struct account *account, struct step_report *const *reports, uint32_t towers,
                         const struct step_totals *totals)
{
    if (account->process.steps == account->warmup)
        account_recent_reset(account);
    account->step = reports[0]->local.step + 1;
    for (uint32_t d = 0; d < towers; d++) {
        account->state.order_hash += account_order(reports[d]);
        if (reports[d]->result.skipped_steps > account->skipped_steps)
            account->skipped_steps = reports[d]->result.skipped_steps;
        add_staleness(&account->staleness, reports[d]->staleness);
    }
    add_totals(&account->state.training, totals);
    add_totals(&account->state.interval, totals);
    add_totals(&account->recent, totals);
    add_fills(account, reports, towers);
    if (account->waits != NULL && account_is_warm(account))
        rank_waits_add(account->waits, reports);
    add_duration(account, &reports[0]->local, totals);
}

static void add_answers(struct account *account, const struct step_report *report)
{
    for (uint32_t i = 0; report->answers != NULL && i < report->local.count; i++) {
        const struct answer *const answer = &report->answers[i];
        if (answer->label < 0)
            continue;
        assert((uint32_t)answer->label < account->class_count && answer->predicted < account->class_count);
        account->classes[answer->label].samples++;
        account->classes[answer->predicted].predicted++;
        account->classes[answer->label].correct += answer->predicted == (uint32_t)answer->label;
    }
}

static void add_evaluation(struct account *account, struct step_report *const *reports, uint32_t towers)
{
    const struct local_batch *const local = &reports[0]->local;
    account->state.evaluated_step = account->step;
    if (local->first_of_phase) {
        memset(account->classes, 0, account->class_count * sizeof(*account->classes));
        account->state.measures = (struct mean_measures){ .largest = 0 };
    }
    for (uint32_t d = 0; d < towers; d++)
        add_answers(account, reports[d]);
    if (local->last_of_phase)
        account->state.measures = mean_measures_of(account->classes, account->class_count);
}

/* Add the time of a training or evaluation batch. */
static void add_seen(struct account *account, struct step_report *const *reports, uint32_t towers)
{
    account->seen_ns = 0;
    for (uint32_t d = 0; d < towers; d++) {
        account->towers_ns += reports[d]->times.total;
        account->seen_ns += reports[d]->seen_ns - account->begun_ns;
    }
}

void account_add(struct account *account, struct step_report *const *reports, uint32_t towers)
{
    const struct local_batch *const local = &reports[0]->local;
    uint64_t end_ns;
    struct step_totals totals = batch_totals(reports, towers, &end_ns);
    totals.wall_ns = end_ns > account->last_end_ns ? end_ns - account->last_end_ns : 0;
    if (end_ns > account->last_end_ns)
        account->last_end_ns = end_ns;
    if (local->first_of_phase)
        account->state.phases[local->phase] = (struct step_totals){ 0 };
    add_totals(&account->state.phases[local->phase], &totals);
    add_seen(account, reports, towers);
    if (local->phase != PHASE_TRAIN) {
        add_evaluation(account, reports, towers);
        return;
    }
    if (account->first_step_ns == 0)
        account->first_step_ns = end_ns;
    add_training(account, reports, towers, &totals);
}

void account_interval_reset(struct account *account)
{
    account->state.interval = (struct step_totals){ 0 };
    account->interval_fills = (struct queue_fills){ 0 };
}

void account_recent_reset(struct account *account)
{
    account->recent = (struct step_totals){ 0 };
    account->recent_fills = (struct queue_fills){ 0 };
}

struct fractions totals_fractions(const struct step_totals *totals)
{
    const struct step_times *const t = &totals->times;
    if (t->total == 0)
        return (struct fractions){ 0 };
    const double all = (double)t->total;
    return (struct fractions){
        .input_wait = (double)t->input_wait / all,
        .exposed_copy = (double)t->exposed_copy / all,
        .forward = (double)t->forward / all,
        .backward = (double)t->backward / all,
        .exposed_reduction = (double)t->exposed_reduction / all,
        .exposed_exchange = (double)t->exposed_exchange / all,
        .update = (double)t->update / all,
        .other = (double)t->other / all,
    };
}

double account_step_ms(const struct account *account)
{
    const struct step_totals *const warm = &account->warm;
    return warm->steps > 0 ? (double)warm->wall_ns / 1e6 / (double)warm->steps : NAN;
}

struct fractions account_fractions(const struct account *account)
{
    return totals_fractions(account->warm.steps > 0 ? &account->warm : &account->process);
}

double account_explained(const struct account *account)
{
    return account->seen_ns > 0 ? (double)account->towers_ns / (double)account->seen_ns : NAN;
}

static int compare_doubles(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static double percentile(const double *sorted, uint64_t count, double share)
{
    return count > 0 ? sorted[(uint64_t)(share * (double)(count - 1) + 0.5)] : NAN;
}

static void sort_durations(const struct account *account)
{
    qsort(account->durations_ms, account->duration_count, sizeof(*account->durations_ms), compare_doubles);
}

struct step_percentiles account_percentiles(const struct account *account)
{
    const uint64_t count = account->duration_count;
    sort_durations(account);
    return (struct step_percentiles){
        .p50_ms = percentile(account->durations_ms, count, 0.50),
        .p90_ms = percentile(account->durations_ms, count, 0.90),
        .p99_ms = percentile(account->durations_ms, count, 0.99),
    };
}

void account_histogram(const struct account *account, struct step_histogram *histogram_out)
{
    *histogram_out = (struct step_histogram){ { 0 } };
    for (uint64_t i = 0; i < account->duration_count; i++)
        step_histogram_add(histogram_out, account->durations_ms[i]);
}

struct speeds account_speeds(const struct account *account)
{
    const struct step_totals *const warm = &account->warm;
    const double mean = warm->wall_ns > 0 ? totals_images_per_second(warm) : NAN;
    sort_durations(account);
    return speeds_of(mean, (double)full_batch(account->schedule), account->durations_ms, account->duration_count);
}

double staleness_mean(const struct staleness *staleness)
{
    uint64_t sum = 0, all = 0;
    for (uint32_t i = 0; i <= staleness->most; i++) {
        sum += i * staleness->batches[i];
        all += staleness->batches[i];
    }
    return all > 0 ? (double)sum / (double)all : NAN;
}
