/* A run in the main thread, from settings to results. */
#include "tools/lib/run/run.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stage/clock.h"
#include "stage/log.h"
#include "stage/text/program_folder.h"
#include "stage/text/text_stream.h"
#include "tools/lib/config/overfit.h"
#include "tools/lib/config/settings_model.h"
#include "tools/lib/limits.h"
#include "tools/lib/phase.h"
#include "tools/lib/results/named_classes.h"
#include "tools/lib/results/results.h"
#include "tools/lib/results/trained_shards.h"
#include "tools/lib/results/weights_agree.h"
#include "tools/lib/run/about.h"
#include "tools/lib/run/account.h"
#include "tools/lib/run/balanced_order.h"
#include "tools/lib/run/class_weights.h"
#include "tools/lib/run/cost.h"
#include "tools/lib/run/pipeline.h"
#include "tools/lib/run/plan_doubts.h"
#include "tools/lib/run/ranks/data_share.h"
#include "tools/lib/run/ranks/device_share.h"
#include "tools/lib/run/ranks/shutdown.h"
#include "tools/lib/run/ranks/startup_check.h"
#include "tools/lib/run/report.h"
#include "tools/lib/run/run_data.h"
#include "tools/lib/run/run_plan.h"
#include "tools/lib/run/run_state.h"
#include "tools/lib/run/stop_rule.h"
#include "tools/lib/run/summary.h"
#include "tools/lib/signals.h"
#include "tools/lib/text/terminal.h"
#include "tools/lib/text/wrapped.h"
#include "tools/lib/version.h"

#define FILES_AT_ONCE 16u       /* the most files that a run opens later at the same time: shards and results */

struct run {
    struct settings *settings;
    struct ranks *ranks;                        /* NULL: there is no other process */
    enum run_kind kind;
    uint64_t process_start_ns;
    struct cost *cost;                          /* of this process, also after a rollback */
    struct net *net, *train_net;                /* train_net: NULL if training images have the size of the net's */
    struct initial_weights *initial_weights;    /* NULL: the model's own initialisation */
    struct dataset *datasets[PHASE_COUNT];
    struct run_plan plan;
    struct run_state state;
    struct stop *stop;
    struct results results;
    struct account *account;
    struct pipeline *pipeline;
    struct report report;
    struct report_damage quarantine;
    struct report_end end;
    struct stop_rule stop_rule;
    uint64_t next;              /* number of the batch after the latest reported one */
    uint64_t began_ns;
};

static int out_of_memory(const char *what)
{
    log_message(LOG_ERROR, "%s: %s", what, strerror(ENOMEM));
    return EXIT_CODE_MEMORY;
}

static const struct dataset *const *datasets_of(const struct run *run)
{
    return (const struct dataset *const *)run->datasets;
}

static void enter(const struct run *run, enum run_phase phase)
{
    phase_enter(phase);
    ranks_set_phase(run->ranks, phase_name(phase));
}

/* Is this rank 0, which makes decisions, prints and writes files? */
static bool leads(const struct run *run)
{
    return ranks_rank(run->ranks) == 0;
}

/* Does the run compute, with real labels? Otherwise evaluations are meaningless. */
static bool has_accuracy(const struct run *run)
{
    return run->plan.devices.backend->computes && run->settings->input.source != INPUT_SYNTHETIC;
}

static int choose_devices(struct run *run, struct problems *problems)
{
    const int rc = run_devices_init(&run->plan.devices, run->settings, problems);
    if (rc == 0 && leads(run) && !has_accuracy(run))
        stop_rule_warn_unused(run->settings);
    return rc == 0 ? 0 : problems_end(problems, rc == -ENODEV ? EXIT_CODE_DEVICE : EXIT_CODE_USAGE);
}

/* Check that the data has the classes of the initial weights, unless their last layer is not loaded. Returns an exit
 * code. */
