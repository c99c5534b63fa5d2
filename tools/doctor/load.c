/* What others do on the CPUs meanwhile. */
#include "tools/doctor/topics.h"

#include <stdio.h>

#define TOPIC "cores"
#define BUSY_MOST 0.2           /* of the CPUs' time; a machine that idles has some services */
#define STOLEN_MOST 0.02

void topic_load(struct findings *findings, const struct machine *machine, const struct cpu_times *before,
                const struct cpu_times *after)
{
    const uint64_t all = after->all - before->all;
    if (after->all <= before->all)
        return;
    const double busy = (double)(after->busy - before->busy) / (double)all;
    const double stolen = (double)(after->stolen - before->stolen) / (double)all;
    findings_add(findings, TOPIC, "load", "%.0f %% of the CPUs' time is used by others now", 100 * busy);
    if (busy > BUSY_MOST)
        findings_judge(findings, JUDGEMENT_WARN, "about %.1f of %d CPUs are busy with other programs (top shows "
                       "which): a run shares with them; end them, or keep them on other CPUs (taskset)",
                       busy * CPU_COUNT(&machine->cpus), CPU_COUNT(&machine->cpus));
    if (after->stolen <= before->stolen)
        return;
    findings_add(findings, TOPIC, "stolen", "%.0f %% of the CPUs' time is given to others by the machine's host",
                 100 * stolen);
    if (stolen > STOLEN_MOST)
        findings_judge(findings, JUDGEMENT_WARN, "threads of this virtual machine stand still meanwhile, and speeds "
                       "are not to be compared: only who runs the host can change that");
}
