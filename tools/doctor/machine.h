/* What --doctor examines, and reading of files in /proc and /sys. Main thread only. */
#ifndef PIPETRAIN_MACHINE_H
#define PIPETRAIN_MACHINE_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include "tools/lib/config/settings.h"
#include "tools/lib/run/run_devices.h"

struct machine {
    const char *root;           /* the parent folder of /proc and /sys: "" except in tests */
    cpu_set_t cpus;             /* that this process may use */
    uint32_t gpus;              /* that a run can use */
    const struct settings *settings;    /* of the run, finished; NULL: only the machine is examined */
    const struct run_devices *plan;     /* of that run; NULL: without settings, or it cannot be made */
};

/* The first line of ROOT/PATH without its newline; false without such a file. */
bool machine_line(const struct machine *machine, char *line, size_t line_size, const char *path, ...)
    __attribute__((format(printf, 4, 5)));
/* The number at the beginning of the first line. */
bool machine_number(const struct machine *machine, uint64_t *number_out, const char *path, ...)
    __attribute__((format(printf, 3, 4)));
/* The value of the first line "KEY: VALUE". */
bool machine_row_number(const struct machine *machine, const char *path, const char *key, uint64_t *number_out);
bool machine_row(const struct machine *machine, const char *path, const char *key, char *text, size_t text_size);
/* The first line as a list of CPUs or NUMA nodes. */
bool machine_list(const struct machine *machine, cpu_set_t *set_out, const char *path, ...)
    __attribute__((format(printf, 3, 4)));

#endif
