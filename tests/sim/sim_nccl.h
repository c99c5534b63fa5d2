/* Failures of the simulated NCCL that a test can request, besides sim_fail. */
#ifndef PIPETRAIN_SIM_NCCL_H
#define PIPETRAIN_SIM_NCCL_H

#include <stdbool.h>
#include <stdint.h>

/* In communicators that are made from now on, this rank never arrives for the others (-1: all ranks arrive). */
void sim_nccl_lose_rank(int rank);
/* The `number`-th collective from now (1: the next one; 0: none) is not carried out: its communicators get the error of
 * a lost rank. */
void sim_nccl_break_after(uint32_t number);
/* Whether ncclCommAbort never returns. */
void sim_nccl_hang_abort(bool hangs);
/* From now on the bytes of sends are counted, apart for sends within and between groups of `group` ranks. */
void sim_nccl_count_bytes(uint32_t group);
uint64_t sim_nccl_bytes_within(void);
uint64_t sim_nccl_bytes_between(void);
/* Number of communicators that are neither destroyed nor aborted. */
uint32_t sim_nccl_open_communicators(void);

#endif
