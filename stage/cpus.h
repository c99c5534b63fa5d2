/* CPUs of the machine: CPU lists in the kernel's format ("0-3,8,10-11"), and binding the calling thread. */
#ifndef PIPETRAIN_CPUS_H
#define PIPETRAIN_CPUS_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>

/* Parse a list, which may end with a newline. False if it is not a list or has CPUs from CPU_SETSIZE on. */
bool cpu_list_parse(const char *list, cpu_set_t *cpus_out);
/* Write the list of a set, "" for an empty set. A list longer than text_size, which is at least 4, is truncated and
 * ends in dots. */
void cpu_list_write(const cpu_set_t *cpus, char *text, size_t text_size);

/* Bind the calling thread to those of `cpus` that its affinity, set by a launcher or taskset, already allows. Returns
 * true and the previous affinity in *before_out; or false, without any change, if none of `cpus` is allowed. */
bool cpus_bind(const cpu_set_t *cpus, cpu_set_t *before_out);
/* As cpus_bind, with the CPUs of a NUMA node; false also for a negative or unknown node. */
bool cpus_bind_to_node(int node, cpu_set_t *before_out);
/* Restore the affinity that the calling thread had before a binding. */
void cpus_restore(const cpu_set_t *before);

#endif
