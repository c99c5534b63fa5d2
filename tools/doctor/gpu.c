/* The GPUs that a run can use: what limits the speed of each, and the measured speed of copies to them and between
 * them. */
#include "tools/doctor/gpu.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stage/cpus.h"
#include "tools/doctor/topics.h"
#include "tools/lib/text/number.h"

#define TOPIC "gpu"
#define COPY_BYTES ((size_t)32 << 20)
#define COPIES 4u
#define ROW_BYTES 1024
#define NVIDIA "0x10de"
#define CLASS_DISPLAY "0x03"    /* PCI class of VGA and 3D controllers */
#define USED_MOST 0.1           /* share of the memory used by other processes; drivers keep a little for themselves */
#define COPY_LEAST 0.5          /* share of the link's bandwidth: good copies reach 0.8 and more */
#define SLOWEST 0.5             /* share of the speed of the fastest pair: slower pairs are connected in another way */

/* ---- measured copies ---- */

/* An open device, with a buffer in its memory and a buffer in pinned host memory. */
struct endpoint {
    char name[24];
    struct device *device;
    struct stream *stream;
    struct event *begun, *ended;
    void *memory, *pinned;
};

static int open_endpoint(struct endpoint *endpoint, const struct device_ops *ops, uint32_t index)
{
    *endpoint = (struct endpoint){ .device = NULL };
    snprintf(endpoint->name, sizeof(endpoint->name), "%s%u", ops->kind, index);
    const struct device_spec spec = { .index = index, .name = endpoint->name };
    int rc = ops->open(&endpoint->device, &spec);
    if (rc != 0) {
        endpoint->device = NULL;
        return rc;
    }
    rc = ops->stream_open(endpoint->device, STREAM_COPY, "doctor", &endpoint->stream);
    if (rc == 0)
        rc = ops->event_open(endpoint->device, EVENT_TIMED, &endpoint->begun);
    if (rc == 0)
        rc = ops->event_open(endpoint->device, EVENT_TIMED, &endpoint->ended);
    if (rc == 0)
        rc = ops->alloc(endpoint->device, COPY_BYTES, &endpoint->memory);
    return rc != 0 ? rc : ops->alloc_pinned(endpoint->device, COPY_BYTES, &endpoint->pinned);
}

static void close_endpoint(struct endpoint *endpoint)
{
    if (endpoint->device == NULL)
        return;
    const struct device_ops *const ops = endpoint->device->ops;
    if (endpoint->stream != NULL)
        ops->stream_close(endpoint->stream);
    if (endpoint->begun != NULL)
        ops->event_close(endpoint->begun);
    if (endpoint->ended != NULL)
        ops->event_close(endpoint->ended);
    ops->free(endpoint->device, endpoint->memory);
    ops->free_pinned(endpoint->device, endpoint->pinned);
    ops->close(endpoint->device);
}

/* Bytes per second of copies to `to`. The first copy is not timed, because it may initialise something. 0: a copy
 * failed. */
static double measure_copies(struct endpoint *to, const void *from, enum copy_direction direction)
{
    const struct device_ops *const ops = to->device->ops;
    uint64_t elapsed_ns = 0;
    int rc = ops->copy(to->stream, to->memory, from, COPY_BYTES, direction);
    if (rc == 0)
        rc = ops->record(to->stream, to->begun);
    for (uint32_t i = 0; i < COPIES && rc == 0; i++)
        rc = ops->copy(to->stream, to->memory, from, COPY_BYTES, direction);
    if (rc == 0)
        rc = ops->record(to->stream, to->ended);
    if (rc == 0)
        rc = ops->event_wait(to->ended);
    if (rc == 0)
        rc = ops->event_elapsed(to->begun, to->ended, &elapsed_ns);
    return rc == 0 && elapsed_ns > 0 ? (double)(COPIES * COPY_BYTES) * 1e9 / (double)elapsed_ns : 0;
}

