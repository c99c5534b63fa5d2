/* Tests of the life of a step: towers in step give what one tower gives, end together, and
 * say where their time went. A tiny net on the reference backend or on CUDA, fed by threads of
 * the test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/helpers/capture.h"
#include "stage/random.h"
#include "stage/thread.h"
#include "sync/trainer.h"
#include "tests/helpers/test_device_kind.h"

enum { TOWERS_MAX = 5, SIDE = 6, CLASSES = 4, PARAMETERS_MAX = 8, DEPTH = 2 };

/* How towers that train together sum their gradients. */
static const char *reduction = "host";

struct rig;

struct lane {
    struct rig *rig;
    uint32_t tower;
    struct device *device;
    struct stream *compute, *communication, *copy;
    struct slots *slots;
    struct thread *source;
    uint8_t *block;
    struct trainer *trainer;
    struct step_report *report;
};

struct rig {
    struct schedule schedule;
    struct batch_layout layout;
    struct net *net;
    struct stop *stop;
    struct gate *gate;
    struct reduce *reduce;
    struct lane lanes[TOWERS_MAX];
    double loss_sum;            /* over all training reports */
    uint64_t batches, images;
};

static struct net *net_make(void)
{
    struct net *net;
    assert_int_equal(net_open(&net, "tiny", (struct shape){ 1, SIDE, SIDE }, CLASSES), 0);
    net_conv2d(net, "conv", NET_INPUT, 3, 3, 1, PADDING_VALID);
    net_relu(net, "relu", 0);
    net_max_pool(net, "pool", 1, 2, 2, PADDING_VALID);
    net_dropout(net, "drop", 2, 0.25f);
    net_dense(net, "fc", 3, CLASSES);
    net_softmax_loss(net, "loss", 4);
    assert_int_equal(net_finish(net), 0);
    return net;
}

static uint8_t pixel_at(const struct span *span, uint32_t sample, size_t i)
{
    const uint64_t position = span->first_position + sample + span->epoch * 1000u;
    return (uint8_t)random_u64(random_key(position, RANDOM_DRAW, span->pass), i);
}

static void block_fill(const struct lane *lane, const struct span *span)
{
    const struct batch_layout *layout = &lane->rig->layout;
    int32_t *labels = (int32_t *)(void *)(lane->block + layout->labels_offset);
    for (uint32_t s = 0; s < span->count; s++) {
        for (size_t i = 0; i < layout->sample_bytes; i++)
            lane->block[s * layout->sample_bytes + i] = pixel_at(span, s, i);
        labels[s] = (int32_t)((span->first_position + s) % CLASSES);
    }
}

/* What a feeder does, with pixels of the test. */
static int feed(struct lane *lane, uint64_t number)
{
    const struct device_ops *ops = lane->device->ops;
    struct span span;
    struct slot *slot;
    int error = schedule_find(&lane->rig->schedule, number, lane->tower, &span);
    if (!error)
        error = slots_empty(lane->slots, &slot);
    if (error)
        return error;
    slot->span = span;
    for (uint32_t i = 0; i < span.count; i++)
        slot->ids[i] = span.first_position + i;
    block_fill(lane, &span);
    if (span.count > 0) {
        stream_wait(lane->copy, slot->free);
        ops->copy(lane->copy, slot->block, lane->block, lane->rig->layout.block_bytes, COPY_TO_DEVICE);
        stream_record(lane->copy, slot->ready);
    }
    slots_publish(lane->slots, slot);
    return span.count > 0 ? ops->event_wait(slot->ready) : 0;
}

static void source_loop(void *arg)
{
    struct lane *lane = arg;
    for (uint64_t number = 0; feed(lane, number) == 0; number++)
        ;
    slots_finish(lane->slots);
}

