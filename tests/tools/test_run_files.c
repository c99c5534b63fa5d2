/* Tests of the files in a run's directory: that they appear whole or not at all, follow no links, and what is said when
 * they cannot be written. */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/helpers/capture.h"
#include "tests/helpers/file_fixture.h"
#include "tests/helpers/test.h"
#include "tests/tools/run_directory_fixture.h"
#include "tools/lib/run/report.h"

TEST(outputs_follow_no_links)
{
    static const char *const names[] = { "metrics.jsonl", ".lock" };
    char problem[RUN_TEXT_BYTES];
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char dir[32], link[64];
        snprintf(dir, sizeof(dir), "linked%zu", i);
        snprintf(link, sizeof(link), "%s/%s", dir, names[i]);
        assert_int_equal(mkdir(dir, 0777), 0);
        assert_int_equal(symlink("../target", link), 0);
        assert_int_equal(run_fixture_refuse(dir, problem), -ELOOP);
        assert_non_null(strstr(problem, names[i]));
        assert_false(fixture_exists("target"));
    }
    /* A link in place of a file that is renamed into place is replaced. */
    struct run_directory *directory = run_fixture_begin("replaced", "replaced");
    assert_int_equal(symlink("../target", "replaced/summary.json"), 0);
    assert_int_equal(run_fixture_put(directory, "summary.json", "whole"), 0);
    run_directory_close(directory);
    assert_false(fixture_exists("target"));
}

/* As after cp -al: nothing is written into a file that may be anybody's. */
TEST(a_lock_file_with_a_second_name_is_refused_and_stays_as_it_is)
{
    char problem[RUN_TEXT_BYTES];
    assert_int_equal(mkdir("twice", 0777), 0);
    fixture_write_text("victim", "precious");
    assert_int_equal(link("victim", "twice/.lock"), 0);
    assert_int_equal(run_fixture_refuse("twice", problem), -EMLINK);
    assert_non_null(strstr(problem, "run directory twice: .lock has 2 hard links, as after cp -al: remove it"));
    assert_true(run_fixture_holds(".", "victim", "precious"));
    assert_int_equal(unlink("twice/.lock"), 0);
    run_directory_close(run_fixture_open("twice", "twice"));
    assert_true(run_fixture_holds(".", "victim", "precious"));
}

/* A resumed run appends to its lines: those of the other name stay. */
TEST(lines_with_a_second_name_are_continued_in_a_file_of_their_own)
{
    static const char *const lines[] = { "1\n2\n", "1\n2\n3\n", "1\n2\nbroken" };
    for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
        char dir[32], problem[RUN_TEXT_BYTES];
        struct settings settings;
        struct run_directory *directory;
        snprintf(dir, sizeof(dir), "copied%zu", i);
        const struct run_past past = { .path = dir, .lines_bytes = { 4, 0 } };
        run_directory_close(run_fixture_begin(dir, dir));
        fixture_write_text("metrics.other", lines[i]);
        snprintf(problem, sizeof(problem), "%s/metrics.jsonl", dir);
        assert_int_equal(unlink(problem), 0);
        assert_int_equal(link("metrics.other", problem), 0);
        run_fixture_settings(&settings, dir, dir);
        assert_int_equal(run_directory_open(&directory, &settings, &past, problem, sizeof(problem)), 0);
        settings_release(&settings);
        assert_int_equal(run_directory_lines_bytes(directory, RUN_METRICS), 4);
        assert_int_equal(run_directory_begin(directory), 0);
        assert_int_equal(run_directory_look(directory), 0);
        run_directory_close(directory);
        assert_true(run_fixture_holds(dir, "metrics.jsonl", "1\n2\n"));
        assert_true(run_fixture_holds(".", "metrics.other", lines[i]));
        assert_int_equal(run_fixture_temporaries(dir), 0);
    }
}

/* Nobody reads or writes the FIFO: opening it must not wait. */
TEST(what_is_no_file_in_the_place_of_one_is_refused_at_once)
{
    static const char *const names[] = { "run.conf", "metrics.jsonl", "summary.json", "weights.safetensors", ".lock" };
    char problem[RUN_TEXT_BYTES];
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char dir[32], path[64];
        snprintf(dir, sizeof(dir), "special%zu", i);
        snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
        assert_int_equal(mkdir(dir, 0777), 0);
        assert_int_equal(mkfifo(path, 0666), 0);
        assert_int_equal(run_fixture_refuse(dir, problem), -EINVAL);
        assert_non_null(strstr(problem, names[i]));
        assert_non_null(strstr(problem, "FIFO"));
        assert_int_equal(remove(path), 0);
        assert_int_equal(mkdir(path, 0777), 0);
        assert_true(run_fixture_refuse(dir, problem) < 0);
        assert_non_null(strstr(problem, names[i]));
        assert_non_null(strstr(problem, "directory, not a regular file"));
        assert_int_equal(run_fixture_temporaries(dir), 0);
    }
}

