/* VECTOR_LOOPS in front of a function: its plain loops over arrays are vectorised at
 * any optimisation level, for the widest units of the machine it runs on where the
 * compiler can choose at load time. sqrtf is then one instruction (errno is not set).
 * One machine always gives the same bits; another one may differ in the last. */
#ifndef PIPETRAIN_VECTOR_H
#define PIPETRAIN_VECTOR_H

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

/* In front of a loop: what one turn writes no other turn reads, though the pointers may be equal. */
#ifdef __clang__
#define INDEPENDENT_TURNS _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT_TURNS _Pragma("GCC ivdep")
#endif

#endif
