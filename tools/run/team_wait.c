/* Starting again with another environment; /proc/self/exe is this very program, unless the dynamic loader was
 * started to load it: then it is the loader, which would take our arguments for its own. */
#include "tools/run/team_wait.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "stage/clock.h"

/* Turns of libgomp's wait loop before a thread sleeps: some tens of microseconds, about
 * what a sleep and a wake-up cost. */
#define SPIN_TURNS "2000"
/* On cores that others compute on: whoever spins there takes the time of the thread that it waits for. */
#define NO_TURNS "0"
/* How often, and how many microseconds apart, the threads that compute are counted. */
#define LOOKS 4
#define LOOK_US 2000
/* From one life to the next: when the first one began. */
#define BEGAN "PIPETRAIN_BEGAN_NS"

static bool is_second_life;

uint64_t team_wait_begin(void)
{
    const uint64_t now_ns = clock_now_ns();
    const char *const text = getenv(BEGAN);
    if (text == NULL)
        return now_ns;
    is_second_life = true;
    const uint64_t began_ns = strtoull(text, NULL, 10);
    unsetenv(BEGAN);
    prctl(PR_SET_NAME, program_invocation_short_name);      /* for ps and pgrep, who would see "exe" */
    return began_ns > 0 && began_ns < now_ns ? began_ns : now_ns;
}

/* The kernel tells where it put the loader only when it was the kernel that loaded it for a program. */
static bool is_started_by_kernel(void)
{
    return getauxval(AT_BASE) != 0;
}

/* How many threads of the machine compute or wait for a core now, without the calling one; 0: it is not known. */
static long find_others(void)
{
    FILE *const file = fopen("/proc/loadavg", "re");
    long running = 0;
    if (file == NULL)
        return 0;
    if (fscanf(file, "%*s %*s %*s %ld", &running) != 1 || running < 1)
        running = 1;
    fclose(file);
    return running - 1;
}

/* Do others compute, all the time that is looked at, on half of the cores or more? What runs for a moment, as most
 * programs do, does not count. */
static bool cores_are_shared(void)
{
    for (int i = 0; i < LOOKS; i++) {
        if (2 * find_others() < sysconf(_SC_NPROCESSORS_ONLN))
            return false;
        usleep(LOOK_US);
    }
    return true;
}

void team_wait_shorten(char **argv, uint64_t process_start_ns)
{
    if (is_second_life || !is_started_by_kernel())
        return;
    if (getenv("OMP_WAIT_POLICY") != NULL || getenv("GOMP_SPINCOUNT") != NULL)
        return;
    char began[24];
    snprintf(began, sizeof(began), "%" PRIu64, process_start_ns);
    if (setenv(BEGAN, began, 1) == 0 && setenv("GOMP_SPINCOUNT", cores_are_shared() ? NO_TURNS : SPIN_TURNS, 1) == 0)
        execv("/proc/self/exe", argv);
    unsetenv(BEGAN);
}
