/* The trainer: the thread of one tower. Its steps are slot -> forward -> backward -> reduce -> update -> report; the
 * mode defines reduce and update (sync.h). An evaluation is forward only. On an asynchronous device the thread queues a
 * step while up to steps_ahead earlier ones are computed, and then reports the oldest of them. */
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

/* The report of a tower about its part of a global batch; lent to main. */
struct step_report {
    struct local_batch local;
    struct backend_result result;
    struct step_times times;
    uint32_t staleness;         /* async: staleness of the weights that the training batch used (sync.h) */
    uint32_t batches_found, slots_found;        /* as in struct slot */
    uint64_t ended_ns;          /* end of the batch on the device's clock, counted from the first step */
    uint64_t seen_ns;           /* when the tower's thread noticed the end, on the host's clock */
    /* Name of a parameter with a number that is not finite; NULL: none was found. Checked after the steps of
     * inspect_every and if the loss is not finite, unless the step was skipped. */
    const char *broken;
    uint64_t *ids;              /* [local.count], copied from the slot; NULL: the tower is in another process, */
    uint64_t order;             /* which sends this sum instead (account_order) */
    /* Of an evaluation: [local.count], where the tower computes; NULL with reports_outputs, and where the run has no
     * evaluation. */
    struct answer *answers;
    /* With reports_outputs, of an evaluation: [local.count], BATCH_NO_LABEL for no sample or an unknown label;
     * otherwise NULL. */
    int32_t *labels;
    float *embeddings;          /* as labels, with backend_spec.keeps_embedding: the inputs of net_embedding_layer */
    float *logits;              /* as labels: local.count x classes of the network, sample by sample */
    /* Norm of the mean gradients, with train.clip_norm after the steps of inspect_every; otherwise NAN. */
    double gradient_norm;
    /* Complete snapshot of weights and gradients after the batch, for observers; NULL: not due. Lent until the report
     * is returned. */
    struct snapshot *shown;
    /* Complete SNAPSHOT_EVALUATED after the last batch of an evaluation; NULL: not due. Lent as `snapshot` is. */
    struct snapshot *evaluated;
    const struct sync *sync;    /* of the tower; for sync_gradient_samples of shown gradients */
    /* Complete snapshot of the tower after the batch; NULL: not due. Lent until the report is returned, or, if main has
     * set this pointer to NULL before, until trainer_return. */
    struct snapshot *snapshot;
};

/* When a tower waits until main allows the next batch (gate_allow). */
enum trainer_waits { WAITS_NEVER, WAITS_AFTER_EVALUATION, WAITS_BEFORE_BATCH };

struct trainer_spec {
    const char *name;
    struct tower_spec tower;
    struct sync_spec sync;
    struct gate *gate;
    struct stop *stop;
    struct snapshot_rule snapshots;     /* the same in all towers */
    /* Tower 0 makes the snapshots of all, which have the same state (train.slices); unless towers have parts of the net
     * (tower.parts), of which each makes snapshots. */
    bool shares_snapshots;
    /* For observers (SNAPSHOT_SHOWN), the same in all towers, but without parts only tower 0 makes them. */
    struct snapshot_rule shown;
    struct snapshot_rule evaluated;     /* SNAPSHOT_EVALUATED, for the best weights; likewise */
    /* Weights are checked for NaN and Inf after each multiple of this number of training steps, and after the last one
     * of an epoch; 0: never. */
    uint64_t inspect_every;
    enum trainer_waits waits;
    uint32_t report_depth;      /* reports by which a tower may be ahead of main; more than the device's steps_ahead */
    uint32_t local_max;         /* the most samples of a report */
    /* For a tower that only evaluates: every report contains labels and logits; the thread waits for them before it
     * queues another batch. */
    bool reports_outputs;
    const uint32_t *cpus;       /* CPUs to bind to, NULL = none */
    uint32_t cpu_count;
    struct trace_track *track;  /* the tower's trace; NULL: not recorded */
    struct heartbeat *heartbeat;        /* of the tower's thread; NULL: not watched */
};

/* The bytes that trainer_allocate allocates. */
struct trainer_needs {
    struct tower_needs tower;   /* on the device */
    size_t exchange;            /* on the device, too: what the reduction sends and receives */
    size_t snapshots, reduction, outputs;       /* in pinned memory of the host; outputs: also answers */
    uint32_t samples;           /* samples of a full batch, to which the bytes belong */
};

struct trainer;

/* Start the thread and its team; it then waits for trainer_plan. 0, -ENOMEM, or -EAGAIN if the system cannot start more
 * threads. */
int trainer_start(struct trainer **trainer_out, const struct trainer_spec *spec);
/* Let the thread plan the tower, without large allocations; it then waits for trainer_allocate. Main only. */
void trainer_plan(struct trainer *trainer);
/* Wait until the tower is planned. 0 with its needs, or a negative errno (the cause is in stop). After trainer_plan,
 * before trainer_allocate. Main only. */
int trainer_planned(struct trainer *trainer, struct trainer_needs *needs_out);
/* The buckets that the towers reduce. After trainer_planned. Main only. */
void trainer_buckets(const struct trainer *trainer, struct buckets *buckets_out);
/* Let the thread allocate the tower's memory; it then waits for trainer_go. The slots are lent until trainer_settle.
 * After trainer_planned. Main only. */
void trainer_allocate(struct trainer *trainer, struct slots *slots);
/* Wait until the memory is allocated. 0, or a negative errno (the cause is in stop). */
int trainer_ready(struct trainer *trainer);
/* Let the steps begin. */
void trainer_go(struct trainer *trainer);
/* Wait for the next report, in order: 0, -ENODATA after the last one, -ECANCELED. Main only. */
int trainer_report(struct trainer *trainer, struct step_report **report_out);
/* Return a report, with the snapshots in it. */
void trainer_give_back(struct trainer *trainer, struct step_report *report);
/* After the last report, with snapshots.last: the snapshot after the last batch, which the caller returns; NULL if the
 * run failed. Called once. Main only. */
struct snapshot *trainer_last(struct trainer *trainer);
/* Return a snapshot that was removed from a report or is from trainer_last, before trainer_join. A tower whose
 * snapshots are all lent waits when the next one is due, and then the other towers wait for that tower in their
 * reduction. So a thread must not keep all snapshots while it waits for reports. Any thread. */
void trainer_return(struct trainer *trainer, struct snapshot *snapshot);
/* The tower. Main may use it when it is planned, for calls that need no memory; from trainer_ready to trainer_go; and
 * after the last report. The thread keeps it open until trainer_join. */
struct tower *trainer_tower(struct trainer *trainer);
/* Wait until the thread executes no more steps, because the run ended, failed, or was cancelled before it began. The
 * arenas stay allocated, because reductions of other towers may still read them. */
void trainer_settle(struct trainer *trainer);
/* Close the tower and end the thread. All towers of the run must be settled and their communication streams closed.
 * Accepts NULL. */
void trainer_join(struct trainer *trainer);
/* End every wait of the thread, and of main for it. */
void trainer_cancel(void *trainer);

#endif
