/* Closed, full and unread standard streams; limits of memory, descriptors, file sizes and stacks; file systems that are
 * full or read-only. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/torture/trial.h"

#define ASK_AFTER_US 300000u

static const char *const outlet_names[OUTLET_COUNT] = {
    [OUTLET_FILE] = "a file", [OUTLET_CLOSED] = "closed", [OUTLET_FULL] = "full", [OUTLET_UNREAD] = "unread",
    [OUTLET_TERMINAL] = "a terminal",
};

/* A scenario without an end gets a signal. */
static int add_streams(struct trials *trials, const struct scenario *scenario, enum outlet out, enum outlet err)
{
    struct trial trial = {
        .scenario = scenario, .group = "streams", .out = out, .err = err,
        .promise = { .codes = CODE(OUTPUT) | (scenario->is_endless || out == OUTLET_FULL ? 0 : CODE(OK)),
                    .may_stop = scenario->is_endless, .may_be_short = scenario->is_endless,
                    .is_silent = err != OUTLET_FILE, .word = "standard output" },
    };
    if (scenario->is_endless) {
        trial.phase = FIRST_PHASE;
        trial.delay_us = (uint64_t)ASK_AFTER_US * trials->patience;
        trial.signals[0] = SIGTERM;
    }
    snprintf(trial.what, sizeof(trial.what), "output %s, errors %s", outlet_names[out], outlet_names[err]);
    return trials_add(trials, &trial, "%s", "");
}

int plan_streams(struct trials *trials)
{
    int rc = 0;
    for (uint32_t s = 0; s < scenario_count; s++)
        for (int out = 0; out < OUTLET_TERMINAL; out++)
            for (int err = 0; err < OUTLET_TERMINAL && rc == 0; err++)
                if (!scenarios[s].waits_for_reader || (out != OUTLET_UNREAD && err != OUTLET_UNREAD))
                    rc = add_streams(trials, &scenarios[s], (enum outlet)out, (enum outlet)err);
    return rc;
}

/* Values from `least` to `most`. */
struct steps { uint64_t least, step, most; };

static uint64_t steps_count(const struct steps *steps)
{
    return (steps->most - steps->least) / steps->step + 1;
}

/* The index-th value: all of them in turn, or random ones where there are more than the share. */
static uint64_t steps_value(const struct trials *trials, const char *of, const struct steps *steps, uint64_t index)
{
    const uint64_t count = steps_count(steps);
    const uint64_t at = trials_share(trials, count) == count ? index : trials_random(trials, of, index, count);
    return steps->least + at * steps->step;
}

/* Resource limits. With each value the process either succeeds, or fails with this code and message. */
static const struct range {
    const char *name, *unit;
    int resource;
    struct steps values;
    uint64_t bytes;
    uint64_t codes;
    const char *word, *other_word;
    bool is_memory;
} ranges[] = {
    { "address space", "MiB", RLIMIT_AS, { 1, 8, 1200 }, 1 << 20, CODE(MEMORY), "memory", "thread", true },
    { "data", "MiB", RLIMIT_DATA, { 1, 4, 400 }, 1 << 20, CODE(MEMORY), "memory", "thread", true },
    { "stack", "KiB", RLIMIT_STACK, { 128, 512, 16384 }, 1 << 10, CODE(MEMORY), "memory", "thread", false },
    { "open files", "descriptors", RLIMIT_NOFILE, { 3, 1, 48 }, 1,
      CODE(USAGE) | CODE(DATA) | CODE(MEMORY) | CODE(OUTPUT), "open files", "descriptor", false },
    { "file size", "KiB", RLIMIT_FSIZE, { 0, 64, 6144 }, 1 << 10, CODE(OUTPUT), "too large", "large", false },
};

static int add_limit(struct trials *trials, const struct scenario *scenario, const struct range *range, uint64_t value)
{
    struct trial trial = {
        .scenario = scenario, .group = "limit", .has_limit = true,
        .limit = { range->resource, value * range->bytes },
        .promise = { .codes = range->codes | CODE(OK), .word = range->word, .other_word = range->other_word,
                    .is_silent = range->resource == RLIMIT_FSIZE && value == 0 },
    };
    snprintf(trial.what, sizeof(trial.what), "%s", range->name);
    return trials_add(trials, &trial, "%" PRIu64 " %s", value, range->unit);
}

