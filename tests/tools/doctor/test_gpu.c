/* Tests of what is found about GPUs: every judgement of one, of copies between them, and of where there are none. */
#include <stdio.h>

#include "tests/helpers/test.h"
#include "tests/tools/doctor/machine_fixture.h"
#include "tools/doctor/gpu.h"
#include "tools/doctor/nvml_api.h"
#include "tools/doctor/peers.h"
#include "tools/doctor/topics.h"

#define BUS "0000:1b:00.0"

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
                               .lanes = 16, .lanes_most = 16, .nvlinks = 18,
                               .is_persistent = true, .has_persistence = true };
}

static void look(const struct gpu *gpu)
{
    forget_findings();
    gpu_add(&findings, &machine, gpu);
}

TEST_WITH(a_gpu_that_nothing_else_is_known_of_is_named, machine_make, machine_remove)
{
    const struct gpu gpu = make_gpu();
    look(&gpu);
    expect_finding("gpu", "device", JUDGEMENT_FINE, "1: A GPU, 80.0 GiB, compute capability 9.0, at " BUS, "");
    assert_int_equal(findings.count, 1);
}

TEST_WITH(a_gpu_without_faults_is_fine, machine_make, machine_remove)
{
    struct gpu gpu = make_gpu();
    gpu.before = gpu.after = make_state();
    gpu.copy_bytes_per_second = 55e9;
    look(&gpu);
    expect_finding("gpu", "memory", JUDGEMENT_FINE, "1: 1.0 GiB of 80.0 GiB", "");
    expect_finding("gpu", "link", JUDGEMENT_FINE, "generation 1 with 16 lanes now, 5 with 16 at most", "");
    expect_finding("gpu", "copies", JUDGEMENT_FINE, "55.0 GB/s", "");
    expect_finding("gpu", "clocks", JUDGEMENT_FINE, "1200 MHz now, 1980 at most, 40 degrees", "");
    expect_finding("gpu", "nvlink", JUDGEMENT_FINE, "18 NVLinks up", "");
    expect_finding("gpu", "driver", JUDGEMENT_FINE, "kept ready", "");
    assert_int_equal(findings_count(&findings, JUDGEMENT_FINE), findings.count);
}

TEST_WITH(every_cause_of_low_clocks_has_its_advice, machine_make, machine_remove)
{
    static const struct { uint64_t reason; enum judgement judgement; const char *advice; } causes[] = {
        { NVML_REASON_HOT, JUDGEMENT_WARN, "too hot" },
        { NVML_REASON_WARM, JUDGEMENT_WARN, "near its highest temperature" },
        { NVML_REASON_POWER_BRAKE, JUDGEMENT_WARN, "power supply" },
        { NVML_REASON_HARDWARE, JUDGEMENT_WARN, "hardware" },
        { NVML_REASON_POWER_CAP, JUDGEMENT_NOTE, "power limit" },
        { NVML_REASON_SETTING, JUDGEMENT_NOTE, "nvidia-smi -rac" },
        { NVML_REASON_HARDWARE | NVML_REASON_HOT | NVML_REASON_SETTING, JUDGEMENT_WARN, "too hot" },
        { NVML_REASON_POWER_CAP | NVML_REASON_WARM, JUDGEMENT_WARN, "near its highest" },
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

TEST_WITH(a_narrow_link_and_slow_copies_are_told, machine_make, machine_remove)
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

TEST_WITH(without_nvml_the_kernel_tells_of_the_link, machine_make, machine_remove)
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

TEST_WITH(memory_that_others_use_is_warned_of, machine_make, machine_remove)
{
    struct gpu gpu = make_gpu();
    gpu.before = make_state();
    gpu.before.used_bytes = 20ull << 30;
    look(&gpu);
    expect_finding("gpu", "memory", JUDGEMENT_WARN, "20.0 GiB of 80.0 GiB", "devices.list");
}

TEST_WITH(a_driver_that_is_not_kept_ready_is_noted, machine_make, machine_remove)
{
    struct gpu gpu = make_gpu();
    gpu.after = make_state();
    gpu.after.is_persistent = false;
    look(&gpu);
    expect_finding("gpu", "driver", JUDGEMENT_NOTE, "not kept ready", "nvidia-smi -pm 1");
}

TEST_WITH(a_gpu_at_a_node_without_cpus_of_the_process_is_warned_of, machine_make, machine_remove)
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

TEST_WITH(pairs_are_told_with_their_way_and_speed, machine_make, machine_remove)
{
    struct copy_speeds speeds = { .count = 1 };
    peers_add(&findings, &speeds);
    assert_int_equal(findings.count, 0);
    speeds = (struct copy_speeds){ .count = 3 };
    for (uint32_t i = 0; i < 3; i++)
        for (uint32_t j = 0; j < 3; j++) {
            speeds.between[i][j] = i != j ? 300e9 : 0;
            speeds.reaches[i][j] = true;
        }
    peers_add(&findings, &speeds);
    assert_int_equal(findings.count, 3);
    expect_finding("gpu", "peers", JUDGEMENT_FINE, "GB/s from 0 to: 1 300.0, 2 300.0", "");
    forget_findings();
    speeds.between[0][2] = 100e9;
    peers_add(&findings, &speeds);
    expect_finding("gpu", "peers", JUDGEMENT_NOTE, "1 300.0, 2 100.0", "less than half");
    forget_findings();
    speeds.reaches[2][0] = false;
    speeds.between[0][1] = 0;
    peers_add(&findings, &speeds);
    expect_finding("gpu", "peers", JUDGEMENT_WARN, "1 not measured, 2 100.0 by the host", "ACS");
}

TEST_WITH(gpus_that_cannot_be_used_are_warned_of, machine_make, machine_remove)
{
    topic_devices(&findings, &machine, NULL, "no driver", "no library");
    expect_finding("gpu", "usable", JUDGEMENT_FINE, "none: no driver", "");
    expect_none("gpu", "nvml");
    forget_findings();
    machine_put("0x10de\n", "sys/bus/pci/devices/" BUS "/vendor");
    machine_put("0x040300\n", "sys/bus/pci/devices/" BUS "/class");         /* the sound of one */
    topic_devices(&findings, &machine, NULL, "no driver", "no library");
    expect_finding("gpu", "usable", JUDGEMENT_FINE, "none: no driver", "");
    forget_findings();
    machine_put("0x030200\n", "sys/bus/pci/devices/" BUS "/class");
    topic_devices(&findings, &machine, NULL, "no driver", "no library");
    expect_finding("gpu", "usable", JUDGEMENT_WARN, "none: no driver",
                   device_find("cuda") != NULL ? "a driver as new as" : "configure --with-cuda=DIR");
}

TESTS_MAIN(NULL, NULL)
