/* Reads a trace as its readers do and says what is wrong with it:
 *
 *     trace_check FILE [--whole]
 *
 * A file whose end is missing is completed as Perfetto and chrome://tracing do it. Tracks have names, spans of a track
 * lie in each other or behind each other in the order of the file, counters go forward, and flows go from a span to a
 * later one. With --whole the file ends as it should, and every flow leads from a read to a tower's step.
 * Prints: spans, flows, first and last batch, and the number of threads with spans. Exit code 1 when something is
 * wrong. */
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS_MAX 10000
#define DEPTH_MAX 8
#define FLOWS_MAX 100000
#define CLOSE 1e-4              /* microseconds: what three digits behind the point may differ by when added */

struct span { double begin, end; int thread; };

static struct {
    char names[THREADS_MAX][32];
    struct span open[THREADS_MAX][DEPTH_MAX];
    int depth[THREADS_MAX];
    size_t spans[THREADS_MAX];
    double flow_at[FLOWS_MAX];
    char flow_phase[FLOWS_MAX];
} seen;
static size_t span_count, flow_count, thread_count;
static double batch_first = INFINITY, batch_last = -1;
static struct span *spans;              /* room for every event */
static int failures;

static void wrong(const char *what, const json_t *event)
{
    char *const text = json_dumps(event, JSON_COMPACT);
    if (failures++ < 5)
        fprintf(stderr, "%s: %s\n", what, text);
    free(text);
}

static double number(const json_t *event, const char *key)
{
    const json_t *const value = json_object_get(event, key);
    if (!json_is_number(value))
        wrong(key, event);
    return json_number_value(value);
}

static int thread_of(const json_t *event)
{
    const double thread = number(event, "tid");
    return thread >= 0 && thread < THREADS_MAX ? (int)thread : 0;
}

static void check_span(const json_t *event)
{
    const int thread = thread_of(event);
    const double begin = number(event, "ts");
    const struct span span = { begin, begin + number(event, "dur"), thread };
    const double batch = number(json_object_get(event, "args"), "batch");
    if (seen.names[thread][0] == '\0')
        wrong("a span of a thread without a name", event);
    int depth = seen.depth[thread];
    while (depth > 0 && seen.open[thread][depth - 1].end <= span.begin + CLOSE)
        depth--;
    if (depth > 0 && span.end > seen.open[thread][depth - 1].end + CLOSE)
        wrong("spans that overlap", event);
    if (depth > 0 && span.begin < seen.open[thread][depth - 1].begin - CLOSE)
        wrong("a span before the one in front of it", event);
    if (depth == DEPTH_MAX)
        wrong("spans too deep in each other", event);
    else
        seen.open[thread][depth] = span, seen.depth[thread] = depth + 1;
    spans[span_count] = span;
    thread_count += seen.spans[thread]++ == 0;
    span_count++;
    batch_first = fmin(batch_first, batch);
    batch_last = fmax(batch_last, batch);
}

/* Is there a span of the thread that the time lies in? */
static bool lies_in_span(int thread, double at)
{
    for (size_t i = 0; i < span_count; i++)
        if (spans[i].thread == thread && spans[i].begin <= at + CLOSE && at <= spans[i].end + CLOSE)
            return true;
    return false;
}

static void check_flow(const json_t *event, char phase, bool is_whole)
{
    const size_t id = (size_t)number(event, "id");
    const char *const name = seen.names[thread_of(event)];
    const char before = id < FLOWS_MAX ? seen.flow_phase[id] : 'f';
    if (before == 'f' || (before == '\0') != (phase == 's'))
        wrong("a flow that begins twice or not at all", event);
    else if (phase != 's' && number(event, "ts") < seen.flow_at[id])
        wrong("a flow that goes back", event);
    if (!lies_in_span(thread_of(event), number(event, "ts")))
        wrong("a flow without a span", event);
    if (is_whole && phase == 's' && strncmp(name, "reader", 6) != 0)
        wrong("a flow that does not begin with a reader", event);
    if (is_whole && phase == 'f' && strncmp(name, "tower", 5) != 0)
        wrong("a flow that does not end in a tower", event);
    if (id >= FLOWS_MAX)
        return;
    seen.flow_phase[id] = phase;
    seen.flow_at[id] = number(event, "ts");
    flow_count += phase == 's';
}

