/* Tests of the schedule against a list made by walking epochs, batches and samples. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "stage/pairwise.h"
#include "stage/schedule.h"
#include "tests/helpers/test.h"

enum { LIST_MAX = 4096 };

/* A global batch as the walk finds it. */
struct listed {
    enum phase phase;
    uint32_t epoch;
    uint64_t step, first, count;
    bool first_of_phase, last_of_phase;
};

static struct listed list[LIST_MAX];
static size_t list_count;

static struct listed *list_batch(enum phase phase, uint32_t epoch, uint64_t step, uint64_t first)
{
    assert_true(list_count < LIST_MAX);
    struct listed *batch = &list[list_count++];
    *batch = (struct listed){ .phase = phase, .epoch = epoch, .step = step, .first = first };
    return batch;
}

/* Walk one pass sample by sample until it, or the run's steps, end. Returns its batches. */
static uint64_t list_pass(const struct schedule *schedule, enum phase phase, uint32_t epoch, uint64_t step,
                          uint64_t steps_left)
{
    const size_t begin = list_count;
    struct listed *batch = NULL;
    for (uint64_t position = 0; position < schedule->records[phase]; position++) {
        if (batch == NULL || batch->count == schedule->batch) {
            if (list_count - begin == steps_left)
                break;
            batch = list_batch(phase, epoch, step + (list_count - begin), position);
        }
        batch->count++;
    }
    if (phase == PHASE_TRAIN && schedule->drop_last && batch != NULL && batch->count < schedule->batch)
        list_count--;
    if (list_count > begin) {
        list[begin].first_of_phase = true;
        list[list_count - 1].last_of_phase = true;
    }
    return list_count - begin;
}

static uint64_t list_run(const struct schedule *schedule)
{
    uint64_t step = 0;
    list_count = 0;
    for (uint32_t epoch = 0; epoch < schedule->epochs; epoch++) {
        const uint64_t left = schedule->steps ? schedule->steps - step : UINT64_MAX;
        const uint64_t steps = left ? list_pass(schedule, PHASE_TRAIN, epoch, step, left) : 0;
        if (steps == 0)
            break;
        step += steps;
        list_pass(schedule, PHASE_EVALUATE, epoch, 0, UINT64_MAX);
    }
    return step;
}

static void check_batch(const struct schedule *schedule, uint64_t number, const struct listed *expected)
{
    uint64_t position = expected->first;
    uint32_t smallest = UINT32_MAX, largest = 0;
    for (uint32_t tower = 0; tower < schedule->towers; tower++) {
        struct local_batch local;
        assert_int_equal(schedule_find(schedule, number, tower, &local), 0);
        assert_int_equal(local.number, number);
        assert_int_equal(local.phase, expected->phase);
        assert_int_equal(local.epoch, expected->epoch);
        assert_int_equal(local.step, expected->step);
        assert_int_equal(local.global_count, expected->count);
        assert_int_equal(local.first_of_phase, expected->first_of_phase);
        assert_int_equal(local.last_of_phase, expected->last_of_phase);
        assert_int_equal(local.first_position, position);
        assert_true(tower == 0 || local.count <= smallest);      /* larger local batches first */
        position += local.count;
        assert_true(!schedule->pairs || (local.first_position - expected->first) % 2 == 0 || local.count == 0);
        smallest = local.count < smallest ? local.count : smallest;
        largest = local.count > largest ? local.count : largest;
    }
    assert_int_equal(position, expected->first + expected->count);
    assert_true(largest - smallest <= (schedule->pairs ? 3 : 1));     /* a pair, and what a last one lacks */
    assert_true(largest <= schedule_local_max(schedule));
}

/* Whatever the first batch is, numbers are the run's. */
static void check_late(const struct schedule *schedule, const struct schedule *late)
{
    struct local_batch local, expected;
    assert_int_equal(schedule_batch_count(late), schedule_batch_count(schedule));
    assert_int_equal(schedule_step_count(late), schedule_step_count(schedule));
    const int rc = schedule_find(schedule, late->first, schedule->towers - 1, &expected);
    assert_int_equal(schedule_find(late, late->first, schedule->towers - 1, &local), rc);
    if (rc != 0)
        return;
    assert_int_equal(local.number, expected.number);
    assert_int_equal(local.step, expected.step);
    assert_int_equal(local.first_position, expected.first_position);
}

