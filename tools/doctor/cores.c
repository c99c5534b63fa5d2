/* CPUs: how busy they are, how many the threads of a run can use, and which instructions oneDNN uses. */
#include "tools/doctor/topics.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "stage/cpus.h"
#include "tools/lib/limits.h"
#include "tools/lib/run/environment.h"
#include "tools/lib/run/run_plan.h"

#define TOPIC "cores"
#define TOPIC_CPU "cpu"
#define LIST_BYTES 64
#define FLAGS_BYTES 8192
#define BUSY_MOST 0.2           /* share of the CPUs' time; an idle machine uses some for services */
#define STOLEN_MOST 0.02

/* ---- load ---- */

void topic_load(struct findings *findings, const struct machine *machine, const struct cpu_times *before,
                const struct cpu_times *after)
{
    const uint64_t all = after->all - before->all;
    if (after->all <= before->all)
        return;
    const double busy = (double)(after->busy - before->busy) / (double)all;
    const double stolen = (double)(after->stolen - before->stolen) / (double)all;
    findings_add(findings, TOPIC, "load", "other programs use %.0f %% of the CPUs' time now", 100 * busy);
    if (busy > BUSY_MOST)
        findings_judge(findings, JUDGEMENT_WARN, "about %.1f of %d CPUs are busy with other programs (see top), and a "
                       "run shares them: end these programs, or keep them on other CPUs (taskset)",
                       busy * CPU_COUNT(&machine->cpus), CPU_COUNT(&machine->cpus));
    if (after->stolen <= before->stolen)
        return;
    findings_add(findings, TOPIC, "stolen", "the host of this virtual machine uses %.0f %% of the CPUs' time",
                 100 * stolen);
    if (stolen > STOLEN_MOST)
        findings_judge(findings, JUDGEMENT_WARN, "threads stand still meanwhile, and speeds of different runs cannot "
                       "be compared: only the administrator of the host can change that");
}

/* ---- CPUs and their limits ---- */

static uint32_t usable_count(const struct machine *machine)
{
    return (uint32_t)CPU_COUNT(&machine->cpus);
}

static void add_usable(struct findings *findings, const struct machine *machine)
{
    cpu_set_t online;
    char list[LIST_BYTES];
    const uint32_t usable = usable_count(machine);
    cpu_list_write(&machine->cpus, list, sizeof(list));
    if (!machine_list(machine, &online, "sys/devices/system/cpu/online")) {
        findings_add(findings, TOPIC, "usable", "%u CPU%s (%s)", usable, usable == 1 ? "" : "s", list);
        return;
    }
    const uint32_t all = (uint32_t)CPU_COUNT(&online);
    findings_add(findings, TOPIC, "usable", "%u of %u CPU%s (%s)", usable, all, all == 1 ? "" : "s", list);
    if (usable < all && *environment_of_cpus().text != '\0')
        findings_judge(findings, JUDGEMENT_NOTE, "%s in the environment limits it: unset it to use all",
                       environment_of_cpus().text);
    else if (usable < all)
        findings_judge(findings, JUDGEMENT_NOTE, "the process may not use the others (CPU affinity or cpuset): to use "
                       "more, start it without taskset, or give the container or the job more CPUs");
}

/* The number of CPUs from which a run derives the number of its threads. */
static uint32_t granted_count(const struct machine *machine)
{
    return cgroup_cores(cgroup_cpu(machine->root).cpus, usable_count(machine));
}

static void add_quota(struct findings *findings, const struct machine *machine)
{
    const struct cgroup_cpu quota = cgroup_cpu(machine->root);
    if (isinf(quota.cpus)) {
        findings_add(findings, TOPIC, "quota", "none: no control group limits the CPU time");
        return;
    }
    char past[96] = "";
    if (quota.throttled > 0)
        snprintf(past, sizeof(past), "; it was used up in %llu of %llu periods", (unsigned long long)quota.throttled,
                 (unsigned long long)quota.periods);
    findings_add(findings, TOPIC, "quota", "the time of %g CPU%s, by the control group %s%s", quota.cpus,
                 quota.cpus == 1 ? "" : "s", quota.name, past);
    if (quota.cpus < usable_count(machine))
        findings_judge(findings, JUDGEMENT_NOTE, "a run starts threads for %u of %u CPUs: to use more, raise the quota "
                       "(cpu.max, docker --cpus)", granted_count(machine), usable_count(machine));
}

