/* A part of a training run. */
#include "tests/helpers/run_part.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compute/snapshot.h"
#include "stage/clock.h"
#include "tests/helpers/tfrecord_fixture.h"
#include "tools/lib/config/config.h"
#include "tools/lib/run/account.h"
#include "tools/lib/run/pipeline.h"

enum { REPORT_EVERY = 5, LAG = 3, TOWERS_MAX = 8 };

struct part {
    const char *folder, *begin, *name;
    uint64_t save;              /* save after this step; 0: at the end */
    uint64_t asked;             /* ask the run to stop at this batch; UINT64_MAX: never */
    struct settings settings;
    struct net *net;
    struct dataset *datasets[PHASE_COUNT];
    struct run_plan plan;
    struct stop *stop;
    struct account *account;
    struct pipeline *pipeline;
    FILE *lines[PHASE_COUNT];
    uint64_t number;            /* of the next batch to report */
    /* The state that is saved, once there is one. */
    bool has_state;
    struct snapshot *snapshots[TOWERS_MAX];
    struct position place;
    struct account_state sums;
    uint32_t lag;               /* batches reported since */
};

static void must(bool holds, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void must(bool holds, const char *format, ...)
{
    va_list arguments;
    if (holds)
        return;
    va_start(arguments, format);
    fprintf(stderr, "run_part: ");
    vfprintf(stderr, format, arguments);
    fprintf(stderr, ": %s\n", strerror(errno));
    va_end(arguments);
    exit(1);
}

/* ---- setting up ---- */

static struct net *make_net(void)
{
    struct net *net = NULL;
    const struct shape image = { FIXTURE_CHANNELS, FIXTURE_HEIGHT, FIXTURE_WIDTH };
    must(net_open(&net, "part", image, FIXTURE_CLASSES) == 0, "net");
    net_conv2d(net, "conv", NET_INPUT, 6, window_square(3, 1, PADDING_SAME), false);
    net_batch_norm(net, "norm", 0, (struct batch_norm){ .decay = 0.9, .epsilon = 1e-3f, .with_gamma = true });
    net_relu(net, "relu", 1);
    net_max_pool(net, "pool", 2, window_square(2, 1, PADDING_VALID));
    net_dropout(net, "dropout1", 3, 0.25f);
    net_dense(net, "fc1", 4, 9, true);
    net_relu(net, "relu2", 5);
    net_dropout(net, "dropout2", 6, 0.5f);
    net_dense(net, "fc2", 7, FIXTURE_CLASSES, true);
    net_softmax_loss(net, "loss", 8);
    must(net_finish(net) == 0, "net: %s", net_error(net));
    return net;
}

static void print_problems(struct problems *problems)
{
    problems_print(problems);
    must(problems->count == 0, "settings");
    problems_release(problems);
}

static void read_settings(struct part *part, char **assignments, int count)
{
    char train[512];
    struct problems problems;
    problems_init(&problems);
    must(settings_init(&part->settings) == 0, "settings");
    snprintf(train, sizeof(train), "data.train=%s/train", part->folder);
    config_set(&part->settings, train, &problems);
    for (int i = 0; i < count; i++)
        config_set(&part->settings, assignments[i], &problems);
    settings_finish(&part->settings, &problems);
    print_problems(&problems);
}

static struct dataset *open_data(const struct part *part, const char *what)
{
    char path[512], problem[4096] = "";
    struct dataset *dataset = NULL;
    snprintf(path, sizeof(path), "%s/%s", part->folder, what);
    const struct dataset_options options = fixture_options(path);
    must(dataset_open(&dataset, &options, problem, sizeof(problem)) == 0, "%s", problem);
    return dataset;
}

static void make_plan(struct part *part)
{
    struct problems problems;
    problems_init(&problems);
    const struct dataset *const *const datasets = (const struct dataset *const *)part->datasets;
    run_devices_init(&part->plan.devices, &part->settings, &problems);
    run_plan_init(&part->plan, &part->settings, part->net, datasets, &problems);
    print_problems(&problems);
}

static FILE *open_file(const struct part *part, const char *name, const char *kind, const char *mode)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/%s.%s", part->folder, name, kind);
    FILE *file = fopen(path, mode);
    must(file != NULL, "%s", path);
    return file;
}

/* ---- the file ---- */

typedef void (*transfer)(void *data, size_t bytes, FILE *file);

static void put(void *data, size_t bytes, FILE *file)
{
    must(fwrite(data, 1, bytes, file) == bytes, "writing a state");
}

static void get(void *data, size_t bytes, FILE *file)
{
    must(fread(data, 1, bytes, file) == bytes, "reading a state");
}

/* The same for both ways: what is in a state, in the order of the file. */
static void move_place(struct position *place, struct account_state *sums, transfer move, FILE *file)
{
    move(&place->epoch, sizeof(place->epoch), file);
    move(&place->step, sizeof(place->step), file);
    move(&place->evaluated, sizeof(place->evaluated), file);
    move(sums, sizeof(*sums), file);
}