/* A place leads back to its batch. */
static void check_place(const struct schedule *schedule, uint64_t number, uint64_t steps_before)
{
    struct schedule late = *schedule;
    uint64_t found = UINT64_MAX;
    const struct position place = schedule_position(schedule, number);
    assert_int_equal(place.step, steps_before);
    assert_int_equal(schedule_seek(schedule, place, &found), 0);
    assert_int_equal(found, number);
    late.first = number;
    assert_int_equal(schedule_steps_left(&late), schedule_step_count(schedule) - steps_before);
    check_late(schedule, &late);
}

static void check_places(const struct schedule *schedule)
{
    uint64_t steps = 0;
    for (size_t i = 0; i < list_count; i++) {
        check_place(schedule, i, steps);
        steps += list[i].phase == PHASE_TRAIN;
    }
    check_place(schedule, list_count, steps);
}

static void check_schedule(const struct schedule *schedule)
{
    const uint64_t steps = list_run(schedule);
    assert_int_equal(schedule_step_count(schedule), steps);
    assert_int_equal(schedule_batch_count(schedule), list_count);
    for (size_t i = 0; i < list_count; i++)
        check_batch(schedule, i, &list[i]);
    check_places(schedule);
    struct local_batch local;
    assert_int_equal(schedule_find(schedule, list_count, 0, &local), -ENODATA);
    assert_int_equal(schedule_find(schedule, UINT64_MAX, 0, &local), -ENODATA);
}

TEST(every_batch_is_the_one_a_walk_over_the_samples_finds)
{
    static const uint64_t records[] = { 1, 2, 7, 12, 20 }, evaluations[] = { 0, 1, 6, 13 };
    static const uint64_t steps[] = { 0, 1, 2, 3, 5, 9, 1000 };
    static const uint32_t batches[] = { 1, 3, 4, 7, 50 }, towers[] = { 1, 2, 3, 5, 8 };
    for (size_t r = 0; r < 5; r++)
        for (size_t e = 0; e < 4; e++)
            for (size_t s = 0; s < 7; s++)
                for (size_t b = 0; b < 5; b++)
                    for (size_t t = 0; t < 5; t++)
                        for (uint32_t epochs = 1; epochs <= 3; epochs++)
                            for (int choice = 0; choice < 4; choice++)
                                check_schedule(&(struct schedule){
                                    .records = { records[r], evaluations[e] },
                                    .batch = batches[b],
                                    .towers = towers[t],
                                    .epochs = epochs,
                                    .steps = steps[s],
                                    .drop_last = choice & 1,
                                    .pairs = choice & 2,
                                });
}

TEST(counts_of_a_well_known_run)
{
    const struct schedule schedule = {
        .records = { 60000, 10000 }, .batch = 128, .towers = 3, .epochs = 12
    };
    assert_int_equal(schedule_steps_per_epoch(&schedule), 469);
    assert_int_equal(schedule_batches_per_evaluation(&schedule), 79);
    assert_int_equal(schedule_step_count(&schedule), 5628);
    assert_int_equal(schedule_batch_count(&schedule), 12 * (469 + 79));
    assert_int_equal(schedule_local_max(&schedule), 43);
    struct local_batch local;
    assert_int_equal(schedule_find(&schedule, 468, 2, &local), 0);      /* the partial batch */
    assert_int_equal(local.global_count, 96);
    assert_int_equal(local.count, 32);
    assert_int_equal(local.first_position, 60000 - 32);
    assert_true(local.last_of_phase);
}

