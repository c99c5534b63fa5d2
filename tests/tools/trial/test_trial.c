/* Tests of trials. The child is this program again: called with -c it plays the part that the configuration's name
 * says, which for "train.conf" is a real run. */
#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stage/clock.h"
#include "stage/stop.h"
#include "stage/text/output.h"
#include "tests/helpers/capture.h"
#include "tests/helpers/file_fixture.h"
#include "tests/helpers/test.h"
#include "tools/lib/config/config.h"
#include "tools/lib/phase.h"
#include "tools/lib/run/run.h"
#include "tools/lib/signals.h"
#include "tools/lib/trial/trial.h"
#include "tools/lib/trial/trial_process.h"

/* The parts of the child. */

static const char *beside(const char *config, const char *name)
{
    static char path[512];
    snprintf(path, sizeof(path), "%.*s/%s", (int)(strrchr(config, '/') - config), config, name);
    return path;
}

/* The run directory, as the last assignment says. */
static const char *run_dir(int argc, char **argv)
{
    const char *dir = NULL;
    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], "run.dir=", 8) == 0)
            dir = argv[i] + 8;
    return dir;
}

static void write_pid(const char *config)
{
    char text[24], made[512];
    snprintf(text, sizeof(text), "%d", (int)getpid());
    snprintf(made, sizeof(made), "%s", beside(config, "pid.made"));
    fixture_write_text(made, text);
    rename(made, beside(config, "pid"));        /* once it is there, it is whole */
}

static int play_hang(const char *config)
{
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    write_pid(config);
    while (true)
        pause();
    return 0;
}

static int play_failure(void)
{
    fputs("starting\npipetrain: run.conf:3: no such key\nof no use\npipetrain: and another\n", stderr);
    return EXIT_CODE_DATA;
}

static int play_library(void)
{
    fputs("some library: it cannot go on\n", stderr);
    return EXIT_CODE_INTERNAL;
}

static int play_broken_summary(int argc, char **argv)
{
    char path[512];
    mkdir(run_dir(argc, argv), 0700);
    snprintf(path, sizeof(path), "%s/summary.json", run_dir(argc, argv));
    fixture_write_text(path, "{\"steps\":");
    return 0;
}

/* What pipetrain does, and a copy of the summary beside the configuration. */
static int play_run(int argc, char **argv)
{
    const uint64_t began_ns = clock_now_ns();
    struct settings settings;
    struct problems problems;
    char summary[512];
    signals_catch();
    phase_begin();
    problems_init(&problems);
    int rc = settings_init(&settings);
    if (rc == 0)
        rc = config_read(&settings, argv[2], &problems);
    for (int i = 3; i < argc && rc == 0; i++)
        if (strchr(argv[i], '=') != NULL)
            rc = config_set(&settings, argv[i], &problems);
    if (rc == 0)
        rc = settings_finish(&settings, &problems);
    problems_print(&problems);
    if (rc != 0) {
        settings_release(&settings);
        problems_release(&problems);
        return EXIT_CODE_USAGE;
    }
    signals_block();
    output_start();
    signals_start();
    write_pid(argv[2]);
    const int code = run_execute(&settings, strcmp(argv[3], "--check") == 0 ? RUN_CHECK : RUN_TRAIN, began_ns, NULL);
    snprintf(summary, sizeof(summary), "%s/summary.json", run_dir(argc, argv));
    output_end();
    settings_release(&settings);
    problems_release(&problems);
    return link(summary, beside(argv[2], "kept.json")) == 0 || errno == ENOENT ? code : EXIT_CODE_INTERNAL;
}

static int play(int argc, char **argv)
{
    const char *const part = strrchr(argv[2], '/') + 1;
    if (strcmp(part, "hang.conf") == 0)
        return play_hang(argv[2]);
    if (strcmp(part, "failure.conf") == 0)
        return play_failure();
    if (strcmp(part, "library.conf") == 0)
        return play_library();
    if (strcmp(part, "broken.conf") == 0)
        return play_broken_summary(argc, argv);
    if (strcmp(part, "killed.conf") == 0)
        return raise(SIGKILL);
    if (strcmp(part, "early.conf") == 0)
        return EXIT_CODE_STOPPED;
    return strcmp(part, "silent.conf") == 0 ? 7 : play_run(argc, argv);
}

