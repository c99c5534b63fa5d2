/* Teams of threads that sleep while they wait, for tests of small networks on few cores: libgomp's wait loop takes the
 * time of the very thread that is waited for. libgomp reads its settings before main, so the program starts again with
 * them; call it first in main. */
#ifndef PIPETRAIN_TEAM_SLEEP_H
#define PIPETRAIN_TEAM_SLEEP_H

#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

static inline void teams_sleep(char **argv)
{
    if (getenv("OMP_WAIT_POLICY") == NULL && getenv("GOMP_SPINCOUNT") == NULL &&
        setenv("OMP_WAIT_POLICY", "passive", 1) == 0)
        execv("/proc/self/exe", argv);
}

#endif
