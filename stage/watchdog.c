/* Polling heartbeats. The watchdog's thread locks only its own mutex, and only to sleep and to record that it has
 * failed the run. */
#include "stage/watchdog.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stage/clock.h"
#include "stage/log.h"
#include "stage/text/output.h"
#include "stage/thread.h"

#define LOOKS_LEAST 4u          /* fewest polls within a deadline */
#define PERIOD_MS 1000u         /* longest time between polls */
#define GRACE_MS 20000u         /* longest time for the process to end after a failure */
#define LAST_WORDS_MS 1000u
#define TEXT_BYTES 1024         /* size of a message */

_Thread_local struct heartbeat *heartbeat_own;
atomic_bool heartbeat_abandoned_work;

struct heartbeat *heartbeat_adopt(struct heartbeat *heartbeat)
{
    struct heartbeat *const before = heartbeat_own;
    heartbeat_own = heartbeat;
    return before;
}

/* The watchdog's state for one heartbeat. */
struct watch {
    uint64_t beats;             /* at the last poll */
    uint32_t looks;             /* polls since then, all of them in the same mark */
    uint32_t longest;           /* longest mark so far, in polls, rounded up; 0: no mark was seen by two polls */
};

struct watchdog {
    struct thread *thread;
    struct stop *stop;
    uint32_t deadline_ms, period_ms, looks_due, grace_looks;
    uint32_t count;
    struct heartbeat *heartbeats;       /* `count`, and one more for the exit of the process */
    struct watch *watches;              /* one for each heartbeat; used only by the thread */
    uint32_t looks_failed;              /* polls since the run has failed; used only by the thread */
    pthread_mutex_t lock;               /* protects the following fields */
    pthread_cond_t changed;
    bool closing, stays;                /* watchdog_close was called; the thread stays because the exit of the process
                                         * may hang */
    bool is_failing, is_exiting;        /* the thread is in stop_fail; it only waits for the process to exit */
    enum exit_code code;                /* exit code if the watchdog ends the process */
    void (*poll)(void *arg);            /* NULL: none */
    void *poll_arg;
};

/* A copy of a heartbeat's fields. */
struct snapshot {
    const char *guarded, *call, *phase;
    uint64_t beats, number, least_ms;
};

static struct snapshot heartbeat_read(const struct heartbeat *heartbeat)
{
    return (struct snapshot){
        .beats = atomic_load_explicit(&heartbeat->beats, memory_order_acquire),
        .guarded = atomic_load_explicit(&heartbeat->guarded, memory_order_relaxed),
        .call = atomic_load_explicit(&heartbeat->call, memory_order_relaxed),
        .phase = atomic_load_explicit(&heartbeat->phase, memory_order_relaxed),
        .number = atomic_load_explicit(&heartbeat->number, memory_order_relaxed),
        .least_ms = atomic_load_explicit(&heartbeat->least_ms, memory_order_relaxed),
    };
}

static void poll_heartbeats(struct watchdog *watchdog)
{
    for (uint32_t i = 0; i <= watchdog->count; i++) {
        struct watch *const watch = &watchdog->watches[i];
        const struct snapshot snapshot = heartbeat_read(&watchdog->heartbeats[i]);
        const bool is_over = snapshot.beats != watch->beats && watch->looks >= watch->longest && watch->looks > 0;
        watch->longest = is_over ? watch->looks + 1 : watch->longest;
        watch->looks = snapshot.guarded != NULL && snapshot.beats == watch->beats ? watch->looks + 1 : 0;
        watch->beats = snapshot.beats;
    }
}

/* The number of polls after which thread `i` counts as hanging; `due` is the number for any thread. */
static uint64_t looks_due(const struct watchdog *watchdog, uint32_t i, uint32_t due)
{
    const struct heartbeat *const heartbeat = &watchdog->heartbeats[i];
    const uint64_t growing = (uint64_t)heartbeat->factor * watchdog->watches[i].longest;
    const uint64_t least = heartbeat_read(heartbeat).least_ms / watchdog->period_ms;
    const uint64_t more = growing > least ? growing : least;
    return more > due ? more : due;
}

