/* Watching calls that may never return. Callers are any threads; the watchdog's thread sleeps
 * until the earliest call is due. */
#include "sync/cuda/watchdog.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "stage/clock.h"
#include "stage/log.h"
#include "stage/stop.h"
#include "stage/text/output.h"
#include "stage/thread.h"

#define NS_PER_MS 1000000u
#define LAST_WORDS_MS 1000u

struct call {
    uint64_t due_ns;            /* 0: there is none */
    uint32_t limit_ms;
    const char *where, *what;
};

struct watchdog {
    struct thread *thread;
    pthread_mutex_t lock;       /* of what follows */
    pthread_cond_t changed;
    bool closing;
    uint32_t count;
    struct call *calls;
};

/* The call that is due first, NULL when there is none. Lock held. */
static const struct call *first_due(const struct watchdog *watchdog)
{
    const struct call *first = NULL;
    for (uint32_t i = 0; i < watchdog->count; i++) {
        const struct call *const call = &watchdog->calls[i];
        if (call->due_ns != 0 && (first == NULL || call->due_ns < first->due_ns))
            first = call;
    }
    return first;
}

/* Not exit: what the hanging thread holds, exit's clean-up may need. */
static _Noreturn void end_program(const struct call *call)
{
    log_message(LOG_ERROR, "%s: %s did not return within %u ms: the program ends here", call->where, call->what,
                call->limit_ms);
    output_flush(LAST_WORDS_MS);
    _exit(EXIT_CODE_STALL);
}

static void watchdog_loop(void *arg)
{
    struct watchdog *const watchdog = arg;
    pthread_mutex_lock(&watchdog->lock);
    while (!watchdog->closing) {
        const struct call *const call = first_due(watchdog);
        if (call == NULL) {
            pthread_cond_wait(&watchdog->changed, &watchdog->lock);
            continue;
        }
        if (clock_now_ns() >= call->due_ns)
            end_program(call);
        const struct timespec due = { .tv_sec = (time_t)(call->due_ns / 1000000000u),
                                     .tv_nsec = (long)(call->due_ns % 1000000000u) };
        pthread_cond_timedwait(&watchdog->changed, &watchdog->lock, &due);
    }
    pthread_mutex_unlock(&watchdog->lock);
}

static void release(struct watchdog *watchdog)
{
    pthread_cond_destroy(&watchdog->changed);
    pthread_mutex_destroy(&watchdog->lock);
    free(watchdog->calls);
    free(watchdog);
}

int watchdog_open(struct watchdog **watchdog_out, uint32_t count)
{
    struct watchdog *const watchdog = calloc(1, sizeof(*watchdog));
    if (watchdog == NULL)
        return -ENOMEM;
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_mutex_init(&watchdog->lock, NULL);
    pthread_cond_init(&watchdog->changed, &clock);
    pthread_condattr_destroy(&clock);
    watchdog->count = count;
    watchdog->calls = calloc(count, sizeof(*watchdog->calls));
    const int rc = watchdog->calls == NULL ? -ENOMEM
                                           : thread_start(&watchdog->thread, "watchdog", watchdog_loop, watchdog);
    if (rc != 0) {
        release(watchdog);
        return rc;
    }
    *watchdog_out = watchdog;
    return 0;
}

void watchdog_close(struct watchdog *watchdog)
{
    if (watchdog == NULL)
        return;
    pthread_mutex_lock(&watchdog->lock);
    watchdog->closing = true;
    pthread_cond_signal(&watchdog->changed);
    pthread_mutex_unlock(&watchdog->lock);
    thread_join(watchdog->thread);
    release(watchdog);
}

static void set_call(struct watchdog *watchdog, uint32_t index, const struct call *call)
{
    pthread_mutex_lock(&watchdog->lock);
    watchdog->calls[index] = *call;
    pthread_cond_signal(&watchdog->changed);
    pthread_mutex_unlock(&watchdog->lock);
}

void watchdog_begin(struct watchdog *watchdog, uint32_t index, uint32_t limit_ms, const char *where,
                    const char *what)
{
    const uint64_t due_ns = clock_now_ns() + (uint64_t)limit_ms * NS_PER_MS;
    set_call(watchdog, index, &(struct call){ .due_ns = due_ns, .limit_ms = limit_ms, .where = where, .what = what });
}

void watchdog_end(struct watchdog *watchdog, uint32_t index)
{
    set_call(watchdog, index, &(struct call){ .due_ns = 0 });
}
