/* A run in one process and the same run in several, handed on through files, are the same bit by
 * bit: weights, optimizer buffers, the metrics of every step, sums and the order of samples. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/helpers/run_part.h"
#include "tests/helpers/team_sleep.h"
#include "tests/helpers/test.h"
#include "tests/helpers/test_device_kind.h"
#include "tests/helpers/tfrecord_fixture.h"

enum { SETTINGS_MAX = 24, FLAVOUR_MAX = 7 };

/* 91 records in batches of 12 are 8 steps an epoch, the last one of 7 samples; 23 are 2 batches. */
static const char *const common[] = {
    "train.batch=12", "train.epochs=4", "train.steps=30", "train.optimizer=adadelta", "train.learning_rate=0.9",
    "devices.threads_per_tower=1", "devices.bind=no", "devices.plan_cache=none", "input.prefetch_depth=3",
    "input.decode_threads=2", "run.seed=7",
};

/* A run under test: what is set besides. */
struct flavour { const char *settings[FLAVOUR_MAX]; };

static void add_settings(const char **arguments, int *count, const char *const *settings, size_t most)
{
    for (size_t i = 0; i < most && settings[i] != NULL; i++) {
        assert_in_range(*count, 0, SETTINGS_MAX);
        arguments[(*count)++] = settings[i];
    }
}