/* The number of physical cores to which the process' CPUs belong; 0: unknown. */
static uint32_t count_cores(const struct machine *machine)
{
    uint32_t cores = 0;
    cpu_set_t seen;
    CPU_ZERO(&seen);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        cpu_set_t siblings;
        if (!CPU_ISSET(cpu, &machine->cpus) || CPU_ISSET(cpu, &seen))
            continue;
        if (!machine_list(machine, &siblings, "sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu))
            return 0;
        CPU_OR(&seen, &seen, &siblings);
        cores++;
    }
    return cores;
}

static bool computes_on_cpu(const struct machine *machine)
{
    return machine->plan != NULL && machine->plan->ops->host_memory && machine->plan->backend->computes;
}

static void add_siblings(struct findings *findings, const struct machine *machine)
{
    const uint32_t cores = count_cores(machine), cpus = usable_count(machine);
    if (cores == 0)
        return;
    findings_add(findings, TOPIC, "threads", "the %u CPU%s %s %u core%s", cpus, cpus == 1 ? "" : "s",
                 cpus == 1 ? "is" : "are", cores, cores == 1 ? "" : "s");
    if (cores == cpus || !(machine->plan == NULL ? machine->gpus == 0 : computes_on_cpu(machine)))
        return;
    const uint32_t towers = machine->plan != NULL ? machine->plan->towers.count : 1;
    const uint32_t threads = machine->settings != NULL ? run_plan_threads(machine->settings, towers) : cpus;
    if (towers * threads > cores && cores / towers > 0)
        findings_judge(findings, JUDGEMENT_NOTE, "two threads of a core share its arithmetic units, so towers on the "
                       "CPU may be no faster with all of them: compare with devices.threads_per_tower = %u",
                       cores / towers);
}

/* With these drivers, the governor powersave still raises the frequency under load. */
static bool is_adaptive(const struct machine *machine, int cpu)
{
    char driver[64];
    return machine_line(machine, driver, sizeof(driver), "sys/devices/system/cpu/cpu%d/cpufreq/scaling_driver", cpu) &&
           (strcmp(driver, "intel_pstate") == 0 || strcmp(driver, "amd-pstate-epp") == 0);
}

static void add_frequency(struct findings *findings, const struct machine *machine)
{
    uint32_t slow = 0;
    uint64_t highest = 0;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        char governor[64];
        uint64_t khz;
        if (!CPU_ISSET(cpu, &machine->cpus) ||
            !machine_line(machine, governor, sizeof(governor),
                          "sys/devices/system/cpu/cpu%d/cpufreq/scaling_governor", cpu) ||
            !machine_number(machine, &khz, "sys/devices/system/cpu/cpu%d/cpufreq/scaling_max_freq", cpu))
            continue;
        slow += strcmp(governor, "powersave") == 0 && !is_adaptive(machine, cpu);
        highest = khz > highest ? khz : highest;
    }
    if (highest == 0)
        return;
    findings_add(findings, TOPIC, "frequency", "up to %.1f GHz%s", (double)highest / 1e6,
                 slow > 0 ? ", kept at the lowest by the governor powersave" : "");
    if (slow > 0)
        findings_judge(findings, JUDGEMENT_WARN, "%u CPU%s at the lowest frequency: cpupower frequency-set -g "
                       "performance, as root", slow, slow == 1 ? " runs" : "s run");
}

