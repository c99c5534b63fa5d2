/* Tests of staging slots and of the feeder that fills them, on the kind of device that
 * test_device_kind.h says and on the null device. */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stage/feeder.h"
#include "stage/thread.h"
#include "tests/helpers/capture.h"
#include "tests/helpers/test.h"
#include "tests/helpers/test_device_kind.h"

enum { SIDE = 4, CAPACITY = 13, CLASSES = 10, DEPTH_MAX = 3, RING_DEPTH = 2, TOWERS_MAX = 8 };

static struct device *device_make(const struct device_ops *ops)
{
    struct device *device = NULL;
    const struct device_spec spec = { .index = 0, .name = "cpu0" };
    assert_int_equal(ops->open(&device, &spec), 0);
    device->ops = ops;          /* a test may change rows */
    return device;
}

static struct batch_layout layout_make(void)
{
    struct batch_layout layout;
    assert_int_equal(batch_layout_init(&layout, SIDE, SIDE, 1, CAPACITY), 0);
    return layout;
}

static struct slots *slots_make(struct device *device, uint32_t depth)
{
    struct slots *slots = NULL;
    const struct batch_layout layout = layout_make();
    assert_int_equal(slots_open(&slots, device, depth, &layout), 0);
    assert_int_equal(slots_depth(slots), depth);
    return slots;
}

TEST(slots_come_round_in_one_cycle_on_both_sides)
{
    for (uint32_t depth = 1; depth <= DEPTH_MAX; depth++) {
        struct device *device = device_make(test_device_ops());
        struct slots *slots = slots_make(device, depth);
        struct slot *seen[DEPTH_MAX] = { NULL }, *slot;
        for (uint32_t round = 0; round < 10; round++) {
            for (uint32_t i = 0; i < depth; i++) {
                assert_int_equal(slots_empty(slots, &slot), 0);
                if (round == 0)
                    seen[i] = slot;
                assert_ptr_equal(slot, seen[i]);
                slot->local.number = round * depth + i;
                slots_publish(slots, slot);
            }
            for (uint32_t i = 0; i < depth; i++) {
                assert_int_equal(slots_take(slots, &slot), 0);
                assert_ptr_equal(slot, seen[i]);
                assert_int_equal(slot->local.number, round * depth + i);
                assert_int_equal(slot->slots_found, depth - i);
                slots_give_back(slots, slot);
            }
        }
        struct slots_counts counts;
        slots_count(slots, &counts);
        assert_int_equal(counts.published, 10 * depth);
        assert_int_equal(counts.taken, 10 * depth);
        assert_int_equal(counts.take_waited_ns, 0);
        assert_int_equal(counts.empty_waited_ns, 0);
        slots_close(slots);
        device->ops->close(device);
    }
    slots_close(NULL);
}

TEST(a_slot_has_its_own_aligned_memory_and_events)
{
    const struct batch_layout layout = layout_make();
    struct device *device = device_make(test_device_ops());
    struct slots *slots = slots_make(device, 2);
    struct slot *first, *second;
    assert_int_equal(slots_empty(slots, &first), 0);
    slots_publish(slots, first);
    assert_int_equal(slots_empty(slots, &second), 0);
    assert_ptr_not_equal(first->block, second->block);
    assert_ptr_not_equal(first->ids, second->ids);
    assert_ptr_not_equal(first->ready, second->ready);
    assert_ptr_not_equal(first->ready, first->free);
    assert_ptr_equal(first->pixels, first->block);
    assert_int_equal((uintptr_t)first->block % 64, 0);
    assert_int_equal((uint8_t *)first->labels - first->pixels, layout.of[PHASE_TRAIN].labels_offset);
    assert_null(first->mixes);
    slots_close(slots);
    device->ops->close(device);
}

TEST(a_finished_staging_area_is_drained)
{
    struct device *device = device_make(test_device_ops());
    struct slots *slots = slots_make(device, 2);
    struct slot *slot;
    assert_int_equal(slots_empty(slots, &slot), 0);
    slots_publish(slots, slot);
    slots_finish(slots);
    assert_int_equal(slots_take(slots, &slot), 0);
    slots_give_back(slots, slot);
    assert_int_equal(slots_take(slots, &slot), -ENODATA);
    slots_close(slots);
    device->ops->close(device);
}

static void cancel(struct slots *slots)
{
    slots_cancel(slots);
}

