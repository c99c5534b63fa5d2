/* Runs a whole loader and keeps what came. */
#include "tests/helpers/loader_harness.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "loader/augment/augment.h"
#include "stage/thread.h"
#include "tests/helpers/test.h"
#include "tests/helpers/tfrecord_fixture.h"

enum { TOWERS_MAX = 8 };

struct consumer {
    struct harness *harness;
    struct ring *ring;
    uint32_t tower;
    bool is_wrong;
    struct thread *thread;
    void *blocks[16];
};

static void keep(struct harness *harness, const struct batch *batch)
{
    const struct local_batch *local = &batch->local;
    const size_t sample_bytes = harness->spec.layout->of[local->phase].sample_bytes;
    struct delivery *global = harness->deliveries + local->number * harness->schedule.batch;
    for (uint32_t i = 0; i < local->count; i++) {
        struct delivery *delivery = &global[local->first_position % harness->schedule.batch + i];
        delivery->id = batch->ids[i];
        delivery->label = batch->labels[i];
        delivery->pixels_hash = XXH3_64bits(batch->pixels + i * sample_bytes, sample_bytes);
        delivery->times++;
        if (batch->mixes != NULL)
            delivery->mix = batch->mixes[i];
    }
}

static bool is_expected(const struct consumer *consumer, const struct batch *batch, uint64_t number)
{
    struct local_batch local;
    return schedule_find(&consumer->harness->schedule, number, consumer->tower, &local) == 0
        && local.number == batch->local.number && local.phase == batch->local.phase && local.epoch == batch->local.epoch
        && local.first_position == batch->local.first_position && local.count == batch->local.count;
}

static void consume(void *arg)
{
    struct consumer *consumer = arg;
    struct batch *batch;
    for (uint64_t number = consumer->harness->schedule.first; ring_take(consumer->ring, &batch) == 0; number++) {
        if (!is_expected(consumer, batch, number))
            consumer->is_wrong = true;
        keep(consumer->harness, batch);
        memset(batch->pixels, 0xee, consumer->harness->spec.layout->block_bytes);
        ring_give_back(consumer->ring, batch);
        if (consumer->tower == 0 && consumer->harness->end_after == number + 1)
            loader_end(consumer->harness->loader);
    }
}

static void open_consumers(struct harness *harness, struct consumer *consumers, struct ring **rings,
                           const struct batch_layout *layout)
{
    const struct tower_range here = schedule_here(&harness->schedule);
    assert_in_range(here.count, 1, TOWERS_MAX);
    for (uint32_t i = 0; i < here.count; i++) {
        consumers[i] = (struct consumer){ .harness = harness, .tower = here.first + i };
        for (uint32_t j = 0; j < harness->depth; j++)
            assert_non_null(consumers[i].blocks[j] = aligned_alloc(64, (layout->block_bytes + 63) / 64 * 64));
        assert_int_equal(ring_open(&rings[i], harness->depth, layout, consumers[i].blocks), 0);
        consumers[i].ring = rings[i];
    }
}

static void close_consumers(struct harness *harness, struct consumer *consumers)
{
    for (uint32_t i = 0; i < schedule_here(&harness->schedule).count; i++) {
        ring_close(consumers[i].ring);
        for (uint32_t j = 0; j < harness->depth; j++)
            free(consumers[i].blocks[j]);
    }
}

static void run_threads(struct harness *harness, struct consumer *consumers)
{
    for (uint32_t i = 0; i < schedule_here(&harness->schedule).count; i++) {
        assert_int_equal(thread_start(&consumers[i].thread, "consumer", consume, &consumers[i]), 0);
    }
    for (uint32_t i = 0; i < schedule_here(&harness->schedule).count; i++)
        thread_join(consumers[i].thread);
    loader_join(harness->loader, &harness->counts);
    for (uint32_t i = 0; i < schedule_here(&harness->schedule).count; i++)
        assert_false(consumers[i].is_wrong);
}

static void fill_in(struct harness *harness)
{
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        if (harness->spec.datasets[phase] != NULL && harness->schedule.records[phase] == 0)
            harness->schedule.records[phase] = harness->spec.datasets[phase]->record_count;
    }
    harness->batch_count = schedule_batch_count(&harness->schedule);
    harness->deliveries = calloc(harness->batch_count * harness->schedule.batch + 1, sizeof(*harness->deliveries));
    assert_non_null(harness->deliveries);
    harness->spec.schedule = &harness->schedule;
}

static int silence_begin(void)
{
    const int saved = dup(STDERR_FILENO), nowhere = open("/dev/null", O_WRONLY);
    assert_true(saved >= 0 && nowhere >= 0);
    dup2(nowhere, STDERR_FILENO);
    close(nowhere);
    return saved;
}

