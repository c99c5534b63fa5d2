/* Which of cuDNN's engines run a graph: the heuristics' proposals, less those that do not
 * keep the rules. While plans are made, from the tower's thread. */
#ifndef PIPETRAIN_CUDNN_ENGINE_H
#define PIPETRAIN_CUDNN_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compute/cuda/cudnn/cudnn_graph.h"

/* Where a plan is made, and what is asked of it besides the same bits in every run and sums
 * that are not rounded on the way. */
struct engine_rules {
    const char *name;           /* for messages; lent */
    cudnnHandle_t handle;       /* NULL: no device, but one described by `properties` */
    cudnnBackendDescriptor_t properties;
    bool exact;                 /* inputs are not rounded: no tensor cores for fp32 */
    size_t workspace_max;
    const int64_t *failed;      /* an engine that does not run, which is left out; NULL: none */
    size_t copy_bytes;          /* a workspace of so many holds all of a step's values in another layout */
};

struct engine_plan {
    cudnnBackendDescriptor_t plan;      /* owned; of type EXECUTION_PLAN */
    int64_t engine;             /* cuDNN's number */
    size_t workspace;
};

#define ENGINE_PLANS_MAX 8u
#define ENGINE_PLANS_OF_ONE 2u  /* of the same engine, with other knobs, where several plans are wanted */

/* The text that names library and device, for a plan that is only good there: 0 or a
 * negative errno. */
int engine_place(const struct engine_rules *rules, char *text, size_t text_size);

/* The best `wanted` (1 to ENGINE_PLANS_MAX) plans for the graph, best first; *found_out of them. Where one is
 * wanted, engines that copy come after those that do not, then those that are compiled at run time, and the ones that
 * take any graph, slowly, last. Where several are, for measuring them, they come as cuDNN proposes them, and of the
 * last two kinds there is one at most. -ENOTSUP with the reasons in *refusal, not logged, when there is none; or
 * another negative errno. */
int engine_find(const struct cudnn_graph *graph, const struct engine_rules *rules, uint32_t wanted,
                struct engine_plan *found, uint32_t *found_out, struct cudnn_refusal *refusal);
void engine_plan_close(struct engine_plan *plan);       /* NULL members: nothing */

/* cuDNN's own text of a plan, `bytes` of it, to be freed by the caller; and back. -ENOTSUP,
 * not logged, when this cuDNN has no text for the plan, or does not take it. */
int engine_plan_save(const struct engine_plan *plan, const char *name, char **text_out, size_t *bytes_out);
int engine_plan_load(struct engine_plan *plan_out, const struct engine_rules *rules, const char *text, size_t bytes);

#endif
