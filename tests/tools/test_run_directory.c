/* Tests of the directory of a run: one run at a time, every problem told, and what an earlier run left untouched until
 * a step is done. */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/helpers/capture.h"
#include "tests/helpers/file_fixture.h"
#include "tests/helpers/test.h"
#include "tests/tools/run_directory_fixture.h"

/* What becomes of calls that the program makes; the linker sends them here (--wrap). */
static struct {
    int lock_errno, interruptions;  /* of flock */
    bool no_memory;                 /* for calloc */
    const struct statvfs *space;    /* NULL: as it is */
    int changes_left;               /* of names, until the process is killed; 0: never */
} fault;

int __real_flock(int fd, int operation);
int __wrap_flock(int fd, int operation);
int __wrap_flock(int fd, int operation)
{
    if (fault.interruptions == 0 && fault.lock_errno == 0)
        return __real_flock(fd, operation);
    errno = fault.interruptions > 0 ? EINTR : fault.lock_errno;
    fault.interruptions -= fault.interruptions > 0;
    return -1;
}

void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes)
{
    return fault.no_memory ? NULL : __real_calloc(count, bytes);
}

int __real_fstatvfs(int fd, struct statvfs *status);
int __wrap_fstatvfs(int fd, struct statvfs *status);
int __wrap_fstatvfs(int fd, struct statvfs *status)
{
    if (fault.space == NULL)
        return __real_fstatvfs(fd, status);
    *status = *fault.space;
    return 0;
}

static void count_change(void)
{
    if (fault.changes_left > 0 && --fault.changes_left == 0)
        kill(getpid(), SIGKILL);
}

int __real_unlinkat(int fd, const char *path, int flags);
int __wrap_unlinkat(int fd, const char *path, int flags);
int __wrap_unlinkat(int fd, const char *path, int flags)
{
    count_change();
    return __real_unlinkat(fd, path, flags);
}

int __real_renameat(int from_fd, const char *from, int to_fd, const char *to);
int __wrap_renameat(int from_fd, const char *from, int to_fd, const char *to);
int __wrap_renameat(int from_fd, const char *from, int to_fd, const char *to)
{
    count_change();
    return __real_renameat(from_fd, from, to_fd, to);
}

TEST(makes_the_directory_with_its_parents_and_first_files)
{
    char text[RUN_TEXT_BYTES];
    struct run_directory *directory = run_fixture_open("first", "deep/er/first");
    assert_string_equal(run_directory_path(directory), "deep/er/first");
    assert_false(fixture_exists("deep/er/first/run.conf"));
    assert_int_equal(run_directory_begin(directory), 0);
    assert_true(run_fixture_text("deep/er/first/run.conf", text) > 0);
    assert_non_null(strstr(text, "source = synthetic"));
    assert_true(fixture_exists("deep/er/first/metrics.jsonl"));
    assert_int_equal(run_fixture_text("deep/er/first/metrics.jsonl", text), 0);
    assert_int_equal(run_fixture_temporaries("deep/er/first"), 0);
    run_directory_close(directory);
    run_directory_close(NULL);
    assert_true(fixture_exists("deep/er/first/run.conf"));
}

TEST(default_names_are_never_used_twice)
{
    static const char *const expected[] = { "runs/job", "runs/job-2", "runs/job-3" };
    struct run_directory *open[3];
    for (int i = 0; i < 3; i++) {           /* while the others run */
        open[i] = run_fixture_begin("job", NULL);
        assert_string_equal(run_directory_path(open[i]), expected[i]);
    }
    for (int i = 0; i < 3; i++)
        run_directory_close(open[i]);
    struct run_directory *later = run_fixture_open("job", NULL);
    assert_string_equal(run_directory_path(later), "runs/job-4");
    run_directory_close(later);
}

