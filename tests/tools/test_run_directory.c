/* Tests of the directory of a run: one run at a time, files whole or not at all, no links
 * followed, every problem told, and what an earlier run left untouched until a step is done. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/helpers/capture.h"
#include "tests/helpers/file_fixture.h"
#include "tools/config/config.h"
#include "tools/results/run_directory.h"

enum { TEXT_BYTES = 4096 };

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

/* Settings as of "[run] dir = DIR", or with the default directory of `name` when dir is NULL. */
static void settings_make(struct settings *settings, const char *name, const char *dir)
{
    struct problems problems;
    char text[300];
    problems_init(&problems);
    assert_int_equal(settings_init(settings), 0);
    snprintf(text, sizeof(text), "run.name=%s", name);
    config_set(settings, text, &problems);
    snprintf(text, sizeof(text), "run.dir=%s", dir != NULL ? dir : "");
    if (dir != NULL)
        config_set(settings, text, &problems);
    config_set(settings, "input.source=synthetic", &problems);
    assert_int_equal(settings_finish(settings, &problems), 0);
    assert_int_equal(problems.count, 0);
    problems_release(&problems);
}

static struct run_directory *open_one(const char *name, const char *dir)
{
    struct settings settings;
    struct run_directory *directory = NULL;
    char problem[TEXT_BYTES] = "";
    settings_make(&settings, name, dir);
    const int rc = run_directory_open(&directory, &settings, problem, sizeof(problem));
    settings_release(&settings);
    if (rc)
        fail_msg("%s", problem);
    return directory;
}

/* The same, its first step done. */
static struct run_directory *begin_one(const char *name, const char *dir)
{
    struct run_directory *directory = open_one(name, dir);
    assert_int_equal(run_directory_begin(directory), 0);
    return directory;
}

/* The error and its text. */
static int refuse_one(const char *dir, char *problem)
{
    struct settings settings;
    struct run_directory *directory = NULL;
    settings_make(&settings, "refused", dir);
    problem[0] = '\0';
    const int rc = run_directory_open(&directory, &settings, problem, TEXT_BYTES);
    settings_release(&settings);
    assert_null(directory);
    return rc;
}

static size_t read_text(const char *path, char *text)
{
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return 0;
    const size_t bytes = fread(text, 1, TEXT_BYTES - 1, file);
    text[bytes] = '\0';
    fclose(file);
    return bytes;
}

static bool exists(const char *path)
{
    struct stat status;
    return lstat(path, &status) == 0;
}

static int count_temporary(const char *path)
{
    DIR *dir = opendir(path);
    int count = 0;
    assert_non_null(dir);
    for (const struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir))
        count += strstr(entry->d_name, ".tmp.") != NULL;
    closedir(dir);
    return count;
}

static int put(struct run_directory *directory, const char *file, const char *text)
{
    const struct file_part parts[] = { { text, strlen(text) / 2 },
                                       { text + strlen(text) / 2, strlen(text) - strlen(text) / 2 } };
    return run_directory_write(directory, file, parts, 2);
}

static void makes_the_directory_with_its_parents_and_first_files(void **state)
{
    (void)state;
    char text[TEXT_BYTES];
    struct run_directory *directory = open_one("first", "deep/er/first");
    assert_string_equal(run_directory_path(directory), "deep/er/first");
    assert_false(exists("deep/er/first/run.conf"));
    assert_int_equal(run_directory_begin(directory), 0);
    assert_true(read_text("deep/er/first/run.conf", text) > 0);
    assert_non_null(strstr(text, "source = synthetic"));
    assert_true(exists("deep/er/first/metrics.jsonl"));
    assert_int_equal(read_text("deep/er/first/metrics.jsonl", text), 0);
    assert_int_equal(count_temporary("deep/er/first"), 0);
    run_directory_close(directory);
    run_directory_close(NULL);
    assert_true(exists("deep/er/first/run.conf"));
}

