/* Findings about the memory that a run can use. */
#include "tools/doctor/topics.h"

#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

#include "tools/lib/limits.h"
#include "tools/lib/text/number.h"

#define TOPIC "memory"
#define SHARED_LEAST ((uint64_t)1 << 30)        /* the size that NCCL's documentation recommends for containers */

static uint64_t meminfo(const struct machine *machine, const char *key)
{
    uint64_t kib = 0;
    return machine_row_number(machine, "proc/meminfo", key, &kib) ? kib * 1024 : 0;
}

static void add_ram(struct findings *findings, const struct machine *machine)
{
    const uint64_t total = meminfo(machine, "MemTotal"), available = meminfo(machine, "MemAvailable");
    if (total == 0)
        return;
    findings_add(findings, TOPIC, "ram", "%s of %s are available", number_bytes(available).text,
                 number_bytes(total).text);
    if (available < total / 4)
        findings_judge(findings, JUDGEMENT_NOTE, "other programs use most of it: the run's plan has to fit into the "
                       "rest, and so do shards that should stay in the page cache");
}

static void add_group(struct findings *findings, const struct machine *machine)
{
    const size_t left = cgroup_memory_left(machine->root);
    const uint64_t available = meminfo(machine, "MemAvailable");
    if (left == SIZE_MAX || (available > 0 && left >= available)) {
        findings_add(findings, TOPIC, "group", "no control group limits it further");
        return;
    }
    findings_add(findings, TOPIC, "group", "a control group leaves %s", number_bytes(left).text);
    findings_judge(findings, JUDGEMENT_NOTE, "a run that plans more is refused, and less of the shards stays in the "
                   "page cache: for more, raise the limit (memory.max, docker --memory)");
}

/* NCCL exchanges data between the GPUs of a machine through /dev/shm. */
static void add_shared(struct findings *findings, const struct machine *machine)
{
    char path[512];
    struct statvfs status;
    snprintf(path, sizeof(path), "%s/dev/shm", machine->root);
    if (machine->gpus < 2)
        return;
    if (statvfs(path, &status) != 0) {
        findings_add(findings, TOPIC, "shared", "there is no /dev/shm");
        findings_judge(findings, JUDGEMENT_WARN, "NCCL needs it to share memory between GPUs: mount a tmpfs of 1 GiB");
        return;
    }
    const uint64_t bytes = (uint64_t)status.f_blocks * status.f_frsize;
    findings_add(findings, TOPIC, "shared", "%s in /dev/shm", number_bytes(bytes).text);
    if (bytes < SHARED_LEAST)
        findings_judge(findings, JUDGEMENT_WARN, "too small for NCCL, which shares memory between GPUs there: "
                       "docker run --shm-size=1g, or mount -o remount,size=1g /dev/shm");
}

/* The program asks for huge pages with madvise. */
static void add_huge_pages(struct findings *findings, const struct machine *machine)
{
    char modes[128];
    if (!machine_line(machine, modes, sizeof(modes), "sys/kernel/mm/transparent_hugepage/enabled"))
        return;
    const bool are_off = strstr(modes, "[never]") != NULL;
    findings_add(findings, TOPIC, "huge pages", "%s", are_off ? "disabled" : "enabled");
    if (are_off)
        findings_judge(findings, JUDGEMENT_NOTE, "computing on the CPU has more TLB misses: as root, echo madvise "
                       "> /sys/kernel/mm/transparent_hugepage/enabled");
}

void topic_memory(struct findings *findings, const struct machine *machine)
{
    add_ram(findings, machine);
    add_group(findings, machine);
    add_shared(findings, machine);
    add_huge_pages(findings, machine);
}
