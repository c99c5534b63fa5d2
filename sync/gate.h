/* The gate before every global batch: all towers pass or none, so that a stop request never leaves one tower waiting
 * for another's gradients. Where the result of an evaluation decides whether the run continues, towers wait here for
 * main; where some towers are in other processes, before every batch for rank 0, which alone knows how far all are. */
#ifndef PIPETRAIN_GATE_H
#define PIPETRAIN_GATE_H

#include <stdbool.h>
#include <stdint.h>

struct gate;

int gate_open(struct gate **gate_out);
void gate_close(struct gate *gate);
/* May this tower begin batch `number`? After gate_request: only batches that some tower had begun before. Never
 * blocks. */
bool gate_pass(struct gate *gate, uint64_t number);
/* Mark the next batch that no tower has begun: all towers make a snapshot after it. Not again before every tower has
 * reported the marked one. Any thread. */
void gate_mark(struct gate *gate);
/* Is this batch, which the tower has passed, marked? */
bool gate_is_marked(struct gate *gate, uint64_t number);
/* End the run after the batches that are begun. Any thread. */
void gate_request(struct gate *gate);
/* For towers in several processes: mark this batch, which is not allowed yet; or end the run before it. Any thread. */
void gate_mark_batch(struct gate *gate, uint64_t number);
void gate_end_before(struct gate *gate, uint64_t number);
/* Wait until batch `number` is allowed, or does not come any more. 0 or -ECANCELED. */
int gate_await(struct gate *gate, uint64_t number);
/* Would gate_await return at once? */
bool gate_is_open(struct gate *gate, uint64_t number);
/* Allow all batches up to `number`. Any thread. */
void gate_allow(struct gate *gate, uint64_t number);
/* Every wait ends now. Any thread. */
void gate_cancel(struct gate *gate);

#endif