static void default_names_are_never_used_twice(void **state)
{
    (void)state;
    static const char *const expected[] = { "runs/job", "runs/job-2", "runs/job-3" };
    struct run_directory *open[3];
    for (int i = 0; i < 3; i++) {           /* while the others run */
        open[i] = begin_one("job", NULL);
        assert_string_equal(run_directory_path(open[i]), expected[i]);
    }
    for (int i = 0; i < 3; i++)
        run_directory_close(open[i]);
    struct run_directory *later = open_one("job", NULL);
    assert_string_equal(run_directory_path(later), "runs/job-4");
    run_directory_close(later);
}

static void a_run_without_a_step_leaves_no_directory(void **state)
{
    (void)state;
    static const char *const names[] = { "gone", "parent/gone/deep", "./parent2//gone/" };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        run_directory_close(open_one("gone", names[i]));
        assert_false(exists(names[i]));
    }
    assert_false(exists("parent"));
    assert_false(exists("parent2"));
    for (int i = 0; i < 3; i++) {
        struct run_directory *directory = open_one("free", NULL);
        assert_string_equal(run_directory_path(directory), "runs/free");
        run_directory_close(directory);
    }
    assert_int_equal(mkdir("kept", 0777), 0);
    run_directory_close(open_one("kept", "kept"));
    assert_true(exists("kept"));            /* somebody else made it */
    assert_int_equal(mkdir("shared", 0777), 0);
    struct run_directory *directory = open_one("shared", "shared/run");
    fixture_write_text("shared/run/notes", "mine");
    run_directory_close(directory);
    assert_true(exists("shared/run/notes"));
}

/* The results of a run that was done. */
static void leave_results(const char *dir)
{
    char path[64];
    struct run_directory *directory = begin_one("done", dir);
    assert_int_equal(put(directory, "weights.safetensors", "the weights"), 0);
    assert_int_equal(put(directory, "summary.json", "{}"), 0);
    run_directory_close(directory);
    snprintf(path, sizeof(path), "%s/metrics.jsonl", dir);
    fixture_write_text(path, "{\"old\":1}\n");
    snprintf(path, sizeof(path), "%s/run.conf", dir);
    fixture_write_text(path, "# old\n");
}

static bool holds(const char *dir, const char *file, const char *text)
{
    char path[128], content[TEXT_BYTES] = "";
    snprintf(path, sizeof(path), "%s/%s", dir, file);
    return exists(path) && (read_text(path, content) || true) && strcmp(content, text) == 0;
}

static void assert_old_results(const char *dir)
{
    assert_true(holds(dir, "weights.safetensors", "the weights"));
    assert_true(holds(dir, "summary.json", "{}"));
    assert_true(holds(dir, "metrics.jsonl", "{\"old\":1}\n"));
    assert_true(holds(dir, "run.conf", "# old\n"));
}

static void a_named_directory_keeps_old_results_until_a_step_is_done(void **state)
{
    (void)state;
    leave_results("again");
    struct run_directory *directory = open_one("again", "again");
    assert_old_results("again");
    run_directory_close(directory);         /* refused, or failed */
    assert_old_results("again");
    assert_int_equal(count_temporary("again"), 0);
    directory = begin_one("again", "again");
    assert_false(exists("again/summary.json"));
    assert_false(exists("again/weights.safetensors"));
    assert_true(holds("again", "metrics.jsonl", ""));
    assert_true(holds("again", "weights.previous.safetensors", "the weights"));
    assert_false(holds("again", "run.conf", "# old\n"));
    run_directory_close(directory);
}

static void previous_weights_outlive_runs_that_saved_none(void **state)
{
    (void)state;
    leave_results("outlived");
    for (int i = 0; i < 3; i++) {
        run_directory_close(begin_one("outlived", "outlived"));
        run_directory_close(open_one("outlived", "outlived"));
        assert_true(holds("outlived", "weights.previous.safetensors", "the weights"));
    }
}

