/* Saves checkpoints of a run, and loads the one from which it is resumed. */
#include "tools/lib/run/run_state.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compute/share.h"
#include "compute/snapshot.h"
#include "stage/clock.h"
#include "stage/log.h"
#include "stage/text/decimal.h"
#include "tools/lib/config/options.h"
#include "tools/lib/limits.h"
#include "tools/lib/results/file_list.h"
#include "tools/lib/run/stop_rule.h"
#include "tools/lib/signals.h"
#include "tools/lib/text/number.h"
#include "tools/lib/text/wrapped.h"

#define CARRIED_BYTES_GUESS 64u         /* an estimate for a tower that is not planned yet */
#define ACCOUNT_COUNTS_MAX 64u

_Static_assert(ACCOUNT_TEXT_BYTES <= CHECKPOINT_SUMS_BYTES, "metadata have room for the text of the account");
_Static_assert(RUN_PROGRESS_TEXT_BYTES <= CHECKPOINT_PROGRESS_BYTES, "and for that of the progress");

/* ---- the account as text ---- */

/* Pointers to the numbers of an account in the order of the text: all counts, then losses, then numbers of images
 * without a loss; times of exchanges follow the measures. */
struct account_places {
    uint64_t *counts[ACCOUNT_COUNTS_MAX];
    uint32_t count;
    double *losses[PHASE_COUNT + 2];
    uint64_t *exchanges[PHASE_COUNT + 2];
    uint64_t *lossless[PHASE_COUNT + 2];
    uint32_t sum_count;
};

static void add_totals(struct account_places *places, struct step_totals *totals)
{
    struct step_times *const times = &totals->times;
    uint64_t *const counts[] = {
        &totals->images,      &totals->correct, &totals->steps,   &totals->wall_ns,          &times->input_wait,
        &times->exposed_copy, &times->forward,  &times->backward, &times->exposed_reduction, &times->update,
        &times->other,        &times->total,
    };
    memcpy(places->counts + places->count, counts, sizeof(counts));
    places->count += sizeof(counts) / sizeof(*counts);
    places->lossless[places->sum_count] = &totals->lossless;
    places->exchanges[places->sum_count] = &times->exposed_exchange;
    places->losses[places->sum_count++] = &totals->loss_sum;
}

static struct account_places places_of(struct account_state *state)
{
    struct account_places places = { .count = 0 };
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        add_totals(&places, &state->phases[phase]);
    add_totals(&places, &state->interval);
    add_totals(&places, &state->training);
    places.counts[places.count++] = &state->order_hash;
    places.counts[places.count++] = &state->evaluated_step;
    return places;
}

#define MEASURES 8u

/* Pointers to the measures by class in the order of the text, in which the class with most samples follows them. */
static void measures_of(struct mean_measures *measures, double *places[MEASURES])
{
    double *const all[MEASURES] = {
        &measures->macro.precision,    &measures->macro.recall,       &measures->macro.f1,
        &measures->weighted.precision, &measures->weighted.recall,    &measures->weighted.f1,
        &measures->balanced_accuracy,  &measures->largest_share,
    };
    memcpy(places, all, sizeof(all));
}

/* Returns the length of the text. */
static size_t write_measures(struct mean_measures *measures, char text_out[ACCOUNT_TEXT_BYTES], size_t used)
{
    double *places[MEASURES];
    measures_of(measures, places);
    for (uint32_t i = 0; i < MEASURES; i++) {
        char number[DECIMAL_SIZE];
        decimal_write(*places[i], number, sizeof(number));
        used += (size_t)snprintf(text_out + used, ACCOUNT_TEXT_BYTES - used, " %s", number);
    }
    return used + (size_t)snprintf(text_out + used, ACCOUNT_TEXT_BYTES - used, " %" PRIu64, measures->largest);
}

static void write_exchanges(const struct account_places *places, char text_out[ACCOUNT_TEXT_BYTES], size_t used)
{
    uint64_t all = 0;
    for (uint32_t i = 0; i < places->sum_count; i++)
        all |= *places->exchanges[i];
    for (uint32_t i = 0; i < places->sum_count && all != 0; i++)
        used += (size_t)snprintf(text_out + used, ACCOUNT_TEXT_BYTES - used, " %" PRIu64, *places->exchanges[i]);
}

