/* Tests of --doctor: what it finds on machines that are folders with files as in /proc and /sys, and the forms of its
 * findings. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stage/cpus.h"
#include "tests/helpers/file_fixture.h"
#include "tests/helpers/test.h"
#include "tools/doctor/gpu.h"
#include "tools/doctor/topics.h"

#define FLAGS_512 "avx512f avx512bw avx512dq avx512vl"
#define BUS "0000:1b:00.0"

/* ---- the machine of a test: a folder, CPUs 0-3, no findings ---- */

static struct machine machine;
static struct findings findings;

static void machine_use_cpus(const char *list)
{
    assert_true(cpu_list_parse(list, &machine.cpus));
}

static int machine_make(void **state)
{
    const int rc = fixture_folder_make(state);
    machine = (struct machine){ .root = folder };
    findings = (struct findings){ .count = 0 };
    machine_use_cpus("0-3");
    return rc;
}

static int machine_remove(void **state)
{
    findings_release(&findings);
    return fixture_folder_remove(state);
}

/* A file of the machine, with its folders. */
static void __attribute__((format(printf, 2, 3))) machine_put(const char *text, const char *path, ...)
{
    char full[1024];
    va_list arguments;
    const int root = snprintf(full, sizeof(full), "%s/", folder);
    va_start(arguments, path);
    vsnprintf(full + root, sizeof(full) - (size_t)root, path, arguments);
    va_end(arguments);
    for (char *slash = strchr(full + root, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(full, 0700);
        *slash = '/';
    }
    fixture_write_text(full, text);
}

static const struct finding *find(const char *topic, const char *name)
{
    for (size_t i = 0; i < findings.count; i++)
        if (strcmp(findings.of[i].topic, topic) == 0 && strcmp(findings.of[i].name, name) == 0)
            return &findings.of[i];
    return NULL;
}

/* `found` and `advice`: parts of the texts. */
static void expect_finding(const char *topic, const char *name, enum judgement judgement, const char *found,
                    const char *advice)
{
    const struct finding *const finding = find(topic, name);
    if (finding == NULL)
        fail_msg("there is no finding %s %s", topic, name);
    if (finding->judgement != judgement || strstr(finding->found, found) == NULL ||
        strstr(finding->advice, advice) == NULL || (judgement == JUDGEMENT_FINE) != (*finding->advice == '\0'))
        fail_msg("%s %s is judged %d: '%s', '%s'", topic, name, finding->judgement, finding->found, finding->advice);
}

static void expect_none(const char *topic, const char *name)
{
    const struct finding *const finding = find(topic, name);
    if (finding != NULL)
        fail_msg("%s %s: '%s'", topic, name, finding->found);
}

static void forget_findings(void)
{
    findings_release(&findings);
}

#define MACHINE_TEST(name) TEST_WITH(name, machine_make, machine_remove)

/* ---- cores ---- */

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

MACHINE_TEST(files_that_are_missing_are_no_problem)
{
    topic_cores(&findings, &machine);
    expect_finding("cores", "usable", JUDGEMENT_FINE, "4 CPUs (0-3)", "");
    expect_finding("cores", "quota", JUDGEMENT_FINE, "none", "");
    expect_none("cores", "threads");
    expect_none("cores", "frequency");
    expect_none("cores", "run");
}

MACHINE_TEST(cpus_that_may_not_be_used_are_noted)
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

MACHINE_TEST(a_quota_below_the_cpus_is_noted)
{
    machine_put("0::/job\n", "proc/self/cgroup");
    machine_put("400000 100000\n", "sys/fs/cgroup/job/cpu.max");
    topic_cores(&findings, &machine);
    expect_finding("cores", "quota", JUDGEMENT_FINE, "the time of 4 CPUs", "");
    forget_findings();
    machine_put("250000 100000\n", "sys/fs/cgroup/job/cpu.max");
    machine_put("nr_periods 100\nnr_throttled 40\n", "sys/fs/cgroup/job/cpu.stat");
    topic_cores(&findings, &machine);
    expect_finding("cores", "quota", JUDGEMENT_NOTE, "sys/fs/cgroup/job; it was used up in 40 of 100",
                   "starts threads for 3 of 4 CPUs");
    forget_findings();
    machine_put("50000 100000\n", "sys/fs/cgroup/job/cpu.max");
    topic_cores(&findings, &machine);
    expect_finding("cores", "quota", JUDGEMENT_NOTE, "the time of 0.5 CPUs", "for 1 of 4 CPUs: to use more, raise");
}

MACHINE_TEST(two_threads_of_a_core_are_noted_where_the_cpu_computes)
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
    }
}

