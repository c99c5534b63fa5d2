/* A module of MPI (sync/ranks/mpi_module.h) for ranks that are all in this process, each with its own communication
 * thread. Messages are copied, and pass after some tests, in an order that a seed decides. Each rank's messages, bytes
 * and requests are counted. Time and memory for a message do not depend on the number of ranks. */
#ifndef PIPETRAIN_FAKE_MPI_H
#define PIPETRAIN_FAKE_MPI_H

#include "stage/thread.h"
#include "sync/ranks/ranks.h"

enum { FAKE_RANKS_MAX = 512 };

extern const struct mpi_module fake_mpi;

/* Forget all messages, settings and counts of a test before; every message needs up to `tests` tests to pass. */
void fake_mpi_reset(uint32_t size, uint32_t tests, uint32_t seed);
/* From now on nothing comes from this rank, and nothing gets to it. */
void fake_mpi_cut(uint32_t rank);
/* From now on nothing gets from one of these to the other. */
void fake_mpi_part(uint32_t rank, uint32_t other);
/* From now on calls of this rank's thread do not return. It never ends. */
void fake_mpi_hang(uint32_t rank);
/* This is called when a rank leaves the launcher. NULL: nothing is. */
void fake_mpi_on_leave(void (*call)(void));
/* From now on tests of messages of this rank fail. */
void fake_mpi_break(uint32_t rank);
/* From now on messages that this rank sends arrive so much later. */
void fake_mpi_delay(uint32_t rank, uint64_t delay_ns);

/* Are several threads of a rank allowed to call the module, and does the launcher say that each rank is on a host of its
 * own? Stays when fake_mpi_reset is called; at first false. */
void fake_mpi_set_threads(bool are_allowed);
/* The rank and the test of the calling thread, for another thread that is to belong to them. */
struct fake_identity { uint32_t rank, test; };
struct fake_identity fake_mpi_identity(void);
void fake_mpi_adopt(struct fake_identity identity);

/* Messages by what they are for. */
enum fake_traffic {
    FAKE_HEARTBEATS,
    FAKE_MAIL,                  /* all others between rank 0 and another rank (ranks_send) */
    FAKE_WAKEUPS,               /* with which ranks connect at the start */
    FAKE_JOBS,                  /* of jobs: sums, and what connects their memory */
    FAKE_TRAFFIC
};
struct fake_count { uint64_t messages, bytes; };
struct fake_counts {
    struct fake_count sent[FAKE_TRAFFIC], received[FAKE_TRAFFIC];       /* received: and tested as complete */
    uint64_t requests_most;     /* that were in use at one time */
};
/* Of a rank since fake_mpi_reset. */
struct fake_counts fake_mpi_counts(uint32_t rank);

/* Open all ranks, with their hosts' names "rank 1 (...)", as separate processes would. */
void fake_ranks_open(struct ranks *ranks_out[], uint32_t size, uint32_t deadline_s);
/* The same with the codes of ranks_open. */
void fake_ranks_try_open(struct ranks *ranks_out[], uint32_t size, uint32_t deadline_s, int codes_out[]);
/* None has failed. */
void fake_ranks_close(struct ranks *ranks[], uint32_t size);

#endif