TEST(a_run_without_a_step_leaves_no_directory)
{
    static const char *const names[] = { "gone", "parent/gone/deep", "./parent2//gone/" };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        run_directory_close(run_fixture_open("gone", names[i]));
        assert_false(fixture_exists(names[i]));
    }
    assert_false(fixture_exists("parent"));
    assert_false(fixture_exists("parent2"));
    for (int i = 0; i < 3; i++) {
        struct run_directory *directory = run_fixture_open("free", NULL);
        assert_string_equal(run_directory_path(directory), "runs/free");
        run_directory_close(directory);
    }
    assert_int_equal(mkdir("kept", 0777), 0);
    run_directory_close(run_fixture_open("kept", "kept"));
    assert_true(fixture_exists("kept"));            /* somebody else made it */
    assert_int_equal(mkdir("shared", 0777), 0);
    struct run_directory *directory = run_fixture_open("shared", "shared/run");
    fixture_write_text("shared/run/notes", "mine");
    run_directory_close(directory);
    assert_true(fixture_exists("shared/run/notes"));
}

/* The results of a run that was done. */
static void leave_results(const char *dir)
{
    char path[64];
    struct run_directory *directory = run_fixture_begin("done", dir);
    assert_int_equal(run_fixture_put(directory, "weights.safetensors", "the weights"), 0);
    assert_int_equal(run_fixture_put(directory, "summary.json", "{}"), 0);
    run_directory_close(directory);
    snprintf(path, sizeof(path), "%s/metrics.jsonl", dir);
    fixture_write_text(path, "{\"old\":1}\n");
    snprintf(path, sizeof(path), "%s/run.conf", dir);
    fixture_write_text(path, "# old\n");
}

static void assert_old_results(const char *dir)
{
    assert_true(run_fixture_holds(dir, "weights.safetensors", "the weights"));
    assert_true(run_fixture_holds(dir, "summary.json", "{}"));
    assert_true(run_fixture_holds(dir, "metrics.jsonl", "{\"old\":1}\n"));
    assert_true(run_fixture_holds(dir, "run.conf", "# old\n"));
}

TEST(a_named_directory_keeps_old_results_until_a_step_is_done)
{
    leave_results("again");
    struct run_directory *directory = run_fixture_open("again", "again");
    assert_old_results("again");
    run_directory_close(directory);         /* refused, or failed */
    assert_old_results("again");
    assert_int_equal(run_fixture_temporaries("again"), 0);
    directory = run_fixture_begin("again", "again");
    assert_false(fixture_exists("again/summary.json"));
    assert_false(fixture_exists("again/weights.safetensors"));
    assert_true(run_fixture_holds("again", "metrics.jsonl", ""));
    assert_true(run_fixture_holds("again", "weights.previous.safetensors", "the weights"));
    assert_false(run_fixture_holds("again", "run.conf", "# old\n"));
    run_directory_close(directory);
}

TEST(previous_weights_outlive_runs_that_saved_none)
{
    leave_results("outlived");
    for (int i = 0; i < 3; i++) {
        run_directory_close(run_fixture_begin("outlived", "outlived"));
        run_directory_close(run_fixture_open("outlived", "outlived"));
        assert_true(run_fixture_holds("outlived", "weights.previous.safetensors", "the weights"));
    }
}

