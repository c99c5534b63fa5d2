/* Trainers for tests. See trainer_rig.h. */
#include "tests/helpers/trainer_rig.h"

#include <string.h>
#include <unistd.h>

#include "stage/random.h"
#include "sync/reduce_server.h"
#include "tests/helpers/test.h"
#include "tests/helpers/test_device_kind.h"
#include "tests/helpers/test_long.h"

enum { SIDE = 6, CLASSES = 4, DEPTH = 2 };

static struct net *net_make(bool normalizes)
{
    static const struct batch_norm how = { .decay = 0.5, .epsilon = 0.01f, .with_gamma = true };
    struct net *net;
    assert_int_equal(net_open(&net, "tiny", (struct shape){ 1, SIDE, SIDE }, CLASSES), 0);
    uint32_t last = (uint32_t)net_conv2d(net, "conv", NET_INPUT, 3, window_square(3, 1, PADDING_VALID), !normalizes);
    if (normalizes)
        last = (uint32_t)net_batch_norm(net, "norm", last, how);
    last = (uint32_t)net_relu(net, "relu", last);
    last = (uint32_t)net_max_pool(net, "pool", last, window_square(2, 2, PADDING_VALID));
    last = (uint32_t)net_dropout(net, "drop", last, 0.25f);
    last = (uint32_t)net_dense(net, "fc", last, CLASSES, true);
    net_softmax_loss(net, "loss", last);
    assert_int_equal(net_finish(net), 0);
    return net;
}

static uint8_t pixel_at(const struct batch_slice *slice, uint32_t sample, size_t i)
{
    const uint64_t position = slice->first_position + sample + slice->epoch * 1000u;
    return (uint8_t)random_u64(random_key(position, RANDOM_DRAW, slice->phase), i);
}

static void block_fill(const struct lane *lane, const struct batch_slice *slice)
{
    const struct batch_layout *layout = &lane->rig->layout;
    int32_t *labels = (int32_t *)(void *)(lane->block + layout->labels_offset);
    for (uint32_t s = 0; s < slice->count; s++) {
        for (size_t i = 0; i < layout->sample_bytes; i++)
            lane->block[s * layout->sample_bytes + i] = pixel_at(slice, s, i);
        labels[s] = (int32_t)((slice->first_position + s) % CLASSES);
    }
}

/* What a tower computes of a batch. */
static int find_span(const struct rig *rig, uint64_t number, uint32_t tower, struct batch_slice *slice_out)
{
    const bool is_same = rig->spec.has_same_slices;
    const int rc = schedule_find(&rig->schedule, number, is_same ? 0 : tower, slice_out);
    if (rc == 0 && is_same)
        slice_out->first_position /= rig->schedule.towers;
    return rc;
}

/* What a feeder does, with pixels of the test. */
static int feed(struct lane *lane, uint64_t number)
{
    const struct device_ops *ops = lane->device->ops;
    struct batch_slice slice;
    struct slot *slot;
    int rc = find_span(lane->rig, number, lane->tower, &slice);
    if (!rc)
        rc = slots_empty(lane->slots, &slot);
    if (rc)
        return rc;
    slot->slice = slice;
    for (uint32_t i = 0; i < slice.count; i++)
        slot->ids[i] = slice.first_position + i;
    block_fill(lane, &slice);
    if (slice.count > 0) {
        stream_wait(lane->copy, slot->free);
        ops->copy(lane->copy, slot->block, lane->block, lane->rig->layout.block_bytes, COPY_TO_DEVICE);
        stream_record(lane->copy, slot->ready);
    }
    slots_publish(lane->slots, slot);
    return slice.count > 0 ? ops->event_wait(slot->ready) : 0;
}

/* Until the other towers have begun to wait: each has computed a batch for every step it may be ahead and the one they
 * are all at, and has its slots full behind them. */
static void await_others(const struct rig *rig)
{
    const uint64_t enough = rig->spec.max_staleness + 1 + DEPTH;
    for (uint32_t d = 0; d + 1 < rig->schedule.towers; d++)
        while (atomic_load(&rig->lanes[d].fed) < enough && !stop_failed(rig->stop))
            usleep(100);
}

