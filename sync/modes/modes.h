/* The rows of sync_table, each in a file of its own. */
#ifndef PIPETRAIN_MODES_H
#define PIPETRAIN_MODES_H

#include "sync/sync.h"

/* Gradients are summed over the towers, bucket by bucket while backward goes on, and every tower
 * makes the same update: the towers stay equal. */
extern const struct sync_ops sync_replicated_ops;
/* Every bucket of parameters has an owner among the towers, which updates it for all. */
extern const struct sync_ops sync_server_device_ops;
/* The parameters are in host memory, and updated there for all. */
extern const struct sync_ops sync_server_host_ops;
/* The three, with the sums of the step before. */
extern const struct sync_ops sync_relaxed_ops, sync_server_device_relaxed_ops, sync_server_host_relaxed_ops;
/* Parameters in host memory, updated by every tower for itself, as soon as it can. */
extern const struct sync_ops sync_async_ops;
/* Every tower learns from its own slices and never meets another: the speed that more towers
 * cannot pass. */
extern const struct sync_ops sync_independent_ops;

/* Every tower learns from its own slices, and every so many steps all go on from their mean. */
extern const struct sync_ops sync_averaging_ops;

#endif
