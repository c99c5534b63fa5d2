/* The gate in front of every global batch: towers pass together or not at all, so a
 * stop request never leaves one tower waiting for another's gradients. Where what was
 * computed decides how the run goes on, towers wait here for main's word. */
#ifndef PIPETRAIN_GATE_H
#define PIPETRAIN_GATE_H

#include <stdbool.h>
#include <stdint.h>

struct gate;

int gate_open(struct gate **gate_out);
void gate_close(struct gate *gate);
/* May this tower begin batch `number`? After a request: only batches that some tower
 * had already begun. Never blocks. */
bool gate_pass(struct gate *gate, uint64_t number);
/* Mark the next batch that no tower has begun, for something that all of them do behind it. Not again before every
 * tower has reported the marked one. Any thread. */
void gate_mark(struct gate *gate);
/* Is this batch, which the tower has passed, marked? */
bool gate_is_marked(struct gate *gate, uint64_t number);
/* End the run after the batches that are begun. Any thread. */
void gate_request(struct gate *gate);
/* Wait until `number` is allowed, or the run was asked to end, which gate_pass then tells of. 0 or -ECANCELED. */
int gate_await(struct gate *gate, uint64_t number);
/* Allow all batches up to `number`. Any thread. */
void gate_allow(struct gate *gate, uint64_t number);
/* Every wait ends now. Any thread. */
void gate_cancel(struct gate *gate);

#endif
