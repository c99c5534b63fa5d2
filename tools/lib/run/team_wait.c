/* Executes the program again with another environment. /proc/self/exe is this program, unless it was started by calling
 * the dynamic loader explicitly; then it is the loader, which would misinterpret our arguments. */
#include "tools/lib/run/team_wait.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "stage/clock.h"
#include "stage/text/decimal.h"

/* Turns of libgomp's spin loop before a thread sleeps: some tens of microseconds, about the cost of sleeping and
 * waking. */
#define SPIN_TURNS "2000"
/* On shared cores a thread that spins may take the core of the thread that it waits for. */
#define NO_TURNS "0"
/* The number of counts of running threads, and the interval between them. */
#define LOOKS 4
#define LOOK_US 2000
/* The environment variable with the time of the first start. */
#define BEGAN "PIPETRAIN_BEGAN_NS"

uint64_t team_wait_begin(void)
{
    const uint64_t now_ns = clock_now_ns();
    const char *const text = getenv(BEGAN);
    if (text == NULL)
        return now_ns;
    uint64_t began_ns = 0;
    (void)decimal_u64(text, &began_ns);
    unsetenv(BEGAN);
    prctl(PR_SET_NAME, program_invocation_short_name);      /* otherwise ps and pgrep would show "exe" */
    return began_ns > 0 && began_ns < now_ns ? began_ns : now_ns;
}

/* The kernel sets AT_BASE only if it loaded the dynamic loader for this program. */
static bool is_started_by_kernel(void)
{
    return getauxval(AT_BASE) != 0;
}

/* The number of other threads on this machine that run or wait for a core now; 0: unknown. */
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

/* Did other threads use half of the cores or more in each of several counts, so that it is no short activity? */
static bool cores_are_shared(void)
{
    for (int i = 0; i < LOOKS; i++) {
        if (2 * find_others() < sysconf(_SC_NPROCESSORS_ONLN))
            return false;
        usleep(LOOK_US);
    }
    return true;
}

void program_restart(char **argv, uint64_t process_start_ns)
{
    char began[24];
    snprintf(began, sizeof(began), "%" PRIu64, process_start_ns);
    if (is_started_by_kernel() && setenv(BEGAN, began, 1) == 0)
        execv("/proc/self/exe", argv);
    unsetenv(BEGAN);
}

void team_wait_shorten(char **argv, uint64_t process_start_ns)
{
    if (getenv("OMP_WAIT_POLICY") != NULL || getenv("GOMP_SPINCOUNT") != NULL)
        return;
    if (setenv("GOMP_SPINCOUNT", cores_are_shared() ? NO_TURNS : SPIN_TURNS, 1) == 0)
        program_restart(argv, process_start_ns);
}