MACHINE_TEST(a_governor_that_keeps_frequencies_low_is_a_warning)
{
    put_frequency("acpi-cpufreq\n", "powersave\n", "3500000\n");
    topic_cores(&findings, &machine);
    expect_finding("cores", "frequency", JUDGEMENT_WARN, "up to 3.5 GHz, kept at the lowest", "4 CPUs run");
    forget_findings();
    put_frequency("intel_pstate\n", "powersave\n", "3500000\n");
    topic_cores(&findings, &machine);
    expect_finding("cores", "frequency", JUDGEMENT_FINE, "up to 3.5 GHz", "");
}

/* Threads of a run on CPUs 0-3. */
static void judge_run(uint32_t towers, int64_t threads, int64_t decoders)
{
    static struct settings settings;
    static struct run_devices plan;
    settings = (struct settings){ .ranks = 1, .local_ranks = 1, .core_ranks = 1, .quota_ranks = 1,
                                  .devices = { .threads_per_tower = threads },
                                  .input = { .decode_threads = decoders } };
    plan = (struct run_devices){ .ops = device_find("cpu"), .backend = backend_find("reference"),
                                 .towers = { .count = towers } };
    machine.settings = &settings;
    machine.plan = &plan;
    forget_findings();
    topic_cores(&findings, &machine);
}

MACHINE_TEST(more_threads_than_cpus_are_a_warning)
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

MACHINE_TEST(the_load_of_other_programs_is_a_share_of_the_cpus)
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

/* ---- GPUs ---- */

static struct gpu make_gpu(void)
{
    return (struct gpu){
        .index = 1,
        .description = { .name = "A GPU", .more = "compute capability 9.0", .memory_bytes = 80ull << 30, .bus = BUS },
    };
}

static struct gpu_state make_state(void)
{
    return (struct gpu_state){ .memory_bytes = 80ull << 30, .used_bytes = 1ull << 30, .clock_mhz = 1200,
                               .clock_most_mhz = 1980, .degrees = 40, .generation = 1, .generation_most = 5,
                               .lanes = 16, .lanes_most = 16 };
}

static void look(const struct gpu *gpu)
{
    forget_findings();
    gpu_add(&findings, &machine, gpu);
}

MACHINE_TEST(a_gpu_of_which_little_is_known_is_named)
{
    const struct gpu gpu = make_gpu();
    look(&gpu);
    expect_finding("gpu", "device", JUDGEMENT_FINE, "1: A GPU, 80.0 GiB, compute capability 9.0, at " BUS, "");
    assert_int_equal(findings.count, 1);
}

MACHINE_TEST(a_gpu_without_faults_is_fine)
{
    struct gpu gpu = make_gpu();
    gpu.before = gpu.after = make_state();
    gpu.copy_bytes_per_second = 55e9;
    look(&gpu);
    expect_finding("gpu", "memory", JUDGEMENT_FINE, "1: 1.0 GiB of 80.0 GiB", "");
    expect_finding("gpu", "link", JUDGEMENT_FINE, "generation 1 with 16 lanes now, 5 with 16 at most", "");
    expect_finding("gpu", "copies", JUDGEMENT_FINE, "55.0 GB/s", "");
    expect_finding("gpu", "clocks", JUDGEMENT_FINE, "1200 MHz now, 1980 at most, 40 degrees", "");
    assert_int_equal(findings_count(&findings, JUDGEMENT_FINE), findings.count);
}