/* The smallest limit with which the program can print its version. */
static int find_least(const struct trials *trials, const struct scenario *scenario, const struct range *range,
                      uint64_t *least_out)
{
    char program[PATH_MAX];
    snprintf(program, sizeof(program), "%s/%s", trials->stand->build, scenario->program);
    char *const argv[] = { program, "--version", NULL };
    for (uint64_t value = range->values.least; value < range->values.most; value += range->values.step) {
        const struct child_limit limit = { range->resource, value * range->bytes };
        const struct child_spec spec = { .folder = trials->stand->work, .argv = argv, .limit = &limit };
        struct child child;
        if (child_start(&child, &spec) != 0)
            return -errno;
        const struct child_end end = child_end(&child, 20000000);
        *least_out = value;
        if (end.code == 0 && end.signal == 0)
            return 0;
    }
    return -ERANGE;
}

static int plan_range(struct trials *trials, const struct scenario *scenario, const struct range *range)
{
    struct steps values = range->values;
    int rc = range->is_memory ? find_least(trials, scenario, range, &values.least) : 0;
    const uint64_t wanted = trials_share(trials, steps_count(&values));
    for (uint64_t i = 0; i < wanted && rc == 0; i++)
        rc = add_limit(trials, scenario, range, steps_value(trials, range->name, &values, i));
    return rc;
}

int plan_limits(struct trials *trials)
{
    int rc = 0;
    for (uint32_t s = 0; s < scenario_count; s++)
        for (size_t r = 0; r < sizeof(ranges) / sizeof(ranges[0]) && rc == 0; r++)
            if (!scenarios[s].is_endless && !(ranges[r].is_memory && trials->has_sanitizer))
                rc = plan_range(trials, &scenarios[s], &ranges[r]);
    return rc;
}

/* With less memory the program cannot be loaded. */
static const struct steps groups = { 32ull << 20, 8ull << 20, 400ull << 20 };

static int add_group(struct trials *trials, const struct scenario *scenario, uint64_t bytes)
{
    struct trial trial = {
        .scenario = scenario, .group = "limit", .what = "memory of a control group", .group_bytes = bytes,
        .promise = { .codes = CODE(OK) | CODE(MEMORY), .word = "memory", .other_word = "thread" },
    };
    return trials_add(trials, &trial, "%" PRIu64 " MiB", bytes >> 20);
}

int plan_groups(struct trials *trials)
{
    const uint64_t wanted = trials_share(trials, steps_count(&groups));
    int rc = 0;
    if (!trials->has_groups)
        printf("torture: no control group with a limit: none can be made here\n");
    for (uint32_t s = 0; s < scenario_count && trials->has_groups && !trials->has_sanitizer; s++)
        for (uint64_t i = 0; i < wanted && rc == 0 && !scenarios[s].is_endless; i++)
            rc = add_group(trials, &scenarios[s], steps_value(trials, "group", &groups, i));
    return rc;
}

/* Sizes around that of the results. */
static const struct { const char *scenario; struct steps bytes; } disks[] = {
    { "train", { 5312 << 10, 128 << 10, 13 << 20 } },
    { "train-teams", { 5312 << 10, 128 << 10, 13 << 20 } },
    { "convert", { 4 << 10, 4 << 10, 160 << 10 } },
};

static int add_disk(struct trials *trials, const struct scenario *scenario, uint64_t bytes, bool is_read_only)
{
    struct trial trial = {
        .scenario = scenario, .group = "file system", .disk_bytes = bytes, .is_read_only = is_read_only,
        .promise = { .codes = CODE(OUTPUT) | (is_read_only ? 0 : CODE(OK)),
                    .word = is_read_only ? "read-only" : "space", .other_word = is_read_only ? NULL : "free" },
    };
    snprintf(trial.what, sizeof(trial.what), is_read_only ? "read only" : "full");
    return is_read_only ? trials_add(trials, &trial, "%s", "")
                        : trials_add(trials, &trial, "%" PRIu64 " KiB", bytes >> 10);
}

static int plan_disk(struct trials *trials, const struct scenario *scenario, const struct steps *bytes)
{
    const uint64_t wanted = trials_share(trials, steps_count(bytes));
    int rc = add_disk(trials, scenario, bytes->most, true);
    for (uint64_t i = 0; i < wanted && rc == 0; i++)
        rc = add_disk(trials, scenario, steps_value(trials, scenario->name, bytes, i), false);
    return rc;
}

int plan_disks(struct trials *trials)
{
    int rc = 0;
    if (!trials->has_disks)
        printf("torture: no file systems of its own: this system allows no user namespaces\n");
    for (uint32_t s = 0; s < scenario_count && trials->has_disks; s++)
        for (size_t d = 0; d < sizeof(disks) / sizeof(disks[0]) && rc == 0; d++)
            if (strcmp(scenarios[s].name, disks[d].scenario) == 0)
                rc = plan_disk(trials, &scenarios[s], &disks[d].bytes);
    return rc;
}
