/* Trainers for tests. */
#include "tests/helpers/trainer_fixture.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "stage/random.h"
#include "sync/reduce_server.h"
#include "tests/helpers/test.h"
#include "tests/helpers/test_device_kind.h"

enum { SIDE = 6, CLASSES = 4, HIDDEN = 12, DEPTH = 2 };

/* With parts there are two dense layers. */
static struct net *net_make(const struct fixture_spec *spec)
{
    static const struct batch_norm how = { .decay = 0.5, .epsilon = 0.01f, .with_gamma = true };
    struct net *net;
    assert_int_equal(net_open(&net, "tiny", (struct shape){ 1, SIDE, SIDE }, CLASSES), 0);
    uint32_t last = (uint32_t)net_conv2d(net, "conv", NET_INPUT, 3, window_square(3, 1, PADDING_VALID),
                                         !spec->normalizes);
    if (spec->normalizes)
        last = (uint32_t)net_batch_norm(net, "norm", last, how);
    last = (uint32_t)net_relu(net, "relu", last);
    if (spec->auxiliary > 0)
        net_auxiliary_loss(net, "auxiliary_loss", (uint32_t)net_dense(net, "auxiliary", last, CLASSES, true),
                           spec->auxiliary);
    last = (uint32_t)net_max_pool(net, "pool", last, window_square(2, 2, PADDING_VALID));
    if (spec->parts > 0)
        last = (uint32_t)net_relu(net, "relu1", (uint32_t)net_dense(net, "fc1", last, HIDDEN, true));
    last = (uint32_t)net_dropout(net, "drop", last, 0.25f);
    last = (uint32_t)net_dense(net, "fc", last, CLASSES, true);
    net_softmax_loss(net, "loss", last);
    assert_int_equal(net_finish(net), 0);
    return net;
}

static uint8_t pixel_at(const struct local_batch *local, uint32_t sample, size_t i)
{
    const uint64_t position = local->first_position + sample + local->epoch * 1000u;
    return (uint8_t)random_u64(random_key(position, RANDOM_DRAW, local->phase), i);
}

static void block_fill(const struct fixture_tower *own, const struct local_batch *local)
{
    const struct batch_layout *layout = &own->fixture->layout;
    int32_t *labels = (int32_t *)(void *)(own->block + layout->of[PHASE_TRAIN].labels_offset);
    for (uint32_t s = 0; s < local->count; s++) {
        for (size_t i = 0; i < layout->of[PHASE_TRAIN].sample_bytes; i++)
            own->block[s * layout->of[PHASE_TRAIN].sample_bytes + i] = pixel_at(local, s, i);
        labels[s] = (int32_t)((local->first_position + s) % CLASSES);
    }
}

/* What a tower computes of a batch. */
static int find_span(const struct trainer_fixture *fixture, uint64_t number, uint32_t tower,
                     struct local_batch *local_out)
{
    const bool is_same = fixture->spec.has_same_samples;
    const int rc = schedule_find(&fixture->schedule, number, is_same ? 0 : tower, local_out);
    if (rc == 0 && is_same)
        local_out->first_position /= fixture->schedule.towers;
    return rc;
}

/* What a feeder does, with pixels of the test. */
static int feed(struct fixture_tower *own, uint64_t number)
{
    const struct device_ops *ops = own->device->ops;
    struct local_batch local;
    struct slot *slot;
    int rc = find_span(own->fixture, number, own->tower, &local);
    if (!rc)
        rc = slots_empty(own->slots, &slot);
    if (rc)
        return rc;
    slot->local = local;
    for (uint32_t i = 0; i < local.count; i++)
        slot->ids[i] = local.first_position + i;
    block_fill(own, &local);
    if (local.count > 0) {
        stream_wait(own->copy, slot->free);
        ops->copy(own->copy, slot->block, own->block, own->fixture->layout.block_bytes, COPY_TO_DEVICE);
        stream_record(own->copy, slot->ready);
    }
    slots_publish(own->slots, slot);
    return local.count > 0 ? ops->event_wait(slot->ready) : 0;
}

/* Wait until the other towers wait for the last one: each has computed a batch for the current step and for every step
 * that it may be ahead, and its slots are full. */
