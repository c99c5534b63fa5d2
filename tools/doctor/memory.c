/* Memory that a run may take, and what may be done with it. */
#include "tools/doctor/topics.h"

#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

#include "tools/config/number.h"
#include "tools/limits/cgroup.h"
#include "tools/limits/limits.h"

#define TOPIC "memory"
#define SHARED_LEAST ((uint64_t)1 << 30)        /* that NCCL's makers ask for in a container */
#define SWAPPED_MOST ((uint64_t)1 << 30)

static uint64_t meminfo(const struct machine *machine, const char *key)
{
    uint64_t kib = 0;
    return machine_row_number(machine, "proc/meminfo", key, &kib) ? kib * 1024 : 0;
}

static void add_ram(struct findings *findings, const struct machine *machine)
{
    const uint64_t total = meminfo(machine, "MemTotal"), there = meminfo(machine, "MemAvailable");
    if (total == 0)
        return;
    findings_add(findings, TOPIC, "ram", "%s of %s can be had", number_bytes(there).text, number_bytes(total).text);
    if (there < total / 4)
        findings_judge(findings, JUDGEMENT_NOTE, "other programs hold most of it: what a run plans must fit into the "
                       "rest, and shards that stay in the page cache, too");
}

static void add_group(struct findings *findings, const struct machine *machine)
{
    const size_t left = cgroup_memory_left(machine->root);
    const uint64_t there = meminfo(machine, "MemAvailable");
    if (left == SIZE_MAX || (there > 0 && left >= there)) {
        findings_add(findings, TOPIC, "group", "no control group leaves less than there is");
        return;
    }
    findings_add(findings, TOPIC, "group", "a control group leaves %s", number_bytes(left).text);
    findings_judge(findings, JUDGEMENT_NOTE, "a run that plans more is refused, and less of the shards stays in the "
                   "page cache: for more, raise its limit (memory.max, docker --memory)");
}

static void add_limits(struct findings *findings)
{
    const struct limits_left left = limits_left();
    const size_t least = left.address_space < left.data ? left.address_space : left.data;
    if (least == SIZE_MAX) {
        findings_add(findings, TOPIC, "limits", "none of the process' own (ulimit -v, -d)");
        return;
    }
    findings_add(findings, TOPIC, "limits", "ulimit -%c leaves %s", least == left.data ? 'd' : 'v',
                 number_bytes(least).text);
    findings_judge(findings, JUDGEMENT_NOTE, "a run that plans more is refused: ulimit -%c unlimited, before the "
                   "program is started", least == left.data ? 'd' : 'v');
}

/* Pinned memory of CUDA is the driver's matter and not limited by this; what network cards read and write is. */
static void add_memlock(struct findings *findings, const struct machine *machine)
{
    if (machine->memlock_bytes == UINT64_MAX) {
        findings_add(findings, TOPIC, "memlock", "any amount may be locked (ulimit -l)");
        return;
    }
    findings_add(findings, TOPIC, "memlock", "%s may be locked (ulimit -l)%s",
                 number_bytes(machine->memlock_bytes).text,
                 machine->gpus > 1 ? "" : "; only several GPUs or network cards may want more");
    if (machine->gpus > 1)
        findings_judge(findings, JUDGEMENT_NOTE, "where NCCL cannot share memory between GPUs or with a network card, "
                       "this is the first to look at: ulimit -l unlimited, docker run --ulimit memlock=-1");
}

static void add_shared(struct findings *findings, const struct machine *machine)
{
    char path[512];
    struct statvfs there;
    snprintf(path, sizeof(path), "%s/dev/shm", machine->root);
    if (machine->gpus < 2)
        return;
    if (statvfs(path, &there) != 0) {
        findings_add(findings, TOPIC, "shared", "there is no /dev/shm");
        findings_judge(findings, JUDGEMENT_WARN, "NCCL shares memory between GPUs there: mount a tmpfs of 1 GiB");
        return;
    }
    const uint64_t bytes = (uint64_t)there.f_blocks * there.f_frsize;
    findings_add(findings, TOPIC, "shared", "%s in /dev/shm", number_bytes(bytes).text);
    if (bytes < SHARED_LEAST)
        findings_judge(findings, JUDGEMENT_WARN, "NCCL shares memory between GPUs there and may fail for want of room: "
                       "docker run --shm-size=1g, or mount -o remount,size=1g /dev/shm");
}

/* The program asks for huge pages where it computes; the kernel grants them unless it is told not to. */
static void add_huge_pages(struct findings *findings, const struct machine *machine)
{
    char modes[128];
    if (!machine_line(machine, modes, sizeof(modes), "sys/kernel/mm/transparent_hugepage/enabled"))
        return;
    const bool are_off = strstr(modes, "[never]") != NULL;
    findings_add(findings, TOPIC, "huge pages", "%s", are_off ? "none are given" : "given where they are asked for");
    if (are_off)
        findings_judge(findings, JUDGEMENT_NOTE, "computing on the CPU looks up more addresses: as root, echo madvise "
                       "> /sys/kernel/mm/transparent_hugepage/enabled");
}

static void add_swap(struct findings *findings, const struct machine *machine)
{
    const uint64_t total = meminfo(machine, "SwapTotal"), left = meminfo(machine, "SwapFree");
    const uint64_t used = total > left ? total - left : 0;
    if (total == 0) {
        findings_add(findings, TOPIC, "swap", "none");
        return;
    }
    findings_add(findings, TOPIC, "swap", "%s of %s in use", number_bytes(used).text, number_bytes(total).text);
    if (used > SWAPPED_MOST)
        findings_judge(findings, JUDGEMENT_NOTE, "memory was short before: pages of a run that go there stall it; "
                       "leave it more memory than it plans (the plan of --check)");
}

void topic_memory(struct findings *findings, const struct machine *machine)
{
    add_ram(findings, machine);
    add_group(findings, machine);
    add_limits(findings);
    add_memlock(findings, machine);
    add_shared(findings, machine);
    add_huge_pages(findings, machine);
    add_swap(findings, machine);
}
