/* Reading events one by one, so that a trace that was cut short is read up to there. */
#include "tools/report/trace/trace_events.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/report/look.h"

#define BLANKS " \t\r\n"

/* Room for one more of `size` bytes in an array. 0 or -ENOMEM. */
static int make_room(void **array, size_t *room, size_t count, size_t size)
{
    if (count < *room)
        return 0;
    const size_t wanted = *room > 0 ? 2 * *room : 64;
    void *const larger = reallocarray(*array, wanted, size);
    if (larger == NULL)
        return -ENOMEM;
    *array = larger;
    *room = wanted;
    return 0;
}

static int64_t whole_of(const json_t *event, const char *key)
{
    return look_is(json_object_get(event, key), JSON_INTEGER) ? json_integer_value(json_object_get(event, key)) : 0;
}

static char *copy_text(const json_t *event, const char *key)
{
    const char *const text = json_string_value(json_object_get(event, key));
    return strdup(text != NULL ? text : "");
}

/* The track of an event, found or made. */
static int find_track(struct trace *trace, const json_t *event, size_t *track_out)
{
    const int64_t pid = whole_of(event, "pid"), tid = whole_of(event, "tid");
    for (size_t i = trace->track_count; i-- > 0;)
        if (trace->tracks[i].pid == pid && trace->tracks[i].tid == tid) {
            *track_out = i;
            return 0;
        }
    if (trace->track_count == TRACE_TRACKS_MAX)
        return -E2BIG;
    const int rc = make_room((void **)&trace->tracks, &trace->track_room, trace->track_count, sizeof(*trace->tracks));
    if (rc != 0)
        return rc;
    *track_out = trace->track_count;
    trace->tracks[trace->track_count++] = (struct trace_track){ .pid = pid, .tid = tid };
    return 0;
}

static int add_slice(struct trace *trace, const json_t *event, size_t track)
{
    struct trace_slice slice = {
        .track = track,
        .start = look_number(json_object_get(event, "ts")),
        .duration = look_number(json_object_get(event, "dur")),
    };
    if (!isfinite(slice.start) || !(slice.duration >= 0) || !isfinite(slice.duration))
        return -EBADMSG;
    const int rc = make_room((void **)&trace->slices, &trace->slice_room, trace->slice_count, sizeof(*trace->slices));
    if (rc != 0)
        return rc;
    slice.name = copy_text(event, "name");
    slice.category = copy_text(event, "cat");
    trace->slices[trace->slice_count++] = slice;
    return slice.name != NULL && slice.category != NULL ? 0 : -ENOMEM;
}

static int add_step(struct trace *trace, const json_t *event, size_t track)
{
    struct trace_step step = { .track = track, .time = look_number(json_object_get(event, "ts")) };
    const json_t *const id = json_object_get(event, "id");
    const char *const category = json_string_value(json_object_get(event, "cat"));
    if (!isfinite(step.time))
        return -EBADMSG;
    const int rc = make_room((void **)&trace->steps, &trace->step_room, trace->step_count, sizeof(*trace->steps));
    if (rc != 0)
        return rc;
    if (asprintf(&step.flow, "%s %s%lld", category != NULL ? category : "",
                 look_is(id, JSON_STRING) ? json_string_value(id) : "", (long long)json_integer_value(id)) < 0)
        return -ENOMEM;
    trace->steps[trace->step_count++] = step;
    return 0;
}

static int add_about(struct trace *trace, const json_t *event, size_t track)
{
    const char *const kind = json_string_value(json_object_get(event, "name"));
    const json_t *const arguments = json_object_get(event, "args");
    if (kind != NULL && strcmp(kind, "thread_sort_index") == 0)
        trace->tracks[track].order = whole_of(arguments, "sort_index");
    if (kind == NULL || strcmp(kind, "thread_name") != 0)
        return 0;
    free(trace->tracks[track].name);
    trace->tracks[track].name = copy_text(arguments, "name");
    return trace->tracks[track].name != NULL ? 0 : -ENOMEM;
}

/* 0; -EBADMSG where it is no event; -E2BIG where it is of one thread too many; -ENOMEM. */
static int add_event(struct trace *trace, const json_t *event)
{
    static const struct { const char *phases; int (*add)(struct trace *, const json_t *, size_t); } kinds[] = {
        { "X", add_slice }, { "stf", add_step }, { "M", add_about },
    };
    const char *const phase = json_string_value(json_object_get(event, "ph"));
    size_t track;
    if (phase == NULL || strlen(phase) != 1)
        return -EBADMSG;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strchr(kinds[i].phases, *phase) != NULL) {
            const int rc = find_track(trace, event, &track);
            return rc == 0 ? kinds[i].add(trace, event, track) : rc;
        }
    return 0;
}

static int refuse(size_t number, const char *problem, char *problem_out, size_t problem_size)
{
    snprintf(problem_out, problem_size, "event %zu: %s: it and what is behind it is left out", number, problem);
    return -EBADMSG;
}

