/* Tries, in the start of a run, whether the devices of several processes can work with each other's memory: in
 * containers, with parts of GPUs (MIG) and on some machines they cannot. */
#ifndef PIPETRAIN_IPC_TRIAL_H
#define PIPETRAIN_IPC_TRIAL_H

#include "sync/reduce.h"

/* reduce_ops.agree of reduce_ipc_ops: every device of every rank reads numbers of all devices of other ranks and writes
 * sums to them. It takes some memory of the devices for the time. */
int ipc_trial(const struct reduce_towers *towers, struct ranks *ranks, struct unsupported_reason *reason);
/* reduce_ops.try_between of reduce_ipc_ops: the same between any processes, which have equally many devices. */
int ipc_trial_between(const struct reduce_towers *towers, const struct reduce_group *group,
                      struct unsupported_reason *reason);

#endif
