/* Prints lines about a run that are not part of its plan or result: the settings that were changed, devices and
 * libraries at the start; files, next steps and the result of --overfit at the end. Devices and libraries are also
 * written to the summary. From main's thread. */
#ifndef PIPETRAIN_ABOUT_H
#define PIPETRAIN_ABOUT_H

#include <stdbool.h>
#include <stdio.h>

#include "formats/json.h"
#include "sync/ranks/ranks.h"
#include "tools/lib/run/run_plan.h"
#include "tools/lib/run/stop_rule.h"

/* The line "settings": the seed and the settings that differ from the defaults, so that every output contains how it
 * was produced. */
void about_settings(const struct settings *settings, FILE *out);
/* The lines "device" and "libraries", of at most 80 columns. `reads`: the run reads shards. Devices that cannot be
 * described are left out: with --check the settings may name devices that this machine lacks. */
void about_print(const struct run_devices *plan, bool reads, FILE *out);
/* The number of hosts on which ranks are; 1 without a launcher. Rank 0 only. */
uint32_t about_host_count(const struct ranks *ranks);
/* The line "ranks": their number on each host, the MPI library, and the input that each rank reads of the training
 * set. Prints nothing if `ranks` is NULL. Rank 0 only. */
void about_ranks(const struct ranks *ranks, const struct run_plan *plan, const struct settings *settings,
                 const struct dataset *const datasets[PHASE_COUNT], FILE *out);
/* Write "devices": [{"name", "memory_bytes"}] and "libraries": {NAME: VERSION}. */
void about_write(const struct run_devices *plan, bool reads, struct json *json);

/* A run that has ended, completely or early. */
struct about_end {
    const char *directory;      /* NULL: nothing was written */
    const struct settings *settings;
    const struct run_plan *plan;
    bool saves_states, saved_best;
    uint64_t steps;             /* completed training steps */
};
/* The line "files": what the run has written. Prints nothing after a run without a step. */
void about_files(const struct about_end *end, FILE *out);
/* The line "next": a command to try; after an early end, how to resume. */
void about_next(const struct about_end *end, bool ended_early, FILE *out);

/* The lines "overfit": whether the network has memorised the samples (--overfit=N), and if not, what the cause may be.
 * EXIT_CODE_OK or EXIT_CODE_UNLEARNT. */
int about_overfit(const struct stop_rule *rule, const struct settings *settings, const struct net *net, FILE *out);

#endif