void account_text_write(const struct account_state *state, char text_out[ACCOUNT_TEXT_BYTES])
{
    struct account_state copy = *state;
    const struct account_places places = places_of(&copy);
    size_t used = 0;
    for (uint32_t i = 0; i < places.count; i++)
        used += (size_t)snprintf(text_out + used, ACCOUNT_TEXT_BYTES - used, "%" PRIu64 " ", *places.counts[i]);
    for (uint32_t i = 0; i < places.sum_count; i++) {
        char number[DECIMAL_SIZE];
        decimal_write(*places.losses[i], number, sizeof(number));
        used += (size_t)snprintf(text_out + used, ACCOUNT_TEXT_BYTES - used, "%s ", number);
    }
    for (uint32_t i = 0; i < places.sum_count; i++)
        used += (size_t)snprintf(text_out + used, ACCOUNT_TEXT_BYTES - used, "%" PRIu64 "%s", *places.lossless[i],
                                 i + 1 < places.sum_count ? " " : "");
    used = write_measures(&copy.measures, text_out, used);
    write_exchanges(&places, text_out, used);
}

static const char *read_count(const char *text, uint64_t *count_out)
{
    const char *const end = decimal_u64_start(text, count_out);
    if (end == NULL)
        return NULL;
    return *end == ' ' ? end + 1 : *end == '\0' ? end : NULL;
}

static const char *read_loss(const char *text, double *loss_out)
{
    const char *const end = decimal_end(text);
    if (end == NULL)
        return NULL;
    *loss_out = decimal_read(text);
    return *end == ' ' ? end + 1 : *end == '\0' ? end : NULL;
}

/* Earlier versions wrote no measures, which stay 0. Returns NULL if a number is missing or not in [0, 1]. */
static const char *read_measures(const char *text, struct mean_measures *measures)
{
    double *places[MEASURES];
    uint64_t largest = 0;
    if (text == NULL || *text == '\0')
        return text;
    measures_of(measures, places);
    for (uint32_t i = 0; i < MEASURES && text != NULL; i++) {
        text = read_loss(text, places[i]);
        if (text != NULL && !(*places[i] >= 0 && *places[i] <= 1))
            return NULL;
    }
    text = text != NULL ? read_count(text, &largest) : NULL;
    measures->largest = largest;
    return text;
}

/* Runs without exchanges write no times of them, which stay 0. */
static const char *read_exchanges(const char *text, const struct account_places *places)
{
    if (text == NULL || *text == '\0')
        return text;
    for (uint32_t i = 0; i < places->sum_count && text != NULL; i++)
        text = read_count(text, places->exchanges[i]);
    return text;
}

static bool is_possible(const struct step_totals *totals)
{
    return totals->correct <= totals->images && totals->lossless <= totals->images && isfinite(totals->loss_sum);
}

static bool are_possible(const struct account_state *state)
{
    bool possible = is_possible(&state->interval) && is_possible(&state->training);
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        possible = possible && is_possible(&state->phases[phase]);
    return possible;
}

int account_text_read(struct account_state *state_out, const char *text)
{
    struct account_state state = { .order_hash = 0 };
    const struct account_places places = places_of(&state);
    for (uint32_t i = 0; i < places.count && text != NULL; i++)
        text = read_count(text, places.counts[i]);
    for (uint32_t i = 0; i < places.sum_count && text != NULL; i++)
        text = read_loss(text, places.losses[i]);
    for (uint32_t i = 0; i < places.sum_count && text != NULL; i++)
        text = read_count(text, places.lossless[i]);
    text = read_exchanges(read_measures(text, &state.measures), &places);
    if (text == NULL || *text != '\0' || !are_possible(&state))
        return -EINVAL;
    *state_out = state;
    return 0;
}

/* ---- restoring ---- */

const struct run_past *run_state_past(const struct run_state *state)
{
    return state->reader != NULL && state->folder[0] != '\0' ? &state->past : NULL;
}

/* The checkpoint of other ranks than 0 is a copy in memory, which is not needed any more. */
static void drop_copy(struct run_state *state)
{
    if (ranks_rank(state->ranks) == 0)
        return;
    checkpoint_reader_close(state->reader);
    state->reader = NULL;
}