static bool is_stuck(const struct watchdog *watchdog, uint32_t i, uint32_t due)
{
    return watchdog->watches[i].looks >= looks_due(watchdog, i, due);
}

/* The heartbeat of the thread that has hung for most polls, the first one of several; NULL: no thread hangs. */
static const struct heartbeat *find_stuck(const struct watchdog *watchdog, uint32_t due)
{
    uint32_t found = UINT32_MAX;
    for (uint32_t i = 0; i <= watchdog->count; i++)
        if (is_stuck(watchdog, i, due) &&
            (found == UINT32_MAX || watchdog->watches[i].looks > watchdog->watches[found].looks))
            found = i;
    return found < UINT32_MAX ? &watchdog->heartbeats[found] : NULL;
}

/* ---- messages ---- */

/* The length of a function's name, without its arguments. */
static int name_length(const char *call)
{
    return (int)strcspn(call, "(");
}

/* Write where the thread hangs: "in step 345: waiting for its results (cudaEventQuery)". */
static void describe(const struct heartbeat *heartbeat, char *text, size_t text_size)
{
    const struct snapshot snapshot = heartbeat_read(heartbeat);
    const char *const guarded = snapshot.guarded != NULL ? snapshot.guarded : "a call that has returned";
    char where[64] = "";
    if (snapshot.phase != NULL && snapshot.number == HEARTBEAT_NO_NUMBER)
        snprintf(where, sizeof(where), " while %s", snapshot.phase);
    else if (snapshot.phase != NULL)
        snprintf(where, sizeof(where), " in %s %llu", snapshot.phase, (unsigned long long)snapshot.number);
    if (snapshot.call == NULL)
        snprintf(text, text_size, "%s: %.*s", where, name_length(guarded), guarded);
    else
        snprintf(text, text_size, "%s: %.*s (%.*s)", where, name_length(guarded), guarded, name_length(snapshot.call),
                 snapshot.call);
}

/* Add the names of other threads that hang as well: they may be waiting for the first one. */
static void add_others(const struct watchdog *watchdog, const struct heartbeat *first, char *text, size_t text_size)
{
    char other[TEXT_BYTES / 4];
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < watchdog->count && used < text_size; i++) {
        const struct heartbeat *const heartbeat = &watchdog->heartbeats[i];
        if (heartbeat == first || watchdog->watches[i].looks + 1 < looks_due(watchdog, i, watchdog->looks_due))
            continue;
        describe(heartbeat, other, sizeof(other));
        used += (size_t)snprintf(text + used, text_size - used, "; also %s%s", heartbeat->name, other);
    }
}

/* ---- failing the run ---- */

/* False if the run is being closed: then the call that hung has returned. */
static bool begin_failing(struct watchdog *watchdog)
{
    pthread_mutex_lock(&watchdog->lock);
    watchdog->is_failing = !watchdog->closing;
    pthread_mutex_unlock(&watchdog->lock);
    return watchdog->is_failing;
}

static void end_failing(struct watchdog *watchdog)
{
    pthread_mutex_lock(&watchdog->lock);
    watchdog->is_failing = false;
    watchdog->stays = stop_code(watchdog->stop) == EXIT_CODE_STALL;    /* otherwise another failure was first */
    pthread_cond_broadcast(&watchdog->changed);
    pthread_mutex_unlock(&watchdog->lock);
}

static void fail_run(struct watchdog *watchdog, const struct heartbeat *stuck)
{
    char text[TEXT_BYTES / 4], others[TEXT_BYTES];
    if (!begin_failing(watchdog))
        return;
    describe(stuck, text, sizeof(text));
    add_others(watchdog, stuck, others, sizeof(others));
    const uint32_t i = (uint32_t)(stuck - watchdog->heartbeats);
    const bool is_later = looks_due(watchdog, i, watchdog->looks_due) > watchdog->looks_due;
    const uint64_t looks = watchdog->watches[i].looks;
    stop_fail(watchdog->stop, EXIT_CODE_STALL, "%s: no progress for %g s (%s)%s%s; the run ends", stuck->name,
              (is_later ? (double)(looks * watchdog->period_ms) : watchdog->deadline_ms) / 1000.0,
              is_later ? "sync.deadline, and much longer than ever before" : "sync.deadline", text, others);
    end_failing(watchdog);
}

