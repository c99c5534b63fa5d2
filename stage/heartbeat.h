/* What a thread does on a device just now, for the watchdog (watchdog.h), which ends a run when a call does not
 * return or a wait does not end. A thread that drives a device has a heartbeat of its own and marks every call of the
 * device's libraries, and every wait for the device, from begin to end. Between marks nothing is watched: computing on
 * the CPU, and waiting for input, for main or for other towers, may take any time. So towers on a CPU, which call no
 * such library, are never watched.
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

/* Written by its thread, read by the watchdog. All texts are literals. */
struct heartbeat {
    atomic_uint_fast64_t beats;         /* raised whenever the thread makes progress */
    _Atomic(const char *) guarded;      /* the outermost mark; NULL: nothing is watched */
    _Atomic(const char *) call;         /* a mark within it; NULL: none */
    _Atomic(const char *) phase;        /* "step", "planning" */
    atomic_uint_fast64_t number;        /* of the step or batch, HEARTBEAT_NO_NUMBER: the phase has none */
    uint32_t depth;                     /* of marks; the thread's own */
    bool ignores_waits;                 /* calls are watched, waits are not, as where the device may wait for other
                                         * towers' input: set before the thread adopts it */
    char name[79];                      /* "tower 1 (cuda0)"; constant */
};

extern _Thread_local struct heartbeat *heartbeat_own;

/* A device has work that does not end and that nobody waits for any more, but the libraries' clean-up may. */
extern atomic_bool heartbeat_abandoned_work;

/* The calling thread has this heartbeat from here on, NULL: none. Not between marks. Returns the one it had. */
struct heartbeat *heartbeat_adopt(struct heartbeat *heartbeat);

/* Say what the thread works on, for messages: the phase, a string literal, and the number of the step or batch. */
static inline void heartbeat_at(const char *phase, uint64_t number)
{
    struct heartbeat *const own = heartbeat_own;
    if (own == NULL)
        return;
    atomic_store_explicit(&own->phase, phase, memory_order_relaxed);
    atomic_store_explicit(&own->number, number, memory_order_relaxed);
}

/* Progress within a mark; or what the thread waits for is no stall of its device. */
static inline void heartbeat_beat(void)
{
    struct heartbeat *const own = heartbeat_own;
    if (own == NULL)
        return;
    const uint64_t beats = atomic_load_explicit(&own->beats, memory_order_relaxed);
    atomic_store_explicit(&own->beats, beats + 1, memory_order_release);
}

/* The thread calls `what`, a literal: a function's name, with or without its arguments. Marks may be nested: then only
 * the outermost counts as progress. */
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

/* The same around a loop that asks the device until something has happened. */
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

/* The status of `call`, an expression, marked as `what`. */
#define HEARTBEAT_CALL(what, call) (heartbeat_begin(what), heartbeat_ended((int)(call)))

#endif