static int compare_classes(const struct run *run)
{
    char data[300], weights[300];
    const struct model_settings *const model = &run->settings->model;
    const struct dataset *const dataset = run->datasets[PHASE_TRAIN];
    const char *const head = run->initial_weights != NULL ? initial_weights_head(run->initial_weights) : NULL;
    if (head == NULL || dataset == NULL ||
        dataset_names_differ(dataset, initial_weights_text(run->initial_weights, WEIGHTS_CLASS_NAMES), data, weights,
                             sizeof(data)) != 1)
        return 0;
    if (model->weights_differ)
        log_message(LOG_RUN, "%s: trained on other classes: %s; the data has %s (model.weights_differ = yes)",
                    model->weights, weights, data);
    else
        log_message(LOG_PROBLEM, "%s: trained on other classes: %s; the data has %s: set model.skip = %s.* to start "
                    "with a new last layer, or model.weights_differ = yes to load this one all the same",
                    model->weights, weights, data, head);
    return model->weights_differ ? 0 : EXIT_CODE_USAGE;
}

/* Open the initial weights, if any. Settings that were left open become those with which the weights were trained; a
 * resumed run takes them from its checkpoint, because the file of its initial weights may have been removed. */
static int open_weights(struct run *run)
{
    const struct checkpoint_reader *const reader = run->state.reader;
    if (*run->settings->model.weights == '\0' || run->state.is_over)
        return 0;
    if (reader != NULL)
        return weights_use_transform(safetensors_index_text(&reader->file.index, WEIGHTS_NET), run->settings,
                                     run->net) == 0 ? 0 : out_of_memory("the model");
    const int code = run_weights_open(&run->initial_weights, run->settings, run->net);
    return code != 0 ? code : compare_classes(run);
}

/* Open the initial weights, whose transform of pixels both nets then have. */
static int open_weights_of_nets(struct run *run)
{
    const int code = open_weights(run);
    if (code == 0 && run->train_net != NULL)
        (void)net_use_transform(run->train_net, &run->net->transform);
    return code;
}

/* Called by all ranks after each part of the start: continue if no rank has an error, otherwise end with a common exit
 * code. */
static int check_ranks(const struct run *run, int code)
{
    return startup_check(run->ranks, code == 0 ? signals_exit_code() : code, NULL);
}

/* Like check_ranks, but also check that all ranks have the same settings, model and data. */
static int check_facts(const struct run *run, int code)
{
    const struct startup_facts facts = { .kind = run->kind, .settings = run->settings, .net = run->net,
                                         .datasets = datasets_of(run), .plan = &run->plan.devices,
                                         .class_weights = run->plan.class_weights_hash };
    return startup_check_facts(run->ranks, code == 0 ? signals_exit_code() : code, &facts);
}

/* Each rank indexes a share of the shards; wait until all index files are written, which rank 0 then reads. */
static int share_indexing(const struct run *run, int code)
{
    if (run->ranks != NULL && code == 0 && run->settings->input.source != INPUT_SYNTHETIC)
        run_data_share_indexing(run->settings);
    return check_ranks(run, code);
}

/* What a run does about uneven classes, which needs the labels of all records. */
static int balance_classes(struct run *run, struct problems *problems)
{
    const struct dataset *const dataset = run->datasets[PHASE_TRAIN];
    int rc = class_weights_find(&run->plan, run->settings, run->net, dataset, problems);
    if (rc == 0)
        rc = balanced_order_find(&run->plan, run->settings, dataset, problems);
    if (rc == -ECANCELED)
        return signals_exit_code();
    const int code = rc == -EINVAL || rc == -ENODATA ? EXIT_CODE_USAGE : rc == -EBADMSG ? EXIT_CODE_DATA : EXIT_CODE_MEMORY;
    return rc == 0 ? 0 : problems_end(problems, code);
}

static int open_nets(struct run *run)
{
    int rc = settings_open_net(run->settings, &run->net);
    if (rc == 0)
        rc = settings_open_train_net(run->settings, run->net, &run->train_net);
    run->plan.train_net = run->train_net;
    return rc == 0 ? 0 : out_of_memory("the model");
}

static int open_here(struct run *run, const struct dataset_start *const given[PHASE_COUNT], struct problems *problems)
{
    const int rc = run_data_open(run->datasets, run->settings, run->net, run->kind == RUN_CHECK, given, problems);
    return rc == 0 ? 0 : problems_end(problems, exit_code_of(rc, EXIT_CODE_DATA));
}

