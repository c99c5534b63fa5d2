/* What --doctor looks at, and reading of the files in which the kernel tells of the machine. Used by main only. */
#ifndef PIPETRAIN_MACHINE_H
#define PIPETRAIN_MACHINE_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include "tools/config/settings.h"
#include "tools/run/device_plan.h"

struct machine {
    const char *root;           /* the folder /proc and /sys are in: "" but for tests */
    cpu_set_t cpus;             /* this process may run on */
    uint64_t memlock_bytes;     /* that it may lock; UINT64_MAX: any */
    uint32_t gpus;              /* that a run can use */
    const struct settings *settings;    /* of the run that is asked about, finished; NULL: of none */
    const struct device_plan *plan;     /* of that run; NULL: none, or it cannot be made */
};

/* The first line of ROOT/PATH without its end; false where there is none. */
bool machine_line(const struct machine *machine, char *line, size_t line_size, const char *path, ...)
    __attribute__((format(printf, 4, 5)));
/* The number that the first line begins with. */
bool machine_number(const struct machine *machine, uint64_t *number_out, const char *path, ...)
    __attribute__((format(printf, 3, 4)));
/* The number, and the text, behind KEY and a colon at the beginning of a line. */
bool machine_row_number(const struct machine *machine, const char *path, const char *key, uint64_t *number_out);
bool machine_row(const struct machine *machine, const char *path, const char *key, char *text, size_t text_size);
/* The text behind KEY and a blank. */
bool machine_word_row(const struct machine *machine, const char *path, const char *key, char *text, size_t text_size);
/* The first line as a list of CPUs or nodes. */
bool machine_list(const struct machine *machine, cpu_set_t *set_out, const char *path, ...)
    __attribute__((format(printf, 3, 4)));

#endif
