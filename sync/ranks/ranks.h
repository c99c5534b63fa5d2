/* Ranks are the processes of a run that a launcher started, each with some of the run's towers. Rank 0 makes all
 * decisions, prints and writes files.
 *
 * One thread of each process, the communication thread, makes all calls of MPI, and only MPI_Init and MPI_Finalize
 * block in it. It polls while messages are in flight. Otherwise it sleeps until another thread or a rank of the same
 * host wakes it. Where there are several hosts and the MPI library allows several threads, up to three more threads
 * share the jobs with it.
 *
 * Another thread, from before MPI_Init, checks that the communication thread and the other ranks are alive. At
 * least once a second every rank sends a heartbeat to rank 0, and rank 0 to every rank: it says what its sender is
 * doing. If none arrives from a rank for longer than the deadline, the run ends with EXIT_CODE_STALL.
 *
 * With more than 17 ranks all this goes by a tree (rank_tree.h) that they find when they have connected: rank 0 and the
 * lowest ranks of other hosts, and below each the ranks of its host. Heartbeats and failures go from neighbour to
 * neighbour, so that the rank that finds another one silent may be its parent or a child. Other messages are passed on;
 * MESSAGE_COLLECTIVE, MESSAGE_REPORT and MESSAGE_COUNTS, which all ranks send equally often, wait on their way to rank 0
 * for those of the other ranks below the same parent, and go on as one message. Rank 0 so handles as many messages as
 * it has children, and has a receive posted for each of these only.
 *
 * Messages of any size go between rank 0 and another rank only. Those of one kind from one rank arrive in the order
 * in which they were sent. Gradients go directly between all ranks: their sums are jobs of the communication thread
 * (ranks_job). */
#ifndef PIPETRAIN_RANKS_H
#define PIPETRAIN_RANKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stage/stop.h"
#include "sync/ranks/launcher.h"
#include "sync/ranks/mpi_module.h"

struct ranks;
struct rank_hosts;

enum message_kind {
    /* Handled by this module: */
    MESSAGE_HEARTBEAT,          /* the sender's phase, step and bucket */
    MESSAGE_FAILURE,            /* the sender's run has failed */
    /* Passed to the handler in the communication thread (ranks_set_handler): */
    MESSAGE_STOP,               /* to rank 0: the number of a signal that this rank received, int */
    MESSAGE_LIMIT,              /* from rank 0: batches with numbers below this one may begin, uint64_t */
    MESSAGE_SNAPSHOT,           /* from rank 0: all towers make a snapshot after this batch, uint64_t */
    MESSAGE_END,                /* from rank 0: the run ends before this batch, uint64_t */
    /* Stored until ranks_receive: */
    MESSAGE_HANDLED,            /* the number of kinds above */
    MESSAGE_COLLECTIVE = MESSAGE_HANDLED,       /* gathered and answered by rank 0, at start and end */
    MESSAGE_REPORT,             /* to rank 0: the step reports of a batch */
    MESSAGE_DECISION,           /* from rank 0: whether the snapshots of a batch are saved */
    MESSAGE_CHECKPOINT,         /* to rank 0: a part of a checkpoint; from rank 0, empty: request for the next part */
    MESSAGE_DAMAGE,             /* to rank 0: a damaged record, or one with a decoder's warning */
    MESSAGE_COUNTS,             /* to rank 0: the loader's final counts */
    MESSAGE_ENERGY,             /* to rank 0: the energy that this rank has read */
    MESSAGE_NCCL,               /* to rank 0: its towers join; from rank 0: the communicator; or it has failed */
    MESSAGE_SERVER,             /* to and from rank 0: weights and gradients of its parameter server (server_link.h) */
    MESSAGE_KINDS
};

/* ---- opening and closing; main only ---- */

/* Start both threads, initialize MPI by the module (launcher_load), and wait until all ranks have done so. The run ends
 * if a rank is silent for `deadline_s`. Returns 0; or, after a message, an exit code with which the process has to end
 * by _exit. */
int ranks_open(struct ranks **ranks_out, const struct launcher *launcher, const struct mpi_module *module,
               uint32_t deadline_s);
