/* Ranks: the processes of a run that a launcher started, and the messages between them. Each holds some of the run's
 * towers. Rank 0 leads: it decides, prints and writes.
 *
 * One thread of each process calls MPI, from its initialization to its end, and never blocks in it. It polls while messages
 * are in flight; otherwise it sleeps until another thread, or a rank of its host, wakes it.
 *
 * A second thread watches that thread and the other ranks, from before MPI is initialized. At least once a second every
 * rank sends a heartbeat to rank 0, and rank 0 to every rank. A heartbeat says that its sender is alive, and what it is doing. A rank
 * that is silent for longer than the deadline ends the run (EXIT_CODE_STALL).
 *
 * Ranks send each other message: messages of any size, between rank 0 and another one only. Mail of one kind from one rank
 * is received in the order in which it was sent. Sums do not go through rank 0; they are jobs (ranks_job). */
#ifndef PIPETRAIN_RANKS_H
#define PIPETRAIN_RANKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stage/stop.h"
#include "sync/ranks/launcher.h"
#include "sync/ranks/mpi_module.h"

struct ranks;

/* What message is about. The first kinds are the business of ranks.c. */
enum message_kind {
    MESSAGE_HEARTBEAT,                  /* the sender is alive; its phase, step and bucket */
    MESSAGE_FAILURE,               /* its sender's run has failed */
    /* Handled in the communication thread when they arrive (ranks_set_handler): */
    MESSAGE_STOP,                  /* to rank 0: a signal has come, its number as int */
    MESSAGE_LIMIT,                 /* to the others: batches below this uint64_t may begin */
    MESSAGE_SNAPSHOT,                  /* to the others: the batch after which all towers make a snapshot, uint64_t */
    MESSAGE_END,                   /* to the others: the first batch that no longer begins, uint64_t */
    /* Waited for (ranks_receive): */
    MESSAGE_HANDLED,               /* the number of kinds before */
    MESSAGE_COLLECTIVE = MESSAGE_HANDLED,        /* at the start and the end of a run */
    MESSAGE_REPORT,                /* to rank 0: the reports of a batch */
    MESSAGE_DECISION,              /* to the others: is the snapshot of this batch saved? */
    MESSAGE_CHECKPOINT,                 /* to rank 0: a part of a checkpoint; from it, empty: send the next part */
    MESSAGE_DAMAGE,                /* to rank 0: a damaged record, or one with a warning */
    MESSAGE_COUNTS,                /* to rank 0: what the loader counted, at the end */
    MESSAGE_KINDS
};

/* ---- opening and closing; main only ---- */

/* Start the two threads and initialize MPI by the module (launcher_load), and wait until all ranks have. `deadline_s` is
 * the silence that ends the run. 0, or an exit code after a message; then the process has to end by _exit. */
int ranks_open(struct ranks **ranks_out, const struct launcher *launcher, const struct mpi_module *module,
               uint32_t deadline_s);
/* All ranks call it, with nothing to send or receive any more. If no rank failed, MPI is finalized. Else the launcher
 * hears that this process ends, and it has to, by _exit: threads of the MPI library may hang. Accepts NULL. */
void ranks_close(struct ranks *ranks);

/* ---- this rank and the others; any thread; NULL is a process without a launcher: rank 0 of 1 ---- */

uint32_t ranks_rank(const struct ranks *ranks);
uint32_t ranks_size(const struct ranks *ranks);
/* Ranks on this host. */
uint32_t ranks_local_size(const struct ranks *ranks);
/* "rank 2 (node7)"; valid until ranks_close. In a rank that is not 0, names of ranks but itself and 0 have no host. */
const char *ranks_name(const struct ranks *ranks, uint32_t rank);
/* Its host's name alone, "" where the name has none. */
const char *ranks_host(const struct ranks *ranks, uint32_t rank);
/* "Open MPI 4.1.4" */
const char *ranks_library(const struct ranks *ranks);

/* ---- message; any thread ---- */

/* Received message; free it. */
struct message {
    struct message *next;
    uint32_t from;
    enum message_kind kind;
    size_t bytes;
    _Alignas(16) unsigned char data[];
};

