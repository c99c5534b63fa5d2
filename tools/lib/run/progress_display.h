/* The progress of a run on stderr: one line that is redrawn on a terminal, or a line of text or JSON every report.pace
 * seconds. Used by main only. */
#ifndef PIPETRAIN_PROGRESS_DISPLAY_H
#define PIPETRAIN_PROGRESS_DISPLAY_H

#include "formats/json.h"
#include "tools/lib/config/settings.h"
#include "tools/lib/run/account.h"
#include "tools/lib/run/feed.h"
#include "tools/lib/run/pipeline.h"
#include "tools/lib/run/run_plan.h"
#include "tools/lib/text/progress_line.h"

struct progress_display {
    const struct settings *settings;    /* this and other pointers are lent */
    const struct run_plan *plan;
    struct account *account;            /* the display resets its recent totals */
    enum progress_form kind;                 /* never PROGRESS_AUTO */
    const struct pipeline *pipeline;    /* set by the owner while the pipeline is open; NULL: the input is not shown */
    struct loader_counts loader;        /* counts at the previous line */
    uint64_t loader_ns;                 /* when these counts were read, on clock_now_ns's clock */
    struct progress_room room[2];       /* widths of the lines of training and of evaluation */
    struct json json;
    uint64_t due_ns;                    /* when the next line is due, on clock_now_ns's clock */
};

/* 0 or -ENOMEM. Call progress_display_release after success or failure. */
int progress_display_init(struct progress_display *display, const struct settings *settings,
                          const struct run_plan *plan, struct account *account);
void progress_display_release(struct progress_display *display);
/* After every batch that is added to the account: print a line if one is due. */
void progress_display_step(struct progress_display *display, const struct local_batch *local);
/* Before results are printed: erase the line on the terminal. */
void progress_display_clear(const struct progress_display *display);

#endif