/* Called by all ranks when all messages are sent and received. Finalizes MPI if no rank failed. After a failure it
 * notifies the launcher that this process ends, and the process has to end by _exit, because threads of the MPI library
 * may hang. Accepts NULL. */
void ranks_close(struct ranks *ranks);

/* ---- this rank and the others; any thread; ranks NULL: a process without a launcher, rank 0 of 1 ---- */

uint32_t ranks_rank(const struct ranks *ranks);
uint32_t ranks_size(const struct ranks *ranks);
/* The number of ranks on this host. */
uint32_t ranks_local_size(const struct ranks *ranks);
/* "rank 2 (node7)"; valid until ranks_close. With few ranks those other than 0 know only their own host and that of rank
 * 0, and call the others "rank 2". */
const char *ranks_name(const struct ranks *ranks, uint32_t rank);
/* The name of the rank's host; "" if this rank does not know it. */
const char *ranks_host(const struct ranks *ranks, uint32_t rank);
/* Which ranks are on this host (rank_hosts.h); none before ranks_open has found them. */
const struct rank_hosts *ranks_hosts(const struct ranks *ranks);
/* "Open MPI 4.1.4" */
const char *ranks_library(const struct ranks *ranks);

/* ---- messages; any thread ---- */

/* A received message; its receiver frees it. */
struct message {
    struct message *next;
    uint32_t from;
    enum message_kind kind;
    size_t bytes;
    _Alignas(16) unsigned char data[];
};

/* Send a copy of the data, to rank 0 or from it. Never blocks. 0; -ECANCELED when the receiver is silent; -ENOMEM,
 * after which the run fails and this process ends soon. */
int ranks_send(struct ranks *ranks, uint32_t to, enum message_kind kind, const void *data, size_t bytes);
/* Send copies of several pieces of data as one message, as ranks_send does. */
struct message_part { const void *data; size_t bytes; };
int ranks_send_parts(struct ranks *ranks, uint32_t to, enum message_kind kind, const struct message_part *parts,
                     uint32_t count);
/* Send a copy of the data to all other ranks. Rank 0 only. */
int ranks_send_all(struct ranks *ranks, enum message_kind kind, const void *data, size_t bytes);
/* Wait until all messages of this process are sent, including reports of its failure to other ranks; after a failure
 * for one second at most. 0 or -ECANCELED. */
int ranks_flush(struct ranks *ranks);
/* Wait for the next message of this kind (MESSAGE_HANDLED or later) from that rank. 0, or -ECANCELED when a rank has
 * failed. MESSAGE_COLLECTIVE is sent even after a failure, so the wait for it ends only when its sender is silent. */
int ranks_receive(struct ranks *ranks, uint32_t from, enum message_kind kind, struct message **message_out);
/* The same; also -ECANCELED once *has_ended is true. ranks_notify lets all such waits look at it. */
int ranks_receive_until(struct ranks *ranks, uint32_t from, enum message_kind kind, const atomic_bool *has_ended,
                        struct message **message_out);
void ranks_notify(struct ranks *ranks);
/* Return the next message of this kind from that rank, or NULL if none has arrived. */
struct message *ranks_try_receive(struct ranks *ranks, uint32_t from, enum message_kind kind);
/* Set the handler: `handle` is called in the communication thread for each message of the kinds for the handler. NULL:
 * such messages are dropped. Returns when no call of the previous handler is in progress. */
void ranks_set_handler(struct ranks *ranks, void (*handle)(void *arg, const struct message *message), void *arg);

/* ---- failures ---- */

/* Connect a run's `stop` with the ranks. `stop` fails when a rank is silent (EXIT_CODE_STALL) or has failed
 * (EXIT_CODE_RANK; with MPICH, the code of that rank). When `stop` fails for another reason, the other ranks fail with
 * its message; except for EXIT_CODE_NONFINITE, after which main ends the run in an orderly way. NULL: disconnect it. 0
 * or -ENOMEM. Main only. */
int ranks_set_stop(struct ranks *ranks, struct stop *stop);
/* Make the other ranks fail, too, when an orderly end after EXIT_CODE_NONFINITE is impossible. Main only, while `stop`
 * is connected. */
