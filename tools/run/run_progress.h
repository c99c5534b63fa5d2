/* The progress of a run on stderr, while it trains and evaluates: one line that is painted again and again on a
 * terminal, or lines of text or JSON at a steady pace. Used by main only. */
#ifndef PIPETRAIN_RUN_PROGRESS_H
#define PIPETRAIN_RUN_PROGRESS_H

#include "formats/json.h"
#include "tools/config/settings.h"
#include "tools/run/account.h"
#include "tools/run/pace/feed.h"
#include "tools/run/pipeline.h"
#include "tools/run/run_plan.h"
#include "tools/text/progress_line.h"

struct run_progress {
    const struct settings *settings;    /* all lent */
    const struct run_plan *plan;
    struct account *account;            /* its recent tally is reset */
    enum progress kind;                 /* never PROGRESS_AUTO */
    const struct pipeline *pipeline;    /* set by who has one, while it is open; NULL: of the feed nothing is said */
    struct loader_counts loader;        /* at the line before, */
    uint64_t loader_ns;                 /* at this time on clock_now_ns's clock */
    struct progress_room room[2];       /* of the lines of training, and of evaluation */
    struct json json;
    uint64_t due_ns;                    /* the next line, on clock_now_ns's clock */
};

/* 0 or -ENOMEM; run_progress_release after either. */
int run_progress_init(struct run_progress *progress, const struct settings *settings, const struct run_plan *plan,
                      struct account *account);
void run_progress_release(struct run_progress *progress);
/* After every batch that is added to the account: says something where that is due. */
void run_progress_step(struct run_progress *progress, const struct batch_slice *slice);
/* Before results are printed: the line on the terminal goes. */
void run_progress_clear(const struct run_progress *progress);

#endif
