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

void team_wait_shorten(char **argv, uint64_t process_start_ns)
{
    if (is_second_life || !is_started_by_kernel())
        return;
    if (getenv("OMP_WAIT_POLICY") != NULL || getenv("GOMP_SPINCOUNT") != NULL)
        return;
    char began[24];
    snprintf(began, sizeof(began), "%" PRIu64, process_start_ns);
    if (setenv(BEGAN, began, 1) == 0 && setenv("GOMP_SPINCOUNT", SPIN_TURNS, 1) == 0)
        execv("/proc/self/exe", argv);
    unsetenv(BEGAN);
}
