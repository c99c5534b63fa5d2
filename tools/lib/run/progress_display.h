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
    const struct settings *settings;    /* all lent */
    const struct run_plan *plan;
    struct account *account;            /* its recent totals are reset */
    enum progress_form kind;                 /* never PROGRESS_AUTO */
    const struct pipeline *pipeline;    /* set by the owner while it is open; NULL: nothing about the input is shown */
    struct loader_counts loader;        /* at the previous line, */
    uint64_t loader_ns;                 /* at this time on clock_now_ns's clock */
    struct progress_room room[2];       /* widths of the lines of training and of evaluation */
    struct json json;
    uint64_t due_ns;                    /* the next line, on clock_now_ns's clock */
};

/* 0 or -ENOMEM; progress_display_release after success or failure. */
int progress_display_init(struct progress_display *display, const struct settings *settings,
                          const struct run_plan *plan, struct account *account);
void progress_display_release(struct progress_display *display);
/* After every batch that is added to the account: print a line if one is due. */
void progress_display_step(struct progress_display *display, const struct local_batch *local);
/* Before results are printed: erase the line on the terminal. */
void progress_display_clear(const struct progress_display *display);

#endif
