/* Rows and bars. */
#include "tools/report/trace/trace_drawing.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "stage/text/utf8.h"
#include "tools/report/draw/axis.h"
#include "tools/report/draw/html.h"

#define WIDTH 1200
#define LEFT 150
#define RIGHT (WIDTH - 16)
#define TOP 66
#define ROW_HEIGHT 30
#define BAR_HEIGHT 22.0
#define INSET 4.0               /* of a slice in another one, above and below */
#define LETTER_WIDTH 6.2
#define NAME_LETTERS 20         /* of a track */
#define ROWS_MAX 64u

/* What a slice is of, by a word in its name, or else in its category. */
static const struct { const char *word, *name, *fill, *text; } kinds[] = {
    { "input wait", "input wait", "#c04f00", "#fff" },  /* of a tower; others wait because they are ahead */
    { "wait", "waiting", "#8a949e40", "var(--soft)" },   { "reduc", "reduction", "#e69f00", "#111" },
    { "forward", "forward", "#0068a8", "#fff" },    { "backward", "backward", "#56b4e9", "#111" },
    { "update", "update", "#007a5a", "#fff" },      { "copy", "copy", "#f0e442", "#111" },
    { "decod", "decode", "#6b4fa0", "#fff" },       { "read", "read", "#cc79a7", "#111" },
    { "", "other", "#9a9a9a", "#111" },
};
#define KIND_COUNT (sizeof(kinds) / sizeof(kinds[0]))

struct drawing {
    FILE *out;
    const struct trace *trace;
    const struct trace_window *window;
    size_t rows[ROWS_MAX];      /* their tracks, from the top */
    size_t row_count;
};

static size_t kind_of(const struct trace_slice *slice)
{
    const char *const texts[] = { slice->name, slice->category };
    for (size_t i = 0; i < 2; i++)
        for (size_t kind = 0; kind + 1 < KIND_COUNT; kind++)
            if (strcasestr(texts[i], kinds[kind].word) != NULL)
                return kind;
    return KIND_COUNT - 1;
}

/* ---- which part ---- */

static bool is_forward(const struct trace_slice *slice)
{
    return strcmp(kinds[kind_of(slice)].name, "forward") == 0;
}

static size_t count_forwards(const struct trace *trace, size_t track)
{
    size_t count = 0;
    for (size_t i = 0; i < trace->slice_count; i++)
        count += trace->slices[i].track == track && is_forward(&trace->slices[i]);
    return count;
}

static struct trace_window whole(const struct trace *trace)
{
    struct trace_window window = { INFINITY, -INFINITY };
    for (size_t i = 0; i < trace->slice_count; i++) {
        window.begin = fmin(window.begin, trace->slices[i].start);
        window.end = fmax(window.end, trace->slices[i].start + trace->slices[i].duration);
    }
    return window;
}

/* When the pass of this number on a track begins. */
static double forward_start(const struct trace *trace, size_t track, size_t number)
{
    double start = 0;
    for (size_t i = 0, count = 0; i < trace->slice_count && count <= number; i++) {
        if (trace->slices[i].track != track || !is_forward(&trace->slices[i]))
            continue;
        start = trace->slices[i].start;
        count++;
    }
    return start;
}

struct trace_window trace_window_find(const struct trace *trace)
{
    size_t track = 0, most = 0;
    for (size_t i = 0; i < trace->track_count; i++) {
        const size_t count = count_forwards(trace, i);
        if (count > most) {
            most = count;
            track = i;
        }
    }
    if (most <= TRACE_DRAWING_STEPS)
        return whole(trace);
    const size_t first = (most - TRACE_DRAWING_STEPS) / 2;
    return (struct trace_window){ forward_start(trace, track, first),
                                  forward_start(trace, track, first + TRACE_DRAWING_STEPS) };
}

/* ---- rows ---- */

static bool is_within(const struct trace_slice *slice, const struct trace_window *window)
{
    return slice->start < window->end && slice->start + slice->duration > window->begin;
}

static bool is_busy(const struct trace *trace, size_t track, const struct trace_window *window)
{
    for (size_t i = 0; i < trace->slice_count; i++)
        if (trace->slices[i].track == track && is_within(&trace->slices[i], window))
            return true;
    return false;
}

static bool comes_before(const struct trace_track *a, const struct trace_track *b)
{
    if (a->pid != b->pid)
        return a->pid < b->pid;
    return a->order != b->order ? a->order < b->order : a->tid < b->tid;
}

