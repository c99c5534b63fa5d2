/* Tests of the sums of memory and of what is refused. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "loader/images/image_memory.h"
#include "tests/helpers/test.h"
#include "tools/lib/run/memory_needs.h"

#define MIB ((size_t)1 << 20)

static struct settings settings;
static struct memory_needs memory;
static struct memory_there there;
static struct problems problems;

static const struct trainer_needs needs = {
    .tower = { .arenas = 10 * MIB, .backend = { .values = 100 * MIB, .workspace = 3 * MIB, .weights = 2 * MIB } },
    .snapshots = 5 * MIB,
    .reduction = 4 * MIB,
    .samples = 50,
};

static int begin(void **state)
{
    (void)state;
    memory = (struct memory_needs){ .device_count = 0 };
    there = (struct memory_there){ .host = SIZE_MAX };
    problems_init(&problems);
    return settings_init(&settings);
}

static int end(void **state)
{
    (void)state;
    problems_release(&problems);
    settings_release(&settings);
    return 0;
}

static int check(void)
{
    problems_release(&problems);
    return memory_needs_check(&memory, &settings, &there, NULL, &problems);
}

TEST_WITH(towers_on_the_host_add_up_there, begin, end)
{
    memory_share_add(&memory.host, MEMORY_BATCHES, MIB);
    memory_needs_add_tower(&memory, 0, &needs);
    memory_needs_add_tower(&memory, 1, &needs);
    assert_int_equal(memory_needs_bytes(&memory), MIB + 2 * 124 * MIB);
    assert_int_equal(memory.samples, 100);
    there.host = memory_needs_bytes(&memory);
    assert_int_equal(check(), 0);
    there.host--;
    assert_int_equal(check(), -ENOMEM);
    assert_int_equal(problems.count, 1);
}

TEST_WITH(towers_that_share_a_device_add_up_on_it, begin, end)
{
    static const struct run_devices names = { .ops = &device_host_ops, .index = { 3, 5 } };
    memory.device_count = 2;
    memory.names = &names;
    for (uint32_t d = 0; d < 3; d++)
        memory_needs_add_tower(&memory, d % 2, &needs);
    there.host = 3 * 9 * MIB;
    there.devices[0] = 2 * 115 * MIB;
    there.devices[1] = 115 * MIB;
    assert_int_equal(check(), 0);
    there.devices[0]--;
    assert_int_equal(check(), -ENOMEM);
    assert_non_null(strstr(problems.lines[0], " of cpu3 "));
    there.devices[1]--;
    there.host--;
    assert_int_equal(check(), -ENOMEM);
    assert_int_equal(problems.count, 3);
}

TEST_WITH(what_a_reduction_exchanges_is_on_the_device, begin, end)
{
    static const struct run_devices names = { .ops = &device_host_ops, .index = { 0 } };
    struct trainer_needs exchanges = needs;
    exchanges.exchange = 7 * MIB;
    memory.device_count = 1;
    memory.names = &names;
    memory_needs_add_tower(&memory, 0, &exchanges);
    there.host = 9 * MIB;
    there.devices[0] = (115 + 7) * MIB;
    assert_int_equal(check(), 0);
    there.devices[0]--;
    assert_int_equal(check(), -ENOMEM);
    assert_non_null(strstr(problems.lines[0], " of cpu0 ("));
    assert_non_null(strstr(problems.lines[0], "reduction 7.0 MiB"));
}

TEST_WITH(the_budget_counts_where_it_is_smaller, begin, end)
{
    memory_needs_add_tower(&memory, 0, &needs);
    settings.input.ram_budget = (int64_t)(124 * MIB);
    assert_int_equal(check(), 0);
    settings.input.ram_budget--;
    assert_int_equal(check(), -ENOMEM);
    assert_non_null(strstr(problems.lines[0], "ram_budget"));
    there.host = MIB;
    assert_int_equal(check(), -ENOMEM);
    assert_null(strstr(problems.lines[0], "ram_budget"));
}

TEST_WITH(a_refusal_names_what_is_needed_and_a_batch_that_fits, begin, end)
{
    memory_needs_add_tower(&memory, 0, &needs);
    there.host = 24 * MIB + 50 * MIB;
    assert_int_equal(check(), -ENOMEM);
    static const char *const parts[] = { "124.0 MiB", "74.0 MiB", "weights and states 10.0 MiB",
                                         "activations 100.0 MiB", "snapshots", "a batch of 25 would fit" };
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        assert_non_null(strstr(problems.lines[0], parts[i]));
    assert_null(strstr(problems.lines[0], "loader"));
    there.host = 24 * MIB;
    assert_int_equal(check(), -ENOMEM);
    assert_null(strstr(problems.lines[0], "would fit"));
}

TEST_WITH(who_limits_the_host_is_reported, begin, end)
{
    memory_needs_add_tower(&memory, 0, &needs);
    there.host = MIB;
    there.host_says = "the full moon leaves";
    assert_int_equal(check(), -ENOMEM);
    assert_non_null(strstr(problems.lines[0], ", the full moon leaves 1.0 MiB: no batch fits"));
}

TEST_WITH(sizes_that_would_look_the_same_are_printed_to_the_byte, begin, end)
{
    memory_needs_add_tower(&memory, 0, &needs);
    there.host = 124 * MIB - 1;
    assert_int_equal(check(), -ENOMEM);
    assert_non_null(strstr(problems.lines[0], "the run needs 130,023,424 B ("));
    assert_non_null(strstr(problems.lines[0], "available are 130,023,423 B"));
}

/* Of a tower that needs 124 MiB, and batches and slots that need 16. */
TEST_WITH(settings_are_named_only_where_they_alone_would_do, begin, end)
{
    memory_share_add(&memory.host, MEMORY_BATCHES, 8 * MIB);
    memory_share_add(&memory.host, MEMORY_SLOTS, 8 * MIB);
    memory_needs_add_tower(&memory, 0, &needs);
    settings.input.prefetch_depth = 4;
    settings.input.staging_depth = 2;
    const struct { size_t excess; bool prefetch, staging; } cases[] = {
        { 4 * MIB, true, true }, { 6 * MIB, true, false }, { 6 * MIB + 1, false, false } };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        there.host = 140 * MIB - cases[i].excess;
        assert_int_equal(check(), -ENOMEM);
        assert_int_equal(strstr(problems.lines[0], "prefetch_depth") != NULL, cases[i].prefetch);
        assert_int_equal(strstr(problems.lines[0], "staging_depth") != NULL, cases[i].staging);
        assert_null(strstr(problems.lines[0], "input.source"));
    }
}