/* Counters go forward, each by its name: a few of them. */
static void check_counter(const json_t *event)
{
    static struct { char name[32]; double at; } counters[16];
    const char *const name = json_string_value(json_object_get(event, "name"));
    int i = 0;
    while (i < 15 && counters[i].name[0] != '\0' && strcmp(counters[i].name, name) != 0)
        i++;
    snprintf(counters[i].name, sizeof(counters[i].name), "%s", name);
    if (number(event, "ts") < counters[i].at)
        wrong("a counter that goes back", event);
    counters[i].at = number(event, "ts");
    number(json_object_get(event, "args"), "value");
}

static void check_event(const json_t *event, bool is_whole)
{
    const char *const phase = json_string_value(json_object_get(event, "ph"));
    const char *const name = json_string_value(json_object_get(event, "name"));
    if (phase == NULL || name == NULL)
        wrong("no phase or no name", event);
    else if (strcmp(phase, "M") == 0 && strcmp(name, "thread_name") == 0)
        snprintf(seen.names[thread_of(event)], sizeof(seen.names[0]), "%s",
                 json_string_value(json_object_get(json_object_get(event, "args"), "name")));
    else if (strcmp(phase, "X") == 0)
        check_span(event);
    else if (strcmp(phase, "C") == 0)
        check_counter(event);
    else if (strchr("stf", phase[0]) != NULL)
        check_flow(event, phase[0], is_whole);
    else if (strcmp(phase, "M") != 0)
        wrong("an unknown event", event);
}

/* What readers do with a file without an end: up to the last whole event, and the end. */
static void complete(char *text)
{
    char *const end = strrchr(text, '}');
    if (strstr(text, "\n]\n") != NULL)
        return;
    if (end != NULL && strstr(end, ",\n") == end + 1)
        strcpy(end + 1, "]");
    else if (strrchr(text, '\n') != NULL && strstr(text, "},\n") != NULL) {
        *strrchr(text, '\n') = '\0';
        strcpy(strrchr(text, '}') + 1, "]");
    } else {
        strcpy(text, "[]");
    }
}

static char *read_file(const char *path)
{
    FILE *const file = fopen(path, "rb");
    size_t bytes = 0;
    char *text = calloc(1, 4);
    while (file != NULL && text != NULL && !feof(file)) {
        text = realloc(text, bytes + (1 << 20) + 4);
        if (text != NULL)
            bytes += fread(text + bytes, 1, 1 << 20, file);
        if (text != NULL)
            text[bytes] = '\0';
    }
    if (file == NULL)
        perror(path);
    else
        fclose(file);
    return text;
}

int main(int argc, char **argv)
{
    const bool is_whole = argc == 3 && strcmp(argv[2], "--whole") == 0;
    if (argc != 2 && !is_whole)
        return 99;
    char *const text = read_file(argv[1]);
    json_error_t error;
    if (text == NULL)
        return 99;
    if (!is_whole)
        complete(text);
    json_t *const events = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    free(text);
    if (!json_is_array(events)) {
        fprintf(stderr, "%s:%d: %s\n", argv[1], error.line, error.text);
        return 1;
    }
    spans = calloc(json_array_size(events) + 1, sizeof(*spans));
    if (spans == NULL)
        return 99;
    size_t i;
    const json_t *event;
    json_array_foreach(events, i, event)
        check_event(event, is_whole);
    for (size_t id = 0; id < FLOWS_MAX && is_whole; id++)
        if (seen.flow_phase[id] != '\0' && seen.flow_phase[id] != 'f')
            fprintf(stderr, "flow %zu has no end\n", id), failures++;
    printf("%zu %zu %.0f %.0f %zu\n", span_count, flow_count, span_count > 0 ? batch_first : 0, batch_last,
           thread_count);
    free(spans);
    json_decref(events);
    return failures > 0;
}