void ranks_announce_failure(struct ranks *ranks);
/* Called by main when the steps have ended before their time: wait until `stop` has failed, too. Those who wait for a
 * rank that fails, or for its towers, are woken before; its cause may still be on its way. A few seconds at most. */
void ranks_await_cause(struct ranks *ranks);
/* Has any rank failed or become silent? */
bool ranks_failed(const struct ranks *ranks);
/* The exit code of this process after ranks_failed: EXIT_CODE_STALL or EXIT_CODE_RANK, or its own code if it failed
 * itself. */
int ranks_failure_code(const struct ranks *ranks);
/* Set what heartbeats report about this process: the phase (a string literal; it is sent at once), the step, and the
 * bucket that is being summed. RANKS_NONE: no step or bucket. */
#define RANKS_NONE UINT64_MAX
void ranks_set_phase(struct ranks *ranks, const char *phase);
void ranks_set_step(struct ranks *ranks, uint64_t step);
void ranks_set_bucket(struct ranks *ranks, uint64_t bucket);

/* Set the number of reductions that all towers of this process have started, which heartbeats report. */
void ranks_set_sums(struct ranks *ranks, uint64_t count);
/* The number of reductions that all towers of all ranks are known to have started. It is a second or two late for each level of
 * the tree. */
uint64_t ranks_sums(struct ranks *ranks);
/* The same for jobs: one more reduction is started, which needs messages between any two ranks. */
void ranks_add_sum(struct ranks *ranks);
/* For these jobs: messages are in flight; `rank` is one whose message is missing, in round `round` of the reduction;
 * a message has arrived or was sent; none is in flight any more. The run fails if no message of any job moves within the
 * deadline although all ranks have started all reductions: two ranks cannot reach each other. The lower the round, the
 * earlier: ranks in later rounds wait for the two. */
void ranks_begin_wait(struct ranks *ranks);
void ranks_wait_for(struct ranks *ranks, uint32_t rank, uint32_t round);
void ranks_note_move(struct ranks *ranks);
void ranks_end_wait(struct ranks *ranks);
/* The number of this call, from 1: all ranks open reductions with messages of their own in the same order, so those
 * with one number belong together. 0 without ranks. Main only. */
uint32_t ranks_number_reduction(struct ranks *ranks);

/* ---- jobs of the communication thread ---- */

/* A communication thread calls `advance` repeatedly until it reports that the job is done. Jobs of any two ranks may
 * exchange messages of their own by module->send and so on, with tags from RANKS_TAG_FREE on. */
#define RANKS_TAG_FREE 16
#define RANKS_THREADS_MAX 4u            /* communication threads of a process */
struct ranks_job {
    /* Jobs of one lane are executed by the same thread; those of different lanes may be executed at the same time. */
    uint32_t lane;
    /* 1: the job is done and is removed; 0: call again; negative: an error of the MPI library, which fails the run. */
    int (*advance)(struct ranks_job *job);
    bool has_moved;             /* out: messages were received or sent since the last call */
    /* Out: messages are in flight, so call again soon; false: call again after ranks_wake. */
    bool is_polled;
    struct ranks_job *next;     /* owned by the communication thread */
};
/* Submit a job to the communication thread of its lane. Jobs of a lane begin in the order of their submission. Any
 * thread; never blocks. */
void ranks_submit(struct ranks *ranks, struct ranks_job *job);
/* Cancel all jobs; no `advance` is called after this returns. True if this or an earlier call cancelled a job, or a job
 * failed: messages of the job may still be in flight, so their memory must not be freed, and the process has to end by
 * _exit. Any thread except the communication threads. */
bool ranks_abandon_jobs(struct ranks *ranks);
const struct mpi_module *ranks_module(const struct ranks *ranks);
/* For jobs: can the communication threads of the two ranks wake each other? True for ranks on one host that could map
 * each other's memory. */
bool ranks_can_wake(const struct ranks *ranks, uint32_t rank);
/* Wake the communication thread of that lane in that rank, so that it advances its jobs. */
void ranks_wake(struct ranks *ranks, uint32_t rank, uint32_t lane);

#endif
