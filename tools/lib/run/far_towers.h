/* The towers of other ranks (sync/ranks/ranks.h). Rank 0 gets the report of every tower of the run, allows batches, and
 * decides after which batch towers make snapshots and after which one the run ends; the other ranks follow. */
#ifndef PIPETRAIN_FAR_TOWERS_H
#define PIPETRAIN_FAR_TOWERS_H

#include "compute/net.h"
#include "loader/loader.h"
#include "stage/schedule.h"
#include "sync/gate.h"
#include "sync/ranks/ranks.h"
#include "sync/trainer.h"

struct far_towers;

struct far_spec {                       /* all lent until far_close */
    struct ranks *ranks;
    const struct schedule *schedule;
    const struct net *net;
    struct gate *gate;
    bool waits_for_main;                /* no batch after an evaluation is allowed before far_allow */
};

/* 0 or -ENOMEM. */
int far_open(struct far_towers **far_out, const struct far_spec *spec);
/* Accepts NULL. */
void far_close(struct far_towers *far);

/* Main only: the first batches may begin. */
void far_go(struct far_towers *far);
/* Main of rank 0: wait for the reports of the other ranks' towers for batch `number`, and fill in reports[towers here ..
 * towers of the run), which are lent until the next call; then allow more batches. 0, or -ECANCELED when a rank
 * failed. */
int far_receive(struct far_towers *far, uint64_t number, struct step_report **reports);
/* Main of another rank: send the reports of its own towers. 0 or a negative errno. */
int far_send(struct far_towers *far, struct step_report *const *reports);

/* For the loader of a rank that is not 0; what it passes, rank 0 adds to its own loader's (NULL: there is none) when
 * it receives reports, and counts. */
struct problem_relay far_relay(struct far_towers *far);
void far_add_problems(struct far_towers *far, struct loader *loader);
/* The loader of this process has ended, with these counts: rank 0 waits for those of the other ranks, and adds the
 * records and bytes that they have read. */
void far_end_loader(struct far_towers *far, struct loader *loader, struct loader_counts *counts);

/* Rank 0, any thread but for far_allow: as the functions of the pipeline of these names. */
void far_mark(struct far_towers *far);
void far_allow(struct far_towers *far, uint64_t number);
/* In rank 0: end the run after the batches that are allowed. In another rank: pass the signal on that asks for it. Any
 * thread. */
void far_request_stop(struct far_towers *far);

#endif