static float *parameter_room(const struct part *part)
{
    size_t most = 1;
    for (uint32_t p = 0; p < part->net->parameter_count; p++)
        most = part->net->parameters[p].count > most ? part->net->parameters[p].count : most;
    float *room = calloc(most, sizeof(*room));
    must(room != NULL, "memory");
    return room;
}

/* Buffers of the optimizer that a parameter has a part in. */
static uint32_t states_of(const struct part *part, uint32_t parameter)
{
    return part->net->parameters[parameter].is_trained ? optimizer_state_count(part->plan.optimizer.kind) : 0;
}

static void write_tower(const struct part *part, const struct snapshot *snapshot, FILE *file)
{
    float *plain = parameter_room(part);
    size_t carried_bytes;
    const void *carried = snapshot_carried(snapshot, &carried_bytes);
    for (uint32_t p = 0; p < part->net->parameter_count; p++) {
        const size_t bytes = part->net->parameters[p].count * sizeof(float);
        must(snapshot_value(snapshot, p, plain) == 0, "value");
        put(plain, bytes, file);
        for (uint32_t i = 0; i < states_of(part, p); i++) {
            must(snapshot_state(snapshot, i, p, plain) == 0, "state");
            put(plain, bytes, file);
        }
    }
    put(&carried_bytes, sizeof(carried_bytes), file);
    must(fwrite(carried, 1, carried_bytes, file) == carried_bytes, "carried");
    free(plain);
}

static void read_tower(const struct part *part, struct tower *tower, FILE *file)
{
    float *plain = parameter_room(part);
    size_t carried_bytes;
    uint8_t carried[256];
    for (uint32_t p = 0; p < part->net->parameter_count; p++) {
        const size_t bytes = part->net->parameters[p].count * sizeof(float);
        get(plain, bytes, file);
        must(tower_write(tower, p, plain) == 0, "value");
        for (uint32_t i = 0; i < states_of(part, p); i++) {
            get(plain, bytes, file);
            must(snapshot_write_state(tower, i, p, plain) == 0, "state");
        }
    }
    get(&carried_bytes, sizeof(carried_bytes), file);
    must(carried_bytes <= sizeof(carried), "carried");
    get(carried, carried_bytes, file);
    must(snapshot_write_carried(tower, carried, carried_bytes) == 0, "carried");
    free(plain);
}

/* Times are not the same twice. */
static void forget_times(struct account_state *sums)
{
    struct step_totals *const totals[] = { &sums->phases[PHASE_TRAIN], &sums->phases[PHASE_EVALUATE], &sums->interval,
                                            &sums->training };
    for (size_t i = 0; i < sizeof(totals) / sizeof(totals[0]); i++) {
        totals[i]->wall_ns = 0;
        totals[i]->times = (struct step_times){ 0 };
    }
}

static void write_state(struct part *part)
{
    FILE *file = open_file(part, part->name, "state", "wb");
    forget_times(&part->sums);
    move_place(&part->place, &part->sums, put, file);
    for (uint32_t d = 0; d < part->plan.schedule.towers; d++) {
        write_tower(part, part->snapshots[d], file);
        pipeline_return(part->pipeline, d, part->snapshots[d]);
    }
    must(fclose(file) == 0, "closing a state");
}

/* ---- the run ---- */

static void open_pipeline(struct part *part)
{
    const struct pipeline_parts parts = {
        .settings = &part->settings, .plan = &part->plan, .net = part->net,
        .datasets = { part->datasets[PHASE_TRAIN], part->datasets[PHASE_EVALUATE] },
        .snapshots = { .count = 1, .every = part->save, .last = part->save == 0 }, .stop = part->stop,
    };
    must(account_open(&part->account, &part->plan.schedule, part->net->classes) == 0, "account");
    must(pipeline_open(&part->pipeline, &parts) == 0, "plan of the pipeline");
    must(pipeline_allocate(part->pipeline) == 0, "pipeline");
}

/* From the start, or from where a file says. */
static void begin(struct part *part)
{
    if (strcmp(part->begin, "-") == 0) {
        open_pipeline(part);
        return;
    }
    FILE *file = open_file(part, part->begin, "state", "rb");
    move_place(&part->place, &part->sums, get, file);
    must(schedule_seek(&part->plan.schedule, part->place, &part->plan.schedule.first) == 0, "place");
    open_pipeline(part);
    account_resume(part->account, &part->sums);
    for (uint32_t d = 0; d < part->plan.schedule.towers; d++)
        read_tower(part, pipeline_tower(part->pipeline, d), file);
    must(getc(file) == EOF, "the state's end");
    fclose(file);
}

