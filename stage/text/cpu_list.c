/* Reading and writing of the kernel's lists of CPUs. */
#include "stage/text/cpu_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "7" or "4-7" at *text, which moves behind it. */
static bool parse_range(const char **text, unsigned long *first_out, unsigned long *last_out)
{
    char *end;
    *first_out = *last_out = strtoul(*text, &end, 10);
    if (end == *text)
        return false;
    if (*end == '-') {
        const char *second = end + 1;
        *last_out = strtoul(second, &end, 10);
        if (end == second)
            return false;
    }
    *text = end;
    return *first_out <= *last_out && *last_out < CPU_SETSIZE;
}

bool cpu_list_parse(const char *list, cpu_set_t *cpus_out)
{
    unsigned long first, last;
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    do {
        if (!parse_range(&list, &first, &last))
            return false;
        for (unsigned long cpu = first; cpu <= last; cpu++)
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
