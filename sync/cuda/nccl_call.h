/* The one way of calling NCCL: the first place that sees an error says what failed, where
 * and why, and gets a negative errno. */
#ifndef PIPETRAIN_NCCL_CALL_H
#define PIPETRAIN_NCCL_CALL_H

#include <nccl.h>

#include "stage/heartbeat.h"

/* 0 for what succeeded or goes on (ncclInProgress), or: logs "NAME: CALL: TEXT (NCCL's last
 * words)" and returns -EINVAL (a mistake of ours), -EREMOTEIO (another rank failed), else
 * -EIO. */
int nccl_check(ncclResult_t status, const char *name, const char *call);

/* NCCL_CALL("cuda0", ncclCommDestroy(comm)), marked in the thread's heartbeat */
#define NCCL_CALL(name, call) nccl_check(HEARTBEAT_CALL(#call, call), (name), #call)

#endif
