/* Several processes would do the same work, or write the same files. Main thread only. */
#include "tools/run/launched.h"

#include <time.h>

#include "stage/log.h"
#include "stage/stop.h"
#include "sync/ranks/launcher.h"
#include "tools/signals.h"

int launched_refuse(const char *command)
{
    /* The launcher ends all processes as soon as one of them has ended: the one that prints ends first. */
    const struct timespec a_while = { .tv_nsec = 500000000 };
    struct launcher launcher;
    char reason[LAUNCHER_REASON_BYTES];
    if (launcher_find(&launcher, reason) != 0) {
        log_message(LOG_ERROR, "%s: %s", command, reason);
        return EXIT_CODE_USAGE;
    }
    if (launcher.size == 1)
        return 0;
    signals_block();
    if (launcher.rank == 0)
        log_message(LOG_ERROR, "%s is the work of one process, and %s started %u: start the same command without a "
                    "launcher, or with -n 1", command, launcher.name, launcher.size);
    else
        nanosleep(&a_while, NULL);
    return EXIT_CODE_USAGE;
}