static void source_loop(void *arg)
{
    struct lane *lane = arg;
    if (lane->rig->spec.is_late && lane->tower + 1 == lane->rig->schedule.towers)
        await_others(lane->rig);
    for (uint64_t number = 0; feed(lane, number) == 0; number++)
        atomic_store(&lane->fed, number + 1);
    slots_finish(lane->slots);
}

/* Towers go round the devices. */
static uint32_t device_index(uint32_t tower)
{
    char why[256];
    return tower % test_device_ops()->count(why, sizeof(why));
}

static const struct backend_ops *backend_of_device(void)
{
    return backend_find(test_device_ops()->host_memory ? "reference" : "cuda");
}

static void lane_open(struct rig *rig, uint32_t tower)
{
    const struct device_ops *ops = test_device_ops();
    struct lane *lane = &rig->lanes[tower];
    const struct device_spec spec = { .index = device_index(tower), .name = "device" };
    lane->rig = rig;
    lane->tower = tower;
    assert_int_equal(ops->open(&lane->device, &spec), 0);
    assert_int_equal(ops->stream_open(lane->device, STREAM_COMPUTE, "compute", &lane->compute), 0);
    assert_int_equal(ops->stream_open(lane->device, STREAM_COMMUNICATION, "reduce", &lane->communication), 0);
    assert_int_equal(ops->stream_open(lane->device, STREAM_COPY, "copy", &lane->copy), 0);
    assert_int_equal(slots_open(&lane->slots, lane->device, DEPTH, &rig->layout), 0);
    void *block;
    assert_int_equal(ops->alloc_pinned(lane->device, rig->layout.block_bytes, &block), 0);
    lane->block = block;
    assert_int_equal(stop_on_failure(rig->stop, slots_cancel, lane->slots), 0);
    assert_int_equal(stop_on_failure(rig->stop, device_cancel, lane->device), 0);
}

/* Remember a size the tower will meet. */
static void add_count(uint32_t counts[TOWER_COUNTS], uint32_t count)
{
    uint32_t i = 0;
    while (counts[i] != 0 && counts[i] != count)
        assert_in_range(++i, 0, TOWER_COUNTS - 1);
    counts[i] = count;
}

static void add_pieces(uint32_t counts[TOWER_COUNTS], uint32_t count, uint32_t piece_max)
{
    for (; piece_max > 0 && count > piece_max; count -= piece_max)
        add_count(counts, piece_max);
    if (count > 0)
        add_count(counts, count);
}

bool rig_is_thorough(void)
{
    return test_device_ops()->host_memory || test_is_long();
}

size_t rig_tower_counts(const uint32_t **counts_out)
{
    static const uint32_t counts[] = { 1, 2, 3, 5, RIG_TOWERS_MAX };
    const size_t count = sizeof(counts) / sizeof(counts[0]);
    *counts_out = counts;
    return test_device_ops()->host_memory ? count : count - 1;
}

struct trainer_spec rig_trainer(struct rig *rig, uint32_t tower)
{
    const struct sync_ops *const mode = sync_choose(rig->spec.mode, rig->schedule.towers, rig->spec.max_staleness);
    static const struct learning_rate rate = { .base = 0.05 }, frozen = { .base = 0 };
    struct lane *lane = &rig->lanes[tower];
    struct trainer_spec spec = {
        .name = "tower",
        .tower = { .index = tower, .net = rig->net, .device = lane->device, .compute = lane->compute,
                   .backend = backend_of_device(),
                   .backend_spec = { .threads = 1, .slice_max = rig->layout.capacity, .seed = 11 },
                   .optimizer = rig->spec.optimizer, .seed = 11, .piece_max = rig->spec.piece_max,
                   .average_decay = rig->spec.average_decay, .defers = mode->defers,
                   .has_bf16_grads = rig->spec.has_bf16_grads },
        .sync = { .ops = mode, .schedule = &rig->schedule, .reduce = rig->reduce,
                  .communication = lane->communication, .bucket_bytes = 64,
                  .learning_rate = rig->spec.is_frozen ? &frozen : &rate,
                  .every = rig->spec.every, .keeps_buffers = rig->spec.keeps_buffers,
                  .max_staleness = rig->spec.max_staleness },
        .gate = rig->gate, .stop = rig->stop, .report_depth = 3 + rig->spec.max_staleness,
        .snapshots = { .count = rig->spec.saves ? 2 : 0, .each_epoch = true, .last = true },
        .slice_max = rig->layout.capacity,
    };
    struct schedule epoch = rig->schedule;
    struct batch_slice slice;
    epoch.epochs = 1;
    for (uint64_t number = 0; schedule_find(&epoch, number, tower, &slice) == 0; number++)
        add_pieces(slice.phase == PHASE_TRAIN ? spec.tower.train_counts : spec.tower.evaluate_counts, slice.count,
                   spec.tower.piece_max);
    return spec;
}

