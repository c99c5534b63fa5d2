/* Lists of CPUs, and binding threads to CPUs. */
#include "stage/cpus.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "stage/text/decimal.h"

#define LIST_BYTES 4096

/* ---- lists ---- */

/* Parse "7" or "4-7" at *text and move *text past it. */
static bool parse_range(const char **text, uint64_t *first_out, uint64_t *last_out)
{
    const char *end = decimal_u64_start(*text, first_out);
    if (end == NULL)
        return false;
    *last_out = *first_out;
    if (*end == '-')
        end = decimal_u64_start(end + 1, last_out);
    if (end == NULL)
        return false;
    *text = end;
    return *first_out <= *last_out && *last_out < CPU_SETSIZE;
}

bool cpu_list_parse(const char *list, cpu_set_t *cpus_out)
{
    uint64_t first, last;
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    do {
        if (!parse_range(&list, &first, &last))
            return false;
        for (uint64_t cpu = first; cpu <= last; cpu++)
            CPU_SET(cpu, &cpus);
    } while (*list++ == ',');
    if (list[-1] != '\n' && list[-1] != '\0')
        return false;
    *cpus_out = cpus;
    return true;
}

static int end_of_range(const cpu_set_t *cpus, int first)
{
    int last = first;
    while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, cpus))
        last++;
    return last;
}

void cpu_list_write(const cpu_set_t *cpus, char *text, size_t text_size)
{
    size_t bytes = 0;
    *text = '\0';
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, cpus))
            continue;
        char range[32];
        const int last = end_of_range(cpus, cpu);
        const char *const comma = bytes > 0 ? "," : "";
        const int length = last > cpu ? snprintf(range, sizeof(range), "%s%d-%d", comma, cpu, last)
                                      : snprintf(range, sizeof(range), "%s%d", comma, cpu);
        if (bytes + (size_t)length + sizeof("...") > text_size) {
            snprintf(text + bytes, text_size - bytes, "...");
            return;
        }
        memcpy(text + bytes, range, (size_t)length + 1);
        bytes += (size_t)length;
        cpu = last;
    }
}

/* ---- binding ---- */

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

bool cpus_bind(const cpu_set_t *near, cpu_set_t *before_out)
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

bool cpus_bind_to_node(int node, cpu_set_t *before_out)
{
    cpu_set_t near;
    return node_cpus(node, &near) && cpus_bind(&near, before_out);
}

void cpus_restore(const cpu_set_t *before)
{
    pthread_setaffinity_np(pthread_self(), sizeof(*before), before);
}
