/* Sums by a device that reads the arenas of all towers and writes to them: shared by the reductions within a process
 * (reduce_peer.c) and between the processes of a host (reduce_ipc.c). */
#ifndef PIPETRAIN_REDUCE_PEER_H
#define PIPETRAIN_REDUCE_PEER_H

#include "compute/cuda/kernels.h"
#include "sync/rendezvous.h"

/* What is summed of a region: the arena, or the bf16 copy of the gradients. */
struct peer_region { void *memory; size_t bytes; };
struct peer_region peer_region(const struct reduce_member *member, enum region region);
/* Can all devices access each other's memory? */
bool peer_are_connected(const struct reduce_towers *towers);
/* Enable access of every member's device to the memory of every other one, and check it. It uses the members' zeros,
 * which are zero again afterwards; nothing may be queued on the communication streams. Blocks. 0, -ENOTSUP, -EIO if
 * wrong numbers arrived, or another negative errno (all logged). */
int peer_connect(struct rendezvous *rendezvous);
/* Queue the operation of the bucket's use on the range of the share, on the communication stream of its tower. `arenas`
 * has the regions of all towers of the run, as that tower's device can use them. 0 or a negative errno. */
int peer_sum_range(struct rendezvous *rendezvous, const struct share *share, const struct tower_arenas *arenas);

#endif
