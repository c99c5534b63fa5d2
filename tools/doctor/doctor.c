/* Examines all topics, one after the other. */
#include "tools/doctor/doctor.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "stage/log.h"
#include "stage/stop.h"
#include "tools/doctor/gpu.h"
#include "tools/doctor/sharing.h"
#include "tools/doctor/topics.h"

#define LOAD_NS 300000000L      /* time over which the load of the CPUs is measured */
#define REASON_BYTES 256
#define SHARING_NS 60000000000u   /* CUDA takes some seconds to start with many GPUs */

int doctor_form_find(const char *name, enum doctor_form *form_out)
{
    if (strcmp(name, "json") == 0) {
        *form_out = DOCTOR_JSON;
        return 0;
    }
    log_message(LOG_ERROR, "--doctor=%.40s: unknown form: --doctor prints a table, --doctor=json an object a line",
                name);
    return -EINVAL;
}

static void machine_init(struct machine *machine, const struct settings *settings)
{
    *machine = (struct machine){ .root = "", .settings = settings };
    if (sched_getaffinity(0, sizeof(machine->cpus), &machine->cpus) != 0) {
        CPU_ZERO(&machine->cpus);
        CPU_SET(0, &machine->cpus);
    }
}

/* Plan the devices of the run. A failure is added as a finding. */
static void plan_devices(struct findings *findings, struct machine *machine, struct run_devices *plan)
{
    struct problems problems;
    if (machine->settings == NULL)
        return;
    problems_init(&problems);
    if (run_devices_init(plan, machine->settings, &problems) == 0) {
        machine->plan = plan;
    } else {
        findings_add(findings, "run", "devices", "%s", problems.count > 0 ? problems.lines[0] : strerror(ENOMEM));
        findings_judge(findings, JUDGEMENT_WARN, "the run would be refused: change the setting that is named");
    }
    problems_release(&problems);
}

static void examine_load(struct findings *findings, const struct machine *machine)
{
    const struct timespec pause = { .tv_nsec = LOAD_NS };
    const struct cpu_times before = cpu_times_read(machine->root, &machine->cpus);
    nanosleep(&pause, NULL);
    const struct cpu_times after = cpu_times_read(machine->root, &machine->cpus);
    topic_load(findings, machine, &before, &after);
}

static void examine_gpus(struct findings *findings, const struct machine *machine, const char *why)
{
    struct nvml *nvml = NULL;
    char why_no_nvml[REASON_BYTES] = "";
    nvml_open(&nvml, why_no_nvml, sizeof(why_no_nvml));
    topic_gpus(findings, machine, nvml, why, why_no_nvml);
    nvml_close(nvml);
    if (machine->gpus > 0) {
        struct sharing sharing;
        sharing_try("/proc/self/exe", SHARING_NS, &sharing);
        gpu_add_sharing(findings, &sharing);
    }
}

static void examine_instructions(struct findings *findings, const struct machine *machine)
{
    const struct backend_ops *const onednn = backend_find("onednn");
    if (onednn != NULL && onednn->instructions != NULL)
        topic_instructions(findings, machine, onednn->instructions());
}

static uint32_t count_gpus(char *why, size_t why_size)
{
    const struct device_kind *kind = device_kinds;
    while (strcmp(kind->name, "cuda") != 0)
        kind++;
    return device_kind_count(kind, why, why_size);
}

static void examine(struct findings *findings, const struct settings *settings)
{
    struct machine machine;
    struct run_devices plan;
    char why[REASON_BYTES] = "";
    machine_init(&machine, settings);
    examine_load(findings, &machine);
    plan_devices(findings, &machine, &plan);
    machine.gpus = count_gpus(why, sizeof(why));
    topic_cores(findings, &machine);
    topic_memory(findings, &machine);
    examine_instructions(findings, &machine);
    examine_gpus(findings, &machine, why);
    topic_data(findings, &machine);
    topic_libraries(findings);
}

int doctor_run(const struct settings *settings, enum doctor_form form)
{
    struct findings findings = { .count = 0 };
    examine(&findings, settings);
    if (!findings.failed && form == DOCTOR_TABLE)
        findings_print(&findings, stdout);
    if (!findings.failed && form == DOCTOR_JSON && findings_write(&findings, stdout) != 0)
        findings.failed = true;
    const bool failed = findings.failed;
    findings_release(&findings);
    if (!failed)
        return EXIT_CODE_OK;
    log_message(LOG_ERROR, "--doctor: %s", strerror(ENOMEM));
    return EXIT_CODE_MEMORY;
}