MACHINE_TEST(every_cause_of_low_clocks_has_its_advice)
{
    static const struct { uint64_t reason; enum judgement judgement; const char *advice; } causes[] = {
        { NVML_REASON_HOT, JUDGEMENT_WARN, "too hot" },
        { NVML_REASON_WARM, JUDGEMENT_WARN, "near its maximum temperature" },
        { NVML_REASON_POWER_BRAKE, JUDGEMENT_WARN, "power supply" },
        { NVML_REASON_HARDWARE, JUDGEMENT_WARN, "hardware" },
        { NVML_REASON_POWER_CAP, JUDGEMENT_NOTE, "power limit" },
        { NVML_REASON_SETTING, JUDGEMENT_NOTE, "nvidia-smi -rac" },
        { NVML_REASON_HARDWARE | NVML_REASON_HOT | NVML_REASON_SETTING, JUDGEMENT_WARN, "too hot" },
        { NVML_REASON_POWER_CAP | NVML_REASON_WARM, JUDGEMENT_WARN, "near its maximum" },
    };
    struct gpu gpu = make_gpu();
    gpu.after = make_state();
    for (size_t i = 0; i < sizeof(causes) / sizeof(causes[0]); i++) {
        gpu.after.reasons = causes[i].reason;
        look(&gpu);
        expect_finding("gpu", "clocks", causes[i].judgement, "MHz", causes[i].advice);
    }
    gpu.after.reasons = 0x1;            /* it idles */
    look(&gpu);
    expect_finding("gpu", "clocks", JUDGEMENT_FINE, "MHz", "");
}

MACHINE_TEST(a_narrow_link_and_slow_copies_are_found)
{
    struct gpu gpu = make_gpu();
    gpu.after = make_state();
    gpu.after.lanes = 4;
    gpu.copy_bytes_per_second = 12e9;
    look(&gpu);
    expect_finding("gpu", "link", JUDGEMENT_WARN, "with 4 lanes now", "4 times as long");
    expect_finding("gpu", "copies", JUDGEMENT_FINE, "12.0 GB/s", "");       /* of the 15.8 of four lanes */
    gpu.after.lanes = 16;
    look(&gpu);
    expect_finding("gpu", "link", JUDGEMENT_FINE, "with 16 lanes now", "");
    expect_finding("gpu", "copies", JUDGEMENT_NOTE, "12.0 GB/s", "can carry 63.0 GB/s");
}

MACHINE_TEST(without_nvml_the_kernel_reports_the_link)
{
    const struct gpu gpu = make_gpu();
    machine_put("16.0 GT/s PCIe\n", "sys/bus/pci/devices/" BUS "/current_link_speed");
    machine_put("32.0 GT/s PCIe\n", "sys/bus/pci/devices/" BUS "/max_link_speed");
    machine_put("8\n", "sys/bus/pci/devices/" BUS "/current_link_width");
    machine_put("16\n", "sys/bus/pci/devices/" BUS "/max_link_width");
    look(&gpu);
    expect_finding("gpu", "link", JUDGEMENT_WARN, "generation 4 with 8 lanes now, 5 with 16 at most",
                   "2 times as long");
}

MACHINE_TEST(memory_that_others_use_is_a_warning)
{
    struct gpu gpu = make_gpu();
    gpu.before = make_state();
    gpu.before.used_bytes = 20ull << 30;
    look(&gpu);
    expect_finding("gpu", "memory", JUDGEMENT_WARN, "20.0 GiB of 80.0 GiB", "devices.list");
}

MACHINE_TEST(a_gpu_at_a_node_without_cpus_of_the_process_is_a_warning)
{
    const struct gpu gpu = make_gpu();
    machine_put("-1\n", "sys/bus/pci/devices/" BUS "/numa_node");
    look(&gpu);
    expect_none("gpu", "node");
    machine_put("1\n", "sys/bus/pci/devices/" BUS "/numa_node");
    machine_put("4-7\n", "sys/devices/system/node/node1/cpulist");
    look(&gpu);
    expect_finding("gpu", "node", JUDGEMENT_WARN, "NUMA node 1, with CPUs 4-7", "--cpunodebind=1");
    machine_use_cpus("3-4");
    look(&gpu);
    expect_finding("gpu", "node", JUDGEMENT_FINE, "NUMA node 1", "");
}