/* Open the data sets; the other ranks by what rank 0 has found in them. */
static int open_data(struct run *run, struct problems *problems)
{
    static const struct dataset_start *const nothing[PHASE_COUNT];
    struct data_share share;
    if (leads(run)) {
        const int code = open_here(run, nothing, problems);
        return run->ranks == NULL ? code : data_share_send(run->ranks, run->datasets, code);
    }
    int code = data_share_receive(run->ranks, &share);
    if (code == 0)
        code = open_here(run, share.given, problems);
    data_share_release(&share);
    return code;
}

/* From the settings make the nets, the data sets, the devices and the plan of this process. */
static int prepare_here(struct run *run)
{
    struct problems problems;
    problems_init(&problems);
    memory_bound_images(run->settings);
    int code = open_nets(run);
    enter(run, RUN_PHASE_INDEXING);
    code = share_indexing(run, code);
    if (code == 0)
        code = open_data(run, &problems);
    if (code == 0 && run->datasets[PHASE_TRAIN] != NULL)
        overfit_fit(run->settings, run->datasets[PHASE_TRAIN]->record_count);
    if (code == 0)
        code = signals_exit_code();
    enter(run, RUN_PHASE_PLANNING);
    if (code == 0)
        code = choose_devices(run, &problems);
    if (code == 0 && run->kind != RUN_DRY)
        run_plan_fit_epochs(run->settings, datasets_of(run));
    if (code == 0 && (run_plan_init(&run->plan, run->settings, run->net, datasets_of(run), &problems) != 0 ||
                      plan_doubts_check(&run->plan, run->settings, run->net, &problems) != 0))
        code = problems_end(&problems,
                            run->plan.schedule.records[PHASE_TRAIN] == 0 ? EXIT_CODE_DATA : EXIT_CODE_USAGE);
    if (code == 0)
        code = balance_classes(run, &problems);
    problems_release(&problems);
    return code;
}

static int agree_on_reduction(struct run *run)
{
    const int rc = run_devices_agree(&run->plan.devices, run->settings, run->ranks);
    return rc == 0 ? 0 : rc == -ECANCELED ? EXIT_CODE_RANK : rc == -EINVAL ? EXIT_CODE_USAGE : EXIT_CODE_DEVICE;
}

/* Prepare all ranks: everything that can fail before anything is started. */
static int prepare(struct run *run)
{
    int code = check_facts(run, prepare_here(run));
    if (code == 0)
        code = device_share_agree(run->ranks, &run->plan.devices);
    if (code == 0)
        code = agree_on_reduction(run);
    if (code == 0)
        code = cost_find_energy(run->cost, &run->plan.devices);
    if (code == 0 && run->kind != RUN_DRY)
        code = run_state_find(&run->state, run->settings, &run->plan, datasets_of(run));
    run->state.progress.rate_last = (uint64_t)llround(run->plan.learning_rate.last);
    learning_rate_halve(&run->plan.learning_rate, run->state.progress.rollbacks);
    if (code == 0)
        code = open_weights_of_nets(run);
    return check_ranks(run, code);
}

static void print_start(const struct run *run, FILE *out)
{
    const struct run_directory *const directory = run->results.directory;
    fprintf(out, "pipetrain %s%s%s\n", PIPETRAIN_VERSION, directory != NULL ? ", run directory " : "",
           directory != NULL ? run_directory_path(directory) : "");
    about_settings(run->settings, out);
    about_print(&run->plan.devices, run->settings->input.source != INPUT_SYNTHETIC, out);
    about_ranks(run->ranks, &run->plan, run->settings, datasets_of(run), out);
    run_plan_print(&run->plan, run->settings, run->net, datasets_of(run), out);
    cost_print_plan(run->cost, out);
    if (run->initial_weights != NULL)
        initial_weights_print(run->initial_weights, out);
    run_state_print(&run->state, &run->plan, out);
}

/* A dry run has a single step, which may contradict settings without being a mistake. */
static void print_doubts(const struct run *run)
{
    if (run->kind != RUN_DRY && leads(run))
        plan_doubts_print(&run->plan, run->settings, run->net);
}

/* The weights that the run will save. */
static struct weights_spec saved_weights(const struct run *run)
{
    const bool saves = run->kind != RUN_DRY && run->plan.devices.backend->computes;
    return (struct weights_spec){ .net = saves ? run->net : NULL, .borrows = run->plan.devices.ops->host_memory,
                                  .parts = run_state_parts(&run->plan, run->settings, run->net),
                                  .towers = run->plan.schedule.towers, .here = run->plan.devices.towers,
                                  .best_settings = run->state.keeps_weights ? run->state.identity.text : NULL };
}

