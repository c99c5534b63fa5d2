/* The trainer: the thread of one tower. Its steps are slot -> forward -> backward -> reduce -> update -> report; what
 * reduce and update are depends on the mode (sync.h). An evaluation is forward only. On an asynchronous device the
 * thread queues a step while up to steps_ahead ones before are computed, and then reports the oldest of them. */
#ifndef PIPETRAIN_TRAINER_H
#define PIPETRAIN_TRAINER_H

#include "compute/tower.h"
#include "stage/heartbeat.h"
#include "stage/queue.h"
#include "stage/slots.h"
#include "stage/stop.h"
#include "stage/trace/trace.h"
#include "sync/gate.h"
#include "sync/snapshot_pool.h"
#include "sync/step_clock.h"
#include "sync/sync.h"

/* The report of one tower about one global batch; lent to main. */
struct step_report {
    struct local_batch local;
    struct backend_result result;
    struct step_times times;
    uint32_t staleness;         /* async: of the weights that the training batch used (sync.h) */
    uint32_t batches_found, slots_found;        /* as in struct slot */
    uint64_t ended_ns;          /* when it ended: the device's clock, counted from the first step */
    uint64_t seen_ns;           /* when the tower's thread saw it end: the host's clock */
    const char *broken;         /* a parameter with a number that is not finite; NULL: none was found. Checked after
                                 * the steps that inspect_every names, and where the loss is not finite, unless
                                 * the step was skipped */
    uint64_t *ids;              /* local.count, copied from the slot; NULL: the tower is in another process, */
    uint64_t order;             /* which gives this sum instead (account_order) */
    int32_t *labels;            /* with reports_outputs, of an evaluation: local.count, BATCH_NO_LABEL for no sample or
                                 * no known label; else NULL */
    float *logits;              /* the same: local.count x the network's classes, sample by sample */
    double gradient_norm;       /* of the mean gradients, with train.clip_norm after the steps that inspect_every
                                 * names; else NAN */
    struct snapshot *shown;     /* weights and gradients after the batch, complete, for observers; NULL: not due.
                                 * Lent until the report is given back */
    const struct sync *sync;    /* the tower's: for sync_gradient_samples of shown gradients */
    struct snapshot *snapshot;  /* the tower after the batch, complete; NULL: not due. Lent until the report is given
                                 * back, or, when this pointer was set to NULL before, until trainer_return */
};

/* When does a tower wait until main allows the next batch (gate_allow)? */
enum trainer_waits { WAITS_NEVER, WAITS_AFTER_EVALUATION, WAITS_BEFORE_BATCH };

struct trainer_spec {
    const char *name;
    struct tower_spec tower;
    struct sync_spec sync;
    struct gate *gate;
    struct stop *stop;
    struct snapshot_rule snapshots;     /* the same in all towers */
    bool shares_snapshots;      /* tower 0 makes those of all: they have the same state (train.slices) */
    struct snapshot_rule shown; /* for observers (SNAPSHOT_SHOWN), the same in all towers; only tower 0 makes them */
    uint64_t inspect_every;     /* weights are checked for NaN and Inf after every so many training steps of the run,
                                 * and after the last one of an epoch; 0: never */
    enum trainer_waits waits;
    uint32_t report_depth;      /* reports a tower may be ahead of main; more than the device's steps_ahead */
    uint32_t local_max;         /* samples of a report at most */
    bool reports_outputs;       /* for a tower that only evaluates: every report has labels and logits, for which the
                                 * thread waits before it queues another batch */
    const uint32_t *cpus;       /* CPUs to bind to, NULL = none */
    uint32_t cpu_count;
    struct trace_track *track;  /* the tower's trace; NULL: not recorded */
    struct heartbeat *heartbeat;        /* of the tower's thread; NULL: its device is not watched */
};

/* Bytes that trainer_allocate will allocate. */
struct trainer_needs {
    struct tower_needs tower;   /* on the device */
    size_t snapshots, reduction, outputs;       /* pinned memory of the host */
    uint32_t samples;           /* of a full batch, for which that is */
};

struct trainer;

/* Start the thread and its team; it then waits for trainer_plan. 0, -ENOMEM, or -EAGAIN when the system has no more
 * threads. */
int trainer_start(struct trainer **trainer_out, const struct trainer_spec *spec);
/* Let it plan the tower, which allocates nothing large; it then waits for trainer_allocate. Main only. */
void trainer_plan(struct trainer *trainer);
/* Wait until the tower is planned: 0 with what it needs, or a negative errno (the cause is in stop). After
 * trainer_plan, before trainer_allocate. Main only. */
int trainer_planned(struct trainer *trainer, struct trainer_needs *needs_out);
/* The buckets that the towers reduce. After trainer_planned. Main only. */
void trainer_buckets(const struct trainer *trainer, struct buckets *buckets_out);
/* Let the tower allocate its memory; the thread then waits for trainer_go. The slots are lent until trainer_settle.
 * After trainer_planned. Main only. */
void trainer_allocate(struct trainer *trainer, struct slots *slots);
/* Wait until that is done: 0, or a negative errno (the cause is in stop). */
int trainer_ready(struct trainer *trainer);
/* Let the steps begin. */
void trainer_go(struct trainer *trainer);
/* Wait for the next report, in order: 0, -ENODATA after the last one, -ECANCELED. Main only. */
int trainer_report(struct trainer *trainer, struct step_report **report_out);
/* Give a report back, with the snapshots in it. */
void trainer_give_back(struct trainer *trainer, struct step_report *report);
/* After the last report: with snapshots.last the snapshot after the last batch, NULL when the run failed. Once; the
 * caller returns it. Main only. */
struct snapshot *trainer_last(struct trainer *trainer);
/* Give back a snapshot that was taken out of a report, before trainer_join. A tower whose snapshots are all lent waits
 * when the next one is due, and the other towers wait for it in their reduction: whoever waits for reports meanwhile
 * must not keep all snapshots. Any thread. */
void trainer_return(struct trainer *trainer, struct snapshot *snapshot);
/* The tower. Main may use it once it is planned, as far as that needs no memory; from trainer_ready to trainer_go; and
 * after the last report. The thread keeps it open until trainer_join. */
struct tower *trainer_tower(struct trainer *trainer);
/* Wait until the thread does no more steps, because the run ended, failed, or was cancelled before it began. Its arenas
 * stay: other towers' reductions may still read them. */
void trainer_settle(struct trainer *trainer);
/* Close the tower and end the thread. All towers of the run must be settled and their communication streams closed.
 * Accepts NULL. */
void trainer_join(struct trainer *trainer);
/* Every wait of the thread and of main on it ends now. */
void trainer_cancel(void *trainer);

#endif
