/* Tests of what is found about cores, on machines of files. */
#include <stdio.h>

#include "tests/helpers/test.h"
#include "tests/tools/doctor/machine_fixture.h"
#include "tools/doctor/topics.h"

/* CPUs 0 to count - 1 online; with siblings, CPU c and c + count / 2 are one core. */
static void put_cpus(int count, bool has_siblings)
{
    char list[32];
    snprintf(list, sizeof(list), "0-%d\n", count - 1);
    machine_put(list, "sys/devices/system/cpu/online");
    for (int cpu = 0; cpu < count; cpu++) {
        const int half = count / 2, first = cpu % half;
        snprintf(list, sizeof(list), has_siblings ? "%d,%d\n" : "%d\n", has_siblings ? first : cpu, first + half);
        machine_put(list, "sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
    }
}

TEST_WITH(a_machine_that_tells_nothing_is_told_of_all_the_same, machine_make, machine_remove)
{
    topic_cores(&findings, &machine);
    expect_finding("cores", "usable", JUDGEMENT_FINE, "4 CPUs (0-3)", "");
    expect_finding("cores", "quota", JUDGEMENT_FINE, "none", "");
    expect_none("cores", "threads");
    expect_none("cores", "frequency");
    expect_none("cores", "nodes");
    expect_none("cores", "run");
}

TEST_WITH(cpus_that_may_not_be_used_are_noted, machine_make, machine_remove)
{
    put_cpus(4, false);
    topic_cores(&findings, &machine);
    expect_finding("cores", "usable", JUDGEMENT_FINE, "4 of 4 CPUs (0-3)", "");
    expect_finding("cores", "threads", JUDGEMENT_FINE, "the 4 CPUs are 4 cores", "");
    forget_findings();
    machine_use_cpus("1-2");
    topic_cores(&findings, &machine);
    expect_finding("cores", "usable", JUDGEMENT_NOTE, "2 of 4 CPUs (1-2)", "taskset");
}

TEST_WITH(a_quota_below_the_cpus_is_warned_of, machine_make, machine_remove)
{
    machine_put("0::/job\n", "proc/self/cgroup");
    machine_put("400000 100000\n", "sys/fs/cgroup/job/cpu.max");
    topic_cores(&findings, &machine);
    expect_finding("cores", "quota", JUDGEMENT_FINE, "the time of 4 CPUs", "");
    forget_findings();
    machine_put("250000 100000\n", "sys/fs/cgroup/job/cpu.max");
    machine_put("nr_periods 100\nnr_throttled 40\n", "sys/fs/cgroup/job/cpu.stat");
    topic_cores(&findings, &machine);
    expect_finding("cores", "quota", JUDGEMENT_WARN, "2.5 CPUs, by a control group; it was used up in 40 of 100",
                   "so that they are 2 together");
    forget_findings();
    machine_put("50000 100000\n", "sys/fs/cgroup/job/cpu.max");
    topic_cores(&findings, &machine);
    expect_finding("cores", "quota", JUDGEMENT_WARN, "the time of 0.5 CPUs", "to 1 each");
}

TEST_WITH(two_threads_of_a_core_are_noted_where_the_cpu_computes, machine_make, machine_remove)
{
    put_cpus(4, true);
    topic_cores(&findings, &machine);
    expect_finding("cores", "threads", JUDGEMENT_NOTE, "the 4 CPUs are 2 cores", "devices.threads_per_tower = 2");
    forget_findings();
    machine.gpus = 1;
    topic_cores(&findings, &machine);
    expect_finding("cores", "threads", JUDGEMENT_FINE, "the 4 CPUs are 2 cores", "");
    forget_findings();
    machine.gpus = 0;
    machine_use_cpus("0-1");
    topic_cores(&findings, &machine);
    expect_finding("cores", "threads", JUDGEMENT_FINE, "the 2 CPUs are 2 cores", "");
}

static void put_frequency(const char *driver, const char *governor, const char *allowed)
{
    for (int cpu = 0; cpu < 4; cpu++) {
        machine_put(driver, "sys/devices/system/cpu/cpu%d/cpufreq/scaling_driver", cpu);
        machine_put(governor, "sys/devices/system/cpu/cpu%d/cpufreq/scaling_governor", cpu);
        machine_put(allowed, "sys/devices/system/cpu/cpu%d/cpufreq/scaling_max_freq", cpu);
        machine_put("3500000\n", "sys/devices/system/cpu/cpu%d/cpufreq/cpuinfo_max_freq", cpu);
    }
}

TEST_WITH(a_governor_that_keeps_frequencies_low_is_warned_of, machine_make, machine_remove)
{
    put_frequency("acpi-cpufreq\n", "powersave\n", "3500000\n");
    topic_cores(&findings, &machine);
    expect_finding("cores", "frequency", JUDGEMENT_WARN, "up to 3.5 GHz, kept at the lowest", "4 CPUs run");
    forget_findings();
    put_frequency("intel_pstate\n", "powersave\n", "3500000\n");
    topic_cores(&findings, &machine);
    expect_finding("cores", "frequency", JUDGEMENT_FINE, "up to 3.5 GHz", "");
    forget_findings();
    put_frequency("acpi-cpufreq\n", "performance\n", "2000000\n");
    topic_cores(&findings, &machine);
    expect_finding("cores", "frequency", JUDGEMENT_NOTE, "up to 2.0 GHz", "scaling_max_freq");
}

TEST_WITH(cpus_on_two_nodes_are_noted, machine_make, machine_remove)
{
    machine_put("0-1\n", "sys/devices/system/node/online");
    machine_put("0-3\n", "sys/devices/system/node/node0/cpulist");
    machine_put("4-7\n", "sys/devices/system/node/node1/cpulist");
    topic_cores(&findings, &machine);
    expect_finding("cores", "nodes", JUDGEMENT_FINE, "on NUMA node 0 of 2", "");
    forget_findings();
    machine_use_cpus("2-5");
    topic_cores(&findings, &machine);
    expect_finding("cores", "nodes", JUDGEMENT_NOTE, "on NUMA nodes 0-1 of 2", "--cpunodebind=0 --membind=0");
}

/* Threads of a run on CPUs 0-3. */
static void judge_run(uint32_t towers, int64_t threads, int64_t decoders)
{
    static struct settings settings;
    static struct device_plan plan;
    settings = (struct settings){ .devices = { .threads_per_tower = threads },
                                  .input = { .decode_threads = decoders } };
    plan = (struct device_plan){ .ops = device_find("cpu"), .backend = backend_find("reference"),
                                 .towers = { .count = towers } };
    machine.settings = &settings;
    machine.plan = &plan;
    forget_findings();
    topic_cores(&findings, &machine);
}

TEST_WITH(more_threads_than_cpus_are_warned_of, machine_make, machine_remove)
{
    judge_run(2, 2, 2);
    expect_finding("cores", "run", JUDGEMENT_FINE, "4 threads compute, 2 decode, on 4 CPUs", "");
    judge_run(2, 3, 2);
    expect_finding("cores", "run", JUDGEMENT_WARN, "6 threads compute", "devices.threads_per_tower = 2");
    judge_run(5, 1, 1);
    expect_finding("cores", "run", JUDGEMENT_WARN, "5 threads compute, 1 decodes", "devices.towers = 4");
    judge_run(1, 4, 5);
    expect_finding("cores", "run", JUDGEMENT_NOTE, "4 threads compute, 5 decode", "input.decode_threads = 4");
}

TEST_WITH(what_others_use_is_told_in_shares_of_the_cpus, machine_make, machine_remove)
{
    machine_put("cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 100 0 0 900 0 0 0 0 0 0\ncpu3 0 0 0 1000 0 0 0 0 0 0\n", "proc/stat");
    const struct cpu_times before = cpu_times_read(machine.root, &machine.cpus);
    assert_int_equal(before.all, 2000);
    assert_int_equal(before.busy, 100);
    struct cpu_times after = { .busy = 110, .all = 2100 };
    topic_load(&findings, &machine, &before, &before);
    expect_none("cores", "load");
    topic_load(&findings, &machine, &before, &after);
    expect_finding("cores", "load", JUDGEMENT_FINE, "10 %", "");
    expect_none("cores", "stolen");
    forget_findings();
    after = (struct cpu_times){ .busy = 150, .stolen = 10, .all = 2100 };
    topic_load(&findings, &machine, &before, &after);
    expect_finding("cores", "load", JUDGEMENT_WARN, "50 %", "2.0 of 4 CPUs");
    expect_finding("cores", "stolen", JUDGEMENT_WARN, "10 %", "host");
}

TESTS_MAIN(NULL, NULL)
