/* The whole pipeline: shards -> loader -> rings -> feeders -> slots -> trainers, and the reduction between these. plan
 * and build in pipeline.c open it, as a list; it is closed in reverse order. First all is planned, then memory is
 * allocated. A pipeline whose plan only evaluates has one tower, without gradients, and no reduction. Used by main
 * only. */
#ifndef PIPETRAIN_PIPELINE_H
#define PIPETRAIN_PIPELINE_H

#include "loader/loader.h"
#include "stage/feeder.h"
#include "stage/stop.h"
#include "sync/trainer.h"
#include "tools/lib/config/settings.h"
#include "tools/lib/run/run_plan.h"

struct pipeline;

/* Fills the ring of the only tower in place of the loader (plan->is_fed). */
struct pipeline_input {
    int (*start)(void *arg, struct ring *ring);         /* 0, or a negative errno with no thread running */
    void (*join)(void *arg);    /* the ring is cancelled: wait for its threads, if it was started */
    void *arg;
};

struct pipeline_parts {                 /* all lent until pipeline_close */
    const struct settings *settings;
    struct run_plan *plan;              /* pipeline_open adds the towers to its memory */
    const struct net *net;
    const struct dataset *datasets[PHASE_COUNT];
    struct pipeline_input input;        /* with plan->is_fed, else all 0 */
    bool reports_outputs;               /* trainer.h */
    struct snapshot_rule snapshots;     /* all 0: none */
    struct snapshot_rule shown;         /* for observers; all 0: none */
    bool waits_for_main;                /* after every evaluation towers wait for pipeline_allow */
    struct damage_sink damage_sink;     /* gets damaged records that are skipped, after pipeline_allocate */
    struct stop *stop;
    struct ranks *ranks;                /* NULL: all towers are in this process */
};

/* Counts of the stages at the end. */
struct pipeline_counts {
    struct loader_counts loader;
    struct damage_list *damage;         /* owned by the caller of pipeline_close (free); NULL: there is no loader */
    struct feeder_counts feeders;
    uint64_t main_waited_ns;            /* for the towers' reports */
};

/* Open the devices and start the towers' threads, which plan; nothing large is allocated. The towers' needs are added
 * to plan->memory. 0, or a negative errno with the cause in stop. */
int pipeline_open(struct pipeline **pipeline_out, const struct pipeline_parts *parts);
/* Is there memory for plan->memory now? 0, or an exit code after messages. Before pipeline_allocate. */
int pipeline_check_memory(const struct pipeline *pipeline);
/* Print what each tower of this process needs, and the buckets. After pipeline_open. */
void pipeline_print(const struct pipeline *pipeline, FILE *out);
/* The needs of one tower of this process. */
const struct trainer_needs *pipeline_needs(const struct pipeline *pipeline, uint32_t tower);
/* Allocate the memory, once: the loader starts to fill the rings, beginning with batch plan->schedule.first, and the
 * towers get their initial weights. No step begins yet: a resumed run writes its state to every tower now. 0, or a
 * negative errno with the cause in stop. */
int pipeline_allocate(struct pipeline *pipeline);
/* Let the towers begin their steps. */
void pipeline_go(struct pipeline *pipeline);
/* Wait for the reports of all towers for the next global batch, in tower order: in rank 0 of all towers of the run, else
 * of those of this process, which rank 0 gets. 0, -ENODATA after the last batch, -ECANCELED. */
int pipeline_step(struct pipeline *pipeline, struct step_report ***reports_out);
/* Give the reports back, with the snapshots that are still in them (trainer.h). */
void pipeline_give_back(struct pipeline *pipeline);
/* After the last report: with snapshots.last a tower's snapshot after the last batch, NULL when the run failed.
 * Once. */
struct snapshot *pipeline_last(struct pipeline *pipeline, uint32_t tower);
/* Give back a snapshot that was taken out of a report, or is from pipeline_last. Any thread; before pipeline_close. */
void pipeline_return(struct pipeline *pipeline, uint32_t tower, struct snapshot *snapshot);
/* Let every tower make a snapshot after the next batch that none has begun, besides those of the rule. Not again before
 * that batch is reported. Main only. */
void pipeline_request_snapshot(struct pipeline *pipeline);
/* Is this the batch that pipeline_request_snapshot chose? */
bool pipeline_is_requested(struct pipeline *pipeline, uint64_t number);
/* With parts.waits_for_main: batch `number`, which follows the evaluation reported now, may begin. Main only. */
void pipeline_allow(struct pipeline *pipeline, uint64_t number);
/* The loader's counts until now; all 0 for synthetic input, and for NULL. Main only. */
void pipeline_count_loader(const struct pipeline *pipeline, struct loader_counts *counts_out);
/* End after the batches that have begun. Any thread; for signals_set_callback. */
void pipeline_request_stop(void *pipeline);
/* A tower of this process, while it does no steps: before pipeline_allocate it is only planned; from then to
 * pipeline_go, and after the last step, it has its memory. */
struct tower *pipeline_tower(struct pipeline *pipeline, uint32_t tower);
/* End and join all threads, and release everything. counts_out may be NULL. Accepts NULL. */
void pipeline_close(struct pipeline *pipeline, struct pipeline_counts *counts_out);

#endif