TEST(pairs_are_never_parted)
{
    const struct schedule schedule = { .records = { 107, 0 }, .batch = 100, .towers = 3, .epochs = 1, .pairs = true };
    static const uint32_t counts[2][3] = { { 34, 34, 32 }, { 4, 2, 1 } };
    struct local_batch local;
    assert_int_equal(schedule_local_max(&schedule), 34);
    for (uint64_t number = 0; number < 2; number++)
        for (uint32_t tower = 0; tower < 3; tower++) {
            assert_int_equal(schedule_find(&schedule, number, tower, &local), 0);
            assert_int_equal(local.count, counts[number][tower]);
        }
}

TEST(steps_ending_inside_an_epoch_end_with_an_evaluation)
{
    const struct schedule schedule = { .records = { 100, 10 }, .batch = 10, .towers = 1, .epochs = 5, .steps = 13 };
    struct local_batch local;
    assert_int_equal(schedule_batch_count(&schedule), 13 + 2);
    assert_int_equal(schedule_find(&schedule, 13, 0, &local), 0);
    assert_int_equal(local.phase, PHASE_TRAIN);
    assert_int_equal(local.step, 12);
    assert_true(local.last_of_phase);
    assert_int_equal(schedule_find(&schedule, 14, 0, &local), 0);
    assert_int_equal(local.phase, PHASE_EVALUATE);
    assert_int_equal(local.epoch, 1);
    assert_int_equal(schedule_find(&schedule, 15, 0, &local), -ENODATA);
}

TEST(after_the_last_step_of_an_epoch_are_two_places)
{
    const struct schedule schedule = { .records = { 95, 12 }, .batch = 10, .towers = 1, .epochs = 3 };
    const uint64_t per_epoch = 10 + 2;
    uint64_t number;
    assert_int_equal(schedule_seek(&schedule, (struct position){ 1, 17, 0 }, &number), 0);
    assert_int_equal(number, per_epoch + 7);
    assert_int_equal(schedule_seek(&schedule, (struct position){ 1, 20, 0 }, &number), 0);
    assert_int_equal(number, per_epoch + 10);           /* the evaluation is next */
    assert_int_equal(schedule_seek(&schedule, (struct position){ 1, 20, 1 }, &number), 0);
    assert_int_equal(number, per_epoch + 11);           /* it is begun */
    assert_int_equal(schedule_seek(&schedule, (struct position){ 2, 20, 0 }, &number), 0);
    assert_int_equal(number, 2 * per_epoch);            /* it is done */
    assert_int_equal(schedule_seek(&schedule, (struct position){ 3, 30, 0 }, &number), 0);
    assert_int_equal(number, schedule_batch_count(&schedule));
}

TEST(places_the_run_does_not_have_are_refused)
{
    const struct schedule schedule = { .records = { 95, 12 }, .batch = 10, .towers = 1, .epochs = 3, .steps = 25 };
    static const struct position bad[] = {
        { 0, 11, 0 }, { 1, 9, 0 }, { 1, 21, 0 }, { 2, 26, 0 }, { 3, 25, 0 }, { 3, 30, 0 }, { 4, 40, 0 },
        { UINT32_MAX, UINT64_MAX, 0 }, { UINT32_MAX, 0, 0 }, { 0, UINT64_MAX, 0 }, { 0, 10, 3 }, { 2, 25, 3 },
        { 0, 10, UINT64_MAX },
    };
    uint64_t number = 77;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(schedule_seek(&schedule, bad[i], &number), -EINVAL);
    assert_int_equal(number, 77);
}

TEST(a_shorter_and_a_longer_run_agree_on_the_places_they_both_have)
{
    struct schedule shorter = { .records = { 95, 12 }, .batch = 10, .towers = 1, .epochs = 3, .steps = 17 };
    struct schedule longer = shorter;
    longer.steps = 30;
    uint64_t number;
    struct local_batch local;
    const struct position end = schedule_position(&shorter, schedule_batch_count(&shorter));
    assert_int_equal(schedule_seek(&longer, end, &number), 0);
    assert_int_equal(schedule_find(&longer, number, 0, &local), 0);
    assert_int_equal(local.phase, PHASE_TRAIN);
    assert_int_equal(local.step, 17);
}

