/* The topics of --doctor, in the order of its output. Each adds findings; what the machine does not report is left out.
 * Main thread only. */
#ifndef PIPETRAIN_TOPICS_H
#define PIPETRAIN_TOPICS_H

#include "compute/backend.h"
#include "tools/doctor/finding.h"
#include "tools/doctor/machine.h"
#include "tools/doctor/nvml.h"
#include "tools/lib/cpu_times.h"

/* How busy the CPUs are, from two readings. */
void topic_load(struct findings *findings, const struct machine *machine, const struct cpu_times *before,
                const struct cpu_times *after);
/* CPUs that the process may use, their cores, quota and frequency; the threads of the run. */
void topic_cores(struct findings *findings, const struct machine *machine);
/* Available memory, huge pages, shared memory for NCCL. */
void topic_memory(struct findings *findings, const struct machine *machine);
/* Does oneDNN use the newest instructions of the CPU? `used`: those that it uses. */
void topic_instructions(struct findings *findings, const struct machine *machine, enum instructions used);
/* GPUs that a run can use, with measured copies, or `why_no_gpu`. `nvml` may be NULL, for `why_no_nvml`. */
void topic_gpus(struct findings *findings, const struct machine *machine, const struct nvml *nvml,
                const char *why_no_gpu, const char *why_no_nvml);
/* Shards of the run: size, place, share in the page cache, speed of the disk. Takes a second or two. */
void topic_data(struct findings *findings, const struct machine *machine);
/* Version and path of every library. */
void topic_libraries(struct findings *findings);

/* ---- of topic_data ---- */

/* How many bytes of the open file are in the page cache; does not read the file. Returns 0; -EPERM if the kernel
 * reports them only to the file's owner and to those who may write it; or another negative errno. */
int page_cache_count(int fd, const char *path, uint64_t file_bytes, uint64_t *cached_out);

struct disk_read { uint64_t bytes, elapsed_ns; };
/* Read from the middle of the file past the page cache (O_DIRECT), and add to `*sum` until it has `bytes_most` bytes or
 * `ns_most` nanoseconds. Returns 0, -EINVAL if the file system cannot do that, or another negative errno. */
int disk_read(const char *path, uint64_t file_bytes, uint64_t bytes_most, uint64_t ns_most, struct disk_read *sum);

#endif