static void measure_pair(struct endpoint *endpoints, uint32_t from, uint32_t to, struct gpu_copies *speeds)
{
    const struct device_ops *const ops = endpoints[to].device->ops;
    speeds->reaches[to][from] = ops->reaches(to, from);
    if (speeds->reaches[to][from] && ops->connect(endpoints[to].device, endpoints[from].device) != 0)
        return;
    speeds->between[from][to] = measure_copies(&endpoints[to], endpoints[from].memory, COPY_ON_DEVICE);
}

/* Measure the devices 0 to count - 1. If a device or a copy fails, a message is printed and the speed stays 0. */
static void measure_all(const struct device_ops *ops, uint32_t count, struct gpu_copies *speeds_out)
{
    struct endpoint endpoints[GPUS_MEASURED_MAX];
    bool are_open[GPUS_MEASURED_MAX];
    *speeds_out = (struct gpu_copies){ .count = count < GPUS_MEASURED_MAX ? count : GPUS_MEASURED_MAX };
    for (uint32_t i = 0; i < speeds_out->count; i++)
        are_open[i] = open_endpoint(&endpoints[i], ops, i) == 0;
    for (uint32_t i = 0; i < speeds_out->count; i++)
        speeds_out->to[i] = are_open[i] ? measure_copies(&endpoints[i], endpoints[i].pinned, COPY_TO_DEVICE) : 0;
    for (uint32_t from = 0; from < speeds_out->count; from++)
        for (uint32_t to = 0; to < speeds_out->count; to++)
            if (from != to && are_open[from] && are_open[to])
                measure_pair(endpoints, from, to, speeds_out);
    for (uint32_t i = 0; i < speeds_out->count; i++)
        close_endpoint(&endpoints[i]);
}

/* ---- PCI Express ---- */

struct link { uint32_t generation, generation_most, lanes, lanes_most; };

/* The PCIe generation of a speed as the kernel writes it, such as "16.0 GT/s PCIe". 0: unknown. */
static uint32_t generation_of(const char *speed)
{
    static const double transfers[] = { 0, 2.5, 5, 8, 16, 32, 64 };
    const double value = atof(speed);
    uint32_t generation = sizeof(transfers) / sizeof(transfers[0]) - 1;
    while (generation > 0 && (value < transfers[generation] - 0.1 || value > transfers[generation] + 0.1))
        generation--;
    return generation;
}

/* Bytes per second in one direction, without the overhead of the encoding. */
static double link_speed(uint32_t generation, uint32_t lanes)
{
    static const double per_lane[] = { 0, 0.25e9, 0.5e9, 0.985e9, 1.969e9, 3.938e9, 7.563e9 };
    return generation < sizeof(per_lane) / sizeof(per_lane[0]) ? per_lane[generation] * lanes : 0;
}

static uint32_t read_generation(const struct machine *machine, const char *bus, const char *name)
{
    char speed[64];
    const bool is_known = machine_line(machine, speed, sizeof(speed), "sys/bus/pci/devices/%s/%s", bus, name);
    return is_known ? generation_of(speed) : 0;
}

static uint32_t read_lanes(const struct machine *machine, const char *bus, const char *name)
{
    uint64_t lanes;
    return machine_number(machine, &lanes, "sys/bus/pci/devices/%s/%s", bus, name) && lanes <= 32 ? (uint32_t)lanes : 0;
}

/* The link as NVML reports it, else as the kernel does: only NVML takes the limits of the slot into account. */
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

/* Add the finding about the link. Its generation is lowered while a device is idle, but its lanes are not. */
static void add_link(struct findings *findings, const struct gpu *gpu, const struct link *link)
{
    if (link->generation == 0 || link->lanes == 0)
        return;
    findings_add(findings, TOPIC, "link", "%u: PCIe generation %u with %u lanes now, %u with %u at most", gpu->index,
                 link->generation, link->lanes, link->generation_most, link->lanes_most);
    if (link->lanes < link->lanes_most)
        findings_judge(findings, JUDGEMENT_WARN, "copies of batches, and reductions without NVLink, take up to %.3g "
                       "times as long: check the slot, riser cables, and devices that share its lanes",
                       (double)link->lanes_most / link->lanes);
}