static int open_report(struct run *run)
{
    run->report = (struct report){ .settings = run->settings, .plan = &run->plan, .net = run->net,
                                  .datasets = datasets_of(run), .progress = &run->state.progress,
                                  .identity = run_state_identity(&run->state, run->settings, &run->plan),
                                  .account = run->account, .directory = run->results.directory,
                                  .pipeline = run->pipeline, .cost = run->cost, .ranks = run->ranks,
                                  .saves = &run->state.counts, .process_start_ns = run->process_start_ns };
    return report_init(&run->report);
}

static int open_results(struct run *run)
{
    if (run->kind == RUN_DRY)
        return results_lock(&run->results, run->settings);
    const size_t bytes = run_state_file_bytes(&run->state, run->settings, &run->plan, run->net);
    const uint64_t room = run_state_room(&run->state, run->settings, bytes);
    const struct run_past *const past = run_state_past(&run->state);
    const struct weights_spec saved = saved_weights(run);
    return run->kind == RUN_CHECK ? results_check(run->settings, saved, past, room)
                                  : results_open(&run->results, run->settings, saved, past, room, run->stop);
}

static int open_files(struct run *run)
{
    const int code = open_results(run);
    if (code != 0)
        return code;
    int rc = named_classes_save(run->results.weights, run->datasets[PHASE_TRAIN]);
    if (rc == 0)
        rc = trained_shards_save(run->results.weights, run->datasets[PHASE_TRAIN]);
    if (rc != 0)
        log_message(LOG_ERROR, "classes and shards of the data set: %s", exit_cause(rc));
    return rc == 0 ? 0 : (int)exit_code_of(rc, EXIT_CODE_DATA);
}

static int open_reports(struct run *run)
{
    const int rc = open_report(run);
    run->stop_rule = (struct stop_rule){ .train = &run->settings->train, .progress = &run->state.progress,
                                         .account = run->account, .process_start_ns = run->process_start_ns,
                                         .classes = run->net->classes, .uses_evaluations = has_accuracy(run) };
    return rc == 0 ? report_damage_init(&run->quarantine, run->results.directory) : rc;
}

/* Open files and reports; ranks other than 0 have no files, and only the reports that they send to rank 0. */
static int open_outputs(struct run *run)
{
    const int code = leads(run) ? open_files(run) : 0;
    if (code != 0)
        return code;
    int rc = account_open(&run->account, &run->plan.schedule, run->net->classes);
    if (rc == 0 && leads(run) && run->ranks != NULL && run->plan.devices.mode->serves != SERVES_EACH)
        rc = account_watch_ranks(run->account, run->ranks);
    if (rc == 0 && leads(run))
        rc = open_reports(run);
    if (rc == 0)
        rc = run_state_open(&run->state, run->settings, &run->plan, run->pipeline, run->account, &run->results);
    if (rc != 0)
        log_message(LOG_ERROR, "reports and checkpoints of the run: %s", exit_cause(rc));
    return rc == 0 ? 0 : EXIT_CODE_MEMORY;
}

/* Plan the towers, and check that the memory suffices. */
static int open_pipeline(struct run *run)
{
    const struct pipeline_parts parts = {
        .settings = run->settings,
        .plan = &run->plan,
        .net = run->net,
        .datasets = { run->datasets[PHASE_TRAIN], run->datasets[PHASE_EVALUATE] },
        .snapshots = run_state_rule(&run->state, run->settings, &run->plan),
        .shown = observers_rule(run->settings, &run->plan),
        .evaluated = run_state_best_rule(&run->state),
        .waits_for_main = stop_rule_needs_evaluations(&run->settings->train),
        .damage_sink = { report_damage_add, &run->quarantine },
        .poll = energy_poll,
        .poll_arg = &run->cost->energy,
        .stop = run->stop,
        .ranks = run->ranks,
    };
    run->state.gathers_weights = run->kind != RUN_DRY && ranks_size(run->ranks) > 1 &&
                                 run_plan_parts(&run->plan, run->settings) > 0;
    if (leads(run)) {
        memory_share_add(&run->plan.memory.host, MEMORY_RESULTS, weights_bytes(saved_weights(run)));
        memory_share_add(&run->plan.memory.host, MEMORY_RESULTS, observers_bytes(run->settings, run->net));
    }
    run_state_add_memory(&run->state, run->settings, &run->plan, run->net);
    const int rc = pipeline_open(&run->pipeline, &parts);
    return rc == 0 ? pipeline_check_memory(run->pipeline) : (int)stop_code(run->stop);
}