MACHINE_TEST(speeds_between_pairs_are_compared)
{
    struct gpu_copies speeds = { .count = 1 };
    gpu_add_peers(&findings, &speeds);
    assert_int_equal(findings.count, 0);
    speeds = (struct gpu_copies){ .count = 3 };
    for (uint32_t i = 0; i < 3; i++)
        for (uint32_t j = 0; j < 3; j++) {
            speeds.between[i][j] = i != j ? 300e9 : 0;
            speeds.reaches[i][j] = true;
        }
    gpu_add_peers(&findings, &speeds);
    assert_int_equal(findings.count, 3);
    expect_finding("gpu", "peers", JUDGEMENT_FINE, "GB/s from 0 to: 1 300.0, 2 300.0", "");
    forget_findings();
    speeds.between[0][2] = 100e9;
    gpu_add_peers(&findings, &speeds);
    expect_finding("gpu", "peers", JUDGEMENT_NOTE, "1 300.0, 2 100.0", "less than half");
    forget_findings();
    speeds.reaches[2][0] = false;
    speeds.between[0][1] = 0;
    gpu_add_peers(&findings, &speeds);
    expect_finding("gpu", "peers", JUDGEMENT_WARN, "1 not measured, 2 100.0 by the host", "ACS");
}

MACHINE_TEST(adapters_need_a_module_or_dma_buffers_for_the_memory_of_gpus)
{
    unsetenv("NCCL_IB_DISABLE");
    gpu_add_direct(&findings, &machine);
    expect_finding("gpu", "direct", JUDGEMENT_FINE, "no RDMA adapter", "");
    forget_findings();
    machine_put("1\n", "sys/class/infiniband/mlx5_0/ports");
    machine_put("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.1\n", "proc/driver/nvidia/version");
    machine_put("5.11.0-9\n", "proc/sys/kernel/osrelease");
    gpu_add_direct(&findings, &machine);
    expect_finding("gpu", "direct", JUDGEMENT_NOTE, "not possible with mlx5_0", "modprobe nvidia_peermem");
    forget_findings();
    machine_put("6.1.0-9\n", "proc/sys/kernel/osrelease");
    gpu_add_direct(&findings, &machine);
    expect_finding("gpu", "direct", JUDGEMENT_FINE, "possible with mlx5_0, by DMA buffers", "");
    forget_findings();
    machine_put("NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.1\n", "proc/driver/nvidia/version");
    gpu_add_direct(&findings, &machine);
    expect_finding("gpu", "direct", JUDGEMENT_NOTE, "not possible with mlx5_0", "open kernel modules");
    forget_findings();
    machine_put("1\n", "sys/module/nvidia_peermem/refcnt");
    gpu_add_direct(&findings, &machine);
    expect_finding("gpu", "direct", JUDGEMENT_FINE, "possible with mlx5_0, by nvidia_peermem", "");
    forget_findings();
    setenv("NCCL_IB_DISABLE", "1", 1);
    gpu_add_direct(&findings, &machine);
    expect_finding("gpu", "direct", JUDGEMENT_NOTE, "possible with mlx5_0", "NCCL_IB_DISABLE keeps NCCL from using it");
    unsetenv("NCCL_IB_DISABLE");
}

MACHINE_TEST(memory_that_processes_cannot_share_is_noted_with_the_reason)
{
    gpu_add_sharing(&findings, &(struct sharing){ .works = true });
    expect_finding("gpu", "sharing", JUDGEMENT_FINE, "between processes: yes", "");
    forget_findings();
    gpu_add_sharing(&findings, &(struct sharing){ .why = "rank 0: cudaIpcOpenMemHandle: no support" });
    expect_finding("gpu", "sharing", JUDGEMENT_NOTE, "between processes: no (rank 0: cudaIpcOpenMemHandle: no support)",
                   "in host memory");
}