/* Opens, begins and is killed at the `number`-th change of a name. Was it? */
static bool is_killed_at(int number)
{
    int status;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct run_directory *directory = open_one("killed", "killed");
        fault.changes_left = number;
        _exit(run_directory_begin(directory) == 0 ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
    return WIFSIGNALED(status);
}

/* What has a summary is whole; without one, no weights stand beside a configuration of another run. */
static void a_run_killed_while_it_begins_leaves_no_mixture(void **state)
{
    (void)state;
    for (int number = 1;; number++) {
        assert_int_equal(system("rm -rf killed"), 0);
        leave_results("killed");
        const bool was_killed = is_killed_at(number);
        if (exists("killed/summary.json"))
            assert_old_results("killed");
        if (exists("killed/weights.safetensors"))
            assert_true(holds("killed", "run.conf", "# old\n") && holds("killed", "metrics.jsonl", "{\"old\":1}\n"));
        else
            assert_true(holds("killed", "weights.previous.safetensors", "the weights"));
        assert_true(holds("killed", "run.conf", "# old\n") || holds("killed", "metrics.jsonl", ""));
        if (!was_killed) {
            assert_in_range(number, 5, 20);
            break;
        }
        struct run_directory *directory = begin_one("killed", "killed");
        assert_true(holds("killed", "weights.previous.safetensors", "the weights"));
        assert_int_equal(count_temporary("killed"), 0);
        run_directory_close(directory);
    }
}

static void temporary_files_of_dead_runs_go(void **state)
{
    (void)state;
    static const char *const left[] = { "dead/.weights.safetensors.tmp.4711", "dead/.metrics.jsonl.tmp.1",
                                        "dead/.run.conf.tmp.99999999", "dead/.summary.json.tmp.2" };
    static const char *const others[] = { "dead/.weights.safetensors.tmp.4711x", "dead/.notes.tmp.4711",
                                          "dead/weights.safetensors.tmp.4711", "dead/.run.conf.tmp." };
    leave_results("dead");
    for (size_t i = 0; i < sizeof(left) / sizeof(left[0]); i++) {
        fixture_write_text(left[i], "half");
        fixture_write_text(others[i], "mine");
    }
    run_directory_close(open_one("dead", "dead"));
    for (size_t i = 0; i < sizeof(left) / sizeof(left[0]); i++) {
        assert_false(exists(left[i]));
        assert_true(exists(others[i]));
    }
    assert_old_results("dead");
}

static void a_directory_in_use_is_refused_until_it_is_free(void **state)
{
    (void)state;
    char problem[TEXT_BYTES];
    struct run_directory *directory = begin_one("used", "used");
    assert_int_equal(put(directory, "summary.json", "{\"mine\":1}"), 0);
    fixture_write_text("used/.weights.safetensors.tmp.7", "half");
    assert_int_equal(refuse_one("used", problem), -EWOULDBLOCK);
    assert_non_null(strstr(problem, "used"));
    assert_non_null(strstr(problem, "another run"));
    assert_true(exists("used/summary.json"));
    assert_true(exists("used/.weights.safetensors.tmp.7"));     /* of the run that is there */
    run_directory_close(directory);
    run_directory_close(open_one("used", "used"));
}

/* On such a file system a run goes on with a warning. */
static void a_file_system_without_locks_is_told_of_once(void **state)
{
    (void)state;
    static const int errors[] = { EOPNOTSUPP, ENOSYS, ENOLCK };
    char text[TEXT_BYTES];
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        struct capture capture;
        fault.lock_errno = errors[i];
        capture_begin(&capture);
        struct run_directory *directory = begin_one("unlocked", "unlocked");
        capture_end(&capture, text, sizeof(text));
        assert_non_null(strstr(text, "no locks"));
        assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
        run_directory_close(directory);
        fault.lock_errno = 0;
    }
}

