/* What a run stands on: its settings, its devices and the libraries it uses, in words for people and as
 * members of the summary. From main's thread. */
#ifndef PIPETRAIN_ABOUT_H
#define PIPETRAIN_ABOUT_H

#include <stdbool.h>
#include <stdio.h>

#include "formats/json.h"
#include "tools/run/run_plan.h"

/* The seed, and what was set by hand to something that would not have been without: every output tells how it
 * came about. On lines that fit a terminal where the values do; nothing without memory for it. */
void about_settings(const struct settings *settings, FILE *out);
/* Lines of at most 80 columns. `reads`: the run reads shards. Devices that cannot be asked are
 * left out: a check may name some that are not there. */
void about_print(const struct device_plan *plan, bool reads, FILE *out);
/* "devices": [{"name", "memory_bytes"}], one a device, and "libraries": {NAME: VERSION}. */
void about_write(const struct device_plan *plan, bool reads, struct json *json);

/* A run that is over, or was ended early. */
struct about_end {
    const char *directory;      /* NULL: it wrote nothing */
    const struct settings *settings;
    const struct run_plan *plan;
    bool saves_states, saved_best;
    uint64_t steps;             /* that are done */
};
/* The files it left: nothing of a run that did no step. */
void about_files(const struct about_end *end, FILE *out);
/* A command to try next; of one that ended early only how it goes on. */
void about_next(const struct about_end *end, bool ended_early, FILE *out);

#endif