/* Stop the run if a stop rule applies; otherwise allow the batches after an evaluation, for which towers wait. */
static void decide(struct run *run, const struct local_batch *local)
{
    if (stop_rule_check(&run->stop_rule, local) && run->kind == RUN_TRAIN)
        pipeline_request_stop(run->pipeline);
    if (local->phase == PHASE_EVALUATE && local->last_of_phase)
        pipeline_allow(run->pipeline, local->number + 1);
}

/* Add a global batch that is done to the account, and report if a report is due. */
static void add_batch(struct run *run, struct step_report *const *reports)
{
    const struct local_batch *const local = &reports[0]->local;
    const bool evaluates = run->plan.schedule.records[PHASE_EVALUATE] > 0;
    nonfinite_check(run->stop, reports, &run->plan, &run->settings->train, &run->state.progress);
    if (stop_failed(run->stop) || results_begin(&run->results) != 0)
        return;
    account_add(run->account, reports, run->plan.schedule.towers);
    run->state.progress.spent = cost_spent(run->cost);
    nonfinite_check_evaluation(run->stop, run->account, local);
    decide(run, local);
    report_step(&run->report, reports);
    const uint64_t interval = report_interval_steps(run->settings, &run->plan.schedule);
    const bool is_due = (local->step + 1) % interval == 0;
    if (local->phase == PHASE_TRAIN && (is_due || local->last_of_phase)) {
        results_look(&run->results);
        report_interval(&run->report, local);
        account_interval_reset(run->account);
    }
    if (local->last_of_phase && (local->phase == PHASE_EVALUATE || !evaluates))
        report_epoch(&run->report, local);
    if (run->kind == RUN_DRY)
        pipeline_request_stop(run->pipeline);
}

static void enter_phase(const struct run *run, const struct local_batch *local)
{
    const bool evaluates = run->plan.schedule.records[PHASE_EVALUATE] > 0;
    const bool is_evaluating = local->phase == PHASE_EVALUATE || (local->last_of_phase && evaluates);
    enter(run, is_evaluating ? RUN_PHASE_EVALUATING : RUN_PHASE_TRAINING);
}

static void follow_batch(struct run *run, struct step_report *const *reports)
{
    const struct local_batch *const local = &reports[0]->local;
    cost_follow(run->cost, local->phase == PHASE_EVALUATE && local->last_of_phase);
    if (leads(run))
        add_batch(run, reports);
    if (stop_failed(run->stop))
        return;
    enter_phase(run, local);
    run->next = local->number + 1;
    run_state_follow(&run->state, reports);
}

/* The run has failed because of a number that is not finite: let the other ranks end in an orderly way, because a
 * rollback (train.on_nan = rollback) needs them again. */
static void end_together(struct run *run)
{
    struct step_report **reports;
    int rc;
    run_state_give_up(&run->state);
    pipeline_request_stop(run->pipeline);
    while ((rc = pipeline_step(run->pipeline, &reports)) == 0)
        pipeline_give_back(run->pipeline);
    if (rc != -ENODATA)
        ranks_announce_failure(run->ranks);     /* other ranks may wait for this one in a reduction */
}

static void run_steps(struct run *run)
{
    struct step_report **reports;
    int rc;
    enter(run, RUN_PHASE_FIRST_STEP);
    account_begin(run->account, clock_now_ns());
    pipeline_go(run->pipeline);
    while ((rc = pipeline_step(run->pipeline, &reports)) == 0) {
        if (run->ranks != NULL)
            stop_hold(run->stop);
        follow_batch(run, reports);
        pipeline_give_back(run->pipeline);
        if (run->ranks == NULL)
            continue;
        if (stop_code(run->stop) == EXIT_CODE_NONFINITE)
            end_together(run);
        stop_release(run->stop);
    }
    if (rc != -ENODATA && !stop_failed(run->stop))
        ranks_await_cause(run->ranks);          /* else the weights of this step would be saved as those of the whole run */
}