static void await_others(const struct trainer_fixture *fixture)
{
    const uint64_t enough = fixture->spec.max_staleness + 1 + DEPTH;
    for (uint32_t d = 0; d + 1 < fixture->schedule.towers; d++)
        while (atomic_load(&fixture->towers[d].fed) < enough && !stop_failed(fixture->stop))
            usleep(100);
}

static void source_loop(void *arg)
{
    struct fixture_tower *own = arg;
    if (own->fixture->spec.is_late && own->tower + 1 == own->fixture->schedule.towers)
        await_others(own->fixture);
    for (uint64_t number = 0; feed(own, number) == 0; number++)
        atomic_store(&own->fed, number + 1);
    slots_finish(own->slots);
}

/* Towers go round the devices. */
static uint32_t device_index(uint32_t tower)
{
    char why[256];
    return tower % test_device_ops()->count(why, sizeof(why));
}

const struct backend_ops *fixture_backend(void)
{
    return backend_find(test_device_ops()->host_memory ? "reference" : "cuda");
}

static void tower_open_fixture(struct trainer_fixture *fixture, uint32_t tower)
{
    const struct device_ops *ops = test_device_ops();
    struct fixture_tower *own = &fixture->towers[tower];
    const struct device_spec spec = { .index = device_index(tower), .name = "device" };
    own->fixture = fixture;
    own->tower = tower;
    assert_int_equal(ops->open(&own->device, &spec), 0);
    assert_int_equal(ops->stream_open(own->device, STREAM_COMPUTE, "compute", &own->compute), 0);
    assert_int_equal(ops->stream_open(own->device, STREAM_COMMUNICATION, "reduce", &own->communication), 0);
    assert_int_equal(ops->stream_open(own->device, STREAM_COMMUNICATION, "results", &own->results), 0);
    assert_int_equal(ops->stream_open(own->device, STREAM_COPY, "copy", &own->copy), 0);
    assert_int_equal(slots_open(&own->slots, own->device, DEPTH, &fixture->layout), 0);
    void *block;
    assert_int_equal(ops->alloc_pinned(own->device, fixture->layout.block_bytes, &block), 0);
    own->block = block;
    assert_int_equal(stop_on_failure(fixture->stop, slots_cancel, own->slots), 0);
    assert_int_equal(stop_on_failure(fixture->stop, device_cancel, own->device), 0);
}

/* Remember a size the tower will meet. */
static void add_count(uint32_t counts[TOWER_COUNTS], uint32_t count)
{
    uint32_t i = 0;
    while (counts[i] != 0 && counts[i] != count)
        assert_in_range(++i, 0, TOWER_COUNTS - 1);
    counts[i] = count;
}

static void add_microbatches(uint32_t counts[TOWER_COUNTS], uint32_t count, uint32_t microbatch_max)
{
    for (; microbatch_max > 0 && count > microbatch_max; count -= microbatch_max)
        add_count(counts, microbatch_max);
    if (count > 0)
        add_count(counts, count);
}

static void add_slices(uint32_t counts[TOWER_COUNTS], const struct tower_slices *slices, uint32_t batch)
{
    for (uint32_t i = slices->first; i < slices->first + slices->count; i++) {
        const uint32_t count = batch_part_find(batch, slices->pairs, slices->all, i).count;
        if (count > 0)
            add_count(counts, count);
    }
}

bool fixture_is_thorough(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    const bool is_fast = false;
#else
    const bool is_fast = test_device_ops()->host_memory;
#endif
    return is_fast || test_is_long();
}

size_t fixture_tower_counts(const uint32_t **counts_out)
{
    static const uint32_t counts[] = { 1, 2, 3, 5, FIXTURE_TOWERS_MAX };
    const size_t count = sizeof(counts) / sizeof(counts[0]);
    *counts_out = counts;
    return test_device_ops()->host_memory ? count : count - 1;
}

static uint32_t rank_count(const struct fixture_spec *spec)
{
    return spec->ranks > 0 ? spec->ranks : 1;
}

static uint32_t towers_here(const struct fixture_spec *spec)
{
    return spec->schedule.towers / rank_count(spec);
}