int run_state_restore(struct run_state *state, const struct run_plan *plan, struct pipeline *pipeline,
                      struct account *account)
{
    struct checkpoint_problem problem = { "" };
    struct account_state sums;
    if (state->reader == NULL)
        return 0;
    int rc = account_text_read(&sums, state->reader->metadata.sums);
    if (rc != 0)
        snprintf(problem.text, sizeof(problem.text), "its " CHECKPOINT_KEY_SUMS " are not those of a run: "
                 "they are not such numbers, or count more correct answers than images");
    else
        account_resume(account, &sums);
    const struct tower_range here = plan->devices.towers;
    for (uint32_t d = 0; d < here.count && rc == 0; d++)
        rc = checkpoint_reader_write(state->reader, pipeline_tower(pipeline, d), here.first + d, plan->schedule.towers,
                                     &problem);
    if (rc == 0) {
        drop_copy(state);
        return 0;
    }
    log_message(LOG_ERROR, "%s: %s", state->reader->path,
                problem.text[0] != '\0' ? problem.text : exit_cause(rc));
    return exit_code_of(rc, EXIT_CODE_DATA);
}

void run_state_print(const struct run_state *state, const struct run_plan *plan, FILE *out)
{
    if (state->reader != NULL)
        wrapped_print(out, "resume    at step %s of %s, from %s",
                      number_grouped(state->reader->metadata.position.step).text,
                      number_grouped(schedule_step_count(&plan->schedule)).text, state->reader->path);
    if (state->saves)
        wrapped_print(out, "stop      %sSIGTERM, SIGUSR1 save a checkpoint; the same command resumes",
                      signals_are_handled(SIGINT) ? "Ctrl-C, " : "");
}

/* ---- saving ---- */

/* Is only the checkpoint of the last step saved? */
static bool saves_only_last(const struct run_state *state, const struct settings *settings)
{
    const struct checkpoint_settings *const checkpoint = &settings->checkpoint;
    return checkpoint->steps == 0 && checkpoint->seconds == 0 && !checkpoint->each_epoch && !state->keeps_best;
}

/* Are files written during training, or sent for that, for which a thread is needed? */
static bool has_thread(const struct run_state *state, const struct settings *settings)
{
    const bool keeps_weights = state->keeps_weights && (ranks_rank(state->ranks) == 0 || state->gathers_weights);
    return keeps_weights || (state->saves && !saves_only_last(state, settings));
}

/* Is the last checkpoint written directly from the towers' memory, without a copy? This is possible in host memory. */
static bool stays(const struct run_state *state, const struct settings *settings, const struct run_plan *plan)
{
    return saves_only_last(state, settings) && plan->devices.ops->host_memory && plan->devices.mode->ends_whole &&
           settings->train.ema <= 0;
}

struct checkpoint_parts run_state_parts(const struct run_plan *plan, const struct settings *settings,
                                        const struct net *net)
{
    const uint32_t parts = run_plan_parts(plan, settings);
    struct unsupported_reason reason;
    struct head head;
    if (parts == 0 || head_find(&head, net, parts, &reason) != 0)
        return (struct checkpoint_parts){ .all = 0 };
    return (struct checkpoint_parts){ .all = parts, .first = head.first };
}

/* The weights as a checkpoint_sender sends them. */
static struct checkpoint_shape weights_of(const struct settings *settings, const struct run_plan *plan,
                                          const struct net *net)
{
    return weights_shape((struct weights_spec){ .net = net, .parts = run_state_parts(plan, settings, net),
                                                .towers = plan->schedule.towers, .here = plan->devices.towers });
}

static struct checkpoint_shape shape_of(const struct run_state *state, const struct settings *settings,
                                        const struct run_plan *plan, const struct net *net, size_t carried_bytes)
{
    return (struct checkpoint_shape){
        .net = net,
        .towers = plan->schedule.towers,
        .here = plan->devices.towers,
        .parts = run_state_parts(plan, settings, net),
        .is_same = plan->schedule.slices > 0,
        .states = optimizer_state_count(plan->optimizer.kind) + (plan->devices.mode->defers ? 1 : 0),
        .carried_bytes = carried_bytes,
        .averages = settings->train.ema > 0,
        .weights_differ = plan->devices.mode->differs,
        .stays = stays(state, settings, plan),
    };
}

static bool writes(const struct run_state *state)
{
    return ranks_rank(state->ranks) == 0;
}