TEST(no_slot_is_given_out_after_the_end_even_if_one_is_empty)
{
    static const struct { void (*end)(struct slots *slots); int result; } ends[] = {
        { slots_end, -ENODATA }, { cancel, -ECANCELED },
    };
    for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
        struct device *const device = device_make(test_device_ops());
        struct slots *const slots = slots_make(device, 2);
        struct slot *slot;
        ends[i].end(slots);
        assert_int_equal(slots_empty(slots, &slot), ends[i].result);
        slots_close(slots);
        device->ops->close(device);
    }
}

struct waiting {
    struct slots *slots;
    struct slot *slot;
    int result;
};

static void empty_loop(void *arg)
{
    struct waiting *waiting = arg;
    waiting->result = slots_empty(waiting->slots, &waiting->slot);
}

static void take_loop(void *arg)
{
    struct waiting *waiting = arg;
    waiting->result = slots_take(waiting->slots, &waiting->slot);
}

/* Returns how long the wait took: 0 when the end came first. */
static uint64_t check_end(void (*loop)(void *arg), bool is_full, void (*end)(struct slots *), int result,
                          useconds_t delay_us)
{
    struct device *device = device_make(test_device_ops());
    struct waiting waiting = { slots_make(device, 1), NULL, 0 };
    struct slot *slot;
    struct thread *thread;
    if (is_full) {
        assert_int_equal(slots_empty(waiting.slots, &slot), 0);
        slots_publish(waiting.slots, slot);
    }
    assert_int_equal(thread_start(&thread, "waiting", loop, &waiting), 0);
    usleep(delay_us);
    end(waiting.slots);
    thread_join(thread);
    assert_int_equal(waiting.result, result);
    struct slots_counts counts;
    slots_count(waiting.slots, &counts);
    slots_close(waiting.slots);
    device->ops->close(device);
    return is_full ? counts.empty_waited_ns : counts.take_waited_ns;
}

/* Until the thread really was waiting, which a busy machine may put off. */
static void check_ends(void (*loop)(void *arg), bool is_full, void (*end)(struct slots *), int result)
{
    useconds_t delay_us = 1000;
    while (check_end(loop, is_full, end, result, delay_us) == 0) {
        assert_true(delay_us < 1000000);
        delay_us *= 4;
    }
}

TEST(every_wait_ends_from_either_side)
{
    check_ends(empty_loop, true, slots_end, -ENODATA);
    check_ends(empty_loop, true, cancel, -ECANCELED);
    check_ends(take_loop, false, slots_finish, -ENODATA);
    check_ends(take_loop, false, cancel, -ECANCELED);
}

/* Give back a slot that is taken while a thread waits for an empty one. Returns how long it waited. */
static uint64_t check_give_back(useconds_t delay_us)
{
    struct device *device = device_make(test_device_ops());
    struct waiting waiting = { slots_make(device, 1), NULL, 1 };
    struct slots_counts counts;
    struct slot *slot;
    struct thread *thread;
    assert_int_equal(slots_empty(waiting.slots, &slot), 0);
    slots_publish(waiting.slots, slot);
    assert_int_equal(slots_take(waiting.slots, &slot), 0);
    assert_int_equal(thread_start(&thread, "waiting", empty_loop, &waiting), 0);
    usleep(delay_us);
    slots_give_back(waiting.slots, slot);
    thread_join(thread);
    assert_int_equal(waiting.result, 0);
    assert_ptr_equal(waiting.slot, slot);
    slots_count(waiting.slots, &counts);
    slots_close(waiting.slots);
    device->ops->close(device);
    return counts.empty_waited_ns;
}

/* Until the thread really was waiting, which a busy machine may put off. */
TEST(a_slot_is_not_empty_until_the_tower_gives_it_back)
{
    useconds_t delay_us = 1000;
    while (check_give_back(delay_us) == 0) {
        assert_true(delay_us < 1000000);
        delay_us *= 4;
    }
}

/* A whole tower without a network: loader (one thread), ring, feeder, slots. */

struct lane {
    const struct schedule *schedule;
    uint32_t tower;
    struct batch_layout layout;
    struct device *device;
    struct stop *stop;
    struct stream *compute;
    void *fetched;              /* pinned: what slot_fetch copied */
    struct event *has_fetched;
    struct slots *slots;
    struct ring *ring;
    void *blocks[RING_DEPTH];
    struct thread *loader;
    struct feeder *feeder;
    struct feeder_counts counts;
};