static const struct sync_ops *mode_of(const struct fixture_spec *spec)
{
    return sync_choose(spec->mode, spec->schedule.towers, rank_count(spec), spec->max_staleness);
}

static struct tower_slices slices_of(const struct schedule *schedule, uint32_t tower)
{
    const uint32_t each = schedule->slices / schedule->towers;
    return (struct tower_slices){ .all = schedule->slices, .first = tower * each, .count = each };
}

static struct tower_parts parts_of(const struct fixture_spec *spec, uint32_t tower)
{
    if (spec->parts == 0)
        return (struct tower_parts){ 0 };
    const struct part_range own = head_own_parts(spec->parts, spec->schedule.towers, tower);
    return (struct tower_parts){ .all = spec->parts, .first = own.first, .count = own.count,
                                 .batch = spec->schedule.batch };
}

struct trainer_spec fixture_trainer(struct trainer_fixture *fixture, uint32_t tower)
{
    const struct sync_ops *const mode = mode_of(&fixture->spec);
    static const struct learning_rate rate = { .base = 0.05 }, frozen = { .base = 0 };
    struct fixture_tower *own = &fixture->towers[tower];
    struct trainer_spec spec = {
        .name = "tower",
        .tower = { .index = tower, .net = fixture->net, .device = own->device, .compute = own->compute,
                   .backend = fixture_backend(),
                   .backend_spec = { .threads = 1, .local_max = fixture->layout.capacity, .seed = 11,
                                     .class_weights = fixture->spec.class_weights },
                   .optimizer = fixture->spec.optimizer, .seed = 11, .microbatch_max = fixture->spec.microbatch_max,
                   .average_decay = fixture->spec.average_decay, .defers = mode->defers,
                   .has_bf16_grads = fixture->spec.has_bf16_grads, .slices = slices_of(&fixture->schedule, tower),
                   .parts = parts_of(&fixture->spec, tower) },
        .sync = { .ops = mode, .schedule = &fixture->schedule, .reduce = fixture->reduces[tower / towers_here(&fixture->spec)],
                  .communication = own->communication, .results = own->results, .bucket_bytes = 64,
                  .learning_rate = fixture->spec.is_frozen ? &frozen : &rate,
                  .every = fixture->spec.every, .keeps_buffers = fixture->spec.keeps_buffers,
                  .max_staleness = fixture->spec.max_staleness, .divides_rate = fixture->spec.divides_rate },
        .gate = fixture->gate, .stop = fixture->stop, .report_depth = 3 + fixture->spec.max_staleness,
        .snapshots = { .count = fixture->spec.saves ? 2 : 0, .each_epoch = true, .last = true },
        .local_max = fixture->layout.capacity,
    };
    struct schedule epoch = fixture->schedule;
    struct local_batch local;
    epoch.epochs = 1;
    for (uint64_t number = 0; schedule_find(&epoch, number, tower, &local) == 0; number++) {
        uint32_t *const counts = local.phase == PHASE_TRAIN ? spec.tower.train_counts : spec.tower.evaluate_counts;
        if (spec.tower.slices.all > 0)
            add_slices(counts, &spec.tower.slices, local.global_count);
        else
            add_microbatches(counts, local.count, spec.tower.microbatch_max);
    }
    return spec;
}

static void freeze(struct net *net, const char *front)
{
    for (uint32_t p = 0; p < net->parameter_count && front != NULL; p++)
        if (strncmp(net->parameters[p].name, front, strlen(front)) == 0)
            net_freeze(net, p);
}

static const struct reduce_ops *reduction_of(const struct fixture_spec *spec)
{
    const struct sync_ops *const mode = mode_of(spec);
    const char *const name = spec->reduction != NULL ? spec->reduction : fixture_reduction;
    if (mode->serves != SERVES_NOBODY)
        return spec->ranks > 0 ? &reduce_server_ranks_ops : &reduce_server_ops;
    if (mode->sum == NULL || spec->schedule.towers == 1)
        return &reduce_none_ops;
    return spec->ranks > 0 ? &reduce_ranks_ops : reduce_find(name);
}

