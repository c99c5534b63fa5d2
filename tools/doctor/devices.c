/* The GPUs a run can use, each and among each other; and where there are none, why. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "tools/doctor/copy_speed.h"
#include "tools/doctor/gpu.h"
#include "tools/doctor/peers.h"
#include "tools/doctor/topics.h"

#define TOPIC "gpu"
#define NVIDIA "0x10de"
#define CLASS_DISPLAY "0x03"    /* VGA and 3D controllers */

/* GPUs of NVIDIA on the bus, whatever drivers there are. */
static uint32_t count_on_bus(const struct machine *machine)
{
    char path[512], text[32];
    snprintf(path, sizeof(path), "%s/sys/bus/pci/devices", machine->root);
    DIR *const folder = opendir(path);
    uint32_t count = 0;
    for (struct dirent *entry = NULL; folder != NULL && (entry = readdir(folder)) != NULL;)
        if (machine_line(machine, text, sizeof(text), "sys/bus/pci/devices/%s/vendor", entry->d_name) &&
            strcmp(text, NVIDIA) == 0 &&
            machine_line(machine, text, sizeof(text), "sys/bus/pci/devices/%s/class", entry->d_name) &&
            strncmp(text, CLASS_DISPLAY, strlen(CLASS_DISPLAY)) == 0)
            count++;
    if (folder != NULL)
        closedir(folder);
    return count;
}

static void add_driver(struct findings *findings, const struct nvml *nvml, const char *why)
{
    if (nvml != NULL)
        findings_add(findings, TOPIC, "nvml", "driver %s", nvml_driver(nvml));
    else
        findings_add(findings, TOPIC, "nvml", "clocks, temperatures and NVLink are not known: %s", why);
}

/* None can be used: is there one that could? */
static void add_absence(struct findings *findings, const struct machine *machine, const struct nvml *nvml,
                        const char *why)
{
    const uint32_t managed = nvml != NULL ? nvml_count(nvml) : 0, on_bus = count_on_bus(machine);
    const uint32_t there = managed > on_bus ? managed : on_bus;
    findings_add(findings, TOPIC, "usable", "none: %s", why);
    if (there == 0)
        return;
    const char *const verb = there == 1 ? "is" : "are", *const plural = there == 1 ? "" : "s";
    if (device_find("cuda") == NULL)
        findings_judge(findings, JUDGEMENT_WARN, "there %s %u NVIDIA GPU%s here, and runs compute on the CPU: build "
                       "with CUDA (configure --with-cuda=DIR; README.md)", verb, there, plural);
    else
        findings_judge(findings, JUDGEMENT_WARN, "there %s %u NVIDIA GPU%s here, and runs compute on the CPU: GPUs "
                       "need a driver as new as the program's CUDA, and devices that the process may see "
                       "(CUDA_VISIBLE_DEVICES, docker run --gpus all)", verb, there, plural);
}

static void look(const struct nvml *nvml, struct gpu *gpu, struct gpu_state *state_out)
{
    if (nvml == NULL || !nvml_look_at(nvml, gpu->description.bus, state_out))
        *state_out = (struct gpu_state){ .name = "" };
}

static void add_gpus(struct findings *findings, const struct machine *machine, const struct nvml *nvml,
                     const struct device_ops *ops)
{
    struct gpu gpus[COPY_SPEED_DEVICES_MAX] = { { .index = 0 } };
    struct copy_speeds speeds;
    const uint32_t count = machine->gpus < COPY_SPEED_DEVICES_MAX ? machine->gpus : COPY_SPEED_DEVICES_MAX;
    for (uint32_t i = 0; i < count; i++) {
        gpus[i].index = i;
        if (ops->describe(i, &gpus[i].description) == 0)
            look(nvml, &gpus[i], &gpus[i].before);
    }
    copy_speeds_measure(ops, count, &speeds);
    for (uint32_t i = 0; i < count; i++) {
        gpus[i].copy_bytes_per_second = speeds.to[i];
        look(nvml, &gpus[i], &gpus[i].after);
        gpu_add(findings, machine, &gpus[i]);
    }
    peers_add(findings, &speeds);
}

void topic_devices(struct findings *findings, const struct machine *machine, const struct nvml *nvml,
                   const char *why_no_gpu, const char *why_no_nvml)
{
    const struct device_ops *const ops = device_find("cuda");
    if (machine->gpus > 0 && ops != NULL)
        findings_add(findings, TOPIC, "usable", "%u by CUDA", machine->gpus);
    else
        add_absence(findings, machine, nvml, why_no_gpu);
    if (machine->gpus > 0 || nvml != NULL)
        add_driver(findings, nvml, why_no_nvml);
    if (machine->gpus > 0 && ops != NULL)
        add_gpus(findings, machine, nvml, ops);
}
