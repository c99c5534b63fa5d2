/* /proc/stat, whose first line sums over processors. */
#include "tools/limits/idle.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

double idle_ticks(const char *text)
{
    unsigned long long idle, waits_for_disk;
    if (sscanf(text, "cpu %*u %*u %*u %llu %llu", &idle, &waits_for_disk) != 2)
        return NAN;
    return (double)idle + (double)waits_for_disk;
}

double idle_seconds(void)
{
    char line[256] = "";
    FILE *const file = fopen("/proc/stat", "re");
    if (file == NULL)
        return NAN;
    if (fgets(line, sizeof(line), file) == NULL)
        *line = '\0';
    fclose(file);
    return idle_ticks(line) / (double)sysconf(_SC_CLK_TCK);
}