/* Has this run completed a batch? */
static bool has_begun(const struct run *run)
{
    return leads(run) ? run->results.have_begun : run->next > run->plan.schedule.first;
}

/* Save the weights, in rank 0, which receives the parts that other ranks have. */
static int save_weights(struct run *run)
{
    struct tower *towers[DEVICES_TOWERS_MAX];
    for (uint32_t d = 0; d < run->plan.devices.towers.count; d++)
        towers[d] = pipeline_tower(run->pipeline, d);
    run_state_send_weights(&run->state, run->next, leads(run) && results_can_save(&run->results), towers);
    return !leads(run) ? 0 : results_save(&run->results, towers, run->account->step, run->settings->train.learning_rate);
}

/* Save the weights, and prepare the last checkpoint, which gets its name after the reports are written. */
static int save(struct run *run)
{
    int code = 0;
    enter(run, RUN_PHASE_SAVING);
    run->state.progress.spent = cost_spent(run->cost);
    run_state_settle(&run->state);
    if (!stop_failed(run->stop))
        code = save_weights(run);
    if (stop_code(run->stop) == EXIT_CODE_NONFINITE)
        run_state_give_up(&run->state);
    const struct run_last last = { run->next, !stop_failed(run->stop) && has_begun(run), signals_exit_code() != 0 };
    run_state_finish(&run->state, run->settings, &last);
    return code;
}

/* A signal takes precedence over the settings' rules. */
static void name_end(struct run *run, int asked_code)
{
    if (asked_code != 0) {
        run->end.early = run->end.ended = asked_code == EXIT_CODE_INTERRUPTED ? "interrupted" : "asked to stop";
    } else if (run->stop_rule.reason != STOP_REASON_NONE && run->next < schedule_batch_count(&run->plan.schedule)) {
        run->end.early = run->stop_rule.words;
        run->end.ended = stop_reason_key(run->stop_rule.reason);
    }
}

/* The final sums of the run. */
static void settle_cost(struct run *run)
{
    energy_read(&run->cost->energy);
    run->state.progress.spent = cost_spent(run->cost);
}

static int finish(struct run *run, int asked_code)
{
    settle_cost(run);
    name_end(run, asked_code);
    if (run->results.directory != NULL && !run->results.have_begun) {
        log_message(LOG_RUN, "no step was done, so nothing is written");
        run->report.directory = NULL;
    }
    (void)run_directory_look(run->report.directory);    /* a failure is reported with those of other files */
    if (report_result(&run->report, &run->end) != 0)
        return EXIT_CODE_OUTPUT;
    return asked_code != 0 || run->settings->overfit == 0
               ? asked_code : about_overfit(&run->stop_rule, run->settings, run->net, stdout);
}

static void print_line(void *arg, const char *line)
{
    wrapped_print(arg, "%*s%s", (int)WRAPPED_INDENT, "", line);
}

/* If the plan is longer than the terminal, print how to see all of it. */
static void print_length(const char *text)
{
    const unsigned rows = terminal_rows(STDOUT_FILENO);
    unsigned lines = 0;
    for (const char *at = text; (at = strchr(at, '\n')) != NULL; at++)
        lines++;
    if (rows > 0 && lines + 2 > rows)
        wrapped_print(stdout, "plan      %u lines on a terminal of %u: to see all, %spipetrain -c FILE --check | less",
                      lines, rows, program_folder());
}

/* Print the start of a run; without counting lines if there is no memory for it. */
static void print_start_fitting(const struct run *run)
{
    char *text = NULL;
    size_t bytes;
    FILE *const out = open_memstream(&text, &bytes);
    if (out == NULL) {
        print_start(run, stdout);
    } else {
        print_start(run, out);
        if (text_stream_end(out, &text) == 0) {
            fputs(text, stdout);
            print_length(text);
        } else {
            print_start(run, stdout);
        }
    }
    free(text);
    fflush(stdout);
}

