/* What a run computes and decodes with. */
#include "tools/doctor/topics.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "stage/cpus.h"
#include "tools/limits/cgroup.h"
#include "tools/run/run_plan.h"

#define TOPIC "cores"
#define LIST_BYTES 64

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
    const uint32_t there = (uint32_t)CPU_COUNT(&online);
    findings_add(findings, TOPIC, "usable", "%u of %u CPU%s (%s)", usable, there, there == 1 ? "" : "s", list);
    if (usable < there)
        findings_judge(findings, JUDGEMENT_NOTE, "an affinity or a cpuset keeps the process from the others: for more, "
                       "start it without taskset, or give the container or the job more CPUs");
}

/* Threads of the process do not know of a quota: they are counted by the affinity. */
static void add_quota(struct findings *findings, const struct machine *machine)
{
    const struct cgroup_cpu quota = cgroup_cpu(machine->root);
    if (isinf(quota.cpus)) {
        findings_add(findings, TOPIC, "quota", "none: a control group takes no CPU time away");
        return;
    }
    char past[96] = "";
    if (quota.throttled > 0)
        snprintf(past, sizeof(past), "; it was used up in %llu of %llu periods", (unsigned long long)quota.throttled,
                 (unsigned long long)quota.periods);
    findings_add(findings, TOPIC, "quota", "the time of %g CPU%s, by a control group%s", quota.cpus,
                 quota.cpus == 1 ? "" : "s", past);
    if (quota.cpus >= usable_count(machine))
        return;
    char how[96];
    if (quota.cpus < 2)
        snprintf(how, sizeof(how), "to 1 each");
    else
        snprintf(how, sizeof(how), "so that they are %.0f together", floor(quota.cpus));
    findings_judge(findings, JUDGEMENT_WARN, "threads are made for %u CPUs, and all of them stop for the rest of a "
                   "period once the quota is used up: set devices.threads_per_tower and input.decode_threads %s, or "
                   "raise the quota (cpu.max, docker --cpus)", usable_count(machine), how);
}

/* CPUs of the process that are not a second thread of a core of one before. */
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
        findings_judge(findings, JUDGEMENT_NOTE, "two threads of a core share its arithmetic: towers on the CPU may be "
                       "no faster with all of them; compare with devices.threads_per_tower = %u", cores / towers);
}

/* The drivers whose powersave still goes up with the load. */
static bool adapts(const struct machine *machine, int cpu)
{
    char driver[64];
    return machine_line(machine, driver, sizeof(driver), "sys/devices/system/cpu/cpu%d/cpufreq/scaling_driver", cpu) &&
           (strcmp(driver, "intel_pstate") == 0 || strcmp(driver, "amd-pstate-epp") == 0);
}

static void add_frequency(struct findings *findings, const struct machine *machine)
{
    uint32_t told = 0, slow = 0, capped = 0;
    uint64_t most = 0;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        char governor[64];
        uint64_t allowed, possible;
        if (!CPU_ISSET(cpu, &machine->cpus) ||
            !machine_line(machine, governor, sizeof(governor),
                          "sys/devices/system/cpu/cpu%d/cpufreq/scaling_governor", cpu) ||
            !machine_number(machine, &allowed, "sys/devices/system/cpu/cpu%d/cpufreq/scaling_max_freq", cpu) ||
            !machine_number(machine, &possible, "sys/devices/system/cpu/cpu%d/cpufreq/cpuinfo_max_freq", cpu))
            continue;
        told++;
        slow += strcmp(governor, "powersave") == 0 && !adapts(machine, cpu);
        capped += allowed < possible;
        most = allowed > most ? allowed : most;
    }
    if (told == 0)
        return;
    findings_add(findings, TOPIC, "frequency", "up to %.1f GHz%s", (double)most / 1e6,
                 slow > 0 ? ", kept at the lowest by the governor powersave" : "");
    if (slow > 0)
        findings_judge(findings, JUDGEMENT_WARN, "%u CPU%s at the lowest frequency: cpupower frequency-set -g "
                       "performance, as root", slow, slow == 1 ? " runs" : "s run");
    if (capped > 0)
        findings_judge(findings, JUDGEMENT_NOTE, "%u CPU%s kept below what %s: somebody set scaling_max_freq", capped,
                       capped == 1 ? " is" : "s are", capped == 1 ? "it can" : "they can");
}

/* The nodes with CPUs of the process, and how many nodes there are. */
static uint32_t find_nodes(const struct machine *machine, cpu_set_t *nodes_out)
{
    cpu_set_t online;
    CPU_ZERO(nodes_out);
    if (!machine_list(machine, &online, "sys/devices/system/node/online"))
        return 0;
    for (int node = 0; node < CPU_SETSIZE; node++) {
        cpu_set_t cpus, both;
        if (!CPU_ISSET(node, &online) ||
            !machine_list(machine, &cpus, "sys/devices/system/node/node%d/cpulist", node))
            continue;
        CPU_AND(&both, &cpus, &machine->cpus);
        if (CPU_COUNT(&both) > 0)
            CPU_SET(node, nodes_out);
    }
    return (uint32_t)CPU_COUNT(&online);
}

static void add_nodes(struct findings *findings, const struct machine *machine)
{
    cpu_set_t nodes;
    char list[LIST_BYTES];
    const uint32_t there = find_nodes(machine, &nodes), used = (uint32_t)CPU_COUNT(&nodes);
    if (there == 0 || used == 0)
        return;
    cpu_list_write(&nodes, list, sizeof(list));
    findings_add(findings, TOPIC, "nodes", "the CPUs are on NUMA node%s %s of %u", used == 1 ? "" : "s", list, there);
    if (used > 1 && (machine->plan == NULL ? machine->gpus == 0 : computes_on_cpu(machine)))
        findings_judge(findings, JUDGEMENT_NOTE, "memory of another node is farther away: compare a run on all with "
                       "one on a single node, numactl --cpunodebind=%.*s --membind=%.*s pipetrain ...",
                       (int)strcspn(list, ",-"), list, (int)strcspn(list, ",-"), list);
}

static void add_run(struct findings *findings, const struct machine *machine)
{
    if (machine->settings == NULL || machine->plan == NULL)
        return;
    const uint32_t towers = machine->plan->towers.count, cpus = usable_count(machine);
    const uint32_t decoders = run_plan_decoders(machine->settings);
    const bool decodes = machine->settings->input.source != INPUT_SYNTHETIC, computes = computes_on_cpu(machine);
    const uint32_t threads = computes ? towers * run_plan_threads(machine->settings, towers) : 0;
    findings_add(findings, TOPIC, "run", "%u thread%s compute%s, %u decode%s, on %u CPU%s", threads,
                 threads == 1 ? "" : "s", threads == 1 ? "s" : "", decodes ? decoders : 0,
                 decodes && decoders == 1 ? "s" : "", cpus, cpus == 1 ? "" : "s");
    if (threads > cpus && towers <= cpus)
        findings_judge(findings, JUDGEMENT_WARN, "threads of a tower wait for each other, also for one that waits for "
                       "a CPU: set devices.threads_per_tower = %u", cpus / towers);
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
    add_nodes(findings, machine);
    add_run(findings, machine);
}
