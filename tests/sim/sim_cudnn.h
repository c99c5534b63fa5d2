/* cuDNN's graph API on the CPU, for convolutions: forward, data gradient, weight gradient; FLOAT, HALF and BFLOAT16
 * data with any strides, sums in FLOAT. Pointwise operations (ADD, SUB, MUL, RELU_FWD, RELU_BWD) may compute the image
 * before a forward pass or a weight gradient, and follow a forward pass or a data gradient; their virtual tensors round
 * to their type. GEN_STATS may sum the result of a forward pass and its squares, as they are stored. BN_BWD_WEIGHTS may
 * sum a data gradient, with a ReLU's mask, for a normalisation, in HALF. As in the real library, fusions other than a
 * bias and a ReLU after a forward pass, and other than sums of HALF, are compiled, for 16-bit types, and for a weight
 * gradient for HALF; and nothing is computed in place.
 *
 * The program must not choose some of its engines: one rounds FLOAT inputs to tf32, one gives different results in
 * every run, one sums with few bits, one needs a huge workspace, and one cannot be planned. Each of them declares this
 * in its notes, in its workspace size or when its plan is finalised, and wrong results show when it was chosen. A run
 * overwrites the whole workspace. */
#ifndef PIPETRAIN_SIM_CUDNN_H
#define PIPETRAIN_SIM_CUDNN_H

#include <stdint.h>

/* What the simulated library does not support. */
enum sim_cudnn_refusal {
    SIM_CUDNN_FUSION = 1,               /* heuristics refuse a convolution with other operations */
    SIM_CUDNN_FUSION_ENGINES = 2,       /* heuristics succeed and find no engine for it */
    SIM_CUDNN_HEURISTICS = 4,           /* mode A proposes only engines that must not be chosen */
    SIM_CUDNN_ENGINES = 8,              /* there is no engine for any graph */
};
void sim_cudnn_refuse(unsigned refusals);


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

/* Number of descriptors and handles that are not destroyed yet. */
uint32_t sim_cudnn_live(void);

/* Number of inputs of convolutions so far that were zeros only. */
uint32_t sim_cudnn_zero_inputs(void);

#endif