struct snapshot_rule run_state_rule(const struct run_state *state, const struct settings *settings,
                                    const struct run_plan *plan)
{
    if (!state->saves)
        return (struct snapshot_rule){ .count = 0 };
    return (struct snapshot_rule){ .kind = stays(state, settings, plan) ? SNAPSHOT_LAST : SNAPSHOT_STATE,
                                   .count = 1, .every = settings->checkpoint.steps,
                                   .each_epoch = settings->checkpoint.each_epoch,
                                   .each_evaluation = state->keeps_best, .last = true };
}

struct snapshot_rule run_state_best_rule(const struct run_state *state)
{
    return (struct snapshot_rule){ .kind = SNAPSHOT_EVALUATED, .count = state->keeps_weights ? 1 : 0,
                                   .each_evaluation = true };
}

size_t run_state_file_bytes(const struct run_state *state, const struct settings *settings,
                            const struct run_plan *plan, const struct net *net)
{
    if (!state->saves || !writes(state))
        return 0;
    const struct checkpoint_shape shape = shape_of(state, settings, plan, net, CARRIED_BYTES_GUESS);
    return checkpoint_file_bytes(&shape, state->identity.text);
}

/* Do checkpoints of this shape contain data of other ranks? */
static bool is_shared(const struct run_state *state, const struct checkpoint_shape *shape)
{
    return ranks_size(state->ranks) > 1 && checkpoint_has_others(shape);
}

/* The size of the checkpoint that this rank holds in memory at its start. */
static size_t copy_bytes(const struct run_state *state)
{
    struct stat status;
    const bool is_copy = state->reader != NULL && ranks_rank(state->ranks) > 0;
    return is_copy && fstat(state->reader->file.fd, &status) == 0 ? (size_t)status.st_size : 0;
}

/* The most bytes that this rank sends, or receives of another, for one file; 0: of none. */
static size_t sent_bytes(const struct run_state *state, const struct settings *settings, const struct run_plan *plan,
                         const struct checkpoint_shape *shape)
{
    const size_t state_bytes = state->saves && is_shared(state, shape) ? checkpoint_sender_total(shape) : 0;
    if (!state->gathers_weights)
        return state_bytes;
    const struct checkpoint_shape weights = weights_of(settings, plan, shape->net);
    const size_t weights_bytes = checkpoint_sender_total(&weights);
    return state_bytes > weights_bytes ? state_bytes : weights_bytes;
}

/* The memory of the writer, or of the senders. */
static size_t taker_bytes(const struct run_state *state, const struct settings *settings, const struct run_plan *plan,
                          const struct checkpoint_shape *shape)
{
    if (writes(state))
        return state->saves ? checkpoint_writer_bytes(shape, state->identity.text) : 0;
    const struct checkpoint_shape weights = weights_of(settings, plan, shape->net);
    return (state->saves && is_shared(state, shape) ? checkpoint_sender_bytes(shape) : 0) +
           (state->gathers_weights ? checkpoint_sender_bytes(&weights) : 0);
}

void run_state_add_memory(const struct run_state *state, const struct settings *settings, struct run_plan *plan,
                          const struct net *net)
{
    plan->memory.aside += has_thread(state, settings) ? limits_thread_bytes() : 0;
    memory_share_add(&plan->memory.host, MEMORY_RESULTS, copy_bytes(state));
    if (!state->saves && !state->gathers_weights)
        return;
    const struct checkpoint_shape shape = shape_of(state, settings, plan, net, CARRIED_BYTES_GUESS);
    const size_t sent = sent_bytes(state, settings, plan, &shape);
    memory_share_add(&plan->memory.host, MEMORY_RESULTS, taker_bytes(state, settings, plan, &shape));
    if (sent > 0)
        memory_share_add(&plan->memory.host, MEMORY_RESULTS, checkpoint_transfer_bytes(sent));
}

/* While a checkpoint is written there is one file more than checkpoint.keep; the files of a resumed run exist already.
 * The best checkpoint, too, is written before the old one is removed. */
uint64_t run_state_room(const struct run_state *state, const struct settings *settings, size_t state_bytes)
{
    const bool is_alone = run_state_past(state) != NULL || state->only_on_stop;
    const uint64_t keep = is_alone ? 0 : (uint64_t)settings->checkpoint.keep;
    return (keep + 1 + 2 * state->keeps_best) * state_bytes / 2;
}

static void give_back(void *arg, uint32_t tower, struct snapshot *snapshot)
{
    pipeline_return(arg, tower, snapshot);
}

