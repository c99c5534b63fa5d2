/* Tests of traces: their events, whole and cut anywhere, and the steps that are drawn of them. */
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/helpers/test.h"
#include "tests/tools/report/markup.h"
#include "tools/report/trace/trace_drawing.h"

static char problem[512];

static void __attribute__((format(printf, 2, 3))) write_event(FILE *out, const char *format, ...)
{
    va_list arguments;
    fputs(",\n{\"pid\":0,", out);
    va_start(arguments, format);
    vfprintf(out, format, arguments);
    va_end(arguments);
    fputs("}", out);
}

/* Steps of 10 ms, each a slice with a forward and a backward pass in it; copies on another track, one flow a step. */
static char *make_trace(int steps, bool is_object)
{
    char *text = NULL;
    size_t bytes;
    FILE *const out = open_memstream(&text, &bytes);
    fputs(is_object ? "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n" : "[\n", out);
    fputs("{\"ph\":\"M\",\"pid\":0,\"tid\":60,\"name\":\"thread_name\",\"args\":{\"name\":\"trainer & <co>\"}},\n"
          "{\"ph\":\"M\",\"pid\":0,\"tid\":60,\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":-1}}", out);
    for (int i = 0; i < steps; i++) {
        const int at = 10000 * i;
        write_event(out, "\"ph\":\"X\",\"tid\":50,\"cat\":\"copy\",\"name\":\"batch %d\",\"ts\":%d,\"dur\":500", i,
                    at - 800);
        write_event(out, "\"ph\":\"s\",\"tid\":50,\"cat\":\"b\",\"id\":%d,\"ts\":%d", i, at - 400);
        write_event(out, "\"ph\":\"X\",\"tid\":60,\"name\":\"backward\",\"ts\":%d.5,\"dur\":6000", at + 3000);
        write_event(out, "\"ph\":\"X\",\"tid\":60,\"name\":\"forward\",\"ts\":%d,\"dur\":3000.25", at);
        write_event(out, "\"ph\":\"X\",\"tid\":60,\"name\":\"step %d\",\"ts\":%d,\"dur\":9900", i, at);
        write_event(out, "\"ph\":\"f\",\"bp\":\"e\",\"tid\":60,\"cat\":\"b\",\"id\":%d,\"ts\":%d", i, at);
        write_event(out, "\"ph\":\"C\",\"name\":\"ring\",\"ts\":%d,\"args\":{\"batches\":2}", at);
    }
    fputs(is_object ? "\n]}\n" : "\n]\n", out);
    fclose(out);
    return text;
}

static int read_text(struct trace *trace, const char *text, size_t bytes)
{
    *problem = '\0';
    return trace_read(trace, text, bytes, problem, sizeof(problem));
}

static char *draw(const struct trace *trace)
{
    char *text = NULL;
    size_t bytes;
    FILE *const out = open_memstream(&text, &bytes);
    const struct trace_window window = trace_window_find(trace);
    assert_true(window.begin <= window.end);
    trace_draw(out, trace, &window, "a <b>");
    fclose(out);
    const char *const svg = strstr(text, "<svg");
    assert_int_equal(strncmp(text, TRACE_DRAWING_BEGINS, strlen(TRACE_DRAWING_BEGINS)), 0);
    assert_non_null(svg);
    assert_null(markup_problem(svg));
    assert_null(strstr(svg, "nan"));
    assert_null(strstr(svg, "inf"));
    return text;
}

static size_t count_of(const char *text, const char *part)
{
    size_t count = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at++)
        count++;
    return count;
}

TEST(arrays_and_objects_are_read_alike)
{
    for (int is_object = 0; is_object < 2; is_object++) {
        struct trace trace;
        char *const text = make_trace(20, is_object == 1);
        assert_int_equal(read_text(&trace, text, strlen(text)), 0);
        assert_string_equal(problem, "");
        assert_int_equal(trace.track_count, 2);
        assert_int_equal(trace.slice_count, 80);
        assert_int_equal(trace.step_count, 40);
        assert_string_equal(trace.tracks[0].name, "trainer & <co>");
        for (size_t i = 0; i < trace.slice_count; i++) {
            const struct trace_slice *const slice = &trace.slices[i];
            assert_true(i == 0 || slice->track != slice[-1].track || slice->start >= slice[-1].start);
            const bool is_inner = strcmp(slice->name, "forward") == 0 || strcmp(slice->name, "backward") == 0;
            assert_int_equal(slice->depth, is_inner);
        }
        trace_release(&trace);
        free(text);
    }
}

