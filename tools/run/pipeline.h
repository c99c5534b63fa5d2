/* The whole pipeline, built in one function that reads as a list and taken down in the
 * reverse order: shards -> loader -> rings -> feeders -> slots -> trainers, with the
 * reduction between them. First all is planned, then memory is taken. Used by main only. */
#ifndef PIPETRAIN_PIPELINE_H
#define PIPETRAIN_PIPELINE_H

#include "loader/loader.h"
#include "stage/feeder.h"
#include "stage/stop.h"
#include "sync/trainer.h"
#include "tools/config/settings.h"
#include "tools/run/run_plan.h"

struct pipeline;

struct pipeline_parts {                 /* all lent until pipeline_close */
    const struct settings *settings;
    struct run_plan *plan;              /* pipeline_open adds the towers to its memory */
    const struct net *net;
    const struct dataset *datasets[PHASE_COUNT];
    struct snapshot_rule snapshots;     /* none: all 0 */
    bool waits_for_main;                   /* behind every evaluation towers wait for pipeline_allow */
    struct damage_sink damage_sink;     /* gets damaged records that are skipped, from pipeline_allocate on */
    struct stop *stop;
};

/* What the stages say at the end. */
struct pipeline_counts {
    struct loader_counts loader;
    struct damage_list *damage;         /* owned by who gets the counts (free); NULL where none is kept */
    struct feeder_counts feeders;
    uint64_t main_waited_ns;            /* main for the reports of towers */
};

/* Devices, and on each its towers' threads, which plan; nothing large is taken. What towers need is
 * added to plan->memory. 0, or a negative errno with the cause in stop. */
int pipeline_open(struct pipeline **pipeline_out, const struct pipeline_parts *parts);
/* Is there memory for all of plan->memory now? 0, or an exit code after messages. Before pipeline_allocate. */
int pipeline_check_memory(const struct pipeline *pipeline);
/* What each tower of this process needs, and how what they sum is cut. After pipeline_open. */
void pipeline_print(const struct pipeline *pipeline, FILE *out);
/* What one tower of this process needs. */
const struct trainer_needs *pipeline_needs(const struct pipeline *pipeline, uint32_t tower);
/* Take the memory, once: the loader starts filling the rings with the batches from
 * plan->schedule.first on, the towers have their first weights. No step begins yet: a run that goes
 * on from a snapshot writes its state to every tower now. 0, or a negative errno with the cause in
 * stop. */
int pipeline_allocate(struct pipeline *pipeline);
/* Let the towers begin. */
void pipeline_go(struct pipeline *pipeline);
/* The reports of all towers of this process for the next global batch, in tower order, waiting for the
 * slowest. 0, -ENODATA when all have done their last one, -ECANCELED. */
int pipeline_step(struct pipeline *pipeline, struct step_report ***reports_out);
/* With the snapshots that are still in them (trainer.h). */
void pipeline_give_back(struct pipeline *pipeline);
/* After the last report: a tower's snapshot behind the last batch, with snapshots.last; NULL when the
 * run failed. Once. */
struct snapshot *pipeline_last(struct pipeline *pipeline, uint32_t tower);
/* A snapshot that was taken out of a report, or is of pipeline_last. Any thread; before
 * pipeline_close. */
void pipeline_return(struct pipeline *pipeline, uint32_t tower, struct snapshot *snapshot);
/* Let every tower make a snapshot behind the next batch that none has begun, besides those of the rule, of which there
 * is one. Not again before that batch is reported. Main only. */
void pipeline_request_snapshot(struct pipeline *pipeline);
/* Is the batch the one that pipeline_request_snapshot asked for? */
bool pipeline_is_requested(struct pipeline *pipeline, uint64_t number);
/* With parts.waits_for_main: the evaluation that is reported now was the last before batch `number`, which may begin.
 * Main only. */
void pipeline_allow(struct pipeline *pipeline, uint64_t number);
/* What the loader counted until now; all 0 for synthetic input, and for NULL. Main only. */
void pipeline_count_loader(const struct pipeline *pipeline, struct loader_counts *counts_out);
/* End after the batches that are begun. Any thread; fits signals_start. */
void pipeline_request_stop(void *pipeline);
/* The tower-th of this process, between steps: planned only before pipeline_allocate, with its memory
 * before pipeline_go and after the last step. */
struct tower *pipeline_tower(struct pipeline *pipeline, uint32_t tower);
/* End and join all threads, release everything; *counts_out (may be NULL) gets what the
 * stages counted. Accepts NULL. */
void pipeline_close(struct pipeline *pipeline, struct pipeline_counts *counts_out);

#endif
