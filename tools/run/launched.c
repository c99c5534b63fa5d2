/* Several processes would do the same work, or write the same files. Main thread only. */
#include "tools/run/launched.h"

#include "stage/log.h"
#include "stage/stop.h"
#include "sync/ranks/launcher.h"

int launched_refuse(const char *command)
{
    struct launcher launcher;
    char reason[LAUNCHER_REASON_BYTES];
    if (launcher_find(&launcher, reason) != 0) {
        log_message(LOG_ERROR, "%s: %s", command, reason);
        return EXIT_CODE_USAGE;
    }
    if (launcher.size == 1)
        return 0;
    if (launcher.rank == 0)
        log_message(LOG_ERROR, "%s is the work of one process, and %s started %u: start the same command without a "
                    "launcher, or with -n 1", command, launcher.name, launcher.size);
    return EXIT_CODE_USAGE;
}