/* Without locks, only a name that this run made is free. */
static void without_locks_a_default_directory_is_new(void **state)
{
    (void)state;
    struct run_directory *open[2];
    fault.lock_errno = ENOLCK;
    for (int i = 0; i < 2; i++)
        open[i] = open_one("lockless", NULL);
    assert_string_equal(run_directory_path(open[0]), "runs/lockless");
    assert_string_equal(run_directory_path(open[1]), "runs/lockless-2");
    run_directory_close(open[0]);
    run_directory_close(open[1]);
    fault.lock_errno = 0;
}

static void a_lock_that_is_interrupted_is_tried_again(void **state)
{
    (void)state;
    fault.interruptions = 3;
    run_directory_close(open_one("patient", "patient"));
    assert_int_equal(fault.interruptions, 0);
}

static void other_failures_of_a_lock_are_told_with_their_cause(void **state)
{
    (void)state;
    char problem[TEXT_BYTES];
    fault.lock_errno = EIO;
    assert_int_equal(refuse_one("faulty", problem), -EIO);
    fault.lock_errno = 0;
    assert_non_null(strstr(problem, "faulty"));
    assert_non_null(strstr(problem, strerror(EIO)));
}

static void short_memory_is_told(void **state)
{
    (void)state;
    struct settings settings;
    struct run_directory *directory = NULL;
    char problem[TEXT_BYTES] = "not written";
    settings_make(&settings, "short", "short");
    fault.no_memory = true;
    assert_int_equal(run_directory_open(&directory, &settings, problem, sizeof(problem)), -ENOMEM);
    fault.no_memory = false;
    settings_release(&settings);
    assert_non_null(strstr(problem, "short"));
    assert_non_null(strstr(problem, strerror(ENOMEM)));
}

static void room_for_the_results_is_asked_for_twice(void **state)
{
    (void)state;
    char problem[TEXT_BYTES] = "";
    const struct statvfs space = { .f_blocks = 100, .f_bavail = 50, .f_bfree = 90, .f_frsize = 1024 };
    const struct statvfs untold = { .f_blocks = 0 };
    struct run_directory *directory = open_one("narrow", "narrow");
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

static void what_cannot_be_a_directory_is_named(void **state)
{
    (void)state;
    char problem[TEXT_BYTES];
    fixture_write_text("file", "text");
    assert_int_equal(refuse_one("file", problem), -ENOTDIR);
    assert_non_null(strstr(problem, "file"));
    assert_int_equal(refuse_one("file/below/it", problem), -ENOTDIR);
    assert_int_equal(refuse_one("/dev/full", problem), -ENOTDIR);
    if (geteuid() != 0) {
        mkdir("closed", 0500);
        assert_int_equal(refuse_one("closed/run", problem), -EACCES);
    }
}

static void outputs_follow_no_links(void **state)
{
    (void)state;
    static const char *const names[] = { "metrics.jsonl", ".lock" };
    char problem[TEXT_BYTES];
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char dir[32], link[64];
        snprintf(dir, sizeof(dir), "linked%zu", i);
        snprintf(link, sizeof(link), "%s/%s", dir, names[i]);
        assert_int_equal(mkdir(dir, 0777), 0);
        assert_int_equal(symlink("../target", link), 0);
        assert_int_equal(refuse_one(dir, problem), -ELOOP);
        assert_non_null(strstr(problem, names[i]));
        assert_false(exists("target"));
    }
    /* A link in place of a file that is renamed into place is replaced. */
    struct run_directory *directory = begin_one("replaced", "replaced");
    assert_int_equal(symlink("../target", "replaced/summary.json"), 0);
    assert_int_equal(put(directory, "summary.json", "whole"), 0);
    run_directory_close(directory);
    assert_false(exists("target"));
}