/* The tests. */

static char config[512], temporary[512], outer[512];
static struct trial_spec spec;
static struct trial_result result;

static void use(const char *part)
{
    snprintf(config, sizeof(config), "%s/%s.conf", folder, part);
    fixture_write_text(config, "[input]\nsource = synthetic\n[train]\nbatch = 8\n[devices]\nkind = cpu\n"
                               "threads_per_tower = 1\n");
    spec = (struct trial_spec){ .config.path = config };
}

static int set_up(void **state)
{
    const int rc = fixture_folder_make(state);
    fixture_subfolder(temporary, sizeof(temporary), "tmp");
    snprintf(outer, sizeof(outer), "%s", getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp");
    setenv("TMPDIR", temporary, 1);
    return rc;
}

static int tear_down(void **state)
{
    setenv("TMPDIR", outer, 1);
    return fixture_folder_remove(state);
}

static void assert_nothing_stays(void)
{
    DIR *const directory = opendir(temporary);
    assert_non_null(directory);
    for (const struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory))
        assert_true(entry->d_name[0] == '.');
    closedir(directory);
}

static double kept(const char *first, const char *second)
{
    json_t *const summary = json_load_file(fixture_path(folder, "kept.json"), 0, NULL);
    assert_non_null(summary);
    const json_t *value = json_object_get(summary, first);
    if (second != NULL)
        value = json_object_get(value, second);
    assert_true(json_is_number(value));
    const double number = json_number_value(value);
    json_decref(summary);
    return number;
}

TEST_WITH(the_result_is_the_summary, set_up, tear_down)
{
    use("train");
    spec.steps = 30;
    assert_int_equal(trial_run(&spec, &result), 0);
    assert_int_equal(result.exit_code, 0);
    assert_string_equal(result.problem, "");
    assert_string_equal(result.ended, "finished");
    assert_string_equal(result.device, "cpu");
    assert_true(result.is_synthetic);
    assert_int_equal(result.values.run.steps, 30);
    assert_int_equal(result.batch, 8);
    assert_int_equal(result.towers, 1);
    assert_true(result.values.images == (uint64_t)kept("images", NULL));
    assert_true(result.values.images_per_second == kept("images_per_second", NULL));
    assert_true(result.values.images_per_second > 0);
    assert_true(result.values.seconds == kept("seconds", NULL));
    assert_true(result.values.run.speed.mean == kept("speed", "mean") && result.values.run.speed.mean > 0);
    assert_true(result.values.run.speed.uncertainty == kept("speed", "uncertainty"));
    assert_true(result.values.run.speed.jitter == kept("speed", "jitter"));
    assert_true(result.values.run.step.p50_ms == kept("step_ms", "p50"));
    assert_true(result.values.run.step.p90_ms == kept("step_ms", "p90"));
    assert_true(result.values.run.step.p99_ms == kept("step_ms", "p99"));
    assert_true(result.values.share.backward == kept("fractions", "backward") && result.values.share.backward > 0);
    assert_true(result.values.loss == kept("loss", NULL));
    assert_true(result.values.run.peak_rss_bytes == (uint64_t)kept("memory", "peak_rss_bytes"));
    assert_true(result.values.run.peak_rss_bytes > 0);
    assert_true(*result.limit != '\0');
    assert_true(isnan(result.values.feed.busy.readers) && isnan(result.values.run.validation.accuracy));
    assert_nothing_stays();
}

