/* Tests of where a trace is written: over a trace or nothing, and not over what may be somebody's. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stage/file/file.h"
#include "tests/helpers/test.h"
#include "tools/lib/run/trace_file.h"

static char path[PATH_MAX];
static int read_error;          /* of every read, 0: none */

int __real_file_read_some(int fd, uint64_t offset, void *out, size_t bytes, size_t *done_out);
int __wrap_file_read_some(int fd, uint64_t offset, void *out, size_t bytes, size_t *done_out);

int __wrap_file_read_some(int fd, uint64_t offset, void *out, size_t bytes, size_t *done_out)
{
    return read_error != 0 ? read_error : __real_file_read_some(fd, offset, out, bytes, done_out);
}

static void write_text(const char *text)
{
    FILE *const file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void expect_text(const char *text)
{
    char found[4096] = "";
    FILE *const file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fread(found, 1, sizeof(found), file), strlen(text));
    fclose(file);
    assert_memory_equal(found, text, strlen(text));
}

/* What becomes of beginning a trace there, and what is said. */
static int begin(const char **problem)
{
    const struct trace_spec spec = { .tracks = 1, .entries = 1, .end = 1 };
    struct trace_file *file;
    struct trace *trace;
    assert_int_equal(trace_open(&trace, &spec), 0);
    assert_int_equal(trace_file_open(&file, trace, (struct tower_range){ 0, 1 }), 0);
    const char *checked;
    const int check_rc = trace_file_check(path, &checked), rc = trace_file_begin(file, path, problem);
    assert_int_equal(check_rc, rc);
    assert_ptr_equal(checked, *problem);
    trace_file_close(file);
    trace_close(trace);
    return rc;
}

static int set_up(void **state)
{
    (void)state;
    const char *const parent = getenv("TMPDIR");
    snprintf(path, sizeof(path), "%s/pipetrain-trace-XXXXXX", parent != NULL ? parent : "/tmp");
    const int fd = mkstemp(path);
    return fd >= 0 ? close(fd) : -1;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(path);
    return 0;
}

TEST_WITH(a_trace_takes_the_place_of_a_trace_or_of_nothing, set_up, tear_down)
{
    static const char *const earlier[] = { "", "[\n{\"ph\":\"M\"},\n" };
    const char *problem;
    for (size_t i = 0; i < 2; i++) {
        write_text(earlier[i]);
        assert_int_equal(begin(&problem), 0);
        assert_null(problem);
    }
    unlink(path);
    assert_int_equal(begin(&problem), 0);
    assert_null(problem);
}

TEST_WITH(what_is_no_trace_stays, set_up, tear_down)
{
    static const char *const others[] = { "x", "[\n{\"ph\"", "no trace, and longer than how one begins" };
    const char *problem;
    for (size_t i = 0; i < 3; i++) {
        write_text(others[i]);
        assert_int_equal(begin(&problem), -EEXIST);
        assert_string_equal(problem, "the existing file is not a trace");
        expect_text(others[i]);
    }
}

/* As after cp -al: the trace of the other name is another run's. */
TEST_WITH(a_trace_of_two_names_stays_under_the_other_one, set_up, tear_down)
{
    static const char earlier[] = "[\n{\"ph\":\"M\"},\n";
    char other[PATH_MAX + 8];
    const char *problem;
    snprintf(other, sizeof(other), "%s-other", path);
    write_text(earlier);
    assert_int_equal(link(path, other), 0);
    assert_int_equal(begin(&problem), 0);
    assert_int_equal(rename(other, path), 0);
    expect_text(earlier);
}

/* It may be a trace: what is said is that nobody knows. */
TEST_WITH(what_cannot_be_read_stays_and_is_reported_as_such, set_up, tear_down)
{
    const char *problem;
    write_text("[\n{\"ph\":\"M\"},\n");
    read_error = -EIO;
    const int rc = begin(&problem);
    read_error = 0;
    assert_int_equal(rc, -EIO);
    assert_string_equal(problem, "cannot read the existing file");
    expect_text("[\n{\"ph\":\"M\"},\n");
}

TEST_WITH(a_folder_that_is_not_there_is_an_error_of_writing, set_up, tear_down)
{
    const char *problem = "";
    unlink(path);
    strcat(path, "/none");
    assert_int_equal(begin(&problem), -ENOENT);
    assert_null(problem);
    *strrchr(path, '/') = '\0';
}

TESTS_MAIN(NULL, NULL)
