/* The machine and the run that --doctor examines, and functions that read files in /proc and /sys. Main thread only. */
#ifndef PIPETRAIN_MACHINE_H
#define PIPETRAIN_MACHINE_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include "tools/lib/config/settings.h"
#include "tools/lib/run/run_devices.h"

struct machine {
    const char *root;           /* parent folder of /proc and /sys: "" except in tests */
    cpu_set_t cpus;             /* CPUs that this process may use */
    uint32_t gpus;              /* number of GPUs that a run can use */
    const struct settings *settings;    /* complete settings of the run; NULL: only the machine is examined */
    /* devices of that run; NULL: no run is examined, or its devices cannot be planned */
    const struct run_devices *plan;
};

/* Reads the first line of ROOT/PATH without its newline; false if there is no such file. */
bool machine_line(const struct machine *machine, char *line, size_t line_size, const char *path, ...)
    __attribute__((format(printf, 4, 5)));
/* Reads the number at the beginning of the first line. */
bool machine_number(const struct machine *machine, uint64_t *number_out, const char *path, ...)
    __attribute__((format(printf, 3, 4)));
/* Reads the number in the first line "KEY: VALUE" with this key. */
bool machine_row_number(const struct machine *machine, const char *path, const char *key, uint64_t *number_out);
bool machine_row(const struct machine *machine, const char *path, const char *key, char *text, size_t text_size);
/* Reads the first line as a list of CPUs or NUMA nodes. */
bool machine_list(const struct machine *machine, cpu_set_t *set_out, const char *path, ...)
    __attribute__((format(printf, 3, 4)));

#endif