TEST_WITH(assignments_come_before_those_of_the_trial, set_up, tear_down)
{
    static const char *assignments[] = { "train.batch=4", "train.batch=6", "train.steps=1", "devices.towers=2",
                                               "checkpoint.every=1", "train.max_time=1 hour",
                                               "report.tensorboard=here", "report.prometheus=here.prom",
                                               "report.trace=here.json", "train.on_nan=rollback",
                                               "data.validation=none" };
    static const char *const own[] = { "train.batch=10", "train.steps=2" };
    use("train");
    spec.steps = 5;
    spec.config.assignments.words = assignments;
    spec.config.assignments.count = 9;      /* without the last two, which a trial cannot have */
    assert_int_equal(trial_run(&spec, &result), 0);
    assert_int_equal(result.batch, 6);
    spec.own = own;
    spec.own_count = 2;
    spec.config.assignments.count = 11;
    spec.skips_evaluation = spec.has_rollback = true;
    unlink(fixture_path(folder, "kept.json"));
    assert_int_equal(trial_run(&spec, &result), 0);
    assert_true(access("here", F_OK) != 0 && access("here.prom", F_OK) != 0 && access("here.json", F_OK) != 0);
    assert_int_equal(result.batch, 10);
    assert_int_equal(result.towers, 2);
    assert_int_equal(result.values.run.steps, 5);
    assert_nothing_stays();
}

TEST_WITH(ends_when_its_time_is_over, set_up, tear_down)
{
    use("train");
    spec.seconds = 0.5;
    assert_int_equal(trial_run(&spec, &result), 0);
    assert_string_equal(result.ended, "asked to stop");
    assert_true(result.values.run.steps > 0 && result.values.run.steps < TRIAL_STEPS_MAX);
    assert_true(result.values.seconds >= 0.4);
    assert_nothing_stays();
}

TEST_WITH(a_check_trains_nothing, set_up, tear_down)
{
    static const char *wrong[] = { "devices.towers=9999" };
    use("train");
    assert_int_equal(trial_check(&spec, &result), 0);
    assert_false(fixture_exists(fixture_path(folder, "kept.json")));
    spec.config.assignments.words = wrong;
    spec.config.assignments.count = 1;
    assert_int_equal(trial_check(&spec, &result), -ECHILD);
    assert_int_equal(result.exit_code, EXIT_CODE_USAGE);
    assert_non_null(strstr(result.problem, "devices.towers"));
    assert_nothing_stays();
}

TEST_WITH(messages_of_a_failed_child_are_the_problem, set_up, tear_down)
{
    static const struct { const char *part; int rc, code; const char *problem; } failures[] = {
        { "failure", -ECHILD, EXIT_CODE_DATA, "run.conf:3: no such key\nand another" },
        { "library", -ECHILD, EXIT_CODE_INTERNAL, "some library: it cannot go on" },
        { "silent", -ECHILD, 7, "it ended with exit code 7" },
        { "killed", -ECHILD, EXIT_CODE_INTERNAL, "it was killed by SIGKILL" },
        { "early", -ENODATA, EXIT_CODE_OUTPUT, "it ended before its first step was done" },
        { "broken", -EBADMSG, EXIT_CODE_OUTPUT, "its summary.json cannot be read" },
    };
    for (size_t i = 0; i < sizeof(failures) / sizeof(*failures); i++) {
        use(failures[i].part);
        spec.steps = 1;
        assert_int_equal(trial_run(&spec, &result), failures[i].rc);
        assert_int_equal(result.exit_code, failures[i].code);
        assert_string_equal(result.problem, failures[i].problem);
        assert_int_equal(result.values.run.steps, 0);
        assert_nothing_stays();
    }
}

TEST_WITH(each_line_of_a_problem_is_a_message, set_up, tear_down)
{
    struct capture capture;
    char text[256];
    const struct trial_result two = { .problem = "first: 5 %\nsecond" };
    capture_begin(&capture);
    trial_print_problem("towers=2", &two);
    trial_print_problem("towers=4", &(struct trial_result){ 0 });
    capture_end(&capture, text, sizeof(text));
    assert_string_equal(text, "pipetrain: towers=2: first: 5 %\npipetrain: towers=2: second\n");
}

