/* Tests of a run's first lines: whatever devices and libraries are called, they are all there,
 * and no line is longer than a terminal is wide. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "tests/helpers/test.h"
#include "tools/lib/config/config.h"
#include "tools/lib/run/about.h"

#define ABSENT 7u               /* a device that cannot be asked */

static const char *device_name;

static int describe(uint32_t index, struct device_description *description_out)
{
    if (index == ABSENT)
        return -ENODEV;
    snprintf(description_out->name, sizeof(description_out->name), "%s", device_name);
    snprintf(description_out->more, sizeof(description_out->more), "compute capability %u.0", index < 2 ? 8u : 9u);
    description_out->memory_bytes = (uint64_t)80 << 30;
    return 0;
}

static void long_version(char *text, size_t text_size)
{
    snprintf(text, text_size, "10.11.12+a-suffix");
}

static const struct library rows[] = { { "library one", long_version, "libone.so" },
                                      { "two", long_version, "libtwo.so" },
                                      { NULL, NULL, NULL } };
static const struct device_ops device_ops = { .kind = "test", .libraries = rows, .describe = describe };
static const struct backend_ops backend_ops = { .name = "test", .libraries = rows };
static const struct reduce_ops reduce_ops = { .name = "test", .libraries = NULL };

static struct run_devices plan_of(uint32_t count)
{
    struct run_devices plan = { .ops = &device_ops, .backend = &backend_ops, .reduce = &reduce_ops, .count = count };
    for (uint32_t i = 0; i < count; i++)
        plan.index[i] = i;
    return plan;
}

/* What is printed, until the next call. */
static const char *printed(const struct run_devices *plan, bool reads)
{
    static char text[4096];
    FILE *const out = fmemopen(text, sizeof(text), "w");
    assert_non_null(out);
    about_print(plan, reads, out);
    assert_int_equal(fclose(out), 0);
    return text;
}

static size_t longest_line(const char *text)
{
    size_t longest = 0;
    for (size_t bytes; *text != '\0'; text += bytes + 1) {
        bytes = strcspn(text, "\n");
        longest = bytes > longest ? bytes : longest;
    }
    return longest;
}

TEST(no_line_is_longer_than_80_columns)
{
    static char name[128];
    device_name = name;
    for (size_t length = 1; length < sizeof(name); length++) {
        name[length - 1] = 'n';
        for (uint32_t count = 1; count <= 3; count++) {
            const struct run_devices plan = plan_of(count);
            const char *const text = printed(&plan, true);
            assert_true(longest_line(text) <= 80);
            assert_true(strstr(text, "nn") != NULL || length < 2);
        }
    }
}

TEST(equal_devices_share_a_line)
{
    device_name = "GPU";
    const struct run_devices plan = plan_of(5);
    const char *const text = printed(&plan, false);
    const char *const expected = "device    2 x GPU, compute capability 8.0, 80.0 GiB memory each\n"
                                 "device    3 x GPU, compute capability 9.0, 80.0 GiB memory each\n"
                                 "libraries library one 10.11.12+a-suffix, two 10.11.12+a-suffix,\n"
                                 "          library one 10.11.12+a-suffix, two 10.11.12+a-suffix\n";
    assert_string_equal(text, expected);
}

TEST(a_device_that_cannot_be_asked_is_left_out)
{
    device_name = "GPU";
    struct run_devices plan = plan_of(1);
    plan.index[0] = ABSENT;
    plan.backend = &backend_null_ops;
    const char *const text = printed(&plan, false);
    assert_memory_equal(text, "libraries ", strlen("libraries "));
}

TEST(without_libraries_there_is_no_line_of_them)
{
    const struct run_devices plan = { .ops = &device_null_ops, .backend = &backend_null_ops, .reduce = &reduce_ops,
                                      .count = 3 };
    const char *const text = printed(&plan, false);
    assert_null(strstr(text, "libraries"));
    assert_int_equal(strchr(text, '\n') - text + 1, strlen(text));      /* the host is one device */
}

/* What about_settings prints of these assignments, until the next call. */
static const char *told(const char *const *assignments)
{
    static char text[4096];
    struct settings settings;
    struct problems problems;
    problems_init(&problems);
    assert_int_equal(settings_init(&settings), 0);
    for (; *assignments != NULL; assignments++)
        assert_int_equal(config_set(&settings, *assignments, &problems), 0);
    assert_int_equal(settings_finish(&settings, &problems), 0);
    FILE *const out = fmemopen(text, sizeof(text), "w");
    assert_non_null(out);
    about_settings(&settings, out);
    assert_int_equal(fclose(out), 0);
    settings_release(&settings);
    problems_release(&problems);
    return text;
}

TEST(settings_that_would_be_the_same_without_are_not_printed)
{
    const char *const same[] = { "data.train=shards", "data.image_key=", "train.batch=128", "run.dir=runs/again",
                                 "input.prefetch_depth=4", "train.batch_per_tower=0", NULL };
    assert_string_equal(told(same), "settings  seed 1, data.train shards\n");
    const char *const other[] = { "input.source=synthetic", "train.batch=129", "run.seed=7", NULL };
    assert_string_equal(told(other), "settings  seed 7, input.source synthetic, train.batch 129\n");
}

TEST(settings_fit_a_terminal_and_a_long_path_stays_whole)
{
    static char path[256] = "data.train=";
    memset(path + strlen(path), 'p', 150);
    const char *const many[] = { "data.train=a-set", "data.validation=another-set", "train.optimizer=adadelta",
                                 "train.epochs=3", "train.batch=64", "augment.flip=yes", NULL };
    assert_true(longest_line(told(many)) <= 79);
    assert_non_null(strstr(told(many), ",\n          "));
    const char *const long_path[] = { path, NULL };
    assert_non_null(strstr(told(long_path), path + strlen("data.train=")));
}

TEST(a_run_that_could_use_two_towers_prints_so)
{
    static const struct { uint32_t cores, towers, slices; bool could; } cases[] = {
        { 2, 1, 0, true }, { 16, 1, 0, true }, { 1, 1, 0, false }, { 4, 2, 0, false }, { 4, 1, 1, false }, { 4, 1, 2, true },
        { 4, 1, 4, true }, { 4, 1, 6, false },
    };
    static struct settings settings;
    assert_int_equal(settings_init(&settings), 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        static const struct backend_ops computing = { .name = "test", .computes = true };
        const struct run_plan plan = { .devices = { .backend = &computing }, .cores = cases[i].cores,
                                       .schedule = { .towers = cases[i].towers, .slices = cases[i].slices } };
        const struct about_end end = { .directory = "run", .settings = &settings, .plan = &plan, .steps = 9 };
        char text[1024] = "";
        FILE *const out = fmemopen(text, sizeof(text), "w");
        about_next(&end, false, out);
        assert_int_equal(fclose(out), 0);
        if ((strstr(text, "two towers: --set devices.towers=2 --set run.resume=never;") != NULL) != cases[i].could)
            fail_msg("case %zu: %s", i, text);
        assert_non_null(strstr(text, "next      classify images: "));
        assert_non_null(strstr(text, "pipetrain predict -w run IMAGE..."));
    }
    settings_release(&settings);
}

TESTS_MAIN(NULL, NULL)
