/* The functions of cuBLASLt that the program calls, loaded when the first is needed: linking
 * the library would cost every run the relocation of its 540 MB. Any thread. */
#ifndef PIPETRAIN_CUBLASLT_API_H
#define PIPETRAIN_CUBLASLT_API_H

#include <cublasLt.h>

/* Every function once: FUNCTION(name). */
#define CUBLASLT_FUNCTIONS(FUNCTION)            \
    FUNCTION(cublasLtGetVersion)                \
    FUNCTION(cublasLtGetStatusString)           \
    FUNCTION(cublasLtCreate)                    \
    FUNCTION(cublasLtDestroy)                   \
    FUNCTION(cublasLtMatmulDescCreate)          \
    FUNCTION(cublasLtMatmulDescDestroy)         \
    FUNCTION(cublasLtMatmulDescSetAttribute)    \
    FUNCTION(cublasLtMatrixLayoutCreate)        \
    FUNCTION(cublasLtMatrixLayoutDestroy)       \
    FUNCTION(cublasLtMatmulPreferenceCreate)    \
    FUNCTION(cublasLtMatmulPreferenceDestroy)   \
    FUNCTION(cublasLtMatmulPreferenceSetAttribute)  \
    FUNCTION(cublasLtMatmulAlgoGetHeuristic)    \
    FUNCTION(cublasLtMatmulAlgoConfigGetAttribute)  \
    FUNCTION(cublasLtMatmul)

/* Members are called like the functions and have their types. */
#define CUBLASLT_MEMBER(name) __typeof__(&name) name;
struct cublaslt_api { CUBLASLT_FUNCTIONS(CUBLASLT_MEMBER) };
#undef CUBLASLT_MEMBER

/* The functions, valid until the process ends, or NULL when the library or one of them cannot
 * be found: the loader's reason is logged by the first call. */
const struct cublaslt_api *cublaslt_api_find(void);

#endif
