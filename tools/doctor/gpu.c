/* Judging what is known of one GPU. */
#include "tools/doctor/gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stage/cpus.h"
#include "tools/config/number.h"
#include "tools/doctor/nvml_api.h"

#define TOPIC "gpu"
#define USED_MOST 0.1           /* of the memory, by others; drivers keep a little for themselves */
#define COPY_LEAST 0.5          /* of what the link can: good ones reach 0.8 and more */

/* ---- PCI Express ---- */

struct link { uint32_t generation, generation_most, lanes, lanes_most; };

/* By transfers per second and lane, as the kernel tells them ("16.0 GT/s PCIe"). 0: unknown. */
static uint32_t generation_of(const char *speed)
{
    static const double transfers[] = { 0, 2.5, 5, 8, 16, 32, 64 };
    const double told = atof(speed);
    uint32_t generation = sizeof(transfers) / sizeof(transfers[0]) - 1;
    while (generation > 0 && (told < transfers[generation] - 0.1 || told > transfers[generation] + 0.1))
        generation--;
    return generation;
}

/* Bytes per second of a link, one way, behind its encoding. */
static double link_speed(uint32_t generation, uint32_t lanes)
{
    static const double per_lane[] = { 0, 0.25e9, 0.5e9, 0.985e9, 1.969e9, 3.938e9, 7.563e9 };
    return generation < sizeof(per_lane) / sizeof(per_lane[0]) ? per_lane[generation] * lanes : 0;
}

static uint32_t read_generation(const struct machine *machine, const char *bus, const char *name)
{
    char speed[64];
    const bool is_told = machine_line(machine, speed, sizeof(speed), "sys/bus/pci/devices/%s/%s", bus, name);
    return is_told ? generation_of(speed) : 0;
}

static uint32_t read_lanes(const struct machine *machine, const char *bus, const char *name)
{
    uint64_t lanes;
    return machine_number(machine, &lanes, "sys/bus/pci/devices/%s/%s", bus, name) && lanes <= 32 ? (uint32_t)lanes : 0;
}

/* NVML knows of the slot what the device alone does not. */
static struct link find_link(const struct machine *machine, const struct gpu *gpu)
{
    const struct gpu_state *const state = &gpu->after;
    const char *const bus = gpu->description.bus;
    if (state->generation > 0 && state->lanes > 0)
        return (struct link){ state->generation, state->generation_most, state->lanes, state->lanes_most };
    if (*bus == '\0')
        return (struct link){ 0 };
    return (struct link){ read_generation(machine, bus, "current_link_speed"),
                          read_generation(machine, bus, "max_link_speed"),
                          read_lanes(machine, bus, "current_link_width"), read_lanes(machine, bus, "max_link_width") };
}

/* The generation goes down while a device idles; the lanes do not. */
static void add_link(struct findings *findings, const struct gpu *gpu, const struct link *link)
{
    if (link->generation == 0 || link->lanes == 0)
        return;
    findings_add(findings, TOPIC, "link", "%u: PCIe generation %u with %u lanes now, %u with %u at most", gpu->index,
                 link->generation, link->lanes, link->generation_most, link->lanes_most);
    if (link->lanes < link->lanes_most)
        findings_judge(findings, JUDGEMENT_WARN, "copies of batches, and sums without NVLink, take up to %.3g times as "
                       "long: look at the slot, at riser cables, and at what shares its lanes",
                       (double)link->lanes_most / link->lanes);
}

static void add_copies(struct findings *findings, const struct gpu *gpu, const struct link *link)
{
    const double can = link_speed(link->generation_most, link->lanes);
    if (gpu->copy_bytes_per_second <= 0)
        return;
    findings_add(findings, TOPIC, "copies", "%u: %.1f GB/s measured from pinned memory to it", gpu->index,
                 gpu->copy_bytes_per_second / 1e9);
    if (gpu->copy_bytes_per_second < COPY_LEAST * can)
        findings_judge(findings, JUDGEMENT_NOTE, "its link can carry %.1f GB/s: other copies at this moment, the other "
                       "socket's memory (node below), or a slot that is narrower than the device knows", can / 1e9);
}

/* ---- where it is ---- */

