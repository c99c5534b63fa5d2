/* The gate before every global batch: all towers pass it or none, so that a stop request never leaves a tower waiting
 * for the gradients of another one. If the result of an evaluation decides whether the run continues, towers wait here
 * for main. If some towers are in other processes, all wait before every batch for rank 0, which alone knows the
 * progress of all. */
#ifndef PIPETRAIN_GATE_H
#define PIPETRAIN_GATE_H

#include <stdbool.h>
#include <stdint.h>

struct gate;

int gate_open(struct gate **gate_out);
void gate_close(struct gate *gate);
/* May this tower begin batch `number`? After gate_request only batches that another tower has already begun. Never
 * blocks. */
bool gate_pass(struct gate *gate, uint64_t number);
/* Mark the next batch that no tower has begun: all towers make a snapshot after it. Must not be called again before
 * every tower has reported the marked batch. Any thread. */
void gate_mark(struct gate *gate);
/* Is this batch, which the tower has passed, marked? */
bool gate_is_marked(struct gate *gate, uint64_t number);
/* End the run after the batches that have begun. Any thread. */
void gate_request(struct gate *gate);
/* For towers in several processes: mark batch `number`, which is not allowed yet; or end the run before it. Any
 * thread. */
void gate_mark_batch(struct gate *gate, uint64_t number);
void gate_end_before(struct gate *gate, uint64_t number);
/* Wait until batch `number` is allowed, or it is known that it never begins. 0 or -ECANCELED. */
int gate_await(struct gate *gate, uint64_t number);
/* Would gate_await return at once? */
bool gate_is_open(struct gate *gate, uint64_t number);
/* Allow all batches up to `number`. Any thread. */
void gate_allow(struct gate *gate, uint64_t number);
/* End every wait. Any thread. */
void gate_cancel(struct gate *gate);

#endif
