/* Starting again with another environment; /proc/self/exe is this very program. */
#include "tools/run/team_wait.h"

#include <stdlib.h>
#include <unistd.h>

/* Turns of libgomp's wait loop before a thread sleeps: some tens of microseconds, about
 * what a sleep and a wake-up cost. */
#define SPIN_TURNS "2000"

void team_wait_prepare(char **argv)
{
    if (getenv("OMP_WAIT_POLICY") != NULL || getenv("GOMP_SPINCOUNT") != NULL)
        return;
    if (setenv("GOMP_SPINCOUNT", SPIN_TURNS, 1) == 0)
        execv("/proc/self/exe", argv);
}