TEST(a_run_without_a_full_batch_has_no_batches)
{
    const struct schedule schedule = {
        .records = { 9, 5 }, .batch = 10, .towers = 2, .epochs = 3, .drop_last = true
    };
    struct local_batch local;
    assert_int_equal(schedule_steps_per_epoch(&schedule), 0);
    assert_int_equal(schedule_step_count(&schedule), 0);
    assert_int_equal(schedule_batch_count(&schedule), 0);
    assert_int_equal(schedule_find(&schedule, 0, 0, &local), -ENODATA);
}

TEST(without_training_records_there_is_one_evaluation)
{
    const struct schedule schedule = { .records = { 0, 25 }, .batch = 10, .towers = 2, .epochs = 3 };
    static const uint32_t counts[3][2] = { { 5, 5 }, { 5, 5 }, { 3, 2 } };
    struct local_batch local;
    assert_int_equal(schedule_step_count(&schedule), 0);
    assert_int_equal(schedule_batch_count(&schedule), 3);
    for (uint64_t number = 0; number < 3; number++)
        for (uint32_t tower = 0; tower < 2; tower++) {
            assert_int_equal(schedule_find(&schedule, number, tower, &local), 0);
            assert_int_equal(local.phase, PHASE_EVALUATE);
            assert_int_equal(local.epoch, 0);
            assert_int_equal(local.step, number);
            assert_int_equal(local.count, counts[number][tower]);
            assert_int_equal(local.first_position, number * 10 + tower * counts[number][0]);
            assert_int_equal(local.first_of_phase, number == 0);
            assert_int_equal(local.last_of_phase, number == 2);
        }
    assert_int_equal(schedule_find(&schedule, 3, 0, &local), -ENODATA);
}

TEST(numbers_may_be_large)
{
    const uint64_t records = 1ull << 40;
    const struct schedule schedule = {
        .records = { records, 0 }, .batch = UINT32_MAX, .towers = 1000, .epochs = 100000
    };
    const uint64_t steps = schedule_steps_per_epoch(&schedule);
    struct local_batch local;
    assert_int_equal(steps, 257);
    assert_int_equal(schedule_find(&schedule, steps * 99999 + 256, 999, &local), 0);
    assert_int_equal(local.epoch, 99999);
    assert_int_equal(local.first_position + local.count, records);
    assert_int_equal(schedule_find(&schedule, steps * 100000, 0, &local), -ENODATA);
}

/* ---- slices ---- */

