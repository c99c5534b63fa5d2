/* Names of the environment variables, the restart without some of them, and messages about others. */
#include "tools/lib/run/environment.h"

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "compute/team.h"
#include "stage/log.h"
#include "tools/lib/run/team_wait.h"

#define NAMES_MAX 8
/* Set by a restart: contains the variables that limit the CPUs, if any do. */
#define LIMITED_CPUS "PIPETRAIN_LIMITED_CPUS"

static const char *const binding[NAMES_MAX] = { "OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY" };
/* Variables that set another stack size than the program needs, or limit the threads of the whole process; LLVM's
 * library then ends a process of several towers. */
static const char *const unusable[NAMES_MAX] = { "OMP_STACKSIZE", "GOMP_STACKSIZE", "KMP_STACKSIZE", "KMP_ALL_THREADS",
                                                 "KMP_DEVICE_THREAD_LIMIT", "KMP_MAX_THREADS" };
static const char *const teams_of_libraries[NAMES_MAX] = {
    "OMP_THREAD_LIMIT", "OMP_DYNAMIC", "OMP_MAX_ACTIVE_LEVELS", "OMP_NESTED", "KMP_LIBRARY", "KMP_TEAMS_THREAD_LIMIT",
};
static const char *const instructions[NAMES_MAX] = { "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA" };
static const char *const arithmetic[NAMES_MAX] = { "ONEDNN_DEFAULT_FPMATH_MODE", "DNNL_DEFAULT_FPMATH_MODE" };
static const char *const hints[NAMES_MAX] = { "ONEDNN_CPU_ISA_HINTS", "DNNL_CPU_ISA_HINTS" };

static bool is_set(const char *name)
{
    const char *const value = getenv(name);
    return value != NULL && *value != '\0';
}

static struct environment_text list_set(const char *const names[NAMES_MAX])
{
    struct environment_text list = { "" };
    size_t used = 0;
    for (size_t i = 0; i < NAMES_MAX && names[i] != NULL; i++)
        if (is_set(names[i]) && used < sizeof(list.text))
            used += (size_t)snprintf(list.text + used, sizeof(list.text) - used, "%s%s=%s", used > 0 ? " " : "",
                                     names[i], getenv(names[i]));
    return list;
}

static void unset_all(const char *const names[NAMES_MAX])
{
    for (size_t i = 0; i < NAMES_MAX && names[i] != NULL; i++)
        unsetenv(names[i]);
}

/* ---- binding ---- */

/* The CPUs that the process was given. They are read by a function of .preinit_array, because OpenMP's library changes
 * the affinity when it is initialised, before main. Not even the library of a sanitizer is initialised at that time. */
static cpu_set_t given_cpus;

__attribute__((no_sanitize("address"), no_sanitize("thread"), no_sanitize("undefined")))
static void note_given_cpus(void)
{
    (void)syscall(SYS_sched_getaffinity, 0, sizeof(given_cpus), &given_cpus);
}

__attribute__((section(".preinit_array"), used)) static void (*const note_early)(void) = note_given_cpus;

/* Restore the affinity with all given CPUs, before clang's OpenMP library reads it in its first call. */
static void use_given_cpus(void)
{
    cpu_set_t places;
    if (sched_setaffinity(0, sizeof(given_cpus), &given_cpus) != 0 || !team_is_bound(&places))
        return;
    CPU_AND(&places, &places, &given_cpus);
    if (sched_setaffinity(0, sizeof(places), &places) == 0 && !CPU_EQUAL(&places, &given_cpus))
        setenv(LIMITED_CPUS, list_set(binding).text, 1);
}

void environment_unbind(char **argv, uint64_t process_start_ns)
{
    const struct environment_text bound = list_set(binding);
    const bool is_bound = *bound.text != '\0';
    if (!is_bound && *list_set(unusable).text == '\0')
        return;
    if (is_bound)
        use_given_cpus();
    unset_all(binding);
    unset_all(unusable);
    program_restart(argv, process_start_ns);
    if (is_bound)
        log_message(LOG_RUN, "%s in the environment binds the threads of towers, which may make them slow: unset it",
                    bound.text);
}

/* ---- teams ---- */

uint32_t environment_threads(uint32_t teams, uint32_t threads)
{
    if (threads == 1 || *list_set(teams_of_libraries).text == '\0')
        return threads;
    const uint32_t found = team_try(teams, threads);
    return found > 0 ? found : threads;
}

struct environment_text environment_of_teams(void)
{
    return list_set(teams_of_libraries);
}

struct environment_text environment_of_cpus(void)
{
    struct environment_text text = { "" };
    if (is_set(LIMITED_CPUS))
        snprintf(text.text, sizeof(text.text), "%s", getenv(LIMITED_CPUS));
    return text;
}

struct environment_text environment_of_instructions(void)
{
    return list_set(instructions);
}

/* ---- messages ---- */

void environment_warn_of_threads(const struct run_plan *plan)
{
    if (run_plan_uses_cores(plan) && plan->threads_per_tower < plan->threads_wanted)
        log_message(LOG_RUN, "threads: %s in the environment gives a tower %u of %u threads: unset it to use all",
                    environment_of_teams().text, plan->threads_per_tower, plan->threads_wanted);
}

static void warn_of_onednn(void)
{
    if (*list_set(arithmetic).text != '\0')
        log_message(LOG_RUN, "%s in the environment has no effect: devices.precision decides",
                    list_set(arithmetic).text);
    if (*list_set(hints).text != '\0')
        log_message(LOG_RUN, "%s in the environment has no effect: only ONEDNN_MAX_CPU_ISA changes the instructions",
                    list_set(hints).text);
}

void environment_warn(const struct run_plan *plan)
{
    if (!run_plan_uses_cores(plan))
        return;
    if (*environment_of_cpus().text != '\0')
        log_message(LOG_RUN, "cores: %s in the environment lets this run use %u CPU%s: unset it to use all",
                    environment_of_cpus().text, plan->cores, plan->cores == 1 ? "" : "s");
    environment_warn_of_threads(plan);
    if (plan->devices.backend->instructions != NULL)
        warn_of_onednn();
}