/* Open the writer (rank 0) or the sender of checkpoints. 0 or a negative errno. */
static int open_taker(struct run_state *state, const struct checkpoint_shape *shape, const struct results *results)
{
    if (writes(state)) {
        const struct checkpoint_source source = checkpoint_transfer_source(state->transfer);
        return checkpoint_writer_open(&state->writer, shape, &source, state->identity.text,
                                      weights_about(results->weights));
    }
    const struct checkpoint_sink sink = checkpoint_transfer_sink(state->transfer);
    return is_shared(state, shape) ? checkpoint_sender_open(&state->sender, shape, &sink) : 0;
}

/* Rank 0 receives parts of the weights, which the other ranks send. 0 or a negative errno. */
static int open_weights(struct run_state *state, const struct settings *settings, const struct run_plan *plan,
                        const struct net *net)
{
    const struct checkpoint_shape weights = weights_of(settings, plan, net);
    const struct checkpoint_source source = checkpoint_transfer_source(state->transfer);
    const struct checkpoint_sink sink = checkpoint_transfer_sink(state->transfer);
    if (!writes(state))
        return checkpoint_sender_open(&state->weights_sender, &weights, &sink);
    weights_set_source(state->weights, &source);
    return 0;
}

/* Allocate the memory for saving. 0 or a negative errno. */
static int open_files(struct run_state *state, const struct settings *settings, const struct run_plan *plan,
                      const struct results *results)
{
    struct tower *const tower = pipeline_tower(state->pipeline, 0);
    const struct net *const net = tower_spec(tower)->net;
    const struct checkpoint_shape shape = shape_of(state, settings, plan, net, snapshot_carried_bytes(tower));
    const size_t sent = sent_bytes(state, settings, plan, &shape);
    state->period_ns = state->saves ? settings->checkpoint.seconds * UINT64_C(1000000000) : 0;
    state->saved_ns = clock_now_ns();
    state->snapshots = calloc(shape.here.count, sizeof(*state->snapshots));
    state->snapshot_count = state->saves ? checkpoint_snapshots(&shape) : 0;
    state->best_count = shape.parts.all > 0 ? shape.here.count : shape.here.first == 0;
    int rc = state->snapshots == NULL ? -ENOMEM : 0;
    if (rc == 0 && sent > 0)
        rc = checkpoint_transfer_open(&state->transfer, state->ranks, shape.here.count, sent);
    if (rc == 0 && state->saves)
        rc = open_taker(state, &shape, results);
    return rc == 0 && state->gathers_weights ? open_weights(state, settings, plan, net) : rc;
}

int run_state_open(struct run_state *state, const struct settings *settings, const struct run_plan *plan,
                   struct pipeline *pipeline, struct account *account, const struct results *results)
{
    struct run_directory *const directory = results->directory;
    state->directory = directory;
    if (!state->saves && !state->keeps_weights && !state->gathers_weights)
        return 0;
    state->plan = plan;
    state->pipeline = pipeline;
    state->account = account;
    state->weights = results->weights;
    const int rc = open_files(state, settings, plan, results);
    const bool has_work = state->writer != NULL || state->sender != NULL || state->keeps_weights;
    if (rc != 0 || !has_thread(state, settings) || !has_work)
        return rc;
    const struct checkpoint_saver_spec spec = { .writer = state->writer, .sender = state->sender,
                                                .weights = state->weights,
                                                .weights_sender = state->weights_sender,
                                                .directory = directory, .towers = state->snapshot_count,
                                                .best_towers = state->best_count,
                                                .keep = (uint32_t)settings->checkpoint.keep,
                                                .give_back = give_back, .arg = pipeline };
    return checkpoint_saver_start(&state->saver, &spec);
}

/* Make the metadata of a checkpoint before the batch `next`. */
static void make_metadata(const struct run_state *state, uint64_t next, unsigned files,
                          struct checkpoint_metadata *metadata)
{
    *metadata = (struct checkpoint_metadata){ .position = schedule_position(&state->plan->schedule, next),
                                              .files = files };
    for (enum run_lines which = 0; which < RUN_LINES_COUNT; which++)
        metadata->lines_bytes[which] = run_directory_lines_bytes(state->directory, which);
    account_text_write(&state->account->state, metadata->sums);
    run_progress_write(&state->progress, metadata->progress);
}

