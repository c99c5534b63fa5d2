/* The towers of other ranks (sync/ranks/ranks.h). Rank 0 gets the report of every tower of the run, allows batches, and
 * decides after which batch towers make snapshots and after which one the run ends; the other ranks follow. */
#ifndef PIPETRAIN_REMOTE_TOWERS_H
#define PIPETRAIN_REMOTE_TOWERS_H

#include "compute/net.h"
#include "loader/loader.h"
#include "stage/schedule.h"
#include "sync/gate.h"
#include "sync/ranks/ranks.h"
#include "sync/trainer.h"

struct remote_towers;

struct remote_towers_spec {                       /* all lent until remote_towers_close */
    struct ranks *ranks;
    const struct schedule *schedule;
    const struct net *net;
    struct gate *gate;
    bool waits_for_main;                /* no batch after an evaluation is allowed before remote_towers_allow */
};

/* 0 or -ENOMEM. */
int remote_towers_open(struct remote_towers **remote_out, const struct remote_towers_spec *spec);
/* Accepts NULL. */
void remote_towers_close(struct remote_towers *remote);

/* Main only: the first batches may begin. */
void remote_towers_go(struct remote_towers *remote);
/* Main of rank 0: wait for the reports of the other ranks' towers for batch `number`, and fill in reports[towers
 * here .. towers of the run), which are lent until the next call; then allow more batches. 0, or -ECANCELED when a
 * rank failed. */
int remote_towers_receive(struct remote_towers *remote, uint64_t number, struct step_report **reports);
/* Main of another rank: send the reports of its own towers. 0 or a negative errno. */
int remote_towers_send(struct remote_towers *remote, struct step_report *const *reports);

/* For the loader of a rank that is not 0; what it passes, rank 0 adds to its own loader's (NULL: there is none) when
 * it receives reports, and counts. */
struct problem_relay remote_towers_relay(struct remote_towers *remote);
void remote_towers_add_problems(struct remote_towers *remote, struct loader *loader);
/* The loader of this process has ended, with these counts: rank 0 waits for those of the other ranks, and adds the
 * records and bytes that they have read. */
void remote_towers_end_loader(struct remote_towers *remote, struct loader *loader, struct loader_counts *counts);

/* Rank 0, any thread but for remote_towers_allow: as the functions of the pipeline of these names. */
void remote_towers_mark(struct remote_towers *remote);
void remote_towers_allow(struct remote_towers *remote, uint64_t number);
/* In rank 0: end the run after the batches that are allowed. In another rank: pass the signal on that asks for it. Any
 * thread. */
void remote_towers_request_stop(struct remote_towers *remote);

#endif