/* Send a copy of the data to rank 0, or from rank 0 to another one. Never blocks. 0; -ECANCELED when the receiver is silent;
 * or -ENOMEM: then the run fails, and this process ends soon. */
int ranks_send(struct ranks *ranks, uint32_t to, enum message_kind kind, const void *data, size_t bytes);
/* The same to all others. Rank 0 only. */
int ranks_send_all(struct ranks *ranks, enum message_kind kind, const void *data, size_t bytes);
/* Wait until all message of this process is sent, including the message that tells others of its failure. Once a rank has failed,
 * it waits for one second at most. 0 or -ECANCELED. */
int ranks_flush(struct ranks *ranks);
/* Wait for the next message of this kind (MESSAGE_HANDLED or later) from that rank. 0, or -ECANCELED when a rank has failed; but
 * MESSAGE_COLLECTIVE, which is also sent after a failure, is waited for until its sender is silent. */
int ranks_receive(struct ranks *ranks, uint32_t from, enum message_kind kind, struct message **message_out);
/* The same without waiting: NULL where no such message has come yet. */
struct message *ranks_try_receive(struct ranks *ranks, uint32_t from, enum message_kind kind);
/* Call handle for each message of a kind below MESSAGE_HANDLED, in the communication thread; NULL: such message is dropped. It
 * returns when no handler runs any more. */
void ranks_set_handler(struct ranks *ranks, void (*handle)(void *arg, const struct message *message), void *arg);

/* ---- failures ---- */

/* From now on `stop` fails when a rank is silent (EXIT_CODE_STALL) or has failed (EXIT_CODE_RANK; with MPICH, the code of
 * that rank), and when `stop` fails, the other ranks fail with its message. EXIT_CODE_NONFINITE is not passed on: after it
 * main ends the run in an orderly way. NULL: no run is watched any more. 0 or -ENOMEM. Main only. */
int ranks_set_stop(struct ranks *ranks, struct stop *stop);
/* Pass that failure on after all: the run cannot end in an orderly way. Main only, while `stop` is watched. */
void ranks_announce_failure(struct ranks *ranks);
/* Has any rank failed or gone silent? */
bool ranks_failed(const struct ranks *ranks);
/* The exit code of a process that cannot go on because one has: EXIT_CODE_STALL or EXIT_CODE_RANK, or its own where it
 * is this one. */
int ranks_failure_code(const struct ranks *ranks);
/* What this process is doing, for heartbeats: a phase (a constant, kept; the others hear of it at once), a step, the sum of a
 * bucket. */
#define RANKS_NONE UINT64_MAX
void ranks_set_phase(struct ranks *ranks, const char *phase);
void ranks_set_step(struct ranks *ranks, uint64_t step);
void ranks_set_bucket(struct ranks *ranks, uint64_t bucket);

/* ---- work for the communication thread ---- */

/* A job is advanced in the communication thread again and again until it says that it is done. It may begin messages by
 * module->send and so on, with tags from RANKS_TAG_FREE on, between any ranks. */
#define RANKS_TAG_FREE 16
struct ranks_job {
    /* 1: done, it is forgotten; 0: again; negative: an error of the MPI library, which fails the run. */
    int (*advance)(struct ranks_job *job);
    bool has_moved;             /* set by it: messages have passed */
    bool is_polled;             /* set by it: messages of the job are in flight; else it waits for ranks_wake */
    struct ranks_job *next;     /* of the communication thread */
};
/* Any thread; never blocks. Jobs begin in the order of their submission. */
void ranks_submit(struct ranks *ranks, struct ranks_job *job);
/* No job that was submitted is advanced any more afterwards. True: this or an earlier call found some, or one has failed,
 * and messages that they began may be in flight until the process ends, which then has to be by _exit. Any thread but the
 * communication thread. */
bool ranks_abandon_jobs(struct ranks *ranks);
const struct mpi_module *ranks_module(const struct ranks *ranks);
/* For jobs. Can this rank's communication thread wake that of another one, and be woken by it? */
bool ranks_can_wake(const struct ranks *ranks, uint32_t rank);
/* Wake it, so that it advances its jobs. */
void ranks_wake(struct ranks *ranks, uint32_t rank);

#endif
