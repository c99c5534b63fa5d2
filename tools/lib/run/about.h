/* What is printed about a run besides its plan and result: the settings that were changed, devices and libraries at the
 * start; files, next steps and the result of --overfit at the end. Devices and libraries are also written to the
 * summary. From main's thread. */
#ifndef PIPETRAIN_ABOUT_H
#define PIPETRAIN_ABOUT_H

#include <stdbool.h>
#include <stdio.h>

#include "formats/json.h"
#include "sync/ranks/ranks.h"
#include "tools/lib/run/run_plan.h"
#include "tools/lib/run/stop_rule.h"

/* The line "settings": the seed and what the user set to another value than the default, so that every output says how
 * it was produced. */
void about_settings(const struct settings *settings, FILE *out);
/* The lines "device" and "libraries", of at most 80 columns. `reads`: the run reads shards. Devices that cannot be
 * described are left out: --check may name some that are not there. */
void about_print(const struct run_devices *plan, bool reads, FILE *out);
/* The line "ranks": how many on which hosts, by which MPI library, and what each of them reads. Nothing for NULL. Rank 0
 * only. */
void about_ranks(const struct ranks *ranks, const struct run_plan *plan, const struct settings *settings, FILE *out);
/* "devices": [{"name", "memory_bytes"}] and "libraries": {NAME: VERSION}. */
void about_write(const struct run_devices *plan, bool reads, struct json *json);

/* A run that is over, or was ended early. */
struct about_end {
    const char *directory;      /* NULL: it wrote nothing */
    const struct settings *settings;
    const struct run_plan *plan;
    bool saves_states, saved_best;
    uint64_t steps;             /* that are done */
};
/* The line "files": what the run wrote; nothing after a run without a step. */
void about_files(const struct about_end *end, FILE *out);
/* The line "next": a command to try; after an early end, how to resume. */
void about_next(const struct about_end *end, bool ended_early, FILE *out);

/* The lines "overfit": whether the network has memorised the samples (--overfit=N), and if not, what the cause may be.
 * EXIT_CODE_OK or EXIT_CODE_UNLEARNT. */
int about_overfit(const struct stop_rule *rule, const struct settings *settings, const struct net *net, FILE *out);

#endif