/* Towers go round the devices. */
static uint32_t device_index(uint32_t tower)
{
    char why[256];
    return tower % test_device_ops()->count(why, sizeof why);
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

/* Remember a slice size the tower will meet. */
static void add_count(uint32_t counts[2], uint32_t count)
{
    if (counts[0] == 0 || counts[0] == count)
        counts[0] = count;
    else
        counts[1] = count;
}

static struct trainer_spec spec_make(struct rig *rig, uint32_t tower, enum sync_mode mode)
{
    static const struct learning_rate rate = { .constant = 0.05 };
    struct lane *lane = &rig->lanes[tower];
    struct trainer_spec spec = {
        .name = "tower",
        .tower = { .index = tower, .net = rig->net, .device = lane->device, .compute = lane->compute,
                   .backend = backend_of_device(),
                   .backend_spec = { .threads = 1, .slice_max = rig->layout.capacity, .seed = 11 },
                   .optimizer = { .kind = OPTIMIZER_MOMENTUM, .momentum = 0.9f }, .seed = 11 },
        .sync = { .ops = sync_table[mode], .schedule = &rig->schedule, .reduce = rig->reduce,
                  .communication = lane->communication, .learning_rate = &rate, .bucket_bytes = 64 },
        .slots = lane->slots, .gate = rig->gate, .stop = rig->stop, .report_depth = 3,
        .slice_max = rig->layout.capacity,
    };
    struct schedule epoch = rig->schedule;
    struct span span;
    epoch.epochs = 1;
    for (uint64_t number = 0; schedule_find(&epoch, number, tower, &span) == 0; number++)
        add_count(span.pass == PASS_TRAIN ? spec.tower.train_counts : spec.tower.evaluate_counts, span.count);
    return spec;
}

static void rig_open(struct rig *rig, const struct schedule *schedule, enum sync_mode mode)
{
    *rig = (struct rig){ .schedule = *schedule, .net = net_make() };
    assert_int_equal(batch_layout_init(&rig->layout, SIDE, SIDE, 1, schedule_slice_max(schedule)), 0);
    assert_int_equal(stop_open(&rig->stop), 0);
    assert_int_equal(gate_open(&rig->gate), 0);
    const bool together = mode == SYNC_REPLICATED && schedule->towers > 1;
    const struct reduce_ops *ops = reduce_find(together ? reduction : "none");
    const struct reduce_spec spec = { .towers = schedule->towers, .deadline_ms = 20000 };
    assert_int_equal(ops->open(&rig->reduce, &spec), 0);
    assert_int_equal(stop_on_failure(rig->stop, reduce_cancel, rig->reduce), 0);
    for (uint32_t d = 0; d < schedule->towers; d++)
        lane_open(rig, d);
}

static void start(struct rig *rig, uint32_t tower, const struct trainer_spec *spec)
{
    struct lane *lane = &rig->lanes[tower];
    assert_int_equal(trainer_start(&lane->trainer, spec), 0);
    assert_int_equal(stop_on_failure(rig->stop, trainer_cancel, lane->trainer), 0);
    assert_int_equal(thread_start(&lane->source, "source", source_loop, lane), 0);
}

/* All towers as they should be. */
static void start_all(struct rig *rig, enum sync_mode mode)
{
    for (uint32_t d = 0; d < rig->schedule.towers; d++) {
        const struct trainer_spec spec = spec_make(rig, d, mode);
        start(rig, d, &spec);
    }
}

static int ready_all(struct rig *rig)
{
    int result = 0;
    for (uint32_t d = 0; d < rig->schedule.towers; d++) {
        const int error = trainer_ready(rig->lanes[d].trainer);
        result = result ? result : error;
    }
    return result;
}

static void go_all(struct rig *rig)
{
    for (uint32_t d = 0; d < rig->schedule.towers; d++)
        trainer_go(rig->lanes[d].trainer);
}

static void check_report(struct rig *rig, const struct lane *lane)
{
    const struct step_report *report = lane->report;
    const struct step_times *t = &report->times;
    struct span span;
    assert_int_equal(schedule_find(&rig->schedule, rig->batches, lane->tower, &span), 0);
    assert_int_equal(report->span.number, span.number);
    assert_int_equal(report->span.step, span.step);
    assert_int_equal(report->span.first_position, span.first_position);
    assert_int_equal(report->span.count, span.count);
    assert_int_equal(report->result.counted, span.count);
    for (uint32_t i = 0; i < span.count; i++)
        assert_int_equal(report->ids[i], span.first_position + i);
    assert_true(t->total > 0);
    assert_true(t->other <= t->total);
    assert_int_equal(t->input_wait + t->exposed_copy + t->forward + t->backward + t->exposed_reduction + t->update +
                     t->other, t->total);
}

/* The reports of the next global batch, 0, or how it ended. */
static int next_batch(struct rig *rig)
{
    int error = 0;
    for (uint32_t d = 0; d < rig->schedule.towers && !error; d++)
        error = trainer_report(rig->lanes[d].trainer, &rig->lanes[d].report);
    if (error)
        return error;
    for (uint32_t d = 0; d < rig->schedule.towers; d++) {
        struct lane *lane = &rig->lanes[d];
        check_report(rig, lane);
        rig->images += lane->report->span.count;
        rig->loss_sum += lane->report->span.pass == PASS_TRAIN ? lane->report->result.loss_sum : 0;
        trainer_give_back(lane->trainer, lane->report);
    }
    rig->batches++;
    return 0;
}

static void read_weights(struct rig *rig, uint32_t tower, float *weights)
{
    for (uint32_t i = 0; i < rig->net->parameter_count; i++) {
        assert_int_equal(tower_read(trainer_tower(rig->lanes[tower].trainer), i, weights), 0);
        weights += rig->net->parameters[i].count;
    }
}

/* The order of pipeline_close. */
static void rig_close(struct rig *rig)
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

static struct schedule schedule_of(uint32_t towers)
{
    return (struct schedule){ .records = { 53, 17 }, .batch = 12, .towers = towers, .epochs = 3 };
}

static void any_number_of_towers_learns_what_one_learns(void **state)
{
    (void)state;
    static float expected[4096], weights[4096], first[4096];
    double expected_loss = 0;
    static const uint32_t counts[] = { 1, 2, 3, 5 };
    for (size_t n = 0; n < sizeof counts / sizeof counts[0]; n++) {
        static struct rig rig;
        const struct schedule schedule = schedule_of(counts[n]);
        rig_open(&rig, &schedule, SYNC_REPLICATED);
        start_all(&rig, SYNC_REPLICATED);
        assert_int_equal(ready_all(&rig), 0);
        go_all(&rig);
        while (next_batch(&rig) == 0)
            ;
        assert_false(stop_failed(rig.stop));
        assert_int_equal(rig.batches, schedule_batch_count(&schedule));
        assert_int_equal(rig.images, 3 * (53 + 17));
        const size_t total = rig.net->trainable_count;
        assert_in_range(total, 1, 4096);
        read_weights(&rig, 0, first);
        for (uint32_t d = 1; d < counts[n]; d++) {
            read_weights(&rig, d, weights);
            assert_memory_equal(weights, first, total * sizeof(float));
        }
        if (n == 0) {
            memcpy(expected, first, sizeof expected);
            expected_loss = rig.loss_sum;
        }
        for (size_t i = 0; i < total; i++)
            assert_true(fabsf(first[i] - expected[i]) < 1e-5f * (1 + fabsf(expected[i])));
        assert_true(fabs(rig.loss_sum - expected_loss) < 1e-5 * expected_loss);
        rig_close(&rig);
    }
}

static void independent_towers_learn_from_their_own_slices(void **state)
{
    (void)state;
    static float first[4096], second[4096];
    static struct rig rig;
    const struct schedule schedule = schedule_of(2);
    rig_open(&rig, &schedule, SYNC_INDEPENDENT);
    start_all(&rig, SYNC_INDEPENDENT);
    assert_int_equal(ready_all(&rig), 0);
    read_weights(&rig, 0, first);
    read_weights(&rig, 1, second);
    assert_memory_equal(first, second, rig.net->trainable_count * sizeof(float));
    go_all(&rig);
    while (next_batch(&rig) == 0)
        ;
    read_weights(&rig, 0, first);
    read_weights(&rig, 1, second);
    assert_memory_not_equal(first, second, rig.net->trainable_count * sizeof(float));
    rig_close(&rig);
}

static void towers_without_samples_take_part(void **state)
{
    (void)state;
    static float first[4096], last[4096];
    static struct rig rig;
    const struct schedule schedule = { .records = { 7, 2 }, .batch = 5, .towers = 5, .epochs = 4 };
    rig_open(&rig, &schedule, SYNC_REPLICATED);
    start_all(&rig, SYNC_REPLICATED);
    assert_int_equal(ready_all(&rig), 0);
    go_all(&rig);
    while (next_batch(&rig) == 0)
        ;
    assert_false(stop_failed(rig.stop));
    assert_int_equal(rig.images, 4 * (7 + 2));
    read_weights(&rig, 0, first);
    read_weights(&rig, 4, last);
    assert_memory_equal(first, last, rig.net->trainable_count * sizeof(float));
    rig_close(&rig);
}

static void a_request_ends_all_towers_at_the_same_batch(void **state)
{
    (void)state;
    for (uint64_t when = 0; when < 9; when++) {
        static struct rig rig;
        struct schedule schedule = schedule_of(3);
        schedule.epochs = 1000000;
        rig_open(&rig, &schedule, when % 2 ? SYNC_INDEPENDENT : SYNC_REPLICATED);
        start_all(&rig, when % 2 ? SYNC_INDEPENDENT : SYNC_REPLICATED);
        assert_int_equal(ready_all(&rig), 0);
        if (when == 0)
            gate_request(rig.gate);
        go_all(&rig);
        int result;
        while ((result = next_batch(&rig)) == 0)
            if (rig.batches == when)
                gate_request(rig.gate);
        assert_int_equal(result, -ENODATA);
        for (uint32_t d = 0; d < 3; d++)        /* nobody went further */
            assert_int_equal(trainer_report(rig.lanes[d].trainer, &rig.lanes[d].report), -ENODATA);
        assert_in_range(rig.batches, when, when + 20);
        assert_false(stop_failed(rig.stop));
        rig_close(&rig);
    }
}

static int open_nothing(struct backend **backend_out, const struct backend_spec *spec)
{
    (void)backend_out, (void)spec;
    return -ENODEV;
}

static void a_tower_that_cannot_be_set_up_ends_the_others(void **state)
{
    (void)state;
    for (uint32_t bad = 0; bad < 3; bad++) {
        static struct rig rig;
        struct backend_ops broken = *backend_of_device();
        struct capture capture;
        char text[512];
        const struct schedule schedule = schedule_of(3);
        broken.open = open_nothing;
        rig_open(&rig, &schedule, SYNC_REPLICATED);
        capture_begin(&capture);
        for (uint32_t d = 0; d < 3; d++) {
            struct trainer_spec spec = spec_make(&rig, d, SYNC_REPLICATED);
            if (d == bad)
                spec.tower.backend = &broken;
            start(&rig, d, &spec);
        }
        assert_true(ready_all(&rig) < 0);
        capture_end(&capture, text, sizeof text);
        assert_true(stop_failed(rig.stop));
        assert_int_equal(stop_code(rig.stop), EXIT_CODE_DEVICE);
        assert_non_null(strstr(text, "tower"));
        rig_close(&rig);
    }
}

static void a_cancel_at_any_time_ends_everything(void **state)
{
    (void)state;
    for (useconds_t delay = 0; delay < 8000; delay += 500) {
        static struct rig rig;
        struct capture capture;
        char text[512];
        struct schedule schedule = schedule_of(3);
        schedule.epochs = 1000000;
        rig_open(&rig, &schedule, SYNC_REPLICATED);
        start_all(&rig, SYNC_REPLICATED);
        assert_int_equal(ready_all(&rig), 0);
        go_all(&rig);
        capture_begin(&capture);
        for (useconds_t at = 0; at < delay && next_batch(&rig) == 0; at += 500)
            ;
        stop_fail(rig.stop, EXIT_CODE_DATA, "a test ends the run");
        while (next_batch(&rig) == 0)
            ;
        capture_end(&capture, text, sizeof text);
        assert_string_equal(text, "pipetrain: a test ends the run\n");
        rig_close(&rig);
    }
}

static void a_run_that_failed_before_it_began_ends_even_when_told_to_go(void **state)
{
    (void)state;
    static struct rig rig;
    struct capture capture;
    char text[512];
    const struct schedule schedule = schedule_of(2);
    rig_open(&rig, &schedule, SYNC_REPLICATED);
    start_all(&rig, SYNC_REPLICATED);
    assert_int_equal(ready_all(&rig), 0);
    capture_begin(&capture);
    stop_fail(rig.stop, EXIT_CODE_DATA, "damage in the first batch");
    capture_end(&capture, text, sizeof text);
    trainer_settle(rig.lanes[0].trainer);
    go_all(&rig);
    assert_int_equal(next_batch(&rig), -ECANCELED);
    rig_close(&rig);
}

static void towers_that_never_begin_end_by_a_cancel(void **state)
{
    (void)state;
    static struct rig rig;
    const struct schedule schedule = schedule_of(2);
    rig_open(&rig, &schedule, SYNC_REPLICATED);
    start_all(&rig, SYNC_REPLICATED);
    assert_int_equal(ready_all(&rig), 0);
    for (uint32_t d = 0; d < 2; d++)
        trainer_cancel(rig.lanes[d].trainer);
    rig_close(&rig);
}

static void nothing_is_computed_without_compute(void **state)
{
    (void)state;
    static struct rig rig;
    const struct schedule schedule = schedule_of(2);
    rig_open(&rig, &schedule, SYNC_REPLICATED);
    for (uint32_t d = 0; d < 2; d++) {
        struct trainer_spec spec = spec_make(&rig, d, SYNC_REPLICATED);
        spec.no_compute = true;
        start(&rig, d, &spec);
    }
    assert_int_equal(ready_all(&rig), 0);
    assert_null(trainer_tower(rig.lanes[0].trainer));
    go_all(&rig);
    while (next_batch(&rig) == 0)
        ;
    assert_int_equal(rig.batches, schedule_batch_count(&schedule));
    assert_int_equal(rig.images, 3 * (53 + 17));
    rig_close(&rig);
}

int main(void)
{
    alarm(200);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_towers_learns_what_one_learns),
        cmocka_unit_test(independent_towers_learn_from_their_own_slices),
        cmocka_unit_test(towers_without_samples_take_part),
        cmocka_unit_test(a_request_ends_all_towers_at_the_same_batch),
        cmocka_unit_test(a_tower_that_cannot_be_set_up_ends_the_others),
        cmocka_unit_test(a_cancel_at_any_time_ends_everything),
        cmocka_unit_test(a_run_that_failed_before_it_began_ends_even_when_told_to_go),
        cmocka_unit_test(towers_that_never_begin_end_by_a_cancel),
        cmocka_unit_test(nothing_is_computed_without_compute),
    };
    int failed = cmocka_run_group_tests_name("gradients summed on the host", tests, NULL, NULL);
    if (!test_device_ops()->host_memory) {
        reduction = "peer";
        failed += cmocka_run_group_tests_name("gradients summed by the devices", tests, NULL, NULL);
    }
    return failed;
}