static void add_copies(struct findings *findings, const struct gpu *gpu, const struct link *link)
{
    const double possible = link_speed(link->generation_most, link->lanes);
    if (gpu->copy_bytes_per_second <= 0)
        return;
    findings_add(findings, TOPIC, "copies", "%u: %.1f GB/s measured from pinned memory to it", gpu->index,
                 gpu->copy_bytes_per_second / 1e9);
    if (gpu->copy_bytes_per_second < COPY_LEAST * possible)
        findings_judge(findings, JUDGEMENT_NOTE, "its link can carry %.1f GB/s: other copies may run now, the pinned "
                       "memory may be at another socket (see node), or the slot may be narrower than the device",
                       possible / 1e9);
}

/* ---- NUMA node ---- */

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
        findings_judge(findings, JUDGEMENT_WARN, "the process may use none of these CPUs, so every batch crosses to "
                       "another socket: numactl --cpunodebind=%u, or change the job's CPU binding",
                       (unsigned)node);
}

/* ---- clocks, and memory in use ---- */

static void add_clocks(struct findings *findings, const struct gpu *gpu)
{
    static const struct { uint64_t reason; enum judgement judgement; const char *advice; } reasons[] = {
        { NVML_REASON_HOT, JUDGEMENT_WARN, "it is too hot and has reduced its clock: check its cooling" },
        { NVML_REASON_WARM, JUDGEMENT_WARN, "it is near its maximum temperature and has reduced its clock: check "
          "its cooling" },
        { NVML_REASON_POWER_BRAKE, JUDGEMENT_WARN, "the power supply makes it reduce its clock: check the supply" },
        { NVML_REASON_HARDWARE, JUDGEMENT_WARN, "its hardware halves its clock or more: check its cooling and power "
          "cables" },
        { NVML_REASON_POWER_CAP, JUDGEMENT_NOTE, "it is at its power limit: nvidia-smi -q -d POWER shows whether the "
          "limit was lowered" },
        { NVML_REASON_SETTING, JUDGEMENT_NOTE, "its clocks were set: nvidia-smi -rac resets them" },
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
        findings_judge(findings, JUDGEMENT_WARN, "other processes use it (see nvidia-smi), so a run gets the rest of "
                       "its memory and a share of its time: end them, or use other GPUs (devices.list)");
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
}

/* ---- copies between GPUs ---- */

static void put_pair(const struct gpu_copies *speeds, uint32_t from, uint32_t to, char *row)
{
    const size_t bytes = strlen(row);
    const char *const comma = bytes > 0 ? ", " : "", *const way = speeds->reaches[to][from] ? "" : " by the host";
    if (speeds->between[from][to] > 0)
        snprintf(row + bytes, ROW_BYTES - bytes, "%s%u %.1f%s", comma, to, speeds->between[from][to] / 1e9, way);
    else
        snprintf(row + bytes, ROW_BYTES - bytes, "%s%u not measured", comma, to);
}

static double fastest(const struct gpu_copies *speeds)
{
    double most = 0;
    for (uint32_t i = 0; i < speeds->count; i++)
        for (uint32_t j = 0; j < speeds->count; j++)
            most = speeds->between[i][j] > most ? speeds->between[i][j] : most;
    return most;
}

static void add_row(struct findings *findings, const struct gpu_copies *speeds, uint32_t from)
{
    char row[ROW_BYTES] = "";
    uint32_t apart = 0, slow = 0;
    const double most = fastest(speeds);
    for (uint32_t to = 0; to < speeds->count; to++) {
        if (to == from)
            continue;
        put_pair(speeds, from, to, row);
        apart += !speeds->reaches[to][from];
        slow += speeds->between[from][to] > 0 && speeds->between[from][to] < SLOWEST * most;
    }
    findings_add(findings, TOPIC, "peers", "GB/s from %u to: %s", from, row);
    if (apart > 0)
        findings_judge(findings, JUDGEMENT_WARN, "copies to these GPUs go through host memory, and sync.reduce = peer "
                       "is refused: PCI access control (ACS) or an IOMMU may prevent peer access and can be disabled "
                       "(BIOS, kernel); some GPUs have no peer access at all");
    else if (slow > 0)
        findings_judge(findings, JUDGEMENT_NOTE, "some pairs are less than half as fast as the fastest, and a "
                       "reduction is as slow as its slowest pair: use GPUs that are close to each other "
                       "(devices.list)");
}

void gpu_add_peers(struct findings *findings, const struct gpu_copies *speeds)
{
    for (uint32_t from = 0; from < speeds->count && speeds->count > 1; from++)
        add_row(findings, speeds, from);
}

/* ---- GPUDirect RDMA: network adapters that access the memory of GPUs ---- */

#define ADAPTERS_BYTES 128u

/* Write the names of the machine's RDMA adapters, such as "mlx5_0, mlx5_1". "": there are none. */
static void list_adapters(const struct machine *machine, char names[ADAPTERS_BYTES])
{
    char path[512];
    snprintf(path, sizeof(path), "%s/sys/class/infiniband", machine->root);
    DIR *const folder = opendir(path);
    *names = '\0';
    for (struct dirent *entry = NULL; folder != NULL && (entry = readdir(folder)) != NULL;) {
        const size_t used = strlen(names);
        if (entry->d_name[0] != '.')
            snprintf(names + used, ADAPTERS_BYTES - used, "%s%.32s", used > 0 ? ", " : "", entry->d_name);
    }
    if (folder != NULL)
        closedir(folder);
}

/* Does the kernel pass GPU memory to adapters as DMA buffers? The driver's open kernel modules do, with Linux 5.12 or
 * newer. */
static bool has_dma_buffers(const struct machine *machine)
{
    char driver[256], release[64];
    int major = 0, minor = 0;
    return machine_line(machine, driver, sizeof(driver), "proc/driver/nvidia/version") &&
           strstr(driver, "Open Kernel Module") != NULL &&
           machine_line(machine, release, sizeof(release), "proc/sys/kernel/osrelease") &&
           sscanf(release, "%d.%d", &major, &minor) == 2 && (major > 5 || (major == 5 && minor >= 12));
}

static bool is_loaded(const struct machine *machine, const char *module)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/sys/module/%s", machine->root, module);
    return access(path, F_OK) == 0;
}