static void add_run(struct findings *findings, const struct machine *machine)
{
    if (machine->settings == NULL || machine->plan == NULL)
        return;
    const uint32_t towers = machine->plan->towers.count, cpus = granted_count(machine);
    const uint32_t decoders = run_plan_decoders(machine->settings);
    const bool decodes = machine->settings->input.source != INPUT_SYNTHETIC, computes = computes_on_cpu(machine);
    const uint32_t threads = computes ? towers * run_plan_threads(machine->settings, towers) : 0;
    const uint32_t wanted = computes ? towers * run_plan_threads_wanted(machine->settings, towers) : 0;
    findings_add(findings, TOPIC, "run", "%u thread%s compute%s, %u decode%s, on %u CPU%s", threads,
                 threads == 1 ? "" : "s", threads == 1 ? "s" : "", decodes ? decoders : 0,
                 decodes && decoders == 1 ? "s" : "", cpus, cpus == 1 ? "" : "s");
    if (threads < wanted)
        findings_judge(findings, JUDGEMENT_WARN, "%s in the environment gives the towers %u of %u threads: unset it",
                       environment_of_teams().text, threads, wanted);
    else if (threads > cpus && towers <= cpus)
        findings_judge(findings, JUDGEMENT_WARN, "threads of a tower wait for each other, so all wait for the one "
                       "without a CPU: set devices.threads_per_tower = %u", cpus / towers);
    else if (threads > cpus)
        findings_judge(findings, JUDGEMENT_WARN, "%u towers share %u CPU%s, which is slower than fewer towers: set "
                       "devices.towers = %u", towers, cpus, cpus == 1 ? "" : "s", cpus);
    else if (decodes && decoders > cpus)
        findings_judge(findings, JUDGEMENT_NOTE, "more decoders than CPUs decode no faster: set input.decode_threads = "
                       "%u or fewer", cpus);
}

void topic_cores(struct findings *findings, const struct machine *machine)
{
    add_usable(findings, machine);
    add_quota(findings, machine);
    add_siblings(findings, machine);
    add_frequency(findings, machine);
    add_run(findings, machine);
}

/* ---- instructions ---- */

static const struct {
    const char *flags[4];               /* names in /proc/cpuinfo; the set needs all of them */
} sets[] = {
    [INSTRUCTIONS_BASE] = { { NULL } },
    [INSTRUCTIONS_SSE41] = { { "sse4_1", NULL } },
    [INSTRUCTIONS_AVX] = { { "avx", NULL } },
    [INSTRUCTIONS_AVX2] = { { "avx2", "fma", NULL } },
    [INSTRUCTIONS_AVX512] = { { "avx512f", "avx512bw", "avx512dq", "avx512vl" } },
    [INSTRUCTIONS_BF16] = { { "avx512_vnni", "avx512_bf16", NULL } },
    [INSTRUCTIONS_AMX] = { { "amx_tile", "amx_int8", "amx_bf16", NULL } },
};

static bool has_flag(const char *flags, const char *flag)
{
    const size_t bytes = strlen(flag);
    for (const char *at = flags; (at = strstr(at, flag)) != NULL; at += bytes)
        if ((at == flags || at[-1] == ' ') && (at[bytes] == ' ' || at[bytes] == '\0'))
            return true;
    return false;
}

static bool has_set(const char *flags, enum instructions set)
{
    for (size_t i = 0; i < sizeof(sets[set].flags) / sizeof(sets[set].flags[0]) && sets[set].flags[i] != NULL; i++)
        if (!has_flag(flags, sets[set].flags[i]))
            return false;
    return true;
}

/* The newest instruction set that the CPU supports together with all older ones. */
static enum instructions newest_of(const char *flags)
{
    enum instructions newest = INSTRUCTIONS_BASE;
    while (newest < INSTRUCTIONS_AMX && has_set(flags, newest + 1))
        newest++;
    return newest;
}

void topic_instructions(struct findings *findings, const struct machine *machine, enum instructions used)
{
    char model[128], flags[FLAGS_BYTES];
    if (!machine_row(machine, "proc/cpuinfo", "flags", flags, sizeof(flags)))
        return;
    const enum instructions newest = newest_of(flags);
    if (!machine_row(machine, "proc/cpuinfo", "model name", model, sizeof(model)))
        snprintf(model, sizeof(model), "a CPU of unknown name");
    findings_add(findings, TOPIC_CPU, "oneDNN", "computes with %s on %s", instructions_name(used), model);
    if (used >= newest)
        return;
    const struct environment_text cause = environment_of_instructions();
    const bool is_for_bf16 = used >= INSTRUCTIONS_AVX512;
    if (*cause.text != '\0')
        findings_judge(findings, JUDGEMENT_WARN, "%s in the environment keeps it from %s%s: unset it", cause.text,
                       instructions_name(newest), is_for_bf16 ? ", which makes bf16 faster" : "");
    else
        findings_judge(findings, JUDGEMENT_NOTE, "it does not use the CPU's %s%s: a newer oneDNN does, unless the "
                       "system disables these instructions", instructions_name(newest),
                       is_for_bf16 ? ", which makes devices.precision = bf16 faster" : "");
}
