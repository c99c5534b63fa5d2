/* The towers of other ranks (sync/ranks/ranks.h). Rank 0 receives the reports of all towers of the run, and sends the
 * other ranks its decisions: which batches may begin, after which batch towers make snapshots, and before which batch
 * the run ends. */
#ifndef PIPETRAIN_REMOTE_TOWERS_H
#define PIPETRAIN_REMOTE_TOWERS_H

#include "compute/net.h"
#include "loader/loader.h"
#include "stage/schedule.h"
#include "sync/gate.h"
#include "sync/ranks/ranks.h"
#include "sync/trainer.h"

struct remote_towers;

struct remote_towers_spec {             /* all lent until remote_towers_close */
    struct ranks *ranks;
    const struct schedule *schedule;
    const struct net *net;
    struct gate *gate;
    bool waits_for_main;                /* batches after an evaluation wait for remote_towers_allow */
    uint32_t max_staleness;             /* async: training steps by which a tower may be ahead of others; otherwise 0 */
    /* A rank sends the reports of up to so many batches as one message, a group; 0 or 1: of each batch. A group ends
     * after a multiple of this number of batches of the run, and where rank 0 needs the reports: after the last batch of
     * a phase, a multiple of interval_steps training steps (0: none), and a batch with a snapshot. All ranks so send
     * equally many. */
    uint32_t report_every;
    uint64_t interval_steps;
    struct snapshot_rule snapshots, shown, evaluated;   /* as in struct trainer_spec */
};

/* 0 or -ENOMEM. */
int remote_towers_open(struct remote_towers **remote_out, const struct remote_towers_spec *spec);
/* Accepts NULL. */
void remote_towers_close(struct remote_towers *remote);

/* Main of any rank, once: start the clock of the reports; rank 0 also allows the first batches. */
void remote_towers_go(struct remote_towers *remote);
/* Main of rank 0: wait for the reports of the other ranks' towers for batch `number`, then allow more batches. Sets
 * reports[d] for each tower d of another rank; they are lent until the next call. 0, or -ECANCELED when a rank
 * failed. */
int remote_towers_receive(struct remote_towers *remote, uint64_t number, struct step_report **reports);
/* Main of another rank: send the reports of its towers for a batch, or keep them for the message of the group. 0 or a
 * negative errno. */
int remote_towers_send(struct remote_towers *remote, struct step_report *const *reports);
/* Main of another rank: send the reports that are kept, because the towers report no further batch. Errors fail the
 * run, which has ended here. */
void remote_towers_flush(struct remote_towers *remote);
/* The batches by which rank 0's towers may have to be ahead of its main, so that other ranks can complete a group for
 * which main waits. */
uint32_t remote_towers_group_ahead(uint32_t report_every);

/* The relay by which the loader of a rank other than 0 reports problems with records. */
struct problem_relay remote_towers_relay(struct remote_towers *remote);
/* In rank 0: add the problems that other ranks have reported to those of its own loader. Does nothing if `loader` is
 * NULL. */
void remote_towers_add_problems(struct remote_towers *remote, struct loader *loader);
/* Called after the loader of this process has ended with these counts. A rank other than 0 sends them to
 * rank 0. Rank 0 waits for those of all ranks, and adds their records, bytes and problems to its own counts. */
void remote_towers_end_loader(struct remote_towers *remote, struct loader *loader, struct loader_counts *counts);

/* For rank 0: pipeline_request_snapshot (any thread) and pipeline_allow (main) in all ranks. */
void remote_towers_mark(struct remote_towers *remote);
void remote_towers_allow(struct remote_towers *remote, uint64_t number);
/* In rank 0: end the run after the batches that are already allowed. In other ranks: forward the signal that this
 * process received to rank 0. Any thread. */
void remote_towers_request_stop(struct remote_towers *remote);

#endif