/* The variable of NCCL that turns it off; NULL: none does. */
static const char *find_ban(void)
{
    static const char *const variables[][2] = { { "NCCL_IB_DISABLE", "1" }, { "NCCL_NET_GDR_LEVEL", "LOC" },
                                                { "NCCL_NET_GDR_LEVEL", "0" }, { "NCCL_NET", "Socket" } };
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
        const char *const value = getenv(variables[i][0]);
        if (value != NULL && strcmp(value, variables[i][1]) == 0)
            return variables[i][0];
    }
    return NULL;
}

void gpu_add_direct(struct findings *findings, const struct machine *machine)
{
    char adapters[ADAPTERS_BYTES];
    const bool has_buffers = has_dma_buffers(machine);
    const char *const ban = find_ban();
    list_adapters(machine, adapters);
    if (*adapters == '\0') {
        findings_add(findings, TOPIC, "direct", "no RDMA adapter: between hosts NCCL sends through host memory");
        return;
    }
    if (!has_buffers && !is_loaded(machine, "nvidia_peermem")) {
        findings_add(findings, TOPIC, "direct", "GPUDirect RDMA is not possible with %s", adapters);
        findings_judge(findings, JUDGEMENT_NOTE, "between hosts NCCL sends through host memory: modprobe nvidia_peermem, "
                       "or install the open kernel modules of NVIDIA's driver on Linux 5.12 or newer");
        return;
    }
    findings_add(findings, TOPIC, "direct", "GPUDirect RDMA is possible with %s, by %s", adapters,
                 has_buffers ? "DMA buffers" : "nvidia_peermem");
    if (ban != NULL)
        findings_judge(findings, JUDGEMENT_NOTE, "%s keeps NCCL from using it: unset it; NCCL_DEBUG=INFO then prints "
                       "GDRDMA for each connection that does", ban);
}

