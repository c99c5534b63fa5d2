/* Calls that may hang inside a library, where nothing of ours can end them: a thread of the
 * watchdog's own ends the program when one does not return in time. */
#ifndef PIPETRAIN_WATCHDOG_H
#define PIPETRAIN_WATCHDOG_H

#include <stdint.h>

struct watchdog;

/* For `count` callers. 0 or a negative errno. */
int watchdog_open(struct watchdog **watchdog_out, uint32_t count);
/* No call is being watched. Accepts NULL. */
void watchdog_close(struct watchdog *watchdog);

/* Caller `index` is about to make the call `what` (valid until watchdog_end) on `where`: unless
 * watchdog_end comes within limit_ms, the program says so and exits with EXIT_CODE_STALL. */
void watchdog_begin(struct watchdog *watchdog, uint32_t index, uint32_t limit_ms, const char *where,
                    const char *what);
void watchdog_end(struct watchdog *watchdog, uint32_t index);

#endif
