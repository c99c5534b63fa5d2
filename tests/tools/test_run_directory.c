/* Tests of the directory of a run: one run at a time, files whole or not at all, no links
 * followed, and every problem told. */
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
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/config/config.h"
#include "tools/run/run_directory.h"

enum { TEXT_BYTES = 4096 };

/* The tests run in a folder of their own. */
static char folder[512];

static int folder_make(void **state)
{
    (void)state;
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof(folder), "%s/pipetrain-run.XXXXXX", base != NULL ? base : "/tmp");
    return mkdtemp(folder) != NULL && chdir(folder) == 0 ? 0 : -1;
}

static int folder_remove(void **state)
{
    (void)state;
    char command[600];
    snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    return chdir("/") == 0 ? system(command) : -1;
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

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
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

static int put_text(void *arg, FILE *out)
{
    return fputs(arg, out) < 0 ? -EIO : 0;
}

static int put_half(void *arg, FILE *out)
{
    fputs(arg, out);
    return -EINTR;
}

static void makes_the_directory_with_its_parents_and_first_files(void **state)
{
    (void)state;
    char text[TEXT_BYTES];
    struct run_directory *directory = open_one("first", "deep/er/first");
    assert_string_equal(run_directory_path(directory), "deep/er/first");
    assert_true(read_text("deep/er/first/run.conf", text) > 0);
    assert_non_null(strstr(text, "source = synthetic"));
    assert_true(exists("deep/er/first/metrics.jsonl"));
    assert_int_equal(read_text("deep/er/first/metrics.jsonl", text), 0);
    run_directory_close(directory);
    run_directory_close(NULL);
}

static void default_names_are_never_used_twice(void **state)
{
    (void)state;
    static const char *const expected[] = { "runs/job", "runs/job-2", "runs/job-3" };
    struct run_directory *open[3];
    for (int i = 0; i < 3; i++) {           /* while the others run */
        open[i] = open_one("job", NULL);
        assert_string_equal(run_directory_path(open[i]), expected[i]);
    }
    for (int i = 0; i < 3; i++)
        run_directory_close(open[i]);
    struct run_directory *later = open_one("job", NULL);
    assert_string_equal(run_directory_path(later), "runs/job-4");
    run_directory_close(later);
}

static void a_named_directory_is_used_again_without_old_results(void **state)
{
    (void)state;
    char text[TEXT_BYTES];
    struct run_directory *directory = open_one("again", "again");
    char summary[] = "{}", line[] = "{\"old\":1}\n";
    assert_int_equal(run_directory_write(directory, "summary.json", put_text, summary), 0);
    run_directory_close(directory);
    write_text("again/metrics.jsonl", line);
    directory = open_one("again", "again");
    assert_false(exists("again/summary.json"));
    assert_int_equal(read_text("again/metrics.jsonl", text), 0);
    run_directory_close(directory);
}

static void a_directory_in_use_is_refused_until_it_is_free(void **state)
{
    (void)state;
    char problem[TEXT_BYTES];
    struct run_directory *directory = open_one("used", "used");
    char summary[] = "{\"mine\":1}";
    assert_int_equal(run_directory_write(directory, "summary.json", put_text, summary), 0);
    assert_int_equal(refuse_one("used", problem), -EWOULDBLOCK);
    assert_non_null(strstr(problem, "used"));
    assert_non_null(strstr(problem, "another run"));
    assert_true(exists("used/summary.json"));
    run_directory_close(directory);
    run_directory_close(open_one("used", "used"));
}

static void what_cannot_be_a_directory_is_named(void **state)
{
    (void)state;
    char problem[TEXT_BYTES];
    write_text("file", "text");
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
        assert_false(exists("target"));
    }
    /* A link in place of a file that is renamed into place is replaced. */
    char text[] = "whole";
    struct run_directory *directory = open_one("replaced", "replaced");
    assert_int_equal(symlink("../target", "replaced/summary.json"), 0);
    assert_int_equal(run_directory_write(directory, "summary.json", put_text, text), 0);
    run_directory_close(directory);
    assert_false(exists("target"));
}

static void files_appear_whole_or_not_at_all(void **state)
{
    (void)state;
    char text[TEXT_BYTES], content[] = "the content";
    struct run_directory *directory = open_one("whole", "whole");
    assert_int_equal(run_directory_write(directory, "file", put_half, content), -EINTR);
    assert_false(exists("whole/file"));
    assert_int_equal(run_directory_write(directory, "file", put_text, content), 0);
    read_text("whole/file", text);
    assert_string_equal(text, content);
    assert_int_equal(run_directory_write(directory, "file", put_half, content), -EINTR);
    read_text("whole/file", text);
    assert_string_equal(text, content);     /* the earlier one stays */
    assert_int_equal(count_temporary("whole"), 0);
    run_directory_close(directory);
}

static int put_much(void *arg, FILE *out)
{
    (void)arg;
    for (int i = 0; i < 100000; i++)
        if (fputs("0123456789", out) < 0)
            return -EFBIG;
    return 0;
}

static void a_full_disk_leaves_the_earlier_file(void **state)
{
    (void)state;
    struct rlimit before, small;
    char text[TEXT_BYTES], content[] = "the content";
    struct run_directory *directory = open_one("limited", "limited");
    assert_int_equal(run_directory_write(directory, "file", put_text, content), 0);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 1000;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    const int rc = run_directory_write(directory, "file", put_much, NULL);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(rc, -EFBIG);
    read_text("limited/file", text);
    assert_string_equal(text, content);
    assert_int_equal(count_temporary("limited"), 0);
    run_directory_close(directory);
}

static void metrics_are_one_object_a_line(void **state)
{
    (void)state;
    char text[TEXT_BYTES];
    struct json json;
    struct run_directory *directory = open_one("lines", "lines");
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
    struct rlimit before, none;
    struct json json;
    char text[TEXT_BYTES];
    int told[2];                /* a pipe: the limit would hold for a captured file too */
    struct run_directory *directory = open_one("deaf", "deaf");
    json_init(&json, false);
    json_open_object(&json, NULL);
    json_close_object(&json);
    assert_int_equal(pipe(told), 0);
    const int saved_stderr = dup(STDERR_FILENO);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    none = before;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
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

static void the_stored_configuration_reads_back_equal(void **state)
{
    (void)state;
    struct settings settings, again;
    struct problems problems;
    char first[TEXT_BYTES], second[TEXT_BYTES];
    struct run_directory *directory = open_one("stored", "stored");
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
        cmocka_unit_test(a_named_directory_is_used_again_without_old_results),
        cmocka_unit_test(a_directory_in_use_is_refused_until_it_is_free),
        cmocka_unit_test(what_cannot_be_a_directory_is_named),
        cmocka_unit_test(outputs_follow_no_links),
        cmocka_unit_test(files_appear_whole_or_not_at_all),
        cmocka_unit_test(a_full_disk_leaves_the_earlier_file),
        cmocka_unit_test(metrics_are_one_object_a_line),
        cmocka_unit_test(metrics_that_cannot_be_written_are_told_once),
        cmocka_unit_test(the_stored_configuration_reads_back_equal),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