TEST(files_appear_whole)
{
    struct run_directory *directory = run_fixture_begin("whole", "whole");
    assert_int_equal(run_fixture_put(directory, "file", "the content"), 0);
    assert_true(run_fixture_holds("whole", "file", "the content"));
    assert_int_equal(run_fixture_put(directory, "file", "another content"), 0);
    assert_true(run_fixture_holds("whole", "file", "another content"));
    assert_int_equal(run_fixture_temporaries("whole"), 0);
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

TEST(a_full_disk_leaves_the_earlier_file)
{
    static const char much[100000];
    struct rlimit before;
    struct run_directory *directory = run_fixture_begin("limited", "limited");
    assert_int_equal(run_fixture_put(directory, "file", "the content"), 0);
    limit_files(1000, &before);
    const int rc = whole_file_write(run_directory_fd(directory), "file", &(struct file_part){ much, sizeof(much) }, 1);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(rc, -EFBIG);
    assert_true(run_fixture_holds("limited", "file", "the content"));
    assert_int_equal(run_fixture_temporaries("limited"), 0);
    run_directory_close(directory);
}

TEST(metrics_are_one_object_a_line)
{
    char text[RUN_TEXT_BYTES];
    struct json json;
    struct run_directory *directory = run_fixture_begin("lines", "lines");
    json_init(&json, false);
    for (uint64_t i = 0; i < 3; i++) {
        json_reset(&json);
        json_open_object(&json, NULL);
        json_u64(&json, "step", i);
        json_close_object(&json);
        run_directory_add_line(directory, RUN_METRICS, &json);
    }
    assert_int_equal(run_directory_failed(directory), 0);
    run_directory_add_line(NULL, RUN_METRICS, &json);     /* nothing is written in a dry run */
    json_release(&json);
    run_directory_close(directory);
    run_fixture_text("lines/metrics.jsonl", text);
    assert_string_equal(text, "{\"step\":0}\n{\"step\":1}\n{\"step\":2}\n");
}

TEST(metrics_that_cannot_be_written_are_reported_once)
{
    struct rlimit before;
    struct json json;
    char text[RUN_TEXT_BYTES];
    int told[2];                /* a pipe: the limit would hold for a captured file too */
    struct run_directory *directory = run_fixture_begin("deaf", "deaf");
    json_init(&json, false);
    json_open_object(&json, NULL);
    json_close_object(&json);
    assert_int_equal(pipe(told), 0);
    const int saved_stderr = dup(STDERR_FILENO);
    limit_files(0, &before);
    dup2(told[1], STDERR_FILENO);
    for (int i = 0; i < 5; i++)
        run_directory_add_line(directory, RUN_METRICS, &json);
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

TEST(a_line_of_metrics_that_is_cut_spoils_no_other)
{
    struct rlimit before;
    struct capture capture;
    struct json json;
    char text[RUN_TEXT_BYTES];
    struct run_directory *directory = run_fixture_begin("torn", "torn");
    json_init(&json, false);
    json_u64(&json, NULL, 1234567);
    run_directory_add_line(directory, RUN_METRICS, &json);
    for (rlim_t limit = 9; limit < 16; limit++) {   /* at every byte of the second line, its end included */
        capture_begin(&capture);
        limit_files(limit, &before);
        run_directory_add_line(directory, RUN_METRICS, &json);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        capture_end(&capture, text, sizeof(text));
        assert_true(run_fixture_holds("torn", "metrics.jsonl", "1234567\n"));
    }
    run_directory_add_line(directory, RUN_METRICS, &json);
    assert_true(run_fixture_holds("torn", "metrics.jsonl", "1234567\n1234567\n"));
    json_release(&json);
    run_directory_close(directory);
}

/* The directory of a run that skips damage, which has met some before its first step. */
static struct run_directory *open_skipping(const char *dir)
{
    struct settings settings;
    struct run_directory *directory = NULL;
    struct json json;
    char problem[RUN_TEXT_BYTES];
    run_fixture_settings(&settings, "skipping", dir);
    settings.data.on_corrupt = ON_CORRUPT_SKIP;
    assert_int_equal(run_directory_open(&directory, &settings, NULL, problem, sizeof(problem)), 0);
    settings_release(&settings);
    json_init(&json, false);
    json_u64(&json, NULL, 1);
    run_directory_add_line(directory, RUN_QUARANTINE, &json);
    json_release(&json);
    return directory;
}

TEST(damaged_records_have_a_file_where_they_are_skipped)
{
    struct json json;
    json_init(&json, false);
    json_u64(&json, NULL, 2);
    run_directory_close(run_fixture_begin("skipping", "skipping"));
    assert_false(fixture_exists("skipping/quarantine.jsonl"));
    run_directory_close(open_skipping("skipping"));         /* no step was done */
    assert_false(fixture_exists("skipping/quarantine.jsonl"));
    assert_int_equal(run_fixture_temporaries("skipping"), 0);
    for (int i = 0; i < 2; i++) {           /* that of an earlier run goes */
        struct run_directory *const directory = open_skipping("skipping");
        assert_int_equal(run_directory_begin(directory), 0);
        assert_true(run_fixture_holds("skipping", "quarantine.jsonl", "1\n"));
        run_directory_add_line(directory, RUN_QUARANTINE, &json);
        assert_true(run_fixture_holds("skipping", "quarantine.jsonl", "1\n2\n"));
        assert_int_equal(run_directory_failed(directory), 0);
        run_directory_close(directory);
    }
    run_directory_close(run_fixture_open("skipping", "skipping"));
    assert_true(run_fixture_holds("skipping", "quarantine.jsonl", "1\n2\n"));
    run_directory_close(run_fixture_begin("skipping", "skipping"));
    assert_false(fixture_exists("skipping/quarantine.jsonl"));
    json_release(&json);
}

TEST(the_stored_configuration_reads_back_equal)
{
    struct settings settings, again;
    struct problems problems;
    char first[RUN_TEXT_BYTES], second[RUN_TEXT_BYTES];
    struct run_directory *directory = run_fixture_begin("stored", "stored");
    run_directory_close(directory);
    run_fixture_settings(&settings, "stored", "stored");
    problems_init(&problems);
    assert_int_equal(settings_init(&again), 0);
    assert_int_equal(config_read(&again, "stored/run.conf", &problems), 0);
    assert_int_equal(settings_finish(&again, &problems), 0);
    FILE *file = fopen("again.conf", "w");
    assert_non_null(file);
    assert_int_equal(settings_write(&again, file), 0);
    assert_int_equal(fclose(file), 0);
    assert_true(run_fixture_text("stored/run.conf", first) > 0);
    run_fixture_text("again.conf", second);
    assert_string_equal(first, second);
    problems_release(&problems);
    settings_release(&again);
    settings_release(&settings);
}

/* What people and scripts are told of the file, in one text. */
static void tell_damage(const struct damage_list *list, struct run_directory *directory, char text_out[RUN_TEXT_BYTES])
{
    struct json json;
    FILE *const out = fmemopen(text_out, RUN_TEXT_BYTES, "w");
    assert_non_null(out);
    report_damage_print(list, list->count, directory, out);
    json_init(&json, false);
    json_open_object(&json, NULL);
    report_damage_write(list, directory, &json);
    fprintf(out, "%s", json_text(&json));
    json_release(&json);
    fclose(out);
}

TEST(damaged_records_that_found_no_room_in_the_file_are_counted)
{
    struct rlimit before;
    char text[RUN_TEXT_BYTES];
    int told[2];                /* a pipe: the limit would hold for a captured file too */
    struct run_directory *const directory = open_skipping("lacking");
    struct report_damage report;
    struct damage_list *const list = calloc(1, sizeof(*list));
    assert_non_null(list);
    damage_list_add(list, &(struct damaged_record){ .path = "shard", .count = 1, .problem = { .text = "is bad" } });
    assert_int_equal(report_damage_init(&report, directory), 0);
    tell_damage(list, directory, text);
    assert_non_null(strstr(text, "all are listed in lacking/quarantine.jsonl\n"));
    assert_null(strstr(text, "file_lacks"));
    assert_int_equal(pipe(told), 0);
    const int saved_stderr = dup(STDERR_FILENO);
    limit_files(10, &before);
    dup2(told[1], STDERR_FILENO);
    for (int i = 0; i < 3; i++)
        report_damage_add(&report, &list->records[0]);
    dup2(saved_stderr, STDERR_FILENO);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    close(saved_stderr);
    close(told[0]);
    close(told[1]);
    tell_damage(list, directory, text);
    assert_non_null(strstr(text, "all are listed in lacking/quarantine.jsonl, but for 3 lines that could not be written\n"));
    assert_non_null(strstr(text, "\"file\":\"quarantine.jsonl\",\"file_lacks\":3}"));
    free(list);
    report_damage_release(&report);
    run_directory_close(directory);
}

int main(void)
{
    alarm(60);
    return tests_run(fixture_folder_enter, fixture_folder_leave);
}