static void open_reductions(struct trainer_fixture *fixture)
{
    const struct fixture_spec *const spec = &fixture->spec;
    const uint32_t here = towers_here(spec);
    if (spec->ranks > 0) {
        fake_mpi_reset(spec->ranks, 2, 1);
        fake_ranks_open(fixture->ranks, spec->ranks, 60);
    }
    for (uint32_t rank = 0; rank < rank_count(spec); rank++) {
        const struct reduce_spec reduce = { .towers = spec->schedule.towers, .here = { rank * here, here },
                                            .in_pairs = spec->schedule.slices > 0, .ranks = fixture->ranks[rank] };
        assert_int_equal(reduction_of(spec)->open(&fixture->reduces[rank], &reduce), 0);
        assert_int_equal(stop_on_failure(fixture->stop, reduce_cancel, fixture->reduces[rank]), 0);
    }
}

void trainer_fixture_open(struct trainer_fixture *fixture, const struct fixture_spec *spec)
{
    const struct schedule *schedule = &spec->schedule;
    *fixture = (struct trainer_fixture){ .spec = *spec, .schedule = *schedule, .net = net_make(spec) };
    freeze(fixture->net, spec->freezes);
    assert_in_range(fixture_floats(fixture), 1, FIXTURE_FLOATS_MAX);
    assert_int_equal(batch_layout_init(&fixture->layout, SIDE, SIDE, 1, schedule_local_max(schedule)), 0);
    assert_int_equal(stop_open(&fixture->stop), 0);
    assert_int_equal(gate_open(&fixture->gate), 0);
    open_reductions(fixture);
    for (uint32_t d = 0; d < schedule->towers; d++)
        tower_open_fixture(fixture, d);
}

void fixture_start(struct trainer_fixture *fixture, uint32_t tower, const struct trainer_spec *spec)
{
    struct fixture_tower *own = &fixture->towers[tower];
    assert_int_equal(trainer_start(&own->trainer, spec), 0);
    assert_int_equal(stop_on_failure(fixture->stop, trainer_cancel, own->trainer), 0);
    assert_int_equal(thread_start(&own->source, "source", source_loop, own), 0);
    trainer_plan(own->trainer);
}

void fixture_start_all(struct trainer_fixture *fixture)
{
    for (uint32_t d = 0; d < fixture->schedule.towers; d++) {
        const struct trainer_spec spec = fixture_trainer(fixture, d);
        fixture_start(fixture, d, &spec);
    }
}

int fixture_ready_all(struct trainer_fixture *fixture)
{
    int result = 0;
    for (uint32_t d = 0; d < fixture->schedule.towers; d++) {
        struct trainer_needs needs;
        const int error = trainer_planned(fixture->towers[d].trainer, &needs);
        result = result ? result : error;
        trainer_allocate(fixture->towers[d].trainer, fixture->towers[d].slots);
    }
    for (uint32_t d = 0; d < fixture->schedule.towers; d++) {
        const int error = trainer_ready(fixture->towers[d].trainer);
        result = result ? result : error;
    }
    return result;
}

void fixture_go_all(struct trainer_fixture *fixture)
{
    for (uint32_t d = 0; d < fixture->schedule.towers; d++)
        trainer_go(fixture->towers[d].trainer);
}

/* The answers of an evaluation; towers that do not compute have none. */
static void check_answers(const struct fixture_tower *own)
{
    const struct step_report *report = own->report;
    const bool computes = tower_spec(trainer_tower(own->trainer))->backend->computes;
    uint32_t correct = 0;
    for (uint32_t i = 0; i < report->local.count; i++) {
        const struct answer answer = report->answers[i];
        assert_int_equal(answer.label, computes ? (int32_t)((report->local.first_position + i) % CLASSES) : -1);
        assert_in_range(answer.predicted, 0, CLASSES - 1);
        correct += answer.predicted == (uint32_t)answer.label;
    }
    assert_int_equal(report->result.correct, correct);
}