TEST(steps_in_the_middle_are_drawn)
{
    struct trace trace;
    char *const text = make_trace(20, false);
    assert_int_equal(read_text(&trace, text, strlen(text)), 0);
    const struct trace_window window = trace_window_find(&trace);
    assert_true(window.begin == 80000 && window.end == 120000);
    char *const svg = draw(&trace);
    assert_int_equal(count_of(svg, "<title>forward, 3 ms"), 4);
    assert_int_equal(count_of(svg, "<title>step "), 4);
    assert_int_equal(count_of(svg, "<title>batch "), 4);
    assert_int_equal(count_of(svg, "class=\"flow\""), 4);   /* to the steps behind the first one */
    assert_true(strstr(svg, "trainer &amp; &lt;co&gt;") < strstr(svg, "0/50"));
    free(svg);
    trace_release(&trace);
    free(text);
}

/* Fewer steps than are drawn, or no forward pass at all: then it is the whole. */
TEST(short_traces_are_drawn_whole)
{
    static const char alone[] = "[{\"ph\":\"X\",\"pid\":3,\"tid\":4,\"name\":\"x\",\"ts\":5,\"dur\":0}]";
    for (int steps = 1; steps < 4; steps++) {
        struct trace trace;
        char *const text = make_trace(steps, false);
        assert_int_equal(read_text(&trace, text, strlen(text)), 0);
        const struct trace_window window = trace_window_find(&trace);
        assert_true(window.begin == -800 && window.end == 10000 * steps - 100);
        free(draw(&trace));
        trace_release(&trace);
        free(text);
    }
    struct trace trace;
    assert_int_equal(read_text(&trace, alone, strlen(alone)), 0);
    free(draw(&trace));
    trace_release(&trace);
}

/* A cut behind an event is no damage, whether a comma is there or not; else one event is lost and told. */
TEST(a_trace_cut_anywhere_is_read_up_to_there)
{
    char *const text = make_trace(3, false);
    for (size_t bytes = 1; bytes < strlen(text); bytes++) {
        struct trace trace;
        char *const part = strndup(text, bytes);
        size_t whole = 0;
        for (size_t i = 0; i < bytes; i++)
            whole += i + 8 <= bytes && strncmp(text + i, "\"ph\":\"X\"", 8) == 0 &&
                     memchr(text + i, '}', bytes - i) != NULL;
        const int rc = read_text(&trace, part, bytes);
        assert_int_equal(trace.slice_count, whole);
        assert_int_equal(rc == 0, count_of(part, "{") == count_of(part, "}"));
        assert_int_equal(rc != 0, *problem != '\0');
        if (trace.slice_count > 0)
            free(draw(&trace));
        trace_release(&trace);
        free(part);
    }
    free(text);
}

TEST(what_is_no_trace_is_refused)
{
    static const char *const texts[] = {
        "", "x", "7", "{}", "{\"traceEvents\":1}", "{\"traceEvents\":[", "[1]", "[{}]", "[{\"ph\":\"\"}]",
        "[{\"ph\":7}]",
        "[{\"ph\":\"X\",\"ts\":1}]", "[{\"ph\":\"X\",\"ts\":1,\"dur\":-1}]", "[{\"ph\":\"X\",\"ts\":\"1\",\"dur\":1}]",
        "[{\"ph\":\"s\"}]", "[[]]", "[null]",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct trace trace;
        assert_int_equal(read_text(&trace, texts[i], strlen(texts[i])), -EBADMSG);
        assert_string_not_equal(problem, "");
        assert_int_equal(trace.slice_count, 0);
        trace_release(&trace);
    }
}

/* Every thread looks for its track, and every bar for those that it lies in: without bounds, minutes. */
TEST(many_threads_and_many_bars_take_no_time)
{
    enum { THREADS = 80000, BARS = 200000, EVENT_BYTES = 96 };
    char *const text = malloc((size_t)BARS * EVENT_BYTES + 8);
    struct trace trace;
    size_t used = (size_t)sprintf(text, "[");
    for (int i = 0; i < THREADS; i++)
        used += (size_t)sprintf(text + used, "{\"ph\":\"X\",\"pid\":1,\"tid\":%d,\"ts\":1,\"dur\":1},", i);
    assert_int_equal(trace_read(&trace, text, used, problem, sizeof(problem)), -EBADMSG);
    assert_string_equal(problem, "event 1025: there are more than 1024 threads: it and what is behind it is left out");
    assert_int_equal(trace.slice_count, 1024);
    trace_release(&trace);
    used = (size_t)sprintf(text, "[{\"ph\":\"X\",\"pid\":1,\"tid\":1,\"ts\":0,\"dur\":%d},", 3 * BARS);
    for (int i = 1; i < BARS; i++)
        used += (size_t)sprintf(text + used, "{\"ph\":\"X\",\"pid\":1,\"tid\":1,\"ts\":%d,\"dur\":1},", 2 * i);
    assert_int_equal(trace_read(&trace, text, used, problem, sizeof(problem)), 0);
    assert_int_equal(trace.slice_count, BARS);
    assert_int_equal(trace.slices[0].depth, 0);
    assert_int_equal(trace.slices[BARS - 1].depth, 1);
    trace_release(&trace);
    free(text);
}

int main(void)
{
    alarm(60);
    return tests_run(NULL, NULL);
}