static void freeze(struct net *net, const char *front)
{
    for (uint32_t p = 0; p < net->parameter_count && front != NULL; p++)
        if (strncmp(net->parameters[p].name, front, strlen(front)) == 0)
            net_freeze(net, p);
}

void rig_open(struct rig *rig, const struct rig_spec *spec)
{
    const struct schedule *schedule = &spec->schedule;
    *rig = (struct rig){ .spec = *spec, .schedule = *schedule, .net = net_make(spec->normalizes) };
    freeze(rig->net, spec->freezes);
    assert_in_range(rig_floats(rig), 1, RIG_FLOATS_MAX);
    assert_int_equal(batch_layout_init(&rig->layout, SIDE, SIDE, 1, schedule_slice_max(schedule)), 0);
    assert_int_equal(stop_open(&rig->stop), 0);
    assert_int_equal(gate_open(&rig->gate), 0);
    const struct sync_ops *mode = sync_choose(spec->mode, schedule->towers, spec->max_staleness);
    const bool together = mode->sum != NULL && schedule->towers > 1, is_served = mode->serves != SERVES_NOBODY;
    const struct reduce_ops *ops = is_served ? &reduce_server_ops : reduce_find(together ? spec->reduction : "none");
    const struct reduce_spec reduce = { .towers = schedule->towers };
    assert_int_equal(ops->open(&rig->reduce, &reduce), 0);
    assert_int_equal(stop_on_failure(rig->stop, reduce_cancel, rig->reduce), 0);
    for (uint32_t d = 0; d < schedule->towers; d++)
        lane_open(rig, d);
}

void rig_start(struct rig *rig, uint32_t tower, const struct trainer_spec *spec)
{
    struct lane *lane = &rig->lanes[tower];
    assert_int_equal(trainer_start(&lane->trainer, spec), 0);
    assert_int_equal(stop_on_failure(rig->stop, trainer_cancel, lane->trainer), 0);
    assert_int_equal(thread_start(&lane->source, "source", source_loop, lane), 0);
    trainer_plan(lane->trainer);
}

void rig_start_all(struct rig *rig)
{
    for (uint32_t d = 0; d < rig->schedule.towers; d++) {
        const struct trainer_spec spec = rig_trainer(rig, d);
        rig_start(rig, d, &spec);
    }
}

int rig_ready_all(struct rig *rig)
{
    int result = 0;
    for (uint32_t d = 0; d < rig->schedule.towers; d++) {
        struct trainer_needs needs;
        const int error = trainer_planned(rig->lanes[d].trainer, &needs);
        result = result ? result : error;
        trainer_allocate(rig->lanes[d].trainer, rig->lanes[d].slots);
    }
    for (uint32_t d = 0; d < rig->schedule.towers; d++) {
        const int error = trainer_ready(rig->lanes[d].trainer);
        result = result ? result : error;
    }
    return result;
}

void rig_go_all(struct rig *rig)
{
    for (uint32_t d = 0; d < rig->schedule.towers; d++)
        trainer_go(rig->lanes[d].trainer);
}

static void check_report(struct rig *rig, const struct lane *lane)
{
    const struct step_report *report = lane->report;
    const struct step_times *t = &report->times;
    struct batch_slice slice;
    assert_int_equal(find_span(rig, rig->batches, lane->tower, &slice), 0);
    assert_int_equal(report->slice.number, slice.number);
    assert_int_equal(report->slice.step, slice.step);
    assert_int_equal(report->slice.first_position, slice.first_position);
    assert_int_equal(report->slice.count, slice.count);
    assert_int_equal(report->result.counted, slice.count);
    for (uint32_t i = 0; i < slice.count; i++)
        assert_int_equal(report->ids[i], slice.first_position + i);
    assert_true(t->total > 0);
    assert_true(t->other <= t->total);
    assert_int_equal(t->input_wait + t->exposed_copy + t->forward + t->backward + t->exposed_reduction + t->update +
                     t->other, t->total);
}

