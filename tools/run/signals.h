/* SIGINT, SIGTERM and SIGHUP as requests: the first ends the run after the current step, the
 * second ends the process at once. A thread of its own waits for them, so no handler
 * ever interrupts anything. */
#ifndef PIPETRAIN_SIGNALS_H
#define PIPETRAIN_SIGNALS_H

struct signals;

/* Block the signals in this thread and all it starts from here on. Before any thread. */
void signals_block(void);
/* From now on the first signal calls request(arg) in the signal thread. 0 or a negative errno. */
int signals_start(struct signals **signals_out, void (*request)(void *arg), void *arg);
/* Stop listening. Returns the signal that came, 0 = none. Accepts NULL. */
int signals_join(struct signals *signals);

#endif