/* Opens, begins and is killed at the `number`-th change of a name. Was it? */
static bool is_killed_at(int number)
{
    int status;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct run_directory *directory = run_fixture_open("killed", "killed");
        fault.changes_left = number;
        _exit(run_directory_begin(directory) == 0 ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
    return WIFSIGNALED(status);
}

/* What has a summary is whole; without one, no weights stand beside a configuration of another run. */
TEST(a_run_killed_while_it_begins_leaves_no_mixture)
{
    for (int number = 1;; number++) {
        assert_int_equal(system("rm -rf killed"), 0);
        leave_results("killed");
        const bool was_killed = is_killed_at(number);
        if (fixture_exists("killed/summary.json"))
            assert_old_results("killed");
        if (fixture_exists("killed/weights.safetensors"))
            assert_true(run_fixture_holds("killed", "run.conf", "# old\n") &&
                        run_fixture_holds("killed", "metrics.jsonl", "{\"old\":1}\n"));
        else
            assert_true(run_fixture_holds("killed", "weights.previous.safetensors", "the weights"));
        assert_true(run_fixture_holds("killed", "run.conf", "# old\n") ||
                    run_fixture_holds("killed", "metrics.jsonl", ""));
        if (!was_killed) {
            assert_in_range(number, 5, 20);
            break;
        }
        struct run_directory *directory = run_fixture_begin("killed", "killed");
        assert_true(run_fixture_holds("killed", "weights.previous.safetensors", "the weights"));
        assert_int_equal(run_fixture_temporaries("killed"), 0);
        run_directory_close(directory);
    }
}

TEST(temporary_files_of_dead_runs_go)
{
    static const char *const left[] = { "dead/.weights.safetensors.tmp.4711", "dead/.metrics.jsonl.tmp.1",
                                        "dead/.run.conf.tmp.99999999", "dead/.summary.json.tmp.2" };
    static const char *const others[] = { "dead/.weights.safetensors.tmp.4711x", "dead/.notes.tmp.4711",
                                          "dead/weights.safetensors.tmp.4711", "dead/.run.conf.tmp." };
    leave_results("dead");
    for (size_t i = 0; i < sizeof(left) / sizeof(left[0]); i++) {
        fixture_write_text(left[i], "half");
        fixture_write_text(others[i], "mine");
    }
    run_directory_close(run_fixture_open("dead", "dead"));
    for (size_t i = 0; i < sizeof(left) / sizeof(left[0]); i++) {
        assert_false(fixture_exists(left[i]));
        assert_true(fixture_exists(others[i]));
    }
    assert_old_results("dead");
}

TEST(a_directory_in_use_is_refused_until_it_is_free)
{
    char problem[RUN_TEXT_BYTES];
    struct run_directory *directory = run_fixture_begin("used", "used");
    assert_int_equal(run_fixture_put(directory, "summary.json", "{\"mine\":1}"), 0);
    fixture_write_text("used/.weights.safetensors.tmp.7", "half");
    assert_int_equal(run_fixture_refuse("used", problem), -EWOULDBLOCK);
    assert_non_null(strstr(problem, "used"));
    assert_non_null(strstr(problem, "another run"));
    assert_true(fixture_exists("used/summary.json"));
    assert_true(fixture_exists("used/.weights.safetensors.tmp.7"));     /* of the run that is there */
    run_directory_close(directory);
    run_directory_close(run_fixture_open("used", "used"));
}

TEST(the_lock_names_who_holds_it)
{
    char problem[RUN_TEXT_BYTES], text[RUN_TEXT_BYTES], holder[RUN_TEXT_BYTES];
    struct run_directory *directory = run_fixture_open("held", "held");
    snprintf(holder, sizeof(holder), "process %ld on ", (long)getpid());
    assert_true(run_fixture_text("held/.lock", text) > 0);
    assert_ptr_equal(strstr(text, holder), text);
    assert_int_equal(run_fixture_refuse("held", problem), -EWOULDBLOCK);
    assert_non_null(strstr(problem, "another run is writing here: "));
    assert_non_null(strstr(problem, holder));
    assert_non_null(strstr(problem, " since 20"));
    assert_non_null(strstr(problem, " UTC"));
    assert_int_equal(run_fixture_text("held/.lock", holder), strlen(text));     /* as it was */
    run_directory_close(directory);
    assert_false(fixture_exists("held"));
    run_directory_close(run_fixture_begin("held", "held"));
    assert_int_equal(run_fixture_text("held/.lock", text), 0);      /* nobody holds it any more */
}

/* What no run wrote, or only a part of, gets into no message. */
TEST(a_lock_that_names_nobody_is_refused_without_a_name)
{
    static const char *const texts[] = {
        "", "process", "process 12 on host since 2026-11-24T20:42:15Z", "process 12 on host since 2026",
        "process 12 on ho\033[31mst since 2026-11-24T20:42:15Z\n", "process x on host since 2026-11-24T20:42:15Z\n",
        "process 12 on host since 2026-11-24T20:42:15Zx", "process 12 on host since 2026-11-24T20:42:15Z or so\n",
    };
    char problem[RUN_TEXT_BYTES];
    struct run_directory *directory = run_fixture_begin("nameless", "nameless");
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        fixture_write_text("nameless/.lock", texts[i]);
        assert_int_equal(run_fixture_refuse("nameless", problem), -EWOULDBLOCK);
        assert_string_equal(problem, "run directory nameless: another run is writing here");
    }
    fixture_write_text("nameless/.lock", "process 12 on a-host.b since 2026-11-24T20:42:15Z\n");
    assert_int_equal(run_fixture_refuse("nameless", problem), -EWOULDBLOCK);
    assert_non_null(strstr(problem, "writing here: process 12 on a-host.b since 2026-11-24 20:42:15 UTC"));
    run_directory_close(directory);
}

