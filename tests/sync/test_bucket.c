/* Tests of the buckets: they cover the arena exactly, in order, and cut no parameter. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stage/random.h"
#include "sync/bucket.h"
#include "tests/helpers/test.h"

enum { ALIGN_FLOATS = 16, PARAMETERS_MAX = 900 };

/* An arena as compute lays it out: the last parameter lies first. */
struct sample_arena {
    struct arena arena;
    struct arena_range ranges[PARAMETERS_MAX];
};

static void arena_draw(struct sample_arena *sample, uint32_t parameters, uint32_t floats_max, uint64_t seed)
{
    const struct random_key key = random_key(seed, RANDOM_DRAW, 0);
    size_t offset = 0;
    for (uint32_t i = parameters; i-- > 0;) {
        const size_t count = 1 + random_u64(key, i) % floats_max;
        sample->ranges[i] = (struct arena_range){ .offset = offset, .count = count };
        offset += (count + ALIGN_FLOATS - 1) / ALIGN_FLOATS * ALIGN_FLOATS;
    }
    sample->arena = (struct arena){ .parameter_count = parameters, .ranges = sample->ranges, .shared = offset,
                                    .updated = offset, .count = offset + 64 };       /* the rest is frozen */
}

static bool is_parameter_start(const struct arena *arena, size_t offset)
{
    for (uint32_t i = 0; i < arena->parameter_count; i++)
        if (arena->ranges[i].offset == offset)
            return true;
    return false;
}

/* The arena's buckets as those of its gradients. */
static void buckets_make(struct buckets *buckets, const struct arena *arena, size_t bucket_bytes)
{
    buckets->count = 0;
    memset(buckets->of, 0, sizeof(buckets->of));
    buckets_add(buckets, REGION_GRADIENTS, arena, bucket_bytes);
    assert_int_equal(buckets->of[REGION_GRADIENTS].count, buckets->count);
}

/* What holds for any arena and any wish. */
static void assert_covers(const struct buckets *buckets, const struct arena *arena)
{
    size_t end = 0;
    assert_in_range(buckets->count, 1, REGION_BUCKETS_MAX);
    for (uint32_t b = 0; b < buckets->count; b++) {
        assert_int_equal(buckets->bucket[b].offset, end);
        assert_true(buckets->bucket[b].count > 0);
        assert_true(is_parameter_start(arena, end));
        end += buckets->bucket[b].count;
    }
    assert_int_equal(end, arena->shared);
}

TEST(buckets_cover_every_arena_in_order_and_cut_no_parameter)
{
    static struct sample_arena sample;
    static struct buckets buckets;
    for (uint64_t seed = 0; seed < 60; seed++) {
        arena_draw(&sample, 1 + (uint32_t)(seed * 7 % 40), seed % 2 == 0 ? 40 : 3000, seed);
        for (size_t bytes = 1; bytes < (size_t)1 << 24; bytes = bytes * 3 + 5) {
            buckets_make(&buckets, &sample.arena, bytes);
            assert_covers(&buckets, &sample.arena);
        }
    }
}

TEST(buckets_are_as_large_as_asked_and_no_larger_than_a_parameter_more)
{
    static struct sample_arena sample;
    static struct buckets buckets;
    for (uint64_t seed = 0; seed < 20; seed++) {
        arena_draw(&sample, 100, 500, seed);
        for (size_t floats = 1; floats < 20000; floats = floats * 2 + 1) {
            buckets_make(&buckets, &sample.arena, floats * sizeof(float));
            for (uint32_t b = 0; b < buckets.count; b++) {
                const struct bucket *bucket = &buckets.bucket[b];
                if (b + 1 < buckets.count)
                    assert_true(bucket->count >= floats);
                assert_true(bucket->count < floats + 500 + ALIGN_FLOATS);
            }
        }
    }
}

TEST(one_bucket_holds_everything_when_it_is_large_enough)
{
    static struct sample_arena sample;
    static struct buckets buckets;
    arena_draw(&sample, 20, 1000, 3);
    const size_t wishes[] = { sample.arena.updated * sizeof(float), (size_t)1 << 40, SIZE_MAX };
    for (size_t i = 0; i < sizeof(wishes) / sizeof(wishes[0]); i++) {
        buckets_make(&buckets, &sample.arena, wishes[i]);
        assert_int_equal(buckets.count, 1);
        assert_covers(&buckets, &sample.arena);
    }
}

TEST(smallest_buckets_hold_a_parameter_each)
{
    static struct sample_arena sample;
    static struct buckets buckets;
    arena_draw(&sample, REGION_BUCKETS_MAX, 100, 4);
    buckets_make(&buckets, &sample.arena, 1);
    assert_int_equal(buckets.count, REGION_BUCKETS_MAX);
    assert_covers(&buckets, &sample.arena);
}

