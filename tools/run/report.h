/* What people and scripts see of a run: the progress line, the epoch table, the result,
 * metrics.jsonl and summary.json. Used by main only. */
#ifndef PIPETRAIN_REPORT_H
#define PIPETRAIN_REPORT_H

#include <time.h>

#include "compute/net.h"
#include "tools/checkpoint/saver.h"
#include "tools/limits/cpu_times.h"
#include "tools/results/run_directory.h"
#include "tools/run/account.h"
#include "tools/run/goal/course.h"
#include "tools/run/observe/observers.h"
#include "tools/run/pace/feed.h"
#include "tools/run/pipeline.h"
#include "tools/run/run_plan.h"
#include "tools/run/run_progress.h"

/* All that the reports are made of; lent. */
struct report {
    const struct settings *settings;
    const struct run_plan *plan;
    const struct net *net;
    const struct dataset *const *datasets;      /* of every pass; NULLs where there are none */
    const struct course *course;
    const struct checkpoint_counts *saves;      /* until report_release */
    struct account *account;            /* its recent tally is reset */
    struct run_directory *directory;    /* NULL: nothing is written (--dry-run) */
    const struct pipeline *pipeline;    /* while it is open: until the last report of a step */
    uint64_t process_start_ns;          /* on clock_now_ns's clock */
    struct run_progress progress;
    struct observers *observers;        /* NULL: none */
    bool is_over;                       /* the run did all its steps, and its result was told */
    bool table_has_head;
    struct json json, summary;
    struct timespec began;              /* this process, by the calendar */
    struct loader_counts loader;        /* when the latest interval ended, */
    uint64_t interval_ns;               /* at this time on clock_now_ns's clock */
    struct cores_seen cores;            /* in report_init */
    struct loader_busy busy;            /* in the latest interval */
    double gradient_norm;               /* as the latest batch's report has it */
    struct feed_meter meter;            /* of the loader in training behind warm-up */
};

/* Take the room that the reports need. 0 or -ENOMEM; report_release after either. */
int report_init(struct report *report);
void report_release(struct report *report);
/* After every batch of either pass, before report_interval, with what tower 0 or the first of the process says of it:
 * progress, what the feed did, and what the tower shows. */
void report_step(struct report *report, const struct step_report *seen);
/* Every report.interval training steps: a line in metrics.jsonl. */
void report_interval(struct report *report, const struct batch_slice *slice);
/* After a training pass without evaluation to follow, or after an evaluation pass. */
void report_epoch(struct report *report, const struct batch_slice *slice);

struct report_end {
    struct pipeline_counts counts;
    uint64_t loader_wall_ns, loader_end_ns;     /* it ran so long, up to then on clock_now_ns's clock */
    const char *early;          /* why the run ended early, NULL: it did not */
    const char *ended;          /* the same for programs, in a word or two */
};
/* The last lines on stdout, and summary.json. 0, or a negative errno when that or a line of another file
 * could not be written, which was said on stderr. */
int report_result(struct report *report, const struct report_end *end);

/* Numbers of the reports. Of a tally: NAN where nothing is computed, and no accuracy where labels are made up. */
bool report_labels_tell(const struct report *report);       /* are labels right by more than chance? */
double report_loss(const struct report *report, const struct tally *tally);
double report_accuracy(const struct report *report, const struct tally *tally);
void report_write_correct(const struct report *report, struct json *json, const struct tally *tally);   /* or null */
uint64_t report_peak_bytes(void);       /* of memory, until now */
double report_first_step_seconds(const struct report *report);          /* after the start of the process; 0: none */
bool report_evaluation_is_complete(const struct report *report);        /* has the last one seen all its samples? */
#define REPORT_TIME_SIZE 32
/* "2026-01-31T12:00:00.000Z" */
void report_write_time(struct timespec time, char text[REPORT_TIME_SIZE]);
void report_write_fractions(struct json *json, const struct fractions *share);
/* Of the cores since report_init. */
struct cores_use report_cores(const struct report *report);
/* Of training of this process behind warm-up. */
struct feed_use report_feed(const struct report *report, const struct report_end *end);

#endif
