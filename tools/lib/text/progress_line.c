/* The progress line. Called by the main thread, at most a few times per second. */
#include "tools/lib/text/progress_line.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tools/lib/text/number.h"

#define PART_BYTES 80u
#define BAR_LEAST 6u            /* the fewest columns of a bar, with brackets */
#define BAR_MOST 42u

/* The parts of a line, in their order. */
enum part { PART_PLACE, PART_BAR, PART_LOSS, PART_ACCURACY, PART_SPEED, PART_WAIT, PART_FEED, PART_LEFT,
            PART_COUNT };
/* By importance: the last one is omitted first. */
#define WORTHS 7u
static const enum part by_worth_live[WORTHS] = { PART_PLACE, PART_LOSS, PART_ACCURACY, PART_SPEED, PART_LEFT,
                                                 PART_WAIT, PART_FEED };
static const enum part by_worth_later[WORTHS] = { PART_PLACE, PART_LOSS, PART_ACCURACY, PART_SPEED, PART_WAIT,
                                                  PART_LEFT, PART_FEED };

/* The parts of a line, of which empty ones are omitted, and the gap between them. */
struct line_parts { const char *gap; char part[PART_COUNT][PART_BYTES]; };

/* Write a time: "0:45", "12:34", "18:12:33", "100 h"; "" if it is not known. */
static void write_time(double seconds, char text[24])
{
    if (!(seconds >= 0 && seconds < 1e9)) {
        *text = '\0';
        return;
    }
    const unsigned long whole = (unsigned long)(seconds + 0.5);
    if (whole < 3600)
        snprintf(text, 24, "%lu:%02lu", whole / 60, whole % 60);
    else if (whole < 100 * 3600)
        snprintf(text, 24, "%lu:%02lu:%02lu", whole / 3600, whole / 60 % 60, whole % 60);
    else
        snprintf(text, 24, "%lu h", whole / 3600);
}

/* Write the time left of the epoch or evaluation, and that of the run if it is longer. */
static void write_left(const struct progress_line *line, char part[PART_BYTES])
{
    char pass[24], run[24];
    write_time(line->epoch_left, pass);
    write_time(line->run_left, run);
    if (*pass == '\0')
        *part = '\0';
    else if (*run == '\0' || strcmp(pass, run) == 0)
        snprintf(part, PART_BYTES, "%s left", pass);
    else
        snprintf(part, PART_BYTES, "%s/%s left", pass, run);
}

static void write_outcome(const struct progress_line *line, struct line_parts *parts)
{
    if (line->evaluates || isnan(line->loss))
        return;
    snprintf(parts->part[PART_LOSS], PART_BYTES, line->loss < 1e4 ? "loss %.4f" : "loss %.3g", line->loss);
    if (!isnan(line->accuracy))
        snprintf(parts->part[PART_ACCURACY], PART_BYTES, "acc %.1f%%", 100 * line->accuracy);
}

static void write_place(const struct progress_line *line, const char *epoch, const char *step, char part[PART_BYTES])
{
    snprintf(part, PART_BYTES, "%s%" PRIu32 "/%" PRIu32 "%s %" PRIu64 "/%" PRIu64, epoch, line->epoch, line->epochs,
             line->evaluates ? " evaluation" : step, line->step, line->steps);
}

static void write_parts(const struct progress_line *line, struct line_parts *parts)
{
    write_place(line, "epoch ", " step", parts->part[PART_PLACE]);
    write_outcome(line, parts);
    snprintf(parts->part[PART_SPEED], PART_BYTES, "%s img/s", number_rate(line->images_per_second).text);
    if (!line->evaluates)
        snprintf(parts->part[PART_WAIT], PART_BYTES, "wait %.1f%%", 100 * line->input_wait);
    if (!line->evaluates && line->has_feed)
        snprintf(parts->part[PART_FEED], PART_BYTES, "ready %" PRIu32 "/%" PRIu32 " read %.0f%% decode %.0f%%",
                 line->batches, line->depth, 100 * line->readers, 100 * line->decoders);
    write_left(line, parts->part[PART_LEFT]);
}

/* Columns of a part and the gap before it. */
static unsigned columns_of(const struct line_parts *parts, enum part part)
{
    const size_t bytes = strlen(parts->part[part]);
    return (unsigned)(bytes + (bytes > 0 && part != PART_PLACE ? strlen(parts->gap) : 0));
}

