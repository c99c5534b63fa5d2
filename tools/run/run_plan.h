/* What the settings and the data become: every number of the run, decided before
 * anything is started, printed, and refused when it does not fit. Used by main only. */
#ifndef PIPETRAIN_RUN_PLAN_H
#define PIPETRAIN_RUN_PLAN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "compute/backend.h"
#include "compute/learning_rate.h"
#include "compute/net.h"
#include "loader/augment/augment.h"
#include "loader/loader.h"
#include "stage/batch.h"
#include "stage/schedule.h"
#include "sync/bucket.h"
#include "tools/config/settings.h"
#include "tools/run/device_plan.h"
#include "tools/run/memory_plan.h"

struct run_plan {
    struct schedule schedule;
    struct batch_layout layout;         /* of one tower's slice of a step */
    uint32_t piece_max;                 /* samples that a tower computes at once; 0: the whole slice */
    struct device_plan devices;
    uint64_t only_evaluated;            /* not 0: nothing is trained, and so many samples are evaluated once; set
                                         * before run_plan_init */
    size_t bucket_bytes;                /* of the gradients of a bucket (buckets_add) */
    uint32_t threads_per_tower;
    uint32_t read_threads, decode_threads;
    uint32_t cores;                     /* this process may run on */
    uint64_t corrupt_max;
    struct optimizer optimizer;
    struct learning_rate learning_rate;
    struct augment augment;
    struct memory_plan memory;          /* without towers, until they are planned */
};

/* Decide everything but the devices and only_evaluated, which are there already. `datasets` may hold NULLs
 * (synthetic input, no training, no validation). 0, or -EINVAL with one message per problem in `problems`. */
int run_plan_init(struct run_plan *plan, const struct settings *settings, const struct net *net,
                  const struct dataset *const datasets[PHASE_COUNT], struct problems *problems);
/* Towers compute on cores, which the loader wants, too. */
bool run_plan_uses_cores(const struct run_plan *plan);
/* What the loader is told, but for rings and stop. */
struct loader_spec run_plan_loader(const struct run_plan *plan, const struct settings *settings,
                                   const struct dataset *const datasets[PHASE_COUNT]);
/* The CPU number of the n-th core this process may run on, counted around. */
uint32_t run_plan_cpu(uint32_t n);
/* Threads of each of the process' `towers` on the CPU. */
uint32_t run_plan_threads(const struct settings *settings, uint32_t towers);
/* Threads that decode, where anything is read. */
uint32_t run_plan_decoders(const struct settings *settings);
/* How what the towers sum is cut, on a line; nothing where they sum nothing. */
void run_plan_print_buckets(const struct buckets *buckets, FILE *out);
/* Will towers compute on the CPU, each with a team of threads? May be the process' first call of a
 * device's library. Says nothing about settings that cannot work. */
bool run_plan_has_teams(const struct settings *settings);
void run_plan_print(const struct run_plan *plan, const struct settings *settings, const struct net *net,
                    const struct dataset *const datasets[PHASE_COUNT], FILE *out);
/* Look at the records of the sets that are there as --check does: 0, or an exit code after messages. */
int run_plan_check_losses(const struct run_plan *plan, const struct settings *settings,
                          const struct dataset *const *datasets, struct stop *stop);

#endif