static void add_node(struct findings *findings, const struct machine *machine, const struct gpu *gpu)
{
    uint64_t node;
    cpu_set_t cpus, both;
    char list[64];
    if (*gpu->description.bus == '\0' ||
        !machine_number(machine, &node, "sys/bus/pci/devices/%s/numa_node", gpu->description.bus) ||
        !machine_list(machine, &cpus, "sys/devices/system/node/node%u/cpulist", (unsigned)node))
        return;
    CPU_AND(&both, &cpus, &machine->cpus);
    cpu_list_write(&cpus, list, sizeof(list));
    findings_add(findings, TOPIC, "node", "%u: at NUMA node %u, with CPUs %s", gpu->index, (unsigned)node, list);
    if (CPU_COUNT(&both) == 0)
        findings_judge(findings, JUDGEMENT_WARN, "the process may use none of them, so every batch crosses to the "
                       "other socket: start it with some (numactl --cpunodebind=%u, or the job's CPU binding)",
                       (unsigned)node);
}

/* ---- what slows it down ---- */

static void add_clocks(struct findings *findings, const struct gpu *gpu)
{
    static const struct { uint64_t reason; enum judgement judgement; const char *advice; } reasons[] = {
        { NVML_REASON_HOT, JUDGEMENT_WARN, "it is too hot and computes slower: see to its air or water" },
        { NVML_REASON_WARM, JUDGEMENT_WARN, "it is near its highest temperature and computes slower: see to its air" },
        { NVML_REASON_POWER_BRAKE, JUDGEMENT_WARN, "the power supply asks it to slow down: see to the supply" },
        { NVML_REASON_HARDWARE, JUDGEMENT_WARN, "its hardware slows it down to half or less: see to its cooling and "
          "power cables" },
        { NVML_REASON_POWER_CAP, JUDGEMENT_NOTE, "it is at its power limit: nvidia-smi -q -d POWER shows whether that "
          "was lowered" },
        { NVML_REASON_SETTING, JUDGEMENT_NOTE, "somebody set its clocks: nvidia-smi -rac gives it back its own" },
    };
    const struct gpu_state *const state = &gpu->after;
    if (state->clock_mhz == 0)
        return;
    findings_add(findings, TOPIC, "clocks", "%u: %u MHz now, %u at most, %u degrees", gpu->index, state->clock_mhz,
                 state->clock_most_mhz, state->degrees);
    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
        if (state->reasons & reasons[i].reason)
            findings_judge(findings, reasons[i].judgement, "%s", reasons[i].advice);
}

static void add_used(struct findings *findings, const struct gpu *gpu)
{
    const struct gpu_state *const state = &gpu->before;
    if (state->memory_bytes == 0)
        return;
    findings_add(findings, TOPIC, "memory", "%u: %s of %s in use before this program", gpu->index,
                 number_bytes(state->used_bytes).text, number_bytes(state->memory_bytes).text);
    if ((double)state->used_bytes > USED_MOST * (double)state->memory_bytes)
        findings_judge(findings, JUDGEMENT_WARN, "other processes are on it (nvidia-smi shows them): a run gets the "
                       "rest of its memory and a share of its time; end them, or take other devices (devices.list)");
}

static void add_persistence(struct findings *findings, const struct gpu *gpu)
{
    if (!gpu->after.has_persistence)
        return;
    findings_add(findings, TOPIC, "driver", "%u: %s", gpu->index,
                 gpu->after.is_persistent ? "is kept ready" : "is not kept ready while nobody uses it");
    if (!gpu->after.is_persistent)
        findings_judge(findings, JUDGEMENT_NOTE, "the first program after a pause begins later: nvidia-smi -pm 1, as "
                       "root, or nvidia-persistenced");
}

void gpu_add(struct findings *findings, const struct machine *machine, const struct gpu *gpu)
{
    const struct link link = find_link(machine, gpu);
    findings_add(findings, TOPIC, "device", "%u: %s, %s%s%s%s%s", gpu->index, gpu->description.name,
                 number_bytes(gpu->description.memory_bytes).text, *gpu->description.more != '\0' ? ", " : "",
                 gpu->description.more, *gpu->description.bus != '\0' ? ", at " : "", gpu->description.bus);
    add_used(findings, gpu);
    add_link(findings, gpu, &link);
    add_copies(findings, gpu, &link);
    add_node(findings, machine, gpu);
    add_clocks(findings, gpu);
    if (gpu->after.memory_bytes > 0)
        findings_add(findings, TOPIC, "nvlink", "%u: %u NVLink%s up", gpu->index, gpu->after.nvlinks,
                     gpu->after.nvlinks == 1 ? "" : "s");
    add_persistence(findings, gpu);
}
