/* A thread that ends a run when a device hangs. About once a second it looks at the heartbeats (heartbeat.h) of all
 * threads of the run that drive devices. One that stays in the same call or the same wait for longer than the deadline
 * fails the run with EXIT_CODE_STALL and one message that names the thread, the step and the call. When after the
 * same time again, 20 s at most, a call still hangs, so that the process cannot end, the watchdog ends it. It also does
 * so when a run that failed for another reason cannot end; the exit code is that of the first failure.
 *
 * Time is counted in looks, not by a clock: a process that was paused, or a machine that slept, is not late. */
#ifndef PIPETRAIN_WATCHDOG_H
#define PIPETRAIN_WATCHDOG_H

#include "stage/heartbeat.h"
#include "stage/stop.h"

struct watchdog;

/* For `count` threads. `stop` is lent until the watchdog is closed. 0, -ENOMEM, or -EAGAIN when there is no room for
 * the thread. */
int watchdog_open(struct watchdog **watchdog_out, struct stop *stop, uint32_t deadline_ms, uint32_t count);
/* No thread that does not hang has one of its heartbeats any more. A watchdog that has failed the run is not
 * released: it ends the process where its end takes too long, as libraries may hang in their clean-up. Nor is one of a
 * run that failed for another reason and left work behind (heartbeat_abandoned_work). Accepts NULL. */
void watchdog_close(struct watchdog *watchdog);

/* Heartbeat `index`, for one thread at a time. */
struct heartbeat *watchdog_heartbeat(struct watchdog *watchdog, uint32_t index);
/* Name it, before a thread adopts it: "tower 1 (cuda0)". Returns it. */
struct heartbeat *watchdog_name(struct watchdog *watchdog, uint32_t index, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