static uint8_t pixel_of(const struct local_batch *local, uint32_t sample, size_t p)
{
    return (uint8_t)(local->number * 31 + (local->first_position + sample) * 7 + p);
}

static void load_batch(struct batch *batch)
{
    for (uint32_t i = 0; i < batch->local.count; i++) {
        for (size_t p = 0; p < SIDE * SIDE; p++)
            batch->pixels[i * SIDE * SIDE + p] = pixel_of(&batch->local, i, p);
        batch->labels[i] = (int32_t)((batch->local.first_position + i) % CLASSES);
        batch->ids[i] = batch->local.first_position + i;
    }
}

static void load_loop(void *arg)
{
    struct lane *lane = arg;
    struct batch *batch;
    struct local_batch local;
    for (uint64_t number = lane->schedule->first; schedule_find(lane->schedule, number, lane->tower, &local) == 0;
         number++) {
        if (ring_claim(lane->ring, &local, &batch))
            return;
        load_batch(batch);
        if (local.count > 0)
            ring_fill(lane->ring, batch, local.count);
    }
}

static void lane_open_ring(struct lane *lane)
{
    for (int i = 0; i < RING_DEPTH; i++)
        assert_int_equal(lane->device->ops->alloc_pinned(lane->device, lane->layout.block_bytes, &lane->blocks[i]), 0);
    assert_int_equal(ring_open(&lane->ring, RING_DEPTH, &lane->layout, lane->blocks), 0);
    ring_range(lane->ring, lane->schedule->first, schedule_batch_count(lane->schedule));
    assert_int_equal(stop_on_failure(lane->stop, ring_cancel, lane->ring), 0);
    assert_int_equal(thread_start(&lane->loader, "loader", load_loop, lane), 0);
}

static void lane_open(struct lane *lane, const struct device_ops *ops, const struct schedule *schedule,
                      uint32_t tower, bool synthetic)
{
    *lane = (struct lane){ .schedule = schedule, .tower = tower, .layout = layout_make() };
    lane->device = device_make(ops);
    assert_int_equal(stop_open(&lane->stop), 0);
    assert_int_equal(lane->device->ops->stream_open(lane->device, STREAM_COMPUTE, "compute", &lane->compute), 0);
    assert_int_equal(lane->device->ops->event_open(lane->device, EVENT_ORDER, &lane->has_fetched), 0);
    assert_int_equal(lane->device->ops->alloc_pinned(lane->device, lane->layout.block_bytes, &lane->fetched), 0);
    lane->slots = slots_make(lane->device, 2);
    assert_int_equal(stop_on_failure(lane->stop, slots_cancel, lane->slots), 0);
    assert_int_equal(stop_on_failure(lane->stop, device_cancel, lane->device), 0);
    if (!synthetic)
        lane_open_ring(lane);
    const struct feeder_spec spec = {
        .name = "feeder",
        .device = lane->device,
        .ring = lane->ring,
        .slots = lane->slots,
        .stop = lane->stop,
        .schedule = schedule,
        .tower = tower,
        .classes = CLASSES,
        .seed = 5,
        .layout = &lane->layout,
    };
    assert_int_equal(feeder_start(&lane->feeder, &spec), 0);
}

static void lane_close(struct lane *lane)
{
    if (lane->ring != NULL)
        ring_cancel(lane->ring);        /* for towers that ended early */
    thread_join(lane->loader);
    feeder_join(lane->feeder, &lane->counts);
    slots_close(lane->slots);
    ring_close(lane->ring);
    for (int i = 0; i < RING_DEPTH; i++)
        lane->device->ops->free_pinned(lane->device, lane->blocks[i]);
    lane->device->ops->stream_close(lane->compute);
    lane->device->ops->event_close(lane->has_fetched);
    lane->device->ops->free_pinned(lane->device, lane->fetched);
    lane->device->ops->close(lane->device);
    stop_close(lane->stop);
}

/* Wait for the slot's samples as a tower does. */
static void slot_wait(struct lane *lane, const struct slot *slot)
{
    assert_int_equal(stream_wait(lane->compute, slot->ready), 0);
}

static void slot_release(struct lane *lane, struct slot *slot)
{
    assert_int_equal(stream_record(lane->compute, slot->free), 0);
    slots_give_back(lane->slots, slot);
}