/* Not exit(): its clean-up may need a lock of the hanging thread. */
static _Noreturn void end_process(const struct heartbeat *stuck, enum exit_code code)
{
    char text[TEXT_BYTES / 4];
    describe(stuck, text, sizeof(text));
    log_message(LOG_ERROR, "%s still hangs%s; the process ends here", stuck->name, text);
    (void)log_release();
    output_flush(LAST_WORDS_MS);
    _exit(code);
}

/* Called after the run has failed: ends the process if a thread still hangs; others end by themselves. */
static void end_failed_run(struct watchdog *watchdog, enum exit_code code)
{
    const uint32_t due = watchdog->grace_looks;
    const struct heartbeat *const stuck = find_stuck(watchdog, due);
    watchdog->looks_failed++;
    if (stuck != NULL && watchdog->looks_failed > due)
        end_process(stuck, code);
}

static void judge(struct watchdog *watchdog)
{
    const bool has_failed = stop_failed(watchdog->stop);
    const struct heartbeat *const stuck = has_failed ? NULL : find_stuck(watchdog, watchdog->looks_due);
    if (has_failed)
        end_failed_run(watchdog, stop_code(watchdog->stop));
    else if (stuck != NULL)
        fail_run(watchdog, stuck);
}

/* ---- the thread ---- */

/* Sleep until the next poll. Called with the lock held. False if the watchdog is being closed. */
static bool await_look(struct watchdog *watchdog)
{
    const uint64_t due_ns = clock_now_ns() + (uint64_t)watchdog->period_ms * 1000000u;
    const struct timespec due = clock_timespec(due_ns);
    int rc = 0;
    while (rc == 0 && !watchdog->closing)
        rc = pthread_cond_timedwait(&watchdog->changed, &watchdog->lock, &due);
    return !watchdog->closing;
}

static bool sleep_until_look(struct watchdog *watchdog)
{
    pthread_mutex_lock(&watchdog->lock);
    const bool is_open = await_look(watchdog);
    pthread_mutex_unlock(&watchdog->lock);
    return is_open;
}

/* The run is closed, `stop` may be closed too, and the process is about to exit. */
static _Noreturn void await_exit(struct watchdog *watchdog)
{
    pthread_mutex_lock(&watchdog->lock);
    watchdog->is_exiting = true;
    pthread_cond_broadcast(&watchdog->changed);
    pthread_mutex_unlock(&watchdog->lock);
    const struct timespec period = clock_timespec((uint64_t)watchdog->period_ms * 1000000u);
    for (;;) {
        nanosleep(&period, NULL);
        poll_heartbeats(watchdog);
        end_failed_run(watchdog, watchdog->code);
    }
}

static void poll_for_caller(struct watchdog *watchdog)
{
    pthread_mutex_lock(&watchdog->lock);
    void (*const poll)(void *arg) = watchdog->closing ? NULL : watchdog->poll;
    void *const arg = watchdog->poll_arg;
    pthread_mutex_unlock(&watchdog->lock);
    if (poll != NULL)
        poll(arg);
}

static void watchdog_loop(void *arg)
{
    struct watchdog *const watchdog = arg;
    while (sleep_until_look(watchdog)) {
        poll_heartbeats(watchdog);
        judge(watchdog);
        poll_for_caller(watchdog);
    }
    if (watchdog->stays)
        await_exit(watchdog);
}

/* ---- opening and closing ---- */

static void watchdog_release(struct watchdog *watchdog)
{
    pthread_cond_destroy(&watchdog->changed);
    pthread_mutex_destroy(&watchdog->lock);
    free(watchdog->heartbeats);
    free(watchdog->watches);
    free(watchdog);
}

/* The polls in a time. At least LOOKS_LEAST, so that one or two polls after a pause of the process are too few to count
 * as a hang. */
