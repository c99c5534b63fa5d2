/* The topics of --doctor, in the order of the output. Each function adds findings; facts that the machine does not
 * report are skipped. Main thread only. */
#ifndef PIPETRAIN_TOPICS_H
#define PIPETRAIN_TOPICS_H

#include "compute/backend.h"
#include "tools/doctor/finding.h"
#include "tools/doctor/machine.h"
#include "tools/lib/cpu_times.h"
#include "tools/lib/nvml.h"

/* The load of the CPUs between two readings. */
void topic_load(struct findings *findings, const struct machine *machine, const struct cpu_times *before,
                const struct cpu_times *after);
/* The CPUs that the process may use, their cores, quota and frequency; the number of threads of the run. */
void topic_cores(struct findings *findings, const struct machine *machine);
/* Available memory, huge pages, shared memory for NCCL. */
void topic_memory(struct findings *findings, const struct machine *machine);
/* Does oneDNN use the newest instructions of the CPU? `used`: the instruction set that it uses. */
void topic_instructions(struct findings *findings, const struct machine *machine, enum instructions used);
/* The GPUs that a run can use, with measured copies; without any, `why_no_gpu` is reported. `nvml` may be NULL; then
 * `why_no_nvml` is reported. */
void topic_gpus(struct findings *findings, const struct machine *machine, const struct nvml *nvml,
                const char *why_no_gpu, const char *why_no_nvml);
/* The shards of the run: their size and place, the share in the page cache, the speed of the disk. Takes about two
 * seconds. */
void topic_data(struct findings *findings, const struct machine *machine);
/* The version and the path of every library. */
void topic_libraries(struct findings *findings);

/* ---- parts of topic_data ---- */

/* Count the bytes of the open file that are in the page cache, without reading the file. Returns 0; -EPERM if the
 * kernel reports them only to the file's owner and to users who may write it; or another negative errno. */
int page_cache_count(int fd, const char *path, uint64_t file_bytes, uint64_t *cached_out);

struct disk_read { uint64_t bytes, elapsed_ns; };
/* Measure the disk: read from the middle of the file past the page cache (O_DIRECT) until `*sum`, to which bytes and
 * time are added, has `bytes_most` bytes or `ns_most` nanoseconds. Returns 0, -EINVAL if the file system does not
 * support this, or another negative errno. */
int disk_read(const char *path, uint64_t file_bytes, uint64_t bytes_most, uint64_t ns_most, struct disk_read *sum);

#endif