/* Tracks with something in the window, sorted. */
static void find_rows(struct drawing *drawing)
{
    const struct trace_track *const tracks = drawing->trace->tracks;
    for (size_t track = 0; track < drawing->trace->track_count && drawing->row_count < ROWS_MAX; track++) {
        if (!is_busy(drawing->trace, track, drawing->window))
            continue;
        size_t row = drawing->row_count++;
        for (; row > 0 && comes_before(&tracks[track], &tracks[drawing->rows[row - 1]]); row--)
            drawing->rows[row] = drawing->rows[row - 1];
        drawing->rows[row] = track;
    }
}

/* ROWS_MAX: it has none. */
static size_t row_of(const struct drawing *drawing, size_t track)
{
    for (size_t row = 0; row < drawing->row_count; row++)
        if (drawing->rows[row] == track)
            return row;
    return ROWS_MAX;
}

static double x_of(const struct drawing *drawing, double time)
{
    const double share = (time - drawing->window->begin) / (drawing->window->end - drawing->window->begin);
    return LEFT + (RIGHT - LEFT) * fmin(1, fmax(0, share));
}

static double y_of(size_t row)
{
    return TOP + ROW_HEIGHT * (double)row + (ROW_HEIGHT - BAR_HEIGHT) / 2;
}

/* ---- drawing ---- */

static void write_head(const struct drawing *drawing, const char *name, int height)
{
    fprintf(drawing->out, TRACE_DRAWING_BEGINS " -->\n<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
                          "width=\"%d\" height=\"%d\" role=\"img\">\n<title>", WIDTH, height, WIDTH, height);
    html_text(drawing->out, name);
    fputs("</title>\n<style>\n"
          ":root{color-scheme:light dark;--paper:#fff;--ink:#1b1f24;--soft:#57606a;--rule:#d8dee4}\n"
          "@media(prefers-color-scheme:dark){:root{--paper:#0f1318;--ink:#e3e8ee;--soft:#9aa5b1;--rule:#2c343d}}\n"
          "text{font:11.5px system-ui,sans-serif;fill:var(--soft)}"
          ".title{font-size:15px;font-weight:600;fill:var(--ink)}\n"
          ".x{text-anchor:middle}.y{text-anchor:end}.paper{fill:var(--paper)}.grid{stroke:var(--rule);fill:none}\n"
          ".flow{stroke:var(--ink);stroke-opacity:.45;fill:none}\n", drawing->out);
    for (size_t i = 0; i < KIND_COUNT; i++)
        fprintf(drawing->out, ".f%zu{fill:%s}.t%zu{fill:%s}", i, kinds[i].fill, i, kinds[i].text);
    fprintf(drawing->out, "\n</style>\n<rect class=\"paper\" width=\"%d\" height=\"%d\"/>\n<text class=\"title\" "
                          "x=\"12\" y=\"22\">", WIDTH, height);
    html_text(drawing->out, name);
    fputs("</text>\n", drawing->out);
}

/* The kinds that are there. */
static void write_legend(const struct drawing *drawing)
{
    double x = LEFT;
    for (size_t kind = 0; kind < KIND_COUNT; kind++) {
        bool is_there = false;
        for (size_t i = 0; i < drawing->trace->slice_count && !is_there; i++)
            is_there = is_within(&drawing->trace->slices[i], drawing->window) &&
                       kind_of(&drawing->trace->slices[i]) == kind;
        if (!is_there)
            continue;
        fprintf(drawing->out, "<rect class=\"f%zu\" x=\"%.1f\" y=\"36\" width=\"12\" height=\"12\"/>"
                              "<text x=\"%.1f\" y=\"46\">%s</text>\n", kind, x, x + 17, kinds[kind].name);
        x += 40 + LETTER_WIDTH * (double)strlen(kinds[kind].name);
    }
}

static void write_axis(const struct drawing *drawing, double bottom)
{
    const double span_ms = (drawing->window->end - drawing->window->begin) / 1e3;
    const struct axis axis = axis_exact(0, span_ms, 10);
    for (size_t i = 0; i < axis.tick_count; i++) {
        const double x = LEFT + (RIGHT - LEFT) * axis_place(&axis, axis.ticks[i]);
        fprintf(drawing->out, "<path class=\"grid\" d=\"M%.1f %dV%.1f\"/><text class=\"x\" x=\"%.1f\" y=\"%.1f\">%s"
                              "</text>\n", x, TOP, bottom, x, bottom + 16, axis_label(&axis, i, false).text);
    }
    fprintf(drawing->out, "<text class=\"x\" x=\"%d\" y=\"%.1f\">milliseconds</text>\n", (LEFT + RIGHT) / 2,
            bottom + 34);
}