static uint32_t looks_in(uint32_t ms, uint32_t period_ms)
{
    const uint32_t looks = (ms + period_ms - 1) / period_ms;
    return looks < LOOKS_LEAST ? LOOKS_LEAST : looks;
}

static void set_times(struct watchdog *watchdog, uint32_t deadline_ms)
{
    const uint32_t period_ms = deadline_ms / LOOKS_LEAST, grace_ms = deadline_ms < GRACE_MS ? deadline_ms : GRACE_MS;
    watchdog->deadline_ms = deadline_ms;
    watchdog->period_ms = period_ms == 0 ? 1 : period_ms < PERIOD_MS ? period_ms : PERIOD_MS;
    watchdog->looks_due = looks_in(deadline_ms, watchdog->period_ms);
    watchdog->grace_looks = looks_in(grace_ms, watchdog->period_ms);
}

int watchdog_open(struct watchdog **watchdog_out, struct stop *stop, uint32_t deadline_ms, uint32_t count)
{
    struct watchdog *const watchdog = calloc(1, sizeof(*watchdog));
    if (watchdog == NULL)
        return -ENOMEM;
    pthread_mutex_init(&watchdog->lock, NULL);
    clock_init_condition(&watchdog->changed);
    watchdog->stop = stop;
    watchdog->count = count;
    set_times(watchdog, deadline_ms);
    watchdog->heartbeats = calloc((size_t)count + 1, sizeof(*watchdog->heartbeats));
    watchdog->watches = calloc((size_t)count + 1, sizeof(*watchdog->watches));
    int rc = watchdog->heartbeats == NULL || watchdog->watches == NULL ? -ENOMEM : 0;
    if (rc == 0)
        watchdog_name(watchdog, count, "%s", "the process");
    if (rc == 0)
        rc = thread_start(&watchdog->thread, "watchdog", watchdog_loop, watchdog);
    if (rc != 0) {
        watchdog_release(watchdog);
        return rc;
    }
    *watchdog_out = watchdog;
    return 0;
}

void watchdog_set_poll(struct watchdog *watchdog, void (*poll)(void *arg), void *arg)
{
    pthread_mutex_lock(&watchdog->lock);
    watchdog->poll = poll;
    watchdog->poll_arg = arg;
    pthread_mutex_unlock(&watchdog->lock);
}

/* The libraries' clean-up at exit may hang, too. A mark without an end guards the exit of the process. */
static void guard_exit(struct watchdog *watchdog)
{
    heartbeat_adopt(&watchdog->heartbeats[watchdog->count]);
    heartbeat_begin("its end");
    heartbeat_adopt(NULL);
}

void watchdog_close(struct watchdog *watchdog)
{
    if (watchdog == NULL)
        return;
    pthread_mutex_lock(&watchdog->lock);
    while (watchdog->is_failing)
        pthread_cond_wait(&watchdog->changed, &watchdog->lock);
    watchdog->stays = watchdog->stays || (stop_failed(watchdog->stop) && atomic_load(&heartbeat_abandoned_work));
    watchdog->code = stop_code(watchdog->stop);
    const bool stays = watchdog->stays;
    if (stays)
        guard_exit(watchdog);
    watchdog->closing = true;
    pthread_cond_broadcast(&watchdog->changed);
    while (stays && !watchdog->is_exiting)
        pthread_cond_wait(&watchdog->changed, &watchdog->lock);
    pthread_mutex_unlock(&watchdog->lock);
    if (stays)
        return;
    thread_join(watchdog->thread);
    watchdog_release(watchdog);
}

struct heartbeat *watchdog_heartbeat(struct watchdog *watchdog, uint32_t index)
{
    return &watchdog->heartbeats[index];
}

struct heartbeat *watchdog_name(struct watchdog *watchdog, uint32_t index, const char *format, ...)
{
    struct heartbeat *const heartbeat = watchdog_heartbeat(watchdog, index);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(heartbeat->name, sizeof(heartbeat->name), format, arguments);
    va_end(arguments);
    return heartbeat;
}