/* Nobody reads or writes the FIFO: opening it must not wait. */
static void what_is_no_file_in_the_place_of_one_is_refused_at_once(void **state)
{
    (void)state;
    static const char *const names[] = { "run.conf", "metrics.jsonl", "summary.json", "weights.safetensors", ".lock" };
    char problem[TEXT_BYTES];
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char dir[32], path[64];
        snprintf(dir, sizeof(dir), "special%zu", i);
        snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
        assert_int_equal(mkdir(dir, 0777), 0);
        assert_int_equal(mkfifo(path, 0666), 0);
        assert_int_equal(refuse_one(dir, problem), -EINVAL);
        assert_non_null(strstr(problem, names[i]));
        assert_non_null(strstr(problem, "FIFO"));
        assert_int_equal(remove(path), 0);
        assert_int_equal(mkdir(path, 0777), 0);
        assert_true(refuse_one(dir, problem) < 0);
        assert_non_null(strstr(problem, names[i]));
        assert_non_null(strstr(problem, "directory, not a regular file"));
        assert_int_equal(count_temporary(dir), 0);
    }
}

static void files_appear_whole(void **state)
{
    (void)state;
    struct run_directory *directory = begin_one("whole", "whole");
    assert_int_equal(put(directory, "file", "the content"), 0);
    assert_true(holds("whole", "file", "the content"));
    assert_int_equal(put(directory, "file", "another content"), 0);
    assert_true(holds("whole", "file", "another content"));
    assert_int_equal(count_temporary("whole"), 0);
    run_directory_close(directory);
}

static void limit_files(rlim_t bytes, struct rlimit *before)
{
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, before), 0);
    struct rlimit small = *before;
    small.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
}

static void a_full_disk_leaves_the_earlier_file(void **state)
{
    (void)state;
    static const char much[100000];
    struct rlimit before;
    struct run_directory *directory = begin_one("limited", "limited");
    assert_int_equal(put(directory, "file", "the content"), 0);
    limit_files(1000, &before);
    const int rc = run_directory_write(directory, "file", &(struct file_part){ much, sizeof(much) }, 1);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(rc, -EFBIG);
    assert_true(holds("limited", "file", "the content"));
    assert_int_equal(count_temporary("limited"), 0);
    run_directory_close(directory);
}

static void metrics_are_one_object_a_line(void **state)
{
    (void)state;
    char text[TEXT_BYTES];
    struct json json;
    struct run_directory *directory = begin_one("lines", "lines");
    json_init(&json, false);
    for (uint64_t i = 0; i < 3; i++) {
        json_reset(&json);
        json_open_object(&json, NULL);
        json_u64(&json, "step", i);
        json_close_object(&json);
        run_directory_metrics(directory, &json);
    }
    assert_int_equal(run_directory_failed(directory), 0);
    run_directory_metrics(NULL, &json);     /* nothing is written in a dry run */
    json_release(&json);
    run_directory_close(directory);
    read_text("lines/metrics.jsonl", text);
    assert_string_equal(text, "{\"step\":0}\n{\"step\":1}\n{\"step\":2}\n");
}

static void metrics_that_cannot_be_written_are_told_once(void **state)
{
    (void)state;
    struct rlimit before;
    struct json json;
    char text[TEXT_BYTES];
    int told[2];                /* a pipe: the limit would hold for a captured file too */
    struct run_directory *directory = begin_one("deaf", "deaf");
    json_init(&json, false);
    json_open_object(&json, NULL);
    json_close_object(&json);
    assert_int_equal(pipe(told), 0);
    const int saved_stderr = dup(STDERR_FILENO);
    limit_files(0, &before);
    dup2(told[1], STDERR_FILENO);
    for (int i = 0; i < 5; i++)
        run_directory_metrics(directory, &json);
    dup2(saved_stderr, STDERR_FILENO);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    close(saved_stderr);
    close(told[1]);
    const ssize_t bytes = read(told[0], text, sizeof(text) - 1);
    close(told[0]);
    assert_true(bytes > 0);
    text[bytes] = '\0';
    assert_non_null(strstr(text, "deaf/metrics.jsonl"));
    assert_ptr_equal(strchr(text, '\n'), text + bytes - 1);         /* one line */
    assert_int_equal(run_directory_failed(directory), -EFBIG);
    json_release(&json);
    run_directory_close(directory);
}