static void check_report(struct trainer_fixture *fixture, const struct fixture_tower *own)
{
    const struct step_report *report = own->report;
    const struct step_times *t = &report->times;
    struct local_batch local;
    assert_int_equal(find_span(fixture, fixture->batches, own->tower, &local), 0);
    assert_int_equal(report->local.number, local.number);
    assert_int_equal(report->local.step, local.step);
    assert_int_equal(report->local.first_position, local.first_position);
    assert_int_equal(report->local.count, local.count);
    assert_int_equal(report->result.counted, local.count);
    for (uint32_t i = 0; i < local.count; i++)
        assert_int_equal(report->ids[i], local.first_position + i);
    assert_true(t->total > 0);
    assert_true(t->other <= t->total);
    assert_int_equal(t->input_wait + t->exposed_copy + t->forward + t->backward + t->exposed_reduction +
                     t->exposed_exchange + t->update + t->other, t->total);
    if (local.phase == PHASE_EVALUATE)
        check_answers(own);
}

static void give_back_all(struct trainer_fixture *fixture)
{
    for (uint32_t d = 0; d < fixture->schedule.towers; d++)
        if (fixture->towers[d].report != NULL)
            trainer_give_back(fixture->towers[d].trainer, fixture->towers[d].report);
}

/* All are asked: the first tower's end is not yet the others'. */
int fixture_next_batch(struct trainer_fixture *fixture)
{
    int rc = 0;
    for (uint32_t d = 0; d < fixture->schedule.towers; d++) {
        fixture->towers[d].report = NULL;
        const int reported = trainer_report(fixture->towers[d].trainer, &fixture->towers[d].report);
        if (rc == 0)
            rc = reported;
    }
    if (rc != 0) {
        give_back_all(fixture);
        return rc;
    }
    for (uint32_t d = 0; d < fixture->schedule.towers; d++) {
        struct fixture_tower *own = &fixture->towers[d];
        check_report(fixture, own);
        fixture->images += own->report->local.count;
        if (own->report->local.phase == PHASE_TRAIN)
            own->stalest = own->report->staleness > own->stalest ? own->report->staleness : own->stalest;
        fixture->loss_sum += own->report->local.phase == PHASE_TRAIN ? own->report->result.loss_sum : 0;
    }
    give_back_all(fixture);
    fixture->batches++;
    return 0;
}

size_t fixture_floats(const struct trainer_fixture *fixture)
{
    return fixture->net->trainable_count + fixture->net->statistic_count;
}

void fixture_read_weights(struct trainer_fixture *fixture, uint32_t tower, float *weights)
{
    for (uint32_t i = 0; i < fixture->net->parameter_count; i++) {
        assert_int_equal(tower_read(trainer_tower(fixture->towers[tower].trainer), i, weights), 0);
        weights += fixture->net->parameters[i].count;
    }
}

size_t fixture_read_last(struct trainer_fixture *fixture, uint32_t tower, float *floats)
{
    struct trainer *const trainer = fixture->towers[tower].trainer;
    struct snapshot *const snapshot = trainer_last(trainer);
    const uint32_t states = tower_state_count(tower_spec(trainer_tower(trainer)));
    size_t count = 0;
    assert_non_null(snapshot);
    for (uint32_t i = 0; i < fixture->net->parameter_count; i++) {
        assert_int_equal(snapshot_value(snapshot, i, floats + count), 0);
        count += fixture->net->parameters[i].count;
        for (uint32_t state = 0; state < states && parameter_is_updated(&fixture->net->parameters[i]); state++) {
            assert_int_equal(snapshot_state(snapshot, state, i, floats + count), 0);
            count += fixture->net->parameters[i].count;
        }
    }
    trainer_return(trainer, snapshot);
    return count;
}

void fixture_begin(struct trainer_fixture *fixture)
{
    fixture_start_all(fixture);
    assert_int_equal(fixture_ready_all(fixture), 0);
    fixture_go_all(fixture);
}

void fixture_drain(struct trainer_fixture *fixture)
{
    while (fixture_next_batch(fixture) == 0)
        ;
    assert_false(stop_failed(fixture->stop));
}

void fixture_run(struct trainer_fixture *fixture)
{
    fixture_begin(fixture);
    fixture_drain(fixture);
}

