/* A thread that ends a run when a device hangs. About once a second it polls the heartbeats (heartbeat.h) of all
 * threads of the run that drive devices. The run fails with EXIT_CODE_STALL, and one message that names the thread, the
 * step and the call, if a thread stays in one call or wait for longer than the deadline. Work on a CPU must also exceed
 * `factor` times the longest mark so far, and the mark's least_ms. If a call still hangs after another deadline (at
 * most 20 s), so that the process cannot exit, the watchdog ends the process. It also does so when a run that failed
 * for another reason cannot exit; the exit code is that of the first failure.
 *
 * Time is counted in polls, not by a clock: a pause of the process or a suspended machine does not count. */
#ifndef PIPETRAIN_WATCHDOG_H
#define PIPETRAIN_WATCHDOG_H

#include "stage/heartbeat.h"
#include "stage/stop.h"

struct watchdog;

/* Open a watchdog for `count` threads. `stop` must stay open until the watchdog is closed. 0, -ENOMEM, or -EAGAIN if
 * the thread cannot be started. */
int watchdog_open(struct watchdog **watchdog_out, struct stop *stop, uint32_t deadline_ms, uint32_t count);
/* Threads no longer use their heartbeats, except threads that hang. A watchdog that has failed the run is not released:
 * its thread stays, to end the process if libraries hang in their clean-up at exit. The same applies if a run failed
 * for another reason and abandoned work (heartbeat_abandoned_work). Accepts NULL. */
void watchdog_close(struct watchdog *watchdog);

/* From now on call poll(arg) in the watchdog's thread after every poll of the heartbeats, until watchdog_close returns.
 * It must not wait for a device. */
void watchdog_set_poll(struct watchdog *watchdog, void (*poll)(void *arg), void *arg);

/* Heartbeat `index`, for one thread at a time. */
struct heartbeat *watchdog_heartbeat(struct watchdog *watchdog, uint32_t index);
/* Name a heartbeat ("tower 1 (cuda0)") before a thread adopts it. Returns the heartbeat. */
struct heartbeat *watchdog_name(struct watchdog *watchdog, uint32_t index, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