TEST(more_parameters_than_buckets_share_them)
{
    static struct sample_arena sample;
    static struct buckets buckets;
    for (uint32_t parameters = REGION_BUCKETS_MAX + 1; parameters <= PARAMETERS_MAX; parameters += 71) {
        arena_draw(&sample, parameters, parameters % 2 ? 8 : 5000, parameters);
        buckets_make(&buckets, &sample.arena, 1);
        assert_covers(&buckets, &sample.arena);
        assert_true(buckets.count > 1);
    }
}

/* Parameters of 64 KiB: cuts are where they are wanted. */
TEST(automatic_buckets_are_one_or_grow)
{
    enum { FLOATS = 16384, PARAMETERS = 1200 };
    static struct buckets buckets;
    static struct arena_range ranges[PARAMETERS];
    static const size_t grown[] = { 16, 32, 64, 128, 256, 256, 256 };      /* parameters */
    struct arena arena = { .ranges = ranges };
    for (uint32_t i = 0; i < PARAMETERS; i++)
        ranges[i] = (struct arena_range){ (size_t)i * FLOATS, FLOATS };
    for (arena.parameter_count = 1; arena.parameter_count <= PARAMETERS; arena.parameter_count++) {
        arena.shared = arena.updated = arena.count = (size_t)arena.parameter_count * FLOATS;
        buckets_make(&buckets, &arena, BUCKET_AUTO);
        assert_covers(&buckets, &arena);
        if (arena.parameter_count <= 32)
            assert_int_equal(buckets.count, 1);
        for (uint32_t b = 0; b + 1 < buckets.count; b++)
            assert_int_equal(buckets.bucket[b].count, grown[b] * FLOATS);
    }
    assert_int_equal(buckets.count, 8);
}

/* Buckets that grow would be too many, too. */
TEST(automatic_buckets_of_large_arenas_are_not_too_many)
{
    static struct buckets buckets;
    static struct arena_range ranges[PARAMETERS_MAX];
    struct arena arena = { .parameter_count = PARAMETERS_MAX, .ranges = ranges };
    for (uint32_t i = 0; i < PARAMETERS_MAX; i++)
        ranges[i] = (struct arena_range){ (size_t)i << 24, (size_t)1 << 24 };
    arena.shared = arena.updated = arena.count = (size_t)PARAMETERS_MAX << 24;
    buckets_make(&buckets, &arena, BUCKET_AUTO);
    assert_covers(&buckets, &arena);
}

/* The first parameters, which come last in the arena, are parts that this tower alone has. */
TEST(parts_of_one_tower_are_in_no_bucket)
{
    static struct sample_arena sample;
    static struct buckets buckets;
    for (uint64_t seed = 0; seed < 20; seed++) {
        arena_draw(&sample, 10, 3000, seed);
        sample.arena.shared = sample.ranges[seed % 10].offset;
        if (sample.arena.shared == 0)
            continue;
        for (size_t bytes = 1; bytes < (size_t)1 << 20; bytes *= 5) {
            buckets_make(&buckets, &sample.arena, bytes);
            assert_covers(&buckets, &sample.arena);
        }
    }
}

TEST(exchanges_are_a_bucket_each_with_a_piece_for_each_tower)
{
    static struct buckets buckets;
    buckets.count = 0;
    memset(buckets.of, 0, sizeof(buckets.of));
    buckets_add_exchange(&buckets, 32, 7, 4, BUCKET_ALL_GATHER);
    buckets_add_exchange(&buckets, 16, 0, 4, BUCKET_REDUCE_SCATTER);
    assert_int_equal(buckets.of[REGION_OUTSIDE].count, 2);
    assert_int_equal(buckets.bucket[0].use, BUCKET_ALL_GATHER);
    assert_int_equal(buckets.bucket[0].offset, 32);
    assert_int_equal(buckets.bucket[0].count, 28);
    assert_int_equal(buckets.bucket[1].count, 0);
    const struct bucket pieces = bucket_pieces(&buckets.bucket[0], 1, 2);
    assert_int_equal(pieces.offset, 39);
    assert_int_equal(pieces.count, 14);
}

TEST(a_net_without_parameters_has_one_empty_bucket)
{
    static struct buckets buckets;
    const struct arena arena = { .parameter_count = 0 };
    buckets_make(&buckets, &arena, 1 << 20);
    assert_int_equal(buckets.count, 1);
    assert_int_equal(buckets.bucket[0].offset, 0);
    assert_int_equal(buckets.bucket[0].count, 0);
}