static void print_plan(struct run *run)
{
    print_start_fitting(run);
    if (run->kind != RUN_DRY)
        return;
    pipeline_print(run->pipeline, stdout);
    printf("layers    of tower 0\n");
    tower_describe(pipeline_tower(run->pipeline, 0), print_line, stdout);
    fflush(stdout);             /* before messages on stderr */
}

static int start_pipeline(struct run *run)
{
    enter(run, RUN_PHASE_ALLOCATING);
    signals_set_callback(pipeline_request_stop, run->pipeline, true);
    if (pipeline_allocate(run->pipeline) != 0)
        return stop_code(run->stop);
    const int code =
        run->initial_weights != NULL ? run_weights_write(run->initial_weights, run->pipeline, &run->plan) : 0;
    if (code != 0)
        return code;
    const int restored = run_state_restore(&run->state, &run->plan, run->pipeline, run->account);
    cost_begin(run->cost, &run->state.progress.spent, &run->account->state);
    return restored;
}

static void close_pipeline(struct run *run, struct pipeline_counts *counts_out)
{
    enter(run, RUN_PHASE_CLOSING);
    signals_set_callback(NULL, NULL, false);
    pipeline_close(run->pipeline, counts_out);
    run->pipeline = NULL;
}

/* Like check_ranks, but also check that all ranks begin with the same weights, stored in the same order. In modes in
 * which towers may have different weights only errors are compared. */
static int check_weights(const struct run *run, int code)
{
    char facts[STARTUP_WEIGHTS_BYTES] = "";
    const bool are_same = run->ranks != NULL && code == 0 && !run->plan.devices.mode->differs &&
                          run->plan.devices.backend->computes;
    const int rc = are_same ? startup_weights_facts(pipeline_tower(run->pipeline, 0), facts) : 0;
    if (rc != 0)
        log_message(LOG_ERROR, "the first weights: %s", exit_cause(rc));
    if (rc != 0)
        code = (int)exit_code_of(rc, EXIT_CODE_DEVICE);
    return startup_check(run->ranks, code == 0 ? signals_exit_code() : code, facts[0] != '\0' ? facts : NULL);
}

/* Start the run. All checks come before the first output and the first large allocation. */
static int begin(struct run *run)
{
    int code = check_ranks(run, open_pipeline(run));
    if (code == 0)
        code = open_outputs(run);
    if (code == 0 && limits_check_files(FILES_AT_ONCE) != 0)
        code = EXIT_CODE_MEMORY;
    code = check_ranks(run, code);
    if (code != 0)
        return code;
    run->began_ns = clock_now_ns();
    return check_weights(run, start_pipeline(run));
}

/* Print the written files and the next command to try. */
static void print_end(const struct run *run, int code)
{
    const struct about_end end = {
        .directory = run->results.directory != NULL ? run_directory_path(run->results.directory) : NULL,
        .settings = run->settings,
        .plan = &run->plan,
        .saves_states = run->state.saves && !run->state.needs_none,
        .saved_best = run_state_has_best(&run->state),
        .steps = run->account->step,
    };
    const bool was_asked = code == EXIT_CODE_STOPPED || code == EXIT_CODE_INTERRUPTED;
    const bool is_early = was_asked || (run->end.early != NULL && run->stop_rule.reason == STOP_REASON_MAX_TIME);
    if (code != 0 && !was_asked)
        return;
    about_files(&end, stdout);
    about_next(&end, is_early && !run->state.needs_none, stdout);
}

/* Write the summary of a failed run; the cause was already reported. */
static int finish_failed(struct run *run)
{
    settle_cost(run);
    run->end.ended = "failed";
    run->end.early = stop_message(run->stop);
    if (run->results.have_begun)
        (void)summary_write(&run->report, &run->end, NULL);
    return stop_code(run->stop);
}

/* The end of the run in a rank other than 0. */
static int end_here(struct run *run, int code)
{
    close_pipeline(run, NULL);
    return stop_failed(run->stop) ? (int)stop_code(run->stop) : code;
}

