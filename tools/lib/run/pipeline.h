/* The whole pipeline: shards -> loader -> rings -> feeders -> slots -> trainers, and the reduction between these. The
 * functions plan and build in pipeline.c list the order of opening; closing is in reverse order. First everything is
 * planned, then memory is allocated. A pipeline whose plan only evaluates has one tower, without gradients, and no
 * reduction. Used by main only. */
#ifndef PIPETRAIN_PIPELINE_H
#define PIPETRAIN_PIPELINE_H

#include "loader/loader.h"
#include "stage/feeder.h"
#include "stage/stop.h"
#include "sync/trainer.h"
#include "tools/lib/config/settings.h"
#include "tools/lib/run/run_plan.h"

struct pipeline;

/* An input that fills the ring of the only tower, instead of the loader (plan->is_fed). */
struct pipeline_input {
    int (*start)(void *arg, struct ring *ring);         /* 0, or a negative errno with no thread running */
    void (*stop)(void *arg);    /* the run was asked to end (pipeline_request_stop): end the input; NULL: it ends soon */
    void (*join)(void *arg);    /* called after the ring is cancelled: join the threads, if they were started */
    void *arg;
};

struct pipeline_parts {                 /* all lent until pipeline_close */
    const struct settings *settings;
    struct run_plan *plan;              /* pipeline_open adds the towers to its memory */
    const struct net *net;
    const struct dataset *datasets[PHASE_COUNT];
    struct pipeline_input input;        /* used with plan->is_fed, else all 0 */
    bool reports_outputs;               /* as in trainer.h */
    struct snapshot_rule snapshots;     /* all 0: none */
    struct snapshot_rule shown;         /* for observers; all 0: none */
    struct snapshot_rule evaluated;     /* for the best weights; all 0: none */
    bool waits_for_main;                /* towers wait for pipeline_allow after every evaluation */
    struct damage_sink damage_sink;     /* receives damaged records that are skipped, after pipeline_allocate */
    /* Called about once a second in another thread, from pipeline_open to pipeline_close; waits for no device. */
    void (*poll)(void *arg);            /* NULL: none */
    void *poll_arg;
    struct stop *stop;
    struct ranks *ranks;                /* NULL: all towers are in this process */
};

/* Counts of the stages at the end. */
struct pipeline_counts {
    struct loader_counts loader;
    struct damage_list *damage;         /* the caller of pipeline_close frees it; NULL: there is no loader */
    struct feeder_counts feeders;
    uint64_t main_waited_ns;            /* time that main has waited for the towers' reports */
};

/* Open the devices and start the towers' threads, which plan; nothing large is allocated. The towers' needs are added
 * to plan->memory. 0, or a negative errno with the cause in stop. */
int pipeline_open(struct pipeline **pipeline_out, const struct pipeline_parts *parts);
/* Check that there is memory for plan->memory now. 0, or an exit code after messages. Called before
 * pipeline_allocate. */
int pipeline_check_memory(const struct pipeline *pipeline);
/* Print the memory needs of each tower of this process, and the buckets. After pipeline_open. */
void pipeline_print(const struct pipeline *pipeline, FILE *out);
/* The memory needs of a tower of this process. */
const struct trainer_needs *pipeline_needs(const struct pipeline *pipeline, uint32_t tower);
/* Allocate the memory, once: the loader starts to fill the rings, beginning with batch plan->schedule.first, and the
 * towers get their initial weights. No step begins yet: a resumed run writes its state to every tower now. 0, or a
 * negative errno with the cause in stop. */
int pipeline_allocate(struct pipeline *pipeline);
/* Let the towers begin their steps. */
void pipeline_go(struct pipeline *pipeline);
/* Wait for the reports of the next global batch, in tower order: in rank 0 of all towers of the run; in another rank of
 * its own towers, and send them to rank 0. 0, -ENODATA after the last batch, -ECANCELED. */
int pipeline_step(struct pipeline *pipeline, struct step_report ***reports_out);
/* Return the reports, with the snapshots that are still in them (trainer.h). */
void pipeline_give_back(struct pipeline *pipeline);
/* After the last report, with snapshots.last: a tower's snapshot after the last batch; NULL if the run failed. Called
 * once. */
struct snapshot *pipeline_last(struct pipeline *pipeline, uint32_t tower);
/* Return a snapshot that was removed from a report, or is from pipeline_last. Any thread; before pipeline_close. */
void pipeline_return(struct pipeline *pipeline, uint32_t tower, struct snapshot *snapshot);
/* Let every tower make a snapshot, in addition to those of the rule, after the next batch that no tower has begun. Must
 * not be called again before that batch is reported. Main only. */
void pipeline_request_snapshot(struct pipeline *pipeline);
/* Is this the batch that pipeline_request_snapshot chose? */
bool pipeline_is_requested(struct pipeline *pipeline, uint64_t number);
/* With parts.waits_for_main: allow batch `number`, which follows the evaluation that was just reported. Main only. */
void pipeline_allow(struct pipeline *pipeline, uint64_t number);
/* The loader's counts so far; all 0 for synthetic input, and if `pipeline` is NULL. Main only. */
void pipeline_count_loader(const struct pipeline *pipeline, struct loader_counts *counts_out);
/* End the run after the batches that have begun. Any thread; for signals_set_callback. */
void pipeline_request_stop(void *pipeline);
/* A tower of this process, at times when it executes no steps: before pipeline_allocate it is only planned; from then
 * to pipeline_go, and after the last step, its memory is allocated. */
struct tower *pipeline_tower(struct pipeline *pipeline, uint32_t tower);
/* End and join all threads, and release everything. counts_out may be NULL. Accepts NULL. */
void pipeline_close(struct pipeline *pipeline, struct pipeline_counts *counts_out);

#endif