/* A process of this program that runs one part; waits for it. */
static void run_part(const struct flavour *flavour, const char *begin, const char *name, const char *until,
                     const char *last_setting)
{
    const char *arguments[SETTINGS_MAX + 8] = { "test_resume", "part", folder, begin, name, until };
    const char *const device[] = { test_device_ops()->host_memory ? "devices.kind=cpu" : "devices.kind=cuda" };
    int count = 6, status;
    add_settings(arguments, &count, device, 1);
    add_settings(arguments, &count, common, sizeof(common) / sizeof(common[0]));
    add_settings(arguments, &count, flavour->settings, FLAVOUR_MAX);
    add_settings(arguments, &count, &last_setting, 1);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        execv("/proc/self/exe", (char **)(uintptr_t)arguments);
        _exit(127);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static char *read_output(const char *name, const char *kind, size_t *bytes_out)
{
    char file[64];
    snprintf(file, sizeof(file), "%s.%s", name, kind);
    return (char *)fixture_read(fixture_path(folder, file), bytes_out);
}

/* The outputs of `parts`, one behind the other, are those of "whole". */
static void assert_lines_equal(const char *const *parts, int part_count, const char *kind)
{
    size_t whole_bytes, at = 0;
    char *whole = read_output("whole", kind, &whole_bytes);
    assert_true(whole_bytes > 0);
    for (int i = 0; i < part_count; i++) {
        size_t bytes;
        char *part = read_output(parts[i], kind, &bytes);
        assert_true(at + bytes <= whole_bytes);
        assert_memory_equal(part, whole + at, bytes);
        at += bytes;
        free(part);
    }
    assert_int_equal(at, whole_bytes);
    free(whole);
}

static void assert_state_equal(const char *name)
{
    size_t bytes, whole_bytes;
    char *state = read_output(name, "state", &bytes), *whole = read_output("whole", "state", &whole_bytes);
    assert_int_equal(bytes, whole_bytes);
    assert_memory_equal(state, whole, bytes);
    free(state);
    free(whole);
}

static void assert_states_differ(const char *name)
{
    size_t bytes, whole_bytes;
    char *state = read_output(name, "state", &bytes), *whole = read_output("whole", "state", &whole_bytes);
    assert_int_equal(bytes, whole_bytes);
    assert_memory_not_equal(state, whole, bytes);
    free(state);
    free(whole);
}

/* Cut where `until` says, and go on from there. */
static void check_cut(const struct flavour *flavour, const char *until)
{
    static const char *const parts[] = { "first", "second" };
    run_part(flavour, "-", "first", until, NULL);
    assert_states_differ("first");
    run_part(flavour, "first", "second", "end", NULL);
    assert_state_equal("second");
    assert_lines_equal(parts, 2, "train");
    assert_lines_equal(parts, 2, "evaluate");
}

static void check_flavour(const struct flavour *flavour, const char *const *cuts, size_t count)
{
    run_part(flavour, "-", "whole", "end", NULL);
    for (size_t i = 0; i < count; i++)
        check_cut(flavour, cuts[i]);
}

TEST(thirty_steps_are_seventeen_and_thirteen)
{
    static const struct flavour flavours[] = {
        { { "devices.towers=1" } },
        { { "devices.towers=3" } },
    };
    static const char *const cuts[] = { "step=17" };
    for (size_t i = 0; i < sizeof(flavours) / sizeof(flavours[0]); i++)
        check_flavour(&flavours[i], cuts, 1);
}

/* In front of an epoch's last, partial batch; behind it, with the evaluation to come; behind the
 * first step, and in front of the last. */
TEST(a_run_may_be_cut_anywhere_in_an_epoch)
{
    static const struct flavour flavour = { { "devices.towers=3" } };
    static const char *const cuts[] = { "step=7", "step=8", "step=9", "step=16", "step=1", "step=29" };
    check_flavour(&flavour, cuts, sizeof(cuts) / sizeof(cuts[0]));
}

/* The first process ends by itself, with the evaluation behind it. */
static void check_rest(const struct flavour *flavour, const char *steps, bool ends_epoch)
{
    static const char *const parts[] = { "first", "second" };
    run_part(flavour, "-", "first", "end", steps);
    run_part(flavour, "first", "second", "end", NULL);
    assert_state_equal("second");
    assert_lines_equal(parts, 2, "train");
    if (ends_epoch)             /* else the first process evaluates in the middle of one */
        assert_lines_equal(parts, 2, "evaluate");
}

TEST(a_run_that_ended_goes_on_where_it_ended)
{
    static const struct flavour two = { { "devices.towers=2" } }, one = { { "devices.towers=1" } };
    run_part(&two, "-", "whole", "end", NULL);
    check_rest(&two, "train.steps=16", true);
    /* In front of an evaluation that the whole run has not, several towers would become one model. */
    run_part(&one, "-", "whole", "end", NULL);
    check_rest(&one, "train.steps=17", false);
}

/* Towers are ahead of what is reported, so they end some batches later, wherever that is. */
TEST(a_run_that_is_asked_to_stop_goes_on_where_it_stopped)
{
    static const struct flavour flavours[] = {
        { { "devices.towers=3" } },
        { { "devices.towers=3", "sync.mode=averaging", "sync.every=16" } },
    };
    static const char *const cuts[] = { "asked=0", "asked=3", "asked=6", "asked=7", "asked=13" };
    for (size_t i = 0; i < sizeof(flavours) / sizeof(flavours[0]); i++)
        check_flavour(&flavours[i], cuts, sizeof(cuts) / sizeof(cuts[0]));
}

TEST(a_run_may_be_cut_twice)
{
    static const struct flavour flavour = { { "devices.towers=3" } };
    static const char *const parts[] = { "first", "second", "third" };
    run_part(&flavour, "-", "whole", "end", NULL);
    run_part(&flavour, "-", "first", "step=9", NULL);
    run_part(&flavour, "first", "second", "step=18", NULL);
    run_part(&flavour, "second", "third", "end", NULL);
    assert_state_equal("third");
    assert_lines_equal(parts, 3, "train");
    assert_lines_equal(parts, 3, "evaluate");
}

/* Depths and threads may change on the way, too. */
TEST(other_threads_go_on_with_the_same_run)
{
    static const struct flavour flavour = { { "devices.towers=3" } };
    static const struct flavour other = { { "devices.towers=3", "input.prefetch_depth=1", "input.staging_depth=3",
                                            "input.read_threads=3", "input.decode_threads=1", "input.chunk=1" } };
    run_part(&flavour, "-", "whole", "end", NULL);
    run_part(&flavour, "-", "first", "step=17", NULL);
    run_part(&other, "first", "second", "end", NULL);
    assert_state_equal("second");
}

TEST(every_rule_mode_source_and_precision_goes_on)
{
    static const struct flavour flavours[] = {
        { { "devices.towers=2", "train.optimizer=sgd", "train.learning_rate=0.1" } },
        { { "devices.towers=2", "train.optimizer=nesterov", "train.learning_rate=0.05" } },
        { { "devices.towers=2", "train.optimizer=adam", "train.learning_rate=0.01", "train.schedule=cosine",
            "train.warmup_epochs=2.5", "train.warmup_from=0.1" } },
        { { "devices.towers=2", "train.optimizer=rmsprop", "train.learning_rate=0.05", "train.schedule=one_cycle" } },
        { { "devices.towers=2", "train.optimizer=lars", "train.learning_rate=1", "train.weight_decay=0.001",
            "train.schedule=piecewise", "train.boundaries=1.5 3", "train.factors=0.5 0.1" } },
        { { "devices.towers=3", "sync.mode=independent" } },
        { { "devices.towers=3", "sync.mode=averaging", "sync.every=5" } },
        { { "devices.towers=2", "devices.kind=null" } },
        { { "devices.towers=2", "input.source=synthetic", "input.staging_depth=3" } },
        { { "devices.towers=2", "input.source=cached", "data.last_batch=drop", "train.epochs=5" } },
    };
    static const struct flavour host = { { "devices.towers=2", "devices.backend=reference" } };
    static const struct flavour device = { { "devices.towers=2", "devices.precision=fp16" } };
    static const char *const cuts[] = { "step=17" };
    for (size_t i = 0; i < sizeof(flavours) / sizeof(flavours[0]); i++)
        check_flavour(&flavours[i], cuts, 1);
    check_flavour(test_device_ops()->host_memory ? &host : &device, cuts, 1);
}

static void make_set(const char *name, uint32_t shards, uint32_t records)
{
    char place[300];
    fixture_subfolder(place, sizeof(place), name);
    fixture_write_set(place, shards, records);
}

static int make_sets(void **state)
{
    assert_int_equal(fixture_folder_make(state), 0);
    make_set("train", 3, RUN_PART_TRAIN);
    make_set("validation", 2, RUN_PART_VALIDATION);
    return 0;
}

int main(int argc, char **argv)
{
    teams_sleep(argv);
    if (argc > 1 && strcmp(argv[1], "part") == 0)
        return run_part_main(argc, argv);
    alarm(500);
    return tests_run(make_sets, fixture_folder_remove);
}