TEST_WITH(sums_that_overflow_are_refused, begin, end)
{
    struct trainer_needs huge = needs;
    huge.tower.backend.values = SIZE_MAX / 2;
    for (uint32_t d = 0; d < 4; d++)
        memory_needs_add_tower(&memory, 0, &huge);
    assert_true(memory_needs_bytes(&memory) == SIZE_MAX);
    there.host = SIZE_MAX / 4;
    assert_int_equal(check(), -ENOMEM);
}

TEST_WITH(what_a_tower_needs_fits_a_terminal, begin, end)
{
    char text[512] = "";
    FILE *out = fmemopen(text, sizeof(text), "w");
    assert_non_null(out);
    memory_needs_print_tower(&needs, 3, out);
    fclose(out);
    assert_string_equal(text, "          tower 3: 50 samples, 124.0 MiB: weights and states 10.0 MiB,\n"
                              "          activations 100.0 MiB, workspace 3.0 MiB, copies of weights 2.0 MiB,\n"
                              "          snapshots 5.0 MiB, reduction 4.0 MiB\n");
}

/* Large images take what is left, where nobody says how large they are. */
TEST_WITH(images_take_what_the_rest_leaves, begin, end)
{
    const size_t all = image_memory_need(IMAGE_PIXELS_MAX);
    memory_share_add(&memory.host, MEMORY_BATCHES, 10 * MIB);
    memory_needs_fit_images(&memory, &settings, &there);
    assert_int_equal(memory_needs_bytes(&memory), 10 * MIB);       /* no image is encoded */
    memory_needs_add_images(&memory, &settings);
    memory_needs_fit_images(&memory, &settings, &there);
    assert_int_equal(memory_needs_bytes(&memory), 10 * MIB + all);
    there.host = 100 * MIB;
    memory_needs_fit_images(&memory, &settings, &there);
    assert_int_equal(memory.host.bytes[MEMORY_IMAGES], 90 * MIB);
    assert_int_equal(check(), 0);
    settings.input.ram_budget = 50 * MIB;
    memory_needs_fit_images(&memory, &settings, &there);
    assert_int_equal(memory.host.bytes[MEMORY_IMAGES], 40 * MIB);
    settings.input.ram_budget = 11 * MIB;
    memory_needs_fit_images(&memory, &settings, &there);
    assert_int_equal(memory.host.bytes[MEMORY_IMAGES], 16 * MIB);
    assert_int_equal(check(), -ENOMEM);
    settings.input.ram_budget = 9 * MIB;        /* less than the rest */
    memory.host.bytes[MEMORY_IMAGES] = all;
    memory_needs_fit_images(&memory, &settings, &there);
    assert_int_equal(memory.host.bytes[MEMORY_IMAGES], 16 * MIB);
    settings.input.ram_budget = 11 * MIB;
    memory.host.bytes[MEMORY_IMAGES] = 0;
    settings.input.max_pixels = 8 << 20;
    memory_needs_add_images(&memory, &settings);
    memory_needs_fit_images(&memory, &settings, &there);           /* what was asked for is not cut */
    assert_int_equal(memory.host.bytes[MEMORY_IMAGES], image_memory_need(8 << 20));
    assert_int_equal(image_memory_pixels(), 8 << 20);
    assert_int_equal(check(), -ENOMEM);
    assert_non_null(strstr(problems.lines[0], "or use a smaller input.max_pixels"));
    image_memory_limit((struct image_limits){ IMAGE_PIXELS_MAX, SIZE_MAX });
}

TESTS_MAIN(NULL, NULL)
