/* The problems of a data set that is being opened. */
#include "loader/opening/opening.h"

#include <inttypes.h>

/* More problems than this are counted, not listed. */
#define PROBLEM_LINES_MAX 20u

void opening_fail(struct opening *opening, int result)
{
    opening->problem_count++;
    if (opening->result == 0)
        opening->result = result;
}

void opening_report(struct opening *opening, int result, const char *line)
{
    if (opening->problem_count < PROBLEM_LINES_MAX) {
        text_line(&opening->problems);
        text_add(&opening->problems, "%s: %s", opening->dataset->options.what, line);
    }
    opening_fail(opening, result);
}

void opening_report_path(struct opening *opening, int result, const char *path, const char *what)
{
    char line[OPENING_PROBLEM_BYTES];
    struct text text;
    text_init(&text, line, sizeof(line));
    text_add_escaped(&text, path);
    text_add(&text, ": %s", what);
    opening_report(opening, result, line);
}

void opening_tell_more(struct opening *opening)
{
    if (opening->problem_count <= PROBLEM_LINES_MAX)
        return;
    text_line(&opening->problems);
    text_add(&opening->problems, "%s: %" PRIu32 " more problems like these", opening->dataset->options.what,
             opening->problem_count - PROBLEM_LINES_MAX);
}