void trainer_fixture_close(struct trainer_fixture *fixture)
{
    const struct device_ops *ops = test_device_ops();
    const uint32_t towers = fixture->schedule.towers;
    for (uint32_t d = 0; d < towers; d++)
        slots_end(fixture->towers[d].slots);
    for (uint32_t d = 0; d < towers; d++)
        thread_join(fixture->towers[d].source);
    for (uint32_t d = 0; d < towers; d++)
        trainer_settle(fixture->towers[d].trainer);
    for (uint32_t d = 0; d < towers; d++) {
        ops->stream_close(fixture->towers[d].communication);
        ops->stream_close(fixture->towers[d].results);
    }
    for (uint32_t d = 0; d < towers; d++)
        trainer_join(fixture->towers[d].trainer);
    stop_forget(fixture->stop);
    for (uint32_t rank = 0; rank < rank_count(&fixture->spec); rank++)
        fixture->reduces[rank]->ops->close(fixture->reduces[rank]);
    fake_ranks_close(fixture->ranks, fixture->spec.ranks);
    for (uint32_t d = 0; d < towers; d++) {
        struct fixture_tower *own = &fixture->towers[d];
        ops->stream_close(own->copy);
        slots_close(own->slots);
        ops->stream_close(own->compute);
        ops->free_pinned(own->device, own->block);
    }
    for (uint32_t d = 0; d < towers; d++)
        ops->close(fixture->towers[d].device);
    gate_close(fixture->gate);
    stop_close(fixture->stop);
    net_close(fixture->net);
}

void trainer_fixture_read(struct trainer_fixture *fixture, struct fixture_result *result)
{
    memset(result, 0, sizeof(*result));
    result->count = fixture_floats(fixture);
    for (uint32_t d = 0; d < fixture->schedule.towers; d++) {
        fixture_read_weights(fixture, d, result->weights[d]);
        result->stalest[d] = fixture->towers[d].stalest;
        result->saved_count = fixture->spec.saves ? fixture_read_last(fixture, d, result->saved[d]) : 0;
    }
}

void fixture_result_of(struct fixture_result *result, const struct fixture_spec *spec)
{
    static struct trainer_fixture fixture;
    trainer_fixture_open(&fixture, spec);
    fixture_run(&fixture);
    assert_int_equal(fixture.batches, schedule_batch_count(&spec->schedule));
    trainer_fixture_read(&fixture, result);
    trainer_fixture_close(&fixture);
}

void assert_one_model(const struct fixture_result *result, uint32_t towers)
{
    for (uint32_t d = 1; d < towers; d++) {
        assert_memory_equal(result->weights[d], result->weights[0], result->count * sizeof(float));
        assert_memory_equal(result->saved[d], result->saved[0], result->saved_count * sizeof(float));
    }
}

void assert_near(const float *a, const float *b, size_t count, float tolerance)
{
    for (size_t i = 0; i < count; i++)
        if (!(fabsf(a[i] - b[i]) <= tolerance * (1 + fabsf(b[i]))))
            fail_msg("float %zu is %.9g, not %.9g", i, (double)a[i], (double)b[i]);
}

const char *fixture_reduction = "host";
uint32_t fixture_towers_max = FIXTURE_TOWERS_MAX;

int fixture_run_tests(int (*run)(void), unsigned seconds, bool with_nccl)
{
    const uint32_t *counts;
    char why[256];
    alarm(seconds);
    const size_t last = fixture_tower_counts(&counts) - 1;
    fixture_towers_max = counts[last];
    int failed = run();
    if (test_device_ops()->host_memory)
        return failed;
    fixture_reduction = "peer";
    failed += run();
    const uint32_t devices = test_device_ops()->count(why, sizeof(why));
    fixture_reduction = "nccl";
    fixture_towers_max = devices < fixture_towers_max ? devices : fixture_towers_max;
    return with_nccl && devices > 1 ? failed + run() : failed;
}

struct schedule fixture_uneven(uint32_t towers)
{
    return (struct schedule){ .records = { 53, 17 }, .batch = 12, .towers = towers, .epochs = 2 };
}

struct schedule fixture_sparse(uint32_t towers)
{
    return (struct schedule){ .records = { 14, 3 }, .batch = 4, .towers = towers, .epochs = 3 };
}
