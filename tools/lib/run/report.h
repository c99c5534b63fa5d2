/* The output of a run for users and scripts: the progress line, the epoch table, the result, metrics.jsonl,
 * quarantine.jsonl and summary.json. All functions but report_damage_add are used by main only. */
#ifndef PIPETRAIN_REPORT_H
#define PIPETRAIN_REPORT_H

#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include "compute/net.h"
#include "formats/json.h"
#include "loader/damage.h"
#include "tools/lib/cpu_times.h"
#include "tools/lib/results/checkpoint_writer.h"
#include "tools/lib/results/run_directory.h"
#include "tools/lib/run/account.h"
#include "tools/lib/run/best_file.h"
#include "tools/lib/run/cost.h"
#include "tools/lib/run/feed.h"
#include "tools/lib/run/observe/observers.h"
#include "tools/lib/run/pipeline.h"
#include "tools/lib/run/progress_display.h"
#include "tools/lib/run/run_plan.h"
#include "tools/lib/run/run_progress.h"

struct ranks;

/* The reports of a run; pointers are borrowed. */
struct report {
    const struct settings *settings;
    const struct run_plan *plan;
    const struct net *net;
    const struct dataset *const *datasets;      /* of every phase; NULL for a phase without a data set */
    const struct run_progress *progress;
    const struct cost *cost;
    const struct ranks *ranks;          /* NULL: there is no other process */
    const struct checkpoint_counts *saves;      /* used until report_release */
    const char *identity;               /* text by which a later run recognizes this one (run_state.h); NULL: none */
    struct account *account;            /* the progress display resets its recent totals */
    struct run_directory *directory;    /* NULL: nothing is written (--dry-run) */
    const struct pipeline *pipeline;    /* used until the last report of a step */
    uint64_t process_start_ns;          /* on clock_now_ns's clock */
    struct progress_display display;
    struct observers *observers;        /* NULL: none */
    bool is_over;                       /* the run has done all its steps, and its result was printed */
    bool table_has_head;
    struct json json, summary;
    struct timespec began;              /* calendar time at the start of this process */
    struct loader_counts loader;        /* counts at the end of the latest interval */
    uint64_t interval_ns;               /* when this interval ended, on clock_now_ns's clock */
    struct cores_seen cores;            /* at report_init */
    double gradient_norm;               /* from the report of the latest batch */
    struct feed_meter meter;            /* use of the loader in training after warm-up */
    bool has_best;                      /* this and the next member are set by report_find_best */
    struct best_file best;
};

/* Allocate memory for the reports. 0 or -ENOMEM. Call report_release after success or failure. */
int report_init(struct report *report);
void report_release(struct report *report);
/* Called after every batch, before report_interval, with the reports of the towers of the process. */
void report_step(struct report *report, struct step_report *const *reports);
/* The number of training steps between two calls of report_interval: report.interval, or else 100 or a tenth of an
 * epoch or run, whichever is the least. */
uint64_t report_interval_steps(const struct settings *settings, const struct schedule *schedule);
/* Write a train row to metrics.jsonl. */
void report_interval(struct report *report, const struct local_batch *local);
/* Called after an evaluation, or after an epoch of training without one: prints a row of the table, and writes rows to
 * metrics.jsonl. */
void report_epoch(struct report *report, const struct local_batch *local);

struct report_end {
    struct pipeline_counts counts;
    uint64_t loader_wall_ns, loader_end_ns;     /* how long the loader ran; when it ended, on clock_now_ns's clock */
    const char *early;          /* why the run ended early, in words; NULL: it did not */
    const char *ended;          /* the reason for programs, in a word or two */
};
/* Print the last lines on stdout, and write summary.json. 0, or a negative errno if stdout or a file could not be
 * written, which was reported on stderr. */
int report_result(struct report *report, const struct report_end *end);

/* ---- shared with summary.c ---- */

/* Does the run compute, with real labels? Otherwise accuracies are meaningless. */
bool report_has_accuracy(const struct report *report);
/* The mean loss; NAN if nothing is computed or labels are not real. */
double report_loss(const struct report *report, const struct step_totals *totals);
double report_accuracy(const struct report *report, const struct step_totals *totals);
/* The number of correct predictions; METRIC_UNKNOWN if there is no accuracy. */
uint64_t report_correct(const struct report *report, const struct step_totals *totals);
/* Measures by class of the latest evaluation; NAN if they are unknown. */
struct mean_measures report_measures(const struct report *report);
/* Peak memory of the process. */
uint64_t report_peak_bytes(void);
/* The time from the start of the process to the end of its first step; 0 without a step. */
double report_first_step_seconds(const struct report *report);
/* Find out which weights best.safetensors in the run directory has, if it exists. */
void report_find_best(struct report *report);
/* Did the last evaluation include all its samples? */
bool report_evaluation_is_complete(const struct report *report);
#define REPORT_TIME_SIZE 32
/* "2026-01-31T12:00:00.000Z" */
void report_write_time(struct timespec time, char text[REPORT_TIME_SIZE]);
/* The use of the cores since report_init. Other ranks on the same cores are counted as part of this process; each is
 * assumed to use as much CPU time as this one. */
struct cores_use report_cores(const struct report *report);
/* The use of the input pipeline in training of this process after warm-up. */
struct feed_use report_feed(const struct report *report, const struct report_end *end);

/* ---- damaged records ---- */

/* Each damaged record is written to quarantine.jsonl when it is found, as {"set", "path", "record", "offset", "count",
 * "problem"} and, if a checksum differs, "stored_crc", "computed_crc". The first ones are printed at the end and are in
 * the summary. */
struct report_damage {
    struct run_directory *directory;    /* lent; NULL: nothing is written */
    struct json line;
};

/* 0 or -ENOMEM. Call report_damage_release after success or failure. */
int report_damage_init(struct report_damage *report, struct run_directory *directory);
/* Accepts a struct of zeros. */
void report_damage_release(struct report_damage *report);
/* Write a line of quarantine.jsonl; for damage_sink, from a thread of the loader. */
void report_damage_add(void *report, const struct damaged_record *record);

/* Print the number of damaged records, the first of them, and the file that lists all. Prints nothing if `total` is
 * 0. */
void report_damage_print(const struct damage_list *list, uint64_t total, const struct run_directory *directory,
                         FILE *out);
/* Write "damage": {"records": [...], "unlisted"}; with a directory also "file", and "file_lacks" if lines of the file
 * were lost. `list` NULL: no record was damaged. */
void report_damage_write(const struct damage_list *list, const struct run_directory *directory, struct json *json);

#endif