MACHINE_TEST(gpus_that_cannot_be_used_are_a_warning)
{
    topic_gpus(&findings, &machine, NULL, "no driver", "no library");
    expect_finding("gpu", "usable", JUDGEMENT_FINE, "none: no driver", "");
    expect_none("gpu", "nvml");
    forget_findings();
    machine_put("0x10de\n", "sys/bus/pci/devices/" BUS "/vendor");
    machine_put("0x040300\n", "sys/bus/pci/devices/" BUS "/class");         /* the sound of one */
    topic_gpus(&findings, &machine, NULL, "no driver", "no library");
    expect_finding("gpu", "usable", JUDGEMENT_FINE, "none: no driver", "");
    forget_findings();
    machine_put("0x030200\n", "sys/bus/pci/devices/" BUS "/class");
    topic_gpus(&findings, &machine, NULL, "no driver", "no library");
    expect_finding("gpu", "usable", JUDGEMENT_WARN, "none: no driver",
                   device_find("cuda") != NULL ? "a driver as new as" : "configure --with-cuda=DIR");
}

/* ---- memory, instructions ---- */

MACHINE_TEST(little_available_memory_is_noted)
{
    machine_put("MemTotal: 1000000 kB\nMemAvailable:  900000 kB\n", "proc/meminfo");
    topic_memory(&findings, &machine);
    expect_finding("memory", "ram", JUDGEMENT_FINE, "878.9 MiB of 976.6 MiB", "");
    expect_finding("memory", "group", JUDGEMENT_FINE, "no control group", "");
    forget_findings();
    machine_put("MemTotal: 1000000 kB\nMemAvailable:  100000 kB\n",
                "proc/meminfo");
    topic_memory(&findings, &machine);
    expect_finding("memory", "ram", JUDGEMENT_NOTE, "97.7 MiB of", "page cache");
}

MACHINE_TEST(a_control_group_that_leaves_less_is_noted)
{
    machine_put("MemTotal: 1000000 kB\nMemAvailable:  900000 kB\n", "proc/meminfo");
    machine_put("0::/job\n", "proc/self/cgroup");
    machine_put("104857600\n", "sys/fs/cgroup/job/memory.max");
    machine_put("0\n", "sys/fs/cgroup/job/memory.current");
    topic_memory(&findings, &machine);
    expect_finding("memory", "group", JUDGEMENT_NOTE, "leaves 100.0 MiB", "memory.max");
}

MACHINE_TEST(shared_memory_matters_to_several_gpus)
{
    topic_memory(&findings, &machine);
    expect_none("memory", "shared");
    machine.gpus = 2;
    topic_memory(&findings, &machine);
    expect_finding("memory", "shared", JUDGEMENT_WARN, "no /dev/shm", "tmpfs");
}

MACHINE_TEST(huge_pages_that_are_off_are_noted)
{
    machine_put("always [madvise] never\n", "sys/kernel/mm/transparent_hugepage/enabled");
    topic_memory(&findings, &machine);
    expect_finding("memory", "huge pages", JUDGEMENT_FINE, "enabled", "");
    forget_findings();
    machine_put("always madvise [never]\n", "sys/kernel/mm/transparent_hugepage/enabled");
    topic_memory(&findings, &machine);
    expect_finding("memory", "huge pages", JUDGEMENT_NOTE, "disabled", "echo madvise");
}