static void check_span(const struct lane *lane, uint64_t number, const struct slot *slot)
{
    struct local_batch expected;
    assert_int_equal(schedule_find(lane->schedule, number, lane->tower, &expected), 0);
    assert_int_equal(slot->local.number, number);
    assert_int_equal(slot->local.phase, expected.phase);
    assert_int_equal(slot->local.count, expected.count);
    assert_int_equal(slot->local.first_position, expected.first_position);
    for (uint32_t i = 0; i < expected.count; i++)
        assert_int_equal(slot->ids[i], expected.first_position + i);
}

/* What the slot holds now, where the host can read it. */
static const uint8_t *slot_fetch(struct lane *lane, const struct slot *slot)
{
    const struct device_ops *const ops = lane->device->ops;
    if (ops->host_memory)
        return slot->block;
    assert_int_equal(ops->copy(lane->compute, lane->fetched, slot->block, lane->layout.block_bytes,
                               COPY_FROM_DEVICE), 0);
    assert_int_equal(stream_record(lane->compute, lane->has_fetched), 0);
    assert_int_equal(ops->event_wait(lane->has_fetched), 0);
    return lane->fetched;
}

static void check_samples(struct lane *lane, const struct slot *slot, bool arrived)
{
    const uint8_t *pixels = slot_fetch(lane, slot);
    const int32_t *labels = (const int32_t *)(const void *)(pixels + lane->layout.of[PHASE_TRAIN].labels_offset);
    for (uint32_t i = 0; i < slot->local.count; i++) {
        for (size_t p = 0; p < SIDE * SIDE; p++)
            assert_int_equal(pixels[i * SIDE * SIDE + p], arrived ? pixel_of(&slot->local, i, p) : 0);
        assert_int_equal(labels[i], arrived ? (int32_t)(slot->ids[i] % CLASSES) : 0);
    }
}

static void check_lane(const struct device_ops *ops, const struct schedule *schedule, uint32_t tower)
{
    struct lane lane;
    struct slot *slot;
    uint64_t number = schedule->first;
    lane_open(&lane, ops, schedule, tower, false);
    while (slots_take(lane.slots, &slot) == 0) {
        slot_wait(&lane, slot);
        check_span(&lane, number++, slot);
        check_samples(&lane, slot, ops != &device_null_ops);
        assert_true(slot->batches_found <= RING_DEPTH && slot->slots_found <= slots_depth(lane.slots));
        slot_release(&lane, slot);
    }
    assert_int_equal(number, schedule_batch_count(schedule));
    assert_false(stop_failed(lane.stop));
    lane_close(&lane);
    assert_int_equal(lane.counts.batches, number - schedule->first);
}

static const struct schedule schedules[] = {
    { .records = { 100, 40 }, .batch = CAPACITY, .towers = 1, .epochs = 2 },
    { .records = { 100, 0 }, .batch = 20, .towers = 3, .epochs = 3, .steps = 12 },
    { .records = { 17, 5 }, .batch = 5, .towers = TOWERS_MAX, .epochs = 6 },     /* empty local batches */
    { .records = { 1, 1 }, .batch = 1, .towers = 2, .epochs = 9 },
};
enum { SCHEDULES = sizeof(schedules) / sizeof(schedules[0]) };

TEST(every_batch_of_the_schedule_reaches_the_tower_in_order)
{
    for (size_t i = 0; i < SCHEDULES; i++)
        for (uint32_t tower = 0; tower < schedules[i].towers; tower++)
            check_lane(test_device_ops(), &schedules[i], tower);
}

TEST(a_run_that_begins_with_any_batch_feeds_those_from_it_on)
{
    for (size_t i = 0; i < SCHEDULES; i++)
        for (uint64_t first = 0; first <= schedule_batch_count(&schedules[i]); first++) {
            struct schedule schedule = schedules[i];
            schedule.first = first;
            check_lane(test_device_ops(), &schedule, first % schedule.towers);
        }
}

enum { READER_US = 100000 };

static void reader_call(void *arg)
{
    sem_wait(arg);
}