static int train(struct run *run)
{
    int code = begin(run);
    if (code != 0)
        return code;
    print_doubts(run);
    print_plan(run);
    code = ranks_set_stop(run->ranks, run->stop) == 0 ? 0 : out_of_memory("the ranks");
    code = startup_check(run->ranks, code, NULL);       /* prints the warnings of the plan, too */
    startup_end(run->ranks);
    if (code != 0)
        return code;
    run_steps(run);
    run->end.loader_end_ns = clock_now_ns();
    run->end.loader_wall_ns = run->end.loader_end_ns - run->began_ns;
    if (!stop_failed(run->stop) || stop_code(run->stop) == EXIT_CODE_NONFINITE)
        cost_end(run->cost);
    code = save(run);
    if (!leads(run))
        return end_here(run, code);
    const int asked_code = signals_exit_code();
    close_pipeline(run, &run->end.counts);
    if (stop_failed(run->stop))
        return finish_failed(run);
    const int finished = finish(run, asked_code);
    if (code == 0)
        code = finished;
    const int saved = run_state_write_last(&run->state, run->settings);
    if (saved != 0)
        code = saved;
    print_end(run, code);
    return code;
}

/* --check: plan the towers on their devices, and check the checkpoint to resume from, the run directory, the initial
 * weights and the data. */
static int check(struct run *run)
{
    int code = check_ranks(run, open_pipeline(run));
    if (code == 0 && leads(run) && !run->state.is_over)
        code = open_results(run);
    if (code == 0 && run->initial_weights != NULL)
        code = run_weights_check(run->initial_weights);
    code = check_ranks(run, code);
    startup_end(run->ranks);
    if (code != 0 || !leads(run))
        return code;
    print_doubts(run);
    print_start(run, stdout);
    fflush(stdout);
    code = run_data_check(datasets_of(run), stdout);
    if (code == 0)
        code = run_plan_check_losses(&run->plan, run->settings, datasets_of(run), run->stop);
    if (code == 0)
        wrapped_print(stdout, "checked   %s", run->state.is_over ? "this run has ended: the same command without "
                      "--check does nothing" : "this run can start: use the same command without --check");
    return code;
}

static void release(struct run *run)
{
    run_state_finish(&run->state, run->settings, &(struct run_last){ .next = 0 });
    close_pipeline(run, NULL);
    (void)ranks_set_stop(run->ranks, NULL);
    free(run->end.counts.damage);
    report_release(&run->report);
    report_damage_release(&run->quarantine);
    account_close(run->account);
    run_state_release(&run->state);
    results_close(&run->results);
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        dataset_close(run->datasets[phase]);
    initial_weights_close(run->initial_weights);
    free(run->plan.class_weights);
    order_classes_release(&run->plan.classes);
    net_close(run->train_net);
    net_close(run->net);
    stop_close(run->stop);
}

/* Execute a run, or a part of it up to a rollback. *back: in, the checkpoint to start from; out, the checkpoint to roll
 * back to if a number was not finite. */
static int execute(struct settings *settings, enum run_kind kind, uint64_t process_start_ns, struct ranks *ranks,
                   struct cost *cost, struct run_back *back)
{
    struct run run = { .settings = settings, .ranks = ranks, .kind = kind, .process_start_ns = process_start_ns,
                       .cost = cost, .state = { .back = back, .ranks = ranks } };
    int code = stop_open(&run.stop) == 0 ? prepare(&run) : out_of_memory("the run");
    if (code == 0 && kind == RUN_CHECK)
        code = check(&run);
    else if (code == 0 && !run.state.is_over)
        code = train(&run);
    const bool is_broken = code == EXIT_CODE_NONFINITE && settings->train.on_nan == ON_NAN_ROLLBACK;
    struct run_back next = { .folder = "" };
    if (is_broken && kind == RUN_TRAIN && !run_state_go_back(&run.state, &next))
        next.folder[0] = '\0';
    const bool has_failed = run.stop != NULL && stop_failed(run.stop);
    release(&run);
    *back = next;
    return shutdown_agree(ranks, code, has_failed, back);
}

int run_execute(struct settings *settings, enum run_kind kind, uint64_t process_start_ns, struct ranks *ranks)
{
    struct run_back back = { .folder = "" };
    struct cost cost;
    int code;
    if (kind == RUN_DRY)
        settings->train.steps = 1;
    cost_open(&cost, settings, ranks, process_start_ns);
    do
        code = execute(settings, kind, process_start_ns, ranks, &cost, &back);
    while (back.folder[0] != '\0');
    cost_release(&cost);
    return code;
}