MACHINE_TEST(instructions_that_onednn_does_not_use_are_found_with_the_cause)
{
    unsetenv("ONEDNN_MAX_CPU_ISA");
    unsetenv("DNNL_MAX_CPU_ISA");
    topic_instructions(&findings, &machine, INSTRUCTIONS_AVX512);
    assert_int_equal(findings.count, 0);
    machine_put("model name\t: A CPU\nflags\t\t: fpu sse4_1 avx avx2 fma " FLAGS_512 " hypervisor\n", "proc/cpuinfo");
    topic_instructions(&findings, &machine, INSTRUCTIONS_AVX512);
    expect_finding("cpu", "oneDNN", JUDGEMENT_FINE, "computes with AVX-512 on A CPU", "");
    forget_findings();
    topic_instructions(&findings, &machine, INSTRUCTIONS_AVX2);
    expect_finding("cpu", "oneDNN", JUDGEMENT_NOTE, "computes with AVX2", "the CPU's AVX-512: a newer oneDNN");
    forget_findings();
    setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);
    topic_instructions(&findings, &machine, INSTRUCTIONS_AVX2);
    unsetenv("ONEDNN_MAX_CPU_ISA");
    expect_finding("cpu", "oneDNN", JUDGEMENT_WARN, "AVX2", "ONEDNN_MAX_CPU_ISA=AVX2 in the environment");
    forget_findings();
    machine_put("flags : sse4_1 avx avx2 fma " FLAGS_512 " avx512_vnni avx512_bf16 amx_tile amx_int8 "
                "amx_bf16\n", "proc/cpuinfo");
    topic_instructions(&findings, &machine, INSTRUCTIONS_BF16);
    expect_finding("cpu", "oneDNN", JUDGEMENT_NOTE, "AVX512-BF16", "which makes devices.precision = bf16");
    forget_findings();
    machine_put("flags : avx2x fma xavx512f\n", "proc/cpuinfo");
    topic_instructions(&findings, &machine, INSTRUCTIONS_BASE);
    expect_finding("cpu", "oneDNN", JUDGEMENT_FINE, "computes with SSE", "");
    forget_findings();
    machine_put("flags : sse4_1 avx\n", "proc/cpuinfo");
    topic_instructions(&findings, &machine, INSTRUCTIONS_SSE41);
    expect_finding("cpu", "oneDNN", JUDGEMENT_NOTE, "computes with SSE4.1", "the CPU's AVX: a newer oneDNN");
}

/* ---- shards ---- */

static void make_file(const char *name, size_t bytes)
{
    char *const text = malloc(bytes);
    assert_non_null(text);
    memset(text, 'x', bytes);
    fixture_write(fixture_path(folder, name), text, bytes);
    free(text);
}

MACHINE_TEST(files_that_were_just_written_are_in_the_page_cache)
{
    uint64_t cached = 0;
    make_file("file", 1000000);
    const char *const path = fixture_path(folder, "file");
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(page_cache_count(fd, path, 1000000, &cached), 0);
    assert_int_equal(cached, 1000000);
    close(fd);
}

MACHINE_TEST(reading_past_the_page_cache_ends_at_its_limit)
{
    struct disk_read read = { 0 };
    make_file("file", 8u << 20);
    const int rc = disk_read(fixture_path(folder, "file"), 8u << 20, 3u << 20, UINT64_MAX, &read);
    if (rc == -EINVAL)
        skip();                         /* a file system in memory */
    assert_int_equal(rc, 0);
    assert_int_equal(read.bytes, 4u << 20);     /* whole reads of 2 MiB */
    assert_true(read.elapsed_ns > 0);
    assert_int_equal(disk_read(fixture_path(folder, "none"), 1, 1, 1, &read), -ENOENT);
}

static void look_at_data(char *train, uint64_t available_kib)
{
    static char none[] = "";
    static struct settings settings;
    char text[64];
    settings = (struct settings){ .data = { .train = train, .validation = none } };
    machine.settings = &settings;
    snprintf(text, sizeof(text), "MemAvailable: %llu kB\n", (unsigned long long)available_kib);
    machine_put(text, "proc/meminfo");
    forget_findings();
    topic_data(&findings, &machine);
}

MACHINE_TEST(shards_are_found_with_their_size)
{
    char train[512];
    topic_data(&findings, &machine);
    expect_finding("data", "none", JUDGEMENT_FINE, "-c run.conf", "");
    make_file("train-00000-of-00002", 1u << 20);
    make_file("train-00001-of-00002", 2u << 20);
    snprintf(train, sizeof(train), "%s/train-*", folder);
    look_at_data(train, 1u << 20);
    expect_finding("data", "train", JUDGEMENT_FINE, "3.0 MiB in 2 files", "");
    assert_non_null(find("data", "disk"));
    snprintf(train, sizeof(train), "%s/absent-*", folder);
    look_at_data(train, 1u << 20);
    expect_finding("data", "train", JUDGEMENT_WARN, "absent", "a run is refused");
}

