/* The current activity of a thread on a device, for the watchdog (watchdog.h), which ends a run when a device call or
 * wait does not return. Every thread that drives a device has its own heartbeat and marks the begin and end of every
 * call of the device's libraries and of every wait for the device. A tower on a CPU marks each layer that it computes,
 * and its updates. Outside of marks nothing is watched: waits for input, for main or for other towers may take any
 * time.
 *
 * A mark costs a few stores to the heartbeat: no lock, no allocation. In a thread without a heartbeat it does
 * nothing. */
#ifndef PIPETRAIN_HEARTBEAT_H
#define PIPETRAIN_HEARTBEAT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HEARTBEAT_NO_NUMBER UINT64_MAX

/* Written by its thread and read by the watchdog. All texts are string literals. */
struct heartbeat {
    atomic_uint_fast64_t beats;         /* incremented whenever the thread makes progress */
    _Atomic(const char *) guarded;      /* the outermost mark; NULL: outside of marks */
    _Atomic(const char *) call;         /* a mark inside the outermost one; NULL: none */
    _Atomic(const char *) phase;        /* "step", "planning" */
    atomic_uint_fast64_t number;        /* step or batch number; HEARTBEAT_NO_NUMBER: the phase has none */
    atomic_uint_fast64_t least_ms;      /* time that the outermost mark may always take */
    uint32_t depth;                     /* number of nested marks; used only by the thread */
    uint32_t factor;                    /* a mark may take `factor` times as long as the longest one so far; 0: only the
                                         * deadline counts. Set before the thread adopts the heartbeat */
    bool ignores_waits;                 /* only calls are watched, not waits, because the device may wait for other
                                         * towers' input; set before the thread adopts the heartbeat */
    char name[79];                      /* "tower 1 (cuda0)"; constant */
};

extern _Thread_local struct heartbeat *heartbeat_own;

/* A device has unfinished work for which no thread waits any more. The libraries' clean-up at exit may wait for it and
 * hang. */
extern atomic_bool heartbeat_abandoned_work;

/* Set the calling thread's heartbeat; NULL: none. Not to be called inside marks. Returns the previous one. */
struct heartbeat *heartbeat_adopt(struct heartbeat *heartbeat);

/* Set the thread's current work, for messages: the phase, a string literal, and the number of the step or batch. */
static inline void heartbeat_at(const char *phase, uint64_t number)
{
    struct heartbeat *const own = heartbeat_own;
    if (own == NULL)
        return;
    atomic_store_explicit(&own->phase, phase, memory_order_relaxed);
    atomic_store_explicit(&own->number, number, memory_order_relaxed);
}

/* Report progress inside a mark, or that the current wait is not a stall of the device. */
static inline void heartbeat_beat(void)
{
    struct heartbeat *const own = heartbeat_own;
    if (own == NULL)
        return;
    const uint64_t beats = atomic_load_explicit(&own->beats, memory_order_relaxed);
    atomic_store_explicit(&own->beats, beats + 1, memory_order_release);
}

/* The thread calls `what`, a string literal: a function's name, with or without its arguments. Marks may be nested;
 * only begin and end of the outermost one count as progress. */
static inline void heartbeat_begin(const char *what)
{
    struct heartbeat *const own = heartbeat_own;
    if (own == NULL)
        return;
    if (own->depth++ > 0) {
        atomic_store_explicit(&own->call, what, memory_order_relaxed);
        return;
    }
    atomic_store_explicit(&own->guarded, what, memory_order_relaxed);
    heartbeat_beat();
}

static inline void heartbeat_end(void)
{
    struct heartbeat *const own = heartbeat_own;
    if (own == NULL)
        return;
    atomic_store_explicit(&own->call, NULL, memory_order_relaxed);
    if (--own->depth > 0)
        return;
    atomic_store_explicit(&own->guarded, NULL, memory_order_relaxed);
    heartbeat_beat();
}

/* The thread itself computes `part` of its work `what` and may always take least_ms. The texts stay valid until the end
 * of the run. */
static inline void heartbeat_begin_work(const char *what, const char *part, uint64_t least_ms)
{
    if (heartbeat_own == NULL)
        return;
    atomic_store_explicit(&heartbeat_own->least_ms, least_ms, memory_order_relaxed);
    heartbeat_begin(what);
    atomic_store_explicit(&heartbeat_own->call, part, memory_order_relaxed);
}

/* heartbeat_begin for a loop that polls the device. */
static inline void heartbeat_begin_wait(const char *what)
{
    if (heartbeat_own != NULL && !heartbeat_own->ignores_waits)
        heartbeat_begin(what);
}

static inline void heartbeat_end_wait(void)
{
    if (heartbeat_own != NULL && !heartbeat_own->ignores_waits)
        heartbeat_end();
}

static inline int heartbeat_ended(int status)
{
    heartbeat_end();
    return status;
}

/* Evaluate the expression `call`, marked as `what`, and return its status. */
#define HEARTBEAT_CALL(what, call) (heartbeat_begin(what), heartbeat_ended((int)(call)))

#endif
