/* Reads /proc/stat, and the CPU time of the process itself. */
#include "tools/lib/cpu_times.h"

#include <ctype.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "stage/clock.h"
#include "tools/lib/limits.h"

#define SECONDS_LEAST 0.5       /* the shortest interval, in CPU seconds: the kernel counts in hundredths of a second */

enum { USER, NICE, SYSTEM, IDLE, IOWAIT, IRQ, SOFTIRQ, STEAL, TIMES };

static void add(struct cpu_times *times, const unsigned long long ticks[TIMES])
{
    for (int i = 0; i < TIMES; i++)
        times->all += ticks[i];
    times->stolen += ticks[STEAL];
    times->busy += ticks[USER] + ticks[NICE] + ticks[SYSTEM] + ticks[IRQ] + ticks[SOFTIRQ];
}

/* Reads lines "cpu3 user nice system idle iowait irq softirq steal ..."; the line for all CPUs has no number. */
struct cpu_times cpu_times_read(const char *root, const cpu_set_t *cpus)
{
    struct cpu_times times = { 0 };
    char path[PATH_MAX], line[512];
    snprintf(path, sizeof(path), "%s/proc/stat", root);
    FILE *const file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        unsigned long long t[TIMES];
        unsigned cpu;
        const int found = sscanf(line, "cpu%u %llu %llu %llu %llu %llu %llu %llu %llu", &cpu, &t[USER], &t[NICE],
                                 &t[SYSTEM], &t[IDLE], &t[IOWAIT], &t[IRQ], &t[SOFTIRQ], &t[STEAL]);
        if (found == 1 + TIMES && isdigit((unsigned char)line[3]) && cpu < CPU_SETSIZE && CPU_ISSET(cpu, cpus))
            add(&times, t);
    }
    if (file != NULL)
        fclose(file);
    return times;
}

struct cores_seen cores_look(void)
{
    struct cores_seen seen = { .own_seconds = NAN, .at_ns = clock_now_ns() };
    struct rusage usage;
    cpu_set_t cpus;
    if (sched_getaffinity(0, sizeof(cpus), &cpus) == 0) {
        seen.cpus = cpu_times_read("", &cpus);
        seen.count = (uint32_t)CPU_COUNT(&cpus);
    }
    const struct cgroup_cpu group = cgroup_cpu("");
    seen.quota = group.cpus;
    seen.periods = group.periods;
    seen.throttled = group.throttled;
    if (getrusage(RUSAGE_SELF, &usage) == 0)
        seen.own_seconds = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
    return seen;
}

struct cores_use cores_use(const struct cores_seen *before, const struct cores_seen *after)
{
    const double granted = fmin(after->count, after->quota);
    const double all = (double)(after->at_ns - before->at_ns) / 1e9 * granted;          /* CPU seconds */
    struct cores_use use = { NAN, NAN, NAN, 0 };
    if (after->periods > before->periods)
        use.throttled = (double)(after->throttled - before->throttled) / (double)(after->periods - before->periods);
    if (!(all > SECONDS_LEAST))
        return use;
    use.own = fmin((after->own_seconds - before->own_seconds) / all, 1);
    if (after->cpus.all <= before->cpus.all)
        return use;
    const double per_tick = 1 / ((double)sysconf(_SC_CLK_TCK) * all);
    /* CPU time that others may use without slowing this process */
    const double beyond = (after->count - granted) / granted;
    use.others = fmax(((double)after->cpus.busy - (double)before->cpus.busy) * per_tick - use.own - beyond, 0);
    use.stolen = fmax(((double)after->cpus.stolen - (double)before->cpus.stolen) * per_tick, 0);
    return use;
}