TEST(towers_share_slices_by_whole_subtrees)
{
    static const struct { uint32_t slices; const char *fitting; } rows[] = {
        { 1, "1" }, { 2, "12" }, { 3, "13" }, { 4, "124" }, { 5, "15" }, { 6, "136" }, { 7, "17" }, { 8, "1248" },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        for (uint32_t towers = 1; towers <= 9; towers++)
            assert_int_equal(schedule_slices_fit(rows[i].slices, towers),
                             strchr(rows[i].fitting, (int)('0' + towers)) != NULL);
    assert_true(schedule_slices_fit(12, 3));
    assert_false(schedule_slices_fit(12, 2));
    assert_false(schedule_slices_fit(12, 4));
}

/* The towers' samples are those of their slices, which are the same for any number of towers. */
TEST(slices_do_not_depend_on_the_towers)
{
    for (uint32_t samples = 1; samples <= 40; samples++)
        for (uint32_t towers = 1; towers <= 8; towers *= 2)
            for (int pairs = 0; pairs < 2; pairs++) {
                const struct schedule schedule = { .records = { samples }, .batch = samples, .towers = towers,
                                                   .slices = 8, .epochs = 1, .pairs = pairs };
                uint32_t next = 0;
                for (uint32_t local = 0; local < 8; local++) {
                    struct local_batch own;
                    const struct batch_part part = batch_part_find(samples, pairs, 8, local);
                    assert_int_equal(part.first, next);
                    assert_true(part.count <= batch_part_find(samples, pairs, 8, 0).count);
                    assert_true(!pairs || part.count % 2 == 0 || part.first + part.count == samples);
                    assert_int_equal(schedule_find(&schedule, 0, local * towers / 8, &own), 0);
                    assert_true(own.first_position <= part.first);
                    assert_true(own.first_position + own.count >= part.first + part.count);
                    const uint32_t unit = pairs ? 2 : 1, most = schedule_local_max(&schedule);
                    assert_true(own.count <= most);
                    assert_true(own.count + unit >= most || own.first_position + own.count == samples);
                    next += part.count;
                }
                assert_int_equal(next, samples);
            }
}

TEST(a_batch_is_divided_among_65536_towers)
{
    static const uint32_t batches[] = { 65536, 65537, 100000, 1u << 20, 40000 };
    for (size_t i = 0; i < sizeof(batches) / sizeof(*batches); i++)
        for (int pairs = 0; pairs < 2; pairs++) {
            const struct schedule schedule = { .records = { batches[i] }, .batch = batches[i], .epochs = 1,
                                               .towers = RUN_TOWERS_MAX, .pairs = pairs };
            uint64_t next = 0;
            for (uint32_t tower = 0; tower < RUN_TOWERS_MAX; tower++) {
                struct local_batch local;
                const struct batch_part part = batch_part_find(batches[i], pairs, RUN_TOWERS_MAX, tower);
                assert_int_equal(schedule_find(&schedule, 0, tower, &local), 0);
                assert_int_equal(local.first_position, next);
                assert_true(local.count <= schedule_local_max(&schedule));
                assert_true((uint64_t)part.first + part.count <= batches[i]);
                next += local.count;
            }
            assert_int_equal(next, batches[i]);
        }
    assert_true(schedule_slices_fit(1u << 20, RUN_TOWERS_MAX));
    assert_false(schedule_slices_fit(RUN_TOWERS_MAX - 1, RUN_TOWERS_MAX));
}

/* A tree by its definition: neighbours are added in pairs until one is left. */
TEST(sums_in_pairs_are_those_of_a_tree)
{
    for (uint32_t count = 1; count <= 70; count++) {
        double level[70];
        struct pairwise_sum sum = { .count = 0 };
        for (uint32_t i = 0; i < count; i++) {
            level[i] = 1.0 / (i + 3);
            pairwise_add(&sum, level[i]);
        }
        for (uint32_t left = count; left > 1; left = (left + 1) / 2)
            for (uint32_t i = 0; 2 * i < left; i++)
                level[i] = 2 * i + 1 < left ? level[2 * i] + level[2 * i + 1] : level[2 * i];
        assert_memory_equal(&level[0], &(double){ pairwise_total(&sum) }, sizeof(double));
    }
    assert_true(pairwise_total(&(struct pairwise_sum){ .count = 0 }) == 0);
    assert_int_equal(pairwise_left(2), 1);
    assert_int_equal(pairwise_left(5), 4);
    assert_int_equal(pairwise_left(8), 4);
}

TEST(evaluations_without_training_may_be_repeated)
{
    struct schedule schedule = { .records[PHASE_EVALUATE] = 21, .batch = 8, .towers = 2, .epochs = 1,
                                 .evaluations = 4 };
    struct local_batch local;
    uint64_t number;
    assert_int_equal(schedule_batch_count(&schedule), 12);
    for (uint64_t n = 0; n < 12; n++) {
        assert_int_equal(schedule_find(&schedule, n, 1, &local), 0);
        assert_int_equal(local.phase, PHASE_EVALUATE);
        assert_int_equal(local.epoch, n / 3);
        assert_int_equal(local.step, n % 3);
        assert_int_equal(local.last_of_phase, n % 3 == 2);
        assert_int_equal(local.count, n % 3 == 2 ? 2 : 4);
    }
    assert_int_equal(schedule_find(&schedule, 12, 1, &local), -ENODATA);
    schedule.evaluations = 0;
    assert_int_equal(schedule_batch_count(&schedule), 3);
    assert_int_equal(schedule_seek(&schedule, (struct position){ 0, 0, 2 }, &number), 0);
    assert_int_equal(number, 2);
}

TESTS_MAIN(NULL, NULL)
