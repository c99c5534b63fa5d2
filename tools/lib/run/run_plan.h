/* The plan of a run: all numbers, determined from the settings and the data before anything is started, checked and
 * printed. Used by main only. */
#ifndef PIPETRAIN_RUN_PLAN_H
#define PIPETRAIN_RUN_PLAN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "compute/backend.h"
#include "compute/learning_rate.h"
#include "compute/net.h"
#include "compute/tower.h"
#include "loader/augment/augment.h"
#include "loader/loader.h"
#include "stage/batch.h"
#include "stage/schedule.h"
#include "sync/bucket.h"
#include "tools/lib/config/settings.h"
#include "tools/lib/run/memory_needs.h"
#include "tools/lib/run/parts_gain.h"
#include "tools/lib/run/run_devices.h"

struct run_plan {
    struct schedule schedule;
    struct batch_layout layout;         /* of a local batch */
    uint32_t microbatch_max;                 /* samples of a microbatch; 0: a tower computes its local batch at once */
    struct run_devices devices;
    const struct net *train_net;        /* of training images of another size than the net's; NULL: the net */
    uint64_t only_evaluated;            /* not 0: only evaluate this number of samples, once */
    bool is_fed;                        /* with only_evaluated: the caller's threads put encoded images into the ring */
    bool keeps_embedding;               /* with only_evaluated: reports have embeddings (trainer.h) */
    bool takes_any_count;               /* with is_fed: batches have any number of samples up to train.batch */
    size_t bucket_bytes;                /* of a bucket of gradients (buckets_add) */
    uint32_t threads_per_tower, threads_wanted;         /* fewer than wanted if the environment limits teams */
    uint32_t read_threads, decode_threads;
    uint32_t cores;                     /* run_plan_cores of this process */
    uint64_t corrupt_max;
    struct optimizer optimizer;
    struct learning_rate learning_rate;
    float *class_weights;               /* [classes] (class_weights.h); NULL: all 1 */
    int class_weights_exponent;         /* the weights that were read are 2^this times class_weights */
    uint64_t class_weights_hash;        /* of the weights that were read; 0 without class_weights */
    struct order_classes classes;       /* data.balance (balanced_order.h); count 0: the order is not balanced */
    struct augment augment;
    struct memory_needs memory;          /* without the needs of towers until these are planned */
};

/* Plan everything but devices, train_net, only_evaluated, is_fed, keeps_embedding and takes_any_count, which are
 * already set. `datasets` may be NULL (synthetic input, no training, no validation). 0, or -EINVAL with one message per
 * problem in `problems`. */
int run_plan_init(struct run_plan *plan, const struct settings *settings, const struct net *net,
                  const struct dataset *const datasets[PHASE_COUNT], struct problems *problems);
/* If only train.steps is set, set train.epochs to the number of epochs that these steps need. Called after the data is
 * opened and before run_plan_init. */
void run_plan_fit_epochs(struct settings *settings, const struct dataset *const datasets[PHASE_COUNT]);
/* The net that is trained: `net`, or the same for training images of another size. */
static inline const struct net *run_plan_train_net(const struct run_plan *plan, const struct net *net)
{
    return plan->train_net != NULL ? plan->train_net : net;
}
/* The parts into which the towers divide the head of the net (model.parts); 0 where they do not train. */
uint32_t run_plan_parts(const struct run_plan *plan, const struct settings *settings);
/* What they send each other in a full batch. False without parts. */
bool run_plan_parts_gain(const struct run_plan *plan, const struct settings *settings, const struct net *net,
                         struct parts_gain *gain_out);
/* Does the run have a loader? */
bool run_plan_loads(const struct run_plan *plan, const struct settings *settings);
/* Do towers compute on cores, for which the loader competes? */
bool run_plan_uses_cores(const struct run_plan *plan);
/* The spec of the loader; the caller sets rings and stop. */
struct loader_spec run_plan_loader(const struct run_plan *plan, const struct settings *settings,
                                   const struct dataset *const datasets[PHASE_COUNT]);
/* The spec of tower `tower` of the run; the caller sets net, device and compute stream. */
struct tower_spec run_plan_tower(const struct run_plan *plan, const struct settings *settings, uint32_t tower);
/* This process' share of the cores that it may run on and of the CPU time that its control group permits; at least
 * 1. */
uint32_t run_plan_cores(const struct settings *settings);
/* The CPU number of the n-th core of this process; after its last core numbering continues with the first one. */
uint32_t run_plan_cpu(const struct settings *settings, uint32_t n);
/* The number of threads of each of `towers` towers on the CPU: as configured, but no more than the environment lets
 * OpenMP start. */
uint32_t run_plan_threads_wanted(const struct settings *settings, uint32_t towers);
uint32_t run_plan_threads(const struct settings *settings, uint32_t towers);
/* The backend and its instruction set, with variables that limit it: "onednn with AVX-512". */
struct backend_text { char text[256]; };
struct backend_text run_plan_backend(const struct run_plan *plan);
/* The number of decoder threads, if anything is read. */
uint32_t run_plan_decoders(const struct settings *settings);
/* Print the line "buckets"; nothing if the towers do not reduce. */
void run_plan_print_buckets(const struct buckets *buckets, FILE *out);
/* Will towers compute on the CPU, each with a team of threads? False for invalid settings. May be the process' first
 * call of a device's library. */
bool run_plan_has_teams(const struct settings *settings);
void run_plan_print(const struct run_plan *plan, const struct settings *settings, const struct net *net,
                    const struct dataset *const datasets[PHASE_COUNT], FILE *out);
/* --check: compare the number of damaged records with data.max_corrupt. 0, or an exit code after messages. */
int run_plan_check_losses(const struct run_plan *plan, const struct settings *settings,
                          const struct dataset *const *datasets, struct stop *stop);

#endif