/* A file with a hole, of which no page was ever read. */
MACHINE_TEST(shards_that_do_not_fit_into_the_page_cache_are_noted)
{
    char train[512];
    make_file("train-00000-of-00001", 1);
    snprintf(train, sizeof(train), "%s/train-*", folder);
    assert_int_equal(truncate(fixture_path(folder, "train-00000-of-00001"), 100 << 20), 0);
    look_at_data(train, 200 << 10);
    if (find("data", "page cache") == NULL)
        skip();                         /* a file system in memory */
    expect_finding("data", "page cache", JUDGEMENT_FINE, "0 % of 100.0 MiB of train", "");
    look_at_data(train, 50 << 10);
    expect_finding("data", "page cache", JUDGEMENT_NOTE, "0 % of 100.0 MiB of train",
                   "the 50.0 MiB of available memory");
    machine_put("0::/job\n", "proc/self/cgroup");
    machine_put("10485760\n", "sys/fs/cgroup/job/memory.max");
    machine_put("0\n", "sys/fs/cgroup/job/memory.current");
    look_at_data(train, 200 << 10);
    expect_finding("data", "page cache", JUDGEMENT_NOTE, "100.0 MiB", "the 10.0 MiB of available memory");
}

/* ---- forms ---- */

static const char *text_of(int (*print)(const struct findings *findings, FILE *out))
{
    static char text[8192];
    FILE *const out = fmemopen(text, sizeof(text), "w");
    assert_non_null(out);
    assert_int_equal(print(&findings, out), 0);
    assert_int_equal(fclose(out), 0);
    return text;
}

static int print(const struct findings *list, FILE *out)
{
    findings_print(list, out);
    return 0;
}

MACHINE_TEST(the_table_fits_a_terminal_and_counts)
{
    findings_add(&findings, "one", "first", "%s",
                 "many words that go on and on, as they do where devices have long names");
    findings_judge(&findings, JUDGEMENT_NOTE, "a %s of many words that goes on and on, beyond what a line has room "
                   "for", "note");
    findings_judge(&findings, JUDGEMENT_WARN, "worse");
    findings_judge(&findings, JUDGEMENT_NOTE, "not as bad");
    findings_add(&findings, "one", "second", "ok\x1b[31m");
    const char *line = text_of(print);
    assert_non_null(strstr(line, "one       warn  first: many"));
    assert_non_null(strstr(line, "          -> worse\n          fine  second: ok\\x1b[31m\n"));
    assert_non_null(strstr(line, "\ndoctor    2 findings: 1 fine, 0 notes, 1 warning\n"));
    for (; *line != '\0'; line += strcspn(line, "\n") + 1)
        assert_true(strcspn(line, "\n") <= 80);
}

MACHINE_TEST(every_line_of_json_is_an_object)
{
    findings_add(&findings, "one", "first", "a \"quoted\" text");
    findings_add(&findings, "two", "second", "bad");
    findings_judge(&findings, JUDGEMENT_WARN, "do this");
    const char *const text = text_of(findings_write);
    json_t *const first = json_loads(text, JSON_DISABLE_EOF_CHECK, NULL);
    json_t *const second = json_loads(strchr(text, '\n') + 1, JSON_DISABLE_EOF_CHECK, NULL);
    assert_string_equal(json_string_value(json_object_get(first, "found")), "a \"quoted\" text");
    assert_string_equal(json_string_value(json_object_get(first, "judgement")), "fine");
    assert_string_equal(json_string_value(json_object_get(second, "topic")), "two");
    assert_string_equal(json_string_value(json_object_get(second, "judgement")), "warn");
    assert_string_equal(json_string_value(json_object_get(second, "advice")), "do this");
    json_decref(first);
    json_decref(second);
}

TESTS_MAIN(NULL, NULL)