static bool is_gone(pid_t pid)
{
    for (int i = 0; i < 12000 && kill(pid, 0) == 0; i++)
        usleep(5000);
    return kill(pid, 0) != 0;
}

static pid_t child_pid(void)
{
    uint8_t *const text = fixture_read(fixture_path(folder, "pid"), &(size_t){ 0 });
    const pid_t pid = (pid_t)strtol((const char *)text, NULL, 10);
    free(text);
    assert_true(pid > 1);
    return pid;
}

TEST_WITH(a_child_that_hangs_is_killed, set_up, tear_down)
{
    use("hang");
    spec.steps = 1;
    spec.limit_seconds = 1;
    assert_int_equal(trial_run(&spec, &result), -ETIMEDOUT);
    assert_int_equal(result.exit_code, EXIT_CODE_STALL);
    assert_string_equal(result.problem, "it did not end in time and was killed");
    if (fixture_exists(fixture_path(folder, "pid")))    /* on a slow machine it has not come so far */
        assert_true(is_gone(child_pid()));
    assert_nothing_stays();
}

static void wait_for_the_child(void)
{
    while (!fixture_exists(fixture_path(folder, "pid")))
        usleep(5000);
}

/* In a process of its own, since what has come stays: a trial of a part, ended by `number` sent `times`. */
static void try_interrupted(const char *part, int number, int times, int code)
{
    use(part);
    spec.seconds = 60;
    const pid_t trying = fork();
    if (trying == 0) {
        signal(number, SIG_DFL);        /* a shell may ignore it for what it starts beside itself */
        signals_block();
        const int rc = trial_run(&spec, &result);
        const bool is_right = rc == -ECANCELED && result.exit_code == code && trial_process_end_code() == code &&
                              trial_run(&spec, &result) == -ECANCELED;      /* at once */
        _exit(is_right ? 0 : 1);
    }
    wait_for_the_child();
    if (strcmp(part, "train") == 0 && test_is_long())
        sleep(1);               /* in the middle of its training, not at its beginning */
    const uint64_t began_ns = clock_now_ns();
    for (int i = 0; i < times; i++) {
        kill(trying, number);
        usleep(50000);
    }
    int status;
    assert_int_equal(waitpid(trying, &status, 0), trying);
    if (test_is_long())
        assert_true(clock_now_ns() - began_ns < UINT64_C(1000000000) * (times > 1 ? 8 : 20));
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_nothing_stays();
}

TEST_WITH(a_request_to_end_ends_the_child, set_up, tear_down)
{
    try_interrupted("hang", SIGTERM, 1, EXIT_CODE_STOPPED);
    assert_true(is_gone(child_pid()));
    unlink(fixture_path(folder, "pid"));
    try_interrupted("hang", SIGINT, 2, EXIT_CODE_INTERRUPTED);
    assert_true(is_gone(child_pid()));
    unlink(fixture_path(folder, "pid"));
    try_interrupted("train", SIGINT, 1, EXIT_CODE_INTERRUPTED);
    unlink(fixture_path(folder, "pid"));
    try_interrupted("train", SIGHUP, 1, EXIT_CODE_STOPPED);
}

TEST_WITH(a_child_does_not_outlive_its_parent, set_up, tear_down)
{
    use("hang");
    const pid_t trying = fork();
    if (trying == 0)
        _exit(trial_run(&spec, &result) == 0 ? 0 : 1);
    wait_for_the_child();
    kill(trying, SIGKILL);
    waitpid(trying, NULL, 0);
    assert_true(is_gone(child_pid()));
}

TEST_WITH(a_pipe_cannot_be_read_again, set_up, tear_down)
{
    use("train");
    assert_true(trial_can_read_again(config));
    mkfifo(fixture_path(folder, "fifo"), 0600);
    assert_false(trial_can_read_again(fixture_path(folder, "fifo")));
    assert_false(trial_can_read_again(fixture_path(folder, "nothing")));
}

int main(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[1], "-c") == 0)
        return play(argc, argv);
    return tests_run(NULL, NULL);
}
