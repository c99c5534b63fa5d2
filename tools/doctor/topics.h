/* The topics of --doctor, in the order in which they are told. Each adds its findings; what a machine does not tell of
 * itself is left out. Main only. */
#ifndef PIPETRAIN_TOPICS_H
#define PIPETRAIN_TOPICS_H

#include "compute/backend.h"
#include "tools/doctor/finding.h"
#include "tools/doctor/machine.h"
#include "tools/doctor/nvml.h"
#include "tools/limits/cpu_times.h"

/* CPUs the process may use, cores they are threads of, quota, frequencies, NUMA nodes; the run's threads. */
void topic_cores(struct findings *findings, const struct machine *machine);
/* Memory there is and is left, limits, huge pages, what may be locked, shared memory. */
void topic_memory(struct findings *findings, const struct machine *machine);
/* Instructions of the CPU, and those that oneDNN takes: `taken`. */
void topic_instructions(struct findings *findings, const struct machine *machine, enum instructions taken);
/* Version and file of every library. */
void topic_libraries(struct findings *findings, const struct machine *machine);
/* GPUs that a run can use, with measured copies, or `why_no_gpu`; `nvml` may be NULL: `why_no_nvml`. */
void topic_devices(struct findings *findings, const struct machine *machine, const struct nvml *nvml,
                   const char *why_no_gpu, const char *why_no_nvml);
/* Shards of the run: how much, where, how much of it in the page cache, how fast it is read past that. Takes a second
 * or two. */
void topic_data(struct findings *findings, const struct machine *machine);

/* How busy CPUs are: two looks at them, some time apart. */
void topic_load(struct findings *findings, const struct machine *machine, const struct cpu_times *before,
                const struct cpu_times *after);

#endif
