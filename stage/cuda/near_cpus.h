/* The CPUs of a NUMA node, and threads bound to them. */
#ifndef PIPETRAIN_NEAR_CPUS_H
#define PIPETRAIN_NEAR_CPUS_H

#include <sched.h>
#include <stdbool.h>

/* Bind the calling thread to the node's CPUs, as far as it has them already. Writes what it
 * had to *before_out and returns true; returns false and changes nothing when the node is
 * negative or not known, or has none of the thread's CPUs. */
bool near_cpus_bind(int node, cpu_set_t *before_out);
/* The same with given CPUs. */
bool near_cpus_bind_to(const cpu_set_t *near, cpu_set_t *before_out);
/* The calling thread gets the CPUs it had. */
void near_cpus_restore(const cpu_set_t *before);

#endif
