/* What a test can make the simulated NCCL do, beyond sim_fail. */
#ifndef PIPETRAIN_SIM_NCCL_H
#define PIPETRAIN_SIM_NCCL_H

#include <stdbool.h>
#include <stdint.h>

/* This rank of communicators to come never arrives for the others (-1: all do). */
void sim_nccl_lose_rank(int rank);
/* The `number`-th collective from now (1 = the next) is not done: its communicator gets the
 * error of a rank that is gone (0: none does). */
void sim_nccl_break_after(uint32_t number);
/* ncclCommAbort does not return. */
void sim_nccl_hang_abort(bool hangs);
/* Communicators neither destroyed nor aborted. */
uint32_t sim_nccl_open_communicators(void);

#endif