static void print_line(FILE *out, struct step_report *const *reports, uint32_t towers, uint64_t order_hash)
{
    const struct local_batch *local = &reports[0]->local;
    fprintf(out, "%" PRIu64 " epoch %" PRIu32 " step %" PRIu64 " order %016" PRIx64, local->number, local->epoch,
            local->step, order_hash);
    for (uint32_t d = 0; d < towers; d++)
        fprintf(out, ", %a %" PRIu32 "/%" PRIu32 " skipped %" PRIu32 " scale %a", reports[d]->result.loss_sum,
                reports[d]->result.correct, reports[d]->result.counted, reports[d]->result.skipped_steps,
                (double)reports[d]->result.loss_scale);
    fputc('\n', out);
}

static void add(struct part *part, struct step_report *const *reports)
{
    const struct local_batch *local = &reports[0]->local;
    const uint32_t towers = part->plan.schedule.towers;
    account_add(part->account, reports, towers);
    print_line(part->lines[local->phase], reports, towers, part->account->state.order_hash);
    if (local->phase == PHASE_TRAIN && (local->step + 1) % REPORT_EVERY == 0)
        account_interval_reset(part->account);
}

/* The state after the last batch that was added is saved. */
static void keep_state(struct part *part)
{
    part->has_state = true;
    part->place = schedule_position(&part->plan.schedule, part->number);
    part->sums = part->account->state;
}

static void keep_snapshots(struct part *part, struct step_report *const *reports)
{
    keep_state(part);
    for (uint32_t d = 0; d < part->plan.schedule.towers; d++) {
        must(reports[d]->snapshot != NULL, "tower %u has no snapshot", d);
        part->snapshots[d] = reports[d]->snapshot;
        reports[d]->snapshot = NULL;
    }
}

static void follow(struct part *part, struct step_report *const *reports)
{
    const struct local_batch *local = &reports[0]->local;
    must(part->number == local->number, "batch %" PRIu64 " is not the next one", local->number);
    part->number++;
    if (part->has_state) {
        part->lag++;
    } else {
        add(part, reports);
        if (part->save > 0 && local->phase == PHASE_TRAIN && local->step + 1 == part->save)
            keep_snapshots(part, reports);
    }
    if (local->number == part->asked)
        pipeline_request_stop(part->pipeline);
    /* The towers go on for some batches before the snapshots are read and given back, unless they
     * want them again before. */
    if (part->has_state && part->lag == (part->save > LAG ? LAG : 0)) {
        write_state(part);
        pipeline_request_stop(part->pipeline);
    }
}

static void save_end(struct part *part)
{
    keep_state(part);
    for (uint32_t d = 0; d < part->plan.schedule.towers; d++) {
        part->snapshots[d] = pipeline_last(part->pipeline, d);
        must(part->snapshots[d] != NULL, "tower %u has no last snapshot", d);
    }
    write_state(part);
}

static void run(struct part *part)
{
    struct step_report **reports;
    part->number = part->plan.schedule.first;
    account_begin(part->account, clock_now_ns());
    pipeline_go(part->pipeline);
    while (pipeline_step(part->pipeline, &reports) == 0) {
        follow(part, reports);
        pipeline_give_back(part->pipeline);
    }
    must(!stop_failed(part->stop), "%s", stop_message(part->stop));
    if (part->save == 0)
        save_end(part);
}

static void release(struct part *part)
{
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        must(fclose(part->lines[phase]) == 0, "closing lines");
    pipeline_close(part->pipeline, NULL);
    account_close(part->account);
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        dataset_close(part->datasets[phase]);
    net_close(part->net);
    stop_close(part->stop);
    settings_release(&part->settings);
}

static void read_until(struct part *part, const char *until)
{
    part->asked = UINT64_MAX;
    const bool is_known = strcmp(until, "end") == 0 || sscanf(until, "step=%" SCNu64, &part->save) == 1 ||
                          sscanf(until, "asked=%" SCNu64, &part->asked) == 1;
    must(is_known, "until %s", until);
}

int run_part_main(int argc, char **argv)
{
    alarm(100);
    must(argc >= 6, "arguments are missing");
    static struct part part;
    part = (struct part){ .folder = argv[2], .begin = argv[3], .name = argv[4], .net = make_net() };
    read_until(&part, argv[5]);
    read_settings(&part, argv + 6, argc - 6);
    part.datasets[PHASE_TRAIN] = open_data(&part, "train");
    part.datasets[PHASE_EVALUATE] = open_data(&part, "validation");
    must(stop_open(&part.stop) == 0, "stop");
    make_plan(&part);
    must(part.plan.schedule.towers <= TOWERS_MAX, "too many towers");
    part.lines[PHASE_TRAIN] = open_file(&part, part.name, "train", "w");
    part.lines[PHASE_EVALUATE] = open_file(&part, part.name, "evaluate", "w");
    begin(&part);
    run(&part);
    release(&part);
    return 0;
}
