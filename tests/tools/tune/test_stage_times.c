/* Tests of service times out of a trace: of one that is small enough to count by hand. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/helpers/test.h"
#include "tools/tune/stage_times.h"

static char path[128];

static void begin(FILE **file_out)
{
    *file_out = fopen(path, "w");
    assert_non_null(*file_out);
    fputs("[\n", *file_out);
}

static void span(FILE *file, int track, const char *name, double start, double duration)
{
    fprintf(file, "{\"ph\":\"X\",\"pid\":1,\"tid\":%d,\"name\":\"%s\",\"ts\":%.3f,\"dur\":%.3f},\n", track, name, start,
            duration);
}

/* One reader, two decoders, two pieces a batch, ten batches; the second decoder's entries of the first two batches are
 * lost, as a full track loses its oldest. */
static void write_trace(void)
{
    FILE *file;
    begin(&file);
    for (int batch = 0; batch < 10; batch++) {
        const double at = 1000.0 * batch;
        span(file, 1001, "wait for room", at, 50);
        span(file, 1001, "read", at + 100, 100 + batch);
        span(file, 1001, "read", at + 300, 100 + batch);
        span(file, 2001, "decode", at + 200, 300);
        if (batch >= 2)
            span(file, 2002, "decode", at + 400, 500);
        span(file, 3001, "feed", at + 920, 20);
        span(file, 4001, "copy", at + 925, 10);
        span(file, 5001, "step", at + 940, 900);
        span(file, 5001, "forward", at + 940, 300);
        span(file, 5002, "step", at + 940, 800);
    }
    fclose(file);
}

static int set_up(void **state)
{
    (void)state;
    const char *const parent = getenv("TMPDIR");
    snprintf(path, sizeof(path), "%s/pipetrain-times-XXXXXX", parent != NULL ? parent : "/tmp");
    const int fd = mkstemp(path);
    return fd >= 0 ? close(fd) : -1;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(path);
    return 0;
}

TEST_WITH(each_stage_has_its_times_in_their_order, set_up, tear_down)
{
    struct stage_times times;
    write_trace();
    assert_int_equal(stage_times_read(&times, path), 0);
    assert_int_equal(times.read.count, 20);
    assert_float_equal(times.read.seconds[0], 100e-6, 1e-12);
    assert_float_equal(times.read.seconds[19], 109e-6, 1e-12);
    assert_int_equal(times.decode.count, 14);           /* while both decoders have entries */
    assert_float_equal(times.decode.seconds[0], 500e-6, 1e-12); /* at 2400: the one at 2200 began before that */
    assert_float_equal(times.decode.seconds[1], 300e-6, 1e-12);
    assert_int_equal(times.copy.count, 10);
    assert_float_equal(times.copy.seconds[3], 10e-6, 1e-12);
    assert_int_equal(times.steps.count, 8);             /* of tower 0, from begin to begin, while both have steps */
    assert_float_equal(times.steps.seconds[0], 1000e-6, 1e-12);
    assert_int_equal(times.pieces, 2);
    stage_times_release(&times);
}

TEST_WITH(a_run_without_a_loader_has_steps_only, set_up, tear_down)
{
    FILE *file;
    struct stage_times times;
    begin(&file);
    for (int i = 0; i < 3; i++)
        span(file, 5001, "step", 10 * i, 9);
    fclose(file);
    assert_int_equal(stage_times_read(&times, path), 0);
    assert_int_equal(times.steps.count, 2);
    assert_int_equal(times.read.count + times.decode.count + times.copy.count + times.pieces, 0);
    stage_times_release(&times);
}

TEST_WITH(what_is_no_trace_or_has_no_steps_is_told, set_up, tear_down)
{
    FILE *file;
    struct stage_times times;
    begin(&file);
    span(file, 5001, "step", 0, 9);
    fclose(file);
    assert_int_equal(stage_times_read(&times, path), -ENODATA);
    stage_times_release(&times);
    file = fopen(path, "w");
    assert_non_null(file);
    fputs("no trace", file);
    fclose(file);
    assert_int_equal(stage_times_read(&times, path), -EBADMSG);
    stage_times_release(&times);
    assert_int_equal(truncate(path, 0), 0);
    assert_int_equal(stage_times_read(&times, path), -EBADMSG);
    stage_times_release(&times);
    unlink(path);
    assert_int_equal(stage_times_read(&times, path), -ENOENT);
    stage_times_release(&times);
}

TESTS_MAIN(NULL, NULL)
