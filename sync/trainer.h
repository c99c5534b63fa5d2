/* The trainer thread of one tower, the life of a step:
 * slot -> forward -> backward and update, as the mode has it (sync.h) -> report. Evaluation
 * batches run forward only. On a device that computes by itself, the thread queues a step while
 * the ones before are computed, waits only for the end of step number - steps_ahead, and reports
 * that one. */
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

/* What a tower says about one global batch; taken by main, given back to the pool. */
struct step_report {
    struct span span;
    struct backend_result result;
    struct step_times times;
    uint32_t staleness;         /* of the weights of a training batch, async: steps whose updates were not all in */
    uint32_t batches_found, slots_found;        /* as its slot says */
    uint64_t ended_ns;          /* by the device's clock, counted on from the first step */
    uint64_t seen_ns;           /* when the tower's thread knew of it, by the host's clock alone */
    const char *broken;         /* the parameter that holds a number that is not finite, NULL: none was found;
                                 * looked for behind the steps that inspect_every names, and where the loss is not
                                 * finite, unless its update was left out */
    uint64_t *ids;              /* span.count, copied from the slot */
    double gradient_norm;       /* of the mean gradients, where the tower's updates limit it, behind the steps that
                                 * inspect_every names; NAN: it is not known */
    struct snapshot *shown;     /* of weights and gradients behind the batch, when the rule of what is shown says so;
                                 * complete. Lent until the report is given back */
    const struct sync *sync;    /* the tower's: sync_gradient_samples tells what shown gradients are sums over */
    struct snapshot *snapshot;  /* of the tower behind the batch, when the rule says so; complete. Lent until the
                                 * report is given back, or until trainer_return when it is taken out of it */
};

struct trainer_spec {
    const char *name;
    struct tower_spec tower;
    struct sync_spec sync;
    struct gate *gate;
    struct stop *stop;
    struct snapshot_rule snapshots;
    struct snapshot_rule shown; /* what people look at (SNAPSHOT_SHOWN), the same for all towers: tower 0 has it */
    uint64_t inspect_every;     /* training steps of the run behind which weights are looked at, and behind the
                                 * last of an epoch; 0 = never */
    bool awaits_word;           /* behind every evaluation the tower goes on when gate_allow says so */
    uint32_t report_depth;      /* reports a tower may be ahead of main; more than the device's steps_ahead */
    uint32_t slice_max;         /* ids a report has room for */
    const uint32_t *cpus;       /* CPUs to bind to, NULL = none */
    uint32_t cpu_count;
    struct trace_track *track;  /* of the tower; NULL: not recorded */
    struct heartbeat *heartbeat;        /* of the tower's thread; NULL: its device is not watched */
};

/* Bytes that trainer_allocate will take. */
struct trainer_needs {
    struct tower_needs tower;   /* of the device */
    size_t snapshots, reduction; /* pinned, of the host */
    uint32_t samples;           /* of a full training step, which that is for */
};

struct trainer;

/* Start the thread and those it computes with; it waits for trainer_plan. 0, -ENOMEM, or -EAGAIN when there is no
 * room for so many threads. */
int trainer_start(struct trainer **trainer_out, const struct trainer_spec *spec);
/* Let it plan the tower: it takes no memory for it, and waits for trainer_allocate. Main only. */
void trainer_plan(struct trainer *trainer);
/* Wait until the tower is planned: 0 with what it needs, or a negative errno (the message went to
 * stop). After trainer_plan, before trainer_allocate. Main only. */
int trainer_planned(struct trainer *trainer, struct trainer_needs *needs_out);
/* How what the towers sum is cut. After trainer_planned. Main only. */
void trainer_buckets(const struct trainer *trainer, struct buckets *buckets_out);
/* Let the tower take its memory; then the thread waits in trainer_go. The slots are lent until
 * trainer_settle. After trainer_planned. Main only. */
void trainer_allocate(struct trainer *trainer, struct slots *slots);
/* Wait until the tower is open (0), or failed to (negative errno; the message went to stop). */
int trainer_ready(struct trainer *trainer);
/* Let the steps begin. */
void trainer_go(struct trainer *trainer);
/* The next report, in order, waiting for it: 0, -ENODATA after the last, -ECANCELED. Main only. */
int trainer_report(struct trainer *trainer, struct step_report **report_out);
/* With the snapshot it holds. */
void trainer_give_back(struct trainer *trainer, struct step_report *report);
/* After the last report: the snapshot behind the last batch, with snapshots.last; NULL when the run
 * failed. Once; the caller returns it. Main only. */
struct snapshot *trainer_last(struct trainer *trainer);
/* A snapshot whose pointer the report no longer holds, before trainer_join. A tower whose snapshots
 * are all lent goes on up to where it has to take the next one and waits there, and the others for
 * it in their reduction: who waits for reports meanwhile must not hold them all. Any thread. */
void trainer_return(struct trainer *trainer, struct snapshot *snapshot);
/* The tower, usable by main once it is planned, as far as it needs no memory, once it is open until
 * trainer_go, and after the last report (the thread keeps it open until trainer_join). */
struct tower *trainer_tower(struct trainer *trainer);
/* Wait until the thread does no more steps (the run ended, failed, or never began and
 * was cancelled). Its arenas stay: other towers' reductions may still read them. */
void trainer_settle(struct trainer *trainer);
/* Close the tower and end the thread. All towers of the run are settled and their
 * communication streams are closed. Accepts NULL. */
void trainer_join(struct trainer *trainer);
/* Every wait of the thread and of main on it ends now. */
void trainer_cancel(void *trainer);     /* as a closer */

#endif