/* On such a file system a run goes on with a warning. */
TEST(a_file_system_without_locks_is_reported_once)
{
    static const int errors[] = { EOPNOTSUPP, ENOSYS, ENOLCK };
    char text[RUN_TEXT_BYTES];
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        struct capture capture;
        fault.lock_errno = errors[i];
        capture_begin(&capture);
        struct run_directory *directory = run_fixture_begin("unlocked", "unlocked");
        capture_end(&capture, text, sizeof(text));
        assert_non_null(strstr(text, "no locks"));
        assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
        run_directory_close(directory);
        fault.lock_errno = 0;
    }
}

/* Without locks, only a name that this run made is free. */
TEST(without_locks_a_default_directory_is_new)
{
    struct run_directory *open[2];
    fault.lock_errno = ENOLCK;
    for (int i = 0; i < 2; i++)
        open[i] = run_fixture_open("lockless", NULL);
    assert_string_equal(run_directory_path(open[0]), "runs/lockless");
    assert_string_equal(run_directory_path(open[1]), "runs/lockless-2");
    run_directory_close(open[0]);
    run_directory_close(open[1]);
    fault.lock_errno = 0;
}

TEST(a_lock_that_is_interrupted_is_tried_again)
{
    fault.interruptions = 3;
    run_directory_close(run_fixture_open("patient", "patient"));
    assert_int_equal(fault.interruptions, 0);
}

TEST(other_failures_of_a_lock_are_reported_with_their_cause)
{
    char problem[RUN_TEXT_BYTES];
    fault.lock_errno = EIO;
    assert_int_equal(run_fixture_refuse("faulty", problem), -EIO);
    fault.lock_errno = 0;
    assert_non_null(strstr(problem, "faulty"));
    assert_non_null(strstr(problem, strerror(EIO)));
}

TEST(short_memory_is_reported)
{
    struct settings settings;
    struct run_directory *directory = NULL;
    char problem[RUN_TEXT_BYTES] = "not written";
    run_fixture_settings(&settings, "short", "short");
    fault.no_memory = true;
    assert_int_equal(run_directory_open(&directory, &settings, NULL, problem, sizeof(problem)), -ENOMEM);
    fault.no_memory = false;
    settings_release(&settings);
    assert_non_null(strstr(problem, "short"));
    assert_non_null(strstr(problem, strerror(ENOMEM)));
}

TEST(room_for_the_results_is_asked_for_twice)
{
    char problem[RUN_TEXT_BYTES] = "";
    const struct statvfs space = { .f_blocks = 100, .f_bavail = 50, .f_bfree = 90, .f_frsize = 1024 };
    const struct statvfs untold = { .f_blocks = 0 };
    struct run_directory *directory = run_fixture_open("narrow", "narrow");
    fault.space = &space;
    assert_int_equal(run_directory_room(directory, 25 * 1024, problem, sizeof(problem)), 0);
    assert_int_equal(run_directory_room(directory, 25 * 1024 + 1, problem, sizeof(problem)), -ENOSPC);
    assert_non_null(strstr(problem, "narrow"));
    assert_non_null(strstr(problem, "25.0 KiB"));
    assert_non_null(strstr(problem, "50.0 KiB"));
    assert_int_equal(run_directory_room(directory, UINT64_MAX, problem, sizeof(problem)), -ENOSPC);
    fault.space = &untold;
    assert_int_equal(run_directory_room(directory, UINT64_MAX, problem, sizeof(problem)), 0);
    fault.space = NULL;
    run_directory_close(directory);
}