/* Remove checkpoints of an earlier run from this directory; its other results have already been replaced. */
static void remove_earlier(struct run_state *state)
{
    if (!state->has_begun && state->directory != NULL && run_state_past(state) == NULL)
        file_list_keep(run_directory_fd(state->directory), checkpoint_file_step, 0, 0);
    state->has_begun = true;
}

static void request_by_time(struct run_state *state)
{
    if (state->period_ns == 0 || state->is_asked || clock_now_ns() - state->saved_ns < state->period_ns)
        return;
    state->is_asked = true;
    pipeline_request_snapshot(state->pipeline);
}

/* Which files to write from the snapshots after this batch. The checkpoint of the last step is excluded, because it is
 * written after all other results. */
static unsigned files_of(const struct run_state *state, const struct local_batch *local)
{
    const bool is_last = local->number + 1 == schedule_batch_count(&state->plan->schedule);
    const bool is_evaluated = local->phase == PHASE_EVALUATE && local->last_of_phase;
    const bool is_due = state->period_ns > 0 ? pipeline_is_requested(state->pipeline, local->number)
                                             : local->phase == PHASE_TRAIN;
    const unsigned newest = is_due && !is_last ? CHECKPOINT_NEWEST : 0;
    const bool is_best = state->keeps_best && is_evaluated && run_progress_is_best(&state->progress);
    return is_best ? newest | CHECKPOINT_BEST : newest;
}

/* Pass the snapshots in the reports to the thread that saves. */
static void put_snapshots(struct run_state *state, struct step_report *const *reports,
                          const struct checkpoint_metadata *metadata)
{
    for (uint32_t d = 0; d < state->snapshot_count; d++) {
        state->snapshots[d] = reports[d]->snapshot;
        reports[d]->snapshot = NULL;
    }
    checkpoint_saver_put(state->saver, state->snapshots, metadata);
}

/* Pass the snapshots of an evaluation in the reports to the thread that saves. */
static void put_evaluated(struct run_state *state, struct step_report *const *reports,
                          const struct checkpoint_metadata *metadata)
{
    for (uint32_t d = 0; d < state->best_count; d++) {
        state->snapshots[d] = reports[d]->evaluated;
        reports[d]->evaluated = NULL;
    }
    checkpoint_saver_put_best(state->saver, state->snapshots, metadata);
}

/* Rank 0 decides about the weights of an evaluation first, if it has any, then about the checkpoint. */
static void follow_and_send(struct run_state *state, struct step_report *const *reports)
{
    const uint64_t next = reports[0]->local.number + 1;
    const struct checkpoint_metadata none = { .files = 0 }, best = { .files = CHECKPOINT_BEST_WEIGHTS };
    state->has_begun = true;
    if (reports[0]->evaluated != NULL && checkpoint_transfer_await(state->transfer, next))
        put_evaluated(state, reports, &best);
    if (reports[0]->snapshot != NULL && state->transfer != NULL && checkpoint_transfer_await(state->transfer, next))
        put_snapshots(state, reports, &none);
}

static void tell_decision(const struct run_state *state, uint64_t next, bool is_saved)
{
    if (state->transfer != NULL)
        checkpoint_transfer_decide(state->transfer, next, is_saved);
}

/* Pass the weights of an evaluation that was better than that of the kept ones to the thread that saves. */
static void keep_weights_of(struct run_state *state, struct step_report *const *reports)
{
    const uint64_t next = reports[0]->local.number + 1;
    const enum best_by by = (enum best_by)state->kept.best_by;
    const struct run_progress_evaluation evaluation = run_progress_latest(by, state->account);
    struct run_progress progress = { .stale = 0 };
    struct checkpoint_metadata metadata;
    run_progress_add_evaluation(&state->kept, &evaluation);
    const bool is_best = evaluation.images > 0 && run_progress_is_best(&state->kept);
    if (state->gathers_weights)
        tell_decision(state, next, is_best);
    if (!is_best)
        return;
    make_metadata(state, next, CHECKPOINT_BEST_WEIGHTS, &metadata);
    run_progress_copy_best(&progress, &state->kept);
    progress.best_spent = progress.spent;       /* the text is of the evaluation alone, equal whenever it is repeated */
    run_progress_write(&progress, metadata.progress);
    metadata.best_by = option_choice_name(option_find(SECTION_TRAIN, "best_by"), (int)by);
    metadata.best_value = run_progress_best_value(&state->kept);
    put_evaluated(state, reports, &metadata);
}