static void a_line_of_metrics_that_is_cut_spoils_no_other(void **state)
{
    (void)state;
    struct rlimit before;
    struct capture capture;
    struct json json;
    char text[TEXT_BYTES];
    struct run_directory *directory = begin_one("torn", "torn");
    json_init(&json, false);
    json_u64(&json, NULL, 1234567);
    run_directory_metrics(directory, &json);
    for (rlim_t limit = 9; limit < 16; limit++) {   /* at every byte of the second line, its end included */
        capture_begin(&capture);
        limit_files(limit, &before);
        run_directory_metrics(directory, &json);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        capture_end(&capture, text, sizeof(text));
        assert_true(holds("torn", "metrics.jsonl", "1234567\n"));
    }
    run_directory_metrics(directory, &json);
    assert_true(holds("torn", "metrics.jsonl", "1234567\n1234567\n"));
    json_release(&json);
    run_directory_close(directory);
}

static void the_stored_configuration_reads_back_equal(void **state)
{
    (void)state;
    struct settings settings, again;
    struct problems problems;
    char first[TEXT_BYTES], second[TEXT_BYTES];
    struct run_directory *directory = begin_one("stored", "stored");
    run_directory_close(directory);
    settings_make(&settings, "stored", "stored");
    problems_init(&problems);
    assert_int_equal(settings_init(&again), 0);
    assert_int_equal(config_read(&again, "stored/run.conf", &problems), 0);
    assert_int_equal(settings_finish(&again, &problems), 0);
    FILE *file = fopen("again.conf", "w");
    assert_non_null(file);
    assert_int_equal(settings_write(&again, file), 0);
    assert_int_equal(fclose(file), 0);
    assert_true(read_text("stored/run.conf", first) > 0);
    read_text("again.conf", second);
    assert_string_equal(first, second);
    problems_release(&problems);
    settings_release(&again);
    settings_release(&settings);
}

int main(void)
{
    alarm(60);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(makes_the_directory_with_its_parents_and_first_files),
        cmocka_unit_test(default_names_are_never_used_twice),
        cmocka_unit_test(a_run_without_a_step_leaves_no_directory),
        cmocka_unit_test(a_named_directory_keeps_old_results_until_a_step_is_done),
        cmocka_unit_test(previous_weights_outlive_runs_that_saved_none),
        cmocka_unit_test(a_run_killed_while_it_begins_leaves_no_mixture),
        cmocka_unit_test(temporary_files_of_dead_runs_go),
        cmocka_unit_test(a_directory_in_use_is_refused_until_it_is_free),
        cmocka_unit_test(a_file_system_without_locks_is_told_of_once),
        cmocka_unit_test(without_locks_a_default_directory_is_new),
        cmocka_unit_test(a_lock_that_is_interrupted_is_tried_again),
        cmocka_unit_test(other_failures_of_a_lock_are_told_with_their_cause),
        cmocka_unit_test(short_memory_is_told),
        cmocka_unit_test(room_for_the_results_is_asked_for_twice),
        cmocka_unit_test(what_cannot_be_a_directory_is_named),
        cmocka_unit_test(outputs_follow_no_links),
        cmocka_unit_test(what_is_no_file_in_the_place_of_one_is_refused_at_once),
        cmocka_unit_test(files_appear_whole),
        cmocka_unit_test(a_full_disk_leaves_the_earlier_file),
        cmocka_unit_test(metrics_are_one_object_a_line),
        cmocka_unit_test(metrics_that_cannot_be_written_are_told_once),
        cmocka_unit_test(a_line_of_metrics_that_is_cut_spoils_no_other),
        cmocka_unit_test(the_stored_configuration_reads_back_equal),
    };
    return cmocka_run_group_tests(tests, fixture_folder_enter, fixture_folder_leave);
}
