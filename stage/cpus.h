/* CPUs of the machine: lists of them as the kernel writes them ("0-3,8,10-11"), and binding the calling thread. */
#ifndef PIPETRAIN_CPUS_H
#define PIPETRAIN_CPUS_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>

/* The CPUs of a list, which may end with a newline. False when it is no list, or names CPUs from CPU_SETSIZE on. */
bool cpu_list_parse(const char *list, cpu_set_t *cpus_out);
/* The list of a set, "" for an empty one. A list longer than text_size, which is 4 at least, is cut and ends in
 * dots. */
void cpu_list_write(const cpu_set_t *cpus, char *text, size_t text_size);

/* Bind the calling thread to those of `cpus` that it may use already: what a launcher or taskset gave stays the
 * limit. Writes what it could use to *before_out and returns true; or changes nothing and returns false, when there
 * are none. */
bool cpus_bind(const cpu_set_t *cpus, cpu_set_t *before_out);
/* The same with the CPUs of a NUMA node; false also for a negative or unknown node. */
bool cpus_bind_to_node(int node, cpu_set_t *before_out);
/* Undo a binding of the calling thread. */
void cpus_restore(const cpu_set_t *before);

#endif