static void follow_and_write(struct run_state *state, struct step_report *const *reports)
{
    const struct local_batch *const local = &reports[0]->local;
    struct checkpoint_metadata metadata;
    remove_earlier(state);
    checkpoint_saver_count(state->saver, &state->counts);
    if (reports[0]->evaluated != NULL)
        keep_weights_of(state, reports);
    if (reports[0]->snapshot == NULL) {
        request_by_time(state);
        return;
    }
    const unsigned files = files_of(state, local);
    tell_decision(state, local->number + 1, files != 0);
    if (files == 0)
        return;
    if ((files & CHECKPOINT_NEWEST) != 0) {
        state->is_asked = false;
        state->saved_ns = clock_now_ns();
    }
    make_metadata(state, local->number + 1, files, &metadata);
    put_snapshots(state, reports, &metadata);
}

void run_state_follow(struct run_state *state, struct step_report *const *reports)
{
    if (writes(state))
        follow_and_write(state, reports);
    else
        follow_and_send(state, reports);
}

void run_state_give_up(struct run_state *state)
{
    if (state->transfer != NULL)
        checkpoint_transfer_give_up(state->transfer);
}

/* Write the last checkpoint under a temporary name. run_state_write_last renames it, or reports the error. */
static void prepare_last(struct run_state *state, const struct checkpoint_metadata *metadata)
{
    const uint64_t begun_ns = clock_now_ns();
    state->last_rc = checkpoint_writer_copy(state->writer, state->snapshots, metadata);
    if (state->last_rc == 0)
        state->last_rc = checkpoint_writer_prepare(state->writer, state->directory, &state->broken);
    state->last_ns = clock_now_ns() - begun_ns;
    state->has_last = true;
}

static void write_last(struct run_state *state, uint64_t next)
{
    struct checkpoint_metadata metadata;
    make_metadata(state, next, CHECKPOINT_NEWEST, &metadata);
    prepare_last(state, &metadata);
}

/* Save the last checkpoint. Errors of other ranks are reported by rank 0. */
static void save_last(struct run_state *state, uint64_t next)
{
    uint32_t count = 0;
    for (uint32_t d = 0; d < state->snapshot_count; d++) {
        state->snapshots[d] = pipeline_last(state->pipeline, d);
        count += state->snapshots[d] != NULL;
    }
    assert(count == 0 || count == state->snapshot_count);
    if (count > 0 && writes(state))
        write_last(state, next);
    else if (count > 0)
        (void)checkpoint_sender_send(state->sender, state->snapshots);
    for (uint32_t d = 0; d < count; d++)
        pipeline_return(state->pipeline, d, state->snapshots[d]);
}

/* Is the run complete before the batch `next`? */
static bool is_complete(const struct run_state *state, const struct settings *settings, uint64_t next)
{
    return next == schedule_batch_count(&state->plan->schedule) ||
           stop_reason_of_progress(&settings->train, &state->progress) != STOP_REASON_NONE;
}

/* Is the last checkpoint saved? Rank 0 decides, and the other ranks wait for its decision. */
static bool is_last_saved(const struct run_state *state, uint64_t next)
{
    if (!writes(state))
        return state->transfer != NULL && checkpoint_transfer_await(state->transfer, next);
    tell_decision(state, next, !state->needs_none);
    return !state->needs_none;
}

void run_state_settle(struct run_state *state)
{
    checkpoint_saver_end(state->saver, &state->counts);
    state->saver = NULL;
}

void run_state_send_weights(struct run_state *state, uint64_t next, bool is_saved, struct tower *const *towers)
{
    if (!state->gathers_weights)
        return;
    if (writes(state))
        tell_decision(state, next, is_saved);
    else if (checkpoint_transfer_await(state->transfer, next))
        (void)checkpoint_sender_send_towers(state->weights_sender, towers);     /* rank 0 reports errors */
}

/* A run that was stopped by a signal saves a checkpoint even after its last step; without one the same command might
 * start a new run. */
void run_state_finish(struct run_state *state, const struct settings *settings, const struct run_last *last)
{
    if (state->pipeline == NULL)
        return;
    run_state_settle(state);
    state->needs_none = state->only_on_stop && !last->was_asked_for && is_complete(state, settings, last->next);
    if (state->saves && last->can_be_taken && is_last_saved(state, last->next))
        save_last(state, last->next);
    state->pipeline = NULL;
}

