/* Which of cuDNN's engines run a graph: the proposals of its heuristics, without those that break the rules. While
 * plans are made, from the tower's thread. */
#ifndef PIPETRAIN_CUDNN_ENGINE_H
#define PIPETRAIN_CUDNN_ENGINE_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compute/cuda/cudnn_graph.h"
#include "compute/cuda/plan_timing.h"

/* Where a plan is made, and its requirements beyond reproducible results and fp32 sums. */
struct engine_rules {
    const char *name;           /* for messages; lent */
    cudnnHandle_t handle;       /* NULL: for a device that is only described by `properties` */
    cudnnBackendDescriptor_t properties;
    bool exact;                 /* inputs must not be rounded: no tensor cores for fp32 */
    size_t workspace_max;
    const int64_t *failed;      /* an engine that failed to run and is excluded; NULL: none */
    bool no_generic;            /* cuDNN's generic engine, which is slow, is excluded */
    size_t copy_bytes;          /* a workspace this large can hold all values of a step in another layout */
};

struct engine_plan {
    cudnnBackendDescriptor_t plan;      /* owned; of type EXECUTION_PLAN */
    int64_t engine;             /* cuDNN's index of the engine */
    size_t workspace;
    size_t others_workspace;    /* of the generic engine: the least that another one asks for, more than workspace_max; 0:
                                 * there is none, or the plan was loaded */
    bool is_unloaded;           /* without a handle: the engine's kernels were compiled, and the driver, which may be
                                 * CUDA's stub, could not load them; the workspace is not known: 0 */
};

#define ENGINE_PLANS_MAX PLAN_CANDIDATES_MAX
#define ENGINE_PLANS_PER_ENGINE 2u  /* most plans of one engine, with different knobs, when several plans are wanted:
                                     * more would hardly differ */

/* Write a text that identifies the library and the device, because a plan is only valid for them. 0 or a negative
 * errno. */
int engine_place(const struct engine_rules *rules, char *text, size_t text_size);

/* Finds the best `wanted` (1 to ENGINE_PLANS_MAX) plans for the graph, best first, and sets *found_out. If one is
 * wanted, engines that copy come after those that do not, then those compiled at run time, then the slow generic
 * one. If several are wanted, for measuring, they keep cuDNN's order, with at most one of the last two kinds.
 * -ENOTSUP with the reasons in *refusal (not logged) when there is none; or another negative errno. */
int engine_find(const struct cudnn_graph *graph, const struct engine_rules *rules, uint32_t wanted,
                struct engine_plan *found, uint32_t *found_out, struct cudnn_refusal *refusal);
void engine_plan_close(struct engine_plan *plan);       /* NULL members: nothing */

/* cuDNN's serialised form of a plan, `bytes` long, freed by the caller; and back. -ENOTSUP (not logged) when cuDNN
 * cannot serialise the plan, or rejects the text. */
int engine_plan_save(const struct engine_plan *plan, const char *name, char **text_out, size_t *bytes_out);
int engine_plan_load(struct engine_plan *plan_out, const struct engine_rules *rules, const char *text, size_t bytes);

/* Measures plans on the device (plan_timing.h). `pack` binds memory that may be overwritten and a large enough
 * workspace; `stream` is the handle's. 0, -ENOTSUP when none runs (reason in *refusal), or another negative errno. */
int engine_fastest(const struct engine_plan *plans, uint32_t count, const struct engine_rules *rules,
                  cudnnBackendDescriptor_t pack, cudaStream_t stream, uint32_t *best_out,
                  struct cudnn_refusal *refusal);

#endif
