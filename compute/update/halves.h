/* A tower's gradients as bf16, the form in which they go to other towers and their sums come back where only that
 * travels (sync.wire = bf16). Used from the tower's thread. */
#ifndef PIPETRAIN_HALVES_H
#define PIPETRAIN_HALVES_H

#include "compute/tower.h"

/* Bytes of device memory that a tower of spec.has_bf16_grads takes for them, else 0. */
size_t halves_bytes(const struct tower *tower);
/* Take them: who owns the pointer gives them back. NULL where there are none. 0 or a negative errno. */
int halves_open(uint16_t **halves_out, const struct tower *tower);

/* Queue on the compute stream: range [offset, offset + count) of the halves becomes that of the gradients that are
 * applied (tower_applied), to the nearest, ties to even; or those become what the halves are. 0 or a negative errno;
 * nothing is done where there are none. */
int tower_grads_to_bf16(struct tower *tower, size_t offset, size_t count);
int tower_grads_from_bf16(struct tower *tower, size_t offset, size_t count);

#endif