static int report_best_failure(const struct run_state *state)
{
    if (!state->counts.best_failed)
        return 0;
    log_message(LOG_ERROR, "%s/" CHECKPOINT_BEST_FILE ": the weights of the best evaluation could not be saved",
                run_directory_path(state->directory));
    return EXIT_CODE_OUTPUT;
}

int run_state_write_last(struct run_state *state, const struct settings *settings)
{
    const int best_code = report_best_failure(state);
    if (!state->has_last)
        return best_code;
    state->has_last = false;
    const uint32_t keep = (uint32_t)settings->checkpoint.keep;
    const int rc = state->last_rc == 0 ? checkpoint_writer_appear(state->writer, state->directory, keep)
                                       : state->last_rc;
    checkpoint_counts_add(&state->counts, rc, state->last_ns);
    if (rc == 0)
        return best_code;
    log_message(LOG_ERROR, "%s: the checkpoint of the last step could not be saved: %s: earlier checkpoints stay",
                run_directory_path(state->directory), rc == -EDOM ? state->broken : strerror(-rc));
    return EXIT_CODE_OUTPUT;
}

bool run_state_has_best(const struct run_state *state)
{
    return state->directory != NULL && state->has_begun &&
           faccessat(run_directory_fd(state->directory), CHECKPOINT_BEST_FILE, F_OK, 0) == 0;
}

/* ---- rollbacks ---- */

/* Completed steps at the failure before the latest rollback; 0: there was none. */
static uint64_t last_failure(const struct run_state *state)
{
    return state->back != NULL && state->back->folder[0] != '\0' ? state->back->failed_step : 0;
}

/* Open the newest checkpoint; but if the run did not get further than before the latest rollback, the one before the
 * checkpoint of that rollback, if there is one, because newer ones may be the cause. NULL: there is none. */
static struct checkpoint_reader *find_rollback(const struct run_state *state)
{
    const char *const folder = run_directory_path(state->directory);
    const bool is_no_further = last_failure(state) > 0 && state->account->step <= last_failure(state);
    struct checkpoint_reader *reader = NULL;
    struct checkpoint_problem problem;
    if (is_no_further && checkpoint_reader_find(&reader, folder, state->back->step, &problem) == 0)
        return reader;
    const uint64_t before = is_no_further ? state->back->step + 1 : UINT64_MAX;
    return checkpoint_reader_find(&reader, folder, before, &problem) == 0 ? reader : NULL;
}

bool run_state_go_back(const struct run_state *state, struct run_back *back_out)
{
    const uint64_t count = state->progress.rollbacks + 1;
    const bool is_ours = state->saves && (state->has_begun || run_state_past(state) != NULL);
    if (count > RUN_PROGRESS_ROLLBACKS_MAX) {
        log_message(LOG_ERROR, "%u rollbacks did not help: try a smaller learning rate",
                    RUN_PROGRESS_ROLLBACKS_MAX);
        return false;
    }
    struct checkpoint_reader *const reader = is_ours ? find_rollback(state) : NULL;
    if (reader == NULL) {
        log_message(LOG_ERROR, "there is no checkpoint yet to roll back to: checkpoint.every is %s",
                    state->saves ? "too long" : "never");
        return false;
    }
    log_message(LOG_RUN, "rollback %u of %u: back to %s, with half the learning rate", (unsigned)count,
                RUN_PROGRESS_ROLLBACKS_MAX, reader->path);
    const uint64_t step = state->account->step;
    snprintf(back_out->folder, sizeof(back_out->folder), "%s", run_directory_path(state->directory));
    back_out->step = reader->metadata.position.step;
    back_out->failed_step = step > last_failure(state) ? step : last_failure(state);
    back_out->progress = state->progress;
    back_out->progress.rollbacks = count;
    checkpoint_reader_close(reader);
    return true;
}

void run_state_release(struct run_state *state)
{
    assert(state->pipeline == NULL);
    if (state->has_last && state->last_rc == 0)
        checkpoint_writer_drop(state->writer, state->directory);
    checkpoint_writer_close(state->writer);
    checkpoint_sender_close(state->sender);
    checkpoint_sender_close(state->weights_sender);
    checkpoint_transfer_close(state->transfer);
    checkpoint_reader_close(state->reader);
    free(state->snapshots);
    run_identity_release(&state->identity);
    *state = (struct run_state){ .saves = false };
}