/* What add_event has refused; -ENOMEM stays what it is. */
static int refuse_event(size_t number, int rc, char *problem_out, size_t problem_size)
{
    char problem[96];
    snprintf(problem, sizeof(problem), "there are more than %u threads", TRACE_TRACKS_MAX);
    if (rc == -EBADMSG || rc == -E2BIG)
        return refuse(number, rc == -E2BIG ? problem : "it is no event of a trace", problem_out, problem_size);
    return rc;
}

/* The events behind a '['. */
static int read_events(struct trace *trace, const char *text, size_t bytes, char *problem_out, size_t problem_size)
{
    json_error_t error;
    int rc = 0;
    for (size_t at = 0, number = 1; rc == 0; number++) {
        at += strspn(text + at, BLANKS ",");
        if (at >= bytes || text[at] == ']')
            return 0;
        json_t *event = NULL;
        rc = look_parse(text + at, bytes - at, JSON_DISABLE_EOF_CHECK, &event, &error);
        if (rc != 0)
            return rc == -ENOMEM ? rc : refuse(number, error.text, problem_out, problem_size);
        at += (size_t)error.position;
        rc = add_event(trace, event);
        json_decref(event);
        rc = refuse_event(number, rc, problem_out, problem_size);
    }
    return rc;
}

static int read_object(struct trace *trace, const char *text, size_t bytes, char *problem_out, size_t problem_size)
{
    json_error_t error;
    json_t *root = NULL;
    int rc = look_parse(text, bytes, 0, &root, &error);
    const json_t *const events = json_object_get(root, "traceEvents");
    if (rc == -ENOMEM)
        return rc;
    if (!look_is(events, JSON_ARRAY)) {
        snprintf(problem_out, problem_size, "is no trace: %s", root == NULL ? error.text : "it has no traceEvents");
        rc = -EBADMSG;
    }
    for (size_t i = 0; i < json_array_size(events) && rc == 0; i++) {
        rc = refuse_event(i + 1, add_event(trace, json_array_get(events, i)), problem_out, problem_size);
    }
    json_decref(root);
    return rc;
}

static int compare_slices(const void *left, const void *right)
{
    const struct trace_slice *const a = left, *const b = right;
    if (a->track != b->track)
        return a->track < b->track ? -1 : 1;
    if (a->start != b->start)
        return a->start < b->start ? -1 : 1;
    return (a->duration < b->duration) - (a->duration > b->duration);
}

static int compare_steps(const void *left, const void *right)
{
    const struct trace_step *const a = left, *const b = right;
    const int order = strcmp(a->flow, b->flow);
    return order != 0 ? order : (a->time > b->time) - (a->time < b->time);
}

static bool holds(const struct trace_slice *around, const struct trace_slice *slice)
{
    return around->start + around->duration >= slice->start + slice->duration;
}

/* How deep a slice lies: in that before it, or beside it in the one which that lies in, and so on. */
static void find_depths(struct trace *trace)
{
    for (size_t i = 0; i < trace->slice_count; i++) {
        struct trace_slice *const slice = &trace->slices[i];
        slice->around = i;
        size_t before = i > 0 && trace->slices[i - 1].track == slice->track ? i - 1 : i;
        while (before != i && !holds(&trace->slices[before], slice))
            before = trace->slices[before].around != before ? trace->slices[before].around : i;
        if (before == i)
            continue;
        slice->around = before;
        slice->depth = trace->slices[before].depth + 1;
    }
}

int trace_read(struct trace *trace_out, const char *text, size_t bytes, char *problem_out, size_t problem_size)
{
    *trace_out = (struct trace){ .track_count = 0 };
    const size_t begin = strspn(text, BLANKS);
    int rc = -EBADMSG;
    if (begin < bytes && text[begin] == '[')
        rc = read_events(trace_out, text + begin + 1, bytes - begin - 1, problem_out, problem_size);
    else if (begin < bytes && text[begin] == '{')
        rc = read_object(trace_out, text, bytes, problem_out, problem_size);
    else
        snprintf(problem_out, problem_size, "is no trace: it begins with neither '[' nor '{'");
    if (trace_out->slice_count > 0)
        qsort(trace_out->slices, trace_out->slice_count, sizeof(*trace_out->slices), compare_slices);
    if (trace_out->step_count > 0)
        qsort(trace_out->steps, trace_out->step_count, sizeof(*trace_out->steps), compare_steps);
    find_depths(trace_out);
    return rc;
}

void trace_release(struct trace *trace)
{
    for (size_t i = 0; i < trace->track_count; i++)
        free(trace->tracks[i].name);
    for (size_t i = 0; i < trace->slice_count; i++) {
        free(trace->slices[i].name);
        free(trace->slices[i].category);
    }
    for (size_t i = 0; i < trace->step_count; i++)
        free(trace->steps[i].flow);
    free(trace->tracks);
    free(trace->slices);
    free(trace->steps);
    *trace = (struct trace){ .track_count = 0 };
}
