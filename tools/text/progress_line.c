/* The progress line. Called by main, at most a few times a second. */
#include "tools/text/progress_line.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tools/config/number.h"

#define PART_COUNT 5
#define PART_BYTES 80

static void write_parts(const struct progress_line *line, char parts[PART_COUNT][PART_BYTES])
{
    snprintf(parts[0], PART_BYTES, "epoch %" PRIu32 " step %" PRIu64 "/%" PRIu64, line->epoch, line->step, line->steps);
    parts[1][0] = parts[2][0] = '\0';
    if (!isnan(line->loss)) {
        snprintf(parts[1], PART_BYTES, line->loss < 1e4 ? "  loss %.4f" : "  loss %.3g", line->loss);
        snprintf(parts[2], PART_BYTES, "  acc %.1f %%", 100 * line->accuracy);
    }
    snprintf(parts[3], PART_BYTES, "  %s images/s", number_grouped((uint64_t)line->images_per_second).text);
    snprintf(parts[4], PART_BYTES, "  wait %.1f %%", 100 * line->input_wait);
}

void progress_line_write(const struct progress_line *line, char text_out[PROGRESS_LINE_COLUMNS + 1])
{
    char parts[PART_COUNT][PART_BYTES];
    size_t used = 0;
    write_parts(line, parts);
    for (size_t i = 0; i < PART_COUNT && used + strlen(parts[i]) <= PROGRESS_LINE_COLUMNS; i++) {
        memcpy(text_out + used, parts[i], strlen(parts[i]));
        used += strlen(parts[i]);
    }
    text_out[used] = '\0';
}