TEST(regions_follow_each_other_and_each_is_cut_alike)
{
    static struct sample_arena sample;
    static struct buckets buckets;
    arena_draw(&sample, 40, 700, 5);
    buckets.count = 0;
    buckets_add(&buckets, REGION_WEIGHTS, &sample.arena, 4096);
    buckets_add_whole(&buckets, REGION_STATISTICS, 77, BUCKET_ALL_REDUCE);
    buckets_add(&buckets, REGION_STATES + 1, &sample.arena, 4096);
    const struct bucket_run weights = buckets.of[REGION_WEIGHTS], states = buckets.of[REGION_STATES + 1];
    assert_int_equal(weights.count, states.count);
    assert_true(weights.count > 1);
    assert_int_equal(buckets.of[REGION_STATISTICS].first, weights.count);
    assert_int_equal(buckets.of[REGION_STATISTICS].count, 1);
    assert_int_equal(buckets.of[REGION_GRADIENTS].count, 0);
    assert_int_equal(states.first + states.count, buckets.count);
    assert_int_equal(buckets.bucket[weights.count].region, REGION_STATISTICS);
    assert_int_equal(buckets.bucket[weights.count].count, 77);
    for (uint32_t b = 0; b < weights.count; b++) {
        const struct bucket *const weight = &buckets.bucket[weights.first + b];
        const struct bucket *const other = &buckets.bucket[states.first + b];
        assert_int_equal(weight->region, REGION_WEIGHTS);
        assert_int_equal(other->region, REGION_STATES + 1);
        assert_int_equal(weight->offset, other->offset);
        assert_int_equal(weight->count, other->count);
    }
}

/* Sum of the buckets of each tower; no tower has more than another by more than the largest bucket. */
TEST(buckets_are_owned_by_those_that_have_least)
{
    static struct sample_arena sample;
    static struct buckets buckets;
    static const uint32_t towers[] = { 1, 2, 3, 5, 8 };
    arena_draw(&sample, 60, 5000, 6);
    for (size_t i = 0; i < sizeof(towers) / sizeof(towers[0]); i++) {
        size_t loads[8] = { 0 }, largest = 0;
        buckets_make(&buckets, &sample.arena, 4096);
        buckets_share_out(&buckets, towers[i]);
        for (uint32_t b = 0; b < buckets.count; b++) {
            const struct bucket *const bucket = &buckets.bucket[b];
            assert_int_equal(bucket->use, BUCKET_REDUCE);
            assert_true(bucket->owner < towers[i]);
            loads[bucket->owner] += bucket->count;
            largest = bucket->count > largest ? bucket->count : largest;
        }
        for (uint32_t a = 0; a < towers[i]; a++)
            for (uint32_t b = 0; b < towers[i]; b++)
                assert_true(loads[a] <= loads[b] + largest);
    }
}

/* With more towers than buckets the first ones own a bucket each. */
TEST(owners_are_found_among_65536_towers)
{
    static struct sample_arena sample;
    static struct buckets buckets;
    arena_draw(&sample, PARAMETERS_MAX, 500, 11);
    buckets_make(&buckets, &sample.arena, 1);
    assert_in_range(buckets.count, 64, REGION_BUCKETS_MAX);
    buckets_share_out(&buckets, 65536);
    for (uint32_t b = 0; b < buckets.count; b++)
        assert_int_equal(buckets.bucket[b].owner, b);
}

TEST(broadcasts_go_the_same_ranges_from_the_same_owners)
{
    static struct sample_arena sample;
    static struct buckets buckets;
    arena_draw(&sample, 40, 700, 7);
    buckets_make(&buckets, &sample.arena, 4096);
    buckets_share_out(&buckets, 3);
    const struct bucket_run gradients = buckets.of[REGION_GRADIENTS];
    buckets_add_broadcast(&buckets, REGION_WEIGHTS);
    assert_int_equal(buckets.of[REGION_WEIGHTS].first, gradients.count);
    assert_int_equal(buckets.of[REGION_WEIGHTS].count, gradients.count);
    for (uint32_t b = 0; b < gradients.count; b++) {
        const struct bucket *const from = &buckets.bucket[b], *const to = &buckets.bucket[gradients.count + b];
        assert_int_equal(to->region, REGION_WEIGHTS);
        assert_int_equal(to->use, BUCKET_BROADCAST);
        assert_int_equal(to->owner, from->owner);
        assert_int_equal(to->offset, from->offset);
        assert_int_equal(to->count, from->count);
    }
}

int main(void)
{
    alarm(60);
    return tests_run(NULL, NULL);
}