TEST(a_slot_is_not_written_before_its_last_reader_is_through)
{
    struct lane lane;
    struct slot *slot, *again;
    struct stream *reader;
    sem_t through;
    sem_init(&through, 0, 0);
    lane_open(&lane, test_device_ops(), &schedules[0], 0, false);
    const struct device_ops *const ops = lane.device->ops;
    assert_int_equal(ops->stream_open(lane.device, STREAM_COMMUNICATION, "reader", &reader), 0);

    assert_int_equal(slots_take(lane.slots, &slot), 0);
    slot_wait(&lane, slot);
    const struct local_batch first = slot->local;
    assert_int_equal(ops->call(reader, reader_call, &through), 0);
    assert_int_equal(stream_record(reader, slot->free), 0);
    slots_give_back(lane.slots, slot);
    assert_int_equal(slots_take(lane.slots, &again), 0);        /* the other slot */
    slot_wait(&lane, again);
    slot_release(&lane, again);
    assert_int_equal(slots_take(lane.slots, &again), 0);
    assert_ptr_equal(again, slot);
    usleep(READER_US);
    assert_false(ops->event_passed(slot->ready));
    assert_int_equal(slot_fetch(&lane, slot)[0], pixel_of(&first, 0, 0));
    sem_post(&through);
    slot_wait(&lane, again);
    check_span(&lane, 2, again);
    check_samples(&lane, again, true);
    slot_release(&lane, again);

    slots_end(lane.slots);
    ops->stream_close(reader);
    sem_destroy(&through);
    lane_close(&lane);
    /* The time of copies is theirs alone. */
    assert_in_range(lane.counts.copy_ns, 1, READER_US * 1000 - 1);
}

TEST(on_the_null_device_everything_but_the_samples_arrives)
{
    for (size_t i = 0; i < SCHEDULES; i++)
        check_lane(&device_null_ops, &schedules[i], 0);
}

/* What synthetic slots hold, batch by batch. */
struct drawn {
    uint64_t batches;
    uint8_t pixels[2][CAPACITY * SIDE * SIDE];      /* of batches with even and odd numbers */
    int32_t labels[2][CAPACITY];
    unsigned of_class[CLASSES];
};

static void draw_synthetic(struct drawn *drawn, const struct schedule *schedule, uint32_t tower)
{
    struct lane lane;
    struct slot *slot;
    memset(drawn, 0, sizeof(*drawn));
    lane_open(&lane, test_device_ops(), schedule, tower, true);
    while (slots_take(lane.slots, &slot) == 0) {
        slot_wait(&lane, slot);
        const uint8_t *pixels = slot_fetch(&lane, slot);
        const int32_t *labels = (const int32_t *)(const void *)(pixels + lane.layout.of[PHASE_TRAIN].labels_offset);
        const uint64_t number = schedule->first + drawn->batches;
        const size_t place = number % 2;
        check_span(&lane, number, slot);
        if (drawn->batches < 2) {
            memcpy(drawn->pixels[place], pixels, sizeof(drawn->pixels[place]));
            memcpy(drawn->labels[place], labels, sizeof(drawn->labels[place]));
        }
        /* Slots keep what they were given. */
        assert_memory_equal(drawn->pixels[place], pixels, sizeof(drawn->pixels[place]));
        for (uint32_t i = 0; i < CAPACITY; i++) {
            assert_true(labels[i] >= 0 && labels[i] < CLASSES);
            drawn->of_class[labels[i]]++;
        }
        drawn->batches++;
        slot_release(&lane, slot);
    }
    lane_close(&lane);
    assert_int_equal(lane.counts.batches, drawn->batches);
    assert_int_equal(lane.counts.wait_batch_ns, 0);
}

TEST(synthetic_input_is_the_same_in_every_run_and_differs_between_towers)
{
    const struct schedule *schedule = &schedules[1];
    static struct drawn first, again, other;
    draw_synthetic(&first, schedule, 0);
    draw_synthetic(&again, schedule, 0);
    draw_synthetic(&other, schedule, 1);
    assert_int_equal(first.batches, schedule_batch_count(schedule));
    assert_memory_equal(&first, &again, sizeof(first));
    assert_memory_not_equal(first.pixels, other.pixels, sizeof(first.pixels));
    assert_memory_not_equal(first.pixels[0], first.pixels[1], sizeof(first.pixels[0]));
    unsigned classes = 0;
    for (int i = 0; i < CLASSES; i++)
        classes += first.of_class[i] > 0;
    assert_true(classes > 5);
    uint64_t sum = 0;
    for (size_t p = 0; p < sizeof(first.pixels[0]); p++)
        sum += first.pixels[0][p];
    const uint64_t mean = sum / sizeof(first.pixels[0]);
    assert_true(mean > 100 && mean < 155);
}

