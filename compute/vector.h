/* Vectorised loops in plain C of GCC and Clang: VECTOR_LOOPS for functions that the compiler vectorises by itself,
 * lanes of eight floats for the loops that it does not.
 *
 * One machine always computes the same bits; another one may differ in the last bit. */
#ifndef PIPETRAIN_VECTOR_H
#define PIPETRAIN_VECTOR_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* In front of a function: its plain loops over arrays are vectorised at any optimisation level, for the widest
 * vector units of the machine where the compiler can choose at load time. sqrtf becomes one instruction and does not
 * set errno. */
#if defined(__clang__) || !defined(__GNUC__)
#define VECTOR_OPTIMIZE
#else
#define VECTOR_OPTIMIZE __attribute__((optimize("O3", "no-math-errno", "no-trapping-math")))
#endif

/* The choice at load time runs before the address and thread sanitizers are ready. */
#if !defined(__clang__) && defined(__GNUC__) && defined(__x86_64__) && defined(__GLIBC__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define VECTOR_LOOPS VECTOR_OPTIMIZE __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define VECTOR_LOOPS VECTOR_OPTIMIZE
#endif

/* The same for sums of products, with fused multiply-adds, for vectors of LANES floats; and for vectors of LANES_WIDE
 * floats, only to be called where vector_is_wide. */
#if !defined(__clang__) && defined(__GNUC__) && defined(__x86_64__) && defined(__GLIBC__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define VECTOR_PRODUCTS \
    __attribute__((optimize("O3", "fp-contract=fast"), target_clones("fma", "default")))
#define VECTOR_PRODUCTS_WIDE __attribute__((optimize("O3", "fp-contract=fast"), target("avx512f")))
static inline bool vector_is_wide(void)
{
    return __builtin_cpu_supports("avx512f");
}
#else
#define VECTOR_PRODUCTS VECTOR_OPTIMIZE
#define VECTOR_PRODUCTS_WIDE VECTOR_OPTIMIZE
static inline bool vector_is_wide(void)
{
    return false;
}
#endif

/* VECTOR_LOOPS with fused multiply-adds, also of LANES floats with 8 lanes of integers. */
#if !defined(__clang__) && defined(__GNUC__) && __GNUC__ >= 12 && defined(__x86_64__) && defined(__GLIBC__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define VECTOR_POLYNOMIALS \
    __attribute__((optimize("O3", "no-math-errno", "no-trapping-math", "fp-contract=fast"), \
                   target_clones("avx512f", "arch=x86-64-v3", "default")))
#else
#define VECTOR_POLYNOMIALS VECTOR_LOOPS
#endif

/* In front of a loop: no iteration reads what another one writes, although the pointers may be equal. */
#ifdef __clang__
#define INDEPENDENT_ITERATIONS _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT_ITERATIONS _Pragma("GCC ivdep")
#endif

/* ---- lanes: correct on any machine, and fast inside a function with VECTOR_LOOPS ---- */

#define LANES 8u
#define LANES_WIDE 16u

typedef float lanes __attribute__((vector_size(32)));
typedef float lanes_wide __attribute__((vector_size(64)));
typedef int32_t lane_bits __attribute__((vector_size(32)));
typedef uint32_t lane_words __attribute__((vector_size(32)));
typedef uint16_t lane_shorts __attribute__((vector_size(16)));
typedef uint8_t lane_bytes __attribute__((vector_size(8)));

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* The first `count` <= LANES items, the others 0; count is a constant where speed matters. */
#define LANES_LOAD(to, from, count) \
    do { \
        if ((count) < LANES) \
            memset(&(to), 0, sizeof(to)); \
        memcpy(&(to), (from), (count) * sizeof(*(from))); \
    } while (0)
#define LANES_STORE(to, value, count) memcpy((to), &(value), (count) * sizeof(*(to)))

/* a where the bits are set, else b. */
#define LANES_SELECT(bits, a, b) \
    ((__typeof__(a))(((bits) & (lane_bits)(a)) | (~(bits) & (lane_bits)(b))))

#endif