static unsigned columns_of_all(const struct line_parts *parts)
{
    unsigned columns = 0;
    for (int part = 0; part < PART_COUNT; part++)
        columns += columns_of(parts, (enum part)part);
    return columns;
}

/* Empty the parts that do not fit. */
static void fit(struct line_parts *parts, const enum part by_worth[WORTHS], unsigned columns)
{
    for (size_t i = WORTHS - 1; i > 0 && columns_of_all(parts) > columns; i--)
        parts->part[by_worth[i]][0] = '\0';
}

/* Write a bar: "[===>    ]". */
static void write_bar(const struct progress_line *line, unsigned columns, char bar[PART_BYTES])
{
    const unsigned inside = (columns < BAR_MOST ? columns : BAR_MOST) - 2;
    const double share = line->steps > 0 ? fmin((double)line->step / (double)line->steps, 1) : 0;
    const unsigned done = (unsigned)(share * inside);
    size_t at = 0;
    bar[at++] = '[';
    for (unsigned i = 0; i < inside; i++)
        bar[at++] = i < done ? '=' : i == done ? '>' : ' ';
    bar[at++] = ']';
    bar[at] = '\0';
}

static void join(const struct line_parts *parts, char *text, size_t text_size)
{
    size_t at = 0;
    *text = '\0';
    for (int part = 0; part < PART_COUNT && at < text_size; part++)
        if (parts->part[part][0] != '\0')
            at += (size_t)snprintf(text + at, text_size - at, "%s%s", part == PART_PLACE ? "" : parts->gap,
                                   parts->part[part]);
}

/* The forms of a line, longest first: complete, without the input pipeline, without words. */
enum form { FORM_WHOLE, FORM_NO_FEED, FORM_SHORT, FORM_COUNT };

static void write_form(const struct progress_line *line, enum form form, struct line_parts *parts)
{
    *parts = (struct line_parts){ .gap = form == FORM_SHORT ? " " : "  " };
    write_parts(line, parts);
    if (form >= FORM_NO_FEED)
        parts->part[PART_FEED][0] = '\0';
    if (form == FORM_SHORT)
        write_place(line, "", "", parts->part[PART_PLACE]);
}

static unsigned digits_of(uint64_t number)
{
    unsigned digits = 1;
    for (; number >= 10; number /= 10)
        digits++;
    return digits;
}

/* The columns by which epoch and step numbers will still grow. */
static unsigned place_room(const struct progress_line *line)
{
    return line->step < line->steps ? digits_of(line->steps) - digits_of(line->step) : 0;
}

/* If space is short, omit the input pipeline first, then words, the bar, and numbers. Bar and form stay the same when
 * numbers become shorter; otherwise the line would flicker. */
void progress_line_bar(const struct progress_line *line, unsigned columns, struct progress_room *room,
                       char text_out[PROGRESS_LINE_MAX + 1])
{
    const unsigned width = columns < PROGRESS_LINE_MAX ? columns : PROGRESS_LINE_MAX, more = place_room(line);
    struct line_parts parts;
    if (room->columns != width)
        *room = (struct progress_room){ .columns = width };
    write_form(line, (enum form)room->form, &parts);
    while (room->form < FORM_SHORT && columns_of_all(&parts) + more + BAR_LEAST + 2 > width) {
        room->form++;
        room->rest = 0;
        write_form(line, (enum form)room->form, &parts);
    }
    fit(&parts, by_worth_live, width);
    const unsigned rest = columns_of_all(&parts) + (unsigned)strlen(parts.gap) + more;
    room->rest = rest > room->rest ? rest : room->rest;
    if (room->rest + BAR_LEAST <= width) {
        write_bar(line, width - room->rest, parts.part[PART_BAR]);
        const size_t place = strlen(parts.part[PART_PLACE]);
        snprintf(parts.part[PART_PLACE] + place, PART_BYTES - place, "%*s", (int)more, "");
    }
    join(&parts, text_out, width + 1);
}

void progress_line_write(const struct progress_line *line, char text_out[PROGRESS_LINE_COLUMNS + 1])
{
    struct line_parts parts = { .gap = "  " };
    write_parts(line, &parts);
    if (columns_of_all(&parts) > PROGRESS_LINE_COLUMNS && line->has_feed && !line->evaluates)
        snprintf(parts.part[PART_FEED], PART_BYTES, "ready %" PRIu32 "/%" PRIu32, line->batches, line->depth);
    fit(&parts, by_worth_later, PROGRESS_LINE_COLUMNS);
    join(&parts, text_out, PROGRESS_LINE_COLUMNS + 1);
}
