/* Let OpenMP's threads sleep while they wait, for tests of small networks on few cores, where libgomp's busy waiting
 * takes time from the thread that it waits for. libgomp reads its settings before main, so this restarts the program;
 * call it first in main. */
#ifndef PIPETRAIN_TEAM_SLEEP_H
#define PIPETRAIN_TEAM_SLEEP_H

#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/helpers/test.h"

static inline void teams_sleep(char **argv)
{
    if (getenv("OMP_WAIT_POLICY") == NULL && getenv("GOMP_SPINCOUNT") == NULL &&
        setenv("OMP_WAIT_POLICY", "passive", 1) == 0)
        execv("/proc/self/exe", argv);
}

/* TESTS_MAIN of a program of such tests. */
#define TESTS_MAIN_WITH_TEAMS              \
    int main(int argc, char **argv)        \
    {                                      \
        (void)argc;                        \
        teams_sleep(argv);                 \
        return tests_run(NULL, NULL);      \
    }

#endif