void gpu_add_sharing(struct findings *findings, const struct sharing *sharing)
{
    if (sharing->works) {
        findings_add(findings, TOPIC, "sharing", "memory is shared between processes: yes");
        return;
    }
    findings_add(findings, TOPIC, "sharing", "memory is shared between processes: no (%s)", sharing->why);
    findings_judge(findings, JUDGEMENT_NOTE, "ranks of this host sum by NCCL or in host memory, not by sync.reduce = "
                   "ipc; several towers of one process do not need it. Parts of a GPU (MIG), some virtual machines and "
                   "some containers cannot share");
}

/* ---- all GPUs ---- */

/* The number of NVIDIA GPUs on the PCI bus, with or without a driver. */
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
        findings_add(findings, TOPIC, "nvml", "memory in use, clocks and temperatures are unknown: %s", why);
}

/* Add the finding that no GPU can be used, although the machine may have some. */
static void add_unusable(struct findings *findings, const struct machine *machine, const struct nvml *nvml,
                        const char *why)
{
    const uint32_t of_driver = nvml != NULL ? nvml_count(nvml) : 0, on_bus = count_on_bus(machine);
    const uint32_t count = of_driver > on_bus ? of_driver : on_bus;
    findings_add(findings, TOPIC, "usable", "none: %s", why);
    if (count == 0)
        return;
    const char *const verb = count == 1 ? "is" : "are", *const plural = count == 1 ? "" : "s";
    if (device_find("cuda") == NULL)
        findings_judge(findings, JUDGEMENT_WARN, "there %s %u NVIDIA GPU%s here, but runs compute on the CPU: build "
                       "with CUDA (configure --with-cuda=DIR; README.md)", verb, count, plural);
    else
        findings_judge(findings, JUDGEMENT_WARN, "there %s %u NVIDIA GPU%s here, but runs compute on the CPU: CUDA "
                       "needs a driver as new as itself, and GPUs that the process may see (CUDA_VISIBLE_DEVICES, "
                       "docker run --gpus all)", verb, count, plural);
}

static void read_state(const struct nvml *nvml, const struct gpu *gpu, struct gpu_state *state_out)
{
    if (nvml == NULL || !nvml_read(nvml, gpu->description.bus, state_out))
        *state_out = (struct gpu_state){ .memory_bytes = 0 };
}

static void add_gpus(struct findings *findings, const struct machine *machine, const struct nvml *nvml,
                     const struct device_ops *ops)
{
    struct gpu gpus[GPUS_MEASURED_MAX] = { { .index = 0 } };
    struct gpu_copies speeds;
    const uint32_t count = machine->gpus < GPUS_MEASURED_MAX ? machine->gpus : GPUS_MEASURED_MAX;
    for (uint32_t i = 0; i < count; i++) {
        gpus[i].index = i;
        if (ops->describe(i, &gpus[i].description) == 0)
            read_state(nvml, &gpus[i], &gpus[i].before);
    }
    measure_all(ops, count, &speeds);
    for (uint32_t i = 0; i < count; i++) {
        gpus[i].copy_bytes_per_second = speeds.to[i];
        read_state(nvml, &gpus[i], &gpus[i].after);
        gpu_add(findings, machine, &gpus[i]);
    }
    gpu_add_peers(findings, &speeds);
    gpu_add_direct(findings, machine);
}

void topic_gpus(struct findings *findings, const struct machine *machine, const struct nvml *nvml,
                const char *why_no_gpu, const char *why_no_nvml)
{
    const struct device_ops *const ops = device_find("cuda");
    if (machine->gpus > 0 && ops != NULL)
        findings_add(findings, TOPIC, "usable", "%u by CUDA", machine->gpus);
    else
        add_unusable(findings, machine, nvml, why_no_gpu);
    if (machine->gpus > 0 || nvml != NULL)
        add_driver(findings, nvml, why_no_nvml);
    if (machine->gpus > 0 && ops != NULL)
        add_gpus(findings, machine, nvml, ops);
}