TEST(what_cannot_be_a_directory_is_named)
{
    char problem[RUN_TEXT_BYTES];
    fixture_write_text("file", "text");
    assert_int_equal(run_fixture_refuse("file", problem), -ENOTDIR);
    assert_non_null(strstr(problem, "file"));
    assert_int_equal(run_fixture_refuse("file/below/it", problem), -ENOTDIR);
    assert_int_equal(run_fixture_refuse("/dev/full", problem), -ENOTDIR);
    if (geteuid() != 0) {
        mkdir("closed", 0500);
        assert_int_equal(run_fixture_refuse("closed/run", problem), -EACCES);
    }
}

/* The run goes on and its results stay together, in the directory that it entered. */
TEST(a_directory_that_was_moved_is_reported_once_with_its_place)
{
    struct capture capture;
    char told[RUN_TEXT_BYTES];
    struct run_directory *directory = run_fixture_begin("moved", "moved");
    assert_int_equal(run_directory_look(directory), 0);
    assert_int_equal(run_directory_look(NULL), 0);
    assert_int_equal(rename("moved", "elsewhere"), 0);
    struct run_directory *other = run_fixture_begin("moved", "moved");
    capture_begin(&capture);
    assert_int_equal(run_directory_look(directory), -ESTALE);
    assert_int_equal(run_directory_look(directory), -ESTALE);
    assert_int_equal(run_directory_look(other), 0);
    capture_end(&capture, told, sizeof(told));
    const char *const words = strstr(told, "run directory moved: it was moved during the run: results are "
                                           "written to /");
    assert_non_null(words);
    assert_non_null(strstr(words, "/elsewhere\n"));
    assert_null(strstr(words + 1, "run directory"));
    assert_int_equal(run_directory_failed(directory), -ESTALE);
    assert_int_equal(run_fixture_put(directory, "weights.safetensors", "weights"), 0);
    assert_true(run_fixture_holds("elsewhere", "weights.safetensors", "weights"));
    run_directory_close(other);
    run_directory_close(directory);
}

TEST(a_directory_that_was_emptied_or_removed_is_reported)
{
    struct capture capture;
    char told[RUN_TEXT_BYTES];
    struct run_directory *directory = run_fixture_begin("emptied", "emptied");
    assert_int_equal(unlink("emptied/metrics.jsonl"), 0);
    fixture_write_text("emptied/metrics.jsonl", "another's");
    capture_begin(&capture);
    assert_int_equal(run_directory_look(directory), -ESTALE);
    capture_end(&capture, told, sizeof(told));
    assert_non_null(strstr(told, "metrics.jsonl was removed or replaced during the run"));
    assert_int_equal(unlink("emptied/metrics.jsonl"), 0);
    assert_int_equal(unlink("emptied/run.conf"), 0);
    assert_int_equal(unlink("emptied/.lock"), 0);
    assert_int_equal(rmdir("emptied"), 0);
    capture_begin(&capture);
    assert_int_equal(run_directory_look(directory), -ENOENT);
    assert_int_equal(run_directory_look(directory), -ENOENT);
    capture_end(&capture, told, sizeof(told));
    assert_non_null(strstr(told, "run directory emptied: it was removed during the run\n"));
    run_directory_close(directory);
}

TEST(a_folder_of_events_that_is_a_link_is_refused)
{
    char problem[RUN_TEXT_BYTES];
    assert_int_equal(mkdir("planted", 0777), 0);
    assert_int_equal(symlink("..", "planted/tensorboard"), 0);
    assert_int_equal(run_fixture_refuse("planted", problem), -ELOOP);
    assert_string_equal(problem, "run directory planted: tensorboard is a symbolic link, not a folder");
    assert_int_equal(unlink("planted/tensorboard"), 0);
    assert_int_equal(mkdir("planted/tensorboard", 0777), 0);
    run_directory_close(run_fixture_open("planted", "planted"));
}

int main(void)
{
    alarm(60);
    return tests_run(fixture_folder_enter, fixture_folder_leave);
}
