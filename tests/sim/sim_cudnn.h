/* cuDNN's graph API on the CPU, as far as convolutions need it: forward with bias and ReLU,
 * data gradient, weight gradient; FLOAT, HALF and BFLOAT16 data, sums in FLOAT, any strides.
 *
 * It offers engines of which some must not be taken: one rounds FLOAT inputs to tf32, one
 * gives other numbers in every run, one adds up coarsely, one asks for a huge workspace, one
 * cannot be planned - each says so in its notes, its workspace or when its plan is finalised,
 * and its numbers show when it was taken. Workspaces are overwritten as a whole. */
#ifndef PIPETRAIN_SIM_CUDNN_H
#define PIPETRAIN_SIM_CUDNN_H

#include <stdint.h>

/* What is "not supported". The environment's SIM_CUDNN_NO_FUSION=1 says FUSION, =2
 * FUSION_ENGINES. */
enum sim_cudnn_refusal {
    SIM_CUDNN_FUSION = 1,               /* heuristics refuse a convolution with bias */
    SIM_CUDNN_FUSION_ENGINES = 2,       /* heuristics succeed and find nothing for it */
    SIM_CUDNN_HEURISTICS = 4,           /* mode A proposes only engines that must not be taken */
    SIM_CUDNN_ENGINES = 8,              /* no engine for anything */
};
void sim_cudnn_refuse(unsigned refusals);

/* Numbers of the engines. */
enum sim_cudnn_engine {
    SIM_ENGINE_PLAIN = 0,       /* FALLBACK: exact, no workspace */
    SIM_ENGINE_VARYING = 11,    /* note NONDETERMINISTIC */
    SIM_ENGINE_TENSOR = 12,     /* note TENSOR_CORE; for FLOAT also DOWN_CONVERT_INPUTS: tf32 */
    SIM_ENGINE_UNPLANNED = 13,  /* its plans are NOT_SUPPORTED */
    SIM_ENGINE_LARGE = 14,      /* exact, 1 GiB of workspace */
    SIM_ENGINE_COARSE = 15,     /* note REDUCED_PRECISION_REDUCTION */
    SIM_ENGINE_COMPILED = 16,   /* exact, note RUNTIME_COMPILATION */
    SIM_ENGINE_TILED = 17,      /* exact, an odd number of bytes of workspace */
    SIM_ENGINE_REVERSED = 18,   /* exact, sums in another order */
};

/* Descriptors and handles that are not destroyed yet. */
uint32_t sim_cudnn_live(void);

#endif