static void silence_end(int saved)
{
    dup2(saved, STDERR_FILENO);
    close(saved);
}

static void keep_damage(struct harness *harness)
{
    struct damage_list *const list = loader_take_damage(harness->loader);
    if (list == NULL)
        return;
    harness->damage_count = list->count;
    for (size_t i = 0; i < list->count; i++)
        harness->damages[i] = list->records[i];
    free(list);
}

void harness_run(struct harness *harness)
{
    struct consumer consumers[TOWERS_MAX];
    struct ring *rings[TOWERS_MAX];
    struct batch_layout layout;
    fill_in(harness);
    const struct image_shape *const shape = &harness->spec.datasets[PHASE_TRAIN]->options.shape;
    assert_int_equal(batch_layout_init(&layout, shape->height, shape->width, shape->channels,
                                       schedule_local_max(&harness->schedule)), 0);
    if (harness->spec.augment != NULL && mixing_is_on(harness->spec.augment))
        assert_int_equal(batch_layout_add_mixes(&layout), 0);
    open_consumers(harness, consumers, rings, &layout);
    harness->spec.layout = &layout;
    harness->spec.rings = rings;
    assert_int_equal(stop_open(&harness->spec.stop), 0);
    if (harness->before_start != NULL)
        harness->before_start(harness);
    const int saved_stderr = silence_begin();
    harness->start_result = loader_start(&harness->loader, &harness->spec);
    if (harness->after_start != NULL)
        harness->after_start(harness);
    if (harness->start_result == 0)
        run_threads(harness, consumers);
    silence_end(saved_stderr);
    if (harness->loader != NULL)
        keep_damage(harness);
    harness->code = stop_code(harness->spec.stop);
    snprintf(harness->message, sizeof(harness->message), "%s", stop_message(harness->spec.stop));
    loader_close(harness->loader);
    harness->loader = NULL;
    stop_close(harness->spec.stop);
    close_consumers(harness, consumers);
    harness->spec.layout = NULL;
    harness->spec.rings = NULL;
}

void harness_release(struct harness *harness)
{
    free(harness->deliveries);
    harness->deliveries = NULL;
}

struct delivery harness_expected(uint64_t id)
{
    uint8_t pixels[FIXTURE_SAMPLE_BYTES];
    fixture_pixels(id, pixels);
    return (struct delivery){ .id = id, .label = fixture_label(id), .times = 1,
                              .pixels_hash = XXH3_64bits(pixels, sizeof(pixels)) };
}

struct local_batch harness_span(const struct harness *harness, uint64_t number)
{
    struct schedule whole = harness->schedule;
    struct local_batch local;
    whole.towers = 1;
    assert_int_equal(schedule_find(&whole, number, 0, &local), 0);
    return local;
}

void harness_assert_delivered(const struct delivery *delivery, uint64_t id)
{
    const struct delivery expected = harness_expected(id);
    assert_int_equal(delivery->times, 1);
    assert_int_equal(delivery->label, expected.label);
    assert_true(delivery->pixels_hash == expected.pixels_hash);
}

void harness_assert_complete(const struct harness *harness)
{
    uint32_t *times[PHASE_COUNT];
    assert_string_equal(harness->message, "");
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        assert_non_null(times[phase] = calloc(harness->schedule.records[phase] + 1, sizeof(*times[phase])));
    for (uint64_t number = 0; number < harness->batch_count; number++) {
        const struct local_batch local = harness_span(harness, number);
        for (uint32_t i = 0; i < local.count; i++) {
            const struct delivery *delivery = &harness->deliveries[number * harness->schedule.batch + i];
            harness_assert_delivered(delivery, delivery->id);
            assert_int_equal(times[local.phase][delivery->id]++, local.epoch);
        }
    }
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        for (uint64_t id = 0; id < harness->schedule.records[phase]; id++)
            assert_int_equal(times[phase][id], harness->schedule.epochs);
        free(times[phase]);
    }
}

void harness_assert_same(const struct harness *a, const struct harness *b)
{
    assert_int_equal(a->batch_count, b->batch_count);
    assert_int_equal(a->schedule.batch, b->schedule.batch);
    for (uint64_t i = 0; i < a->batch_count * a->schedule.batch; i++) {
        assert_int_equal(a->deliveries[i].id, b->deliveries[i].id);
        assert_int_equal(a->deliveries[i].label, b->deliveries[i].label);
        assert_true(a->deliveries[i].pixels_hash == b->deliveries[i].pixels_hash);
        assert_int_equal(a->deliveries[i].times, b->deliveries[i].times);
    }
}