TEST(synthetic_input_is_the_same_whichever_batch_comes_first)
{
    struct schedule schedule = schedules[1];
    static struct drawn whole, part;
    draw_synthetic(&whole, &schedule, 2);
    for (schedule.first = 1; schedule.first < 6; schedule.first++) {
        draw_synthetic(&part, &schedule, 2);
        assert_int_equal(part.batches, whole.batches - schedule.first);
        assert_memory_equal(part.pixels, whole.pixels, sizeof(part.pixels));
        assert_memory_equal(part.labels, whole.labels, sizeof(part.labels));
    }
}

TEST(a_tower_that_ends_early_ends_its_feeder)
{
    for (int synthetic = 0; synthetic <= 1; synthetic++)
        for (uint64_t taken = 0; taken < 6; taken++) {
            struct lane lane;
            struct slot *slot;
            lane_open(&lane, test_device_ops(), &schedules[0], 0, synthetic);
            for (uint64_t i = 0; i < taken; i++) {
                assert_int_equal(slots_take(lane.slots, &slot), 0);
                slot_wait(&lane, slot);
                slot_release(&lane, slot);
            }
            slots_end(lane.slots);
            assert_false(stop_failed(lane.stop));
            lane_close(&lane);
            assert_true(lane.counts.batches >= taken && lane.counts.batches <= taken + 2);
        }
}

static struct {
    struct device *device;
    pthread_t by;
    int count;
} bound;

static void noting_bind(struct device *device)
{
    bound.device = device;
    bound.by = pthread_self();
    bound.count++;
}

TEST(a_feeder_binds_its_thread_to_its_device)
{
    struct device_ops noting = *test_device_ops();
    noting.bind = noting_bind;
    struct lane lane;
    struct slot *slot;
    lane_open(&lane, &noting, &schedules[0], 0, false);
    const struct device *const device = lane.device;
    while (slots_take(lane.slots, &slot) == 0)
        slot_release(&lane, slot);
    lane_close(&lane);
    assert_int_equal(bound.count, 1);
    assert_ptr_equal(bound.device, device);
    assert_false(pthread_equal(bound.by, pthread_self()));
}

static int failing_copy(struct stream *stream, void *to, const void *from, size_t bytes,
                        enum copy_direction direction)
{
    (void)stream, (void)to, (void)from, (void)bytes, (void)direction;
    return -EIO;
}

TEST(a_copy_that_fails_ends_the_run_and_names_the_batch)
{
    struct device_ops failing = *test_device_ops();
    failing.copy = failing_copy;
    for (int synthetic = 0; synthetic <= 1; synthetic++) {
        struct lane lane;
        struct slot *slot;
        struct capture capture;
        char captured[512];
        capture_begin(&capture);
        lane_open(&lane, &failing, &schedules[0], 0, synthetic);
        int rc;
        while ((rc = slots_take(lane.slots, &slot)) == 0)
            slots_give_back(lane.slots, slot);
        capture_end(&capture, captured, sizeof(captured));
        assert_int_equal(rc, -ECANCELED);
        assert_int_equal(stop_code(lane.stop), EXIT_CODE_DEVICE);
        assert_string_equal(captured,
                            "pipetrain: feeder: copy of batch 0 to the device failed: Input/output error\n");
        lane_close(&lane);
        assert_int_equal(lane.counts.batches, 0);
    }
}

TEST(a_failure_elsewhere_ends_the_feeder_wherever_it_waits)
{
    for (uint64_t taken = 0; taken < 6; taken++) {
        struct lane lane;
        struct slot *slot;
        struct capture capture;
        char captured[512];
        lane_open(&lane, test_device_ops(), &schedules[0], 0, false);
        for (uint64_t i = 0; i < taken; i++) {
            assert_int_equal(slots_take(lane.slots, &slot), 0);
            slot_release(&lane, slot);
        }
        capture_begin(&capture);
        stop_fail(lane.stop, EXIT_CODE_DATA, "shard 1: cut");
        thread_join(lane.loader);
        lane.loader = NULL;
        feeder_join(lane.feeder, &lane.counts);
        lane.feeder = NULL;
        capture_end(&capture, captured, sizeof(captured));
        assert_string_equal(captured, "pipetrain: shard 1: cut\n");
        assert_int_equal(stop_code(lane.stop), EXIT_CODE_DATA);
        lane_close(&lane);
    }
}

int main(void)
{
    alarm(60);
    test_device_ops();
    return tests_run(NULL, NULL);
}