/* A long name is cut, and whole where a pointer rests. */
static void write_row_name(const struct drawing *drawing, size_t row)
{
    const struct trace_track *const track = &drawing->trace->tracks[drawing->rows[row]];
    char number[64], shown[NAME_LETTERS + 1];
    snprintf(number, sizeof(number), "%lld/%lld", (long long)track->pid, (long long)track->tid);
    const char *const name = track->name != NULL && *track->name != '\0' ? track->name : number;
    snprintf(shown, sizeof(shown), "%.*s", NAME_LETTERS, name);
    shown[utf8_valid_bytes(shown, strlen(shown))] = '\0';      /* no part of a letter */
    fprintf(drawing->out, "<path class=\"grid\" d=\"M%d %dH%d\"/><text class=\"y\" x=\"%d\" y=\"%.1f\"><title>", LEFT,
            TOP + ROW_HEIGHT * (int)row, RIGHT, LEFT - 8, y_of(row) + 15);
    html_text(drawing->out, name);
    fputs("</title>", drawing->out);
    html_text(drawing->out, shown);
    fputs("</text>\n", drawing->out);
}

static void write_slice(const struct drawing *drawing, const struct trace_slice *slice, size_t row)
{
    const double inset = fmin(INSET * slice->depth, BAR_HEIGHT / 2 - 3), y = y_of(row) + inset;
    const double x = x_of(drawing, slice->start);
    const double width = fmax(0.6, x_of(drawing, slice->start + slice->duration) - x);
    const size_t kind = kind_of(slice);
    fprintf(drawing->out, "<rect class=\"f%zu\" x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\"><title>", kind, x,
            y, width, BAR_HEIGHT - 2 * inset);
    html_format(drawing->out, "%s, %.4g ms", slice->name, slice->duration / 1e3);
    fputs("</title></rect>\n", drawing->out);
    if (width < LETTER_WIDTH * (double)strlen(slice->name) + 6 || inset > INSET)
        return;
    fprintf(drawing->out, "<text class=\"x t%zu\" x=\"%.1f\" y=\"%.1f\">", kind, x + width / 2, y_of(row) + 15);
    html_text(drawing->out, slice->name);
    fputs("</text>\n", drawing->out);
}

/* From each place of a flow in the window to the next. */
static void write_flows(const struct drawing *drawing)
{
    const struct trace *const trace = drawing->trace;
    for (size_t i = 1; i < trace->step_count; i++) {
        const struct trace_step *const from = &trace->steps[i - 1], *const to = &trace->steps[i];
        const size_t from_row = row_of(drawing, from->track), to_row = row_of(drawing, to->track);
        if (strcmp(from->flow, to->flow) != 0 || from->time < drawing->window->begin ||
            to->time > drawing->window->end || from_row == ROWS_MAX || to_row == ROWS_MAX)
            continue;
        fprintf(drawing->out, "<path class=\"flow\" d=\"M%.1f %.1fL%.1f %.1f\"/>\n", x_of(drawing, from->time),
                y_of(from_row) + BAR_HEIGHT / 2, x_of(drawing, to->time), y_of(to_row) + BAR_HEIGHT / 2);
    }
}

void trace_draw(FILE *out, const struct trace *trace, const struct trace_window *window, const char *name)
{
    struct drawing drawing = { .out = out, .trace = trace, .window = window };
    find_rows(&drawing);
    const double bottom = TOP + ROW_HEIGHT * (double)drawing.row_count;
    write_head(&drawing, name, (int)bottom + 44);
    write_legend(&drawing);
    write_axis(&drawing, bottom);
    for (size_t row = 0; row < drawing.row_count; row++)
        write_row_name(&drawing, row);
    write_flows(&drawing);      /* bars lie on them, so that their names can be read */
    for (size_t i = 0; i < trace->slice_count; i++) {
        const size_t row = row_of(&drawing, trace->slices[i].track);
        if (row < ROWS_MAX && is_within(&trace->slices[i], window))
            write_slice(&drawing, &trace->slices[i], row);
    }
    fputs("</svg>\n", out);
}
