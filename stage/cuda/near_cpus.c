/* Threads near a device: the kernel tells which CPUs share a node's memory. Threads only
 * ever lose CPUs here, so that what a launcher or taskset gave stays the limit. */
#include "stage/cuda/near_cpus.h"

#include <pthread.h>
#include <stdio.h>

#include "stage/text/cpu_list.h"

#define LIST_BYTES 4096

static bool node_cpus(int node, cpu_set_t *cpus_out)
{
    char path[64], list[LIST_BYTES];
    snprintf(path, sizeof(path), "/sys/devices/system/node/node%d/cpulist", node);
    FILE *file = node >= 0 ? fopen(path, "re") : NULL;
    if (file == NULL)
        return false;
    const bool is_read = fgets(list, sizeof(list), file) != NULL;
    fclose(file);
    return is_read && cpu_list_parse(list, cpus_out);
}

bool near_cpus_bind_to(const cpu_set_t *near, cpu_set_t *before_out)
{
    cpu_set_t before, both;
    if (pthread_getaffinity_np(pthread_self(), sizeof(before), &before))
        return false;
    CPU_AND(&both, near, &before);
    if (CPU_COUNT(&both) == 0 || pthread_setaffinity_np(pthread_self(), sizeof(both), &both))
        return false;
    *before_out = before;
    return true;
}

bool near_cpus_bind(int node, cpu_set_t *before_out)
{
    cpu_set_t near;
    return node_cpus(node, &near) && near_cpus_bind_to(&near, before_out);
}

void near_cpus_restore(const cpu_set_t *before)
{
    pthread_setaffinity_np(pthread_self(), sizeof(*before), before);
}
