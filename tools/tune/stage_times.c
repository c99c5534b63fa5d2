/* A trace -> seconds. */
#include "tools/tune/stage_times.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/report/trace/trace_events.h"

#define PROBLEM_BYTES 256

/* Names of trace_name_words. */
static const char read_name[] = "read", decode_name[] = "decode", feed_name[] = "feed", copy_name[] = "copy",
                  step_name[] = "step";

struct stretch { double begin, end; };  /* microseconds */

static int read_text(const char *path, char **text_out, size_t *bytes_out)
{
    FILE *const file = fopen(path, "re");
    if (file == NULL)
        return -errno;
    int rc = fseek(file, 0, SEEK_END) == 0 ? 0 : -errno;
    const long bytes = rc == 0 ? ftell(file) : 0;
    char *const text = bytes > 0 ? calloc((size_t)bytes + 1, 1) : NULL;        /* ended by a 0 */
    if (rc == 0 && bytes <= 0)
        rc = -EBADMSG;
    else if (rc == 0 && text == NULL)
        rc = -ENOMEM;
    rewind(file);
    if (rc == 0 && fread(text, 1, (size_t)bytes, file) != (size_t)bytes)
        rc = -EIO;
    fclose(file);
    if (rc != 0) {
        free(text);
        return rc;
    }
    *text_out = text;
    *bytes_out = (size_t)bytes;
    return 0;
}

/* When all tracks that have such slices were recording. */
static struct stretch find_stretch(const struct trace *trace, const char *name)
{
    struct stretch all = { -INFINITY, INFINITY }, track = { INFINITY, -INFINITY };
    for (size_t i = 0; i < trace->slice_count; i++) {
        const struct trace_slice *const slice = &trace->slices[i];
        if (strcmp(slice->name, name) == 0) {
            track.begin = fmin(track.begin, slice->start);
            track.end = fmax(track.end, slice->start + slice->duration);
        }
        const bool is_last = i + 1 == trace->slice_count || trace->slices[i + 1].track != slice->track;
        if (is_last && track.end > track.begin) {
            all.begin = fmax(all.begin, track.begin);
            all.end = fmin(all.end, track.end);
            track = (struct stretch){ INFINITY, -INFINITY };
        }
    }
    return all;
}

static bool is_within(const struct trace_slice *slice, const char *name, struct stretch stretch)
{
    return strcmp(slice->name, name) == 0 && slice->start >= stretch.begin &&
           slice->start + slice->duration <= stretch.end;
}

static size_t count_within(const struct trace *trace, const char *name, struct stretch stretch)
{
    size_t count = 0;
    for (size_t i = 0; i < trace->slice_count; i++)
        count += is_within(&trace->slices[i], name, stretch);
    return count;
}

struct begun { double start, duration; };

static int compare_begun(const void *a, const void *b)
{
    const double left = ((const struct begun *)a)->start, right = ((const struct begun *)b)->start;
    return (left > right) - (left < right);
}

/* Those slices of the one track, or of all (SIZE_MAX), by time; owned by the caller. */
static int collect(const struct trace *trace, const char *name, size_t track, struct begun **begun_out,
                   size_t *count_out)
{
    const struct stretch stretch = find_stretch(trace, name);
    const size_t room = count_within(trace, name, stretch);
    struct begun *const begun = calloc(room + 1, sizeof(*begun));
    size_t count = 0;
    if (begun == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < trace->slice_count; i++) {
        const struct trace_slice *const slice = &trace->slices[i];
        if (is_within(slice, name, stretch) && (track == SIZE_MAX || slice->track == track))
            begun[count++] = (struct begun){ slice->start, slice->duration };
    }
    qsort(begun, count, sizeof(*begun), compare_begun);
    *begun_out = begun;
    *count_out = count;
    return 0;
}

static int take(struct feed_times *times, const struct begun *begun, size_t count, bool to_next)
{
    double *const seconds = calloc(count + 1, sizeof(*seconds));
    if (seconds == NULL)
        return -ENOMEM;
    times->seconds = seconds;
    times->count = to_next ? count - (count > 0) : count;
    for (size_t i = 0; i < times->count; i++)
        seconds[i] = (to_next ? begun[i + 1].start - begun[i].start : begun[i].duration) / 1e6;
    return 0;
}

static int take_spans(const struct trace *trace, const char *name, struct feed_times *times)
{
    struct begun *begun;
    size_t count;
    int rc = collect(trace, name, SIZE_MAX, &begun, &count);
    if (rc != 0)
        return rc;
    rc = take(times, begun, count, false);
    free(begun);
    return rc;
}

/* Of the first track that has any: towers step together. */
static int take_steps(const struct trace *trace, struct feed_times *times)
{
    struct begun *begun;
    size_t count, first = 0;
    while (first < trace->slice_count && strcmp(trace->slices[first].name, step_name) != 0)
        first++;
    if (first == trace->slice_count)
        return -ENODATA;
    int rc = collect(trace, step_name, trace->slices[first].track, &begun, &count);
    if (rc != 0)
        return rc;
    rc = count > 1 ? take(times, begun, count, true) : -ENODATA;
    free(begun);
    return rc;
}

static uint32_t count_pieces(const struct trace *trace)
{
    struct stretch stretch = find_stretch(trace, decode_name);
    const struct stretch fed = find_stretch(trace, feed_name);
    stretch.begin = fmax(stretch.begin, fed.begin);
    stretch.end = fmin(stretch.end, fed.end);
    const size_t batches = count_within(trace, feed_name, stretch);
    const size_t decodes = count_within(trace, decode_name, stretch);
    return batches > 0 ? (uint32_t)lround((double)decodes / (double)batches) : 0;
}

static int take_all(const struct trace *trace, struct stage_times *times)
{
    int rc = take_steps(trace, &times->steps);
    if (rc == 0)
        rc = take_spans(trace, read_name, &times->read);
    if (rc == 0)
        rc = take_spans(trace, decode_name, &times->decode);
    if (rc == 0)
        rc = take_spans(trace, copy_name, &times->copy);
    times->pieces = count_pieces(trace);
    return rc;
}

int stage_times_read(struct stage_times *times_out, const char *path)
{
    char problem[PROBLEM_BYTES];
    struct trace trace = { 0 };
    char *text = NULL;
    size_t bytes = 0;
    *times_out = (struct stage_times){ 0 };
    int rc = read_text(path, &text, &bytes);
    if (rc != 0)
        return rc;
    rc = trace_read(&trace, text, bytes, problem, sizeof(problem));
    if (rc == 0)
        rc = take_all(&trace, times_out);
    trace_release(&trace);
    free(text);
    return rc;
}

void stage_times_release(struct stage_times *times)
{
    free((double *)times->read.seconds);
    free((double *)times->decode.seconds);
    free((double *)times->copy.seconds);
    free((double *)times->steps.seconds);
    *times = (struct stage_times){ 0 };
}