static void give_back_all(struct rig *rig)
{
    for (uint32_t d = 0; d < rig->schedule.towers; d++)
        if (rig->lanes[d].report != NULL)
            trainer_give_back(rig->lanes[d].trainer, rig->lanes[d].report);
}

/* All are asked: the first tower's end is not yet the others'. */
int rig_next_batch(struct rig *rig)
{
    int rc = 0;
    for (uint32_t d = 0; d < rig->schedule.towers; d++) {
        rig->lanes[d].report = NULL;
        const int reported = trainer_report(rig->lanes[d].trainer, &rig->lanes[d].report);
        if (rc == 0)
            rc = reported;
    }
    if (rc != 0) {
        give_back_all(rig);
        return rc;
    }
    for (uint32_t d = 0; d < rig->schedule.towers; d++) {
        struct lane *lane = &rig->lanes[d];
        check_report(rig, lane);
        rig->images += lane->report->slice.count;
        if (lane->report->slice.phase == PHASE_TRAIN)
            lane->stalest = lane->report->staleness > lane->stalest ? lane->report->staleness : lane->stalest;
        rig->loss_sum += lane->report->slice.phase == PHASE_TRAIN ? lane->report->result.loss_sum : 0;
    }
    give_back_all(rig);
    rig->batches++;
    return 0;
}

size_t rig_floats(const struct rig *rig)
{
    return rig->net->trainable_count + rig->net->statistic_count;
}

void rig_read_weights(struct rig *rig, uint32_t tower, float *weights)
{
    for (uint32_t i = 0; i < rig->net->parameter_count; i++) {
        assert_int_equal(tower_read(trainer_tower(rig->lanes[tower].trainer), i, weights), 0);
        weights += rig->net->parameters[i].count;
    }
}

size_t rig_read_last(struct rig *rig, uint32_t tower, float *floats)
{
    struct trainer *const trainer = rig->lanes[tower].trainer;
    struct snapshot *const snapshot = trainer_last(trainer);
    const uint32_t states = tower_state_count(tower_spec(trainer_tower(trainer)));
    size_t count = 0;
    assert_non_null(snapshot);
    for (uint32_t i = 0; i < rig->net->parameter_count; i++) {
        assert_int_equal(snapshot_value(snapshot, i, floats + count), 0);
        count += rig->net->parameters[i].count;
        for (uint32_t state = 0; state < states && parameter_is_updated(&rig->net->parameters[i]); state++) {
            assert_int_equal(snapshot_state(snapshot, state, i, floats + count), 0);
            count += rig->net->parameters[i].count;
        }
    }
    trainer_return(trainer, snapshot);
    return count;
}

void rig_run(struct rig *rig)
{
    rig_start_all(rig);
    assert_int_equal(rig_ready_all(rig), 0);
    rig_go_all(rig);
    while (rig_next_batch(rig) == 0)
        ;
    assert_false(stop_failed(rig->stop));
}

void rig_close(struct rig *rig)
{
    const struct device_ops *ops = test_device_ops();
    const uint32_t towers = rig->schedule.towers;
    for (uint32_t d = 0; d < towers; d++)
        slots_end(rig->lanes[d].slots);
    for (uint32_t d = 0; d < towers; d++)
        thread_join(rig->lanes[d].source);
    for (uint32_t d = 0; d < towers; d++)
        trainer_settle(rig->lanes[d].trainer);
    for (uint32_t d = 0; d < towers; d++)
        ops->stream_close(rig->lanes[d].communication);
    for (uint32_t d = 0; d < towers; d++)
        trainer_join(rig->lanes[d].trainer);
    stop_forget(rig->stop);
    rig->reduce->ops->close(rig->reduce);
    for (uint32_t d = 0; d < towers; d++) {
        struct lane *lane = &rig->lanes[d];
        ops->stream_close(lane->copy);
        slots_close(lane->slots);
        ops->stream_close(lane->compute);
        ops->free_pinned(lane->device, lane->block);
    }
    for (uint32_t d = 0; d < towers; d++)
        ops->close(rig->lanes[d].device);
    gate_close(rig->gate);
    stop_close(rig->stop);
    net_close(rig->net);
}
